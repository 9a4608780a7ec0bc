//! Where a classifier's logits are.

use crate::graph::{Graph, Node, ValueId};
use crate::op::{Binary, Op, ReduceKind, Unary};

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
    /// The class with the smallest score is chosen: the output is scores, such as distances.
    Smallest,
    /// The output is numbers, and no classes.
    Numbers,
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
    /// written out as exponentials over their sum), of a sigmoid of a single number, or of the
    /// probabilities of two classes that are made of one.
    pub fn find(graph: &Graph, output: ValueId) -> Classifier {
        let end = behind_reshapes(graph, output);
        let end = second_of_two(graph, end).unwrap_or(end);
        let found = graph.producer(end).and_then(|node| ended(graph, node));
        found.unwrap_or(Classifier {
            logits: output,
            ending: Ending::Logits,
        })
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

/// The logits in front of the node that makes probabilities of them, if it does.
fn ended(graph: &Graph, node: &Node) -> Option<Classifier> {
    let (logits, ending) = match &node.op {
        Op::Softmax(softmax) => match softmax.log {
            true => (node.inputs[0], Ending::LogSoftmax),
            false => (node.inputs[0], Ending::Softmax),
        },
        Op::Unary(f) => {
            let single = graph.value(node.output).ty.numel() == batch(graph);
            if *f != Unary::Sigmoid || !single {
                return None;
            }
            (node.inputs[0], Ending::Sigmoid)
        }
        Op::Binary(f) => {
            if *f != Binary::Div {
                return None;
            }
            let logits = written_out_softmax(graph, node.inputs[0], node.inputs[1])?;
            (logits, Ending::Softmax)
        }
        Op::Conv(_)
        | Op::ConvTranspose(_)
        | Op::Gemm(_)
        | Op::MatMul
        | Op::BatchNormalization(_)
        | Op::InstanceNormalization(_)
        | Op::LayerNormalization(_)
        | Op::Lrn(_)
        | Op::Where
        | Op::Cast(_)
        | Op::Pool(_)
        | Op::Reduce(_)
        | Op::ArgMax(_)
        | Op::TopK(_)
        | Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Concat(_)
        | Op::Slice(_)
        | Op::Pad(_)
        | Op::Expand(_)
        | Op::Tile(_)
        | Op::Gather(_)
        | Op::GatherElements(_)
        | Op::Resize(_)
        | Op::ScatterSum(_)
        | Op::Composite(_) => return None,
    };
    Some(Classifier { logits, ending })
}

fn batch(graph: &Graph) -> usize {
    graph
        .inputs()
        .first()
        .and_then(|&i| graph.shape(i).first().copied())
        .unwrap_or(1)
}

/// The `p` of probabilities `[1 - p, p]`, which scikit-learn makes of a single sigmoid.
pub(crate) fn second_of_two(graph: &Graph, value: ValueId) -> Option<ValueId> {
    let both = graph.producer(value)?;
    let (&Op::Concat(_), &[other, p]) = (&both.op, &both.inputs[..]) else {
        return None;
    };
    let rest = graph.producer(behind_reshapes(graph, other))?;
    let (&Op::Binary(Binary::Sub), &[one, from]) = (&rest.op, &rest.inputs[..]) else {
        return None;
    };
    let p = behind_reshapes(graph, p);
    let numbers = graph.constant(one)?.to_f32();
    let is_one = numbers.iter().all(|&x| x == 1.0);
    (is_one && behind_reshapes(graph, from) == p).then_some(p)
}

pub(crate) fn behind_reshapes(graph: &Graph, mut value: ValueId) -> ValueId {
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
        value = match &node.op {
            Op::Reduce(reduce) => return (reduce.kind == wanted).then_some(node.inputs[0]),
            Op::Reshape(_) | Op::Expand(_) => node.inputs[0],
            Op::Binary(f) => match (*f == Binary::Max, &node.inputs[..]) {
                (true, &[x, low]) if is_lowest(low) => x,
                (true, &[low, x]) if is_lowest(low) => x,
                _ => return None,
            },
            Op::Conv(_)
            | Op::ConvTranspose(_)
            | Op::Gemm(_)
            | Op::MatMul
            | Op::BatchNormalization(_)
            | Op::InstanceNormalization(_)
            | Op::LayerNormalization(_)
            | Op::Lrn(_)
            | Op::Unary(_)
            | Op::Where
            | Op::Cast(_)
            | Op::Pool(_)
            | Op::ArgMax(_)
            | Op::TopK(_)
            | Op::Softmax(_)
            | Op::Transpose(_)
            | Op::Concat(_)
            | Op::Slice(_)
            | Op::Pad(_)
            | Op::Tile(_)
            | Op::Gather(_)
            | Op::GatherElements(_)
            | Op::Resize(_)
            | Op::ScatterSum(_)
            | Op::Composite(_) => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Reduce, Softmax};
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

    /// `[1 - sigmoid(z), sigmoid(z)]`.
    #[test]
    fn two_probabilities_of_one_sigmoid_are_looked_behind() {
        let mut graph = Graph::new();
        let z = input(&mut graph, &[1, 1]);
        let p = graph.push("p", Op::Unary(Unary::Sigmoid), &[z]).unwrap();
        let one = graph.add_constant("one", Tensor::scalar(1.0));
        let sub = Op::Binary(Binary::Sub);
        let q = graph.push("q", sub.clone(), &[one, p]).unwrap();
        let both = graph.push("both", Op::Concat(1), &[q, p]).unwrap();
        let found = Classifier::find(&graph, both);
        assert_eq!((found.logits, found.ending), (z, Ending::Sigmoid));
        assert_eq!(found.classes(&graph, 1), 2);
        let swapped = graph.push("swapped", Op::Concat(1), &[p, q]).unwrap();
        assert_eq!(Classifier::find(&graph, swapped).ending, Ending::Logits);
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
