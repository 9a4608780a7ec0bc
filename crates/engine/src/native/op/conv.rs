//! Convolution: one tile for each output position and block of output channels.

use std::ops::Range;

use npcov_graph::OpError;
use npcov_graph::op::{Conv, Window};

use super::conv_alone::{ConvAlone, Image};
use super::conv_winograd::ConvWinograd;
use super::depthwise;
use super::pixel_major::to_pixel_major;
use super::sight::Sight;
use crate::native::kernel::{Alone, Context, Inputs, Kernel, NodeKernel, Tail};
use crate::native::lines::Lines;
use crate::native::pack::Pack;
use crate::native::tile::{Finish, Init, Taps, Target, Weights};
use crate::native::winograd::alike::Exact;
use crate::native::winograd::{self, Tiling};

/// Weights up to this many bytes stay in the second-level cache; larger ones are used for several
/// positions before the next block of channels is fetched.
const CACHED_WEIGHTS: usize = 256 * 1024;

/// Positions that share a block of large weights, unless they are positions in a volume, which may
/// differ in the planes they reach.
const POSITIONS: usize = 8;

/// Packs of the input, channels side by side, that are made at a time: 16 MiB. A larger image is
/// worked off in bands of rows, of which those that windows share are made twice.
const MOVED: usize = 1 << 18;

/// The taps of one axis that fall inside of the input, for one output position.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisTaps {
    /// The first tap.
    pub(super) tap: usize,
    /// Number of taps.
    pub(super) count: usize,
    /// Input position of the first tap.
    pub(super) input: usize,
}

/// [`AxisTaps`] of every output position along an axis.
pub(super) fn axis_taps(
    window: &Window,
    axis: usize,
    input: usize,
    output: usize,
) -> Vec<AxisTaps> {
    (0..output)
        .map(|o| {
            let range = window.tap_range(axis, o, input);
            let position = o * window.strides[axis] + range.start * window.dilations[axis];
            AxisTaps {
                tap: range.start,
                count: range.len(),
                input: position.saturating_sub(window.pads_begin[axis]),
            }
        })
        .collect()
}

/// A shape `[n, c, spatial...]` with exactly three spatial axes, the missing ones of extent 1.
pub(super) struct Volume {
    pub(super) batch: usize,
    pub(super) channels: usize,
    pub(super) extent: [usize; 3],
}

impl Volume {
    pub(super) fn new(shape: &[usize]) -> Result<Volume, OpError> {
        let extent = match shape[2..] {
            [w] => [1, 1, w],
            [h, w] => [1, h, w],
            [d, h, w] => [d, h, w],
            _ => return Err(OpError::unsupported("more than three spatial axes")),
        };
        Ok(Volume {
            batch: shape[0],
            channels: shape[1],
            extent,
        })
    }

    pub(super) fn pixels(&self) -> usize {
        self.extent.iter().product()
    }
}

/// A window over exactly three spatial axes, the missing ones with a single tap.
pub(super) fn in_volume(window: &Window) -> Window {
    let lead = 3 - window.kernel.len();
    let pad = |fill: usize, list: &[usize]| {
        let mut all = vec![fill; lead];
        all.extend(list);
        all
    };
    Window {
        kernel: pad(1, &window.kernel),
        strides: pad(1, &window.strides),
        dilations: pad(1, &window.dilations),
        pads_begin: pad(0, &window.pads_begin),
        pads_end: pad(0, &window.pads_end),
    }
}

struct ConvKernel {
    x: Volume,
    y: Volume,
    /// Taps along depth, height and width.
    taps: [Vec<AxisTaps>; 3],
    /// Height and width of the kernel.
    kernel: [usize; 2],
    dilations: Vec<usize>,
    groups: usize,
    /// One for each group.
    weights: Vec<Weights>,
    bias: Vec<f32>,
    /// Positions that are computed for one block of channels before the next.
    positions: usize,
    /// Output rows that are computed together; all of a volume's.
    band: usize,
    /// What becomes of the input when it is read.
    lines: Option<Lines>,
    tail: Tail,
    /// For one input by itself.
    alone: Option<ConvAlone>,
}

/// Whether each position sees one pixel, its own, whose channels are moved when they are read.
pub(crate) fn takes_lines(op: &Conv, cx: &Context<'_>) -> bool {
    let (x, y) = (cx.shape(0), cx.output());
    let window = &op.window;
    let one = |list: &[usize]| list.iter().all(|&extent| extent == 1);
    let is_pointwise = one(&window.kernel) && one(&window.strides) && x[2..] == y[2..];
    let moved = x[1] > 1 && !one(&x[2..]);
    op.groups == 1 && is_pointwise && moved && window.pads_begin.iter().all(|&pad| pad == 0)
}

pub(crate) fn prepare(
    op: &Conv,
    cx: &Context<'_>,
    lines: Option<Lines>,
    tail: Tail,
) -> Result<NodeKernel, OpError> {
    let (x, y) = (Volume::new(cx.shape(0))?, Volume::new(cx.output())?);
    let window = in_volume(&op.window);
    let weights = cx.parameter(1, "the weight")?;
    let bias = match cx.arity() > 2 {
        true => cx.parameter(2, "the bias")?,
        false => vec![0.0; y.channels],
    };
    let taps: [Vec<AxisTaps>; 3] =
        std::array::from_fn(|a| axis_taps(&window, a, x.extent[a], y.extent[a]));
    let mut reads = vec![0];
    if tail.add {
        reads.push(cx.arity());
    }
    let inputs = x.channels / op.groups;
    let outputs = y.channels / op.groups;
    if inputs == 1 && op.groups > 1 {
        let kernel = depthwise::Depthwise::new(cx.isa(), x, y, taps, &window, weights, bias, tail);
        return Ok(NodeKernel::new(kernel, reads));
    }
    if op.groups == 1
        && cx.winograd()
        && let Some(tiling) = Tiling::new(&op.window, &cx.shape(0)[2..], &cx.output()[2..])
        && tiling.cost(inputs, outputs) < tiling.direct_cost(&op.window, inputs, outputs)
        && winograd::may_round(&weights)
    {
        let taps = |m: usize, c: usize| {
            let at = (m * inputs + c) * 9;
            std::array::from_fn(|tap| weights[at + tap])
        };
        let weights = winograd::matrices(cx.isa(), outputs, inputs, taps);
        let exact = match cx.max_follows {
            true => Exact::Equals,
            false => Exact::Zeros,
        };
        let kernel = ConvWinograd::new(cx.isa(), tiling, weights, bias, tail, exact);
        return Ok(NodeKernel::new(kernel, reads));
    }
    let kernel: usize = window.kernel.iter().product();
    // From [out, in, taps] to the order in which tiles walk: taps, then input channels.
    let weight = |g: usize| {
        let all = &weights;
        move |m: usize, k: usize| {
            let (tap, c) = (k / inputs, k % inputs);
            all[((g * outputs + m) * inputs + c) * kernel + tap]
        }
    };
    let groups = (0..op.groups)
        .map(|g| Weights::new(cx.isa(), outputs, kernel * inputs, weight(g)))
        .collect();
    let bytes = size_of_val(weights.as_slice()) / op.groups;
    let share = bytes > CACHED_WEIGHTS && window.kernel[0] == 1;
    let sight = Sight::new(&window, &x, &y);
    let kernel = ConvKernel {
        alone: sight.map(|sight| ConvAlone::new(cx.isa(), sight, inputs)),
        x,
        y,
        taps,
        kernel: [window.kernel[1], window.kernel[2]],
        dilations: window.dilations.clone(),
        groups: op.groups,
        weights: groups,
        bias,
        positions: if share { POSITIONS } else { 1 },
        band: 0,
        lines,
        tail,
    };
    Ok(NodeKernel::new(kernel.with_bands(&window.strides), reads))
}

impl ConvKernel {
    /// Whether the input already has the channels of a pixel next to each other.
    fn is_pixel_major(&self) -> bool {
        self.x.channels == 1 || self.x.pixels() == 1
    }

    /// Chooses bands whose input, channels side by side, is not large.
    fn with_bands(mut self, strides: &[usize]) -> ConvKernel {
        let [depth, height, width] = self.y.extent;
        let reach = (self.kernel[0] - 1) * self.dilations[1] + 1;
        let rows = MOVED / (self.x.extent[2] * self.x.channels).max(1);
        let fitting = rows.saturating_sub(reach) / strides[1].max(1) + 1;
        self.band = match depth == 1 && self.x.extent[0] == 1 && !self.is_pixel_major() {
            // Groups of positions that share weights stay whole.
            true => fitting.max(self.positions.div_ceil(width.max(1))),
            false => depth * height,
        };
        self
    }

    /// Output rows in bands, each with the input rows that it is computed from.
    fn bands(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let [depth, height, _] = self.y.extent;
        let rows = depth * height;
        (0..rows).step_by(self.band.max(1)).map(move |start| {
            let band = start..(start + self.band).min(rows);
            if band.len() == rows {
                return (band, 0..self.x.extent[0] * self.x.extent[1]);
            }
            let taps = &self.taps[1][band.clone()];
            let first = taps.iter().map(|t| t.input).min().unwrap_or(0);
            let end = |t: &AxisTaps| t.input + t.count.saturating_sub(1) * self.dilations[1] + 1;
            let last = taps.iter().map(end).max().unwrap_or(0);
            (band, first..last.min(self.x.extent[1]))
        })
    }

    /// The taps of output position `pixel` in plane `d` of those its window reaches, for a group
    /// whose channels start at `channel`; `top` is the first input row in memory.
    fn taps(&self, pixel: usize, d: usize, channel: usize, top: usize) -> Taps {
        let [_, y_height, y_width] = self.y.extent;
        let plane = self.taps[0][pixel / (y_height * y_width)];
        let row = self.taps[1][pixel / y_width % y_height];
        let col = self.taps[2][pixel % y_width];
        if plane.count == 0 {
            return Taps::default();
        }
        let channels = self.x.channels;
        let inputs = channels / self.groups;
        let [_, height, width] = self.x.extent;
        let [kernel_h, kernel_w] = self.kernel;
        let depth = plane.input + d * self.dilations[0];
        if row.count == 0 || col.count == 0 {
            return Taps::default();
        }
        let line = (depth * height + row.input - top) * width + col.input;
        let mut taps = Taps {
            x: line * channels + channel,
            w: (((plane.tap + d) * kernel_h + row.tap) * kernel_w + col.tap) * inputs,
            len: inputs,
            cols: col.count,
            x_col: (self.dilations[2] * channels) as isize,
            w_col: inputs,
            rows: row.count,
            x_row: (self.dilations[1] * width * channels) as isize,
            w_row: kernel_w * inputs,
        };
        // Neighbouring columns are one run when nothing lies between them.
        if taps.x_col == taps.len as isize {
            taps.len *= taps.cols;
            taps.cols = taps.cols.min(1);
        }
        taps
    }

    /// Computes output rows; `top` is the first row of the input in `x`.
    fn run_rows(
        &self,
        rows: Range<usize>,
        (x, top): (&[Pack], usize),
        other: Option<&[Pack]>,
        output: &mut [Pack],
    ) {
        let pixels = self.y.pixels();
        let positions = rows.start * self.y.extent[2]..rows.end * self.y.extent[2];
        for (g, weights) in self.weights.iter().enumerate() {
            let channel = g * (self.x.channels / self.groups);
            let outputs = self.y.channels / self.groups;
            for start in positions.clone().step_by(self.positions) {
                let group = start..(start + self.positions).min(positions.end);
                // Outside of volumes there is one plane. A window that lies wholly in the padding
                // still has its bias.
                let plane = start / (self.y.extent[1] * self.y.extent[2]);
                let planes = self.taps[0][plane].count.max(1);
                for d in 0..planes {
                    let mut walks = [Taps::default().on(x, 0); POSITIONS];
                    for (walk, pixel) in walks.iter_mut().zip(group.clone()) {
                        *walk = self.taps(pixel, d, channel, top).on(x, weights.k());
                    }
                    let finish = match d + 1 == planes {
                        true => self.tail.finish,
                        false => Finish::None,
                    };
                    for block in weights.blocks() {
                        let first = g * outputs + block.first;
                        let bias = &self.bias[first..first + block.height];
                        let init = match other {
                            _ if d > 0 => Init::Output,
                            Some(other) => Init::BiasAnd(bias, other),
                            None => Init::Bias(bias),
                        };
                        for (walk, pixel) in walks.iter().zip(group.clone()) {
                            let target = Target {
                                at: first * pixels + pixel,
                                stride: pixels,
                            };
                            block.run(walk, init, finish, output, target);
                        }
                    }
                }
            }
        }
    }
}

impl Alone for ConvKernel {
    fn scratch(&self) -> usize {
        self.alone.as_ref().map_or(0, ConvAlone::scratch)
    }

    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]) {
        let Some(alone) = &self.alone else { return };
        let pixels = self.y.pixels();
        let to = self.y.channels * pixels;
        let images = inputs
            .get(0)
            .chunks_exact(self.x.channels * self.x.pixels());
        for (n, (x, output)) in images.zip(output.chunks_exact_mut(to)).enumerate() {
            let other = self.tail.add.then(|| &inputs.get(1)[n * to..(n + 1) * to]);
            let lines = self.lines.as_ref();
            let image = Image {
                x,
                lines,
                other,
                pixels,
            };
            alone.run(
                (&self.weights, &self.bias),
                self.tail,
                &image,
                scratch,
                output,
            );
        }
    }
}

impl Kernel for ConvKernel {
    fn alone(&self) -> Option<&dyn Alone> {
        self.alone.is_some().then_some(self)
    }

    fn scratch(&self) -> usize {
        if self.is_pixel_major() {
            return 0;
        }
        let rows = self.bands().map(|(_, sources)| sources.len()).max();
        rows.unwrap_or(0) * self.x.extent[2] * self.x.channels
    }

    fn run(&self, inputs: &Inputs<'_>, scratch: &mut [Pack], output: &mut [Pack]) {
        let (from, to) = (
            self.x.channels * self.x.pixels(),
            self.y.channels * self.y.pixels(),
        );
        let x = inputs.get(0);
        for n in 0..self.x.batch {
            let image = &x[n * from..(n + 1) * from];
            let other = match self.tail.add {
                true => Some(&inputs.get(1)[n * to..(n + 1) * to]),
                false => None,
            };
            let output = &mut output[n * to..(n + 1) * to];
            for (rows, sources) in self.bands() {
                if self.is_pixel_major() {
                    self.run_rows(rows, (image, 0), other, output);
                } else {
                    let width = self.x.extent[2];
                    let range = sources.start * width..sources.end * width;
                    let len = range.len();
                    to_pixel_major(image, self.x.channels, self.x.pixels(), range, scratch);
                    if let Some(lines) = &self.lines {
                        lines.change_pixels(&mut scratch[..len * self.x.channels]);
                    }
                    self.run_rows(rows, (scratch, sources.start), other, output);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::op::testing::{Input, check, number_of, positions};
    use npcov_graph::Op;

    /// The definition, one product after the other.
    fn naive(op: &Conv, x: &[usize], w: &[usize], values: &[Vec<f64>]) -> Vec<f64> {
        let window = &op.window;
        let spatial = window.output(&x[2..], false).unwrap();
        let output = [&[x[0], w[0]], &spatial[..]].concat();
        let per_group = w[0] / op.groups;
        let sum = |at: &Vec<usize>| {
            let first = at[1] / per_group * w[1];
            let mut sum = values.get(2).map_or(0.0, |bias| bias[at[1]]);
            for tap in positions(&w[1..]) {
                let mut from = vec![at[0], first + tap[0]];
                for axis in 0..spatial.len() {
                    let padded = at[axis + 2] * window.strides[axis]
                        + tap[axis + 1] * window.dilations[axis];
                    // Past the end for what lies in the padding before the beginning.
                    from.push(padded.wrapping_sub(window.pads_begin[axis]));
                }
                if from.iter().zip(x).all(|(i, extent)| i < extent) {
                    let weight = number_of(w, &[&[at[1]], &tap[..]].concat());
                    sum += values[1][weight] * values[0][number_of(x, &from)];
                }
            }
            sum
        };
        positions(&output).iter().map(sum).collect()
    }

    struct Case {
        x: &'static [usize],
        w: &'static [usize],
        strides: &'static [usize],
        dilations: &'static [usize],
        begin: &'static [usize],
        end: &'static [usize],
        groups: usize,
    }

    const PLAIN: Case = Case {
        x: &[1, 3, 6, 5],
        w: &[7, 3, 3, 3],
        strides: &[1, 1],
        dilations: &[1, 1],
        begin: &[1, 1],
        end: &[1, 1],
        groups: 1,
    };

    const CASES: [Case; 14] = [
        PLAIN,
        // Several images in one lane.
        Case {
            x: &[2, 3, 6, 5],
            ..PLAIN
        },
        Case {
            strides: &[2, 3],
            begin: &[0, 2],
            end: &[2, 0],
            ..PLAIN
        },
        Case {
            dilations: &[2, 1],
            ..PLAIN
        },
        Case {
            dilations: &[1, 2],
            begin: &[2, 3],
            ..PLAIN
        },
        // 1x1, and a window as large as the input.
        Case {
            w: &[13, 3, 1, 1],
            begin: &[0, 0],
            end: &[0, 0],
            ..PLAIN
        },
        Case {
            w: &[2, 3, 6, 5],
            begin: &[0, 0],
            end: &[0, 0],
            ..PLAIN
        },
        // Groups, depthwise, depthwise with two outputs a channel.
        Case {
            x: &[1, 4, 5, 5],
            w: &[6, 2, 3, 3],
            groups: 2,
            ..PLAIN
        },
        Case {
            x: &[1, 4, 5, 5],
            w: &[4, 1, 3, 3],
            groups: 4,
            strides: &[2, 1],
            ..PLAIN
        },
        Case {
            x: &[2, 4, 5, 5],
            w: &[8, 1, 3, 3],
            groups: 4,
            dilations: &[1, 2],
            ..PLAIN
        },
        // Depthwise, where channels stand.
        Case {
            x: &[2, 4, 9, 20],
            w: &[8, 1, 3, 3],
            groups: 4,
            ..PLAIN
        },
        Case {
            x: &[1, 4, 9, 9],
            w: &[4, 1, 5, 5],
            groups: 4,
            strides: &[2, 2],
            begin: &[1, 2],
            end: &[3, 2],
            ..PLAIN
        },
        // One and three spatial axes.
        Case {
            x: &[1, 2, 9],
            w: &[3, 2, 4],
            strides: &[2],
            dilations: &[1],
            begin: &[1],
            end: &[3],
            groups: 1,
        },
        Case {
            x: &[1, 2, 4, 3, 5],
            w: &[3, 2, 2, 3, 2],
            strides: &[1, 2, 1],
            dilations: &[2, 1, 1],
            begin: &[1, 1, 0],
            end: &[2, 0, 1],
            groups: 1,
        },
    ];

    /// Whole tiles and parts, several groups of them, pads on one side, several images.
    const TILED: [Case; 4] = [
        Case {
            x: &[1, 20, 4, 4],
            w: &[24, 20, 3, 3],
            ..PLAIN
        },
        Case {
            x: &[2, 18, 9, 9],
            w: &[23, 18, 3, 3],
            begin: &[0, 2],
            end: &[1, 0],
            ..PLAIN
        },
        Case {
            x: &[1, 16, 10, 30],
            w: &[13, 16, 3, 3],
            begin: &[0, 0],
            end: &[0, 0],
            ..PLAIN
        },
        Case {
            x: &[1, 24, 8, 8],
            w: &[24, 24, 3, 3],
            begin: &[4, 1],
            end: &[0, 1],
            ..PLAIN
        },
    ];

    fn conv(case: &Case) -> Conv {
        Conv {
            window: Window {
                kernel: case.w[2..].to_vec(),
                strides: case.strides.to_vec(),
                dilations: case.dilations.to_vec(),
                pads_begin: case.begin.to_vec(),
                pads_end: case.end.to_vec(),
            },
            groups: case.groups,
        }
    }

    fn check_cases(cases: &[Case], tolerance: f64) {
        for case in cases {
            let op = conv(case);
            let inputs = [
                Input::varying(case.x),
                Input::constant(case.w),
                Input::constant(&case.w[..1]),
            ];
            for arity in [2, 3] {
                check(
                    Op::Conv(op.clone()),
                    &inputs[..arity],
                    tolerance,
                    |values| naive(&op, case.x, case.w, values),
                );
            }
        }
    }

    #[test]
    fn convolutions_agree_with_the_definition() {
        check_cases(&CASES, 1e-6);
    }

    #[test]
    fn convolutions_by_tiles_agree_with_the_definition() {
        for case in &TILED {
            let op = conv(case);
            let spatial = op.window.output(&case.x[2..], false).unwrap();
            let tiling = Tiling::new(&op.window, &case.x[2..], &spatial).unwrap();
            let (inputs, outputs) = (case.w[1], case.w[0]);
            assert!(tiling.cost(inputs, outputs) < tiling.direct_cost(&op.window, inputs, outputs));
        }
        check_cases(&TILED, 1e-5);
    }

    /// Weights above [`CACHED_WEIGHTS`] take several positions at a time.
    /// An image whose rows are worked off in several bands, with a stride that skips some.
    #[test]
    fn large_images_agree_with_the_definition() {
        let op = Conv {
            window: Window {
                strides: vec![2, 40],
                dilations: vec![3, 1],
                pads_begin: vec![4, 1],
                pads_end: vec![1, 1],
                ..Window::sized([3, 2])
            },
            groups: 1,
        };
        let (x, w) = (&[1, 40, 61, 200], &[2, 40, 3, 2]);
        assert!(x.iter().product::<usize>() > MOVED);
        let inputs = [Input::varying(x), Input::constant(w)];
        check(Op::Conv(op.clone()), &inputs, 1e-4, |v| naive(&op, x, w, v));
    }

    #[test]
    fn large_weights_agree_with_the_definition() {
        let op = Conv {
            window: Window {
                pads_begin: vec![1, 1],
                pads_end: vec![1, 1],
                ..Window::sized([3, 3])
            },
            groups: 1,
        };
        let (x, w) = (&[1, 96, 3, 3], &[90, 96, 3, 3]);
        assert!(w.iter().product::<usize>() * size_of::<f32>() > CACHED_WEIGHTS);
        let inputs = [Input::varying(x), Input::constant(w)];
        // 864 products are added up one by one.
        check(Op::Conv(op.clone()), &inputs, 1e-5, |values| {
            naive(&op, x, w, values)
        });
    }
}
