//! Transposed convolution.
//!
//! By definition, input position `q` adds to the output positions `o = q*stride + k*dilation - pad`
//! for every tap `k`. Solved for the input, output position `o` is a sum over the taps with
//!
//! ```text
//! q = (o + pad - k*dilation) / stride   whole, and inside of the input.
//! ```
//!
//! If `k` is such a tap, the next one is `k + stride/g`, where `g` is the greatest common divisor
//! of `stride` and `dilation`: the dividend shrinks by `stride/g * dilation`, so `q` by
//! `dilation/g`. Along each axis the taps are thus a progression, in which the weights walk
//! forwards and the input backwards, and what [`tile`](crate::native::tile) computes.

use npcov_graph::OpError;
use npcov_graph::op::{ConvTranspose, Window};

use super::conv_winograd::ConvWinograd;
use super::depthwise_transpose::DepthwiseTranspose;
use super::pixel_major::to_pixel_major;
use crate::native::kernel::{Context, Inputs, Kernel, NodeKernel, Tail};
use crate::native::pack::Pack;
use crate::native::tile::{Finish, Init, Taps, Target, Weights};
use crate::native::winograd::alike::Exact;
use crate::native::winograd::{self, Tiling};

/// Convolutions over fewer axes have leading axes of extent 1.
pub(super) const RANK: usize = 3;

pub(super) fn prepare(op: &ConvTranspose, cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    let (channels, input) = (cx.shape(0)[1], &cx.shape(0)[2..]);
    let Some(added) = RANK.checked_sub(input.len()) else {
        let message = format!("a window over {} axes", input.len());
        return Err(OpError::unsupported(message));
    };
    let outputs = cx.shape(1)[1];
    let weight = cx.parameter(1, "the weight")?;
    let bias = match cx.arity() {
        0..=2 => vec![0.0; outputs * op.groups],
        _ => cx.parameter(2, "the bias")?,
    };
    let axes: [Axis; RANK] = std::array::from_fn(|a| match a.checked_sub(added) {
        Some(a) => Axis::new(op, a, input[a]),
        None => Axis::single(),
    });
    let inputs = channels / op.groups;
    if outputs == 1 && op.groups > 1 {
        let kernel = DepthwiseTranspose::new(axes, inputs, weight, bias, op, input);
        return Ok(NodeKernel::new(kernel, [0]));
    }
    if op.groups == 1
        && cx.winograd()
        && let Some(window) = mirrored(&op.window)
        && let Some(tiling) = Tiling::new(&window, input, &op.output)
        && tiling.cost(inputs, outputs) < tiling.direct_cost(&window, inputs, outputs)
        && winograd::may_round(&weight)
    {
        let taps = |m: usize, c: usize| {
            let last = (c * outputs + m) * 9 + 8;
            std::array::from_fn(|tap| weight[last - tap])
        };
        let weights = winograd::matrices(cx.isa(), outputs, inputs, taps);
        let kernel = ConvWinograd::new(cx.isa(), tiling, weights, bias, Tail::NONE, Exact::Zeros);
        return Ok(NodeKernel::new(kernel, [0]));
    }
    let taps: usize = axes.iter().map(|axis| axis.kernel).product();
    // From `[input][output][tap]` to `[output][tap][input]`.
    let group = |g: usize| {
        Weights::new(cx.isa(), outputs, taps * inputs, |m, i| {
            let (tap, c) = (i / inputs, i % inputs);
            weight[((g * inputs + c) * outputs + m) * taps + tap]
        })
    };
    let kernel = ConvTransposeKernel {
        channels,
        pixels: input.iter().product(),
        output: axes.iter().map(|axis| axis.taps.len()).product(),
        groups: (0..op.groups).map(group).collect(),
        inputs,
        outputs,
        axes,
        bias,
    };
    Ok(NodeKernel::new(kernel, [0]))
}

/// The window of the convolution that a transposed one of stride 1 is, with its taps mirrored; `None`
/// where it would have to begin inside of the input.
fn mirrored(window: &Window) -> Option<Window> {
    let reach = |axis: usize| window.extent(axis)?.checked_sub(1);
    let pads = |own: &[usize]| -> Option<Vec<usize>> {
        let pad = |(axis, own): (usize, &usize)| reach(axis)?.checked_sub(*own);
        own.iter().enumerate().map(pad).collect()
    };
    Some(Window {
        pads_begin: pads(&window.pads_begin)?,
        pads_end: pads(&window.pads_end)?,
        ..window.clone()
    })
}

/// The taps along one axis.
pub(super) struct Axis {
    pub(super) input: usize,
    /// Number of taps of the window.
    pub(super) kernel: usize,
    /// From one contributing tap to the next: so far forwards in the window,
    pub(super) tap_step: usize,
    /// and so far backwards in the input.
    pub(super) input_step: usize,
    /// The contributing taps of each output position.
    pub(super) taps: Vec<Progression>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Progression {
    /// First tap.
    pub(super) tap: usize,
    /// The input position it reads.
    pub(super) input: usize,
    pub(super) len: usize,
}

impl Progression {
    /// The input position that a tap reads, when it is one of these.
    pub(super) fn at(&self, axis: &Axis, tap: usize) -> Option<usize> {
        let behind = tap.checked_sub(self.tap)?;
        let step = behind / axis.tap_step;
        let is_one = behind.is_multiple_of(axis.tap_step) && step < self.len;
        is_one.then(|| self.input - step * axis.input_step)
    }
}

impl Axis {
    fn single() -> Axis {
        Axis {
            input: 1,
            kernel: 1,
            tap_step: 1,
            input_step: 1,
            taps: vec![Progression {
                len: 1,
                ..Progression::default()
            }],
        }
    }

    pub(super) fn new(op: &ConvTranspose, axis: usize, input: usize) -> Axis {
        let window = &op.window;
        let (kernel, pad) = (window.kernel[axis], window.pads_begin[axis]);
        let (stride, dilation) = (window.strides[axis], window.dilations[axis]);
        let divisor = greatest_common_divisor(stride, dilation);
        let progression = |o: usize| {
            let source = |k: usize| {
                let dividend = (o + pad).checked_sub(k * dilation)?;
                let inside = dividend.is_multiple_of(stride) && dividend / stride < input;
                inside.then_some((k, dividend / stride))
            };
            let mut sources = (0..kernel).filter_map(source);
            let (tap, input) = sources.next().unwrap_or_default();
            // One more than follow the first, or none.
            let len = match source(tap) {
                Some(_) => 1 + sources.count(),
                None => 0,
            };
            Progression { tap, input, len }
        };
        Axis {
            input,
            kernel,
            tap_step: stride / divisor,
            input_step: dilation / divisor,
            taps: (0..op.output[axis]).map(progression).collect(),
        }
    }

    /// Input position and tap of member `i` of a progression.
    #[inline(always)]
    pub(super) fn at(&self, first: Progression, i: usize) -> (usize, usize) {
        (
            first.input - i * self.input_step,
            first.tap + i * self.tap_step,
        )
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 {
        a.max(1)
    } else {
        greatest_common_divisor(b, a % b)
    }
}

struct ConvTransposeKernel {
    /// Channels and pixels of a sample of the input, and pixels of the output.
    channels: usize,
    pixels: usize,
    output: usize,
    axes: [Axis; RANK],
    /// One for each group of channels.
    groups: Vec<Weights>,
    /// Input and output channels of a group.
    inputs: usize,
    outputs: usize,
    bias: Vec<f32>,
}

impl Kernel for ConvTransposeKernel {
    /// A sample of the input, pixel-major.
    fn scratch(&self) -> usize {
        self.channels * self.pixels
    }

    fn run(&self, inputs: &Inputs<'_>, scratch: &mut [Pack], output: &mut [Pack]) {
        let samples = inputs.get(0).chunks_exact(scratch.len().max(1));
        let outputs = output.chunks_exact_mut((self.bias.len() * self.output).max(1));
        for (x, y) in samples.zip(outputs) {
            to_pixel_major(x, self.channels, self.pixels, 0..self.pixels, scratch);
            self.sample(scratch, y);
        }
    }
}

impl ConvTransposeKernel {
    fn sample(&self, x: &[Pack], y: &mut [Pack]) {
        let [depth, height, width] = &self.axes;
        for (g, weights) in self.groups.iter().enumerate() {
            for block in weights.blocks() {
                let first = g * self.outputs + block.first;
                let bias = &self.bias[first..];
                let mut at = first * self.output;
                for d in &depth.taps {
                    for h in &height.taps {
                        for w in &width.taps {
                            let target = Target {
                                at,
                                stride: self.output,
                            };
                            let mut run = |k: usize, len: usize, init| {
                                let taps = self.taps(g, d, k, len, h, w);
                                block.run(&taps.on(x, weights.k()), init, Finish::None, y, target);
                            };
                            // A tile walks over two axes. Without any tap only the bias remains.
                            run(0, d.len.min(1), Init::Bias(bias));
                            (1..d.len).for_each(|k| run(k, 1, Init::Output));
                            at += 1;
                        }
                    }
                }
            }
        }
    }

    /// The products of one output pixel with tap `k` of its progression along the first axis;
    /// none when `len` is 0.
    fn taps(
        &self,
        group: usize,
        d: &Progression,
        k: usize,
        len: usize,
        h: &Progression,
        w: &Progression,
    ) -> Taps {
        let [depth, height, width] = &self.axes;
        let plane = if len == 0 {
            0
        } else {
            d.input - k * depth.input_step
        };
        let tap = d.tap + k * depth.tap_step;
        let pixel = (plane * height.input + h.input) * width.input + w.input;
        let back = |pixels: usize| -((pixels * self.channels) as isize);
        Taps {
            x: pixel * self.channels + group * self.inputs,
            w: ((tap * height.kernel + h.tap) * width.kernel + w.tap) * self.inputs,
            len: self.inputs,
            cols: w.len,
            x_col: back(width.input_step),
            w_col: width.tap_step * self.inputs,
            rows: h.len * len,
            x_row: back(height.input_step * width.input),
            w_row: height.tap_step * width.kernel * self.inputs,
        }
    }
}

#[cfg(test)]
mod tests {
    use npcov_graph::Op;
    use npcov_graph::op::Window;

    use super::*;
    use crate::native::op::testing::{Input, check, number_of, positions};

    /// Kernel, stride, dilation, padding before and after, extra output.
    type Sides = [usize; 6];

    fn conv_transpose(input: &[usize], sides: &[Sides], groups: usize) -> ConvTranspose {
        let field = |i: usize| sides.iter().map(|s| s[i]).collect();
        let output = |(&n, &[k, s, d, begin, end, extra]): (&usize, &Sides)| {
            (n - 1) * s + (k - 1) * d + 1 + extra - begin - end
        };
        ConvTranspose {
            window: Window {
                kernel: field(0),
                strides: field(1),
                dilations: field(2),
                pads_begin: field(3),
                pads_end: field(4),
            },
            groups,
            output: input.iter().zip(sides).map(output).collect(),
        }
    }

    /// Compares with the definition: every input element is scattered.
    fn check_conv_transpose(
        x: &[usize],
        outputs: usize,
        sides: &[Sides],
        groups: usize,
        bias: bool,
    ) {
        let op = conv_transpose(&x[2..], sides, groups);
        let w = [&[x[1], outputs / groups], &op.window.kernel[..]].concat();
        let y = [&[x[0], outputs], &op.output[..]].concat();
        let mut inputs = vec![Input::varying(x), Input::constant(&w)];
        inputs.extend(bias.then(|| Input::constant(&[outputs]).map(|b| b - 0.5)));
        check(Op::ConvTranspose(op), &inputs, 4e-6, |inputs| {
            let start = |p: &Vec<usize>| inputs.get(2).map_or(0.0, |b| b[p[1]]);
            let mut sums: Vec<f64> = positions(&y).iter().map(start).collect();
            for q in positions(x) {
                let group = q[1] / (x[1] / groups);
                for k in positions(&w[1..]) {
                    let to = |a: usize| {
                        let [_, stride, dilation, begin, ..] = sides[a];
                        let to = (q[a + 2] * stride + k[a + 1] * dilation).checked_sub(begin)?;
                        (to < y[a + 2]).then_some(to)
                    };
                    let Some(to) = (0..sides.len()).map(to).collect::<Option<Vec<_>>>() else {
                        continue;
                    };
                    let m = group * (outputs / groups) + k[0];
                    let weight = inputs[1][number_of(&w, &[&[q[1]], &k[..]].concat())];
                    let to = number_of(&y, &[&[q[0], m], &to[..]].concat());
                    sums[to] += weight * inputs[0][number_of(x, &q)];
                }
            }
            sums
        });
    }

    #[test]
    fn strides_dilations_pads_and_groups() {
        for (x, outputs, sides, groups) in [
            (vec![1, 3, 4, 5], 7, vec![[3, 1, 1, 0, 0, 0]; 2], 1),
            (vec![1, 3, 4, 5], 2, vec![[4, 2, 1, 1, 1, 0]; 2], 1),
            (vec![2, 4, 3, 3], 6, vec![[3, 2, 1, 1, 1, 1]; 2], 2),
            (
                vec![1, 4, 5, 4],
                4,
                vec![[2, 3, 1, 0, 0, 0], [3, 2, 2, 1, 0, 0]],
                4,
            ),
            (
                vec![1, 2, 4, 4],
                3,
                vec![[3, 2, 4, 2, 3, 1], [2, 4, 6, 0, 1, 0]],
                1,
            ),
            (vec![1, 20, 6], 13, vec![[5, 2, 1, 2, 2, 1]], 1),
            // By tiles.
            (vec![2, 16, 7, 9], 24, vec![[3, 1, 1, 1, 1, 0]; 2], 1),
            (
                vec![1, 20, 8, 8],
                16,
                vec![[3, 1, 1, 0, 2, 0], [3, 1, 1, 2, 1, 0]],
                1,
            ),
            (
                vec![1, 2, 2, 3, 3],
                3,
                vec![[3, 2, 1, 1, 0, 0], [2, 2, 1, 0, 0, 0], [3, 1, 2, 1, 1, 0]],
                1,
            ),
            (vec![1, 1, 1, 1], 1, vec![[1, 1, 1, 0, 0, 0]; 2], 1),
            // One output channel a group, of one, two and three input channels.
            (vec![2, 3, 5, 6], 3, vec![[3, 1, 1, 1, 1, 0]; 2], 3),
            (vec![2, 6, 4, 4], 3, vec![[3, 2, 1, 1, 1, 1]; 2], 3),
            (vec![1, 4, 7], 2, vec![[5, 3, 2, 2, 1, 2]], 2),
            (
                vec![1, 6, 2, 3, 3],
                2,
                vec![[3, 2, 1, 1, 0, 0], [2, 4, 1, 0, 0, 1], [3, 1, 2, 1, 1, 0]],
                2,
            ),
        ] {
            for bias in [false, true] {
                check_conv_transpose(&x, outputs, &sides, groups, bias);
            }
        }
    }

    #[test]
    fn taps_are_a_progression() {
        // Of the taps k of output 7: q = (7 + 1 - 2k) / 4 is whole for k = 0, 2, 4.
        let op = conv_transpose(&[5], &[[5, 4, 2, 1, 0, 0]], 1);
        let axis = Axis::new(&op, 0, 5);
        assert_eq!((axis.tap_step, axis.input_step), (2, 1));
        assert_eq!(
            axis.taps[7],
            Progression {
                tap: 0,
                input: 2,
                len: 3
            }
        );
        // 6 + 1 is odd: no tap.
        assert_eq!(axis.taps[6].len, 0);
    }
}
