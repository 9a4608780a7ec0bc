//! `npcov cover` and `npcov merge`.

use insta::assert_snapshot;

use crate::build::{bytes, json, succeed};
use crate::support::Project;

const COVER: &str = "cover g.npcov --data fashion-1000.npz";

/// A project with a decision graph `g.npcov` of lenet.
fn with_graph() -> Project {
    let project = Project::new();
    build(&project, "g.npcov", "lenet.onnx", "");
    project
}

fn build(project: &Project, graph: &str, model: &str, options: &str) {
    let data = "--data fashion-1000.npz --divide 255 --limit 200 --clusters 2";
    succeed(
        project,
        &format!("build {model} {data} -o {graph} {options}"),
    );
}

#[test]
fn coverage_in_words_and_in_numbers() {
    let project = with_graph();
    assert_snapshot!(project.snapshot(&format!("{COVER} -o s.npcov --limit 500")));
    let command =
        format!("{COVER} -o s.npcov --limit 40 --snpc-buckets 10 --anpc-clusters nearest");
    assert_snapshot!(project.snapshot(&format!("{command} --format json")));
    let two = format!("{COVER} --data fashion-1000.npz:x --name first --limit 30 -o s.npcov");
    assert_snapshot!(project.snapshot(&two));
    assert!(!project.path("s.npcov.parts").exists());
}

#[test]
fn parts_of_a_suite_unite_to_the_same_bytes_in_any_order() {
    let project = with_graph();
    let whole = succeed(&project, &format!("{COVER} -o whole.npcov"));
    for part in 1..=3 {
        succeed(
            &project,
            &format!("{COVER} --shard {part}/3 -o {part}.npcov"),
        );
    }
    let whole_bytes = bytes(&project, "whole.npcov");
    for order in [
        [1, 2, 3],
        [1, 3, 2],
        [2, 1, 3],
        [2, 3, 1],
        [3, 1, 2],
        [3, 2, 1],
    ] {
        let states = order.map(|part| format!("{part}.npcov")).join(" ");
        let merged = succeed(&project, &format!("merge {states} -o merged.npcov"));
        assert!(bytes(&project, "merged.npcov") == whole_bytes, "{states}");
        assert_eq!(merged.stdout, whole.stdout);
    }
    // In two steps, and by appending.
    succeed(&project, "merge 3.npcov 1.npcov -o 13.npcov");
    succeed(&project, "merge 2.npcov 13.npcov -o merged.npcov");
    assert!(bytes(&project, "merged.npcov") == whole_bytes);
    for part in [2, 3, 1] {
        succeed(
            &project,
            &format!("{COVER} --shard {part}/3 --append -o grown.npcov"),
        );
    }
    assert!(bytes(&project, "grown.npcov") == whole_bytes);

    assert_snapshot!(project.snapshot("merge 1.npcov whole.npcov -o twice.npcov"));
    succeed(&project, &format!("{COVER} --shard 2/4 -o quarter.npcov"));
    assert_snapshot!(project.snapshot("merge quarter.npcov 1.npcov -o twice.npcov"));
    assert_snapshot!(project.snapshot(&format!("{COVER} --limit 10 --append -o 1.npcov")));
    assert!(!project.path("twice.npcov").exists());
}

#[test]
fn any_number_of_threads_and_any_run_gives_the_same_bytes() {
    let project = with_graph();
    let data = "--data fashion-1000.npz --divide 255 --limit 40";
    succeed(&project, &format!("build resnet8.onnx {data} -o r.npcov"));
    for (graph, inputs) in [("g.npcov", 1000), ("r.npcov", 40)] {
        let cover = format!("cover {graph} --data fashion-1000.npz --limit {inputs} -o s.npcov");
        let ways = [
            "--threads 1",
            "--threads 2",
            "--threads 8",
            "--threads 2",
            "--engine native:1",
        ];
        let states = ways.map(|way| {
            succeed(&project, &format!("{cover} {way}"));
            bytes(&project, "s.npcov")
        });
        assert!(states.iter().all(|state| *state == states[0]), "{graph}");
    }
}

#[test]
fn a_state_is_written_over_or_added_to() {
    let project = with_graph();
    let other = "cover g.npcov --data fashion-1000.npz:x --name other --limit 50 -o s.npcov";
    let first = json(&project, &format!("{COVER} --limit 100 -o s.npcov"));
    let both = json(&project, &format!("{other} --append"));
    let names = |report: &serde_json::Value| -> Vec<String> {
        let suites = report["suites"].as_array().unwrap();
        suites
            .iter()
            .map(|s| s["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&both), ["fashion-1000.npz", "other"]);
    assert_eq!(both["suites"][0], first["suites"][0]);
    // All inputs of the other suite are in the first, which unions do not see. Means do.
    for name in ["snpc", "anpc", "kmnc", "tknc", "idc"] {
        assert_eq!(both["together"][name], first["suites"][0]["criteria"][name]);
    }
    let alone = json(&project, other);
    assert_eq!(names(&alone), ["other"]);
    assert_eq!(alone["suites"][0], both["suites"][1]);
    assert!(alone["together"].is_null());
    // Appended to nothing, it is the first.
    let new = json(
        &project,
        &format!("{COVER} --limit 100 --append -o new.npcov"),
    );
    assert_eq!(new, first);
}

#[test]
fn suites_of_several_states_become_one() {
    let project = with_graph();
    for (name, part) in [("a", "1/2"), ("b", "2/2")] {
        succeed(
            &project,
            &format!("{COVER} --name {name} --shard {part} -o {name}.npcov"),
        );
    }
    succeed(&project, &format!("{COVER} --name all -o all.npcov"));
    let apart = json(&project, "merge a.npcov b.npcov -o s.npcov");
    assert_eq!(apart["suites"].as_array().unwrap().len(), 2);
    let one = json(&project, "merge a.npcov b.npcov --name all -o s.npcov");
    assert_eq!(apart["together"], one["suites"][0]["criteria"]);
    assert!(bytes(&project, "s.npcov") == bytes(&project, "all.npcov"));
    assert_snapshot!(project.snapshot("merge a.npcov all.npcov --name all -o s.npcov"));
}

#[test]
fn a_graph_can_be_moved_with_its_model_or_away_from_it() {
    let project = with_graph();
    succeed(&project, &format!("{COVER} --limit 100 -o s.npcov"));
    let expected = bytes(&project, "s.npcov");
    let copy = |from: &str, to: &str| project.write(to, bytes(&project, from));
    copy("g.npcov", "elsewhere/g.npcov");
    let command = "cover elsewhere/g.npcov --data fashion-1000.npz --limit 100 -o t.npcov";
    assert_snapshot!(project.snapshot(command));
    succeed(&project, &format!("{command} --model lenet.onnx"));
    assert!(bytes(&project, "t.npcov") == expected);
    std::fs::remove_file(project.path("t.npcov")).unwrap();
    copy("lenet.onnx", "elsewhere/lenet.onnx");
    std::fs::remove_file(project.path("lenet.onnx")).unwrap();
    succeed(&project, command);
    assert!(bytes(&project, "t.npcov") == expected);
    // A model in another folder is found from the graph's, not from the current one.
    succeed(
        &project,
        "build elsewhere/lenet.onnx --data fashion-1000.npz --divide 255 --limit 200 --clusters 2 \
         -o graphs.npcov",
    );
    succeed(
        &project,
        "cover graphs.npcov --data fashion-1000.npz --limit 100 -o u.npcov",
    );
    assert!(bytes(&project, "u.npcov") == expected);
}

#[test]
fn every_input_has_its_place() {
    let project = with_graph();
    let report = json(
        &project,
        &format!("{COVER} --limit 60 -o s.npcov --inputs in.npz"),
    );
    let column = |name: &str| -> Vec<f32> { project.rows("in.npz", name).concat() };
    // Too few training inputs are kept apart for a rank below 5 %, so nothing is called unusual.
    let suite = &report["suites"][0];
    assert!(suite["unfamiliar"].is_null() && suite["contested"].is_null());
    for name in ["unfamiliar", "contested"] {
        let (scores, ranks) = (column(name), column(&format!("{name}.p")));
        assert_eq!((scores.len(), ranks.len()), (60, 60));
        assert!(scores.iter().all(|&score| score >= 0.0));
        assert!(ranks.iter().all(|&p| p > 0.0 && p <= 1.0));
        // A higher score is never more usual.
        for (a, p) in scores.iter().zip(&ranks) {
            let less = scores.iter().zip(&ranks).filter(|(b, _)| *b <= a);
            assert!(less.into_iter().all(|(_, q)| q >= p), "{name}");
        }
    }
    succeed(
        &project,
        "predict lenet.onnx --data fashion-1000.npz --divide 255 --limit 60 --output p.npz",
    );
    assert_eq!(
        project.rows("in.npz", "prediction"),
        project.rows("p.npz", "prediction")
    );
    // Two clusters a class, classes in order.
    for (cluster, prediction) in column("cluster").iter().zip(column("prediction")) {
        assert_eq!((cluster / 2.0).floor(), prediction);
    }
}

#[test]
fn another_model_is_refused() {
    let project = with_graph();
    let command = format!("{COVER} -o s.npcov");
    assert_snapshot!(project.snapshot(&format!("{command} --model lenet-softmax.onnx")));
    project.write("lenet.onnx", bytes(&project, "lenet-dynamo.onnx"));
    assert_snapshot!(project.snapshot(&command));
    assert!(!project.path("s.npcov").exists());
}

#[test]
fn other_preprocessing_is_refused() {
    let project = with_graph();
    let command = format!("{COVER} --limit 20 -o s.npcov");
    assert_snapshot!(project.snapshot(&format!("{command} --divide 1")));
    assert_snapshot!(project.snapshot(&format!("{command} --mean 0.5 --std 0.5,0.5")));
    project.write(
        "npcov.toml",
        "[preprocessing]\ndivide = 255\nresize = \"28x28\"\n",
    );
    assert_snapshot!(project.snapshot(&command));
    assert!(!project.path("s.npcov").exists());
    // The same in other words is no difference.
    project.write("npcov.toml", "[preprocessing]\ndivide = 255\n");
    succeed(&project, &command);
    succeed(&project, &format!("{command} --divide 255.0"));
}

#[test]
fn states_of_other_graphs_and_choices_are_refused() {
    let project = with_graph();
    build(&project, "h.npcov", "lenet.onnx", "--beta 0.5");
    succeed(&project, &format!("{COVER} --limit 20 -o g-state.npcov"));
    succeed(
        &project,
        "cover h.npcov --data fashion-1000.npz:x --limit 20 -o h-state.npcov",
    );
    let command = "cover h.npcov --data fashion-1000.npz:x --limit 20 --append -o g-state.npcov";
    let before = bytes(&project, "g-state.npcov");
    // The digests of graphs depend on the machine.
    let shown = |arguments: &str| -> String {
        let text = project.snapshot(arguments);
        let words = text.split('`').map(|word| {
            let digest = word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
            if digest { "[DIGEST]" } else { word }
        });
        words.collect::<Vec<_>>().join("`")
    };
    assert_snapshot!(shown(command));
    assert_snapshot!(shown("merge g-state.npcov h-state.npcov -o s.npcov"));
    let choices = format!("{COVER} --limit 20 --snpc-buckets 50 --anpc-norm rms -o m-state.npcov");
    succeed(&project, &choices);
    assert_snapshot!(shown("merge g-state.npcov m-state.npcov -o s.npcov"));
    assert!(bytes(&project, "g-state.npcov") == before && !project.path("s.npcov").exists());
}

#[test]
fn files_of_another_kind_are_refused() {
    let project = with_graph();
    succeed(&project, &format!("{COVER} --limit 20 -o s.npcov"));
    for (i, arguments) in [
        "cover s.npcov --data fashion-1000.npz -o t.npcov",
        "cover lenet.onnx --data fashion-1000.npz -o t.npcov",
        "cover fashion-1000.npz --data fashion-1000.npz -o t.npcov",
        "cover missing.npcov --data fashion-1000.npz -o t.npcov",
        "merge s.npcov g.npcov -o t.npcov",
        "merge lenet.onnx -o t.npcov",
        "merge s.npcov missing.npcov -o t.npcov",
        "merge -o t.npcov",
        "merge s.npcov -o s.npcov",
        "cover g.npcov --data fashion-1000.npz -o g.npcov",
        "cover g.npcov --data fashion-1000.npz -o fashion-1000.npz",
        "cover g.npcov --data fashion-1000.npz --append -o lenet.onnx",
        "cover g.npcov --data missing.npz -o t.npcov",
        "cover g.npcov --data lenet.onnx -o t.npcov",
        "build g.npcov --data fashion-1000.npz -o t.npcov",
    ]
    .iter()
    .enumerate()
    {
        let shown = project.snapshot(arguments);
        assert!(shown.contains("exit code: 2"), "{shown}");
        assert_snapshot!(format!("kinds_{i:02}"), shown);
    }
    assert!(!project.path("t.npcov").exists() && !project.path("t.npcov.parts").exists());
}

#[test]
fn arguments_that_cannot_be() {
    let project = with_graph();
    project.npz("small.npz", &[5, 5], &[0.0; 25], &[]);
    project.npz("empty.npz", &[28, 28], &[], &[]);
    for (i, options) in [
        "--data small.npz",
        "--data empty.npz",
        "--data fashion-1000.npz --shard 0/3",
        "--data fashion-1000.npz --shard 4/3",
        "--data fashion-1000.npz --shard 1/2 --limit 3",
        "--data fashion-1000.npz --name a --name b",
        "--data fashion-1000.npz --data fashion-1000.npz",
        "--data fashion-1000.npz --similarity cosine",
        "",
    ]
    .iter()
    .enumerate()
    {
        let shown = project.snapshot(&format!("cover g.npcov {options} -o s.npcov"));
        assert!(shown.contains("exit code: 2"), "{shown}");
        assert_snapshot!(format!("cover_arguments_{i}"), shown);
    }
    assert!(!project.path("s.npcov").exists());
}

#[test]
fn damaged_graphs_end_in_an_error() {
    let project = with_graph();
    let whole = bytes(&project, "g.npcov");
    // The record's length, and with it that of the file, depends on the machine.
    let shown = |content: &[u8]| {
        project.write("cut.npcov", content);
        let arguments = "cover cut.npcov --data fashion-1000.npz --model lenet.onnx -o s.npcov";
        let shown = project.snapshot(arguments);
        assert!(shown.contains("exit code: 2"), "{shown}");
        let words = shown.split(' ').map(|word| match word.parse::<u64>() {
            Ok(_) => "[BYTES]",
            Err(_) => word,
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let cuts = [0, 7, 8, 300, whole.len() / 2, whole.len() - 1];
    for (i, cut) in cuts.into_iter().enumerate() {
        assert_snapshot!(format!("cut_{i}"), shown(&whole[..cut]));
    }
    assert_snapshot!(shown(&[&whole[..], b"more"].concat()));
}

/// Of a graph only what the criteria learnt that are measured is read: damage elsewhere is not noticed.
#[test]
fn only_the_fits_that_are_needed_are_read() {
    let project = Project::new();
    build(&project, "g.npcov", "lenet.onnx", "--criteria snpc,kmnc");
    let mut graph = bytes(&project, "g.npcov");
    let numbers = 8 + u64::from_le_bytes(graph[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&graph[8..numbers]).unwrap();
    let mut damaged = 0;
    for (name, tensor) in header.as_object().unwrap() {
        if name.starts_with("fit.kmnc.") {
            let first = tensor["data_offsets"][0].as_u64().unwrap() as usize;
            graph[numbers + first] ^= 1;
            damaged += 1;
        }
    }
    assert!(damaged > 0);
    project.write("g.npcov", graph);
    succeed(&project, &format!("{COVER} --limit 10 --criteria snpc"));
    let refused = project.run(&format!("{COVER} --limit 10 --criteria kmnc"));
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
}
