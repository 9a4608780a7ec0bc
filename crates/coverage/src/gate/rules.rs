//! Rules with numbers, as they are written: what a suite must reach, and how much it may lose.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a suite must reach: `snpc=0.05`, `snpc=5%`, `snpc=0.8*random`.
#[derive(Clone, Debug, PartialEq)]
pub struct Floor {
    /// The criterion, or `accuracy`.
    pub criterion: String,
    /// At least this.
    pub bound: Bound,
}

/// A number, or part of what other inputs reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// A number.
    Value(f64),
    /// So many times what a random sample of as many training inputs covers.
    Random(f64),
    /// So many times what the training inputs cover.
    Training(f64),
}

/// How much a criterion may drop: `0.01`, `snpc=0.01`.
#[derive(Clone, Debug, PartialEq)]
pub struct Allowance {
    /// The criterion, or `accuracy`; `None` for all that are a share.
    pub criterion: Option<String>,
    /// At most by this.
    pub most: f64,
}

/// Why a rule cannot be understood or applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// It is not written as a rule about what a suite must reach.
    #[error("`{0}` is no rule; write `snpc=0.05`, `snpc=5%` or `snpc=0.8*random`")]
    Floor(String),
    /// It is not written as a rule about drops.
    #[error("`{0}` is no drop; write `0.01`, `1%` or `snpc=0.01`")]
    Allowance(String),
    /// The suites were not measured by the criterion.
    #[error("`{criterion}` was not measured; there are {}", .has.join(", "))]
    Unknown {
        /// The criterion.
        criterion: String,
        /// Those that can be named.
        has: Vec<String>,
    },
    /// The earlier state was measured by another list of criteria.
    #[error("`{criterion}` cannot be compared: the earlier state was not measured by it in the same way; both have {}", .has.join(", "))]
    NotCompared {
        /// The criterion.
        criterion: String,
        /// Those that can be compared.
        has: Vec<String>,
    },
    /// A share can be no more than 1.
    #[error("`{criterion}` is a share and cannot reach {bound}: write 5 % as `0.05` or `5%`")]
    Share {
        /// The criterion.
        criterion: String,
        /// What it was to reach.
        bound: String,
    },
    /// There is nothing that the criterion's value could be held against.
    #[error("`{criterion}` has no yardstick; there are some for {}", .has.join(", "))]
    NoBaseline {
        /// The criterion.
        criterion: String,
        /// Those that have.
        has: Vec<String>,
    },
    /// The suite is larger than any sample of the training inputs.
    #[error(
        "suite `{suite}` has {inputs} inputs, and no sample of the {training} training inputs that were measured for `{criterion}` is as large"
    )]
    NoSample {
        /// The suite.
        suite: String,
        /// The criterion.
        criterion: String,
        /// Its number of inputs.
        inputs: usize,
        /// How many training inputs were measured.
        training: u64,
        /// How many training inputs there are.
        all_training: u64,
    },
    /// What each input covers is not kept, so nobody can tell what is chance.
    #[error("`{criterion}` does not keep what each input covers, so nobody can tell a loss from chance; there are {}", .has.join(", "))]
    NoSpread {
        /// The criterion.
        criterion: String,
        /// Those that do.
        has: Vec<String>,
    },
    /// Without labels there is no accuracy.
    #[error("suite `{0}` has no labels, and without them there is no accuracy")]
    NoLabels(String),
    /// There is no earlier state.
    #[error("there is no earlier state that anything could have dropped from")]
    NothingEarlier,
}

/// A number from 0 on: `0.05`, `5%`.
fn amount(text: &str) -> Option<f64> {
    let text = text.trim();
    let number: f64 = match text.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// A criterion and what is said of it. Options of criteria have an equals sign too.
fn named(text: &str) -> Option<(String, &str)> {
    let (name, rest) = text.rsplit_once('=')?;
    let name = name.trim().to_ascii_lowercase();
    (!name.is_empty()).then_some((name, rest))
}

impl FromStr for Bound {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Bound, ConditionError> {
        let wrong = || ConditionError::Floor(text.to_owned());
        let (factor, base) = match text.rsplit_once('*') {
            Some((factor, base)) => (amount(factor).ok_or_else(wrong)?, base.trim()),
            None => (1.0, text.trim()),
        };
        match base {
            "random" => Ok(Bound::Random(factor)),
            "training" => Ok(Bound::Training(factor)),
            _ => amount(text).map(Bound::Value).ok_or_else(wrong),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Value(value) => write!(f, "{value}"),
            Bound::Random(factor) => write!(f, "{factor}*random"),
            Bound::Training(factor) => write!(f, "{factor}*training"),
        }
    }
}

impl FromStr for Floor {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Floor, ConditionError> {
        let wrong = || ConditionError::Floor(text.to_owned());
        let (criterion, bound) = named(text).ok_or_else(wrong)?;
        let bound = bound.parse().map_err(|_| wrong())?;
        Ok(Floor { criterion, bound })
    }
}

impl FromStr for Allowance {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Allowance, ConditionError> {
        let (criterion, most) = match named(text) {
            Some((criterion, most)) => (Some(criterion), most),
            None => (None, text),
        };
        let most = amount(most).ok_or_else(|| ConditionError::Allowance(text.to_owned()))?;
        Ok(Allowance { criterion, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rules_are_written_in_several_ways() {
        for (text, criterion, bound) in [
            ("snpc=0.05", "snpc", Bound::Value(0.05)),
            ("SNPC = 5 %", "snpc", Bound::Value(0.05)),
            ("tknp=50", "tknp", Bound::Value(50.0)),
            ("snpc=0.8*random", "snpc", Bound::Random(0.8)),
            ("snpc=80% * training", "snpc", Bound::Training(0.8)),
            ("nc@0.5=random", "nc@0.5", Bound::Random(1.0)),
            (
                "kmnc:sections=10=0.4",
                "kmnc:sections=10",
                Bound::Value(0.4),
            ),
        ] {
            let criterion = criterion.to_owned();
            assert_eq!(text.parse(), Ok(Floor { criterion, bound }), "{text}");
        }
        for wrong in [
            "",
            "snpc",
            "0.05",
            "snpc=",
            "=0.05",
            "snpc=x",
            "snpc=-1",
            "snpc=nan",
            "snpc=inf",
            "snpc=0.8*",
            "snpc=*random",
            "snpc=0.8*rnd",
            "snpc=random*0.8",
            "snpc=%",
        ] {
            assert!(wrong.parse::<Floor>().is_err(), "{wrong}");
        }
        for (text, criterion, most) in [
            ("0.01", None, 0.01),
            ("1%", None, 0.01),
            ("snpc=0", Some("snpc"), 0.0),
        ] {
            let criterion = criterion.map(str::to_owned);
            assert_eq!(text.parse(), Ok(Allowance { criterion, most }), "{text}");
        }
        for wrong in ["", "snpc", "snpc=", "=1", "-0.01", "0.5*random"] {
            assert!(wrong.parse::<Allowance>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn bounds_are_read_as_they_are_written(number in 0.0..1e6_f64, kind in 0..3) {
            let bound = [Bound::Value, Bound::Random, Bound::Training][kind as usize](number);
            prop_assert_eq!(bound.to_string().parse(), Ok(bound));
        }

        #[test]
        fn any_text_is_a_rule_or_an_error(text in "[a-z@:=*%0-9., -]{0,12}") {
            if let Ok(floor) = text.parse::<Floor>() {
                let again = format!("{}={}", floor.criterion, floor.bound);
                prop_assert_eq!(again.parse(), Ok(floor));
            }
            if let Ok(allowance) = text.parse::<Allowance>() {
                prop_assert!(allowance.most.is_finite() && allowance.most >= 0.0);
            }
        }
    }
}
