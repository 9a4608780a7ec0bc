//! `flat`: all inputs of a unit get the same.

use std::fmt;

use npcov_graph::{OpError, ValueId};

use super::parse::Spelling;
use super::sharing::OwnStep;
use super::{Rule, RuleFile, Sharing};
use crate::append::Append;
use crate::linear::{Linear, WeightPart};
use crate::relevance::LinearInputs;

/// The rule has no parameters.
pub(super) struct Flat;

pub(super) const SPELLING: Spelling = Spelling {
    name: "flat",
    shown: "flat",
    read: |_| Ok(Rule::Flat),
};

impl fmt::Display for Flat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("flat")
    }
}

impl RuleFile for Flat {
    fn sharing(&self) -> Sharing<'_> {
        Sharing::Own(self)
    }
}

impl OwnStep for Flat {
    /// As many equal shares as a unit has inputs.
    fn linear(
        &self,
        g: &mut Append<'_>,
        linear: &Linear,
        inputs: &LinearInputs,
    ) -> Result<ValueId, OpError> {
        let LinearInputs { x, r, weight, .. } = *inputs;
        let shape = g.shape(x);
        let ones = g.filled(&shape, 1.0)?;
        let count = linear.forward(g, WeightPart::Ones, ones, weight)?;
        let count = count.ok_or_else(|| OpError::invalid("an operator without weights"))?;
        let is_p = g.is_positive(count)?;
        let share = g.div(r, count)?;
        let share = g.keep(is_p, share)?;
        linear.adjoint(g, WeightPart::Ones, share, weight, &shape)
    }

    fn addend(&self, g: &mut Append<'_>, r: ValueId) -> Result<Option<ValueId>, OpError> {
        g.times(r, 0.5).map(Some)
    }
}
