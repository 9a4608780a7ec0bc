//! Scalar products of rows of 16-bit numbers.
//!
//! CPUs have an instruction that multiplies pairs of such numbers and adds up both products. Compilers find it in
//! plain loops only for vectors of half the width, and load every number anew for each product; here it is
//! written out, for several rows at a time.

/// The scalar products of each row of `a` with each row of `b`, modulo 2^32: first those of the first row of
/// `a`. Rows have `width` numbers each and stand one after the other; `out` has a place for each product.
///
/// ```
/// let mut out = [0; 2];
/// npcov_cpu::products(&[1, 2], &[3, 4, -5, 6], 2, &mut out);
/// assert_eq!(out, [11, 7]);
/// ```
///
/// # Panics
/// Where the lengths do not fit.
pub fn products(a: &[i16], b: &[i16], width: usize, out: &mut [i32]) {
    let rows = |numbers: &[i16]| match width {
        0 => 0,
        width => numbers.len() / width,
    };
    let (m, n) = (rows(a), rows(b));
    assert!(a.len() == m * width && b.len() == n * width && out.len() == m * n);
    if m == 0 || n == 0 {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if crate::Cpu::this().avx2 {
        // SAFETY: the CPU has the instructions.
        return unsafe { avx2::products(a, b, width, out) };
    }
    plain(a, b, width, out);
}

/// What products are.
fn plain(a: &[i16], b: &[i16], width: usize, out: &mut [i32]) {
    for (a, out) in a
        .chunks_exact(width)
        .zip(out.chunks_exact_mut(b.len() / width))
    {
        for (b, out) in b.chunks_exact(width).zip(out) {
            *out = product(a, b);
        }
    }
}

fn product(a: &[i16], b: &[i16]) -> i32 {
    let products = a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b));
    products.fold(0, i32::wrapping_add)
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm_add_epi32, _mm_cvtsi128_si32, _mm_shuffle_epi32, _mm256_add_epi32,
        _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_madd_epi16,
        _mm256_setzero_si256,
    };
    use std::array;

    /// Numbers of a vector.
    const LANES: usize = 16;

    /// Rows of each side whose products are added up side by side: their sums, and a vector of each, fit into
    /// the registers.
    const A: usize = 2;
    const B: usize = 4;

    #[target_feature(enable = "avx2")]
    pub(super) fn products(a: &[i16], b: &[i16], width: usize, out: &mut [i32]) {
        let n = b.len() / width;
        let whole = n - n % B;
        for (a, out) in a.chunks(A * width).zip(out.chunks_mut(A * n)) {
            for (b, start) in b.chunks(B * width).zip((0..n).step_by(B)) {
                if a.len() == A * width && start < whole {
                    tile::<A, B>(a, b, width, &mut out[start..], n);
                } else {
                    for (a, out) in a.chunks_exact(width).zip(out.chunks_exact_mut(n)) {
                        for (b, out) in b.chunks_exact(width).zip(&mut out[start..]) {
                            tile::<1, 1>(a, b, width, std::slice::from_mut(out), 1);
                        }
                    }
                }
            }
        }
    }

    /// The products of `M` rows with `N` rows, the first ones of `out` every `stride` numbers.
    #[target_feature(enable = "avx2")]
    fn tile<const M: usize, const N: usize>(
        a: &[i16],
        b: &[i16],
        width: usize,
        out: &mut [i32],
        stride: usize,
    ) {
        let a: [&[i16]; M] = array::from_fn(|i| &a[i * width..][..width]);
        let b: [&[i16]; N] = array::from_fn(|j| &b[j * width..][..width]);
        let (a_whole, b_whole) = (
            a.map(|row| row.as_chunks().0),
            b.map(|row| row.as_chunks().0),
        );
        let vectors = width / LANES;
        // As slices of one known length, so that places in them need no check.
        let a_whole = a_whole.map(|row| &row[..vectors]);
        let b_whole = b_whole.map(|row| &row[..vectors]);
        let mut sums = [[_mm256_setzero_si256(); N]; M];
        for place in 0..vectors {
            let a: [__m256i; M] = array::from_fn(|i| load(&a_whole[i][place]));
            for j in 0..N {
                let b = load(&b_whole[j][place]);
                for i in 0..M {
                    sums[i][j] = _mm256_add_epi32(sums[i][j], _mm256_madd_epi16(a[i], b));
                }
            }
        }
        for i in 0..M {
            for j in 0..N {
                let rest = super::product(&a[i][vectors * LANES..], &b[j][vectors * LANES..]);
                out[i * stride + j] = sum(sums[i][j]).wrapping_add(rest);
            }
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn load(numbers: &[i16; LANES]) -> __m256i {
        // SAFETY: there are as many bytes as are read.
        unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn sum(numbers: __m256i) -> i32 {
        let four = _mm_add_epi32(
            _mm256_castsi256_si128(numbers),
            _mm256_extracti128_si256::<1>(numbers),
        );
        let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
        _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All sizes around those of tiles and vectors, with numbers whose sums go beyond 32 bits.
    #[test]
    fn products_are_those_of_the_definition() {
        let number = |i: usize| (i.wrapping_mul(0x9e37_79b9) >> 8) as i16;
        for width in [1, 2, 15, 16, 17, 31, 32, 33, 100] {
            for (m, n) in [
                (0, 3),
                (1, 1),
                (1, 4),
                (2, 4),
                (2, 5),
                (3, 3),
                (3, 9),
                (5, 8),
            ] {
                let a: Vec<i16> = (0..m * width).map(number).collect();
                let b: Vec<i16> = (0..n * width).map(|i| number(i + 1000)).collect();
                let mut found = vec![-1; m * n];
                products(&a, &b, width, &mut found);
                let mut expected = vec![0; m * n];
                plain(&a, &b, width, &mut expected);
                assert_eq!(found, expected, "{m} x {n} of {width}");
            }
        }
        let largest = vec![i16::MIN; 1 << 10];
        let mut found = [0];
        products(&largest, &largest, 1 << 10, &mut found);
        // 2^30 * 2^10.
        assert_eq!(found, [0]);
    }

    #[test]
    fn rows_of_no_numbers_are_none() {
        products(&[], &[], 0, &mut []);
    }

    #[test]
    #[should_panic(expected = "a.len() == m * width")]
    fn lengths_must_fit() {
        products(&[1, 2, 3], &[1, 2], 2, &mut [0]);
    }
}
