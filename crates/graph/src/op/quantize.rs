//! Quantised models as plain arithmetic.
//!
//! Integers are computed exactly, as numbers between the limits of their type. Beside them, the
//! numbers that they stand for are kept ([`Quantised`]): what dequantises gets these, so a model in
//! QDQ form is the network that it came from, with rounded values between its layers. The other way round,
//! convolutions and dense layers between dequantised numbers add up their integers ([`Steps`]).

use super::integer::product_of_integers;
use super::reduce::reduce;
use super::{Binary, Gather, Import, Op, ReduceKind, Unary};
use crate::ValueId;
use crate::builder::{self, Builder, NodeContext, Quantised, Steps};
use crate::error::OpError;
use crate::onnx::proto::data_type;
use crate::tensor::{DType, ShapeDisplay, Tensor};

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "QuantizeLinear" => Some(import_quantize),
        "DequantizeLinear" => Some(import_dequantize),
        "DynamicQuantizeLinear" => Some(import_dynamic),
        _ => None,
    }
}

/// Whether an operator only moves elements of its first input or chooses among them, so that it does
/// to the numbers what it does to the integers that stand for them.
fn moves_elements(op_type: &str) -> bool {
    matches!(
        op_type,
        "MaxPool"
            | "GlobalMaxPool"
            | "Reshape"
            | "Flatten"
            | "Transpose"
            | "Squeeze"
            | "Unsqueeze"
            | "Identity"
            | "Slice"
            | "Gather"
            | "Expand"
            | "Tile"
            | "DepthToSpace"
            | "SpaceToDepth"
    )
}

/// Imports a node. Where it moves quantised integers, their numbers are moved in their place; where it
/// multiplies dequantised numbers and weights, their integers are.
pub(crate) fn import_number(
    import: Import,
    node: &NodeContext<'_>,
    b: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    if let Some(product) = product_of_integers(node, b)? {
        return Ok(vec![product]);
    }
    let first = node.optional(0);
    let quantised = first.and_then(|x| b.stored.numbers.get(&x).copied());
    let Some(quantised) = quantised.filter(|_| moves_elements(node.op_type)) else {
        return import(node, b);
    };
    let mut inputs = node.inputs.clone();
    inputs[0] = Some(quantised.number);
    let outputs = import(&node.with(node.op_type, inputs), b)?;
    let moved = |number| {
        let moved = Quantised {
            number,
            ..quantised
        };
        let steps = steps(b, moved)?;
        integers(b, steps, moved)
    };
    outputs.into_iter().map(moved).collect()
}

/// `(x - zero_point) * scale`.
fn import_dequantize(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let layout = ScaleLayout::read(node, b, x)?;
    let parameters = Parameters::read(node, 1, 2)?;
    Ok(vec![dequantise(b, x, &parameters, &layout)?])
}

/// The numbers that integers stand for.
pub(super) fn dequantise(
    b: &mut Builder<'_>,
    x: ValueId,
    parameters: &Parameters,
    layout: &ScaleLayout,
) -> Result<ValueId, OpError> {
    if b.dtype(x) != DType::I64 {
        let dtype = b.dtype(x);
        return Err(OpError::unsupported(format!(
            "the input is of type {dtype}"
        )));
    }
    let scale = layout.along(b, parameters.scale, "scale")?;
    if let Some(known) = b.stored.numbers.get(&x).copied()
        && same(b, known.scale, scale)
        && same_zero(b, known.zero, parameters.zero)
    {
        if !b.stored.dequantised.contains_key(&known.number) {
            let steps = steps(b, known)?;
            let scale = known.scale;
            b.stored
                .dequantised
                .insert(known.number, Steps { steps, scale });
        }
        return Ok(known.number);
    }
    // 8- and 16-bit integers are exact as `f32`; 32-bit ones have no zero point.
    let mut steps = b.cast(x, DType::F32)?;
    if let Some(zero) = layout.zero_point(b, parameters.zero)? {
        steps = b.binary(Binary::Sub, steps, zero)?;
    }
    let number = b.binary(Binary::Mul, steps, scale)?;
    b.stored.dequantised.insert(number, Steps { steps, scale });
    Ok(number)
}

/// `saturate(round(x / scale) + zero_point)`, halves rounded to even.
fn import_quantize(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    node.attributes.ignore(&["saturate", "precision"]);
    let x = node.input(0)?;
    let given = node.attributes.int("output_dtype", 0)?;
    let given =
        i32::try_from(given).map_err(|_| OpError::invalid(format!("`output_dtype` is {given}")))?;
    let layout = ScaleLayout::read(node, b, x)?;
    let parameters = Parameters::read(node, 1, 2)?;
    Ok(vec![quantise(b, x, &parameters, &layout, given)?])
}

/// Rounds numbers to integers of an ONNX type; of the zero point's when `dtype` is 0.
///
/// With `c = clip(round(x / scale), min - zero, max - zero)`, the integers are `c + zero` and the
/// numbers `c * scale`.
pub(super) fn quantise(
    b: &mut Builder<'_>,
    x: ValueId,
    parameters: &Parameters,
    layout: &ScaleLayout,
    dtype: i32,
) -> Result<ValueId, OpError> {
    let scale = layout.along(b, parameters.scale, "scale")?;
    if let Some(sum) = b.stored.sums.get(&x).copied() {
        // One factor brings integers from grid to grid, as in ONNX Runtime: both round the same number.
        let factor = b.binary(Binary::Div, sum.scale, scale)?;
        let quotient = b.binary(Binary::Mul, sum.steps, factor)?;
        return round_to(b, quotient, parameters, layout, dtype);
    }
    let x = b.cast(x, DType::F32)?;
    let quotient = b.binary(Binary::Div, x, scale)?;
    round_to(b, quotient, parameters, layout, dtype)
}

/// As [`quantise`], for numbers that are in steps of the scale already.
pub(super) fn round_to(
    b: &mut Builder<'_>,
    quotient: ValueId,
    parameters: &Parameters,
    layout: &ScaleLayout,
    dtype: i32,
) -> Result<ValueId, OpError> {
    let (min, max) = limits(b, parameters.zero, dtype)?;
    let scale = layout.along(b, parameters.scale, "scale")?;
    let y = b.unary(Unary::Round, quotient)?;
    let zero = parameters.zero.map(|zero| b.constant(zero));
    let offset = match zero.as_ref().map(|zero| zero.as_ref().map(|z| z.to_f32())) {
        None => Some(0.0),
        Some(Some(zero)) if zero.len() == 1 => Some(zero[0]),
        Some(_) => None,
    };
    if let (Some(offset), true) = (offset, b.shape(scale).is_empty()) {
        let (min, max) = (min - offset, max - offset);
        let steps = b.unary(Unary::Clip { min, max }, y)?;
        let number = b.binary(Binary::Mul, steps, scale)?;
        let zero = parameters.zero;
        let quantised = Quantised {
            number,
            scale,
            zero,
        };
        return integers(b, steps, quantised);
    }
    let y = match layout.zero_point(b, parameters.zero)? {
        Some(zero) => b.binary(Binary::Add, y, zero)?,
        None => y,
    };
    let y = b.unary(Unary::Clip { min, max }, y)?;
    b.cast(y, DType::I64)
}

/// The integers that stand for numbers, so many steps from zero, remembered as such.
fn integers(b: &mut Builder<'_>, steps: ValueId, quantised: Quantised) -> Result<ValueId, OpError> {
    let mut y = steps;
    if let Some(zero) = quantised.zero {
        let zero = b.cast(zero, DType::F32)?;
        let zero = b.reshape(zero, [])?;
        y = b.binary(Binary::Add, y, zero)?;
    }
    let y = b.cast(y, DType::I64)?;
    b.stored.numbers.insert(y, quantised);
    Ok(y)
}

/// The integers without their zero point.
pub(super) fn steps(b: &mut Builder<'_>, quantised: Quantised) -> Result<ValueId, OpError> {
    let quotient = b.binary(Binary::Div, quantised.number, quantised.scale)?;
    b.unary(Unary::Round, quotient)
}

/// Eight bits over the range of the input, zero included:
///
/// ```text
/// scale = (max(x, 0) - min(x, 0)) / 255,    zero_point = round(-min(x, 0) / scale)
/// ```
///
/// The range is the input's own, so that nothing has to be limited but a tie at its end.
fn import_dynamic(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let axes: Vec<usize> = (0..b.rank(x)).collect();
    let nothing = b.scalar(0.0);
    let low = reduce(b, ReduceKind::Min, axes.clone(), false, x)?;
    let low = b.binary(Binary::Min, low, nothing)?;
    let high = reduce(b, ReduceKind::Max, axes, false, x)?;
    let high = b.binary(Binary::Max, high, nothing)?;
    let range = b.binary(Binary::Sub, high, low)?;
    let levels = b.scalar(255.0);
    let scale = b.binary(Binary::Div, range, levels)?;
    // All zeros have no range: any scale is right.
    let tiny = b.scalar(f32::MIN_POSITIVE);
    let scale = b.binary(Binary::Max, scale, tiny)?;
    let below = b.binary(Binary::Div, low, scale)?;
    let below = b.unary(Unary::Neg, below)?;
    let zero = b.unary(Unary::Round, below)?;
    let zero = b.cast(zero, DType::I64)?;
    let quotient = b.binary(Binary::Div, x, scale)?;
    let steps = b.unary(Unary::Round, quotient)?;
    let number = b.binary(Binary::Mul, steps, scale)?;
    let quantised = Quantised {
        number,
        scale,
        zero: Some(zero),
    };
    Ok(vec![integers(b, steps, quantised)?, scale, zero])
}

/// Whether two values are the same numbers.
fn same(b: &Builder<'_>, one: ValueId, other: ValueId) -> bool {
    let equal = |(a, b): (std::sync::Arc<Tensor>, std::sync::Arc<Tensor>)| a.to_f32() == b.to_f32();
    one == other || b.constant(one).zip(b.constant(other)).is_some_and(equal)
}

/// Whether two zero points are the same; the one that is left out is 0.
pub(super) fn same_zero(b: &Builder<'_>, one: Option<ValueId>, other: Option<ValueId>) -> bool {
    let is_zero = |v: ValueId| {
        let numbers = b.constant(v).map(|t| t.to_f32());
        numbers.is_some_and(|t| t.iter().all(|&x| x == 0.0))
    };
    match (one, other) {
        (None, None) => true,
        (Some(v), None) | (None, Some(v)) => is_zero(v),
        (Some(one), Some(other)) => same(b, one, other),
    }
}

/// Scale and zero point as a node gives them.
pub(super) struct Parameters {
    pub(super) scale: ValueId,
    pub(super) zero: Option<ValueId>,
}

impl Parameters {
    /// The arguments at two positions.
    pub(super) fn read(
        node: &NodeContext<'_>,
        scale: usize,
        zero: usize,
    ) -> Result<Parameters, OpError> {
        Ok(Parameters {
            scale: node.input(scale)?,
            zero: node.optional(zero),
        })
    }
}

/// The limits of an integer type: the given one (0: none is), or the zero point's, or 8 bits
/// without sign when there is neither.
fn limits(b: &Builder<'_>, zero: Option<ValueId>, given: i32) -> Result<(f32, f32), OpError> {
    let dtype = match (given, zero) {
        (0, None) => data_type::UINT8,
        (0, Some(zero)) => b
            .stored_type(zero)
            .ok_or_else(|| OpError::unsupported("the zero point's type is computed"))?,
        _ => given,
    };
    match dtype {
        data_type::UINT8 => Ok((0.0, 255.0)),
        data_type::INT8 => Ok((-128.0, 127.0)),
        data_type::UINT16 => Ok((0.0, 65_535.0)),
        data_type::INT16 => Ok((-32_768.0, 32_767.0)),
        _ => Err(OpError::unsupported(format!("element type {dtype}"))),
    }
}

/// How scale and zero point lie along the value: one number, one per position of an axis, or one
/// per block of positions.
pub(super) struct ScaleLayout {
    axis: i64,
    shape: Vec<usize>,
    /// Length of a block; 0 when there are none.
    block: usize,
}

impl ScaleLayout {
    /// One number, or one per position of an axis of `x`, where the operator says which.
    pub(super) fn on_axis(b: &Builder<'_>, x: ValueId, axis: i64) -> Self {
        ScaleLayout {
            axis,
            shape: b.shape(x),
            block: 0,
        }
    }

    fn read(node: &NodeContext<'_>, b: &Builder<'_>, x: ValueId) -> Result<Self, OpError> {
        let block = node.attributes.int("block_size", 0)?;
        Ok(ScaleLayout {
            axis: node.attributes.int("axis", 1)?,
            shape: b.shape(x),
            block: usize::try_from(block)
                .map_err(|_| OpError::invalid(format!("`block_size` is {block}")))?,
        })
    }

    /// A parameter in a shape that broadcasts along the axis.
    pub(super) fn along(
        &self,
        b: &mut Builder<'_>,
        value: ValueId,
        what: &str,
    ) -> Result<ValueId, OpError> {
        if self.block > 0 {
            return self.blocks(b, value, what);
        }
        let number = match b.shape(value)[..] {
            [] | [1] => return b.reshape(value, []),
            [number] => number,
            _ => return Err(OpError::unsupported(format!("`{what}` has several axes"))),
        };
        let axis = builder::axis(self.axis, self.shape.len())?;
        if number != self.shape[axis] {
            let extent = self.shape[axis];
            return Err(OpError::invalid(format!(
                "`{what}` has {number} elements, axis {axis} has extent {extent}"
            )));
        }
        let mut along = vec![1; self.shape.len() - axis];
        along[0] = number;
        b.reshape(value, along)
    }

    /// A parameter with one number per block, each repeated for the whole block.
    fn blocks(&self, b: &mut Builder<'_>, value: ValueId, what: &str) -> Result<ValueId, OpError> {
        let axis = builder::axis(self.axis, self.shape.len())?;
        let mut expected = self.shape.clone();
        expected[axis] = expected[axis].div_ceil(self.block);
        if b.shape(value) != expected {
            let (got, wanted) = (b.shape(value), ShapeDisplay(&expected));
            return Err(OpError::invalid(format!(
                "`{what}` has shape `{}`, blocks need `{wanted}`",
                ShapeDisplay(&got)
            )));
        }
        b.make_room(self.shape[axis])?;
        let block_of = |i: usize| (i / self.block) as i64;
        let blocks = (0..self.shape[axis]).map(block_of).collect();
        let blocks = b.tensor(Tensor::ints(blocks));
        b.push(Op::Gather(Gather { axis }), &[value, blocks])
    }

    /// The zero point as floating-point numbers, unless it is zero everywhere.
    pub(super) fn zero_point(
        &self,
        b: &mut Builder<'_>,
        zero: Option<ValueId>,
    ) -> Result<Option<ValueId>, OpError> {
        let Some(zero) = zero else {
            return Ok(None);
        };
        let vanishes = |values: Vec<f32>| values.iter().all(|&x| x == 0.0);
        if b.constant(zero).is_some_and(|zero| vanishes(zero.to_f32())) {
            return Ok(None);
        }
        let zero = b.cast(zero, DType::F32)?;
        self.along(b, zero, "zero_point").map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, assert_close, floats, ints};
    use super::*;

    /// The example of the ONNX documentation of DequantizeLinear.
    #[test]
    fn integers_become_numbers() {
        let got = Case::new("DequantizeLinear", 13)
            .constant(ints(&[4], &[0, 3, 128, 255]))
            .constant(Tensor::scalar(2.0))
            .constant(ints(&[], &[128]))
            .value();
        assert_eq!(got, floats(&[4], &[-256.0, -250.0, 0.0, 254.0]));
    }

    #[test]
    fn parameters_lie_along_the_axis() {
        let case = |axis| {
            Case::new("DequantizeLinear", 13)
                .constant(ints(&[1, 2, 2], &[1, 2, 3, 4]))
                .constant(floats(&[2], &[1.0, 10.0]))
                .constant(ints(&[2], &[0, 1]))
                .int("axis", axis)
        };
        assert_eq!(case(1).value(), floats(&[1, 2, 2], &[1.0, 2.0, 20.0, 30.0]));
        assert_eq!(
            case(-1).value(),
            floats(&[1, 2, 2], &[1.0, 10.0, 3.0, 30.0])
        );
        assert_eq!(
            case(0).error(),
            "`scale` has 2 elements, axis 0 has extent 1"
        );
    }

    #[test]
    fn parameters_repeat_within_blocks() {
        let case = Case::new("DequantizeLinear", 21)
            .constant(ints(&[5], &[1, 2, 3, 4, 5]))
            .constant(floats(&[3], &[1.0, 10.0, 100.0]))
            .int("axis", 0)
            .int("block_size", 2);
        assert_eq!(case.value(), floats(&[5], &[1.0, 2.0, 30.0, 40.0, 500.0]));
    }

    /// The example of the ONNX documentation of QuantizeLinear:
    /// `[0, 2, 3, 1000, -254, -1000]` over 2 is `[0, 1, 1.5, 500, -127, -500]`.
    #[test]
    fn numbers_are_rounded_and_saturated() {
        let x = || floats(&[6], &[0.0, 2.0, 3.0, 1000.0, -254.0, -1000.0]);
        let case = || {
            Case::new("QuantizeLinear", 21)
                .constant(x())
                .constant(Tensor::scalar(2.0))
        };
        assert_eq!(case().value(), ints(&[6], &[0, 1, 2, 255, 0, 0]));
        let signed = case().int("output_dtype", data_type::INT8.into()).value();
        assert_eq!(signed, ints(&[6], &[0, 1, 2, 127, -127, -128]));
        let shifted = case()
            .constant(ints(&[], &[128]))
            .int("output_dtype", data_type::UINT8.into())
            .value();
        assert_eq!(shifted, ints(&[6], &[128, 129, 130, 255, 1, 0]));
        let stored = case().stored(data_type::UINT8, ints(&[], &[128])).value();
        assert_eq!(stored, shifted);
        let signed = case().stored(data_type::INT8, ints(&[], &[1])).value();
        assert_eq!(signed, ints(&[6], &[1, 2, 3, 127, -126, -128]));
    }

    #[test]
    fn other_forms_are_unsupported() {
        let case = || {
            Case::new("QuantizeLinear", 21)
                .input(DType::F32, &[2])
                .constant(Tensor::scalar(1.0))
        };
        let zero = case().constant(ints(&[], &[0]));
        assert_eq!(
            zero.error(),
            "unsupported: the zero point's type is computed"
        );
        let four = case().int("output_dtype", 22);
        assert_eq!(four.error(), "unsupported: element type 22");
        let blocks = case().int("block_size", 32).int("axis", 0);
        assert_eq!(
            blocks.error(),
            "`scale` has shape `scalar`, blocks need `1`"
        );
        let float = Case::new("DequantizeLinear", 21)
            .input(DType::F32, &[2])
            .constant(Tensor::scalar(1.0));
        assert_eq!(float.error(), "unsupported: the input is of type float");
    }

    #[test]
    fn a_round_trip_keeps_what_the_grid_can_hold() {
        let x = floats(&[3], &[0.0, 0.5, 1.0]);
        let scale = Tensor::scalar(0.25);
        let quantised = Case::new("QuantizeLinear", 13)
            .constant(x.clone())
            .constant(scale.clone())
            .value();
        let back = Case::new("DequantizeLinear", 13)
            .constant(quantised)
            .constant(scale)
            .value();
        assert_close(&back, &x, 0.0);
    }

    /// A model in QDQ form: what is dequantised is the rounded number itself, also behind a
    /// Reshape, and its limits begin at zero where the zero point is the smallest integer.
    #[test]
    fn what_is_dequantised_is_the_rounded_number() {
        let mut graph = crate::Graph::new();
        let mut stored = crate::builder::Stored::default();
        let x = graph.add_input("x", crate::TensorType::new(DType::F32, [1, 4]));
        let scale = graph.add_constant("scale", Tensor::scalar(0.5));
        let zero = graph.add_constant("zero", ints(&[], &[-128]));
        stored.types.insert(zero, data_type::INT8);
        let shape = graph.add_constant("shape", ints(&[2], &[2, 2]));
        let mut run = |op_type: &'static str, inputs: &[ValueId]| {
            let node = NodeContext {
                op_type,
                opset: 13,
                attributes: crate::onnx::attributes::Attributes::new(Vec::new()),
                inputs: inputs.iter().copied().map(Some).collect(),
                used_outputs: vec![true],
            };
            let mut b = Builder {
                graph: &mut graph,
                stored: &mut stored,
                name: op_type,
            };
            let import = super::super::import_of(op_type).unwrap();
            import_number(import, &node, &mut b).unwrap()[0]
        };
        let q = run("QuantizeLinear", &[x, scale, zero]);
        let moved = run("Reshape", &[q, shape]);
        let y = run("DequantizeLinear", &[moved, scale, zero]);
        let again = run("DequantizeLinear", &[moved, scale, zero]);
        assert_eq!(y, again);
        graph.set_outputs(vec![y]);
        let graph = graph.pruned();
        let names: Vec<&str> = graph.nodes().iter().map(|n| n.op.name()).collect();
        assert_eq!(names, ["Div", "Round", "Clip", "Mul", "Reshape"]);
        let limits = Unary::Clip {
            min: 0.0,
            max: 255.0,
        };
        assert_eq!(graph.nodes()[2].op, Op::Unary(limits));
    }

    /// `Q(MatMul(DQ(Q(x)), DQ(w)))`, weights with a scale for each output: integers are multiplied, one factor
    /// brings the sums to the next grid, and what was quantised stays a number on the way.
    #[test]
    fn between_dequantised_numbers_integers_are_multiplied() {
        let mut graph = crate::Graph::new();
        let mut stored = crate::builder::Stored::default();
        let x = graph.add_input("x", crate::TensorType::new(DType::F32, [1, 2]));
        let scale = graph.add_constant("scale", Tensor::scalar(0.5));
        let zero = graph.add_constant("zero", ints(&[], &[0]));
        let w = graph.add_constant("w", ints(&[2, 2], &[1, -2, 3, 4]));
        let scales = graph.add_constant("scales", floats(&[2], &[0.25, 2.0]));
        let zeros = graph.add_constant("zeros", ints(&[2], &[0, 1]));
        stored.types.insert(zero, data_type::UINT8);
        let mut run = |op_type: &'static str, inputs: &[ValueId]| {
            let node = NodeContext {
                op_type,
                opset: 13,
                attributes: crate::onnx::attributes::Attributes::new(Vec::new()),
                inputs: inputs.iter().copied().map(Some).collect(),
                used_outputs: vec![true],
            };
            let mut b = Builder {
                graph: &mut graph,
                stored: &mut stored,
                name: op_type,
            };
            let import = super::super::import_of(op_type).unwrap();
            import_number(import, &node, &mut b).unwrap()[0]
        };
        let q = run("QuantizeLinear", &[x, scale, zero]);
        let x = run("DequantizeLinear", &[q, scale, zero]);
        let w = run("DequantizeLinear", &[w, scales, zeros]);
        let y = run("MatMul", &[x, w]);
        let q = run("QuantizeLinear", &[y, scale, zero]);
        let quantised = run("DequantizeLinear", &[q, scale, zero]);
        graph.set_outputs(vec![y, quantised]);
        let graph = graph.pruned();
        let nodes = graph.nodes();
        let names: Vec<&str> = nodes.iter().map(|n| n.op.name()).collect();
        let quantise = ["Round", "Clip", "Mul"];
        let product = ["Div", "Round", "MatMul", "Mul", "Mul"];
        let expected = [&["Div"], &quantise[..], &product, &quantise].concat();
        assert_eq!(names, expected);
        let constant = |node: usize| {
            graph
                .constant(nodes[node].inputs[1])
                .unwrap()
                .as_ref()
                .clone()
        };
        assert_eq!(constant(6), floats(&[2, 2], &[1.0, -3.0, 3.0, 3.0]));
        assert_eq!(constant(7), floats(&[2], &[0.125, 1.0]));
        assert_eq!(constant(8), floats(&[2], &[0.25, 2.0]));
    }

    /// The example of the ONNX documentation of DynamicQuantizeLinear: a range from -2.5 to 3 in
    /// steps of 0.0196, zero at 153 after rounding.
    #[test]
    fn the_range_of_the_input_is_the_grid() {
        let x = floats(&[6], &[0.0, 2.0, -3.0, -2.5, 1.34, 0.5]);
        let imported = Case::new("DynamicQuantizeLinear", 11)
            .constant(x)
            .outputs(3)
            .import()
            .unwrap();
        let constant = |i: usize| {
            let constant = imported.graph.constant(imported.outputs[i]);
            constant.unwrap().as_ref().clone()
        };
        assert_eq!(constant(0), ints(&[6], &[153, 255, 0, 26, 221, 179]));
        assert_close(&constant(1), &Tensor::scalar(0.019_607_844), 1e-6);
        assert_eq!(constant(2), ints(&[], &[153]));
    }
}
