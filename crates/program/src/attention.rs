//! Attention: a softmax makes weights, and a matrix product sums values with these weights.

use npcov_graph::op::{Binary, ReduceKind, Unary};
use npcov_graph::{Graph, Node, Op, ValueId};

use crate::linear::LinearNode;

/// By [`ValueId::index`]: whether a value holds weights of attention, which a softmax made and
/// nothing but selection, masks, scales and constant mixing has changed since.
pub(crate) fn attention_weights(graph: &Graph) -> Vec<bool> {
    let mut weights = vec![false; graph.values().len()];
    for node in graph.nodes() {
        weights[node.output.index()] = holds_weights(graph, node, &weights);
    }
    weights
}

fn holds_weights(graph: &Graph, node: &Node, weights: &[bool]) -> bool {
    let is = |v: &ValueId| weights[v.index()];
    let fixed = |v: &ValueId| graph.constant(*v).is_some();
    let first = || node.inputs.first().is_some_and(is);
    // Weights, and next to them nothing but constants.
    let only =
        |inputs: &[ValueId]| inputs.iter().any(is) && inputs.iter().all(|v| is(v) || fixed(v));
    match &node.op {
        Op::Softmax(softmax) => !softmax.log,
        Op::Binary(f) => match f {
            Binary::Div => is_written_out_softmax(graph, node) || only(&node.inputs),
            Binary::Mul | Binary::Add | Binary::Sub | Binary::Min | Binary::Max => {
                only(&node.inputs)
            }
            Binary::Pow
            | Binary::PRelu
            | Binary::Mod
            | Binary::Fmod
            | Binary::Equal
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual
            | Binary::And
            | Binary::Or
            | Binary::Xor => false,
        },
        Op::Where => only(&node.inputs[1..]),
        Op::Concat(_) => only(&node.inputs),
        Op::Cast(_)
        | Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Slice(_)
        | Op::Pad(_)
        | Op::Expand(_)
        | Op::Tile(_)
        | Op::Reduce(_)
        | Op::Gather(_)
        | Op::GatherElements(_) => first(),
        // Heads that are mixed with each other.
        Op::Conv(_) | Op::Gemm(_) | Op::MatMul => {
            LinearNode::of(graph, node).is_some_and(|linear| is(&node.inputs[linear.position]))
        }
        // Quantised weights.
        Op::Unary(f) => matches!(f, Unary::Round | Unary::Clip { .. }) && first(),
        Op::ConvTranspose(_)
        | Op::BatchNormalization(_)
        | Op::InstanceNormalization(_)
        | Op::LayerNormalization(_)
        | Op::Lrn(_)
        | Op::Pool(_)
        | Op::ArgMax(_)
        | Op::TopK(_)
        | Op::Resize(_)
        | Op::ScatterSum(_)
        | Op::Composite(_) => false,
    }
}

/// `e / sum(e)` of powers `e`.
fn is_written_out_softmax(graph: &Graph, node: &Node) -> bool {
    let [powers, sum] = node.inputs[..] else {
        return false;
    };
    let is_power = graph
        .producer(powers)
        .is_some_and(|n| n.op == Op::Unary(Unary::Exp));
    let is_sum = graph.producer(sum).is_some_and(|n| {
        n.inputs.first() == Some(&powers)
            && matches!(&n.op, Op::Reduce(reduce) if reduce.kind == ReduceKind::Sum)
    });
    is_power && is_sum
}

/// Whether a node is a matrix product of two values that both depend on the model's input.
pub(crate) fn is_product(graph: &Graph, node: &Node) -> bool {
    let varies = |v: &ValueId| graph.constant(*v).is_none();
    node.op == Op::MatMul && node.inputs.iter().all(varies)
}

/// Whether a graph sums values with weights of attention anywhere.
pub(crate) fn has_attention(graph: &Graph) -> bool {
    let weights = attention_weights(graph);
    let weighs = |node: &Node| node.inputs.iter().filter(|v| weights[v.index()]).count() == 1;
    graph
        .nodes()
        .iter()
        .any(|node| is_product(graph, node) && weighs(node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use npcov_graph::op::{Reduce, Softmax};
    use npcov_graph::{DType, Tensor, TensorType};

    /// Three tokens of two features, and scores of each pair of tokens.
    fn net() -> (Graph, ValueId, ValueId) {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [3, 2]));
        let t = graph.push("t", Op::Transpose(vec![1, 0]), &[x]).unwrap();
        let scores = graph.push("scores", Op::MatMul, &[x, t]).unwrap();
        (graph, x, scores)
    }

    #[test]
    fn spellings_of_attention_are_found() {
        let softmax = |graph: &mut Graph, scores: ValueId| {
            let softmax = Softmax {
                axis: 1,
                log: false,
            };
            graph
                .push("softmax", Op::Softmax(softmax), &[scores])
                .unwrap()
        };
        let written_out = |graph: &mut Graph, scores: ValueId| {
            let powers = graph.push("exp", Op::Unary(Unary::Exp), &[scores]).unwrap();
            let sum = Op::Reduce(Reduce {
                kind: ReduceKind::Sum,
                axes: vec![1],
                keep_dims: true,
            });
            let sum = graph.push("sum", sum, &[powers]).unwrap();
            let div = Op::Binary(Binary::Div);
            graph.push("div", div, &[powers, sum]).unwrap()
        };
        let scaled = |graph: &mut Graph, scores: ValueId| {
            let weights = softmax(graph, scores);
            let half = graph.add_constant("half", Tensor::scalar(0.5));
            let mul = Op::Binary(Binary::Mul);
            graph.push("mul", mul, &[weights, half]).unwrap()
        };
        let quantised = |graph: &mut Graph, scores: ValueId| {
            let weights = scaled(graph, scores);
            let steps = graph.push("round", Op::Unary(Unary::Round), &[weights]);
            let limits = Op::Unary(Unary::Clip {
                min: 0.0,
                max: 255.0,
            });
            graph.push("clip", limits, &[steps.unwrap()]).unwrap()
        };
        type Spelling<'a> = &'a dyn Fn(&mut Graph, ValueId) -> ValueId;
        let spellings: [Spelling<'_>; 4] = [&softmax, &written_out, &scaled, &quantised];
        for spelling in spellings {
            let (mut graph, x, scores) = net();
            assert!(!has_attention(&graph));
            let weights = spelling(&mut graph, scores);
            let context = graph.push("context", Op::MatMul, &[weights, x]).unwrap();
            assert!(has_attention(&graph));
            let weights = attention_weights(&graph);
            assert!(!weights[context.index()] && !weights[scores.index()]);
        }
    }

    /// `sigmoid(scores) x` is a product of two activations.
    #[test]
    fn other_products_are_no_attention() {
        let (mut graph, x, scores) = net();
        let gates = graph.push("s", Op::Unary(Unary::Sigmoid), &[scores]);
        graph
            .push("context", Op::MatMul, &[gates.unwrap(), x])
            .unwrap();
        assert!(!has_attention(&graph));
        assert!(
            graph
                .nodes()
                .iter()
                .filter(|n| is_product(&graph, n))
                .count()
                == 2
        );
    }
}
