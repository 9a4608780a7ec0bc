//! Operators of ONNX Runtime's domain that are several standard ones at once. Its optimiser writes them into files.

use super::{Binary, Gemm, Import, Op, Unary, import_of as plain_import_of};
use crate::ValueId;
use crate::builder::{Builder, NodeContext};
use crate::error::OpError;
use crate::onnx::attributes::Attributes;

/// The operators of `com.microsoft`.
pub(super) fn import_of_microsoft(op_type: &str) -> Option<Import> {
    match op_type {
        "Gelu" | "BiasGelu" | "FastGelu" | "QuickGelu" => Some(import_gelu),
        "FusedMatMul" => Some(import_matmul),
        "FusedGemm" => Some(import_gemm),
        "FusedConv" => Some(import_conv),
        "SkipLayerNormalization" => Some(import_skip),
        _ => None,
    }
}

type Outputs = Result<Vec<ValueId>, OpError>;

/// An activation of `x`, or of `x` and a bias.
fn import_gelu(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Outputs {
    let activation = match node.op_type {
        "FastGelu" => Unary::Gelu { tanh: true },
        "QuickGelu" => Unary::Swish {
            alpha: node.attributes.float("alpha", 1.702)?,
        },
        _ => Unary::Gelu { tanh: false },
    };
    let mut x = node.input(0)?;
    if let Some(bias) = node.optional(1) {
        x = b.binary(Binary::Add, x, bias)?;
    }
    Ok(vec![b.unary(activation, x)?])
}

/// `alpha a b`, either with its last two axes turned.
fn import_matmul(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Outputs {
    for name in ["transBatchA", "transBatchB"] {
        if node.attributes.flag(name, false)? {
            return Err(OpError::unsupported(format!("`{name}` is set")));
        }
    }
    let mut factors = [node.input(0)?, node.input(1)?];
    for (factor, name) in factors.iter_mut().zip(["transA", "transB"]) {
        let rank = b.rank(*factor);
        if node.attributes.flag(name, false)? && rank > 1 {
            let mut perm: Vec<usize> = (0..rank).collect();
            perm.swap(rank - 2, rank - 1);
            *factor = b.push(Op::Transpose(perm), &[*factor])?;
        }
    }
    let product = b.push(Op::MatMul, &factors)?;
    let alpha = node.attributes.float("alpha", 1.0)?;
    if alpha == 1.0 {
        return Ok(vec![product]);
    }
    let alpha = b.scalar(alpha);
    Ok(vec![b.binary(Binary::Mul, product, alpha)?])
}

fn import_gemm(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Outputs {
    let gemm = Gemm {
        alpha: node.attributes.float("alpha", 1.0)?,
        beta: node.attributes.float("beta", 1.0)?,
        trans_a: node.attributes.flag("transA", false)?,
        trans_b: node.attributes.flag("transB", false)?,
    };
    let mut inputs = vec![node.input(0)?, node.input(1)?];
    inputs.extend(node.optional(2));
    let y = b.push(Op::Gemm(gemm), &inputs)?;
    let parameter = |name: &str| node.attributes.optional_float(name);
    let given = [
        parameter("activation_alpha")?,
        parameter("activation_beta")?,
    ];
    let given: Vec<f32> = given.into_iter().flatten().collect();
    activated(&node.attributes, &given, b, y)
}

/// A convolution, to which a fourth input is added before the activation.
fn import_conv(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Outputs {
    let import = plain_import_of("Conv").ok_or_else(|| OpError::unsupported("operator `Conv`"))?;
    let inputs = node.inputs.iter().copied().take(3).collect();
    let outputs = import(&node.with("Conv", inputs), b)?;
    let [mut y] = outputs[..] else {
        return Err(OpError::invalid("a convolution has one output"));
    };
    if let Some(sum) = node.optional(3) {
        y = b.binary(Binary::Add, y, sum)?;
    }
    let given = node.attributes.floats("activation_params")?;
    activated(&node.attributes, &given.unwrap_or_default(), b, y)
}

/// What the attribute `activation` names, of `y`.
fn activated(
    attributes: &Attributes<'_>,
    given: &[f32],
    b: &mut Builder<'_>,
    y: ValueId,
) -> Outputs {
    let parameter = |i: usize, default: f32| given.get(i).copied().unwrap_or(default);
    let activation = match attributes.string("activation", "")?.as_str() {
        "" => return Ok(vec![y]),
        "Relu" => Unary::Relu,
        "Sigmoid" => Unary::Sigmoid,
        "Tanh" => Unary::Tanh,
        "LeakyRelu" => Unary::LeakyRelu {
            alpha: parameter(0, 0.01),
        },
        "Clip" => Unary::Clip {
            min: parameter(0, f32::MIN),
            max: parameter(1, f32::MAX),
        },
        "HardSigmoid" => Unary::HardSigmoid {
            alpha: parameter(0, 0.2),
            beta: parameter(1, 0.5),
        },
        other => return Err(OpError::unsupported(format!("activation `{other}`"))),
    };
    Ok(vec![b.unary(activation, y)?])
}

/// `x + skip + bias`, which is the fourth output, normalised.
fn import_skip(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Outputs {
    for statistic in [1, 2] {
        if node.used_outputs.get(statistic) == Some(&true) {
            return Err(OpError::unsupported(format!("output {statistic} is used")));
        }
    }
    let mut sum = b.binary(Binary::Add, node.input(0)?, node.input(1)?)?;
    if let Some(bias) = node.optional(4) {
        sum = b.binary(Binary::Add, sum, bias)?;
    }
    let layer = super::LayerNormalization {
        axis: b.rank(sum).saturating_sub(1),
        epsilon: node.attributes.float("epsilon", 1e-12)?,
    };
    let mut inputs = vec![sum, node.input(2)?];
    inputs.extend(node.optional(3));
    let y = b.push(Op::LayerNormalization(layer), &inputs)?;
    let mut outputs = vec![y, sum, sum, sum];
    outputs.truncate(node.used_outputs.len());
    Ok(outputs)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, floats};
    use super::*;
    use crate::tensor::DType;

    fn ops(case: Case) -> Vec<Op> {
        let imported = case.import().unwrap();
        imported.ops().into_iter().cloned().collect()
    }

    #[test]
    fn activations_follow_their_layers() {
        let layer = |op_type| {
            Case::new(op_type, 1)
                .input(DType::F32, &[1, 2])
                .constant(floats(&[2, 3], &[0.0; 6]))
        };
        let gemm = layer("FusedGemm")
            .string("activation", "LeakyRelu")
            .float("activation_alpha", 0.5);
        let gemm = ops(gemm);
        assert_eq!(gemm[0].name(), "Gemm");
        assert_eq!(gemm[1], Op::Unary(Unary::LeakyRelu { alpha: 0.5 }));
        let unknown = layer("FusedGemm").string("activation", "Sine").error();
        assert_eq!(unknown, "unsupported: activation `Sine`");

        let conv = Case::new("FusedConv", 1)
            .input(DType::F32, &[1, 1, 2, 2])
            .constant(floats(&[1, 1, 1, 1], &[2.0]))
            .absent()
            .input(DType::F32, &[1, 1, 2, 2])
            .string("activation", "Clip")
            .floats("activation_params", &[0.0, 6.0]);
        let conv = ops(conv);
        let names: Vec<&str> = conv.iter().map(Op::name).collect();
        assert_eq!(names, ["Conv", "Add", "Clip"]);
        assert_eq!(conv[2], Op::Unary(Unary::Clip { min: 0.0, max: 6.0 }));
    }

    #[test]
    fn spellings_of_gelu_have_biases() {
        let gelu = |op_type| {
            let case = Case::new(op_type, 1).input(DType::F32, &[1, 2]);
            ops(case.constant(floats(&[2], &[1.0, 2.0])))
        };
        for (op_type, tanh) in [("BiasGelu", false), ("FastGelu", true)] {
            let add = Op::Binary(Binary::Add);
            assert_eq!(gelu(op_type), [add, Op::Unary(Unary::Gelu { tanh })]);
        }
        let quick = Case::new("QuickGelu", 1).input(DType::F32, &[1, 2]);
        assert_eq!(ops(quick), [Op::Unary(Unary::Swish { alpha: 1.702 })]);
    }

    #[test]
    fn factors_are_turned_and_scaled() {
        let case = Case::new("FusedMatMul", 1)
            .input(DType::F32, &[1, 2, 3])
            .input(DType::F32, &[1, 4, 3])
            .int("transB", 1)
            .float("alpha", 0.5);
        let imported = case.import().unwrap();
        assert_eq!(imported.ty().shape, [1, 2, 4]);
        let names: Vec<&str> = imported.ops().iter().map(|op| op.name()).collect();
        assert_eq!(names, ["Transpose", "MatMul", "Mul"]);
    }

    #[test]
    fn a_sum_is_normalised_and_given() {
        let case = Case::new("SkipLayerNormalization", 1)
            .input(DType::F32, &[1, 2])
            .input(DType::F32, &[1, 2])
            .constant(floats(&[2], &[1.0, 1.0]));
        let imported = case.import().unwrap();
        let names: Vec<&str> = imported.ops().iter().map(|op| op.name()).collect();
        assert_eq!(names, ["Add", "LayerNormalization"]);
    }
}
