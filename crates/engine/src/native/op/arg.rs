//! Positions of extreme elements.

use npcov_cpu::vectorised;
use npcov_graph::OpError;
use npcov_graph::op::ArgMax;

use super::fibre::Fibres;
use crate::native::kernel::{Context, Inputs, Kernel, NodeKernel};
use crate::native::pack::{LANES, Pack};

/// The largest extent whose positions are all exact as `f32`, which is what packs hold.
pub(super) const MAX_POSITIONS: usize = 1 << f32::MANTISSA_DIGITS;

pub(super) fn prepare(op: &ArgMax, cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    let fibres = Fibres::new(cx.shape(0), &[op.axis]);
    if fibres.len() > MAX_POSITIONS {
        let message = format!("positions along an axis of {} elements", fibres.len());
        return Err(OpError::unsupported(message));
    }
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
}
