//! Functions of single elements and of pairs of them.

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

/// A function of pairs of elements; shapes are broadcast as in NumPy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Quotient; of integers, rounded towards zero.
    Div,
    /// Power.
    Pow,
    /// Smaller one.
    Min,
    /// Larger one.
    Max,
    /// Remainder with the sign of the divisor.
    Mod,
    /// Remainder with the sign of the dividend.
    Fmod,
    /// `a`, or `b a` where `a` is negative.
    PRelu,
    /// `a == b`.
    Equal,
    /// `a < b`.
    Less,
    /// `a <= b`.
    LessOrEqual,
    /// `a > b`.
    Greater,
    /// `a >= b`.
    GreaterOrEqual,
    /// Both.
    And,
    /// Either or both.
    Or,
    /// Exactly one.
    Xor,
}
