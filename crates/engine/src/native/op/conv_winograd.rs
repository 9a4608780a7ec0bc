//! Convolution of 3x3 taps by tiles: see [`winograd`](crate::native::winograd).

use std::ops::Range;

use npcov_cpu::{Isa, vectorised};

use crate::native::kernel::{Alone, Inputs, Kernel, Tail};
use crate::native::pack::{LANES, Pack, numbers, numbers_mut};
use crate::native::tile::Finish;
use crate::native::winograd::alike::{Exact, Found, TOGETHER};
use crate::native::winograd::transform::{self, POINTS, TILE};
use crate::native::winograd::{Matrices, Tiling, spread};

pub(super) struct ConvWinograd {
    isa: Isa,
    tiling: Tiling,
    weights: Matrices,
    bias: Vec<f32>,
    tail: Tail,
    exact: Exact,
    /// Tiles that are computed together, and packs of tiles of one input by itself.
    group: usize,
    group_alone: usize,
}

impl ConvWinograd {
    /// A convolution with transformed weights, output channels by input channels.
    pub(super) fn new(
        isa: Isa,
        tiling: Tiling,
        weights: Matrices,
        bias: Vec<f32>,
        tail: Tail,
        exact: Exact,
    ) -> ConvWinograd {
        ConvWinograd {
            isa,
            tiling,
            group: tiling.group(weights.columns() + weights.row_packs()),
            group_alone: tiling.group_alone(weights.columns() + weights.row_packs()),
            weights,
            bias,
            tail,
            exact,
        }
    }

    /// What happens to sums when they are stored, and whether the rest of the tail waits until those of
    /// equal windows are united: what is added differs between them.
    fn tail(&self) -> (Tail, bool) {
        match self.exact == Exact::Equals && self.tail.add {
            true => (Tail::NONE, true),
            false => (self.tail, false),
        }
    }

    /// Packs in which positions are looked at, of sixteen inputs or of one.
    fn looked_at(&self, lanes: usize) -> usize {
        self.exact.scratch(&self.tiling, lanes).div_ceil(LANES)
    }

    /// Gives positions that see nothing, or the same as others, what they have by definition.
    fn settle(&self, found: &Found<'_>, other: Option<&[f32]>, sums: &mut [f32]) {
        let finish = self.tail().0.finish;
        let len = sums.len() / self.bias.len().max(1);
        for (channel, plane) in sums.chunks_exact_mut(len.max(1)).enumerate() {
            let of_nothing = 0.0 + self.bias[channel];
            found.blank(plane, |at| {
                let other = other.map(|other| other[channel * len + at]);
                limited(finish, other.map_or(of_nothing, |other| of_nothing + other))
            });
            found.unite(plane);
        }
    }

    /// Packs of transformed input and output for so many tiles.
    fn transformed(&self, group: usize) -> [usize; 2] {
        let packs = |channels| POINTS * spread(channels, group);
        [
            packs(self.weights.columns()),
            packs(self.weights.row_packs()),
        ]
    }

    /// As [`ConvWinograd::store`], for the tiles of some packs of one input: their sums by position.
    fn store_alone(
        &self,
        channel: usize,
        packs: &Range<usize>,
        sums: &[f32],
        other: Option<&[f32]>,
        output: &mut [f32],
    ) {
        let finish = self.tail().0.finish;
        let bias = self.bias[channel];
        let pixels: usize = self.tiling.y.iter().product();
        let plane = channel * pixels..(channel + 1) * pixels;
        let other = other.map(|other| &other[plane.clone()]);
        self.tiling
            .collect(packs, sums, &mut output[plane], |at, sums| {
                let other = other.map(|other| &other[at..at + sums.len()]);
                vectorised(
                    #[inline(always)]
                    || {
                        for sum in sums.iter_mut() {
                            *sum += bias;
                        }
                        if let Some(other) = other {
                            for (sum, other) in sums.iter_mut().zip(other) {
                                *sum += other;
                            }
                        }
                        for sum in sums {
                            *sum = limited(finish, *sum);
                        }
                    },
                );
            });
    }

    /// Stores the positions of a tile that lie in the output.
    fn store(
        &self,
        channel: usize,
        tile: usize,
        sums: &[Pack; TILE * TILE],
        other: Option<&[Pack]>,
        output: &mut [Pack],
    ) {
        let finish = self.tail().0.finish;
        let [height, width] = self.tiling.y;
        let [rows, cols] = self.tiling.inside(tile);
        let bias = self.bias[channel];
        vectorised(
            #[inline(always)]
            || {
                for (row, sums) in rows.zip(sums.chunks_exact(TILE)) {
                    let at = (channel * height + row) * width + cols.start;
                    let to = &mut output[at..at + cols.len()];
                    for (i, (y, sum)) in to.iter_mut().zip(sums).enumerate() {
                        let mut sum = sum.map(|sum| sum + bias);
                        if let Some(other) = other {
                            sum = sum.zip(other[at + i], |sum, other| sum + other);
                        }
                        *y = sum.map(|sum| limited(finish, sum));
                    }
                }
            },
        );
    }
}

/// A lane for each tile.
impl Alone for ConvWinograd {
    fn scratch(&self) -> usize {
        let transformed: usize = self.transformed(self.group_alone).iter().sum();
        let tiles = self.tiling.dealt_packs() + TILE * TILE * self.group_alone;
        transformed + self.looked_at(1) + tiles
    }

    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]) {
        let pixels = |[height, width]: [usize; 2]| height * width;
        let (x_pixels, y_pixels) = (pixels(self.tiling.x), pixels(self.tiling.y));
        let (columns, rows) = (self.weights.columns(), self.weights.rows());
        let (looked_at, scratch) = scratch.split_at_mut(self.looked_at(1));
        let (dealt, scratch) = scratch.split_at_mut(self.tiling.dealt_packs());
        dealt.fill(Pack::ZERO);
        let (sums, scratch) = scratch.split_at_mut(TILE * TILE * self.group_alone);
        let (v, m) = scratch.split_at_mut(self.transformed(self.group_alone)[0]);
        let (tail, waits) = self.tail();
        let images = inputs.get(0).chunks_exact(columns * x_pixels);
        let outputs = output.chunks_exact_mut(rows * y_pixels);
        for (n, (x, y)) in images.zip(outputs).enumerate() {
            let added = |add: bool| {
                let all = rows * y_pixels;
                add.then(|| &inputs.get(1)[n * all..(n + 1) * all])
            };
            let other = added(tail.add);
            let looked_at = numbers_mut(looked_at);
            let mut look = self.exact.look(&self.tiling, columns, 1, looked_at);
            for first in (0..self.tiling.packs()).step_by(self.group_alone) {
                let packs = self.group_alone.min(self.tiling.packs() - first);
                let range = first..first + packs;
                let v_spread = spread(columns, packs);
                let rows_seen = look.rows_before((first + packs) * LANES);
                for (i, planes) in x.chunks(TOGETHER * x_pixels).enumerate() {
                    look.at(i * TOGETHER, planes, &rows_seen);
                    for (channel, plane) in (i * TOGETHER..).zip(planes.chunks_exact(x_pixels)) {
                        let v = (&mut v[channel * packs..], v_spread);
                        self.tiling
                            .transform_alone(self.isa, plane, &range, dealt, v);
                    }
                }
                let m_spread = spread(self.weights.row_packs(), packs);
                for point in 0..POINTS {
                    let (v, m) = (&v[point * v_spread..], &mut m[point * m_spread..]);
                    self.weights.forward(point, packs, v, m);
                }
                let mut own = [Pack::ZERO; TILE * TILE];
                for channel in 0..rows {
                    for p in 0..packs {
                        transform::output(self.isa, &m[channel * packs + p..], m_spread, &mut own);
                        for (to, sum) in sums[p..].iter_mut().step_by(packs).zip(&own) {
                            *to = *sum;
                        }
                    }
                    self.store_alone(channel, &range, numbers(sums), other, y);
                }
            }
            self.settle(&look.finish(), other, y);
            if let (true, Some(other)) = (waits, added(waits)) {
                finish(self.tail.finish, other, y);
            }
        }
    }
}

/// Tiles of a map up to which its weights are fetched for few positions.
const FEW_TILES: usize = 2 * LANES;

impl Kernel for ConvWinograd {
    fn scarcely_used(&self) -> usize {
        let numbers = POINTS * self.weights.rows() * self.weights.columns();
        match self.tiling.tiles() < FEW_TILES {
            true => numbers * size_of::<f32>(),
            false => 0,
        }
    }

    fn alone(&self) -> Option<&dyn Alone> {
        Some(self)
    }

    fn scratch(&self) -> usize {
        self.transformed(self.group).iter().sum::<usize>() + self.looked_at(LANES)
    }

    fn run(&self, inputs: &Inputs<'_>, scratch: &mut [Pack], output: &mut [Pack]) {
        let pixels = |[height, width]: [usize; 2]| height * width;
        let (x_pixels, y_pixels) = (pixels(self.tiling.x), pixels(self.tiling.y));
        let (columns, rows) = (self.weights.columns(), self.weights.rows());
        let (looked_at, scratch) = scratch.split_at_mut(self.looked_at(LANES));
        let (v, m) = scratch.split_at_mut(self.transformed(self.group)[0]);
        let (tail, waits) = self.tail();
        let images = inputs.get(0).chunks_exact(columns * x_pixels);
        let outputs = output.chunks_exact_mut(rows * y_pixels);
        for (n, (x, y)) in images.zip(outputs).enumerate() {
            let added = |add: bool| {
                let all = rows * y_pixels;
                add.then(|| &inputs.get(1)[n * all..(n + 1) * all])
            };
            let other = added(tail.add);
            let looked_at = numbers_mut(looked_at);
            let mut look = self.exact.look(&self.tiling, columns, LANES, looked_at);
            for first in (0..self.tiling.tiles()).step_by(self.group) {
                let tiles = self.group.min(self.tiling.tiles() - first);
                let v_spread = spread(columns, tiles);
                let rows_seen = look.rows_before(first + tiles);
                for (i, planes) in x.chunks(TOGETHER * x_pixels).enumerate() {
                    look.at(i * TOGETHER, numbers(planes), &rows_seen);
                    for (channel, plane) in (i * TOGETHER..).zip(planes.chunks_exact(x_pixels)) {
                        for t in 0..tiles {
                            let v = &mut v[channel * tiles + t..];
                            self.tiling
                                .transform(self.isa, plane, first + t, v, v_spread);
                        }
                    }
                }
                let m_spread = spread(self.weights.row_packs(), tiles);
                for point in 0..POINTS {
                    let (v, m) = (&v[point * v_spread..], &mut m[point * m_spread..]);
                    self.weights.forward(point, tiles, v, m);
                }
                let mut sums = [Pack::ZERO; TILE * TILE];
                for channel in 0..rows {
                    for t in 0..tiles {
                        transform::output(self.isa, &m[channel * tiles + t..], m_spread, &mut sums);
                        self.store(channel, first + t, &sums, other, y);
                    }
                }
            }
            self.settle(&look.finish(), other.map(numbers), numbers_mut(y));
            if let (true, Some(other)) = (waits, added(waits)) {
                finish(self.tail.finish, numbers(other), numbers_mut(y));
            }
        }
    }
}

/// A sum as it is stored.
#[inline(always)]
fn limited(finish: Finish, sum: f32) -> f32 {
    match finish {
        Finish::None => sum,
        Finish::Clip(low, high) => {
            let sum = if low > sum { low } else { sum };
            if high < sum { high } else { sum }
        }
    }
}

/// Adds to sums what waited for them, and limits them.
fn finish(finish: Finish, other: &[f32], sums: &mut [f32]) {
    vectorised(
        #[inline(always)]
        || {
            for (sum, other) in sums.iter_mut().zip(other) {
                *sum = limited(finish, *sum + other);
            }
        },
    );
}
