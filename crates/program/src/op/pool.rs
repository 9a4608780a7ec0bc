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
/// Of a maximum pool: inputs `places` (as [`MaxPlace`] gives them) and `r` (what arrived at the
/// pool's output); the maximum of each window gets what arrived there. Of an average pool: input
/// `r`; what arrived at a window is spread evenly over it. Where windows overlap, shares add up.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolAdjoint {
    /// The pool.
    pub pool: Pool,
    /// Shape of its input.
    pub input: Vec<usize>,
}

impl PoolAdjoint {
    /// For each window of an average pool, in row-major order, what its sum is divided by.
    fn divisors(&self, output: &[usize]) -> Vec<f32> {
        let window = &self.pool.window;
        let count_include_pad = match self.pool.kind {
            PoolKind::Average { count_include_pad } => count_include_pad,
            PoolKind::Max => return Vec::new(),
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
        let fits = match self.pool.kind {
            PoolKind::Max => {
                matches!(inputs, [places, r] if places.shape == y.shape && **r == y)
            }
            PoolKind::Average { .. } => matches!(inputs, [r] if **r == y),
        };
        match fits {
            true => Ok(x),
            false => Err(misfit()),
        }
    }

    fn lower(&self, graph: &mut Graph, name: &str, inputs: &[ValueId]) -> Result<ValueId, OpError> {
        let mut g = Append::new(graph, name);
        g.infer(self, inputs)?;
        match self.pool.kind {
            PoolKind::Max => {
                let &[places, r] = inputs else {
                    return Err(misfit());
                };
                self.lower_max(&mut g, places, r)
            }
            PoolKind::Average { .. } => {
                let &[r] = inputs else {
                    return Err(misfit());
                };
                self.lower_average(&mut g, r)
            }
        }
    }
}

fn misfit() -> OpError {
    OpError::invalid("its inputs do not fit the pool")
}

/// The windows of a maximum pool on real positions only, one element a tap.
struct Taps {
    /// What is put around the input, so that no window leaves it.
    pad: Pad,
    /// Extents with it.
    padded: Vec<usize>,
    /// The window, without pads.
    window: Window,
    /// Weights of a convolution that lays the elements of a window side by side.
    one_hot: Tensor,
}

impl Taps {
    fn new(
        g: &mut Append<'_>,
        pool: &Pool,
        input: &[usize],
        output: &[usize],
    ) -> Result<Taps, OpError> {
        let with = |lead: [usize; 2], rest: &[usize]| [&lead[..], rest].concat();
        let window = reaching(&pool.window, input, output);
        let padded = (0..input.len())
            .map(|a| input[a] + window.pads_begin[a] + window.pads_end[a])
            .collect();
        let taps = window
            .kernel
            .iter()
            .try_fold(1, |n, &k| usize::checked_mul(n, k));
        let taps = taps.ok_or_else(|| OpError::invalid("a window of too many taps"))?;
        let shape = with([taps, 1], &window.kernel);
        let mut one_hot = g.repeated(0.0, &shape)?;
        for (tap, row) in one_hot.chunks_mut(taps.max(1)).enumerate() {
            row[tap] = 1.0;
        }
        Ok(Taps {
            // Padded positions must never be the maximum.
            pad: Pad {
                begins: with([0, 0], &window.pads_begin),
                ends: with([0, 0], &window.pads_end),
                mode: PadMode::Constant(f32::MIN),
            },
            padded,
            one_hot: Tensor::new(shape, Data::F32(one_hot))
                .ok_or_else(|| OpError::invalid("a window without taps"))?,
            window: Window {
                pads_begin: vec![0; input.len()],
                pads_end: vec![0; input.len()],
                ..window
            },
        })
    }
}

/// Where the maximum of each window of a maximum pool is: the number of the first tap that sees it,
/// in row-major order. Input: the pool's, `x`.
///
/// The places are smaller than `x`, which need not wait in memory for the way back.
#[derive(Clone, Debug, PartialEq)]
pub struct MaxPlace {
    /// The pool.
    pub pool: Pool,
}

impl Composite for MaxPlace {
    fn name(&self) -> &'static str {
        "MaxPlace"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let y = self.pool.infer(inputs)?;
        Ok(TensorType::new(DType::I64, y.shape))
    }

    fn lower(&self, graph: &mut Graph, name: &str, inputs: &[ValueId]) -> Result<ValueId, OpError> {
        let &[x] = inputs else {
            return Err(OpError::invalid("it takes one input"));
        };
        let mut g = Append::new(graph, name);
        let shape = g.shape(x);
        let output = g.infer(self, inputs)?.shape;
        let (planes, spatial) = (shape[0] * shape[1], &shape[2..]);
        let taps = Taps::new(&mut g, &self.pool, spatial, &output[2..])?;
        let x = g.reshape(x, &[&[planes, 1], spatial].concat())?;
        let x = match taps.padded == spatial {
            true => x,
            false => g.op(Op::Pad(taps.pad), &[x])?,
        };
        let one_hot = g.constant(taps.one_hot);
        let conv = Conv {
            window: taps.window,
            groups: 1,
        };
        let elements = g.op(Op::Conv(conv), &[x, one_hot])?;
        let first = ArgMax {
            axis: 1,
            keep_dims: true,
            select_last: false,
            minimum: false,
        };
        let places = g.op(Op::ArgMax(first), &[elements])?;
        g.reshape(places, &output)
    }
}

impl PoolAdjoint {
    /// What arrived, at one of as many channels as there are taps; the adjoint of the convolution
    /// that lays them side by side puts it back.
    fn lower_max(
        &self,
        g: &mut Append<'_>,
        places: ValueId,
        r: ValueId,
    ) -> Result<ValueId, OpError> {
        let planes = self.input[0] * self.input[1];
        let spatial = &self.input[2..];
        let output = g.shape(r)[2..].to_vec();
        let taps = Taps::new(g, &self.pool, spatial, &output)?;
        let count = taps.one_hot.shape()[0];
        let mut shape = vec![1; 2 + spatial.len()];
        shape[1] = count;
        let numbers = Tensor::ints((0..count as i64).collect()).reshaped(shape);
        let numbers = numbers.ok_or_else(|| OpError::invalid("a window without taps"))?;
        let numbers = g.constant(numbers);
        let single = [&[planes, 1], &output[..]].concat();
        let places = g.reshape(places, &single)?;
        let is_place = g.binary(Binary::Equal, places, numbers)?;
        let r = g.reshape(r, &single)?;
        let shares = g.keep(is_place, r)?;
        let one_hot = g.constant(taps.one_hot);
        let back = ConvTranspose {
            window: taps.window,
            groups: 1,
            output: taps.padded.clone(),
        };
        let back = g.op(Op::ConvTranspose(back), &[shares, one_hot])?;
        let back = match taps.padded == spatial {
            true => back,
            false => super::structure::without_pads(g, back, &taps.pad)?,
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
    let places = MaxPlace { pool: pool.clone() };
    let places = g.op(Op::Composite(CompositeOp::new(places)), &[step.input(0)])?;
    let op = Op::Composite(CompositeOp::new(adjoint));
    Ok(vec![(0, g.op(op, &[places, step.cotangent])?)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A graph with values of some shapes.
    fn graph(shapes: &[&[usize]]) -> (Graph, Vec<ValueId>) {
        let mut graph = Graph::new();
        let values = shapes
            .iter()
            .map(|&shape| graph.add_input("x", TensorType::new(DType::F32, shape)))
            .collect();
        (graph, values)
    }

    #[test]
    fn what_does_not_fit_a_pool_is_not_lowered() {
        let adjoint = |kind, input: &[usize]| PoolAdjoint {
            pool: Pool {
                kind,
                window: Window::sized([2]),
                ceil_mode: false,
            },
            input: input.to_vec(),
        };
        let average = PoolKind::Average {
            count_include_pad: false,
        };
        let (mut graph, v) = graph(&[&[], &[1, 1, 3], &[1, 1, 2]]);
        assert!(
            adjoint(average, &[1, 1, 4])
                .lower(&mut graph, "a", &[v[1]])
                .is_ok()
        );
        let wrong: [(PoolKind, &[usize], &[ValueId]); 6] = [
            (average, &[], &[v[1]]),
            (average, &[1], &[v[1]]),
            (average, &[1, 1, 4], &[v[0]]),
            (average, &[1, 1, 4], &[v[2]]),
            (PoolKind::Max, &[1, 1, 4], &[v[1]]),
            (PoolKind::Max, &[1, 1, 4], &[v[2], v[1]]),
        ];
        for (kind, input, inputs) in wrong {
            let result = adjoint(kind, input).lower(&mut graph, "a", inputs);
            assert!(result.is_err(), "{kind:?} of {input:?}");
        }
        let places = MaxPlace {
            pool: adjoint(PoolKind::Max, &[]).pool,
        };
        for inputs in [&[][..], &[v[0]], &[v[1], v[2]]] {
            assert!(places.lower(&mut graph, "p", inputs).is_err());
        }
    }

    /// The taps of a window as wide as a long signal, squared, are more than any memory holds.
    #[test]
    fn windows_too_wide_to_be_laid_side_by_side_are_errors() {
        let wide = 1 << 31;
        let (mut graph, v) = graph(&[&[1, 1, wide]]);
        let places = MaxPlace {
            pool: Pool {
                kind: PoolKind::Max,
                window: Window::sized([wide]),
                ceil_mode: false,
            },
        };
        let error = places.lower(&mut graph, "p", &v).unwrap_err();
        assert_eq!(error.to_string(), "a shape of too many elements");
    }
}
