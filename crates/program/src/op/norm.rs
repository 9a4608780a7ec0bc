//! Normalisation layers, differentiated through their statistics.

use npcov_graph::op::{
    BatchNormalization, Binary, Conv, InstanceNormalization, LayerNormalization, Lrn, Reduce,
    ReduceKind, Unary, Window,
};
use npcov_graph::{Op, OpError, ValueId};

use super::{Shares, Step};
use crate::append::Append;

/// The gradients of `y = (x - mean) s + bias` with `s = scale / sqrt(variance + epsilon)`.
pub(super) fn batch_adjoint(
    g: &mut Append<'_>,
    step: &Step<'_>,
    op: &BatchNormalization,
) -> Result<Shares, OpError> {
    let r = step.cotangent;
    let per_channel = per_channel(step);
    let parameter = |g: &mut Append<'_>, i: usize| g.reshape(step.input(i), &per_channel);
    let variance = parameter(g, 4)?;
    let variance = g.plus(variance, op.epsilon)?;
    let deviation = g.unary(Unary::Sqrt, variance)?;
    let scale = parameter(g, 1)?;
    let s = g.div(scale, deviation)?;
    let mut shares = Shares::new();
    let share = |g: &mut Append<'_>, i: usize, gradient: ValueId| {
        let sum = g.unbroadcast(gradient, &per_channel)?;
        Ok::<_, OpError>((i, g.reshape(sum, step.shape(i))?))
    };
    let by_s = g.mul(r, s)?;
    if step.varies(0) {
        shares.push((0, by_s));
    }
    if step.varies(2) {
        shares.push(share(g, 2, r)?);
    }
    if step.varies(3) {
        let gradient = g.unary(Unary::Neg, by_s)?;
        shares.push(share(g, 3, gradient)?);
    }
    if step.varies(1) || step.varies(4) {
        let mean = parameter(g, 3)?;
        let difference = g.sub(step.input(0), mean)?;
        if step.varies(1) {
            let standard = g.div(difference, deviation)?;
            let gradient = g.mul(r, standard)?;
            shares.push(share(g, 1, gradient)?);
        }
        if step.varies(4) {
            // d s / d variance = -s / (2 (variance + epsilon)).
            let gradient = g.mul(by_s, difference)?;
            let twice = g.times(variance, -2.0)?;
            let gradient = g.div(gradient, twice)?;
            shares.push(share(g, 4, gradient)?);
        }
    }
    Ok(shares)
}

/// Statistics per sample and channel; one scale and bias for each channel.
pub(super) fn instance_adjoint(
    g: &mut Append<'_>,
    step: &Step<'_>,
    op: &InstanceNormalization,
) -> Result<Shares, OpError> {
    let axes = (2..step.shape(0).len()).collect();
    own_statistics(g, step, axes, op.epsilon, &per_channel(step))
}

/// Statistics over the trailing axes; one scale and bias for each element of those.
pub(super) fn layer_adjoint(
    g: &mut Append<'_>,
    step: &Step<'_>,
    op: &LayerNormalization,
) -> Result<Shares, OpError> {
    let axes = (op.axis..step.shape(0).len()).collect();
    own_statistics(g, step, axes, op.epsilon, step.shape(1))
}

/// The gradients of `y = h scale + bias`, where `h = (x - mean) d` with `d = 1 / deviation` and
/// both statistics are those of `x` over some axes. With `q = r scale`, what arrives at `h`,
///
/// ```text
/// x: d (q - mean(q) - h mean(q h))
/// ```
///
/// because a shift of all of `x` changes nothing, and neither does (but for epsilon) its scale.
fn own_statistics(
    g: &mut Append<'_>,
    step: &Step<'_>,
    axes: Vec<usize>,
    epsilon: f32,
    parameters: &[usize],
) -> Result<Shares, OpError> {
    let (x, r) = (step.input(0), step.cotangent);
    let mean_of = |g: &mut Append<'_>, x: ValueId| {
        let mean = Reduce {
            kind: ReduceKind::Mean,
            axes: axes.clone(),
            keep_dims: true,
        };
        g.op(Op::Reduce(mean), &[x])
    };
    let mean = mean_of(g, x)?;
    let difference = g.sub(x, mean)?;
    let square = g.mul(difference, difference)?;
    let variance = mean_of(g, square)?;
    let variance = g.plus(variance, epsilon)?;
    let deviation = g.unary(Unary::Sqrt, variance)?;
    let h = g.div(difference, deviation)?;
    let mut shares = Shares::new();
    if step.varies(0) {
        let scale = g.reshape(step.input(1), parameters)?;
        let q = g.mul(r, scale)?;
        let q_mean = mean_of(g, q)?;
        let along = g.mul(q, h)?;
        let along = mean_of(g, along)?;
        let along = g.mul(h, along)?;
        let rest = g.sub(q, q_mean)?;
        let rest = g.sub(rest, along)?;
        shares.push((0, g.div(rest, deviation)?));
    }
    if step.varies(1) {
        let gradient = g.mul(r, h)?;
        let sum = g.unbroadcast(gradient, parameters)?;
        shares.push((1, g.reshape(sum, step.shape(1))?));
    }
    if step.node.inputs.len() > 2 && step.varies(2) {
        let sum = g.unbroadcast(r, parameters)?;
        shares.push((2, g.reshape(sum, step.shape(2))?));
    }
    Ok(shares)
}

/// The gradient of a normalisation whose deviation counts as a constant: `d (q - mean(q))`, with
/// `q = r scale` and `d = 1 / deviation`.
pub(super) fn constant_deviation_adjoint(
    g: &mut Append<'_>,
    step: &Step<'_>,
    axes: Vec<usize>,
    epsilon: f32,
    parameters: &[usize],
) -> Result<Shares, OpError> {
    let mean_of = |g: &mut Append<'_>, x: ValueId| {
        let mean = Reduce {
            kind: ReduceKind::Mean,
            axes: axes.clone(),
            keep_dims: true,
        };
        g.op(Op::Reduce(mean), &[x])
    };
    let x = step.input(0);
    let mean = mean_of(g, x)?;
    let difference = g.sub(x, mean)?;
    let square = g.mul(difference, difference)?;
    let variance = mean_of(g, square)?;
    let variance = g.plus(variance, epsilon)?;
    let deviation = g.unary(Unary::Sqrt, variance)?;
    let scale = g.reshape(step.input(1), parameters)?;
    let q = g.mul(step.cotangent, scale)?;
    let q_mean = mean_of(g, q)?;
    let rest = g.sub(q, q_mean)?;
    Ok(vec![(0, g.div(rest, deviation)?)])
}

/// A shape with the channels on the second axis, which broadcasts to that of `x`.
pub(super) fn per_channel(step: &Step<'_>) -> Vec<usize> {
    let x = step.shape(0);
    let mut shape = vec![1; x.len()];
    shape[1] = x[1];
    shape
}

/// `y_c = x_c t_c^-beta` with `t_c = bias + k sum of x_j^2 over the channels j near c`, `k` being
/// `alpha / size`. A channel is in the sum of its own neighbours, so with `r` what arrived
///
/// ```text
/// x_j: r_j t_j^-beta - 2 k beta x_j sum over the c that j is near of r_c x_c t_c^(-beta-1)
/// ```
pub(super) fn lrn_adjoint(
    g: &mut Append<'_>,
    step: &Step<'_>,
    op: &Lrn,
) -> Result<Shares, OpError> {
    let (x, r) = (step.input(0), step.cotangent);
    let reach = op.size.saturating_sub(1);
    let (below, above) = (reach / 2, reach.div_ceil(2));
    let k = op.alpha / op.size as f32;
    let square = g.mul(x, x)?;
    let t = channel_sums(g, square, below, above)?;
    let t = g.times(t, k)?;
    let t = g.plus(t, op.bias)?;
    let exponent = g.scalar(-op.beta);
    let power = g.binary(Binary::Pow, t, exponent)?;
    let direct = g.mul(r, power)?;
    let through = g.mul(direct, x)?;
    let through = g.div(through, t)?;
    // Channel j is near c when c lies between j - above and j + below.
    let through = channel_sums(g, through, above, below)?;
    let through = g.mul(x, through)?;
    let through = g.times(through, 2.0 * k * op.beta)?;
    Ok(vec![(0, g.sub(direct, through)?)])
}

/// For each channel, the sum over itself, `below` channels before it and `above` after it, by a
/// convolution along the channels with ones.
fn channel_sums(
    g: &mut Append<'_>,
    x: ValueId,
    below: usize,
    above: usize,
) -> Result<ValueId, OpError> {
    let shape = g.shape(x);
    let (samples, channels) = (shape[0], shape[1]);
    // There is nothing beyond the first and the last channel, however large the size.
    let furthest = channels.saturating_sub(1);
    let (below, above) = (below.min(furthest), above.min(furthest));
    let kernel = [below + 1 + above, 1];
    let conv = Conv {
        window: Window {
            pads_begin: vec![below, 0],
            pads_end: vec![above, 0],
            ..Window::sized(kernel)
        },
        groups: 1,
    };
    let rest = shape[2..].iter().product();
    let x = g.reshape(x, &[samples, 1, channels, rest])?;
    let ones = g.filled(&[1, 1, kernel[0], 1], 1.0)?;
    let sums = g.op(Op::Conv(conv), &[x, ones])?;
    g.reshape(sums, &shape)
}
