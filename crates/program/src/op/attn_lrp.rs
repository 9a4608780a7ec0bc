//! The adjoints that AttnLRP changes. A gradient `G` stands for the relevance `x G` of a value `x`.

use npcov_graph::op::{Binary, Unary};
use npcov_graph::{Graph, Op, OpError, ValueId};

use super::{Shares, Step, norm};
use crate::append::Append;
use crate::attention::is_product;

/// Added to what a function's result is divided by.
const STABILISER: f32 = 1e-10;

/// What the inputs of a node get of what arrived.
pub(crate) fn adjoint(g: &mut Append<'_>, step: &Step<'_>) -> Result<Shares, OpError> {
    match &step.node.op {
        Op::Unary(f) => factor(g, step, *f),
        Op::Binary(Binary::Mul) if step.varies(0) && step.varies(1) => product(g, step),
        // What is divided by is a deviation, and a constant.
        Op::Binary(Binary::Div) if step.varies(0) => {
            let share = g.div(step.cotangent, step.input(1))?;
            Ok(vec![(0, g.unbroadcast(share, step.shape(0))?)])
        }
        Op::MatMul if is_product(step.graph, step.node) => {
            let half = g.times(step.cotangent, 0.5)?;
            let step = Step {
                cotangent: half,
                ..*step
            };
            super::adjoint(g, &step)
        }
        Op::LayerNormalization(op) if step.varies(0) => {
            let axes = (op.axis..step.shape(0).len()).collect();
            norm::constant_deviation_adjoint(g, step, axes, op.epsilon, step.shape(1))
        }
        Op::InstanceNormalization(op) if step.varies(0) => {
            let axes = (2..step.shape(0).len()).collect();
            let channels = norm::per_channel(step);
            norm::constant_deviation_adjoint(g, step, axes, op.epsilon, &channels)
        }
        Op::Conv(_)
        | Op::ConvTranspose(_)
        | Op::Gemm(_)
        | Op::MatMul
        | Op::BatchNormalization(_)
        | Op::InstanceNormalization(_)
        | Op::LayerNormalization(_)
        | Op::Lrn(_)
        | Op::Binary(_)
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
        | Op::Composite(_) => super::adjoint(g, step),
    }
}

/// `f(x) / x` in the place of the derivative; at zero the derivative.
fn factor(g: &mut Append<'_>, step: &Step<'_>, f: Unary) -> Result<Shares, OpError> {
    let (x, y, r) = (step.input(0), step.node.output, step.cotangent);
    let shifted = g.plus(x, STABILISER)?;
    let factor = g.div(y, shifted)?;
    let by_factor = g.mul(r, factor)?;
    let slopes = super::adjoint(g, step)?;
    let Some(&(_, by_slope)) = slopes.first() else {
        return Ok(Shares::new());
    };
    // A negation and its like have no other factor than their slope.
    if f == Unary::Neg {
        return Ok(slopes);
    }
    let zero = g.scalar(0.0);
    let is_zero = g.binary(Binary::Equal, x, zero)?;
    Ok(vec![(0, g.choose(is_zero, by_slope, by_factor)?)])
}

/// Half to each of two factors; all to what is scaled by the inverse of a deviation.
fn product(g: &mut Append<'_>, step: &Step<'_>) -> Result<Shares, OpError> {
    let scales = [0, 1].map(|i| is_inverse(step.graph, step.input(i)));
    let shares = super::adjoint(g, step)?;
    let kept = |&(i, _): &(usize, ValueId)| !scales[i] || scales == [true, true];
    let kept: Shares = shares.into_iter().filter(kept).collect();
    let part = 1.0 / kept.len().max(1) as f32;
    let share = |(i, share)| Ok((i, g.times(share, part)?));
    kept.into_iter().map(share).collect()
}

/// Whether a value is `1 / x` or a negative power: a normalisation multiplies by it.
fn is_inverse(graph: &Graph, value: ValueId) -> bool {
    let Some(node) = graph.producer(value) else {
        return false;
    };
    let constant = |i: usize| {
        let tensor = node.inputs.get(i).and_then(|&v| graph.constant(v));
        tensor.map(|tensor| tensor.to_f32())
    };
    let is_power = node.op == Op::Binary(Binary::Pow);
    node.op == Op::Unary(Unary::Reciprocal)
        || is_power && constant(1).is_some_and(|e| e.iter().all(|&e| e < 0.0))
        || node.op == Op::Binary(Binary::Div) && constant(0).is_some()
}
