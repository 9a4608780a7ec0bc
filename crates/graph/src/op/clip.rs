//! Clip in its two ONNX forms.

use super::{Binary, Import, Unary};
use crate::ValueId;
use crate::builder::{Builder, NodeContext};
use crate::error::OpError;
use crate::tensor::DType;

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "Clip" => Some(import_clip),
        _ => None,
    }
}

/// Clip: bounds are attributes before opset 11, inputs since. A missing bound does not limit.
///
/// Integers, and bounds that are computed, become a maximum and a minimum.
fn import_clip(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    if node.opset < 11 {
        let min = node.attributes.optional_float("min")?;
        let max = node.attributes.optional_float("max")?;
        return clipped(b, x, min, max);
    }
    let (min, max) = (node.optional(1), node.optional(2));
    let bounds = [min, max];
    let constant = bounds.iter().flatten().all(|&v| b.constant(v).is_some());
    if constant && b.dtype(x) == DType::F32 {
        let min = min.map(|v| b.float(v, "min")).transpose()?;
        let max = max.map(|v| b.float(v, "max")).transpose()?;
        return clipped(b, x, min, max);
    }
    let mut y = x;
    for (bound, op) in bounds.into_iter().zip([Binary::Max, Binary::Min]) {
        if let Some(bound) = bound {
            let scalar = b.reshape(bound, [])?;
            y = b.binary(op, y, scalar)?;
        }
    }
    Ok(vec![y])
}

fn clipped(
    b: &mut Builder<'_>,
    x: ValueId,
    min: Option<f32>,
    max: Option<f32>,
) -> Result<Vec<ValueId>, OpError> {
    if min.is_none() && max.is_none() {
        return Ok(vec![x]);
    }
    let clip = Unary::Clip {
        min: min.unwrap_or(f32::NEG_INFINITY),
        max: max.unwrap_or(f32::INFINITY),
    };
    Ok(vec![b.unary(clip, x)?])
}

#[cfg(test)]
mod tests {
    use super::super::Op;
    use super::super::testing::{Case, floats, ints};
    use super::*;
    use crate::tensor::Tensor;

    #[test]
    fn clip_takes_bounds_from_attributes_or_inputs() {
        let x = || floats(&[3], &[-2.0, 0.0, 2.0]);
        let old = Case::new("Clip", 6)
            .constant(x())
            .float("min", -1.0)
            .float("max", 1.0);
        assert_eq!(old.value(), floats(&[3], &[-1.0, 0.0, 1.0]));
        let min = Case::new("Clip", 13)
            .constant(x())
            .constant(Tensor::scalar(-1.0));
        assert_eq!(min.value(), floats(&[3], &[-1.0, 0.0, 2.0]));
        let max = Case::new("Clip", 13)
            .constant(x())
            .absent()
            .constant(Tensor::scalar(1.0));
        assert_eq!(max.value(), floats(&[3], &[-2.0, 0.0, 1.0]));
        let none = Case::new("Clip", 13)
            .input(DType::F32, &[3])
            .import()
            .unwrap();
        assert!(none.ops().is_empty());
        let many = Case::new("Clip", 13).constant(x()).constant(x());
        assert_eq!(many.error(), "`min` must be a scalar");
    }

    #[test]
    fn clip_of_integers_or_with_computed_bounds_is_exact() {
        let big = (1 << 53) + 1;
        let case = Case::new("Clip", 13)
            .constant(ints(&[2], &[0, i64::MAX]))
            .constant(ints(&[], &[3]))
            .constant(ints(&[], &[big]));
        assert_eq!(case.value(), ints(&[2], &[3, big]));
        let case = Case::new("Clip", 13)
            .input(DType::F32, &[2, 3])
            .input(DType::F32, &[])
            .import()
            .unwrap();
        assert_eq!(case.ops(), [&Op::Binary(Binary::Max)]);
    }
}
