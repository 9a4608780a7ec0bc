//! The relevance step of a convolution.
//!
//! Rows of the map are worked off in bands from top to bottom. For a band of input rows, the
//! factors of all output rows that it meets are needed; these are kept only as long as bands need
//! them. Both products, there and back, take a few positions at a time: what their windows see is
//! copied together, tap by tap, and [`Sparse`] weights are applied to it. Where a tap sees padding
//! the copy is zero; a tap that sees nothing else is left out.

use std::ops::Range;

use npcov_cpu::vectorised;
use npcov_graph::OpError;
use npcov_graph::op::{Conv, ConvTranspose, Window};
use npcov_program::LinearRelevance;

use super::conv_alone::Sights;
use super::conv_winograd::ConvRelevanceWinograd;
use super::factors::Factors;
use super::{by_sign, signed};
use crate::native::kernel::{Alone, Context, Inputs, Kernel, NodeKernel};
use crate::native::op::conv::{Volume, in_volume};
use crate::native::op::conv_transpose::Axis;
use crate::native::pack::Pack;
use crate::native::sparse::{CHUNK, Sparse, columns};

/// Positions that a band has at least, where the map has as many.
const BAND: usize = 24;

/// The most columns of any instruction set.
const MAX_COLUMNS: usize = 8;

/// Some channels under some taps: what is copied together.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) taps: Range<usize>,
    pub(super) channels: Range<usize>,
}

/// A product with weights that are given by tap and channel.
pub(super) struct Product {
    pub(super) pieces: Vec<Piece>,
    pub(super) weights: Sparse,
    /// Positions that are computed together.
    columns: usize,
}

impl Product {
    /// `weight(row, tap, channel)` for so many rows, taps and channels; `positions` are expected
    /// at a time.
    fn new(
        cx: &Context<'_>,
        rows: usize,
        taps: usize,
        channels: usize,
        positions: usize,
        weight: impl Fn(usize, usize, usize) -> f32,
    ) -> Product {
        // As many whole taps as fit, or a part of one.
        let per_piece = (CHUNK / channels.max(1)).max(1);
        let mut pieces = Vec::new();
        for tap in (0..taps).step_by(per_piece) {
            for channel in (0..channels).step_by(CHUNK) {
                pieces.push(Piece {
                    taps: tap..(tap + per_piece).min(taps),
                    channels: channel..(channel + CHUNK).min(channels),
                });
            }
        }
        let lens: Vec<usize> = pieces
            .iter()
            .map(|p| p.taps.len() * p.channels.len())
            .collect();
        let weights = Sparse::new(cx.isa(), rows, &lens, |row, piece, weights| {
            let Piece { taps, channels } = &pieces[piece];
            let tap_weights = weights.chunks_mut(channels.len().max(1));
            for (tap, weights) in taps.clone().zip(tap_weights) {
                for (channel, w) in channels.clone().zip(weights) {
                    *w = weight(row, tap, channel);
                }
            }
        });
        // Each position costs a multiplication, each group the fetching of a weight besides.
        let cost = |columns: usize| positions.div_ceil(columns) * (columns + 1);
        let best = columns(cx.isa()).iter().rev().min_by_key(|&&c| cost(c));
        Product {
            pieces,
            weights,
            columns: best.copied().unwrap_or(1),
        }
    }

    /// Adds the products of all taps to `sums`, `columns` for each row. `at(tap, column)` says
    /// where in `source` the first channel of what a position sees under a tap stands, the other
    /// channels `stride` packs apart; `None` is padding.
    fn run(
        &self,
        source: &[Pack],
        stride: usize,
        at: impl Fn(usize, usize) -> Option<usize>,
        sight: &mut [Pack],
        sums: &mut [Pack],
    ) {
        let columns = self.columns;
        let mut places = [None; MAX_COLUMNS];
        for (number, piece) in self.pieces.iter().enumerate() {
            let mut seen = false;
            let mut rows = sight.chunks_exact_mut(columns);
            for tap in piece.taps.clone() {
                for (column, place) in places[..columns].iter_mut().enumerate() {
                    *place = at(tap, column).map(|p| p + piece.channels.start * stride);
                    seen |= place.is_some();
                }
                let rows = rows.by_ref().take(piece.channels.len());
                copy(source, stride, &places[..columns], rows);
            }
            if seen {
                self.weights.run(number, columns, sight, sums);
            }
        }
    }
}

/// Copies what stands at `places`, and as many channels after it as there are rows.
fn copy<'a>(
    source: &[Pack],
    stride: usize,
    places: &[Option<usize>],
    rows: impl Iterator<Item = &'a mut [Pack]>,
) {
    let together = places[0].filter(|&first| {
        let mut neighbours = places.iter().zip(first..);
        neighbours.all(|(&place, next)| place == Some(next))
    });
    match together {
        Some(mut at) => {
            for row in rows {
                row.copy_from_slice(&source[at..at + row.len()]);
                at += stride;
            }
        }
        None => {
            for (c, row) in rows.enumerate() {
                for (to, place) in row.iter_mut().zip(places) {
                    *to = place.map_or(Pack::ZERO, |p| source[p + c * stride]);
                }
            }
        }
    }
}

pub(super) struct ConvRelevance {
    pub(super) x: Volume,
    pub(super) y: Volume,
    window: Window,
    pub(super) factors: Factors,
    /// 2 when the positive and the negative part of the input are told apart.
    pub(super) parts: usize,
    /// From input channels and parts to output channels and sums.
    pub(super) forward: Product,
    /// From output channels and sums to input channels and parts.
    pub(super) backward: Product,
    pub(super) bias: Vec<f32>,
    /// Output rows and columns that each input row and column contributes to.
    back_rows: Axis,
    back_cols: Axis,
    /// Input rows in a band.
    band: usize,
    /// Rows of factors that are kept.
    kept: usize,
    /// For one input by itself.
    pub(super) alone: Option<Sights>,
}

pub(super) fn prepare(
    op: &LinearRelevance,
    conv: &Conv,
    cx: &Context<'_>,
) -> Result<NodeKernel, OpError> {
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
    if let Some(kernel) = ConvRelevanceWinograd::new(op, conv, cx, factors, &weights, &bias) {
        return Ok(NodeKernel::new(kernel, [0, 1]));
    }
    // There are one or two of each: which one a number is, and of what, without dividing.
    let of = |number: usize, each: usize| match each {
        1 => (number, 0),
        _ => (number / 2, number % 2),
    };
    let weight = |unit: usize, channel: usize, tap: usize| {
        let ((unit, sum), (channel, part)) = (of(unit, sums), of(channel, parts));
        let weight = weights[(unit * inputs + channel) * taps + tap];
        match factors.split {
            true => signed(weight, sum, part),
            false => weight,
        }
    };
    let band = BAND.div_ceil(x.extent[2].max(1)).max(1);
    let at_a_time = |extent: [usize; 3]| band.min(extent[1]) * extent[2];
    let forward = Product::new(
        cx,
        outputs * sums,
        taps,
        inputs * parts,
        at_a_time(y.extent),
        |row, tap, channel| weight(row, channel, tap),
    );
    let backward = Product::new(
        cx,
        inputs * parts,
        taps,
        outputs * sums,
        at_a_time(x.extent) / (window.strides[1] * window.strides[2]).max(1),
        |row, tap, channel| weight(channel, row, tap),
    );
    let transposed = ConvTranspose {
        window: window.clone(),
        groups: 1,
        output: x.extent.to_vec(),
    };
    let mut kernel = ConvRelevance {
        back_rows: Axis::new(&transposed, 1, y.extent[1]),
        back_cols: Axis::new(&transposed, 2, y.extent[2]),
        band,
        kept: 0,
        alone: Sights::new(cx.isa(), &window, &x, &y),
        x,
        y,
        window,
        factors,
        parts,
        forward,
        backward,
        bias,
    };
    kernel.kept = kernel.kept();
    Ok(NodeKernel::new(kernel, [0, 1]))
}

/// Rows of factors, in a buffer that holds some of them.
#[derive(Clone, Copy, Debug, Default)]
struct Rows {
    /// The rows that are there.
    first: usize,
    end: usize,
}

impl Rows {
    /// Makes room for rows up to `end`, of those before keeping the ones from `keep` on.
    fn advance(&mut self, keep: usize, end: usize, row: usize, buffer: &mut [Pack]) {
        if (end - self.first) * row > buffer.len() {
            let kept = self.end.saturating_sub(keep) * row;
            if kept > 0 {
                let from = (keep - self.first) * row;
                buffer.copy_within(from..from + kept, 0);
            }
            self.first = keep;
        }
        self.end = end;
    }
}

/// Working memory of a step.
struct Scratch<'a> {
    /// Rows of factors: by row, then output channel and sum, then column of the map.
    factors: &'a mut [Pack],
    /// What positions see.
    sight: &'a mut [Pack],
    sums: &'a mut [Pack],
    /// The positive and the negative part of the input, where they are told apart, or the
    /// relevance of some positions.
    parts: &'a mut [Pack],
}

impl ConvRelevance {
    /// Bands of input rows, each with the output rows that it contributes to.
    fn bands(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let height = self.x.extent[1];
        (0..height).step_by(self.band).map(move |start| {
            let inputs = start..(start + self.band).min(height);
            let mut outputs: Option<Range<usize>> = None;
            for p in &self.back_rows.taps[inputs.clone()] {
                if p.len > 0 {
                    // The input of a transposed convolution is walked backwards.
                    let low = p.input - (p.len - 1) * self.back_rows.input_step;
                    let all = outputs.get_or_insert(low..p.input + 1);
                    *all = all.start.min(low)..all.end.max(p.input + 1);
                }
            }
            (inputs, outputs.unwrap_or_default())
        })
    }

    /// The most rows of factors that are needed at the same time, twice: so each row is moved
    /// once at most.
    fn kept(&self) -> usize {
        let mut done = 0;
        let mut kept = 0;
        for (_, outputs) in self.bands().filter(|(_, outputs)| !outputs.is_empty()) {
            done = outputs.end.max(done);
            kept = kept.max(done - outputs.start);
        }
        (2 * kept).min(self.y.extent[1]).max(kept)
    }

    /// Packs of a row of factors.
    fn factor_row(&self) -> usize {
        self.y.channels * self.factors.sums * self.y.extent[2]
    }

    /// Input channels, and their parts, of an image.
    fn parts_len(&self) -> usize {
        match self.parts {
            1 => 0,
            _ => 2 * self.x.channels * self.x.pixels(),
        }
    }

    /// The factors of output rows, to the rows of `scratch` from `to` on.
    fn factor_rows(
        &self,
        rows: Range<usize>,
        x: &[Pack],
        relevance: &[Pack],
        scratch: &mut Scratch<'_>,
        to: usize,
    ) {
        let [_, height, width] = self.x.extent;
        let (x_pixels, y_width, y_pixels) = (height * width, self.y.extent[2], self.y.pixels());
        let Window {
            kernel,
            strides,
            dilations,
            pads_begin,
            ..
        } = &self.window;
        let columns = self.forward.columns;
        let units = self.forward.weights.rows();
        let inside = |position: usize, axis: usize, tap: usize, extent: usize| {
            let at =
                (position * strides[axis] + tap * dilations[axis]).checked_sub(pads_begin[axis])?;
            (at < extent).then_some(at)
        };
        let end = rows.end * y_width;
        for start in (rows.start * y_width..end).step_by(columns) {
            let count = columns.min(end - start);
            let at = |tap: usize, column: usize| {
                // Columns beyond the last position see nothing.
                let pixel = Some(start + column).filter(|_| column < count)?;
                let row = inside(pixel / y_width, 1, tap / kernel[2], height)?;
                let col = inside(pixel % y_width, 2, tap % kernel[2], width)?;
                Some(row * width + col)
            };
            let sums = &mut scratch.sums[..units * columns];
            for (sums, b) in sums.chunks_exact_mut(columns).zip(&self.bias) {
                sums.fill(Pack::splat(*b));
            }
            match self.parts {
                1 => self.forward.run(x, x_pixels, at, scratch.sight, sums),
                _ => {
                    let parts = &scratch.parts[..self.parts_len()];
                    self.forward.run(parts, x_pixels, at, scratch.sight, sums);
                }
            }
            let arrived = &mut scratch.sight[..self.y.channels * columns];
            for (unit, arrived) in arrived.chunks_exact_mut(columns).enumerate() {
                let from = &relevance[unit * y_pixels + start..][..count];
                arrived[..count].copy_from_slice(from);
            }
            self.factors.apply(sums, arrived, columns);
            for (unit, sums) in sums.chunks_exact(columns).enumerate() {
                for (pixel, factor) in (start..).zip(&sums[..count]) {
                    let row = to + pixel / y_width - rows.start;
                    scratch.factors[(row * units + unit) * y_width + pixel % y_width] = *factor;
                }
            }
        }
    }

    /// The relevance of input rows; `top` is the first row of factors in memory.
    fn relevance_rows(
        &self,
        rows: Range<usize>,
        top: usize,
        x: &[Pack],
        scratch: &mut Scratch<'_>,
        output: &mut [Pack],
    ) {
        let (width, y_width) = (self.x.extent[2], self.y.extent[2]);
        let [row_step, col_step] = [self.window.strides[1], self.window.strides[2]];
        let kernel_width = self.window.kernel[2];
        let units = self.forward.weights.rows();
        let columns = self.backward.columns;
        // Positions that are a stride apart meet the same taps.
        for class in 0..row_step * col_step {
            let (first_row, first_col) = (class / col_step, class % col_step);
            let behind =
                |n: usize, first: usize, step: usize| n.saturating_sub(first).div_ceil(step);
            let per_row = behind(width, first_col, col_step);
            let count = behind(rows.len(), first_row, row_step) * per_row;
            let pixel = |i: usize| {
                let row = rows.start + first_row + i / per_row * row_step;
                (row, first_col + i % per_row * col_step)
            };
            for start in (0..count).step_by(columns) {
                let group = columns.min(count - start);
                let at = |tap: usize, column: usize| {
                    let (row, col) = pixel(Some(start + column).filter(|_| column < group)?);
                    let row = self.back_rows.taps[row].at(&self.back_rows, tap / kernel_width)?;
                    let col = self.back_cols.taps[col].at(&self.back_cols, tap % kernel_width)?;
                    Some((row - top) * units * y_width + col)
                };
                let sums = &mut scratch.sums[..self.backward.weights.rows() * columns];
                sums.fill(Pack::ZERO);
                self.backward
                    .run(scratch.factors, y_width, at, scratch.sight, sums);
                self.share(sums, x, (start..start + group).map(pixel), output);
            }
        }
    }

    /// Multiplies what came back to some positions by the input.
    fn share(
        &self,
        sums: &[Pack],
        x: &[Pack],
        pixels: impl Iterator<Item = (usize, usize)>,
        output: &mut [Pack],
    ) {
        let (width, image) = (self.x.extent[2], self.x.pixels());
        let columns = self.backward.columns;
        vectorised(
            #[inline(always)]
            || {
                for (column, (row, col)) in pixels.enumerate() {
                    let mut at = row * width + col;
                    for sums in sums.chunks_exact(self.parts * columns) {
                        let (x, p) = (x[at], sums[column]);
                        let n = if self.parts == 2 {
                            sums[columns + column]
                        } else {
                            p
                        };
                        output[at] = Pack(std::array::from_fn(|l| {
                            x.0[l] * by_sign(x.0[l], p.0[l], n.0[l])
                        }));
                        at += image;
                    }
                }
            },
        );
    }
}

impl Kernel for ConvRelevance {
    fn alone(&self) -> Option<&dyn Alone> {
        self.alone.is_some().then_some(self)
    }

    fn scratch(&self) -> usize {
        let columns = self.forward.columns.max(self.backward.columns);
        let rows = self
            .forward
            .weights
            .rows()
            .max(self.backward.weights.rows());
        let sight = CHUNK.max(self.y.channels) * columns;
        self.kept * self.factor_row() + sight + rows * columns + self.parts_len()
    }

    fn run(&self, inputs: &Inputs<'_>, scratch: &mut [Pack], output: &mut [Pack]) {
        let columns = self.forward.columns.max(self.backward.columns);
        let (factors, rest) = scratch.split_at_mut(self.kept * self.factor_row());
        let (sight, rest) = rest.split_at_mut(CHUNK.max(self.y.channels) * columns);
        let (parts, sums) = rest.split_at_mut(self.parts_len());
        let mut scratch = Scratch {
            factors,
            sight,
            sums,
            parts,
        };
        let from = self.x.channels * self.x.pixels();
        let to = self.y.channels * self.y.pixels();
        let images = inputs.get(0).chunks_exact(from);
        let relevances = inputs.get(1).chunks_exact(to);
        for ((x, relevance), output) in images.zip(relevances).zip(output.chunks_exact_mut(from)) {
            if self.parts == 2 {
                split(x, self.x.pixels(), scratch.parts);
            }
            let mut rows = Rows::default();
            for (inputs, outputs) in self.bands() {
                if outputs.end > rows.end {
                    let needed = rows.end..outputs.end;
                    rows.advance(
                        outputs.start,
                        needed.end,
                        self.factor_row(),
                        scratch.factors,
                    );
                    let to = needed.start - rows.first;
                    self.factor_rows(needed, x, relevance, &mut scratch, to);
                }
                self.relevance_rows(inputs, rows.first, x, &mut scratch, output);
            }
        }
    }
}

/// The positive and the negative part of each channel, one after the other.
fn split(x: &[Pack], pixels: usize, parts: &mut [Pack]) {
    vectorised(
        #[inline(always)]
        || {
            for (x, parts) in x
                .chunks_exact(pixels)
                .zip(parts.chunks_exact_mut(2 * pixels))
            {
                let (positive, negative) = parts.split_at_mut(pixels);
                for ((x, p), n) in x.iter().zip(positive).zip(negative) {
                    *p = x.map(|x| if x > 0.0 { x } else { 0.0 });
                    *n = x.map(|x| if x < 0.0 { x } else { 0.0 });
                }
            }
        },
    );
}
