//! Artefacts that somebody changed on purpose, with checksums that fit. What cannot be is refused, with the file's
//! name, exit code 2 and little memory.

use serde_json::{Value, json};

use crate::reseal::{Parts, parts, range, sealed};
use crate::succeed;
use crate::support::Project;

const COVER: &str = "cover x.npcov --data fashion-1000.npz --limit 5 -o o.npcov";

/// A graph `g.npcov`, and a state `s.npcov` of it.
fn project() -> Project {
    let project = Project::new();
    let build = "build mlp-matlab.onnx --data fashion-1000.npz --divide 255 --limit 100 \
                 --criteria snpc,nc,lsc --clusters 1 -o g.npcov";
    succeed(&project, build);
    succeed(
        &project,
        "cover g.npcov --data fashion-1000.npz --limit 20 -o s.npcov",
    );
    project
}

/// Writes `x.npcov`, which is a file with a change.
fn forge(project: &Project, file: &str, change: impl FnOnce(&mut Parts)) {
    let mut forged = parts(&std::fs::read(project.path(file)).unwrap());
    change(&mut forged);
    project.write("x.npcov", sealed(&forged));
}

/// The same with a change of its record.
fn forge_record(project: &Project, file: &str, change: impl FnOnce(&mut Value)) {
    forge(project, file, |parts| {
        let text = &mut parts.header["__metadata__"]["npcov"];
        let mut record: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
        change(&mut record);
        *text = Value::from(record.to_string());
    });
}

fn refused(project: &Project, command: &str, reason: &str) {
    let outcome = project.in_little_memory(command);
    let told = format!("{command}: {:?}\n{}", outcome.code, outcome.stderr);
    assert_eq!(outcome.code, Some(2), "{told}");
    assert!(outcome.stderr.contains("`x.npcov`"), "{told}");
    assert!(outcome.stderr.contains(reason), "{told}");
}

#[test]
fn what_is_resealed_without_a_change_is_taken() {
    let project = project();
    forge(&project, "g.npcov", |_| {});
    assert_eq!(project.in_little_memory(COVER).code, Some(0));
    forge_record(&project, "s.npcov", |_| {});
    assert_eq!(project.in_little_memory("report x.npcov").code, Some(0));
}

#[test]
fn a_graph_is_the_one_that_its_id_names() {
    let project = project();
    let reason = "it is not the graph that its id names";
    forge_record(&project, "g.npcov", |record| {
        record["id"] = Value::from("0".repeat(64));
    });
    refused(&project, COVER, reason);
    refused(&project, "inspect x.npcov", reason);
    forge_record(&project, "g.npcov", |record| record["seed"] = json!(5));
    refused(&project, COVER, reason);
    for tensor in ["path.0", "abstract.0"] {
        forge(&project, "g.npcov", |parts| {
            let (start, _) = range(&parts.header[tensor]).unwrap();
            parts.data[start] ^= 1;
        });
        refused(&project, COVER, reason);
    }
}

#[test]
fn neurons_are_counted_before_there_is_memory_for_them() {
    let project = project();
    for neurons in [1_u64 << 59, 1 << 31, (1 << 27) - 10] {
        let many = json!(neurons);
        forge_record(&project, "g.npcov", |record| {
            let layer = &mut record["extraction"]["layers"][0];
            (layer["neurons"], layer["units"]) = (many.clone(), many.clone());
        });
        for command in [COVER, "inspect x.npcov"] {
            refused(&project, command, "its activations have another shape");
        }
        forge_record(&project, "s.npcov", |record| {
            let layer = &mut record["layers"][0];
            (layer["neurons"], layer["units"]) = (many.clone(), many.clone());
        });
        for command in ["report x.npcov", "merge x.npcov -o o.npcov"] {
            refused(&project, command, "");
        }
    }
}

#[test]
fn yardsticks_are_possible_ones() {
    let project = project();
    for (file, command) in [("g.npcov", COVER), ("s.npcov", "report x.npcov")] {
        for (inputs, count) in [(1_u64 << 63, 1_u64 << 63), (100, 1 << 63)] {
            forge_record(&project, file, |record| {
                let yardstick = json!({"inputs": inputs, "frequencies": [[count, 1]]});
                record["criteria"][0]["yardstick"] = yardstick;
            });
            refused(&project, command, "a yardstick has");
        }
    }
}

#[test]
fn clusters_have_no_more_inputs_than_there_can_be() {
    let project = project();
    for (file, command) in [("g.npcov", COVER), ("s.npcov", "report x.npcov")] {
        forge_record(&project, file, |record| {
            record["shares"][3] = json!(u64::MAX)
        });
        let reason = "its clusters have more training inputs than there can be";
        refused(&project, command, reason);
    }
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let project = project();
    let more = json!({"inputs": 100, "frequencies": [[1, 100_000]]});
    forge_record(&project, "s.npcov", |record| {
        record["criteria"][0]["yardstick"] = more;
    });
    let reason = "training inputs cover more than there is";
    refused(&project, "report x.npcov", reason);
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 6] = [
        (
            |record| record["shares"] = json!([1, 1, 1]),
            "not every cluster has a share",
        ),
        (
            |record| record["training_labels"] = json!([1, 1, 1]),
            "not every class has training labels",
        ),
        (
            |record| {
                let twice = record["criteria"][0].clone();
                record["criteria"].as_array_mut().unwrap().push(twice);
            },
            "it has a criterion twice",
        ),
        // The same inputs twice, which are as many as before.
        (
            |record| {
                let mut half = record["suites"][0]["shards"][0].clone();
                half["end"] = json!(10);
                record["suites"][0]["shards"] = json!([half, half]);
            },
            "its parts overlap or are in no order",
        ),
        (
            |record| {
                let mut last = record["suites"][0]["shards"][0].clone();
                let mut first = last.clone();
                (first["end"], last["start"]) = (json!(10), json!(10));
                record["suites"][0]["shards"] = json!([last, first]);
            },
            "its parts overlap or are in no order",
        ),
        (
            |record| {
                let mut none = record["suites"][0]["shards"][0].clone();
                none["end"] = none["start"].clone();
                let shards = record["suites"][0]["shards"].as_array_mut().unwrap();
                shards.insert(0, none);
            },
            "its parts overlap or are in no order",
        ),
    ];
    for (change, reason) in changes {
        forge_record(&project, "s.npcov", change);
        for command in ["report x.npcov", "check x.npcov --fail-on-thin"] {
            refused(&project, command, reason);
        }
    }
    // An input of one class in the cluster of another one.
    forge(&project, "s.npcov", |parts| {
        let numbers = |parts: &Parts, tensor: &str| -> Vec<u8> {
            let (start, end) = range(&parts.header[tensor]).unwrap();
            parts.data[start..end].to_vec()
        };
        let (classes, clusters) = (numbers(parts, "0.prediction"), numbers(parts, "0.cluster"));
        let same = |i: &usize| classes[i * 4..i * 4 + 4] == classes[..4];
        let other = (0..20).find(|i| !same(i)).unwrap();
        let (start, _) = range(&parts.header["0.cluster"]).unwrap();
        parts.data[start..start + 4].copy_from_slice(&clusters[other * 4..other * 4 + 4]);
    });
    let reason = "an input is in a class or cluster that is not there";
    refused(&project, "report x.npcov", reason);
}

#[test]
fn what_is_no_number_is_refused() {
    let project = project();
    for (tensor, reason) in [
        ("0.unfamiliar", "the score of an input is none"),
        ("0.contested", "the score of an input is none"),
        ("0.lsc.lsa", "`0.lsc.lsa` holds what is no number"),
        ("calibration.contested", "its calibration scores are none"),
        ("calibration.unfamiliar", "its calibration scores are none"),
    ] {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            // What no density fits surprises without end.
            if tensor == "0.lsc.lsa" && number == f64::INFINITY {
                continue;
            }
            forge(&project, "s.npcov", |parts| {
                let (start, _) = range(&parts.header[tensor]).unwrap();
                parts.data[start..start + 8].copy_from_slice(&number.to_le_bytes());
            });
            for command in [
                "report x.npcov",
                "merge x.npcov -o o.npcov",
                "check x.npcov --fail-under snpc=0",
            ] {
                refused(&project, command, reason);
            }
        }
    }
}
