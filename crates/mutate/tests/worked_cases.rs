//! Mutants that can be checked by hand, and on networks of the fixtures.

use std::sync::Arc;

use npcov_data::{Arrays, Loader, Preprocessing, open};
use npcov_engine::Engine;
use npcov_engine::native::Native;
use npcov_graph::op::{Gemm, Unary};
use npcov_graph::{DType, Data, Graph, OnnxModel, Op, Tensor, TensorType, ValueId};
use npcov_mutate::{Among, Mutants, MutationOptions, Operator};
use npcov_program::{Edit, mask, mutant};
use npcov_run::{MaskedNetwork, ModelOptions, Network, SampleRange};

fn fixture(name: &str) -> String {
    format!("{}/../../fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn options(operator: Operator, ratio: f64) -> MutationOptions {
    MutationOptions {
        operators: vec![operator],
        ratios: vec![ratio],
        mutants: 3,
        ..MutationOptions::default()
    }
}

/// Dense layers with ReLUs between them: rows of weights, then biases.
fn dense(layers: &[(&[&[f32]], &[f32])]) -> Network {
    let mut graph = Graph::new();
    let inputs = layers[0].0[0].len();
    let mut x = graph.add_input("x", TensorType::new(DType::F32, [1, inputs]));
    let gemm = Op::Gemm(Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    });
    for (i, (rows, biases)) in layers.iter().enumerate() {
        let shape = [rows.len(), rows[0].len()];
        let weights = Tensor::new(shape, Data::F32(rows.concat())).unwrap();
        let weights = graph.add_constant(format!("w{i}"), weights);
        let biases = graph.add_constant(format!("b{i}"), Tensor::vector(biases.to_vec()));
        x = graph
            .push(format!("dense{i}"), gemm.clone(), &[x, weights, biases])
            .unwrap();
        if i + 1 < layers.len() {
            x = graph
                .push(format!("relu{i}"), Op::Unary(Unary::Relu), &[x])
                .unwrap();
        }
    }
    graph.set_outputs(vec![x]);
    let model = OnnxModel::from_bytes(graph.to_onnx().unwrap()).unwrap();
    Network::new(model, &ModelOptions::default()).unwrap()
}

/// What a mutant gives for an input.
fn logits(mutants: &Mutants<'_>, number: usize, x: &[f32]) -> Vec<f32> {
    let graph = mutants.graph(number).unwrap();
    Native::default()
        .run_once(&graph, 1, &[x])
        .unwrap()
        .remove(0)
}

/// A unit with bias 0 whose sum is 2 gives 2; with negated weights it gives 0.
#[test]
fn a_negated_unit_is_off() {
    let network = dense(&[(&[&[2.0]], &[0.0]), (&[&[1.0], &[0.0]], &[0.0, 1.0])]);
    let options = options(Operator::Nai, 1.0);
    let mutants = Mutants::new(&network, &options).unwrap();
    assert_eq!(logits(&mutants, 0, &[1.0]), [0.0, 1.0]);
    assert_eq!(logits(&mutants, 0, &[-1.0]), [2.0, 1.0]);
    // 2 becomes 0, so class 0 is killed; -18, which was cut off, becomes 18, so class 1 is.
    let data = Arrays::new("x", &[2, 1], &[1.0_f32, -9.0][..]).unwrap();
    let data = data.with_labels(vec![0, 1]).unwrap();
    let scale = Preprocessing::default();
    let loader = Loader::new(Arc::new(data), &[1], &scale).unwrap();
    let suite = SampleRange {
        data: &loader,
        range: 0..2,
        threads: 1,
    };
    let state = mutants.measure(&suite, &mut ()).unwrap();
    assert_eq!(state.killed[0].classes, [0, 1]);
    assert_eq!((state.inputs, &state.correct[..]), (2, &[1, 1][..]));
    // The bias keeps its sign.
    let network = dense(&[(&[&[2.0]], &[3.0]), (&[&[1.0], &[0.0]], &[0.0, 1.0])]);
    let mutants = Mutants::new(&network, &options).unwrap();
    assert_eq!(logits(&mutants, 0, &[1.0]), [1.0, 1.0]);
}

#[test]
fn exchanged_neurons_change_places_for_those_behind_them() {
    let network = dense(&[
        (&[&[1.0, 0.0], &[0.0, 1.0]], &[0.0, 0.0]),
        (&[&[1.0, 0.0], &[0.0, 10.0]], &[0.0, 0.0]),
    ]);
    let options = options(Operator::Ns, 1.0);
    let mutants = Mutants::new(&network, &options).unwrap();
    assert_eq!(logits(&mutants, 0, &[3.0, 5.0]), [5.0, 30.0]);
}

#[test]
fn shuffled_weights_are_the_same_weights() {
    let row: [&[f32]; 1] = [&[1.0, 2.0, 4.0, 8.0]];
    let network = dense(&[(&row, &[0.0]), (&[&[1.0], &[0.0]], &[0.0, 0.0])]);
    let options = MutationOptions {
        mutants: 20,
        ..options(Operator::Ws, 1.0)
    };
    let mutants = Mutants::new(&network, &options).unwrap();
    let mut moved = 0;
    for number in 0..20 {
        // All weights together are what they were; one by one they are others.
        assert_eq!(logits(&mutants, number, &[1.0; 4])[0], 15.0);
        moved += usize::from(logits(&mutants, number, &[1.0, 0.0, 0.0, 0.0])[0] != 1.0);
    }
    // A weight stays where it is in one of four.
    assert!((8..20).contains(&moved), "{moved}");
}

#[test]
fn layers_and_activation_functions_are_left_out() {
    let network = dense(&[
        (&[&[1.0], &[-1.0]], &[0.0, 0.0]),
        (&[&[1.0, 2.0], &[2.0, 0.0]], &[0.0, 0.0]),
        (&[&[1.0, 0.0], &[0.0, 1.0]], &[0.5, 0.25]),
    ]);
    let afrm = options(Operator::Afrm, 0.01);
    let mutants = Mutants::new(&network, &afrm).unwrap();
    assert_eq!(mutants.list().len(), 2);
    assert!(mutants.list().iter().all(|m| m.ratio.is_none()));
    let mut found: Vec<Vec<f32>> = (0..2).map(|i| logits(&mutants, i, &[3.0])).collect();
    found.sort_by(|a, b| a.partial_cmp(b).unwrap());
    // 3 and -3 come to the first ReLU. Without it, 3 - 2 * 3 is cut off by the second, without which nothing changes.
    assert_eq!(found, [[0.5, 6.25], [3.5, 6.25]]);
    let ld = options(Operator::Ld, 0.01);
    let mutants = Mutants::new(&network, &ld).unwrap();
    // The middle one and the last one have two inputs and two outputs.
    let mut found: Vec<Vec<f32>> = (0..2).map(|i| logits(&mutants, i, &[3.0])).collect();
    found.sort_by(|a, b| a.partial_cmp(b).unwrap());
    assert_eq!(found, [[3.0, 6.0], [3.5, 0.25]]);
}

#[test]
fn the_share_of_weights_that_is_asked_for_is_fuzzed() {
    let network = Network::open(fixture("lenet.onnx"), &ModelOptions::default()).unwrap();
    let options = MutationOptions {
        sd: 0.25,
        ..options(Operator::Gf, 0.1)
    };
    let mutants = Mutants::new(&network, &options).unwrap();
    let (mut all, mut changed, mut squares) = (0, 0, 0.0);
    for edit in mutants.edits(0) {
        let Edit::Weights { constant, elements } = edit else {
            panic!("only weights are fuzzed");
        };
        let old = network
            .graph()
            .constant(constant)
            .unwrap()
            .as_f32()
            .unwrap();
        all += old.len();
        for (a, b) in old.iter().zip(&elements).filter(|(a, b)| a != b) {
            changed += 1;
            squares += f64::from(a - b).powi(2);
        }
    }
    assert!(
        (changed as f64 / all as f64 - 0.1).abs() < 0.001,
        "{changed} of {all}"
    );
    let sd = (squares / changed as f64).sqrt();
    assert!((sd - 0.25).abs() < 0.02, "{sd}");
}

/// All numbers of a network for an image, by a program with or without masks.
fn run(graph: &Graph, inputs: &[&[f32]]) -> Vec<u32> {
    let found = Native::default()
        .run_once(graph, 1, inputs)
        .unwrap()
        .remove(0);
    found.into_iter().map(f32::to_bits).collect()
}

#[test]
fn silent_neurons_are_masked_neurons() {
    for model in ["lenet.onnx", "resnet8.onnx", "vit.onnx", "lstm.onnx"] {
        let Ok(network) = Network::open(fixture(model), &ModelOptions::default()) else {
            panic!("{model}");
        };
        let options = options(Operator::Neb, 0.2);
        let mutants = Mutants::new(&network, &options).unwrap();
        let sizes: Vec<usize> = network
            .signature()
            .inputs()
            .iter()
            .map(|i| i.shape.iter().product())
            .collect();
        let inputs: Vec<Vec<f32>> = sizes
            .iter()
            .map(|&len| (0..len).map(|i| (i * 7919 % 101) as f32 / 101.0).collect())
            .collect();
        let plain: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        let view = network.view();
        let unchanged = mutant(&view, &[]).unwrap().graph;
        let mut masks: Vec<Vec<f32>> = network
            .layers()
            .iter()
            .map(|l| vec![1.0; l.neurons])
            .collect();
        let masked = mask(&view).unwrap().graph;
        let with = |masks: &[Vec<f32>]| {
            let all: Vec<&[f32]> = plain
                .iter()
                .copied()
                .chain(masks.iter().map(Vec::as_slice))
                .collect();
            run(&masked, &all)
        };
        let own = run(&unchanged, &plain);
        assert_eq!(own, with(&masks), "{model}");
        for edit in mutants.edits(0) {
            let Edit::Silent { layer, neurons } = edit else {
                panic!("neurons are silent");
            };
            neurons
                .into_iter()
                .for_each(|neuron| masks[layer][neuron] = 0.0);
        }
        let mutated = mutant(&view, &mutants.edits(0)).unwrap().graph;
        assert_eq!(run(&mutated, &plain), with(&masks), "{model}");
        assert_ne!(run(&mutated, &plain), own, "{model}");
    }
}

#[test]
fn masked_predictions_are_those_of_silent_mutants() {
    let network = Network::open(fixture("lenet.onnx"), &ModelOptions::default()).unwrap();
    let scale = Preprocessing {
        divide: Some(255.0),
        ..Preprocessing::default()
    };
    let data = open(fixture("fashion-1000.npz")).unwrap();
    let loader = Loader::new(data, network.sample_shape(), &scale).unwrap();
    let options = options(Operator::Neb, 0.3);
    let mutants = Mutants::new(&network, &options).unwrap();
    let masked = MaskedNetwork::new(&network).unwrap();
    let edits = mutants.edits(1);
    let off = |_: usize, set: &mut [u64]| {
        for edit in &edits {
            if let Edit::Silent { layer, neurons } = edit {
                let words = masked.layout().layer_mut(set, *layer);
                neurons.iter().for_each(|n| words[n / 64] |= 1 << (n % 64));
            }
        }
    };
    let rows: Vec<usize> = (0..200).collect();
    let expected = masked.predict(&loader, &rows, &off, 2, &mut ()).unwrap();
    for threads in [1, 3] {
        let suite = SampleRange {
            data: &loader,
            range: 0..200,
            threads,
        };
        let found = mutants.predict(1, &suite, &mut ()).unwrap();
        let found: Vec<u32> = found.into_iter().map(Option::unwrap).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_mutant_depends_on_its_seed_operator_ratio_and_number() {
    let network = Network::open(fixture("lenet.onnx"), &ModelOptions::default()).unwrap();
    for operator in Operator::DRAWN {
        let edits = |options: &MutationOptions, number: usize| {
            Mutants::new(&network, options).unwrap().edits(number)
        };
        let usual = options(operator, 0.05);
        let first = edits(&usual, 0);
        assert!(!first.is_empty());
        let more = MutationOptions {
            mutants: 9,
            operators: vec![operator, Operator::Gf],
            ..usual.clone()
        };
        assert_eq!(first, edits(&more, 0), "{operator}");
        let other_seed = MutationOptions {
            seed: 1,
            ..usual.clone()
        };
        assert_ne!(first, edits(&other_seed, 0), "{operator}");
        assert_ne!(first, edits(&usual, 1), "{operator}");
        assert_ne!(first, edits(&options(operator, 0.06), 0), "{operator}");
    }
}

#[test]
fn only_some_neurons_may_be_changed() {
    let network = Network::open(fixture("lenet.onnx"), &ModelOptions::default()).unwrap();
    let even = |layer: &npcov_program::PathLayer| (0..layer.neurons).map(|n| n % 2 == 0).collect();
    let among = Among {
        words: "even ones".to_owned(),
        neurons: network.layers().iter().map(even).collect(),
    };
    let neb = options(Operator::Neb, 1.0);
    let mutants = Mutants::among(&network, &neb, Some(&among)).unwrap();
    for edit in mutants.edits(0) {
        let Edit::Silent { neurons, layer } = edit else {
            panic!("neurons are silent");
        };
        let count = network.layers()[layer].neurons;
        assert_eq!(neurons, (0..count).step_by(2).collect::<Vec<_>>());
    }
    let none = Among {
        neurons: network
            .layers()
            .iter()
            .map(|l| vec![false; l.neurons])
            .collect(),
        ..among
    };
    let error = Mutants::among(&network, &neb, Some(&none)).err().unwrap();
    let message = "the model has nothing that these operators change: neb";
    assert_eq!(error.to_string(), message);
}

/// Weights of a neuron by the definition: those that change what it gives when they change.
#[test]
fn incoming_weights_are_those_of_the_neuron() {
    for model in ["lenet.onnx", "resnet8.onnx"] {
        let network = Network::open(fixture(model), &ModelOptions::default()).unwrap();
        let view = network.view();
        let sites = npcov_program::Sites::of(&view);
        let mut seen = 0;
        for (layer, incoming) in network.layers().iter().zip(&sites.incoming) {
            let Some(incoming) = incoming else { continue };
            seen += 1;
            let input: usize = network.sample_shape().iter().product();
            let input: Vec<f32> = (0..input).map(|i| (i * 31 % 17) as f32 / 17.0).collect();
            let values = |edits: &[Edit]| -> Vec<f32> {
                // The layer itself in the place of the logits.
                let classifier = npcov_graph::Classifier {
                    logits: layer.before,
                    ..*view.classifier
                };
                let view = npcov_program::NetworkView {
                    classifier: &classifier,
                    layers: &[],
                    ..view
                };
                let graph = mutant(&view, edits).unwrap().graph;
                Native::default()
                    .run_once(&graph, 1, &[&input])
                    .unwrap()
                    .remove(0)
            };
            let plain = values(&[]);
            let neuron = layer.neurons / 2;
            let constant: ValueId = incoming.weights;
            let mut elements = network.graph().constant(constant).unwrap().to_f32();
            incoming.of(neuron).for_each(|at| elements[at] += 1.0);
            let changed = values(&[Edit::Weights { constant, elements }]);
            let each = plain.len() / layer.neurons;
            let differs =
                |n: usize| plain[n * each..(n + 1) * each] != changed[n * each..(n + 1) * each];
            let found: Vec<usize> = (0..layer.neurons).filter(|&n| differs(n)).collect();
            assert_eq!(found, [neuron], "{model}, {}", layer.name);
        }
        assert!(seen > 1, "{model}: {seen}");
    }
}
