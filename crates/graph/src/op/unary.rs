//! Functions of single elements.

use super::erf::{erf, one_plus_erf};
use super::{Import, arguments};
use crate::ValueId;
use crate::builder::{Builder, NodeContext};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::{DType, Data, Tensor, TensorType};

/// A function of each element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unary {
    /// `max(x, 0)`.
    Relu,
    /// `x`, or `alpha x` below zero.
    LeakyRelu {
        /// Slope below zero.
        alpha: f32,
    },
    /// `x` above `alpha`, else zero.
    ThresholdedRelu {
        /// The threshold.
        alpha: f32,
    },
    /// `x`, or `alpha (e^x - 1)` below zero.
    Elu {
        /// Scale below zero.
        alpha: f32,
    },
    /// `gamma x`, or `gamma alpha (e^x - 1)` below zero.
    Selu {
        /// Scale below zero.
        alpha: f32,
        /// Scale everywhere.
        gamma: f32,
    },
    /// `max(x, 0) + min(0, alpha (e^(x/alpha) - 1))`.
    Celu {
        /// Scale below zero.
        alpha: f32,
    },
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `alpha x + beta` clipped to 0..1.
    HardSigmoid {
        /// Slope.
        alpha: f32,
        /// Offset.
        beta: f32,
    },
    /// Hyperbolic tangent.
    Tanh,
    /// `x Phi(x)`, `Phi` the normal distribution function.
    Gelu {
        /// Whether the approximation by a hyperbolic tangent is meant.
        tanh: bool,
    },
    /// `x sigmoid(alpha x)`; SiLU for `alpha = 1`.
    Swish {
        /// Factor inside the sigmoid.
        alpha: f32,
    },
    /// `x` times `clip(x/6 + 1/2, 0, 1)`.
    HardSwish,
    /// `x tanh(softplus(x))`.
    Mish,
    /// `ln(1 + e^x)`.
    Softplus,
    /// `x / (1 + |x|)`.
    Softsign,
    /// `x` limited to an interval.
    Clip {
        /// Lower bound.
        min: f32,
        /// Upper bound.
        max: f32,
    },
    /// `x` beyond `lambd` moved towards zero by `bias`, zero in between.
    Shrink {
        /// How far values move.
        bias: f32,
        /// Half the width of the dead zone.
        lambd: f32,
    },
    /// Absolute value.
    Abs,
    /// Negative.
    Neg,
    /// Exponential.
    Exp,
    /// Natural logarithm.
    Log,
    /// Square root.
    Sqrt,
    /// `1 / x`.
    Reciprocal,
    /// Error function.
    Erf,
    /// Rounded down.
    Floor,
    /// Rounded up.
    Ceil,
    /// Rounded, halves to even.
    Round,
    /// -1, 0 or 1.
    Sign,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// Tangent.
    Tan,
    /// Inverse sine.
    Asin,
    /// Inverse cosine.
    Acos,
    /// Inverse tangent.
    Atan,
    /// Hyperbolic sine.
    Sinh,
    /// Hyperbolic cosine.
    Cosh,
    /// Inverse hyperbolic sine.
    Asinh,
    /// Inverse hyperbolic cosine.
    Acosh,
    /// Inverse hyperbolic tangent.
    Atanh,
    /// Negation of a truth value.
    Not,
    /// Whether `x` is not a number.
    IsNaN,
    /// Whether `x` is infinite.
    IsInf {
        /// Whether negative infinity counts.
        negative: bool,
        /// Whether positive infinity counts.
        positive: bool,
    },
}

/// What a function is defined for, and what it gives.
enum Domain {
    /// A number of a floating-point number.
    Numbers,
    /// As `Numbers`, and an integer of an integer, by this function, unless it is too large.
    Integers(fn(i64) -> Option<i64>),
    /// A truth value of a floating-point number.
    Test,
    /// A truth value of a truth value.
    Truth,
}

impl Unary {
    /// The operator's name in ONNX.
    pub fn name(self) -> &'static str {
        match self {
            Unary::Relu => "Relu",
            Unary::LeakyRelu { .. } => "LeakyRelu",
            Unary::ThresholdedRelu { .. } => "ThresholdedRelu",
            Unary::Elu { .. } => "Elu",
            Unary::Selu { .. } => "Selu",
            Unary::Celu { .. } => "Celu",
            Unary::Sigmoid => "Sigmoid",
            Unary::HardSigmoid { .. } => "HardSigmoid",
            Unary::Tanh => "Tanh",
            Unary::Gelu { .. } => "Gelu",
            Unary::Swish { .. } => "Swish",
            Unary::HardSwish => "HardSwish",
            Unary::Mish => "Mish",
            Unary::Softplus => "Softplus",
            Unary::Softsign => "Softsign",
            Unary::Clip { .. } => "Clip",
            Unary::Shrink { .. } => "Shrink",
            Unary::Abs => "Abs",
            Unary::Neg => "Neg",
            Unary::Exp => "Exp",
            Unary::Log => "Log",
            Unary::Sqrt => "Sqrt",
            Unary::Reciprocal => "Reciprocal",
            Unary::Erf => "Erf",
            Unary::Floor => "Floor",
            Unary::Ceil => "Ceil",
            Unary::Round => "Round",
            Unary::Sign => "Sign",
            Unary::Sin => "Sin",
            Unary::Cos => "Cos",
            Unary::Tan => "Tan",
            Unary::Asin => "Asin",
            Unary::Acos => "Acos",
            Unary::Atan => "Atan",
            Unary::Sinh => "Sinh",
            Unary::Cosh => "Cosh",
            Unary::Asinh => "Asinh",
            Unary::Acosh => "Acosh",
            Unary::Atanh => "Atanh",
            Unary::Not => "Not",
            Unary::IsNaN => "IsNaN",
            Unary::IsInf { .. } => "IsInf",
        }
    }

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

    fn domain(self) -> Domain {
        match self {
            Unary::Abs => Domain::Integers(i64::checked_abs),
            Unary::Neg => Domain::Integers(i64::checked_neg),
            Unary::Sign => Domain::Integers(|x| Some(x.signum())),
            Unary::Not => Domain::Truth,
            Unary::IsNaN | Unary::IsInf { .. } => Domain::Test,
            Unary::Relu
            | Unary::LeakyRelu { .. }
            | Unary::ThresholdedRelu { .. }
            | Unary::Elu { .. }
            | Unary::Selu { .. }
            | Unary::Celu { .. }
            | Unary::Sigmoid
            | Unary::HardSigmoid { .. }
            | Unary::Tanh
            | Unary::Gelu { .. }
            | Unary::Swish { .. }
            | Unary::HardSwish
            | Unary::Mish
            | Unary::Softplus
            | Unary::Softsign
            | Unary::Clip { .. }
            | Unary::Shrink { .. }
            | Unary::Exp
            | Unary::Log
            | Unary::Sqrt
            | Unary::Reciprocal
            | Unary::Erf
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round
            | Unary::Sin
            | Unary::Cos
            | Unary::Tan
            | Unary::Asin
            | Unary::Acos
            | Unary::Atan
            | Unary::Sinh
            | Unary::Cosh
            | Unary::Asinh
            | Unary::Acosh
            | Unary::Atanh => Domain::Numbers,
        }
    }

    pub(super) fn infer(self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let [x] = arguments(inputs)?;
        let dtype = match (self.domain(), x.dtype) {
            (Domain::Numbers | Domain::Integers(_), DType::F32) => DType::F32,
            (Domain::Integers(_), DType::I64) => DType::I64,
            (Domain::Test, DType::F32) | (Domain::Truth, DType::Bool) => DType::Bool,
            (_, other) => {
                let message = format!("the input is of type {other}");
                return Err(OpError::unsupported(message));
            }
        };
        Ok(TensorType::new(dtype, x.shape.clone()))
    }

    pub(super) fn eval(self, inputs: &[&Tensor], output: &TensorType) -> Option<Tensor> {
        let x = inputs.first()?;
        let data = match (self.domain(), x.data()) {
            (Domain::Numbers | Domain::Integers(_), Data::F32(v)) => {
                Data::F32(v.iter().map(|&x| self.apply(x)).collect())
            }
            (Domain::Integers(f), Data::I64(v)) => {
                Data::I64(v.iter().map(|&x| f(x)).collect::<Option<_>>()?)
            }
            (Domain::Test, Data::F32(v)) => {
                Data::Bool(v.iter().map(|&x| self.apply(x) != 0.0).collect())
            }
            (Domain::Truth, Data::Bool(v)) => {
                let number = |x: bool| f32::from(u8::from(x));
                Data::Bool(v.iter().map(|&x| self.apply(number(x)) != 0.0).collect())
            }
            (_, Data::F32(_) | Data::I64(_) | Data::Bool(_)) => return None,
        };
        Tensor::new(output.shape.clone(), data)
    }

    pub(super) fn export(self, node: &mut OnnxNode<'_>) {
        match self {
            Unary::LeakyRelu { alpha }
            | Unary::ThresholdedRelu { alpha }
            | Unary::Elu { alpha }
            | Unary::Celu { alpha } => node.float("alpha", alpha),
            Unary::Selu { alpha, gamma } => {
                node.float("alpha", alpha);
                node.float("gamma", gamma);
            }
            Unary::HardSigmoid { alpha, beta } => {
                node.float("alpha", alpha);
                node.float("beta", beta);
            }
            Unary::Gelu { tanh: true } => node.string("approximate", "tanh"),
            // The default.
            Unary::Gelu { tanh: false } => {}
            Unary::Swish { alpha } => export_swish(alpha, node),
            Unary::Clip { min, max } => {
                node.float_input(min);
                node.float_input(max);
            }
            Unary::Shrink { bias, lambd } => {
                node.float("bias", bias);
                node.float("lambd", lambd);
            }
            Unary::IsInf { negative, positive } => {
                node.int("detect_negative", i64::from(negative));
                node.int("detect_positive", i64::from(positive));
            }
            Unary::Relu
            | Unary::Sigmoid
            | Unary::Tanh
            | Unary::HardSwish
            | Unary::Mish
            | Unary::Softplus
            | Unary::Softsign
            | Unary::Abs
            | Unary::Neg
            | Unary::Exp
            | Unary::Log
            | Unary::Sqrt
            | Unary::Reciprocal
            | Unary::Erf
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round
            | Unary::Sign
            | Unary::Sin
            | Unary::Cos
            | Unary::Tan
            | Unary::Asin
            | Unary::Acos
            | Unary::Atan
            | Unary::Sinh
            | Unary::Cosh
            | Unary::Asinh
            | Unary::Acosh
            | Unary::Atanh
            | Unary::Not
            | Unary::IsNaN => {}
        }
    }
}

/// Swish is an operator of opset 24; before, it is `x * sigmoid(alpha x)`.
fn export_swish(alpha: f32, node: &mut OnnxNode<'_>) {
    let mut inner = node.input(0);
    if alpha != 1.0 {
        let alpha = node.scalar(alpha);
        inner = node.before("Mul", vec![inner, alpha]);
    }
    let gate = node.before("Sigmoid", vec![inner]);
    node.op_type("Mul");
    node.named_input(gate);
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

/// The functions without parameters.
const PLAIN: [Unary; 31] = [
    Unary::Relu,
    Unary::Sigmoid,
    Unary::Tanh,
    Unary::HardSwish,
    Unary::Mish,
    Unary::Softplus,
    Unary::Softsign,
    Unary::Abs,
    Unary::Neg,
    Unary::Exp,
    Unary::Log,
    Unary::Sqrt,
    Unary::Reciprocal,
    Unary::Erf,
    Unary::Floor,
    Unary::Ceil,
    Unary::Round,
    Unary::Sign,
    Unary::Sin,
    Unary::Cos,
    Unary::Tan,
    Unary::Asin,
    Unary::Acos,
    Unary::Atan,
    Unary::Sinh,
    Unary::Cosh,
    Unary::Asinh,
    Unary::Acosh,
    Unary::Atanh,
    Unary::Not,
    Unary::IsNaN,
];

fn plain(op_type: &str) -> Option<Unary> {
    PLAIN.into_iter().find(|unary| unary.name() == op_type)
}

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "LeakyRelu" | "ThresholdedRelu" | "Elu" | "Selu" | "Celu" | "HardSigmoid" | "Gelu"
        | "Swish" | "Shrink" | "IsInf" => Some(import_parametric),
        _ => plain(op_type).map(|_| import_plain as Import),
    }
}

fn import_plain(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let unary = plain(node.op_type).ok_or_else(|| unknown(node.op_type))?;
    Ok(vec![b.unary(unary, node.input(0)?)?])
}

/// Defaults are those of the ONNX specification.
fn import_parametric(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let a = &node.attributes;
    let unary = match node.op_type {
        "LeakyRelu" => Unary::LeakyRelu {
            alpha: a.float("alpha", 0.01)?,
        },
        "ThresholdedRelu" => Unary::ThresholdedRelu {
            alpha: a.float("alpha", 1.0)?,
        },
        "Elu" => Unary::Elu {
            alpha: a.float("alpha", 1.0)?,
        },
        "Selu" => Unary::Selu {
            alpha: a.float("alpha", 1.673_263_2)?,
            gamma: a.float("gamma", 1.050_701)?,
        },
        "Celu" => Unary::Celu {
            alpha: a.float("alpha", 1.0)?,
        },
        "HardSigmoid" => Unary::HardSigmoid {
            alpha: a.float("alpha", 0.2)?,
            beta: a.float("beta", 0.5)?,
        },
        "Gelu" => Unary::Gelu {
            tanh: match a.string("approximate", "none")?.as_str() {
                "none" => false,
                "tanh" => true,
                other => return Err(OpError::invalid(format!("`approximate` is `{other}`"))),
            },
        },
        "Swish" => Unary::Swish {
            alpha: a.float("alpha", 1.0)?,
        },
        "Shrink" => Unary::Shrink {
            bias: a.float("bias", 0.0)?,
            lambd: a.float("lambd", 0.5)?,
        },
        "IsInf" => Unary::IsInf {
            negative: a.flag("detect_negative", true)?,
            positive: a.flag("detect_positive", true)?,
        },
        other => return Err(unknown(other)),
    };
    Ok(vec![b.unary(unary, node.input(0)?)?])
}

fn unknown(op_type: &str) -> OpError {
    OpError::unsupported(format!("function `{op_type}`"))
}

#[cfg(test)]
mod tests {
    use super::super::Op;
    use super::super::testing::{Case, assert_close, assert_round_trip, bools, floats, ints};
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

    #[test]
    fn integers_and_truth_values_are_evaluated() {
        let x = || ints(&[3], &[-2, 0, 5]);
        assert_eq!(
            Case::new("Abs", 13).constant(x()).value(),
            ints(&[3], &[2, 0, 5])
        );
        assert_eq!(
            Case::new("Neg", 13).constant(x()).value(),
            ints(&[3], &[2, 0, -5])
        );
        let not = Case::new("Not", 1).constant(bools(&[2], &[true, false]));
        assert_eq!(not.value(), bools(&[2], &[false, true]));
        let nan = Case::new("IsNaN", 20).constant(floats(&[2], &[f32::NAN, 1.0]));
        assert_eq!(nan.value(), bools(&[2], &[true, false]));
        // |i64::MIN| does not exist: the node stays.
        let least = Case::new("Abs", 13).constant(ints(&[1], &[i64::MIN]));
        assert_eq!(least.import().unwrap().ops().len(), 1);
    }

    #[test]
    fn types_are_checked() {
        let error = Case::new("Exp", 13).input(DType::I64, &[2]).error();
        assert_eq!(error, "unsupported: the input is of type integer");
        let error = Case::new("Not", 1).input(DType::F32, &[2]).error();
        assert_eq!(error, "unsupported: the input is of type float");
        assert_eq!(Case::new("Exp", 13).error(), "input 0 is missing");
    }

    #[test]
    fn parameters_are_read() {
        let case = Case::new("Gelu", 20)
            .input(DType::F32, &[2])
            .string("approximate", "tanh");
        assert_eq!(
            case.import().unwrap().ops(),
            [&Op::Unary(Unary::Gelu { tanh: true })]
        );
        let case = Case::new("Gelu", 20)
            .input(DType::F32, &[2])
            .string("approximate", "x");
        assert_eq!(case.error(), "`approximate` is `x`");
        let case = Case::new("Selu", 6)
            .input(DType::F32, &[2])
            .import()
            .unwrap();
        let [Op::Unary(Unary::Selu { alpha, gamma })] = case.ops()[..] else {
            panic!("{:?}", case.ops());
        };
        // The defaults as the specification prints them: 1.67326319217681884765625 and
        // 1.05070102214813232421875, which f64 holds exactly.
        assert_eq!(f64::from(*alpha).to_string(), "1.6732631921768188");
        assert_eq!(f64::from(*gamma).to_string(), "1.0507010221481323");
    }

    #[test]
    fn every_name_is_imported_as_itself() {
        for unary in PLAIN {
            let dtype = if unary == Unary::Not {
                DType::Bool
            } else {
                DType::F32
            };
            let imported = Case::new(unary.name(), 20)
                .input(dtype, &[2])
                .import()
                .unwrap();
            assert_eq!(imported.ops(), [&Op::Unary(unary)]);
        }
    }

    #[test]
    fn swish_is_written_with_sigmoid() {
        let mut graph = crate::Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [2]));
        let y = graph
            .push("swish", Op::Unary(Unary::Swish { alpha: 2.0 }), &[x])
            .unwrap();
        graph.set_outputs(vec![y]);
        let bytes = graph.to_onnx().unwrap();
        let model = <crate::onnx::proto::ModelProto as prost::Message>::decode(&bytes[..]).unwrap();
        let nodes = model.graph.unwrap().node;
        let types: Vec<&str> = nodes.iter().filter_map(|n| n.op_type.as_deref()).collect();
        assert_eq!(types, ["Mul", "Sigmoid", "Mul", "Identity"]);
        assert_eq!(
            nodes[2].input,
            [nodes[0].input[0].clone(), nodes[1].output[0].clone()]
        );
    }

    #[test]
    fn logarithm_of_a_vector() {
        let got = Case::new("Log", 13)
            .constant(floats(&[2], &[1.0, 10.0]))
            .value();
        // The example of the ONNX documentation.
        assert_close(&got, &floats(&[2], &[0.0, std::f32::consts::LN_10]), 1e-7);
    }

    #[test]
    fn functions_are_written_and_read_again() {
        let parametric = [
            Unary::LeakyRelu { alpha: 0.25 },
            Unary::ThresholdedRelu { alpha: 0.25 },
            Unary::Elu { alpha: 0.25 },
            Unary::Selu {
                alpha: 0.25,
                gamma: 0.5,
            },
            Unary::Celu { alpha: 0.25 },
            Unary::HardSigmoid {
                alpha: 0.25,
                beta: 0.75,
            },
            Unary::Gelu { tanh: true },
            Unary::Gelu { tanh: false },
            Unary::Clip {
                min: -0.5,
                max: f32::INFINITY,
            },
            Unary::Shrink {
                bias: 0.25,
                lambd: 0.75,
            },
            Unary::IsInf {
                negative: false,
                positive: true,
            },
        ];
        for unary in PLAIN.into_iter().chain(parametric) {
            let dtype = if unary == Unary::Not {
                DType::Bool
            } else {
                DType::F32
            };
            assert_round_trip(Op::Unary(unary), &[TensorType::new(dtype, [2, 3])]);
        }
    }
}
