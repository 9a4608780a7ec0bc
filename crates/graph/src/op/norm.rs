//! Normalisation layers.

use super::reduce::{ReduceKind, reduce};
use super::{Binary, Import, Op, Unary, arguments, require_float};
use crate::ValueId;
use crate::builder::{self, Builder, NodeContext};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::{ShapeDisplay, Tensor, TensorType};

/// Batch normalisation with fixed statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchNormalization {
    /// Added to the variance.
    pub epsilon: f32,
}

/// Normalisation of each sample's channels by their own statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceNormalization {
    /// Added to the variance.
    pub epsilon: f32,
}

/// Normalisation over the axes from `axis` on. Scale and bias have the extents of these axes.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerNormalization {
    /// The first normalised axis.
    pub axis: usize,
    /// Added to the variance.
    pub epsilon: f32,
}

/// Local response normalisation: `x / (bias + alpha/size * sum of squares of near channels)^beta`.
#[derive(Clone, Debug, PartialEq)]
pub struct Lrn {
    /// Scaling factor.
    pub alpha: f32,
    /// Exponent.
    pub beta: f32,
    /// Added to the scaled sum.
    pub bias: f32,
    /// Number of channels summed.
    pub size: usize,
}

impl BatchNormalization {
    pub(super) fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let [x, scale, bias, mean, variance] = arguments(inputs)?;
        let channels = channels(x, 2)?;
        require("scale", scale, &[channels])?;
        require("bias", bias, &[channels])?;
        require("mean", mean, &[channels])?;
        require("variance", variance, &[channels])?;
        Ok(x.clone())
    }

    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        node.float("epsilon", self.epsilon);
    }
}

impl InstanceNormalization {
    pub(super) fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let [x, scale, bias] = arguments(inputs)?;
        let channels = channels(x, 3)?;
        require("scale", scale, &[channels])?;
        require("bias", bias, &[channels])?;
        Ok(x.clone())
    }

    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        node.float("epsilon", self.epsilon);
    }
}

impl LayerNormalization {
    pub(super) fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let (x, scale, bias) = match inputs {
            [x, scale] => (x, scale, None),
            [x, scale, bias] => (x, scale, Some(bias)),
            _ => {
                let number = inputs.len();
                return Err(OpError::invalid(format!(
                    "it takes 2 or 3 inputs, not {number}"
                )));
            }
        };
        require_float("the input", x)?;
        let normalised = x
            .shape
            .get(self.axis..)
            .filter(|axes| !axes.is_empty())
            .ok_or_else(|| OpError::invalid(format!("there is no axis {}", self.axis)))?;
        require("scale", scale, normalised)?;
        if let Some(bias) = bias {
            require("bias", bias, normalised)?;
        }
        Ok(TensorType::clone(x))
    }

    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        node.int("axis", self.axis as i64);
        node.float("epsilon", self.epsilon);
    }
}

impl Lrn {
    pub(super) fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let [x] = arguments(inputs)?;
        channels(x, 2)?;
        if self.size == 0 {
            return Err(OpError::invalid("`size` is 0"));
        }
        Ok(x.clone())
    }

    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        node.float("alpha", self.alpha);
        node.float("beta", self.beta);
        node.float("bias", self.bias);
        node.int("size", self.size as i64);
    }
}

/// The number of channels of a floating-point value of at least `least` axes.
fn channels(x: &TensorType, least: usize) -> Result<usize, OpError> {
    require_float("the input", x)?;
    match x.shape.get(1) {
        Some(&channels) if x.rank() >= least => Ok(channels),
        _ => Err(OpError::unsupported(format!(
            "the input has {} axes, fewer than {least}",
            x.rank()
        ))),
    }
}

/// An error when a parameter is not of floating-point type and the given shape.
fn require(what: &str, ty: &TensorType, shape: &[usize]) -> Result<(), OpError> {
    require_float(&format!("`{what}`"), ty)?;
    if ty.shape == shape {
        return Ok(());
    }
    let (got, wanted) = (ShapeDisplay(&ty.shape), ShapeDisplay(shape));
    Err(OpError::invalid(format!(
        "`{what}` has shape `{got}`, not `{wanted}`"
    )))
}

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "BatchNormalization" => Some(import_batch),
        "InstanceNormalization" => Some(import_instance),
        "LayerNormalization" => Some(import_layer),
        "GroupNormalization" => Some(import_group),
        "LRN" => Some(import_lrn),
        "LpNormalization" => Some(import_lp),
        "MeanVarianceNormalization" => Some(import_mean_variance),
        "RMSNormalization" => Some(import_rms),
        _ => None,
    }
}

fn import_batch(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    node.attributes.ignore(&["momentum"]);
    node.only_outputs(1)?;
    if node.opset < 9 && !node.attributes.flag("spatial", true)? {
        return Err(OpError::unsupported("`spatial` is 0"));
    }
    if node.attributes.flag("training_mode", false)? {
        return Err(OpError::unsupported("`training_mode` is on"));
    }
    let batch = BatchNormalization {
        epsilon: node.attributes.float("epsilon", 1e-5)?,
    };
    let inputs: Vec<ValueId> = (0..5).map(|i| node.input(i)).collect::<Result<_, _>>()?;
    Ok(vec![b.push(Op::BatchNormalization(batch), &inputs)?])
}

fn import_instance(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let instance = InstanceNormalization {
        epsilon: node.attributes.float("epsilon", 1e-5)?,
    };
    let inputs = [node.input(0)?, node.input(1)?, node.input(2)?];
    Ok(vec![b.push(Op::InstanceNormalization(instance), &inputs)?])
}

fn import_layer(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    node.attributes.ignore(&["stash_type"]);
    let x = node.input(0)?;
    let shape = b.shape(x);
    let axis = builder::axis(node.attributes.int("axis", -1)?, shape.len())?;
    let layer = LayerNormalization {
        axis,
        epsilon: node.attributes.float("epsilon", 1e-5)?,
    };
    let mut inputs = vec![x, stretched(b, node.input(1)?, &shape[axis..])?];
    if let Some(bias) = node.optional(2) {
        inputs.push(stretched(b, bias, &shape[axis..])?);
    }
    let epsilon = layer.epsilon;
    let mut outputs = vec![b.push(Op::LayerNormalization(layer), &inputs)?];
    if node.only_outputs(1).is_err() {
        outputs.extend(statistics(b, x, (axis..shape.len()).collect(), epsilon)?);
    }
    Ok(outputs)
}

/// The mean, and the reciprocal of the standard deviation: further outputs of layer normalisation.
fn statistics(
    b: &mut Builder<'_>,
    x: ValueId,
    axes: Vec<usize>,
    epsilon: f32,
) -> Result<[ValueId; 2], OpError> {
    let mean = reduce(b, ReduceKind::Mean, axes.clone(), true, x)?;
    let centred = b.binary(Binary::Sub, x, mean)?;
    let squares = b.binary(Binary::Mul, centred, centred)?;
    let variance = reduce(b, ReduceKind::Mean, axes, true, squares)?;
    let epsilon = b.scalar(epsilon);
    let shifted = b.binary(Binary::Add, variance, epsilon)?;
    let deviation = b.unary(Unary::Sqrt, shifted)?;
    Ok([mean, b.unary(Unary::Reciprocal, deviation)?])
}

/// A parameter of layer normalisation, which may have any shape that broadcasts to `shape`.
/// Another one is left as it is, for `infer` to name.
fn stretched(b: &mut Builder<'_>, value: ValueId, shape: &[usize]) -> Result<ValueId, OpError> {
    let own = b.shape(value);
    let surplus = own.len().saturating_sub(shape.len());
    let own = match own.split_at(surplus) {
        (leading, rest) if leading.iter().all(|&extent| extent == 1) => rest.to_vec(),
        _ => return Ok(value),
    };
    let fits = super::broadcast(&[&own, shape]).is_ok_and(|together| together == shape);
    if !fits {
        return Ok(value);
    }
    let value = b.reshape(value, own)?;
    match b.shape(value) == shape {
        true => Ok(value),
        false => b.push(Op::Expand(shape.to_vec()), &[value]),
    }
}

/// Normalisation of groups of channels: instance normalisation of a tensor whose channels are
/// the groups. Scale and bias are per group before opset 21, per channel since.
fn import_group(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    node.attributes.ignore(&["stash_type"]);
    let (x, scale, bias) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let shape = b.shape(x);
    let groups = node.attributes.int("num_groups", 0)?;
    let (batch, channels, spatial) = match shape[..] {
        [batch, channels, ref spatial @ ..] => (batch, channels, spatial),
        _ => return Err(OpError::invalid("the input has no axis of channels")),
    };
    let groups = usize::try_from(groups)
        .ok()
        .filter(|&g| g > 0 && channels % g == 0)
        .ok_or_else(|| {
            OpError::invalid(format!("{channels} channels cannot form {groups} groups"))
        })?;
    let members = channels / groups * spatial.iter().product::<usize>();
    let grouped = b.reshape(x, [batch, groups, members])?;
    let per_channel = node.opset >= 21;
    b.make_room(if per_channel { 2 * groups } else { 0 })?;
    let parameters = match per_channel {
        true => [1.0, 0.0].map(|fill| b.tensor(Tensor::vector(vec![fill; groups]))),
        false => [scale, bias],
    };
    let instance = InstanceNormalization {
        epsilon: node.attributes.float("epsilon", 1e-5)?,
    };
    let inputs = [grouped, parameters[0], parameters[1]];
    let y = b.push(Op::InstanceNormalization(instance), &inputs)?;
    let mut y = b.reshape(y, shape.clone())?;
    if per_channel {
        let mut along = vec![1; shape.len() - 1];
        along[0] = channels;
        for (op, parameter) in [(Binary::Mul, scale), (Binary::Add, bias)] {
            let parameter = b.reshape(parameter, along.clone())?;
            y = b.binary(op, y, parameter)?;
        }
    }
    Ok(vec![y])
}

fn import_lrn(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let size = node.attributes.int("size", 0)?;
    let lrn = Lrn {
        alpha: node.attributes.float("alpha", 1e-4)?,
        beta: node.attributes.float("beta", 0.75)?,
        bias: node.attributes.float("bias", 1.0)?,
        size: usize::try_from(size).map_err(|_| OpError::invalid(format!("`size` is {size}")))?,
    };
    Ok(vec![b.push(Op::Lrn(lrn), &[node.input(0)?])?])
}

/// `x` divided by its norm along an axis; where the norm is zero, so is the result.
fn import_lp(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let axis = builder::axis(node.attributes.int("axis", -1)?, b.rank(x))?;
    let kind = match node.attributes.int("p", 2)? {
        1 => ReduceKind::L1,
        2 => ReduceKind::L2,
        p => return Err(OpError::invalid(format!("`p` is {p}"))),
    };
    let norm = reduce(b, kind, vec![axis], true, x)?;
    let (zero, one) = (b.scalar(0.0), b.scalar(1.0));
    let vanishes = b.binary(Binary::Equal, norm, zero)?;
    let divisor = b.push(Op::Where, &[vanishes, one, norm])?;
    Ok(vec![b.binary(Binary::Div, x, divisor)?])
}

/// `(x - mean) / (standard deviation + 1e-9)`, the constant being that of the operator's
/// function body in the ONNX specification.
fn import_mean_variance(
    node: &NodeContext<'_>,
    b: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let axes = node.attributes.ints("axes")?.unwrap_or(vec![0, 2, 3]);
    let mut axes = builder::axes(&axes, b.rank(x))?;
    axes.sort_unstable();
    let mean = reduce(b, ReduceKind::Mean, axes.clone(), true, x)?;
    let centred = b.binary(Binary::Sub, x, mean)?;
    let squares = b.binary(Binary::Mul, centred, centred)?;
    let variance = reduce(b, ReduceKind::Mean, axes, true, squares)?;
    let deviation = b.unary(Unary::Sqrt, variance)?;
    let epsilon = b.scalar(1e-9);
    let divisor = b.binary(Binary::Add, deviation, epsilon)?;
    Ok(vec![b.binary(Binary::Div, centred, divisor)?])
}

/// `x / sqrt(mean of x^2 + epsilon) * scale`, the mean over the axes from `axis` on.
fn import_rms(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    node.attributes.ignore(&["stash_type"]);
    let x = node.input(0)?;
    let rank = b.rank(x);
    let axis = builder::axis(node.attributes.int("axis", -1)?, rank)?;
    let epsilon = b.scalar(node.attributes.float("epsilon", 1e-5)?);
    let squares = b.binary(Binary::Mul, x, x)?;
    let mean = reduce(b, ReduceKind::Mean, (axis..rank).collect(), true, squares)?;
    let shifted = b.binary(Binary::Add, mean, epsilon)?;
    let root = b.unary(Unary::Sqrt, shifted)?;
    let normalised = b.binary(Binary::Div, x, root)?;
    Ok(vec![b.binary(Binary::Mul, normalised, node.input(1)?)?])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, assert_close, assert_round_trip, floats};
    use super::*;
    use crate::tensor::DType;

    fn ones(n: usize) -> Tensor {
        Tensor::vector(vec![1.0; n])
    }

    fn batch(opset: i64, channels: [usize; 4]) -> Case {
        let case = Case::new("BatchNormalization", opset).input(DType::F32, &[2, 3, 4]);
        channels
            .into_iter()
            .fold(case, |case, n| case.constant(ones(n)))
    }

    #[test]
    fn batch_normalisation_keeps_the_shape() {
        let imported = batch(15, [3; 4]).float("momentum", 0.9).import().unwrap();
        assert_eq!(imported.ty().shape, [2, 3, 4]);
        let expected = BatchNormalization { epsilon: 1e-5 };
        assert_eq!(imported.ops(), [&Op::BatchNormalization(expected)]);
    }

    #[test]
    fn the_parameter_that_does_not_fit_is_named() {
        for (i, name) in ["scale", "bias", "mean", "variance"]
            .into_iter()
            .enumerate()
        {
            let mut channels = [3; 4];
            channels[i] = 2;
            let error = batch(15, channels).error();
            assert_eq!(error, format!("`{name}` has shape `2`, not `3`"));
        }
        let instance = Case::new("InstanceNormalization", 6)
            .input(DType::F32, &[2, 3, 4])
            .constant(ones(3))
            .constant(ones(4));
        assert_eq!(instance.error(), "`bias` has shape `4`, not `3`");
    }

    #[test]
    fn training_forms_are_unsupported() {
        let training = batch(15, [3; 4]).int("training_mode", 1);
        assert_eq!(training.error(), "unsupported: `training_mode` is on");
        let spatial = batch(7, [3; 4]).int("spatial", 0);
        assert_eq!(spatial.error(), "unsupported: `spatial` is 0");
        let outputs = batch(15, [3; 4]).outputs(2);
        assert_eq!(outputs.error(), "unsupported: output 1 is used");
    }

    #[test]
    fn parameters_of_layer_normalisation_are_stretched() {
        let layer = |scale| {
            Case::new("LayerNormalization", 17)
                .input(DType::F32, &[2, 3, 4])
                .constant(scale)
                .int("axis", 1)
        };
        let imported = layer(ones(4)).import().unwrap();
        let expected = LayerNormalization {
            axis: 1,
            epsilon: 1e-5,
        };
        assert_eq!(imported.ops(), [&Op::LayerNormalization(expected)]);
        let scale = imported.graph.nodes()[0].inputs[1];
        assert_eq!(imported.graph.shape(scale), [3, 4]);
        let error = layer(ones(5)).error();
        assert_eq!(error, "`scale` has shape `5`, not `3x4`");
        let leading = layer(floats(&[1, 1, 4], &[1.0; 4])).import().unwrap();
        assert_eq!(leading.ty().shape, [2, 3, 4]);
    }

    #[test]
    fn groups_become_channels() {
        let group = |opset, parameters| {
            Case::new("GroupNormalization", opset)
                .input(DType::F32, &[2, 4, 3, 5])
                .constant(ones(parameters))
                .constant(ones(parameters))
                .int("num_groups", 2)
        };
        let names = |case: Case| -> Vec<&str> {
            let imported = case.import().unwrap();
            assert_eq!(imported.ty().shape, [2, 4, 3, 5]);
            imported.ops().iter().map(|op| op.name()).collect()
        };
        let grouped = ["Reshape", "InstanceNormalization", "Reshape"];
        assert_eq!(names(group(18, 2)), grouped);
        assert_eq!(
            names(group(21, 4)),
            [&grouped[..], &["Mul", "Add"]].concat()
        );
        let uneven = Case::new("GroupNormalization", 18)
            .input(DType::F32, &[2, 4, 3])
            .constant(ones(3))
            .constant(ones(3))
            .int("num_groups", 3);
        assert_eq!(uneven.error(), "4 channels cannot form 3 groups");
    }

    #[test]
    fn lrn_needs_a_size() {
        let lrn = || Case::new("LRN", 13).input(DType::F32, &[5, 5, 5, 5]);
        assert_eq!(lrn().error(), "`size` is 0");
        assert_eq!(lrn().int("size", -1).error(), "`size` is -1");
        let expected = Lrn {
            alpha: 1e-4,
            beta: 0.75,
            bias: 1.0,
            size: 3,
        };
        let imported = lrn().int("size", 3).import().unwrap();
        assert_eq!(imported.ops(), [&Op::Lrn(expected)]);
    }

    #[test]
    fn vectors_are_divided_by_their_norm() {
        let x = || floats(&[2, 2], &[3.0, 4.0, 0.0, 0.0]);
        let euclidean = Case::new("LpNormalization", 1).constant(x()).value();
        assert_close(&euclidean, &floats(&[2, 2], &[0.6, 0.8, 0.0, 0.0]), 1e-6);
        let absolute = Case::new("LpNormalization", 1)
            .constant(x())
            .int("p", 1)
            .value();
        assert_close(
            &absolute,
            &floats(&[2, 2], &[3.0 / 7.0, 4.0 / 7.0, 0.0, 0.0]),
            1e-6,
        );
        let other = Case::new("LpNormalization", 1).constant(x()).int("p", 3);
        assert_eq!(other.error(), "`p` is 3");
    }

    /// `(x - x.mean()) / x.std()` of `[1, 2, 3, 4]` in NumPy.
    #[test]
    fn mean_and_variance_are_removed() {
        let got = Case::new("MeanVarianceNormalization", 13)
            .constant(floats(&[1, 4], &[1.0, 2.0, 3.0, 4.0]))
            .ints("axes", &[-1])
            .value();
        let expected = [-1.341_640_8, -0.447_213_6, 0.447_213_6, 1.341_640_8];
        assert_close(&got, &floats(&[1, 4], &expected), 1e-6);
        let default = Case::new("MeanVarianceNormalization", 13).input(DType::F32, &[2, 3]);
        assert_eq!(default.error(), "axis 2 does not exist in 2 axes");
    }

    /// The root of the mean of squares of `[1, 7]` is 5.
    #[test]
    fn the_root_mean_square_becomes_one() {
        let got = Case::new("RMSNormalization", 23)
            .constant(floats(&[1, 2], &[1.0, 7.0]))
            .constant(floats(&[2], &[1.0, 10.0]))
            .float("epsilon", 0.0)
            .value();
        assert_close(&got, &floats(&[1, 2], &[0.2, 14.0]), 1e-6);
    }

    #[test]
    fn layers_are_written_and_read_again() {
        let ty = |shape: &[usize]| TensorType::new(DType::F32, shape);
        let x = || ty(&[2, 3, 4]);
        let epsilon = 0.125;
        assert_round_trip(
            Op::BatchNormalization(BatchNormalization { epsilon }),
            &[x(), ty(&[3]), ty(&[3]), ty(&[3]), ty(&[3])],
        );
        assert_round_trip(
            Op::InstanceNormalization(InstanceNormalization { epsilon }),
            &[x(), ty(&[3]), ty(&[3])],
        );
        let layer = LayerNormalization { axis: 1, epsilon };
        let parameters = [x(), ty(&[3, 4]), ty(&[3, 4])];
        assert_round_trip(Op::LayerNormalization(layer.clone()), &parameters);
        assert_round_trip(Op::LayerNormalization(layer), &parameters[..2]);
        let lrn = Lrn {
            alpha: 0.5,
            beta: 0.25,
            bias: 2.0,
            size: 3,
        };
        assert_round_trip(Op::Lrn(lrn), &[x()]);
    }
}
