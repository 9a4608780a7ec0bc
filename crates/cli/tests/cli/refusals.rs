//! Models that npcov is not about: what they are, and what could be done.

use insta::assert_snapshot;

use crate::onnx::{model, node};
use crate::support::{Project, fixtures};

/// A project with a model of such an output: a hidden layer, and a last operator.
fn project(shape: &str, last: &str) -> Project {
    let project = Project::new();
    let nodes = [node("Relu", &["x"], "hidden"), node(last, &["hidden"], "y")];
    project.write(
        "model.onnx",
        model(&[("x", shape)], &nodes, &[("y", shape)]),
    );
    project
}

const PREDICT: &str = "predict model.onnx --data fashion-1000.npz";

#[test]
fn a_model_of_several_labels() {
    assert_snapshot!(project("Nx5", "Sigmoid").snapshot(PREDICT));
}

#[test]
fn a_segmenter() {
    assert_snapshot!(project("Nx3x8x8", "Neg").snapshot(PREDICT));
}

#[test]
fn a_generator_of_images() {
    assert_snapshot!(project("Nx3x8x8", "Tanh").snapshot(PREDICT));
}

#[test]
fn a_generator_of_texts() {
    assert_snapshot!(project("Nx16x1000", "Neg").snapshot(PREDICT));
}

#[test]
fn a_detector_that_lists_boxes() {
    let project = project("Nx5x4", "Neg");
    assert_snapshot!(project.snapshot(PREDICT));
    // Boxes are no numbers of their own either.
    assert_snapshot!(project.snapshot(&format!("{PREDICT} --task regression")));
    let one = project.run("inspect model.onnx --task regression:7");
    assert_eq!(one.code, Some(0), "{}", one.stderr);
}

#[test]
fn a_detector_that_chooses_boxes() {
    assert_snapshot!(project("1x5x4", "NonMaxSuppression").snapshot(PREDICT));
}

#[test]
fn a_linear_model_has_no_paths() {
    let project = Project::new();
    let exported = |file: &str| std::fs::read(fixtures().join("exports").join(file)).unwrap();
    project.write("linear.onnx", exported("sklearn-logistic.onnx"));
    project.write("linear.npz", exported("sklearn-logistic.npz"));
    assert_snapshot!(project.snapshot("build linear.onnx --data linear.npz -o linear.npcov"));
}
