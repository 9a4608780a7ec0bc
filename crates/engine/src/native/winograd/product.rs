//! The products of transformed weights with transformed tiles.
//!
//! For each point there is a matrix of weights, `rows x columns`, and the packs of a few tiles side
//! by side. Weights lie in panels of [`PANEL`] rows: column by column, in each the rows. Both
//! directions read the same panels: forwards a panel makes [`PANEL`] sums and walks over columns;
//! transposed, [`PANEL`] columns make sums and the walk goes over panels and their rows. So
//! either way whole cache lines are used.
//!
//! Every sum is one chain of fused multiply-adds in the order of columns or rows, for every number of
//! tiles and vector width: the same bits on all CPUs with FMA.

#![allow(unsafe_code)]

use npcov_cpu::{Isa, dispatch};

use super::transform::{POINTS, weights};
use crate::native::pack::Pack;

/// Rows of a panel; rows and columns are filled up to a multiple of it with zeros.
pub(crate) const PANEL: usize = 8;

/// Matrices of weights, one for each point.
#[derive(Clone, Debug)]
pub(crate) struct Matrices {
    isa: Isa,
    rows: usize,
    columns: usize,
    data: Vec<f32>,
}

impl Matrices {
    /// Matrices of transformed weights; `taps(row, column)` are the nine of a pair of channels.
    pub(super) fn new(
        isa: Isa,
        rows: usize,
        columns: usize,
        taps: impl Fn(usize, usize) -> [f32; 9],
    ) -> Matrices {
        let mut matrices = Matrices {
            isa,
            rows,
            columns,
            data: Vec::new(),
        };
        let each = matrices.row_packs() * matrices.column_packs();
        matrices.data = vec![0.0; POINTS * each];
        for first in (0..rows).step_by(PANEL) {
            for column in 0..columns {
                let mut panel = [[0.0; PANEL]; 9];
                for row in first..rows.min(first + PANEL) {
                    for (panel, tap) in panel.iter_mut().zip(taps(row, column)) {
                        panel[row - first] = f64::from(tap);
                    }
                }
                let at = first * matrices.column_packs() + column * PANEL;
                let to = matrices.data[at..].chunks_mut(each);
                for (to, from) in to.zip(weights(&panel)) {
                    to[..PANEL].copy_from_slice(&from.map(|weight| weight as f32));
                }
            }
        }
        matrices
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Rows, filled up.
    pub(crate) fn row_packs(&self) -> usize {
        self.rows.next_multiple_of(PANEL)
    }

    /// Columns, filled up.
    pub(crate) fn column_packs(&self) -> usize {
        self.columns.next_multiple_of(PANEL)
    }

    fn matrix(&self, point: usize) -> &[f32] {
        let each = self.row_packs() * self.column_packs();
        &self.data[point * each..(point + 1) * each]
    }

    /// `y[row][tile] = sum over columns of w[row][column] * x[column][tile]`.
    ///
    /// # Panics
    /// When the point does not exist or a slice is too short; `y` has all of [`Matrices::row_packs`].
    pub(crate) fn forward(&self, point: usize, tiles: usize, x: &[Pack], y: &mut [Pack]) {
        let weights = self.matrix(point);
        assert!(x.len() >= self.columns * tiles && y.len() >= self.row_packs() * tiles);
        // SAFETY: the assertion above and the size of a matrix are exactly the bounds that the
        // kernels rely on, and an `Isa` is one that this CPU has.
        unsafe { dispatch!(self.isa => forward(self, weights, tiles, x, y)) }
    }

    /// `y[column][tile] = sum over rows of w[row][column] * x[row][tile]`.
    ///
    /// # Panics
    /// When the point does not exist or a slice is too short; `y` has all of
    /// [`Matrices::column_packs`].
    pub(crate) fn transposed(&self, point: usize, tiles: usize, x: &[Pack], y: &mut [Pack]) {
        let weights = self.matrix(point);
        assert!(x.len() >= self.rows * tiles && y.len() >= self.column_packs() * tiles);
        // SAFETY: as in `forward`.
        unsafe { dispatch!(self.isa => transposed(self, weights, tiles, x, y)) }
    }
}

/// How far ahead of their use weights are asked for, in floats: they come from memory, and a tile
/// alone uses each only once.
const AHEAD: usize = 512;

/// Panels that weights are asked for ahead of their use by the transposed product.
const PANELS_AHEAD: usize = 3;

/// A kernel for one vector type: the same text for every instruction set. `sums` says how many sums
/// are made at a time for each number of tiles, as many as leave registers for the operands.
macro_rules! kernel {
    (
        $isa:ident, $(#[$feature:meta])*, vector: $vector:ty, vectors: $n:expr,
        sums: [$($height:literal x $width:literal)*], widest: $widest:literal,
        zero: $zero:expr, splat: $splat:expr, load: $load:expr, store: $store:expr, fma: $fma:expr,
        prefetch: $prefetch:expr, use $import:path
    ) => {
        mod $isa {
            use super::{AHEAD, Matrices, PANEL, PANELS_AHEAD};
            use crate::native::pack::{LANES, Pack};
            use $import::*;

            /// Number of vectors that make a pack.
            const N: usize = $n;

            /// How many sums are made for each of how many tiles, where so many remain: the most
            /// tiles, but rather two and two than three and one.
            fn extent(sums: usize, tiles: usize) -> (usize, usize) {
                let width = match tiles {
                    4 if $widest == 3 => 2,
                    _ => tiles.min($widest),
                };
                let height = match width {
                    $($width => $height,)*
                    _ => PANEL,
                };
                (height.min(sums), width)
            }

            /// # Safety
            /// The instruction set must be present and all positions inside of the slices.
            $(#[$feature])*
            pub(super) unsafe fn forward(
                matrices: &Matrices, weights: &[f32], tiles: usize, x: &[Pack], y: &mut [Pack],
            ) {
                let panel = matrices.column_packs() * PANEL;
                let rows = matrices.row_packs();
                let mut tile = 0;
                while tile < tiles {
                    let mut first = 0;
                    while first < rows {
                        let (height, width) = extent(rows - first, tiles - tile);
                        // Nothing is there for a matrix without columns.
                        let at = first / PANEL * panel + first % PANEL;
                        let weights = weights.as_ptr().wrapping_add(at);
                        let x = x.as_ptr().wrapping_add(tile);
                        // SAFETY: the caller's.
                        unsafe {
                            let y = y.as_mut_ptr().add(first * tiles + tile);
                            match (height, width) {
                                $(($height, $width) => sums::<$height, $width>(
                                    weights, panel, matrices.columns, tiles, x, y,
                                ),)*
                                _ => sums::<PANEL, 1>(
                                    weights, panel, matrices.columns, tiles, x, y,
                                ),
                            }
                        }
                        first += height;
                    }
                    tile += extent(rows, tiles - tile).1;
                }
            }

            /// # Safety
            /// As [`forward`].
            $(#[$feature])*
            pub(super) unsafe fn transposed(
                matrices: &Matrices, weights: &[f32], tiles: usize, x: &[Pack], y: &mut [Pack],
            ) {
                let panel = matrices.column_packs() * PANEL;
                let columns = matrices.column_packs();
                let mut tile = 0;
                while tile < tiles {
                    let mut first = 0;
                    while first < columns {
                        let (height, width) = extent(columns - first, tiles - tile);
                        // Nothing is there for a matrix without rows.
                        let weights = weights.as_ptr().wrapping_add(first * PANEL);
                        let x = x.as_ptr().wrapping_add(tile);
                        // SAFETY: the caller's.
                        unsafe {
                            let y = y.as_mut_ptr().add(first * tiles + tile);
                            match (height, width) {
                                $(($height, $width) => transposed_sums::<$height, $width>(
                                    weights, panel, matrices.rows, tiles, x, y,
                                ),)*
                                _ => transposed_sums::<PANEL, 1>(
                                    weights, panel, matrices.rows, tiles, x, y,
                                ),
                            }
                        }
                        first += height;
                    }
                    tile += extent(columns, tiles - tile).1;
                }
            }

            /// `M` rows of one or two panels, or of a part of one.
            ///
            /// # Safety
            /// As [`forward`].
            $(#[$feature])*
            #[inline(never)]
            unsafe fn sums<const M: usize, const T: usize>(
                mut weights: *const f32, panel: usize, columns: usize, tiles: usize,
                x: *const Pack, y: *mut Pack,
            ) {
                // SAFETY: every position is inside of the slices, the caller saw to it; a pack is
                // `N` vectors of `LANES / N` floats.
                unsafe {
                    let mut sums = [[[$zero; N]; T]; M];
                    let mut x = x.cast::<f32>();
                    for _ in 0..columns {
                        let mut lanes = [[$zero; N]; T];
                        for t in 0..T {
                            for v in 0..N {
                                lanes[t][v] = $load(x.add(t * LANES + v * (LANES / N)));
                            }
                        }
                        for p in 0..M.div_ceil(PANEL) {
                            $prefetch(weights.wrapping_add(p * panel + AHEAD));
                        }
                        for m in 0..M {
                            let weight = $splat(*weights.add(m / PANEL * panel + m % PANEL));
                            for t in 0..T {
                                for v in 0..N {
                                    sums[m][t][v] = $fma(weight, lanes[t][v], sums[m][t][v]);
                                }
                            }
                        }
                        // Behind the last column, both may be beyond the end.
                        weights = weights.wrapping_add(PANEL);
                        x = x.wrapping_add(tiles * LANES);
                    }
                    put(&sums, tiles, y);
                }
            }

            /// `M` columns.
            ///
            /// # Safety
            /// As [`forward`].
            $(#[$feature])*
            #[inline(never)]
            unsafe fn transposed_sums<const M: usize, const T: usize>(
                mut weights: *const f32, panel: usize, rows: usize, tiles: usize,
                x: *const Pack, y: *mut Pack,
            ) {
                // SAFETY: as in `sums`.
                unsafe {
                    let mut sums = [[[$zero; N]; T]; M];
                    let mut x = x.cast::<f32>();
                    let mut left = rows;
                    while left > 0 {
                        for line in (0..M * PANEL).step_by(LANES) {
                            $prefetch(weights.wrapping_add(PANELS_AHEAD * panel + line));
                        }
                        for row in 0..left.min(PANEL) {
                            let mut lanes = [[$zero; N]; T];
                            for t in 0..T {
                                for v in 0..N {
                                    lanes[t][v] = $load(x.add(t * LANES + v * (LANES / N)));
                                }
                            }
                            for m in 0..M {
                                let weight = $splat(*weights.add(m * PANEL + row));
                                for t in 0..T {
                                    for v in 0..N {
                                        sums[m][t][v] = $fma(weight, lanes[t][v], sums[m][t][v]);
                                    }
                                }
                            }
                            x = x.wrapping_add(tiles * LANES);
                        }
                        // Behind the last row, both may be beyond the end.
                        weights = weights.wrapping_add(panel);
                        left = left.saturating_sub(PANEL);
                    }
                    put(&sums, tiles, y);
                }
            }

            /// # Safety
            /// As [`forward`].
            $(#[$feature])*
            #[inline]
            unsafe fn put<const M: usize, const T: usize>(
                sums: &[[[$vector; N]; T]; M], tiles: usize, y: *mut Pack,
            ) {
                // SAFETY: as in `sums`.
                unsafe {
                    for m in 0..M {
                        let y = y.add(m * tiles).cast::<f32>();
                        for t in 0..T {
                            for v in 0..N {
                                $store(y.add(t * LANES + v * (LANES / N)), sums[m][t][v]);
                            }
                        }
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernel! {
    avx2, #[target_feature(enable = "avx2,fma")], vector: __m256, vectors: 2,
    sums: [4 x 1], widest: 1, zero: _mm256_setzero_ps(), splat: _mm256_set1_ps, load: _mm256_loadu_ps,
    store: _mm256_storeu_ps, fma: _mm256_fmadd_ps,
    prefetch: prefetch, use crate::native::vector::x86
}

#[cfg(target_arch = "x86_64")]
kernel! {
    avx512, #[target_feature(enable = "avx512f")], vector: __m512, vectors: 1,
    sums: [16 x 1 8 x 2 8 x 3], widest: 3, zero: _mm512_setzero_ps(), splat: _mm512_set1_ps, load: _mm512_loadu_ps,
    store: _mm512_storeu_ps, fma: _mm512_fmadd_ps,
    prefetch: prefetch, use crate::native::vector::x86
}

kernel! {
    portable, , vector: [f32; LANES], vectors: 1,
    sums: [2 x 1], widest: 1, zero: [0.0f32; LANES], splat: splat, load: load,
    store: store, fma: fma,
    prefetch: prefetch, use crate::native::vector::plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::pack::LANES;

    fn number(i: usize) -> f32 {
        ((i * 7919 % 1013) as f32 - 500.0) / 100.0
    }

    fn packs(n: usize) -> Vec<Pack> {
        (0..n)
            .map(|i| Pack(std::array::from_fn(|l| number(i * LANES + l + 3))))
            .collect()
    }

    /// The product as it is defined, in f64.
    fn naive(
        weight: impl Fn(usize, usize) -> f32,
        (rows, columns): (usize, usize),
        tiles: usize,
        x: &[Pack],
    ) -> Vec<[f64; LANES]> {
        let sum = |row: usize, tile: usize, lane: usize| {
            let product = |column: usize| {
                let x = x[column * tiles + tile].0[lane];
                f64::from(weight(row, column)) * f64::from(x)
            };
            (0..columns).map(product).sum::<f64>()
        };
        (0..rows * tiles)
            .map(|i| std::array::from_fn(|lane| sum(i / tiles, i % tiles, lane)))
            .collect()
    }

    #[test]
    fn every_instruction_set_and_width_agrees_with_the_definition() {
        // Miri takes long.
        let most = if cfg!(miri) { 3 } else { 7 };
        // Whole panels end where the memory of weights does; so do walks over them.
        for (rows, columns) in [(1, 1), (8, 3), (8, 8), (24, 8), (13, 20)] {
            let taps = |row: usize, column: usize| {
                std::array::from_fn(|tap| number((row * columns + column) * 9 + tap))
            };
            let transformed: Vec<_> = (0..rows * columns)
                .map(|i| {
                    let taps: [f32; 9] = taps(i / columns, i % columns);
                    weights(&taps.map(|tap| [f64::from(tap)]))
                })
                .collect();
            let weight = |point: usize, row: usize, column: usize| {
                transformed[row * columns + column][point][0] as f32
            };
            for isa in Isa::available() {
                let matrices = Matrices::new(isa, rows, columns, taps);
                for tiles in 1..=most {
                    for point in [0, 8, 35] {
                        let same = |got: &[Pack], expected: Vec<[f64; LANES]>| {
                            let all = got
                                .iter()
                                .zip(&expected)
                                .flat_map(|(a, b)| a.0.iter().zip(b));
                            for (&got, &expected) in all {
                                let distance = (f64::from(got) - expected).abs();
                                assert!(
                                    distance < 1e-2,
                                    "{isa:?}, {tiles} tiles: {got}, {expected}"
                                );
                            }
                        };
                        let x = packs(columns * tiles);
                        let mut y = packs(matrices.row_packs() * tiles);
                        matrices.forward(point, tiles, &x, &mut y);
                        let direct = |r: usize, c: usize| weight(point, r, c);
                        same(&y, naive(direct, (rows, columns), tiles, &x));
                        let x = packs(rows * tiles);
                        let mut y = packs(matrices.column_packs() * tiles);
                        matrices.transposed(point, tiles, &x, &mut y);
                        let transposed = |r: usize, c: usize| weight(point, c, r);
                        same(&y, naive(transposed, (columns, rows), tiles, &x));
                    }
                }
            }
        }
    }

    #[test]
    fn without_rows_or_columns_sums_are_zero() {
        for isa in Isa::available() {
            for (rows, columns) in [(16, 0), (0, 16)] {
                let matrices = Matrices::new(isa, rows, columns, |_, _| [1.0; 9]);
                let (mut y, mut back) = (packs(rows * 3), packs(columns * 3));
                matrices.forward(35, 3, &packs(columns * 3), &mut y);
                matrices.transposed(35, 3, &packs(rows * 3), &mut back);
                assert!(y.iter().chain(&back).all(|pack| *pack == Pack::ZERO));
            }
        }
    }

    #[test]
    #[should_panic(expected = "y.len() >= self.row_packs() * tiles")]
    fn slices_that_are_too_short_panic() {
        let matrices = Matrices::new(Isa::detect(), 2, 2, |_, _| [1.0; 9]);
        matrices.forward(0, 1, &packs(2), &mut packs(PANEL - 1));
    }
}
