//! Functions of single elements.

mod onnx;
mod values;

pub(super) use onnx::import_of;

use super::arguments;
use crate::error::OpError;
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
    /// Whether a larger number never gives a smaller one.
    pub fn is_increasing(self) -> bool {
        match self {
            Unary::Relu
            | Unary::Sigmoid
            | Unary::Tanh
            | Unary::Softplus
            | Unary::Softsign
            | Unary::Clip { .. }
            | Unary::Exp
            | Unary::Log
            | Unary::Sqrt
            | Unary::Erf
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round
            | Unary::Asin
            | Unary::Atan
            | Unary::Sinh
            | Unary::Asinh
            | Unary::Acosh
            | Unary::Atanh => true,
            Unary::LeakyRelu { alpha }
            | Unary::ThresholdedRelu { alpha }
            | Unary::Elu { alpha }
            | Unary::HardSigmoid { alpha, .. } => alpha >= 0.0,
            Unary::Selu { alpha, gamma } => alpha >= 0.0 && gamma >= 0.0,
            Unary::Celu { alpha } => alpha > 0.0,
            Unary::Gelu { .. }
            | Unary::Swish { .. }
            | Unary::HardSwish
            | Unary::Mish
            | Unary::Shrink { .. }
            | Unary::Abs
            | Unary::Neg
            | Unary::Reciprocal
            | Unary::Sign
            | Unary::Sin
            | Unary::Cos
            | Unary::Tan
            | Unary::Acos
            | Unary::Cosh
            | Unary::Not
            | Unary::IsNaN
            | Unary::IsInf { .. } => false,
        }
    }

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
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, assert_close, bools, floats, ints};
    use super::*;

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
    fn logarithm_of_a_vector() {
        let got = Case::new("Log", 13)
            .constant(floats(&[2], &[1.0, 10.0]))
            .value();
        // The example of the ONNX documentation.
        assert_close(&got, &floats(&[2], &[0.0, std::f32::consts::LN_10]), 1e-7);
    }
}
