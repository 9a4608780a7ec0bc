//! Reductions over axes.

use npcov_graph::op::{ArgMax, Binary, Reduce, ReduceKind, Unary};
use npcov_graph::{Op, OpError, Tensor, ValueId};

use super::{Shares, Step, linear};
use crate::append::Append;

/// The gradient of the input.
pub(super) fn adjoint(
    g: &mut Append<'_>,
    step: &Step<'_>,
    reduce: &Reduce,
) -> Result<Shares, OpError> {
    let (x, shape) = (step.input(0), step.shape(0));
    let mut kept = shape.to_vec();
    for &axis in &reduce.axes {
        kept[axis] = 1;
    }
    // In a shape that broadcasts to the input's.
    let r = g.reshape(step.cotangent, &kept)?;
    let y = g.reshape(step.node.output, &kept)?;
    let gradient = match reduce.kind {
        ReduceKind::Mean | ReduceKind::Sum => return linear::adjoint(g, step),
        ReduceKind::Max => return first_extreme(g, step, reduce, false),
        ReduceKind::Min => return first_extreme(g, step, reduce, true),
        ReduceKind::Prod => {
            let others = product_of_others(g, x, reduce)?;
            g.mul(r, others)?
        }
        ReduceKind::L1 => {
            let sign = g.unary(Unary::Sign, x)?;
            g.mul(r, sign)?
        }
        ReduceKind::L2 => {
            // The norm of zeros has a kink, where the gradient is 0.
            let is_p = g.is_positive(y)?;
            let share = g.div(r, y)?;
            let share = g.keep(is_p, share)?;
            g.mul(x, share)?
        }
        ReduceKind::SumSquare => {
            let twice = g.times(r, 2.0)?;
            g.mul(x, twice)?
        }
        ReduceKind::LogSum => {
            let sum = g.sum(x, reduce.axes.clone())?;
            let share = g.div(r, sum)?;
            g.expand(share, shape)?
        }
        ReduceKind::LogSumExp => {
            let difference = g.sub(x, y)?;
            let share = g.unary(Unary::Exp, difference)?;
            g.mul(r, share)?
        }
    };
    Ok(vec![(0, gradient)])
}

/// Relevance of the factors of products: as of two, each has the same part.
pub(super) fn equal_parts(
    g: &mut Append<'_>,
    step: &Step<'_>,
    reduce: &Reduce,
) -> Result<Shares, OpError> {
    let shape = step.shape(0);
    let mut kept = shape.to_vec();
    let mut factors = 1;
    for &axis in &reduce.axes {
        factors *= shape[axis];
        kept[axis] = 1;
    }
    let r = g.reshape(step.cotangent, &kept)?;
    let part = g.times(r, 1.0 / factors.max(1) as f32)?;
    Ok(vec![(0, g.expand(part, shape)?)])
}

/// For each element, the product of those it is multiplied with: the product of all over the
/// element, unless there are zeros. A single zero leaves the product of the others to itself and
/// nothing to them; two leave nothing to anyone.
fn product_of_others(g: &mut Append<'_>, x: ValueId, reduce: &Reduce) -> Result<ValueId, OpError> {
    let (zero, one) = (g.scalar(0.0), g.scalar(1.0));
    let is_zero = g.binary(Binary::Equal, x, zero)?;
    let others = g.choose(is_zero, one, x)?;
    let product = Reduce {
        keep_dims: true,
        ..reduce.clone()
    };
    let product = g.op(Op::Reduce(product), &[others])?;
    let quotient = g.div(product, others)?;
    let own = g.choose(is_zero, one, zero)?;
    let zeros = g.sum(own, reduce.axes.clone())?;
    let zeros = g.sub(zeros, own)?;
    let is_annulled = g.is_positive(zeros)?;
    g.choose(is_annulled, zero, quotient)
}

/// The first maximum (or minimum) in row-major order gets what arrived, as in a pool.
fn first_extreme(
    g: &mut Append<'_>,
    step: &Step<'_>,
    reduce: &Reduce,
    minimum: bool,
) -> Result<Shares, OpError> {
    // The reduced axes move to the end and become one.
    let shape = step.shape(0);
    let is_reduced = |axis: &usize| reduce.axes.contains(axis);
    let (moved, stay): (Vec<usize>, Vec<usize>) = (0..shape.len()).partition(is_reduced);
    let perm = [&stay[..], &moved[..]].concat();
    let mut inverse = vec![0; perm.len()];
    for (i, &p) in perm.iter().enumerate() {
        inverse[p] = i;
    }
    let permuted: Vec<usize> = perm.iter().map(|&p| shape[p]).collect();
    let count = moved.iter().map(|&axis| shape[axis]).product::<usize>();
    let rows = stay.iter().map(|&axis| shape[axis]).product::<usize>();
    let x = g.transpose(step.input(0), &perm)?;
    let x = g.reshape(x, &[rows, count])?;
    let first = ArgMax {
        axis: 1,
        keep_dims: true,
        select_last: false,
        minimum,
    };
    let first = g.op(Op::ArgMax(first), &[x])?;
    let numbers = g.constant(Tensor::ints((0..count as i64).collect()));
    let is_first = g.binary(Binary::Equal, first, numbers)?;
    let r = g.reshape(step.cotangent, &[rows, 1])?;
    let share = g.keep(is_first, r)?;
    let share = g.reshape(share, &permuted)?;
    Ok(vec![(0, g.transpose(share, &inverse)?)])
}
