//! Functions of single elements: what arrived, times the derivative.
//!
//! At a kink the derivative is PyTorch's: that of the flat side for ReLU and its relatives (0),
//! for bounds (0) and for the absolute value (0); that of the negative side for those that bend.
//! Functions that are constant between jumps pass nothing on.

use std::f32::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use npcov_graph::op::{Binary, Unary};
use npcov_graph::{OpError, ValueId};

use super::{Shares, Step};
use crate::append::Append;

/// The gradient of the input.
///
/// Where a derivative can be told from the output alone, the input need not be kept for it.
pub(super) fn adjoint(g: &mut Append<'_>, step: &Step<'_>, f: Unary) -> Result<Shares, OpError> {
    let (x, y, r) = (step.input(0), step.node.output, step.cotangent);
    let only = |gradient| Ok(vec![(0, gradient)]);
    let slope = match f {
        // Pieces: what arrived is passed on, scaled or not.
        Unary::Relu => {
            let is_p = g.is_positive(y)?;
            return only(g.keep(is_p, r)?);
        }
        Unary::LeakyRelu { alpha } => {
            let is_p = g.is_positive(x)?;
            let below = g.times(r, alpha)?;
            return only(g.choose(is_p, r, below)?);
        }
        Unary::ThresholdedRelu { alpha } => {
            let is_above = above(g, x, alpha)?;
            return only(g.keep(is_above, r)?);
        }
        Unary::Elu { alpha } => return only(exponential_below(g, x, r, alpha, 1.0, 1.0)?),
        Unary::Selu { alpha, gamma } => {
            return only(exponential_below(g, x, r, alpha, 1.0, gamma)?);
        }
        Unary::Celu { alpha } => return only(exponential_below(g, x, r, 1.0, alpha, 1.0)?),
        Unary::HardSigmoid { alpha, .. } => {
            let r = g.times(r, alpha)?;
            return only(inside(g, y, r, 0.0, 1.0)?);
        }
        Unary::Clip { min, max } => return only(inside(g, y, r, min, max)?),
        Unary::Shrink { lambd, .. } => {
            let size = g.unary(Unary::Abs, x)?;
            let is_outside = above(g, size, lambd)?;
            return only(g.keep(is_outside, r)?);
        }
        Unary::HardSwish => return only(hard_swish(g, x, r)?),
        Unary::Neg => return only(g.unary(Unary::Neg, r)?),
        Unary::Log => return only(g.div(r, x)?),
        Unary::Sqrt => {
            let twice = g.times(y, 2.0)?;
            return only(g.div(r, twice)?);
        }
        // Constant between jumps.
        Unary::Floor
        | Unary::Ceil
        | Unary::Round
        | Unary::Sign
        | Unary::Not
        | Unary::IsNaN
        | Unary::IsInf { .. } => return Ok(Shares::new()),
        // Slopes.
        Unary::Abs => g.unary(Unary::Sign, x)?,
        Unary::Sigmoid => logistic_slope(g, y)?,
        Unary::Tanh => tanh_slope(g, y)?,
        Unary::Gelu { tanh: false } => gelu_slope(g, x)?,
        Unary::Gelu { tanh: true } => gelu_tanh_slope(g, x)?,
        Unary::Swish { alpha } => {
            let u = g.times(x, alpha)?;
            let u_slope = g.scalar(alpha);
            gated(g, x, u, u_slope)?
        }
        Unary::Mish => mish_slope(g, x)?,
        Unary::Softplus => g.unary(Unary::Sigmoid, x)?,
        Unary::Softsign => {
            let size = g.unary(Unary::Abs, x)?;
            let size = g.plus(size, 1.0)?;
            let inverse = g.unary(Unary::Reciprocal, size)?;
            g.mul(inverse, inverse)?
        }
        Unary::Exp => y,
        Unary::Reciprocal => {
            let square = g.mul(y, y)?;
            g.unary(Unary::Neg, square)?
        }
        Unary::Erf => {
            let bell = bell(g, x)?;
            g.times(bell, FRAC_2_SQRT_PI)?
        }
        Unary::Sin => g.unary(Unary::Cos, x)?,
        Unary::Cos => {
            let sine = g.unary(Unary::Sin, x)?;
            g.unary(Unary::Neg, sine)?
        }
        Unary::Tan => {
            let square = g.mul(y, y)?;
            g.plus(square, 1.0)?
        }
        Unary::Asin => asin_slope(g, x)?,
        Unary::Acos => {
            let slope = asin_slope(g, x)?;
            g.unary(Unary::Neg, slope)?
        }
        Unary::Atan => {
            let square = g.mul(x, x)?;
            let square = g.plus(square, 1.0)?;
            g.unary(Unary::Reciprocal, square)?
        }
        Unary::Sinh => g.unary(Unary::Cosh, x)?,
        Unary::Cosh => g.unary(Unary::Sinh, x)?,
        Unary::Asinh => {
            let square = g.mul(x, x)?;
            let square = g.plus(square, 1.0)?;
            inverse_root(g, square)?
        }
        Unary::Acosh => {
            let square = one_minus_square(g, x)?;
            let square = g.unary(Unary::Neg, square)?;
            inverse_root(g, square)?
        }
        Unary::Atanh => {
            let square = one_minus_square(g, x)?;
            g.unary(Unary::Reciprocal, square)?
        }
    };
    only(g.mul(r, slope)?)
}

/// `r (x / 3 + 1/2)` between -3 and 3, nothing below, `r` above.
fn hard_swish(g: &mut Append<'_>, x: ValueId, r: ValueId) -> Result<ValueId, OpError> {
    let slope = g.times(x, 1.0 / 3.0)?;
    let slope = g.plus(slope, 0.5)?;
    let bent = g.mul(r, slope)?;
    let is_above_low = above(g, x, -3.0)?;
    let is_below_high = below(g, x, 3.0)?;
    let low = g.keep(is_above_low, bent)?;
    g.choose(is_below_high, low, r)
}

/// `1 - y^2`, `y` being the hyperbolic tangent.
fn tanh_slope(g: &mut Append<'_>, y: ValueId) -> Result<ValueId, OpError> {
    let square = g.mul(y, y)?;
    one_minus(g, square)
}

/// The normal distribution function, plus `x` times its density.
fn gelu_slope(g: &mut Append<'_>, x: ValueId) -> Result<ValueId, OpError> {
    let inner = g.times(x, FRAC_1_SQRT_2)?;
    let erf = g.unary(Unary::Erf, inner)?;
    let whole = g.plus(erf, 1.0)?;
    let distribution = g.times(whole, 0.5)?;
    let bell = bell(g, inner)?;
    let density = g.times(bell, 0.5 * FRAC_1_SQRT_2 * FRAC_2_SQRT_PI)?;
    let more = g.mul(x, density)?;
    g.add(distribution, more)
}

/// The slope of `x s(u)` with the logistic function `s` and `u = 2 sqrt(2/pi) (x + 0.044715 x^3)`.
/// Beyond 10 it is as good as 0 or 1; the square must not overflow there.
fn gelu_tanh_slope(g: &mut Append<'_>, x: ValueId) -> Result<ValueId, OpError> {
    let bounds = Unary::Clip {
        min: -10.0,
        max: 10.0,
    };
    let x = g.unary(bounds, x)?;
    let factor = 2.0 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    let square = g.mul(x, x)?;
    let cubic = g.times(square, factor * 0.044_715)?;
    let u = g.plus(cubic, factor)?;
    let u = g.mul(u, x)?;
    let u_slope = g.times(square, factor * 3.0 * 0.044_715)?;
    let u_slope = g.plus(u_slope, factor)?;
    gated(g, x, u, u_slope)
}

/// The slope of `x t` with `t = tanh(softplus(x))`: `t + x s(x) (1 - t^2)`.
fn mish_slope(g: &mut Append<'_>, x: ValueId) -> Result<ValueId, OpError> {
    let softplus = g.unary(Unary::Softplus, x)?;
    let t = g.unary(Unary::Tanh, softplus)?;
    let t_slope = tanh_slope(g, t)?;
    let s = g.unary(Unary::Sigmoid, x)?;
    let s = g.mul(x, s)?;
    let more = g.mul(s, t_slope)?;
    g.add(t, more)
}

/// `1 / sqrt(1 - x^2)`.
fn asin_slope(g: &mut Append<'_>, x: ValueId) -> Result<ValueId, OpError> {
    let square = one_minus_square(g, x)?;
    inverse_root(g, square)
}

/// `gamma r` above zero, `gamma r scale e^(x/width)` elsewhere.
fn exponential_below(
    g: &mut Append<'_>,
    x: ValueId,
    r: ValueId,
    scale: f32,
    width: f32,
    gamma: f32,
) -> Result<ValueId, OpError> {
    let r = g.times(r, gamma)?;
    let exponent = g.times(x, 1.0 / width)?;
    let slope = g.unary(Unary::Exp, exponent)?;
    let slope = g.times(slope, scale)?;
    let below = g.mul(r, slope)?;
    let is_p = g.is_positive(x)?;
    g.choose(is_p, r, below)
}

/// `r` where `y` lies strictly between two bounds, else 0.
fn inside(
    g: &mut Append<'_>,
    y: ValueId,
    r: ValueId,
    min: f32,
    max: f32,
) -> Result<ValueId, OpError> {
    let mut r = r;
    if min > f32::NEG_INFINITY {
        let is_above = above(g, y, min)?;
        r = g.keep(is_above, r)?;
    }
    if max < f32::INFINITY {
        let is_below = below(g, y, max)?;
        r = g.keep(is_below, r)?;
    }
    Ok(r)
}

fn above(g: &mut Append<'_>, x: ValueId, bound: f32) -> Result<ValueId, OpError> {
    let bound = g.scalar(bound);
    g.binary(Binary::Greater, x, bound)
}

fn below(g: &mut Append<'_>, x: ValueId, bound: f32) -> Result<ValueId, OpError> {
    let bound = g.scalar(bound);
    g.binary(Binary::Less, x, bound)
}

/// The slope of `x s(u)`, `s` the logistic function and `u_slope` the slope of `u`:
/// `s + x s (1 - s) u'`.
fn gated(g: &mut Append<'_>, x: ValueId, u: ValueId, u_slope: ValueId) -> Result<ValueId, OpError> {
    let s = g.unary(Unary::Sigmoid, u)?;
    let s_slope = logistic_slope(g, s)?;
    let more = g.mul(x, s_slope)?;
    let more = g.mul(more, u_slope)?;
    g.add(s, more)
}

/// `s (1 - s)`.
fn logistic_slope(g: &mut Append<'_>, s: ValueId) -> Result<ValueId, OpError> {
    let rest = one_minus(g, s)?;
    g.mul(s, rest)
}

fn one_minus(g: &mut Append<'_>, x: ValueId) -> Result<ValueId, OpError> {
    let one = g.scalar(1.0);
    g.sub(one, x)
}

/// `1 - x^2` as a product, which keeps its digits near 1 and -1.
fn one_minus_square(g: &mut Append<'_>, x: ValueId) -> Result<ValueId, OpError> {
    let (minus, plus) = (one_minus(g, x)?, g.plus(x, 1.0)?);
    g.mul(minus, plus)
}

/// `1 / sqrt(x)`.
fn inverse_root(g: &mut Append<'_>, x: ValueId) -> Result<ValueId, OpError> {
    let root = g.unary(Unary::Sqrt, x)?;
    g.unary(Unary::Reciprocal, root)
}

/// `e^(-x^2)`.
fn bell(g: &mut Append<'_>, x: ValueId) -> Result<ValueId, OpError> {
    let square = g.mul(x, x)?;
    let square = g.unary(Unary::Neg, square)?;
    g.unary(Unary::Exp, square)
}
