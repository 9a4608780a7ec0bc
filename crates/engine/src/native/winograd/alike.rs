//! What is exact by definition stays exact by tiles.
//!
//! A tile computes sixteen positions from what all of them see, and rounds. By the definition of a
//! convolution, a position that sees nothing has a sum of exactly zero, and positions that see the same
//! have the same sum: that units are dead or rare, and which of a pool's maxima is the first one, depends
//! on it. So the positions of a map are looked at before its sums are stored:
//!
//! * the sum of a position whose window is all zeros is zero;
//! * the sum of a position whose window equals an earlier one of the same input, bit by bit, is that one's.
//!
//! Equal windows are found by 64 bits of a hash, in one pass over the input, two over its pixels, and one
//! over a [table](Firsts). It is done where a maximum over a map follows; that windows see nothing, everywhere.
//! A map in which nothing is found costs no more than that.
//!
//! Arrays of bits lie in working memory, as floats of those bits. Lanes of inputs, or positions of one
//! input by itself, are all the same here: `lanes` numbers for each pixel.

use npcov_cpu::widest;

use super::Tiling;
use super::firsts::Firsts;
use crate::native::pack::LANES;
use crate::native::turn::{Matrix, turn};

/// What spreads a hash: an odd number without a pattern, and how far bits of its halves are moved.
const FACTOR: u32 = 0x9e37_79b1;
const MOVED: [u32; 2] = [15, 11];

/// Channels after which pixels are asked whether more of them would make a difference.
const SOME_CHANNELS: usize = 8;

/// Which positions of a map are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exact {
    /// Those that see nothing.
    Zeros,
    /// Those that see the same as others, too.
    Equals,
}

/// What was found for a map: where its numbers lie in working memory. Empty where there is nothing.
pub(crate) struct Found<'a> {
    /// One where a position sees nothing, else zero.
    nothing: &'a [f32],
    /// Not zero for tiles with such a position.
    tiles: &'a [f32],
    /// The first position that sees the same, as bits.
    first: &'a [f32],
    /// Positions of which that is another one, the same in all lanes, as bits.
    whole: &'a [f32],
    /// Other positions of which that is another one in some lane, as bits.
    mixed: &'a [f32],
    lanes: usize,
}

impl Exact {
    /// Numbers of working memory.
    pub(crate) fn scratch(self, tiling: &Tiling, lanes: usize) -> usize {
        let Extents { pixels, rows, y } = Extents::of(tiling, lanes);
        let positions = y / lanes;
        let found = y + tiling.tiles() + pixels + rows;
        match self {
            Exact::Zeros => found,
            // A second half of pixels and of windows, what is found, and the table.
            Exact::Equals => found + y + pixels + positions + Firsts::scratch(positions),
        }
    }

    /// Looks at all positions of an image of `lanes` numbers for each pixel.
    pub(crate) fn find<'a>(
        self,
        tiling: &Tiling,
        image: &[f32],
        lanes: usize,
        scratch: &'a mut [f32],
    ) -> Found<'a> {
        let extents = Extents::of(tiling, lanes);
        let y = extents.y;
        let (nothing, rest) = scratch.split_at_mut(y);
        let (tiles, rest) = rest.split_at_mut(tiling.tiles());
        let (pixels, rest) = rest.split_at_mut(extents.pixels);
        let (rows, rest) = rest.split_at_mut(extents.rows);
        let mut found = Found {
            nothing: &[],
            tiles: &[],
            first: &[],
            whole: &[],
            mixed: &[],
            lanes,
        };
        let any_nothing = match self {
            Exact::Zeros => {
                let any = |[seen]: [u32; 1], x: f32| [seen | (x.to_bits() << 1)];
                let sees = |[seen]: [u32; 1]| seen != 0;
                over_pixels(tiling, lanes, image, [&mut *pixels], [0], (any, sees));
                let any = |[a, b, c]: [u32; 3]| a | b | c;
                over_windows(tiling, lanes, pixels, rows, nothing, (any, any));
                mark(nothing, |_, bits| bits == 0)
            }
            Exact::Equals => {
                let (first, rest) = rest.split_at_mut(y);
                let (q, rest) = rest.split_at_mut(extents.pixels);
                let p = pixels;
                let zero = nothing_seen(image.len() / (tiling.x[0] * tiling.x[1] * lanes).max(1));
                let never = |_: [u32; 2]| false;
                let halves = [&mut *p, &mut *q];
                over_pixels(tiling, lanes, image, halves, zero, (mix_number, never));
                // Rows and columns by other numbers: else a pixel right of the middle would be as one below it.
                let (by_0, by_1) = (mix_three::<0>, mix_three::<1>);
                over_windows(tiling, lanes, p, rows, nothing, (by_0, by_1));
                over_windows(tiling, lanes, q, rows, first, (by_1, by_0));
                let empty = [by_1([by_0([zero[0]; 3]); 3]), by_0([by_1([zero[1]; 3]); 3])];
                let (p, q) = (&mut p[..y], &mut q[..y]);
                let (others, rest) = rest.split_at_mut(y / lanes);
                let halves = [&*nothing, &*first];
                let any = find_firsts(lanes, halves, empty, [&mut *p, &mut *q], rest);
                let any_nothing = mark(nothing, |i, bits| {
                    (bits ^ empty[0]) | (first[i].to_bits() ^ empty[1]) == 0
                });
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
            mark_tiles(tiling, nothing, lanes, tiles);
            (found.nothing, found.tiles) = (nothing, tiles);
        }
        found
    }
}

impl<'a> Found<'a> {
    /// For a tile, one for positions of the map that see nothing and zero for others, unless there is none.
    pub(crate) fn nothing_in(&self, tile: usize) -> Option<&'a [f32]> {
        let any = self.tiles.get(tile).is_some_and(|any| *any != 0.0);
        any.then_some(self.nothing)
    }

    /// The same for all of the map.
    pub(crate) fn nothing(&self) -> Option<&'a [f32]> {
        (!self.nothing.is_empty()).then_some(self.nothing)
    }
}

impl Found<'_> {
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

/// Puts one in the place of bits that are `nothing` at their place, else zero. Returns whether any is.
#[inline(always)]
fn mark(bits: &mut [f32], nothing: impl Fn(usize, u32) -> bool) -> bool {
    widest(
        #[inline(always)]
        || {
            let mut any = 0;
            for (i, bits) in bits.iter_mut().enumerate() {
                let is = u32::from(nothing(i, bits.to_bits()));
                *bits = is as f32;
                any |= is;
            }
            any != 0
        },
    )
}

/// Marks tiles in which a position sees nothing.
fn mark_tiles(tiling: &Tiling, nothing: &[f32], lanes: usize, tiles: &mut [f32]) {
    for (tile, any) in tiles.iter_mut().enumerate() {
        let [rows, cols] = tiling.inside(tile);
        let bits = rows
            .flat_map(|row| {
                &nothing[(row * tiling.y[1] + cols.start) * lanes..][..cols.len() * lanes]
            })
            .fold(0, |any, nothing| any | nothing.to_bits());
        *any = f32::from_bits(bits);
    }
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

/// Puts together the channels of each pixel, as bits, until those of a few pixels are all `enough`; a pixel of
/// the padding is `outside`.
#[inline(always)]
fn over_pixels<const N: usize>(
    tiling: &Tiling,
    lanes: usize,
    image: &[f32],
    mut pixels: [&mut [f32]; N],
    outside: [u32; N],
    (with, enough): (
        impl Fn([u32; N], f32) -> [u32; N] + Copy,
        impl Fn([u32; N]) -> bool + Copy,
    ),
) {
    let [height, width] = tiling.x.map(|extent| extent.max(1));
    let padded = (tiling.y[1] + 2) * lanes;
    widest(
        #[inline(always)]
        || {
            for (pixels, outside) in pixels.iter_mut().zip(outside) {
                pixels.fill(f32::from_bits(outside));
            }
            let planes = image.chunks_exact(height * width * lanes);
            for row in 0..height {
                let (from, len) = (row * width * lanes, width * lanes);
                let to = (row + tiling.pads[0]) * padded + tiling.pads[1] * lanes;
                let mut at = 0;
                // Some numbers at a time, whose bits stay in registers for all channels.
                while at < len {
                    let (from, to) = (from + at, to + at);
                    at += match len - at {
                        64.. => {
                            some::<64, N>(planes.clone(), from, &mut pixels, to, (with, enough))
                        }
                        16.. => {
                            some::<16, N>(planes.clone(), from, &mut pixels, to, (with, enough))
                        }
                        _ => some::<1, N>(planes.clone(), from, &mut pixels, to, (with, enough)),
                    };
                }
            }
        },
    );
}

/// The same for `SOME` numbers of each plane, which is returned.
#[inline(always)]
fn some<'a, const SOME: usize, const N: usize>(
    mut planes: impl ExactSizeIterator<Item = &'a [f32]>,
    from: usize,
    pixels: &mut [&mut [f32]; N],
    to: usize,
    (with, enough): (
        impl Fn([u32; N], f32) -> [u32; N],
        impl Fn([u32; N]) -> bool,
    ),
) -> usize {
    let mut bits = [[0; SOME]; N];
    while planes.len() > 0 {
        for plane in planes.by_ref().take(SOME_CHANNELS) {
            for (i, x) in plane[from..from + SOME].iter().enumerate() {
                let with = with(std::array::from_fn(|n| bits[n][i]), *x);
                for n in 0..N {
                    bits[n][i] = with[n];
                }
            }
        }
        let enough = |i: usize| enough(std::array::from_fn(|n| bits[n][i]));
        if (0..SOME).fold(true, |all, i| all & enough(i)) {
            break;
        }
    }
    for (pixels, bits) in pixels.iter_mut().zip(bits) {
        for (pixel, bits) in pixels[to..to + SOME].iter_mut().zip(bits) {
            *pixel = f32::from_bits(bits);
        }
    }
    SOME
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
            let (channels, pixels) = (3, extent[0] * extent[1]);
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
                let found = exact.find(&tiling, &image, lanes, &mut scratch);
                let sums: Vec<f32> = (0..rows * cols * lanes).map(|i| i as f32).collect();
                let mut plane = sums.clone();
                found.unite(&mut plane);
                let (mut empty, mut united) = (0, 0);
                for position in 0..rows * cols {
                    for lane in 0..lanes {
                        let at = position * lanes + lane;
                        let own = seen(position, lane);
                        let nothing = own.iter().all(|&x| x == 0.0);
                        let marked = found.nothing().map_or(0.0, |nothing| nothing[at]);
                        assert_eq!(marked == 1.0, nothing);
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
