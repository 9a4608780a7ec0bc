//! The relevance step of a convolution for one input by itself: lanes hold positions.
//!
//! What some positions see is copied together and multiplied with lists of weights, as it is with inputs
//! in lanes. Where a position sees one element, which no other one sees, a few positions go there and back in
//! one go; else the factors of the whole map are kept in between.

use npcov_cpu::{Isa, vectorised};
use npcov_graph::op::Window;

use super::by_sign;
use super::conv::{ConvRelevance, Product};
use crate::native::kernel::{ABREAST, Abreast, Alone, Inputs, Run};
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
    /// Whether each position sees one element, which no other one sees: positions go there and back in one
    /// go.
    one_go: bool,
    /// Whether some inputs abreast take less time than one after the other.
    abreast: bool,
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
        let there = Sight::new(window, x, y)?;
        let back_the_same_way = |back: &[([usize; 2], Sight)]| match back {
            [(_, back)] => back.is_pointwise() && back.positions() == there.positions(),
            _ => false,
        };
        Some(Sights {
            abreast: x.pixels().max(y.pixels()).div_ceil(LANES) <= FEW,
            one_go: there.sees_one() && back_the_same_way(&classes),
            there: Map::new(isa, there),
            any_blind: classes.len() < all,
            back: (classes.into_iter())
                .map(|(first, sight)| (first, Map::new(isa, sight)))
                .collect(),
            strides,
        })
    }

    /// The most packs of positions of so many inputs that are computed together.
    fn widest(&self, inputs: usize) -> usize {
        let maps = self.back.iter().map(|(_, map)| map).chain([&self.there]);
        let widths = maps.flat_map(|map| &map.widths[inputs - 1]);
        widths.copied().max().unwrap_or(1)
    }
}

/// Packs of a map up to which inputs are computed abreast: with more of them, few lanes are empty, and
/// weights are fetched for many positions.
const FEW: usize = 16;

/// A map whose positions are computed some packs at a time. Of some inputs, they are one row.
pub(super) struct Map {
    sight: Sight,
    /// For one input, for two and so on, packs of each group of positions.
    widths: [Vec<usize>; ABREAST],
}

/// Some positions of a row.
#[derive(Clone, Copy)]
struct Group {
    start: usize,
    count: usize,
    /// In how many packs.
    width: usize,
}

/// The positions of a group that belong to one input.
struct Part {
    input: usize,
    /// Where they begin in the map, and in the group.
    start: usize,
    offset: usize,
    count: usize,
}

impl Map {
    fn new(isa: Isa, sight: Sight) -> Map {
        let packs = |inputs: usize| ((inputs + 1) * sight.positions()).div_ceil(LANES);
        let widths = std::array::from_fn(|inputs| shares(isa, packs(inputs)));
        Map { sight, widths }
    }

    /// The groups of the positions of so many inputs.
    fn groups(&self, inputs: usize) -> impl Iterator<Item = Group> {
        let (mut start, all) = (0, inputs * self.sight.positions());
        self.widths[inputs - 1].iter().map(move |&width| {
            let count = (all - start).min(width * LANES);
            start += count;
            Group {
                start: start - count,
                count,
                width,
            }
        })
    }
}

impl Group {
    /// What belongs to each input, of which a map has so many positions.
    fn parts(self, positions: usize) -> impl Iterator<Item = Part> {
        let (mut at, end) = (self.start, self.start + self.count);
        std::iter::from_fn(move || {
            let (input, start) = (at / positions.max(1), at % positions.max(1));
            let count = (positions - start).min(end - at);
            at += count;
            (count > 0).then_some(Part {
                input,
                start,
                offset: at - count - self.start,
                count,
            })
        })
    }
}

/// What is seen of each input.
type Images<'a> = [&'a [f32]; ABREAST];

impl Product {
    /// As [`Product::run`], for positions of inputs by themselves: adds the products of all taps to the sums,
    /// the width of the group for each row. `images` has what is seen, `len` numbers for each input.
    fn run_alone(
        &self,
        sight: &Sight,
        images: &Images<'_>,
        group: Group,
        seen: &mut [Pack],
        sums: &mut [Pack],
    ) {
        let pitch = group.width * LANES;
        for (number, piece) in self.pieces.iter().enumerate() {
            if piece.taps.clone().all(|tap| !sight.sees(tap)) {
                continue;
            }
            let rows = numbers_mut(seen).chunks_exact_mut(piece.channels.len() * pitch);
            for (tap, rows) in piece.taps.clone().zip(rows) {
                if group.count < pitch {
                    rows.fill(0.0);
                }
                for part in group.parts(sight.positions()) {
                    let rows = &mut rows[part.offset..];
                    let x = (images[part.input], piece.channels.clone());
                    let positions = part.start..part.start + part.count;
                    sight.look(tap, x, positions, &mut Seen { rows, pitch });
                }
            }
            self.weights.run(number, group.width, seen, sums);
        }
    }
}

impl ConvRelevance {
    /// Numbers of the factors that are kept.
    fn kept_alone(&self, sights: &Sights) -> usize {
        match sights.one_go {
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

    /// Packs of what is seen, of sums, of sums on the way back, of what arrived, for so many inputs; and of
    /// factors that are kept and the parts of each.
    fn lens(&self, sights: &Sights, count: usize) -> [usize; 6] {
        let (units, inputs) = (self.forward.weights.rows(), self.backward.weights.rows());
        let rows = [CHUNK, units + CHUNK, inputs, self.y.channels];
        let [seen, sums, back, arrived] = rows.map(|rows| rows * sights.widest(count));
        let own = [self.kept_alone(sights), self.parts_alone()];
        let [kept, parts] = own.map(|len| len.div_ceil(LANES));
        [seen, sums, back, arrived, kept, parts]
    }

    fn alone_scratch(&self, count: usize) -> usize {
        let Some(sights) = &self.alone else { return 0 };
        let [seen, sums, back, arrived, kept, parts] = self.lens(sights, count);
        seen + sums + back + arrived + count * (kept + parts)
    }

    /// Puts factors of some positions in the place of the sums.
    fn factors_of(
        &self,
        sights: &Sights,
        (images, relevances): (&Images<'_>, &Images<'_>),
        group: Group,
        (seen, sums, arrived): (&mut [Pack], &mut [Pack], &mut [Pack]),
    ) {
        let Group { count, width, .. } = group;
        for (sums, bias) in sums.chunks_exact_mut(width).zip(&self.bias) {
            sums.fill(Pack::splat(*bias));
        }
        self.forward
            .run_alone(&sights.there.sight, images, group, seen, sums);
        let arrived = &mut arrived[..self.y.channels * width];
        if count < width * LANES {
            arrived.fill(Pack::ZERO);
        }
        for part in group.parts(self.y.pixels()) {
            let relevance = relevances[part.input].chunks_exact(self.y.pixels());
            for (to, from) in arrived.chunks_exact_mut(width).zip(relevance) {
                let to = &mut numbers_mut(to)[part.offset..][..part.count];
                to.copy_from_slice(&from[part.start..][..part.count]);
            }
        }
        let units = self.forward.weights.rows();
        self.factors
            .apply(&mut sums[..units * width], arrived, width);
    }

    /// Multiplies what came back to some positions of a class, all of one input, by the input.
    fn share_alone(
        &self,
        sums: &[Pack],
        (x, output): (&[f32], &mut [f32]),
        (class, strides): (&([usize; 2], Map), [usize; 2]),
        (part, width): (&Part, usize),
    ) {
        let &Part {
            start,
            offset,
            count,
            ..
        } = part;
        let (first, Map { sight, .. }) = class;
        let (row_width, pixels) = (self.x.extent[2], self.x.pixels());
        let planes = x.chunks_exact(pixels).zip(output.chunks_exact_mut(pixels));
        let sums = sums.chunks_exact(self.parts * width);
        vectorised(
            #[inline(always)]
            || {
                for ((x, y), sums) in planes.zip(sums) {
                    let (p, n) = sums.split_at(width);
                    let p = &numbers(p)[offset..][..count];
                    let n = match self.parts {
                        1 => p,
                        _ => &numbers(n)[offset..][..count],
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

impl ConvRelevance {
    /// The step for a few inputs: their positions are one row, map by map.
    fn run_maps(&self, runs: &mut [Run<'_>], scratch: &mut [Pack]) {
        let Some(sights) = &self.alone else { return };
        let inputs = runs.len();
        let [
            seen_len,
            sums_len,
            back_len,
            arrived_len,
            kept_len,
            parts_len,
        ] = self.lens(sights, inputs);
        let (seen, rest) = scratch.split_at_mut(seen_len);
        let (sums, rest) = rest.split_at_mut(sums_len);
        let (back, rest) = rest.split_at_mut(back_len);
        let (arrived, rest) = rest.split_at_mut(arrived_len);
        let (kept, parts) = rest.split_at_mut(inputs * kept_len);
        let (x_len, y_len) = (
            self.x.channels * self.x.pixels(),
            self.y.channels * self.y.pixels(),
        );
        for n in 0..self.x.batch {
            let (mut xs, mut relevances): (Images<'_>, Images<'_>) =
                ([&[]; ABREAST], [&[]; ABREAST]);
            for ((x, relevance), run) in xs.iter_mut().zip(&mut relevances).zip(&*runs) {
                *x = &run.inputs.get(0)[n * x_len..][..x_len];
                *relevance = &run.inputs.get(1)[n * y_len..][..y_len];
            }
            let mut images = xs;
            if self.parts == 2 {
                let parts = parts.chunks_exact_mut(parts_len.max(1));
                for (image, parts) in images[..inputs].iter_mut().zip(parts) {
                    split(image, self.x.pixels(), numbers_mut(parts));
                    *image = &numbers(parts)[..self.parts_alone()];
                }
            }
            let mut outputs: [&mut [f32]; ABREAST] = std::array::from_fn(|_| &mut [][..]);
            for (output, run) in outputs.iter_mut().zip(&mut *runs) {
                *output = &mut run.output[n * x_len..][..x_len];
            }
            if sights.any_blind {
                for (output, x) in outputs.iter_mut().zip(xs) {
                    vectorised(
                        #[inline(always)]
                        || {
                            for (y, x) in output.iter_mut().zip(x) {
                                *y = x * 0.0;
                            }
                        },
                    );
                }
            }
            let mut share = |back: &[Pack], class: &([usize; 2], Map), strides, group: Group| {
                for part in group.parts(class.1.sight.positions()) {
                    let planes = (xs[part.input], &mut *outputs[part.input]);
                    self.share_alone(back, planes, (class, strides), (&part, group.width));
                }
            };
            if sights.one_go {
                for group in sights.there.groups(inputs) {
                    let buffers = (&mut *seen, &mut *sums, &mut *arrived);
                    self.factors_of(sights, (&images, &relevances), group, buffers);
                    let back = &mut back[..self.backward.weights.rows() * group.width];
                    back.fill(Pack::ZERO);
                    for (number, piece) in self.backward.pieces.iter().enumerate() {
                        let from = &sums[piece.channels.start * group.width..];
                        self.backward.weights.run(number, group.width, from, back);
                    }
                    share(back, &sights.back[0], sights.strides, group);
                }
                continue;
            }
            for group in sights.there.groups(inputs) {
                let buffers = (&mut *seen, &mut *sums, &mut *arrived);
                self.factors_of(sights, (&images, &relevances), group, buffers);
                for part in group.parts(self.y.pixels()) {
                    let kept = numbers_mut(&mut kept[part.input * kept_len..][..kept_len]);
                    let planes = kept.chunks_exact_mut(self.y.pixels());
                    for (plane, sums) in planes.zip(sums.chunks_exact(group.width)) {
                        let from = &numbers(sums)[part.offset..][..part.count];
                        plane[part.start..][..part.count].copy_from_slice(from);
                    }
                }
            }
            let mut factors: Images<'_> = [&[]; ABREAST];
            for (factors, kept) in factors.iter_mut().zip(kept.chunks_exact(kept_len.max(1))) {
                *factors = &numbers(kept)[..self.kept_alone(sights)];
            }
            for class in &sights.back {
                for group in class.1.groups(inputs) {
                    let back = &mut back[..self.backward.weights.rows() * group.width];
                    back.fill(Pack::ZERO);
                    self.backward
                        .run_alone(&class.1.sight, &factors, group, seen, back);
                    share(back, class, sights.strides, group);
                }
            }
        }
    }
}

impl Alone for ConvRelevance {
    fn scratch(&self) -> usize {
        self.alone_scratch(1)
    }

    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]) {
        let inputs = *inputs;
        self.run_maps(&mut [Run { inputs, output }], scratch);
    }

    fn abreast(&self) -> Option<&dyn Abreast> {
        let pays = self.alone.as_ref().is_some_and(|sights| sights.abreast);
        pays.then_some(self)
    }
}

impl Abreast for ConvRelevance {
    fn scratch(&self, count: usize) -> usize {
        (1..=count)
            .map(|count| self.alone_scratch(count))
            .max()
            .unwrap_or(0)
    }

    fn run(&self, runs: &mut [Run<'_>], scratch: &mut [Pack]) {
        self.run_maps(runs, scratch);
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
