//! Criteria as text: `kmnc`, `nc:variant=deepxplore:thresholds=0/0.5`.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{CriterionError, NamedCriterionError};

/// A criterion with those of its options that are not left as they are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Spec {
    /// The criterion.
    pub name: String,
    /// Options that were given.
    pub options: BTreeMap<String, String>,
}

impl Spec {
    /// A criterion with all its options as they are.
    pub fn named(name: impl Into<String>) -> Spec {
        Spec {
            name: name.into(),
            options: BTreeMap::new(),
        }
    }

    /// An error of this criterion, with its name.
    pub fn failed(&self, source: CriterionError) -> NamedCriterionError {
        NamedCriterionError {
            criterion: self.to_string(),
            source: Box::new(source),
        }
    }
}

impl FromStr for Spec {
    type Err = CriterionError;

    fn from_str(text: &str) -> Result<Spec, CriterionError> {
        let mut words = text.trim().split(':');
        let name = words.next().unwrap_or_default().to_ascii_lowercase();
        let mut options = BTreeMap::new();
        for word in words {
            match word.split_once('=') {
                Some((key, value)) if !key.is_empty() && !value.is_empty() => {
                    options.insert(key.to_owned(), value.to_owned());
                }
                _ => {
                    return Err(CriterionError::Syntax {
                        text: word.to_owned(),
                    });
                }
            }
        }
        Ok(Spec { name, options })
    }
}

impl TryFrom<String> for Spec {
    type Error = CriterionError;

    fn try_from(text: String) -> Result<Spec, CriterionError> {
        text.parse()
    }
}

impl From<Spec> for String {
    fn from(spec: Spec) -> String {
        spec.to_string()
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.options
            .iter()
            .try_for_each(|(key, value)| write!(f, ":{key}={value}"))
    }
}

/// Reads the options of a criterion, and in the end complains about those that it does not have.
pub(crate) struct Options<'a> {
    spec: &'a Spec,
    known: Vec<&'static str>,
}

impl<'a> Options<'a> {
    /// Those of a criterion.
    pub(crate) fn of(spec: &'a Spec) -> Options<'a> {
        Options {
            spec,
            known: Vec::new(),
        }
    }

    /// A whole number.
    pub(crate) fn whole(
        &mut self,
        name: &'static str,
        default: usize,
        range: RangeInclusive<usize>,
    ) -> Result<usize, CriterionError> {
        let wanted = || format!("a whole number from {} to {}", range.start(), range.end());
        match self.text(name) {
            None => Ok(default),
            Some(text) => match text.parse() {
                Ok(number) if range.contains(&number) => Ok(number),
                _ => Err(self.wrong(name, text, wanted())),
            },
        }
    }

    /// A number.
    pub(crate) fn number(
        &mut self,
        name: &'static str,
        default: f64,
        fits: impl Fn(f64) -> bool,
        wanted: &str,
    ) -> Result<f64, CriterionError> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => match text.parse() {
                Ok(number) if fits(number) => Ok(number),
                _ => Err(self.wrong(name, text, wanted.to_owned())),
            },
        }
    }

    /// Numbers with `/` between them.
    pub(crate) fn numbers(
        &mut self,
        name: &'static str,
        default: &[f64],
    ) -> Result<Vec<f64>, CriterionError> {
        let Some(text) = self.text(name) else {
            return Ok(default.to_vec());
        };
        let numbers: Result<Vec<f64>, _> = text.split('/').map(str::parse).collect();
        match numbers {
            Ok(numbers) if numbers.iter().all(|n| n.is_finite()) => Ok(numbers),
            _ => Err(self.wrong(name, text, "numbers with `/` between them".to_owned())),
        }
    }

    /// One of some words.
    pub(crate) fn word<T: Copy>(
        &mut self,
        name: &'static str,
        words: &[(&str, T)],
    ) -> Result<T, CriterionError> {
        let found = match self.text(name) {
            None => words.first(),
            Some(text) => words.iter().find(|(word, _)| *word == text),
        };
        match found {
            Some((_, value)) => Ok(*value),
            None => {
                let list: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                let text = self.text(name).unwrap_or_default();
                Err(self.wrong(name, text, format!("one of {}", list.join(", "))))
            }
        }
    }

    /// The position of a layer; negative ones count from the last, which is the default.
    pub(crate) fn layer(
        &mut self,
        name: &'static str,
        layers: usize,
    ) -> Result<usize, CriterionError> {
        let text = self.text(name).unwrap_or("-1");
        let index = text.parse().ok().and_then(|index: i64| match index < 0 {
            true => layers.checked_sub(index.unsigned_abs() as usize),
            false => Some(index as usize).filter(|&index| index < layers),
        });
        let wanted = || format!("the position of one of the {layers} path layers");
        index.ok_or_else(|| self.wrong(name, text, wanted()))
    }

    /// Complains about options that were not asked for.
    pub(crate) fn end(self) -> Result<(), CriterionError> {
        let known = |option: &&String| !self.known.contains(&option.as_str());
        match self.spec.options.keys().find(known) {
            None => Ok(()),
            Some(option) => Err(CriterionError::Option {
                criterion: self.spec.name.clone(),
                option: option.clone(),
                known: match self.known.is_empty() {
                    true => "none".to_owned(),
                    false => self.known.join(", "),
                },
            }),
        }
    }

    fn text(&mut self, name: &'static str) -> Option<&'a str> {
        if !self.known.contains(&name) {
            self.known.push(name);
        }
        self.spec.options.get(name).map(String::as_str)
    }

    fn wrong(&self, option: &str, value: &str, wanted: String) -> CriterionError {
        CriterionError::Value {
            criterion: self.spec.name.clone(),
            option: option.to_owned(),
            value: value.to_owned(),
            wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let spec: Spec = "NC:thresholds=0/0.5:variant=raw".parse().unwrap();
        assert_eq!((spec.name.as_str(), spec.options.len()), ("nc", 2));
        assert_eq!(spec.to_string(), "nc:thresholds=0/0.5:variant=raw");
        assert!("nc:0.5".parse::<Spec>().is_err());
    }

    #[test]
    fn options_are_read_and_the_others_named() {
        let spec: Spec = "kmnc:sections=10:layer=-2:x=1".parse().unwrap();
        let mut options = Options::of(&spec);
        assert_eq!(options.whole("sections", 1000, 1..=100).unwrap(), 10);
        assert_eq!(options.layer("layer", 3).unwrap(), 1);
        assert_eq!(options.numbers("thresholds", &[0.5]).unwrap(), [0.5]);
        assert!(options.whole("sections", 1000, 1..=5).is_err());
        let message = options.end().unwrap_err().to_string();
        assert_eq!(
            message,
            "`kmnc` has no option `x`; it has sections, layer, thresholds"
        );
    }
}
