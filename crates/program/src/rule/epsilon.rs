//! `epsilon:EPS`: each contribution by its part in the sum.

use std::fmt;

use npcov_graph::{OpError, ValueId};

use super::parse::Spelling;
use super::sharing::stabilised_quotient;
use super::{EPSILON, Rule, RuleFile, Sharing, WholeFactor};
use crate::append::Append;

/// `R_j c / (z_j + epsilon sign(z_j))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epsilon {
    /// Stabilises the denominator.
    pub epsilon: f32,
}

impl Rule {
    /// The epsilon rule.
    pub const fn epsilon(epsilon: f32) -> Rule {
        Rule::Epsilon(Epsilon { epsilon })
    }
}

pub(super) const SPELLING: Spelling = Spelling {
    name: "epsilon",
    shown: "epsilon:EPS",
    read: |parameters| Ok(Rule::epsilon(parameters.number(Some(EPSILON), 0.0)?)),
};

impl fmt::Display for Epsilon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epsilon:{:e}", self.epsilon)
    }
}

impl RuleFile for Epsilon {
    fn sharing(&self) -> Sharing<'_> {
        Sharing::Whole(self)
    }
}

impl WholeFactor for Epsilon {
    fn factor(&self, g: &mut Append<'_>, z: ValueId, r: ValueId) -> Result<ValueId, OpError> {
        stabilised_quotient(g, r, z, self.epsilon)
    }
}
