//! `alpha-beta:BETA` and `zplus`: support and contradiction apart.

use std::fmt;

use npcov_graph::{OpError, ValueId};

use super::parse::{Spelling, write_epsilon};
use super::sharing::quotient;
use super::{EPSILON, Rule, RuleFile, Sharing, SplitFactors};
use crate::append::Append;

/// `R_j [(1 + beta) c+ / (P_j + epsilon) - beta c- / (N_j - epsilon)]`, `P_j` and `N_j` being the
/// sums of the positive and of the negative contributions to unit `j`. With `beta = 0` only positive
/// contributions count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlphaBeta {
    /// Weight of the negative contributions.
    pub beta: f32,
    /// Stabilises the denominators.
    pub epsilon: f32,
    /// Whether a unit with contributions of one sign only shares its relevance among those in
    /// full; else they get `1 + beta` or `-beta` of it.
    pub rare: bool,
}

impl Rule {
    /// The rule of neuron path coverage: alpha-beta with 1.5 and 0.5.
    pub const NPC: Rule = Rule::alpha_beta(0.5);

    /// The z+ rule: only positive contributions count.
    pub const Z_PLUS: Rule = Rule::alpha_beta(0.0);

    /// The alpha-beta rule with `alpha = 1 + beta` and exact treatment of rare units.
    pub const fn alpha_beta(beta: f32) -> Rule {
        Rule::AlphaBeta(AlphaBeta {
            beta,
            epsilon: EPSILON,
            rare: true,
        })
    }
}

pub(super) const SPELLING: Spelling = Spelling {
    name: "alpha-beta",
    shown: "alpha-beta:BETA",
    read: |parameters| {
        Ok(Rule::AlphaBeta(AlphaBeta {
            beta: parameters.number(Some(0.5), 0.0)?,
            epsilon: parameters.number(Some(EPSILON), 0.0)?,
            rare: parameters.flag("rare", true),
        }))
    },
};

pub(super) const Z_PLUS_SPELLING: Spelling = Spelling {
    name: "zplus",
    shown: "zplus",
    read: |parameters| {
        Ok(Rule::AlphaBeta(AlphaBeta {
            beta: 0.0,
            epsilon: parameters.number(Some(EPSILON), 0.0)?,
            rare: true,
        }))
    },
};

impl fmt::Display for AlphaBeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "alpha-beta:{}", self.beta)?;
        write_epsilon(f, self.epsilon)?;
        f.write_str(if self.rare { "" } else { ",rare=off" })
    }
}

impl RuleFile for AlphaBeta {
    fn sharing(&self) -> Sharing<'_> {
        Sharing::Split {
            negative: self.beta != 0.0,
            rule: self,
        }
    }
}

impl SplitFactors for AlphaBeta {
    fn factors(
        &self,
        g: &mut Append<'_>,
        p: ValueId,
        n: Option<ValueId>,
        r: ValueId,
    ) -> Result<(ValueId, Option<ValueId>), OpError> {
        let AlphaBeta {
            beta,
            epsilon,
            rare,
        } = *self;
        let share = quotient(g, r, p, epsilon)?;
        let Some(n) = n else {
            let is_p = g.is_positive(p)?;
            return Ok((g.keep(is_p, share)?, None));
        };
        let alpha = 1.0 + beta;
        let mut p_factor = g.times(share, alpha)?;
        let share = quotient(g, r, n, -epsilon)?;
        let mut n_factor = g.times(share, -beta)?;
        let (is_p, is_n) = (g.is_positive(p)?, g.is_negative(n)?);
        if rare {
            let alone = quotient(g, r, p, epsilon / alpha)?;
            p_factor = g.choose(is_n, p_factor, alone)?;
            let alone = quotient(g, r, n, -epsilon / beta)?;
            n_factor = g.choose(is_p, n_factor, alone)?;
        }
        Ok((g.keep(is_p, p_factor)?, Some(g.keep(is_n, n_factor)?)))
    }
}
