//! Rules as text: `alpha-beta:0.5`, `epsilon:1e-6`, `zplus`, ...

use std::fmt;
use std::str::FromStr;

use super::{EPSILON, Place, Preset, Rule, SPELLINGS};

/// Why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseRuleError {
    /// No rule has this name.
    #[error("`{0}` is no rule; rules are {list}", list = rules())]
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

fn rules() -> String {
    SPELLINGS.map(|spelling| spelling.shown).join(", ")
}

fn presets() -> String {
    Preset::ALL.map(Preset::name).join(", ")
}

/// A way to write a rule: its name, a colon and numbers with commas between them, of which those
/// with a default may be left out.
pub(super) struct Spelling {
    pub(super) name: &'static str,
    /// The name with the parameters that people should think of.
    pub(super) shown: &'static str,
    /// Takes the rule's parameters.
    pub(super) read: fn(&mut Parameters<'_>) -> Result<Rule, ParseRuleError>,
}

/// What stands behind a rule's name.
pub(super) struct Parameters<'t> {
    /// The whole text.
    rule: &'t str,
    /// Numbers that were not taken yet, the last one first.
    numbers: Vec<&'t str>,
    /// Options that were not taken yet: `name=value`.
    options: Vec<&'t str>,
}

impl<'t> Parameters<'t> {
    fn new(rule: &'t str, parameters: Option<&'t str>) -> Parameters<'t> {
        let parameters = parameters.into_iter().flat_map(|text| text.split(','));
        let (options, mut numbers): (Vec<&str>, Vec<&str>) =
            parameters.partition(|p| p.contains('='));
        numbers.reverse();
        Parameters {
            rule,
            numbers,
            options,
        }
    }

    fn wrong(&self, text: &str, reason: &'static str) -> ParseRuleError {
        ParseRuleError::Parameter {
            rule: self.rule.to_owned(),
            text: text.to_owned(),
            reason,
        }
    }

    /// The next number, which may not be smaller than `at_least`; where there is none, the default,
    /// if the parameter has one.
    pub(super) fn number(
        &mut self,
        default: Option<f32>,
        at_least: f32,
    ) -> Result<f32, ParseRuleError> {
        let Some(text) = self.numbers.pop() else {
            return default.ok_or_else(|| self.wrong("", "a number is missing"));
        };
        match text.trim().parse::<f32>() {
            Ok(x) if x.is_finite() && x >= at_least => Ok(x),
            Ok(x) if x.is_finite() => Err(self.wrong(text, "too small")),
            _ => Err(self.wrong(text, "not a number")),
        }
    }

    /// The option `name=on` or `name=off`, the last one if there are several.
    pub(super) fn flag(&mut self, name: &str, default: bool) -> bool {
        let mut value = default;
        self.options.retain(|option| {
            let given = option.split_once('=').filter(|(key, _)| *key == name);
            match given {
                Some((_, "on")) => value = true,
                Some((_, "off")) => value = false,
                _ => return true,
            }
            false
        });
        value
    }

    /// An error when something was not taken.
    fn finish(&self) -> Result<(), ParseRuleError> {
        match (self.options.first(), self.numbers.last()) {
            (Some(option), _) => Err(self.wrong(option, "no such option")),
            (None, Some(extra)) => Err(self.wrong(extra, "one number too many")),
            (None, None) => Ok(()),
        }
    }
}

impl FromStr for Rule {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<Rule, ParseRuleError> {
        let (name, parameters) = match text.split_once(':') {
            Some((name, parameters)) => (name, Some(parameters)),
            None => (text, None),
        };
        let spelling = SPELLINGS.iter().find(|spelling| spelling.name == name);
        let spelling = spelling.ok_or_else(|| ParseRuleError::Name(name.to_owned()))?;
        let mut parameters = Parameters::new(text, parameters);
        let rule = (spelling.read)(&mut parameters)?;
        parameters.finish()?;
        Ok(rule)
    }
}

/// Writes a stabiliser behind other numbers, unless it is the usual one.
pub(super) fn write_epsilon(f: &mut fmt::Formatter<'_>, epsilon: f32) -> fmt::Result {
    match epsilon == EPSILON {
        true => Ok(()),
        false => write!(f, ",{epsilon:e}"),
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
            "attention" => Place::Attention,
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
            ("alpha-beta:rare=off,2,rare=on", "alpha-beta:2"),
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
            ("alpha-beta:rare=maybe", "no such option"),
        ] {
            let error = text.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
