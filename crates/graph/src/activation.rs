//! Activation functions that an exporter wrote out as arithmetic.
//!
//! SiLU comes as `x * sigmoid(x)`, GELU as four to eight nodes in an order that depends on the
//! exporter, ReLU6 as a maximum and a minimum. What they have in common: the result is a function
//! of one value `x`, element by element, all else being scalars. Such a function can be evaluated
//! at a few points and compared with the activations we know, so no spelling has to be listed.

use crate::error::OpError;
use crate::graph::{Graph, Node, ValueId};
use crate::op::{Binary, Op, Unary};
use crate::rewrite::Rewriter;

/// The longest arithmetic that is tried, in nodes. GELU's approximation takes nine.
const MAX_NODES: usize = 12;

/// Where functions are compared. Dense around zero, where activations differ.
const POINTS: [f32; 20] = [
    -20.0, -7.3, -5.9, -3.7, -3.01, -2.2, -1.3, -0.71, -0.2, -0.01, 0.0, 0.01, 0.33, 0.8, 1.7, 2.9,
    3.4, 5.3, 6.4, 21.0,
];

/// Where limits show that lie outside of all that: those of quantised numbers, or of a ReLU that
/// ends at a thousand. What overflows there says nothing.
const FAR: [f32; 8] = [-1e6, -1e4, -1e3, -100.0, 100.0, 1e3, 1e4, 1e6];

/// How far arithmetic may be from an activation, relative to results larger than 1.
const BOUND: f32 = 2e-5;

/// The same, where constants are rounded to half precision.
const HALF_BOUND: f32 = 4e-4;

/// The activations that are recognised.
const KNOWN: [Unary; 8] = [
    Unary::Relu,
    Unary::Clip { min: 0.0, max: 6.0 },
    Unary::Clip {
        min: -1.0,
        max: 1.0,
    },
    Unary::Swish { alpha: 1.0 },
    Unary::HardSwish,
    Unary::Gelu { tanh: false },
    Unary::Gelu { tanh: true },
    Unary::Mish,
];

/// The same graph with one node for each activation that was written out as several.
pub(crate) fn recognise_activations(graph: &Graph) -> Result<Graph, OpError> {
    let mut rewriter = Rewriter::new(graph);
    for node in graph.nodes() {
        match recognise(graph, node) {
            Some((activation, x)) => rewriter.replace(node, Op::Unary(activation), &[x])?,
            None => rewriter.copy(node)?,
        };
    }
    rewriter.finish()
}

/// The activation that ends at `node`, and the value it is a function of.
fn recognise(graph: &Graph, node: &Node) -> Option<(Unary, ValueId)> {
    // Arithmetic ends in a function of two values or in a limit; any other function of one would
    // have to be the activation itself.
    let ends = match Function::of(&node.op)? {
        Function::Unary(f) => matches!(f, Unary::Clip { .. }),
        Function::Binary(_) => true,
    };
    if !ends {
        return None;
    }
    // Go backwards, always from the value computed last, until a single one is left: then `node`
    // is a function of it. Going on may find one further back.
    let mut nodes = vec![node];
    let mut sources = arguments(graph, node)?;
    loop {
        if let [x] = sources[..]
            && graph.shape(x) == graph.shape(node.output)
            && let Some(activation) = identify(graph, &nodes, x)
        {
            return Some((activation, x));
        }
        if nodes.len() == MAX_NODES {
            return None;
        }
        let last = *sources.iter().max_by_key(|v| graph.value(**v).producer)?;
        let producer = graph.producer(last)?;
        sources.retain(|&v| v != last);
        for v in arguments(graph, producer)? {
            if !sources.contains(&v) {
                sources.push(v);
            }
        }
        nodes.push(producer);
    }
}

/// A function of single elements that activations are written out with.
enum Function {
    Unary(Unary),
    Binary(Binary),
}

impl Function {
    fn of(op: &Op) -> Option<Function> {
        match op {
            Op::Unary(f) => Some(Function::Unary(*f)),
            // An activation itself, with a slope for each channel.
            Op::Binary(Binary::PRelu) => None,
            Op::Binary(f) => Some(Function::Binary(*f)),
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
            | Op::Softmax(_)
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
            | Op::Composite(_) => None,
        }
    }
}

/// The values an element-wise node depends on besides scalars; `None` for any other node.
fn arguments(graph: &Graph, node: &Node) -> Option<Vec<ValueId>> {
    Function::of(&node.op)?;
    let mut list = Vec::new();
    for &input in &node.inputs {
        match scalar(graph, input) {
            Some(_) => {}
            None if graph.constant(input).is_some() => return None,
            None if list.contains(&input) => {}
            None => list.push(input),
        }
    }
    Some(list)
}

/// A constant all of whose elements are the same number.
fn scalar(graph: &Graph, id: ValueId) -> Option<f32> {
    let elements = graph.constant(id)?.as_f32()?;
    let (&first, rest) = elements.split_first()?;
    rest.iter().all(|&x| x == first).then_some(first)
}

/// The known activation that `nodes`, given last first, compute from `x`.
fn identify(graph: &Graph, nodes: &[&Node], x: ValueId) -> Option<Unary> {
    if nodes.len() == 1 && matches!(nodes[0].op, Op::Unary(_)) {
        return None;
    }
    let mut values = Vec::with_capacity(POINTS.len() + FAR.len());
    for &point in POINTS.iter().chain(&FAR) {
        let mut known = vec![(x, point)];
        for node in nodes.iter().rev() {
            let argument = |i: usize| {
                let id = *node.inputs.get(i)?;
                scalar(graph, id).or_else(|| known.iter().find(|(v, _)| *v == id).map(|(_, y)| *y))
            };
            let y = match Function::of(&node.op)? {
                Function::Unary(f) => f.apply(argument(0)?),
                Function::Binary(f) => f.apply(argument(0)?, argument(1)?),
            };
            known.push((node.output, y));
        }
        values.push(known.last()?.1);
    }
    // The largest distance from an activation, relative to what is larger than 1.
    let distance = |activation: &Unary| {
        let apart = |(&point, &y): (&f32, &f32)| {
            let expected = activation.apply(point);
            let apart = (y - expected).abs() / expected.abs().max(1.0);
            match apart.is_nan() {
                true => f32::INFINITY,
                false => apart,
            }
        };
        let (close, far) = values.split_at(POINTS.len());
        let far = FAR.iter().zip(far).filter(|(_, y)| y.is_finite());
        let all = POINTS.iter().zip(close).chain(far).map(apart);
        all.fold(0.0, f32::max)
    };
    let bound = match nodes.iter().any(|node| has_rounded_constant(graph, node)) {
        true => HALF_BOUND,
        false => BOUND,
    };
    let apart = KNOWN.into_iter().map(|f| (distance(&f), f));
    let (nearest, activation) = apart.min_by(|a, b| a.0.total_cmp(&b.0))?;
    (nearest <= bound).then_some(activation)
}

/// Whether a node has a scalar of half precision that is no short number: most such ones are constants of an activation,
/// which the exporter rounded.
fn has_rounded_constant(graph: &Graph, node: &Node) -> bool {
    let scalars = node.inputs.iter().filter_map(|&input| scalar(graph, input));
    let mut scalars = scalars.filter(|x| x.is_finite());
    scalars.any(|x| half::f16::from_f32(x).to_f32() == x && (x * 16.0).fract() != 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{DType, Tensor, TensorType};

    struct Net {
        graph: Graph,
        x: ValueId,
    }

    impl Net {
        fn new() -> Net {
            let mut graph = Graph::new();
            let x = graph.add_input("x", TensorType::new(DType::F32, [1, 4]));
            Net { graph, x }
        }

        fn unary(&mut self, f: Unary, x: ValueId) -> ValueId {
            self.graph.push("u", Op::Unary(f), &[x]).unwrap()
        }

        fn binary(&mut self, f: Binary, a: ValueId, b: ValueId) -> ValueId {
            self.graph.push("b", Op::Binary(f), &[a, b]).unwrap()
        }

        fn scalar(&mut self, x: f32) -> ValueId {
            self.graph.add_constant("c", Tensor::scalar(x))
        }

        fn finish(mut self, y: ValueId) -> Vec<Op> {
            self.graph.set_outputs(vec![y]);
            let graph = recognise_activations(&self.graph).unwrap();
            graph.nodes().iter().map(|n| n.op.clone()).collect()
        }
    }

    #[test]
    fn silu_behind_another_activation_is_found() {
        let mut net = Net::new();
        let t = net.unary(Unary::Tanh, net.x);
        let s = net.unary(Unary::Sigmoid, t);
        let y = net.binary(Binary::Mul, s, t);
        assert_eq!(
            net.finish(y),
            [
                Op::Unary(Unary::Tanh),
                Op::Unary(Unary::Swish { alpha: 1.0 })
            ]
        );
    }

    #[test]
    fn gelu_is_found_in_any_order() {
        for first in [true, false] {
            let mut net = Net::new();
            let (root2, one, half) = (
                net.scalar(std::f32::consts::SQRT_2),
                net.scalar(1.0),
                net.scalar(0.5),
            );
            let d = net.binary(Binary::Div, net.x, root2);
            let e = net.unary(Unary::Erf, d);
            let a = net.binary(Binary::Add, e, one);
            let y = if first {
                let h = net.binary(Binary::Mul, net.x, half);
                net.binary(Binary::Mul, h, a)
            } else {
                let m = net.binary(Binary::Mul, net.x, a);
                net.binary(Binary::Mul, m, half)
            };
            assert_eq!(net.finish(y), [Op::Unary(Unary::Gelu { tanh: false })]);
        }
    }

    /// The root of two and the coefficients of the other approximation, rounded to half precision. Both spellings are
    /// nearer to their own function than to the other's.
    #[test]
    fn rounded_constants_are_those_of_half_precision() {
        let mut net = Net::new();
        let (root2, one, half) = (net.scalar(1.414_062_5), net.scalar(1.0), net.scalar(0.5));
        let d = net.binary(Binary::Div, net.x, root2);
        let e = net.unary(Unary::Erf, d);
        let a = net.binary(Binary::Add, e, one);
        let m = net.binary(Binary::Mul, net.x, a);
        let y = net.binary(Binary::Mul, m, half);
        assert_eq!(net.finish(y), [Op::Unary(Unary::Gelu { tanh: false })]);

        let mut net = Net::new();
        let (cubic, root) = (net.scalar(0.044_708_252), net.scalar(0.797_851_56));
        let (one, half) = (net.scalar(1.0), net.scalar(0.5));
        let square = net.binary(Binary::Mul, net.x, net.x);
        let cube = net.binary(Binary::Mul, square, net.x);
        let cube = net.binary(Binary::Mul, cube, cubic);
        let sum = net.binary(Binary::Add, net.x, cube);
        let inner = net.binary(Binary::Mul, sum, root);
        let t = net.unary(Unary::Tanh, inner);
        let a = net.binary(Binary::Add, t, one);
        let m = net.binary(Binary::Mul, net.x, a);
        let y = net.binary(Binary::Mul, m, half);
        assert_eq!(net.finish(y), [Op::Unary(Unary::Gelu { tanh: true })]);

        // A factor of another size is another function.
        let mut net = Net::new();
        let (factor, one) = (net.scalar(1.702), net.scalar(1.0));
        let u = net.binary(Binary::Mul, net.x, factor);
        let s = net.unary(Unary::Sigmoid, u);
        let y = net.binary(Binary::Mul, net.x, s);
        let y = net.binary(Binary::Mul, y, one);
        assert!(net.finish(y).len() > 1);
    }

    #[test]
    fn hard_swish_of_paddle_is_found() {
        let mut net = Net::new();
        let (three, six) = (net.scalar(3.0), net.scalar(6.0));
        let a = net.binary(Binary::Add, net.x, three);
        let c = net.unary(Unary::Clip { min: 0.0, max: 6.0 }, a);
        let m = net.binary(Binary::Mul, net.x, c);
        let y = net.binary(Binary::Div, m, six);
        assert_eq!(net.finish(y), [Op::Unary(Unary::HardSwish)]);
    }

    #[test]
    fn a_hard_tangent_is_found() {
        let mut net = Net::new();
        let (low, high) = (net.scalar(-1.0), net.scalar(1.0));
        let below = net.binary(Binary::Min, net.x, high);
        let y = net.binary(Binary::Max, below, low);
        let (min, max) = (-1.0, 1.0);
        assert_eq!(net.finish(y), [Op::Unary(Unary::Clip { min, max })]);
    }

    /// `clip(x, 0, 255) * 0.5 / 0.5`, as quantised numbers have it: no ReLU.
    #[test]
    fn limits_far_away_are_seen() {
        let mut net = Net::new();
        let limits = Unary::Clip {
            min: 0.0,
            max: 255.0,
        };
        let half = net.scalar(0.5);
        let y = net.unary(limits, net.x);
        let y = net.binary(Binary::Mul, y, half);
        let y = net.binary(Binary::Div, y, half);
        let ops = net.finish(y);
        assert_eq!(ops.len(), 3);
        assert_eq!(ops[0], Op::Unary(limits));
    }

    #[test]
    fn other_arithmetic_stays_as_it_is() {
        let mut net = Net::new();
        let half = net.scalar(0.5);
        let s = net.unary(Unary::Sigmoid, net.x);
        let y = net.binary(Binary::Mul, s, half);
        assert_eq!(net.finish(y).len(), 2);
    }
}
