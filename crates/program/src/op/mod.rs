//! What goes backwards through an operator, one file per family, named as in `npcov-graph`: its
//! relevance rule and its adjoint, side by side.
//!
//! Both walk from the output of a node to its inputs. A *cotangent* arrives at the output (its
//! relevance, or the gradient of a loss with respect to it) and each input gets one of its own
//! shape.

pub(crate) mod attn_lrp;
pub(crate) mod matmul;
pub(crate) mod pool;
pub(crate) mod recurrent;
pub(crate) mod resize;
pub(crate) mod structure;
pub(crate) mod sum;

mod binary;
mod linear;
mod norm;
mod reduce;
mod softmax;
mod unary;

use npcov_graph::op::{PoolKind, ReduceKind};
use npcov_graph::{DType, Graph, Node, Op, OpError, ValueId};

use crate::append::Append;
use crate::attention::is_product;
use crate::flooding::is_flood;
use crate::rule::{Bias, Rule, Sharing};

/// A node at whose output a cotangent has arrived.
pub(crate) struct Step<'a> {
    /// The model, whose values keep their numbers in the program.
    pub(crate) graph: &'a Graph,
    pub(crate) node: &'a Node,
    /// What arrived, of the output's shape.
    pub(crate) cotangent: ValueId,
}

/// The cotangents of a node's inputs, by position among them.
pub(crate) type Shares = Vec<(usize, ValueId)>;

impl<'a> Step<'a> {
    /// Whether input `i` depends on the model's input.
    pub(crate) fn varies(&self, i: usize) -> bool {
        self.graph.constant(self.node.inputs[i]).is_none()
    }

    /// Input `i`.
    pub(crate) fn input(&self, i: usize) -> ValueId {
        self.node.inputs[i]
    }

    /// Shape of input `i`.
    pub(crate) fn shape(&self, i: usize) -> &'a [usize] {
        self.graph.shape(self.node.inputs[i])
    }

    /// Shape of the output.
    pub(crate) fn output_shape(&self) -> &'a [usize] {
        self.graph.shape(self.node.output)
    }
}

/// The rule of a node, as the rules of an explanation decide it.
pub(crate) struct Choice {
    /// A rule that was named for this node, its operator, or all linear ones.
    pub(crate) rule: Rule,
    /// Whether the rule was named for this node or its operator in particular.
    pub(crate) named: bool,
    pub(crate) bias: Bias,
    /// The bias that follows as an operator of its own.
    pub(crate) added: Option<ValueId>,
    /// Whether input `i` is never negative.
    pub(crate) nonnegative: Vec<bool>,
    /// The inputs that relevance passes to, by position.
    pub(crate) carriers: Vec<usize>,
}

/// The relevance of a node's inputs.
pub(crate) fn relevance(
    g: &mut Append<'_>,
    step: &Step<'_>,
    choice: &Choice,
) -> Result<Shares, OpError> {
    if choice.named
        && let Sharing::Named(rule) = choice.rule.sharing()
    {
        return rule.relevance(g, step);
    }
    match &step.node.op {
        Op::MatMul if is_product(step.graph, step.node) => matmul::relevance(g, step, choice),
        Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul | Op::Resize(_) => {
            linear::relevance(g, step, choice)
        }
        Op::Pool(pool) => match pool.kind {
            PoolKind::Max => pool::max_adjoint(g, step, pool),
            PoolKind::Average { .. } => linear::relevance(g, step, choice),
        },
        Op::Reduce(reduce) => match reduce.kind {
            ReduceKind::Mean | ReduceKind::Sum => linear::relevance(g, step, choice),
            // Global pools: the first extreme gets everything, as in a maximum pool.
            ReduceKind::Max | ReduceKind::Min => reduce::adjoint(g, step, reduce),
            ReduceKind::Prod => reduce::equal_parts(g, step, reduce),
            ReduceKind::L1
            | ReduceKind::L2
            | ReduceKind::SumSquare
            | ReduceKind::LogSum
            | ReduceKind::LogSumExp => Err(no_rule()),
        },
        Op::Binary(f) => binary::relevance(g, step, *f, choice),
        Op::Where => binary::where_adjoint(g, step),
        // A unit with a single contribution passes all its relevance on.
        Op::Unary(_) | Op::Cast(_) => identity(step),
        Op::BatchNormalization(_)
        | Op::InstanceNormalization(_)
        | Op::LayerNormalization(_)
        | Op::Lrn(_) => identity(step),
        Op::Gather(gather) if !step.varies(0) => structure::lookup_relevance(g, step, gather),
        // What is moved keeps its relevance.
        Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Concat(_)
        | Op::Slice(_)
        | Op::Pad(_)
        | Op::Expand(_)
        | Op::Tile(_)
        | Op::Gather(_)
        | Op::GatherElements(_) => adjoint(g, step),
        Op::Composite(_) => recurrent::relevance(g, step, choice),
        Op::Softmax(_) | Op::ArgMax(_) | Op::TopK(_) | Op::ScatterSum(_) => Err(no_rule()),
    }
}

fn no_rule() -> OpError {
    OpError::unsupported("it has no relevance rule")
}

/// The first input gets what arrived.
pub(crate) fn identity(step: &Step<'_>) -> Result<Shares, OpError> {
    match step.shape(0) == step.output_shape() {
        true => Ok(vec![(0, step.cotangent)]),
        false => Err(OpError::unsupported(
            "the rule `identity` needs an output of the input's shape",
        )),
    }
}

/// The gradients of a node's inputs: of those that depend on the model's input and that the
/// output changes with. What is constant between jumps (Round, a comparison) passes nothing on.
pub(crate) fn adjoint(g: &mut Append<'_>, step: &Step<'_>) -> Result<Shares, OpError> {
    match &step.node.op {
        Op::Conv(_) | Op::ConvTranspose(_) | Op::Resize(_) => linear::adjoint(g, step),
        Op::Gemm(gemm) => matmul::gemm_adjoint(g, step, gemm),
        Op::MatMul => matmul::matmul_adjoint(g, step),
        Op::Pool(pool) => match pool.kind {
            PoolKind::Max => pool::max_adjoint(g, step, pool),
            PoolKind::Average { .. } => linear::adjoint(g, step),
        },
        Op::Reduce(op) => reduce::adjoint(g, step, op),
        Op::Unary(f) => unary::adjoint(g, step, *f),
        Op::Binary(f) => binary::adjoint(g, step, *f),
        Op::Where => binary::where_adjoint(g, step),
        Op::Softmax(op) => softmax::adjoint(g, step, op),
        Op::BatchNormalization(op) => norm::batch_adjoint(g, step, op),
        Op::InstanceNormalization(op) => norm::instance_adjoint(g, step, op),
        Op::LayerNormalization(op) => norm::layer_adjoint(g, step, op),
        Op::Lrn(op) => norm::lrn_adjoint(g, step, op),
        Op::Cast(_) => {
            let is_float = |v: ValueId| step.graph.value(v).ty.dtype == DType::F32;
            match is_float(step.input(0)) && is_float(step.node.output) {
                true => Ok(vec![(0, step.cotangent)]),
                false => Ok(Shares::new()),
            }
        }
        Op::Reshape(_) => structure::reshape_adjoint(g, step),
        Op::Transpose(perm) => structure::transpose_adjoint(g, step, perm),
        Op::Concat(axis) => structure::concat_adjoint(g, step, *axis),
        Op::Slice(op) => structure::slice_adjoint(g, step, op),
        Op::Pad(op) => structure::pad_adjoint(g, step, op),
        Op::Expand(_) => structure::expand_adjoint(g, step),
        Op::Tile(repeats) => structure::tile_adjoint(g, step, repeats),
        Op::Gather(op) => structure::gather_adjoint(g, step, op),
        Op::GatherElements(op) => structure::gather_elements_adjoint(g, step, op),
        Op::Composite(_) => recurrent::adjoint(g, step),
        Op::ArgMax(_) | Op::TopK(_) | Op::ScatterSum(_) => {
            Err(OpError::unsupported("it has no gradient"))
        }
    }
}

/// Whether relevance and gradients pass through an operator at all: truth values and positions
/// have none.
pub(crate) fn is_differentiable(op: &Op) -> bool {
    match op {
        Op::ArgMax(_) | Op::TopK(_) => false,
        Op::Binary(f) => !f.is_predicate(),
        Op::Conv(_)
        | Op::ConvTranspose(_)
        | Op::Gemm(_)
        | Op::MatMul
        | Op::BatchNormalization(_)
        | Op::InstanceNormalization(_)
        | Op::LayerNormalization(_)
        | Op::Lrn(_)
        | Op::Unary(_)
        | Op::Where
        | Op::Cast(_)
        | Op::Pool(_)
        | Op::Reduce(_)
        | Op::Softmax(_)
        | Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Concat(_)
        | Op::Slice(_)
        | Op::Pad(_)
        | Op::Expand(_)
        | Op::Tile(_)
        | Op::Gather(_)
        | Op::GatherElements(_)
        | Op::Resize(_)
        | Op::ScatterSum(_) => true,
        Op::Composite(op) => !is_flood(op),
    }
}
