//! `gradient:EPS`: gradient times input of one operator, for those that no other rule fits.

use std::fmt;

use npcov_graph::OpError;

use super::parse::Spelling;
use super::sharing::{NamedStep, stabilised_quotient};
use super::{EPSILON, Rule, RuleFile, Sharing};
use crate::append::Append;
use crate::op::{self, Shares, Step};

/// Gradient times input of this operator alone, as a share of the output:
/// `x_i sum_j (dy_j/dx_i) R_j / (y_j + epsilon sign(y_j))`, divided by the number of inputs that
/// share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gradient {
    /// Stabilises the denominator.
    pub epsilon: f32,
}

pub(super) const SPELLING: Spelling = Spelling {
    name: "gradient",
    shown: "gradient",
    read: |parameters| {
        Ok(Rule::Gradient(Gradient {
            epsilon: parameters.number(Some(EPSILON), 0.0)?,
        }))
    },
};

impl fmt::Display for Gradient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gradient:{:e}", self.epsilon)
    }
}

impl RuleFile for Gradient {
    fn sharing(&self) -> Sharing<'_> {
        Sharing::Named(self)
    }
}

impl NamedStep for Gradient {
    fn relevance(&self, g: &mut Append<'_>, step: &Step<'_>) -> Result<Shares, OpError> {
        let factor = stabilised_quotient(g, step.cotangent, step.node.output, self.epsilon)?;
        let local = Step {
            cotangent: factor,
            ..*step
        };
        let shares = op::adjoint(g, &local)?;
        let count = shares.len().max(1) as f32;
        shares
            .into_iter()
            .map(|(i, gradient)| {
                let share = g.mul(step.input(i), gradient)?;
                Ok((i, g.times(share, 1.0 / count)?))
            })
            .collect()
    }
}
