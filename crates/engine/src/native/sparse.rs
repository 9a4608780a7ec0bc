//! Rows of sparse weights times a few columns of packs.
//!
//! Relevance rules tell positive weights from negative ones: of the two sums of a unit, every weight
//! belongs to one. Split weights are half zeros, which a dense product multiplies all the same. Here
//! a row is a list of its weights and a set of the places where they apply, and a weight costs one
//! multiplication for each column. What is multiplied is copied together beforehand, a piece of
//! [`CHUNK`] rows of `columns` packs at a time, which stays in the nearest cache while all rows of
//! weights use it.
//!
//! A set of places is the bits of a number, from which the next place is found without reading memory:
//! loads are what such a product has most of, one for each column and one for the weight.
//!
//! Every sum is one chain of fused multiply-adds in the order of a row's list, for every number of
//! columns and vector width: the same bits on all CPUs with FMA.

#![allow(unsafe_code)]

use npcov_cpu::{Isa, Vectors, dispatch};

use crate::native::pack::Pack;

/// Rows of packs that a piece has at most, as many as a number has bits: 24 KiB with six columns.
pub(crate) const CHUNK: usize = u64::BITS as usize;

/// The numbers of columns that there are kernels for, ascending: as many sums as leave registers
/// for the operands.
pub(crate) fn columns(isa: Isa) -> &'static [usize] {
    match isa.vectors() {
        Vectors::Portable => &[1, 2],
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => &[1, 2, 4, 6],
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => &[1, 2, 4, 6, 7, 8],
    }
}

/// Vectors that make a pack.
fn vectors_of(isa: Isa) -> usize {
    match isa.vectors() {
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => 2,
        _ => 1,
    }
}

/// Numbers of columns that make so many together, or a few more, in as little time as possible.
pub(crate) fn shares(isa: Isa, packs: usize) -> Vec<usize> {
    // Half cycles for a weight: it is fetched and spread, each column is loaded, and the next place is not
    // known at once.
    let cost = |columns: usize| (vectors_of(isa) * columns + 2).max(6);
    let mut best = vec![(0, 0)];
    for packs in 1..=packs {
        let of = |&columns: &usize| {
            (
                cost(columns) + best[packs.saturating_sub(columns)].0,
                columns,
            )
        };
        best.extend(columns(isa).iter().map(of).min());
    }
    let mut left = packs;
    let next = || {
        let share = best.get(left)?.1;
        left = left.saturating_sub(share);
        (share > 0).then_some(share)
    };
    std::iter::from_fn(next).collect()
}

/// Sparse rows of weights, cut into pieces along the sums.
#[derive(Clone, Debug)]
pub(crate) struct Sparse {
    isa: Isa,
    rows: usize,
    /// For each piece, where its weights begin.
    starts: Vec<usize>,
    /// By piece, row and place.
    weights: Vec<f32>,
    /// For each piece and row, which rows of the piece its weights are multiplied with.
    places: Vec<u64>,
}

impl Sparse {
    /// Lists the weights of each row and piece, without the zeros: `fill(row, piece, weights)` puts all
    /// `pieces[piece]` of them in their places.
    ///
    /// # Panics
    /// When a piece is longer than [`CHUNK`].
    pub(crate) fn new(
        isa: Isa,
        rows: usize,
        pieces: &[usize],
        fill: impl Fn(usize, usize, &mut [f32]),
    ) -> Sparse {
        let mut row_weights = [0.0; CHUNK];
        let mut sparse = Sparse {
            isa,
            rows,
            starts: Vec::with_capacity(pieces.len()),
            weights: Vec::new(),
            places: Vec::with_capacity(pieces.len() * rows),
        };
        for (piece, &len) in pieces.iter().enumerate() {
            assert!(len <= CHUNK);
            sparse.starts.push(sparse.weights.len());
            for row in 0..rows {
                fill(row, piece, &mut row_weights[..len]);
                let mut places = 0;
                for (place, &w) in row_weights[..len].iter().enumerate() {
                    if w != 0.0 {
                        sparse.weights.push(w);
                        places |= 1 << place;
                    }
                }
                sparse.places.push(places);
            }
        }
        sparse
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Adds the products of a piece to the sums, `columns` for each row. `x` holds [`CHUNK`] rows
    /// of `columns` packs.
    ///
    /// # Panics
    /// When the piece does not exist, a slice is too short, or there is no kernel for so many
    /// columns.
    pub(crate) fn run(&self, piece: usize, columns: usize, x: &[Pack], sums: &mut [Pack]) {
        assert!(x.len() >= CHUNK * columns && sums.len() >= self.rows * columns);
        let weights = &self.weights[self.starts[piece]..];
        let places = &self.places[piece * self.rows..][..self.rows];
        // SAFETY: places are below `CHUNK`, there is a weight for each, the slices are long enough; an
        // `Isa` is one that this CPU has.
        unsafe { dispatch!(self.isa => run(weights, places, columns, x, sums)) }
    }
}

/// A kernel for one vector type: the same text for every instruction set.
macro_rules! kernel {
    (
        $isa:ident, $(#[$feature:meta])*, vectors: $n:expr, columns: [$($columns:literal)*],
        zero: $zero:expr, splat: $splat:expr, load: $load:expr, store: $store:expr,
        fma: $fma:expr $(, use $import:path)?
    ) => {
        mod $isa {
            use crate::native::pack::{LANES, Pack};
            $(use $import::*;)?

            /// Number of vectors that make a pack.
            const N: usize = $n;

            /// # Safety
            /// The instruction set must be present and all positions inside of the slices.
            $(#[$feature])*
            pub(super) unsafe fn run(
                weights: &[f32], places: &[u64], columns: usize, x: &[Pack], sums: &mut [Pack],
            ) {
                // SAFETY: the caller's.
                unsafe {
                    match columns {
                        $($columns => rows::<$columns>(weights, places, x, sums),)*
                        _ => panic!("no kernel for {columns} columns"),
                    }
                }
            }

            /// # Safety
            /// As [`run`].
            $(#[$feature])*
            unsafe fn rows<const T: usize>(
                weights: &[f32], places: &[u64], x: &[Pack], sums: &mut [Pack],
            ) {
                // SAFETY: every position is inside of the slices, the caller saw to it; a pack is
                // `N` vectors of `LANES / N` floats.
                unsafe {
                    let x = x.as_ptr();
                    let mut w = weights.as_ptr();
                    let mut out = sums.as_mut_ptr().cast::<f32>();
                    for &places in places {
                        let mut sums = [[$zero; N]; T];
                        for t in 0..T {
                            for v in 0..N {
                                sums[t][v] = $load(out.add(t * LANES + v * (LANES / N)));
                            }
                        }
                        let mut left = places;
                        while left != 0 {
                            let weight = $splat(*w);
                            let row = x.add(left.trailing_zeros() as usize * T).cast::<f32>();
                            for t in 0..T {
                                for v in 0..N {
                                    let lanes = $load(row.add(t * LANES + v * (LANES / N)));
                                    sums[t][v] = $fma(weight, lanes, sums[t][v]);
                                }
                            }
                            w = w.add(1);
                            left &= left - 1;
                        }
                        for t in 0..T {
                            for v in 0..N {
                                $store(out.add(t * LANES + v * (LANES / N)), sums[t][v]);
                            }
                        }
                        out = out.add(T * LANES);
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernel! {
    avx2, #[target_feature(enable = "avx2,fma")], vectors: 2, columns: [1 2 4 6],
    zero: _mm256_setzero_ps(), splat: _mm256_set1_ps, load: _mm256_loadu_ps,
    store: _mm256_storeu_ps, fma: _mm256_fmadd_ps, use crate::native::vector::x86
}

#[cfg(target_arch = "x86_64")]
kernel! {
    avx512, #[target_feature(enable = "avx512f")], vectors: 1, columns: [1 2 4 6 7 8],
    zero: _mm512_setzero_ps(), splat: _mm512_set1_ps, load: _mm512_loadu_ps,
    store: _mm512_storeu_ps, fma: _mm512_fmadd_ps, use crate::native::vector::x86
}

kernel! {
    portable, , vectors: 1, columns: [1 2],
    zero: [0.0f32; LANES], splat: splat, load: load, store: store, fma: fma,
    use crate::native::vector::plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::pack::LANES;

    fn number(i: usize) -> f32 {
        ((i * 7919 % 1013) as f32 - 500.0) / 100.0
    }

    #[test]
    fn every_instruction_set_and_width_agrees_with_the_definition() {
        let (rows, pieces) = (5, [64, 3]);
        let weight = |row: usize, piece: usize, place: usize| {
            let w = number(row * 100 + piece * 7 + place);
            if w > 0.0 { w } else { 0.0 }
        };
        for isa in Isa::available() {
            let sparse = Sparse::new(isa, rows, &pieces, |row, piece, weights| {
                for (place, w) in weights.iter_mut().enumerate() {
                    *w = weight(row, piece, place);
                }
            });
            for &columns in super::columns(isa) {
                let x: Vec<Pack> = (0..CHUNK * columns)
                    .map(|i| Pack(std::array::from_fn(|l| number(i * LANES + l + 3))))
                    .collect();
                let mut sums = vec![Pack::splat(1.0); rows * columns];
                for piece in 0..pieces.len() {
                    sparse.run(piece, columns, &x, &mut sums);
                }
                for (i, sum) in sums.iter().enumerate() {
                    let (row, t) = (i / columns, i % columns);
                    for (lane, &got) in sum.0.iter().enumerate() {
                        let product = |piece: usize, place: usize| {
                            let x = x[place * columns + t].0[lane];
                            f64::from(weight(row, piece, place)) * f64::from(x)
                        };
                        let expected = 1.0
                            + (0..64).map(|p| product(0, p)).sum::<f64>()
                            + (0..3).map(|p| product(1, p)).sum::<f64>();
                        let distance = (f64::from(got) - expected).abs();
                        assert!(distance < 1e-2, "{isa:?}: {got} for {expected}");
                    }
                }
            }
        }
    }

    #[test]
    fn shares_are_as_many_columns_as_asked_for() {
        for isa in Isa::available() {
            for packs in 0..50 {
                let shares = shares(isa, packs);
                assert!(shares.iter().all(|share| columns(isa).contains(share)));
                let (all, last) = (shares.iter().sum::<usize>(), shares.last());
                assert!(all >= packs && all - packs < last.map_or(1, |last| *last));
            }
        }
    }

    #[test]
    #[should_panic(expected = "sums.len() >= self.rows * columns")]
    fn slices_that_are_too_short_panic() {
        let sparse = Sparse::new(Isa::detect(), 2, &[1], |_, _, weights| weights.fill(1.0));
        sparse.run(0, 1, &[Pack::ZERO; CHUNK], &mut [Pack::ZERO]);
    }
}
