//! Local response normalisation.

use npcov_cpu::vectorised;
use npcov_graph::OpError;
use npcov_graph::op::Lrn;

use crate::native::kernel::{Context, Inputs, Kernel, NodeKernel};
use crate::native::math;
use crate::native::pack::Pack;

pub(super) fn prepare(op: &Lrn, cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    let shape = cx.shape(0);
    let reach = op.size.saturating_sub(1);
    let kernel = LrnKernel {
        channels: shape.get(1).copied().unwrap_or(1),
        len: shape.iter().skip(2).product(),
        below: reach / 2,
        above: reach.div_ceil(2),
        alpha: op.alpha / op.size as f32,
        beta: op.beta,
        bias: op.bias,
    };
    Ok(NodeKernel::new(kernel, [0]))
}

struct LrnKernel {
    channels: usize,
    /// Elements of one channel of one sample.
    len: usize,
    /// Channels that count before and after the one that is normalised.
    below: usize,
    above: usize,
    /// Factor of the sum of squares.
    alpha: f32,
    beta: f32,
    bias: f32,
}

impl Kernel for LrnKernel {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        let x = inputs.get(0);
        // The usual exponents are square roots; the general power costs ten times as much.
        if self.beta == 0.75 {
            self.normalise(x, output, |t| t.sqrt() * t.sqrt().sqrt());
        } else if self.beta == 0.5 {
            self.normalise(x, output, f32::sqrt);
        } else {
            self.normalise(x, output, |t| math::powf(t, self.beta));
        }
    }
}

impl LrnKernel {
    #[inline(always)]
    fn normalise(&self, x: &[Pack], output: &mut [Pack], power: impl Fn(f32) -> f32) {
        let len = self.len.max(1);
        let sample = len * self.channels.max(1);
        vectorised(
            #[inline(always)]
            || {
                for (x, y) in x.chunks_exact(sample).zip(output.chunks_exact_mut(sample)) {
                    for (c, y) in y.chunks_exact_mut(len).enumerate() {
                        let first = c.saturating_sub(self.below);
                        let last = (c.saturating_add(self.above)).min(self.channels - 1);
                        let near = &x[first * len..(last + 1) * len];
                        let own = &x[c * len..(c + 1) * len];
                        for (i, (y, own)) in y.iter_mut().zip(own).enumerate() {
                            let mut squares = Pack::ZERO;
                            for x in near[i..].iter().step_by(len) {
                                squares = squares.zip(*x, |s, x| s + x * x);
                            }
                            *y = own.zip(squares, |x, s| x / power(self.bias + self.alpha * s));
                        }
                    }
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use npcov_graph::Op;

    use super::*;
    use crate::native::op::testing::{Input, check, number_of, positions};

    #[test]
    fn every_size_and_exponent_agrees_with_the_definition() {
        let shape = [2, 7, 3, 2];
        for size in [1, 2, 3, 4, 5, 20] {
            for beta in [0.75, 0.5, 1.3] {
                let op = Lrn {
                    alpha: 0.3,
                    beta,
                    bias: 1.5,
                    size,
                };
                check(
                    Op::Lrn(op.clone()),
                    &[Input::varying(&shape)],
                    1e-6,
                    |inputs| {
                        let x = &inputs[0];
                        let value = |p: Vec<usize>| {
                            // Channels c - floor((size-1)/2) to c + ceil((size-1)/2), as ONNX says.
                            let first = p[1].saturating_sub((size - 1) / 2);
                            let last = (p[1] + (size - 1).div_ceil(2)).min(shape[1] - 1);
                            let square = |c| x[number_of(&shape, &[p[0], c, p[2], p[3]])].powi(2);
                            let sum: f64 = (first..=last).map(square).sum();
                            let scale = f64::from(op.alpha) / size as f64;
                            let divisor = f64::from(op.bias) + scale * sum;
                            x[number_of(&shape, &p)] / divisor.powf(f64::from(beta))
                        };
                        positions(&shape).into_iter().map(value).collect()
                    },
                );
            }
        }
    }
}
