//! Comparisons of fractions and of sums of fractions, without rounding.

use std::cmp::Ordering;

/// A numerator, and what its denominator is the square of.
pub(crate) type OverSquare = (i128, u32);

/// Compares `a.0 / a.1^2` with `b.0 / b.1^2`.
///
/// After the whole parts the remainders are less than 2^64, so that their products with the other
/// denominator fit.
pub(crate) fn compare_over_squares(a: OverSquare, b: OverSquare) -> Ordering {
    let (a_square, b_square) = (i128::from(a.1).pow(2), i128::from(b.1).pow(2));
    let whole = a.0.div_euclid(a_square).cmp(&b.0.div_euclid(b_square));
    let a_rest = a.0.rem_euclid(a_square) as u128;
    let b_rest = b.0.rem_euclid(b_square) as u128;
    whole.then_with(|| (a_rest * b_square as u128).cmp(&(b_rest * a_square as u128)))
}

/// Compares the sums of two lists of fractions `n / d`.
///
/// After the whole parts the fractions are written out in base 2^32, one digit of all of them at a
/// time. With `gap` the difference of the sums so far, in units of the last digit, what is still
/// to come adds less than one unit per fraction. If the sums differ, they do so by at least one
/// over the product of all denominators; so after enough digits they are known to be equal.
pub(super) fn compare_sums(a: &[(u128, u32)], b: &[(u128, u32)]) -> Ordering {
    let mut gap = 0;
    let mut rests = Vec::with_capacity(a.len() + b.len());
    let mut bits = u64::from((a.len() + b.len()).max(1).ilog2()) + 1;
    for (fractions, sign) in [(a, 1), (b, -1)] {
        for &(n, d) in fractions {
            gap += sign * (n / u128::from(d)) as i128;
            rests.push((sign, (n % u128::from(d)) as u64, u64::from(d)));
            bits += u64::from(d.ilog2()) + 1;
        }
    }
    for _ in 0..=bits.div_ceil(32) {
        if gap >= b.len().max(1) as i128 {
            return Ordering::Greater;
        }
        if gap <= -(a.len().max(1) as i128) {
            return Ordering::Less;
        }
        gap <<= 32;
        for (sign, rest, d) in &mut rests {
            *rest <<= 32;
            gap += *sign * i128::from(*rest / *d);
            *rest %= *d;
        }
    }
    Ordering::Equal
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Over the product of all denominators, which must be small.
    fn compare_by_products(a: &[(u128, u32)], b: &[(u128, u32)]) -> Ordering {
        let product: u128 = a.iter().chain(b).map(|f| u128::from(f.1)).product();
        let sum = |list: &[(u128, u32)]| -> u128 {
            list.iter()
                .map(|&(n, d)| n * (product / u128::from(d)))
                .sum()
        };
        sum(a).cmp(&sum(b))
    }

    fn fractions() -> impl Strategy<Value = Vec<(u128, u32)>> {
        prop::collection::vec((0..40u128, 1..12u32), 0..6)
    }

    proptest! {
        #[test]
        fn sums_compare_as_over_a_common_denominator(a in fractions(), b in fractions()) {
            prop_assert_eq!(compare_sums(&a, &b), compare_by_products(&a, &b));
        }

        #[test]
        fn fractions_compare_as_by_products(
            a in -1000..1000i128, n in 1..40u32, b in -1000..1000i128, m in 1..40u32,
        ) {
            let products = (a * i128::from(m * m)).cmp(&(b * i128::from(n * n)));
            prop_assert_eq!(compare_over_squares((a, n), (b, m)), products);
        }
    }

    #[test]
    fn sums_that_differ_beyond_f64_are_told_apart() {
        let (p, q) = (4_294_967_291, 4_294_967_279);
        // (p-1)/p and (q-1)/q: the first is larger, by 6.5e-19.
        let (a, b) = ((u128::from(p) - 1, p), (u128::from(q) - 1, q));
        assert_eq!(compare_sums(&[a, b], &[a, a]), Ordering::Less);
        assert_eq!(compare_sums(&[a, a], &[a, b]), Ordering::Greater);
        assert_eq!(compare_sums(&[a, b], &[b, a]), Ordering::Equal);
        assert_eq!(
            compare_sums(&[(1, 2), (1, 3), (1, 6)], &[(1, 1)]),
            Ordering::Equal
        );
    }

    #[test]
    fn the_largest_fractions_do_not_overflow() {
        let n = i128::from(u32::MAX).pow(2) * (1 << 20) - 1;
        let (a, b) = ((n, u32::MAX), (n - 1, u32::MAX - 1));
        assert_eq!(compare_over_squares(a, b), Ordering::Less);
        assert_eq!(compare_over_squares(a, a), Ordering::Equal);
    }
}
