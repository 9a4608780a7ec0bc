//! What criteria learn from training data, and what training inputs cover by them.

use std::ops::Range;

use npcov_criteria::{CriterionError, Fit, NetworkShape, Spec, TrainingCounts};
use npcov_paths::{AnpcLayer, Choices, Input, Observer, PathGraph};

use crate::artefact::parts::SHARD;
use crate::artefact::record::CriterionRecord;
use crate::cover::in_parallel;
use crate::error::Error;
use crate::measures::{Measure, Measures, failed};
use crate::shards::TrainingShards;

/// Training inputs that are measured by criteria that take long.
const SAMPLE: usize = 1000;

/// A criterion that could not be fitted to the training data, and why.
pub(crate) type LeftOut = (Spec, String);

/// Those criteria that a network can be measured by; the others are left out.
pub(crate) fn possible(
    specs: Vec<Spec>,
    network: &NetworkShape,
    left_out: &mut Vec<LeftOut>,
) -> Result<Vec<Spec>, Error> {
    let mut possible = Vec::new();
    for spec in specs {
        match npcov_criteria::create(&spec, network) {
            Ok(_) => possible.push(spec),
            Err(CriterionError::Fit { reason, .. }) => left_out.push((spec, reason)),
            Err(source) => return Err(failed(&spec)(source)),
        }
    }
    Ok(possible)
}

/// Fits criteria to the training data. Those that cannot be fitted are left out.
pub(crate) fn fit(
    measures: &mut Measures,
    training: &TrainingShards,
    left_out: &mut Vec<LeftOut>,
) -> Result<Vec<Fit>, Error> {
    let mut fits = Vec::new();
    for measure in measures.list() {
        match measure.criterion.fit(training) {
            Ok(fit) => fits.push(fit),
            Err(CriterionError::Fit { reason, .. }) => {
                left_out.push((measure.spec.clone(), reason));
            }
            Err(source) => return Err(failed(&measure.spec)(source)),
        }
    }
    measures.retain(|measure| left_out.iter().all(|(spec, _)| *spec != measure.spec));
    for (i, fit) in fits.iter().enumerate() {
        let spec = measures.list()[i].spec.clone();
        measures.restore(i, fit.clone()).map_err(failed(&spec))?;
    }
    Ok(fits)
}

/// What a decision graph says of fitted criteria, with what training inputs cover by them.
pub(crate) fn records(
    measures: &Measures,
    fits: &[Fit],
    graph: &PathGraph,
    choices: &Choices,
    anpc: &[AnpcLayer],
    training: &TrainingShards,
    threads: usize,
) -> Result<Vec<CriterionRecord>, Error> {
    let mut all_counts: Vec<Option<TrainingCounts>> = vec![None; measures.list().len()];
    for pass in [Pass::All, Pass::Sample] {
        let counted = |measure: &Measure| {
            let counts = !measure.is_streamed() && !measure.criterion.ordered();
            counts && measure.needs.compares() == (pass == Pass::Sample)
        };
        if !measures.list().iter().any(counted) {
            continue;
        }
        let anpc = match measures.need_neighbours(counted) {
            true => anpc,
            false => &[],
        };
        let observer = Observer::new(graph, choices, anpc);
        let paths_count =
            (measures.list().iter()).any(|measure| counted(measure) && measure.needs.paths);
        let inputs = pass.inputs(graph.parts().training.paths.len());
        let count = |places: Range<usize>| -> Result<Vec<TrainingCounts>, Error> {
            let mut all_counts = vec![TrainingCounts::default(); measures.list().len()];
            for inputs in inputs[places].chunks(SHARD) {
                let found = training.batch(inputs, graph)?;
                let places = inputs.iter().enumerate().filter(|_| paths_count);
                let itself = |(place, &index): (usize, &u32)| Input {
                    training: Some(index),
                    ..found.input(place)
                };
                let seen: Vec<Input<'_>> = places.map(itself).collect();
                let observations = observer.observe_all(&seen, training)?;
                let mut batch = measures.batch(&found, &observations);
                batch.training = Some(inputs);
                for (measure, counts) in measures.list().iter().zip(&mut all_counts) {
                    if counted(measure) {
                        let slots = measure.criterion.slots_of_each(&batch, training);
                        let slots = slots.map_err(failed(&measure.spec))?;
                        slots.iter().for_each(|slots| counts.add(slots));
                    }
                }
            }
            Ok(all_counts)
        };
        for part in in_parallel(inputs.len(), threads, count) {
            let part = part?;
            for ((measure, counts), part) in measures.list().iter().zip(&mut all_counts).zip(part) {
                if counted(measure) {
                    counts.get_or_insert_default().merge(&part);
                }
            }
        }
    }
    let list = measures.list().iter().zip(fits).zip(all_counts);
    let record =
        |((measure, fit), counts): ((&Measure, &Fit), Option<TrainingCounts>)| CriterionRecord {
            criterion: measure.spec.clone(),
            fitted: measure.criterion.fitted_options(),
            arrays: fit.arrays().map(|(name, _)| name.to_owned()).collect(),
            training_coverage: counts
                .map(|counts| counts.coverage())
                .filter(|coverage| coverage.covered() > 0),
        };
    Ok(list.map(record).collect())
}

/// Which training inputs are measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    All,
    Sample,
}

impl Pass {
    /// The inputs, of so many. A sample is spread over all, which may be sorted by class.
    fn inputs(self, count: usize) -> Vec<u32> {
        let sample = match self {
            Pass::All => count,
            Pass::Sample => count.min(SAMPLE),
        };
        (0..sample).map(|i| (i * count / sample) as u32).collect()
    }
}
