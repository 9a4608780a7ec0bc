//! `zbox:LOW,HIGH`: for the first layer, whose inputs have bounds.

use std::fmt;

use npcov_graph::{OpError, ValueId};

use super::parse::Spelling;
use super::sharing::{OwnStep, stabilised_quotient};
use super::{EPSILON, Rule, RuleFile, Sharing};
use crate::append::Append;
use crate::linear::{Linear, WeightPart};
use crate::relevance::{LinearInputs, or_zeros, sum};

/// For inputs that are known to lie between two bounds: contributions are those of the difference
/// to the bound that lowers the output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ZBox {
    /// Smallest possible input.
    pub low: f32,
    /// Largest possible input.
    pub high: f32,
}

pub(super) const SPELLING: Spelling = Spelling {
    name: "zbox",
    shown: "zbox:LOW,HIGH",
    read: |parameters| {
        let low = parameters.number(None, f32::MIN)?;
        let high = parameters.number(None, low)?;
        Ok(Rule::ZBox(ZBox { low, high }))
    },
};

impl fmt::Display for ZBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zbox:{},{}", self.low, self.high)
    }
}

impl RuleFile for ZBox {
    fn sharing(&self) -> Sharing<'_> {
        Sharing::Own(self)
    }
}

impl OwnStep for ZBox {
    /// Contributions `w x - w+ low - w- high`, none of which is negative.
    fn linear(
        &self,
        g: &mut Append<'_>,
        linear: &Linear,
        inputs: &LinearInputs,
    ) -> Result<ValueId, OpError> {
        let LinearInputs { x, r, weight, .. } = *inputs;
        let shape = g.shape(x);
        let (low, high) = (g.filled(&shape, -self.low)?, g.filled(&shape, -self.high)?);
        let terms = [
            (WeightPart::All, x),
            (WeightPart::Positive, low),
            (WeightPart::Negative, high),
        ];
        let mut z = None;
        for (part, x) in terms {
            let y = linear.forward(g, part, x, weight)?;
            z = sum(g, z, y)?;
        }
        let z = z.ok_or_else(|| OpError::invalid("an operator without weights"))?;
        let factor = stabilised_quotient(g, r, z, EPSILON)?;
        let mut relevance = None;
        for (part, x) in terms {
            if part == WeightPart::Negative && !linear.has_negative_weights() {
                continue;
            }
            let sums = linear.adjoint(g, part, factor, weight, &shape)?;
            let share = g.mul(x, sums)?;
            relevance = sum(g, relevance, Some(share))?;
        }
        or_zeros(g, relevance, &shape)
    }

    /// What is added up inside of a network has no bounds.
    fn addend(&self, _: &mut Append<'_>, _: ValueId) -> Result<Option<ValueId>, OpError> {
        Ok(None)
    }
}
