//! Relevance rules: how an operator shares the relevance of its output among its inputs.
//!
//! An output unit `j` of a linear operator is a sum of contributions, `z_j = sum_i c_ij` with
//! `c_ij = w_ij x_i`. A rule says which share of the relevance `R_j` each contribution gets.
//!
//! All that a rule is stands in a file of its own: its parameters, how it is read and written, and
//! its step, in one of the ways of [`Sharing`]. This file lists the rules.

mod alpha_beta;
mod epsilon;
mod flat;
mod gamma;
mod gradient;
mod identity;
mod parse;
mod set;
mod sharing;
mod z_box;

pub use alpha_beta::AlphaBeta;
pub use epsilon::Epsilon;
pub use gamma::Gamma;
pub use gradient::Gradient;
pub use parse::ParseRuleError;
pub(crate) use set::first_layers;
pub use set::{BatchNorm, Bias, Place, Preset, Rules};
pub(crate) use sharing::{Sharing, SplitFactors, WholeFactor};
pub use z_box::ZBox;

use std::fmt;

use flat::Flat;
use identity::Identity;
use parse::Spelling;

/// What stabilises denominators unless a rule says otherwise.
pub const EPSILON: f32 = 1e-6;

/// How relevance is shared among contributions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Positive and negative contributions share apart.
    AlphaBeta(AlphaBeta),
    /// All contributions share by their part in the sum.
    Epsilon(Epsilon),
    /// As epsilon, with contributions of the sum's sign enlarged.
    Gamma(Gamma),
    /// For inputs that are known to lie between two bounds.
    ZBox(ZBox),
    /// All inputs of a unit get the same.
    Flat,
    /// The input gets the output's relevance, element by element.
    Identity,
    /// Gradient times input of this operator alone, as a share of its output.
    Gradient(Gradient),
}

/// Each way to write a rule, in the order in which people are told of them.
const SPELLINGS: [Spelling; 8] = [
    alpha_beta::SPELLING,
    alpha_beta::Z_PLUS_SPELLING,
    epsilon::SPELLING,
    gamma::SPELLING,
    z_box::SPELLING,
    flat::SPELLING,
    identity::SPELLING,
    gradient::SPELLING,
];

/// What the file of a rule says of it, besides the text that it is written as.
trait RuleFile: fmt::Display {
    fn sharing(&self) -> Sharing<'_>;
}

impl Rule {
    fn file(&self) -> &dyn RuleFile {
        match self {
            Rule::AlphaBeta(rule) => rule,
            Rule::Epsilon(rule) => rule,
            Rule::Gamma(rule) => rule,
            Rule::ZBox(rule) => rule,
            Rule::Flat => &Flat,
            Rule::Identity => &Identity,
            Rule::Gradient(rule) => rule,
        }
    }

    /// How the rule shares.
    pub(crate) fn sharing(&self) -> Sharing<'_> {
        self.file().sharing()
    }

    /// Which sums the rule divides by; `None` for those that do not divide by sums of
    /// contributions.
    pub fn sums(&self) -> Option<Sums> {
        match self.sharing() {
            Sharing::Split { negative, .. } => Some(Sums::Split { negative }),
            Sharing::Whole(_) => Some(Sums::Whole),
            Sharing::Own(_) | Sharing::Named(_) => None,
        }
    }
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

/// The text that [`Rule::from_str`](std::str::FromStr::from_str) reads back.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file().fmt(f)
    }
}
