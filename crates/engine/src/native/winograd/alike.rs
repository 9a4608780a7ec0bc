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
//! Equal windows are found by 64 bits of a hash, in one pass over the input, nine over its pixels, and one
//! over a table. It is done where a maximum over a map follows; that windows see nothing, everywhere.
//!
//! Arrays of bits lie in working memory, as floats of those bits. Lanes of inputs, or positions of one
//! input by itself, are all the same here: `lanes` numbers for each pixel.

use npcov_cpu::widest;

use super::Tiling;
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
    /// Positions of which that is another one in some lane, as bits.
    others: &'a [f32],
    lanes: usize,
}

impl Exact {
    /// Numbers of working memory.
    pub(crate) fn scratch(self, tiling: &Tiling, lanes: usize) -> usize {
        let [x, y] = [tiling.x, tiling.y].map(|[height, width]| height * width * lanes);
        match self {
            Exact::Zeros => x + y,
            // Two halves for pixels and windows, what is found, and the table.
            Exact::Equals => 2 * x.max(y) + 4 * y + y / lanes + 3 * table_len(tiling),
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
        let [x, y] = [tiling.x, tiling.y].map(|[height, width]| height * width * lanes);
        let (nothing, rest) = scratch.split_at_mut(y);
        match self {
            Exact::Zeros => {
                let seen = &mut rest[..x];
                any_bits(image, seen);
                over_windows(tiling, lanes, [seen], [nothing], [0], |bits, [seen]| {
                    [bits[0] | seen]
                });
                for bits in &mut *nothing {
                    *bits = if bits.to_bits() == 0 { 1.0 } else { 0.0 };
                }
                Found {
                    nothing,
                    first: &[],
                    others: &[],
                    lanes,
                }
            }
            Exact::Equals => {
                let (first, rest) = rest.split_at_mut(y);
                let (pixels, rest) = rest.split_at_mut(2 * x.max(y));
                let (windows, rest) = rest.split_at_mut(2 * y);
                let (others, table) = rest.split_at_mut(y / lanes);
                let zero = hashes(image, &mut pixels[..2 * x]);
                let (p, q) = pixels[..2 * x].split_at_mut(x);
                let (v, w) = windows.split_at_mut(y);
                over_windows(tiling, lanes, [p, q], [v, w], zero, |hash, seen| {
                    [mix::<0>(hash[0], seen[0]), mix::<1>(hash[1], seen[1])]
                });
                let mut empty = [0, 0];
                for _ in 0..9 {
                    empty = [mix::<0>(empty[0], zero[0]), mix::<1>(empty[1], zero[1])];
                }
                let table = &mut table[..3 * table_len(tiling)];
                // Lane by lane, each in one stretch.
                let (p, q) = pixels[..2 * y].split_at_mut(y);
                let positions = y / lanes;
                let by_position = Matrix {
                    rows: positions,
                    cols: lanes,
                    pitch: lanes,
                };
                turn(v, by_position, p, positions);
                turn(w, by_position, q, positions);
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
                let mut count = 0;
                for (position, first) in first.chunks_exact(lanes).enumerate() {
                    if first
                        .iter()
                        .any(|first| first.to_bits() as usize != position)
                    {
                        others[count] = f32::from_bits(position as u32);
                        count += 1;
                    }
                }
                Found {
                    nothing,
                    first,
                    others: &others[..count],
                    lanes,
                }
            }
        }
    }
}

impl Found<'_> {
    /// Gives positions of a plane of sums the sum of the first position that sees the same.
    pub(crate) fn unite(&self, plane: &mut [f32]) {
        for position in self.others {
            let at = position.to_bits() as usize * self.lanes;
            for (lane, first) in self.first[at..at + self.lanes].iter().enumerate() {
                plane[at + lane] = plane[first.to_bits() as usize * self.lanes + lane];
            }
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

/// For each pixel, bits of which some are set unless all its channels are zero, of whatever sign.
fn any_bits(image: &[f32], seen: &mut [f32]) {
    widest(
        #[inline(always)]
        || {
            seen.fill(0.0);
            for plane in image.chunks_exact(seen.len()) {
                for (seen, x) in seen.iter_mut().zip(plane) {
                    *seen = f32::from_bits(seen.to_bits() | (x.to_bits() << 1));
                }
            }
        },
    );
}

/// Two halves of a hash of the channels of each pixel, and that of a pixel of zeros.
fn hashes(image: &[f32], pixels: &mut [f32]) -> [u32; 2] {
    let mut zero = [0, 0];
    widest(
        #[inline(always)]
        || {
            pixels.fill(0.0);
            let (p, q) = pixels.split_at_mut(pixels.len() / 2);
            for plane in image.chunks_exact(p.len()) {
                for ((p, q), x) in p.iter_mut().zip(&mut *q).zip(plane) {
                    // Zeros of both signs are alike.
                    let bits = (x + 0.0).to_bits();
                    *p = f32::from_bits(mix::<0>(p.to_bits(), bits));
                    *q = f32::from_bits(mix::<1>(q.to_bits(), bits));
                }
                zero = [mix::<0>(zero[0], 0), mix::<1>(zero[1], 0)];
            }
        },
    );
    zero
}

/// Combines what each position sees, tap by tap; in the padding that is `outside`.
#[inline(always)]
fn over_windows<const N: usize>(
    tiling: &Tiling,
    lanes: usize,
    pixels: [&mut [f32]; N],
    mut windows: [&mut [f32]; N],
    outside: [u32; N],
    combine: impl Fn([u32; N], [u32; N]) -> [u32; N],
) {
    let ([height, width], [rows, cols]) = (tiling.x, tiling.y);
    for window in &mut windows {
        window.fill(0.0);
    }
    let mut put = |at: usize, seen: [u32; N]| {
        let bits = combine(std::array::from_fn(|n| windows[n][at].to_bits()), seen);
        for (window, bits) in windows.iter_mut().zip(bits) {
            window[at] = f32::from_bits(bits);
        }
    };
    widest(
        #[inline(always)]
        || {
            for row in 0..rows {
                for tap in 0..9 {
                    let from = (row + tap / 3).checked_sub(tiling.pads[0]);
                    let from = from.filter(|&from| from < height);
                    // The columns that see something in the image.
                    let low = tiling.pads[1].saturating_sub(tap % 3).min(cols);
                    let high = (width + tiling.pads[1]).saturating_sub(tap % 3).min(cols);
                    let (low, high) = match from {
                        Some(_) => (low, high.max(low)),
                        None => (cols, cols),
                    };
                    let start = row * cols * lanes;
                    for i in (0..low * lanes).chain(high * lanes..cols * lanes) {
                        put(start + i, outside);
                    }
                    let Some(from) = from else { continue };
                    let first = (from * width + low + tap % 3).saturating_sub(tiling.pads[1]);
                    for i in 0..(high - low) * lanes {
                        let at = first * lanes + i;
                        let seen = std::array::from_fn(|n| pixels[n][at].to_bits());
                        put(start + low * lanes + i, seen);
                    }
                }
            }
        },
    );
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
