//! `npcov predict`.

use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::Value;

use crate::onnx::{model, node};
use crate::support::{Project, fixtures};

#[test]
fn accuracy_and_confusion() {
    let project = Project::new();
    let command = "predict lenet.onnx --data fashion-1000.npz --divide 255";
    assert_snapshot!(project.snapshot(command));
    assert_snapshot!(project.snapshot(&format!("{command} --limit 20 --format json")));
}

#[test]
fn histogram_without_labels() {
    let project = Project::new();
    let command = "predict keras.onnx --data fashion-1000.npz:x --divide 255";
    assert_snapshot!(project.snapshot(command));
}

/// `expected.json` holds what ONNX Runtime computes.
#[test]
fn every_fixture_is_classified_as_by_onnx_runtime() {
    let project = Project::new();
    // The binary model tells footwear (5, 7, 9) from the rest.
    let pixels = project.rows("fashion-1000.npz", "x").concat();
    let labels = project.rows("fashion-1000.npz", "y");
    let footwear = |label: &Vec<f32>| i64::from([5.0, 7.0, 9.0].contains(&label[0]));
    let footwear: Vec<i64> = labels.iter().map(footwear).collect();
    project.npz("footwear.npz", &[28, 28], &pixels, &footwear);

    let expected = std::fs::read_to_string(fixtures().join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    for (name, expected) in expected.as_object().unwrap() {
        let data = match name.as_str() {
            "binary-sigmoid" => "footwear.npz",
            _ => "fashion-1000.npz",
        };
        let outcome = project.run(&format!(
            "predict {name}.onnx --data {data} --divide 255 --format json --output out.npz"
        ));
        assert_eq!(outcome.code, Some(0), "{name}: {}", outcome.stderr);
        let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
        for key in ["inputs", "correct"] {
            assert_eq!(result[key], expected[key], "{name}: {key}");
        }
        let logits = project.rows("out.npz", "logits");
        for (row, expected) in expected["first_logits"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
        {
            let expected: Vec<f64> = serde_json::from_value(expected.clone()).unwrap();
            let largest = expected.iter().fold(0.0f64, |m, z| m.max(z.abs()));
            assert_eq!(logits[row].len(), expected.len(), "{name}");
            for (&a, b) in logits[row].iter().zip(expected) {
                assert!(
                    (f64::from(a) - b).abs() <= 1e-4 * largest,
                    "{name}, row {row}: {a} for {b}"
                );
            }
        }
    }
}

#[test]
fn the_output_holds_logits_predictions_and_activations() {
    let project = Project::new();
    // ReLU, then the negative: the largest logit is that of the smallest input.
    let nodes = [node("Relu", &["x"], "relu"), node("Neg", &["relu"], "y")];
    project.write("net.onnx", model(&[("x", "Nx2")], &nodes, &[("y", "Nx2")]));
    project.npz(
        "data.npz",
        &[2],
        &[1.0, 2.0, 3.0, -1.0, 0.5, 0.5],
        &[0, 1, 1],
    );
    let outcome = project.run("predict net.onnx --data data.npz --output out.npz");
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("66.67% (2 of 3)"),
        "{}",
        outcome.stdout
    );
    assert_eq!(
        project.rows("out.npz", "activation.0"),
        [[1.0, 2.0], [3.0, 0.0], [0.5, 0.5]]
    );
    assert_eq!(
        project.rows("out.npz", "logits"),
        [[-1.0, -2.0], [-3.0, 0.0], [-0.5, -0.5]]
    );
    assert_eq!(project.rows("out.npz", "prediction"), [[0.0], [1.0], [0.0]]);
}

#[test]
fn a_linear_classifier_has_no_path_layers() {
    let project = Project::new();
    let nodes = [node("Neg", &["x"], "y")];
    project.write("net.onnx", model(&[("x", "Nx2")], &nodes, &[("y", "Nx2")]));
    project.npz("data.npz", &[2], &[1.0, 2.0, 2.0, 1.0], &[0, 1]);
    let outcome = project.run("predict net.onnx --data data.npz --output out.npz");
    assert!(outcome.stdout.contains("100.00%"), "{}", outcome.stderr);
    assert_eq!(project.rows("out.npz", "logits").len(), 2);
    let outcome = project.run("inspect net.onnx");
    assert_eq!(outcome.code, Some(0));
    assert!(
        outcome.stdout.contains("none: the model"),
        "{}",
        outcome.stdout
    );
    let outcome = project.run("inspect net.onnx --layers y");
    assert!(
        outcome.stdout.contains("1 layer, 2 neurons"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn an_empty_dataset_has_no_accuracy() {
    let project = Project::new();
    let nodes = [node("Relu", &["x"], "relu"), node("Neg", &["relu"], "y")];
    project.write("net.onnx", model(&[("x", "Nx2")], &nodes, &[("y", "Nx2")]));
    project.npz("data.npz", &[2], &[], &[]);
    assert_snapshot!(project.snapshot("predict net.onnx --data data.npz --output out.npz"));
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let project = Project::new();
    let outputs = ["1", "2", "8"].map(|threads| {
        let outcome = project.run(&format!(
            "predict resnet8.onnx --data fashion-1000.npz --divide 255 --limit 333 \
             --threads {threads} --output out{threads}.npz"
        ));
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let bytes = std::fs::read(project.path(&format!("out{threads}.npz"))).unwrap();
        (bytes, outcome.stdout)
    });
    assert!(outputs[0] == outputs[1] && outputs[0] == outputs[2]);
    assert_eq!(project.rows("out8.npz", "logits").len(), 333);
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let project = Project::new();
    let mut child = project
        .command("inspect mobilenet.onnx --format json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stderr, b"");
}
