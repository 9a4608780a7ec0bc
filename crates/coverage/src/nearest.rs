//! The inputs of a suite that come nearest to a cluster without being of it.
//!
//! A state keeps the buckets of SNPC that each input covers: for every cluster of its class and every layer, how similar
//! its path is to the abstract path. The inputs whose buckets of a cluster add up to most are nearest to it. Neither data
//! nor model is needed for that.

use npcov_artefact::{InputRecord, MeasuredSuite};
use npcov_criteria::{Criterion, CriterionSet, SlotsByInput, is_of_similarity};

use crate::error::CoverageError;

/// What a suite's paths are like beside abstract paths.
pub(crate) struct Similarities<'s> {
    criterion: &'s dyn Criterion,
    buckets: SlotsByInput<'s>,
}

impl<'s> Similarities<'s> {
    /// Of a suite that was measured by similarity (SNPC); `None` for another.
    pub(crate) fn of(
        criteria: &'s CriterionSet,
        suite: &'s MeasuredSuite,
    ) -> Result<Option<Similarities<'s>>, CoverageError> {
        let mut members = criteria.members().iter().zip(&suite.states);
        let Some((member, state)) = members.find(|(member, _)| is_of_similarity(&member.spec.name))
        else {
            return Ok(None);
        };
        let buckets = member.criterion.slots_by_input(state);
        let buckets = buckets.map_err(|e| member.failed(e))?;
        Ok(buckets.map(|buckets| Similarities {
            criterion: &*member.criterion,
            buckets,
        }))
    }

    /// The inputs of a class, at most `count`, that are nearest to a cluster of it that they do not belong to. Those that
    /// have nothing in common with its abstract path are left out.
    pub(crate) fn nearest(
        &self,
        inputs: &[InputRecord],
        (class, cluster): (usize, usize),
        count: usize,
    ) -> Vec<usize> {
        let similarity = |slots: &[u32]| -> usize {
            let places = slots
                .iter()
                .filter_map(|&slot| self.criterion.place(slot.into()));
            let own = places.filter(|place| place.cluster == cluster);
            own.map(|place| place.bucket).sum()
        };
        let mut found: Vec<(usize, usize)> = (inputs.iter().zip(self.buckets.lists).enumerate())
            .filter(|(_, (input, _))| {
                input.prediction as usize == class && input.cluster as usize != cluster
            })
            .map(|(row, (_, slots))| (row, similarity(slots)))
            .filter(|&(_, similarity)| similarity > 0)
            .collect();
        // Stable: of equal ones the first.
        found.sort_by_key(|&(_, similarity)| std::cmp::Reverse(similarity));
        found.truncate(count);
        found.into_iter().map(|(row, _)| row).collect()
    }
}
