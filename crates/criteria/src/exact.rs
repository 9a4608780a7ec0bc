//! Sums that do not depend on their order.
//!
//! Numbers are rounded to a multiple of 2^-64 one by one, and the multiples are added as whole
//! numbers: no addition rounds, so any order and any grouping gives the same sum.

const POINT: f64 = (1u128 << 64) as f64;

/// The largest size of a number. Sums of 2^32 such numbers fit.
const LARGEST: f64 = (1u64 << 31) as f64;

/// A number in fixed point. What is larger than 2^31 is taken as 2^31, and NaN as 0.
pub fn fixed(number: f64) -> i128 {
    (number.clamp(-LARGEST, LARGEST) * POINT) as i128
}

/// A number or sum as it was before.
pub fn float(fixed: i128) -> f64 {
    fixed as f64 / POINT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_order_gives_the_same_sum() {
        let numbers = [1e9, 1e-9, -1e9, 3.5e-12, 0.1, f64::from(f32::MIN_POSITIVE)];
        let sum = |numbers: &[f64]| numbers.iter().map(|&n| fixed(n)).sum::<i128>();
        let mut reversed = numbers;
        reversed.reverse();
        assert_eq!(sum(&numbers), sum(&reversed));
        assert!((float(sum(&numbers)) - (1e-9 + 3.5e-12 + 0.1)).abs() < 1e-17);
    }

    #[test]
    fn what_is_no_number_adds_nothing() {
        assert_eq!((fixed(f64::NAN), fixed(-1.0)), (0, -(1i128 << 64)));
        assert_eq!(float(fixed(f64::INFINITY)), LARGEST);
    }
}
