//! Convolution and its transpose.

use super::structure::{to_i64, to_usize};
use super::window::{AutoPad, Window, too_large};
use super::{Import, Op, require_float};
use crate::ValueId;
use crate::builder::{Builder, NodeContext};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::{DType, ShapeDisplay, TensorType};

/// Convolution over any number of spatial axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conv {
    /// The sliding window; explicit pads, whatever `auto_pad` said.
    pub window: Window,
    /// Number of groups that input and output channels are split into.
    pub groups: usize,
}

/// Transposed convolution: scatters what [`Conv`] with the same window gathers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvTranspose {
    /// The sliding window over the *output*.
    pub window: Window,
    /// Number of groups that input and output channels are split into.
    pub groups: usize,
    /// Spatial extent of the output, from `output_padding` or `output_shape`.
    pub output: Vec<usize>,
}

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "Conv" => Some(import_conv),
        "ConvTranspose" => Some(import_conv_transpose),
        _ => None,
    }
}

/// The shapes of the arguments.
struct Arguments<'a> {
    x: &'a [usize],
    w: &'a [usize],
    bias: Option<&'a [usize]>,
}

impl<'a> Arguments<'a> {
    /// Checks what both convolutions ask of their arguments.
    fn new(inputs: &[&'a TensorType], window: &Window, groups: usize) -> Result<Self, OpError> {
        let (x, w, bias) = match *inputs {
            [x, w] => (x, w, None),
            [x, w, bias] => (x, w, Some(bias)),
            _ => {
                let message = format!("it takes 2 or 3 inputs, not {}", inputs.len());
                return Err(OpError::invalid(message));
            }
        };
        for (what, ty) in [("the input", x), ("the weight", w)] {
            require_float(what, ty)?;
        }
        if let Some(bias) = bias {
            require_float("the bias", bias)?;
        }
        let (x, w) = (x.shape.as_slice(), w.shape.as_slice());
        if x.len() < 3 || x.len() != w.len() || w[2..] != window.kernel[..] || groups == 0 {
            return Err(mismatch(x, w, groups));
        }
        let bias = bias.map(|b| b.shape.as_slice());
        Ok(Arguments { x, w, bias })
    }

    /// The output's type, once its channels and spatial extents are known.
    fn output(&self, channels: usize, spatial: &[usize]) -> Result<TensorType, OpError> {
        match self.bias {
            Some(bias) if bias != [channels] => Err(OpError::invalid(format!(
                "the bias has shape `{}` for {channels} channels",
                ShapeDisplay(bias)
            ))),
            _ => {
                let shape = [&[self.x[0], channels], spatial].concat();
                Ok(TensorType::new(DType::F32, shape))
            }
        }
    }
}

fn mismatch(x: &[usize], w: &[usize], groups: usize) -> OpError {
    OpError::invalid(format!(
        "weights of shape `{}` in {groups} groups do not fit an input of shape `{}`",
        ShapeDisplay(w),
        ShapeDisplay(x)
    ))
}

impl Conv {
    /// The output's type: `[n, out, ...]`.
    pub fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let arguments = Arguments::new(inputs, &self.window, self.groups)?;
        let (x, w) = (arguments.x, arguments.w);
        if w[1].checked_mul(self.groups) != Some(x[1]) || !w[0].is_multiple_of(self.groups) {
            return Err(mismatch(x, w, self.groups));
        }
        arguments.output(w[0], &self.window.output(&x[2..], false)?)
    }

    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        self.window.export(node);
        node.int("group", self.groups as i64);
    }
}

impl ConvTranspose {
    /// The output's type: `[n, out, ...]`.
    pub fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let arguments = Arguments::new(inputs, &self.window, self.groups)?;
        let (x, w) = (arguments.x, arguments.w);
        if w[0] != x[1] || !x[1].is_multiple_of(self.groups) {
            return Err(mismatch(x, w, self.groups));
        }
        // The window slides over the output; each of its positions is an element of the input.
        if self.window.output(&self.output, false)? != x[2..] {
            return Err(OpError::unsupported(format!(
                "an output of `{}` from an input of `{}`",
                ShapeDisplay(&self.output),
                ShapeDisplay(&x[2..])
            )));
        }
        let channels = w[1].checked_mul(self.groups).ok_or_else(too_large)?;
        arguments.output(channels, &self.output)
    }

    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        self.window.export(node);
        node.int("group", self.groups as i64);
        node.ints("output_padding", &to_i64(&self.output_padding()));
    }

    /// What the output has beyond the last window: the remainder of the division that gives the
    /// number of windows.
    fn output_padding(&self) -> Vec<usize> {
        let window = &self.window;
        let rest = |axis: usize| {
            let padded = self.output[axis] + window.pads_begin[axis] + window.pads_end[axis];
            padded
                .saturating_sub(window.extent(axis)?)
                .checked_rem(window.strides[axis])
        };
        (0..window.rank())
            .map(|axis| rest(axis).unwrap_or(0))
            .collect()
    }
}

/// The arguments in order, with the spatial shapes of the input and the weights.
fn arguments(
    node: &NodeContext<'_>,
    builder: &Builder<'_>,
) -> Result<(Vec<ValueId>, [Vec<usize>; 2]), OpError> {
    let (x, w) = (node.input(0)?, node.input(1)?);
    let (x_shape, w_shape) = (builder.shape(x), builder.shape(w));
    if x_shape.len() < 3 || x_shape.len() != w_shape.len() {
        return Err(mismatch(&x_shape, &w_shape, 1));
    }
    let mut inputs = vec![x, w];
    inputs.extend(node.optional(2));
    Ok((inputs, [x_shape, w_shape].map(|s| s[2..].to_vec())))
}

fn groups(node: &NodeContext<'_>) -> Result<usize, OpError> {
    let groups = node.attributes.int("group", 1)?;
    let checked = usize::try_from(groups).ok().filter(|&g| g > 0);
    checked.ok_or_else(|| OpError::invalid(format!("`group` is {groups}")))
}

fn import_conv(node: &NodeContext<'_>, builder: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let (inputs, [x, kernel]) = arguments(node, builder)?;
    let op = Conv {
        window: Window::import(node, &x, Some(&kernel))?,
        groups: groups(node)?,
    };
    Ok(vec![builder.push(Op::Conv(op), &inputs)?])
}

fn import_conv_transpose(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let (inputs, [x, kernel]) = arguments(node, builder)?;
    let mut window = Window::import_explicit(node, x.len(), Some(&kernel))?;
    let output = transposed_output(node, &x, &mut window)?;
    let op = ConvTranspose {
        window,
        groups: groups(node)?,
        output,
    };
    Ok(vec![builder.push(Op::ConvTranspose(op), &inputs)?])
}

/// The spatial extents of a transposed convolution's output; resolves the window's pads.
///
/// ONNX relates them by `output = stride * (input - 1) + output_padding + extent - begin - end`.
/// Either the pads are given and the output follows, or the output is (by `output_shape`, or as
/// `input * stride` when `auto_pad` is one of the `SAME` forms) and the pads follow.
fn transposed_output(
    node: &NodeContext<'_>,
    input: &[usize],
    window: &mut Window,
) -> Result<Vec<usize>, OpError> {
    let auto_pad = AutoPad::import(node)?;
    let output_padding = optional_sizes(node, "output_padding", input.len())?;
    let output_shape = optional_sizes(node, "output_shape", input.len())?;
    if auto_pad == AutoPad::Valid {
        window.pads_begin.fill(0);
        window.pads_end.fill(0);
    }
    let same = matches!(auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
    let mut output = Vec::with_capacity(input.len());
    for axis in 0..input.len() {
        let stride = window.strides[axis];
        let extent = window.extent(axis).ok_or_else(too_large)?;
        let reach = input[axis]
            .saturating_sub(1)
            .checked_mul(stride)
            .and_then(|last| last.checked_add(extent))
            .ok_or_else(too_large)?;
        let padding = output_padding.as_ref().map_or(0, |p| p[axis]);
        let full = reach.checked_add(padding).ok_or_else(too_large)?;
        let wanted = match &output_shape {
            Some(shape) => Some(shape[axis]),
            None if same => Some(input[axis].checked_mul(stride).ok_or_else(too_large)?),
            None => None,
        };
        let extent = match wanted {
            Some(extent) => {
                window.pad(axis, full.saturating_sub(extent), auto_pad);
                extent
            }
            None => full
                .checked_sub(window.pads_begin[axis])
                .and_then(|rest| rest.checked_sub(window.pads_end[axis]))
                .ok_or_else(|| OpError::invalid("the pads are larger than the output"))?,
        };
        // Output padding that end padding takes away again is neither.
        let begin = window.pads_begin[axis];
        window.pads_end[axis] = reach.saturating_sub(extent.saturating_add(begin));
        output.push(extent);
    }
    Ok(output)
}

fn optional_sizes(
    node: &NodeContext<'_>,
    name: &str,
    rank: usize,
) -> Result<Option<Vec<usize>>, OpError> {
    match node.attributes.ints(name)? {
        None => Ok(None),
        Some(values) if values.is_empty() => Ok(None),
        Some(values) if values.len() == rank => to_usize(&values, name).map(Some),
        Some(values) => Err(OpError::invalid(format!(
            "`{name}` has {} entries for {rank} axes",
            values.len()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Case;
    use super::*;

    fn case(op_type: &'static str, x: &[usize], w: &[usize]) -> Case {
        Case::new(op_type, 11)
            .input(DType::F32, x)
            .input(DType::F32, w)
    }

    fn shape(case: Case) -> Vec<usize> {
        case.import().unwrap().ty().shape.clone()
    }

    fn pads(case: Case) -> (Vec<usize>, Vec<usize>) {
        match case.import().unwrap().ops()[..] {
            [Op::Conv(Conv { window, .. }) | Op::ConvTranspose(ConvTranspose { window, .. })] => {
                (window.pads_begin.clone(), window.pads_end.clone())
            }
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn convolutions_of_the_onnx_documentation_have_its_shapes() {
        // "Conv", examples conv_with_strides and conv_with_autopad_same of the ONNX operators.
        let strided = || case("Conv", &[1, 1, 7, 5], &[1, 1, 3, 3]).ints("strides", &[2, 2]);
        assert_eq!(shape(strided().ints("pads", &[1, 1, 1, 1])), [1, 1, 4, 3]);
        assert_eq!(shape(strided()), [1, 1, 3, 2]);
        assert_eq!(shape(strided().ints("pads", &[1, 0, 1, 0])), [1, 1, 4, 2]);
        let same = case("Conv", &[1, 1, 5, 5], &[1, 1, 3, 3])
            .string("auto_pad", "SAME_LOWER")
            .ints("strides", &[2, 2]);
        assert_eq!(shape(same), [1, 1, 3, 3]);
    }

    #[test]
    fn one_and_three_spatial_axes_groups_and_dilation() {
        assert_eq!(
            shape(case("Conv", &[2, 4, 9], &[6, 2, 3]).int("group", 2)),
            [2, 6, 7]
        );
        let volume = case("Conv", &[1, 3, 8, 8, 8], &[5, 3, 2, 2, 2]).ints("dilations", &[1, 2, 3]);
        assert_eq!(shape(volume), [1, 5, 7, 6, 5]);
    }

    #[test]
    fn an_odd_pad_goes_where_auto_pad_says() {
        let even = |mode| {
            case("Conv", &[1, 1, 5, 4], &[1, 1, 2, 2])
                .string("auto_pad", mode)
                .ints("strides", &[1, 2])
        };
        assert_eq!(pads(even("SAME_UPPER")), (vec![0, 0], vec![1, 0]));
        assert_eq!(pads(even("SAME_LOWER")), (vec![1, 0], vec![0, 0]));
        assert_eq!(
            pads(even("VALID").ints("pads", &[1, 1, 1, 1])),
            (vec![0, 0], vec![0, 0])
        );
    }

    #[test]
    fn convolutions_that_contradict_their_weights_are_refused() {
        for case in [
            case("Conv", &[1, 3, 5, 5], &[4, 2, 3, 3]),
            case("Conv", &[1, 4, 5, 5], &[3, 2, 3, 3]).int("group", 2),
            case("Conv", &[1, 3, 5, 5], &[4, 3, 3, 3]).int("group", 0),
            case("Conv", &[1, 3, 5, 5], &[4, 3, 3]),
            case("Conv", &[3, 5], &[3, 5]),
            case("Conv", &[1, 3, 5, 5], &[4, 3, 3, 3]).ints("kernel_shape", &[5, 5]),
            case("Conv", &[1, 3, 5, 5], &[4, 3, 3, 3]).ints("strides", &[0, 1]),
            case("Conv", &[1, 3, 5, 5], &[4, 3, 3, 3]).ints("strides", &[1]),
            case("Conv", &[1, 3, 5, 5], &[4, 3, 3, 3]).ints("pads", &[-1, 0, 0, 0]),
            case("Conv", &[1, 3, 5, 5], &[4, 3, 3, 3]).ints("pads", &[i64::MAX; 4]),
            case("Conv", &[1, 3, 5, 5], &[4, 3, 3, 3]).ints("dilations", &[i64::MAX; 2]),
            case("Conv", &[1, 3, 2, 2], &[4, 3, 3, 3]),
            case("Conv", &[1, 3, 5, 5], &[4, 3, 3, 3]).input(DType::F32, &[3]),
            case("Conv", &[1, 3, 5, 5], &[4, 3, 3, 3]).string("auto_pad", "SAME"),
        ] {
            assert!(case.import().is_err());
        }
        let integer = Case::new("Conv", 11)
            .input(DType::I64, &[1, 1, 3, 3])
            .input(DType::F32, &[1, 1, 1, 1]);
        assert_eq!(integer.error(), "unsupported: the input is of type integer");
    }

    #[test]
    fn transposed_convolutions_of_the_onnx_documentation_have_its_shapes() {
        // "ConvTranspose" of the ONNX operators, examples by name.
        let small = || case("ConvTranspose", &[1, 1, 3, 3], &[1, 2, 3, 3]);
        assert_eq!(shape(small()), [1, 2, 5, 5]);
        let strided = || small().ints("strides", &[3, 2]);
        // convtranspose_output_shape, convtranspose_pad
        assert_eq!(
            shape(strided().ints("output_shape", &[10, 8])),
            [1, 2, 10, 8]
        );
        assert_eq!(
            shape(strided().ints("output_padding", &[1, 1])),
            [1, 2, 10, 8]
        );
        assert_eq!(shape(strided().ints("pads", &[1, 2, 1, 2])), [1, 2, 7, 3]);
        // convtranspose_autopad_same
        let same = small()
            .string("auto_pad", "SAME_UPPER")
            .ints("strides", &[2, 2]);
        assert_eq!(shape(same), [1, 2, 6, 6]);
        // convtranspose_dilations
        let dilated =
            case("ConvTranspose", &[1, 1, 3, 3], &[1, 1, 2, 2]).ints("dilations", &[2, 2]);
        assert_eq!(shape(dilated), [1, 1, 5, 5]);
        let grouped = case("ConvTranspose", &[2, 4, 3], &[4, 3, 3]).int("group", 2);
        assert_eq!(shape(grouped), [2, 6, 5]);
    }

    #[test]
    fn the_pads_of_a_transposed_convolution_follow_from_its_output() {
        // Natural extent 2 * 2 + 3 = 7 for an output of 6: one element of padding.
        let same = |mode| {
            case("ConvTranspose", &[1, 1, 3], &[1, 1, 3])
                .string("auto_pad", mode)
                .ints("strides", &[2])
        };
        assert_eq!(pads(same("SAME_UPPER")), (vec![0], vec![1]));
        assert_eq!(pads(same("SAME_LOWER")), (vec![1], vec![0]));
        // Padding at the end and output padding cancel.
        let both = case("ConvTranspose", &[1, 1, 3], &[1, 1, 3])
            .ints("strides", &[2])
            .ints("pads", &[1, 1])
            .ints("output_padding", &[1]);
        assert_eq!(pads(both), (vec![1], vec![0]));
    }

    #[test]
    fn output_padding_is_what_the_windows_leave_over() {
        let imported = case("ConvTranspose", &[1, 1, 3, 3], &[1, 2, 3, 3])
            .ints("strides", &[3, 2])
            .ints("output_shape", &[10, 7])
            .import()
            .unwrap();
        match imported.ops()[..] {
            [Op::ConvTranspose(op)] => assert_eq!(op.output_padding(), [1, 0]),
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn absurd_transposed_convolutions_are_refused() {
        let small = || case("ConvTranspose", &[1, 2, 3, 3], &[2, 2, 3, 3]);
        for case in [
            small().ints("output_shape", &[100, 100]),
            small().ints("output_shape", &[-1, 3]),
            small().ints("output_shape", &[1, 2, 3, 3, 3]),
            small().ints("output_padding", &[i64::MAX; 2]),
            small().ints("strides", &[i64::MAX; 2]),
            small().ints("pads", &[9, 9, 9, 9]),
            small().int("group", 3),
            case("ConvTranspose", &[1, 3, 3, 3], &[2, 2, 3, 3]),
        ] {
            assert!(case.import().is_err());
        }
    }
}
