//! The relevance step of a convolution for one input by itself: lanes hold positions.
//!
//! What some positions see is copied together and multiplied with lists of weights, as it is with inputs
//! in lanes. Where a position sees one element, its own, a few positions go there and back in one go;
//! else the factors of the whole map are kept in between.

use npcov_cpu::{Isa, vectorised};
use npcov_graph::op::Window;

use super::by_sign;
use super::conv::{ConvRelevance, Product};
use crate::native::kernel::{Alone, Inputs};
use crate::native::op::conv::Volume;
use crate::native::op::sight::{Seen, Sight};
use crate::native::pack::{LANES, Pack, numbers, numbers_mut};
use crate::native::sparse::{CHUNK, shares};

/// What positions see, both ways.
pub(super) struct Sights {
    there: Map,
    /// For each class of positions of the input that are a stride apart and are seen at all, where the first
    /// one is, and where they are seen from.
    back: Vec<([usize; 2], Map)>,
    /// Whether there are positions that are not seen.
    any_blind: bool,
    strides: [usize; 2],
}

impl Sights {
    /// Those of a window over three axes, of which the first has an extent of one.
    pub(super) fn new(isa: Isa, window: &Window, x: &Volume, y: &Volume) -> Option<Sights> {
        let strides = [window.strides[1], window.strides[2]];
        let classes = (0..strides[0] * strides[1]).map(|class| {
            let first = [class / strides[1], class % strides[1]];
            Some((first, Sight::back(window, x, y, first)?))
        });
        let mut classes: Vec<([usize; 2], Sight)> = classes.collect::<Option<_>>()?;
        let all = classes.len();
        classes.retain(|(_, sight)| !sight.is_blind());
        Some(Sights {
            there: Map::new(isa, Sight::new(window, x, y)?),
            any_blind: classes.len() < all,
            back: (classes.into_iter())
                .map(|(first, sight)| (first, Map::new(isa, sight)))
                .collect(),
            strides,
        })
    }

    /// The most packs of positions that are computed together.
    fn widest(&self) -> usize {
        let maps = self.back.iter().map(|(_, map)| map).chain([&self.there]);
        maps.flat_map(|map| &map.widths).copied().max().unwrap_or(1)
    }
}

/// A map whose positions are computed some packs at a time.
pub(super) struct Map {
    sight: Sight,
    /// Packs of each group of positions.
    widths: Vec<usize>,
}

impl Map {
    fn new(isa: Isa, sight: Sight) -> Map {
        let widths = shares(isa, sight.positions().div_ceil(LANES));
        Map { sight, widths }
    }

    /// Where each group begins, how many positions it has, and in how many packs.
    fn groups(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let mut start = 0;
        self.widths.iter().map(move |&width| {
            let count = (self.sight.positions() - start).min(width * LANES);
            start += count;
            (start - count, count, width)
        })
    }
}

impl Product {
    /// As [`Product::run`], for positions of one input: adds the products of all taps to the sums,
    /// `width` packs for each row.
    fn run_alone(
        &self,
        sight: &Sight,
        image: &[f32],
        (start, count, width): (usize, usize, usize),
        seen: &mut [Pack],
        sums: &mut [Pack],
    ) {
        let pitch = width * LANES;
        for (number, piece) in self.pieces.iter().enumerate() {
            if piece.taps.clone().all(|tap| !sight.sees(tap)) {
                continue;
            }
            let rows = numbers_mut(seen).chunks_exact_mut(piece.channels.len() * pitch);
            for (tap, rows) in piece.taps.clone().zip(rows) {
                if count < pitch {
                    rows.fill(0.0);
                }
                let mut seen = Seen { rows, pitch };
                let x = (image, piece.channels.clone());
                sight.look(tap, x, start..start + count, &mut seen);
            }
            self.weights.run(number, width, seen, sums);
        }
    }
}

impl ConvRelevance {
    /// Numbers of the factors that are kept.
    fn kept_alone(&self, sights: &Sights) -> usize {
        match sights.there.sight.is_pointwise() {
            true => 0,
            false => self.forward.weights.rows() * self.y.pixels(),
        }
    }

    /// Numbers of the parts of the input.
    fn parts_alone(&self) -> usize {
        match self.parts {
            1 => 0,
            _ => 2 * self.x.channels * self.x.pixels(),
        }
    }

    /// Packs of what is seen, of sums, of sums on the way back, of what arrived.
    fn lens(&self, sights: &Sights) -> [usize; 4] {
        let (units, inputs) = (self.forward.weights.rows(), self.backward.weights.rows());
        [CHUNK, units + CHUNK, inputs, self.y.channels].map(|rows| rows * sights.widest())
    }

    /// Puts factors of some positions in the place of the sums.
    fn factors_of(
        &self,
        sights: &Sights,
        image: &[f32],
        relevance: &[f32],
        group: (usize, usize, usize),
        (seen, sums, arrived): (&mut [Pack], &mut [Pack], &mut [Pack]),
    ) {
        let (start, count, width) = group;
        for (sums, bias) in sums.chunks_exact_mut(width).zip(&self.bias) {
            sums.fill(Pack::splat(*bias));
        }
        self.forward
            .run_alone(&sights.there.sight, image, group, seen, sums);
        let arrived = &mut arrived[..self.y.channels * width];
        if count < width * LANES {
            arrived.fill(Pack::ZERO);
        }
        let relevance = relevance.chunks_exact(self.y.pixels());
        for (to, from) in arrived.chunks_exact_mut(width).zip(relevance) {
            numbers_mut(to)[..count].copy_from_slice(&from[start..start + count]);
        }
        let units = self.forward.weights.rows();
        self.factors
            .apply(&mut sums[..units * width], arrived, width);
    }

    /// Multiplies what came back to some positions of a class by the input.
    fn share_alone(
        &self,
        sums: &[Pack],
        (x, output): (&[f32], &mut [f32]),
        (class, strides): (&([usize; 2], Map), [usize; 2]),
        (start, count, width): (usize, usize, usize),
    ) {
        let (first, Map { sight, .. }) = class;
        let (row_width, pixels) = (self.x.extent[2], self.x.pixels());
        let planes = x.chunks_exact(pixels).zip(output.chunks_exact_mut(pixels));
        let sums = sums.chunks_exact(self.parts * width);
        vectorised(
            #[inline(always)]
            || {
                for ((x, y), sums) in planes.zip(sums) {
                    let (p, n) = sums.split_at(width);
                    let p = &numbers(p)[..count];
                    let n = match self.parts {
                        1 => p,
                        _ => &numbers(n)[..count],
                    };
                    let mut done = 0;
                    while done < count {
                        let [row, col] = sight.position(start + done);
                        let len = (sight.width() - col).min(count - done);
                        let at =
                            (first[0] + row * strides[0]) * row_width + first[1] + col * strides[1];
                        let sums = p[done..done + len].iter().zip(&n[done..done + len]);
                        if strides[1] == 1 {
                            let (x, y) = (&x[at..at + len], &mut y[at..at + len]);
                            for ((y, x), (p, n)) in y.iter_mut().zip(x).zip(sums) {
                                *y = x * by_sign(*x, *p, *n);
                            }
                        } else {
                            let x = x[at..].iter().step_by(strides[1]);
                            let y = y[at..].iter_mut().step_by(strides[1]);
                            for ((y, x), (p, n)) in y.zip(x).zip(sums) {
                                *y = x * by_sign(*x, *p, *n);
                            }
                        }
                        done += len;
                    }
                }
            },
        );
    }
}

impl Alone for ConvRelevance {
    fn scratch(&self) -> usize {
        let Some(sights) = &self.alone else { return 0 };
        let numbers = [self.kept_alone(sights), self.parts_alone()].map(|len| len.div_ceil(LANES));
        self.lens(sights).iter().sum::<usize>() + numbers[0] + numbers[1]
    }

    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]) {
        let Some(sights) = &self.alone else { return };
        let [seen_len, sums_len, back_len, arrived_len] = self.lens(sights);
        let (seen, rest) = scratch.split_at_mut(seen_len);
        let (sums, rest) = rest.split_at_mut(sums_len);
        let (back, rest) = rest.split_at_mut(back_len);
        let (arrived, rest) = rest.split_at_mut(arrived_len);
        let (kept, parts) = rest.split_at_mut(self.kept_alone(sights).div_ceil(LANES));
        let (x_len, y_len) = (
            self.x.channels * self.x.pixels(),
            self.y.channels * self.y.pixels(),
        );
        let images = inputs.get(0).chunks_exact(x_len);
        let relevances = inputs.get(1).chunks_exact(y_len);
        for ((x, relevance), output) in images.zip(relevances).zip(output.chunks_exact_mut(x_len)) {
            let image = match self.parts {
                1 => x,
                _ => {
                    split(x, self.x.pixels(), numbers_mut(parts));
                    &numbers(parts)[..self.parts_alone()]
                }
            };
            if sights.there.sight.is_pointwise() {
                for group in sights.there.groups() {
                    let (_, _, width) = group;
                    self.factors_of(sights, image, relevance, group, (seen, sums, arrived));
                    let back = &mut back[..self.backward.weights.rows() * width];
                    back.fill(Pack::ZERO);
                    for (number, piece) in self.backward.pieces.iter().enumerate() {
                        let from = &sums[piece.channels.start * width..];
                        self.backward.weights.run(number, width, from, back);
                    }
                    self.share_alone(back, (x, output), (&sights.back[0], [1, 1]), group);
                }
                continue;
            }
            let kept = &mut numbers_mut(kept)[..self.kept_alone(sights)];
            for group in sights.there.groups() {
                let (start, count, width) = group;
                self.factors_of(sights, image, relevance, group, (seen, sums, arrived));
                let planes = kept.chunks_exact_mut(self.y.pixels());
                for (plane, sums) in planes.zip(sums.chunks_exact(width)) {
                    plane[start..start + count].copy_from_slice(&numbers(sums)[..count]);
                }
            }
            if sights.any_blind {
                vectorised(
                    #[inline(always)]
                    || {
                        for (y, x) in output.iter_mut().zip(x) {
                            *y = x * 0.0;
                        }
                    },
                );
            }
            for class in &sights.back {
                for group in class.1.groups() {
                    let back = &mut back[..self.backward.weights.rows() * group.2];
                    back.fill(Pack::ZERO);
                    self.backward
                        .run_alone(&class.1.sight, kept, group, seen, back);
                    self.share_alone(back, (x, output), (class, sights.strides), group);
                }
            }
        }
    }
}

/// The positive and the negative part of each channel, one after the other.
fn split(x: &[f32], pixels: usize, parts: &mut [f32]) {
    vectorised(
        #[inline(always)]
        || {
            let channels = x.chunks_exact(pixels);
            for (x, parts) in channels.zip(parts.chunks_exact_mut(2 * pixels)) {
                let (positive, negative) = parts.split_at_mut(pixels);
                for ((x, p), n) in x.iter().zip(positive).zip(negative) {
                    *p = if *x > 0.0 { *x } else { 0.0 };
                    *n = if *x < 0.0 { *x } else { 0.0 };
                }
            }
        },
    );
}
