//! Where a classifier's logits are.

use crate::graph::{Graph, ValueId};
use crate::op::{Binary, Op, Reduce, ReduceKind, Unary};

/// What follows the logits in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing: the output is the logits.
    Logits,
    /// Softmax.
    Softmax,
    /// The logarithm of softmax.
    LogSoftmax,
    /// A sigmoid of a single logit: two classes, the second one for a positive logit.
    Sigmoid,
}

/// The logits of a classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classifier {
    /// The value that holds them.
    pub logits: ValueId,
    /// What the model does with them.
    pub ending: Ending,
}

impl Classifier {
    /// Finds the logits behind an output of the graph: in front of a trailing softmax (also one
    /// written out as exponentials over their sum) or of a sigmoid of a single number.
    pub fn find(graph: &Graph, output: ValueId) -> Classifier {
        let end = behind_reshapes(graph, output);
        let found = graph.producer(end).and_then(|node| match &node.op {
            Op::Softmax(softmax) => Some((
                node.inputs[0],
                if softmax.log {
                    Ending::LogSoftmax
                } else {
                    Ending::Softmax
                },
            )),
            Op::Unary(Unary::Sigmoid) if graph.value(end).ty.numel() == batch(graph) => {
                Some((node.inputs[0], Ending::Sigmoid))
            }
            Op::Binary(Binary::Div) => written_out_softmax(graph, node.inputs[0], node.inputs[1])
                .map(|logits| (logits, Ending::Softmax)),
            _ => None,
        });
        let (logits, ending) = found.unwrap_or((output, Ending::Logits));
        Classifier { logits, ending }
    }

    /// Number of classes that are told apart, for a graph made for `batch` inputs.
    pub fn classes(&self, graph: &Graph, batch: usize) -> usize {
        let outputs = graph.value(self.logits).ty.numel() / batch.max(1);
        match (self.ending, outputs) {
            (Ending::Sigmoid, 1) => 2,
            _ => outputs,
        }
    }
}

fn batch(graph: &Graph) -> usize {
    graph
        .inputs()
        .first()
        .and_then(|&i| graph.shape(i).first().copied())
        .unwrap_or(1)
}

fn behind_reshapes(graph: &Graph, mut value: ValueId) -> ValueId {
    while let Some(node) = graph.producer(value)
        && matches!(node.op, Op::Reshape(_))
    {
        value = node.inputs[0];
    }
    value
}

/// The logits of `exp(z - max z) / sum exp(z - max z)`.
fn written_out_softmax(graph: &Graph, numerator: ValueId, denominator: ValueId) -> Option<ValueId> {
    let exp = graph.producer(numerator)?;
    if exp.op != Op::Unary(Unary::Exp) {
        return None;
    }
    let shifted = graph.producer(exp.inputs[0])?;
    if shifted.op != Op::Binary(Binary::Sub) {
        return None;
    }
    let logits = shifted.inputs[0];
    let is_softmax = reduced(graph, denominator, ReduceKind::Sum)? == numerator
        && reduced(graph, shifted.inputs[1], ReduceKind::Max)? == logits;
    is_softmax.then_some(logits)
}

/// What a value is the sum or maximum of, behind everything that only spreads it out again, and
/// behind a maximum with minus infinity, which JAX writes.
fn reduced(graph: &Graph, mut value: ValueId, wanted: ReduceKind) -> Option<ValueId> {
    let is_lowest = |v: ValueId| {
        let numbers = graph.constant(v).and_then(|t| t.as_f32());
        numbers.is_some_and(|x| x.iter().all(|&x| x == f32::NEG_INFINITY))
    };
    loop {
        let node = graph.producer(value)?;
        value = match (&node.op, &node.inputs[..]) {
            (Op::Reduce(Reduce { kind, .. }), &[x]) if *kind == wanted => return Some(x),
            (Op::Reshape(_) | Op::Expand(_), &[x]) => x,
            (Op::Binary(Binary::Max), &[x, low]) if is_lowest(low) => x,
            (Op::Binary(Binary::Max), &[low, x]) if is_lowest(low) => x,
            _ => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Softmax;
    use crate::tensor::{DType, Tensor, TensorType};

    fn input(graph: &mut Graph, shape: &[usize]) -> ValueId {
        graph.add_input("x", TensorType::new(DType::F32, shape))
    }

    #[test]
    fn softmax_is_looked_behind() {
        let mut graph = Graph::new();
        let x = input(&mut graph, &[1, 3]);
        let z = graph.push("z", Op::Unary(Unary::Tanh), &[x]).unwrap();
        let op = Op::Softmax(Softmax {
            axis: 1,
            log: false,
        });
        let p = graph.push("p", op, &[z]).unwrap();
        let r = graph.push("r", Op::Reshape(vec![3]), &[p]).unwrap();
        let found = Classifier::find(&graph, r);
        assert_eq!((found.logits, found.ending), (z, Ending::Softmax));
        assert_eq!(found.classes(&graph, 1), 3);
    }

    #[test]
    fn written_out_softmax_is_looked_behind() {
        let mut graph = Graph::new();
        let z = input(&mut graph, &[1, 3]);
        let reduce = |kind| {
            Op::Reduce(Reduce {
                kind,
                axes: vec![1],
                keep_dims: true,
            })
        };
        let max = graph.push("m", reduce(ReduceKind::Max), &[z]).unwrap();
        let low = graph.add_constant("low", Tensor::scalar(f32::NEG_INFINITY));
        let max = graph
            .push("l", Op::Binary(Binary::Max), &[low, max])
            .unwrap();
        let max = graph.push("w", Op::Expand(vec![1, 3]), &[max]).unwrap();
        let sub = graph.push("s", Op::Binary(Binary::Sub), &[z, max]).unwrap();
        let exp = graph.push("e", Op::Unary(Unary::Exp), &[sub]).unwrap();
        let sum = graph.push("t", reduce(ReduceKind::Sum), &[exp]).unwrap();
        let p = graph
            .push("p", Op::Binary(Binary::Div), &[exp, sum])
            .unwrap();
        assert_eq!(Classifier::find(&graph, p).logits, z);
        assert_eq!(Classifier::find(&graph, sub).ending, Ending::Logits);
    }

    #[test]
    fn a_single_sigmoid_tells_two_classes_apart() {
        for (width, ending, classes) in [(1, Ending::Sigmoid, 2), (4, Ending::Logits, 4)] {
            let mut graph = Graph::new();
            let z = input(&mut graph, &[1, width]);
            let p = graph.push("p", Op::Unary(Unary::Sigmoid), &[z]).unwrap();
            let found = Classifier::find(&graph, p);
            assert_eq!(found.ending, ending);
            assert_eq!(found.classes(&graph, 1), classes);
        }
    }
}
