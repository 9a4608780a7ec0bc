//! The error function, which Rust's standard library does not have.

use std::f64::consts::PI;

/// `erf(x) = 2/sqrt(pi) * integral of exp(-t^2) from 0 to x`, to about 1e-15.
///
/// Near zero the series `2/sqrt(pi) exp(-x^2) sum_n 2^n x^(2n+1) / (1 3 5 ... (2n+1))` converges
/// fast and all its terms have one sign, so nothing cancels. Further out its complement is small
/// and comes from the continued fraction (see [`erfc_fraction`]).
pub(super) fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a < 3.0 {
        let mut term = x;
        let mut sum = x;
        let mut n = 0.0;
        // The ratio of terms falls below 1/2 after n = 18; NaN ends the loop at once.
        while term.abs() > 1e-17 * sum.abs() {
            n += 1.0;
            term *= 2.0 * x * x / (2.0 * n + 1.0);
            sum += term;
        }
        2.0 / PI.sqrt() * (-x * x).exp() * sum
    } else if a < 6.0 {
        (1.0 - erfc_fraction(a)).copysign(x)
    } else {
        // The complement is below 2.2e-17; NaN stays what it is.
        x.signum()
    }
}

/// `1 + erf(x)`, accurate relative to itself also where `erf(x)` is close to -1.
pub(super) fn one_plus_erf(x: f64) -> f64 {
    if x < -2.0 {
        erfc_fraction(-x)
    } else {
        1.0 + erf(x)
    }
}

/// `1 - erf(x)` for `x >= 2`, by Laplace's continued fraction
/// `exp(-x^2)/sqrt(pi) * 1/(x + (1/2)/(x + 1/(x + (3/2)/(x + ...))))`, evaluated from the inside.
fn erfc_fraction(x: f64) -> f64 {
    let tail = (1..=80)
        .rev()
        .fold(x, |tail, k| x + 0.5 * f64::from(k) / tail);
    (-x * x).exp() / (PI.sqrt() * tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `x`, `math.erf(x)` and `math.erfc(x)` of Python 3.
    const TABLE: [(f64, f64, f64); 10] = [
        (0.0, 0.0, 1.0),
        (1e-10, 1.1283791670955126e-10, 0.999999999887162),
        (0.1, 0.1124629160182849, 0.8875370839817152),
        (1.0, 0.8427007929497149, 0.15729920705028513),
        (2.0, 0.9953222650189527, 0.004677734981047265),
        (2.5, 0.999593047982555, 0.0004069520174449589),
        (2.999, 0.9999777698314002, 2.2230168599834058e-05),
        (3.0, 0.9999779095030014, 2.2090496998585438e-05),
        (5.0, 0.9999999999984626, 1.5374597944280351e-12),
        (10.0, 1.0, 2.088487583762545e-45),
    ];

    #[test]
    fn agrees_with_the_c_library() {
        for (x, expected, complement) in TABLE {
            assert!((erf(x) - expected).abs() <= 1e-14 * expected, "erf({x})");
            assert_eq!(erf(-x), -erf(x));
            let small = one_plus_erf(-x);
            assert!((small - complement).abs() <= 1e-12 * complement, "{x}");
        }
    }

    #[test]
    fn limits_and_nan() {
        assert_eq!(erf(f64::INFINITY), 1.0);
        assert_eq!(erf(f64::NEG_INFINITY), -1.0);
        assert!(erf(f64::NAN).is_nan());
        assert!(one_plus_erf(f64::NAN).is_nan());
    }
}
