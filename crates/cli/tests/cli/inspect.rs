//! `npcov inspect`.

use insta::assert_snapshot;

use crate::onnx::{model, node, open_axes, with_ints};
use crate::support::Project;

#[test]
fn residual_net_with_batch_norm() {
    assert_snapshot!(Project::new().snapshot("inspect resnet8.onnx"));
}

#[test]
fn squeeze_excitation() {
    let project = Project::new();
    assert_snapshot!(project.snapshot("inspect mobilenet.onnx"));
    assert_snapshot!(project.snapshot("inspect mobilenet.onnx --format json"));
}

#[test]
fn keras() {
    let project = Project::new();
    assert_snapshot!(project.snapshot("inspect keras.onnx"));
    assert_snapshot!(project.snapshot("inspect keras.onnx --format json"));
}

#[test]
fn sigmoid_with_two_classes() {
    let outcome = Project::new().run("inspect binary-sigmoid.onnx");
    assert!(
        outcome.stdout.contains("sigmoid of one logit: 2 classes"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn layers_and_units() {
    let project = Project::new();
    assert_snapshot!(project.snapshot("inspect lenet.onnx --layers -1,/1/* --units"));
}

#[test]
fn open_axes_take_an_input_shape() {
    let project = Project::new();
    project.write("open.onnx", open_axes());
    assert_snapshot!(project.snapshot("inspect open.onnx --input-shape 3x4x5 --units"));
    assert_snapshot!(project.snapshot("inspect open.onnx"));
}

#[test]
fn fixed_batches() {
    let project = Project::new();
    let relu = node("Relu", &["x"], "relu");
    let apart = [relu.clone(), node("Neg", &["relu"], "y")];
    // The mean over the batch mixes inputs: they cannot be taken apart.
    let mean = with_ints(node("ReduceMean", &["relu"], "mean"), "axes", &[0]);
    let mixed = [relu, mean, node("Sub", &["relu", "mean"], "y")];
    for (nodes, line) in [
        (&apart[..], "fixed at 4; run input by input, checked"),
        (&mixed[..], "fixed at 4; run 4 inputs at a time"),
    ] {
        project.write("fixed.onnx", model(&[("x", "4x3")], nodes, &[("y", "4x3")]));
        let outcome = project.run("inspect fixed.onnx");
        assert!(outcome.stdout.contains(line), "{}", outcome.stdout);
    }
    let outcome = project.run("inspect lenet-batch1-flatten.onnx");
    assert!(
        outcome.stdout.contains("fixed at 1\n"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn an_output_by_name() {
    let project = Project::new();
    let nodes = [node("Relu", &["x"], "relu"), node("Neg", &["relu"], "y")];
    let outputs = [("relu", "Nx3"), ("y", "Nx3")];
    project.write("two.onnx", model(&[("x", "Nx3")], &nodes, &outputs));
    assert_snapshot!(project.snapshot("inspect two.onnx --output-name y"));
}
