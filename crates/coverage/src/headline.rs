//! What a suite covers beside what training inputs cover, and how far chance moves that.
//!
//! The headline of a suite is what it covers as a part of what a random sample of as many training
//! inputs covers on average. That sample's mean `E` follows from how often training inputs cover each
//! thing. It is 1 for a suite that is drawn as the training data was, give or take its *spread*.
//!
//! Things are covered together: an input that covers one of two neighbouring buckets does not cover the
//! other, so variances of single things do not add up. But what each input covers is known, and with it
//! `a_i`, how many things input `i` covers alone: without it, the suite covers `a_i` things fewer. The
//! jackknife's sum `V = sum_i (a_i - mean a)^2` is, on average, no less than the variance of what `n`
//! independent inputs cover (B. Efron, C. Stein, The jackknife estimate of variance, 1981); for things
//! that are covered rarely it is equal to it, for a thing that is covered by one input of a suite on
//! average 1.6 times as large. `E` is itself drawn: it is the mean over all samples of `n` of the `N`
//! training inputs, whose variance is about `n / N` of one sample's. So the spread is
//! `sqrt(V (1 + n / N)) / E`, one standard deviation or a little more.

use std::collections::HashSet;

use npcov_artefact::MeasuredSuite;
use npcov_criteria::{Amount, CriterionSet, SlotsByInput};
use serde::{Deserialize, Serialize};

use crate::coverage::Coverage;
use crate::error::CoverageError;
use crate::report::{Values, values_of};

/// What a suite's coverage by one criterion can be held against.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baselines {
    /// What the training inputs cover, as far as they were measured.
    pub training: f64,
    /// What a random sample of as many training inputs covers on average; `None` where fewer were
    /// measured.
    pub random: Option<f64>,
    /// How many things training inputs cover: those that can be reached, as far as one knows.
    pub reachable: u64,
    /// How many training inputs were measured for this.
    pub inputs: u64,
    /// How many training inputs there are.
    pub all_inputs: u64,
    /// What the suite covers as a part of what training inputs do.
    pub of_training: f64,
    /// What the suite covers as a part of what a random sample does.
    pub of_random: Option<f64>,
    /// By how much chance moves that: one standard deviation. `None` where it is not known what each
    /// input covers.
    pub spread: Option<f64>,
}

impl Baselines {
    /// Whether a sample of the training inputs was measured, not all of them.
    pub fn is_sample(&self) -> bool {
        self.inputs < self.all_inputs
    }
}

impl Coverage {
    /// What a suite can be held against, for each criterion that counts things.
    pub(crate) fn baselines(
        &self,
        criteria: &CriterionSet,
        suite: &MeasuredSuite,
    ) -> Result<Values<Baselines>, CoverageError> {
        let record = self.state().record();
        let all_inputs: u64 = record.shares.iter().sum();
        let mut found = Values::default();
        let members = criteria.members().iter().zip(&suite.states);
        for (record, (member, state)) in record.criteria.iter().zip(members) {
            let Some(training) = &record.training_coverage else {
                continue;
            };
            let [value] = &values_of(criteria, member, state)?[..] else {
                continue;
            };
            let all = match value.amount {
                Amount::Share { total, .. } => total.max(1) as f64,
                _ => 1.0,
            };
            let covered = value.amount.value() * all;
            let inputs = suite.inputs.len() as u64;
            let expected = (inputs <= training.inputs).then(|| training.expected(inputs));
            // Of nothing, nothing is a part.
            let expected = expected.filter(|&expected| expected > 0.0);
            let slots = member.criterion.slots_by_input(state);
            let slots = slots.map_err(|e| member.failed(e))?;
            let drawn = 1.0 + inputs as f64 / training.inputs.max(1) as f64;
            let spread = |expected: f64| Some((variance(&slots?) * drawn).sqrt() / expected);
            let baselines = Baselines {
                training: training.covered() as f64 / all,
                random: expected.map(|expected| expected / all),
                reachable: training.covered(),
                inputs: training.inputs,
                all_inputs: all_inputs.max(training.inputs),
                of_training: covered / training.covered().max(1) as f64,
                of_random: expected.map(|expected| covered / expected),
                spread: expected.and_then(spread),
            };
            found.0.push((value.name.clone(), baselines));
        }
        Ok(found)
    }
}

/// By input: things that no other input covers.
pub(crate) fn alone(slots: &SlotsByInput<'_>) -> Vec<usize> {
    let mut times = vec![0_u32; slots.bound];
    for slot in slots.lists.iter().flatten() {
        if let Some(times) = times.get_mut(*slot as usize) {
            *times += 1;
        }
    }
    let once = |slot: &&u32| times.get(**slot as usize) == Some(&1);
    let alone = |list: &[u32]| list.iter().filter(once).count();
    slots.lists.iter().map(|list| alone(list)).collect()
}

/// The jackknife's estimate of the variance of how many things are covered.
fn variance(slots: &SlotsByInput<'_>) -> f64 {
    let alone = alone(slots);
    let all: usize = alone.iter().sum();
    let mean = all as f64 / alone.len().max(1) as f64;
    alone.iter().map(|&a| (a as f64 - mean).powi(2)).sum()
}

/// How many inputs are copies of others: what was measured of them is the same to the last bit. `None`
/// where nothing was measured that tells inputs apart.
pub(crate) fn copies(
    criteria: &CriterionSet,
    suite: &MeasuredSuite,
    scores: &[&[f64]],
) -> Result<Option<usize>, CoverageError> {
    let mut lists = Vec::new();
    for (member, state) in criteria.members().iter().zip(&suite.states) {
        let slots = member.criterion.slots_by_input(state);
        lists.extend(slots.map_err(|e| member.failed(e))?.map(|s| s.lists));
    }
    if lists.is_empty() && scores.is_empty() {
        return Ok(None);
    }
    let measured = |i: usize| {
        let input = &suite.inputs[i];
        let numbers = [input.unfamiliar, input.contested];
        let scores = scores.iter().filter_map(|scores| scores.get(i).copied());
        let bits: Vec<u64> = numbers
            .into_iter()
            .chain(scores)
            .map(f64::to_bits)
            .collect();
        let covered: Vec<Option<&Box<[u32]>>> = lists.iter().map(|lists| lists.get(i)).collect();
        // A training input is at no distance from itself, which tells it from no other one.
        let itself = (numbers == [0.0; 2]).then_some(i);
        (input.prediction, bits, covered, itself)
    };
    let different: HashSet<_> = (0..suite.inputs.len()).map(measured).collect();
    Ok(Some(suite.inputs.len() - different.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use npcov_criteria::{Slot, TrainingCounts};

    fn lists(lists: &[&[u32]]) -> Vec<Box<[u32]>> {
        lists.iter().map(|list| (*list).into()).collect()
    }

    #[test]
    fn the_variance_is_that_of_leaving_inputs_out() {
        let lists = lists(&[&[0, 1, 2], &[2, 3], &[], &[2]]);
        let slots = SlotsByInput {
            lists: &lists,
            bound: 5,
        };
        assert_eq!(alone(&slots), [2, 1, 0, 0]);
        // Without each in turn 2, 3, 4 and 4 things are covered: 13/4 on average.
        let left_out = [2.0, 3.0, 4.0, 4.0].map(|covered: f64| (covered - 3.25).powi(2));
        assert!((variance(&slots) - left_out.iter().sum::<f64>()).abs() < 1e-12);
    }

    /// A population in which inputs cover neighbouring things together.
    fn population(size: u32) -> Vec<Box<[u32]>> {
        let mut seed = 1_u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 8
        };
        let input = |_| {
            // Squares of uniform numbers: things differ in how often they are covered.
            let place = f64::from(next()) / f64::from(1 << 24);
            let first = (place * place * 400.0) as u32;
            let more = 1 + next() % 4;
            (first..first + more).collect()
        };
        (0..size).map(input).collect()
    }

    /// Of many disjoint samples, how many things each covers, and what the jackknife says of it.
    #[test]
    fn samples_spread_no_more_than_the_jackknife_says() {
        let (samples, size) = (200, 100);
        let population = population(samples * size);
        let (mut covered, mut variances) = (Vec::new(), Vec::new());
        for lists in population.chunks(size as usize) {
            let slots = SlotsByInput { lists, bound: 404 };
            let things: HashSet<&u32> = lists.iter().flatten().collect();
            covered.push(things.len() as f64);
            variances.push(variance(&slots));
        }
        let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
        let middle = mean(&covered);
        let squares: Vec<f64> = covered.iter().map(|c| (c - middle).powi(2)).collect();
        let ratio = mean(&variances) / mean(&squares);
        assert!((1.0..2.5).contains(&ratio), "{ratio}");
        // And their mean is what the frequencies say.
        let mut counts = TrainingCounts::default();
        for list in &population {
            let slots: Vec<Slot> = list.iter().map(|&s| Slot::Number(u64::from(s))).collect();
            counts.add(&slots);
        }
        let expected = counts.coverage().expected(u64::from(size));
        assert!(
            (middle / expected - 1.0).abs() < 0.01,
            "{middle} {expected}"
        );
    }
}
