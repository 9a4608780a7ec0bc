//! What explanations depend on, and what they do not.

mod support;

use std::ops::Range;

use npcov::Error;
use npcov::graph::op::{BatchNormalization, Binary, Conv, Gemm, Reduce, ReduceKind, Unary, Window};
use npcov::graph::{
    Classifier, DType, Data, Graph, Op, Tensor, TensorType, ValueId, fold_batch_norm,
};
use npcov::program::{
    ExplainOutputs, LayerOptions, Lrp, NetworkView, Rule, Rules, Target, explain, path_layers,
};
use npcov::run::{ModelOptions, Network};
use support::{fixture, graph, images, loader, run};

/// A plain CNN, residual sums, depthwise convolutions with gates, NHWC, a single logit.
const MODELS: [&str; 5] = [
    "lenet.onnx",
    "resnet8.onnx",
    "mobilenet.onnx",
    "keras.onnx",
    "binary-sigmoid.onnx",
];

const WITH_INPUT: ExplainOutputs = ExplainOutputs {
    target: Target::Predicted,
    activations: false,
    input: true,
    lost: false,
    taps: Vec::new(),
    importance: None,
};

/// The bits of all outputs for rows `range`, row by row.
fn explained(network: &Network, range: Range<usize>, threads: usize) -> Vec<Vec<u32>> {
    let explainer = network.explainer(&Lrp::default(), &WITH_INPUT).unwrap();
    let lens = explainer.output_lens();
    let mut rows = Vec::new();
    let loader = loader(network.graph());
    explainer
        .run(&loader, range, threads, |batch| -> Result<(), Error> {
            for row in 0..batch.rows.len() {
                let outputs = batch.outputs.iter().zip(lens);
                rows.push(
                    outputs
                        .flat_map(|(output, &len)| &output[row * len..(row + 1) * len])
                        .map(|x| x.to_bits())
                        .collect(),
                );
            }
            Ok(())
        })
        .unwrap();
    rows
}

#[test]
fn the_same_bits_on_any_thread_and_at_any_position() {
    for model in MODELS {
        let network = Network::open(fixture(model), &ModelOptions::default()).unwrap();
        let one = explained(&network, 0..70, 1);
        assert_eq!(one.len(), 70);
        for threads in [2, 8] {
            let many = explained(&network, 0..70, threads);
            assert_eq!(one, many, "{model}, {threads} threads");
        }
        for start in [1, 15, 16, 69] {
            let rest = explained(&network, start..70, 1);
            assert_eq!(one[start..], rest, "{model} from {start}");
        }
    }
}

fn tensor(shape: &[usize], data: &[f32]) -> Tensor {
    Tensor::new(shape, Data::F32(data.to_vec())).unwrap()
}

/// Numbers between -1 and 1 without a pattern.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    let number = |i: usize| (((i + 31 * seed) * 7919 + 13 * i * i) % 2003) as f32 / 1001.5 - 1.0;
    (0..count).map(number).collect()
}

/// The outputs of an explanation: logits, relevances of the path layers, that of the input.
fn relevances(graph: &Graph, rule: Rule, count: usize, x: &[f32]) -> Vec<Vec<f32>> {
    let classifier = Classifier::find(graph, graph.outputs()[0]);
    let layers = path_layers(graph, &classifier, 1, &LayerOptions::default()).unwrap();
    let view = NetworkView {
        graph,
        classifier: &classifier,
        layers: &layers,
        batch: 1,
    };
    let lrp = Lrp {
        rules: Rules::uniform(rule),
    };
    let program = explain(&view, &lrp, &WITH_INPUT).unwrap();
    run(&program.graph, count, &[x])
}

/// The largest distance of two arrays as a part of the largest number.
fn distance(a: &[f32], b: &[f32]) -> f32 {
    let largest = a.iter().fold(0.0f32, |m, x| m.max(x.abs()));
    let distances = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    distances.fold(0.0, f32::max) / largest
}

/// Two convolutions, each with a batch norm whose scales are given.
fn normalised(scales: &[f32; 4]) -> Graph {
    let mut graph = Graph::new();
    let mut x = graph.add_input("x", TensorType::new(DType::F32, [1, 4, 5, 5]));
    for block in 0..2 {
        let conv = Op::Conv(Conv {
            window: Window::sized([2, 2]),
            groups: 1,
        });
        let weight = tensor(&[4, 4, 2, 2], &numbers(64, block));
        let weight = graph.add_constant("weight", weight);
        let norm = Op::BatchNormalization(BatchNormalization { epsilon: 1e-5 });
        let parameters = [
            scales.to_vec(),
            numbers(4, 5),
            numbers(4, 6),
            vec![0.5, 1.0, 2.0, 0.25],
        ];
        let z = graph.push("conv", conv, &[x, weight]).unwrap();
        let mut inputs = vec![z];
        for p in parameters {
            inputs.push(graph.add_constant("p", Tensor::vector(p)));
        }
        let z = graph.push("norm", norm, &inputs).unwrap();
        x = graph.push("relu", Op::Unary(Unary::Relu), &[z]).unwrap();
    }
    let mean = Op::Reduce(Reduce {
        kind: ReduceKind::Mean,
        axes: vec![2, 3],
        keep_dims: false,
    });
    let m = graph.push("mean", mean, &[x]).unwrap();
    let w = graph.add_constant("w", tensor(&[4, 3], &numbers(12, 7)));
    let y = graph.push("dense", Op::MatMul, &[m, w]).unwrap();
    graph.set_outputs(vec![y]);
    graph
}

/// A positive factor for all contributions to a unit cancels; a negative one swaps their signs.
#[test]
fn folded_batch_norm_changes_nothing_where_scales_are_positive() {
    let rule: Rule = "alpha-beta:0.5,0".parse().unwrap();
    let x = numbers(3 * 100, 9);
    let apart = |graph: &Graph, x: &[f32], count: usize| {
        let folded = fold_batch_norm(graph).unwrap();
        let norms = folded.nodes().iter();
        assert!(
            norms
                .into_iter()
                .all(|n| !matches!(n.op, Op::BatchNormalization(_)))
        );
        let a = relevances(graph, rule, count, x);
        let b = relevances(&folded, rule, count, x);
        let distances = a.iter().zip(&b).map(|(a, b)| distance(a, b));
        distances.fold(0.0, f32::max)
    };
    assert!(apart(&normalised(&[0.5, 1.0, 2.0, 1.5]), &x, 3) <= 1e-5);
    assert!(apart(&normalised(&[0.5, -1.0, 2.0, 1.5]), &x, 3) > 0.1);

    let resnet = graph("resnet8.onnx");
    let scales: Vec<f32> = resnet
        .nodes()
        .iter()
        .filter(|node| matches!(node.op, Op::BatchNormalization(_)))
        .flat_map(|node| resnet.constant(node.inputs[1]).unwrap().to_f32())
        .collect();
    assert!(!scales.is_empty() && scales.iter().all(|&s| s > 0.0));
    assert!(apart(&resnet, &images(&resnet, 8), 8) <= 1e-4);
}

fn dense(graph: &mut Graph, x: ValueId, weight: &[f32], bias: &[f32]) -> ValueId {
    let gemm = Op::Gemm(Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    });
    let outputs = bias.len();
    let w = tensor(&[outputs, weight.len() / outputs], weight);
    let w = graph.add_constant("w", w);
    let b = graph.add_constant("b", tensor(&[outputs], bias));
    graph.push("dense", gemm, &[x, w, b]).unwrap()
}

/// `dense(relu(x))` and what follows it.
fn net(
    inputs: usize,
    weight: &[f32],
    bias: &[f32],
    end: impl Fn(&mut Graph, ValueId) -> ValueId,
) -> Graph {
    let mut graph = Graph::new();
    let x = graph.add_input("x", TensorType::new(DType::F32, [1, inputs]));
    let h = graph.push("relu", Op::Unary(Unary::Relu), &[x]).unwrap();
    let y = dense(&mut graph, h, weight, bias);
    let y = end(&mut graph, y);
    graph.set_outputs(vec![y]);
    graph
}

/// Both logits are negative, so 1 is shared out instead of the larger one, -3; shares are those of
/// contributions -1 and -2.
#[test]
fn one_is_shared_out_when_no_logit_is_positive() {
    let graph = net(2, &[-1.0, -1.0, -2.0, -1.0], &[0.0, 0.0], |_, y| y);
    let rule: Rule = "alpha-beta:0.5,0".parse().unwrap();
    let found = relevances(&graph, rule, 1, &[1.0, 2.0]);
    assert_eq!(found[0], [-3.0, -4.0]);
    assert!(
        distance(&[1.0 / 3.0, 2.0 / 3.0], &found[1]) < 1e-6,
        "{found:?}"
    );
    // A logit of zero is not positive either: contributions 1 and -1 get 1.5 and -0.5 of 1.
    let graph = net(2, &[1.0, -1.0, -1.0, -1.0], &[0.0, 0.0], |_, y| y);
    let found = relevances(&graph, rule, 1, &[1.0, 1.0]);
    assert_eq!(found[0], [0.0, -2.0]);
    assert!(distance(&[1.5, -0.5], &found[1]) < 1e-6, "{found:?}");
}

/// Behind a sigmoid, the second class is explained by the weights and the first by their negatives:
/// as in a network with a logit for each.
#[test]
fn both_sides_of_a_sigmoid() {
    let weight = [2.0, -1.0, 0.5, -3.0];
    let bias = 0.25;
    let both: Vec<f32> = weight.iter().map(|w| -w).chain(weight).collect();
    let two = net(4, &both, &[-bias, bias], |_, y| y);
    let sigmoid = |graph: &mut Graph, z| graph.push("p", Op::Unary(Unary::Sigmoid), &[z]).unwrap();
    let plain = net(4, &weight, &[bias], sigmoid);
    // The bias in a sum of its own, a weight whose columns are outputs, and a reshape.
    let apart = {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 4]));
        let h = graph.push("relu", Op::Unary(Unary::Relu), &[x]).unwrap();
        let w = graph.add_constant("w", tensor(&[4, 1], &weight));
        let b = graph.add_constant("b", tensor(&[1], &[bias]));
        let z = graph.push("product", Op::MatMul, &[h, w]).unwrap();
        let z = graph.push("sum", Op::Binary(Binary::Add), &[z, b]).unwrap();
        let z = graph.push("flat", Op::Reshape(vec![1]), &[z]).unwrap();
        let p = sigmoid(&mut graph, z);
        graph.set_outputs(vec![p]);
        graph
    };
    // A positive logit, a negative one, and zero, which is the first class's.
    let x = [1.0, 0.5, 1.0, 0.0, 0.0, 1.0, 0.5, 1.0, 1.0, 2.25, 0.0, 0.0];
    let expected = relevances(&two, Rule::NPC, 3, &x);
    assert_eq!(expected[0], [-2.25, 2.25, 3.5, -3.5, 0.0, 0.0]);
    for graph in [&plain, &apart] {
        let found = relevances(graph, Rule::NPC, 3, &x);
        assert_eq!(found[0], [2.25, -3.5, 0.0]);
        assert_eq!(found[1..], expected[1..]);
    }
}
