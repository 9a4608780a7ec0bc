//! Convolution of 3x3 taps by tiles: see [`winograd`](crate::native::winograd).

use std::ops::Range;

use npcov_cpu::{Isa, vectorised};

use crate::native::kernel::{ABREAST, Abreast, Alone, Inputs, Kernel, Run, Tail};
use crate::native::pack::{LANES, Pack, numbers, numbers_mut};
use crate::native::tile::Finish;
use crate::native::winograd::alike::{Exact, Found, Look, TOGETHER};
use crate::native::winograd::transform::{self, POINTS, TILE};
use crate::native::winograd::{Matrices, Tiling, spread};

pub(super) struct ConvWinograd {
    isa: Isa,
    tiling: Tiling,
    weights: Matrices,
    bias: Vec<f32>,
    tail: Tail,
    exact: Exact,
    /// Tiles that are computed together.
    group: usize,
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
                finish.of(other.map_or(of_nothing, |other| of_nothing + other))
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

    /// As [`ConvWinograd::store`], for some tiles of one input: their sums by position.
    fn store_alone(
        &self,
        channel: usize,
        tiles: &Range<usize>,
        sums: (&[f32], usize),
        other: Option<&[f32]>,
        output: &mut [f32],
    ) {
        let finish = self.tail().0.finish;
        let bias = self.bias[channel];
        let pixels: usize = self.tiling.y.iter().product();
        let plane = channel * pixels..(channel + 1) * pixels;
        let other = other.map(|other| &other[plane.clone()]);
        self.tiling
            .collect(tiles, sums, &mut output[plane], |at, sums| {
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
                            *sum = finish.of(*sum);
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
                        *y = sum.map(|sum| finish.of(sum));
                    }
                }
            },
        );
    }
}

impl ConvWinograd {
    /// Packs of tiles of so many inputs, and how many of them are computed together.
    fn packs_of(&self, inputs: usize) -> [usize; 2] {
        let packs = self.weights.columns() + self.weights.row_packs();
        self.tiling.groups_alone(inputs, packs)
    }

    fn scratch_alone(&self, inputs: usize) -> usize {
        let [_, group] = self.packs_of(inputs);
        let transformed: usize = self.transformed(group).iter().sum();
        let own = self.tiling.dealt_packs(inputs) + inputs * self.looked_at(1);
        transformed + TILE * TILE * group + own
    }

    /// Computes a few inputs, a lane for each tile: their tiles are one row, map by map.
    fn run_maps(&self, runs: &mut [Run<'_>], scratch: &mut [Pack]) {
        let inputs = runs.len();
        let [all, group] = self.packs_of(inputs);
        let pixels = |[height, width]: [usize; 2]| height * width;
        let (x_pixels, y_pixels) = (pixels(self.tiling.x), pixels(self.tiling.y));
        let (columns, rows) = (self.weights.columns(), self.weights.rows());
        let (image, y_image) = (columns * x_pixels, rows * y_pixels);
        let looked_len = self.looked_at(1);
        let (looked_at, scratch) = scratch.split_at_mut(inputs * looked_len);
        let (dealt, scratch) = scratch.split_at_mut(self.tiling.dealt_packs(inputs));
        dealt.fill(Pack::ZERO);
        let (sums, scratch) = scratch.split_at_mut(TILE * TILE * group);
        let (v, m) = scratch.split_at_mut(self.transformed(group)[0]);
        let (tail, waits) = self.tail();
        let batch = runs
            .first()
            .map_or(0, |run| run.output.len() / y_image.max(1));
        for n in 0..batch {
            let mut xs = [&[][..]; ABREAST];
            let mut others = [None; ABREAST];
            let mut ys: [&mut [f32]; ABREAST] = std::array::from_fn(|_| &mut [][..]);
            for (i, Run { inputs, output }) in runs.iter_mut().enumerate() {
                xs[i] = &inputs.get(0)[n * image..][..image];
                others[i] = self
                    .tail
                    .add
                    .then(|| &inputs.get(1)[n * y_image..][..y_image]);
                ys[i] = &mut output[n * y_image..][..y_image];
            }
            let other = |input: usize| others[input].filter(|_| tail.add);
            let mut looked_at = looked_at.chunks_exact_mut(looked_len.max(1));
            let mut looks: [Option<Look<'_>>; ABREAST] = std::array::from_fn(|_| {
                let own = numbers_mut(looked_at.next()?);
                Some(self.exact.look(&self.tiling, columns, 1, own))
            });
            for first in (0..all).step_by(group) {
                let packs = group.min(all - first);
                let range = first..first + packs;
                let parts = || self.tiling.parts(&range, inputs);
                let mut rows_seen: [Range<usize>; ABREAST] = std::array::from_fn(|_| 0..0);
                for (input, tiles, _) in parts() {
                    if let Some(look) = &mut looks[input] {
                        rows_seen[input] = look.rows_before(tiles.end);
                    }
                }
                let v_spread = spread(columns, packs);
                for from in (0..columns).step_by(TOGETHER) {
                    let channels = from..(from + TOGETHER).min(columns);
                    for ((look, x), rows) in looks.iter_mut().flatten().zip(xs).zip(&rows_seen) {
                        let planes = channels.start * x_pixels..channels.end * x_pixels;
                        look.at(from, &x[planes], rows);
                    }
                    for channel in channels {
                        let plane = |input: usize| &xs[input][channel * x_pixels..][..x_pixels];
                        let v = (&mut v[channel * packs..], v_spread);
                        self.tiling
                            .transform_alone(self.isa, (inputs, &plane), &range, dealt, v);
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
                    for (input, tiles, offset) in parts() {
                        let sums = (&numbers(sums)[offset..], packs * LANES);
                        self.store_alone(channel, &tiles, sums, other(input), ys[input]);
                    }
                }
            }
            for (input, look) in looks.into_iter().flatten().enumerate() {
                self.settle(&look.finish(), other(input), ys[input]);
                if let (true, Some(other)) = (waits, others[input]) {
                    finish(self.tail.finish, other, ys[input]);
                }
            }
        }
    }

    /// Whether a map leaves many lanes empty, or its weights are fetched for few packs.
    fn is_small(&self) -> bool {
        self.tiling.packs() <= FEW_PACKS
    }
}

impl Alone for ConvWinograd {
    fn scratch(&self) -> usize {
        self.scratch_alone(1)
    }

    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]) {
        let inputs = *inputs;
        self.run_maps(&mut [Run { inputs, output }], scratch);
    }

    fn abreast(&self) -> Option<&dyn Abreast> {
        self.is_small().then_some(self)
    }
}

impl Abreast for ConvWinograd {
    fn scratch(&self, count: usize) -> usize {
        self.scratch_alone(count)
    }

    fn run(&self, runs: &mut [Run<'_>], scratch: &mut [Pack]) {
        self.run_maps(runs, scratch);
    }
}

/// Packs of a map's tiles up to which its weights are fetched for few positions.
const FEW_PACKS: usize = 2;

impl Kernel for ConvWinograd {
    fn scarcely_used(&self) -> usize {
        let numbers = POINTS * self.weights.rows() * self.weights.columns();
        match self.is_small() {
            true => numbers * size_of::<f32>() / ABREAST,
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

/// Adds to sums what waited for them, and limits them.
fn finish(finish: Finish, other: &[f32], sums: &mut [f32]) {
    vectorised(
        #[inline(always)]
        || {
            for (sum, other) in sums.iter_mut().zip(other) {
                *sum = finish.of(*sum + other);
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::plan::Place;
    use crate::native::winograd;
    use npcov_graph::op::Window;

    const CHANNELS: [usize; 2] = [5, 9];

    fn kernel(isa: Isa, extent: [usize; 2], exact: Exact, add: bool) -> ConvWinograd {
        let window = Window {
            pads_begin: vec![1, 1],
            pads_end: vec![1, 1],
            ..Window::sized([3, 3])
        };
        let tiling = Tiling::new(&window, &extent, &extent).unwrap();
        let [inputs, outputs] = CHANNELS;
        let weight = |i: usize| (i * 37 % 23) as f32 / 11.0 - 1.0;
        let taps = |m: usize, c: usize| std::array::from_fn(|tap| weight(m * 71 + c * 9 + tap));
        let weights = winograd::matrices(isa, outputs, inputs, taps);
        let bias = (0..outputs).map(weight).collect();
        let finish = Finish::Clip(0.0, f32::INFINITY);
        ConvWinograd::new(isa, tiling, weights, bias, Tail { add, finish }, exact)
    }

    /// Bit by bit; some windows are empty, and some are equal to others.
    #[test]
    fn inputs_abreast_have_the_sums_of_each_by_itself() {
        for (extent, exact, add) in [
            ([7, 7], Exact::Zeros, false),
            ([7, 7], Exact::Equals, true),
            ([14, 14], Exact::Zeros, true),
            ([5, 18], Exact::Equals, false),
            ([21, 30], Exact::Zeros, true),
        ] {
            let pixels: usize = extent.iter().product();
            // Two images of an input, what is added to their sums, and the sums.
            let [from, to] = CHANNELS.map(|channels| 2 * channels * pixels);
            let whole = |len: usize| len.next_multiple_of(LANES);
            let starts = [0, whole(from), whole(from) + whole(to)];
            let place = |i: usize| Place {
                start: starts[i],
                len: if i == 0 { from } else { to },
            };
            let at = [place(0), place(1)];
            let memory = |input: usize| {
                let number = |i: usize| match i % pixels / (3 + input) % 3 {
                    0 => 0.0,
                    _ => (i % 3 + i / pixels) as f32 - 2.0,
                };
                let all: Vec<f32> = (0..starts[2] + to).map(number).collect();
                all
            };
            for isa in Isa::available() {
                let kernel = kernel(isa, extent, exact, add);
                let alone = |mut values: Vec<f32>| {
                    let mut scratch = vec![Pack::splat(f32::NAN); kernel.scratch_alone(1)];
                    let (inputs, output) = Inputs::split(&mut values, &at, place(2));
                    Alone::run(&kernel, &inputs, &mut scratch, output);
                    output.iter().map(|y| y.to_bits()).collect::<Vec<_>>()
                };
                for count in 1..=ABREAST {
                    let mut values: Vec<_> = (0..count).map(memory).collect();
                    let mut runs: Vec<Run<'_>> = (values.iter_mut())
                        .map(|values| {
                            let (inputs, output) = Inputs::split(values, &at, place(2));
                            Run { inputs, output }
                        })
                        .collect();
                    let mut scratch = vec![Pack::splat(f32::NAN); kernel.scratch_alone(count)];
                    Abreast::run(&kernel, &mut runs, &mut scratch);
                    for (input, Run { output, .. }) in runs.iter().enumerate() {
                        let bits: Vec<u32> = output.iter().map(|y| y.to_bits()).collect();
                        assert_eq!(bits, alone(memory(input)), "{extent:?} {isa:?} {count}");
                        assert!(output.iter().any(|&y| y > 0.0));
                    }
                }
            }
        }
    }
}
