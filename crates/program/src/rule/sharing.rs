//! The ways in which rules share relevance. Each rule takes one of them.

use npcov_graph::{OpError, ValueId};

use crate::append::Append;
use crate::linear::Linear;
use crate::op::{Shares, Step};
use crate::relevance::LinearInputs;

/// How a rule comes from the relevance of units to that of their contributions.
pub(crate) enum Sharing<'r> {
    /// Positive and negative contributions are summed apart and multiplied by factors of their own.
    Split {
        /// Whether negative contributions get anything.
        negative: bool,
        /// Makes the factors.
        rule: &'r dyn SplitFactors,
    },
    /// All contributions are summed and multiplied by one factor.
    Whole(&'r dyn WholeFactor),
    /// Linear operators have a step of the rule's own.
    Own(&'r dyn OwnStep),
    /// The rule is for operators that it is named for, linear or not.
    Named(&'r dyn NamedStep),
}

pub(crate) trait SplitFactors {
    /// What positive and negative contributions are multiplied by, given their sums `p` and `n`
    /// and the unit's relevance. Without `n`, negative contributions get nothing.
    fn factors(
        &self,
        g: &mut Append<'_>,
        p: ValueId,
        n: Option<ValueId>,
        r: ValueId,
    ) -> Result<(ValueId, Option<ValueId>), OpError>;
}

pub(crate) trait WholeFactor {
    /// What all contributions are multiplied by, given their sum and the unit's relevance.
    fn factor(&self, g: &mut Append<'_>, z: ValueId, r: ValueId) -> Result<ValueId, OpError>;
}

pub(crate) trait OwnStep {
    /// The relevance of a linear operator's input.
    fn linear(
        &self,
        g: &mut Append<'_>,
        linear: &Linear,
        inputs: &LinearInputs,
    ) -> Result<ValueId, OpError>;

    /// What each of two values gets whose sum has the relevance `r`; `None` when the rule does not
    /// say.
    fn addend(&self, g: &mut Append<'_>, r: ValueId) -> Result<Option<ValueId>, OpError>;
}

pub(crate) trait NamedStep {
    /// The relevance of an operator's inputs.
    fn relevance(&self, g: &mut Append<'_>, step: &Step<'_>) -> Result<Shares, OpError>;
}

/// `r / (x + epsilon)`.
pub(super) fn quotient(
    g: &mut Append<'_>,
    r: ValueId,
    x: ValueId,
    epsilon: f32,
) -> Result<ValueId, OpError> {
    let d = g.plus(x, epsilon)?;
    g.div(r, d)
}

/// `r / (x + epsilon sign(x))`, and 0 where `x` is.
pub(super) fn stabilised_quotient(
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
