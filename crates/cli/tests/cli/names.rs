//! Names of classes and samples: where they come from, and how they are matched.

use insta::assert_snapshot;
use npcov::data::npz::{Compression, NpzWriter};
use serde_json::Value;

use crate::build::{json, succeed};
use crate::support::Project;

/// The classes of Fashion-MNIST, by label. Their order is not that of the alphabet.
const CLASSES: [&str; 10] = [
    "tee", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot",
];

/// Folders `all` and `two` of images, and `classes.txt`.
fn with_images() -> Project {
    let project = Project::new();
    let all: Vec<(i64, &str)> = (0..).zip(CLASSES).collect();
    project.images("all", &all, 20);
    project.images("two", &[(8, "bag"), (3, "dress")], 1000);
    project.images("strange", &[(8, "bag"), (3, "gown")], 5);
    project.write("classes.txt", CLASSES.join("\n"));
    project
}

/// How many inputs of the two classes are classified as labelled, of how many: as the npz file says,
/// whose predictions are held against ONNX Runtime's in other tests.
fn expected(project: &Project) -> (u64, u64) {
    let command = "predict lenet.onnx --data fashion-1000.npz --divide 255";
    let found = json(project, command);
    let of = |class: usize, key: &str| found["per_class"][class][key].as_u64().unwrap();
    (
        of(3, "correct") + of(8, "correct"),
        of(3, "labelled") + of(8, "labelled"),
    )
}

#[test]
fn a_folder_of_two_of_ten_classes_has_the_right_labels() {
    let project = with_images();
    let (correct, inputs) = expected(&project);
    let predict = "predict lenet.onnx --data two --divide 255";
    let found = json(&project, &format!("{predict} --class-names classes.txt"));
    assert_eq!(found["correct"], correct);
    assert_eq!(found["inputs"], inputs);
    assert_eq!(found["per_class"][8]["name"], "bag");
    // A graph learns the names, and matches suites with them.
    let build = "build lenet.onnx --data all --divide 255 --clusters 1 --class-names classes.txt";
    succeed(&project, &format!("{build} -o g.npcov"));
    let report = json(&project, "cover g.npcov --data two -o s.npcov");
    let accuracy = report["suites"][0]["accuracy"].as_f64().unwrap();
    assert!(
        (accuracy - correct as f64 / inputs as f64).abs() < 1e-12,
        "{accuracy}"
    );
    // In `npcov.toml` as well.
    project.write("npcov.toml", "class-names = \"classes.txt\"");
    assert_eq!(json(&project, predict)["correct"], correct);
}

#[test]
fn tables_of_reports_name_samples_and_classes() {
    let project = with_images();
    let build = "build lenet.onnx --data all --divide 255 --clusters 1 --criteria snpc";
    succeed(
        &project,
        &format!("{build} --class-names classes.txt -o g.npcov"),
    );
    succeed(&project, "cover g.npcov --data two --limit 30 -o s.npcov");
    for format in ["text --all", "markdown"] {
        let report = succeed(&project, &format!("report s.npcov --format {format}")).stdout;
        let table = report.split("inputs that add most to").nth(1).unwrap();
        let line = table.lines().find(|line| line.contains(".png")).unwrap();
        assert!(line.contains("bag/0") && line.contains("8 bag"), "{report}");
    }
    // Warnings too.
    project.npz("black.npz", &[28, 28], &[0.0; 12 * 784], &[]);
    let covered = succeed(&project, "cover g.npcov --data black.npz").stderr;
    let warning = "are predicted as class 5 (sandal): is their scale";
    assert!(covered.contains(warning), "{covered}");
    let predict = "predict lenet.onnx --data black.npz --divide 255 --class-names classes.txt";
    let predicted = succeed(&project, predict).stderr;
    assert!(predicted.contains(warning), "{predicted}");
}

#[test]
fn classes_that_are_counted_are_said() {
    let project = with_images();
    assert_snapshot!(project.snapshot("predict lenet.onnx --data two --divide 255"));
}

#[test]
fn classes_that_do_not_fit_are_refused() {
    let project = with_images();
    let named = "--divide 255 --class-names classes.txt";
    assert_snapshot!(project.snapshot(&format!("predict lenet.onnx --data strange {named}")));
    project.write("nine.txt", CLASSES[..9].join("\n"));
    assert_snapshot!(
        project.snapshot("predict lenet.onnx --data two --divide 255 --class-names nine.txt")
    );
    succeed(
        &project,
        &format!("build lenet.onnx --data all --clusters 1 -o g.npcov {named}"),
    );
    for command in [
        "cover g.npcov --data strange",
        "select g.npcov --data strange --by random -o out.npz",
        "minimize g.npcov --data strange -o out.npz",
        "explain g.npcov --data strange",
        "lab rq5 g.npcov --data strange --quick -o lab",
    ] {
        let outcome = project.run(command);
        assert_eq!(outcome.code, Some(2), "{command}");
        assert!(
            outcome.stderr.contains("has no `gown`, but `tee`"),
            "{}",
            outcome.stderr
        );
    }
    // Unless the user knows better.
    project.write("gown.txt", CLASSES.join("\n").replace("dress", "gown"));
    succeed(
        &project,
        "cover g.npcov --data strange --class-names gown.txt",
    );
}

#[test]
fn npz_files_name_classes_and_samples() {
    let project = Project::new();
    let images = project.rows("fashion-1000.npz", "x");
    let labels = project.rows("fashion-1000.npz", "y");
    let mut writer = NpzWriter::create(project.path("bags.npz"), Compression::Deflated).unwrap();
    let x = writer.array::<f32>("x", &[28, 28]).unwrap();
    let y = writer.array::<i64>("y", &[]).unwrap();
    let mut names = Vec::new();
    for (i, image) in images
        .iter()
        .enumerate()
        .filter(|(i, _)| labels[*i] == [8.0])
        .take(12)
    {
        writer.append(&x, image).unwrap();
        writer.append(&y, &[0]).unwrap();
        names.push(format!("shop/{i}.jpg"));
    }
    writer.texts("name", &names).unwrap();
    writer.texts("class_names", &["bag".to_owned()]).unwrap();
    writer.finish().unwrap();
    project.write("classes.txt", CLASSES.join("\n"));
    let found = json(
        &project,
        "explain lenet.onnx --data bags.npz --divide 255 --class-names classes.txt --index 3 \
         --no-heatmap",
    );
    assert_eq!(found["sample"], Value::from(names[3].as_str()));
    assert_eq!(found["label"], 8);
}

#[test]
fn predictions_explanations_and_adversaries_are_named() {
    let project = with_images();
    let data = "lenet.onnx --data two --divide 255 --class-names classes.txt";
    for (command, names) in [
        (
            "predict --limit 3",
            ["bag/000.png", "bag/001.png", "bag/002.png"].as_slice(),
        ),
        ("explain --index 2 --no-heatmap", &["bag/002.png"]),
        (
            "attack --limit 2 --steps 1",
            &["bag/000.png", "bag/001.png"],
        ),
    ] {
        succeed(&project, &format!("{command} {data} -o out.npz"));
        assert_eq!(project.texts("out.npz", "name"), names, "{command}");
        assert_eq!(project.texts("out.npz", "class_names"), CLASSES);
    }
}

#[test]
fn samples_are_named_in_tables_and_files() {
    let project = with_images();
    succeed(
        &project,
        "build lenet.onnx --data all --divide 255 --clusters 1 --class-names classes.txt -o g.npcov",
    );
    succeed(
        &project,
        "cover g.npcov --data two --limit 9 --inputs i.npz",
    );
    let names = project.texts("i.npz", "name");
    assert_eq!((names.len(), names[8].as_str()), (9, "bag/008.png"));
    // Rows of arrays have no name but their number.
    succeed(
        &project,
        "cover g.npcov --data fashion-1000.npz --shard 2/100 --inputs i.npz",
    );
    assert_eq!(project.texts("i.npz", "name")[0], "10");
    let select = "select g.npcov --data two --by score:deepgini --count 3 -o out.npz";
    assert_snapshot!(project.snapshot(select));
    let chosen = json(&project, select);
    let samples: Vec<&str> = chosen["chosen"]
        .as_array()
        .unwrap()
        .iter()
        .map(|input| input["sample"].as_str().unwrap())
        .collect();
    assert_eq!(project.texts("out.npz", "name"), samples);
    assert_eq!(project.texts("out.npz", "class_names"), CLASSES);
    // What was selected is data again, with its names.
    let again = json(
        &project,
        "select g.npcov --data out.npz --by random -o again.npz",
    );
    let mut first = samples.clone();
    let mut second: Vec<&str> = again["chosen"]
        .as_array()
        .unwrap()
        .iter()
        .map(|input| input["sample"].as_str().unwrap())
        .collect();
    first.sort_unstable();
    second.sort_unstable();
    assert_eq!(first, second);
}
