//! Elements picked by index.

use super::slice::{Slice, slice};
use super::structure::select_by_axis;
use super::window::too_large;
use super::{Binary, Import, Op, arguments};
use crate::ValueId;
use crate::builder::{Builder, NodeContext, axis};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::{DType, Data, ShapeDisplay, Tensor, TensorType, element_count, strides};

/// Slices of the first input at the positions of the second along an axis; negative positions
/// count from the end. The axis is replaced by the axes of the positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gather {
    /// The axis indexed.
    pub axis: usize,
}

/// One element of the first input for each position in the second, along an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatherElements {
    /// The axis indexed.
    pub axis: usize,
}

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "Gather" => Some(import_gather),
        "GatherElements" => Some(import_gather_elements),
        "GatherND" => Some(import_gather_nd),
        _ => None,
    }
}

/// The data's and the indices' types, the axis being one of the data's.
fn checked<'a>(inputs: &[&'a TensorType], axis: usize) -> Result<[&'a TensorType; 2], OpError> {
    let [data, indices] = arguments(inputs)?;
    if indices.dtype != DType::I64 {
        return Err(OpError::invalid(format!(
            "the indices are of type {}",
            indices.dtype
        )));
    }
    if axis >= data.rank() {
        let message = format!("axis {axis} does not exist in {} axes", data.rank());
        return Err(OpError::invalid(message));
    }
    Ok([data, indices])
}

/// An index counted from the end when negative; `None` when it does not exist.
fn position(index: i64, extent: usize) -> Option<usize> {
    let length = i64::try_from(extent).ok()?;
    let position = if index < 0 {
        index.checked_add(length)?
    } else {
        index
    };
    usize::try_from(position).ok().filter(|&p| p < extent)
}

/// All indices as positions in an extent.
pub(super) fn positions(indices: &[i64], extent: usize) -> Result<Vec<usize>, OpError> {
    let checked = |&index| {
        let message = || format!("index {index} does not exist in an extent of {extent}");
        position(index, extent).ok_or_else(|| OpError::invalid(message()))
    };
    indices.iter().map(checked).collect()
}

impl Gather {
    /// The output's type: the indices' shape in place of the axis.
    pub fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let [data, indices] = checked(inputs, self.axis)?;
        let (before, after) = (&data.shape[..self.axis], &data.shape[self.axis + 1..]);
        Ok(TensorType::new(
            data.dtype,
            [before, &indices.shape, after].concat(),
        ))
    }

    pub(super) fn eval(&self, inputs: &[&Tensor], output: &TensorType) -> Option<Tensor> {
        let [data, indices] = inputs else {
            return None;
        };
        let picked = positions(indices.as_i64()?, data.shape()[self.axis]).ok()?;
        // With the indices' axes taken as one, the axes are the data's again.
        let mut shape = data.shape().to_vec();
        shape[self.axis] = picked.len();
        let strides = strides(data.shape());
        let flat = select_by_axis(
            data,
            &TensorType::new(data.dtype(), shape.clone()),
            |axis| {
                let source = |i| if axis == self.axis { picked[i] } else { i };
                Some(
                    (0..shape[axis])
                        .map(|i| source(i) * strides[axis])
                        .collect(),
                )
            },
        )?;
        flat.reshaped(output.shape.clone())
    }

    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        node.int("axis", self.axis as i64);
    }
}

impl GatherElements {
    /// The output's type: the indices' shape.
    pub fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let [data, indices] = checked(inputs, self.axis)?;
        let inside = |a: usize| a == self.axis || indices.shape[a] <= data.shape[a];
        if indices.rank() != data.rank() || !(0..data.rank()).all(inside) {
            return Err(OpError::invalid(format!(
                "indices of shape `{}` for data of shape `{}`",
                ShapeDisplay(&indices.shape),
                ShapeDisplay(&data.shape)
            )));
        }
        Ok(TensorType::new(data.dtype, indices.shape.clone()))
    }

    pub(super) fn eval(&self, inputs: &[&Tensor], output: &TensorType) -> Option<Tensor> {
        let [data, indices] = inputs else {
            return None;
        };
        let picked = positions(indices.as_i64()?, data.shape()[self.axis]).ok()?;
        let (from, to) = (strides(data.shape()), strides(&output.shape));
        let source = |(i, &p): (usize, &usize)| {
            let coordinate = |a: usize| i / to[a] % output.shape[a];
            let term = |a| from[a] * if a == self.axis { p } else { coordinate(a) };
            (0..output.rank()).map(term).sum::<usize>()
        };
        let sources: Vec<usize> = picked.iter().enumerate().map(source).collect();
        data.select(output.shape.clone(), &sources)
    }

    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        node.int("axis", self.axis as i64);
    }
}

fn import_gather(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let (data, indices) = (node.input(0)?, node.input(1)?);
    let along = axis(node.attributes.int("axis", 0)?, builder.rank(data))?;
    Ok(vec![gather(builder, data, indices, along)?])
}

/// Appends a gather; constant indices at equal distances are a slice.
fn gather(
    builder: &mut Builder<'_>,
    data: ValueId,
    indices: ValueId,
    along: usize,
) -> Result<ValueId, OpError> {
    let op = Gather { axis: along };
    let types = [data, indices].map(|v| &builder.graph.value(v).ty);
    let ty = op.infer(&types)?;
    if let Some(constant) = builder.constant(indices) {
        let shape = builder.shape(data);
        let picked = positions(constant.as_i64().unwrap_or_default(), shape[along])?;
        if let Some((start, step)) = progression(&picked) {
            let mut part = Slice::identity(&shape);
            part.starts[along] = start;
            part.steps[along] = step;
            part.shape[along] = picked.len();
            let part = slice(builder, data, part)?;
            return builder.reshape(part, ty.shape);
        }
    }
    builder.push(Op::Gather(op), &[data, indices])
}

/// First element and difference of positions at equal, non-zero distances.
fn progression(positions: &[usize]) -> Option<(usize, isize)> {
    let difference = |a: usize, b: usize| (b as isize).checked_sub(a as isize);
    let (start, step) = match *positions {
        [] => return None,
        [only] => (only, 1),
        [first, second, ..] => (first, difference(first, second)?),
    };
    let regular = positions
        .windows(2)
        .all(|p| difference(p[0], p[1]) == Some(step));
    (step != 0 && regular).then_some((start, step))
}

fn import_gather_elements(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let (data, indices) = (node.input(0)?, node.input(1)?);
    let along = axis(node.attributes.int("axis", 0)?, builder.rank(data))?;
    if let Some(constant) = builder.constant(indices) {
        positions(
            constant.as_i64().unwrap_or_default(),
            builder.shape(data)[along],
        )?;
    }
    let op = GatherElements { axis: along };
    Ok(vec![
        builder.push(Op::GatherElements(op), &[data, indices])?,
    ])
}

/// GatherND's index tuples address leading axes; as numbers they address one flattened axis.
fn import_gather_nd(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let data = node.input(0)?;
    if node.attributes.int("batch_dims", 0)? != 0 {
        return Err(OpError::unsupported("`batch_dims` is not 0"));
    }
    let Some(indices) = builder.constant(node.input(1)?) else {
        return gather_nd_computed(builder, data, node.input(1)?);
    };
    let indices = indices.clone();
    let tuples = indices.as_i64();
    let tuples = tuples.ok_or_else(|| OpError::invalid("the indices are no integers"))?;
    let shape = builder.shape(data);
    let (&width, outer) = indices
        .shape()
        .split_last()
        .filter(|&(&width, _)| (1..=shape.len()).contains(&width))
        .ok_or_else(|| {
            let indices = ShapeDisplay(indices.shape());
            OpError::invalid(format!(
                "indices of shape `{indices}` for {} axes",
                shape.len()
            ))
        })?;
    let (leading, rest) = shape.split_at(width);
    let mut numbers = Vec::with_capacity(tuples.len() / width);
    for tuple in tuples.chunks(width) {
        let mut number = 0;
        for (index, &extent) in tuple.iter().zip(leading) {
            number = number * extent + positions(&[*index], extent)?[0];
        }
        numbers.push(number as i64);
    }
    let flat = element_count(leading).ok_or_else(too_large)?;
    let data = builder.reshape(data, [&[flat], rest].concat())?;
    let numbers = Tensor::new(outer, Data::I64(numbers)).ok_or_else(too_large)?;
    let numbers = builder.tensor(numbers);
    Ok(vec![gather(builder, data, numbers, 0)?])
}

/// The same for indices that depend on the model's input: their numbers are computed with it.
fn gather_nd_computed(
    builder: &mut Builder<'_>,
    data: ValueId,
    indices: ValueId,
) -> Result<Vec<ValueId>, OpError> {
    let (shape, places) = (builder.shape(data), builder.shape(indices));
    let (&width, outer) = places
        .split_last()
        .filter(|&(&width, _)| (1..=shape.len()).contains(&width))
        .ok_or_else(|| OpError::invalid("index tuples of another length than the data has axes"))?;
    let (leading, rest) = shape.split_at(width);
    let integer = |builder: &mut Builder<'_>, number: usize| {
        let number = i64::try_from(number).map_err(|_| too_large())?;
        let tensor = Tensor::new([], Data::I64(vec![number])).ok_or_else(too_large)?;
        Ok::<ValueId, OpError>(builder.tensor(tensor))
    };
    let mut numbers: Option<ValueId> = None;
    for (place, &extent) in leading.iter().enumerate() {
        let mut part = Slice::identity(&places);
        let last = places.len() - 1;
        (part.starts[last], part.shape[last]) = (place, 1);
        let index = slice(builder, indices, part)?;
        let index = builder.reshape(index, outer.to_vec())?;
        // Negative ones count from the end.
        let (zero, extent) = (integer(builder, 0)?, integer(builder, extent)?);
        let is_negative = builder.push(Op::Binary(Binary::Less), &[index, zero])?;
        let from_end = builder.push(Op::Binary(Binary::Add), &[index, extent])?;
        let index = builder.push(Op::Where, &[is_negative, from_end, index])?;
        numbers = Some(match numbers {
            Some(before) => {
                let before = builder.push(Op::Binary(Binary::Mul), &[before, extent])?;
                builder.push(Op::Binary(Binary::Add), &[before, index])?
            }
            None => index,
        });
    }
    let numbers = numbers.ok_or_else(|| OpError::invalid("index tuples without indices"))?;
    let flat = element_count(leading).ok_or_else(too_large)?;
    let data = builder.reshape(data, [&[flat], rest].concat())?;
    Ok(vec![gather(builder, data, numbers, 0)?])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, floats, ints};
    use super::*;

    fn matrix() -> Tensor {
        floats(&[3, 2], &[1.0, 1.2, 2.3, 3.4, 4.5, 5.7])
    }

    #[test]
    fn gathers_of_the_onnx_documentation_have_its_values() {
        // "Gather" of the ONNX operators, examples 1 and 2 of its description.
        let rows = Case::new("Gather", 13)
            .constant(matrix())
            .constant(ints(&[2, 2], &[0, 1, 1, 2]));
        let expected = [1.0, 1.2, 2.3, 3.4, 2.3, 3.4, 4.5, 5.7];
        assert_eq!(rows.value(), floats(&[2, 2, 2], &expected));
        let data = floats(&[3, 3], &[1.0, 1.2, 1.9, 2.3, 3.4, 3.9, 4.5, 5.7, 5.9]);
        let columns = Case::new("Gather", 13)
            .constant(data)
            .constant(ints(&[1, 2], &[0, 2]))
            .int("axis", 1);
        let expected = [1.0, 1.9, 2.3, 3.9, 4.5, 5.9];
        assert_eq!(columns.value(), floats(&[3, 1, 2], &expected));
    }

    #[test]
    fn negative_and_scalar_indices() {
        let last = Case::new("Gather", 13)
            .constant(matrix())
            .constant(ints(&[], &[-1]));
        assert_eq!(last.value(), floats(&[2], &[4.5, 5.7]));
        let none = Case::new("Gather", 13)
            .constant(matrix())
            .constant(ints(&[0], &[]));
        assert_eq!(none.value(), floats(&[0, 2], &[]));
        let irregular = Case::new("Gather", 13)
            .constant(ints(&[4], &[10, 20, 30, 40]))
            .constant(ints(&[4], &[-1, 0, 0, 2]));
        assert_eq!(irregular.value(), ints(&[4], &[40, 10, 10, 30]));
    }

    #[test]
    fn regular_indices_of_an_activation_are_slices() {
        let names = |indices: Tensor| {
            let imported = Case::new("Gather", 13)
                .input(DType::F32, &[2, 6])
                .constant(indices)
                .int("axis", 1)
                .import()
                .unwrap();
            let names: Vec<_> = imported.ops().iter().map(|op| op.name()).collect();
            (names, imported.ty().shape.clone())
        };
        assert_eq!(names(ints(&[], &[3])), (vec!["Slice", "Reshape"], vec![2]));
        assert_eq!(names(ints(&[3], &[4, 2, 0])), (vec!["Slice"], vec![2, 3]));
        assert_eq!(
            names(ints(&[2, 2], &[1, 2, 3, 4])),
            (vec!["Slice", "Reshape"], vec![2, 2, 2])
        );
        assert_eq!(names(ints(&[3], &[0, 1, 3])), (vec!["Gather"], vec![2, 3]));
        assert_eq!(names(ints(&[2], &[1, 1])), (vec!["Gather"], vec![2, 2]));
    }

    #[test]
    fn computed_indices_stay() {
        let imported = Case::new("Gather", 13)
            .constant(matrix())
            .input(DType::I64, &[4, 5])
            .import()
            .unwrap();
        assert_eq!(imported.ops(), [&Op::Gather(Gather { axis: 0 })]);
        assert_eq!(imported.ty().shape, [4, 5, 2]);
    }

    #[test]
    fn indices_out_of_range_are_refused() {
        for index in [3, -4, i64::MAX, i64::MIN] {
            for op_type in ["Gather", "GatherElements", "GatherND"] {
                let case = Case::new(op_type, 13)
                    .input(DType::F32, &[3, 2])
                    .constant(ints(&[1, 1], &[index]));
                assert!(case.error().contains("does not exist"), "{op_type} {index}");
            }
        }
        let float = Case::new("Gather", 13)
            .constant(matrix())
            .constant(floats(&[1], &[0.0]));
        assert_eq!(float.error(), "the indices are of type float");
        let axis = Case::new("Gather", 13)
            .constant(matrix())
            .constant(ints(&[], &[0]));
        assert!(axis.int("axis", 2).import().is_err());
    }

    #[test]
    fn gather_elements_of_the_onnx_documentation_has_its_values() {
        // "GatherElements" of the ONNX operators, examples 1 and 2.
        let square = floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let case = Case::new("GatherElements", 13)
            .constant(square)
            .constant(ints(&[2, 2], &[0, 0, 1, 0]))
            .int("axis", 1);
        assert_eq!(case.value(), floats(&[2, 2], &[1.0, 1.0, 4.0, 3.0]));
        let nine: Vec<f32> = (1..10).map(|i| i as f32).collect();
        let case = Case::new("GatherElements", 13)
            .constant(floats(&[3, 3], &nine))
            .constant(ints(&[2, 3], &[1, 2, 0, 2, 0, 0]));
        assert_eq!(
            case.value(),
            floats(&[2, 3], &[4.0, 8.0, 3.0, 7.0, 2.0, 3.0])
        );
        let wide = Case::new("GatherElements", 13)
            .input(DType::F32, &[2, 2])
            .input(DType::I64, &[2, 3]);
        assert!(wide.import().is_err());
    }

    #[test]
    fn gather_nd_of_the_onnx_documentation_has_its_values() {
        // "GatherND" of the ONNX operators, examples 1 to 4.
        let nd = |data: Tensor, indices: Tensor| {
            Case::new("GatherND", 13)
                .constant(data)
                .constant(indices)
                .value()
        };
        let square = || ints(&[2, 2], &[0, 1, 2, 3]);
        let cube = || ints(&[2, 2, 2], &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(
            nd(square(), ints(&[2, 2], &[0, 0, 1, 1])),
            ints(&[2], &[0, 3])
        );
        assert_eq!(
            nd(square(), ints(&[2, 1], &[1, 0])),
            ints(&[2, 2], &[2, 3, 0, 1])
        );
        assert_eq!(
            nd(cube(), ints(&[2, 2], &[0, 1, 1, 0])),
            ints(&[2, 2], &[2, 3, 4, 5])
        );
        let nested = nd(cube(), ints(&[2, 1, 2], &[0, 1, 1, 0]));
        assert_eq!(nested, ints(&[2, 1, 2], &[2, 3, 4, 5]));
    }

    /// As classifiers do that read the last word: `x[0, place]`, the place being computed.
    #[test]
    fn computed_tuples_become_numbers_of_one_axis() {
        let case = |tuples: &[usize]| {
            Case::new("GatherND", 13)
                .input(DType::F32, &[2, 3, 4])
                .input(DType::I64, tuples)
                .import()
        };
        for (tuples, shape) in [(&[5, 2][..], &[5, 4][..]), (&[3], &[]), (&[1], &[3, 4])] {
            let imported = case(tuples).unwrap();
            assert_eq!(imported.ty().shape, shape);
            assert_eq!(
                imported.ops().last(),
                Some(&&Op::Gather(Gather { axis: 0 }))
            );
        }
        assert!(case(&[5, 4]).is_err());
    }

    #[test]
    fn other_forms_of_gather_nd_are_refused() {
        let case = |indices: Tensor| {
            Case::new("GatherND", 13)
                .input(DType::F32, &[2, 2])
                .constant(indices)
        };
        assert!(case(ints(&[1, 3], &[0, 0, 0])).import().is_err());
        assert!(case(ints(&[], &[0])).import().is_err());
        assert!(case(ints(&[1, 0], &[])).import().is_err());
        assert!(
            case(ints(&[1, 1], &[0]))
                .int("batch_dims", 1)
                .import()
                .is_err()
        );
    }
}
