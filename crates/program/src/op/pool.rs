//! Pools: the maximum gets everything, averages are spread.

use npcov_graph::op::{
    ArgMax, Binary, Composite, CompositeOp, Conv, ConvTranspose, Pad, PadMode, Pool, PoolKind,
    Window,
};
use npcov_graph::{DType, Data, Graph, Op, OpError, Tensor, TensorType, ValueId};

use super::{Shares, Step};
use crate::append::Append;
use crate::linear::reaching;

/// The adjoint of a pool.
///
/// Of a maximum pool: inputs `x` (the pool's input) and `r` (what arrived at its output); the
/// first maximum of each window, in row-major order, gets what arrived there. Of an average pool:
/// input `r`; what arrived at a window is spread evenly over it. Where windows overlap, shares add
/// up.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolAdjoint {
    /// The pool.
    pub pool: Pool,
    /// Shape of its input.
    pub input: Vec<usize>,
}

impl PoolAdjoint {
    /// For each window of an average pool, in row-major order, what its sum is divided by.
    pub fn divisors(&self, output: &[usize]) -> Vec<f32> {
        let window = &self.pool.window;
        let PoolKind::Average { count_include_pad } = self.pool.kind else {
            return Vec::new();
        };
        let mut divisors = vec![1.0];
        for (axis, (&input, &windows)) in self.input[2..].iter().zip(output).enumerate() {
            let count = |o: usize| {
                if !count_include_pad {
                    return window.tap_range(axis, o, input).len();
                }
                // Pads count, positions beyond them (from rounding up) do not.
                let padded = input + window.pads_begin[axis] + window.pads_end[axis];
                let start = o * window.strides[axis];
                (0..window.kernel[axis])
                    .filter(|k| start + k * window.dilations[axis] < padded)
                    .count()
            };
            divisors = divisors
                .iter()
                .flat_map(|d| (0..windows).map(move |o| d * count(o) as f32))
                .collect();
        }
        divisors
    }
}

impl Composite for PoolAdjoint {
    fn name(&self) -> &'static str {
        match self.pool.kind {
            PoolKind::Max => "MaxPoolAdjoint",
            PoolKind::Average { .. } => "AveragePoolAdjoint",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let x = TensorType::new(DType::F32, self.input.clone());
        let y = self.pool.infer(&[&x])?;
        let fits = match (self.pool.kind, inputs) {
            (PoolKind::Max, [given, r]) => **given == x && **r == y,
            (PoolKind::Average { .. }, [r]) => **r == y,
            _ => false,
        };
        match fits {
            true => Ok(x),
            false => Err(OpError::invalid("its inputs do not fit the pool")),
        }
    }

    fn lower(&self, graph: &mut Graph, name: &str, inputs: &[ValueId]) -> Result<ValueId, OpError> {
        let mut g = Append::new(graph, name);
        match (self.pool.kind, inputs) {
            (PoolKind::Max, &[x, r]) => self.lower_max(&mut g, x, r),
            (PoolKind::Average { .. }, &[r]) => self.lower_average(&mut g, r),
            _ => Err(OpError::invalid("its inputs do not fit the pool")),
        }
    }
}

impl PoolAdjoint {
    /// A convolution with one output channel for each tap lays the elements of a window side by
    /// side; the adjoint convolution puts them back.
    fn lower_max(&self, g: &mut Append<'_>, x: ValueId, r: ValueId) -> Result<ValueId, OpError> {
        let planes = self.input[0] * self.input[1];
        let spatial = &self.input[2..];
        let output = g.shape(r)[2..].to_vec();
        let with = |lead: [usize; 2], rest: &[usize]| [&lead[..], rest].concat();
        // Padded positions must never be the maximum: they are real positions of a low number.
        let window = reaching(&self.pool.window, spatial, &output);
        let padded: Vec<usize> = (0..spatial.len())
            .map(|a| spatial[a] + window.pads_begin[a] + window.pads_end[a])
            .collect();
        let x = g.reshape(x, &with([planes, 1], spatial))?;
        let pad = Pad {
            begins: with([0, 0], &window.pads_begin),
            ends: with([0, 0], &window.pads_end),
            mode: PadMode::Constant(f32::MIN),
        };
        let x = match padded == spatial {
            true => x,
            false => g.op(Op::Pad(pad.clone()), &[x])?,
        };
        let taps: usize = window.kernel.iter().product();
        let one_hot: Vec<f32> = (0..taps * taps)
            .map(|i| f32::from(u8::from(i / taps == i % taps)))
            .collect();
        let shape = with([taps, 1], &window.kernel);
        let one_hot = Tensor::new(shape, Data::F32(one_hot))
            .ok_or_else(|| OpError::invalid("a window without taps"))?;
        let one_hot = g.constant(one_hot);
        let unpadded = Window {
            pads_begin: vec![0; spatial.len()],
            pads_end: vec![0; spatial.len()],
            ..window.clone()
        };
        let conv = Conv {
            window: unpadded.clone(),
            groups: 1,
        };
        let patches = g.op(Op::Conv(conv), &[x, one_hot])?;
        let first = ArgMax {
            axis: 1,
            keep_dims: true,
            select_last: false,
            minimum: false,
        };
        let first = g.op(Op::ArgMax(first), &[patches])?;
        let mut shape = vec![1; 2 + spatial.len()];
        shape[1] = taps;
        let numbers = Tensor::ints((0..taps as i64).collect()).reshaped(shape);
        let numbers = numbers.ok_or_else(|| OpError::invalid("a window without taps"))?;
        let numbers = g.constant(numbers);
        let is_first = g.binary(Binary::Equal, first, numbers)?;
        let r = g.reshape(r, &with([planes, 1], &output))?;
        let shares = g.keep(is_first, r)?;
        let back = ConvTranspose {
            window: unpadded,
            groups: 1,
            output: padded.clone(),
        };
        let back = g.op(Op::ConvTranspose(back), &[shares, one_hot])?;
        let back = match padded == spatial {
            true => back,
            false => super::structure::without_pads(g, back, &pad)?,
        };
        g.reshape(back, &self.input)
    }

    fn lower_average(&self, g: &mut Append<'_>, r: ValueId) -> Result<ValueId, OpError> {
        let shape = g.shape(r);
        let mut divisors_shape = shape.clone();
        divisors_shape[..2].fill(1);
        let divisors = Tensor::new(divisors_shape, Data::F32(self.divisors(&shape[2..])))
            .ok_or_else(|| OpError::invalid("a pool over an unknown number of windows"))?;
        let divisors = g.constant(divisors);
        let shares = g.div(r, divisors)?;
        let planes = self.input[0] * self.input[1];
        let shares = g.reshape(shares, &[&[planes, 1], &shape[2..]].concat())?;
        let ones = g.filled(&[&[1, 1], &self.pool.window.kernel[..]].concat(), 1.0)?;
        let back = ConvTranspose {
            window: reaching(&self.pool.window, &self.input[2..], &shape[2..]),
            groups: 1,
            output: self.input[2..].to_vec(),
        };
        let back = g.op(Op::ConvTranspose(back), &[shares, ones])?;
        g.reshape(back, &self.input)
    }
}

/// The first maximum of each window gets what arrived.
pub(super) fn max_adjoint(
    g: &mut Append<'_>,
    step: &Step<'_>,
    pool: &Pool,
) -> Result<Shares, OpError> {
    let adjoint = PoolAdjoint {
        pool: pool.clone(),
        input: step.shape(0).to_vec(),
    };
    let op = Op::Composite(CompositeOp::new(adjoint));
    Ok(vec![(0, g.op(op, &[step.input(0), step.cotangent])?)])
}
