//! Operators that move elements without computing: reshapes, transposes, concatenation, copies.

use super::window::too_large;
use super::{Import, Op, arguments, broadcast};
use crate::ValueId;
use crate::builder::{Builder, NodeContext, axes, axis};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::{Data, ShapeDisplay, Tensor, TensorType, element_count, strides};

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "Reshape" => Some(import_reshape),
        "Flatten" => Some(import_flatten),
        "Squeeze" => Some(import_squeeze),
        "Unsqueeze" => Some(import_unsqueeze),
        "Transpose" => Some(import_transpose),
        "Concat" => Some(import_concat),
        "Expand" => Some(import_expand),
        "Tile" => Some(import_tile),
        _ => None,
    }
}

/// Extents as ONNX writes them.
pub(super) fn to_i64(values: &[usize]) -> Vec<i64> {
    values
        .iter()
        .map(|&v| i64::try_from(v).unwrap_or(i64::MAX))
        .collect()
}

pub(super) fn export_reshape(shape: &[usize], node: &mut OnnxNode<'_>) {
    node.int_input(&to_i64(shape));
    // Zero would stand for the input's extent.
    if shape.contains(&0) {
        node.int("allowzero", 1);
    }
}

/// Extents as ONNX writes them, none below zero.
pub(super) fn to_usize(values: &[i64], what: &str) -> Result<Vec<usize>, OpError> {
    let size =
        |&v| usize::try_from(v).map_err(|_| OpError::invalid(format!("`{what}` contains {v}")));
    values.iter().map(size).collect()
}

/// The tensor whose element at `[i, j, ...]` is element `table(0)[i] + table(1)[j] + ...` of `x`.
///
/// This is what every operator comes down to that treats axes one by one: axis `a` of the output
/// has a table of the offsets in the input that its positions stand for.
pub(super) fn select_by_axis(
    x: &Tensor,
    output: &TensorType,
    table: impl Fn(usize) -> Option<Vec<usize>>,
) -> Option<Tensor> {
    let mut positions = vec![0];
    // With no element there may still be extents too large for a table.
    if output.numel() == 0 {
        positions.clear();
    } else {
        for axis in 0..output.rank() {
            let offsets = table(axis)?;
            let along = |&base: &usize| offsets.iter().map(move |o| base + o).collect::<Vec<_>>();
            positions = positions.iter().flat_map(along).collect();
        }
    }
    x.select(output.shape.clone(), &positions)
}

/// The output's type: the wanted shape, which must have as many elements.
pub(super) fn infer_reshape(
    shape: &[usize],
    inputs: &[&TensorType],
) -> Result<TensorType, OpError> {
    let [x] = arguments(inputs)?;
    if element_count(shape) != element_count(&x.shape) {
        return Err(OpError::invalid(format!(
            "`{}` cannot become `{}`",
            ShapeDisplay(&x.shape),
            ShapeDisplay(shape)
        )));
    }
    Ok(TensorType::new(x.dtype, shape))
}

/// The output's type: the axes in another order.
pub(super) fn infer_transpose(
    perm: &[usize],
    inputs: &[&TensorType],
) -> Result<TensorType, OpError> {
    let [x] = arguments(inputs)?;
    let mut sorted = perm.to_vec();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..x.rank()) {
        let message = format!("{perm:?} is no order of {} axes", x.rank());
        return Err(OpError::invalid(message));
    }
    let shape: Vec<usize> = perm.iter().map(|&p| x.shape[p]).collect();
    Ok(TensorType::new(x.dtype, shape))
}

/// The axes in another order, element by element.
pub(super) fn eval_transpose(
    perm: &[usize],
    inputs: &[&Tensor],
    output: &TensorType,
) -> Option<Tensor> {
    let x = inputs.first()?;
    let strides = strides(x.shape());
    select_by_axis(x, output, |axis| {
        let stride = strides.get(*perm.get(axis)?)?;
        Some((0..output.shape[axis]).map(|i| i * stride).collect())
    })
}

/// The output's type: the inputs' extents added along an axis.
pub(super) fn infer_concat(axis: usize, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
    let Some((first, rest)) = inputs.split_first() else {
        return Err(OpError::invalid("it has no input"));
    };
    let mut output = (*first).clone();
    if axis >= output.rank() {
        let message = format!("axis {axis} does not exist in {} axes", output.rank());
        return Err(OpError::invalid(message));
    }
    for input in rest {
        let fits = input.dtype == first.dtype
            && input.rank() == first.rank()
            && (0..first.rank()).all(|a| a == axis || input.shape[a] == first.shape[a]);
        if !fits {
            let message = format!("`{input}` and `{first}` cannot be joined along axis {axis}");
            return Err(OpError::invalid(message));
        }
        let extent = output.shape[axis].checked_add(input.shape[axis]);
        output.shape[axis] = extent.ok_or_else(too_large)?;
    }
    Ok(output)
}

/// The inputs one after the other along an axis.
pub(super) fn eval_concat(axis: usize, inputs: &[&Tensor], output: &TensorType) -> Option<Tensor> {
    if output.numel() == 0 {
        return inputs.first()?.select(output.shape.clone(), &[]);
    }
    let leading = output.shape.get(..axis)?.iter().product();
    let data = match inputs.first()?.data() {
        Data::F32(_) => Data::F32(join(inputs, leading, Tensor::as_f32)?),
        Data::I64(_) => Data::I64(join(inputs, leading, Tensor::as_i64)?),
        Data::Bool(_) => Data::Bool(join(inputs, leading, |t| match t.data() {
            Data::Bool(v) => Some(v),
            Data::F32(_) | Data::I64(_) => None,
        })?),
    };
    Tensor::new(output.shape.clone(), data)
}

/// What stands behind the axis is contiguous in every input: one block per leading position.
fn join<T: Copy>(
    inputs: &[&Tensor],
    leading: usize,
    elements: impl Fn(&Tensor) -> Option<&[T]>,
) -> Option<Vec<T>> {
    let mut joined = Vec::new();
    for block in 0..leading {
        for &input in inputs {
            let data = elements(input)?;
            let length = data.len() / leading;
            joined.extend_from_slice(data.get(block * length..(block + 1) * length)?);
        }
    }
    Some(joined)
}

/// The output's type: the wanted shape, which the input must broadcast to.
pub(super) fn infer_expand(shape: &[usize], inputs: &[&TensorType]) -> Result<TensorType, OpError> {
    let [x] = arguments(inputs)?;
    if broadcast(&[&x.shape, shape])? != shape {
        return Err(OpError::invalid(format!(
            "`{}` cannot be broadcast to `{}`",
            ShapeDisplay(&x.shape),
            ShapeDisplay(shape)
        )));
    }
    Ok(TensorType::new(x.dtype, shape))
}

/// Broadcasting, element by element.
pub(super) fn eval_expand(inputs: &[&Tensor], output: &TensorType) -> Option<Tensor> {
    let x = inputs.first()?;
    let strides = strides(x.shape());
    let added = output.rank().checked_sub(strides.len())?;
    select_by_axis(x, output, |axis| {
        let stride = match axis.checked_sub(added) {
            Some(a) if x.shape()[a] > 1 => strides[a],
            _ => 0,
        };
        Some((0..output.shape[axis]).map(|i| i * stride).collect())
    })
}

/// The output's type: every extent times its number of repetitions.
pub(super) fn infer_tile(repeats: &[usize], inputs: &[&TensorType]) -> Result<TensorType, OpError> {
    let [x] = arguments(inputs)?;
    if repeats.len() != x.rank() {
        let message = format!("{} repetitions for {} axes", repeats.len(), x.rank());
        return Err(OpError::invalid(message));
    }
    let extent = |(d, r): (&usize, &usize)| d.checked_mul(*r).ok_or_else(too_large);
    let shape: Vec<usize> = x
        .shape
        .iter()
        .zip(repeats)
        .map(extent)
        .collect::<Result<_, _>>()?;
    Ok(TensorType::new(x.dtype, shape))
}

/// Repetition, element by element.
pub(super) fn eval_tile(inputs: &[&Tensor], output: &TensorType) -> Option<Tensor> {
    let x = inputs.first()?;
    let strides = strides(x.shape());
    select_by_axis(x, output, |axis| {
        let (stride, extent) = (strides.get(axis)?, x.shape().get(axis)?);
        Some(
            (0..output.shape[axis])
                .map(|i| i % extent * stride)
                .collect(),
        )
    })
}

fn import_reshape(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let wanted = builder.ints(node.input(1)?, "shape")?;
    let copy_zeros = !node.attributes.flag("allowzero", false)?;
    let shape = resolve_shape(&wanted, &builder.shape(x), copy_zeros)?;
    Ok(vec![builder.reshape(x, shape)?])
}

/// The shape that a Reshape asks for: -1 is what remains, 0 a copy of the input's extent.
fn resolve_shape(wanted: &[i64], from: &[usize], copy_zeros: bool) -> Result<Vec<usize>, OpError> {
    let mut shape = Vec::with_capacity(wanted.len());
    let mut open = None;
    for (i, &extent) in wanted.iter().enumerate() {
        shape.push(match extent {
            -1 if open.is_none() => {
                open = Some(i);
                1
            }
            0 if copy_zeros => *from.get(i).ok_or_else(|| {
                OpError::invalid(format!("the shape copies axis {i} of {} axes", from.len()))
            })?,
            _ => usize::try_from(extent)
                .map_err(|_| OpError::invalid(format!("the shape is {wanted:?}")))?,
        });
    }
    if let Some(open) = open {
        let total = element_count(from).ok_or_else(too_large)?;
        let known = element_count(&shape).ok_or_else(too_large)?;
        shape[open] = match total.checked_rem(known) {
            Some(0) => total / known,
            _ => {
                let from = ShapeDisplay(from);
                return Err(OpError::invalid(format!(
                    "`{from}` cannot become {wanted:?}"
                )));
            }
        };
    }
    Ok(shape)
}

fn import_flatten(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let shape = builder.shape(x);
    let at = node.attributes.int("axis", 1)?;
    // Unlike elsewhere, the axis may be one past the last.
    let at = match usize::try_from(at) {
        Ok(at) if at == shape.len() => at,
        _ => axis(at, shape.len())?,
    };
    let product = |part: &[usize]| element_count(part).ok_or_else(too_large);
    let flat = [product(&shape[..at])?, product(&shape[at..])?];
    Ok(vec![builder.reshape(x, flat)?])
}

/// The axes of Squeeze and Unsqueeze: an attribute before opset 13, an input since.
fn listed_axes(node: &NodeContext<'_>, builder: &Builder<'_>) -> Result<Option<Vec<i64>>, OpError> {
    if node.opset < 13 {
        return node.attributes.ints("axes");
    }
    let ints = |value| builder.ints(value, "axes");
    node.optional(1).map(ints).transpose()
}

fn import_squeeze(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let shape = builder.shape(x);
    let removed = match listed_axes(node, builder)? {
        Some(list) => axes(&list, shape.len())?,
        None => (0..shape.len()).filter(|&a| shape[a] == 1).collect(),
    };
    if let Some(&a) = removed.iter().find(|&&a| shape[a] != 1) {
        let message = format!(
            "axis {a} of `{}` has more than one position",
            ShapeDisplay(&shape)
        );
        return Err(OpError::invalid(message));
    }
    let kept = (0..shape.len()).filter(|a| !removed.contains(a));
    let shape: Vec<usize> = kept.map(|a| shape[a]).collect();
    Ok(vec![builder.reshape(x, shape)?])
}

fn import_unsqueeze(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let list = listed_axes(node, builder)?.ok_or_else(|| OpError::invalid("`axes` is missing"))?;
    let shape = builder.shape(x);
    let rank = shape.len() + list.len();
    let added = axes(&list, rank)?;
    let mut rest = shape.into_iter();
    let extent = |a| {
        if added.contains(&a) {
            Some(1)
        } else {
            rest.next()
        }
    };
    let shape: Vec<usize> = (0..rank).filter_map(extent).collect();
    Ok(vec![builder.reshape(x, shape)?])
}

fn import_transpose(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let perm = match node.attributes.ints("perm")? {
        Some(perm) => to_usize(&perm, "perm")?,
        None => (0..builder.rank(x)).rev().collect(),
    };
    Ok(vec![transpose(builder, x, &perm)?])
}

/// Appends a transpose; one that keeps all elements in their order is a reshape.
pub(super) fn transpose(
    builder: &mut Builder<'_>,
    x: ValueId,
    perm: &[usize],
) -> Result<ValueId, OpError> {
    let ty = infer_transpose(perm, &[&builder.graph.value(x).ty])?;
    let shape = builder.graph.shape(x);
    let moved: Vec<usize> = perm.iter().copied().filter(|&a| shape[a] != 1).collect();
    if moved.is_sorted() {
        return builder.reshape(x, ty.shape);
    }
    builder.push(Op::Transpose(perm.to_vec()), &[x])
}

fn import_concat(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let inputs = node.variadic()?;
    let along = node.attributes.optional_int("axis")?;
    let along = along.ok_or_else(|| OpError::invalid("`axis` is missing"))?;
    let along = axis(along, builder.rank(inputs[0]))?;
    match inputs[..] {
        [x] => Ok(vec![x]),
        _ => Ok(vec![builder.push(Op::Concat(along), &inputs)?]),
    }
}

fn import_expand(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let wanted = to_usize(&builder.ints(node.input(1)?, "shape")?, "shape")?;
    let from = builder.shape(x);
    // The shape may itself have extents of 1 where the input has more.
    let shape = broadcast(&[&from, &wanted])?;
    if shape.ends_with(&from) && shape[..shape.len() - from.len()].iter().all(|&d| d == 1) {
        return Ok(vec![builder.reshape(x, shape)?]);
    }
    Ok(vec![builder.push(Op::Expand(shape), &[x])?])
}

fn import_tile(node: &NodeContext<'_>, builder: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let repeats = to_usize(&builder.ints(node.input(1)?, "repeats")?, "repeats")?;
    infer_tile(&repeats, &[&builder.graph.value(x).ty])?;
    if repeats.iter().all(|&r| r == 1) {
        return Ok(vec![x]);
    }
    Ok(vec![builder.push(Op::Tile(repeats), &[x])?])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, bools, floats, ints};
    use super::*;
    use crate::tensor::DType;

    fn counting(shape: &[usize]) -> Tensor {
        let n = shape.iter().product::<usize>();
        floats(shape, &(0..n).map(|i| i as f32).collect::<Vec<_>>())
    }

    fn reshape(from: &[usize], to: &[i64]) -> Case {
        Case::new("Reshape", 13)
            .input(DType::F32, from)
            .constant(ints(&[to.len()], to))
    }

    fn shape(case: Case) -> Vec<usize> {
        case.import().unwrap().ty().shape.clone()
    }

    #[test]
    fn reshapes_of_the_onnx_documentation_have_its_shapes() {
        // "Reshape" of the ONNX operators, whose input is 2x3x4.
        for (to, expected) in [
            (vec![4, 2, 3], vec![4, 2, 3]),
            (vec![2, 12], vec![2, 12]),
            (vec![2, -1, 2], vec![2, 6, 2]),
            (vec![-1, 2, 3, 4], vec![1, 2, 3, 4]),
            (vec![2, 0, 4, 1], vec![2, 3, 4, 1]),
            (vec![2, 0, 1, -1], vec![2, 3, 1, 4]),
        ] {
            assert_eq!(shape(reshape(&[2, 3, 4], &to)), expected, "{to:?}");
        }
        let zero = reshape(&[0, 3, 4], &[3, 4, 0]).int("allowzero", 1);
        assert_eq!(shape(zero), [3, 4, 0]);
    }

    #[test]
    fn impossible_reshapes_are_refused() {
        for (from, to) in [
            (vec![2, 3], vec![5]),
            (vec![2, 3], vec![4, -1]),
            (vec![2, 3], vec![-1, -1]),
            (vec![2, 3], vec![-2, 3]),
            (vec![2, 3], vec![2, 3, 0]),
            (vec![2, 0], vec![0, 0, -1]),
            (vec![2, 3], vec![i64::MAX, i64::MAX]),
            (vec![2, 3], vec![i64::MAX, i64::MAX, -1]),
        ] {
            assert!(reshape(&from, &to).import().is_err(), "{to:?}");
        }
        let computed = Case::new("Reshape", 13)
            .input(DType::F32, &[4])
            .input(DType::I64, &[2]);
        assert_eq!(
            computed.error(),
            "unsupported: `shape` depends on the model's input"
        );
    }

    #[test]
    fn a_reshape_to_the_same_shape_disappears() {
        let imported = reshape(&[2, 3], &[0, -1]).import().unwrap();
        assert!(imported.ops().is_empty());
    }

    #[test]
    fn flatten_splits_the_axes_in_two() {
        // "Flatten" of the ONNX operators, whose input is 2x3x4x5.
        let flatten = |axis| {
            Case::new("Flatten", 13)
                .input(DType::F32, &[2, 3, 4, 5])
                .int("axis", axis)
        };
        assert_eq!(shape(flatten(0)), [1, 120]);
        assert_eq!(shape(flatten(2)), [6, 20]);
        assert_eq!(shape(flatten(4)), [120, 1]);
        assert_eq!(shape(flatten(-1)), [24, 5]);
        assert!(flatten(5).import().is_err());
        assert!(flatten(-5).import().is_err());
    }

    #[test]
    fn squeeze_and_unsqueeze_in_both_forms() {
        let squeeze = |opset| Case::new("Squeeze", opset).input(DType::F32, &[1, 3, 1, 5]);
        assert_eq!(shape(squeeze(11)), [3, 5]);
        assert_eq!(shape(squeeze(11).ints("axes", &[-2])), [1, 3, 5]);
        assert_eq!(shape(squeeze(13).constant(ints(&[1], &[0]))), [3, 1, 5]);
        assert!(squeeze(11).ints("axes", &[1]).import().is_err());
        assert!(squeeze(11).ints("axes", &[0, -4]).import().is_err());
        let unsqueeze = |opset| Case::new("Unsqueeze", opset).input(DType::F32, &[3, 4]);
        assert_eq!(shape(unsqueeze(11).ints("axes", &[0, 3])), [1, 3, 4, 1]);
        assert_eq!(
            shape(unsqueeze(13).constant(ints(&[2], &[-1, 1]))),
            [3, 1, 4, 1]
        );
        assert!(unsqueeze(11).ints("axes", &[4]).import().is_err());
        assert!(unsqueeze(13).import().is_err());
    }

    #[test]
    fn transposing_reverses_by_default() {
        let value = Case::new("Transpose", 13)
            .constant(counting(&[2, 3]))
            .value();
        // numpy.arange(6).reshape(2, 3).T
        assert_eq!(value, floats(&[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
        let value = Case::new("Transpose", 13)
            .constant(ints(&[2, 1, 3], &[0, 1, 2, 3, 4, 5]))
            .ints("perm", &[2, 0, 1])
            .value();
        assert_eq!(value, ints(&[3, 2, 1], &[0, 3, 1, 4, 2, 5]));
        let wrong = Case::new("Transpose", 13).input(DType::F32, &[2, 3]);
        assert!(wrong.ints("perm", &[0, 0]).import().is_err());
    }

    #[test]
    fn a_transpose_that_moves_nothing_is_a_reshape() {
        let imported = Case::new("Transpose", 13)
            .input(DType::F32, &[1, 3, 1, 5])
            .ints("perm", &[2, 1, 3, 0])
            .import()
            .unwrap();
        assert_eq!(imported.ops(), [&Op::Reshape(vec![1, 3, 5, 1])]);
    }

    #[test]
    fn concatenation_joins_blocks() {
        // numpy.concatenate([[[1, 2], [3, 4]], [[5], [6]]], axis=1)
        let case = Case::new("Concat", 13)
            .constant(floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]))
            .constant(floats(&[2, 1], &[5.0, 6.0]))
            .int("axis", -1);
        assert_eq!(
            case.value(),
            floats(&[2, 3], &[1.0, 2.0, 5.0, 3.0, 4.0, 6.0])
        );
        let case = Case::new("Concat", 13)
            .constant(bools(&[1], &[true]))
            .constant(bools(&[0], &[]))
            .constant(bools(&[1], &[false]))
            .int("axis", 0);
        assert_eq!(case.value(), bools(&[2], &[true, false]));
    }

    #[test]
    fn concatenation_of_what_does_not_fit_is_refused() {
        let pair = |a: &[usize], dtype, b: &[usize]| {
            Case::new("Concat", 13).input(DType::F32, a).input(dtype, b)
        };
        assert!(
            pair(&[2, 3], DType::F32, &[3, 3])
                .int("axis", 1)
                .import()
                .is_err()
        );
        assert!(
            pair(&[2, 3], DType::I64, &[2, 3])
                .int("axis", 1)
                .import()
                .is_err()
        );
        assert!(
            pair(&[2, 3], DType::F32, &[2])
                .int("axis", 0)
                .import()
                .is_err()
        );
        assert!(
            pair(&[2, 3], DType::F32, &[2, 3])
                .int("axis", 2)
                .import()
                .is_err()
        );
        assert!(pair(&[2, 3], DType::F32, &[2, 3]).import().is_err());
    }

    #[test]
    fn expanding_broadcasts() {
        let expand = |x: Tensor, shape: &[i64]| {
            Case::new("Expand", 13)
                .constant(x)
                .constant(ints(&[shape.len()], shape))
        };
        // "Expand" of the ONNX operators: 3x1 with 2x1x2.
        let value = expand(floats(&[3, 1], &[1.0, 2.0, 3.0]), &[2, 1, 2]).value();
        let half = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0];
        assert_eq!(value, floats(&[2, 3, 2], &[half, half].concat()));
        // A larger extent of the input wins over the 1 asked for.
        let same = Case::new("Expand", 13)
            .input(DType::F32, &[3, 4])
            .constant(ints(&[3], &[1, 1, 1]))
            .import()
            .unwrap();
        assert_eq!(same.ops(), [&Op::Reshape(vec![1, 3, 4])]);
        assert!(expand(counting(&[3]), &[2]).import().is_err());
        assert!(expand(counting(&[1]), &[-1]).import().is_err());
        assert!(expand(counting(&[1]), &[i64::MAX, 8]).import().is_err());
    }

    #[test]
    fn a_huge_expansion_of_a_constant_is_not_computed() {
        for op_type in ["Expand", "Tile"] {
            let imported = Case::new(op_type, 13)
                .constant(counting(&[1, 1]))
                .constant(ints(&[2], &[1 << 20, 1 << 20]))
                .import()
                .unwrap();
            assert_eq!(imported.ops().len(), 1);
        }
        let empty = Case::new("Expand", 13)
            .constant(counting(&[0, 1]))
            .constant(ints(&[2], &[0, 1 << 50]));
        assert_eq!(empty.value().shape(), [0, 1 << 50]);
    }

    #[test]
    fn tiling_repeats_along_each_axis() {
        // "Tile" of the ONNX operators: [[0, 1], [2, 3]] twice along both axes.
        let tile = |repeats: &[i64]| {
            Case::new("Tile", 13)
                .constant(counting(&[2, 2]))
                .constant(ints(&[repeats.len()], repeats))
        };
        let rows = [0.0, 1.0, 0.0, 1.0, 2.0, 3.0, 2.0, 3.0];
        assert_eq!(
            tile(&[2, 2]).value(),
            floats(&[4, 4], &[rows, rows].concat())
        );
        assert_eq!(tile(&[0, 2]).value(), floats(&[0, 4], &[]));
        assert!(tile(&[2]).import().is_err());
        assert!(tile(&[2, -1]).import().is_err());
        assert!(tile(&[i64::MAX, i64::MAX]).import().is_err());
    }
}
