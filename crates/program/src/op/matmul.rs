//! Matrix products, of constants and of values that both depend on the input.

use npcov_graph::op::Gemm;
use npcov_graph::{Op, OpError, ValueId};

use super::{Choice, Shares, Step, no_rule};
use crate::append::Append;
use crate::linear::Linear;
use crate::relevance::LinearRelevance;

/// The relevance of the operands of `A B`. The product is linear in each of them, with the other one
/// as its weights: the values that attention weighs get everything, two operands of equal rank half
/// each.
pub(super) fn relevance(
    g: &mut Append<'_>,
    step: &Step<'_>,
    choice: &Choice,
) -> Result<Shares, OpError> {
    if step.shape(0).len() < 2 || step.shape(1).len() < 2 {
        return Err(no_rule());
    }
    let sharing = choice.carriers.len().max(1) as f32;
    let r = g.times(step.cotangent, 1.0 / sharing)?;
    let mut shares = Shares::new();
    for &i in &choice.carriers {
        let op = LinearRelevance {
            linear: [Linear::MatMul, Linear::MatMulLeft][i].clone(),
            rule: choice.rule,
            weight: true,
            bias: false,
            nonnegative: choice.nonnegative[i],
        };
        let inputs = [step.input(i), r, step.input(1 - i)];
        shares.push((i, g.lowered(&op, &inputs)?));
    }
    Ok(shares)
}

/// The gradients of `alpha A B + beta C`: `alpha R B'`, `alpha A' R` and `beta R`.
///
/// A matrix that is stored transposed has a transposed gradient, which is the product of the
/// transposed factors in the other order: all transpositions are flags of the products.
pub(super) fn gemm_adjoint(
    g: &mut Append<'_>,
    step: &Step<'_>,
    op: &Gemm,
) -> Result<Shares, OpError> {
    let (a, b, r) = (step.input(0), step.input(1), step.cotangent);
    let product = |g: &mut Append<'_>, left, trans_a, right, trans_b| {
        let gemm = Gemm {
            alpha: op.alpha,
            beta: 1.0,
            trans_a,
            trans_b,
        };
        g.op(Op::Gemm(gemm), &[left, right])
    };
    let mut shares = Shares::new();
    if step.varies(0) {
        let gradient = match op.trans_a {
            false => product(g, r, false, b, !op.trans_b)?,
            true => product(g, b, op.trans_b, r, true)?,
        };
        shares.push((0, gradient));
    }
    if step.varies(1) {
        let gradient = match op.trans_b {
            false => product(g, a, !op.trans_a, r, false)?,
            true => product(g, r, true, a, op.trans_a)?,
        };
        shares.push((1, gradient));
    }
    if step.node.inputs.len() > 2 && step.varies(2) {
        let gradient = g.times(r, op.beta)?;
        shares.push((2, g.unbroadcast(gradient, step.shape(2))?));
    }
    Ok(shares)
}

/// The gradients of `A B`: `R B'` and `A' R`, summed over the leading axes that were broadcast.
pub(super) fn matmul_adjoint(g: &mut Append<'_>, step: &Step<'_>) -> Result<Shares, OpError> {
    // A vector is a row on the left and a column on the right; its axis is not in the result.
    let row = |shape: &[usize]| match *shape {
        [inner] => vec![1, inner],
        _ => shape.to_vec(),
    };
    let column = |shape: &[usize]| match *shape {
        [inner] => vec![inner, 1],
        _ => shape.to_vec(),
    };
    let (a_shape, b_shape) = (row(step.shape(0)), column(step.shape(1)));
    let mut r_shape = step.output_shape().to_vec();
    if step.shape(0).len() == 1 {
        let end = r_shape.len() - usize::from(step.shape(1).len() > 1);
        r_shape.insert(end, 1);
    }
    if step.shape(1).len() == 1 {
        r_shape.push(1);
    }
    let r = g.reshape(step.cotangent, &r_shape)?;
    let mut shares = Shares::new();
    if step.varies(0) {
        let b = g.reshape(step.input(1), &b_shape)?;
        let b = transposed(g, b)?;
        let gradient = g.op(Op::MatMul, &[r, b])?;
        let gradient = g.unbroadcast(gradient, &a_shape)?;
        shares.push((0, g.reshape(gradient, step.shape(0))?));
    }
    if step.varies(1) {
        let a = g.reshape(step.input(0), &a_shape)?;
        let a = transposed(g, a)?;
        let gradient = g.op(Op::MatMul, &[a, r])?;
        let gradient = g.unbroadcast(gradient, &b_shape)?;
        shares.push((1, g.reshape(gradient, step.shape(1))?));
    }
    Ok(shares)
}

/// The last two axes exchanged.
pub(crate) fn transposed(g: &mut Append<'_>, x: ValueId) -> Result<ValueId, OpError> {
    let rank = g.shape(x).len();
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(rank - 2, rank - 1);
    g.transpose(x, &perm)
}
