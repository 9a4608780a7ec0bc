//! Positions of extreme elements.

use npcov_cpu::vectorised;
use npcov_graph::op::{ArgMax, TopK};
use npcov_graph::{OpError, strides};

use super::fibre::Fibres;
use crate::native::kernel::{Context, Inputs, Kernel, NodeKernel};
use crate::native::pack::{LANES, Pack};

/// The largest extent whose positions are all exact as `f32`, which is what packs hold.
pub(super) const MAX_POSITIONS: usize = 1 << f32::MANTISSA_DIGITS;

/// The fibres along an axis, whose positions are all exact.
fn fibres(shape: &[usize], axis: usize) -> Result<Fibres, OpError> {
    let fibres = Fibres::new(shape, &[axis]);
    if fibres.len() > MAX_POSITIONS {
        let message = format!("positions along an axis of {} elements", fibres.len());
        return Err(OpError::unsupported(message));
    }
    Ok(fibres)
}

pub(super) fn prepare(op: &ArgMax, cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    let fibres = fibres(cx.shape(0), op.axis)?;
    let kernel = ArgKernel {
        fibres,
        minimum: op.minimum,
        select_last: op.select_last,
    };
    Ok(NodeKernel::new(kernel, [0]))
}

/// NaN is never an extreme: it compares as neither larger nor smaller. Where there is nothing
/// else the position is 0.
struct ArgKernel {
    fibres: Fibres,
    minimum: bool,
    select_last: bool,
}

impl Kernel for ArgKernel {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        let x = inputs.get(0);
        match (self.minimum, self.select_last) {
            (false, false) => self.search(x, output, f32::NEG_INFINITY, |x, best| x > best),
            (false, true) => self.search(x, output, f32::NEG_INFINITY, |x, best| x >= best),
            (true, false) => self.search(x, output, f32::INFINITY, |x, best| x < best),
            (true, true) => self.search(x, output, f32::INFINITY, |x, best| x <= best),
        }
    }
}

impl ArgKernel {
    #[inline(always)]
    fn search(
        &self,
        x: &[Pack],
        output: &mut [Pack],
        worst: f32,
        better: impl Fn(f32, f32) -> bool,
    ) {
        vectorised(
            #[inline(always)]
            || {
                for (y, &base) in output.iter_mut().zip(self.fibres.bases()) {
                    let mut best = [worst; LANES];
                    let mut position = [0.0; LANES];
                    let mut i = 0.0;
                    self.fibres.visit(x, base, |x| {
                        for l in 0..LANES {
                            let found = better(x.0[l], best[l]);
                            best[l] = if found { x.0[l] } else { best[l] };
                            position[l] = if found { i } else { position[l] };
                        }
                        i += 1.0;
                    });
                    *y = Pack(position);
                }
            },
        );
    }
}

pub(super) fn prepare_top(op: &TopK, cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    let kernel = TopKernel {
        fibres: fibres(cx.shape(0), op.axis)?,
        results: Fibres::new(cx.output(), &[op.axis]),
        sign: if op.smallest { -1.0 } else { 1.0 },
        stride: strides(cx.output())[op.axis],
    };
    Ok(NodeKernel::new(kernel, [0]))
}

/// One search after the other, each among the elements that come after what the one before found: few are
/// asked for. NaN comes last, beside the worst infinity.
struct TopKernel {
    fibres: Fibres,
    results: Fibres,
    /// What makes the wanted elements the largest.
    sign: f32,
    /// How far apart results of a fibre are.
    stride: usize,
}

impl Kernel for TopKernel {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        let x = inputs.get(0);
        vectorised(
            #[inline(always)]
            || {
                for (&base, &first) in self.fibres.bases().iter().zip(self.results.bases()) {
                    let mut last = [f32::INFINITY; LANES];
                    let mut taken = [-1.0; LANES];
                    for rank in 0..self.results.len() {
                        let mut best = [f32::NEG_INFINITY; LANES];
                        let mut position = [-1.0; LANES];
                        let mut i = 0.0;
                        self.fibres.visit(x, base, |x| {
                            for l in 0..LANES {
                                let x = self.sign * x.0[l];
                                let x = if x.is_nan() { f32::NEG_INFINITY } else { x };
                                let is_left = (x < last[l]) | ((x == last[l]) & (i > taken[l]));
                                let found = is_left & ((x > best[l]) | (position[l] < 0.0));
                                best[l] = if found { x } else { best[l] };
                                position[l] = if found { i } else { position[l] };
                            }
                            i += 1.0;
                        });
                        output[first + rank * self.stride] = Pack(position);
                        (last, taken) = (best, position);
                    }
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use npcov_graph::Op;

    use super::*;
    use crate::native::op::testing::{Input, check, fibres_of, run_node};

    fn arg(axis: usize, minimum: bool, select_last: bool) -> Op {
        Op::ArgMax(ArgMax {
            axis,
            keep_dims: select_last,
            select_last,
            minimum,
        })
    }

    #[test]
    fn every_form_along_every_axis() {
        let shape = [1, 5, 4, 6];
        // Few different numbers, so that there are ties.
        let x = Input::varying(&shape).map(|x| (2.0 * x).round());
        for axis in 0..shape.len() {
            for minimum in [false, true] {
                for last in [false, true] {
                    let x = std::slice::from_ref(&x);
                    check(arg(axis, minimum, last), x, 0.0, |inputs| {
                        let search = |fibre: Vec<usize>| {
                            let values: Vec<f64> = fibre.iter().map(|&i| inputs[0][i]).collect();
                            let sign = if minimum { -1.0 } else { 1.0 };
                            let best = values.iter().map(|x| sign * x).fold(f64::MIN, f64::max);
                            let hit = |x: &f64| sign * x == best;
                            let found = match last {
                                true => values.iter().rposition(hit),
                                false => values.iter().position(hit),
                            };
                            found.unwrap() as f64
                        };
                        fibres_of(&shape, axis).into_iter().map(search).collect()
                    });
                }
            }
        }
    }

    #[test]
    fn nan_is_never_the_extreme() {
        let x = |values: &[f32]| Input::varying(&[1, values.len()]).set(values);
        for (values, expected) in [
            ([f32::NAN, 1.0, 2.0, f32::NAN], 2.0),
            ([f32::NAN; 4], 0.0),
            ([f32::NEG_INFINITY; 4], 0.0),
        ] {
            for y in run_node(arg(1, false, false), &[x(&values)]) {
                assert_eq!(y, [expected], "{values:?}");
            }
        }
    }

    #[test]
    fn the_most_extreme_along_every_axis() {
        let shape = [1, 5, 4, 6];
        let x = Input::varying(&shape).map(|x| (2.0 * x).round());
        for axis in 1..shape.len() {
            for smallest in [false, true] {
                for count in [1, 3, shape[axis]] {
                    let op = Op::TopK(TopK {
                        axis,
                        count,
                        smallest,
                    });
                    let x = std::slice::from_ref(&x);
                    let stride: usize = shape[axis + 1..].iter().product();
                    check(op, x, 0.0, |inputs| {
                        let mut places = vec![0.0; inputs[0].len() / shape[axis] * count];
                        for (number, fibre) in fibres_of(&shape, axis).into_iter().enumerate() {
                            let sign = if smallest { 1.0 } else { -1.0 };
                            let key = |&i: &usize| sign * inputs[0][fibre[i]];
                            let mut order: Vec<usize> = (0..shape[axis]).collect();
                            order.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap());
                            let first = number / stride * stride * count + number % stride;
                            for (rank, &i) in order[..count].iter().enumerate() {
                                places[first + rank * stride] = i as f64;
                            }
                        }
                        places
                    });
                }
            }
        }
    }

    #[test]
    fn nan_comes_last_and_every_place_once() {
        let x = |values: &[f32]| Input::varying(&[1, values.len()]).set(values);
        let top = |smallest| {
            Op::TopK(TopK {
                axis: 1,
                count: 4,
                smallest,
            })
        };
        for (values, largest, smallest) in [
            (
                [f32::NAN, 1.0, 2.0, f32::NAN],
                [2.0, 1.0, 0.0, 3.0],
                [1.0, 2.0, 0.0, 3.0],
            ),
            ([f32::NAN; 4], [0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0]),
            (
                [f32::INFINITY; 4],
                [0.0, 1.0, 2.0, 3.0],
                [0.0, 1.0, 2.0, 3.0],
            ),
            (
                [0.0, -0.0, 1.0, 0.0],
                [2.0, 0.0, 1.0, 3.0],
                [0.0, 1.0, 3.0, 2.0],
            ),
        ] {
            for (is_smallest, expected) in [(false, largest), (true, smallest)] {
                for y in run_node(top(is_smallest), &[x(&values)]) {
                    assert_eq!(y, expected, "{values:?}, {is_smallest}");
                }
            }
        }
    }
}
