//! Operators whose output is a weighted sum of their input.

use npcov_graph::op::{
    Conv, ConvTranspose, Gemm, Interpolation, Pool, PoolKind, Reduce, ReduceKind, Resize, Window,
};
use npcov_graph::{Graph, Node, Op, OpError, TensorType, ValueId};

use crate::append::Append;
use crate::op::matmul::transposed;
use crate::op::pool::PoolAdjoint;
use crate::op::resize::{self, Direction};

/// An operator that is linear in one of its inputs, without its bias.
#[derive(Clone, Debug, PartialEq)]
pub enum Linear {
    /// Convolution with a constant weight.
    Conv(Conv),
    /// Transposed convolution with a constant weight.
    ConvTranspose(ConvTranspose),
    /// Product with a constant matrix on the right.
    Gemm(Gemm),
    /// Product with a matrix on the right, with one for each matrix of the input, or with a vector.
    MatMul,
    /// Product with a matrix on the left, with one for each matrix of the input, or with a vector.
    MatMulLeft,
    /// Average pool.
    Pool(Pool),
    /// Sum or mean over axes.
    Reduce(Reduce),
    /// Interpolation.
    Resize(Resize),
}

/// Which part of the weights a product takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WeightPart {
    /// All of them.
    All,
    /// The positive ones.
    Positive,
    /// The negative ones.
    Negative,
    /// A one in place of every weight.
    Ones,
}

/// A linear operator found in a graph, and its inputs.
pub(crate) struct LinearNode {
    pub(crate) linear: Linear,
    /// Position of the input that it is linear in.
    pub(crate) position: usize,
    pub(crate) weight: Option<ValueId>,
    /// A bias inside of the operator: `factor * value`.
    pub(crate) bias: Option<(f32, ValueId)>,
}

impl LinearNode {
    /// The node as a linear operator of its only varying input.
    pub(crate) fn of(graph: &Graph, node: &Node) -> Option<LinearNode> {
        let constant = |i: usize| {
            node.inputs
                .get(i)
                .is_some_and(|&v| graph.constant(v).is_some())
        };
        let rank = |i: usize| graph.shape(node.inputs[i]).len();
        let weighted = |linear| {
            let bias = node.inputs.get(2).map(|&b| (1.0, b));
            let fits = constant(1) && !constant(0) && (bias.is_none() || constant(2));
            fits.then(|| LinearNode {
                linear,
                position: 0,
                weight: Some(node.inputs[1]),
                bias,
            })
        };
        let plain = |linear| {
            Some(LinearNode {
                linear,
                position: 0,
                weight: None,
                bias: None,
            })
        };
        match &node.op {
            Op::Conv(op) => weighted(Linear::Conv(op.clone())),
            Op::ConvTranspose(op) => weighted(Linear::ConvTranspose(op.clone())),
            Op::Gemm(op) => {
                let mut found = weighted(Linear::Gemm(op.clone()))?;
                found.bias = found.bias.map(|(_, b)| (op.beta, b));
                Some(found)
            }
            Op::MatMul if constant(1) => match rank(0) >= 2 || rank(1) == 2 {
                true => weighted(Linear::MatMul),
                false => None,
            },
            Op::MatMul => {
                let fits = constant(0) && rank(0) >= 1 && rank(1) >= 2;
                fits.then(|| LinearNode {
                    linear: Linear::MatMulLeft,
                    position: 1,
                    weight: Some(node.inputs[0]),
                    bias: None,
                })
            }
            Op::Pool(op) => match op.kind {
                PoolKind::Average { .. } => plain(Linear::Pool(op.clone())),
                PoolKind::Max => None,
            },
            Op::Reduce(op) => match op.kind {
                ReduceKind::Mean | ReduceKind::Sum => plain(Linear::Reduce(op.clone())),
                ReduceKind::Prod
                | ReduceKind::Max
                | ReduceKind::Min
                | ReduceKind::L1
                | ReduceKind::L2
                | ReduceKind::SumSquare
                | ReduceKind::LogSum
                | ReduceKind::LogSumExp => None,
            },
            Op::Resize(op) => plain(Linear::Resize(op.clone())),
            Op::BatchNormalization(_)
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
            | Op::ScatterSum(_)
            | Op::Composite(_) => None,
        }
    }
}

impl Linear {
    /// The type of the output for an input of a type.
    pub(crate) fn infer(
        &self,
        x: &TensorType,
        weight: Option<&TensorType>,
    ) -> Result<TensorType, OpError> {
        let missing = || OpError::invalid("a weight is missing");
        let w = || weight.ok_or_else(missing);
        match self {
            Linear::Conv(op) => op.infer(&[x, w()?]),
            Linear::ConvTranspose(op) => op.infer(&[x, w()?]),
            Linear::Gemm(op) => op.infer(&[x, w()?]),
            Linear::MatMul => Op::MatMul.infer(&[x, w()?]),
            Linear::MatMulLeft => Op::MatMul.infer(&[w()?, x]),
            Linear::Pool(op) => op.infer(&[x]),
            Linear::Reduce(op) => op.infer(&[x]),
            Linear::Resize(op) => op.infer(&[x]),
        }
    }

    /// Whether there can be negative weights.
    pub(crate) fn has_negative_weights(&self) -> bool {
        match self {
            Linear::Conv(_)
            | Linear::ConvTranspose(_)
            | Linear::Gemm(_)
            | Linear::MatMul
            | Linear::MatMulLeft => true,
            Linear::Pool(_) | Linear::Reduce(_) => false,
            Linear::Resize(op) => match op.interpolation {
                Interpolation::Cubic { .. } => true,
                Interpolation::Nearest(_) | Interpolation::Linear => false,
            },
        }
    }

    /// The weighted sums of `x` with a part of the weights; `None` when that part is empty.
    pub(crate) fn forward(
        &self,
        g: &mut Append<'_>,
        part: WeightPart,
        x: ValueId,
        weight: Option<ValueId>,
    ) -> Result<Option<ValueId>, OpError> {
        if part == WeightPart::Negative && !self.has_negative_weights() {
            return Ok(None);
        }
        let w = match weight {
            Some(w) => Some(self.part_of(g, part, w)?),
            None => None,
        };
        let weight = || w.ok_or_else(|| OpError::invalid("a weight is missing"));
        let y = match self {
            Linear::Conv(op) => g.op(Op::Conv(op.clone()), &[x, weight()?])?,
            Linear::ConvTranspose(op) => g.op(Op::ConvTranspose(op.clone()), &[x, weight()?])?,
            Linear::Gemm(op) => {
                let op = Gemm {
                    alpha: 1.0,
                    ..op.clone()
                };
                g.op(Op::Gemm(op), &[x, weight()?])?
            }
            Linear::MatMul => g.op(Op::MatMul, &[x, weight()?])?,
            Linear::MatMulLeft => g.op(Op::MatMul, &[weight()?, x])?,
            Linear::Pool(op) => g.op(Op::Pool(op.clone()), &[x])?,
            Linear::Reduce(op) => g.op(Op::Reduce(op.clone()), &[x])?,
            Linear::Resize(op) => {
                let all = part == WeightPart::Positive && !self.has_negative_weights();
                match all || part == WeightPart::All {
                    true => g.op(Op::Resize(op.clone()), &[x])?,
                    false => {
                        let shape = g.shape(x);
                        resize::product(g, op, Direction::Forward, part, x, &shape)?
                    }
                }
            }
        };
        Ok(Some(y))
    }

    /// The transposed operator: what arrives at the outputs, weighted and summed for each input.
    /// `shape` is the input's. All that is appended is plain: composite operators lower to it.
    pub(crate) fn adjoint(
        &self,
        g: &mut Append<'_>,
        part: WeightPart,
        s: ValueId,
        weight: Option<ValueId>,
        shape: &[usize],
    ) -> Result<ValueId, OpError> {
        let w = match weight {
            Some(w) => Some(self.part_of(g, part, w)?),
            None => None,
        };
        let weight = || w.ok_or_else(|| OpError::invalid("a weight is missing"));
        match self {
            Linear::Conv(op) => {
                let transposed = ConvTranspose {
                    window: op.window.clone(),
                    groups: op.groups,
                    output: shape[2..].to_vec(),
                };
                g.op(Op::ConvTranspose(transposed), &[s, weight()?])
            }
            Linear::ConvTranspose(op) => {
                // The convolution has as many windows as the input positions; what lies beyond
                // the last one is cut off.
                let conv = Conv {
                    window: reaching(&op.window, &op.output, &shape[2..]),
                    groups: op.groups,
                };
                g.op(Op::Conv(conv), &[s, weight()?])
            }
            Linear::Gemm(op) => {
                let transposed = Gemm {
                    alpha: 1.0,
                    beta: 1.0,
                    trans_a: false,
                    trans_b: !op.trans_b,
                };
                let r = g.op(Op::Gemm(transposed), &[s, weight()?])?;
                match op.trans_a {
                    true => g.transpose(r, &[1, 0]),
                    false => Ok(r),
                }
            }
            Linear::MatMul => {
                let (mut w, mut s) = (weight()?, s);
                // A vector is a column, of which the product has no axis.
                if let &[inner] = &g.shape(w)[..] {
                    (w, s) = (g.reshape(w, &[inner, 1])?, with_axis(g, s, 0)?);
                }
                let w = transposed(g, w)?;
                let r = g.op(Op::MatMul, &[s, w])?;
                g.unbroadcast(r, shape)
            }
            Linear::MatMulLeft => {
                let (mut w, mut s) = (weight()?, s);
                // A vector is a row, likewise.
                if let &[inner] = &g.shape(w)[..] {
                    (w, s) = (g.reshape(w, &[1, inner])?, with_axis(g, s, 1)?);
                }
                let w = transposed(g, w)?;
                let r = g.op(Op::MatMul, &[w, s])?;
                g.unbroadcast(r, shape)
            }
            Linear::Pool(op) => {
                let spread = PoolAdjoint {
                    pool: op.clone(),
                    input: shape.to_vec(),
                };
                g.lowered(&spread, &[s])
            }
            Linear::Reduce(op) => {
                let mut kept = shape.to_vec();
                for &a in &op.axes {
                    kept[a] = 1;
                }
                let s = g.reshape(s, &kept)?;
                let count: usize = op.axes.iter().map(|&a| shape[a]).product();
                // A sum has weights of 1.
                let s = match op.kind == ReduceKind::Mean {
                    true => g.times(s, 1.0 / count.max(1) as f32)?,
                    false => s,
                };
                g.expand(s, shape)
            }
            Linear::Resize(op) => resize::product(g, op, Direction::Adjoint, part, s, shape),
        }
    }

    /// A part of a constant weight; the factor of a Gemm is part of its weight.
    fn part_of(
        &self,
        g: &mut Append<'_>,
        part: WeightPart,
        weight: ValueId,
    ) -> Result<ValueId, OpError> {
        let weight = match self {
            Linear::Gemm(op) => g.times(weight, op.alpha)?,
            Linear::Conv(_)
            | Linear::ConvTranspose(_)
            | Linear::MatMul
            | Linear::MatMulLeft
            | Linear::Pool(_)
            | Linear::Reduce(_)
            | Linear::Resize(_) => weight,
        };
        match part {
            WeightPart::All => Ok(weight),
            WeightPart::Positive => g.positive(weight),
            WeightPart::Negative => g.negative(weight),
            WeightPart::Ones => {
                let shape = g.shape(weight);
                g.filled(&shape, 1.0)
            }
        }
    }

    /// A bias in a shape that broadcasts to the output.
    pub(crate) fn bias(
        &self,
        g: &mut Append<'_>,
        bias: ValueId,
        output_rank: usize,
    ) -> Result<ValueId, OpError> {
        match self {
            Linear::Conv(_) | Linear::ConvTranspose(_) => match *g.graph.shape(bias) {
                [channels] => {
                    let mut shape = vec![1; output_rank];
                    shape[1] = channels;
                    g.reshape(bias, &shape)
                }
                _ => Ok(bias),
            },
            Linear::Gemm(_)
            | Linear::MatMul
            | Linear::MatMulLeft
            | Linear::Pool(_)
            | Linear::Reduce(_)
            | Linear::Resize(_) => Ok(bias),
        }
    }
}

/// A tensor with one more axis, of one element, so many axes before its end.
fn with_axis(g: &mut Append<'_>, x: ValueId, from_end: usize) -> Result<ValueId, OpError> {
    let mut shape = g.shape(x);
    shape.insert(shape.len().saturating_sub(from_end), 1);
    g.reshape(x, &shape)
}

/// A window with end pads such that there are `output` windows on an input of the given extents.
pub(crate) fn reaching(window: &Window, input: &[usize], output: &[usize]) -> Window {
    let mut window = window.clone();
    for a in 0..input.len() {
        let extent = window.extent(a).unwrap_or(0);
        let reach = output[a].saturating_sub(1) * window.strides[a] + extent;
        window.pads_end[a] = reach.saturating_sub(input[a] + window.pads_begin[a]);
    }
    window
}
