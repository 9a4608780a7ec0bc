//! A folder of parts that somebody changed who knows the format, so that checksums fit. Lies that could be true are
//! believed, which docs/security.md says. What cannot be is not: no gate passes on more than there is, however an
//! amount gets to be that large.

use std::ops::ControlFlow;
use std::path::PathBuf;

use npcov::paths::Clustering;
use npcov::{BuildOptions, CoverOptions, DecisionGraph, Event, Inputs, Model, Suite};
use serde_json::Value;

use crate::reseal::{Parts, parts, range, sealed};
use crate::support::{Outcome, Project};
use crate::{succeed, write_data};

const COVER: &str = "cover g.npcov --data data.npz --name suite -o s.npcov";
const BUILD: &str = "build mlp-matlab.onnx --data data.npz --clustering kmeans --clusters 1 \
                     --restarts 1 -o b.npcov";

/// Enough inputs for three shards, and a graph in which every class has as many clusters as are planned: nothing
/// that cannot be covered makes room for what cannot be.
fn project() -> Project {
    let project = Project::new();
    write_data(&project, "data.npz", 1040);
    let build = "build mlp-matlab.onnx --data data.npz --limit 400 --clustering kmeans --clusters 1 \
                 --restarts 1 --criteria snpc,anpc,kmnc,nlc,tknp,idc:neurons=4,deepgini -o g.npcov";
    succeed(&project, build);
    project
}

/// Stops when two shards are there.
fn stop_after_two() -> impl FnMut(Event) -> ControlFlow<()> {
    let mut seen = 0;
    move |event| {
        if let Event::Finished(more) = event {
            seen += more;
        }
        match seen > 1024 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Begins what [`COVER`] says.
fn begin_cover(project: &Project) -> Vec<PathBuf> {
    let graph = DecisionGraph::open(project.path("g.npcov")).unwrap();
    let data = npcov::data::open(project.path("data.npz").to_str().unwrap()).unwrap();
    let suites = [Suite::new("suite", Inputs::from(&data))];
    let output = project.path("s.npcov");
    let options = CoverOptions::default();
    let covered = graph.cover_file(&suites, &options, None, output, &mut stop_after_two());
    assert!(covered.is_err(), "it was not stopped");
    shards(project, "s.npcov.parts/suite-0000")
}

/// Begins what [`BUILD`] says.
fn begin_build(project: &Project) -> Vec<PathBuf> {
    let model = Model::open(project.path("mlp-matlab.onnx")).unwrap();
    let data = npcov::data::open(project.path("data.npz").to_str().unwrap()).unwrap();
    let options = BuildOptions {
        clustering: Clustering::KMeans,
        restarts: 1,
        ..BuildOptions::default()
    };
    let output = project.path("b.npcov");
    let built = model.build_file(Inputs::from(&data), &options, output, &mut stop_after_two());
    assert!(built.is_err(), "it was not stopped");
    shards(project, "b.npcov.parts/paths")
}

/// The first two shards.
fn shards(project: &Project, name: &str) -> Vec<PathBuf> {
    let shards = [0, 1].map(|i| project.path(&format!("{name}-{i:06}.safetensors")));
    assert!(shards.iter().all(|shard| shard.exists()), "{shards:?}");
    shards.into()
}

fn forge(file: &PathBuf, change: impl FnOnce(&mut Parts)) {
    let mut forged = parts(&std::fs::read(file).unwrap());
    change(&mut forged);
    std::fs::write(file, sealed(&forged)).unwrap();
}

/// A tensor's bytes.
fn bytes<'a>(parts: &'a mut Parts, tensor: &str) -> &'a mut [u8] {
    let (start, end) = range(&parts.header[tensor]).unwrap_or_else(|| panic!("no `{tensor}`"));
    &mut parts.data[start..end]
}

/// Sets the first so many bits of a tensor.
fn fill(parts: &mut Parts, tensor: &str, bits: usize) {
    let bytes = bytes(parts, tensor);
    for bit in 0..bits {
        bytes[bit / 8] |= 1 << (bit % 8);
    }
}

/// Gives a tensor other content in its place: a file without holes stays one.
fn replace(parts: &mut Parts, tensor: &str, shape: &[usize], content: &[u8]) {
    let (start, end) = range(&parts.header[tensor]).unwrap_or_else(|| panic!("no `{tensor}`"));
    parts.data.splice(start..end, content.iter().copied());
    let moved = |place: usize| place + content.len() - (end - start);
    for (name, entry) in parts.header.iter_mut() {
        let Some((from, to)) = range(entry) else {
            continue;
        };
        if name == tensor {
            entry["shape"] = Value::from(shape.to_vec());
            entry["data_offsets"] = Value::from(vec![from, moved(to)]);
        } else if from >= end {
            entry["data_offsets"] = Value::from(vec![moved(from), moved(to)]);
        }
    }
}

/// The buckets of ten clusters and a layer: the first of 201 is below all that count.
const SLOTS: usize = 10 * 201;

type Change = fn(&mut Parts);

/// What cannot be, and the part that says so.
const IMPOSSIBLE: [(&str, &str, Change); 8] = [
    // As the shard was that made `check` pass with SNPC at 100.27 %.
    ("buckets that no input covers", "0.snpc", |parts| {
        fill(parts, "0.snpc.buckets", SLOTS);
    }),
    ("the same, covered by the first input", "0.snpc", |parts| {
        fill(parts, "0.snpc.buckets", SLOTS);
        let inputs = bytes(parts, "0.prediction").len() / 4;
        let mut lengths = vec![0_u32; inputs];
        lengths[0] = SLOTS as u32;
        let slots = (0..SLOTS as u32).flat_map(u32::to_le_bytes);
        replace(
            parts,
            "0.snpc.inputs",
            &[SLOTS],
            &slots.collect::<Vec<u8>>(),
        );
        let lengths = lengths.into_iter().flat_map(u32::to_le_bytes);
        bytes(parts, "0.snpc.inputs.lengths").copy_from_slice(&lengths.collect::<Vec<u8>>());
    }),
    ("a bucket that is none", "0.snpc", |parts| {
        bytes(parts, "0.snpc.inputs")[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    }),
    ("distances below the first bucket", "0.anpc", |parts| {
        fill(parts, "0.anpc.buckets", SLOTS);
    }),
    ("more distances beyond than there are", "0.anpc", |parts| {
        bytes(parts, "0.anpc.beyond")[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    }),
    ("fewer combinations than are covered", "0.idc", |parts| {
        let ones = 1_f64.to_le_bytes();
        let counts = bytes(parts, "0.idc:neurons=4.centroids").chunks_exact_mut(8);
        counts.for_each(|count| count.copy_from_slice(&ones));
    }),
    ("more patterns than inputs", "0.tknp", |parts| {
        let rows = 0..600_u32 * 3;
        let rows: Vec<u8> = rows.flat_map(u32::to_le_bytes).collect();
        replace(parts, "0.tknp.patterns", &[600, 3], &rows);
    }),
    ("sums of other inputs", "0.nlc", |parts| {
        bytes(parts, "0.nlc.inputs")[0] ^= 1;
    }),
];

/// No share of what a state says is more than all. Gives the exit code of a gate that wants all of SNPC.
fn gate(project: &Project, state: &str) -> Outcome {
    let told = succeed(project, &format!("report {state} --format json"));
    let report: Value = serde_json::from_str(&told.stdout).unwrap();
    let criteria = report["suites"][0]["criteria"].as_object().unwrap();
    for name in ["snpc", "anpc", "kmnc", "idc:neurons=4"] {
        let Some(value) = criteria.get(name) else {
            continue;
        };
        let value = value.as_f64().unwrap();
        assert!((0.0..=1.0).contains(&value), "{name}: {value}");
    }
    assert!(criteria.contains_key("snpc"), "{criteria:?}");
    project.run(&format!("check {state} --fail-under snpc=0.9"))
}

#[test]
fn a_tampered_folder_of_parts_makes_no_gate_pass_over_more_than_there_is() {
    let project = project();
    succeed(&project, COVER);
    let state = project.path("s.npcov");
    let honest = std::fs::read(&state).unwrap();
    for (what, part, change) in IMPOSSIBLE {
        // In a shard: it is computed again, which is said.
        std::fs::remove_file(&state).unwrap();
        forge(&begin_cover(&project)[0], change);
        let told = succeed(&project, COVER).stderr;
        assert!(told.contains("computed again"), "{what}: {told}");
        assert!(
            std::fs::read(&state).unwrap() == honest,
            "{what}: other bytes"
        );
        assert_eq!(gate(&project, "s.npcov").code, Some(1), "{what}");
        // In the state itself: it is refused, with the names of file and part.
        let forged = project.path("x.npcov");
        std::fs::write(&forged, &honest).unwrap();
        forge(&forged, |parts| match what {
            // The state has more inputs.
            "more patterns than inputs" => {
                let rows = 0..1041_u32 * 3;
                let rows: Vec<u8> = rows.flat_map(u32::to_le_bytes).collect();
                replace(parts, "0.tknp.patterns", &[1041, 3], &rows);
            }
            _ => change(parts),
        });
        for command in [
            "check x.npcov --fail-under snpc=0.9",
            "report x.npcov",
            "merge x.npcov -o m.npcov",
        ] {
            let outcome = project.in_little_memory(command);
            let told = format!("{what}, {command}: {:?}\n{}", outcome.code, outcome.stderr);
            assert_eq!(outcome.code, Some(2), "{told}");
            let names = ["`x.npcov`", &format!("`{part}")];
            assert!(
                names.iter().all(|name| outcome.stderr.contains(name)),
                "{told}"
            );
        }
    }
}

/// What could be is believed: all buckets, and no more.
#[test]
fn a_lie_that_could_be_true_is_no_more_than_all() {
    let project = project();
    let change: Change = |parts| {
        (IMPOSSIBLE[1].2)(parts);
        for cluster in 0..10 {
            let below = cluster * 201;
            bytes(parts, "0.snpc.buckets")[below / 8] &= !(1 << (below % 8));
            // The list has another bucket twice instead.
            let list = bytes(parts, "0.snpc.inputs");
            list[below * 4..below * 4 + 4].copy_from_slice(&1_u32.to_le_bytes());
        }
    };
    forge(&begin_cover(&project)[0], change);
    let outcome = project.run(COVER);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let gate = gate(&project, "s.npcov");
    assert_eq!(gate.code, Some(0), "{}", gate.stderr);
    let told = [gate.stdout, gate.stderr].concat();
    assert!(told.contains("SNPC is 100.00%"), "{told}");
}

/// The same with what a graph is learnt from: whatever shards say, nothing panics, and no suite covers more than all.
#[test]
fn a_tampered_folder_of_a_build_makes_no_gate_pass_over_more_than_there_is() {
    let project = project();
    // With parts of the same plan.
    let begun = begin_build(&project);
    let shards: Vec<Vec<u8>> = begun.iter().map(|s| std::fs::read(s).unwrap()).collect();
    let plan = std::fs::read(project.path("b.npcov.parts/plan.json")).unwrap();
    let changes: [(&str, Change); 7] = [
        ("every neuron critical", |parts| {
            bytes(parts, "path.0").fill(0xff)
        }),
        ("no neuron critical", |parts| bytes(parts, "path.0").fill(0)),
        ("one class", |parts| bytes(parts, "prediction").fill(0)),
        ("classes that are not there", |parts| {
            bytes(parts, "prediction").fill(0xff)
        }),
        ("activations that are no numbers", |parts| {
            bytes(parts, "activation").fill(0xff)
        }),
        ("logits that are no numbers", |parts| {
            bytes(parts, "logits").fill(0xff)
        }),
        ("relevance all over", |parts| {
            bytes(parts, "profile").fill(0xff)
        }),
    ];
    for (what, change) in changes {
        for (shard, bytes) in begun.iter().zip(&shards) {
            project.write("b.npcov.parts/plan.json", &plan);
            std::fs::write(shard, bytes).unwrap();
            forge(shard, change);
        }
        let built = project.run(BUILD);
        let told = format!("{what}: {:?}\n{}", built.code, built.stderr);
        assert!(matches!(built.code, Some(0 | 2)), "{told}");
        assert!(!built.stderr.contains("panicked"), "{told}");
        if built.code == Some(0) {
            let cover = "cover b.npcov --data data.npz --limit 60 -o c.npcov";
            let covered = project.run(cover);
            let told = format!("{what}: {:?}\n{}", covered.code, covered.stderr);
            assert!(matches!(covered.code, Some(0 | 2)), "{told}");
            if covered.code == Some(0) {
                gate(&project, "c.npcov");
                std::fs::remove_file(project.path("c.npcov")).unwrap();
            }
            std::fs::remove_file(project.path("b.npcov")).unwrap();
        }
        let _ = std::fs::remove_dir_all(project.path("b.npcov.parts"));
    }
}
