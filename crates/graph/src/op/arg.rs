//! Positions of extreme elements.

use super::reduce::reduced;
use super::{Import, Op, arguments};
use crate::ValueId;
use crate::builder::{self, Builder, NodeContext};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::{DType, TensorType};

/// The index of the maximum or minimum along an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgMax {
    /// The axis searched.
    pub axis: usize,
    /// Whether the axis stays with extent 1.
    pub keep_dims: bool,
    /// Whether the last of several equal elements is taken instead of the first.
    pub select_last: bool,
    /// Whether the minimum is searched.
    pub minimum: bool,
}

impl ArgMax {
    pub(super) fn name(&self) -> &'static str {
        match self.minimum {
            true => "ArgMin",
            false => "ArgMax",
        }
    }

    pub(super) fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let [x] = arguments(inputs)?;
        if x.dtype == DType::Bool {
            return Err(OpError::invalid("the input is of type bool"));
        }
        let shape = reduced(&x.shape, &[self.axis], self.keep_dims)?;
        Ok(TensorType::new(DType::I64, shape))
    }

    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        node.int("axis", self.axis as i64);
        node.int("keepdims", i64::from(self.keep_dims));
        node.int("select_last_index", i64::from(self.select_last));
    }
}

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "ArgMax" | "ArgMin" => Some(import),
        _ => None,
    }
}

fn import(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let arg = ArgMax {
        axis: builder::axis(node.attributes.int("axis", 0)?, b.rank(x))?,
        keep_dims: node.attributes.flag("keepdims", true)?,
        select_last: node.attributes.flag("select_last_index", false)?,
        minimum: node.op_type == "ArgMin",
    };
    Ok(vec![b.push(Op::ArgMax(arg), &[x])?])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, assert_round_trip};
    use super::*;

    #[test]
    fn the_axis_is_reduced_to_an_index() {
        let case = Case::new("ArgMin", 13)
            .input(DType::F32, &[2, 3, 4])
            .int("axis", -2)
            .int("select_last_index", 1);
        let imported = case.import().unwrap();
        assert_eq!(*imported.ty(), TensorType::new(DType::I64, [2, 1, 4]));
        let expected = ArgMax {
            axis: 1,
            keep_dims: true,
            select_last: true,
            minimum: true,
        };
        assert_eq!(imported.ops(), [&Op::ArgMax(expected)]);
        let case = Case::new("ArgMax", 7)
            .input(DType::F32, &[2, 3])
            .int("keepdims", 0);
        assert_eq!(case.import().unwrap().ty().shape, [3]);
    }

    #[test]
    fn what_has_no_maximum_is_an_error() {
        let scalar = Case::new("ArgMax", 13).input(DType::F32, &[]);
        assert_eq!(scalar.error(), "axis 0 does not exist in 0 axes");
        let empty = Case::new("ArgMax", 13).input(DType::F32, &[0, 2]);
        assert_eq!(
            empty.error(),
            "unsupported: axis 0 has no element to reduce"
        );
        let truth = Case::new("ArgMax", 13).input(DType::Bool, &[2]);
        assert_eq!(truth.error(), "the input is of type bool");
    }

    #[test]
    fn every_form_is_written_and_read_again() {
        for form in 0..8 {
            let arg = ArgMax {
                axis: 1,
                keep_dims: form & 1 != 0,
                select_last: form & 2 != 0,
                minimum: form & 4 != 0,
            };
            assert_round_trip(Op::ArgMax(arg), &[TensorType::new(DType::F32, [2, 3])]);
        }
    }
}
