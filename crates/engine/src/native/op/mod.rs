//! Kernels, one file per operator family, named as in `npcov-graph`.

mod arg;
mod conv;
mod conv_alone;
mod conv_transpose;
mod conv_winograd;
mod depthwise;
mod depthwise_alone;
mod depthwise_transpose;
pub(crate) mod elementwise;
mod fibre;
mod gather;
mod lrn;
mod matmul;
mod max_place;
mod norm;
mod pixel_major;
mod pool;
mod pool_adjoint;
mod recurrent;
mod reduce;
mod relevance;
mod resize;
mod scatter;
mod sight;
mod softmax;
mod structure;

use npcov_graph::op::{
    BatchNormalization, CompositeOp, Conv, Gemm, PoolKind, Recurrence, ReduceKind,
};
use npcov_graph::{Graph, Node, Op, OpError};
use npcov_program::{LinearRelevance, MaxPlace, PoolAdjoint, SumRelevance, ThroughTime};

use self::elementwise::Elementwise;
use self::relevance::SumShare;
use crate::native::kernel::{Context, Inputs, Kernel, NodeKernel, Tail};
use crate::native::lines::Lines;
use crate::native::pack::Pack;
use crate::native::tile::Finish;
#[cfg(test)]
pub(crate) mod testing;

/// How a node is planned.
pub(crate) enum Role<'a> {
    /// Not at all: its output is its input under another shape, and stands in the same place.
    Alias,
    /// In a chain with its neighbours.
    Elementwise(Elementwise),
    /// With what happens to its sums before they are stored, if [`Product::takes_tail`].
    Product(Product<'a>),
    /// As lines, if its parameters are constants.
    Lines(&'a BatchNormalization),
    /// By itself.
    Alone,
}

/// The role of an operator.
pub(crate) fn role(op: &Op) -> Role<'_> {
    match op {
        Op::Reshape(_) => Role::Alias,
        Op::Unary(f) => Role::Elementwise(Elementwise::Unary(*f)),
        Op::Binary(f) => Role::Elementwise(Elementwise::Binary(*f)),
        Op::Where => Role::Elementwise(Elementwise::Where),
        Op::Cast(to) => Role::Elementwise(Elementwise::Cast(*to)),
        Op::Composite(op) => match op.downcast().and_then(SumShare::new) {
            Some(share) => Role::Elementwise(Elementwise::Share(share)),
            None => Role::Alone,
        },
        Op::Conv(op) => Role::Product(Product::Conv(op)),
        Op::Gemm(op) => Role::Product(Product::Gemm(op)),
        Op::MatMul => Role::Product(Product::MatMul),
        Op::BatchNormalization(op) => Role::Lines(op),
        Op::ConvTranspose(_)
        | Op::InstanceNormalization(_)
        | Op::LayerNormalization(_)
        | Op::Lrn(_)
        | Op::Pool(_)
        | Op::Reduce(_)
        | Op::ArgMax(_)
        | Op::TopK(_)
        | Op::Softmax(_)
        | Op::Transpose(_)
        | Op::Concat(_)
        | Op::Slice(_)
        | Op::Pad(_)
        | Op::Expand(_)
        | Op::Tile(_)
        | Op::Gather(_)
        | Op::GatherElements(_)
        | Op::Resize(_)
        | Op::ScatterSum(_) => Role::Alone,
    }
}

/// A weighted sum for each element of the output.
pub(crate) enum Product<'a> {
    Conv(&'a Conv),
    Gemm(&'a Gemm),
    MatMul,
}

impl Product<'_> {
    /// Whether its kernel can do other nodes' work before it stores its sums.
    pub(crate) fn takes_tail(&self, cx: &Context<'_>) -> bool {
        !cx.output().contains(&0)
            && match self {
                Product::Conv(_) => cx.constant(0).is_none(),
                Product::Gemm(op) => matmul::gemm_is_dense(op, cx),
                Product::MatMul => matmul::is_dense(cx),
            }
    }

    /// Whether its kernel can do the work of a normalisation before it, when it reads its input.
    pub(crate) fn takes_lines(&self, cx: &Context<'_>) -> bool {
        match self {
            Product::Conv(op) => conv::takes_lines(op, cx),
            Product::Gemm(_) | Product::MatMul => false,
        }
    }

    /// Its kernel; the normalisation before it, if it takes its work, and what happens to its sums.
    pub(crate) fn prepare(
        &self,
        cx: &Context<'_>,
        lines: Option<Lines>,
        tail: Tail,
    ) -> Result<NodeKernel, OpError> {
        match self {
            Product::Conv(op) => conv::prepare(op, cx, lines, tail),
            Product::Gemm(op) => matmul::prepare_gemm(op, cx, tail),
            Product::MatMul => matmul::prepare(cx, tail),
        }
    }
}

/// The lines of a batch normalisation, and what happens to their results.
pub(crate) fn lines(cx: &Context<'_>, finish: Finish) -> Result<Lines, OpError> {
    let lines = match role(&cx.node.op) {
        Role::Lines(op) => Lines::new(op, cx, finish),
        Role::Alias | Role::Elementwise(_) | Role::Product(_) | Role::Alone => None,
    };
    lines.ok_or_else(|| OpError::invalid("it is no batch normalisation by constants"))
}

/// Its kernel.
pub(crate) fn prepare_lines(cx: &Context<'_>, finish: Finish) -> Result<NodeKernel, OpError> {
    match cx.output().contains(&0) {
        true => prepare(cx),
        false => Ok(norm::prepare_lines(cx, lines(cx, finish)?)),
    }
}

/// The kernel of a node.
pub(crate) fn prepare(cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    if cx.output().contains(&0) {
        return Ok(NodeKernel::new(Nothing, []));
    }
    match &cx.node.op {
        Op::Conv(op) => conv::prepare(op, cx, None, Tail::NONE),
        Op::ConvTranspose(op) => conv_transpose::prepare(op, cx),
        Op::Gemm(op) => matmul::prepare_gemm(op, cx, Tail::NONE),
        Op::MatMul => matmul::prepare(cx, Tail::NONE),
        Op::BatchNormalization(op) => Ok(norm::prepare_batch(op, cx)),
        Op::InstanceNormalization(op) => norm::prepare_instance(op, cx),
        Op::LayerNormalization(op) => norm::prepare_layer(op, cx),
        Op::Lrn(op) => lrn::prepare(op, cx),
        Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast(_) => {
            Err(OpError::invalid("element-wise operators are run as chains"))
        }
        Op::Pool(op) => pool::prepare(op, cx),
        Op::Reduce(op) => reduce::prepare(op, cx),
        Op::ArgMax(op) => arg::prepare(op, cx),
        Op::TopK(op) => arg::prepare_top(op, cx),
        Op::Softmax(op) => softmax::prepare(op, cx),
        Op::Reshape(_) | Op::Transpose(_) | Op::Slice(_) | Op::Expand(_) | Op::Tile(_) => {
            structure::prepare_select(cx)
        }
        Op::Pad(op) => structure::prepare_pad(op, cx),
        Op::Concat(axis) => structure::prepare_concat(*axis, cx),
        Op::Gather(op) => gather::prepare(op, cx),
        Op::GatherElements(op) => gather::prepare_elements(op, cx),
        Op::Resize(op) => resize::prepare(op, cx),
        Op::ScatterSum(_) => scatter::prepare(cx),
        Op::Composite(op) => match Known::find(op) {
            Some(Known::LinearRelevance(op)) => relevance::prepare(op, cx),
            Some(Known::PoolAdjoint(op)) => pool_adjoint::prepare(op, cx),
            Some(Known::MaxPlace(op)) => max_place::prepare(op, cx),
            Some(Known::Recurrence(op)) => recurrent::prepare(op, cx),
            Some(Known::ThroughTime(op)) => recurrent::prepare_time(op, cx),
            Some(Known::SumRelevance(_)) => {
                Err(OpError::invalid("element-wise operators are run as chains"))
            }
            None => Err(OpError::unsupported("it has no kernel")),
        },
    }
}

/// The composite operators that have kernels.
enum Known<'a> {
    LinearRelevance(&'a LinearRelevance),
    PoolAdjoint(&'a PoolAdjoint),
    MaxPlace(&'a MaxPlace),
    Recurrence(&'a Recurrence),
    ThroughTime(&'a ThroughTime),
    SumRelevance(&'a SumRelevance),
}

impl Known<'_> {
    fn find(op: &CompositeOp) -> Option<Known<'_>> {
        let linear = op.downcast().map(Known::LinearRelevance);
        linear
            .or_else(|| op.downcast().map(Known::PoolAdjoint))
            .or_else(|| op.downcast().map(Known::MaxPlace))
            .or_else(|| op.downcast().map(Known::Recurrence))
            .or_else(|| op.downcast().map(Known::ThroughTime))
            .or_else(|| op.downcast().map(Known::SumRelevance))
    }
}

/// Whether a composite operator has a kernel of its own; else it is run as plain ones.
pub(crate) fn has_kernel(graph: &Graph, node: &Node) -> bool {
    let Op::Composite(op) = &node.op else {
        return true;
    };
    match Known::find(op) {
        Some(Known::LinearRelevance(op)) => relevance::has_kernel(op, graph, node),
        Some(Known::PoolAdjoint(_) | Known::MaxPlace(_)) => true,
        Some(Known::Recurrence(op)) => recurrent::has_kernel(op, graph, node),
        Some(Known::ThroughTime(_)) => recurrent::has_time_kernel(graph, node),
        Some(Known::SumRelevance(op)) => SumShare::new(op).is_some(),
        None => false,
    }
}

/// For each node, whether a maximum over windows or axes is taken of what comes of its output.
pub(crate) fn max_follows(graph: &Graph) -> Vec<bool> {
    let consumers = graph.consumers();
    let mut follows = vec![false; graph.nodes().len()];
    for (position, node) in graph.nodes().iter().enumerate().rev() {
        let next = &consumers[node.output.index()];
        follows[position] = next
            .iter()
            .any(|&next| follows[next] || is_max(&graph.nodes()[next].op));
    }
    follows
}

fn is_max(op: &Op) -> bool {
    match op {
        Op::Pool(pool) => pool.kind == PoolKind::Max,
        Op::Reduce(reduce) => reduce.kind == ReduceKind::Max,
        Op::Composite(op) => matches!(Known::find(op), Some(Known::MaxPlace(_))),
        Op::Conv(_)
        | Op::ConvTranspose(_)
        | Op::Gemm(_)
        | Op::MatMul
        | Op::BatchNormalization(_)
        | Op::InstanceNormalization(_)
        | Op::LayerNormalization(_)
        | Op::Lrn(_)
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::Where
        | Op::Cast(_)
        | Op::ArgMax(_)
        | Op::TopK(_)
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
        | Op::ScatterSum(_) => false,
    }
}

/// Computes a tensor without elements, whatever the operator: other kernels may take it that an
/// axis has an extent.
struct Nothing;

impl Kernel for Nothing {
    fn run(&self, _: &Inputs<'_>, _: &mut [Pack], _: &mut [Pack]) {}
}
