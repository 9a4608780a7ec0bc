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
//! over a table. It is done where a maximum over a map follows; that windows see nothing, everywhere.
//!
//! Arrays of bits lie in working memory, as floats of those bits. Lanes of inputs, or positions of one
//! input by itself, are all the same here: `lanes` numbers for each pixel.

use npcov_cpu::widest;

use super::Tiling;
use crate::native::pack::LANES;
use crate::native::turn::{Matrix, turn};

/// Multipliers of the two halves of a hash: odd, and without a pattern.
const FACTORS: [u32; 2] = [0x9e37_79b1, 0x85eb_ca77];

/// A place in the table that is free.
const FREE: u32 = u32::MAX;

/// Which positions of a map are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exact {
    /// Those that see nothing.
    Zeros,
    /// Those that see the same as others, too.
    Equals,
}

/// What was found for a map: where its numbers lie in working memory.
pub(crate) struct Found<'a> {
    /// One where a position sees nothing, else zero.
    pub(crate) nothing: &'a [f32],
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
        match self {
            Exact::Zeros => y + pixels + rows,
            // Two halves of pixels and of rows of windows, what is found, and the table.
            Exact::Equals => 2 * y + 2 * pixels + rows + y / lanes + 3 * table_len(tiling),
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
        match self {
            Exact::Zeros => {
                let (seen, rest) = rest.split_at_mut(extents.pixels);
                let rows = &mut rest[..extents.rows];
                let any = |seen: u32, x: f32| seen | (x.to_bits() << 1);
                over_pixels(tiling, lanes, image, [&mut *seen], [0], |[seen], x| {
                    [any(seen, x)]
                });
                let any = |[a, b, c]: [u32; 3]| a | b | c;
                over_windows(tiling, lanes, seen, rows, nothing, (any, any));
                for bits in &mut *nothing {
                    *bits = if bits.to_bits() == 0 { 1.0 } else { 0.0 };
                }
                Found {
                    nothing,
                    first: &[],
                    whole: &[],
                    mixed: &[],
                    lanes,
                }
            }
            Exact::Equals => {
                let (first, rest) = rest.split_at_mut(y);
                let (pixels, rest) = rest.split_at_mut(2 * extents.pixels);
                let (rows, rest) = rest.split_at_mut(extents.rows);
                let (others, table) = rest.split_at_mut(y / lanes);
                let (p, q) = pixels.split_at_mut(extents.pixels);
                let zero = nothing_seen(image.len() / (tiling.x[0] * tiling.x[1] * lanes).max(1));
                over_pixels(tiling, lanes, image, [&mut *p, &mut *q], zero, mix_number);
                // Rows and columns by other multipliers: else a pixel right of the middle would be as one below it.
                let (by_0, by_1) = (mix_three::<0>, mix_three::<1>);
                over_windows(tiling, lanes, p, rows, nothing, (by_0, by_1));
                over_windows(tiling, lanes, q, rows, first, (by_1, by_0));
                let empty = [by_1([by_0([zero[0]; 3]); 3]), by_0([by_1([zero[1]; 3]); 3])];
                let table = &mut table[..3 * table_len(tiling)];
                // Lane by lane, each in one stretch.
                let (p, q) = (&mut p[..y], &mut q[..y]);
                let positions = y / lanes;
                let by_position = Matrix {
                    rows: positions,
                    cols: lanes,
                    pitch: lanes,
                };
                turn(nothing, by_position, p, positions);
                turn(first, by_position, q, positions);
                let own = p
                    .chunks_exact_mut(positions.max(1))
                    .zip(q.chunks_exact_mut(positions.max(1)));
                for (p, q) in own {
                    firsts([p, q], empty, table);
                }
                let by_lane = Matrix {
                    rows: lanes,
                    cols: positions,
                    pitch: positions,
                };
                turn(p, by_lane, nothing, lanes);
                turn(q, by_lane, first, lanes);
                let (whole, mixed) = sort(first, lanes, others);
                Found {
                    nothing,
                    first,
                    whole,
                    mixed,
                    lanes,
                }
            }
        }
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

/// Which positions are others than their first ones, in `others`: those of one first position in all lanes,
/// and the rest.
fn sort<'a>(first: &[f32], lanes: usize, others: &'a mut [f32]) -> (&'a [f32], &'a [f32]) {
    let (mut whole, mut mixed) = (0, others.len());
    for (position, first) in first.chunks_exact(lanes).enumerate() {
        let own = f32::from_bits(position as u32);
        if first.iter().all(|other| other.to_bits() == own.to_bits()) {
            continue;
        }
        if first
            .iter()
            .all(|other| other.to_bits() == first[0].to_bits())
        {
            others[whole] = own;
            whole += 1;
        } else {
            mixed -= 1;
            others[mixed] = own;
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

/// Places of the table: a power of two, and at least twice the positions of a lane.
fn table_len(tiling: &Tiling) -> usize {
    (2 * tiling.y[0] * tiling.y[1]).next_power_of_two()
}

/// A hash with one more number: what was there is moved, so that order counts, and spread.
#[inline(always)]
fn mix<const HALF: usize>(hash: u32, bits: u32) -> u32 {
    (hash ^ bits).rotate_left(15).wrapping_mul(FACTORS[HALF])
}

/// Both halves with one more number of a pixel. Zeros of both signs are alike.
#[inline(always)]
fn mix_number([p, q]: [u32; 2], x: f32) -> [u32; 2] {
    let bits = (x + 0.0).to_bits();
    [mix::<0>(p, bits), mix::<1>(q, bits)]
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

/// Puts together the channels of each pixel, as bits; a pixel of the padding is `outside`.
#[inline(always)]
fn over_pixels<const N: usize>(
    tiling: &Tiling,
    lanes: usize,
    image: &[f32],
    mut pixels: [&mut [f32]; N],
    outside: [u32; N],
    with: impl Fn([u32; N], f32) -> [u32; N] + Copy,
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
                        64.. => some::<64, N>(planes.clone(), from, &mut pixels, to, with),
                        16.. => some::<16, N>(planes.clone(), from, &mut pixels, to, with),
                        _ => some::<1, N>(planes.clone(), from, &mut pixels, to, with),
                    };
                }
            }
        },
    );
}

/// The same for `SOME` numbers of each plane, which is returned.
#[inline(always)]
fn some<'a, const SOME: usize, const N: usize>(
    planes: impl Iterator<Item = &'a [f32]>,
    from: usize,
    pixels: &mut [&mut [f32]; N],
    to: usize,
    with: impl Fn([u32; N], f32) -> [u32; N],
) -> usize {
    let mut bits = [[0; SOME]; N];
    for plane in planes {
        for (i, x) in plane[from..from + SOME].iter().enumerate() {
            let with = with(std::array::from_fn(|n| bits[n][i]), *x);
            for n in 0..N {
                bits[n][i] = with[n];
            }
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

/// Puts in the place of the two halves of each position's hash, of one lane: whether it sees nothing, and
/// the first position that sees the same.
fn firsts([p, q]: [&mut [f32]; 2], empty: [u32; 2], table: &mut [f32]) {
    let len = table.len() / 3;
    let (places, rest) = table.split_at_mut(len);
    let (left, right) = rest.split_at_mut(len);
    places.fill(f32::from_bits(FREE));
    for (position, (p, q)) in p.iter_mut().zip(q).enumerate() {
        let hash = [p.to_bits(), q.to_bits()];
        let own = f32::from_bits(position as u32);
        if hash == empty {
            (*p, *q) = (1.0, own);
            continue;
        }
        let mut place = (hash[0] ^ (hash[0] >> 15)) as usize & (len - 1);
        *p = 0.0;
        *q = loop {
            let known = places[place];
            if known.to_bits() == FREE {
                places[place] = own;
                left[place] = f32::from_bits(hash[0]);
                right[place] = f32::from_bits(hash[1]);
                break own;
            }
            if [left[place].to_bits(), right[place].to_bits()] == hash {
                break known;
            }
            place = (place + 1) & (len - 1);
        };
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
                        assert_eq!(found.nothing[at] == 1.0, nothing);
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
