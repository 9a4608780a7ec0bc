//! Which values are never negative.

use npcov_graph::op::{Binary, PadMode, PoolKind, ReduceKind, Unary};
use npcov_graph::{Graph, Node, Op, ValueId};

/// By [`ValueId::index`]: whether a value is known never to be negative, whatever the input.
///
/// The positive and negative part of such a value need not be told apart, which halves the work
/// of most relevance steps.
pub(crate) fn nonnegative(graph: &Graph) -> Vec<bool> {
    let mut known: Vec<bool> = graph
        .values()
        .iter()
        .map(|value| {
            let numbers = value.constant.as_ref().and_then(|t| t.as_f32());
            numbers.is_some_and(|numbers| numbers.iter().all(|&x| x >= 0.0))
        })
        .collect();
    for node in graph.nodes() {
        known[node.output.index()] = keeps_sign(node, &|v: ValueId| known[v.index()]);
    }
    known
}

fn keeps_sign(node: &Node, is: &dyn Fn(ValueId) -> bool) -> bool {
    let all = || node.inputs.iter().all(|&v| is(v));
    let first = || node.inputs.first().is_some_and(|&v| is(v));
    match &node.op {
        Op::Unary(f) => match f {
            Unary::Relu
            | Unary::Sigmoid
            | Unary::HardSigmoid { .. }
            | Unary::Softplus
            | Unary::Exp
            | Unary::Abs
            | Unary::Sqrt => true,
            Unary::ThresholdedRelu { alpha } => *alpha >= 0.0,
            Unary::Clip { min, max } => *max >= 0.0 && (*min >= 0.0 || first()),
            Unary::LeakyRelu { .. }
            | Unary::Elu { .. }
            | Unary::Celu { .. }
            | Unary::Tanh
            | Unary::Gelu { .. }
            | Unary::Swish { .. }
            | Unary::HardSwish
            | Unary::Mish
            | Unary::Softsign
            | Unary::Erf
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round => first(),
            // Negative for some input that is not, or too rare to be worth a proof.
            Unary::Selu { .. }
            | Unary::Shrink { .. }
            | Unary::Neg
            | Unary::Log
            | Unary::Reciprocal
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
            | Unary::IsNaN
            | Unary::IsInf { .. } => false,
        },
        Op::Binary(f) => match f {
            Binary::Add | Binary::Mul | Binary::Div | Binary::Min => all(),
            Binary::Max => node.inputs.iter().any(|&v| is(v)),
            Binary::Pow | Binary::PRelu => first(),
            Binary::Sub
            | Binary::Mod
            | Binary::Fmod
            | Binary::Equal
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual
            | Binary::And
            | Binary::Or
            | Binary::Xor => false,
        },
        Op::Pool(pool) => match pool.kind {
            PoolKind::Max | PoolKind::Average { .. } => first(),
        },
        Op::Reduce(reduce) => match reduce.kind {
            ReduceKind::L1 | ReduceKind::L2 | ReduceKind::SumSquare => true,
            ReduceKind::LogSum | ReduceKind::LogSumExp => false,
            ReduceKind::Mean
            | ReduceKind::Sum
            | ReduceKind::Prod
            | ReduceKind::Max
            | ReduceKind::Min => first(),
        },
        Op::Softmax(softmax) => !softmax.log,
        Op::Pad(pad) => first() && !matches!(pad.mode, PadMode::Constant(x) if x < 0.0),
        Op::Where => node.inputs.iter().skip(1).all(|&v| is(v)),
        Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Slice(_)
        | Op::Expand(_)
        | Op::Tile(_)
        | Op::Gather(_)
        | Op::GatherElements(_)
        | Op::Cast(_) => first(),
        Op::Concat(_) => all(),
        Op::Conv(_)
        | Op::ConvTranspose(_)
        | Op::Gemm(_)
        | Op::MatMul
        | Op::BatchNormalization(_)
        | Op::InstanceNormalization(_)
        | Op::LayerNormalization(_)
        | Op::Lrn(_)
        | Op::ArgMax(_)
        | Op::TopK(_)
        | Op::Resize(_)
        | Op::ScatterSum(_)
        | Op::Composite(_) => false,
    }
}
