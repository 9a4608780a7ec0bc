//! Which mutants are made.

use npcov_run::RunError;
use serde::{Deserialize, Serialize};

use crate::operator::Operator;

/// The most mutants of a plan.
pub(crate) const MOST: usize = 100_000;

/// Which mutants are made of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MutationOptions {
    /// What is wrong with them.
    pub operators: Vec<Operator>,
    /// Shares of all weights or neurons that are changed, at least one; mutants are made for each.
    pub ratios: Vec<f64>,
    /// How many are made of each operator and ratio. Of those that are about one layer, no more than there are layers.
    pub mutants: usize,
    /// The standard deviation of what is added to weights.
    pub sd: f64,
    /// Seed of every random draw. A mutant depends on it, on its operator, ratio and number, and not on how many others
    /// there are.
    pub seed: u64,
    /// A mutant counts when it classifies so large a share of what the model classifies as labelled.
    pub quality: f64,
}

impl Default for MutationOptions {
    /// Ten mutants of each operator that changes weights or neurons, of a hundredth of them; those that lose no more than a
    /// tenth of the accuracy count.
    fn default() -> MutationOptions {
        MutationOptions {
            operators: Operator::DRAWN.to_vec(),
            ratios: vec![0.01],
            mutants: 10,
            sd: 0.1,
            seed: 0,
            quality: 0.9,
        }
    }
}

impl MutationOptions {
    pub(crate) fn check(&self) -> Result<(), RunError> {
        let wrong = |name, value: String, wanted| {
            Err(RunError::Parameter {
                name,
                value,
                wanted,
            })
        };
        if self.operators.is_empty() {
            return wrong("the list of operators", "empty".to_owned(), "one or more");
        }
        if self.ratios.is_empty() {
            return wrong("the list of ratios", "empty".to_owned(), "one or more");
        }
        if let Some(ratio) = self.ratios.iter().find(|&&r| !(r > 0.0 && r <= 1.0)) {
            return wrong("ratio", ratio.to_string(), "a share above 0, up to 1");
        }
        if !(self.sd >= 0.0 && self.sd.is_finite()) {
            return wrong("sd", self.sd.to_string(), "a number from 0");
        }
        if !(0.0..=1.0).contains(&self.quality) {
            return wrong("quality", self.quality.to_string(), "a share from 0 to 1");
        }
        let most = MOST / self.operators.len() / self.ratios.len();
        if self.mutants == 0 || self.mutants > most {
            let mutants = self.mutants.to_string();
            return wrong("the number of mutants", mutants, "1 or more, 100000 in all");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_named() {
        let error = |change: fn(&mut MutationOptions)| {
            let mut options = MutationOptions::default();
            change(&mut options);
            options.check().unwrap_err().to_string()
        };
        assert!(MutationOptions::default().check().is_ok());
        let ratio = error(|o| o.ratios = vec![0.1, 0.0]);
        assert_eq!(ratio, "ratio cannot be 0: use a share above 0, up to 1");
        assert!(error(|o| o.ratios = vec![f64::NAN]).contains("NaN"));
        assert!(error(|o| o.ratios.clear()).contains("ratios"));
        assert!(error(|o| o.operators.clear()).contains("operators"));
        assert!(error(|o| o.sd = f64::INFINITY).contains("sd"));
        assert!(error(|o| o.quality = 1.5).contains("quality"));
        assert!(error(|o| o.mutants = 0).contains("mutants"));
        assert!(error(|o| o.mutants = usize::MAX).contains("mutants"));
    }
}
