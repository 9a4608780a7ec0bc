//! From sums of contributions to what contributions are multiplied by.

use npcov_graph::OpError;
use npcov_program::{Rule, Sums};

use crate::isa::vectorised;
use crate::pack::{LANES, Pack};

/// The middle of a relevance step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factors {
    rule: Rule,
    /// Sums that a unit has: its positive and negative contributions, or one of both.
    pub(super) sums: usize,
    /// Whether contributions of both signs are summed apart.
    pub(super) split: bool,
}

impl Factors {
    pub(super) fn new(rule: Rule) -> Result<Factors, OpError> {
        let (sums, split) = match rule.sums() {
            Some(Sums::Split { negative: true }) => (2, true),
            Some(Sums::Split { negative: false }) => (1, true),
            Some(Sums::Whole) => (1, false),
            None => return Err(OpError::unsupported(format!("the rule `{rule}`"))),
        };
        Ok(Factors { rule, sums, split })
    }

    /// A bias's share of sum number `sum`.
    pub(super) fn bias(&self, bias: f32, sum: usize) -> f32 {
        match (self.split, sum) {
            (false, _) => bias,
            (true, 0) => bias.max(0.0),
            (true, _) => bias.min(0.0),
        }
    }

    /// Puts factors in the place of sums. The sums of a unit stand next to each other; `relevance`
    /// holds that of the units, `stride` packs apart.
    pub(super) fn apply(&self, sums: &mut [Pack], relevance: &[Pack], stride: usize) {
        let units = relevance.iter().step_by(stride);
        vectorised(
            #[inline(always)]
            || match self.rule {
                Rule::AlphaBeta { epsilon, .. } if self.sums == 1 => {
                    for (p, r) in sums.iter_mut().zip(units) {
                        *p = p.zip(*r, |p, r| if p > 0.0 { r / (p + epsilon) } else { 0.0 });
                    }
                }
                Rule::AlphaBeta {
                    beta,
                    epsilon,
                    rare,
                } => {
                    for (sums, r) in sums.chunks_exact_mut(2).zip(units) {
                        alpha_beta(sums, r, beta, epsilon, rare);
                    }
                }
                Rule::Gamma { gamma, epsilon } => {
                    for (sums, r) in sums.chunks_exact_mut(2).zip(units) {
                        for l in 0..LANES {
                            let (p, n) = (sums[0].0[l], sums[1].0[l]);
                            let z = p + n;
                            let d = z + gamma * if z > 0.0 { p } else { n };
                            let share = stabilised(r.0[l], d, epsilon);
                            let larger = share * (1.0 + gamma);
                            let none = z == 0.0;
                            sums[0].0[l] = if none {
                                0.0
                            } else if z > 0.0 {
                                larger
                            } else {
                                share
                            };
                            sums[1].0[l] = if none {
                                0.0
                            } else if z < 0.0 {
                                larger
                            } else {
                                share
                            };
                        }
                    }
                }
                Rule::Epsilon { epsilon } => {
                    for (z, r) in sums.iter_mut().zip(units) {
                        *z = z.zip(*r, |z, r| stabilised(r, z, epsilon));
                    }
                }
                _ => {}
            },
        );
    }
}

/// Of two sums `p` and `n`, what positive and negative contributions are multiplied by. A unit
/// with contributions of one sign only is rare.
#[inline(always)]
fn alpha_beta(sums: &mut [Pack], r: &Pack, beta: f32, epsilon: f32, rare: bool) {
    let alpha = 1.0 + beta;
    for l in 0..LANES {
        let (p, n, r) = (sums[0].0[l], sums[1].0[l], r.0[l]);
        let p_alone = rare && n >= 0.0;
        let n_alone = rare && p <= 0.0;
        let p_share = if p_alone { r } else { alpha * r };
        let n_share = if n_alone { r } else { -beta * r };
        let p_epsilon = if p_alone { epsilon / alpha } else { epsilon };
        let n_epsilon = if n_alone { epsilon / beta } else { epsilon };
        let p_factor = p_share / (p + p_epsilon);
        let n_factor = n_share / (n - n_epsilon);
        sums[0].0[l] = if p > 0.0 { p_factor } else { 0.0 };
        sums[1].0[l] = if n < 0.0 { n_factor } else { 0.0 };
    }
}

/// `r / (x + epsilon sign(x))`, and 0 where `x` is.
#[inline(always)]
fn stabilised(r: f32, x: f32, epsilon: f32) -> f32 {
    let d = if x > 0.0 { x + epsilon } else { x - epsilon };
    if x == 0.0 { 0.0 } else { r / d }
}
