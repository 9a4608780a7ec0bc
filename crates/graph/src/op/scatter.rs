//! Elements added up at given places.

use super::arguments;
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::{DType, TensorType, element_count};

/// A tensor of zeros to which each element of the first input is added, at the place that the
/// second input names: a position in row-major order. The second input is a constant of as many
/// integers.
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
