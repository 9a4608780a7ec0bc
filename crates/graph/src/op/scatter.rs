//! Elements added up at given places, or put there.

use super::gather::{Gather, positions};
use super::window::too_large;
use super::{Import, Op, arguments};
use crate::ValueId;
use crate::builder::{self, Builder, NodeContext};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::{DType, Data, ShapeDisplay, Tensor, TensorType, element_count, strides};

/// A tensor of zeros to which each element of the first input is added, at the place that the
/// second input names: a position in row-major order. The second input has as many integers.
///
/// Whatever selects elements (a slice with steps, Gather, a resize by nearest neighbours) has such
/// a sum as its adjoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScatterSum {
    /// Shape of the output.
    pub shape: Vec<usize>,
}

impl ScatterSum {
    /// The output's type.
    pub fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let [x, places] = arguments(inputs)?;
        if places.dtype != DType::I64 || element_count(&places.shape) != element_count(&x.shape) {
            return Err(OpError::invalid(format!(
                "places of type `{places}` for elements of type `{x}`"
            )));
        }
        Ok(TensorType::new(x.dtype, self.shape.clone()))
    }

    /// ONNX scatters within tensors of equal rank: all three are written as vectors.
    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        let (x, places) = (node.input(0), node.input(1));
        let flat = node.ints_constant(&[-1]);
        let x = node.before("Reshape", vec![x, flat.clone()]);
        let places = node.before("Reshape", vec![places, flat]);
        let zeros = node.zeros_constant(self.shape.iter().product());
        let sums = node.before_with("ScatterElements", vec![zeros, places, x], |node| {
            node.int("axis", 0);
            node.string("reduction", "add");
        });
        let shape: Vec<i64> = self.shape.iter().map(|&d| d as i64).collect();
        let shape = node.ints_constant(&shape);
        node.become_node("Reshape", vec![sums, shape]);
    }
}

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "ScatterND" => Some(import_scatter_nd),
        "ScatterElements" | "Scatter" => Some(import_scatter_elements),
        _ => None,
    }
}

/// Slices of the data that are replaced by updates, each at a tuple of indices of the leading axes.
fn import_scatter_nd(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    only_replacing(node)?;
    let data = node.input(0)?;
    let shape = b.shape(data);
    let indices = b.required_constant(node.input(1)?, "indices")?;
    let tuples = indices.as_i64();
    let tuples = tuples.ok_or_else(|| OpError::invalid("the indices are no integers"))?;
    let width = indices.shape().last().copied().unwrap_or(0);
    if width == 0 || width > shape.len() {
        let indices = ShapeDisplay(indices.shape());
        let message = format!("indices of shape `{indices}` for {} axes", shape.len());
        return Err(OpError::invalid(message));
    }
    let (leading, rest) = shape.split_at(width);
    let slice = element_count(rest).ok_or_else(too_large)?;
    let count = (tuples.len() / width).checked_mul(slice);
    b.make_room(count.ok_or_else(too_large)?)?;
    let mut places = Vec::new();
    for tuple in tuples.chunks(width) {
        let mut at = 0;
        for (index, &extent) in tuple.iter().zip(leading) {
            at = at * extent + positions(&[*index], extent)?[0];
        }
        places.extend((0..slice).map(|i| at * slice + i));
    }
    replaced(b, data, node.input(2)?, &places)
}

/// Elements of the data that are replaced by updates, at indices along an axis.
fn import_scatter_elements(
    node: &NodeContext<'_>,
    b: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    only_replacing(node)?;
    let data = node.input(0)?;
    let shape = b.shape(data);
    let axis = builder::axis(node.attributes.int("axis", 0)?, shape.len())?;
    let indices = b.required_constant(node.input(1)?, "indices")?;
    let along = indices.as_i64().unwrap_or_default();
    let along = positions(along, shape[axis])?;
    let inside = |a: usize| a == axis || indices.shape()[a] <= shape[a];
    if indices.shape().len() != shape.len() || !(0..shape.len()).all(inside) {
        let (indices, shape) = (ShapeDisplay(indices.shape()), ShapeDisplay(&shape));
        let message = format!("indices of shape `{indices}` for data of shape `{shape}`");
        return Err(OpError::invalid(message));
    }
    let (from, to) = (strides(indices.shape()), strides(&shape));
    let place = |(i, &position): (usize, &usize)| -> usize {
        let own = |a: usize| i / from[a] % indices.shape()[a];
        let term = |a: usize| to[a] * if a == axis { position } else { own(a) };
        (0..shape.len()).map(term).sum()
    };
    let places: Vec<usize> = along.iter().enumerate().map(place).collect();
    replaced(b, data, node.input(2)?, &places)
}

fn only_replacing(node: &NodeContext<'_>) -> Result<(), OpError> {
    match node.attributes.string("reduction", "none")?.as_str() {
        "none" => Ok(()),
        other => Err(OpError::unsupported(format!("`reduction` is {other}"))),
    }
}

/// The data with updates in some places, the last one where several go to the same: each element
/// is picked from where it stands in both together.
fn replaced(
    b: &mut Builder<'_>,
    data: ValueId,
    updates: ValueId,
    places: &[usize],
) -> Result<Vec<ValueId>, OpError> {
    let shape = b.shape(data);
    let count = element_count(&shape).ok_or_else(too_large)?;
    if element_count(&b.shape(updates)) != Some(places.len()) {
        let message = format!("{} places for other updates", places.len());
        return Err(OpError::invalid(message));
    }
    if places.is_empty() {
        return Ok(vec![data]);
    }
    b.make_room(count)?;
    let mut picked: Vec<i64> = (0..count as i64).collect();
    for (i, &place) in places.iter().enumerate() {
        picked[place] = (count + i) as i64;
    }
    let data = b.reshape(data, [count])?;
    let updates = b.reshape(updates, [places.len()])?;
    let both = b.push(Op::Concat(0), &[data, updates])?;
    let picked = Tensor::new([count], Data::I64(picked)).ok_or_else(too_large)?;
    let picked = b.tensor(picked);
    let y = b.push(Op::Gather(Gather { axis: 0 }), &[both, picked])?;
    Ok(vec![b.reshape(y, shape)?])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, floats, ints};
    use super::*;

    #[test]
    fn scatter_nd_of_the_onnx_documentation_has_its_values() {
        // "ScatterND" of the ONNX operators, example 1.
        let eight: Vec<f32> = (1..9).map(|i| i as f32).collect();
        let case = Case::new("ScatterND", 16)
            .constant(floats(&[8], &eight))
            .constant(ints(&[4, 1], &[4, 3, 1, 7]))
            .constant(floats(&[4], &[9.0, 10.0, 11.0, 12.0]));
        let expected = [1.0, 11.0, 3.0, 10.0, 9.0, 6.0, 7.0, 12.0];
        assert_eq!(case.value(), floats(&[8], &expected));
        // Whole rows, the last of two for the same one.
        let case = Case::new("ScatterND", 16)
            .constant(floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]))
            .constant(ints(&[2, 1], &[1, -1]))
            .constant(floats(&[2, 2], &[5.0, 6.0, 7.0, 8.0]));
        assert_eq!(case.value(), floats(&[2, 2], &[1.0, 2.0, 7.0, 8.0]));
    }

    #[test]
    fn scatter_elements_of_the_onnx_documentation_has_its_values() {
        // "ScatterElements" of the ONNX operators, examples 1 and 2.
        let case = Case::new("ScatterElements", 18)
            .constant(floats(&[3, 3], &[0.0; 9]))
            .constant(ints(&[2, 3], &[1, 0, 2, 0, 2, 1]))
            .constant(floats(&[2, 3], &[1.0, 1.1, 1.2, 2.0, 2.1, 2.2]));
        let expected = [2.0, 1.1, 0.0, 1.0, 0.0, 2.2, 0.0, 2.1, 1.2];
        assert_eq!(case.value(), floats(&[3, 3], &expected));
        let case = Case::new("ScatterElements", 18)
            .constant(floats(&[1, 5], &[1.0, 2.0, 3.0, 4.0, 5.0]))
            .constant(ints(&[1, 2], &[1, 3]))
            .constant(floats(&[1, 2], &[1.1, 2.1]))
            .int("axis", 1);
        let expected = [1.0, 1.1, 3.0, 2.1, 5.0];
        assert_eq!(case.value(), floats(&[1, 5], &expected));
    }

    #[test]
    fn places_that_are_not_there_are_refused() {
        for (op_type, index) in [("ScatterND", 8), ("ScatterElements", -9)] {
            let indices = match op_type {
                "ScatterND" => ints(&[1, 1], &[index]),
                _ => ints(&[1], &[index]),
            };
            let case = Case::new(op_type, 16)
                .input(DType::F32, &[8])
                .constant(indices)
                .constant(floats(&[1], &[1.0]));
            assert!(case.error().contains("does not exist"), "{op_type}");
        }
    }
}
