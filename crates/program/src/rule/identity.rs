//! `identity`: the input gets the output's relevance, element by element.

use std::fmt;

use npcov_graph::OpError;

use super::parse::Spelling;
use super::sharing::NamedStep;
use super::{Rule, RuleFile, Sharing};
use crate::append::Append;
use crate::op::{self, Shares, Step};

/// The rule has no parameters.
pub(super) struct Identity;

pub(super) const SPELLING: Spelling = Spelling {
    name: "identity",
    shown: "identity",
    read: |_| Ok(Rule::Identity),
};

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("identity")
    }
}

impl RuleFile for Identity {
    fn sharing(&self) -> Sharing<'_> {
        Sharing::Named(self)
    }
}

impl NamedStep for Identity {
    fn relevance(&self, _: &mut Append<'_>, step: &Step<'_>) -> Result<Shares, OpError> {
        op::identity(step)
    }
}
