//! Transposed convolution where every group has one output channel: the adjoint of a depthwise
//! convolution.

use npcov_cpu::vectorised;
use npcov_graph::op::{ConvTranspose, Window};

use super::conv_transpose::{Axis, Progression, RANK};
use super::depthwise_alone::Phases;
use crate::native::kernel::{Alone, Inputs, Kernel};
use crate::native::pack::{LANES, Pack, numbers, numbers_mut};
use crate::native::slide::{Ends, Shift, slide};
use crate::native::tile::Finish;

/// A tile would hold one channel; here the taps of one channel are summed directly.
pub(super) struct DepthwiseTranspose {
    axes: [Axis; RANK],
    /// Input channels of a group.
    inputs: usize,
    /// `[input channel, taps]`.
    weights: Vec<f32>,
    /// One for each output channel.
    bias: Vec<f32>,
    /// For one input by itself.
    sliding: Option<Sliding>,
}

/// How the windows of a channel's output slide over its input.
struct Sliding {
    phases: Phases,
    classes: Vec<Class>,
}

/// Positions of the output that are a stride apart: they see the input under the same taps.
struct Class {
    first: [usize; 2],
    count: [usize; 2],
    shifts: Vec<Shift>,
}

impl Sliding {
    /// Windows over a map. Output position `first + i * stride` sees input position
    /// `i + (first + pad - tap * dilation) / stride` under the taps for which that is whole.
    fn new(window: &Window, x: &[usize], y: &[usize]) -> Option<Sliding> {
        let (x, y): ([usize; 2], [usize; 2]) = (x.try_into().ok()?, y.try_into().ok()?);
        let pair = |list: &[usize]| -> Option<[usize; 2]> { list.try_into().ok() };
        let (kernel, strides) = (pair(&window.kernel)?, pair(&window.strides)?);
        let (dilations, pads) = (pair(&window.dilations)?, pair(&window.pads_begin)?);
        let reach = |a: usize| ((kernel[a] - 1) * dilations[a]).saturating_sub(pads[a]);
        let before: [usize; 2] = std::array::from_fn(|a| reach(a).div_ceil(strides[a]));
        let extent = std::array::from_fn(|a| {
            let seen = (y[a] + pads[a]).div_ceil(strides[a]) + 1;
            before[a] + seen.max(x[a])
        });
        let phases = Phases::new(x, before, [1, 1], extent);
        let mut classes = Vec::new();
        for class in 0..strides[0] * strides[1] {
            let first = [class / strides[1], class % strides[1]];
            let from = |a: usize, tap: usize| {
                let at = first[a] + pads[a] + before[a] * strides[a];
                let at = at.checked_sub(tap * dilations[a])?;
                at.is_multiple_of(strides[a]).then_some(at / strides[a])
            };
            let shift = |weight: usize| {
                let at = [from(0, weight / kernel[1])?, from(1, weight % kernel[1])?];
                let from = phases.place(at);
                Some(Shift { weight, from })
            };
            classes.push(Class {
                first,
                count: std::array::from_fn(|a| y[a].saturating_sub(first[a]).div_ceil(strides[a])),
                shifts: (0..kernel[0] * kernel[1]).filter_map(shift).collect(),
            });
        }
        Some(Sliding { phases, classes })
    }
}

impl DepthwiseTranspose {
    pub(super) fn new(
        axes: [Axis; RANK],
        inputs: usize,
        weights: Vec<f32>,
        bias: Vec<f32>,
        op: &ConvTranspose,
        x: &[usize],
    ) -> DepthwiseTranspose {
        DepthwiseTranspose {
            sliding: Sliding::new(&op.window, x, &op.output),
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

impl Alone for DepthwiseTranspose {
    fn scratch(&self) -> usize {
        let Some(Sliding { phases, classes }) = &self.sliding else {
            return 0;
        };
        let rows = classes.iter().map(|class| class.count[0]).max();
        let sums = rows.unwrap_or(0) * phases.extent[1];
        self.inputs * phases.len().div_ceil(LANES) + sums.div_ceil(LANES)
    }

    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]) {
        let Some(Sliding { phases, classes }) = &self.sliding else {
            return;
        };
        let [_, height, width] = &self.axes;
        let each = phases.len().div_ceil(LANES);
        let (seen, sums) = scratch.split_at_mut(self.inputs * each);
        numbers_mut(seen).fill(0.0);
        let image = height.input * width.input;
        let (plane, taps) = (
            height.taps.len() * width.taps.len(),
            height.kernel * width.kernel,
        );
        // The last class begins one before the second position of the first.
        let step = classes
            .last()
            .map_or([1, 1], |last| last.first.map(|at| at + 1));
        for (number, y) in output.chunks_exact_mut(plane.max(1)).enumerate() {
            let channel = number % self.bias.len();
            for (i, seen) in seen.chunks_exact_mut(each.max(1)).enumerate() {
                let x = &inputs.get(0)[(number * self.inputs + i) * image..][..image];
                phases.fill(x, numbers_mut(seen));
            }
            for class in classes {
                let len = class.count[0] * phases.extent[1];
                let sums = &mut numbers_mut(sums)[..len.next_multiple_of(LANES)];
                for (i, seen) in seen.chunks_exact(each.max(1)).enumerate() {
                    let weights = &self.weights[(channel * self.inputs + i) * taps..][..taps];
                    let ends = Ends {
                        begin: (i == 0).then_some(self.bias[channel]),
                        finish: Finish::None,
                    };
                    slide(numbers(seen), weights, &class.shifts, ends, sums);
                }
                for (i, sums) in sums[..len].chunks_exact(phases.extent[1]).enumerate() {
                    let at = (class.first[0] + i * step[0]) * width.taps.len() + class.first[1];
                    let to = y[at..].iter_mut().step_by(step[1]).take(class.count[1]);
                    to.zip(sums).for_each(|(y, sum)| *y = *sum);
                }
            }
        }
    }
}

impl Kernel for DepthwiseTranspose {
    fn alone(&self) -> Option<&dyn Alone> {
        self.sliding.is_some().then_some(self)
    }

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
