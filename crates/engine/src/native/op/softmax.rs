//! Softmax and its logarithm.

use npcov_cpu::widest;
use npcov_graph::OpError;
use npcov_graph::op::Softmax;

use super::fibre::{Fibres, max};
use crate::native::kernel::{Alone, Context, Inputs, Kernel, NodeKernel};
use crate::native::math;
use crate::native::pack::{LANES, Pack};

pub(super) fn prepare(op: &Softmax, cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    let fibres = Fibres::new(cx.shape(0), &[op.axis]);
    let kernel = SoftmaxKernel {
        log: op.log,
        one: Fibres::one(fibres.len()),
        fibres,
    };
    Ok(NodeKernel::new(kernel, [0]))
}

struct SoftmaxKernel {
    log: bool,
    fibres: Fibres,
    /// A fibre by itself.
    one: Fibres,
}

impl Kernel for SoftmaxKernel {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        self.softmax(&self.fibres, inputs.get(0), output);
    }

    fn alone(&self) -> Option<&dyn Alone> {
        Some(self)
    }
}

/// Sixteen fibres at a time.
impl Alone for SoftmaxKernel {
    fn scratch(&self) -> usize {
        2 * self.fibres.len()
    }

    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]) {
        let (x, y) = scratch.split_at_mut(self.fibres.len());
        for bases in self.fibres.bases().chunks(LANES) {
            self.fibres.gather(inputs.get(0), bases, x);
            self.softmax(&self.one, x, y);
            self.fibres.scatter(y, bases, output);
        }
    }
}

impl SoftmaxKernel {
    fn softmax(&self, fibres: &Fibres, x: &[Pack], output: &mut [Pack]) {
        match self.log {
            true => logarithms(fibres, x, output),
            false => quotients(fibres, x, output),
        }
    }
}

/// `exp(x - m) / sum exp(x - m)`. The quotient is the same for any `m`; for the maximum no
/// exponential overflows and the sum is at least 1.
fn quotients(fibres: &Fibres, x: &[Pack], output: &mut [Pack]) {
    widest(
        #[inline(always)]
        || {
            for &base in fibres.bases() {
                let shift = fibres.fold(x, base, f32::NEG_INFINITY, max);
                fibres.map(x, output, base, |x| x.zip(shift, |x, m| math::exp(x - m)));
                let scale = fibres.sum(output, base, |y| y).map(|s| 1.0 / s);
                fibres.update(output, base, |y| y.zip(scale, |y, s| y * s));
            }
        },
    );
}

/// `x - m - ln(sum exp(x - m))`, with `m` the maximum.
fn logarithms(fibres: &Fibres, x: &[Pack], output: &mut [Pack]) {
    widest(
        #[inline(always)]
        || {
            for &base in fibres.bases() {
                let shift = fibres.fold(x, base, f32::NEG_INFINITY, max);
                let sum = fibres.sum(x, base, |x| x.zip(shift, |x, m| math::exp(x - m)));
                let log = sum.map(math::ln);
                fibres.map(x, output, base, |x| {
                    x.zip(shift, |x, m| x - m).zip(log, |x, log| x - log)
                });
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use npcov_graph::Op;

    use super::*;
    use crate::native::op::testing::{Input, check, fibres_of, run_node};

    fn softmax(axis: usize, log: bool) -> Op {
        Op::Softmax(Softmax { axis, log })
    }

    #[test]
    fn every_axis_agrees_with_the_definition() {
        let shape = [1, 3, 4, 5];
        for axis in 0..shape.len() {
            for log in [false, true] {
                let x = Input::varying(&shape).map(|x| 4.0 * x);
                check(softmax(axis, log), &[x], 1e-6, |inputs| {
                    let x = &inputs[0];
                    let mut y = vec![0.0; x.len()];
                    for fibre in fibres_of(&shape, axis) {
                        let sum: f64 = fibre.iter().map(|&i| x[i].exp()).sum();
                        for i in fibre {
                            let p = x[i].exp() / sum;
                            y[i] = if log { p.ln() } else { p };
                        }
                    }
                    y
                });
            }
        }
    }

    #[test]
    fn numbers_far_beyond_the_exponential_range_are_fine() {
        let x = Input::varying(&[1, 3]).set(&[1000.0, 999.0, -1000.0]);
        let e = (-1.0_f64).exp();
        check(softmax(1, false), std::slice::from_ref(&x), 1e-6, |_| {
            vec![1.0 / (1.0 + e), e / (1.0 + e), 0.0]
        });
        let log = -e.ln_1p();
        check(softmax(1, true), &[x], 1e-6, |_| {
            vec![log, log - 1.0, log - 2000.0]
        });
    }

    #[test]
    fn nan_stays_in_its_lane() {
        let x = Input::varying(&[1, 4]).map(|x| if x > 1.9 { f32::NAN } else { x });
        for (i, y) in run_node(softmax(1, false), std::slice::from_ref(&x))
            .iter()
            .enumerate()
        {
            let bad = x.sample(i).iter().any(|x| x.is_nan());
            assert!(y.iter().all(|y| y.is_nan() == bad), "input {i}");
        }
    }
}
