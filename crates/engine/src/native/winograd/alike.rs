//! What is exact by definition stays exact by tiles.
//!
//! A tile computes sixteen positions from what all of them see, and rounds. By the definition of a
//! convolution, a position that sees nothing has a sum of exactly zero, and positions that see the same
//! have the same sum: that units are dead or rare, and which of a pool's maxima is the first one, depends
//! on it. So the positions of a map are looked at, and put right once all of its sums are stored:
//!
//! * the sum of a position whose window is all zeros is zero;
//! * the sum of a position whose window equals an earlier one of the same input, bit by bit, is that one's.
//!
//! Equal windows are found by 64 bits of a hash: rows of the input are looked at just before they are transformed,
//! then come two passes over pixels, and one over a [table](Firsts). It is done where a maximum over a map follows; that windows see nothing, everywhere.
//! A map in which nothing is found costs no more than that.
//!
//! Arrays of bits lie in working memory, as floats of those bits. Lanes of inputs, or positions of one
//! input by itself, are all the same here: `lanes` numbers for each pixel.

use std::ops::Range;

use npcov_cpu::widest;

use super::Tiling;
use super::firsts::Firsts;
use crate::native::pack::LANES;
use crate::native::turn::{Matrix, turn};

/// What spreads a hash: an odd number without a pattern, and how far bits of its halves are moved.
const FACTOR: u32 = 0x9e37_79b1;
const MOVED: [u32; 2] = [15, 11];

/// Channels after which rows of pixels are asked whether more of them would make a difference.
const SOME_CHANNELS: usize = 8;

/// Channels that are looked at together: hashes are read and written once for all of them.
pub(crate) const TOGETHER: usize = 4;

/// Which positions of a map are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exact {
    /// Those that see nothing.
    Zeros,
    /// Those that see the same as others, too.
    Equals,
}

impl Exact {
    /// Numbers of working memory.
    pub(crate) fn scratch(self, tiling: &Tiling, lanes: usize) -> usize {
        let Extents { pixels, rows, y } = Extents::of(tiling, lanes);
        let positions = y / lanes;
        match self {
            Exact::Zeros => y + pixels + rows + positions + tiling.x[0],
            // A second half of pixels and of windows, what is found, and the table.
            Exact::Equals => 2 * (y + pixels + positions) + rows + Firsts::scratch(positions),
        }
    }

    /// Begins to look at an image of so many channels, of `lanes` numbers for each pixel.
    pub(crate) fn look<'a>(
        self,
        tiling: &Tiling,
        channels: usize,
        lanes: usize,
        scratch: &'a mut [f32],
    ) -> Look<'a> {
        let extents = Extents::of(tiling, lanes);
        let (nothing, rest) = scratch.split_at_mut(extents.y);
        let (blank, rest) = rest.split_at_mut(extents.y / lanes);
        let (windows, rest) = rest.split_at_mut(extents.rows);
        let (p, rest) = rest.split_at_mut(extents.pixels);
        let (q, outside) = match self {
            Exact::Zeros => (0, [0; 2]),
            Exact::Equals => (extents.pixels, nothing_seen(channels)),
        };
        let (q, rest) = rest.split_at_mut(q);
        p.fill(f32::from_bits(outside[0]));
        q.fill(f32::from_bits(outside[1]));
        Look {
            exact: self,
            tiling: *tiling,
            lanes,
            done: 0,
            outside,
            halves: [p, q],
            nothing,
            blank,
            windows,
            rest,
        }
    }
}

/// What is known of the pixels of a map so far.
pub(crate) struct Look<'a> {
    exact: Exact,
    tiling: Tiling,
    lanes: usize,
    /// Rows of pixels that were looked at.
    done: usize,
    /// The bits of a pixel of the padding.
    outside: [u32; 2],
    /// Bits of each pixel, with those of the padding: what any channel has, or both halves of a hash.
    halves: [&'a mut [f32]; 2],
    nothing: &'a mut [f32],
    blank: &'a mut [f32],
    windows: &'a mut [f32],
    rest: &'a mut [f32],
}

/// What was found for a map: where its numbers lie in working memory. Empty where there is nothing.
pub(crate) struct Found<'a> {
    /// One where a position sees nothing, else zero.
    nothing: &'a [f32],
    /// Positions that see nothing in some lane, as bits.
    blank: &'a [f32],
    /// The first position that sees the same, as bits.
    first: &'a [f32],
    /// Positions of which that is another one, the same in all lanes, as bits.
    whole: &'a [f32],
    /// Other positions of which that is another one in some lane, as bits.
    mixed: &'a [f32],
    lanes: usize,
}

impl<'a> Look<'a> {
    /// The rows of pixels that tiles before this one see, and none that were asked for before.
    pub(crate) fn rows_before(&mut self, tile: usize) -> Range<usize> {
        let end = match tile < self.tiling.tiles() {
            true => self.tiling.seen(tile - 1)[0].0.end,
            false => self.tiling.x[0],
        };
        let rows = self.done..end.max(self.done);
        self.done = rows.end;
        rows
    }

    /// Looks at some rows of a few channels of the image, from number `first` on; channels come in order.
    pub(crate) fn at(&mut self, first: usize, planes: &[f32], rows: &Range<usize>) {
        let len = self.tiling.x[1] * self.lanes;
        let padded = (self.tiling.y[1] + 2) * self.lanes;
        let plane = self.tiling.x[0] * len;
        let [p, q] = &mut self.halves;
        for row in rows.clone() {
            let at = (row + self.tiling.pads[0]) * padded + self.tiling.pads[1] * self.lanes;
            let p = &mut p[at..at + len];
            let channel = |c: usize| &planes[c * plane + row * len..][..len];
            let channels = planes.len() / plane;
            match self.exact {
                Exact::Zeros => {
                    let full = &mut self.rest[row];
                    if first == 0 {
                        *full = 0.0;
                    }
                    for c in 0..channels {
                        if *full == 0.0 {
                            let ask = (first + c) % SOME_CHANNELS == SOME_CHANNELS - 1;
                            *full = f32::from(u8::from(see(p, channel(c), ask)));
                        }
                    }
                }
                Exact::Equals => {
                    let q = &mut q[at..at + len];
                    if first == 0 {
                        p.fill(0.0);
                        q.fill(0.0);
                    }
                    match channels {
                        TOGETHER => mix_rows::<TOGETHER>([p, q], std::array::from_fn(channel)),
                        _ => (0..channels).for_each(|c| mix_rows([p, q], [channel(c)])),
                    }
                }
            }
        }
    }

    /// What was found when all channels of all rows were looked at.
    pub(crate) fn finish(self) -> Found<'a> {
        let Look {
            exact,
            tiling,
            lanes,
            outside,
            halves: [p, q],
            nothing,
            blank,
            windows,
            rest,
            ..
        } = self;
        let mut found = Found {
            nothing: &[],
            blank: &[],
            first: &[],
            whole: &[],
            mixed: &[],
            lanes,
        };
        let y = nothing.len();
        let any_nothing = match exact {
            Exact::Zeros => {
                let any = |[a, b, c]: [u32; 3]| a | b | c;
                over_windows(&tiling, lanes, p, windows, nothing, (any, any));
                mark(nothing)
            }
            Exact::Equals => {
                let (first, rest) = rest.split_at_mut(y);
                let (others, rest) = rest.split_at_mut(y / lanes);
                // Rows and columns by other numbers: else a pixel right of the middle would be as one below it.
                let (by_0, by_1) = (mix_three::<0>, mix_three::<1>);
                over_windows(&tiling, lanes, p, windows, nothing, (by_0, by_1));
                over_windows(&tiling, lanes, q, windows, first, (by_1, by_0));
                let empty = [
                    by_1([by_0([outside[0]; 3]); 3]),
                    by_0([by_1([outside[1]; 3]); 3]),
                ];
                let (p, q) = (&mut p[..y], &mut q[..y]);
                let halves = [&*nothing, &*first];
                let any = find_firsts(lanes, halves, empty, [&mut *p, &mut *q], rest);
                let any_nothing = mark_hashes(nothing, first, empty);
                if any {
                    let by_lane = Matrix {
                        rows: lanes,
                        cols: y / lanes,
                        pitch: y / lanes,
                    };
                    turn(q, by_lane, first, lanes);
                    (found.whole, found.mixed) = match lanes {
                        1 => sort::<1>(first, others),
                        _ => sort::<LANES>(first, others),
                    };
                    found.first = first;
                }
                any_nothing
            }
        };
        if any_nothing {
            found.blank = match lanes {
                1 => list::<1>(nothing, blank),
                _ => list::<LANES>(nothing, blank),
            };
            found.nothing = nothing;
        }
        found
    }
}

impl Found<'_> {
    /// Gives positions of a plane that see nothing what `of` says of a place of the plane.
    pub(crate) fn blank(&self, plane: &mut [f32], of: impl Fn(usize) -> f32) {
        for position in self.blank {
            let start = position.to_bits() as usize * self.lanes;
            for at in start..start + self.lanes {
                if self.nothing[at] != 0.0 {
                    plane[at] = of(at);
                }
            }
        }
    }

    /// Gives positions of a plane of sums the sum of the first position that sees the same.
    pub(crate) fn unite(&self, plane: &mut [f32]) {
        match self.lanes {
            1 => self.unite_packs::<1>(plane),
            _ => self.unite_packs::<LANES>(plane),
        }
    }

    fn unite_packs<const N: usize>(&self, plane: &mut [f32]) {
        let sums = plane.as_chunks_mut::<N>().0;
        let firsts = self.first.as_chunks::<N>().0;
        for position in self.whole {
            let at = position.to_bits() as usize;
            sums[at] = sums[firsts[at][0].to_bits() as usize];
        }
        for position in self.mixed {
            let at = position.to_bits() as usize;
            for (lane, first) in firsts[at].iter().enumerate() {
                sums[at][lane] = sums[first.to_bits() as usize][lane];
            }
        }
    }
}

/// Puts the first position that sees the same in the place of the second halves of hashes, lane by lane, each in
/// one stretch. Returns whether any position has another one.
fn find_firsts(
    lanes: usize,
    halves: [&[f32]; 2],
    empty: [u32; 2],
    [p, q]: [&mut [f32]; 2],
    scratch: &mut [f32],
) -> bool {
    let positions = p.len() / lanes;
    if positions == 0 {
        return false;
    }
    let by_position = Matrix {
        rows: positions,
        cols: lanes,
        pitch: lanes,
    };
    turn(halves[0], by_position, p, positions);
    turn(halves[1], by_position, q, positions);
    let mut firsts = Firsts::new(positions, scratch);
    let mut any = false;
    let each_lane = p.chunks_exact(positions).zip(q.chunks_exact_mut(positions));
    for (lane, (p, q)) in each_lane.enumerate() {
        any |= firsts.find(lane, [p, q], empty);
        q.copy_from_slice(firsts.first());
    }
    any
}

/// Puts one in the place of bits that are zero, else zero. Returns whether any are.
fn mark(bits: &mut [f32]) -> bool {
    widest(
        #[inline(always)]
        || {
            let mut any = 0;
            for bits in bits {
                let is = u32::from(bits.to_bits() == 0);
                *bits = is as f32;
                any |= is;
            }
            any != 0
        },
    )
}

/// As [`mark`], in the place of the first halves, for hashes that are `empty`.
fn mark_hashes(p: &mut [f32], q: &[f32], empty: [u32; 2]) -> bool {
    widest(
        #[inline(always)]
        || {
            let mut any = 0;
            for (p, q) in p.iter_mut().zip(q) {
                let is = u32::from((p.to_bits() ^ empty[0]) | (q.to_bits() ^ empty[1]) == 0);
                *p = is as f32;
                any |= is;
            }
            any != 0
        },
    )
}

/// The positions that see nothing in some lane, in `blank`.
fn list<'a, const N: usize>(nothing: &[f32], blank: &'a mut [f32]) -> &'a [f32] {
    let mut count = 0;
    for (position, lanes) in nothing.as_chunks::<N>().0.iter().enumerate() {
        if lanes.iter().fold(0, |any, lane| any | lane.to_bits()) != 0 {
            blank[count] = f32::from_bits(position as u32);
            count += 1;
        }
    }
    &blank[..count]
}

/// Which positions are others than their first ones, in `others`: those of one first position in all lanes,
/// and the rest.
fn sort<'a, const N: usize>(first: &[f32], others: &'a mut [f32]) -> (&'a [f32], &'a [f32]) {
    let (mut whole, mut mixed) = (0, others.len());
    let apart = |first: &[f32; N], from: u32| {
        let apart = |any: u32, first: &f32| any | (first.to_bits() ^ from);
        first.iter().fold(0, apart) != 0
    };
    for (position, first) in first.as_chunks::<N>().0.iter().enumerate() {
        let own = position as u32;
        if !apart(first, own) {
            continue;
        }
        match apart(first, first[0].to_bits()) {
            false => {
                others[whole] = f32::from_bits(own);
                whole += 1;
            }
            true => {
                mixed -= 1;
                others[mixed] = f32::from_bits(own);
            }
        }
    }
    let (whole, rest) = others.split_at(whole);
    (whole, &rest[mixed - whole.len()..])
}

/// How many numbers there are of what is known about a map.
struct Extents {
    /// All pixels, with those of the padding.
    pixels: usize,
    /// What the positions see of each row of pixels.
    rows: usize,
    /// All positions.
    y: usize,
}

impl Extents {
    fn of(tiling: &Tiling, lanes: usize) -> Extents {
        let [rows, cols] = tiling.y;
        Extents {
            pixels: (rows + 2) * (cols + 2) * lanes,
            rows: (rows + 2) * cols * lanes,
            y: rows * cols * lanes,
        }
    }
}

/// A hash with one more number: what was there is moved, so that order counts, and spread.
#[inline(always)]
fn mix<const HALF: usize>(hash: u32, bits: u32) -> u32 {
    (hash ^ bits).rotate_left(MOVED[HALF]).wrapping_mul(FACTOR)
}

/// Both halves with one more number of a pixel: the second one adds up what the first one has been. Zeros of
/// both signs are alike.
#[inline(always)]
fn mix_number([p, q]: [u32; 2], x: f32) -> [u32; 2] {
    let p = mix::<0>(p, (x + 0.0).to_bits());
    [p, q.rotate_left(MOVED[1]).wrapping_add(p)]
}

/// A hash of three, in this order.
#[inline(always)]
fn mix_three<const HALF: usize>(hashes: [u32; 3]) -> u32 {
    hashes.into_iter().fold(0, mix::<HALF>)
}

/// The two halves of a pixel whose channels are all zero.
fn nothing_seen(channels: usize) -> [u32; 2] {
    (0..channels).fold([0, 0], |seen, _| mix_number(seen, 0.0))
}

/// Adds to pixels that any channel has something; returns whether that is so for all, if asked.
fn see(pixels: &mut [f32], x: &[f32], ask: bool) -> bool {
    widest(
        #[inline(always)]
        || {
            for (seen, x) in pixels.iter_mut().zip(x) {
                *seen = f32::from_bits(seen.to_bits() | (x.to_bits() << 1));
            }
            let all = |all, seen: &f32| all & (seen.to_bits() != 0);
            ask && pixels.iter().fold(true, all)
        },
    )
}

/// Adds some channels to the hashes of pixels.
fn mix_rows<const N: usize>([p, q]: [&mut [f32]; 2], x: [&[f32]; N]) {
    let (p, rest_p) = p.as_chunks_mut::<LANES>();
    let (q, rest_q) = q.as_chunks_mut::<LANES>();
    let (x, rest_x) = (
        x.map(|x| x.as_chunks().0),
        x.map(|x| x.as_chunks::<LANES>().1),
    );
    widest(
        #[inline(always)]
        || {
            mix_packs([p, q], x);
            let (p, q) = (rest_p.as_chunks_mut::<1>().0, rest_q.as_chunks_mut().0);
            mix_packs([p, q], rest_x.map(|x| x.as_chunks().0));
        },
    );
}

/// The same for so many numbers at a time: their hashes stay in registers.
#[inline(always)]
fn mix_packs<const M: usize, const N: usize>([p, q]: [&mut [[f32; M]]; 2], x: [&[[f32; M]]; N]) {
    let x = x.map(|x| &x[..p.len()]);
    for (i, (p, q)) in p.iter_mut().zip(q).enumerate() {
        let mut halves = [p.map(f32::to_bits), q.map(f32::to_bits)];
        for x in x {
            for l in 0..M {
                [halves[0][l], halves[1][l]] = mix_number([halves[0][l], halves[1][l]], x[i][l]);
            }
        }
        (*p, *q) = (halves[0].map(f32::from_bits), halves[1].map(f32::from_bits));
    }
}

/// Puts together what each position sees: three pixels of a row, and three such rows.
#[inline(always)]
fn over_windows(
    tiling: &Tiling,
    lanes: usize,
    pixels: &[f32],
    rows: &mut [f32],
    windows: &mut [f32],
    (of_pixels, of_rows): (impl Fn([u32; 3]) -> u32, impl Fn([u32; 3]) -> u32),
) {
    let len = tiling.y[1] * lanes;
    if len == 0 {
        return;
    }
    widest(
        #[inline(always)]
        || {
            let padded = pixels.chunks_exact(len + 2 * lanes);
            for (row, pixels) in rows.chunks_exact_mut(len).zip(padded) {
                let taps = [0, 1, 2].map(|tap| &pixels[tap * lanes..][..len]);
                put_together(row, taps, &of_pixels);
            }
            for (i, windows) in windows.chunks_exact_mut(len).enumerate() {
                let taps = [0, 1, 2].map(|tap| &rows[(i + tap) * len..][..len]);
                put_together(windows, taps, &of_rows);
            }
        },
    );
}

#[inline(always)]
fn put_together(to: &mut [f32], [a, b, c]: [&[f32]; 3], three: &impl Fn([u32; 3]) -> u32) {
    for (((to, a), b), c) in to.iter_mut().zip(a).zip(b).zip(c) {
        *to = f32::from_bits(three([a, b, c].map(|bits| bits.to_bits())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use npcov_graph::op::Window;

    fn tiling(x: [usize; 2], pad: usize) -> Tiling {
        let window = Window {
            pads_begin: vec![pad; 2],
            pads_end: vec![pad; 2],
            ..Window::sized([3, 3])
        };
        let y = x.map(|extent| extent + 2 * pad - 2);
        Tiling::new(&window, &x, &y).unwrap()
    }

    /// Few different numbers, so that windows of zeros and equal ones occur.
    fn image(channels: usize, pixels: usize, lanes: usize) -> Vec<f32> {
        let number = |i: usize| {
            let (pixel, lane) = (i / lanes % pixels, i % lanes);
            match (pixel / 3 + lane) % 4 {
                0 | 1 => 0.0,
                2 => -0.0,
                _ => (pixel % 3 + lane % 2) as f32,
            }
        };
        (0..channels * pixels * lanes).map(number).collect()
    }

    /// The definition: windows are compared number by number.
    #[test]
    fn equal_windows_and_empty_ones_are_found() {
        for (extent, pad, lanes) in [([6, 9], 1, 16), ([7, 5], 0, 1), ([5, 8], 2, 1)] {
            let tiling = tiling(extent, pad);
            let (channels, pixels) = (6, extent[0] * extent[1]);
            let image = image(channels, pixels, lanes);
            let [rows, cols] = tiling.y;
            let seen = |position: usize, lane: usize| -> Vec<f32> {
                let tap = |i: usize| {
                    let (c, tap) = (i / 9, i % 9);
                    let row = (position / cols + tap / 3).wrapping_sub(pad);
                    let col = (position % cols + tap % 3).wrapping_sub(pad);
                    match row < extent[0] && col < extent[1] {
                        true => image[((c * extent[0] + row) * extent[1] + col) * lanes + lane],
                        false => 0.0,
                    }
                };
                (0..9 * channels).map(tap).collect()
            };
            for exact in [Exact::Zeros, Exact::Equals] {
                let mut scratch = vec![f32::NAN; exact.scratch(&tiling, lanes)];
                let mut look = exact.look(&tiling, channels, lanes, &mut scratch);
                for tiles in [1, 2, tiling.tiles()] {
                    let rows = look.rows_before(tiles);
                    for (i, planes) in image.chunks(TOGETHER * pixels * lanes).enumerate() {
                        look.at(i * TOGETHER, planes, &rows);
                    }
                }
                let found = look.finish();
                let sums: Vec<f32> = (0..rows * cols * lanes).map(|i| i as f32).collect();
                let mut plane = sums.clone();
                found.unite(&mut plane);
                let mut marked = vec![0.0; sums.len()];
                found.blank(&mut marked, |at| sums[at] + 1.0);
                let (mut empty, mut united) = (0, 0);
                for position in 0..rows * cols {
                    for lane in 0..lanes {
                        let at = position * lanes + lane;
                        let own = seen(position, lane);
                        let nothing = own.iter().all(|&x| x == 0.0);
                        assert_eq!(marked[at], if nothing { sums[at] + 1.0 } else { 0.0 });
                        empty += usize::from(nothing);
                        if exact == Exact::Zeros {
                            assert_eq!(plane[at], sums[at]);
                        } else if !nothing {
                            let first = (0..=position).find(|&p| seen(p, lane) == own).unwrap();
                            assert_eq!(plane[at], sums[first * lanes + lane]);
                            united += usize::from(first != position);
                        }
                    }
                }
                assert!(empty > 0 && (united > 0 || exact == Exact::Zeros));
            }
        }
    }
}
