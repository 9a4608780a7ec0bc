//! Layer normalisation that an exporter wrote out as arithmetic: `(x - mean) / sqrt(variance +
//! epsilon)`, in the spellings of exporters before opset 17.

use crate::error::OpError;
use crate::graph::{Graph, Node, ValueId};
use crate::op::{Binary, LayerNormalization, Op, ReduceKind, Unary};
use crate::rewrite::Rewriter;
use crate::tensor::{Data, Tensor};

/// The same graph with one node for each layer normalisation that was written out as several. Scale
/// and bias stay what they are: a product and a sum with constants.
pub(crate) fn recognise_normalisation(graph: &Graph) -> Result<Graph, OpError> {
    let found: Vec<Option<Found>> = graph.nodes().iter().map(|n| recognise(graph, n)).collect();
    if found.iter().all(Option::is_none) {
        return Ok(graph.clone());
    }
    let mut rewriter = Rewriter::new(graph);
    for (node, found) in graph.nodes().iter().zip(found) {
        match found {
            Some(found) => normalise(graph, &mut rewriter, node, &found)?,
            None => {
                rewriter.copy(node)?;
            }
        }
    }
    rewriter.finish()
}

/// A normalisation of `x` over axes.
struct Found {
    x: ValueId,
    axes: Vec<usize>,
    epsilon: f32,
}

/// Puts one node in the place of the last of those that were written out, between transposes where
/// the axes are not the last ones.
fn normalise(
    graph: &Graph,
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    found: &Found,
) -> Result<(), OpError> {
    let shape = graph.shape(found.x);
    let stays = |axis: &usize| !found.axes.contains(axis);
    let mut perm: Vec<usize> = (0..shape.len()).filter(stays).collect();
    let axis = perm.len();
    perm.extend(&found.axes);
    let mut inverse = vec![0; perm.len()];
    for (i, &p) in perm.iter().enumerate() {
        inverse[p] = i;
    }
    let is_last = perm.iter().enumerate().all(|(i, &p)| i == p);
    let extents: Vec<usize> = found.axes.iter().map(|&a| shape[a]).collect();
    let ones = Data::F32(vec![1.0; extents.iter().product()]);
    let ones = Tensor::new(extents, ones).ok_or_else(|| OpError::invalid("too many elements"))?;
    let mut x = rewriter.get(found.x)?;
    let target = rewriter.graph();
    let scale = target.add_constant(node.name.clone(), ones);
    if !is_last {
        x = target.push(node.name.clone(), Op::Transpose(perm), &[x])?;
    }
    let layer = LayerNormalization {
        axis,
        epsilon: found.epsilon,
    };
    let mut y = target.push(
        node.name.clone(),
        Op::LayerNormalization(layer),
        &[x, scale],
    )?;
    if !is_last {
        y = target.push(node.name.clone(), Op::Transpose(inverse), &[y])?;
    }
    rewriter.set(node.output, y);
    Ok(())
}

/// The normalisation that ends at `node`: a centred value over its deviation, or times the inverse
/// of that.
fn recognise(graph: &Graph, node: &Node) -> Option<Found> {
    let [a, b] = node.inputs[..] else {
        return None;
    };
    let (centred, variance) = if node.op == Op::Binary(Binary::Div) {
        (a, root(graph, b)?)
    } else if node.op == Op::Binary(Binary::Mul) {
        match (inverse_root(graph, b), inverse_root(graph, a)) {
            (Some(variance), _) => (a, variance),
            (None, Some(variance)) => (b, variance),
            (None, None) => return None,
        }
    } else {
        return None;
    };
    let (x, axes) = centre(graph, centred)?;
    let (variance, epsilon) = shifted(graph, variance)?;
    let (squares, over) = mean(graph, variance)?;
    let again = square_root(graph, squares)?;
    let same = again == centred || centre(graph, again) == Some((x, axes.clone()));
    (same && over == axes && epsilon > 0.0).then_some(Found { x, axes, epsilon })
}

/// `x` of `sqrt(x)`.
fn root(graph: &Graph, value: ValueId) -> Option<ValueId> {
    let node = graph.producer(value)?;
    match node.op == Op::Unary(Unary::Sqrt) {
        true => node.inputs.first().copied(),
        false => power(graph, node, 0.5),
    }
}

/// `x` of `1 / sqrt(x)`.
fn inverse_root(graph: &Graph, value: ValueId) -> Option<ValueId> {
    let node = graph.producer(value)?;
    if node.op == Op::Unary(Unary::Reciprocal) {
        return root(graph, *node.inputs.first()?);
    }
    if node.op == Op::Binary(Binary::Div) && number(graph, node.inputs[0]) == Some(1.0) {
        return root(graph, node.inputs[1]);
    }
    power(graph, node, -0.5)
}

/// `x` of `x^exponent`.
fn power(graph: &Graph, node: &Node, exponent: f32) -> Option<ValueId> {
    let is_power = node.op == Op::Binary(Binary::Pow);
    (is_power && number(graph, *node.inputs.get(1)?)? == exponent).then_some(node.inputs[0])
}

/// `x` and the number of `x + number`.
fn shifted(graph: &Graph, value: ValueId) -> Option<(ValueId, f32)> {
    let node = graph.producer(value)?;
    let (Op::Binary(Binary::Add), [a, b]) = (&node.op, &node.inputs[..]) else {
        return None;
    };
    let first = number(graph, *b).map(|epsilon| (*a, epsilon));
    first.or_else(|| number(graph, *a).map(|epsilon| (*b, epsilon)))
}

/// `x` and the axes of `x - mean(x)`.
fn centre(graph: &Graph, value: ValueId) -> Option<(ValueId, Vec<usize>)> {
    let node = graph.producer(value)?;
    let (Op::Binary(Binary::Sub), [x, subtracted]) = (&node.op, &node.inputs[..]) else {
        return None;
    };
    let (of, axes) = mean(graph, *subtracted)?;
    (of == *x).then_some((of, axes))
}

/// `x` and the axes of a mean that keeps them.
fn mean(graph: &Graph, value: ValueId) -> Option<(ValueId, Vec<usize>)> {
    let node = graph.producer(value)?;
    let Op::Reduce(reduce) = &node.op else {
        return None;
    };
    let is_mean = reduce.kind == ReduceKind::Mean && reduce.keep_dims;
    is_mean.then(|| (node.inputs[0], reduce.axes.clone()))
}

/// `x` of `x^2` or `x * x`.
fn square_root(graph: &Graph, value: ValueId) -> Option<ValueId> {
    let node = graph.producer(value)?;
    match node.inputs[..] {
        [a, b] if a == b && node.op == Op::Binary(Binary::Mul) => Some(a),
        _ => power(graph, node, 2.0),
    }
}

/// A constant of one element.
fn number(graph: &Graph, value: ValueId) -> Option<f32> {
    let tensor = graph.constant(value)?;
    match tensor.to_f32()[..] {
        [number] => Some(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Reduce;
    use crate::tensor::{DType, TensorType};

    struct Net {
        graph: Graph,
        x: ValueId,
    }

    impl Net {
        fn op(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
            self.graph.push("n", op, inputs).unwrap()
        }

        fn scalar(&mut self, x: f32) -> ValueId {
            self.graph.add_constant("c", Tensor::scalar(x))
        }

        fn mean(&mut self, axis: usize, x: ValueId) -> ValueId {
            let mean = Reduce {
                kind: ReduceKind::Mean,
                axes: vec![axis],
                keep_dims: true,
            };
            self.op(Op::Reduce(mean), &[x])
        }

        /// The centred input and its variance plus epsilon.
        fn parts(axis: usize, squares_by_power: bool) -> (Net, ValueId, ValueId) {
            let mut graph = Graph::new();
            let x = graph.add_input("x", TensorType::new(DType::F32, [2, 3, 4]));
            let mut net = Net { graph, x };
            let m = net.mean(axis, x);
            let d = net.op(Op::Binary(Binary::Sub), &[x, m]);
            let squares = match squares_by_power {
                true => {
                    let two = net.scalar(2.0);
                    net.op(Op::Binary(Binary::Pow), &[d, two])
                }
                false => net.op(Op::Binary(Binary::Mul), &[d, d]),
            };
            let v = net.mean(axis, squares);
            let epsilon = net.scalar(1e-5);
            let v = net.op(Op::Binary(Binary::Add), &[v, epsilon]);
            (net, d, v)
        }

        fn names(mut self, y: ValueId) -> Vec<&'static str> {
            self.graph.set_outputs(vec![y]);
            let graph = recognise_normalisation(&self.graph).unwrap();
            graph.nodes().iter().map(|n| n.op.name()).collect()
        }
    }

    #[test]
    fn spellings_of_layer_normalisation_are_found() {
        for by_power in [true, false] {
            let (mut net, d, v) = Net::parts(2, by_power);
            let s = net.op(Op::Unary(Unary::Sqrt), &[v]);
            let y = net.op(Op::Binary(Binary::Div), &[d, s]);
            assert_eq!(net.names(y), ["LayerNormalization"]);
            let (mut net, d, v) = Net::parts(2, by_power);
            let s = net.op(Op::Unary(Unary::Sqrt), &[v]);
            let s = net.op(Op::Unary(Unary::Reciprocal), &[s]);
            let y = net.op(Op::Binary(Binary::Mul), &[s, d]);
            assert_eq!(net.names(y), ["LayerNormalization"]);
            let (mut net, d, v) = Net::parts(2, by_power);
            let half = net.scalar(-0.5);
            let s = net.op(Op::Binary(Binary::Pow), &[v, half]);
            let y = net.op(Op::Binary(Binary::Mul), &[d, s]);
            assert_eq!(net.names(y), ["LayerNormalization"]);
        }
    }

    #[test]
    fn other_axes_are_brought_to_the_end() {
        let (mut net, d, v) = Net::parts(1, true);
        let s = net.op(Op::Unary(Unary::Sqrt), &[v]);
        let y = net.op(Op::Binary(Binary::Div), &[d, s]);
        let expected = ["Transpose", "LayerNormalization", "Transpose"];
        assert_eq!(net.names(y), expected);
    }

    #[test]
    fn what_is_divided_by_something_else_stays() {
        let (mut net, _, v) = Net::parts(2, true);
        let s = net.op(Op::Unary(Unary::Sqrt), &[v]);
        let y = net.op(Op::Binary(Binary::Div), &[net.x, s]);
        assert!(!net.names(y).contains(&"LayerNormalization"));
    }
}
