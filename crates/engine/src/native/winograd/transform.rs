//! The transforms of `F(4x4, 3x3)`.
//!
//! Along one axis, four outputs of a window of three taps are coefficients of a product of
//! polynomials, which is known once it is known at six points: 0, two pairs `±a` and `±b`, and
//! infinity. With `g` the taps and `d` the six inputs that the window sees,
//!
//! ```text
//! y = At ((G g) * (Bt d)),    * element by element,
//! ```
//!
//! where `G` and `At` evaluate polynomials at the points, and `Bt` follows from
//! `x (x² - a²) (x² - b²)`. Over two axes each transform is applied to columns and then to rows, and
//! 36 products take the place of 144.
//!
//! The points decide how many digits are lost. With the usual ones, `a = 1` and `b = 2`, errors are
//! about twice those of a direct sum; `a = 3/4` and `b = 3/2` make them smaller than a direct sum's,
//! and all constants stay exact in `f32`.
//!
//! The *adjoint* of the convolution with respect to its input is the transposed chain,
//! `d = B ((G g) * (A y))`: the same transformed weights, and six by six results that overlap with
//! those of the next tile.

#![allow(unsafe_code)]

use npcov_cpu::{Isa, dispatch};

use crate::native::pack::{LANES, Pack};

/// Positions of a tile along an axis.
pub(crate) const TILE: usize = 4;

/// Inputs that a tile sees along an axis, and points.
pub(crate) const SEEN: usize = 6;

/// Products of a tile for each pair of channels.
pub(crate) const POINTS: usize = SEEN * SEEN;

const A: f32 = 0.75;
const B: f32 = 1.5;
const A2: f32 = A * A;
const B2: f32 = B * B;

/// `G g Gt` for the nine taps of some pairs of channels at once; the points are ordered as in all
/// transformed arrays, by point of the rows, then of the columns.
#[inline(always)]
pub(super) fn weights<const N: usize>(taps: &[[f64; N]; 9]) -> [[f64; N]; POINTS] {
    let (a, b) = (f64::from(A), f64::from(B));
    let (a2, b2) = (a * a, b * b);
    let at = |point: f64, scale: f64| [1.0 / scale, point / scale, point * point / scale];
    let (of_a, of_b) = (2.0 * a2 * (a2 - b2), 2.0 * b2 * (b2 - a2));
    let g = [
        at(0.0, a2 * b2),
        at(a, of_a),
        at(-a, of_a),
        at(b, of_b),
        at(-b, of_b),
        [0.0, 0.0, 1.0],
    ];
    let sum = |g: &[f64; 3], x: [&[f64; N]; 3]| -> [f64; N] {
        std::array::from_fn(|i| g[0] * x[0][i] + g[1] * x[1][i] + g[2] * x[2][i])
    };
    let mut half = [[[0.0; N]; 3]; SEEN];
    let mut all = [[0.0; N]; POINTS];
    for (row, g) in g.iter().enumerate() {
        for col in 0..3 {
            half[row][col] = sum(g, [&taps[col], &taps[3 + col], &taps[6 + col]]);
        }
    }
    for row in 0..SEEN {
        let [x, y, z] = &half[row];
        for (col, g) in g.iter().enumerate() {
            all[row * SEEN + col] = sum(g, [x, y, z]);
        }
    }
    all
}

/// Where six by six packs stand among numbers, from the first one on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Square {
    /// Where rows begin, one after the other.
    rows: [usize; SEEN],
    /// From one column to the next.
    column: usize,
}

impl Square {
    /// Rows that are so many numbers apart, and columns.
    pub(crate) fn new(row: usize, column: usize) -> Square {
        let rows = std::array::from_fn(|i| i * row);
        Square { rows, column }
    }

    /// Packs side by side, in rows of so many.
    pub(crate) fn of_packs(stride: usize) -> Square {
        Square::new(stride * LANES, LANES)
    }
}

/// `Bt d B` of six by six packs of `x`; point `p` of the result goes to `v[p * spread]`.
///
/// # Panics
/// When a slice is too short.
pub(crate) fn input(isa: Isa, x: &[f32], square: Square, v: &mut [Pack], spread: usize) {
    let last = square.rows[SEEN - 1] + (SEEN - 1) * square.column;
    assert!(last + LANES <= x.len() && v.len() > (POINTS - 1) * spread);
    // SAFETY: the slices are long enough, and an `Isa` is one that this CPU has.
    unsafe { dispatch!(isa => input(x, square, v, spread)) }
}

/// `At m A` of the points at `m[p * spread]`.
///
/// # Panics
/// When `m` is too short.
pub(crate) fn output(isa: Isa, m: &[Pack], spread: usize, y: &mut [Pack; TILE * TILE]) {
    assert!(m.len() > (POINTS - 1) * spread);
    // SAFETY: as in `input`.
    unsafe { dispatch!(isa => output(m, spread, y)) }
}

/// `A y At`, the adjoint of [`output`]; point `p` of the result goes to `m[p * spread]`.
///
/// # Panics
/// When `m` is too short.
pub(crate) fn output_adjoint(isa: Isa, y: &[Pack; TILE * TILE], m: &mut [Pack], spread: usize) {
    assert!(m.len() > (POINTS - 1) * spread);
    // SAFETY: as in `input`.
    unsafe { dispatch!(isa => output_adjoint(y, m, spread)) }
}

/// `B v Bt`, the adjoint of [`input`], of the points at `v[p * spread]`.
///
/// # Panics
/// When `v` is too short.
pub(crate) fn input_adjoint(isa: Isa, v: &[Pack], spread: usize, x: &mut [Pack; POINTS]) {
    assert!(v.len() > (POINTS - 1) * spread);
    // SAFETY: as in `input`.
    unsafe { dispatch!(isa => input_adjoint(v, spread, x)) }
}

/// The transforms for one vector type: the same text for every instruction set.
macro_rules! transforms {
    (
        $isa:ident, $(#[$feature:meta])*, vector: $vector:ty, vectors: $n:expr,
        zero: $zero:expr, splat: $splat:expr, load: $load:expr, store: $store:expr,
        fma: $fma:expr, add: $add:expr, sub: $sub:expr, mul: $mul:expr, use $import:path
    ) => {
        mod $isa {
            use super::{A, A2, B, B2, POINTS, SEEN, Square, TILE};
            use crate::native::pack::{LANES, Pack};
            use $import::*;

            /// Number of vectors that make a pack, and floats in each.
            const N: usize = $n;
            const WIDTH: usize = LANES / N;

            type Vector = $vector;

            /// `Bt d`.
            $(#[$feature])*
            #[inline]
            fn seen_to_points(d: [Vector; SEEN]) -> [Vector; SEEN] {
                let (both, sum) = ($splat(A2 * B2), $splat(-(A2 + B2)));
                let (a, minus_a, minus_a2) = ($splat(A), $splat(-A), $splat(-A2));
                let (b, minus_b, minus_b2) = ($splat(B), $splat(-B), $splat(-B2));
                let (even_a, odd_a) = ($fma(minus_b2, d[2], d[4]), $fma(minus_b2, d[1], d[3]));
                let (even_b, odd_b) = ($fma(minus_a2, d[2], d[4]), $fma(minus_a2, d[1], d[3]));
                [
                    $fma(both, d[0], $fma(sum, d[2], d[4])),
                    $fma(a, odd_a, even_a),
                    $fma(minus_a, odd_a, even_a),
                    $fma(b, odd_b, even_b),
                    $fma(minus_b, odd_b, even_b),
                    $fma(both, d[1], $fma(sum, d[3], d[5])),
                ]
            }

            /// `B v`.
            $(#[$feature])*
            #[inline]
            fn points_to_seen(v: [Vector; SEEN]) -> [Vector; SEEN] {
                let (both, sum) = ($splat(A2 * B2), $splat(-(A2 + B2)));
                let (a, b) = ($splat(A), $splat(B));
                let (minus_a2, minus_b2) = ($splat(-A2), $splat(-B2));
                let (even_a, odd_a) = ($add(v[1], v[2]), $mul(a, $sub(v[1], v[2])));
                let (even_b, odd_b) = ($add(v[3], v[4]), $mul(b, $sub(v[3], v[4])));
                [
                    $mul(both, v[0]),
                    $fma(both, v[5], $fma(minus_b2, odd_a, $mul(minus_a2, odd_b))),
                    $fma(sum, v[0], $fma(minus_b2, even_a, $mul(minus_a2, even_b))),
                    $fma(sum, v[5], $add(odd_a, odd_b)),
                    $add(v[0], $add(even_a, even_b)),
                    v[5],
                ]
            }

            /// `At m`.
            $(#[$feature])*
            #[inline]
            fn points_to_tile(m: [Vector; SEEN]) -> [Vector; TILE] {
                let (a, a2) = ($splat(A), $splat(A2));
                let (b, b2) = ($splat(B), $splat(B2));
                let (even_a, odd_a) = ($add(m[1], m[2]), $mul(a, $sub(m[1], m[2])));
                let (even_b, odd_b) = ($add(m[3], m[4]), $mul(b, $sub(m[3], m[4])));
                [
                    $add(m[0], $add(even_a, even_b)),
                    $add(odd_a, odd_b),
                    $fma(a2, even_a, $mul(b2, even_b)),
                    $fma(a2, odd_a, $fma(b2, odd_b, m[5])),
                ]
            }

            /// `A y`.
            $(#[$feature])*
            #[inline]
            fn tile_to_points(y: [Vector; TILE]) -> [Vector; SEEN] {
                let (a, minus_a, a2) = ($splat(A), $splat(-A), $splat(A2));
                let (b, minus_b, b2) = ($splat(B), $splat(-B), $splat(B2));
                let (even_a, odd_a) = ($fma(a2, y[2], y[0]), $fma(a2, y[3], y[1]));
                let (even_b, odd_b) = ($fma(b2, y[2], y[0]), $fma(b2, y[3], y[1]));
                [
                    y[0],
                    $fma(a, odd_a, even_a),
                    $fma(minus_a, odd_a, even_a),
                    $fma(b, odd_b, even_b),
                    $fma(minus_b, odd_b, even_b),
                    y[3],
                ]
            }

            /// # Safety
            /// The instruction set must be present and all positions inside of the slices.
            $(#[$feature])*
            pub(super) unsafe fn input(x: &[f32], square: Square, v: &mut [Pack], spread: usize) {
                // SAFETY: every position is inside of the slices, the caller saw to it; a pack is
                // `N` vectors of `WIDTH` floats.
                unsafe {
                    for part in 0..N {
                        let x = x.as_ptr().add(part * WIDTH);
                        let v = v.as_mut_ptr().cast::<f32>().add(part * WIDTH);
                        let mut half = [[$zero; SEEN]; SEEN];
                        for col in 0..SEEN {
                            let mut d = [$zero; SEEN];
                            for row in 0..SEEN {
                                d[row] = $load(x.add(square.rows[row] + col * square.column));
                            }
                            let points = seen_to_points(d);
                            for row in 0..SEEN {
                                half[row][col] = points[row];
                            }
                        }
                        for row in 0..SEEN {
                            let points = seen_to_points(half[row]);
                            for col in 0..SEEN {
                                $store(v.add((row * SEEN + col) * spread * LANES), points[col]);
                            }
                        }
                    }
                }
            }

            /// # Safety
            /// As [`input`].
            $(#[$feature])*
            pub(super) unsafe fn input_adjoint(
                v: &[Pack], spread: usize, x: &mut [Pack; POINTS],
            ) {
                // SAFETY: as in `input`.
                unsafe {
                    for part in 0..N {
                        let v = v.as_ptr().cast::<f32>().add(part * WIDTH);
                        let x = x.as_mut_ptr().cast::<f32>().add(part * WIDTH);
                        let mut half = [[$zero; SEEN]; SEEN];
                        for col in 0..SEEN {
                            let mut points = [$zero; SEEN];
                            for row in 0..SEEN {
                                points[row] = $load(v.add((row * SEEN + col) * spread * LANES));
                            }
                            let d = points_to_seen(points);
                            for row in 0..SEEN {
                                half[row][col] = d[row];
                            }
                        }
                        for row in 0..SEEN {
                            let d = points_to_seen(half[row]);
                            for col in 0..SEEN {
                                $store(x.add((row * SEEN + col) * LANES), d[col]);
                            }
                        }
                    }
                }
            }

            /// # Safety
            /// As [`input`].
            $(#[$feature])*
            pub(super) unsafe fn output(m: &[Pack], spread: usize, y: &mut [Pack; TILE * TILE]) {
                // SAFETY: as in `input`.
                unsafe {
                    for part in 0..N {
                        let m = m.as_ptr().cast::<f32>().add(part * WIDTH);
                        let y = y.as_mut_ptr().cast::<f32>().add(part * WIDTH);
                        let mut half = [[$zero; SEEN]; TILE];
                        for col in 0..SEEN {
                            let mut points = [$zero; SEEN];
                            for row in 0..SEEN {
                                points[row] = $load(m.add((row * SEEN + col) * spread * LANES));
                            }
                            let tile = points_to_tile(points);
                            for row in 0..TILE {
                                half[row][col] = tile[row];
                            }
                        }
                        for row in 0..TILE {
                            let tile = points_to_tile(half[row]);
                            for col in 0..TILE {
                                $store(y.add((row * TILE + col) * LANES), tile[col]);
                            }
                        }
                    }
                }
            }

            /// # Safety
            /// As [`input`].
            $(#[$feature])*
            pub(super) unsafe fn output_adjoint(
                y: &[Pack; TILE * TILE], m: &mut [Pack], spread: usize,
            ) {
                // SAFETY: as in `input`.
                unsafe {
                    for part in 0..N {
                        let y = y.as_ptr().cast::<f32>().add(part * WIDTH);
                        let m = m.as_mut_ptr().cast::<f32>().add(part * WIDTH);
                        let mut half = [[$zero; TILE]; SEEN];
                        for col in 0..TILE {
                            let mut tile = [$zero; TILE];
                            for row in 0..TILE {
                                tile[row] = $load(y.add((row * TILE + col) * LANES));
                            }
                            let points = tile_to_points(tile);
                            for row in 0..SEEN {
                                half[row][col] = points[row];
                            }
                        }
                        for row in 0..SEEN {
                            let points = tile_to_points(half[row]);
                            for col in 0..SEEN {
                                $store(m.add((row * SEEN + col) * spread * LANES), points[col]);
                            }
                        }
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
transforms! {
    avx2, #[target_feature(enable = "avx2,fma")], vector: __m256, vectors: 2,
    zero: _mm256_setzero_ps(), splat: _mm256_set1_ps, load: _mm256_loadu_ps,
    store: _mm256_storeu_ps, fma: _mm256_fmadd_ps, add: _mm256_add_ps, sub: _mm256_sub_ps,
    mul: _mm256_mul_ps, use crate::native::vector::x86
}

#[cfg(target_arch = "x86_64")]
transforms! {
    avx512, #[target_feature(enable = "avx512f")], vector: __m512, vectors: 1,
    zero: _mm512_setzero_ps(), splat: _mm512_set1_ps, load: _mm512_loadu_ps,
    store: _mm512_storeu_ps, fma: _mm512_fmadd_ps, add: _mm512_add_ps, sub: _mm512_sub_ps,
    mul: _mm512_mul_ps, use crate::native::vector::x86
}

transforms! {
    portable, , vector: [f32; LANES], vectors: 1,
    zero: [0.0f32; LANES], splat: splat, load: load, store: store, fma: fma, add: add, sub: sub,
    mul: mul, use crate::native::vector::plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::pack::numbers;

    fn packs(count: usize, seed: usize) -> Vec<Pack> {
        let number = |i: usize| ((i * 7919 + seed * 104_729) % 1013) as f32 / 500.0 - 1.0;
        (0..count)
            .map(|i| Pack(std::array::from_fn(|l| number(i * LANES + l))))
            .collect()
    }

    fn array<const N: usize>(seed: usize) -> [Pack; N] {
        packs(N, seed).try_into().unwrap()
    }

    /// Every `spread`-th pack.
    fn points(all: &[Pack], spread: usize) -> Vec<Pack> {
        all.iter().step_by(spread).take(POINTS).copied().collect()
    }

    fn dot(a: &[Pack], b: &[Pack], lane: usize) -> f64 {
        let product = |(a, b): (&Pack, &Pack)| f64::from(a.0[lane]) * f64::from(b.0[lane]);
        a.iter().zip(b).map(product).sum()
    }

    #[test]
    fn a_tile_is_a_convolution() {
        let (stride, spread) = (9, 3);
        let x = packs(5 * stride + SEEN, 1);
        let taps: [f64; 9] = std::array::from_fn(|i| (i * i) as f64 / 20.0 - 1.0);
        for isa in Isa::available() {
            let mut v = packs(POINTS * spread, 2);
            input(isa, numbers(&x), Square::of_packs(stride), &mut v, spread);
            for (v, [w]) in v
                .iter_mut()
                .step_by(spread)
                .zip(weights(&taps.map(|tap| [tap])))
            {
                *v = v.map(|v| v * w as f32);
            }
            let mut y = array(3);
            output(isa, &v, spread, &mut y);
            for (i, y) in y.iter().enumerate() {
                for (lane, &y) in y.0.iter().enumerate() {
                    let product = |tap: usize| {
                        let at = (i / TILE + tap / 3) * stride + i % TILE + tap % 3;
                        f64::from(x[at].0[lane]) * taps[tap]
                    };
                    let expected: f64 = (0..9).map(product).sum();
                    assert!((f64::from(y) - expected).abs() < 1e-5, "{isa:?}");
                }
            }
        }
    }

    /// An adjoint is defined by `<a, F(b)> = <F'(a), b>`.
    #[test]
    fn adjoints_are_adjoint() {
        let spread = 2;
        for isa in Isa::available() {
            let (m, y) = (packs(POINTS * spread, 4), array(5));
            let (mut there, mut back) = (array(6), packs(POINTS * spread, 7));
            output(isa, &m, spread, &mut there);
            output_adjoint(isa, &y, &mut back, spread);
            let (v, x) = (packs(POINTS * spread, 8), packs(POINTS, 9));
            let (mut seen, mut transformed) = (array(10), packs(POINTS * spread, 11));
            input_adjoint(isa, &v, spread, &mut seen);
            input(
                isa,
                numbers(&x),
                Square::of_packs(SEEN),
                &mut transformed,
                spread,
            );
            for lane in 0..LANES {
                let of_output = dot(&points(&m, spread), &points(&back, spread), lane);
                assert!((dot(&y, &there, lane) - of_output).abs() < 1e-3, "{isa:?}");
                let of_input = dot(&points(&v, spread), &points(&transformed, spread), lane);
                assert!((dot(&x, &seen, lane) - of_input).abs() < 1e-3, "{isa:?}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "last + LANES <= x.len()")]
    fn slices_that_are_too_short_panic() {
        input(
            Isa::detect(),
            numbers(&packs(POINTS, 1)),
            Square::of_packs(SEEN + 1),
            &mut array::<POINTS>(2),
            1,
        );
    }
}
