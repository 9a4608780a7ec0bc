//! Softmax and its logarithm.

use super::{Import, Op, arguments, require_float};
use crate::ValueId;
use crate::builder::{self, Builder, NodeContext};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::TensorType;

/// Softmax along an axis. The flattening form of old opsets is imported as reshapes around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Softmax {
    /// The axis whose exponentials add up to one.
    pub axis: usize,
    /// Whether the logarithm is taken.
    pub log: bool,
}

impl Softmax {
    pub(super) fn name(&self) -> &'static str {
        match self.log {
            true => "LogSoftmax",
            false => "Softmax",
        }
    }

    pub(super) fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let [x] = arguments(inputs)?;
        require_float("the input", x)?;
        if self.axis >= x.rank() {
            let (axis, rank) = (self.axis, x.rank());
            return Err(OpError::invalid(format!(
                "axis {axis} does not exist in {rank} axes"
            )));
        }
        Ok(x.clone())
    }

    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        node.int("axis", self.axis as i64);
    }
}

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "Softmax" | "LogSoftmax" => Some(import),
        _ => None,
    }
}

/// Before opset 13 the input is flattened at `axis`, so that the exponentials of all axes from
/// there on add up to one.
fn import(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let log = node.op_type == "LogSoftmax";
    let flattens = node.opset < 13;
    let default = if flattens { 1 } else { -1 };
    let axis = builder::axis(node.attributes.int("axis", default)?, b.rank(x))?;
    let shape = b.shape(x);
    let (outer, inner) = shape.split_at(axis);
    // With a single axis of more than one element among them, flattening changes nothing.
    if !flattens || inner.iter().skip(1).all(|&extent| extent == 1) {
        return Ok(vec![b.push(Op::Softmax(Softmax { axis, log }), &[x])?]);
    }
    let flat = [outer.iter().product(), inner.iter().product()];
    let rows = b.reshape(x, flat)?;
    let y = b.push(Op::Softmax(Softmax { axis: 1, log }), &[rows])?;
    Ok(vec![b.reshape(y, shape)?])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, assert_round_trip};
    use super::*;
    use crate::tensor::DType;

    #[test]
    fn the_axis_defaults_to_the_last() {
        let case = Case::new("LogSoftmax", 13).input(DType::F32, &[2, 3, 4]);
        let expected = Softmax { axis: 2, log: true };
        assert_eq!(case.import().unwrap().ops(), [&Op::Softmax(expected)]);
    }

    #[test]
    fn old_opsets_flatten() {
        let case = Case::new("Softmax", 11).input(DType::F32, &[2, 3, 4]);
        let imported = case.import().unwrap();
        let softmax = Softmax {
            axis: 1,
            log: false,
        };
        let ops = [
            &Op::Reshape(vec![2, 12]),
            &Op::Softmax(softmax.clone()),
            &Op::Reshape(vec![2, 3, 4]),
        ];
        assert_eq!(imported.ops(), ops);
        // Trailing axes of one element need no reshape.
        for shape in [&[2, 10][..], &[2, 10, 1, 1]] {
            let case = Case::new("Softmax", 11).input(DType::F32, shape);
            assert_eq!(
                case.import().unwrap().ops(),
                [&Op::Softmax(softmax.clone())]
            );
        }
    }

    #[test]
    fn axis_and_type_are_checked() {
        let case = Case::new("Softmax", 13)
            .input(DType::F32, &[2, 3])
            .int("axis", 2);
        assert_eq!(case.error(), "axis 2 does not exist in 2 axes");
        let case = Case::new("Softmax", 13).input(DType::I64, &[2, 3]);
        assert_eq!(case.error(), "unsupported: the input is of type integer");
    }

    #[test]
    fn both_forms_are_written_and_read_again() {
        for log in [false, true] {
            let softmax = Softmax { axis: 1, log };
            let x = TensorType::new(DType::F32, [2, 3, 4]);
            assert_round_trip(Op::Softmax(softmax), &[x]);
        }
    }
}
