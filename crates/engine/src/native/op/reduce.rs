//! Reductions over axes.

use npcov_cpu::vectorised;
use npcov_graph::OpError;
use npcov_graph::op::{Reduce, ReduceKind};

use super::fibre::{Fibres, max, min};
use crate::native::kernel::{Alone, Context, Inputs, Kernel, NodeKernel};
use crate::native::math;
use crate::native::pack::{LANES, Pack};

pub(super) fn prepare(op: &Reduce, cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    let fibres = Fibres::new(cx.shape(0), &op.axes);
    let kernel = Reduction {
        kind: op.kind,
        one: Fibres::one(fibres.len()),
        fibres,
    };
    Ok(NodeKernel::new(kernel, [0]))
}

struct Reduction {
    kind: ReduceKind,
    fibres: Fibres,
    /// A fibre by itself.
    one: Fibres,
}

impl Kernel for Reduction {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        self.reduce(&self.fibres, inputs.get(0), output);
    }

    fn alone(&self) -> Option<&dyn Alone> {
        Some(self)
    }
}

/// Sixteen fibres at a time.
impl Alone for Reduction {
    fn scratch(&self) -> usize {
        self.fibres.len()
    }

    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]) {
        let bases = self.fibres.bases().chunks(LANES);
        for (bases, y) in bases.zip(output.chunks_mut(LANES)) {
            if self.kind == ReduceKind::Mean
                && let Some(sums) = self.fibres.sums(inputs.get(0), bases)
            {
                let len = self.fibres.len() as f32;
                y.copy_from_slice(&sums.map(|s| s / len).0[..y.len()]);
                continue;
            }
            self.fibres.gather(inputs.get(0), bases, scratch);
            let mut made = [Pack::ZERO];
            self.reduce(&self.one, scratch, &mut made);
            y.copy_from_slice(&made[0].0[..y.len()]);
        }
    }
}

impl Reduction {
    fn reduce(&self, fibres: &Fibres, x: &[Pack], output: &mut [Pack]) {
        match self.kind {
            ReduceKind::Mean => {
                let len = fibres.len() as f32;
                each(
                    fibres,
                    output,
                    #[inline(always)]
                    |base| fibres.sum(x, base, itself).map(|s| s / len),
                );
            }
            ReduceKind::Sum => each(
                fibres,
                output,
                #[inline(always)]
                |base| fibres.sum(x, base, itself),
            ),
            ReduceKind::Prod => each(
                fibres,
                output,
                #[inline(always)]
                |base| fibres.fold(x, base, 1.0, |a, b| a * b),
            ),
            ReduceKind::Max => {
                each(
                    fibres,
                    output,
                    #[inline(always)]
                    |base| fibres.fold(x, base, f32::NEG_INFINITY, max),
                );
            }
            ReduceKind::Min => each(
                fibres,
                output,
                #[inline(always)]
                |base| fibres.fold(x, base, f32::INFINITY, min),
            ),
            ReduceKind::L1 => each(
                fibres,
                output,
                #[inline(always)]
                |base| {
                    fibres.sum(
                        x,
                        base,
                        #[inline(always)]
                        |x| x.map(f32::abs),
                    )
                },
            ),
            ReduceKind::L2 => {
                each(
                    fibres,
                    output,
                    #[inline(always)]
                    |base| fibres.sum(x, base, square).map(f32::sqrt),
                );
            }
            ReduceKind::SumSquare => each(
                fibres,
                output,
                #[inline(always)]
                |base| fibres.sum(x, base, square),
            ),
            ReduceKind::LogSum => {
                each(
                    fibres,
                    output,
                    #[inline(always)]
                    |base| fibres.sum(x, base, itself).map(math::ln),
                );
            }
            ReduceKind::LogSumExp => each(
                fibres,
                output,
                #[inline(always)]
                |base| {
                    // Relative to the largest term, so that no exponential overflows.
                    let shift = fibres.fold(x, base, f32::NEG_INFINITY, max);
                    let shift = shift.map(|m| if m.is_finite() { m } else { 0.0 });
                    let sum = fibres.sum(
                        x,
                        base,
                        #[inline(always)]
                        |x| x.zip(shift, |x, m| math::exp(x - m)),
                    );
                    sum.zip(shift, |s, m| math::ln(s) + m)
                },
            ),
        }
    }
}

/// Sets each output to `f` of where its fibre begins. Closures say that they are inlined: else some are not,
/// and then they are not compiled for the vectors.
#[inline(always)]
fn each(fibres: &Fibres, output: &mut [Pack], f: impl Fn(usize) -> Pack) {
    vectorised(
        #[inline(always)]
        || {
            for (y, &base) in output.iter_mut().zip(fibres.bases()) {
                *y = f(base);
            }
        },
    );
}

#[inline(always)]
fn itself(x: Pack) -> Pack {
    x
}

#[inline(always)]
fn square(x: Pack) -> Pack {
    x.map(|x| x * x)
}

#[cfg(test)]
mod tests {
    use npcov_graph::Op;

    use super::*;
    use crate::native::op::testing::{Input, check, positions};

    const KINDS: [ReduceKind; 10] = [
        ReduceKind::Mean,
        ReduceKind::Sum,
        ReduceKind::Prod,
        ReduceKind::Max,
        ReduceKind::Min,
        ReduceKind::L1,
        ReduceKind::L2,
        ReduceKind::SumSquare,
        ReduceKind::LogSum,
        ReduceKind::LogSumExp,
    ];

    fn reduce(kind: ReduceKind, axes: &[usize], keep_dims: bool) -> Op {
        Op::Reduce(Reduce {
            kind,
            axes: axes.to_vec(),
            keep_dims,
        })
    }

    /// The definition.
    fn naive(kind: ReduceKind, terms: &[f64]) -> f64 {
        let sum = |f: fn(f64) -> f64| terms.iter().map(|&x| f(x)).sum::<f64>();
        match kind {
            ReduceKind::Mean => sum(|x| x) / terms.len() as f64,
            ReduceKind::Sum => sum(|x| x),
            ReduceKind::Prod => terms.iter().product(),
            ReduceKind::Max => terms.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ReduceKind::Min => terms.iter().copied().fold(f64::INFINITY, f64::min),
            ReduceKind::L1 => sum(f64::abs),
            ReduceKind::L2 => sum(|x| x * x).sqrt(),
            ReduceKind::SumSquare => sum(|x| x * x),
            ReduceKind::LogSum => sum(|x| x).ln(),
            ReduceKind::LogSumExp => sum(f64::exp).ln(),
        }
    }

    #[test]
    fn every_kind_over_every_choice_of_axes() {
        let shape = [1, 3, 4, 5];
        for kind in KINDS {
            for axes in [
                vec![3],
                vec![1],
                vec![2, 3],
                vec![0, 1],
                vec![1, 3],
                vec![0, 1, 2, 3],
            ] {
                // Positive numbers, for the logarithm of their sum.
                let x = Input::varying(&shape).map(|x| x.abs() + 0.25);
                check(reduce(kind, &axes, axes.len() == 2), &[x], 1e-5, |inputs| {
                    let kept = |p: &[usize]| -> Vec<usize> {
                        (0..4).filter(|a| !axes.contains(a)).map(|a| p[a]).collect()
                    };
                    let mut terms = std::collections::BTreeMap::<Vec<usize>, Vec<f64>>::new();
                    for (p, &x) in positions(&shape).iter().zip(&inputs[0]) {
                        terms.entry(kept(p)).or_default().push(x);
                    }
                    terms.values().map(|terms| naive(kind, terms)).collect()
                });
            }
        }
    }

    #[test]
    fn the_mean_of_a_large_map_is_accurate() {
        // Two roundings, of the sum and of the quotient. Added up in f32 these inputs are wrong by
        // 3.8e-6, in blocks of 64 by 4.8e-7 (both computed apart from this crate, against f64).
        let x = Input::varying(&[1, 21, 70, 70]).map(|x| x + 1000.0);
        check(
            reduce(ReduceKind::Mean, &[2, 3], false),
            &[x],
            1.2e-7,
            |inputs| {
                inputs[0]
                    .chunks(4900)
                    .map(|c| naive(ReduceKind::Mean, c))
                    .collect()
            },
        );
    }

    #[test]
    fn the_logarithm_of_a_sum_of_exponentials_does_not_overflow() {
        let kind = ReduceKind::LogSumExp;
        let x = Input::varying(&[1, 6]).map(|x| 50.0 * x);
        check(reduce(kind, &[1], false), &[x], 1e-6, |inputs| {
            vec![naive(kind, &inputs[0])]
        });
        let infinite = |x| Input::varying(&[1, 3]).map(move |_| x);
        for x in [f32::INFINITY, f32::NEG_INFINITY] {
            check(reduce(kind, &[1], false), &[infinite(x)], 0.0, |_| {
                vec![f64::from(x)]
            });
        }
    }
}
