//! `gamma:GAMMA`: between epsilon and zplus.

use std::fmt;

use npcov_graph::{OpError, ValueId};

use super::parse::{Spelling, write_epsilon};
use super::sharing::stabilised_quotient;
use super::{EPSILON, Rule, RuleFile, Sharing, SplitFactors};
use crate::append::Append;

/// As epsilon, with contributions of the sign of `z_j` enlarged by the factor `1 + gamma`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gamma {
    /// How much they are enlarged.
    pub gamma: f32,
    /// Stabilises the denominator.
    pub epsilon: f32,
}

pub(super) const SPELLING: Spelling = Spelling {
    name: "gamma",
    shown: "gamma:GAMMA",
    read: |parameters| {
        Ok(Rule::Gamma(Gamma {
            gamma: parameters.number(Some(0.25), 0.0)?,
            epsilon: parameters.number(Some(EPSILON), 0.0)?,
        }))
    },
};

impl fmt::Display for Gamma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gamma:{}", self.gamma)?;
        write_epsilon(f, self.epsilon)
    }
}

impl RuleFile for Gamma {
    fn sharing(&self) -> Sharing<'_> {
        Sharing::Split {
            negative: true,
            rule: self,
        }
    }
}

impl SplitFactors for Gamma {
    fn factors(
        &self,
        g: &mut Append<'_>,
        p: ValueId,
        n: Option<ValueId>,
        r: ValueId,
    ) -> Result<(ValueId, Option<ValueId>), OpError> {
        let n = n.ok_or_else(|| OpError::invalid("negative contributions are not summed"))?;
        let z = g.add(p, n)?;
        let (is_p, is_n) = (g.is_positive(z)?, g.is_negative(z)?);
        let enlarged = g.choose(is_p, p, n)?;
        let enlarged = g.times(enlarged, self.gamma)?;
        let d = g.add(z, enlarged)?;
        let share = stabilised_quotient(g, r, d, self.epsilon)?;
        let larger = g.times(share, 1.0 + self.gamma)?;
        // A sum of exactly zero has no sign to share by.
        let (kept_n, kept_p) = (g.keep(is_n, share)?, g.keep(is_p, share)?);
        Ok((
            g.choose(is_p, larger, kept_n)?,
            Some(g.choose(is_n, larger, kept_p)?),
        ))
    }
}
