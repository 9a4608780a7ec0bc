//! Convolution where every group has a single input channel.

use npcov_cpu::{Isa, vectorised};
use npcov_graph::op::Window;

use super::conv::{AxisTaps, Volume};
use super::depthwise_alone::{Phases, crop};
use crate::native::kernel::{Alone, Inputs, Kernel, Tail};
use crate::native::pack::{LANES, Pack, numbers_mut};
use crate::native::plane::Windows;
use crate::native::slide::{Ends, Shift, slide};
use crate::native::tile::Finish;

/// A tile would hold one channel; here the taps of one channel are summed directly.
pub(super) struct Depthwise {
    isa: Isa,
    x: Volume,
    y: Volume,
    taps: [Vec<AxisTaps>; 3],
    window: Window,
    /// `[output channel, taps]`.
    weights: Vec<f32>,
    bias: Vec<f32>,
    tail: Tail,
    /// For one input by itself.
    sliding: Option<Sliding>,
}

/// How windows slide over a channel.
enum Sliding {
    /// Where it stands.
    Plane(Windows),
    /// Over a copy of it.
    Copy { phases: Phases, shifts: Vec<Shift> },
}

impl Sliding {
    /// Windows over a map.
    fn new(x: &Volume, y: &Volume, window: &Window) -> Option<Sliding> {
        let flat = x.extent[0] == 1 && y.extent[0] == 1 && window.kernel[0] == 1;
        if !flat || window.pads_begin[0] > 0 {
            return None;
        }
        let last = |list: &[usize]| -> [usize; 2] { [list[1], list[2]] };
        let (kernel, strides) = (last(&window.kernel), last(&window.strides));
        let dilations = last(&window.dilations);
        let pads = last(&window.pads_begin);
        let (x, y) = (last(&x.extent), last(&y.extent));
        if dilations == [1, 1]
            && let Some(windows) = Windows::new(x, y, pads, kernel, strides)
        {
            return Some(Sliding::Plane(windows));
        }
        let extent = std::array::from_fn(|a| y[a] + (kernel[a] - 1) * dilations[a] / strides[a]);
        let phases = Phases::new(x, pads, strides, extent);
        let shifts = (0..kernel[0] * kernel[1]).map(|weight| {
            let tap = [weight / kernel[1], weight % kernel[1]];
            let from = phases.place(std::array::from_fn(|a| tap[a] * dilations[a]));
            Shift { weight, from }
        });
        Some(Sliding::Copy {
            shifts: shifts.collect(),
            phases,
        })
    }
}

impl Depthwise {
    #[expect(clippy::too_many_arguments, reason = "its fields")]
    pub(super) fn new(
        isa: Isa,
        x: Volume,
        y: Volume,
        taps: [Vec<AxisTaps>; 3],
        window: &Window,
        weights: Vec<f32>,
        bias: Vec<f32>,
        tail: Tail,
    ) -> Depthwise {
        Depthwise {
            isa,
            sliding: Sliding::new(&x, &y, window),
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

impl Alone for Depthwise {
    fn scratch(&self) -> usize {
        let Some(Sliding::Copy { phases, .. }) = &self.sliding else {
            return 0;
        };
        let row = self.y.extent[1] * phases.extent[1];
        phases.len().div_ceil(LANES) + row.div_ceil(LANES)
    }

    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]) {
        let Some(sliding) = &self.sliding else {
            return;
        };
        let scratch = numbers_mut(scratch);
        scratch.fill(0.0);
        let [_, height, width] = self.y.extent;
        let (image, multiplier) = (self.x.pixels(), self.y.channels / self.x.channels);
        let kernel = self.window.kernel.iter().product::<usize>();
        let finish = match self.tail.add {
            true => Finish::None,
            false => self.tail.finish,
        };
        for number in 0..self.y.batch * self.y.channels {
            let (n, channel) = (number / self.y.channels, number % self.y.channels);
            let from = (n * self.x.channels + channel / multiplier) * image;
            let x = &inputs.get(0)[from..from + image];
            let weights = &self.weights[channel * kernel..(channel + 1) * kernel];
            let y = &mut output[number * height * width..];
            match sliding {
                Sliding::Plane(windows) => {
                    windows.slide(self.isa, x, weights, self.bias[channel], finish, y);
                }
                Sliding::Copy { phases, shifts } => {
                    let (seen, sums) = scratch.split_at_mut(phases.len().next_multiple_of(LANES));
                    if channel.is_multiple_of(multiplier) {
                        phases.fill(x, seen);
                    }
                    let ends = Ends {
                        begin: Some(self.bias[channel]),
                        finish,
                    };
                    slide(seen, weights, shifts, ends, sums);
                    crop(sums, phases.extent[1], width, &mut y[..height * width]);
                }
            }
            if !self.tail.add {
                continue;
            }
            let y = &mut y[..height * width];
            let other = &inputs.get(1)[number * height * width..];
            for (y, other) in y.iter_mut().zip(other) {
                *y += other;
            }
            if let Finish::Clip(low, high) = self.tail.finish {
                for y in y {
                    let limited = if *y < low { low } else { *y };
                    *y = if limited > high { high } else { limited };
                }
            }
        }
    }
}

impl Kernel for Depthwise {
    fn alone(&self) -> Option<&dyn Alone> {
        self.sliding.is_some().then_some(self)
    }

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
