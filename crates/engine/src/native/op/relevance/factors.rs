//! From sums of contributions to what contributions are multiplied by.

use npcov_cpu::widest;
use npcov_graph::OpError;
use npcov_program::{AlphaBeta, Epsilon, Gamma, Rule};

use crate::native::pack::{LANES, Pack, numbers, numbers_mut};

/// The middle of a relevance step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factors {
    rule: Rule,
    /// Sums that a unit has: its positive and negative contributions, or one of both.
    pub(super) sums: usize,
    /// Whether contributions of both signs are summed apart.
    pub(super) split: bool,
    /// Whether the sign of both sums together decides, besides that of each.
    pub(super) together: bool,
}

impl Factors {
    /// The factors of a rule that [`Factors::apply`] knows.
    pub(super) fn new(rule: Rule) -> Result<Factors, OpError> {
        let (sums, split, together) = match rule {
            Rule::AlphaBeta(AlphaBeta { beta: 0.0, .. }) => (1, true, false),
            Rule::AlphaBeta(_) => (2, true, false),
            Rule::Gamma(_) => (2, true, true),
            Rule::Epsilon(_) => (1, false, false),
            Rule::ZBox(_) | Rule::Flat | Rule::Identity | Rule::Gradient(_) => {
                return Err(OpError::unsupported(format!("the rule `{rule}`")));
            }
        };
        Ok(Factors {
            rule,
            sums,
            split,
            together,
        })
    }

    /// A bias's share of sum number `sum`.
    pub(super) fn bias(&self, bias: f32, sum: usize) -> f32 {
        match (self.split, sum) {
            (false, _) => bias,
            (true, 0) => bias.max(0.0),
            (true, _) => bias.min(0.0),
        }
    }

    /// Puts factors in the place of sums, which are ordered by unit, then sum, then column;
    /// `relevance` is ordered by unit, then column.
    pub(super) fn apply(&self, sums: &mut [Pack], relevance: &[Pack], columns: usize) {
        let units = relevance.chunks_exact(columns);
        let sums = sums.chunks_exact_mut(self.sums * columns);
        widest(
            #[inline(always)]
            || match self.rule {
                Rule::AlphaBeta(AlphaBeta { epsilon, .. }) if self.sums == 1 => {
                    each(
                        sums,
                        units,
                        |p, r| if p > 0.0 { r / (p + epsilon) } else { 0.0 },
                    );
                }
                Rule::AlphaBeta(AlphaBeta {
                    beta,
                    epsilon,
                    rare,
                }) => each_pair(sums, units, |p, n, r| {
                    alpha_beta(p, n, r, beta, epsilon, rare)
                }),
                Rule::Gamma(Gamma { gamma, epsilon }) => {
                    each_pair(sums, units, |p, n, r| {
                        gamma_factors(p, n, r, gamma, epsilon)
                    });
                }
                Rule::Epsilon(Epsilon { epsilon }) => {
                    each(sums, units, |z, r| stabilised(r, z, epsilon))
                }
                // No factors are made of these.
                Rule::ZBox(_) | Rule::Flat | Rule::Identity | Rule::Gradient(_) => {}
            },
        );
    }
}

/// A factor from a sum and a relevance. One loop over numbers: of one over packs and one over lanes, the
/// compiler makes vectors of the outer one, which gather their lanes.
#[inline(always)]
fn each<'a>(
    sums: impl Iterator<Item = &'a mut [Pack]>,
    units: impl Iterator<Item = &'a [Pack]>,
    f: impl Fn(f32, f32) -> f32,
) {
    for (sums, relevance) in sums.zip(units) {
        for (z, r) in numbers_mut(sums).iter_mut().zip(numbers(relevance)) {
            *z = f(*z, *r);
        }
    }
}

/// Two factors from two sums and a relevance.
#[inline(always)]
fn each_pair<'a>(
    sums: impl Iterator<Item = &'a mut [Pack]>,
    units: impl Iterator<Item = &'a [Pack]>,
    f: impl Fn(f32, f32, f32) -> (f32, f32),
) {
    for (sums, relevance) in sums.zip(units) {
        let (positive, negative) = sums.split_at_mut(relevance.len());
        for ((p, n), r) in positive.iter_mut().zip(negative).zip(relevance) {
            for l in 0..LANES {
                (p.0[l], n.0[l]) = f(p.0[l], n.0[l], r.0[l]);
            }
        }
    }
}

/// What positive and negative contributions are multiplied by, of which `p` and `n` are the sums.
/// A unit with contributions of one sign only is rare.
#[inline(always)]
fn alpha_beta(p: f32, n: f32, r: f32, beta: f32, epsilon: f32, rare: bool) -> (f32, f32) {
    let alpha = 1.0 + beta;
    let p_alone = rare && n >= 0.0;
    let n_alone = rare && p <= 0.0;
    let p_share = if p_alone { r } else { alpha * r };
    let n_share = if n_alone { r } else { -beta * r };
    let p_epsilon = if p_alone { epsilon / alpha } else { epsilon };
    let n_epsilon = if n_alone { epsilon / beta } else { epsilon };
    let p_factor = p_share / (p + p_epsilon);
    let n_factor = n_share / (n - n_epsilon);
    (
        if p > 0.0 { p_factor } else { 0.0 },
        if n < 0.0 { n_factor } else { 0.0 },
    )
}

#[inline(always)]
fn gamma_factors(p: f32, n: f32, r: f32, gamma: f32, epsilon: f32) -> (f32, f32) {
    let z = p + n;
    let d = z + gamma * if z > 0.0 { p } else { n };
    // A sum of exactly zero has no sign to share by.
    let share = if z == 0.0 {
        0.0
    } else {
        stabilised(r, d, epsilon)
    };
    let larger = share * (1.0 + gamma);
    (
        if z > 0.0 { larger } else { share },
        if z < 0.0 { larger } else { share },
    )
}

/// `r / (x + epsilon sign(x))`, and 0 where `x` is.
#[inline(always)]
fn stabilised(r: f32, x: f32, epsilon: f32) -> f32 {
    let d = if x > 0.0 { x + epsilon } else { x - epsilon };
    if x == 0.0 { 0.0 } else { r / d }
}
