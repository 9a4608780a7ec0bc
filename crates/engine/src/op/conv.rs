//! Convolution: one tile for each output position and block of output channels.

use npcov_graph::OpError;
use npcov_graph::op::{Conv, Window};

use super::depthwise;
use super::pixel_major::to_pixel_major;
use crate::kernel::{Context, Inputs, Kernel, Prepared, Tail};
use crate::pack::Pack;
use crate::tile::{Finish, Init, Taps, Target, Weights};

/// Weights up to this many bytes stay in the second-level cache; larger ones are used for several
/// positions before the next block of channels is fetched.
const CACHED_WEIGHTS: usize = 256 * 1024;

/// Positions that share a block of large weights.
const POSITIONS: usize = 8;

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
    tail: Tail,
}

pub(crate) fn prepare(op: &Conv, cx: &Context<'_>, tail: Tail) -> Result<Prepared, OpError> {
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
        let kernel = depthwise::Depthwise::new(x, y, taps, &window, weights, bias, tail);
        return Ok(Prepared::new(kernel, reads));
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
        .map(|g| Weights::new(cx.isa, outputs, kernel * inputs, weight(g)))
        .collect();
    let bytes = size_of_val(weights.as_slice()) / op.groups;
    let kernel = ConvKernel {
        x,
        y,
        taps,
        kernel: [window.kernel[1], window.kernel[2]],
        dilations: window.dilations,
        groups: op.groups,
        weights: groups,
        bias,
        positions: if bytes > CACHED_WEIGHTS { POSITIONS } else { 1 },
        tail,
    };
    Ok(Prepared::new(kernel, reads))
}

impl ConvKernel {
    /// Whether the input already has the channels of a pixel next to each other.
    fn is_pixel_major(&self) -> bool {
        self.x.channels == 1 || self.x.pixels() == 1
    }

    /// The taps of one output row and column in one plane of the input, for a group whose channels
    /// start at `channel`.
    fn taps(&self, depth: usize, tap: usize, row: AxisTaps, col: AxisTaps, channel: usize) -> Taps {
        let channels = self.x.channels;
        let inputs = channels / self.groups;
        let [_, height, width] = self.x.extent;
        let [kernel_h, kernel_w] = self.kernel;
        let line = (depth * height + row.input) * width + col.input;
        let mut taps = Taps {
            x: line * channels + channel,
            w: ((tap * kernel_h + row.tap) * kernel_w + col.tap) * inputs,
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

    fn run_image(&self, x: &[Pack], other: Option<&[Pack]>, output: &mut [Pack]) {
        let [_, height, width] = self.y.extent;
        let pixels = self.y.pixels();
        let outputs = self.y.channels / self.groups;
        for (g, weights) in self.weights.iter().enumerate() {
            let channel = g * (self.x.channels / self.groups);
            for start in (0..pixels).step_by(self.positions) {
                let end = (start + self.positions).min(pixels);
                for block in weights.blocks() {
                    let first = g * outputs + block.first;
                    let bias = &self.bias[first..first + block.height];
                    for pixel in start..end {
                        let target = Target {
                            at: first * pixels + pixel,
                            stride: pixels,
                        };
                        let plane = self.taps[0][pixel / (height * width)];
                        let row = self.taps[1][pixel / width % height];
                        let col = self.taps[2][pixel % width];
                        let mut init = match other {
                            Some(other) => Init::BiasAnd(bias, other),
                            None => Init::Bias(bias),
                        };
                        // Outside of volumes there is one plane, and the loop is a single step;
                        // a window that lies wholly in the padding still has its bias.
                        let planes = plane.count.max(1);
                        for d in 0..planes {
                            let depth = plane.input + d * self.dilations[0];
                            let taps = match plane.count {
                                0 => Taps::default(),
                                _ => self.taps(depth, plane.tap + d, row, col, channel),
                            };
                            let finish = match d + 1 == planes {
                                true => self.tail.finish,
                                false => Finish::None,
                            };
                            block.run(x, &taps, init, finish, output, target);
                            init = Init::Output;
                        }
                    }
                }
            }
        }
    }
}

impl Kernel for ConvKernel {
    fn scratch(&self) -> usize {
        match self.is_pixel_major() {
            true => 0,
            false => self.x.channels * self.x.pixels(),
        }
    }

    fn run(&self, inputs: &Inputs<'_>, scratch: &mut [Pack], output: &mut [Pack]) {
        let (from, to) = (
            self.x.channels * self.x.pixels(),
            self.y.channels * self.y.pixels(),
        );
        let x = inputs.get(0);
        for n in 0..self.x.batch {
            let mut image = &x[n * from..(n + 1) * from];
            if !self.is_pixel_major() {
                to_pixel_major(image, self.x.channels, self.x.pixels(), scratch);
                image = scratch;
            }
            let other = match self.tail.add {
                true => Some(&inputs.get(1)[n * to..(n + 1) * to]),
                false => None,
            };
            self.run_image(image, other, &mut output[n * to..(n + 1) * to]);
        }
    }
}
