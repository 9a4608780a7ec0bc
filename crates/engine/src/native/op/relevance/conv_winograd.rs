//! The relevance step of a 3x3 convolution by tiles.
//!
//! A tile goes there and back in one go. What it sees is transformed once; at every point, the
//! matrices of all sums are applied to it; the sums are transformed back and become factors. These
//! are transformed by the adjoint, the transposed matrices add up what the sums send back, and one
//! transform more gives the six by six inputs their share, which is added to that of other tiles.
//!
//! **Where digits matter.** Errors of a tile are a small part of its *largest* numbers. A unit that
//! sees nearly nothing, next to others that see much, would get a sum made of errors: a rare unit
//! would not be recognised, and the factor of such a unit, a relevance divided by next to nothing,
//! would drown the others of its tile on the way back. So units with a sum that is small for their
//! tile are left out, and computed product by product, both ways. What they send back is added up by
//! itself, in the order of tiles, units and positions, and added to what came back by tiles at the end:
//! so sums do not depend on how many tiles are worked on together.

use npcov_cpu::{Isa, vectorised};
use npcov_graph::op::Conv;
use npcov_program::LinearRelevance;

use super::factors::Factors;
use super::signed;
use crate::native::kernel::{Alone, Context, Inputs, Kernel};
use crate::native::pack::{LANES, Pack};
use crate::native::winograd::single::Single;
use crate::native::winograd::transform::{self, POINTS, TILE};
use crate::native::winograd::{self, Matrices, Tiling, spread};

/// A sum below this part of what is large for its tile is computed directly. Errors are about
/// `1e-6` of that.
const SMALL: f32 = 1e-4;

/// What a direct product costs, in multiply-adds of a point: its weights are applied by lists.
const DIRECT: f32 = 1.7;

/// Positions of a tile.
pub(super) const POSITIONS: usize = TILE * TILE;

/// The tiles of a step, where they take less work than its products by lists of weights.
pub(super) fn tiling(conv: &Conv, factors: &Factors, x: &[usize], y: &[usize]) -> Option<Tiling> {
    let tiling = Tiling::new(&conv.window, &x[2..], &y[2..])?;
    // Of weights split by sign, one sum needs half.
    let share = match factors.split && factors.sums == 1 {
        true => 0.5,
        false => 1.0,
    };
    let direct = DIRECT * share * tiling.direct_cost(&conv.window, x[1], y[1]) as f32;
    let pays = (tiling.cost(x[1], y[1] * factors.sums) as f32) < direct;
    pays.then_some(tiling)
}

pub(super) struct ConvRelevanceWinograd {
    pub(super) isa: Isa,
    pub(super) tiling: Tiling,
    pub(super) factors: Factors,
    /// Output channels and sums by input channels.
    pub(super) matrices: Matrices,
    /// `[output channel, tap, input channel]`, with their signs.
    pub(super) weights: Vec<f32>,
    /// The largest weight of each output channel.
    pub(super) largest: Vec<f32>,
    /// For each output channel and sum.
    pub(super) bias: Vec<f32>,
    /// Tiles that are computed together, or packs of tiles of inputs by themselves.
    pub(super) group: usize,
}

/// What a step works on besides the input and the relevance.
struct Work<'a> {
    /// The sum of all channels of each pixel.
    totals: &'a mut [Pack],
    /// What units that are computed product by product send back; cleared when the first one does.
    singles: &'a mut [Pack],
    any_single: bool,
}

impl ConvRelevanceWinograd {
    /// The step by tiles, where that takes less work; `bias` has a number for each channel and sum.
    pub(super) fn new(
        op: &LinearRelevance,
        conv: &Conv,
        cx: &Context<'_>,
        factors: Factors,
        weights: &[f32],
        bias: &[f32],
    ) -> Option<ConvRelevanceWinograd> {
        let (x, y) = (cx.shape(0), cx.shape(1));
        if !cx.winograd() || conv.groups != 1 || (factors.split && !op.nonnegative) {
            return None;
        }
        let tiling = tiling(conv, &factors, x, y)?;
        let (inputs, outputs, sums) = (x[1], y[1], factors.sums);
        let taps = |row: usize, channel: usize| {
            let at = (row / sums * inputs + channel) * 9;
            std::array::from_fn(|tap| match factors.split {
                true => signed(weights[at + tap], row % sums, 0),
                false => weights[at + tap],
            })
        };
        let matrices = winograd::matrices(cx.isa(), outputs * sums, inputs, taps);
        let largest = |weights: &[f32]| weights.iter().fold(0.0f32, |max, w| max.max(w.abs()));
        Some(ConvRelevanceWinograd {
            isa: cx.isa(),
            tiling,
            factors,
            group: tiling.group(matrices.column_packs() + matrices.row_packs()),
            largest: weights.chunks(inputs * 9).map(largest).collect(),
            matrices,
            weights: (0..weights.len())
                .map(|i| weights[(i / (9 * inputs) * inputs + i % inputs) * 9 + i / inputs % 9])
                .collect(),
            bias: bias.to_vec(),
        })
    }

    pub(super) fn pixels(&self) -> [usize; 2] {
        [self.tiling.x, self.tiling.y].map(|[height, width]| height * width)
    }

    /// Numbers of the input.
    pub(super) fn image(&self) -> usize {
        self.matrices.columns() * self.pixels()[0]
    }

    /// Packs of transformed inputs and of transformed sums for so many tiles.
    pub(super) fn transformed(&self, group: usize) -> [usize; 2] {
        let packs = |channels| POINTS * spread(channels, group);
        [
            packs(self.matrices.column_packs()),
            packs(self.matrices.row_packs()),
        ]
    }

    /// The products of a channel at one position.
    fn single(&self, unit: usize, position: [usize; 2]) -> Single<'_> {
        let channels = self.matrices.columns();
        Single {
            weights: &self.weights[unit * 9 * channels..][..9 * channels],
            split: self.factors.split,
            channels,
            extent: self.tiling.x,
            window: self.tiling.window(position),
        }
    }

    /// Puts factors in the place of the sums of one channel in a tile, and zeros where the tile
    /// reaches beyond the map. `scale` is what inputs of the tile add up to.
    fn factors(
        &self,
        unit: usize,
        tile: usize,
        scale: &Pack,
        (x, relevance): (&[Pack], &[Pack]),
        sums: &mut [Pack],
        work: &mut Work<'_>,
    ) {
        let [_, width] = self.tiling.y;
        let [rows, cols] = self.tiling.inside(tile);
        let mut arrived = [Pack::ZERO; POSITIONS];
        for (row, arrived) in rows.clone().zip(arrived.chunks_exact_mut(TILE)) {
            let at = unit * self.pixels()[1] + row * width;
            let from = &relevance[at + cols.start..at + cols.end];
            arrived[..from.len()].copy_from_slice(from);
        }
        let large = scale.map(|s| s * self.largest[unit]);
        let mut any = Pack::ZERO;
        vectorised(
            #[inline(always)]
            || {
                for (position, r) in arrived.iter().enumerate() {
                    let small = self.is_small(sums, position, r, &large);
                    any = any.zip(small, |any, small| any + small);
                }
            },
        );
        if any.0.iter().any(|&lane| lane != 0.0) {
            for position in 0..POSITIONS {
                let small = self.is_small(sums, position, &arrived[position], &large);
                if small == Pack::ZERO {
                    continue;
                }
                let single = self.single(
                    unit,
                    [rows.start + position / TILE, cols.start + position % TILE],
                );
                let bias = &self.bias[unit * self.factors.sums..][..self.factors.sums];
                let mut own = [Pack::ZERO; 2];
                for (sum, bias) in own.iter_mut().zip(bias) {
                    *sum = Pack::splat(*bias);
                }
                single.add_up(self.isa, x, &mut own);
                let r = arrived[position].zip(small, |r, small| r * small);
                self.factors.apply(&mut own[..bias.len()], &[r], 1);
                own[bias.len()..].fill(Pack::ZERO);
                if !std::mem::replace(&mut work.any_single, true) {
                    work.singles.fill(Pack::ZERO);
                }
                single.send_back(self.isa, &own, work.singles);
                let others = |r: f32, small: f32| if small == 0.0 { r } else { 0.0 };
                arrived[position] = arrived[position].zip(small, others);
            }
        }
        self.factors.apply(sums, &arrived, POSITIONS);
    }

    /// One in the lanes in which a position has relevance and a sum that is small for its tile.
    #[inline(always)]
    pub(super) fn is_small(&self, sums: &[Pack], position: usize, r: &Pack, large: &Pack) -> Pack {
        let (p, n) = (
            &sums[position],
            &sums[(self.factors.sums - 1) * POSITIONS + position],
        );
        let mut small = Pack::ZERO;
        for l in 0..LANES {
            let both = match self.factors.together {
                true => (p.0[l] + n.0[l]).abs(),
                false => f32::INFINITY,
            };
            let (p, n) = (p.0[l].abs(), n.0[l].abs());
            let limit = SMALL * large.0[l].max(p).max(n);
            let is = r.0[l] != 0.0 && (p < limit || n < limit || both < limit);
            small.0[l] = if is { 1.0 } else { 0.0 };
        }
        small
    }

    /// The sum of all channels of each pixel, without signs.
    fn add_up(x: &[Pack], totals: &mut [Pack]) {
        vectorised(
            #[inline(always)]
            || {
                totals.fill(Pack::ZERO);
                for plane in x.chunks_exact(totals.len()) {
                    for (total, x) in totals.iter_mut().zip(plane) {
                        *total = total.zip(*x, |total, x| total + x.abs());
                    }
                }
            },
        );
    }

    /// The largest total of the pixels that a tile sees.
    fn scale(&self, totals: &[Pack], tile: usize) -> Pack {
        let [(rows, _), (cols, _)] = self.tiling.seen(tile);
        let mut scale = Pack::ZERO;
        for row in rows {
            let line = &totals[row * self.tiling.x[1]..];
            for total in &line[cols.clone()] {
                scale = scale.zip(*total, f32::max);
            }
        }
        scale
    }

    /// Adds what came back to a tile to a channel of the output.
    fn add_back(&self, tile: usize, back: &[Pack; POINTS], plane: &mut [Pack]) {
        let width = self.tiling.x[1];
        let [(rows, top), (cols, left)] = self.tiling.seen(tile);
        vectorised(
            #[inline(always)]
            || {
                for (i, row) in rows.enumerate() {
                    let from = &back[(top + i) * transform::SEEN + left..];
                    let to = &mut plane[row * width..][cols.clone()];
                    for (y, back) in to.iter_mut().zip(from) {
                        *y = y.zip(*back, |y, back| y + back);
                    }
                }
            },
        );
    }

    /// The step for some neighbouring tiles.
    fn tiles(
        &self,
        (first, tiles): (usize, usize),
        (x, relevance): (&[Pack], &[Pack]),
        work: &mut Work<'_>,
        (v, m): (&mut [Pack], &mut [Pack]),
        output: &mut [Pack],
    ) {
        let [pixels, _] = self.pixels();
        let sums = self.factors.sums;
        let v_spread = spread(self.matrices.column_packs(), tiles);
        let m_spread = spread(self.matrices.row_packs(), tiles);
        for (channel, plane) in x.chunks_exact(pixels).enumerate() {
            for t in 0..tiles {
                let v = &mut v[channel * tiles + t..];
                self.tiling
                    .transform(self.isa, plane, first + t, v, v_spread);
            }
        }
        for point in 0..POINTS {
            let (v, m) = (&v[point * v_spread..], &mut m[point * m_spread..]);
            self.matrices.forward(point, tiles, v, m);
        }
        let mut own = [Pack::ZERO; 2 * POSITIONS];
        for t in 0..tiles {
            let scale = self.scale(work.totals, first + t);
            for (unit, bias) in self.bias.chunks_exact(sums).enumerate() {
                let own = &mut own[..sums * POSITIONS];
                for (s, (own, bias)) in own.as_chunks_mut().0.iter_mut().zip(bias).enumerate() {
                    let m = &m[(unit * sums + s) * tiles + t..];
                    transform::output(self.isa, m, m_spread, own);
                    if *bias != 0.0 {
                        for sum in own {
                            *sum = sum.map(|sum| sum + bias);
                        }
                    }
                }
                self.factors(unit, first + t, &scale, (x, relevance), own, work);
                for (s, own) in own.as_chunks().0.iter().enumerate() {
                    let m = &mut m[(unit * sums + s) * tiles + t..];
                    transform::output_adjoint(self.isa, own, m, m_spread);
                }
            }
        }
        for point in 0..POINTS {
            let (v, m) = (&mut v[point * v_spread..], &m[point * m_spread..]);
            self.matrices.transposed(point, tiles, m, v);
        }
        let mut back = [Pack::ZERO; POINTS];
        for (channel, plane) in output.chunks_exact_mut(pixels).enumerate() {
            for t in 0..tiles {
                let v = &v[channel * tiles + t..];
                transform::input_adjoint(self.isa, v, v_spread, &mut back);
                self.add_back(first + t, &back, plane);
            }
        }
    }
}

impl Kernel for ConvRelevanceWinograd {
    fn scratch(&self) -> usize {
        self.transformed(self.group).iter().sum::<usize>() + self.pixels()[0] + self.image()
    }

    fn alone(&self) -> Option<&dyn Alone> {
        Some(self)
    }

    fn run(&self, inputs: &Inputs<'_>, scratch: &mut [Pack], output: &mut [Pack]) {
        let [x_pixels, y_pixels] = self.pixels();
        let transformed = self.transformed(self.group);
        let (v, rest) = scratch.split_at_mut(transformed[0]);
        let (m, rest) = rest.split_at_mut(transformed[1]);
        let (totals, singles) = rest.split_at_mut(x_pixels);
        let image = self.image();
        let images = inputs.get(0).chunks_exact(image);
        let relevances = inputs.get(1).chunks_exact(self.largest.len() * y_pixels);
        for ((x, relevance), output) in images.zip(relevances).zip(output.chunks_exact_mut(image)) {
            let mut work = Work {
                totals,
                singles,
                any_single: false,
            };
            Self::add_up(x, work.totals);
            output.fill(Pack::ZERO);
            for first in (0..self.tiling.tiles()).step_by(self.group) {
                let tiles = self.group.min(self.tiling.tiles() - first);
                self.tiles((first, tiles), (x, relevance), &mut work, (v, m), output);
            }
            let singles = work.any_single.then_some(work.singles);
            vectorised(
                #[inline(always)]
                || match singles {
                    Some(singles) => {
                        for ((y, x), s) in output.iter_mut().zip(x).zip(singles) {
                            *y = y.zip(*s, |y, s| y + s).zip(*x, |y, x| x * y);
                        }
                    }
                    // As if zeros were added, so that a zero has the same sign.
                    None => {
                        for (y, x) in output.iter_mut().zip(x) {
                            *y = y.zip(*x, |y, x| x * (y + 0.0));
                        }
                    }
                },
            );
        }
    }
}
