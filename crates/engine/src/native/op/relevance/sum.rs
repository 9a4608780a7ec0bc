//! The relevance step of a sum of two values, number by number: a function in a chain.

use npcov_program::{AlphaBeta, Rule, SumRelevance};

use crate::native::pack::{Pack, numbers, numbers_mut};

/// What one of two values gets of the relevance of their sum, by the alpha-beta rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SumShare {
    /// Which value's share it is.
    of: usize,
    /// The sign that turns values into contributions, in its bit: of this value, and of the other one.
    signs: [u32; 2],
    positive: Factor,
    /// None when this value has no negative contributions, or they get nothing.
    negative: Option<Factor>,
}

/// What contributions of one sign are multiplied by: `factor * r / (sum + epsilon)`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Factor {
    /// Factor and epsilon where there are contributions of the other sign.
    beside: (f32, f32),
    /// The same where there are none.
    alone: (f32, f32),
}

impl SumShare {
    /// The share of an operator whose rule this knows.
    pub(crate) fn new(op: &SumRelevance) -> Option<SumShare> {
        let Rule::AlphaBeta(AlphaBeta {
            beta,
            epsilon,
            rare,
        }) = op.rule
        else {
            return None;
        };
        let factor = |part: f32, epsilon: f32| {
            let beside = (part, epsilon);
            let alone = match rare {
                true => (1.0, epsilon / part.abs()),
                false => beside,
            };
            Factor { beside, alone }
        };
        let sign = |i: usize| u32::from(op.subtracted && i == 1) << 31;
        let has_negative = beta != 0.0 && !op.is_nonnegative(op.of);
        Some(SumShare {
            of: op.of,
            signs: [sign(op.of), sign(1 - op.of)],
            positive: factor(1.0 + beta, epsilon),
            negative: has_negative.then(|| factor(-beta, -epsilon)),
        })
    }

    /// The shares of numbers of both values, of which the sums have the relevances `r`.
    #[inline(always)]
    pub(crate) fn run(&self, values: [&[Pack]; 2], r: &[Pack], y: &mut [Pack]) {
        let (own, other) = (values[self.of], values[1 - self.of]);
        let numbers = numbers(own).iter().zip(numbers(other)).zip(numbers(r));
        let all = numbers_mut(y).iter_mut().zip(numbers);
        let contribution = |x: f32, sign: u32| f32::from_bits(x.to_bits() ^ sign);
        let of = |own: f32, other: f32| {
            let (own, other) = (
                contribution(own, self.signs[0]),
                contribution(other, self.signs[1]),
            );
            (
                [positive(own), positive(other)],
                [negative(own), negative(other)],
            )
        };
        let p_factor = |p: f32, n: f32, r: f32| {
            let factor = self.positive.of(p, r, n < 0.0);
            if p > 0.0 { factor } else { 0.0 }
        };
        match self.negative {
            None => {
                for (y, ((own, other), r)) in all {
                    let ([p, p_other], [n, n_other]) = of(*own, *other);
                    *y = p * p_factor(p + p_other, n + n_other, *r);
                }
            }
            Some(negative) => {
                for (y, ((own, other), r)) in all {
                    let ([p, p_other], [n, n_other]) = of(*own, *other);
                    let (p_sum, n_sum) = (p + p_other, n + n_other);
                    let factor = negative.of(n_sum, *r, p_sum > 0.0);
                    let n_factor = if n_sum < 0.0 { factor } else { 0.0 };
                    *y = p * p_factor(p_sum, n_sum, *r) + n * n_factor;
                }
            }
        }
    }
}

impl Factor {
    #[inline(always)]
    fn of(&self, sum: f32, r: f32, beside: bool) -> f32 {
        let (factor, epsilon) = if beside { self.beside } else { self.alone };
        r / (sum + epsilon) * factor
    }
}

#[inline(always)]
fn positive(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

#[inline(always)]
fn negative(x: f32) -> f32 {
    if x > 0.0 { 0.0 } else { x }
}

#[cfg(test)]
mod tests {
    use npcov_cpu::Isa;
    use npcov_graph::op::CompositeOp;
    use npcov_graph::{DType, Graph, Op, TensorType};

    use super::super::tests::numbers;
    use super::*;
    use crate::native::op::testing::run_graph;
    use crate::native::options::Options;
    use crate::native::pack::LANES;

    /// Bit by bit, for sixteen inputs and for one, for values of one shape and where one is broadcast.
    #[test]
    fn shares_are_those_of_the_definition() {
        let rules = [
            "alpha-beta:0.5",
            "alpha-beta:1,1e-3",
            "alpha-beta:2,rare=off",
            "zplus",
        ];
        for rule in rules {
            let rule: Rule = rule.parse().unwrap();
            for case in 0..32 {
                let op = SumRelevance {
                    rule,
                    subtracted: case & 1 != 0,
                    nonnegative: [case & 2 != 0, case & 4 != 0],
                    of: usize::from(case & 8 != 0),
                };
                let second: &[usize] = if case & 16 != 0 { &[3, 1] } else { &[1, 3, 35] };
                let mut graph = Graph::new();
                let inputs = [&[1, 3, 35], second, &[1, 3, 35]]
                    .map(|shape| graph.add_input("x", TensorType::new(DType::F32, shape)));
                let composite = Op::Composite(CompositeOp::new(op));
                let share = graph.push("share", composite, &inputs).unwrap();
                graph.set_outputs(vec![share]);
                let lowered = graph.lowered(|_| true).unwrap();
                let [a, b] = [0, 1].map(|i| {
                    let len = graph.value(inputs[i]).ty.numel();
                    numbers(len * LANES, i + 1, op.nonnegative[i])
                });
                let r = numbers(3 * 35 * LANES, 3, false);
                for isa in Isa::available() {
                    let run = |graph: &Graph| {
                        let options = Options {
                            isa,
                            ..Options::default()
                        };
                        let output = run_graph(graph, options, &[&a, &b, &r]).swap_remove(0);
                        output.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
                    };
                    assert_eq!(run(&graph), run(&lowered), "{op:?}");
                }
            }
        }
    }
}
