//! The functions in ONNX files: read and written.

use super::Unary;
use crate::ValueId;
use crate::builder::{Builder, NodeContext};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::op::Import;

/// The functions without parameters.
const PLAIN: [Unary; 31] = [
    Unary::Relu,
    Unary::Sigmoid,
    Unary::Tanh,
    Unary::HardSwish,
    Unary::Mish,
    Unary::Softplus,
    Unary::Softsign,
    Unary::Abs,
    Unary::Neg,
    Unary::Exp,
    Unary::Log,
    Unary::Sqrt,
    Unary::Reciprocal,
    Unary::Erf,
    Unary::Floor,
    Unary::Ceil,
    Unary::Round,
    Unary::Sign,
    Unary::Sin,
    Unary::Cos,
    Unary::Tan,
    Unary::Asin,
    Unary::Acos,
    Unary::Atan,
    Unary::Sinh,
    Unary::Cosh,
    Unary::Asinh,
    Unary::Acosh,
    Unary::Atanh,
    Unary::Not,
    Unary::IsNaN,
];

fn plain(op_type: &str) -> Option<Unary> {
    PLAIN.into_iter().find(|unary| unary.name() == op_type)
}

pub(in crate::op) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "LeakyRelu" | "ThresholdedRelu" | "Elu" | "Selu" | "Celu" | "HardSigmoid" | "Gelu"
        | "Swish" | "Shrink" | "IsInf" => Some(import_parametric),
        _ => plain(op_type).map(|_| import_plain as Import),
    }
}

fn import_plain(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let unary = plain(node.op_type).ok_or_else(|| unknown(node.op_type))?;
    Ok(vec![b.unary(unary, node.input(0)?)?])
}

/// Defaults are those of the ONNX specification.
fn import_parametric(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let a = &node.attributes;
    let unary = match node.op_type {
        "LeakyRelu" => Unary::LeakyRelu {
            alpha: a.float("alpha", 0.01)?,
        },
        "ThresholdedRelu" => Unary::ThresholdedRelu {
            alpha: a.float("alpha", 1.0)?,
        },
        "Elu" => Unary::Elu {
            alpha: a.float("alpha", 1.0)?,
        },
        "Selu" => Unary::Selu {
            alpha: a.float("alpha", 1.673_263_2)?,
            gamma: a.float("gamma", 1.050_701)?,
        },
        "Celu" => Unary::Celu {
            alpha: a.float("alpha", 1.0)?,
        },
        "HardSigmoid" => Unary::HardSigmoid {
            alpha: a.float("alpha", 0.2)?,
            beta: a.float("beta", 0.5)?,
        },
        "Gelu" => Unary::Gelu {
            tanh: match a.string("approximate", "none")?.as_str() {
                "none" => false,
                "tanh" => true,
                other => return Err(OpError::invalid(format!("`approximate` is `{other}`"))),
            },
        },
        "Swish" => Unary::Swish {
            alpha: a.float("alpha", 1.0)?,
        },
        "Shrink" => Unary::Shrink {
            bias: a.float("bias", 0.0)?,
            lambd: a.float("lambd", 0.5)?,
        },
        "IsInf" => Unary::IsInf {
            negative: a.flag("detect_negative", true)?,
            positive: a.flag("detect_positive", true)?,
        },
        other => return Err(unknown(other)),
    };
    Ok(vec![b.unary(unary, node.input(0)?)?])
}

fn unknown(op_type: &str) -> OpError {
    OpError::unsupported(format!("function `{op_type}`"))
}

impl Unary {
    pub(in crate::op) fn export(self, node: &mut OnnxNode<'_>) {
        match self {
            Unary::LeakyRelu { alpha }
            | Unary::ThresholdedRelu { alpha }
            | Unary::Elu { alpha }
            | Unary::Celu { alpha } => node.float("alpha", alpha),
            Unary::Selu { alpha, gamma } => {
                node.float("alpha", alpha);
                node.float("gamma", gamma);
            }
            Unary::HardSigmoid { alpha, beta } => {
                node.float("alpha", alpha);
                node.float("beta", beta);
            }
            Unary::Gelu { tanh: true } => node.string("approximate", "tanh"),
            // The default.
            Unary::Gelu { tanh: false } => {}
            Unary::Swish { alpha } => export_swish(alpha, node),
            Unary::Clip { min, max } => {
                node.float_input(min);
                node.float_input(max);
            }
            Unary::Shrink { bias, lambd } => {
                node.float("bias", bias);
                node.float("lambd", lambd);
            }
            Unary::IsInf { negative, positive } => {
                node.int("detect_negative", i64::from(negative));
                node.int("detect_positive", i64::from(positive));
            }
            Unary::Relu
            | Unary::Sigmoid
            | Unary::Tanh
            | Unary::HardSwish
            | Unary::Mish
            | Unary::Softplus
            | Unary::Softsign
            | Unary::Abs
            | Unary::Neg
            | Unary::Exp
            | Unary::Log
            | Unary::Sqrt
            | Unary::Reciprocal
            | Unary::Erf
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round
            | Unary::Sign
            | Unary::Sin
            | Unary::Cos
            | Unary::Tan
            | Unary::Asin
            | Unary::Acos
            | Unary::Atan
            | Unary::Sinh
            | Unary::Cosh
            | Unary::Asinh
            | Unary::Acosh
            | Unary::Atanh
            | Unary::Not
            | Unary::IsNaN => {}
        }
    }
}

/// Swish is an operator of opset 24; before, it is `x * sigmoid(alpha x)`.
fn export_swish(alpha: f32, node: &mut OnnxNode<'_>) {
    let mut inner = node.input(0);
    if alpha != 1.0 {
        let alpha = node.scalar(alpha);
        inner = node.before("Mul", vec![inner, alpha]);
    }
    let gate = node.before("Sigmoid", vec![inner]);
    node.op_type("Mul");
    node.named_input(gate);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Op;
    use crate::op::testing::{Case, assert_round_trip};
    use crate::tensor::{DType, TensorType};

    #[test]
    fn parameters_are_read() {
        let case = Case::new("Gelu", 20)
            .input(DType::F32, &[2])
            .string("approximate", "tanh");
        assert_eq!(
            case.import().unwrap().ops(),
            [&Op::Unary(Unary::Gelu { tanh: true })]
        );
        let case = Case::new("Gelu", 20)
            .input(DType::F32, &[2])
            .string("approximate", "x");
        assert_eq!(case.error(), "`approximate` is `x`");
        let case = Case::new("Selu", 6)
            .input(DType::F32, &[2])
            .import()
            .unwrap();
        let [Op::Unary(Unary::Selu { alpha, gamma })] = case.ops()[..] else {
            panic!("{:?}", case.ops());
        };
        // The defaults as the specification prints them: 1.67326319217681884765625 and
        // 1.05070102214813232421875, which f64 holds exactly.
        assert_eq!(f64::from(*alpha).to_string(), "1.6732631921768188");
        assert_eq!(f64::from(*gamma).to_string(), "1.0507010221481323");
    }

    #[test]
    fn every_name_is_imported_as_itself() {
        for unary in PLAIN {
            let dtype = if unary == Unary::Not {
                DType::Bool
            } else {
                DType::F32
            };
            let imported = Case::new(unary.name(), 20)
                .input(dtype, &[2])
                .import()
                .unwrap();
            assert_eq!(imported.ops(), [&Op::Unary(unary)]);
        }
    }

    #[test]
    fn swish_is_written_with_sigmoid() {
        let mut graph = crate::Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [2]));
        let y = graph
            .push("swish", Op::Unary(Unary::Swish { alpha: 2.0 }), &[x])
            .unwrap();
        graph.set_outputs(vec![y]);
        let bytes = graph.to_onnx().unwrap();
        let model = <crate::onnx::proto::ModelProto as prost::Message>::decode(&bytes[..]).unwrap();
        let nodes = model.graph.unwrap().node;
        let types: Vec<&str> = nodes.iter().filter_map(|n| n.op_type.as_deref()).collect();
        assert_eq!(types, ["Mul", "Sigmoid", "Mul", "Identity"]);
        assert_eq!(
            nodes[2].input,
            [nodes[0].input[0].clone(), nodes[1].output[0].clone()]
        );
    }

    #[test]
    fn functions_are_written_and_read_again() {
        let parametric = [
            Unary::LeakyRelu { alpha: 0.25 },
            Unary::ThresholdedRelu { alpha: 0.25 },
            Unary::Elu { alpha: 0.25 },
            Unary::Selu {
                alpha: 0.25,
                gamma: 0.5,
            },
            Unary::Celu { alpha: 0.25 },
            Unary::HardSigmoid {
                alpha: 0.25,
                beta: 0.75,
            },
            Unary::Gelu { tanh: true },
            Unary::Gelu { tanh: false },
            Unary::Clip {
                min: -0.5,
                max: f32::INFINITY,
            },
            Unary::Shrink {
                bias: 0.25,
                lambd: 0.75,
            },
            Unary::IsInf {
                negative: false,
                positive: true,
            },
        ];
        for unary in PLAIN.into_iter().chain(parametric) {
            let dtype = if unary == Unary::Not {
                DType::Bool
            } else {
                DType::F32
            };
            assert_round_trip(Op::Unary(unary), &[TensorType::new(dtype, [2, 3])]);
        }
    }
}
