//! Rules as text: `alpha-beta:0.5`, `epsilon:1e-6`, `zplus`, ...

use std::fmt;
use std::str::FromStr;

use super::{EPSILON, Place, Preset, Rule};

/// Why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseRuleError {
    /// No rule has this name.
    #[error(
        "`{0}` is no rule; rules are alpha-beta:BETA, zplus, epsilon:EPS, gamma:GAMMA, \
         zbox:LOW,HIGH, flat, identity, gradient"
    )]
    Name(String),
    /// A parameter cannot be used.
    #[error("`{text}` in `{rule}`: {reason}")]
    Parameter {
        /// The whole rule.
        rule: String,
        /// The parameter.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No preset has this name.
    #[error("`{0}` is no preset; presets are {list}", list = presets())]
    Preset(String),
}

fn presets() -> String {
    Preset::ALL.map(Preset::name).join(", ")
}

impl FromStr for Rule {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<Rule, ParseRuleError> {
        let (name, parameters) = match text.split_once(':') {
            Some((name, parameters)) => (name, parameters.split(',').collect()),
            None => (text, Vec::new()),
        };
        let wrong = |text_: &str, reason| ParseRuleError::Parameter {
            rule: text.to_owned(),
            text: text_.to_owned(),
            reason,
        };
        let (keys, numbers): (Vec<&str>, Vec<&str>) =
            parameters.into_iter().partition(|p| p.contains('='));
        let mut rare = true;
        for key in keys {
            match (name, key) {
                ("alpha-beta", "rare=on") => rare = true,
                ("alpha-beta", "rare=off") => rare = false,
                _ => return Err(wrong(key, "no such option")),
            }
        }
        let given = numbers
            .iter()
            .map(|n| match n.trim().parse::<f32>() {
                Ok(x) if x.is_finite() => Ok(x),
                _ => Err(wrong(n, "not a number")),
            })
            .collect::<Result<Vec<f32>, _>>()?;
        // Every parameter has its place, a default or none, and a smallest value.
        let number = |i: usize, default: Option<f32>, at_least: f32| match given.get(i) {
            Some(&x) if x >= at_least => Ok(x),
            Some(_) => Err(wrong(numbers[i], "too small")),
            None => default.ok_or_else(|| wrong("", "a number is missing")),
        };
        let (rule, count) = match name {
            "alpha-beta" => {
                let beta = number(0, Some(0.5), 0.0)?;
                let epsilon = number(1, Some(EPSILON), 0.0)?;
                (
                    Rule::AlphaBeta {
                        beta,
                        epsilon,
                        rare,
                    },
                    2,
                )
            }
            "zplus" => {
                let epsilon = number(0, Some(EPSILON), 0.0)?;
                let (beta, rare) = (0.0, true);
                (
                    Rule::AlphaBeta {
                        beta,
                        epsilon,
                        rare,
                    },
                    1,
                )
            }
            "epsilon" => {
                let epsilon = number(0, Some(EPSILON), 0.0)?;
                (Rule::Epsilon { epsilon }, 1)
            }
            "gamma" => {
                let gamma = number(0, Some(0.25), 0.0)?;
                let epsilon = number(1, Some(EPSILON), 0.0)?;
                (Rule::Gamma { gamma, epsilon }, 2)
            }
            "zbox" => {
                let low = number(0, None, f32::MIN)?;
                let high = number(1, None, low)?;
                (Rule::ZBox { low, high }, 2)
            }
            "flat" => (Rule::Flat, 0),
            "identity" => (Rule::Identity, 0),
            "gradient" => {
                let epsilon = number(0, Some(EPSILON), 0.0)?;
                (Rule::Gradient { epsilon }, 1)
            }
            _ => return Err(ParseRuleError::Name(name.to_owned())),
        };
        match numbers.get(count) {
            Some(extra) => Err(wrong(extra, "one number too many")),
            None => Ok(rule),
        }
    }
}

/// The text that [`Rule::from_str`] reads back.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = |f: &mut fmt::Formatter<'_>, epsilon: f32| match epsilon == EPSILON {
            true => Ok(()),
            false => write!(f, ",{epsilon:e}"),
        };
        match self {
            Rule::AlphaBeta {
                beta,
                epsilon,
                rare,
            } => {
                write!(f, "alpha-beta:{beta}")?;
                second(f, *epsilon)?;
                f.write_str(if *rare { "" } else { ",rare=off" })
            }
            Rule::Epsilon { epsilon } => write!(f, "epsilon:{epsilon:e}"),
            Rule::Gamma { gamma, epsilon } => {
                write!(f, "gamma:{gamma}")?;
                second(f, *epsilon)
            }
            Rule::ZBox { low, high } => write!(f, "zbox:{low},{high}"),
            Rule::Flat => f.write_str("flat"),
            Rule::Identity => f.write_str("identity"),
            Rule::Gradient { epsilon } => write!(f, "gradient:{epsilon:e}"),
        }
    }
}

impl FromStr for Preset {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<Preset, ParseRuleError> {
        let named = Preset::ALL.into_iter().find(|p| p.name() == text);
        named.ok_or_else(|| ParseRuleError::Preset(text.to_owned()))
    }
}

impl FromStr for Place {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Place, Self::Err> {
        Ok(match text {
            "first" => Place::First,
            _ => Place::Named(text.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_written() {
        for (text, again) in [
            ("alpha-beta", "alpha-beta:0.5"),
            ("alpha-beta:1,1e-9,rare=off", "alpha-beta:1,1e-9,rare=off"),
            ("zplus", "alpha-beta:0"),
            ("epsilon", "epsilon:1e-6"),
            ("gamma:0.1", "gamma:0.1"),
            ("zbox:-1,1", "zbox:-1,1"),
            ("flat", "flat"),
            ("identity", "identity"),
            ("gradient", "gradient:1e-6"),
        ] {
            let rule: Rule = text.parse().unwrap();
            assert_eq!(rule.to_string(), again);
            assert_eq!(again.parse::<Rule>().unwrap(), rule);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("omega", "`omega` is no rule"),
            ("zbox:1", "a number is missing"),
            ("zbox:1,0", "`0` in `zbox:1,0`: too small"),
            ("alpha-beta:-1", "too small"),
            ("epsilon:nan", "not a number"),
            ("flat:1", "one number too many"),
            ("epsilon:1,rare=off", "no such option"),
        ] {
            let error = text.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
