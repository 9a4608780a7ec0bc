//! Maps of one input, dealt out to tiles: neighbouring lanes are neighbouring tiles.
//!
//! A tile sees six by six pixels, four rows and columns from those of the next one. So the pixels of a map
//! are dealt out by row and column modulo four: what all tiles see at row `r` and column `c` of their six
//! by six stands in one stretch then, tile by tile. Columns 4 and 5 are those of the next tile and are
//! dealt twice; rows 4 and 5 are rows 0 and 1 a row of tiles further.

#![allow(unsafe_code)]

use std::ops::Range;

use npcov_cpu::{Isa, vectorised};

use super::Tiling;
use super::transform::{POINTS, SEEN, TILE};
use crate::native::pack::{LANES, Pack};

impl Tiling {
    /// Tiles along each axis.
    fn grid(&self) -> [usize; 2] {
        self.y.map(|extent| extent.div_ceil(TILE))
    }

    /// Numbers of one stretch of a map that is dealt out to be seen, with a row of tiles more.
    fn stretch(&self) -> usize {
        let [down, across] = self.grid();
        (down + 1) * across
    }

    /// Packs of a map that is dealt out to be seen. Behind the last tile a pack may still be read.
    pub(crate) fn dealt_packs(&self) -> usize {
        (TILE * SEEN * self.stretch()).div_ceil(LANES) + 1
    }

    /// Deals out what some tiles see of a map, for [`Tiling::seen_by`]. What is dealt out is zero before, or
    /// another map.
    pub(crate) fn deal(&self, isa: Isa, plane: &[f32], tiles: &Range<usize>, dealt: &mut [f32]) {
        let [_, across] = self.grid();
        if tiles.is_empty() || across == 0 {
            return;
        }
        let (width, stretch) = (self.x[1], self.stretch());
        let first = tiles.start / across * TILE;
        let behind = (tiles.end - 1) / across * TILE + SEEN;
        // Rows of the map, and of the map with its padding.
        let rows = first.saturating_sub(self.pads[0])..behind.saturating_sub(self.pads[0]);
        let rows = rows.start.min(self.x[0])..rows.end.min(self.x[0]);
        let mut line = Line::new(isa, across);
        for y in rows {
            let row = &plane[y * width..(y + 1) * width];
            let y = y + self.pads[0];
            let at = y % TILE * SEEN * stretch + y / TILE * across;
            match &mut line {
                Some(line) => line.deal(row, self.pads[1], &mut dealt[at..], stretch),
                None => self.deal_row(row, &mut dealt[at..]),
            }
        }
    }

    /// Deals out a row: each of the columns of tiles to a stretch.
    fn deal_row(&self, row: &[f32], dealt: &mut [f32]) {
        let ([_, across], width) = (self.grid(), self.x[1]);
        for c in 0..SEEN {
            // The tiles whose column `c` lies in the map.
            let low = self.pads[1].saturating_sub(c).div_ceil(TILE).min(across);
            let high = (width + self.pads[1]).saturating_sub(c).div_ceil(TILE);
            let high = high.clamp(low, across);
            let from = (low * TILE + c).saturating_sub(self.pads[1]);
            let at = c * self.stretch();
            let to = &mut dealt[at + low..at + high];
            if let Some(row) = row.get(from..) {
                for (to, x) in to.iter_mut().zip(row.iter().step_by(TILE)) {
                    *to = *x;
                }
            }
        }
    }

    /// What some tiles, the first of them in a certain lane, see of a map that was dealt out. Lanes behind the
    /// last tile hold anything.
    pub(crate) fn seen_by(
        &self,
        (tiles, lane): (&Range<usize>, usize),
        dealt: &[f32],
        seen: &mut [Pack; POINTS],
    ) {
        let [_, across] = self.grid();
        for (point, seen) in seen.iter_mut().enumerate() {
            let (row, column) = (point / SEEN, point % SEEN);
            let at = (row % TILE * SEEN + column) * self.stretch() + row / TILE * across;
            let from = &dealt[at + tiles.start..][..LANES];
            match lane {
                0 => seen.0.copy_from_slice(from),
                _ => seen.0[lane..lane + tiles.len()].copy_from_slice(&from[..tiles.len()]),
            }
        }
    }

    /// The parts of some tiles that are in one row of tiles each.
    fn tile_rows(&self, tiles: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
        let [_, across] = self.grid();
        let (mut start, end) = (tiles.start, tiles.end);
        std::iter::from_fn(move || {
            let row = start..((start / across + 1) * across).min(end);
            start = row.end;
            (!row.is_empty()).then_some(row)
        })
    }

    /// The stretches of an output that the tiles of some packs have: where in the output they begin, how
    /// long they are, and where each position of the first of these tiles stands among `pitch` numbers
    /// for every position.
    fn rows_of(
        &self,
        tiles: &Range<usize>,
        pitch: usize,
    ) -> impl Iterator<Item = (usize, usize, [usize; TILE])> + use<> {
        let ([height, width], [_, across]) = (self.y, self.grid());
        let first = tiles.start;
        self.tile_rows(tiles).flat_map(move |row| {
            let (down, left) = (row.start / across, row.start % across);
            let (start, end) = (left * TILE, ((left + row.len()) * TILE).min(width));
            (0..TILE).filter_map(move |i| {
                let y = down * TILE + i;
                let from = |j: usize| (i * TILE + j) * pitch + row.start - first;
                let stretch = (y * width + start, end - start, std::array::from_fn(from));
                (y < height).then_some(stretch)
            })
        })
    }

    /// What some packs hold of the tiles of so many inputs, one after the other: of each input, its tiles and
    /// how many lanes stand before them.
    pub(crate) fn parts(
        &self,
        packs: &Range<usize>,
        inputs: usize,
    ) -> impl Iterator<Item = (usize, Range<usize>, usize)> + use<> {
        let each = self.tiles();
        let (first, end) = (packs.start * LANES, (packs.end * LANES).min(inputs * each));
        let mut at = first;
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let (input, tile) = (at / each, at % each);
                let count = (each - tile).min(end - at);
                at += count;
                (input, tile..tile + count, at - count - first)
            })
        })
    }

    /// The tiles of some packs, and numbers that each position of all of them has.
    pub(super) fn tiles_of(&self, packs: &Range<usize>) -> (Range<usize>, usize) {
        let end = (packs.end * LANES).min(self.tiles());
        (packs.start * LANES..end, packs.len() * LANES)
    }

    /// Puts the sums of some packs of tiles, by position and then by tile, where they belong in a map, and
    /// calls `done` with where each finished stretch begins, and the stretch.
    pub(crate) fn collect(
        &self,
        packs: &Range<usize>,
        sums: &[f32],
        plane: &mut [f32],
        mut done: impl FnMut(usize, &mut [f32]),
    ) {
        let (tiles, pitch) = self.tiles_of(packs);
        for (at, len, from) in self.rows_of(&tiles, pitch) {
            let stretch = &mut plane[at..at + len];
            let [a, b, c, d] = from.map(|from| &sums[from..]);
            let (whole, rest) = stretch.as_chunks_mut::<TILE>();
            for ((((y, a), b), c), d) in whole.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *y = [*a, *b, *c, *d];
            }
            for (y, from) in rest.iter_mut().zip([a, b, c]) {
                *y = from[whole.len()];
            }
            done(at, stretch);
        }
    }

    /// The inverse of [`Tiling::collect`] for some tiles; positions beyond the map are left as they are.
    pub(crate) fn distribute(
        &self,
        tiles: &Range<usize>,
        plane: &[f32],
        (numbers, pitch): (&mut [f32], usize),
    ) {
        for (at, len, from) in self.rows_of(tiles, pitch) {
            for (j, from) in from.into_iter().enumerate() {
                let stretch = &plane[at..at + len];
                let to = numbers[from..].iter_mut();
                for (to, x) in to.zip(stretch.iter().skip(j).step_by(TILE)) {
                    *to = *x;
                }
            }
        }
    }

    /// Adds to a map what came back to each of the six by six pixels of some tiles, in the order of tiles:
    /// `pitch` numbers for each point, of which the first ones are those of the tiles.
    pub(crate) fn add_back(
        &self,
        tiles: &Range<usize>,
        (back, pitch): (&[f32], usize),
        plane: &mut [f32],
    ) {
        let ([height, width], [_, across]) = (self.x, self.grid());
        for row in self.tile_rows(tiles) {
            let (down, left) = (row.start / across, row.start % across);
            for r in 0..SEEN {
                let y = (down * TILE + r).checked_sub(self.pads[0]);
                let Some(y) = y.filter(|&y| y < height) else {
                    continue;
                };
                let to = &mut plane[y * width..(y + 1) * width];
                // A pixel of two tiles gets the share of the one on its left first.
                for c in [4, 5, 0, 1, 2, 3] {
                    let low = self.pads[1].saturating_sub(c).div_ceil(TILE).max(left);
                    let skipped = low - left;
                    if skipped >= row.len() {
                        continue;
                    }
                    let from = (r * SEEN + c) * pitch + row.start - tiles.start;
                    let from = &back[from + skipped..from + row.len()];
                    let at = low * TILE + c - self.pads[1];
                    let Some(to) = to.get_mut(at..) else { continue };
                    vectorised(
                        #[inline(always)]
                        || {
                            for (y, back) in to.iter_mut().step_by(TILE).zip(from) {
                                *y += back;
                            }
                        },
                    );
                }
            }
        }
    }
}

/// Numbers of a [`Line`].
const LINE: usize = 1024;

/// A row of a map with its padding, to be dealt out in registers.
struct Line {
    numbers: [f32; LINE],
    /// Tiles in a row.
    across: usize,
}

impl Line {
    /// For so many tiles in a row, if there is a kernel and they are not too many.
    fn new(isa: Isa, across: usize) -> Option<Line> {
        // A vector of sixteen tiles may begin at the second column of the last one.
        let fits = across * TILE + (LANES + 1) * TILE <= LINE;
        (fits && has_kernel(isa)).then_some(Line {
            numbers: [0.0; LINE],
            across,
        })
    }

    /// Deals out a row: each of the columns of tiles to a stretch.
    fn deal(&mut self, row: &[f32], pad: usize, dealt: &mut [f32], stretch: usize) {
        self.numbers[pad..pad + row.len()].copy_from_slice(row);
        assert!((SEEN - 1) * stretch + self.across <= dealt.len());
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a line is made where there is AVX-512 and room for its tiles, and all stretches have
        // places for them.
        unsafe {
            deal_line(&self.numbers, self.across, dealt, stretch);
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_kernel(isa: Isa) -> bool {
    isa.vectors() == npcov_cpu::Vectors::Avx512
}

#[cfg(not(target_arch = "x86_64"))]
fn has_kernel(_: Isa) -> bool {
    false
}

/// # Safety
/// The CPU must have AVX-512F; the line `4 * across + 68` numbers, and `dealt` a place for each tile in
/// all stretches.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn deal_line(line: &[f32; LINE], across: usize, dealt: &mut [f32], stretch: usize) {
    use std::arch::x86_64::*;

    // Every fourth of two vectors: in the lower half, and in the upper one.
    let step = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    for first in (0..across).step_by(LANES) {
        let tiles = ((1u32 << (across - first).min(LANES)) - 1) as __mmask16;
        for c in 0..SEEN {
            // Columns behind the fourth are those of the next tile.
            let (from, column) = (first * TILE + c / TILE * TILE, c % TILE);
            // SAFETY: the line reaches as far as four vectors behind the second column of the last tile,
            // and tiles that are not there are masked.
            unsafe {
                let at = line.as_ptr().add(from);
                let x = [0, 1, 2, 3].map(|v| _mm512_loadu_ps(at.add(v * LANES)));
                let index = _mm512_add_epi32(step, _mm512_set1_epi32(column as i32));
                let low = _mm512_permutex2var_ps(x[0], index, x[1]);
                let high = _mm512_permutex2var_ps(x[2], index, x[3]);
                let y = _mm512_mask_blend_ps(0xff00, low, high);
                let to = dealt.as_mut_ptr().add(c * stretch + first);
                _mm512_mask_storeu_ps(to, tiles, y);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use npcov_graph::op::Window;

    /// Positions of a tile.
    const POSITIONS: usize = TILE * TILE;

    fn tilings() -> impl Iterator<Item = Tiling> {
        [
            ([9, 18], 1),
            ([6, 6], 0),
            ([5, 7], 2),
            ([14, 14], 1),
            ([70, 4], 1),
            ([7, 90], 1),
        ]
        .into_iter()
        .map(|(x, pad): ([usize; 2], usize)| {
            let window = Window {
                pads_begin: vec![pad; 2],
                pads_end: vec![pad; 2],
                ..Window::sized([3, 3])
            };
            let y = x.map(|extent| extent + 2 * pad - 2);
            Tiling::new(&window, &x, &y).unwrap()
        })
    }

    fn map([height, width]: [usize; 2]) -> Vec<f32> {
        (0..height * width).map(|i| i as f32 + 1.0).collect()
    }

    /// Tile by tile, as the definition of a tile says.
    #[test]
    fn tiles_see_what_they_should() {
        for tiling in tilings() {
            let plane = map(tiling.x);
            let all = 0..tiling.packs();
            let mut dealts = Vec::new();
            for isa in Isa::available() {
                // Of another map at first, and pack by pack.
                let mut dealt = vec![0.0; tiling.dealt_packs() * LANES];
                let every = 0..tiling.tiles();
                tiling.deal(isa, &vec![f32::NAN; plane.len()], &every, &mut dealt);
                for pack in all.clone() {
                    tiling.deal(isa, &plane, &tiling.of_pack(pack), &mut dealt);
                }
                dealts.push(dealt);
            }
            for (tile, dealt) in
                (0..tiling.tiles()).flat_map(|t| dealts.iter().map(move |d| (t, d)))
            {
                let mut seen = [Pack::ZERO; POINTS];
                tiling.seen_by((&tiling.of_pack(tile / LANES), 0), dealt, &mut seen);
                let mut expected = [0.0; POINTS];
                let [(rows, top), (cols, left)] = tiling.seen(tile);
                for (i, row) in rows.enumerate() {
                    for (j, col) in cols.clone().enumerate() {
                        expected[(top + i) * SEEN + left + j] = plane[row * tiling.x[1] + col];
                    }
                }
                assert_eq!(seen.map(|pack| pack.0[tile % LANES]), expected);
            }
        }
    }

    #[test]
    fn maps_are_distributed_and_collected() {
        for tiling in tilings() {
            let plane = map(tiling.y);
            let mut again = vec![0.0; plane.len()];
            for first in (0..tiling.packs()).step_by(2) {
                let packs = first..(first + 2).min(tiling.packs());
                let (tiles, pitch) = tiling.tiles_of(&packs);
                let mut numbers = vec![f32::NAN; POSITIONS * pitch];
                tiling.distribute(&tiles, &plane, (&mut numbers, pitch));
                for (lane, tile) in (first * LANES..tiling.tiles()).enumerate().take(LANES) {
                    let [rows, cols] = tiling.inside(tile);
                    let number = numbers[lane];
                    assert_eq!(number, plane[rows.start * tiling.y[1] + cols.start]);
                }
                tiling.collect(&packs, &numbers, &mut again, |at, stretch| {
                    assert_eq!(stretch[0], plane[at]);
                });
            }
            assert_eq!(again, plane);
        }
    }

    /// The tiles of three maps, in packs: each stands behind those before it.
    #[test]
    fn tiles_of_inputs_stand_one_after_the_other() {
        for tiling in tilings() {
            let each = tiling.tiles();
            let mut found = Vec::new();
            for first in (0..(3 * each).div_ceil(LANES)).step_by(2) {
                for (input, tiles, offset) in tiling.parts(&(first..first + 2), 3) {
                    assert_eq!(first * LANES + offset, found.len());
                    found.extend(tiles.map(|tile| (input, tile)));
                }
            }
            let all = (0..3).flat_map(|input| (0..each).map(move |tile| (input, tile)));
            assert!(found.into_iter().eq(all));
        }
    }

    /// What tiles of a second map see stands behind those of the first one.
    #[test]
    fn tiles_of_another_map_fill_the_lanes() {
        let tiling = tilings().next().unwrap();
        let isa = Isa::detect();
        let count = 5;
        let dealt = [1.0, -1.0].map(|sign| {
            let plane: Vec<f32> = map(tiling.x).iter().map(|x| sign * x).collect();
            let mut dealt = vec![0.0; tiling.dealt_packs() * LANES];
            tiling.deal(isa, &plane, &(0..count), &mut dealt);
            dealt
        });
        let mut seen = [Pack::ZERO; POINTS];
        tiling.seen_by((&(0..count), 0), &dealt[0], &mut seen);
        tiling.seen_by((&(0..count), count), &dealt[1], &mut seen);
        for Pack(lanes) in seen {
            let second: Vec<f32> = lanes[..count].iter().map(|x| -x).collect();
            assert_eq!(lanes[count..2 * count], second);
        }
    }

    #[test]
    fn what_comes_back_is_added_in_the_order_of_tiles() {
        for tiling in tilings() {
            let number = |tile: usize, point: usize| (tile * 7 + point * 13) as f32 * 0.1 + 1e-3;
            let width = tiling.x[1];
            let mut expected = vec![0.0f32; width * tiling.x[0]];
            for tile in 0..tiling.tiles() {
                let [(rows, top), (cols, left)] = tiling.seen(tile);
                for (i, row) in rows.enumerate() {
                    for (j, col) in cols.clone().enumerate() {
                        expected[row * width + col] += number(tile, (top + i) * SEEN + left + j);
                    }
                }
            }
            let mut plane = vec![0.0; expected.len()];
            for first in (0..tiling.packs()).step_by(2) {
                let packs = first..(first + 2).min(tiling.packs());
                let pitch = packs.len() * LANES;
                let back: Vec<f32> = (0..POINTS * pitch)
                    .map(|i| number(first * LANES + i % pitch, i / pitch))
                    .collect();
                let (tiles, _) = tiling.tiles_of(&packs);
                tiling.add_back(&tiles, (&back, pitch), &mut plane);
            }
            assert_eq!(plane, expected);
        }
    }
}
