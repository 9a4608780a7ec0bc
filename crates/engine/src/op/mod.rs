//! Kernels, one file per operator family, named as in `npcov-graph`.

mod arg;
pub(crate) mod conv;
mod conv_transpose;
mod conv_winograd;
mod depthwise;
mod depthwise_transpose;
pub(crate) mod elementwise;
mod fibre;
mod gather;
mod lrn;
pub(crate) mod matmul;
mod max_place;
mod norm;
mod pixel_major;
mod pool;
mod pool_adjoint;
mod reduce;
mod relevance;
mod resize;
mod scatter;
mod softmax;
mod structure;

use npcov_graph::{Graph, Node, Op, OpError};
use npcov_program::{LinearRelevance, MaxPlace, PoolAdjoint};

use crate::kernel::{Context, Inputs, Kernel, Prepared, Tail};
use crate::pack::Pack;
#[cfg(test)]
mod testing;

/// The kernel of a node.
pub(crate) fn prepare(cx: &Context<'_>) -> Result<Prepared, OpError> {
    if cx.output().contains(&0) {
        return Ok(Prepared::new(Nothing, []));
    }
    match &cx.node.op {
        Op::Conv(op) => conv::prepare(op, cx, Tail::NONE),
        Op::ConvTranspose(op) => conv_transpose::prepare(op, cx),
        Op::Gemm(op) => matmul::prepare_gemm(op, cx, Tail::NONE),
        Op::MatMul => matmul::prepare(cx, Tail::NONE),
        Op::BatchNormalization(op) => norm::prepare_batch(op, cx),
        Op::InstanceNormalization(op) => norm::prepare_instance(op, cx),
        Op::LayerNormalization(op) => norm::prepare_layer(op, cx),
        Op::Lrn(op) => lrn::prepare(op, cx),
        Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast(_) => {
            Err(OpError::invalid("element-wise operators are run as chains"))
        }
        Op::Pool(op) => pool::prepare(op, cx),
        Op::Reduce(op) => reduce::prepare(op, cx),
        Op::ArgMax(op) => arg::prepare(op, cx),
        Op::Softmax(op) => softmax::prepare(op, cx),
        Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Slice(_)
        | Op::Pad(_)
        | Op::Expand(_)
        | Op::Tile(_) => structure::prepare_select(cx),
        Op::Concat(axis) => structure::prepare_concat(*axis, cx),
        Op::Gather(op) => gather::prepare(op, cx),
        Op::GatherElements(op) => gather::prepare_elements(op, cx),
        Op::Resize(op) => resize::prepare(op, cx),
        Op::ScatterSum(_) => scatter::prepare(cx),
        Op::Composite(op) => {
            if let Some(op) = op.downcast::<LinearRelevance>() {
                relevance::prepare(op, cx)
            } else if let Some(op) = op.downcast::<PoolAdjoint>() {
                pool_adjoint::prepare(op, cx)
            } else if let Some(op) = op.downcast::<MaxPlace>() {
                max_place::prepare(op, cx)
            } else {
                Err(OpError::unsupported("it has no kernel"))
            }
        }
    }
}

/// Whether a composite operator has a kernel of its own; else it is run as plain ones.
pub(crate) fn has_kernel(graph: &Graph, node: &Node) -> bool {
    let Op::Composite(op) = &node.op else {
        return true;
    };
    match op.downcast::<LinearRelevance>() {
        Some(op) => relevance::has_kernel(op, graph, node),
        None => op.downcast::<PoolAdjoint>().is_some() || op.downcast::<MaxPlace>().is_some(),
    }
}

/// Computes a tensor without elements, whatever the operator: other kernels may take it that an
/// axis has an extent.
struct Nothing;

impl Kernel for Nothing {
    fn run(&self, _: &Inputs<'_>, _: &mut [Pack], _: &mut [Pack]) {}
}
