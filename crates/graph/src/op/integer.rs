//! Operators on quantised tensors: ONNX's own, and those of ONNX Runtime's domain.
//!
//! Each is the operator that it is named after, on the numbers that the integers stand for or on
//! these integers without their zero point, and a quantisation of the result. So its layers, weights
//! and relevances are those of the network that was quantised, up to a scale.

use super::quantize::{
    self, Parameters, ScaleLayout, dequantise, quantise, round_to, same_zero, steps,
};
use super::{Binary, Gemm, Import, Op, Unary, import_of as plain_import_of};
use crate::ValueId;
use crate::builder::{Builder, NodeContext, Steps};
use crate::error::OpError;
use crate::tensor::DType;

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "QLinearConv" => Some(import_conv),
        "QLinearMatMul" => Some(import_matmul),
        "ConvInteger" => Some(import_conv_integer),
        "MatMulInteger" => Some(import_matmul_integer),
        _ => None,
    }
}

/// The operators of `com.microsoft`.
pub(super) fn import_of_microsoft(op_type: &str) -> Option<Import> {
    match op_type {
        "QLinearAdd" | "QLinearMul" => Some(import_binary),
        "QLinearSigmoid" | "QLinearLeakyRelu" | "QLinearSoftmax" => Some(import_unary),
        "QLinearGlobalAveragePool" | "QLinearAveragePool" | "QLinearReduceMean" => {
            Some(import_unary)
        }
        "QLinearConcat" => Some(import_concat),
        "QGemm" => Some(import_gemm),
        "DynamicQuantizeLSTM" => Some(import_lstm),
        "QuantizeLinear" | "DequantizeLinear" => quantize::import_of(op_type),
        _ => None,
    }
}

/// Whether an operator computes with quantised integers.
pub(crate) fn is_quantised(op_type: &str) -> bool {
    matches!(
        op_type,
        "QuantizeLinear" | "DequantizeLinear" | "DynamicQuantizeLinear"
    ) || import_of(op_type).is_some()
        || import_of_microsoft(op_type).is_some()
}

/// The numbers of the argument at `i`, whose scale and zero point follow it; `axis` is the one that
/// these may lie along.
fn number(
    node: &NodeContext<'_>,
    b: &mut Builder<'_>,
    i: usize,
    axis: i64,
) -> Result<ValueId, OpError> {
    let x = node.input(i)?;
    let layout = ScaleLayout::on_axis(b, x, axis);
    dequantise(b, x, &Parameters::read(node, i + 1, i + 2)?, &layout)
}

/// The quantised result, with the scale and zero point at `i`.
fn result(
    node: &NodeContext<'_>,
    b: &mut Builder<'_>,
    y: ValueId,
    i: usize,
) -> Result<Vec<ValueId>, OpError> {
    let layout = ScaleLayout::on_axis(b, y, 1);
    Ok(vec![quantise(
        b,
        y,
        &Parameters::read(node, i, i + 1)?,
        &layout,
        0,
    )?])
}

/// The result of another operator, with this node's attributes.
fn plain(
    node: &NodeContext<'_>,
    b: &mut Builder<'_>,
    op_type: &str,
    inputs: &[ValueId],
) -> Result<ValueId, OpError> {
    let inputs = inputs.iter().copied().map(Some).collect();
    let import = plain_import_of(op_type)
        .ok_or_else(|| OpError::unsupported(format!("operator `{op_type}`")))?;
    let outputs = import(&node.with(op_type, inputs), b)?;
    outputs
        .first()
        .copied()
        .ok_or_else(|| OpError::invalid("it has no output"))
}

/// Two scales times each other, the second of which may lie along an axis of `of`.
fn step(
    b: &mut Builder<'_>,
    scales: [ValueId; 2],
    of: ValueId,
    axis: i64,
) -> Result<ValueId, OpError> {
    let layout = ScaleLayout::on_axis(b, of, axis);
    let [x, w] = scales;
    let x = layout.along(b, x, "scale")?;
    let w = layout.along(b, w, "scale")?;
    b.binary(Binary::Mul, x, w)
}

/// The quantised result of sums of integers, of which each is worth `step`; scale and zero point are
/// at `i`. Integers add up exactly, and one factor brings them to the result's grid, as in ONNX
/// Runtime: so both round the same number.
fn requantised(
    node: &NodeContext<'_>,
    b: &mut Builder<'_>,
    sum: ValueId,
    step: ValueId,
    i: usize,
) -> Result<Vec<ValueId>, OpError> {
    let parameters = Parameters::read(node, i, i + 1)?;
    let scale = b.reshape(parameters.scale, [])?;
    let factor = b.binary(Binary::Div, step, scale)?;
    let quotient = b.binary(Binary::Mul, sum, factor)?;
    let layout = ScaleLayout::on_axis(b, sum, 1);
    Ok(vec![round_to(b, quotient, &parameters, &layout, 0)?])
}

fn import_conv(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let mut inputs = vec![centred(node, b, 0, 2, 1)?, centred(node, b, 3, 5, 0)?];
    if let Some(bias) = node.optional(8) {
        inputs.push(b.cast(bias, DType::F32)?);
    }
    let sum = plain(node, b, "Conv", &inputs)?;
    let step = step(b, [node.input(1)?, node.input(4)?], sum, 1)?;
    requantised(node, b, sum, step, 6)
}

fn import_matmul(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let factors = [centred(node, b, 0, 2, -2)?, centred(node, b, 3, 5, -1)?];
    let sum = b.push(Op::MatMul, &factors)?;
    let step = step(b, [node.input(1)?, node.input(4)?], sum, -1)?;
    requantised(node, b, sum, step, 6)
}

fn import_binary(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let f = match node.op_type {
        "QLinearMul" => Binary::Mul,
        _ => Binary::Add,
    };
    let terms = [number(node, b, 0, 1)?, number(node, b, 3, 1)?];
    let y = b.binary(f, terms[0], terms[1])?;
    result(node, b, y, 6)
}

/// `x`, its scale and zero point, then those of the result.
fn import_unary(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    if node.attributes.flag("channels_last", false)? {
        return Err(OpError::unsupported("channels are the last axis"));
    }
    let x = number(node, b, 0, 1)?;
    let op_type = node.op_type.strip_prefix("QLinear").unwrap_or(node.op_type);
    let y = match op_type {
        "Sigmoid" => b.unary(Unary::Sigmoid, x)?,
        "LeakyRelu" => {
            let alpha = node.attributes.float("alpha", 0.01)?;
            b.unary(Unary::LeakyRelu { alpha }, x)?
        }
        "Softmax" => {
            // The operator set whose Softmax is meant is an attribute, not that of the file.
            let opset = node.attributes.int("opset", node.opset)?;
            let mut inner = node.with(op_type, vec![Some(x)]);
            inner.opset = opset;
            let import = plain_import_of(op_type)
                .ok_or_else(|| OpError::unsupported(format!("operator `{op_type}`")))?;
            import(&inner, b)?[0]
        }
        _ => plain(node, b, op_type, &[x])?,
    };
    result(node, b, y, 3)
}

/// The result's scale and zero point, then three arguments for each input.
fn import_concat(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let parts = (2..node.inputs.len())
        .step_by(3)
        .map(|i| number(node, b, i, 1))
        .collect::<Result<Vec<_>, _>>()?;
    let y = plain(node, b, "Concat", &parts)?;
    result(node, b, y, 0)
}

/// `alpha a b + c`; `c` in steps of `alpha` and the scales of `a` and `b`. Without a scale for the
/// result it is no integers.
fn import_gemm(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: node.attributes.flag("transA", false)?,
        trans_b: node.attributes.flag("transB", false)?,
    };
    let columns = if gemm.trans_b { 0 } else { 1 };
    let mut inputs = vec![centred(node, b, 0, 2, 1)?, centred(node, b, 3, 5, columns)?];
    if let Some(bias) = node.optional(6) {
        inputs.push(b.cast(bias, DType::F32)?);
    }
    let sum = b.push(Op::Gemm(gemm), &inputs)?;
    let alpha = b.scalar(node.attributes.float("alpha", 1.0)?);
    let step = step(b, [node.input(1)?, node.input(4)?], sum, 1)?;
    let step = b.binary(Binary::Mul, step, alpha)?;
    match node.optional(7) {
        Some(_) => requantised(node, b, sum, step, 7),
        None => Ok(vec![b.binary(Binary::Mul, sum, step)?]),
    }
}

/// An LSTM with weights of 8 bits, in rows by inputs and states. ONNX Runtime rounds what it multiplies them with as well, anew at
/// each step; here that stays as it is.
fn import_lstm(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let mut inputs: Vec<Option<ValueId>> = (0..8).map(|i| node.optional(i)).collect();
    for (weight, scale) in [(1, 8), (2, 10)] {
        let x = node.input(weight)?;
        let &[directions, _, columns] = b.shape(x).as_slice() else {
            return Err(OpError::invalid("the weights have three axes"));
        };
        // A number for each direction, or for each of its columns.
        let mut parameter = |value: ValueId| -> Result<ValueId, OpError> {
            let value = b.cast(value, DType::F32)?;
            let numbers = b.shape(value).iter().product::<usize>();
            match numbers == directions * columns {
                true => b.reshape(value, [directions, 1, columns]),
                false => b.reshape(value, [numbers, 1, 1]),
            }
        };
        let scale_of = parameter(node.input(scale)?)?;
        let zero = node.optional(scale + 1).map(&mut parameter).transpose()?;
        let mut number = b.cast(x, DType::F32)?;
        if let Some(zero) = zero {
            number = b.binary(Binary::Sub, number, zero)?;
        }
        number = b.binary(Binary::Mul, number, scale_of)?;
        inputs[weight] = Some(b.push(Op::Transpose(vec![0, 2, 1]), &[number])?);
    }
    let import = plain_import_of("LSTM").ok_or_else(|| OpError::unsupported("operator `LSTM`"))?;
    import(&node.with("LSTM", inputs), b)
}

/// A convolution or dense layer between dequantised numbers, as the sum of its integers and one factor:
/// integers add up exactly, and floats do not, so that a number half way between two steps of the next
/// layer would fall to either side. `None` for every other node.
pub(super) fn product_of_integers(
    node: &NodeContext<'_>,
    b: &mut Builder<'_>,
) -> Result<Option<ValueId>, OpError> {
    if !matches!(node.op_type, "Conv" | "Gemm" | "MatMul") {
        return Ok(None);
    }
    let dequantised = |i: usize| Some(b.stored.dequantised.get(&node.optional(i)?).copied());
    let (Some(Some(x)), Some(Some(w))) = (dequantised(0), dequantised(1)) else {
        return Ok(None);
    };
    let bias = dequantised(2);
    let is_gemm = node.op_type == "Gemm";
    let scaled = is_gemm
        && (node.attributes.float("alpha", 1.0)? != 1.0
            || node.attributes.float("beta", 1.0)? != 1.0);
    // Along which axes of weights and of the result outputs are counted.
    let rank = b.rank(w.steps);
    let (outputs, axis) = match node.op_type {
        "Conv" => (0, 1),
        "Gemm" if node.attributes.flag("transB", false)? => (0, 1),
        "Gemm" => (1, 1),
        _ => (rank.saturating_sub(1), -1),
    };
    let scales = b.shape(w.scale);
    // Scales broadcast from the last axis on.
    let first = rank.saturating_sub(scales.len());
    let mut lengths = scales.iter().enumerate();
    let by_output = lengths.all(|(i, &length)| length == 1 || first + i == outputs);
    let constant = |v: ValueId| b.constant(v).is_some();
    let fits = constant(w.steps) && constant(w.scale) && constant(x.scale);
    if scaled || !fits || !by_output || !b.shape(x.scale).is_empty() {
        return Ok(None);
    }
    let count: usize = scales.iter().product();
    let scale = match scales.is_empty() {
        true => w.scale,
        false => b.reshape(w.scale, [count])?,
    };
    let flat = b.binary(Binary::Mul, x.scale, scale)?;
    let mut inputs = vec![x.steps, w.steps];
    match bias {
        None => {}
        Some(Some(bias)) if same_steps(b, bias.scale, flat) => inputs.push(bias.steps),
        Some(_) => return Ok(None),
    }
    let sum = plain(node, b, node.op_type, &inputs)?;
    let step = step(b, [x.scale, scale], sum, axis)?;
    let number = b.binary(Binary::Mul, sum, step)?;
    let steps = Steps {
        steps: sum,
        scale: step,
    };
    b.stored.sums.insert(number, steps);
    Ok(Some(number))
}

/// Whether two lists of scales, of which one may stand for all, are the same but for rounding.
fn same_steps(b: &Builder<'_>, one: ValueId, other: ValueId) -> bool {
    let (Some(one), Some(other)) = (b.constant(one), b.constant(other)) else {
        return false;
    };
    let (one, other) = (one.to_f32(), other.to_f32());
    let at = |list: &[f32], i: usize| list.get(if list.len() == 1 { 0 } else { i }).copied();
    (0..one.len().max(other.len())).all(|i| match (at(&one, i), at(&other, i)) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-5 * a.abs().max(b.abs()),
        _ => false,
    })
}

/// Integers without their zero point, at `i`, with the zero point at `zero`.
fn centred(
    node: &NodeContext<'_>,
    b: &mut Builder<'_>,
    i: usize,
    zero: usize,
    axis: i64,
) -> Result<ValueId, OpError> {
    let x = node.input(i)?;
    let zero = node.optional(zero);
    if let Some(known) = b.stored.numbers.get(&x).copied()
        && same_zero(b, known.zero, zero)
    {
        return steps(b, known);
    }
    let layout = ScaleLayout::on_axis(b, x, axis);
    let number = b.cast(x, DType::F32)?;
    match layout.zero_point(b, zero)? {
        Some(zero) => b.binary(Binary::Sub, number, zero),
        None => Ok(number),
    }
}

fn import_conv_integer(
    node: &NodeContext<'_>,
    b: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let inputs = [centred(node, b, 0, 2, 1)?, centred(node, b, 1, 3, 0)?];
    let y = plain(node, b, "Conv", &inputs)?;
    Ok(vec![b.cast(y, DType::I64)?])
}

fn import_matmul_integer(
    node: &NodeContext<'_>,
    b: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let factors = [centred(node, b, 0, 2, -2)?, centred(node, b, 1, 3, -1)?];
    let y = b.push(Op::MatMul, &factors)?;
    Ok(vec![b.cast(y, DType::I64)?])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, floats, ints};
    use super::*;
    use crate::onnx::proto::data_type;
    use crate::tensor::Tensor;

    /// The next three arguments: integers, a scale, a zero point of 8 bits without sign.
    fn quantised(case: Case, shape: &[usize], values: &[i64], scale: f32, zero: i64) -> Case {
        case.stored(data_type::UINT8, ints(shape, values))
            .constant(Tensor::scalar(scale))
            .stored(data_type::UINT8, ints(&[], &[zero]))
    }

    fn grid(case: Case, scale: f32, zero: i64) -> Case {
        case.constant(Tensor::scalar(scale))
            .stored(data_type::UINT8, ints(&[], &[zero]))
    }

    /// By hand: `(14 - 10) / 2 + (3 - 1) = 4` and `(8 - 10) / 2 + (255 - 1) = 253`; in steps of 2 above
    /// 100 that is 102 and, rounded to even, 226.
    #[test]
    fn sums_are_those_of_the_numbers() {
        let case = quantised(Case::new("QLinearAdd", 1), &[2], &[14, 8], 0.5, 10);
        let case = quantised(case, &[2], &[3, 255], 1.0, 1);
        let got = grid(case, 2.0, 100).value();
        assert_eq!(got, ints(&[2], &[102, 226]));
    }

    #[test]
    fn parts_are_brought_to_one_grid() {
        let case = grid(Case::new("QLinearConcat", 1), 0.5, 0).int("axis", 0);
        let case = quantised(case, &[1], &[14], 0.5, 10);
        let got = quantised(case, &[2], &[3, 255], 1.0, 1).value();
        assert_eq!(got, ints(&[3], &[4, 4, 255]));
    }

    #[test]
    fn a_quantised_product_is_a_product_between_roundings() {
        let names = |case: Case| -> Vec<&'static str> {
            let imported = case.import().unwrap();
            imported.ops().iter().map(|op| op.name()).collect()
        };
        let input = || Case::new("QGemm", 1).input(DType::I64, &[1, 2]);
        let case = grid(input(), 0.5, 10);
        let case = quantised(case, &[2, 2], &[1, 2, 3, 4], 0.25, 2);
        let floats = case.stored(data_type::INT32, ints(&[2], &[8, 16]));
        assert_eq!(names(floats), ["Cast", "Sub", "Gemm", "Mul"]);
        let channels = Case::new("QLinearGlobalAveragePool", 1)
            .input(DType::I64, &[1, 2, 2, 2])
            .int("channels_last", 1);
        assert_eq!(channels.error(), "unsupported: channels are the last axis");
    }

    /// Weights of 4 in steps of 0.5 above 2 are 1.
    #[test]
    fn weights_of_recurrent_layers_are_the_numbers_of_their_integers() {
        let weight = |case: Case| case.stored(data_type::UINT8, ints(&[1, 1, 4], &[4; 4]));
        let grid = |case: Case| {
            let case = case.constant(floats(&[1], &[0.5]));
            case.stored(data_type::UINT8, ints(&[1], &[2]))
        };
        let case = Case::new("DynamicQuantizeLSTM", 1).input(DType::F32, &[3, 1, 1]);
        let case = weight(weight(case))
            .absent()
            .absent()
            .absent()
            .absent()
            .absent();
        let case = grid(grid(case)).int("hidden_size", 1);
        let imported = case.import().unwrap();
        assert_eq!(imported.ty().shape, [3, 1, 1, 1]);
        let ones = imported
            .graph
            .values()
            .iter()
            .filter_map(|v| v.constant.as_ref());
        let ones = ones.filter(|t| ***t == floats(&[1, 4], &[1.0; 4])).count();
        assert_eq!(ones, 2);
    }

    /// Integers are multiplied: `3 - 2` with a bias of 8, each worth `0.5 * 0.25`.
    #[test]
    fn products_are_those_of_integers() {
        let case = Case::new("QGemm", 1).input(DType::I64, &[1, 1]);
        let case = quantised(grid(case, 0.5, 0), &[1, 1], &[3], 0.25, 2);
        let case = case.stored(data_type::INT32, ints(&[1], &[8]));
        let imported = case.import().unwrap();
        let nodes = imported.graph.nodes();
        let [gemm, worth] = &nodes[nodes.len() - 2..] else {
            panic!("{nodes:?}");
        };
        let constant = |v| imported.graph.constant(v).unwrap().as_ref().clone();
        assert_eq!(constant(gemm.inputs[1]), floats(&[1, 1], &[1.0]));
        assert_eq!(constant(gemm.inputs[2]), floats(&[1], &[8.0]));
        assert_eq!(constant(worth.inputs[1]), Tensor::scalar(0.125));
    }
}
