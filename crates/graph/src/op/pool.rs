//! Maximum and average over windows.

use super::window::Window;
use super::{Import, Op, arguments, require_float};
use crate::ValueId;
use crate::builder::{Builder, NodeContext};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::{ShapeDisplay, TensorType};

/// What a pool computes of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// The maximum of the elements inside the input.
    Max,
    /// The mean.
    Average {
        /// Whether padded positions count in the divisor (those that rounding up the output's
        /// extent adds never do).
        count_include_pad: bool,
    },
}

/// A pool over the spatial axes. Global pools are reductions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Maximum or average.
    pub kind: PoolKind,
    /// The sliding window; pads as the model declares them.
    pub window: Window,
    /// Whether a last, partial window counts (ONNX's `ceil_mode`).
    pub ceil_mode: bool,
}

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "MaxPool" => Some(import_max),
        "AveragePool" => Some(import_average),
        _ => None,
    }
}

impl Pool {
    /// The ONNX operator.
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            PoolKind::Max => "MaxPool",
            PoolKind::Average { .. } => "AveragePool",
        }
    }

    /// The output's type: one element per window.
    pub fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let [x] = arguments(inputs)?;
        require_float("the input", x)?;
        let Some((leading, spatial)) = x.shape.split_at_checked(2) else {
            return Err(no_spatial_axes(&x.shape));
        };
        let windows = self.window.output(spatial, self.ceil_mode)?;
        for axis in 0..windows.len() {
            let pad = self.window.pads_begin[axis].max(self.window.pads_end[axis]);
            if self.window.extent(axis).is_none_or(|extent| pad >= extent) {
                let message = format!("a pad of {pad} leaves windows without any element");
                return Err(OpError::invalid(message));
            }
        }
        Ok(TensorType::new(x.dtype, [leading, &windows].concat()))
    }

    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        self.window.export(node);
        node.int("ceil_mode", i64::from(self.ceil_mode));
        match self.kind {
            PoolKind::Average { count_include_pad } => {
                node.int("count_include_pad", i64::from(count_include_pad));
            }
            PoolKind::Max => {}
        }
    }
}

fn no_spatial_axes(shape: &[usize]) -> OpError {
    OpError::invalid(format!("`{}` has no spatial axis", ShapeDisplay(shape)))
}

fn import_max(node: &NodeContext<'_>, builder: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    node.only_outputs(1)?;
    // The order of the positions in the output that nobody uses.
    node.attributes.ignore(&["storage_order"]);
    import(node, builder, PoolKind::Max)
}

fn import_average(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let count_include_pad = node.attributes.flag("count_include_pad", false)?;
    import(node, builder, PoolKind::Average { count_include_pad })
}

fn import(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
    kind: PoolKind,
) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let shape = builder.shape(x);
    let spatial = shape.get(2..).filter(|s| !s.is_empty());
    let spatial = spatial.ok_or_else(|| no_spatial_axes(&shape))?;
    let op = Pool {
        kind,
        window: Window::import(node, spatial, None)?,
        ceil_mode: node.attributes.flag("ceil_mode", false)?,
    };
    let pooled = builder.push(Op::Pool(op), &[x])?;
    Ok(vec![pooled])
}

#[cfg(test)]
mod tests {
    use super::super::testing::Case;
    use super::*;
    use crate::tensor::DType;

    fn pool(op_type: &'static str, x: &[usize], kernel: &[i64]) -> Case {
        Case::new(op_type, 19)
            .input(DType::F32, x)
            .ints("kernel_shape", kernel)
    }

    fn shape(case: Case) -> Vec<usize> {
        case.import().unwrap().ty().shape.clone()
    }

    #[test]
    fn pools_of_the_onnx_documentation_have_its_shapes() {
        // "MaxPool" and "AveragePool" of the ONNX operators, examples by name.
        let image = &[1, 3, 32, 32];
        // maxpool_1d_default, maxpool_2d_default, maxpool_3d_default
        assert_eq!(shape(pool("MaxPool", &[1, 3, 32], &[2])), [1, 3, 31]);
        assert_eq!(shape(pool("MaxPool", image, &[2, 2])), [1, 3, 31, 31]);
        let volume = pool("MaxPool", &[1, 3, 32, 32, 32], &[2, 2, 2]);
        assert_eq!(shape(volume), [1, 3, 31, 31, 31]);
        // maxpool_2d_pads, maxpool_2d_strides, averagepool_2d_same_upper
        let padded = pool("MaxPool", &[1, 3, 28, 28], &[3, 3]).ints("pads", &[2, 2, 2, 2]);
        assert_eq!(shape(padded), [1, 3, 30, 30]);
        let strided = pool("MaxPool", image, &[5, 5]).ints("strides", &[3, 3]);
        assert_eq!(shape(strided), [1, 3, 10, 10]);
        let same = pool("AveragePool", image, &[2, 2]).string("auto_pad", "SAME_UPPER");
        assert_eq!(shape(same), [1, 3, 32, 32]);
        // maxpool_2d_ceil, maxpool_2d_dilations
        let ceil = pool("MaxPool", &[1, 1, 4, 4], &[3, 3])
            .ints("strides", &[2, 2])
            .int("ceil_mode", 1);
        assert_eq!(shape(ceil), [1, 1, 2, 2]);
        let dilated = pool("MaxPool", &[1, 1, 4, 4], &[2, 2]).ints("dilations", &[2, 2]);
        assert_eq!(shape(dilated), [1, 1, 2, 2]);
        // maxpool_2d_ceil_output_size_reduce_by_one
        let dropped = pool("MaxPool", &[1, 1, 2, 2], &[1, 1])
            .ints("strides", &[2, 2])
            .int("ceil_mode", 1);
        assert_eq!(shape(dropped), [1, 1, 1, 1]);
    }

    #[test]
    fn steps_that_no_axis_has_are_refused() {
        for (name, most) in [("strides", 1), ("dilations", 1), ("pads", 2)] {
            let with = |step: i64| {
                let entries = vec![step; 2 * most];
                pool("MaxPool", &[1, 1, 4, 4], &[2, 2]).ints(name, &entries)
            };
            assert!(with(1).import().is_ok(), "{name}");
            let error = with((1 << 27) + 1).error();
            assert!(error.contains("contains 134217729"), "{error}");
        }
    }

    #[test]
    fn the_divisor_is_imported() {
        let imported = pool("AveragePool", &[1, 1, 4, 4], &[3, 3])
            .int("count_include_pad", 1)
            .import()
            .unwrap();
        let expected = PoolKind::Average {
            count_include_pad: true,
        };
        assert!(matches!(imported.ops()[..], [Op::Pool(pool)] if pool.kind == expected));
    }

    #[test]
    fn the_positions_of_maxima_are_refused_where_used() {
        let unused = pool("MaxPool", &[1, 1, 4, 4], &[2, 2]).int("storage_order", 1);
        assert!(unused.import().is_ok());
        let used = pool("MaxPool", &[1, 1, 4, 4], &[2, 2]).outputs(2);
        assert_eq!(used.error(), "unsupported: output 1 is used");
    }

    #[test]
    fn impossible_pools_are_refused() {
        for case in [
            Case::new("MaxPool", 12).input(DType::F32, &[1, 1, 4, 4]),
            pool("MaxPool", &[1, 1, 4, 4], &[2]),
            pool("MaxPool", &[1, 1, 4, 4], &[0, 2]),
            pool("MaxPool", &[1, 1, 4, 4], &[5, 5]),
            pool("MaxPool", &[1, 4], &[]),
            pool("MaxPool", &[4], &[]),
            pool("AveragePool", &[1, 1, 4, 4], &[2, 2]).ints("pads", &[2, 0, 0, 0]),
            pool("AveragePool", &[1, 1, 4, 4], &[2, 2]).ints("pads", &[i64::MAX; 4]),
            pool("MaxPool", &[1, 1, 4, 4], &[i64::MAX; 2]).ints("dilations", &[i64::MAX; 2]),
        ] {
            assert!(case.import().is_err());
        }
        let integer = Case::new("MaxPool", 12)
            .input(DType::I64, &[1, 1, 4, 4])
            .ints("kernel_shape", &[2, 2]);
        assert_eq!(integer.error(), "unsupported: the input is of type integer");
    }
}
