//! Operators on two tensors, element by element.

use npcov_graph::op::{Binary, CompositeOp, Unary};
use npcov_graph::{Op, OpError, ValueId};

use super::sum::SumRelevance;
use super::{Choice, Shares, Step, no_rule};
use crate::append::Append;
use crate::rule::Sharing;

/// The relevance of both operands.
pub(super) fn relevance(
    g: &mut Append<'_>,
    step: &Step<'_>,
    f: Binary,
    choice: &Choice,
) -> Result<Shares, OpError> {
    let all_to = |g: &mut Append<'_>, i: usize| {
        let share = g.unbroadcast(step.cotangent, step.shape(i))?;
        Ok(vec![(i, share)])
    };
    // With a constant, a gate or a scale, each element has a single contribution, which gets
    // everything.
    if let &[only] = &choice.carriers[..] {
        return all_to(g, only);
    }
    match f {
        Binary::Add | Binary::Sub => sum(g, step, f, choice),
        Binary::Mul => {
            let half = g.times(step.cotangent, 0.5)?;
            let share = |g: &mut Append<'_>, i| Ok((i, g.unbroadcast(half, step.shape(i))?));
            Ok(vec![share(g, 0)?, share(g, 1)?])
        }
        // What is divided by is a scale; so is the slope of a PRelu and the exponent of a power.
        Binary::Div | Binary::PRelu | Binary::Pow => all_to(g, 0),
        Binary::Max => chosen(g, step, Binary::GreaterOrEqual),
        Binary::Min => chosen(g, step, Binary::LessOrEqual),
        Binary::Mod
        | Binary::Fmod
        | Binary::Equal
        | Binary::Less
        | Binary::LessOrEqual
        | Binary::Greater
        | Binary::GreaterOrEqual
        | Binary::And
        | Binary::Or
        | Binary::Xor => Err(no_rule()),
    }
}

/// Two contributions with the weights 1 and 1, or 1 and -1.
fn sum(g: &mut Append<'_>, step: &Step<'_>, f: Binary, choice: &Choice) -> Result<Shares, OpError> {
    let r = step.cotangent;
    let not_for_sums =
        || OpError::unsupported(format!("the rule `{}` is not for sums", choice.rule));
    let mut shares = Shares::new();
    match choice.rule.sharing() {
        Sharing::Split { .. } => {
            for of in 0..2 {
                let share = SumRelevance {
                    rule: choice.rule,
                    subtracted: f == Binary::Sub,
                    nonnegative: [choice.nonnegative[0], choice.nonnegative[1]],
                    of,
                };
                let inputs = [step.input(0), step.input(1), r];
                let share = g.op(Op::Composite(CompositeOp::new(share)), &inputs)?;
                shares.push((of, g.unbroadcast(share, step.shape(of))?));
            }
        }
        Sharing::Whole(rule) => {
            let mut terms = [step.input(0), step.input(1)];
            if f == Binary::Sub {
                terms[1] = g.unary(Unary::Neg, terms[1])?;
            }
            let factor = rule.factor(g, step.node.output, r)?;
            for (i, &c) in terms.iter().enumerate() {
                let share = g.mul(c, factor)?;
                shares.push((i, g.unbroadcast(share, step.shape(i))?));
            }
        }
        Sharing::Own(rule) => {
            let share = rule.addend(g, r)?.ok_or_else(not_for_sums)?;
            for i in 0..2 {
                shares.push((i, g.unbroadcast(share, step.shape(i))?));
            }
        }
        Sharing::Named(_) => return Err(not_for_sums()),
    }
    Ok(shares)
}

/// The gradients of both operands, summed over the axes along which one was broadcast.
///
/// Of two equal operands, each is half of the maximum; at zero, a PRelu has its slope.
pub(super) fn adjoint(g: &mut Append<'_>, step: &Step<'_>, f: Binary) -> Result<Shares, OpError> {
    let mut shares = Shares::new();
    for i in 0..2 {
        if step.varies(i) {
            let gradient = gradient(g, step, f, i)?;
            shares.push((i, g.unbroadcast(gradient, step.shape(i))?));
        }
    }
    Ok(shares)
}

/// What arrived, times the derivative with respect to operand `i`.
fn gradient(g: &mut Append<'_>, step: &Step<'_>, f: Binary, i: usize) -> Result<ValueId, OpError> {
    let (a, b) = (step.input(0), step.input(1));
    let (y, r) = (step.node.output, step.cotangent);
    let zero = g.scalar(0.0);
    match (f, i) {
        (Binary::Add, _) | (Binary::Sub | Binary::Fmod, 0) => Ok(r),
        (Binary::Sub, _) => g.unary(Unary::Neg, r),
        (Binary::Mul, 0) => g.mul(r, b),
        (Binary::Mul, _) => g.mul(r, a),
        (Binary::Div, 0) => g.div(r, b),
        (Binary::Div, _) => {
            // -a / b^2, from the quotient.
            let share = g.mul(r, y)?;
            let share = g.div(share, b)?;
            g.unary(Unary::Neg, share)
        }
        (Binary::Pow, 0) => {
            let slope = power_slope(g, step)?;
            g.mul(r, slope)
        }
        (Binary::Pow, _) => {
            // y ln a; a power of 0 stays what it is.
            let log = g.unary(Unary::Log, a)?;
            let slope = g.mul(y, log)?;
            let is_zero = g.binary(Binary::Equal, a, zero)?;
            let slope = g.choose(is_zero, zero, slope)?;
            g.mul(r, slope)
        }
        (Binary::Fmod, _) => {
            // a = n b + y with a whole number n.
            let whole = g.sub(a, y)?;
            let whole = g.div(whole, b)?;
            let whole = g.unary(Unary::Round, whole)?;
            let share = g.mul(r, whole)?;
            g.unary(Unary::Neg, share)
        }
        (Binary::PRelu, 0) => {
            let below = g.mul(r, b)?;
            let is_p = g.is_positive(a)?;
            g.choose(is_p, r, below)
        }
        (Binary::PRelu, _) => {
            let below = g.mul(r, a)?;
            let is_n = g.is_negative(a)?;
            g.keep(is_n, below)
        }
        (Binary::Max, _) => extreme_gradient(g, step, Binary::Greater, i),
        (Binary::Min, _) => extreme_gradient(g, step, Binary::Less, i),
        (
            Binary::Mod
            | Binary::Equal
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual
            | Binary::And
            | Binary::Or
            | Binary::Xor,
            _,
        ) => {
            let message = format!("`{}` has no gradient", f.name());
            Err(OpError::unsupported(message))
        }
    }
}

/// What arrived, where operand `i` is beyond the other one; half of it where they are equal.
fn extreme_gradient(
    g: &mut Append<'_>,
    step: &Step<'_>,
    beyond: Binary,
    i: usize,
) -> Result<ValueId, OpError> {
    let (own, other, r) = (step.input(i), step.input(1 - i), step.cotangent);
    let is_chosen = g.binary(beyond, own, other)?;
    let is_tie = g.binary(Binary::Equal, own, other)?;
    let half = g.times(r, 0.5)?;
    let rest = g.keep(is_tie, half)?;
    g.choose(is_chosen, r, rest)
}

/// The derivative of `a^b` with respect to `a`: `b a^(b-1)`.
fn power_slope(g: &mut Append<'_>, step: &Step<'_>) -> Result<ValueId, OpError> {
    let (a, b) = (step.input(0), step.input(1));
    let exponents = step.graph.constant(b).and_then(|b| b.as_f32());
    let all = |is: fn(f32) -> bool| exponents.is_some_and(|b| b.iter().all(|&b| is(b)));
    if all(|b| b == 2.0) {
        return g.times(a, 2.0);
    }
    let less = g.plus(b, -1.0)?;
    let power = g.binary(Binary::Pow, a, less)?;
    let slope = g.mul(b, power)?;
    if all(|b| b != 0.0) {
        return Ok(slope);
    }
    // With an exponent of 0 the power is constant, also at 0 where 0 * 0^-1 is no number.
    let zero = g.scalar(0.0);
    let is_constant = g.binary(Binary::Equal, b, zero)?;
    g.choose(is_constant, zero, slope)
}

/// What arrived goes to the operand that was chosen: the first one where `is_first` holds for both.
fn chosen(g: &mut Append<'_>, step: &Step<'_>, is_first: Binary) -> Result<Shares, OpError> {
    let first = g.binary(is_first, step.input(0), step.input(1))?;
    branches(g, step, first, [0, 1])
}

/// What arrived goes to the branch that was taken.
pub(super) fn where_adjoint(g: &mut Append<'_>, step: &Step<'_>) -> Result<Shares, OpError> {
    branches(g, step, step.input(0), [1, 2])
}

/// What arrived goes to input `of[0]` where the condition holds, else to `of[1]`.
fn branches(
    g: &mut Append<'_>,
    step: &Step<'_>,
    condition: ValueId,
    of: [usize; 2],
) -> Result<Shares, OpError> {
    let zero = g.scalar(0.0);
    let mut shares = Shares::new();
    for (place, i) in of.into_iter().enumerate() {
        if step.varies(i) {
            let share = match place {
                0 => g.choose(condition, step.cotangent, zero)?,
                _ => g.choose(condition, zero, step.cotangent)?,
            };
            shares.push((i, g.unbroadcast(share, step.shape(i))?));
        }
    }
    Ok(shares)
}
