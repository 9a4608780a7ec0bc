//! Quantised models (QDQ form) as plain arithmetic: the integers are computed exactly, as numbers
//! between the limits of their type.

use super::{Binary, Gather, Import, Op, Unary};
use crate::ValueId;
use crate::builder::{self, Builder, NodeContext};
use crate::error::OpError;
use crate::onnx::proto::data_type;
use crate::tensor::{DType, ShapeDisplay, Tensor};

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "QuantizeLinear" => Some(import_quantize),
        "DequantizeLinear" => Some(import_dequantize),
        _ => None,
    }
}

/// `(x - zero_point) * scale`.
fn import_dequantize(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    if b.dtype(x) != DType::I64 {
        let dtype = b.dtype(x);
        return Err(OpError::unsupported(format!(
            "the input is of type {dtype}"
        )));
    }
    let layout = Layout::read(node, b, x)?;
    let scale = layout.along(b, node.input(1)?, "scale")?;
    // 8- and 16-bit integers are exact as `f32`; 32-bit ones have no zero point.
    let mut y = b.cast(x, DType::F32)?;
    if let Some(zero) = layout.zero_point(node, b)? {
        y = b.binary(Binary::Sub, y, zero)?;
    }
    Ok(vec![b.binary(Binary::Mul, y, scale)?])
}

/// `saturate(round(x / scale) + zero_point)`, halves rounded to even.
fn import_quantize(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    node.attributes.ignore(&["saturate", "precision"]);
    let x = node.input(0)?;
    let (min, max) = limits(node, b)?;
    let layout = Layout::read(node, b, x)?;
    let scale = layout.along(b, node.input(1)?, "scale")?;
    let x = b.cast(x, DType::F32)?;
    let quotient = b.binary(Binary::Div, x, scale)?;
    let mut y = b.unary(Unary::Round, quotient)?;
    if let Some(zero) = layout.zero_point(node, b)? {
        y = b.binary(Binary::Add, y, zero)?;
    }
    let y = b.unary(Unary::Clip { min, max }, y)?;
    Ok(vec![b.cast(y, DType::I64)?])
}

/// The limits of the integer type: `output_dtype`, or the zero point's, or 8 bits without sign
/// when the node has neither.
fn limits(node: &NodeContext<'_>, b: &Builder<'_>) -> Result<(f32, f32), OpError> {
    let given = node.attributes.int("output_dtype", 0)?;
    let given =
        i32::try_from(given).map_err(|_| OpError::invalid(format!("`output_dtype` is {given}")))?;
    let dtype = match (given, node.optional(2)) {
        (0, None) => data_type::UINT8,
        (0, Some(zero)) => b
            .stored_type(zero)
            .ok_or_else(|| OpError::unsupported("the zero point's type is computed"))?,
        _ => given,
    };
    match dtype {
        data_type::UINT8 => Ok((0.0, 255.0)),
        data_type::INT8 => Ok((-128.0, 127.0)),
        data_type::UINT16 => Ok((0.0, 65_535.0)),
        data_type::INT16 => Ok((-32_768.0, 32_767.0)),
        _ => Err(OpError::unsupported(format!("element type {dtype}"))),
    }
}

/// How scale and zero point lie along the value: one number, one per position of an axis, or one
/// per block of positions.
struct Layout {
    axis: i64,
    shape: Vec<usize>,
    /// Length of a block; 0 when there are none.
    block: usize,
}

impl Layout {
    fn read(node: &NodeContext<'_>, b: &Builder<'_>, x: ValueId) -> Result<Self, OpError> {
        let block = node.attributes.int("block_size", 0)?;
        Ok(Layout {
            axis: node.attributes.int("axis", 1)?,
            shape: b.shape(x),
            block: usize::try_from(block)
                .map_err(|_| OpError::invalid(format!("`block_size` is {block}")))?,
        })
    }

    /// A parameter in a shape that broadcasts along the axis.
    fn along(&self, b: &mut Builder<'_>, value: ValueId, what: &str) -> Result<ValueId, OpError> {
        if self.block > 0 {
            return self.blocks(b, value, what);
        }
        let number = match b.shape(value)[..] {
            [] | [1] => return b.reshape(value, []),
            [number] => number,
            _ => return Err(OpError::unsupported(format!("`{what}` has several axes"))),
        };
        let axis = builder::axis(self.axis, self.shape.len())?;
        if number != self.shape[axis] {
            let extent = self.shape[axis];
            return Err(OpError::invalid(format!(
                "`{what}` has {number} elements, axis {axis} has extent {extent}"
            )));
        }
        let mut along = vec![1; self.shape.len() - axis];
        along[0] = number;
        b.reshape(value, along)
    }

    /// A parameter with one number per block, each repeated for the whole block.
    fn blocks(&self, b: &mut Builder<'_>, value: ValueId, what: &str) -> Result<ValueId, OpError> {
        let axis = builder::axis(self.axis, self.shape.len())?;
        let mut expected = self.shape.clone();
        expected[axis] = expected[axis].div_ceil(self.block);
        if b.shape(value) != expected {
            let (got, wanted) = (b.shape(value), ShapeDisplay(&expected));
            return Err(OpError::invalid(format!(
                "`{what}` has shape `{}`, blocks need `{wanted}`",
                ShapeDisplay(&got)
            )));
        }
        b.make_room(self.shape[axis])?;
        let block_of = |i: usize| (i / self.block) as i64;
        let blocks = (0..self.shape[axis]).map(block_of).collect();
        let blocks = b.tensor(Tensor::ints(blocks));
        b.push(Op::Gather(Gather { axis }), &[value, blocks])
    }

    /// The zero point as floating-point numbers, unless it is zero everywhere.
    fn zero_point(
        &self,
        node: &NodeContext<'_>,
        b: &mut Builder<'_>,
    ) -> Result<Option<ValueId>, OpError> {
        let Some(zero) = node.optional(2) else {
            return Ok(None);
        };
        let vanishes = |values: Vec<f32>| values.iter().all(|&x| x == 0.0);
        if b.constant(zero).is_some_and(|zero| vanishes(zero.to_f32())) {
            return Ok(None);
        }
        let zero = b.cast(zero, DType::F32)?;
        self.along(b, zero, "zero_point").map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, assert_close, floats, ints};
    use super::*;

    /// The example of the ONNX documentation of DequantizeLinear.
    #[test]
    fn integers_become_numbers() {
        let got = Case::new("DequantizeLinear", 13)
            .constant(ints(&[4], &[0, 3, 128, 255]))
            .constant(Tensor::scalar(2.0))
            .constant(ints(&[], &[128]))
            .value();
        assert_eq!(got, floats(&[4], &[-256.0, -250.0, 0.0, 254.0]));
    }

    #[test]
    fn parameters_lie_along_the_axis() {
        let case = |axis| {
            Case::new("DequantizeLinear", 13)
                .constant(ints(&[1, 2, 2], &[1, 2, 3, 4]))
                .constant(floats(&[2], &[1.0, 10.0]))
                .constant(ints(&[2], &[0, 1]))
                .int("axis", axis)
        };
        assert_eq!(case(1).value(), floats(&[1, 2, 2], &[1.0, 2.0, 20.0, 30.0]));
        assert_eq!(
            case(-1).value(),
            floats(&[1, 2, 2], &[1.0, 10.0, 3.0, 30.0])
        );
        assert_eq!(
            case(0).error(),
            "`scale` has 2 elements, axis 0 has extent 1"
        );
    }

    #[test]
    fn parameters_repeat_within_blocks() {
        let case = Case::new("DequantizeLinear", 21)
            .constant(ints(&[5], &[1, 2, 3, 4, 5]))
            .constant(floats(&[3], &[1.0, 10.0, 100.0]))
            .int("axis", 0)
            .int("block_size", 2);
        assert_eq!(case.value(), floats(&[5], &[1.0, 2.0, 30.0, 40.0, 500.0]));
    }

    /// The example of the ONNX documentation of QuantizeLinear:
    /// `[0, 2, 3, 1000, -254, -1000]` over 2 is `[0, 1, 1.5, 500, -127, -500]`.
    #[test]
    fn numbers_are_rounded_and_saturated() {
        let x = || floats(&[6], &[0.0, 2.0, 3.0, 1000.0, -254.0, -1000.0]);
        let case = || {
            Case::new("QuantizeLinear", 21)
                .constant(x())
                .constant(Tensor::scalar(2.0))
        };
        assert_eq!(case().value(), ints(&[6], &[0, 1, 2, 255, 0, 0]));
        let signed = case().int("output_dtype", data_type::INT8.into()).value();
        assert_eq!(signed, ints(&[6], &[0, 1, 2, 127, -127, -128]));
        let shifted = case()
            .constant(ints(&[], &[128]))
            .int("output_dtype", data_type::UINT8.into())
            .value();
        assert_eq!(shifted, ints(&[6], &[128, 129, 130, 255, 1, 0]));
        let stored = case().stored(data_type::UINT8, ints(&[], &[128])).value();
        assert_eq!(stored, shifted);
        let signed = case().stored(data_type::INT8, ints(&[], &[1])).value();
        assert_eq!(signed, ints(&[6], &[1, 2, 3, 127, -126, -128]));
    }

    #[test]
    fn other_forms_are_unsupported() {
        let case = || {
            Case::new("QuantizeLinear", 21)
                .input(DType::F32, &[2])
                .constant(Tensor::scalar(1.0))
        };
        let zero = case().constant(ints(&[], &[0]));
        assert_eq!(
            zero.error(),
            "unsupported: the zero point's type is computed"
        );
        let four = case().int("output_dtype", 22);
        assert_eq!(four.error(), "unsupported: element type 22");
        let blocks = case().int("block_size", 32).int("axis", 0);
        assert_eq!(
            blocks.error(),
            "`scale` has shape `scalar`, blocks need `1`"
        );
        let float = Case::new("DequantizeLinear", 21)
            .input(DType::F32, &[2])
            .constant(Tensor::scalar(1.0));
        assert_eq!(float.error(), "unsupported: the input is of type float");
    }

    #[test]
    fn a_round_trip_keeps_what_the_grid_can_hold() {
        let x = floats(&[3], &[0.0, 0.5, 1.0]);
        let scale = Tensor::scalar(0.25);
        let quantised = Case::new("QuantizeLinear", 13)
            .constant(x.clone())
            .constant(scale.clone())
            .value();
        let back = Case::new("DequantizeLinear", 13)
            .constant(quantised)
            .constant(scale)
            .value();
        assert_close(&back, &x, 0.0);
    }
}
