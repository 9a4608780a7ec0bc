//! Relevances as other people's programs compute them: zennit, captum, and the definition in
//! float64. `fixtures/README.md` tells how they were made to meet npcov's.

#![allow(clippy::print_stdout, reason = "the distances are for people to read")]

mod support;

use npcov::data::Source;
use npcov::data::npz::Archive;
use npcov::graph::{Classifier, Graph, fold_batch_norm};
use npcov::program::{
    Attribution, Bias, ExplainOutputs, GradientTimesInput, LayerOptions, Lrp, NetworkView, Place,
    Rules, explain, path_layers,
};
use serde_json::Value;
use support::{fixture, graph, images, run};

/// Allowed distance, as a part of the largest number of an array...
const TOLERANCE: f64 = 1e-4;

/// ...or this many times the distance at which the other program is from itself in float32.
const FLOAT32_ERRORS: f64 = 3.0;

/// The part of the command line that says how to explain.
struct Arguments {
    rules: Rules,
    fold: bool,
    gradient: bool,
}

impl Arguments {
    fn read(words: &[&str]) -> Arguments {
        let mut read = Arguments {
            rules: Rules::default(),
            fold: false,
            gradient: false,
        };
        for pair in words.chunks(2) {
            match *pair {
                ["--rule", rule] => match rule.split_once('=') {
                    // An option of a rule has an equals sign too, behind the rule's name.
                    Some((place, rule)) if !place.contains(':') => {
                        let place: Place = place.parse().unwrap();
                        read.rules.overrides.push((place, rule.parse().unwrap()));
                    }
                    _ => read.rules.linear = rule.parse().unwrap(),
                },
                ["--bias", "ignore"] => read.rules.bias = Bias::Ignore,
                ["--bias", "absorb"] => read.rules.bias = Bias::Absorb,
                ["--batch-norm", "identity"] => read.fold = false,
                ["--batch-norm", "fold"] => read.fold = true,
                ["--attribution", "gradient-input"] => read.gradient = true,
                _ => panic!("unknown arguments {pair:?}"),
            }
        }
        read
    }

    fn attribution(self) -> Box<dyn Attribution> {
        match self.gradient {
            true => Box::new(GradientTimesInput),
            false => Box::new(Lrp { rules: self.rules }),
        }
    }
}

/// Logits and relevances by name, for the first images.
fn explained(graph: &Graph, arguments: Arguments, count: usize) -> Vec<(String, Vec<f32>)> {
    let folded = arguments.fold.then(|| fold_batch_norm(graph).unwrap());
    let graph = folded.as_ref().unwrap_or(graph);
    let classifier = Classifier::find(graph, graph.outputs()[0]);
    let layers = path_layers(graph, &classifier, 1, &LayerOptions::default()).unwrap();
    let view = NetworkView {
        graph,
        classifier: &classifier,
        layers: &layers,
        batch: 1,
    };
    let options = ExplainOutputs {
        input: true,
        ..ExplainOutputs::default()
    };
    let program = explain(&view, arguments.attribution().as_ref(), &options).unwrap();
    let outputs = run(&program.graph, count, &[&images(graph, count)]);
    program.output_names().into_iter().zip(outputs).collect()
}

/// The largest distance of two arrays as a part of the largest expected number.
fn distance(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let largest = expected
        .iter()
        .fold(0.0f64, |m, &x| m.max(f64::from(x.abs())));
    let pairs = found.iter().zip(expected);
    let distances = pairs.map(|(&a, &b)| (f64::from(a) - f64::from(b)).abs());
    let worst = distances.fold(0.0, |m: f64, d| if d > m || d.is_nan() { d } else { m });
    assert!(worst.is_finite(), "not a number");
    worst / largest
}

fn array(archive: &Archive, name: &str) -> Option<Vec<f32>> {
    let rows = archive.array(name).unwrap()?;
    let mut numbers = vec![0.0; rows.len() * rows.sample_len()];
    rows.read_f32(0..rows.len(), &mut Vec::new(), &mut numbers)
        .unwrap();
    Some(numbers)
}

/// Checks all cases of relevance that `is_wanted` takes, and returns how many those are.
fn check(is_wanted: impl Fn(&str) -> bool) -> usize {
    let cases = std::fs::read(fixture("oracles/cases.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_slice(&cases).unwrap();
    let text = |case: &Value, key: &str| case[key].as_str().unwrap().to_owned();
    let mut checked = 0;
    let mut wrong = Vec::new();
    let heads = ["case", "layers", "input", "allowed"];
    println!(
        "{:<50} {:>9} {:>9} {:>9}",
        heads[0], heads[1], heads[2], heads[3]
    );
    for case in cases.iter().filter(|c| c["kind"] == "relevance") {
        let name = text(case, "name");
        if !is_wanted(&name) {
            continue;
        }
        let words = case["arguments"].as_array().unwrap();
        let words: Vec<&str> = words.iter().map(|w| w.as_str().unwrap()).collect();
        let count = usize::try_from(case["images"].as_u64().unwrap()).unwrap();
        let graph = graph(&text(case, "model"));
        let found = explained(&graph, Arguments::read(&words), count);

        let file = fixture("oracles").join(text(case, "file"));
        let archive = Archive::open(Source::open(&file).unwrap()).unwrap();
        let mut expected: Vec<&str> = archive.names().collect();
        let mut names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        expected.sort_unstable();
        names.sort_unstable();
        assert_eq!(names, expected, "{name}");

        let allowed = TOLERANCE.max(FLOAT32_ERRORS * case["float32_error"].as_f64().unwrap());
        // Input relevances are stored with fewer digits, so the two are worth telling apart.
        let (mut layers, mut input) = (0.0f64, 0.0f64);
        for (name, numbers) in &found {
            let distance = distance(numbers, &array(&archive, name).unwrap());
            let worst = match name.as_str() {
                "relevance.input" => &mut input,
                _ => &mut layers,
            };
            *worst = worst.max(distance);
        }
        println!("{name:<50} {layers:>9.1e} {input:>9.1e} {allowed:>9.1e}");
        if layers.max(input) > allowed {
            wrong.push(name);
        }
        checked += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join(", "));
    checked
}

#[test]
fn relevances_by_zennit() {
    assert_eq!(check(|name| name.contains("-zennit-")), 33);
}

#[test]
fn relevances_by_captum() {
    let is_lrp = |name: &str| name.contains("-captum-") && !name.contains("gradient-input");
    assert_eq!(check(is_lrp), 3);
}

#[test]
fn gradient_times_input_by_captum() {
    assert_eq!(check(|name| name.contains("-captum-gradient-input")), 5);
}

#[test]
fn relevances_by_definition() {
    assert_eq!(check(|name| name.contains("-definition")), 6);
}

#[test]
fn relevances_of_recurrent_layers_by_arras() {
    assert_eq!(check(|name| name.contains("-arras-")), 3);
}
