//! How frequent classes are in data that a suite should be like.

use std::str::FromStr;

use crate::coverage::Coverage;
use crate::error::CoverageError;
use crate::thin::training_predictions;

/// How frequent classes are in data that a suite should be like.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ClassShares {
    /// As in the training data: among what training inputs are classified as where inputs are counted
    /// by prediction, among their labels where they are counted by label.
    #[default]
    Training,
    /// All classes alike, as far as there are training inputs of them: for suites that are balanced on
    /// purpose.
    Balanced,
    /// A number for each class: its share, or how many inputs of it there are.
    Given(Vec<f64>),
}

impl FromStr for ClassShares {
    type Err = CoverageError;

    /// Numbers, one for each class, with commas or space between them.
    fn from_str(text: &str) -> Result<ClassShares, CoverageError> {
        let words = text.split(|c: char| c == ',' || c.is_whitespace());
        let mut shares = Vec::new();
        for word in words.filter(|word| !word.is_empty()) {
            match word.parse::<f64>() {
                Ok(share) if share.is_finite() && share >= 0.0 => shares.push(share),
                _ => return Err(CoverageError::NoShare(word.to_owned())),
            }
        }
        Ok(ClassShares::Given(shares))
    }
}

impl Coverage {
    /// The same, where suites should have inputs of classes by these shares.
    pub fn with_class_shares(self, shares: ClassShares) -> Result<Coverage, CoverageError> {
        if let ClassShares::Given(given) = &shares {
            let classes = self.state().record().classes.len();
            if given.len() != classes {
                return Err(CoverageError::ClassShares {
                    given: given.len(),
                    classes,
                });
            }
        }
        Ok(self.expecting(shares))
    }

    /// By class: its share of inputs that are classified; nothing but zeros where nothing is known.
    pub(crate) fn class_shares(&self) -> Vec<f64> {
        self.shares(&training_predictions(self.state().record()))
    }

    /// By class: its share of labels; `None` where training inputs have no labels and nothing else is
    /// said. A network takes inputs of one class for another, so the shares of its predictions are no
    /// substitute.
    pub(crate) fn label_shares(&self) -> Option<Vec<f64>> {
        let record = self.state().record();
        match (self.expected_classes(), &record.training_labels[..]) {
            (ClassShares::Training, []) => None,
            (_, []) => Some(self.class_shares()),
            (_, labels) => Some(self.shares(labels)),
        }
    }

    /// Shares of classes that have so many training inputs.
    fn shares(&self, training: &[u64]) -> Vec<f64> {
        let numbers: Vec<f64> = match self.expected_classes() {
            ClassShares::Training => training.iter().map(|&inputs| inputs as f64).collect(),
            ClassShares::Balanced => {
                let known = |&inputs: &u64| f64::from(u8::from(inputs > 0));
                training.iter().map(known).collect()
            }
            ClassShares::Given(given) => given.clone(),
        };
        let all: f64 = numbers.iter().sum();
        let share = |number: f64| if all > 0.0 { number / all } else { 0.0 };
        numbers.into_iter().map(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_from_text() {
        let read: ClassShares = "10, 20\n0.5\t1e2,\n".parse().unwrap();
        assert_eq!(read, ClassShares::Given(vec![10.0, 20.0, 0.5, 100.0]));
        for wrong in ["1 x", "-1", "nan", "inf"] {
            assert!(wrong.parse::<ClassShares>().is_err(), "{wrong}");
        }
    }
}
