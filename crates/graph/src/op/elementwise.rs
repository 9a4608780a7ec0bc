//! What element-wise operators share, and those that are neither [unary](super::Unary) nor
//! [binary](super::Binary): Where, Cast and the operators that return their input.

use super::{Import, Op, arguments};
use crate::ValueId;
use crate::builder::{Builder, NodeContext};
use crate::error::OpError;
use crate::onnx::export::{OnnxNode, onnx_type};
use crate::onnx::proto::data_type;
use crate::tensor::{DType, Data, ShapeDisplay, Tensor, TensorType, element_count, strides};

/// The shape that values of the given shapes have together, by NumPy's rules: shapes are aligned
/// at their last axes, and extents of 1 stretch.
///
/// ```
/// use npcov_graph::op::broadcast;
///
/// assert_eq!(broadcast(&[&[8, 1, 6], &[7, 1]]).unwrap(), [8, 7, 6]);
/// assert!(broadcast(&[&[3], &[2]]).is_err());
/// ```
pub fn broadcast(shapes: &[&[usize]]) -> Result<Vec<usize>, OpError> {
    let mut result: Vec<usize> = Vec::new();
    for shape in shapes {
        if shape.len() > result.len() {
            let missing = shape.len() - result.len();
            result.splice(0..0, std::iter::repeat_n(1, missing));
        }
        let offset = result.len() - shape.len();
        for (axis, &extent) in shape.iter().enumerate() {
            let together = &mut result[offset + axis];
            if *together == 1 {
                *together = extent;
            } else if extent != 1 && extent != *together {
                return Err(cannot_broadcast(shapes));
            }
        }
    }
    Ok(result)
}

fn cannot_broadcast(shapes: &[&[usize]]) -> OpError {
    let shapes: Vec<String> = shapes
        .iter()
        .map(|shape| format!("`{}`", ShapeDisplay(shape)))
        .collect();
    OpError::invalid(format!(
        "shapes {} cannot be broadcast together",
        shapes.join(" and ")
    ))
}

/// For each element of a value broadcast from one shape to another: its row-major position in
/// the value; `None` when the shapes do not fit.
pub(super) fn positions(from: &[usize], to: &[usize]) -> Option<Vec<usize>> {
    let offset = to.len().checked_sub(from.len())?;
    let empty = element_count(to)? == 0;
    let mut positions = vec![0usize];
    let from_strides = strides(from);
    for (axis, &extent) in to.iter().enumerate() {
        // How far a step along this axis moves in the source.
        let step = match axis.checked_sub(offset) {
            Some(a) if from[a] == extent => from_strides[a],
            Some(a) if from[a] != 1 => return None,
            _ => 0,
        };
        // Next to an extent of zero, the others may be too large for a list.
        let steps = if empty { 0 } else { extent };
        positions = positions
            .iter()
            .flat_map(|&start| (0..steps).map(move |i| start + i * step))
            .collect();
    }
    Some(positions)
}

pub(super) fn infer_where(inputs: &[&TensorType]) -> Result<TensorType, OpError> {
    let [condition, a, b] = arguments(inputs)?;
    if condition.dtype != DType::Bool {
        let dtype = condition.dtype;
        return Err(OpError::invalid(format!(
            "the condition is of type {dtype}"
        )));
    }
    if a.dtype != b.dtype {
        let (a, b) = (a.dtype, b.dtype);
        return Err(OpError::invalid(format!("inputs are of types {a} and {b}")));
    }
    let shape = broadcast(&[&condition.shape, &a.shape, &b.shape])?;
    Ok(TensorType::new(a.dtype, shape))
}

pub(super) fn eval_where(inputs: &[&Tensor], output: &TensorType) -> Option<Tensor> {
    fn choose<T: Copy>(
        condition: impl Iterator<Item = Option<bool>>,
        (a, at): (&[T], &[usize]),
        (b, bt): (&[T], &[usize]),
    ) -> Option<Vec<T>> {
        condition
            .zip(at.iter().zip(bt))
            .map(|(c, (&i, &j))| if c? { a.get(i) } else { b.get(j) }.copied())
            .collect()
    }
    let [condition, a, b] = inputs else {
        return None;
    };
    let Data::Bool(truth) = condition.data() else {
        return None;
    };
    let ct = positions(condition.shape(), &output.shape)?;
    let condition = ct.iter().map(|&i| truth.get(i).copied());
    let at = positions(a.shape(), &output.shape)?;
    let bt = positions(b.shape(), &output.shape)?;
    let data = match (a.data(), b.data()) {
        (Data::F32(a), Data::F32(b)) => Data::F32(choose(condition, (a, &at), (b, &bt))?),
        (Data::I64(a), Data::I64(b)) => Data::I64(choose(condition, (a, &at), (b, &bt))?),
        (Data::Bool(a), Data::Bool(b)) => Data::Bool(choose(condition, (a, &at), (b, &bt))?),
        _ => return None,
    };
    Tensor::new(output.shape.clone(), data)
}

pub(super) fn infer_cast(to: DType, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
    let [x] = arguments(inputs)?;
    Ok(TensorType::new(to, x.shape.clone()))
}

/// Numbers become integers by truncation and truth values by comparison with zero.
pub(super) fn eval_cast(inputs: &[&Tensor], output: &TensorType) -> Option<Tensor> {
    let x = inputs.first()?;
    let data = match (x.data(), output.dtype) {
        (_, DType::F32) => Data::F32(x.to_f32()),
        (Data::F32(v), DType::I64) => Data::I64(v.iter().map(|&x| x as i64).collect()),
        (Data::F32(v), DType::Bool) => Data::Bool(v.iter().map(|&x| x != 0.0).collect()),
        (Data::I64(v), DType::I64) => Data::I64(v.clone()),
        (Data::I64(v), DType::Bool) => Data::Bool(v.iter().map(|&x| x != 0).collect()),
        (Data::Bool(v), DType::I64) => Data::I64(v.iter().map(|&x| i64::from(x)).collect()),
        (Data::Bool(v), DType::Bool) => Data::Bool(v.clone()),
    };
    Tensor::new(output.shape.clone(), data)
}

pub(super) fn export_cast(to: DType, node: &mut OnnxNode<'_>) {
    node.int("to", i64::from(onnx_type(to)));
}

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "Where" => Some(import_where),
        "Cast" => Some(import_cast),
        "CastLike" => Some(import_cast_like),
        "Identity" => Some(import_identity),
        "Dropout" => Some(import_dropout),
        _ => None,
    }
}

fn import_where(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let inputs = [node.input(0)?, node.input(1)?, node.input(2)?];
    Ok(vec![b.push(Op::Where, &inputs)?])
}

/// A cast between the widths of one kind of number disappears: all floating-point types are
/// computed as `f32` and all integers as `i64`. So rounding to `f16` or `bf16` and the wrapping
/// of narrow integers are not imitated.
fn import_cast(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    // `saturate` and `round_mode` are about 8-bit floating-point types, which are refused.
    node.attributes.ignore(&["saturate", "round_mode"]);
    let to = node
        .attributes
        .optional_int("to")?
        .ok_or_else(|| OpError::invalid("attribute `to` is missing"))?;
    let y = b.cast(node.input(0)?, dtype_of(to)?)?;
    if let Ok(onnx) = i32::try_from(to) {
        b.store_type(y, onnx);
    }
    Ok(vec![y])
}

/// The canonical type that stands for an ONNX element type.
pub(super) fn dtype_of(onnx: i64) -> Result<DType, OpError> {
    match i32::try_from(onnx) {
        Ok(data_type::FLOAT | data_type::FLOAT16 | data_type::BFLOAT16 | data_type::DOUBLE) => {
            Ok(DType::F32)
        }
        Ok(
            data_type::UINT8
            | data_type::INT8
            | data_type::UINT16
            | data_type::INT16
            | data_type::INT32
            | data_type::INT64
            | data_type::UINT32
            | data_type::UINT64,
        ) => Ok(DType::I64),
        Ok(data_type::BOOL) => Ok(DType::Bool),
        Ok(data_type::STRING) => Err(OpError::unsupported("strings")),
        _ => Err(OpError::unsupported(format!("element type {onnx}"))),
    }
}

fn import_cast_like(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    node.attributes.ignore(&["saturate", "round_mode"]);
    let to = b.dtype(node.input(1)?);
    Ok(vec![b.cast(node.input(0)?, to)?])
}

fn import_identity(node: &NodeContext<'_>, _: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    Ok(vec![node.input(0)?])
}

/// In inference, dropout returns its input, and a mask that keeps everything; in training it
/// does so at a ratio of 0.
fn import_dropout(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    node.attributes.ignore(&["ratio", "seed"]);
    if let Some(training) = node.optional(2)
        && b.float(training, "training_mode")? != 0.0
    {
        let ratio = node.optional(1).map(|ratio| b.float(ratio, "ratio"));
        if ratio.transpose()? != Some(0.0) {
            return Err(OpError::unsupported("`training_mode` is on"));
        }
    }
    let x = node.input(0)?;
    // Before opset 10, the mask's content is not defined.
    if node.opset < 10 || !matches!(node.used_outputs[..], [_, true]) {
        node.only_outputs(1)?;
        return Ok(vec![x]);
    }
    let kept = Tensor::new([], Data::Bool(vec![true]));
    let kept = b.tensor(kept.ok_or_else(|| OpError::invalid("a scalar has one element"))?);
    let mask = b.push(Op::Expand(b.shape(x)), &[kept])?;
    Ok(vec![x, mask])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, assert_round_trip, bools, floats, ints};
    use super::*;

    #[test]
    fn extents_of_one_stretch() {
        // The example in NumPy's guide to broadcasting.
        assert_eq!(
            broadcast(&[&[8, 1, 6, 1], &[7, 1, 5]]).unwrap(),
            [8, 7, 6, 5]
        );
        assert_eq!(broadcast(&[&[], &[2], &[3, 1]]).unwrap(), [3, 2]);
        assert_eq!(broadcast(&[&[0], &[1]]).unwrap(), [0]);
        assert_eq!(
            broadcast(&[&[2, 1], &[8, 4, 3]]).unwrap_err().to_string(),
            "shapes `2x1` and `8x4x3` cannot be broadcast together"
        );
        assert!(broadcast(&[&[0], &[2]]).is_err());
    }

    #[test]
    fn positions_repeat_where_an_axis_stretches() {
        assert_eq!(positions(&[2, 1], &[2, 3]).unwrap(), [0, 0, 0, 1, 1, 1]);
        assert_eq!(positions(&[2], &[2, 2]).unwrap(), [0, 1, 0, 1]);
        assert_eq!(positions(&[], &[2]).unwrap(), [0, 0]);
        assert!(positions(&[1], &[0]).unwrap().is_empty());
        assert!(positions(&[1 << 50, 0], &[1 << 50, 0]).unwrap().is_empty());
        assert_eq!(positions(&[3], &[2]), None);
    }

    /// The example of the ONNX documentation of Where.
    #[test]
    fn where_chooses() {
        let condition = bools(&[2, 2], &[true, false, true, true]);
        let got = Case::new("Where", 16)
            .constant(condition)
            .constant(floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]))
            .constant(floats(&[2, 2], &[9.0, 8.0, 7.0, 6.0]))
            .value();
        assert_eq!(got, floats(&[2, 2], &[1.0, 8.0, 3.0, 4.0]));
        let got = Case::new("Where", 16)
            .constant(bools(&[2, 1], &[true, false]))
            .constant(ints(&[2], &[1, 2]))
            .constant(ints(&[], &[0]))
            .value();
        assert_eq!(got, ints(&[2, 2], &[1, 2, 0, 0]));
    }

    #[test]
    fn where_checks_types() {
        let case = |condition, a, b| {
            Case::new("Where", 16)
                .input(condition, &[2])
                .input(a, &[2])
                .input(b, &[2])
        };
        assert_eq!(
            case(DType::F32, DType::F32, DType::F32).error(),
            "the condition is of type float"
        );
        assert_eq!(
            case(DType::Bool, DType::F32, DType::I64).error(),
            "inputs are of types float and integer"
        );
    }

    #[test]
    fn casts_truncate_and_compare_with_zero() {
        let x = || floats(&[4], &[-1.7, 0.0, 0.4, 1e30]);
        let to = |x, to: i32| {
            Case::new("Cast", 13)
                .constant(x)
                .int("to", to.into())
                .value()
        };
        let integers = ints(&[4], &[-1, 0, 0, i64::MAX]);
        assert_eq!(to(x(), data_type::INT32), integers);
        assert_eq!(
            to(x(), data_type::BOOL),
            bools(&[4], &[true, false, true, true])
        );
        assert_eq!(to(x(), data_type::FLOAT16), x());
        assert_eq!(to(bools(&[1], &[true]), data_type::INT64), ints(&[1], &[1]));
        assert_eq!(
            to(ints(&[1], &[3]), data_type::DOUBLE),
            floats(&[1], &[3.0])
        );
    }

    #[test]
    fn casts_within_a_kind_disappear() {
        let half = Case::new("Cast", 13).input(DType::F32, &[2]).int("to", 10);
        assert!(half.import().unwrap().ops().is_empty());
        let like = Case::new("CastLike", 15)
            .input(DType::F32, &[2])
            .input(DType::I64, &[]);
        assert_eq!(like.import().unwrap().ops(), [&Op::Cast(DType::I64)]);
    }

    #[test]
    fn casts_to_other_types_are_unsupported() {
        let to = |to| {
            Case::new("Cast", 19)
                .input(DType::F32, &[2])
                .int("to", to)
                .error()
        };
        assert_eq!(to(8), "unsupported: strings");
        assert_eq!(to(17), "unsupported: element type 17");
        assert_eq!(
            to(i64::MAX),
            format!("unsupported: element type {}", i64::MAX)
        );
        let none = Case::new("Cast", 13).input(DType::F32, &[2]);
        assert_eq!(none.error(), "attribute `to` is missing");
    }

    #[test]
    fn dropout_is_removed() {
        let old = Case::new("Dropout", 7)
            .input(DType::F32, &[2])
            .float("ratio", 0.5);
        assert!(old.import().unwrap().ops().is_empty());
        let training = |on| {
            Case::new("Dropout", 13)
                .input(DType::F32, &[2])
                .constant(Tensor::scalar(0.5))
                .constant(bools(&[], &[on]))
        };
        assert!(training(false).import().unwrap().ops().is_empty());
        assert_eq!(training(true).error(), "unsupported: `training_mode` is on");
        let masked = training(false).outputs(2).import().unwrap();
        let mask = masked.graph.constant(masked.outputs[1]).unwrap();
        assert_eq!(mask.as_ref(), &bools(&[2], &[true, true]));
    }

    #[test]
    fn where_and_cast_are_written_and_read_again() {
        let ty = |dtype| TensorType::new(dtype, [2, 3]);
        let inputs = [DType::Bool, DType::F32, DType::F32].map(ty);
        assert_round_trip(Op::Where, &inputs);
        assert_round_trip(Op::Cast(DType::F32), &[ty(DType::I64)]);
        assert_round_trip(Op::Cast(DType::I64), &[ty(DType::F32)]);
        assert_round_trip(Op::Cast(DType::Bool), &[ty(DType::F32)]);
    }
}
