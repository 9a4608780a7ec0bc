//! Transformers: their relevances as LXT computes them, and what the preset for them conserves.
//! `scripts/attention_oracles.py` tells how the fixtures were made.

#![allow(clippy::print_stdout, reason = "the distances are for people to read")]

mod support;

use npcov::data::Source;
use npcov::data::npz::Archive;
use npcov::graph::{Classifier, Graph};
use npcov::program::{
    AttnLrp, Attribution, EPSILON, ExplainOutputs, LayerKind, LayerOptions, Lrp, NetworkView,
    PathLayer, Place, Preset, Program, Rule, Rules, explain, path_layers,
};
use support::{fixture, graph, images, run};

/// Allowed distance from LXT, and of ONNX operators from kernels, as a part of the largest number
/// of an array.
const TOLERANCE: f64 = 1e-4;

/// Inputs of each fixture.
const INPUTS: usize = 16;

fn array(archive: &Archive, name: &str) -> Option<Vec<f32>> {
    let rows = archive.array(name).unwrap()?;
    let mut numbers = vec![0.0; rows.len() * rows.sample_len()];
    rows.read_f32(0..rows.len(), &mut Vec::new(), &mut numbers)
        .unwrap();
    Some(numbers)
}

fn archive(name: &str) -> Archive {
    let file = fixture(&format!("attention/{name}.npz"));
    Archive::open(Source::open(&file).unwrap()).unwrap()
}

/// The inputs of a fixture, in the order of the model's.
fn inputs(name: &str) -> Vec<Vec<f32>> {
    let archive = archive(name);
    let names = ["x", "input_ids", "attention_mask"];
    names.iter().filter_map(|n| array(&archive, n)).collect()
}

struct Explained {
    layers: Vec<PathLayer>,
    program: Program,
    outputs: Vec<(String, Vec<f32>)>,
}

fn explained(
    graph: &Graph,
    attribution: &dyn Attribution,
    options: &LayerOptions,
    inputs: &[Vec<f32>],
    count: usize,
) -> Explained {
    let classifier = Classifier::find(graph, graph.outputs()[0]);
    let layers = path_layers(graph, &classifier, 1, options).unwrap();
    let view = NetworkView {
        graph,
        classifier: &classifier,
        layers: &layers,
        batch: 1,
    };
    let outputs = ExplainOutputs {
        input: true,
        activations: true,
        ..ExplainOutputs::default()
    };
    let program = explain(&view, attribution, &outputs).unwrap();
    let slices: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let outputs = run(&program.graph, count, &slices);
    let lowered = run(&program.graph.lowered(|_| true).unwrap(), count, &slices);
    for (kernels, plain) in outputs.iter().zip(&lowered) {
        assert!(distance(kernels, plain) <= TOLERANCE);
    }
    let outputs = program.output_names().into_iter().zip(outputs).collect();
    Explained {
        layers,
        program,
        outputs,
    }
}

fn output<'e>(explained: &'e Explained, name: &str) -> &'e [f32] {
    let found = explained.outputs.iter().find(|(n, _)| n == name);
    &found.unwrap().1
}

/// The largest distance of two arrays as a part of the largest expected number.
fn distance(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0f32, |m, &x| m.max(x.abs()));
    let pairs = found.iter().zip(expected);
    let worst = pairs.map(|(&a, &b)| (f64::from(a) - f64::from(b)).abs());
    let worst = worst.fold(0.0, |m: f64, d| if d > m || d.is_nan() { d } else { m });
    match largest {
        0.0 => worst,
        largest => worst / f64::from(largest),
    }
}

#[test]
fn attnlrp_is_what_lxt_computes() {
    for name in ["vit", "bert", "bert-mask"] {
        let graph = graph(&format!("attention/{name}.onnx"));
        let found = explained(
            &graph,
            &AttnLrp,
            &LayerOptions::default(),
            &inputs(name),
            INPUTS,
        );
        let archive = archive(name);
        for array_name in ["logits", "relevance.0", "relevance.1", "relevance.input"] {
            let expected = array(&archive, array_name).unwrap();
            let distance = distance(output(&found, array_name), &expected);
            println!("{name:<10} {array_name:<16} {distance:.1e}");
            assert!(distance <= TOLERANCE, "{name}, {array_name}: {distance}");
        }
    }
}

/// By input: the sum of a layer's relevances as a part of the logit that is shared out.
fn sums(found: &Explained, name: &str, count: usize) -> Vec<f64> {
    let logits = output(found, "logits");
    let relevances = output(found, name);
    let rows = logits.chunks(logits.len() / count);
    rows.zip(relevances.chunks(relevances.len() / count))
        .map(|(logits, relevances)| {
            let largest = logits.iter().copied().fold(f32::MIN, f32::max);
            let seed = if largest > 0.0 { largest } else { 1.0 };
            relevances.iter().map(|&r| f64::from(r)).sum::<f64>() / f64::from(seed)
        })
        .collect()
}

/// The largest distance from 1 of the sums of relevances on the cuts of a model.
fn lost_on_cuts(name: &str, rules: &Rules) -> f64 {
    let all_kinds = LayerOptions {
        kinds: LayerKind::ALL.to_vec(),
        ..LayerOptions::default()
    };
    let graph = graph(name);
    assert_eq!(Preset::of(&graph), Preset::Transformer, "{name}");
    let lrp = Lrp {
        rules: rules.clone(),
    };
    let (inputs, count) = match name.strip_prefix("attention/") {
        Some(name) => (inputs(name.strip_suffix(".onnx").unwrap()), INPUTS),
        None => (vec![images(&graph, 64)], 64),
    };
    let found = explained(&graph, &lrp, &all_kinds, &inputs, count);
    let cuts = (found.layers.iter().enumerate()).filter(|(_, layer)| layer.cut);
    let mut names: Vec<String> = cuts.map(|(i, _)| format!("relevance.{i}")).collect();
    assert!(names.len() >= 2, "{name}: {:?}", found.layers);
    // In front of the first layer of an image are units that nothing contributes to, and a class
    // token that is a constant: only words are a cut.
    if name == "attention/bert.onnx" {
        names.push("relevance.input".to_owned());
    }
    let mut most = 0.0;
    for cut in names {
        let distances = sums(&found, &cut, count).into_iter();
        let worst = distances.fold(0.0, |m: f64, sum| m.max((sum - 1.0).abs()));
        println!("{name:<22} {cut:<16} {worst:.1e}");
        most = f64::max(most, worst);
    }
    most
}

#[test]
fn the_preset_for_transformers_conserves_relevance_on_cuts() {
    let preset = Preset::Transformer.rules();
    for name in ["vit.onnx", "attention/vit.onnx", "attention/bert.onnx"] {
        let lost = lost_on_cuts(name, &preset);
        assert!(lost <= 5e-5, "{name}: {lost}");
    }
    // Random weights make small sums, and the stabiliser of other presets takes 2.3e-3 of a small logit.
    let usual = Rules {
        linear: Rule::NPC,
        overrides: vec![(Place::Attention, Rule::epsilon(EPSILON))],
        ..preset
    };
    assert!(lost_on_cuts("attention/vit.onnx", &usual) > 1e-3);
}

#[test]
fn padding_is_no_part_of_neurons() {
    let graph = graph("attention/bert-mask.onnx");
    let lrp = Lrp {
        rules: Preset::Transformer.rules(),
    };
    let given = inputs("bert-mask");
    let options = LayerOptions::default();
    let found = explained(&graph, &lrp, &options, &given, INPUTS);
    assert!(found.layers[0].elements.padding.is_some());
    // Other words in the padding change nothing.
    let mut other = given.clone();
    for (id, &counts) in other[0].iter_mut().zip(&given[1]) {
        if counts == 0.0 {
            *id = 7.0;
        }
    }
    assert_ne!(other, given);
    let again = explained(&graph, &lrp, &options, &other, INPUTS);
    for ((name, a), (_, b)) in found.outputs.iter().zip(&again.outputs) {
        assert!(distance(a, b) <= 1e-5, "{name}");
    }
    // An input of 12 tokens without padding has the mean of all.
    let relevance = output(&found, "relevance.input");
    for (relevance, mask) in relevance.chunks(12).zip(given[1].chunks(12)) {
        for (r, m) in relevance.iter().zip(mask) {
            assert!(*m > 0.0 || r.abs() < 1e-6, "{r}");
        }
    }
}

#[test]
fn heads_residual_streams_and_single_tokens_are_layers() {
    let graph = graph("attention/vit.onnx");
    let lrp = Lrp {
        rules: Preset::Transformer.rules(),
    };
    let given = inputs("vit");
    let of = |kinds: &[LayerKind], token: Option<usize>| {
        let options = LayerOptions {
            kinds: kinds.to_vec(),
            token,
            ..LayerOptions::default()
        };
        explained(&graph, &lrp, &options, &given, INPUTS)
    };
    let heads = of(&[LayerKind::Heads], None);
    let neurons: Vec<usize> = heads.layers.iter().map(|l| l.neurons).collect();
    assert_eq!(neurons, [2, 2]);
    // Lengths are never negative, and nothing is lost between two kinds of sums.
    assert!(output(&heads, "activation.0").iter().all(|&a| a > 0.0));
    let residual = of(&[LayerKind::Residual], None);
    let neurons: Vec<(usize, bool)> = (residual.layers.iter())
        .map(|l| (l.neurons, l.cut))
        .collect();
    assert_eq!(neurons, [(16, true), (16, true)]);

    // The sums of single tokens are the sums of all.
    let all = of(&[], None);
    let whole = output(&all, "relevance.0");
    let mut sum = vec![0.0; whole.len()];
    for token in 0..10 {
        let one = of(&[], Some(token));
        for (sum, r) in sum.iter_mut().zip(output(&one, "relevance.0")) {
            *sum += r;
        }
    }
    assert!(distance(&sum, whole) <= 1e-5);
    assert!(
        all.program
            .output_names()
            .contains(&"activation.1".to_owned())
    );
    let options = LayerOptions {
        token: Some(10),
        ..LayerOptions::default()
    };
    let classifier = Classifier::find(&graph, graph.outputs()[0]);
    let error = path_layers(&graph, &classifier, 1, &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no token 10: the path layers have 10 tokens"
    );
}
