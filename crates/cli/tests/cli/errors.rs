//! Every error: its message, its hint, and exit code 2.

use insta::assert_snapshot;

use crate::onnx::{model, node, open_axes};
use crate::support::Project;

#[test]
fn missing_files() {
    let project = Project::new();
    assert_snapshot!(project.snapshot("inspect missing.onnx"));
    assert_snapshot!(project.snapshot("predict lenet.onnx --data missing.npz"));
    assert_snapshot!(project.snapshot("predict lenet.onnx --data fashion-1000.npz:x_test,y_test"));
}

#[test]
fn nothing_named() {
    let project = Project::new();
    assert_snapshot!(project.snapshot("inspect"));
    assert_snapshot!(project.snapshot("predict lenet.onnx"));
}

#[test]
fn not_onnx() {
    let project = Project::new();
    assert_snapshot!(project.snapshot("inspect README.md"));
    assert_snapshot!(project.snapshot("predict lenet.onnx --data README.md"));
}

#[test]
fn unsupported_operators_are_listed_all_at_once() {
    let project = Project::new();
    let nodes = [
        node("Det", &["x"], "a"),
        node("Relu", &["x"], "b"),
        node("org.example.Magic", &["b"], "c"),
        node("Relu", &["c"], "d"),
        node("Add", &["a", "d"], "y"),
    ];
    project.write("net.onnx", model(&[("x", "Nx3")], &nodes, &[("y", "Nx3")]));
    assert_snapshot!(project.snapshot("inspect net.onnx"));
    assert_snapshot!(project.snapshot("inspect net.onnx --format json"));
    project.npz("data.npz", &[3], &[0.0; 3], &[]);
    assert_snapshot!(project.snapshot("predict net.onnx --data data.npz"));
}

#[test]
fn several_inputs() {
    let project = Project::new();
    let nodes = [node("Add", &["a", "b"], "c"), node("Relu", &["c"], "y")];
    let inputs = [("a", "Nx3"), ("b", "Nx3")];
    project.write("net.onnx", model(&inputs, &nodes, &[("y", "Nx3")]));
    assert_snapshot!(project.snapshot("inspect net.onnx"));
}

#[test]
fn shapes() {
    let project = Project::new();
    project.write("open.onnx", open_axes());
    let command = "predict lenet.onnx --data fashion-1000.npz --input-shape";
    assert_snapshot!(project.snapshot(&format!("{command} 1x32x32")));
    assert_snapshot!(project.snapshot(&format!("{command} 28x28")));
    assert_snapshot!(project.snapshot("predict open.onnx --data fashion-1000.npz"));
    // Three channels of 3x3 pixels, or 3x3 pixels of three channels: the shape is the same.
    project.npz("ambiguous.npz", &[3, 3, 3], &[0.0; 27], &[]);
    let command = "predict open.onnx --input-shape 3x3x3 --data ambiguous.npz";
    assert_snapshot!(project.snapshot(command));
    assert_eq!(
        project.run(&format!("{command} --layout hwc")).code,
        Some(0)
    );
    project.npz("small.npz", &[5, 5], &[0.0; 25], &[]);
    assert_snapshot!(project.snapshot("predict lenet.onnx --data small.npz"));
}

#[test]
fn unknown_names() {
    let project = Project::new();
    assert_snapshot!(project.snapshot("inspect lenet.onnx --layers block3"));
    assert_snapshot!(project.snapshot("inspect lenet.onnx --output-name probabilities"));
}

#[test]
fn labels_that_are_no_classes() {
    let project = Project::new();
    assert_snapshot!(project.snapshot("predict binary-sigmoid.onnx --data fashion-1000.npz"));
    // Labels behind the limit do not matter.
    project.npz("data.npz", &[28, 28], &vec![0.0; 2 * 784], &[9, -1]);
    let command = "predict lenet.onnx --data data.npz";
    assert_eq!(project.run(&format!("{command} --limit 1")).code, Some(0));
    assert_snapshot!(project.snapshot(command));
}

#[test]
fn logits_that_are_no_numbers() {
    let project = Project::new();
    let nodes = [node("Relu", &["x"], "relu"), node("Log", &["relu"], "y")];
    project.write("net.onnx", model(&[("x", "Nx1")], &nodes, &[("y", "Nx1")]));
    let mut x = vec![1.0; 40];
    x[37] = -1.0;
    project.npz("data.npz", &[1], &x, &[]);
    let command = "predict net.onnx --data data.npz --output out.npz";
    assert_snapshot!(project.snapshot(command));
    assert!(!project.path("out.npz").exists());
}

#[test]
fn data_that_is_no_number() {
    let project = Project::new();
    project.npz(
        "data.npz",
        &[784],
        &[&[0.0; 1000][..], &[f32::NAN], &[0.0; 567]].concat(),
        &[],
    );
    assert_snapshot!(project.snapshot("predict mlp-matlab.onnx --data data.npz"));
}

#[test]
fn output_in_a_folder_that_does_not_exist() {
    let command = "predict lenet.onnx --data fashion-1000.npz --divide 255 --output no/out.npz";
    assert_snapshot!(Project::new().snapshot(command));
}

#[test]
fn output_over_an_input() {
    let project = Project::new();
    let before = std::fs::read(project.path("fashion-1000.npz")).unwrap();
    let command = "predict lenet.onnx --divide 255 --data fashion-1000.npz";
    assert_snapshot!(project.snapshot(&format!("{command}:x --output ./fashion-1000.npz")));
    assert_snapshot!(project.snapshot(&format!("{command} --output lenet.onnx")));
    assert!(std::fs::read(project.path("fashion-1000.npz")).unwrap() == before);
}

#[test]
fn arguments() {
    let project = Project::new();
    for (i, arguments) in [
        "predict lenet.onnx --threads 0",
        "predict lenet.onnx --threads 5000",
        "predict lenet.onnx --layout whc",
        "predict lenet.onnx --resize 28x",
        "inspect lenet.onnx --input-shape 1x0",
        "inspect lenet.onnx --format xml",
        "discover",
    ]
    .iter()
    .enumerate()
    {
        assert_snapshot!(format!("arguments_{i}"), project.snapshot(arguments));
    }
}
