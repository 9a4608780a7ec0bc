//! Data that gives results, and wrong ones: what is said about it.

use insta::assert_snapshot;

use crate::build::succeed;
use crate::onnx::{model, node};
use crate::support::Project;

/// Images of the fixtures as floats, scaled.
fn scaled(project: &Project, name: &str, factor: f32, labels: &[i64]) {
    let images = project.rows("fashion-1000.npz", "x");
    let pixels: Vec<f32> = images[..50].concat().iter().map(|x| x * factor).collect();
    project.npz(name, &[28, 28], &pixels, labels);
}

/// What a command says besides its result.
fn talk(project: &Project, command: &str) -> String {
    format!("$ npcov {command}\n{}", succeed(project, command).stderr)
}

#[test]
fn data_that_is_scaled_twice_or_not_at_all() {
    let project = Project::new();
    scaled(&project, "unit.npz", 1.0 / 255.0, &[]);
    scaled(&project, "raw.npz", 1.0, &[]);
    assert_snapshot!(talk(
        &project,
        "predict lenet.onnx --data unit.npz --divide 255"
    ));
    assert_snapshot!(talk(&project, "predict lenet.onnx --data raw.npz"));
    succeed(
        &project,
        "build lenet.onnx --data fashion-1000.npz --divide 255 --limit 100 --clusters 1 -o g.npcov",
    );
    assert_snapshot!(talk(&project, "cover g.npcov --data unit.npz"));
    scaled(&project, "large.npz", 100.0, &[]);
    assert_snapshot!(talk(
        &project,
        "select g.npcov --data large.npz --by random -o out.npz"
    ));
    // As they should be: nothing to say.
    assert_eq!(
        succeed(&project, "predict lenet.onnx --data raw.npz --divide 255").stderr,
        ""
    );
    assert_eq!(
        succeed(&project, "predict lenet.onnx --data unit.npz").stderr,
        ""
    );
    assert_eq!(succeed(&project, "cover g.npcov --data raw.npz").stderr, "");
}

#[test]
fn labels_that_are_no_classes() {
    let project = Project::new();
    let mut labels = vec![3; 50];
    labels[7] = 10;
    scaled(&project, "odd.npz", 1.0, &labels);
    let data = "--data odd.npz --divide 255";
    assert_snapshot!(project.snapshot(&format!("predict lenet.onnx {data}")));
    let build = "build lenet.onnx --limit 40 --clusters 1 --criteria snpc -o g.npcov";
    assert_snapshot!(project.snapshot(&format!("{build} {data}")));
    succeed(
        &project,
        &format!("{build} --data fashion-1000.npz --divide 255"),
    );
    assert_snapshot!(project.snapshot("cover g.npcov --data odd.npz"));
    // What is not used is not looked at.
    for data in ["odd.npz --limit 7", "odd.npz:x"] {
        let few = succeed(&project, &format!("cover g.npcov --data {data}"));
        assert!(!few.stderr.contains("labels"), "{}", few.stderr);
    }
}

#[test]
fn everything_in_one_class() {
    let project = Project::new();
    project.npz("black.npz", &[28, 28], &[0.0; 12 * 784], &[]);
    assert_snapshot!(talk(&project, "predict lenet.onnx --data black.npz"));
    assert_snapshot!(talk(
        &project,
        "build lenet.onnx --data black.npz --clusters 1 --criteria snpc -o g.npcov"
    ));
    assert_snapshot!(talk(&project, "cover g.npcov --data black.npz"));
}

/// Classes that training never predicts are one line, however many they are.
#[test]
fn classes_without_training_inputs() {
    let project = Project::new();
    let nodes = [node("Relu", &["x"], "relu"), node("Neg", &["relu"], "y")];
    project.write(
        "net.onnx",
        model(&[("x", "Nx40")], &nodes, &[("y", "Nx40")]),
    );
    let mut x = vec![1.0; 40 * 4];
    for row in 0..4 {
        x[row * 40 + row % 2] = 0.5;
    }
    project.npz("data.npz", &[40], &x, &[]);
    let build = "build net.onnx --data data.npz --clusters 1 --criteria snpc -o g.npcov";
    assert_snapshot!(talk(&project, build));
}

#[test]
fn criteria_without_anything_that_varies() {
    let project = Project::new();
    let nodes = [node("Relu", &["x"], "relu"), node("Neg", &["relu"], "y")];
    project.write("net.onnx", model(&[("x", "Nx2")], &nodes, &[("y", "Nx2")]));
    project.npz("same.npz", &[2], &[0.5, 1.5].repeat(8), &[]);
    let build = "build net.onnx --data same.npz --clusters 1 -o g.npcov";
    assert_snapshot!(project.snapshot(&format!("{build} --criteria lsc")));
    assert_snapshot!(project.snapshot(&format!("{build} --criteria mdsc")));
}
