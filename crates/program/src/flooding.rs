//! Numbers that are explained from a reference on (Letzgus et al., *Toward Explainable AI for Regression Models*).
//!
//! Relevance is proportional to what is shared out, so a reference `y0` that is only taken off the number changes
//! nothing but signs. What lies between the number and the reference is explained by another top of the network. Let
//! it be `y = w a + c` with `a = ReLU(p)`, and let the *flooded* activations `f` be those at which `w f + c = y0`.
//! Then `y - y0 = w (a - f)`, and for any `p` and any `f` that is not negative
//!
//! ```text
//! ReLU(p) - f = ReLU(p - f) + ReLU(-p) - ReLU(f - p)
//! ```
//!
//! so that three units stand for each: with the weights of the layer before and their negatives, and `f` in the place
//! of a bias. A neuron's relevance is that of its three units.

use npcov_graph::op::{Binary, Composite, CompositeOp, Reduce, ReduceKind, Unary};
use npcov_graph::{DType, Data, Graph, Node, Op, OpError, Tensor, TensorType, ValueId};

use crate::append::Append;
use crate::head::{Otherwise, widened};

/// The most neurons of the layer that is flooded: every one is compared with every other.
const MOST_NEURONS: usize = 2048;

/// A network whose number is explained from its reference on.
pub(crate) struct Flooded {
    /// Of each output how far it is below its reference, and above; 0 for outputs that are not explained.
    pub(crate) sides: ValueId,
    /// The activations that were divided, of shape [inputs, neurons].
    pub(crate) hidden: ValueId,
    /// The units that stand for them, of shape [inputs, neurons, 3].
    pub(crate) units: ValueId,
}

impl Flooded {
    /// Rewrites the top of a network for one of its outputs.
    pub(crate) fn new(
        program: &mut Graph,
        output: ValueId,
        (explained, outputs): (usize, usize),
        reference: f32,
    ) -> Result<Flooded, OpError> {
        let top = Top::find(program, output, explained, reference)?;
        let (neurons, hidden) = (top.weights.len(), top.hidden);
        let &[batch, _] = program.shape(hidden) else {
            return Err(not_for());
        };
        if neurons > MOST_NEURONS {
            let message =
                format!("{neurons} neurons, of which at most {MOST_NEURONS} can be flooded");
            return Err(OpError::unsupported(message));
        }
        let columns = |j| [(j, 1.0), (j, -1.0), (j, -1.0)];
        let columns: Vec<(usize, f32)> = (0..neurons).flat_map(columns).collect();
        let copies = widened(program, top.sums, &columns, false, Otherwise::Refuse)?;
        let mut g = Append::new(program, "flooded");
        let copies = g.reshape(copies, &[batch, neurons, 3])?;
        let flood = Flood {
            weights: top.weights.clone(),
            constant: top.constant,
            reference: top.reference,
        };
        let shift = g.op(Op::Composite(CompositeOp::new(flood)), &[hidden])?;
        let shifted = g.add(copies, shift)?;
        let units = g.positive(shifted)?;
        let flat = g.reshape(units, &[batch, 3 * neurons])?;
        // Down and up, of the number as the model gives it.
        let mut outgoing = vec![0.0; 3 * neurons * 2 * outputs];
        for (j, &w) in top.weights.iter().enumerate() {
            for (copy, sign) in [1.0, 1.0, -1.0].into_iter().enumerate() {
                let row = (3 * j + copy) * 2 * outputs + 2 * explained;
                outgoing[row] = -sign * w * top.turns as f32;
                outgoing[row + 1] = sign * w * top.turns as f32;
            }
        }
        let outgoing = Tensor::new([3 * neurons, 2 * outputs], Data::F32(outgoing));
        let outgoing = g.constant(outgoing.ok_or_else(not_for)?);
        Ok(Flooded {
            sides: g.op(Op::MatMul, &[flat, outgoing])?,
            hidden,
            units,
        })
    }

    /// The relevance of the activations, from that of the units that stand for them.
    pub(crate) fn folded(
        &self,
        program: &mut Graph,
        relevance: ValueId,
    ) -> Result<ValueId, OpError> {
        let shape = program.shape(self.hidden).to_vec();
        let mut g = Append::new(program, "flooded");
        let sum = g.sum(relevance, vec![2])?;
        g.reshape(sum, &shape)
    }
}

fn not_for() -> OpError {
    OpError::unsupported(
        "a number that is explained from a reference on, unless a ReLU and two dense layers compute it",
    )
}

/// The last layers of a network, as one output sees them: `y = weights ReLU(sums) + constant`.
struct Top {
    weights: Vec<f32>,
    constant: f32,
    /// The reference, as a value of `y`: what follows it is undone.
    reference: f32,
    /// 1, or -1 where what follows decreases.
    turns: f64,
    hidden: ValueId,
    sums: ValueId,
}

impl Top {
    fn find(graph: &Graph, output: ValueId, of: usize, reference: f32) -> Result<Top, OpError> {
        let (mut y0, mut turns) = (f64::from(reference), 1.0);
        let mut node = graph.producer(output).ok_or_else(not_for)?;
        while let Some((input, undone, sign)) = undo(graph, node, of, y0) {
            (y0, turns) = (undone, turns * sign);
            node = graph.producer(input).ok_or_else(not_for)?;
        }
        if !y0.is_finite() {
            return Err(OpError::unsupported(
                "a reference that the model never gives",
            ));
        }
        let weights = node.inputs.get(1).and_then(|&w| graph.constant(w));
        let weights = weights.ok_or_else(not_for)?;
        let &[rows, columns] = weights.shape() else {
            return Err(not_for());
        };
        let numbers = weights.to_f32();
        let column = || (0..rows).map(|i| numbers[i * columns + of]).collect();
        let row = || numbers[of * columns..(of + 1) * columns].to_vec();
        let (weights, constant): (Vec<f32>, f32) = if node.op == Op::MatMul && of < columns {
            (column(), 0.0)
        } else if let Op::Gemm(gemm) = &node.op
            && !gemm.trans_a
            && of < if gemm.trans_b { rows } else { columns }
        {
            let weights = if gemm.trans_b { row() } else { column() };
            let bias = node.inputs.get(2).and_then(|&b| number(graph, b, of));
            let scaled = weights.iter().map(|w| gemm.alpha * w).collect();
            (scaled, gemm.beta * bias.unwrap_or(0.0))
        } else {
            return Err(not_for());
        };
        let hidden = node.inputs[0];
        let relu = graph.producer(hidden).ok_or_else(not_for)?;
        if relu.op != Op::Unary(Unary::Relu) {
            return Err(not_for());
        }
        let sums = relu.inputs[0];
        Ok(Top {
            weights,
            constant,
            reference: y0 as f32,
            turns,
            hidden,
            sums,
        })
    }
}

/// The number of a constant that belongs to an output.
fn number(graph: &Graph, value: ValueId, output: usize) -> Option<f32> {
    let numbers = graph.constant(value)?.to_f32();
    match numbers[..] {
        [single] => Some(single),
        _ => numbers.get(output).copied(),
    }
}

/// What a node makes of a number, undone: its input, what it has to be for the node to give `y`, and 1, or -1 where
/// more becomes less.
fn undo(graph: &Graph, node: &Node, output: usize, y: f64) -> Option<(ValueId, f64, f64)> {
    let &first = node.inputs.first()?;
    if let Op::Reshape(_) = node.op {
        return Some((first, y, 1.0));
    }
    if let Op::Unary(f) = &node.op {
        let undone = [
            (Unary::Tanh, y.atanh(), 1.0),
            (Unary::Sigmoid, (y / (1.0 - y)).ln(), 1.0),
            (Unary::Atan, y.tan(), 1.0),
            (Unary::Neg, -y, -1.0),
        ];
        let found = undone.into_iter().find(|(known, ..)| known == f);
        return found.map(|(_, before, sign)| (first, before, sign));
    }
    let Op::Binary(f) = node.op else { return None };
    let &second = node.inputs.get(1)?;
    let is_second = graph.constant(second).is_some();
    let (input, constant) = if is_second {
        (first, second)
    } else {
        (second, first)
    };
    if graph.shape(node.output) != graph.shape(input) {
        return None;
    }
    let c = f64::from(number(graph, constant, output)?);
    let (before, sign) = if f == Binary::Add {
        (y - c, 1.0)
    } else if f == Binary::Sub {
        if is_second {
            (y + c, 1.0)
        } else {
            (c - y, -1.0)
        }
    } else if f == Binary::Mul {
        (y / c, c.signum())
    } else if f == Binary::Div && is_second {
        (y * c, c.signum())
    } else {
        return None;
    };
    Some((input, before, sign))
}

/// What is added to the three copies of each sum: `-f`, 0 and `f`.
///
/// Activations are lowered by a common *level*, down to 0, until the number has reached the reference. The number is
/// piecewise linear in the level, with kinks at the activations, so its first crossing is found exactly. Where the
/// number has to grow, all activations are raised instead, if that helps. A reference that is out of reach is flooded
/// to nothing.
#[derive(Debug)]
struct Flood {
    weights: Vec<f32>,
    constant: f32,
    reference: f32,
}

impl Flood {
    /// The number, above the reference, for activations along the last axis.
    fn above(&self, g: &mut Append<'_>, activations: ValueId) -> Result<ValueId, OpError> {
        let weights = Tensor::new([self.weights.len(), 1], Data::F32(self.weights.clone()));
        let weights = g.constant(weights.ok_or_else(not_for)?);
        let sum = g.op(Op::MatMul, &[activations, weights])?;
        g.plus(sum, self.constant - self.reference)
    }

    /// Activations that are lowered by levels, but not below 0.
    fn lowered(g: &mut Append<'_>, a: ValueId, level: ValueId) -> Result<ValueId, OpError> {
        let lowered = g.sub(a, level)?;
        g.positive(lowered)
    }
}

fn extreme(g: &mut Append<'_>, kind: ReduceKind, x: ValueId) -> Result<ValueId, OpError> {
    let reduce = Reduce {
        kind,
        axes: vec![1],
        keep_dims: true,
    };
    g.op(Op::Reduce(reduce), &[x])
}

impl Composite for Flood {
    fn name(&self) -> &'static str {
        "Flood"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        match inputs {
            [a] if a.shape.len() == 2 && a.shape[1] == self.weights.len() => {
                let shape = [a.shape[0], self.weights.len(), 3];
                Ok(TensorType::new(DType::F32, shape))
            }
            _ => Err(OpError::invalid("activations that do not fit the weights")),
        }
    }

    fn lower(&self, graph: &mut Graph, name: &str, inputs: &[ValueId]) -> Result<ValueId, OpError> {
        let mut g = Append::new(graph, name);
        let g = &mut g;
        let ty = g.infer(self, inputs)?;
        let (a, batch, neurons) = (inputs[0], ty.shape[0], ty.shape[1]);
        let zero = g.scalar(0.0);
        let here = self.above(g, a)?;
        // The number at each kink, and whether it is at the reference or beyond it.
        let (row, column) = ([batch, 1, neurons], [batch, neurons, 1]);
        let (rows, levels) = (g.reshape(a, &row)?, g.reshape(a, &column)?);
        let at_kinks = Flood::lowered(g, rows, levels)?;
        let at_kinks = self.above(g, at_kinks)?;
        let at_kinks = g.reshape(at_kinks, &[batch, neurons])?;
        let product = g.mul(at_kinks, here)?;
        let is_beyond = g.binary(Binary::LessOrEqual, product, zero)?;
        // The first such kink and the one before it. The last kink leaves nothing; it has to do where none is such.
        let top = extreme(g, ReduceKind::Max, a)?;
        let beyond = g.choose(is_beyond, a, top)?;
        let high = extreme(g, ReduceKind::Min, beyond)?;
        let is_before = g.binary(Binary::Less, a, high)?;
        let before = g.keep(is_before, a)?;
        let low = extreme(g, ReduceKind::Max, before)?;
        let [at_low, at_high] = [low, high].map(|level| {
            let lowered = Flood::lowered(g, a, level)?;
            self.above(g, lowered)
        });
        let (at_low, at_high) = (at_low?, at_high?);
        let whole = g.sub(at_low, at_high)?;
        let part = g.div(at_low, whole)?;
        let crosses = g.mul(at_low, at_high)?;
        let crosses = g.binary(Binary::Less, crosses, zero)?;
        let one = g.scalar(1.0);
        // On a kink, and where nothing crosses, the whole way.
        let part = g.choose(crosses, part, one)?;
        let way = g.sub(high, low)?;
        let way = g.mul(way, part)?;
        let level = g.add(low, way)?;
        let total: f64 = self.weights.iter().map(|&w| f64::from(w)).sum();
        let level = match total > 0.0 {
            // Below the reference: by so much more each.
            true => {
                let raised = g.times(here, (1.0 / total) as f32)?;
                let is_below = g.binary(Binary::Less, here, zero)?;
                g.choose(is_below, raised, level)?
            }
            false => level,
        };
        // At the reference there is nothing to lower.
        let is_there = g.binary(Binary::Equal, here, zero)?;
        let level = g.choose(is_there, zero, level)?;
        let flooded = Flood::lowered(g, a, level)?;
        let flooded = g.reshape(flooded, &column)?;
        let signs = Tensor::new([1, 1, 3], Data::F32(vec![-1.0, 0.0, 1.0]));
        let signs = g.constant(signs.ok_or_else(not_for)?);
        g.mul(flooded, signs)
    }
}

/// Whether a node computes what activations are flooded to. They count as a bias does: nothing is explained by them.
pub(crate) fn is_flood(op: &CompositeOp) -> bool {
    op.downcast::<Flood>().is_some()
}

#[cfg(test)]
mod tests {
    use npcov_engine::Engine;
    use npcov_engine::native::Native;

    use super::*;

    /// `y = (2, -1, 4) a + .5` at `a = (3, 1, .5)`, where it is 7.5.
    fn flooded(reference: f32) -> Vec<f32> {
        let mut graph = Graph::new();
        let a = graph.add_input("a", TensorType::new(DType::F32, [1, 3]));
        let flood = Flood {
            weights: vec![2.0, -1.0, 4.0],
            constant: 0.5,
            reference,
        };
        let shift = graph
            .push("f", Op::Composite(CompositeOp::new(flood)), &[a])
            .unwrap();
        graph.set_outputs(vec![shift]);
        let found = Native::default()
            .run_once(&graph, 1, &[&[3.0, 1.0, 0.5]])
            .unwrap();
        for copies in found[0].chunks(3) {
            assert_eq!([copies[0], copies[1]], [-copies[2], 0.0]);
        }
        found[0].chunks(3).map(|copies| copies[2]).collect()
    }

    /// By hand: at the levels .5, 1 and 3 the number is 5, 4.5 and .5, so it is 2 at 2.25; raised by .3 each it is 9.
    #[test]
    fn activations_are_lowered_or_raised_to_the_reference() {
        let close = |reference: f32, expected: [f32; 3]| {
            let found = flooded(reference);
            for (a, b) in found.iter().zip(expected) {
                assert!(
                    (a - b).abs() < 1e-6,
                    "{reference}: {found:?}, not {expected:?}"
                );
            }
        };
        close(5.0, [2.5, 0.5, 0.0]);
        close(4.5, [2.0, 0.0, 0.0]);
        close(2.0, [0.75, 0.0, 0.0]);
        close(0.5, [0.0, 0.0, 0.0]);
        close(9.0, [3.3, 1.3, 0.8]);
        close(7.5, [3.0, 1.0, 0.5]);
        // Below the constant nothing can be lowered any more.
        close(-1.0, [0.0, 0.0, 0.0]);
    }
}
