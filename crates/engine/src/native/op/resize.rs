//! Interpolation along axes.

use npcov_cpu::vectorised;
use npcov_graph::op::Resize;
use npcov_graph::{OpError, strides};

use super::structure::{Select, check_size};
use crate::native::kernel::{Context, Inputs, Kernel, NodeKernel};
use crate::native::pack::Pack;

/// For each output position along an axis: input positions and their weights.
type Taps = Vec<Vec<(usize, f32)>>;

pub(super) fn prepare(op: &Resize, cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    let shape = cx.shape(0);
    check_size(cx.output())?;
    let taps: Vec<(usize, Taps)> = op
        .axes
        .iter()
        .map(|map| (map.axis, op.taps(map, shape[map.axis])))
        .collect();
    let copied = |taps: &Vec<(usize, f32)>| matches!(taps[..], [(_, 1.0)]);
    if taps.iter().all(|(_, taps)| taps.iter().all(copied)) {
        let table = nearest(shape, &taps);
        return Ok(NodeKernel::new(Select::new(&table, 0.0), [0]));
    }
    Ok(NodeKernel::new(Passes::new(shape, taps), [0]))
}

/// The table of positions when every output position copies one input position.
fn nearest(shape: &[usize], taps: &[(usize, Taps)]) -> Vec<i64> {
    let strides = strides(shape);
    let mut table = vec![0];
    for (axis, (&extent, &stride)) in shape.iter().zip(&strides).enumerate() {
        let resized = taps.iter().find(|(a, _)| *a == axis);
        let sources: Vec<usize> = match resized {
            Some((_, taps)) => taps.iter().flatten().map(|tap| tap.0).collect(),
            None => (0..extent).collect(),
        };
        let along = |&base: &i64| sources.iter().map(move |s| base + (s * stride) as i64);
        table = table.iter().flat_map(along).collect();
    }
    table
}

/// One axis after the other.
struct Passes {
    passes: Vec<Pass>,
    /// The largest tensor between two passes.
    between: usize,
}

/// The weighted sums along one axis of a tensor `[outer, input, inner]`.
struct Pass {
    input: usize,
    inner: usize,
    taps: Taps,
    /// Number of elements of the whole output.
    output: usize,
}

impl Passes {
    fn new(shape: &[usize], taps: Vec<(usize, Taps)>) -> Passes {
        let mut shape = shape.to_vec();
        let mut passes = Vec::new();
        for (axis, taps) in taps {
            let input = shape[axis];
            shape[axis] = taps.len();
            passes.push(Pass {
                input,
                inner: shape[axis + 1..].iter().product(),
                taps,
                output: shape.iter().product(),
            });
        }
        let inner = passes.split_last().map_or(&[][..], |(_, inner)| inner);
        let between = inner.iter().map(|pass| pass.output).max().unwrap_or(0);
        Passes { passes, between }
    }
}

impl Kernel for Passes {
    /// Two tensors: what one pass writes, the next one reads.
    fn scratch(&self) -> usize {
        2 * self.between
    }

    fn run(&self, inputs: &Inputs<'_>, scratch: &mut [Pack], output: &mut [Pack]) {
        let (even, odd) = scratch.split_at_mut(self.between);
        let mut read = inputs.get(0).len();
        for (i, pass) in self.passes.iter().enumerate() {
            let (from, to) = match i % 2 {
                0 => (&mut *odd, &mut *even),
                _ => (&mut *even, &mut *odd),
            };
            let x = if i == 0 { inputs.get(0) } else { &from[..read] };
            match i + 1 == self.passes.len() {
                true => pass.run(x, output),
                false => pass.run(x, &mut to[..pass.output]),
            }
            read = pass.output;
        }
    }
}

impl Pass {
    fn run(&self, x: &[Pack], y: &mut [Pack]) {
        let inner = self.inner.max(1);
        let planes = x.chunks_exact((self.input * inner).max(1));
        let outputs = y.chunks_exact_mut((self.taps.len() * inner).max(1));
        vectorised(
            #[inline(always)]
            || {
                for (x, y) in planes.zip(outputs) {
                    for (y, taps) in y.chunks_exact_mut(inner).zip(&self.taps) {
                        let row = |at: usize| &x[at * inner..(at + 1) * inner];
                        match taps[..] {
                            [(a, v), (b, w)] => {
                                for ((y, a), b) in y.iter_mut().zip(row(a)).zip(row(b)) {
                                    *y = a.zip(*b, |a, b| v * a + w * b);
                                }
                            }
                            _ => {
                                y.fill(Pack::ZERO);
                                for &(at, weight) in taps {
                                    for (y, x) in y.iter_mut().zip(row(at)) {
                                        *y = y.zip(*x, |y, x| y + weight * x);
                                    }
                                }
                            }
                        }
                    }
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use npcov_graph::Op;
    use npcov_graph::op::{AxisMap, Coordinates, Interpolation, NearestRounding};

    use super::*;
    use crate::native::op::testing::{Input, check, number_of, positions};

    /// The definition: the sum over all combinations of taps of the product of their weights.
    fn check_resize(shape: &[usize], axes: &[(usize, usize)], interpolation: Interpolation) {
        let map = |&(axis, output): &(usize, usize)| AxisMap {
            axis,
            output,
            scale: output as f32 / shape[axis] as f32,
        };
        let op = Resize {
            axes: axes.iter().map(map).collect(),
            interpolation,
            coordinates: Coordinates::HalfPixel,
            antialias: false,
        };
        let mut output = shape.to_vec();
        axes.iter()
            .for_each(|&(axis, extent)| output[axis] = extent);
        let taps: Vec<Taps> = (0..shape.len())
            .map(|axis| match op.axes.iter().find(|map| map.axis == axis) {
                Some(map) => op.taps(map, shape[axis]),
                None => (0..shape[axis]).map(|i| vec![(i, 1.0)]).collect(),
            })
            .collect();
        check(Op::Resize(op), &[Input::varying(shape)], 1e-6, |inputs| {
            let value = |p: Vec<usize>| {
                let along: Vec<_> = p.iter().zip(&taps).map(|(&i, taps)| &taps[i]).collect();
                let counts: Vec<usize> = along.iter().map(|taps| taps.len()).collect();
                let term = |choice: Vec<usize>| {
                    let chosen: Vec<_> = along.iter().zip(choice).map(|(t, i)| t[i]).collect();
                    let at: Vec<usize> = chosen.iter().map(|tap| tap.0).collect();
                    let weight: f64 = chosen.iter().map(|tap| f64::from(tap.1)).product();
                    weight * inputs[0][number_of(shape, &at)]
                };
                positions(&counts).into_iter().map(term).sum()
            };
            positions(&output).into_iter().map(value).collect()
        });
    }

    #[test]
    fn every_interpolation_up_and_down() {
        for interpolation in [
            Interpolation::Nearest(NearestRounding::RoundPreferFloor),
            Interpolation::Linear,
            Interpolation::Cubic {
                coefficient: -0.75,
                exclude_outside: false,
            },
        ] {
            check_resize(&[1, 2, 4, 5], &[(2, 8), (3, 10)], interpolation);
            check_resize(&[1, 3, 8, 6], &[(2, 3), (3, 9)], interpolation);
            check_resize(&[2, 3, 7], &[(2, 4)], interpolation);
            check_resize(&[1, 2, 3, 4, 2], &[(2, 5), (3, 2), (4, 3)], interpolation);
            check_resize(&[1, 2, 1, 4], &[(1, 4), (2, 3)], interpolation);
        }
    }
}
