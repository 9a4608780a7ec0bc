//! What is covered already: selection starts beyond it.
//!
//! Things that a coverage state holds count as covered from the beginning. They are taken out of what each input of the
//! pool covers, so whatever is counted afterwards are things that the state lacks.

use std::collections::BTreeSet;
use std::path::Path;

use npcov_artefact::{CoverageState, StateRecord};
use npcov_coverage::{Coverage, Measurement};
use npcov_criteria::{Slot, State};
use npcov_data::Digest;

use crate::error::SelectError;

/// By criterion, the things that are covered already.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Given(Vec<BTreeSet<Slot>>);

impl Given {
    /// What all suites of a state cover together, by the criteria of a measurement. Nothing without a state. A state of
    /// another graph or of other choices, and one that lacks a criterion, is an error.
    pub(crate) fn of(
        coverage: Option<&Coverage>,
        measurement: &Measurement<'_>,
    ) -> Result<Given, SelectError> {
        let Some(coverage) = coverage else {
            return Ok(Given::default());
        };
        let state = coverage.state();
        // Which criteria were measured besides does not matter.
        let comparable = |record: &StateRecord| StateRecord {
            criteria: Vec::new(),
            ..record.clone()
        };
        let wanted = measurement.state();
        let wanted = CoverageState::new(comparable(wanted.record()), wanted.calibration().clone());
        wanted.require(&comparable(state.record()), Path::new(THE_STATE))?;
        let specs = state.record().specs();
        let together: Vec<Option<State>> = state.together();
        let mut given = Vec::new();
        for member in measurement.criteria().members() {
            let place = specs.iter().position(|spec| *spec == member.spec);
            let Some(place) = place else {
                return Err(SelectError::NotGiven {
                    criterion: member.spec.to_string(),
                    has: specs.iter().map(ToString::to_string).collect(),
                });
            };
            let slots = match together.get(place).and_then(Option::as_ref) {
                Some(state) => member
                    .criterion
                    .slots(state)
                    .map_err(|e| member.failed(e))?,
                None => Vec::new(),
            };
            given.push(slots.into_iter().collect());
        }
        Ok(Given(given))
    }

    /// Takes what is covered already by a criterion out of lists of things.
    pub(crate) fn leave_out(&self, criterion: usize, lists: &mut [Vec<Slot>]) {
        if let Some(given) = self.0.get(criterion).filter(|given| !given.is_empty()) {
            for list in lists {
                list.retain(|slot| !given.contains(slot));
            }
        }
    }

    /// How many things are covered already by a criterion; `None` without a state.
    pub(crate) fn count(&self, criterion: usize) -> Option<u64> {
        self.0.get(criterion).map(|given| given.len() as u64)
    }

    /// What tells it from others: what was kept of a pool is of no use with another one.
    pub(crate) fn identity(&self) -> Option<String> {
        let text = || Digest::of(format!("{:?}", self.0).as_bytes()).to_string();
        (!self.0.is_empty()).then(text)
    }
}

/// What the state is called in messages.
const THE_STATE: &str = "--given";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_lacking_stays() {
        let pattern = |row: &[u32]| Slot::Pattern(row.into());
        let first = BTreeSet::from([Slot::Number(3), pattern(&[1, 2])]);
        let given = Given(vec![first, BTreeSet::new()]);
        let lists = [
            vec![Slot::Number(3), Slot::Number(4)],
            vec![Slot::Number(3)],
            vec![pattern(&[1, 2]), pattern(&[1])],
        ];
        let mut left = lists.clone();
        given.leave_out(0, &mut left);
        let expected = [vec![Slot::Number(4)], vec![], vec![pattern(&[1])]];
        assert_eq!(left, expected);
        for criterion in [1, 2] {
            let mut left = lists.clone();
            given.leave_out(criterion, &mut left);
            assert_eq!(left, lists, "another criterion has other things");
        }
        assert_eq!([0, 1, 2].map(|i| given.count(i)), [Some(2), Some(0), None]);
        assert!(given.identity().is_some() && Given::default().identity().is_none());
    }
}
