//! Maps of a few inputs, dealt out to tiles: neighbouring lanes are neighbouring tiles.
//!
//! A tile sees six by six pixels, four rows and columns from those of the next one. So the pixels of a map
//! are dealt out by row and column modulo four: what all tiles see at row `r` and column `c` of their six
//! by six stands in one stretch then, tile by tile, those of the next input behind. Rows and columns 4 and 5
//! are rows and columns 0 and 1 of the next tile and are dealt twice.

#![allow(unsafe_code)]

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use npcov_cpu::Vectors;
use npcov_cpu::{Isa, vectorised};

use super::Tiling;
use super::transform::{POINTS, SEEN, TILE};
use crate::native::pack::LANES;

impl Tiling {
    /// Tiles along each axis.
    fn grid(&self) -> [usize; 2] {
        self.y.map(|extent| extent.div_ceil(TILE))
    }

    /// Numbers of one stretch of maps that are dealt out to be seen: whole packs, and one more. Else those of a tile
    /// would meet in a few sets of the cache.
    pub(super) fn stretch(&self, inputs: usize) -> usize {
        (inputs * self.tiles()).next_multiple_of(LANES) + LANES
    }

    /// Packs of maps that are dealt out to be seen.
    pub(crate) fn dealt_packs(&self, inputs: usize) -> usize {
        POINTS * self.stretch(inputs) / LANES
    }

    /// Deals out what some tiles see of a map, to stretches of so many numbers. What is dealt out is zero before,
    /// or another map.
    pub(super) fn deal(
        &self,
        isa: Isa,
        plane: &[f32],
        tiles: &Range<usize>,
        (dealt, stretch): (&mut [f32], usize),
    ) {
        let [_, across] = self.grid();
        if tiles.is_empty() || across == 0 {
            return;
        }
        let first = tiles.start / across * TILE;
        let behind = (tiles.end - 1) / across * TILE + SEEN;
        // Rows of the map, and of the map with its padding.
        let rows = first.saturating_sub(self.pads[0])..behind.saturating_sub(self.pads[0]);
        let rows = rows.start.min(self.x[0])..rows.end.min(self.x[0]);
        assert!((POINTS - 1) * stretch + self.tiles() <= dealt.len());
        assert!(rows.end * self.x[1] <= plane.len());
        #[cfg(target_arch = "x86_64")]
        if isa.vectors() == Vectors::Avx512 {
            // SAFETY: the assertions are the bounds that the kernel relies on, and an `Isa` is one that this CPU
            // has.
            return unsafe { deal_rows(self, plane, rows, dealt, stretch) };
        }
        for y in rows {
            let row = &plane[y * self.x[1]..(y + 1) * self.x[1]];
            for at in self.places(y, stretch).into_iter().flatten() {
                self.deal_row(row, &mut dealt[at..], stretch);
            }
        }
    }

    /// Where a row of a map is dealt to: as one of the first four of the tiles that begin there or before, and of
    /// the first two, as one of the last two of the tiles above.
    #[inline(always)]
    fn places(&self, y: usize, stretch: usize) -> [Option<usize>; 2] {
        let [down, across] = self.grid();
        let (tile, row) = ((y + self.pads[0]) / TILE, (y + self.pads[0]) % TILE);
        let above = tile.checked_sub(1).filter(|_| row + TILE < SEEN);
        [
            (tile < down).then_some(row * SEEN * stretch + tile * across),
            above.map(|tile| (row + TILE) * SEEN * stretch + tile * across),
        ]
    }

    /// Deals out a row: each of the columns of tiles to a stretch.
    fn deal_row(&self, row: &[f32], dealt: &mut [f32], stretch: usize) {
        let ([_, across], width) = (self.grid(), self.x[1]);
        for c in 0..SEEN {
            // The tiles whose column `c` lies in the map.
            let low = self.pads[1].saturating_sub(c).div_ceil(TILE).min(across);
            let high = (width + self.pads[1]).saturating_sub(c).div_ceil(TILE);
            let high = high.clamp(low, across);
            let from = (low * TILE + c).saturating_sub(self.pads[1]);
            let to = &mut dealt[c * stretch + low..c * stretch + high];
            if let Some(row) = row.get(from..) {
                for (to, x) in to.iter_mut().zip(row.iter().step_by(TILE)) {
                    *to = *x;
                }
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

    /// Puts the sums of some tiles where they belong in a map, and calls `done` with where each finished stretch
    /// begins, and the stretch: `pitch` numbers for each position, of which the first ones are those of the tiles.
    pub(crate) fn collect(
        &self,
        tiles: &Range<usize>,
        (sums, pitch): (&[f32], usize),
        plane: &mut [f32],
        mut done: impl FnMut(usize, &mut [f32]),
    ) {
        for (at, len, from) in self.rows_of(tiles, pitch) {
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

/// Deals out rows of a map, sixteen tiles at a time.
///
/// # Safety
/// The CPU must have AVX-512F, `plane` all numbers of the rows, and `dealt` a place for each tile in all
/// stretches.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn deal_rows(
    tiling: &Tiling,
    plane: &[f32],
    rows: Range<usize>,
    dealt: &mut [f32],
    stretch: usize,
) {
    use std::arch::x86_64::*;

    let ([_, across], [_, width], pad) = (tiling.grid(), tiling.x, tiling.pads[1]);
    let low = |count: usize| ((1u32 << count) - 1) as __mmask16;
    // Every fourth of two vectors: in the lower half, and in the upper one.
    let step = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    for first in (0..across).step_by(LANES) {
        let tiles = (across - first).min(LANES);
        // Columns behind the fourth are those of the next tile.
        let starts = [first * TILE, (first + 1) * TILE];
        // Which numbers of four vectors lie in the map.
        let inside = starts.map(|start| {
            [0, 1, 2, 3].map(|v| {
                let start = start + v * LANES;
                let before = pad.saturating_sub(start).min(LANES);
                low((width + pad).saturating_sub(start).min(LANES)) & !low(before)
            })
        });
        for y in rows.clone() {
            let places = tiling.places(y, stretch);
            for (half, columns) in [0..TILE, 0..SEEN - TILE].into_iter().enumerate() {
                let row = plane.as_ptr().wrapping_add(y * width + starts[half]);
                let row = row.wrapping_sub(pad);
                // SAFETY: what lies in the map is there, and the rest is masked.
                let x = [0, 1, 2, 3].map(|v| unsafe {
                    _mm512_maskz_loadu_ps(inside[half][v], row.wrapping_add(v * LANES))
                });
                for column in columns {
                    let index = _mm512_add_epi32(step, _mm512_set1_epi32(column as i32));
                    let left = _mm512_permutex2var_ps(x[0], index, x[1]);
                    let right = _mm512_permutex2var_ps(x[2], index, x[3]);
                    let seen = _mm512_mask_blend_ps(0xff00, left, right);
                    for place in places.into_iter().flatten() {
                        let at = place + (half * TILE + column) * stretch + first;
                        // SAFETY: tiles have their places, and there are so many.
                        unsafe {
                            let to = dealt.as_mut_ptr().add(at);
                            _mm512_mask_storeu_ps(to, low(tiles), seen);
                        }
                    }
                }
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

    /// The tiles of some packs of one map.
    fn of_packs(tiling: &Tiling, packs: Range<usize>) -> Range<usize> {
        packs.start * LANES..(packs.end * LANES).min(tiling.tiles())
    }

    fn map([height, width]: [usize; 2]) -> Vec<f32> {
        (0..height * width).map(|i| i as f32 + 1.0).collect()
    }

    /// Tile by tile, as the definition of a tile says, of two maps.
    #[test]
    fn tiles_see_what_they_should() {
        for tiling in tilings() {
            let planes =
                [1.0, -1.0].map(|sign| map(tiling.x).iter().map(|x| sign * x).collect::<Vec<_>>());
            let (each, stretch) = (tiling.tiles(), tiling.stretch(2));
            for isa in Isa::available() {
                let mut dealt = vec![0.0; tiling.dealt_packs(2) * LANES];
                for (from, plane) in (0..).step_by(each).zip(&planes) {
                    // Of another map at first, and pack by pack.
                    let other = vec![f32::NAN; plane.len()];
                    tiling.deal(isa, &other, &(0..each), (&mut dealt[from..], stretch));
                    for pack in 0..tiling.packs() {
                        let tiles = of_packs(&tiling, pack..pack + 1);
                        tiling.deal(isa, plane, &tiles, (&mut dealt[from..], stretch));
                    }
                }
                for tile in 0..2 * each {
                    let seen: [f32; POINTS] = std::array::from_fn(|p| dealt[p * stretch + tile]);
                    let mut expected = [0.0; POINTS];
                    let [(rows, top), (cols, left)] = tiling.seen(tile % each);
                    for (i, row) in rows.enumerate() {
                        for (j, col) in cols.clone().enumerate() {
                            let x = planes[tile / each][row * tiling.x[1] + col];
                            expected[(top + i) * SEEN + left + j] = x;
                        }
                    }
                    assert_eq!(seen, expected, "{tiling:?} {isa:?} {tile}");
                }
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
                let pitch = packs.len() * LANES;
                let tiles = of_packs(&tiling, packs);
                let mut numbers = vec![f32::NAN; POSITIONS * pitch];
                tiling.distribute(&tiles, &plane, (&mut numbers, pitch));
                for (lane, tile) in (first * LANES..tiling.tiles()).enumerate().take(LANES) {
                    let [rows, cols] = tiling.inside(tile);
                    let number = numbers[lane];
                    assert_eq!(number, plane[rows.start * tiling.y[1] + cols.start]);
                }
                tiling.collect(&tiles, (&numbers, pitch), &mut again, |at, stretch| {
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
                let tiles = of_packs(&tiling, packs);
                tiling.add_back(&tiles, (&back, pitch), &mut plane);
            }
            assert_eq!(plane, expected);
        }
    }
}
