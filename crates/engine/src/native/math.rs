//! Transcendental functions that vectorise: no branch, no table, no library call.
//!
//! Loops over packs that call these become vector code, which calls into a system's library never
//! do. Being our own, they also give the same bits on every platform: additions and multiplications
//! are fused or not as it is written here. Errors are a few units in the last place; the tests hold
//! them against `f64`.

/// Adding it moves the integer part of a small number into the low bits of the mantissa, rounded
/// to nearest: `1.5 * 2^23`.
const ROUNDER: f32 = 12_582_912.0;

/// `2^n` for `-126 <= n <= 127`, and zero for `n = -127`; `n` given with [`ROUNDER`] added.
#[inline(always)]
fn power_of_two(rounded: f32) -> f32 {
    f32::from_bits(rounded.to_bits().wrapping_sub(ROUNDER.to_bits() - 127) << 23)
}

/// A polynomial by Horner's rule, the coefficient of the highest power first.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[0];
    for &coefficient in &coefficients[1..] {
        sum = sum.mul_add(x, coefficient);
    }
    sum
}

/// `e^x`.
///
/// With `n = round(x / ln 2)` and `r = x - n ln 2`, `e^x = 2^n e^r` and `|r| <= 0.35`. There the
/// polynomial of `e^r`, whose two lowest coefficients are those of the series and whose others make the
/// largest error smallest, is off by 3e-9. At the ends of the range `2^n` is zero, or `r` goes on
/// growing, so that zero and infinity come out.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Comparisons with NaN are false: it passes through.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -88.0 { -88.0 } else { x };
    let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUNDER);
    let rounded = match rounded > ROUNDER + 127.0 {
        true => ROUNDER + 127.0,
        false => rounded,
    };
    let n = rounded - ROUNDER;
    // ln 2 in two parts: n times the first is exact.
    let r = n.mul_add(-0.693_359_4, x);
    let r = n.mul_add(2.121_944_4e-4, r);
    let power = polynomial(
        r,
        [
            1.381_456e-3,
            8.368_736e-3,
            0.041_668_39,
            0.166_665_21,
            0.499_999_94,
            1.0,
            1.0,
        ],
    );
    power * power_of_two(rounded)
}

/// Natural logarithm.
///
/// With `x = 2^n m`, `sqrt(1/2) <= m < sqrt(2)` and `s = (m - 1) / (m + 1)`,
/// `ln x = n ln 2 + 2 (s + s^3/3 + s^5/5 + ...)`, `|s| <= 0.172`, and `s^11` is below `1e-8`.
#[inline(always)]
pub(crate) fn ln(x: f32) -> f32 {
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits();
    // Subtracting the bits of sqrt(1/2) makes the exponent count from there.
    let above = bits.wrapping_sub(0x3f35_04f3);
    let n = (above as i32) >> 23;
    let m = f32::from_bits(bits.wrapping_sub((n as u32) << 23));
    let n = n as f32 - if tiny { 23.0 } else { 0.0 };
    let s = (m - 1.0) / (m + 1.0);
    let s2 = s * s;
    let series =
        2.0 * s * (1.0 + s2 * (1.0 / 3.0 + s2 * (0.2 + s2 * (1.0 / 7.0 + s2 * (1.0 / 9.0)))));
    let y = n * -2.121_944_4e-4 + series + n * 0.693_359_4;
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x < 0.0 || x.is_nan() { f32::NAN } else { y }
}

/// `x^y` for positive `x`.
#[inline(always)]
pub(crate) fn powf(x: f32, y: f32) -> f32 {
    exp(y * ln(x))
}

/// `e^x - 1`, without cancellation near zero.
#[inline(always)]
pub(crate) fn exp_m1(x: f32) -> f32 {
    let series = x
        * (1.0
            + x * (0.5
                + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x * (1.0 / 120.0 + x * (1.0 / 720.0))))));
    if x.abs() < 0.25 { series } else { exp(x) - 1.0 }
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Hyperbolic tangent: `(1 - e) / (1 + e)` with `e = e^(-2|x|)`, and near zero, where that cancels,
/// the series.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let e = exp(-2.0 * x.abs());
    let far = ((1.0 - e) / (1.0 + e)).copysign(x);
    let x2 = x * x;
    let near = x
        * (1.0
            + x2 * (-1.0 / 3.0 + x2 * (2.0 / 15.0 + x2 * (-17.0 / 315.0 + x2 * (62.0 / 2835.0)))));
    if x.abs() < 0.25 { near } else { far }
}

/// `ln(1 + e^x)`, which is `max(x, 0) + ln(1 + e^-|x|)`.
#[inline(always)]
pub(crate) fn softplus(x: f32) -> f32 {
    // NaN is not below zero, and stays.
    let positive = if x < 0.0 { 0.0 } else { x };
    positive + ln(1.0 + exp(-x.abs()))
}

/// Error function: `x p(x^2) / q(x^2)`, where the largest error relative to it, 6e-8, is smallest; from 3.92 on
/// it is 1 within half a unit in the last place.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let x2 = x * x;
    let p = polynomial(
        x2,
        [
            1.960_331_3e-8,
            -1.950_875_2e-6,
            1.438_094_8e-4,
            3.807_895_6e-3,
            0.050_923_448,
            0.202_584_53,
            std::f32::consts::FRAC_2_SQRT_PI,
        ],
    );
    let q = polynomial(
        x2,
        [9.798_56e-4, 0.014_575_869, 0.116_095_155, 0.512_867_4, 1.0],
    );
    let near = x * p / q;
    // NaN is not beyond, and passes through.
    if x.abs() >= 3.92 {
        1.0_f32.copysign(x)
    } else {
        near
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points over the whole range where `f` is neither zero nor infinite.
    fn points(low: f32, high: f32) -> impl Iterator<Item = f32> {
        (0..=20_000).map(move |i| low + (high - low) * (i as f32 / 20_000.0))
    }

    fn worst(
        low: f32,
        high: f32,
        f: impl Fn(f32) -> f32,
        exact: impl Fn(f64) -> f64,
        relative: bool,
    ) -> f64 {
        points(low, high)
            .map(|x| {
                let expected = exact(f64::from(x));
                let error = (f64::from(f(x)) - expected).abs();
                if relative {
                    error / expected.abs().max(1e-30)
                } else {
                    error
                }
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn functions_are_close_to_double_precision() {
        assert!(worst(-87.0, 88.0, exp, f64::exp, true) < 3e-7);
        assert!(worst(1e-3, 50.0, ln, f64::ln, false) < 4e-7);
        assert!(worst(1e30, 3e38, ln, f64::ln, true) < 2e-7);
        assert!(worst(-12.0, 12.0, tanh, f64::tanh, true) < 4e-7);
        assert!(worst(-3.0, 3.0, exp_m1, f64::exp_m1, true) < 6e-7);
        assert!(worst(-30.0, 30.0, sigmoid, |x| 1.0 / (1.0 + (-x).exp()), true) < 4e-7);
        assert!(worst(-30.0, 30.0, softplus, |x| x.exp().ln_1p(), false) < 1e-6);
        let gelu = |x: f32| 0.5 * x * (1.0 + erf(x / std::f32::consts::SQRT_2));
        let definition = |x: f32| npcov_graph::op::Unary::Gelu { tanh: false }.apply(x);
        assert!(worst(-6.0, 6.0, gelu, |x| f64::from(definition(x as f32)), false) < 2e-6);
    }

    #[test]
    fn erf_agrees_with_its_definition() {
        let definition = |x: f64| f64::from(npcov_graph::op::Unary::Erf.apply(x as f32));
        assert!(worst(-4.0, 4.0, erf, definition, false) < 4e-7);
        assert_eq!(erf(0.0), 0.0);
    }

    #[test]
    fn the_ends_of_the_range_are_right() {
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(ln(0.0), f32::NEG_INFINITY);
        assert_eq!(ln(f32::INFINITY), f32::INFINITY);
        assert!((ln(1e-40) - 1e-40f64.ln() as f32).abs() < 1e-3);
        assert_eq!((tanh(50.0), tanh(-50.0)), (1.0, -1.0));
        assert_eq!((erf(10.0), erf(-10.0)), (1.0, -1.0));
        for f in [exp, ln, tanh, sigmoid, softplus, erf, exp_m1] {
            assert!(f(f32::NAN).is_nan());
        }
        assert!(ln(-1.0).is_nan());
    }
}
