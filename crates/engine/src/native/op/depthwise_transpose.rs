//! Transposed convolution where every group has one output channel: the adjoint of a depthwise
//! convolution.

use npcov_cpu::vectorised;

use super::conv_transpose::{Axis, Progression, RANK};
use crate::native::kernel::{Inputs, Kernel};
use crate::native::pack::Pack;

/// A tile would hold one channel; here the taps of one channel are summed directly.
pub(super) struct DepthwiseTranspose {
    axes: [Axis; RANK],
    /// Input channels of a group.
    inputs: usize,
    /// `[input channel, taps]`.
    weights: Vec<f32>,
    /// One for each output channel.
    bias: Vec<f32>,
}

impl DepthwiseTranspose {
    pub(super) fn new(
        axes: [Axis; RANK],
        inputs: usize,
        weights: Vec<f32>,
        bias: Vec<f32>,
    ) -> DepthwiseTranspose {
        DepthwiseTranspose {
            axes,
            inputs,
            weights,
            bias,
        }
    }

    /// Adds to one row of an output channel what one input channel contributes.
    #[inline(always)]
    fn row(&self, x: &[Pack], weights: &[f32], d: Progression, h: Progression, y: &mut [Pack]) {
        let [depth, height, width] = &self.axes;
        for (y, w) in y.iter_mut().zip(&width.taps) {
            let mut sum = *y;
            for i in 0..d.len {
                let (plane, tap) = depth.at(d, i);
                for j in 0..h.len {
                    let (row, row_tap) = height.at(h, j);
                    let x = &x[(plane * height.input + row) * width.input..][..width.input];
                    let taps = (tap * height.kernel + row_tap) * width.kernel;
                    let weights = &weights[taps..][..width.kernel];
                    for k in 0..w.len {
                        let (column, tap) = width.at(*w, k);
                        let weight = weights[tap];
                        sum = sum.zip(x[column], |sum, x| sum + weight * x);
                    }
                }
            }
            *y = sum;
        }
    }
}

impl Kernel for DepthwiseTranspose {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        let x = inputs.get(0);
        let [depth, height, width] = &self.axes;
        let taps = depth.kernel * height.kernel * width.kernel;
        let image = depth.input * height.input * width.input;
        let row_len = width.taps.len().max(1);
        let plane = (depth.taps.len() * height.taps.len()).max(1) * row_len;
        vectorised(
            #[inline(always)]
            || {
                for (number, y) in output.chunks_exact_mut(plane).enumerate() {
                    let channel = number % self.bias.len();
                    y.fill(Pack::splat(self.bias[channel]));
                    for i in 0..self.inputs {
                        let x = &x[(number * self.inputs + i) * image..][..image];
                        let weights = &self.weights[(channel * self.inputs + i) * taps..][..taps];
                        let mut rows = y.chunks_exact_mut(row_len);
                        for &d in &depth.taps {
                            for (&h, y) in height.taps.iter().zip(&mut rows) {
                                self.row(x, weights, d, h, y);
                            }
                        }
                    }
                }
            },
        );
    }
}
