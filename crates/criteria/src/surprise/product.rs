//! Products of matrices whose rows lie one after the other.
//!
//! An element of a product is a sum over the inner length in an order that only goes by that
//! length, so it is the same bits wherever its row is among the others: whoever needs that calls
//! with the same number of rows each time, which leaves nothing to the ways of the library.

#![allow(unsafe_code, reason = "the library takes pointers")]

use matrixmultiply::{dgemm, sgemm};

/// The products of each row of `a` with each row of `b`, of `width` numbers each.
pub(super) fn rows_f32(a: &[f32], b: &[f32], width: usize, out: &mut [f32]) {
    let (m, n) = (a.len() / width.max(1), b.len() / width.max(1));
    assert!(a.len() == m * width && b.len() == n * width && out.len() == m * n);
    let (row, n_row) = (width as isize, n as isize);
    // SAFETY: `a` has m rows of `width`, `b` n such rows (read as columns), `out` m rows of n; no
    // slice is longer than `isize::MAX`, and `out` is borrowed alone.
    unsafe {
        let (a, b, c) = (a.as_ptr(), b.as_ptr(), out.as_mut_ptr());
        sgemm(m, width, n, 1.0, a, row, 1, b, 1, row, 0.0, c, n_row, 1);
    }
}

/// The products of each row of `a` with each row of `b`, of `width` numbers each.
pub(super) fn rows(a: &[f64], b: &[f64], width: usize, out: &mut [f64]) {
    let (m, n) = (a.len() / width.max(1), b.len() / width.max(1));
    assert!(a.len() == m * width && b.len() == n * width && out.len() == m * n);
    let (row, n_row) = (width as isize, n as isize);
    // SAFETY: as above.
    unsafe {
        let (a, b, c) = (a.as_ptr(), b.as_ptr(), out.as_mut_ptr());
        dgemm(m, width, n, 1.0, a, row, 1, b, 1, row, 0.0, c, n_row, 1);
    }
}

/// The products of each row of `a` with each column of the square matrix `b` of that size.
pub(super) fn columns(a: &[f64], b: &[f64], size: usize, out: &mut [f64]) {
    let m = a.len() / size.max(1);
    assert!(a.len() == m * size && b.len() == size * size && out.len() == m * size);
    let row = size as isize;
    // SAFETY: `a` and `out` have m rows of `size`, `b` has `size` such rows; `out` is borrowed
    // alone.
    unsafe {
        let (a, b, c) = (a.as_ptr(), b.as_ptr(), out.as_mut_ptr());
        dgemm(m, size, size, 1.0, a, row, 1, b, row, 1, 0.0, c, row, 1);
    }
}

/// Adds the products of each column of `a` with each other one to the square matrix `out`.
pub(super) fn add_squares(a: &[f64], width: usize, out: &mut [f64]) {
    let k = a.len() / width.max(1);
    assert!(a.len() == k * width && out.len() == width * width);
    let row = width as isize;
    // SAFETY: `a` has k rows of `width`, read once as columns, `out` is `width` x `width` and
    // borrowed alone.
    unsafe {
        let (a, c) = (a.as_ptr(), out.as_mut_ptr());
        dgemm(width, k, width, 1.0, a, 1, row, a, row, 1, 1.0, c, row, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(m: usize, k: usize, n: usize, term: impl Fn(usize, usize, usize) -> f64) -> Vec<f64> {
        let element = |at: usize| (0..k).map(|l| term(at / n, l, at % n)).sum();
        (0..m * n).map(element).collect()
    }

    proptest! {
        #[test]
        fn products_are_sums_of_products(
            (m, k, n) in (1usize..12, 1usize..20, 1usize..12),
            numbers in prop::collection::vec(-8i8..8, 400),
        ) {
            // Small whole numbers: every order of summation is exact.
            let a: Vec<f64> = numbers.iter().map(|&x| f64::from(x)).collect();
            let (x, y) = (&a[..m * k], &a[100..100 + n * k]);
            let mut out = vec![f64::NAN; m * n];
            rows(x, y, k, &mut out);
            let expected = naive(m, k, n, |i, l, j| x[i * k + l] * y[j * k + l]);
            prop_assert_eq!(&out, &expected);

            let single = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<f32>>();
            let mut short = vec![f32::NAN; m * n];
            rows_f32(&single(x), &single(y), k, &mut short);
            prop_assert_eq!(short, single(&expected));

            let square = &a[..k * k];
            let mut out = vec![f64::NAN; m * k];
            columns(x, square, k, &mut out);
            let expected = naive(m, k, k, |i, l, j| x[i * k + l] * square[l * k + j]);
            prop_assert_eq!(&out, &expected);

            let mut out = vec![1.0; k * k];
            add_squares(x, k, &mut out);
            let expected = naive(k, m, k, |i, l, j| x[l * k + i] * x[l * k + j]);
            let expected: Vec<f64> = expected.iter().map(|x| x + 1.0).collect();
            prop_assert_eq!(out, expected);
        }
    }
}
