//! What is told of each suite: errors in groups, unusual inputs, how coverage grows.

use std::collections::BTreeMap;

use npcov::artefact::{InputRecord, MeasuredSuite, ScoreKind};
use npcov::coverage::{Coverage, UNUSUAL};
use npcov::criteria::{CriterionSet, Member, Slot, SlotPlace, State, is_of_similarity};
use npcov::paths::NO_CLUSTER;

use super::ErrorGroup;
use crate::error::HtmlError;

/// Groups of errors that are listed.
const MOST_GROUPS: usize = 60;
/// Inputs of a group that are shown.
const MOST_IN_GROUP: usize = 8;
/// Unusual inputs that are shown.
const MOST_UNUSUAL: usize = 12;
/// Points of a curve of growth.
const POINTS: usize = 60;

/// SNPC, as suites were measured by it.
pub(super) struct Paths<'c> {
    member: &'c Member,
    at: usize,
    /// Buckets of each layer.
    pub(super) buckets: usize,
    pub(super) layers: usize,
}

impl<'c> Paths<'c> {
    /// Of what a state was measured by; `None` without SNPC.
    pub(super) fn of(coverage: &Coverage, criteria: &'c CriterionSet) -> Option<Paths<'c>> {
        let members = criteria.members();
        let at = members
            .iter()
            .position(|member| is_of_similarity(&member.spec.name))?;
        let record = coverage.state().record();
        Some(Paths {
            member: &members[at],
            at,
            buckets: usize::from(record.choices.snpc_buckets.get()),
            layers: record.layers.len(),
        })
    }

    fn state<'s>(&self, suite: &'s MeasuredSuite) -> Option<&'s State> {
        suite.states.get(self.at)
    }

    /// The buckets that a suite covers.
    pub(super) fn covered(&self, suite: &MeasuredSuite) -> Result<Vec<u64>, HtmlError> {
        let Some(state) = self.state(suite) else {
            return Ok(Vec::new());
        };
        let number = |slot: Slot| match slot {
            Slot::Number(number) => Some(number),
            Slot::Pattern(_) => None,
        };
        let slots = self
            .member
            .criterion
            .slots(state)
            .map_err(|e| self.member.failed(e))?;
        Ok(slots.into_iter().filter_map(number).collect())
    }

    /// Where a bucket is.
    pub(super) fn place(&self, slot: u64) -> Option<SlotPlace> {
        self.member.criterion.place(slot)
    }

    /// By cluster and layer: how many buckets a suite covers.
    pub(super) fn by_cluster(
        &self,
        suite: &MeasuredSuite,
        clusters: usize,
    ) -> Result<Vec<Vec<usize>>, HtmlError> {
        let mut counts = vec![vec![0; self.layers]; clusters];
        for slot in self.covered(suite)? {
            if let Some(place) = self.place(slot)
                && let Some(count) = counts.get_mut(place.cluster)
            {
                count[place.layer] += 1;
            }
        }
        Ok(counts)
    }

    /// For each input that belongs to a cluster, how similar its path is to the cluster's: the mean of its buckets, as
    /// parts of all.
    pub(super) fn similarities(
        &self,
        suite: &MeasuredSuite,
    ) -> Result<Vec<Option<f64>>, HtmlError> {
        let Some(state) = self.state(suite) else {
            return Ok(vec![None; suite.inputs.len()]);
        };
        let slots = self.member.criterion.slots_by_input(state);
        let Some(slots) = slots.map_err(|e| self.member.failed(e))? else {
            return Ok(vec![None; suite.inputs.len()]);
        };
        let one = |(input, list): (&InputRecord, &[u32])| {
            if input.cluster == NO_CLUSTER {
                return None;
            }
            let places = list.iter().filter_map(|&slot| self.place(u64::from(slot)));
            let own = places.filter(|place| place.cluster == input.cluster as usize);
            let sum: usize = own.map(|place| place.bucket).sum();
            Some(sum as f64 / (self.buckets * self.layers).max(1) as f64)
        };
        let lists = slots.lists.iter().map(AsRef::as_ref);
        Ok(suite.inputs.iter().zip(lists).map(one).collect())
    }

    /// How many buckets are covered by the first inputs of a suite.
    pub(super) fn growth(&self, suite: &MeasuredSuite) -> Result<Vec<usize>, HtmlError> {
        let Some(state) = self.state(suite) else {
            return Ok(Vec::new());
        };
        let slots = self.member.criterion.slots_by_input(state);
        let Some(slots) = slots.map_err(|e| self.member.failed(e))? else {
            return Ok(Vec::new());
        };
        let mut seen = vec![false; slots.bound];
        let mut covered = 0;
        let mut growth = Vec::new();
        let points = slots.lists.len().min(POINTS);
        for (i, list) in slots.lists.iter().enumerate() {
            for &slot in list.iter() {
                if let Some(seen) = seen.get_mut(slot as usize)
                    && !std::mem::replace(seen, true)
                {
                    covered += 1;
                }
            }
            while growth.len() < points
                && (growth.len() + 1) * slots.lists.len() <= (i + 1) * points
            {
                growth.push(covered);
            }
        }
        Ok(growth)
    }
}

/// Inputs that are not classified as labelled, in groups, the largest first, and how many groups there are.
pub(super) fn errors(suite: &MeasuredSuite) -> (Vec<ErrorGroup>, usize) {
    let mut groups: BTreeMap<(i64, u32, u32), Vec<usize>> = BTreeMap::new();
    for (place, input) in suite.inputs.iter().enumerate() {
        if input.is_correct() == Some(false) {
            let group = (input.label, input.prediction, input.cluster);
            groups.entry(group).or_default().push(place);
        }
    }
    let all = groups.len();
    let mut groups: Vec<ErrorGroup> = groups
        .into_iter()
        .map(|((label, prediction, cluster), mut places)| {
            let inputs = places.len();
            places.truncate(MOST_IN_GROUP);
            ErrorGroup {
                label,
                prediction: prediction as usize,
                cluster: (cluster != NO_CLUSTER).then_some(cluster as usize),
                inputs,
                places,
            }
        })
        .collect();
    // A stable sort: groups of one size are in the order of labels.
    groups.sort_by_key(|group| std::cmp::Reverse(group.inputs));
    groups.truncate(MOST_GROUPS);
    (groups, all)
}

/// The inputs with the highest scores of a kind, as far as those are unusual.
pub(super) fn unusual(coverage: &Coverage, suite: &MeasuredSuite, kind: ScoreKind) -> Vec<usize> {
    let calibration = coverage.state().calibration();
    let mut found: Vec<(usize, f64)> = suite
        .inputs
        .iter()
        .enumerate()
        .filter_map(|(place, input)| Some((place, input.score(kind)?)))
        .filter(|&(_, score)| calibration.p(kind, score).is_some_and(|p| p <= UNUSUAL))
        .collect();
    // A stable sort: of equal ones the first.
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
        .into_iter()
        .take(MOST_UNUSUAL)
        .map(|(place, _)| place)
        .collect()
}
