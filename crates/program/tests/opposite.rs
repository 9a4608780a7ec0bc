//! Both sides of a single logit that no dense layer computes, worked out by hand.

use npcov_engine::Engine;
use npcov_engine::native::Native;
use npcov_graph::op::{Binary, Conv, Reduce, ReduceKind, Slice, Unary, Window};
use npcov_graph::{Classifier, DType, Data, Ending, Graph, Op, Tensor, TensorType, ValueId};
use npcov_program::{ExplainOutputs, Lrp, NetworkView, Rule, Rules, Target, explain};

fn input(shape: &[usize]) -> (Graph, ValueId) {
    let mut graph = Graph::new();
    let x = graph.add_input("x", TensorType::new(DType::F32, shape));
    (graph, x)
}

fn constant(graph: &mut Graph, shape: &[usize], numbers: &[f32]) -> ValueId {
    let tensor = Tensor::new(shape, Data::F32(numbers.to_vec())).unwrap();
    graph.add_constant("c", tensor)
}

fn reduced(kind: ReduceKind, axes: &[usize]) -> Op {
    Op::Reduce(Reduce {
        kind,
        axes: axes.to_vec(),
        keep_dims: true,
    })
}

/// The relevance of the input for a class, by a rule.
fn relevance(graph: &Graph, logit: ValueId, x: &[f32], class: usize, rule: Rule) -> Vec<f32> {
    let classifier = Classifier {
        logits: logit,
        ending: Ending::Sigmoid,
    };
    let view = NetworkView {
        graph,
        classifier: &classifier,
        layers: &[],
        batch: 1,
    };
    let outputs = ExplainOutputs {
        target: Target::Class(class),
        input: true,
        ..ExplainOutputs::default()
    };
    let lrp = Lrp {
        rules: Rules::uniform(rule),
    };
    let program = explain(&view, &lrp, &outputs).unwrap().graph;
    let lowered = program.lowered(|_| true).unwrap();
    let [found, plain] =
        [&program, &lowered].map(|p| Native::default().run_once(p, 1, &[x]).unwrap());
    close(&found[1], &plain[1]);
    found[1].clone()
}

#[track_caller]
fn close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= 1e-5, "{found:?}, not {expected:?}");
    }
}

/// The score of two towers, `sum of t n`: of `t = (1, -2)` and `n = (3, 1)` it is 3 - 2. For the second class, 3 gets 1.5
/// and -2 gets -0.5 of the logit 1. For the first class, whose logit -1 is replaced by 1, it is the other way
/// round. Both factors of a product have half each.
#[test]
fn a_score_of_two_towers_has_two_sides() {
    let (mut graph, x) = input(&[1, 4]);
    let half = |start| {
        Op::Slice(Slice {
            starts: vec![0, start],
            steps: vec![1, 1],
            shape: vec![1, 2],
        })
    };
    let t = graph.push("t", half(0), &[x]).unwrap();
    let n = graph.push("n", half(2), &[x]).unwrap();
    let products = graph.push("products", Op::Binary(Binary::Mul), &[t, n]);
    let score = reduced(ReduceKind::Sum, &[1]);
    let score = graph.push("score", score, &[products.unwrap()]).unwrap();
    let x = [1.0, -2.0, 3.0, 1.0];
    let found = |class| relevance(&graph, score, &x, class, Rule::NPC);
    close(&found(1), &[0.75, -0.25, 0.75, -0.25]);
    close(&found(0), &[-0.25, 0.75, -0.25, 0.75]);
}

/// Wide and deep: `x w + relu(x) u` with `x = (1, 2)`, `w = (1, -3)`, `u = (2, -1)`, so -5 + 0. Without a stabiliser each
/// contribution keeps its own share of the logit, and of that of the first class its negative.
#[test]
fn a_sum_of_two_layers_has_two_sides() {
    let (mut graph, x) = input(&[1, 2]);
    let w = constant(&mut graph, &[2, 1], &[1.0, -3.0]);
    let u = constant(&mut graph, &[2, 1], &[2.0, -1.0]);
    let bias = constant(&mut graph, &[1], &[0.5]);
    let h = graph.push("h", Op::Unary(Unary::Relu), &[x]).unwrap();
    let wide = graph.push("wide", Op::MatMul, &[x, w]).unwrap();
    let deep = graph.push("deep", Op::MatMul, &[h, u]).unwrap();
    let add = Op::Binary(Binary::Add);
    let deep = graph.push("bias", add.clone(), &[deep, bias]).unwrap();
    let logit = graph.push("logit", add, &[wide, deep]).unwrap();
    // -5 + 0.5: the first class has the logit 4.5, which stands behind 5 - 0 of contributions in units without biases.
    let found = relevance(&graph, logit, &[1.0, 2.0], 0, Rule::NPC);
    // Both terms: 5 gets 1.5 x 4.5; -0.5, of the bias alone, gets -0.5 x 4.5 and nothing to pass it to but 0 = 2 - 2.
    // Of the wide layer's 5, 6 speaks for it and -1 against it: 1.5 and -0.5 of 6.75.
    // The deep layer: contributions -2 and 2, relevance -2.25: 1.5 and -0.5 of it for 2 and -2.
    close(&found, &[-3.375 + 1.125, 10.125 - 3.375]);
}

/// A map of weighted sums, averaged over two places: `x = (1, 3)` times -2 is a mean of -4.
#[test]
fn a_mean_of_a_convolution_has_two_sides() {
    let (mut graph, x) = input(&[1, 1, 1, 2]);
    let w = constant(&mut graph, &[1, 1, 1, 1], &[-2.0]);
    let conv = Op::Conv(Conv {
        window: Window::sized([1, 1]),
        groups: 1,
    });
    let map = graph.push("map", conv, &[x, w]).unwrap();
    let logit = reduced(ReduceKind::Mean, &[2, 3]);
    let logit = graph.push("mean", logit, &[map]).unwrap();
    let found = relevance(&graph, logit, &[1.0, 3.0], 0, Rule::NPC);
    close(&found, &[1.0, 3.0]);
}
