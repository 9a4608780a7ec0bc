//! Functions of pairs of elements.

use super::elementwise::{broadcast, positions};
use super::{Import, arguments};
use crate::ValueId;
use crate::builder::{Builder, NodeContext};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::{DType, Data, ShapeDisplay, Tensor, TensorType};

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

/// What a function is of, and what it gives.
enum Kind {
    /// A number of numbers.
    Arithmetic,
    /// A truth value of numbers.
    Comparison,
    /// A truth value of truth values.
    Logic,
}

impl Binary {
    /// The operator's name in ONNX.
    pub fn name(self) -> &'static str {
        match self {
            Binary::Add => "Add",
            Binary::Sub => "Sub",
            Binary::Mul => "Mul",
            Binary::Div => "Div",
            Binary::Pow => "Pow",
            Binary::Min => "Min",
            Binary::Max => "Max",
            Binary::Mod | Binary::Fmod => "Mod",
            Binary::PRelu => "PRelu",
            Binary::Equal => "Equal",
            Binary::Less => "Less",
            Binary::LessOrEqual => "LessOrEqual",
            Binary::Greater => "Greater",
            Binary::GreaterOrEqual => "GreaterOrEqual",
            Binary::And => "And",
            Binary::Or => "Or",
            Binary::Xor => "Xor",
        }
    }

    /// Whether the result is a truth value.
    pub fn is_predicate(self) -> bool {
        match self.kind() {
            Kind::Arithmetic => false,
            Kind::Comparison | Kind::Logic => true,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Binary::Add
            | Binary::Sub
            | Binary::Mul
            | Binary::Div
            | Binary::Pow
            | Binary::Min
            | Binary::Max
            | Binary::Mod
            | Binary::Fmod
            | Binary::PRelu => Kind::Arithmetic,
            Binary::Equal
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual => Kind::Comparison,
            Binary::And | Binary::Or | Binary::Xor => Kind::Logic,
        }
    }

    /// The function's value. Truth values are 0 and 1; a minimum or maximum with NaN is NaN.
    ///
    /// ```
    /// use npcov_graph::op::Binary;
    ///
    /// assert_eq!(Binary::Mod.apply(-7.0, 3.0), 2.0);
    /// assert_eq!(Binary::Fmod.apply(-7.0, 3.0), -1.0);
    /// assert_eq!(Binary::Less.apply(1.0, 2.0), 1.0);
    /// ```
    pub fn apply(self, a: f32, b: f32) -> f32 {
        let truth = |value: bool| f32::from(u8::from(value));
        match self {
            Binary::Add => a + b,
            Binary::Sub => a - b,
            Binary::Mul => a * b,
            Binary::Div => a / b,
            Binary::Pow => f64::from(a).powf(f64::from(b)) as f32,
            Binary::Min if a.is_nan() || a < b => a,
            Binary::Min => b,
            Binary::Max if a.is_nan() || a > b => a,
            Binary::Max => b,
            Binary::Mod => {
                let remainder = a % b;
                let opposite = (remainder < 0.0) != (b < 0.0);
                if remainder != 0.0 && opposite {
                    remainder + b
                } else {
                    remainder
                }
            }
            Binary::Fmod => a % b,
            Binary::PRelu if a < 0.0 => b * a,
            Binary::PRelu => a,
            Binary::Equal => truth(a == b),
            Binary::Less => truth(a < b),
            Binary::LessOrEqual => truth(a <= b),
            Binary::Greater => truth(a > b),
            Binary::GreaterOrEqual => truth(a >= b),
            Binary::And => truth(a != 0.0 && b != 0.0),
            Binary::Or => truth(a != 0.0 || b != 0.0),
            Binary::Xor => truth((a != 0.0) != (b != 0.0)),
        }
    }

    /// The value on integers, or `None` where it is undefined or too large.
    fn apply_i64(self, a: i64, b: i64) -> Option<i64> {
        match self {
            Binary::Add => a.checked_add(b),
            Binary::Sub => a.checked_sub(b),
            Binary::Mul => a.checked_mul(b),
            Binary::Div => a.checked_div(b),
            Binary::Pow => a.checked_pow(u32::try_from(b).ok()?),
            Binary::Min => Some(a.min(b)),
            Binary::Max => Some(a.max(b)),
            Binary::Fmod => a.checked_rem(b),
            Binary::Mod => {
                let remainder = a.checked_rem(b)?;
                let opposite = (remainder < 0) != (b < 0);
                Some(if remainder != 0 && opposite {
                    remainder + b
                } else {
                    remainder
                })
            }
            Binary::PRelu if a < 0 => a.checked_mul(b),
            Binary::PRelu => Some(a),
            Binary::Equal
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual
            | Binary::And
            | Binary::Or
            | Binary::Xor => None,
        }
    }

    /// The comparison of ordered elements, where it is one.
    fn compare<T: PartialOrd>(self, a: T, b: T) -> Option<bool> {
        match self {
            Binary::Equal => Some(a == b),
            Binary::Less => Some(a < b),
            Binary::LessOrEqual => Some(a <= b),
            Binary::Greater => Some(a > b),
            Binary::GreaterOrEqual => Some(a >= b),
            Binary::Add
            | Binary::Sub
            | Binary::Mul
            | Binary::Div
            | Binary::Pow
            | Binary::Min
            | Binary::Max
            | Binary::Mod
            | Binary::Fmod
            | Binary::PRelu
            | Binary::And
            | Binary::Or
            | Binary::Xor => None,
        }
    }

    fn logic(self, a: bool, b: bool) -> Option<bool> {
        match self {
            Binary::And => Some(a && b),
            Binary::Or => Some(a || b),
            Binary::Xor => Some(a != b),
            Binary::Equal => Some(a == b),
            Binary::Add
            | Binary::Sub
            | Binary::Mul
            | Binary::Div
            | Binary::Pow
            | Binary::Min
            | Binary::Max
            | Binary::Mod
            | Binary::Fmod
            | Binary::PRelu
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual => None,
        }
    }

    pub(super) fn infer(self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let [a, b] = arguments(inputs)?;
        if a.dtype != b.dtype {
            let (a, b) = (a.dtype, b.dtype);
            return Err(OpError::invalid(format!("inputs are of types {a} and {b}")));
        }
        let fits = match (self.kind(), a.dtype) {
            (Kind::Logic, DType::Bool) => true,
            (Kind::Comparison, DType::Bool) => self == Binary::Equal,
            // ONNX defines Mod of floating-point numbers with `fmod` only.
            (Kind::Arithmetic, DType::F32) => self != Binary::Mod,
            (Kind::Arithmetic, DType::I64) | (Kind::Comparison, DType::I64 | DType::F32) => true,
            (Kind::Arithmetic, DType::Bool) | (Kind::Logic, DType::I64 | DType::F32) => false,
        };
        if !fits {
            return Err(OpError::invalid(format!("inputs are of type {}", a.dtype)));
        }
        let shape = broadcast(&[&a.shape, &b.shape])?;
        if self == Binary::PRelu && shape != a.shape {
            return Err(OpError::invalid(format!(
                "the slope of shape `{}` does not fit the input of shape `{}`",
                ShapeDisplay(&b.shape),
                ShapeDisplay(&a.shape)
            )));
        }
        let dtype = if self.is_predicate() {
            DType::Bool
        } else {
            a.dtype
        };
        Ok(TensorType::new(dtype, shape))
    }

    pub(super) fn eval(self, inputs: &[&Tensor], output: &TensorType) -> Option<Tensor> {
        let [a, b] = inputs else { return None };
        let pairs = Pairs {
            a: positions(a.shape(), &output.shape)?,
            b: positions(b.shape(), &output.shape)?,
        };
        let data = match (a.data(), b.data(), output.dtype) {
            (Data::F32(a), Data::F32(b), DType::F32) => {
                Data::F32(pairs.map(a, b, |a, b| Some(self.apply(a, b)))?)
            }
            (Data::F32(a), Data::F32(b), DType::Bool) => {
                Data::Bool(pairs.map(a, b, |a, b| self.compare(a, b))?)
            }
            (Data::I64(a), Data::I64(b), DType::I64) => {
                Data::I64(pairs.map(a, b, |a, b| self.apply_i64(a, b))?)
            }
            (Data::I64(a), Data::I64(b), DType::Bool) => {
                Data::Bool(pairs.map(a, b, |a, b| self.compare(a, b))?)
            }
            (Data::Bool(a), Data::Bool(b), DType::Bool) => {
                Data::Bool(pairs.map(a, b, |a, b| self.logic(a, b))?)
            }
            _ => return None,
        };
        Tensor::new(output.shape.clone(), data)
    }

    pub(super) fn export(self, node: &mut OnnxNode<'_>) {
        if self == Binary::Fmod {
            node.int("fmod", 1);
        }
    }
}

/// The positions of both arguments for each element of the result.
struct Pairs {
    a: Vec<usize>,
    b: Vec<usize>,
}

impl Pairs {
    fn map<T: Copy, U>(&self, a: &[T], b: &[T], f: impl Fn(T, T) -> Option<U>) -> Option<Vec<U>> {
        let pairs = self.a.iter().zip(&self.b);
        pairs.map(|(&i, &j)| f(*a.get(i)?, *b.get(j)?)).collect()
    }
}

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "Pow" => Some(import_pow),
        "Mod" => Some(import_mod),
        "Sum" | "Mean" | "Min" | "Max" => Some(import_variadic),
        _ => plain(op_type).map(|_| import as Import),
    }
}

/// The functions whose ONNX operator takes two inputs of one type and no attribute.
const PLAIN: [Binary; 13] = [
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::Div,
    Binary::PRelu,
    Binary::Equal,
    Binary::Less,
    Binary::LessOrEqual,
    Binary::Greater,
    Binary::GreaterOrEqual,
    Binary::And,
    Binary::Or,
    Binary::Xor,
];

fn plain(op_type: &str) -> Option<Binary> {
    PLAIN.into_iter().find(|binary| binary.name() == op_type)
}

fn import(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let binary = plain(node.op_type)
        .ok_or_else(|| OpError::unsupported(format!("function `{}`", node.op_type)))?;
    Ok(vec![b.binary(binary, node.input(0)?, node.input(1)?)?])
}

/// Pow allows an exponent of another type; the result has the type of the base.
fn import_pow(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let (base, exponent) = (node.input(0)?, node.input(1)?);
    let dtype = b.dtype(base);
    if dtype == b.dtype(exponent) {
        return Ok(vec![b.binary(Binary::Pow, base, exponent)?]);
    }
    let float_base = b.cast(base, DType::F32)?;
    let exponent = b.cast(exponent, DType::F32)?;
    let power = b.binary(Binary::Pow, float_base, exponent)?;
    Ok(vec![b.cast(power, dtype)?])
}

fn import_mod(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let binary = match node.attributes.flag("fmod", false)? {
        true => Binary::Fmod,
        false => Binary::Mod,
    };
    Ok(vec![b.binary(binary, node.input(0)?, node.input(1)?)?])
}

/// Operators of any number of inputs, as a chain; a mean is the sum times `1/n`.
fn import_variadic(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let binary = match node.op_type {
        "Min" => Binary::Min,
        "Max" => Binary::Max,
        _ => Binary::Add,
    };
    let inputs = node.variadic()?;
    let mut result = node.input(0)?;
    for &input in &inputs[1..] {
        result = b.binary(binary, result, input)?;
    }
    if node.op_type == "Mean" && inputs.len() > 1 {
        let factor = b.scalar(1.0 / inputs.len() as f32);
        result = b.binary(Binary::Mul, result, factor)?;
    }
    Ok(vec![result])
}

#[cfg(test)]
mod tests {
    use super::super::Op;
    use super::super::testing::{Case, assert_close, assert_round_trip, bools, floats, ints};
    use super::*;

    fn on(op_type: &'static str, a: Tensor, b: Tensor) -> Case {
        Case::new(op_type, 13).constant(a).constant(b)
    }

    #[test]
    fn shapes_are_broadcast() {
        let column = floats(&[2, 1], &[1.0, 2.0]);
        let row = floats(&[3], &[10.0, 20.0, 30.0]);
        // np.array([[1], [2]]) + np.array([10, 20, 30])
        let sum = floats(&[2, 3], &[11.0, 21.0, 31.0, 12.0, 22.0, 32.0]);
        assert_eq!(on("Add", column, row).value(), sum);
        let error = Case::new("Add", 13)
            .input(DType::F32, &[2, 3])
            .input(DType::F32, &[2])
            .error();
        assert_eq!(error, "shapes `2x3` and `2` cannot be broadcast together");
    }

    /// NumPy's `np.mod` and `np.fmod`.
    #[test]
    fn remainders_follow_numpy() {
        let a = || ints(&[6], &[-4, 7, 5, 4, -7, 8]);
        let b = || ints(&[6], &[2, -3, 8, -2, 3, 5]);
        assert_eq!(
            on("Mod", a(), b()).value(),
            ints(&[6], &[0, -2, 5, 0, 2, 3])
        );
        let fmod = on("Mod", a(), b()).int("fmod", 1).value();
        assert_eq!(fmod, ints(&[6], &[0, 1, 5, 0, -1, 3]));
        let a = floats(&[2], &[-4.3, 7.2]);
        let fmod = on("Mod", a, floats(&[2], &[2.1, -3.4])).int("fmod", 1);
        assert_close(&fmod.value(), &floats(&[2], &[-0.1, 0.4]), 1e-6);
        let wrong = on("Mod", floats(&[1], &[1.0]), floats(&[1], &[1.0]));
        assert_eq!(wrong.error(), "inputs are of type float");
        assert_eq!(Binary::Mod.apply(7.0, -3.0), -2.0);
        assert_eq!(Binary::Mod.apply(6.0, 3.0), 0.0);
    }

    #[test]
    fn integer_division_is_towards_zero_and_never_by_zero() {
        let quotient = on("Div", ints(&[2], &[-7, 7]), ints(&[], &[2]));
        assert_eq!(quotient.value(), ints(&[2], &[-3, 3]));
        for (op, a, b) in [
            ("Div", 1, 0),
            ("Div", i64::MIN, -1),
            ("Mod", 1, 0),
            ("Pow", 2, -1),
        ] {
            let node = on(op, ints(&[1], &[a]), ints(&[1], &[b])).import().unwrap();
            assert_eq!(node.ops().len(), 1, "{op} of {a} and {b} stays a node");
        }
        let overflow = on("Add", ints(&[1], &[i64::MAX]), ints(&[1], &[1]));
        assert_eq!(overflow.import().unwrap().ops().len(), 1);
    }

    #[test]
    fn comparisons_and_logic_give_truth_values() {
        let a = || floats(&[3], &[1.0, 2.0, f32::NAN]);
        let b = || floats(&[3], &[2.0, 2.0, 2.0]);
        let expect = [
            ("Equal", [false, true, false]),
            ("Less", [true, false, false]),
            ("LessOrEqual", [true, true, false]),
            ("Greater", [false, false, false]),
            ("GreaterOrEqual", [false, true, false]),
        ];
        for (op, expected) in expect {
            assert_eq!(on(op, a(), b()).value(), bools(&[3], &expected), "{op}");
        }
        let a = || bools(&[4], &[false, false, true, true]);
        let b = || bools(&[4], &[false, true, false, true]);
        let expect = [
            ("And", [false, false, false, true]),
            ("Or", [false, true, true, true]),
            ("Xor", [false, true, true, false]),
            ("Equal", [true, false, false, true]),
        ];
        for (op, expected) in expect {
            assert_eq!(on(op, a(), b()).value(), bools(&[4], &expected), "{op}");
        }
        assert_eq!(on("Less", a(), b()).error(), "inputs are of type bool");
        assert_eq!(
            on("Add", a(), ints(&[1], &[1])).error(),
            "inputs are of types bool and integer"
        );
    }

    #[test]
    fn truth_values_as_numbers() {
        let cases = [
            (Binary::And, 1.0, 2.0, 1.0),
            (Binary::Or, 0.0, 0.0, 0.0),
            (Binary::Xor, 3.0, 1.0, 0.0),
            (Binary::Equal, 2.0, 2.0, 1.0),
        ];
        for (op, a, b, expected) in cases {
            assert_eq!(op.apply(a, b), expected, "{op:?}");
        }
        assert!(Binary::Max.apply(f32::NAN, 1.0).is_nan());
        assert!(Binary::Min.apply(1.0, f32::NAN).is_nan());
    }

    #[test]
    fn powers_of_mixed_types_have_the_type_of_the_base() {
        let squares = on("Pow", floats(&[2], &[2.0, 3.0]), ints(&[], &[2]));
        assert_eq!(squares.value(), floats(&[2], &[4.0, 9.0]));
        let roots = on("Pow", ints(&[2], &[4, 10]), floats(&[], &[0.5]));
        assert_eq!(roots.value(), ints(&[2], &[2, 3]));
        let cubes = on("Pow", ints(&[2], &[2, -3]), ints(&[], &[3]));
        assert_eq!(cubes.value(), ints(&[2], &[8, -27]));
    }

    #[test]
    fn the_slope_of_prelu_is_broadcast_to_the_input() {
        let x = floats(&[2, 2], &[-1.0, 2.0, -3.0, -4.0]);
        let got = on("PRelu", x, floats(&[2, 1], &[0.5, 0.25])).value();
        assert_eq!(got, floats(&[2, 2], &[-0.5, 2.0, -0.75, -1.0]));
        let error = Case::new("PRelu", 16)
            .input(DType::F32, &[2])
            .input(DType::F32, &[3, 2])
            .error();
        assert_eq!(
            error,
            "the slope of shape `3x2` does not fit the input of shape `2`"
        );
    }

    /// The examples of the ONNX documentation: `[3, 0, 2]`, `[1, 3, 4]`, `[2, 6, 6]`.
    #[test]
    fn any_number_of_inputs() {
        let three = |op| {
            Case::new(op, 13)
                .constant(floats(&[3], &[3.0, 0.0, 2.0]))
                .constant(floats(&[3], &[1.0, 3.0, 4.0]))
                .constant(floats(&[3], &[2.0, 6.0, 6.0]))
                .value()
        };
        assert_eq!(three("Sum"), floats(&[3], &[6.0, 9.0, 12.0]));
        assert_close(&three("Mean"), &floats(&[3], &[2.0, 3.0, 4.0]), 1e-7);
        assert_eq!(three("Min"), floats(&[3], &[1.0, 0.0, 2.0]));
        assert_eq!(three("Max"), floats(&[3], &[3.0, 6.0, 6.0]));
        let one = Case::new("Mean", 13)
            .input(DType::F32, &[2])
            .import()
            .unwrap();
        assert!(one.ops().is_empty());
        assert_eq!(Case::new("Sum", 13).error(), "it has no input");
    }

    #[test]
    fn chains_have_one_operator_less_than_inputs() {
        let sum = Case::new("Sum", 13)
            .input(DType::F32, &[2])
            .input(DType::F32, &[1])
            .input(DType::F32, &[2])
            .import()
            .unwrap();
        assert_eq!(sum.ops(), [&Op::Binary(Binary::Add); 2]);
    }

    #[test]
    fn functions_are_written_and_read_again() {
        let written = [
            Binary::Pow,
            Binary::Min,
            Binary::Max,
            Binary::Fmod,
            Binary::Mod,
        ];
        for binary in PLAIN.into_iter().chain(written) {
            let dtype = match binary.kind() {
                Kind::Logic => DType::Bool,
                Kind::Arithmetic if binary == Binary::Mod => DType::I64,
                Kind::Arithmetic | Kind::Comparison => DType::F32,
            };
            let types = [TensorType::new(dtype, [2, 3]), TensorType::new(dtype, [3])];
            assert_round_trip(Op::Binary(binary), &types);
        }
    }
}
