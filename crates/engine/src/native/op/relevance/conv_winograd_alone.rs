//! The relevance step of a 3x3 convolution by tiles, for one input by itself: a lane for each tile.

use std::ops::Range;

use npcov_cpu::{Arithmetic, vectorised};

use super::conv_winograd::{ConvRelevanceWinograd, POSITIONS};
use crate::native::kernel::{ABREAST, Abreast, Alone, Inputs, Run};
use crate::native::pack::{LANES, Pack, numbers, numbers_mut};
use crate::native::winograd::spread;
use crate::native::winograd::transform::{self, POINTS, TILE};

/// What a step works on besides the inputs and the relevances.
struct Work<'a> {
    /// Of each input, the sum of all channels of each pixel.
    totals: &'a mut [f32],
    /// Of each input, what units that are computed product by product send back; cleared when the first one
    /// does.
    singles: &'a mut [f32],
    any_single: [bool; ABREAST],
    /// One where a unit of a position is computed product by product, by unit, position and pack.
    small: &'a mut [Pack],
    /// A channel of all inputs, dealt out to tiles.
    dealt: &'a mut [Pack],
    /// What arrived at the tiles of a group, and what came back to them.
    arrived: &'a mut [Pack],
    back: &'a mut [Pack],
    /// What the inputs of each tile of a group add up to.
    scales: &'a mut [Pack],
}

/// A map of each input.
struct Maps<'a> {
    count: usize,
    x: [&'a [f32]; ABREAST],
    relevance: [&'a [f32]; ABREAST],
    output: [&'a mut [f32]; ABREAST],
}

impl ConvRelevanceWinograd {
    /// Packs of tiles of so many inputs, and how many of them are computed together.
    fn packs_of(&self, inputs: usize) -> [usize; 2] {
        let packs = self.matrices.column_packs() + self.matrices.row_packs();
        self.tiling.groups_alone(inputs, packs)
    }

    fn scratch_alone(&self, inputs: usize) -> usize {
        let [_, group] = self.packs_of(inputs);
        let transformed: usize = self.transformed(group).iter().sum();
        let numbers = [self.pixels()[0], self.image()].map(|len| (inputs * len).div_ceil(LANES));
        let positions = (self.largest.len() + 1) * POSITIONS + POINTS + 1;
        transformed + numbers[0] + numbers[1] + self.tiling.dealt_packs(inputs) + positions * group
    }

    /// The step for a few inputs: their tiles are one row, map by map.
    fn run_maps(&self, runs: &mut [Run<'_>], scratch: &mut [Pack]) {
        let inputs = runs.len();
        let [all, group] = self.packs_of(inputs);
        let [x_pixels, y_pixels] = self.pixels();
        let (image, y_image) = (self.image(), self.largest.len() * y_pixels);
        let transformed = self.transformed(group);
        let (v, rest) = scratch.split_at_mut(transformed[0]);
        let (m, rest) = rest.split_at_mut(transformed[1]);
        let (totals, rest) = rest.split_at_mut((inputs * x_pixels).div_ceil(LANES));
        let (singles, rest) = rest.split_at_mut((inputs * image).div_ceil(LANES));
        let (dealt, rest) = rest.split_at_mut(self.tiling.dealt_packs(inputs));
        dealt.fill(Pack::ZERO);
        let (arrived, rest) = rest.split_at_mut(POSITIONS * group);
        let (back, rest) = rest.split_at_mut(POINTS * group);
        let (scales, small) = rest.split_at_mut(group);
        let mut work = Work {
            totals: &mut numbers_mut(totals)[..inputs * x_pixels],
            singles: &mut numbers_mut(singles)[..inputs * image],
            any_single: [false; ABREAST],
            small,
            dealt,
            arrived,
            back,
            scales,
        };
        let batch = runs
            .first()
            .map_or(0, |run| run.output.len() / image.max(1));
        for n in 0..batch {
            let mut maps = Maps {
                count: inputs,
                x: [&[]; ABREAST],
                relevance: [&[]; ABREAST],
                output: std::array::from_fn(|_| &mut [][..]),
            };
            for (i, Run { inputs, output }) in runs.iter_mut().enumerate() {
                maps.x[i] = &inputs.get(0)[n * image..][..image];
                maps.relevance[i] = &inputs.get(1)[n * y_image..][..y_image];
                maps.output[i] = &mut output[n * image..][..image];
            }
            work.any_single = [false; ABREAST];
            for (x, totals) in maps
                .x
                .iter()
                .zip(work.totals.chunks_exact_mut(x_pixels.max(1)))
            {
                add_up(x, totals);
            }
            for output in &mut maps.output {
                output.fill(0.0);
            }
            for first in (0..all).step_by(group) {
                let packs = group.min(all - first);
                self.packs((first, packs), &mut maps, &mut work, (v, m));
            }
            let singles = work.singles.chunks_exact(image.max(1)).zip(work.any_single);
            for ((output, x), (singles, any)) in maps.output.iter_mut().zip(maps.x).zip(singles) {
                vectorised(
                    #[inline(always)]
                    || match any {
                        true => {
                            for ((y, x), s) in output.iter_mut().zip(x).zip(singles) {
                                *y = x * (*y + s);
                            }
                        }
                        false => {
                            for (y, x) in output.iter_mut().zip(x) {
                                *y = x * (*y + 0.0);
                            }
                        }
                    },
                );
            }
        }
    }
}

impl Alone for ConvRelevanceWinograd {
    fn scratch(&self) -> usize {
        self.scratch_alone(1)
    }

    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]) {
        let inputs = *inputs;
        self.run_maps(&mut [Run { inputs, output }], scratch);
    }

    /// Where a map leaves lanes empty, or its matrices are fetched for one pack.
    fn abreast(&self) -> Option<&dyn Abreast> {
        (self.tiling.packs() == 1).then_some(self)
    }
}

impl Abreast for ConvRelevanceWinograd {
    fn scratch(&self, count: usize) -> usize {
        self.scratch_alone(count)
    }

    fn run(&self, runs: &mut [Run<'_>], scratch: &mut [Pack]) {
        self.run_maps(runs, scratch);
    }
}

/// The sum of all channels of each pixel, without signs.
fn add_up(x: &[f32], totals: &mut [f32]) {
    vectorised(
        #[inline(always)]
        || {
            totals.fill(0.0);
            for plane in x.chunks_exact(totals.len()) {
                for (total, x) in totals.iter_mut().zip(plane) {
                    *total += x.abs();
                }
            }
        },
    );
}

impl ConvRelevanceWinograd {
    /// The step for the tiles of some packs.
    fn packs(
        &self,
        (first, packs): (usize, usize),
        maps: &mut Maps<'_>,
        work: &mut Work<'_>,
        (v, m): (&mut [Pack], &mut [Pack]),
    ) {
        let [pixels, y_pixels] = self.pixels();
        let sums = self.factors.sums;
        let v_spread = spread(self.matrices.column_packs(), packs);
        let m_spread = spread(self.matrices.row_packs(), packs);
        let (inputs, pitch) = (maps.count, packs * LANES);
        let parts = |packs: Range<usize>| self.tiling.parts(&packs, inputs);
        let range = first..first + packs;
        for channel in 0..self.matrices.columns() {
            let plane = |input: usize| &maps.x[input][channel * pixels..][..pixels];
            let v = (&mut v[channel * packs..], v_spread);
            self.tiling
                .transform_alone(self.isa, (inputs, &plane), &range, work.dealt, v);
        }
        for point in 0..POINTS {
            let (v, m) = (&v[point * v_spread..], &mut m[point * m_spread..]);
            self.matrices.forward(point, packs, v, m);
        }
        for (pack, scale) in range.clone().zip(&mut *work.scales) {
            *scale = self.scale_alone(work.totals, (pack, inputs));
        }
        let mut own = [Pack::ZERO; 2 * POSITIONS];
        let mut any = false;
        for (unit, bias) in self.bias.chunks_exact(sums).enumerate() {
            let arrived = numbers_mut(&mut work.arrived[..POSITIONS * packs]);
            arrived.fill(0.0);
            for (input, tiles, offset) in parts(range.clone()) {
                let plane = &maps.relevance[input][unit * y_pixels..][..y_pixels];
                let arrived = (&mut arrived[offset..], pitch);
                self.tiling.distribute(&tiles, plane, arrived);
            }
            for p in 0..packs {
                let own = &mut own[..sums * POSITIONS];
                for (s, (own, bias)) in own.as_chunks_mut().0.iter_mut().zip(bias).enumerate() {
                    let m = &m[(unit * sums + s) * packs + p..];
                    transform::output(self.isa, m, m_spread, own);
                    if *bias != 0.0 {
                        for sum in own {
                            *sum = sum.map(|sum| sum + bias);
                        }
                    }
                }
                any |= self.factors_alone(unit, (p, packs), own, work);
                for (s, own) in own.as_chunks().0.iter().enumerate() {
                    let m = &mut m[(unit * sums + s) * packs + p..];
                    transform::output_adjoint(self.isa, own, m, m_spread);
                }
            }
        }
        if any {
            for p in 0..packs {
                self.singles((first, p, packs), maps, work);
            }
        }
        for point in 0..POINTS {
            let (v, m) = (&mut v[point * v_spread..], &m[point * m_spread..]);
            self.matrices.transposed(point, packs, m, v);
        }
        let mut points = [Pack::ZERO; POINTS];
        for channel in 0..self.matrices.columns() {
            for p in 0..packs {
                let v = &v[channel * packs + p..];
                transform::input_adjoint(self.isa, v, v_spread, &mut points);
                for (to, point) in work.back[p..].iter_mut().step_by(packs).zip(&points) {
                    *to = *point;
                }
            }
            for (input, tiles, offset) in parts(range.clone()) {
                let plane = &mut maps.output[input][channel * pixels..][..pixels];
                let back = (&numbers(work.back)[offset..], pitch);
                self.tiling.add_back(&tiles, back, plane);
            }
        }
    }

    /// Puts factors in the place of the sums of one channel in pack `p` of so many. Says whether some are to
    /// be computed product by product; `work` has them.
    fn factors_alone(
        &self,
        unit: usize,
        (p, packs): (usize, usize),
        sums: &mut [Pack],
        work: &mut Work<'_>,
    ) -> bool {
        let mut arrived = [Pack::ZERO; POSITIONS];
        for (arrived, from) in arrived
            .iter_mut()
            .zip(work.arrived[p..].iter().step_by(packs))
        {
            *arrived = *from;
        }
        let large = work.scales[p].map(|s| s * self.largest[unit]);
        let small = &mut work.small[(unit * packs + p) * POSITIONS..][..POSITIONS];
        let mut any = Pack::ZERO;
        vectorised(
            #[inline(always)]
            || {
                for (position, r) in arrived.iter_mut().enumerate() {
                    let is = self.is_small(sums, position, r, &large);
                    small[position] = is;
                    any = any.zip(is, |any, is| any + is);
                    *r = r.zip(is, |r, is| if is == 0.0 { r } else { 0.0 });
                }
            },
        );
        self.factors.apply(sums, &arrived, POSITIONS);
        any != Pack::ZERO
    }

    /// Units that are small for their tiles, product by product, in the order of tiles, units and
    /// positions.
    fn singles(
        &self,
        (first, p, packs): (usize, usize, usize),
        maps: &Maps<'_>,
        work: &mut Work<'_>,
    ) {
        let [x_pixels, y_pixels] = self.pixels();
        let (channels, sums) = (self.matrices.columns(), self.factors.sums);
        for (lane, (input, tile)) in self.in_pack(first + p, maps.count) {
            let (x, relevance) = (maps.x[input], maps.relevance[input]);
            let [rows, cols] = self.tiling.inside(tile);
            for (unit, bias) in self.bias.chunks_exact(sums).enumerate() {
                for position in 0..POSITIONS {
                    if work.small[(unit * packs + p) * POSITIONS + position].0[lane] == 0.0 {
                        continue;
                    }
                    let at = [rows.start + position / TILE, cols.start + position % TILE];
                    let [(rows, top), (cols, left)] = self.tiling.window(at);
                    // The weights of each tap, and where it sees the first channel.
                    let taps = || {
                        let (cols, width) = (cols.clone(), self.tiling.x[1]);
                        rows.clone().enumerate().flat_map(move |(i, row)| {
                            cols.clone()
                                .enumerate()
                                .map(move |(j, col)| ((top + i) * 3 + left + j, row * width + col))
                        })
                    };
                    let weights =
                        |tap: usize| &self.weights[(unit * 9 + tap) * channels..][..channels];
                    let mut own = [Pack::ZERO; 2];
                    for (sum, bias) in own.iter_mut().zip(bias) {
                        *sum = Pack::splat(*bias);
                    }
                    let split = self.factors.split;
                    let is_fused = self.isa.arithmetic() == Arithmetic::Fused;
                    vectorised(
                        #[inline(always)]
                        || {
                            for (tap, at) in taps() {
                                let seen = x[at..].iter().step_by(x_pixels);
                                for (&w, &x) in weights(tap).iter().zip(seen) {
                                    let sum = &mut own[usize::from(split && w < 0.0)].0[0];
                                    *sum = add_product(is_fused, w, x, *sum);
                                }
                            }
                        },
                    );
                    let image = self.image();
                    let singles = &mut work.singles[input * image..][..image];
                    if !std::mem::replace(&mut work.any_single[input], true) {
                        singles.fill(0.0);
                    }
                    let r = relevance[unit * y_pixels + at[0] * self.tiling.y[1] + at[1]];
                    self.factors.apply(&mut own[..sums], &[Pack::splat(r)], 1);
                    own[sums..].fill(Pack::ZERO);
                    vectorised(
                        #[inline(always)]
                        || {
                            for (tap, at) in taps() {
                                let back = singles[at..].iter_mut().step_by(x_pixels);
                                for (&w, y) in weights(tap).iter().zip(back) {
                                    let factor = own[usize::from(split && w < 0.0)].0[0];
                                    *y = add_product(is_fused, w, factor, *y);
                                }
                            }
                        },
                    );
                }
            }
        }
    }

    /// Input and tile of each lane of a pack.
    fn in_pack(
        &self,
        pack: usize,
        inputs: usize,
    ) -> impl Iterator<Item = (usize, (usize, usize))> + use<> {
        let parts = self.tiling.parts(&(pack..pack + 1), inputs);
        let tiles = parts.flat_map(|(input, tiles, _)| tiles.map(move |tile| (input, tile)));
        tiles.enumerate()
    }

    /// The largest total of the pixels that each tile sees.
    fn scale_alone(&self, totals: &[f32], (pack, inputs): (usize, usize)) -> Pack {
        let pixels = self.pixels()[0];
        let mut scale = Pack::ZERO;
        for (lane, (input, tile)) in self.in_pack(pack, inputs) {
            let totals = &totals[input * pixels..][..pixels];
            let [(rows, _), (cols, _)] = self.tiling.seen(tile);
            for row in rows {
                for total in &totals[row * self.tiling.x[1]..][cols.clone()] {
                    scale.0[lane] = scale.0[lane].max(*total);
                }
            }
        }
        scale
    }
}

/// `w * x + sum`, rounded as vectors round it.
#[inline(always)]
fn add_product(is_fused: bool, w: f32, x: f32, sum: f32) -> f32 {
    match is_fused {
        true => w.mul_add(x, sum),
        false => w * x + sum,
    }
}
