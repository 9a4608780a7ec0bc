//! Convolution where every group has a single input channel.

use npcov_cpu::vectorised;
use npcov_graph::op::Window;

use super::conv::{AxisTaps, Volume};
use crate::native::kernel::{Inputs, Kernel, Tail};
use crate::native::pack::Pack;
use crate::native::tile::Finish;

/// A tile would hold one channel; here the taps of one channel are summed directly.
pub(super) struct Depthwise {
    x: Volume,
    y: Volume,
    taps: [Vec<AxisTaps>; 3],
    window: Window,
    /// `[output channel, taps]`.
    weights: Vec<f32>,
    bias: Vec<f32>,
    tail: Tail,
}

impl Depthwise {
    pub(super) fn new(
        x: Volume,
        y: Volume,
        taps: [Vec<AxisTaps>; 3],
        window: &Window,
        weights: Vec<f32>,
        bias: Vec<f32>,
        tail: Tail,
    ) -> Depthwise {
        Depthwise {
            x,
            y,
            taps,
            window: window.clone(),
            weights,
            bias,
            tail,
        }
    }

    /// One output row of one channel.
    #[inline(always)]
    fn row(&self, channel: usize, plane: AxisTaps, row: AxisTaps, x: &[Pack], output: &mut [Pack]) {
        let [_, height, width] = self.x.extent;
        let [kernel_h, kernel_w] = [self.window.kernel[1], self.window.kernel[2]];
        let kernel = self.window.kernel[0] * kernel_h * kernel_w;
        let weights = &self.weights[channel * kernel..][..kernel];
        let dilations = &self.window.dilations;
        for (y, col) in output.iter_mut().zip(&self.taps[2]) {
            let mut sum = Pack::splat(self.bias[channel]);
            for d in 0..plane.count {
                for r in 0..row.count {
                    let line =
                        (plane.input + d * dilations[0]) * height + row.input + r * dilations[1];
                    let x = &x[line * width..][..width];
                    let tap = ((plane.tap + d) * kernel_h + row.tap + r) * kernel_w + col.tap;
                    let weights = &weights[tap..tap + col.count];
                    for (c, &w) in weights.iter().enumerate() {
                        let x = x[col.input + c * dilations[2]];
                        sum = sum.zip(x, |sum, x| sum + w * x);
                    }
                }
            }
            *y = sum;
        }
    }
}

impl Kernel for Depthwise {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        let [depth, height, width] = self.y.extent;
        let multiplier = self.y.channels / self.x.channels;
        let image = self.x.pixels();
        vectorised(
            #[inline(always)]
            || {
                for (number, row) in output.chunks_mut(width.max(1)).enumerate() {
                    let (h, rest) = (number % height, number / height);
                    let (d, rest) = (rest % depth, rest / depth);
                    let (channel, n) = (rest % self.y.channels, rest / self.y.channels);
                    let from = (n * self.x.channels + channel / multiplier) * image;
                    let x = &inputs.get(0)[from..from + image];
                    self.row(channel, self.taps[0][d], self.taps[1][h], x, row);
                    if self.tail.add {
                        let other = &inputs.get(1)[number * width..][..width];
                        for (y, other) in row.iter_mut().zip(other) {
                            *y = y.zip(*other, |y, other| y + other);
                        }
                    }
                    if let Finish::Clip(low, high) = self.tail.finish {
                        for y in row {
                            *y = y.map(|y| {
                                let y = if y < low { low } else { y };
                                if y > high { high } else { y }
                            });
                        }
                    }
                }
            },
        );
    }
}
