//! Relevance rules: how a linear operator shares the relevance of its output among its inputs.
//!
//! An output unit `j` of a linear operator is a sum of contributions, `z_j = sum_i c_ij` with
//! `c_ij = w_ij x_i`. A rule says which share of the relevance `R_j` each contribution gets.

mod parse;
mod set;

pub use parse::ParseRuleError;
pub(crate) use set::first_layers;
pub use set::{BatchNorm, Place, Preset, Rules};

use npcov_graph::{OpError, ValueId};

use crate::append::Append;

/// What stabilises denominators unless a rule says otherwise.
pub const EPSILON: f32 = 1e-6;

/// How relevance is shared among contributions. `P_j` is the sum of the positive contributions to
/// unit `j`, `N_j` the sum of the negative ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// `R_j [(1 + beta) c+ / (P_j + epsilon) - beta c- / (N_j - epsilon)]`. With `beta = 0` only
    /// positive contributions count.
    AlphaBeta {
        /// Weight of the negative contributions.
        beta: f32,
        /// Stabilises the denominators.
        epsilon: f32,
        /// Whether a unit with contributions of one sign only shares its relevance among those
        /// in full; else they get `1 + beta` or `-beta` of it.
        rare: bool,
    },
    /// `R_j c / (z_j + epsilon sign(z_j))`.
    Epsilon {
        /// Stabilises the denominator.
        epsilon: f32,
    },
    /// As epsilon, with contributions of the sign of `z_j` enlarged by the factor `1 + gamma`.
    Gamma {
        /// How much they are enlarged.
        gamma: f32,
        /// Stabilises the denominator.
        epsilon: f32,
    },
    /// For inputs that are known to lie between two bounds: contributions are those of the
    /// difference to the bound that lowers the output.
    ZBox {
        /// Smallest possible input.
        low: f32,
        /// Largest possible input.
        high: f32,
    },
    /// All inputs of a unit get the same.
    Flat,
    /// The input gets the output's relevance, element by element.
    Identity,
    /// Gradient times input of this operator alone, as a share of the output:
    /// `x_i sum_j (dy_j/dx_i) R_j / (y_j + epsilon sign(y_j))`, divided by the number of inputs
    /// that share.
    Gradient {
        /// Stabilises the denominator.
        epsilon: f32,
    },
}

impl Rule {
    /// The rule of neuron path coverage: alpha-beta with 1.5 and 0.5.
    pub const NPC: Rule = Rule::alpha_beta(0.5);

    /// The alpha-beta rule with `alpha = 1 + beta` and exact treatment of rare units.
    pub const fn alpha_beta(beta: f32) -> Rule {
        Rule::AlphaBeta {
            beta,
            epsilon: EPSILON,
            rare: true,
        }
    }

    /// The z+ rule: only positive contributions count.
    pub const Z_PLUS: Rule = Rule::alpha_beta(0.0);
}

/// Whether a bias takes its share of relevance, which is then lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bias {
    /// It takes none: relevance is conserved.
    #[default]
    Ignore,
    /// It counts as a contribution of its sign.
    Absorb,
}

/// The sums of contributions that a rule divides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// Positive and negative contributions apart.
    Split {
        /// Whether the negative ones matter.
        negative: bool,
    },
    /// All contributions together.
    Whole,
}

impl Rule {
    /// Which sums the rule divides by; `None` for those that do not divide by sums of
    /// contributions.
    pub fn sums(&self) -> Option<Sums> {
        match self {
            Rule::AlphaBeta { beta, .. } => Some(Sums::Split {
                negative: *beta != 0.0,
            }),
            Rule::Gamma { .. } => Some(Sums::Split { negative: true }),
            Rule::Epsilon { .. } => Some(Sums::Whole),
            Rule::ZBox { .. } | Rule::Flat | Rule::Identity | Rule::Gradient { .. } => None,
        }
    }

    /// What positive and negative contributions are multiplied by, given their sums `p` and `n`
    /// and the unit's relevance. Without `n`, negative contributions get nothing.
    pub(crate) fn split_factors(
        &self,
        g: &mut Append<'_>,
        p: ValueId,
        n: Option<ValueId>,
        r: ValueId,
    ) -> Result<(ValueId, Option<ValueId>), OpError> {
        match (self, n) {
            (Rule::AlphaBeta { epsilon, .. }, None) => {
                let share = quotient(g, r, p, *epsilon)?;
                let is_p = g.is_positive(p)?;
                Ok((g.keep(is_p, share)?, None))
            }
            (
                Rule::AlphaBeta {
                    beta,
                    epsilon,
                    rare,
                },
                Some(n),
            ) => {
                let alpha = 1.0 + beta;
                let share = quotient(g, r, p, *epsilon)?;
                let mut p_factor = g.times(share, alpha)?;
                let share = quotient(g, r, n, -epsilon)?;
                let mut n_factor = g.times(share, -beta)?;
                let (is_p, is_n) = (g.is_positive(p)?, g.is_negative(n)?);
                if *rare {
                    let alone = quotient(g, r, p, epsilon / alpha)?;
                    p_factor = g.choose(is_n, p_factor, alone)?;
                    let alone = quotient(g, r, n, -epsilon / beta)?;
                    n_factor = g.choose(is_p, n_factor, alone)?;
                }
                Ok((g.keep(is_p, p_factor)?, Some(g.keep(is_n, n_factor)?)))
            }
            (Rule::Gamma { gamma, epsilon }, Some(n)) => {
                let z = g.add(p, n)?;
                let (is_p, is_n) = (g.is_positive(z)?, g.is_negative(z)?);
                let enlarged = g.choose(is_p, p, n)?;
                let enlarged = g.times(enlarged, *gamma)?;
                let d = g.add(z, enlarged)?;
                let share = stabilised_quotient(g, r, d, *epsilon)?;
                let larger = g.times(share, 1.0 + gamma)?;
                // A sum of exactly zero has no sign to share by.
                let (kept_n, kept_p) = (g.keep(is_n, share)?, g.keep(is_p, share)?);
                Ok((
                    g.choose(is_p, larger, kept_n)?,
                    Some(g.choose(is_n, larger, kept_p)?),
                ))
            }
            _ => Err(OpError::invalid("a rule without split sums")),
        }
    }

    /// What all contributions are multiplied by, given their sum and the unit's relevance.
    pub(crate) fn whole_factor(
        &self,
        g: &mut Append<'_>,
        z: ValueId,
        r: ValueId,
    ) -> Result<ValueId, OpError> {
        match self {
            Rule::Epsilon { epsilon } | Rule::Gradient { epsilon } => {
                stabilised_quotient(g, r, z, *epsilon)
            }
            _ => Err(OpError::invalid("a rule without a whole sum")),
        }
    }
}

/// `r / (x + epsilon)`.
fn quotient(g: &mut Append<'_>, r: ValueId, x: ValueId, epsilon: f32) -> Result<ValueId, OpError> {
    let d = g.plus(x, epsilon)?;
    g.div(r, d)
}

/// `r / (x + epsilon sign(x))`, and 0 where `x` is.
fn stabilised_quotient(
    g: &mut Append<'_>,
    r: ValueId,
    x: ValueId,
    epsilon: f32,
) -> Result<ValueId, OpError> {
    let (is_p, is_n) = (g.is_positive(x)?, g.is_negative(x)?);
    let (above, below) = (quotient(g, r, x, epsilon)?, quotient(g, r, x, -epsilon)?);
    let below = g.keep(is_n, below)?;
    g.choose(is_p, above, below)
}
