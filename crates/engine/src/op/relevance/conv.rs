//! The relevance step of a convolution.
//!
//! Both sums of a unit come from one product with stacked weights, both factors go back in one
//! transposed product. An input of both signs counts as twice the channels: its positive and its
//! negative part. Rows of the map are worked off in bands from top to bottom. For a band of input
//! rows, the factors of all output rows that it meets are needed, and for those in turn some rows
//! of the input; both are kept, channels side by side, only as long as bands need them.

use std::ops::Range;

use npcov_graph::OpError;
use npcov_graph::op::{Conv, ConvTranspose};
use npcov_program::LinearRelevance;

use super::factors::Factors;
use super::signed;
use crate::isa::vectorised;
use crate::kernel::{Context, Inputs, Kernel, Prepared};
use crate::op::conv::{AxisTaps, Volume, axis_taps, in_volume};
use crate::op::conv_transpose::{Axis, Progression};
use crate::pack::Pack;
use crate::tile::{Finish, Init, Taps, Target, Walk, Weights};

/// Positions that share a block of weights before the next one is fetched.
const POSITIONS: usize = 8;

/// Positions that a band has at least, where the map has as many.
const BAND: usize = 16;

struct ConvRelevance {
    x: Volume,
    y: Volume,
    factors: Factors,
    /// 2 when the positive and the negative part of the input are told apart.
    parts: usize,
    /// From `[tap][input channel][part]` to `[output channel][sum]`.
    forward: Weights,
    /// From `[tap][output channel][sum]` to `[input channel][part]`.
    backward: Weights,
    bias: Vec<f32>,
    /// Taps of each output row and column.
    rows: Vec<AxisTaps>,
    cols: Vec<AxisTaps>,
    /// Output rows and columns that each input row and column contributes to.
    back_rows: Axis,
    back_cols: Axis,
    /// Height and width of the window, and distance of its taps.
    kernel: [usize; 2],
    dilations: [usize; 2],
    /// Input rows in a band.
    band: usize,
    /// Rows of the input and of factors that are kept.
    kept: [usize; 2],
}

pub(super) fn prepare(
    op: &LinearRelevance,
    conv: &Conv,
    cx: &Context<'_>,
) -> Result<Prepared, OpError> {
    let (x, y) = (Volume::new(cx.shape(0))?, Volume::new(cx.shape(1))?);
    let window = in_volume(&conv.window);
    let weights = cx.parameter(2, "the weight")?;
    let factors = Factors::new(op.rule)?;
    let parts = if factors.split && !op.nonnegative {
        2
    } else {
        1
    };
    let sums = factors.sums;
    let taps: usize = window.kernel.iter().product();
    let (inputs, outputs) = (x.channels, y.channels);
    let weight = |j: usize, sum: usize, c: usize, part: usize, tap: usize| {
        let weight = weights[(j * inputs + c) * taps + tap];
        match factors.split {
            true => signed(weight, sum, part),
            false => weight,
        }
    };
    let forward = Weights::new(cx.isa, outputs * sums, taps * inputs * parts, |m, k| {
        let (tap, channel) = (k / (inputs * parts), k % (inputs * parts));
        weight(m / sums, m % sums, channel / parts, channel % parts, tap)
    });
    let backward = Weights::new(cx.isa, inputs * parts, taps * outputs * sums, |m, k| {
        let (tap, unit) = (k / (outputs * sums), k % (outputs * sums));
        weight(unit / sums, unit % sums, m / parts, m % parts, tap)
    });
    let mut bias = vec![0.0; outputs * sums];
    if op.bias {
        let given = cx.parameter(3, "the bias")?;
        if given.len() != outputs {
            return Err(OpError::unsupported("a bias for every position"));
        }
        for (i, b) in bias.iter_mut().enumerate() {
            *b = factors.bias(given[i / sums], i % sums);
        }
    }
    let transposed = ConvTranspose {
        window: window.clone(),
        groups: 1,
        output: x.extent.to_vec(),
    };
    let mut kernel = ConvRelevance {
        rows: axis_taps(&window, 1, x.extent[1], y.extent[1]),
        cols: axis_taps(&window, 2, x.extent[2], y.extent[2]),
        back_rows: Axis::new(&transposed, 1, y.extent[1]),
        back_cols: Axis::new(&transposed, 2, y.extent[2]),
        kernel: [window.kernel[1], window.kernel[2]],
        dilations: [window.dilations[1], window.dilations[2]],
        band: BAND.div_ceil(x.extent[2].max(1)).max(1),
        kept: [0, 0],
        x,
        y,
        factors,
        parts,
        forward,
        backward,
        bias,
    };
    kernel.kept = kernel.kept();
    Ok(Prepared::new(kernel, [0, 1]))
}

/// Rows of an image, in a buffer that holds some of them.
#[derive(Clone, Copy, Debug, Default)]
struct Rows {
    /// The rows that are there.
    first: usize,
    end: usize,
}

impl Rows {
    /// Makes room for rows up to `end`, of those before keeping the ones from `keep` on.
    fn advance(&mut self, keep: usize, end: usize, row: usize, buffer: &mut [Pack]) {
        if (end - self.first.min(end)) * row > buffer.len() {
            let keep = keep.max(self.first);
            let kept = self.end.saturating_sub(keep) * row;
            let from = (keep - self.first) * row;
            if kept > 0 {
                buffer.copy_within(from..from + kept, 0);
            }
            self.first = keep;
            self.end = self.end.max(keep);
        }
    }

    /// Where a row begins.
    fn at(&self, row: usize, len: usize) -> usize {
        (row - self.first) * len
    }
}

/// What a band needs before its relevance can be computed.
struct Band {
    /// Input rows.
    inputs: Range<usize>,
    /// Output rows that they contribute to.
    factors: Range<usize>,
}

impl ConvRelevance {
    fn bands(&self) -> impl Iterator<Item = Band> {
        let height = self.x.extent[1];
        (0..height).step_by(self.band).map(move |start| {
            let inputs = start..(start + self.band).min(height);
            let mut factors: Option<Range<usize>> = None;
            for p in &self.back_rows.taps[inputs.clone()] {
                if p.len > 0 {
                    // The input of a transposed convolution is walked backwards.
                    let low = p.input - (p.len - 1) * self.back_rows.input_step;
                    let all = factors.get_or_insert(low..p.input + 1);
                    *all = all.start.min(low)..all.end.max(p.input + 1);
                }
            }
            let factors = factors.unwrap_or_default();
            Band { inputs, factors }
        })
    }

    /// The input rows that an output row is computed from.
    fn sources(&self, rows: Range<usize>) -> Range<usize> {
        let mut sources: Option<Range<usize>> = None;
        for taps in &self.rows[rows] {
            if taps.count > 0 {
                let end = taps.input + (taps.count - 1) * self.dilations[0] + 1;
                let all = sources.get_or_insert(taps.input..end);
                *all = all.start.min(taps.input)..all.end.max(end);
            }
        }
        sources.unwrap_or_default()
    }

    /// The most rows of input and factors that are needed at the same time.
    fn kept(&self) -> [usize; 2] {
        let mut done = 0;
        let mut kept = [0, 0];
        for band in self.bands() {
            if band.factors.end > done {
                let sources = self.sources(done..band.factors.end);
                kept[0] = kept[0].max(sources.len());
                done = band.factors.end;
            }
            if !band.factors.is_empty() {
                kept[1] = kept[1].max(done - band.factors.start);
            }
        }
        // Twice the room moves each row once at most.
        [
            (2 * kept[0]).min(self.x.extent[1]).max(kept[0]),
            (2 * kept[1]).min(self.y.extent[1]).max(kept[1]),
        ]
    }

    /// Packs of an input row and of a row of factors.
    fn row_lens(&self) -> [usize; 2] {
        [
            self.x.extent[2] * self.x.channels * self.parts,
            self.y.extent[2] * self.y.channels * self.factors.sums,
        ]
    }

    /// Copies rows of the input, channels side by side.
    fn load(&self, x: &[Pack], rows: Range<usize>, to: &mut [Pack]) {
        let (width, pixels) = (self.x.extent[2], self.x.pixels());
        let channels = self.x.channels;
        let from = rows.start * width;
        let count = rows.len() * width;
        vectorised(
            #[inline(always)]
            || {
                for (c, x) in x.chunks_exact(pixels).enumerate() {
                    let x = &x[from..from + count];
                    if self.parts == 1 {
                        for (to, x) in to.chunks_exact_mut(channels).zip(x) {
                            to[c] = *x;
                        }
                    } else {
                        for (to, x) in to.chunks_exact_mut(2 * channels).zip(x) {
                            to[2 * c] = x.map(|x| if x > 0.0 { x } else { 0.0 });
                            to[2 * c + 1] = x.map(|x| if x < 0.0 { x } else { 0.0 });
                        }
                    }
                }
            },
        );
    }

    /// The products of an output position; `top` is the first input row in memory.
    fn taps(&self, pixel: usize, top: usize) -> Taps {
        let [width, y_width] = [self.x.extent[2], self.y.extent[2]];
        let (row, col) = (self.rows[pixel / y_width], self.cols[pixel % y_width]);
        if row.count == 0 || col.count == 0 {
            return Taps::default();
        }
        let channels = self.x.channels * self.parts;
        let mut taps = Taps {
            x: ((row.input - top) * width + col.input) * channels,
            w: (row.tap * self.kernel[1] + col.tap) * channels,
            len: channels,
            cols: col.count,
            x_col: (self.dilations[1] * channels) as isize,
            w_col: channels,
            rows: row.count,
            x_row: (self.dilations[0] * width * channels) as isize,
            w_row: self.kernel[1] * channels,
        };
        // Neighbouring columns are one run when nothing lies between them.
        if self.dilations[1] == 1 {
            taps.len *= taps.cols;
            taps.cols = 1;
        }
        taps
    }

    /// The products of an input position; `top` is the first row of factors in memory.
    fn back_taps(&self, row: &Progression, col: &Progression, top: usize) -> Taps {
        if row.len == 0 || col.len == 0 {
            return Taps::default();
        }
        let width = self.y.extent[2];
        let channels = self.y.channels * self.factors.sums;
        let back = |pixels: usize| -((pixels * channels) as isize);
        Taps {
            x: ((row.input - top) * width + col.input) * channels,
            w: (row.tap * self.kernel[1] + col.tap) * channels,
            len: channels,
            cols: col.len,
            x_col: back(self.back_cols.input_step),
            w_col: self.back_cols.tap_step * channels,
            rows: row.len,
            x_row: back(self.back_rows.input_step * width),
            w_row: self.back_rows.tap_step * self.kernel[1] * channels,
        }
    }

    /// Sums of contributions of output rows, then their factors.
    fn factor_rows(
        &self,
        rows: Range<usize>,
        x: (&[Pack], usize),
        relevance: &[Pack],
        to: &mut [Pack],
    ) {
        let width = self.y.extent[2];
        let len = self.y.channels * self.factors.sums;
        let first = rows.start * width;
        for start in (first..rows.end * width).step_by(POSITIONS) {
            let group = start..(start + POSITIONS).min(rows.end * width);
            let mut walks = [Taps::default().on(x.0, 0); POSITIONS];
            for (walk, pixel) in walks.iter_mut().zip(group.clone()) {
                *walk = self.taps(pixel, x.1).on(x.0, self.forward.k());
            }
            let to = &mut to[(start - first) * len..(group.end - first) * len];
            run(&self.forward, &walks[..group.len()], &self.bias, to, len);
        }
        let pixels = self.y.pixels();
        for (pixel, sums) in (first..).zip(to.chunks_exact_mut(len)) {
            self.factors.apply(sums, &relevance[pixel..], pixels);
        }
    }

    /// The relevance of input rows.
    fn relevance_rows(
        &self,
        rows: Range<usize>,
        factors: (&[Pack], usize),
        x: &[Pack],
        scratch: &mut [Pack],
        output: &mut [Pack],
    ) {
        let (width, pixels) = (self.x.extent[2], self.x.pixels());
        let len = self.x.channels * self.parts;
        for start in (rows.start * width..rows.end * width).step_by(POSITIONS) {
            let group = start..(start + POSITIONS).min(rows.end * width);
            let mut walks = [Taps::default().on(factors.0, 0); POSITIONS];
            for (walk, pixel) in walks.iter_mut().zip(group.clone()) {
                let row = &self.back_rows.taps[pixel / width];
                let col = &self.back_cols.taps[pixel % width];
                let taps = self.back_taps(row, col, factors.1);
                *walk = taps.on(factors.0, self.backward.k());
            }
            let sums = &mut scratch[..group.len() * len];
            run(&self.backward, &walks[..group.len()], &[], sums, len);
            let group_len = group.len();
            vectorised(
                #[inline(always)]
                || {
                    for c in 0..self.x.channels {
                        let at = c * pixels + start;
                        let x = &x[at..at + group_len];
                        let output = &mut output[at..at + group_len];
                        let sums = sums.chunks_exact(len);
                        for ((out, x), sums) in output.iter_mut().zip(x).zip(sums) {
                            *out = match self.parts {
                                1 => x.zip(sums[c], |x, s| x * s),
                                _ => {
                                    let (p, n) = (sums[2 * c], sums[2 * c + 1]);
                                    let of = |l: usize| {
                                        let x = x.0[l];
                                        x * if x > 0.0 { p.0[l] } else { n.0[l] }
                                    };
                                    Pack(std::array::from_fn(of))
                                }
                            };
                        }
                    }
                },
            );
        }
    }
}

/// All channels of some positions: position `i` to `len` packs from `i * len` on.
fn run(weights: &Weights, walks: &[Walk<'_>], bias: &[f32], to: &mut [Pack], len: usize) {
    const NOTHING: [f32; 16] = [0.0; 16];
    for block in weights.blocks() {
        let bias = match bias {
            [] => &NOTHING[..],
            bias => &bias[block.first..],
        };
        for (i, walk) in walks.iter().enumerate() {
            let target = Target {
                at: i * len + block.first,
                stride: 1,
            };
            block.run(walk, Init::Bias(bias), Finish::None, to, target);
        }
    }
}

impl Kernel for ConvRelevance {
    fn scratch(&self) -> usize {
        let [x, factors] = self.row_lens();
        self.kept[0] * x + self.kept[1] * factors + POSITIONS * self.x.channels * self.parts
    }

    fn run(&self, inputs: &Inputs<'_>, scratch: &mut [Pack], output: &mut [Pack]) {
        let [x_row, factor_row] = self.row_lens();
        let (x_rows, rest) = scratch.split_at_mut(self.kept[0] * x_row);
        let (factor_rows, sums) = rest.split_at_mut(self.kept[1] * factor_row);
        let from = self.x.channels * self.x.pixels();
        let to = self.y.channels * self.y.pixels();
        let images = inputs.get(0).chunks_exact(from);
        let relevances = inputs.get(1).chunks_exact(to);
        for ((x, relevance), output) in images.zip(relevances).zip(output.chunks_exact_mut(from)) {
            let (mut loaded, mut done) = (Rows::default(), Rows::default());
            for band in self.bands() {
                if band.factors.end > done.end {
                    let needed = done.end..band.factors.end;
                    let sources = self.sources(needed.clone());
                    if sources.end > loaded.end {
                        loaded.advance(sources.start, sources.end, x_row, x_rows);
                        let start = loaded.end.max(loaded.first);
                        let at = loaded.at(start, x_row);
                        let to = &mut x_rows[at..loaded.at(sources.end, x_row)];
                        self.load(x, start..sources.end, to);
                        loaded.end = sources.end;
                    }
                    done.advance(band.factors.start, needed.end, factor_row, factor_rows);
                    let to = &mut factor_rows[done.at(needed.start, factor_row)..]
                        [..needed.len() * factor_row];
                    self.factor_rows(needed.clone(), (x_rows, loaded.first), relevance, to);
                    done.end = needed.end;
                }
                let factors = (&*factor_rows, done.first);
                self.relevance_rows(band.inputs, factors, x, sums, output);
            }
        }
    }
}
