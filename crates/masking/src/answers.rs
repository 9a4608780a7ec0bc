//! What inputs are taken for when neurons are masked, from the network or from files.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use npcov_run::RunError;

/// The answer for an input that was not asked about.
pub(super) const NOBODY: u32 = u32::MAX;

/// What a study is answered. It asks the same questions in the same order whoever answers them, so the
/// answers of one process serve another.
#[derive(Default)]
pub(super) struct Answers {
    /// Those that are known, by question: one for each input of the sample.
    known: Vec<Vec<u32>>,
    /// The only inputs for which the network is run; all where it is `None`.
    own: Option<Vec<Range<usize>>>,
    /// Those that were given, by question.
    given: Mutex<Vec<Vec<u32>>>,
}

impl Answers {
    /// Answers that are known, and the inputs for which further ones are found. What is told of others means
    /// nothing.
    pub(super) fn of(known: Vec<Vec<u32>>, own: Vec<Range<usize>>) -> Answers {
        Answers {
            known,
            own: Some(own),
            given: Mutex::default(),
        }
    }

    /// Answers the next question about some of the `sample` inputs, where need be by `network`.
    pub(super) fn predict(
        &self,
        inputs: &[u32],
        sample: usize,
        network: impl FnOnce(&[u32]) -> Result<Vec<u32>, RunError>,
    ) -> Result<Vec<u32>, RunError> {
        let Some(own) = &self.own else {
            return network(inputs);
        };
        let question = self.given().len();
        let answers = match self.known.get(question) {
            Some(known) => known.clone(),
            None => {
                let is_own = |&&i: &&u32| own.iter().any(|range| range.contains(&(i as usize)));
                let asked: Vec<u32> = inputs.iter().filter(is_own).copied().collect();
                let mut answers = vec![NOBODY; sample];
                if !asked.is_empty() {
                    for (&i, class) in asked.iter().zip(network(&asked)?) {
                        answers[i as usize] = class;
                    }
                }
                answers
            }
        };
        let of_inputs = inputs.iter().map(|&i| answers[i as usize]).collect();
        self.given().push(answers);
        Ok(of_inputs)
    }

    fn given(&self) -> MutexGuard<'_, Vec<Vec<u32>>> {
        // Answers are pushed whole.
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that was answered, by question.
    pub(super) fn into_given(self) -> Vec<Vec<u32>> {
        self.given
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_not_asked_again() {
        let answers = Answers::of(vec![vec![7, 8, 9]], vec![0..1, 2..3]);
        let never = |_: &[u32]| -> Result<Vec<u32>, RunError> { unreachable!() };
        assert_eq!(answers.predict(&[0, 2], 3, never).unwrap(), [7, 9]);
        let asked = |inputs: &[u32]| {
            assert_eq!(inputs, [0, 2]);
            Ok(vec![3, 4])
        };
        let found = answers.predict(&[0, 1, 2], 3, asked).unwrap();
        assert_eq!(found, [3, NOBODY, 4]);
        // Nobody runs a network for none of its own.
        assert_eq!(answers.predict(&[1], 3, never).unwrap(), [NOBODY]);
        let given = [vec![7, 8, 9], vec![3, NOBODY, 4], vec![NOBODY; 3]];
        assert_eq!(answers.into_given(), given);
    }
}
