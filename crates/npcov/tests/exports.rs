//! Exports of other libraries, against what ONNX Runtime makes of them: `fixtures/exports`, which
//! `scripts/exports.py` wrote.

use std::path::PathBuf;

use npcov::data::Source;
use npcov::data::npz::Archive;
use npcov::engine::Engine;
use npcov::engine::native::Native;
use npcov::graph::{Ending, Graph, OnnxModel};
use npcov::program::{ExplainOutputs, Loss, Lrp, Term, explain, gradient, mask};
use npcov::run::{ModelOptions, Network};

/// How far logits may be from ONNX Runtime's, as a part of the largest of an input.
const TOLERANCE: f32 = 1e-4;

/// An export, its inputs and the first output of floating-point numbers.
struct Export {
    network: Network,
    x: Vec<f32>,
    count: usize,
    output: Vec<f32>,
}

fn fixture(file: &str) -> PathBuf {
    let crate_folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    crate_folder.join("../../fixtures").join(file)
}

/// All outputs of a program for `count` inputs.
fn run(program: &Graph, count: usize, inputs: &[&[f32]]) -> Vec<Vec<f32>> {
    Native::default().run_once(program, count, inputs).unwrap()
}

fn array(file: &str, wanted: impl Fn(&str) -> bool) -> (usize, Vec<f32>) {
    let archive = Archive::open(Source::open(&fixture(file)).unwrap()).unwrap();
    let names: Vec<String> = archive.names().map(str::to_owned).collect();
    let name = names.into_iter().find(|name| wanted(name)).unwrap();
    let rows = archive.array(&name).unwrap().unwrap();
    let mut numbers = vec![0.0; rows.len() * rows.sample_len()];
    rows.read_f32(0..rows.len(), &mut Vec::new(), &mut numbers)
        .unwrap();
    (rows.len(), numbers)
}

fn open(name: &str) -> Export {
    let model = OnnxModel::read(fixture(&format!("exports/{name}.onnx"))).unwrap();
    let network = Network::new(model, &ModelOptions::default()).unwrap();
    let (count, x) = array(&format!("exports/{name}.npz"), |name| name != "y");
    let outputs = format!("exports/{name}-outputs.npz");
    let (_, output) = array(&outputs, |name| !name.ends_with("label"));
    Export {
        network,
        x,
        count,
        output,
    }
}

impl Export {
    fn logits(&self) -> Vec<f32> {
        let mut program = self.network.graph().clone();
        program.set_outputs(vec![self.network.classifier().logits]);
        run(&program.pruned(), self.count, &[&self.x]).remove(0)
    }

    /// The output that the logits make.
    fn outputs(&self) -> Vec<f32> {
        let logits = self.logits();
        let classes = logits.len() / self.count;
        let ending = self.network.classifier().ending;
        let row = |z: &[f32]| -> Vec<f32> {
            match ending {
                Ending::Logits | Ending::Smallest | Ending::Numbers => z.to_vec(),
                Ending::Sigmoid => {
                    let p = 1.0 / (1.0 + (-z[0]).exp());
                    vec![1.0 - p, p]
                }
                Ending::Softmax | Ending::LogSoftmax => {
                    let largest = z.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    let e: Vec<f32> = z.iter().map(|z| (z - largest).exp()).collect();
                    let sum: f32 = e.iter().sum();
                    e.iter().map(|e| e / sum).collect()
                }
            }
        };
        logits.chunks_exact(classes).flat_map(row).collect()
    }

    /// The largest difference from ONNX Runtime, as a part of the largest number of each input.
    fn distance(&self) -> f32 {
        let found = self.outputs();
        assert_eq!(found.len(), self.output.len());
        let width = found.len() / self.count;
        let rows = found
            .chunks_exact(width)
            .zip(self.output.chunks_exact(width));
        let distances = rows.map(|(a, b)| {
            let largest = b.iter().fold(0.0f32, |m, x| m.max(x.abs()));
            let apart = a.iter().zip(b).map(|(a, b)| (a - b).abs());
            apart.fold(0.0, f32::max) / largest
        });
        distances.fold(0.0, f32::max)
    }
}

#[test]
fn tables_and_volumes_agree_with_onnx_runtime() {
    for (name, ending, layers, tolerance) in [
        ("conv3d", Ending::Logits, 3, TOLERANCE),
        ("half", Ending::Logits, 3, 2e-3),
        ("sklearn-logistic", Ending::Softmax, 0, TOLERANCE),
        ("sklearn-mlp-two", Ending::Sigmoid, 2, TOLERANCE),
        ("sklearn-pipeline-long", Ending::Softmax, 2, TOLERANCE),
        ("sklearn-encoded", Ending::Softmax, 2, TOLERANCE),
    ] {
        let export = open(name);
        assert_eq!(export.network.classifier().ending, ending, "{name}");
        assert_eq!(export.network.layers().len(), layers, "{name}");
        let distance = export.distance();
        assert!(distance <= tolerance, "{name}: {distance}");
    }
}

/// Integers that stand for weights are parameters: 70,788 weights and biases, and scales and zero points.
#[test]
fn weights_of_8_bits_are_parameters() {
    for (name, expected) in [
        ("qdq-cnn", 71_134),
        ("qoperator-cnn", 70_806),
        ("dynamic-cnn", 70_796),
    ] {
        let model = OnnxModel::read(fixture(&format!("exports/{name}.onnx"))).unwrap();
        assert_eq!(model.parameters(), expected, "{name}");
    }
}

/// 8-bit integers: the same class, and logits within two steps of the output, or two 255ths of its
/// range where the output is not quantised.
#[test]
fn quantised_models_agree_with_onnx_runtime() {
    for (name, layers) in [
        ("qdq-cnn", 3),
        ("qoperator-cnn", 3),
        ("dynamic-cnn", 3),
        ("dynamic-mlp", 2),
    ] {
        let export = open(name);
        assert_eq!(export.network.layers().len(), layers, "{name}");
        let (found, expected) = (export.outputs(), &export.output);
        let largest = expected.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let smallest = expected.iter().copied().fold(f32::INFINITY, f32::min);
        let apart = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
        let apart = apart.fold(0.0, f32::max);
        assert!(
            apart <= 2.0 * (largest - smallest) / 255.0,
            "{name}: {apart}"
        );
        let classes = found.len() / export.count;
        let best = |row: &[f32]| (0..classes).max_by(|&a, &b| row[a].total_cmp(&row[b]));
        let rows = found
            .chunks_exact(classes)
            .zip(expected.chunks_exact(classes));
        let same = rows.filter(|(a, b)| best(a) == best(b)).count();
        assert_eq!(same, export.count, "{name}");
    }
}

#[test]
fn relevance_of_volumes_and_of_quantised_layers_is_conserved() {
    for name in ["conv3d", "qdq-cnn", "qoperator-cnn", "dynamic-cnn"] {
        let export = open(name);
        let lrp = Lrp::default();
        let program = explain(&export.network.view(), &lrp, &ExplainOutputs::default()).unwrap();
        let found = run(&program.graph, export.count, &[&export.x]);
        let classes = found[0].len() / export.count;
        for (i, layer) in export.network.layers().iter().enumerate() {
            assert!(layer.cut, "{name}: {}", layer.name);
            let rows = found[1 + i].chunks_exact(layer.neurons);
            for (relevances, logits) in rows.zip(found[0].chunks_exact(classes)) {
                let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let seed = if best > 0.0 { best } else { 1.0 };
                let sum: f32 = relevances.iter().sum();
                let share = sum / seed;
                assert!(
                    (share - 1.0).abs() < 1e-3,
                    "{name}, {}: {share}",
                    layer.name
                );
            }
        }
    }
}

/// The gradient of a loss, beside how much the loss changes when a number of the volume does.
#[test]
fn gradients_of_volumes_are_differences() {
    let export = open("conv3d");
    let view = export.network.view();
    let mut loss = Loss::default();
    loss.terms.push((1.0, Term::CrossEntropy));
    let program = gradient(&view, &loss).unwrap();
    let label = vec![1.0; export.count];
    let at = |x: &[f32]| run(&program.graph, export.count, &[x, &label]);
    let found = at(&export.x);
    let len = export.x.len() / export.count;
    let largest = found[2].iter().fold(0.0f32, |m, g| m.max(g.abs()));
    let step = 1e-2;
    for place in [0, 77, 1000, 2047, len - 1] {
        let moved = |by: f32| {
            let mut x = export.x.clone();
            (0..export.count).for_each(|i| x[i * len + place] += by);
            at(&x).swap_remove(1)
        };
        let (above, below) = (moved(step), moved(-step));
        for i in 0..export.count {
            let difference = (above[i] - below[i]) / (2.0 * step);
            let gradient = found[2][i * len + place];
            let apart = (difference - gradient).abs();
            assert!(apart <= 0.05 * largest, "{place}: {difference}, {gradient}");
        }
    }
}

/// With every neuron on, a masked model is the model; with the last layer off, only the bias is left,
/// which is the same for all inputs.
#[test]
fn neurons_of_volumes_and_of_quantised_layers_can_be_switched_off() {
    for name in ["conv3d", "qdq-cnn", "qoperator-cnn"] {
        let export = open(name);
        let program = mask(&export.network.view()).unwrap();
        let layers = export.network.layers();
        let masked = |last: f32| {
            let masks: Vec<Vec<f32>> = (0..layers.len())
                .map(|l| {
                    let number = if l + 1 == layers.len() { last } else { 1.0 };
                    vec![number; export.count * layers[l].neurons]
                })
                .collect();
            let mut inputs: Vec<&[f32]> = vec![&export.x];
            inputs.extend(masks.iter().map(Vec::as_slice));
            run(&program.graph, export.count, &inputs).remove(0)
        };
        let logits = export.logits();
        assert_eq!(masked(1.0), logits, "{name}");
        let off = masked(0.0);
        let classes = off.len() / export.count;
        let first = &off[..classes];
        assert!(off.chunks_exact(classes).all(|row| row == first), "{name}");
        assert_ne!(off, logits, "{name}");
    }
}

#[test]
fn trees_are_refused_by_name() {
    let model = OnnxModel::read(fixture("exports/sklearn-forest.onnx")).unwrap();
    let error = Network::new(model, &ModelOptions::default()).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("decision trees have neither neurons"),
        "{error}"
    );
}
