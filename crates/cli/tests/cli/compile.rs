//! `npcov compile`.
//!
//! What the files compute in ONNX Runtime is checked by `scripts/agreement_relevance.py` and `agreement_tasks.py`.

use insta::assert_snapshot;
use npcov::engine::Engine;
use npcov::engine::native::Native;
use npcov::graph::{OnnxModel, Specialisation};

use crate::support::Project;

#[test]
fn a_trace_is_a_model_again() {
    let project = Project::new();
    assert_snapshot!(project.snapshot("compile lenet.onnx --program trace -o trace.onnx"));
    let data = "--data fashion-1000.npz --divide 255 --limit 50";
    for (model, out) in [("lenet", "a"), ("trace", "b")] {
        let outcome = project.run(&format!("predict {model}.onnx {data} --output {out}.npz"));
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    }
    let logits = |file: &str| project.rows(file, "logits");
    assert_eq!(logits("a.npz"), logits("b.npz"));
    // The activations of the first are outputs of the second.
    let command = format!("predict trace.onnx {data} --output-name activation.1 --output c.npz");
    let outcome = project.run(&command);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(project.rows("a.npz", "activation.1"), logits("c.npz"));
}

#[test]
fn masks_switch_neurons_off() {
    let project = Project::new();
    assert_snapshot!(project.snapshot("compile lenet.onnx --program mask --batch 2 -o mask.onnx"));
    let model = OnnxModel::read(project.path("mask.onnx")).unwrap();
    let graph = model.specialise(&Specialisation::default()).unwrap();
    let pixels = &project.rows("fashion-1000.npz", "x")[..2];
    let image: Vec<f32> = pixels.concat().iter().map(|x| x / 255.0).collect();
    let run = |last: f32| {
        let masks = [vec![1.0; 12], vec![1.0; 24], vec![last; 128]];
        let mut inputs = vec![image.as_slice()];
        inputs.extend(masks.iter().map(Vec::as_slice));
        Native::default()
            .run_once(&graph, 1, &inputs)
            .unwrap()
            .concat()
    };
    let command = "predict lenet.onnx --data fashion-1000.npz --divide 255 --limit 2";
    assert_eq!(
        project.run(&format!("{command} --output out.npz")).code,
        Some(0)
    );
    assert_eq!(run(1.0), project.rows("out.npz", "logits").concat());
    // Without the last hidden layer only biases are left: the same for all inputs.
    let off = run(0.0);
    assert!(off != run(1.0) && off[..10] == off[10..]);
}

#[test]
fn relevances_and_gradients() {
    let project = Project::new();
    // Relevances are the default.
    let command = "compile resnet8.onnx --input-relevance --batch 4 -o out.onnx";
    assert_snapshot!(project.snapshot(command));
    assert_snapshot!(project.snapshot("compile keras.onnx --program gradient -o out.onnx"));
    let command = "compile lenet.onnx --program gradient --loss margin -o out.onnx --format json";
    assert_snapshot!(project.snapshot(command));
    let command = "compile mobilenet.onnx --program explain --batch-norm fold --rule zplus \
                   --class 3 -o out.onnx";
    assert_eq!(project.run(command).code, Some(0));
}

/// A file of numbers explains what `explain` does, in every direction; without data it has to be told the reference.
#[test]
fn numbers_are_explained_from_a_given_reference() {
    let project = Project::new();
    let rows = 20;
    let explain = "explain prices.onnx --data prices-test.csv --label-column price --limit 20";
    let table = std::fs::read_to_string(project.path("prices-test.csv")).unwrap();
    let numbers = |line: &str| -> Vec<f32> {
        let all: Vec<f32> = line.split(',').map(|x| x.parse().unwrap()).collect();
        all[..9].to_vec()
    };
    assert!(table.lines().next().unwrap().ends_with("price"));
    let x: Vec<f32> = table.lines().skip(1).take(rows).flat_map(numbers).collect();
    for direction in ["deviation", "output", "up", "from-reference"] {
        let options =
            format!("--task regression --reference 3000 --direction {direction} --input-relevance");
        let outcome = project.run(&format!("{explain} {options} --output out.npz"));
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let command = format!(
            "compile prices.onnx --program explain {options} --batch {rows} -o program.onnx"
        );
        let outcome = project.run(&command);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let model = OnnxModel::read(project.path("program.onnx")).unwrap();
        let graph = model.specialise(&Specialisation::default()).unwrap();
        let found = Native::default().run_once(&graph, 1, &[&x]).unwrap();
        for (found, name) in
            found
                .iter()
                .zip(["logits", "relevance.0", "relevance.1", "relevance.input"])
        {
            let expected = project.rows("out.npz", name).concat();
            let largest = expected.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
            assert_eq!(found.len(), expected.len());
            for (a, b) in found.iter().zip(&expected) {
                assert!(
                    (a - b).abs() <= 1e-4 * largest,
                    "{direction}, {name}: {a} for {b}"
                );
            }
        }
    }
    let outcome =
        project.run("compile prices.onnx --program explain --task regression -o program.onnx");
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("no data to learn it from"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn errors() {
    let project = Project::new();
    for (name, arguments) in [
        (
            "batch",
            "lenet-batch1-flatten.onnx --program explain --batch 8",
        ),
        ("batch_zero", "lenet.onnx --program explain --batch 0"),
        ("rules", "lenet.onnx --program trace --rule zplus"),
        ("loss", "lenet.onnx --program explain --loss margin"),
        ("program", "lenet.onnx --program path"),
        ("class", "lenet.onnx --program explain --class 10"),
    ] {
        let snapshot = project.snapshot(&format!("compile {arguments} -o out.onnx"));
        assert!(snapshot.contains("exit code: 2"), "{snapshot}");
        assert_snapshot!(format!("error_{name}"), snapshot);
    }
    assert!(!project.path("out.onnx").exists());
    let command = "compile lenet.onnx --program trace -o lenet.onnx";
    assert_snapshot!(project.snapshot(command));
}
