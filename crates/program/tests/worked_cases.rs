//! Relevances that can be checked by hand.

use npcov_engine::Engine;
use npcov_engine::native::Native;
use npcov_graph::op::{Conv, Gemm, Pool, PoolKind, Reduce, ReduceKind, Unary, Window};
use npcov_graph::{Classifier, DType, Data, Graph, Op, Tensor, TensorType, ValueId};
use npcov_program::{
    AlphaBeta, Attribution, ExplainOutputs, LayerOptions, Lrp, NetworkView, RelevanceSeed, Rule,
    Rules, explain, path_layers,
};

fn tensor(shape: &[usize], data: &[f32]) -> Tensor {
    Tensor::new(shape, Data::F32(data.to_vec())).unwrap()
}

fn gemm() -> Op {
    Op::Gemm(Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    })
}

fn rule(beta: f32, epsilon: f32) -> Rule {
    Rule::AlphaBeta(AlphaBeta {
        beta,
        epsilon,
        rare: true,
    })
}

fn run(graph: &Graph, inputs: &[&[f32]]) -> Vec<Vec<f32>> {
    Native::default().run_once(graph, 1, inputs).unwrap()
}

/// The relevance of the input of a single operator, when `r` arrives at its output. The native
/// kernels and the lowered graph must agree.
fn relevance(
    op: Op,
    x: (&[usize], &[f32]),
    weight: Option<Tensor>,
    r: &[f32],
    rule: Rule,
) -> Vec<f32> {
    let mut graph = Graph::new();
    let input = graph.add_input("x", TensorType::new(DType::F32, x.0));
    let mut inputs = vec![input];
    inputs.extend(weight.map(|w| graph.add_constant("w", w)));
    let y = graph.push("y", op, &inputs).unwrap();
    let arrived = graph.add_input("r", graph.value(y).ty.clone());
    let seed = RelevanceSeed {
        logits: y,
        one_hot: arrived,
        relevance: arrived,
    };
    let lrp = Lrp {
        rules: Rules::uniform(rule),
    };
    let found: Vec<ValueId> = lrp.relevances(&mut graph, &seed, &[input]).unwrap();
    graph.set_outputs(found);
    let native = run(&graph, &[x.1, r]).remove(0);
    let lowered = run(&graph.lowered(|_| true).unwrap(), &[x.1, r]).remove(0);
    for (a, b) in native.iter().zip(&lowered) {
        assert!(
            (a - b).abs() <= 1e-6 * a.abs().max(1.0),
            "{native:?} and {lowered:?}"
        );
    }
    native
}

fn dense(x: &[f32], w: &[f32], r: f32, rule: Rule) -> Vec<f32> {
    let weight = tensor(&[1, w.len()], w);
    relevance(gemm(), (&[1, x.len()], x), Some(weight), &[r], rule)
}

fn close(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    for (x, y) in a.iter().zip(b) {
        assert!(
            (x - y).abs() <= 2e-6 * y.abs().max(1.0),
            "{a:?} is not {b:?}"
        );
    }
}

#[test]
fn contributions_of_both_signs() {
    let (x, w) = ([1.0, 2.0, 3.0], [1.0, -1.0, 1.0]);
    close(&dense(&x, &w, 10.0, rule(0.5, 0.0)), &[3.75, -5.0, 11.25]);
    close(
        &dense(&x, &w, 10.0, rule(0.5, 1e-6)),
        &[3.749999, -4.999998, 11.249997],
    );
    close(&dense(&x, &w, 10.0, rule(0.0, 0.0)), &[2.5, 0.0, 7.5]);
    close(&dense(&x, &w, 10.0, rule(1.0, 0.0)), &[5.0, -10.0, 15.0]);
}

#[test]
fn rare_units_have_contributions_of_one_sign() {
    close(
        &dense(&[1.0, 2.0, 3.0], &[2.0, 1.0, 0.0], 8.0, rule(0.5, 0.0)),
        &[4.0, 4.0, 0.0],
    );
    close(
        &dense(&[1.0, 3.0], &[-1.0, -1.0], -4.0, rule(0.5, 0.0)),
        &[-1.0, -3.0],
    );
    close(
        &dense(&[0.0, 0.0], &[1.0, -1.0], 4.0, rule(0.5, 1e-6)),
        &[0.0, 0.0],
    );
    // With z+, negative contributions get nothing even when they are alone.
    close(
        &dense(&[1.0, 3.0], &[-1.0, -1.0], -4.0, rule(0.0, 1e-6)),
        &[0.0, 0.0],
    );
}

#[test]
fn inputs_of_both_signs() {
    close(
        &dense(&[-1.0, 2.0], &[-2.0, 1.0], 4.0, rule(0.5, 0.0)),
        &[2.0, 2.0],
    );
    close(
        &dense(&[-1.0, 2.0], &[3.0, 1.0], -1.0, rule(0.5, 0.0)),
        &[0.5, -1.5],
    );
}

#[test]
fn a_convolution() {
    let conv = Op::Conv(Conv {
        window: Window::sized([2, 2]),
        groups: 1,
    });
    let x = [1.0, 0.0, 2.0, 0.0, 1.0, 0.0, 3.0, 0.0, 1.0];
    let w = tensor(&[1, 1, 2, 2], &[1.0, -1.0, 1.0, 1.0]);
    let r = relevance(
        conv,
        (&[1, 1, 3, 3], &x),
        Some(w),
        &[2.0, 0.0, 4.0, 6.0],
        rule(0.5, 0.0),
    );
    close(&r, &[1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 6.0, 0.0, 3.0]);
}

#[test]
fn the_first_maximum_of_a_pool() {
    let pool = Op::Pool(Pool {
        kind: PoolKind::Max,
        window: Window::sized([2, 2]),
        ceil_mode: false,
    });
    let x = [1.0, 5.0, 5.0, 2.0];
    let r = relevance(pool, (&[1, 1, 2, 2], &x), None, &[3.0], Rule::NPC);
    close(&r, &[0.0, 3.0, 0.0, 0.0]);
}

#[test]
fn the_first_maximum_of_a_global_pool() {
    let reduce = Op::Reduce(Reduce {
        kind: ReduceKind::Max,
        axes: vec![2, 3],
        keep_dims: true,
    });
    let x = [1.0, 5.0, 5.0, 2.0, -3.0, -1.0, -2.0, -1.0];
    let r = relevance(reduce, (&[1, 2, 2, 2], &x), None, &[3.0, 4.0], Rule::NPC);
    close(&r, &[0.0, 3.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0]);
}

/// Two dense layers with a ReLU between them.
#[test]
fn a_net() {
    let mut graph = Graph::new();
    let x = graph.add_input("x", TensorType::new(DType::F32, [1, 2]));
    let w1 = graph.add_constant("w1", tensor(&[3, 2], &[2.0, 1.0, 3.0, 1.0, 1.0, 1.0]));
    let w2 = graph.add_constant("w2", tensor(&[2, 3], &[2.0, -1.0, 1.0, 1.0, 0.0, -1.0]));
    let z = graph.push("fc1", gemm(), &[x, w1]).unwrap();
    let h = graph.push("relu", Op::Unary(Unary::Relu), &[z]).unwrap();
    let y = graph.push("fc2", gemm(), &[h, w2]).unwrap();
    graph.set_outputs(vec![y]);
    let classifier = Classifier::find(&graph, y);
    let layers = path_layers(&graph, &classifier, 1, &LayerOptions::default()).unwrap();
    let view = NetworkView {
        graph: &graph,
        classifier: &classifier,
        layers: &layers,
        batch: 1,
    };
    let lrp = Lrp {
        rules: Rules::uniform(rule(0.5, 0.0)),
    };
    let options = ExplainOutputs {
        input: true,
        activations: true,
        importance: Some(0),
        ..ExplainOutputs::default()
    };
    let program = explain(&view, &lrp, &options).unwrap();
    let names = [
        "logits",
        "activation.0",
        "relevance.0",
        "relevance.input",
        "importance.0",
    ];
    assert_eq!(program.output_names(), names);
    let found = run(&program.graph, &[&[1.0, 1.0]]);
    close(&found[0], &[4.0, 1.0]);
    close(&found[1], &[3.0, 4.0, 2.0]);
    close(&found[2], &[4.5, -2.0, 1.5]);
    close(&found[3], &[2.25, 1.75]);
    // By the z-rule the logit 4 is shared out as 3 * 2, 4 * -1 and 2 * 1.
    close(&found[4], &[6.0, -4.0, 2.0]);
}

/// The logarithm of a softmax as seed: it is negative, and with it all signs turn around.
#[test]
fn a_negative_seed() {
    let mut graph = Graph::new();
    let x = graph.add_input("h", TensorType::new(DType::F32, [1, 3]));
    let w = graph.add_constant("w2", tensor(&[2, 3], &[2.0, -1.0, 1.0, 1.0, 0.0, -1.0]));
    let y = graph.push("fc2", gemm(), &[x, w]).unwrap();
    let arrived = graph.add_input("r", graph.value(y).ty.clone());
    let seed = RelevanceSeed {
        logits: y,
        one_hot: arrived,
        relevance: arrived,
    };
    let lrp = Lrp {
        rules: Rules::uniform(rule(0.5, 0.0)),
    };
    let found = lrp.relevances(&mut graph, &seed, &[x]).unwrap();
    graph.set_outputs(found);
    let r = run(&graph, &[&[3.0, 4.0, 2.0], &[-0.0485874, 0.0]]).remove(0);
    close(&r, &[-0.0546608, 0.0242937, -0.0182203]);
}
