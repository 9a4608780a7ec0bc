//! Rows become columns: a matrix is turned sixteen by sixteen numbers at a time, in registers.

#![allow(unsafe_code)]

use npcov_cpu::{Isa, dispatch};

/// Numbers that stand in rows, so many apart from one row to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// From one row to the next.
    pub(crate) pitch: usize,
}

/// Sets `y[c * pitch + r]` to `x[r][c]`, for each row and column of `x`.
///
/// # Panics
/// When a number of `x` or its place in `y` does not exist.
pub(crate) fn turn(x: &[f32], matrix: Matrix, y: &mut [f32], pitch: usize) {
    let Matrix { rows, cols, .. } = matrix;
    if rows == 0 || cols == 0 {
        return;
    }
    assert!((rows - 1) * matrix.pitch + cols <= x.len());
    assert!((cols - 1) * pitch + rows <= y.len());
    // SAFETY: the assertions are the bounds that the kernels rely on, and an `Isa` is one that this CPU
    // has.
    unsafe { dispatch!(Isa::detect() => turn(x, matrix, y, pitch)) }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::Matrix;
    use crate::native::pack::LANES;
    use std::arch::x86_64::*;

    /// # Safety
    /// The CPU must have AVX-512F, and `x` and `y` all numbers of the matrix.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn turn(x: &[f32], matrix: Matrix, y: &mut [f32], pitch: usize) {
        for row in (0..matrix.rows).step_by(LANES) {
            for col in (0..matrix.cols).step_by(LANES) {
                let rows = (matrix.rows - row).min(LANES);
                let cols = (matrix.cols - col).min(LANES);
                // SAFETY: the corner is a number of the matrix, and so is what lies within the rows
                // and columns behind it.
                unsafe {
                    let from = x.as_ptr().add(row * matrix.pitch + col);
                    let to = y.as_mut_ptr().add(col * pitch + row);
                    square(from, (rows, cols), matrix.pitch, to, pitch);
                }
            }
        }
    }

    /// Up to sixteen rows of up to sixteen numbers.
    ///
    /// # Safety
    /// As [`turn`], for `rows` of `cols` numbers.
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn square(
        from: *const f32,
        (rows, cols): (usize, usize),
        x_pitch: usize,
        to: *mut f32,
        y_pitch: usize,
    ) {
        let low = |count: usize| ((1u32 << count) - 1) as __mmask16;
        let mut x = [_mm512_setzero_ps(); LANES];
        for (r, x) in x.iter_mut().enumerate() {
            if r < rows {
                // SAFETY: the row exists, and columns that do not are masked.
                *x = unsafe { _mm512_maskz_loadu_ps(low(cols), from.add(r * x_pitch)) };
            }
        }
        // Within each quarter of 128 bits: pairs of rows, then pairs of pairs.
        let mut pairs = x;
        for i in 0..8 {
            pairs[2 * i] = _mm512_unpacklo_ps(x[2 * i], x[2 * i + 1]);
            pairs[2 * i + 1] = _mm512_unpackhi_ps(x[2 * i], x[2 * i + 1]);
        }
        let mut fours = pairs;
        for i in 0..4 {
            let [a, b, c, d] = [0, 1, 2, 3].map(|j| _mm512_castps_pd(pairs[4 * i + j]));
            fours[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
            fours[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
            fours[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
            fours[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
        }
        // `fours[4 i + j]` has column `4 q + j` of rows `4 i ..` in quarter `q`: quarters change places.
        let mut y = fours;
        for j in 0..4 {
            let [a, b, c, d] = [fours[j], fours[4 + j], fours[8 + j], fours[12 + j]];
            let even = [
                _mm512_shuffle_f32x4::<0x88>(a, b),
                _mm512_shuffle_f32x4::<0x88>(c, d),
            ];
            let odd = [
                _mm512_shuffle_f32x4::<0xdd>(a, b),
                _mm512_shuffle_f32x4::<0xdd>(c, d),
            ];
            y[j] = _mm512_shuffle_f32x4::<0x88>(even[0], even[1]);
            y[8 + j] = _mm512_shuffle_f32x4::<0xdd>(even[0], even[1]);
            y[4 + j] = _mm512_shuffle_f32x4::<0x88>(odd[0], odd[1]);
            y[12 + j] = _mm512_shuffle_f32x4::<0xdd>(odd[0], odd[1]);
        }
        for (c, y) in y.iter().enumerate() {
            if c < cols {
                // SAFETY: the column exists, and rows that do not are masked.
                unsafe { _mm512_mask_storeu_ps(to.add(c * y_pitch), low(rows), *y) };
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
use portable as avx2;

mod portable {
    use super::Matrix;

    /// # Safety
    /// None: it is a name among others that have some.
    pub(super) unsafe fn turn(x: &[f32], matrix: Matrix, y: &mut [f32], pitch: usize) {
        for row in 0..matrix.rows {
            let x = &x[row * matrix.pitch..][..matrix.cols];
            for (y, x) in y[row..].iter_mut().step_by(pitch).zip(x) {
                *y = *x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns() {
        for (rows, cols) in [(1, 1), (5, 16), (16, 3), (16, 16), (17, 40), (35, 31)] {
            let matrix = Matrix {
                rows,
                cols,
                pitch: cols + 3,
            };
            let pitch = rows + 2;
            let x: Vec<f32> = (0..rows * matrix.pitch).map(|i| i as f32).collect();
            let mut y = vec![-1.0; cols * pitch];
            turn(&x, matrix, &mut y, pitch);
            for (i, &y) in y.iter().enumerate() {
                let (c, r) = (i / pitch, i % pitch);
                let expected = match r < rows {
                    true => x[r * matrix.pitch + c],
                    false => -1.0,
                };
                assert_eq!(y, expected, "{rows} {cols}: {r} {c}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "<= x.len()")]
    fn rows_that_are_not_there_panic() {
        let matrix = Matrix {
            rows: 2,
            cols: 2,
            pitch: 3,
        };
        turn(&[0.0; 4], matrix, &mut [0.0; 4], 2);
    }
}
