//! What criteria learn from training data, and what training inputs cover by them.

use std::ops::Range;

use npcov_artefact::CriterionRecord;
use npcov_criteria::{CriterionError, CriterionSet, Fit, Member, NetworkShape, Spec, create};
use npcov_paths::{AnpcLayer, Choices, Input, Observer, PathGraph};
use npcov_run::{SHARD, in_parallel};

use crate::counted::Counted;
use crate::error::CoverageError;
use crate::measurement::numbers;
use crate::training::TrainingShards;

/// A criterion that could not be fitted to the training data, and why.
pub(crate) type LeftOut = (Spec, String);

/// Those criteria that a network can be measured by; the others are left out.
pub(crate) fn possible(
    specs: Vec<Spec>,
    network: &NetworkShape,
    left_out: &mut Vec<LeftOut>,
) -> Result<Vec<Spec>, CoverageError> {
    let mut possible = Vec::new();
    for spec in specs {
        match create(&spec, network) {
            Ok(_) => possible.push(spec),
            Err(CriterionError::Fit { reason, .. }) => left_out.push((spec, reason)),
            Err(source) => return Err(spec.failed(source).into()),
        }
    }
    Ok(possible)
}

/// Fits criteria to the training data. Those that cannot be fitted are left out.
pub(crate) fn fit(
    criteria: &mut CriterionSet,
    training: &TrainingShards<'_>,
    left_out: &mut Vec<LeftOut>,
) -> Result<Vec<Fit>, CoverageError> {
    let mut fits = Vec::new();
    for member in criteria.members() {
        match member.criterion.fit(training) {
            Ok(fit) => fits.push(fit),
            Err(CriterionError::Fit { reason, .. }) => {
                left_out.push((member.spec.clone(), reason));
            }
            Err(source) => return Err(member.failed(source).into()),
        }
    }
    criteria.retain(|member| left_out.iter().all(|(spec, _)| *spec != member.spec));
    for (i, fit) in fits.iter().enumerate() {
        let spec = criteria.members()[i].spec.clone();
        criteria
            .restore(i, fit.clone())
            .map_err(|e| spec.failed(e))?;
    }
    Ok(fits)
}

/// What was learnt from training data.
pub(crate) struct Learnt<'a> {
    pub(crate) graph: &'a PathGraph,
    pub(crate) choices: &'a Choices,
    pub(crate) anpc: &'a [AnpcLayer],
    pub(crate) training: &'a TrainingShards<'a>,
    /// Training inputs that are measured by criteria that take long.
    pub(crate) sample: usize,
}

/// What a decision graph says of fitted criteria, with what training inputs cover by them.
pub(crate) fn records(
    criteria: &CriterionSet,
    fits: &[Fit],
    learnt: &Learnt<'_>,
    threads: usize,
) -> Result<Vec<CriterionRecord>, CoverageError> {
    let Learnt {
        graph,
        choices,
        anpc,
        training,
        sample,
    } = *learnt;
    let nothing = || -> Vec<Counted> {
        let members = criteria.members().iter();
        members.map(|_| Counted::default()).collect()
    };
    let mut all_counts = nothing();
    for pass in [Pass::All, Pass::Sample] {
        let counted = |member: &Member| {
            let counts = !member.is_streamed() && !member.criterion.ordered();
            counts && member.needs.compares() == (pass == Pass::Sample)
        };
        if !criteria.members().iter().any(counted) {
            continue;
        }
        let anpc = match criteria.need_neighbours(counted) {
            true => anpc,
            false => &[],
        };
        let observer = Observer::new(graph, choices, anpc);
        let paths_count =
            (criteria.members().iter()).any(|member| counted(member) && member.needs.paths);
        let all = graph.training().len();
        let inputs = pass.inputs(all, sample);
        let count = |places: Range<usize>| -> Result<Vec<Counted>, CoverageError> {
            let mut all_counts = nothing();
            for start in places.clone().step_by(SHARD) {
                let places = start..(start + SHARD).min(places.end);
                let inputs: Vec<u32> = places.map(|i| spread(i, all, inputs)).collect();
                let found = training.batch(&inputs)?;
                let places = inputs.iter().enumerate().filter(|_| paths_count);
                let itself = |(place, &index): (usize, &u32)| Input {
                    training: Some(index),
                    ..found.input(place)
                };
                let seen: Vec<Input<'_>> = places.map(itself).collect();
                let observations = observer.observe_all(&seen, training)?;
                let mut batch = criteria.batch(numbers(&found), &observations);
                batch.training = Some(&inputs);
                for (member, counts) in criteria.members().iter().zip(&mut all_counts) {
                    if counted(member) {
                        let slots = member.criterion.slots_of_each(&batch, training);
                        let slots = slots.map_err(|e| member.failed(e))?;
                        counts.add(&slots, training)?;
                    }
                }
            }
            Ok(all_counts)
        };
        for part in in_parallel(inputs, threads, count) {
            for (counts, part) in all_counts.iter_mut().zip(part?) {
                counts.merge(part, training)?;
            }
        }
    }
    let list = criteria.members().iter().zip(fits).zip(all_counts);
    let record = |((member, fit), counts): ((&Member, &Fit), Counted)| {
        let coverage = counts.coverage(training)?;
        Ok(CriterionRecord {
            criterion: member.spec.clone(),
            fitted: member.criterion.fitted_options(),
            arrays: fit.arrays().map(|(name, _)| name.to_owned()).collect(),
            training_coverage: (coverage.covered() > 0).then_some(coverage),
        })
    };
    list.map(record).collect()
}

/// Which training inputs are measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    All,
    Sample,
}

impl Pass {
    /// How many inputs, of so many.
    fn inputs(self, count: usize, sample: usize) -> usize {
        match self {
            Pass::All => count,
            Pass::Sample => count.min(sample),
        }
    }
}

/// An input of a sample, which is spread over all: they may be sorted by class.
fn spread(place: usize, count: usize, sample: usize) -> u32 {
    (place * count / sample) as u32
}
