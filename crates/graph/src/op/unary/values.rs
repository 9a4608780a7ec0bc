//! The values of the functions: their definitions.

use super::Unary;
use crate::op::erf::{erf, one_plus_erf};

impl Unary {
    /// The function's value: its definition, computed with double precision and rounded once.
    /// Truth values are 0 and 1; NaN stays NaN, unless the formula sends it elsewhere.
    ///
    /// ```
    /// use npcov_graph::op::Unary;
    ///
    /// assert_eq!(Unary::LeakyRelu { alpha: 0.5 }.apply(-3.0), -1.5);
    /// assert_eq!(Unary::Round.apply(2.5), 2.0);
    /// ```
    pub fn apply(self, x: f32) -> f32 {
        self.apply_f64(f64::from(x)) as f32
    }

    fn apply_f64(self, x: f64) -> f64 {
        // Comparisons are written so that NaN takes the branch that keeps it.
        match self {
            Unary::Relu => clip(x, 0.0, f64::INFINITY),
            Unary::LeakyRelu { alpha } if x < 0.0 => f64::from(alpha) * x,
            Unary::LeakyRelu { .. } => x,
            Unary::ThresholdedRelu { alpha } if x > f64::from(alpha) => x,
            Unary::ThresholdedRelu { .. } => 0.0,
            Unary::Elu { alpha } => elu(x, f64::from(alpha), 1.0),
            Unary::Selu { alpha, gamma } => f64::from(gamma) * elu(x, f64::from(alpha), 1.0),
            Unary::Celu { alpha } => elu(x, f64::from(alpha), f64::from(alpha)),
            Unary::Sigmoid => sigmoid(x),
            Unary::HardSigmoid { alpha, beta } => {
                clip(f64::from(alpha) * x + f64::from(beta), 0.0, 1.0)
            }
            Unary::Tanh => x.tanh(),
            Unary::Gelu { tanh: false } => {
                0.5 * x * one_plus_erf(x * std::f64::consts::FRAC_1_SQRT_2)
            }
            Unary::Gelu { tanh: true } => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
                // (1 + tanh(y)) / 2 without the cancellation near tanh(y) = -1.
                x * sigmoid(2.0 * inner)
            }
            Unary::Swish { alpha } => x * sigmoid(f64::from(alpha) * x),
            Unary::HardSwish => x * clip(x / 6.0 + 0.5, 0.0, 1.0),
            Unary::Mish => x * softplus(x).tanh(),
            Unary::Softplus => softplus(x),
            Unary::Softsign => x / (1.0 + x.abs()),
            Unary::Clip { min, max } => clip(x, f64::from(min), f64::from(max)),
            Unary::Shrink { bias, lambd } => {
                let (bias, lambd) = (f64::from(bias), f64::from(lambd));
                if x < -lambd {
                    x + bias
                } else if x > lambd {
                    x - bias
                } else {
                    0.0
                }
            }
            Unary::Abs => x.abs(),
            Unary::Neg => -x,
            Unary::Exp => x.exp(),
            Unary::Log => x.ln(),
            Unary::Sqrt => x.sqrt(),
            Unary::Reciprocal => 1.0 / x,
            Unary::Erf => erf(x),
            Unary::Floor => x.floor(),
            Unary::Ceil => x.ceil(),
            Unary::Round => x.round_ties_even(),
            Unary::Sign if x == 0.0 => 0.0,
            Unary::Sign => x.signum(),
            Unary::Sin => x.sin(),
            Unary::Cos => x.cos(),
            Unary::Tan => x.tan(),
            Unary::Asin => x.asin(),
            Unary::Acos => x.acos(),
            Unary::Atan => x.atan(),
            Unary::Sinh => x.sinh(),
            Unary::Cosh => x.cosh(),
            Unary::Asinh => x.asinh(),
            Unary::Acosh => x.acosh(),
            Unary::Atanh => x.atanh(),
            Unary::Not => truth(x == 0.0),
            Unary::IsNaN => truth(x.is_nan()),
            Unary::IsInf { negative, positive } => {
                truth((negative && x == f64::NEG_INFINITY) || (positive && x == f64::INFINITY))
            }
        }
    }
}

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

/// `x` limited to an interval, to `max` when the bounds are crossed; NaN stays.
fn clip(x: f64, min: f64, max: f64) -> f64 {
    let x = if x < min { min } else { x };
    if x > max { max } else { x }
}

/// `scale (e^(x/width) - 1)` below zero, `x` above.
fn elu(x: f64, scale: f64, width: f64) -> f64 {
    if x < 0.0 {
        scale * (x / width).exp_m1()
    } else {
        x
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `ln(1 + e^x)` without overflow: `e` has a non-positive exponent.
fn softplus(x: f64) -> f64 {
    clip(x, 0.0, f64::INFINITY) + (-x.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the formulas in the ONNX operator documentation, evaluated with Python's `math`
    /// at full precision.
    #[test]
    fn functions_have_the_documented_values() {
        let table = [
            (Unary::Relu, -1.5, 0.0),
            (Unary::LeakyRelu { alpha: 0.1 }, -1.5, -0.15),
            (Unary::ThresholdedRelu { alpha: 2.0 }, 2.0, 0.0),
            (Unary::ThresholdedRelu { alpha: 2.0 }, 2.2, 2.2),
            (Unary::Elu { alpha: 2.0 }, -1.0, -1.264_241_1),
            (
                Unary::Selu {
                    alpha: 2.0,
                    gamma: 3.0,
                },
                -1.0,
                -3.792_723_4,
            ),
            (
                Unary::Selu {
                    alpha: 2.0,
                    gamma: 3.0,
                },
                1.0,
                3.0,
            ),
            (Unary::Celu { alpha: 2.0 }, -1.0, -0.786_938_67),
            (Unary::Sigmoid, 1.0, 0.731_058_6),
            (Unary::Sigmoid, -200.0, 0.0),
            (
                Unary::HardSigmoid {
                    alpha: 0.5,
                    beta: 0.75,
                },
                -1.0,
                0.25,
            ),
            (
                Unary::HardSigmoid {
                    alpha: 0.5,
                    beta: 0.75,
                },
                1.0,
                1.0,
            ),
            (Unary::Tanh, 1.0, 0.761_594_2),
            (Unary::Gelu { tanh: false }, 1.0, 0.841_344_7),
            (Unary::Gelu { tanh: false }, -1.0, -0.158_655_25),
            (Unary::Gelu { tanh: true }, 1.0, 0.841_191_95),
            (Unary::Swish { alpha: 2.0 }, 1.0, 0.880_797_1),
            (Unary::HardSwish, 1.0, 0.666_666_7),
            (Unary::HardSwish, -4.0, 0.0),
            (Unary::Mish, 1.0, 0.865_098_4),
            (Unary::Softplus, 1.0, 1.313_261_7),
            (Unary::Softplus, 1000.0, 1000.0),
            (Unary::Softsign, -1.0, -0.5),
            (
                Unary::Clip {
                    min: -1.0,
                    max: 1.0,
                },
                3.0,
                1.0,
            ),
            (Unary::Clip { min: 2.0, max: 1.0 }, 0.0, 1.0),
            (
                Unary::Shrink {
                    bias: 1.5,
                    lambd: 1.5,
                },
                -2.0,
                -0.5,
            ),
            (
                Unary::Shrink {
                    bias: 1.5,
                    lambd: 1.5,
                },
                1.0,
                0.0,
            ),
            (Unary::Round, 0.5, 0.0),
            (Unary::Round, -1.5, -2.0),
            (Unary::Sign, -0.0, 0.0),
            (Unary::Sign, -3.0, -1.0),
            (Unary::Erf, 0.5, 0.520_499_9),
            (Unary::Atanh, 0.5, 0.549_306_15),
            (Unary::Not, 0.0, 1.0),
            (
                Unary::IsInf {
                    negative: false,
                    positive: true,
                },
                f32::NEG_INFINITY,
                0.0,
            ),
            (
                Unary::IsInf {
                    negative: true,
                    positive: false,
                },
                f32::NEG_INFINITY,
                1.0,
            ),
            (Unary::IsNaN, f32::NAN, 1.0),
        ];
        for (unary, x, expected) in table {
            let got = unary.apply(x);
            let error = (got - expected).abs();
            assert!(
                error <= 1e-7 * expected.abs(),
                "{unary:?}({x}): {got}, not {expected}"
            );
        }
    }

    /// 0.5 erfc(10 / sqrt(2)) = 7.619853024160525e-24 (Python's `math.erfc`).
    #[test]
    fn the_tail_of_gelu_does_not_cancel() {
        let got = Unary::Gelu { tanh: false }.apply(-10.0);
        assert!((got / -7.619_853e-23 - 1.0).abs() < 1e-6, "{got}");
    }

    #[test]
    fn nan_is_kept() {
        let clip = Unary::Clip { min: 0.0, max: 1.0 };
        for unary in [Unary::Relu, clip, Unary::Softplus, Unary::Erf, Unary::Sign] {
            assert!(unary.apply(f32::NAN).is_nan(), "{unary:?}");
        }
    }
}
