//! Gradients as PyTorch's autograd computes them in float64.

#![allow(clippy::print_stdout, reason = "the distances are for people to read")]

mod support;

use npcov::data::Source;
use npcov::data::npz::Archive;
use npcov::graph::Classifier;
use npcov::program::{LayerOptions, Loss, NetworkView, Term, gradient, path_layers};
use serde_json::Value;
use support::{fixture, graph, images, run};

/// Allowed distance, as a part of an image's largest number...
const TOLERANCE: f64 = 1e-4;

/// ...or this many times the distance at which autograd is from itself in float32.
const FLOAT32_ERRORS: f64 = 3.0;

/// The loss that the arguments of a case describe, for a model of so many path layers.
fn loss(arguments: &[&str], layers: usize) -> Loss {
    let mut loss = Loss::default();
    for pair in arguments.chunks(2) {
        match *pair {
            ["--loss", "cross-entropy"] => loss.terms.push((1.0, Term::CrossEntropy)),
            ["--loss", "margin"] => loss.terms.push((1.0, Term::Margin)),
            ["--div", weight] => {
                let weight = weight.parse().unwrap();
                let terms = (0..layers).map(|layer| (weight, Term::Divergence { layer }));
                loss.terms.extend(terms);
            }
            _ => panic!("unknown arguments {pair:?}"),
        }
    }
    loss
}

fn array(archive: &Archive, name: &str) -> Vec<f32> {
    let rows = archive.array(name).unwrap().unwrap();
    let mut numbers = vec![0.0; rows.len() * rows.sample_len()];
    rows.read_f32(0..rows.len(), &mut Vec::new(), &mut numbers)
        .unwrap();
    numbers
}

/// The largest distance within an image, as a part of its largest expected number, or of `least`
/// where that is larger.
fn distance(found: &[f32], expected: &[f32], images: usize, least: f32) -> f64 {
    assert_eq!(found.len(), expected.len());
    let len = expected.len() / images;
    let rows = found.chunks(len).zip(expected.chunks(len));
    let distances = rows.map(|(found, expected)| {
        let largest = expected.iter().fold(least, |m, x| m.max(x.abs()));
        let pairs = found.iter().zip(expected);
        let worst = pairs.fold(0.0f64, |m, (&a, &b)| {
            assert!(a.is_finite(), "not a number");
            m.max((f64::from(a) - f64::from(b)).abs())
        });
        worst / f64::from(largest)
    });
    distances.fold(0.0, f64::max)
}

#[test]
fn gradients_by_autograd() {
    let cases = std::fs::read(fixture("oracles/cases.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_slice(&cases).unwrap();
    let text = |case: &Value, key: &str| case[key].as_str().unwrap().to_owned();
    let mut checked = 0;
    let mut wrong = Vec::new();
    println!(
        "{:<40} {:>9} {:>9} {:>9}",
        "case", "loss", "gradient", "allowed"
    );
    for case in cases.iter().filter(|c| c["kind"] == "gradient") {
        let name = text(case, "name");
        let words = case["arguments"].as_array().unwrap();
        let words: Vec<&str> = words.iter().map(|w| w.as_str().unwrap()).collect();
        let count = usize::try_from(case["images"].as_u64().unwrap()).unwrap();
        let file = fixture("oracles").join(text(case, "file"));
        let archive = Archive::open(Source::open(&file).unwrap()).unwrap();

        let graph = graph(&text(case, "model"));
        let classifier = Classifier::find(&graph, graph.outputs()[0]);
        let layers = path_layers(&graph, &classifier, 1, &LayerOptions::default()).unwrap();
        let view = NetworkView {
            graph: &graph,
            classifier: &classifier,
            layers: &layers,
            batch: 1,
        };
        let program = gradient(&view, &loss(&words, layers.len())).unwrap();
        let label = array(&archive, "label");
        let found = run(&program.graph, count, &[&images(&graph, count), &label]);

        let allowed = TOLERANCE.max(FLOAT32_ERRORS * case["float32_error"].as_f64().unwrap());
        let names = program.output_names();
        assert_eq!(names, ["logits", "loss", "gradient.input"]);
        // The loss of a sure prediction is the logarithm of almost one, which float32 knows to
        // 1e-7 and no better.
        let [loss, gradient] = [(1, 1e-2), (2, 0.0)].map(|(position, least)| {
            let expected = array(&archive, &names[position]);
            distance(&found[position], &expected, count, least)
        });
        println!("{name:<40} {loss:>9.1e} {gradient:>9.1e} {allowed:>9.1e}");
        if loss.max(gradient) > allowed {
            wrong.push(name);
        }
        checked += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join(", "));
    assert_eq!(checked, 12);
}
