//! Inputs of a pool that fill the gaps of a suite.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use npcov_coverage::{
    CountedBy, CoverOptions, Coverage, Gap, GapOptions, GapPool, Gaps, LearntGraph, TypicalInput,
};
use npcov_criteria::Spec;
use npcov_paths::Centres;
use npcov_run::{Progress, SampleRange};

use crate::chosen;
use crate::error::SelectError;
use crate::given::Given;
use crate::links;
use crate::pool::{Pool, Wanted};
use crate::ranking::Ranked;
use crate::strategy::PATHS;

/// Finds what a suite is missing, and inputs of a pool to add.
///
/// An input of the pool belongs to a gap by the rule by which those of the suite are counted: predicted
/// class and cluster, or its label. The nearest to the centre of the cluster come first, as many as are
/// missing. Inputs that the suite has already are passed over. One that fills two gaps is named for both and
/// written once.
///
/// With `output`, they are written to an npz file; those of an image folder to a folder of links, unless the
/// name ends with `.npz`. Work on a pool that was cut off goes on where it was.
pub fn fill_gaps(
    graph: &LearntGraph,
    coverage: &Coverage,
    options: &GapOptions,
    pool: &SampleRange<'_>,
    output: Option<&Path>,
    progress: &mut dyn Progress,
) -> Result<Gaps, SelectError> {
    let mut gaps = graph.gaps(coverage, options)?;
    let measurement = graph.measurement(&CoverOptions {
        criteria: Some(vec![Spec::named(PATHS)]),
        choices: None,
    })?;
    let wanted = Wanted::Cluster(Centres::of(graph.file().graph(), graph.file())?);
    let given = Given::default();
    let measured = Pool::measure(&measurement, &wanted, &given, pool, output, progress)?;
    let (data, start) = (pool.data, pool.range.start);
    let digest = data.fingerprint()?.digest().to_string();
    let looked_at = coverage.state().suites().iter();
    let looked_at = looked_at.filter(|suite| gaps.suites.contains(&suite.name));
    let shards: Vec<_> = looked_at
        .flat_map(|suite| &suite.shards)
        .filter(|shard| shard.sha256 == digest)
        .collect();
    let is_present = |input: usize| {
        let mut shards = shards.iter();
        shards.any(|shard| (shard.start..shard.end).contains(&input))
    };
    let mut candidates: Vec<usize> = (0..measured.clusters.len()).collect();
    candidates.retain(|&place| !is_present(start + place));
    // Stable: of equal ones the first.
    candidates.sort_by(|&a, &b| measured.scores[a].total_cmp(&measured.scores[b]));
    let label = |place: usize| data.labels().and_then(|labels| labels.get(start + place));
    let mut order: Vec<Ranked> = Vec::new();
    let mut named = BTreeSet::new();
    for gap in &mut gaps.gaps {
        let taken = match gap.by {
            CountedBy::Prediction => nearest(gap, &candidates, &measured.clusters, options.count),
            CountedBy::Label => {
                let of_class = |place: &usize| {
                    label(*place).is_some_and(|&label| usize::try_from(label) == Ok(gap.class))
                };
                let count = options.count.unwrap_or(usize::MAX).min(gap.missing);
                candidates
                    .iter()
                    .copied()
                    .filter(of_class)
                    .take(count)
                    .collect()
            }
        };
        let typical = |&place: &usize| TypicalInput {
            input: start + place,
            sample: data.sample_name(start + place).map(Cow::into_owned),
            label: label(place).copied(),
            cluster: measured.clusters[place] as usize,
            distance: measured.scores[place],
        };
        gap.add = Some(taken.iter().map(typical).collect());
        let fresh = taken.iter().filter(|&&input| named.insert(input));
        order.extend(fresh.map(|&input| Ranked {
            input,
            score: measured.scores[input],
        }));
    }
    // Nothing to add is nothing to write.
    let output = output.filter(|_| !order.is_empty());
    if let Some(output) = output {
        match links::folder_of(data, output) {
            Some(folder) => {
                let samples = order
                    .iter()
                    .filter_map(|ranked| data.sample_file(start + ranked.input));
                links::write(&folder, samples, &measured.store.unfinished(output), output)?;
            }
            None => chosen::write(data, &order, start, &measured, output)?,
        }
    }
    gaps.pool = Some(GapPool {
        data: data.name().to_owned(),
        inputs: pool.range.len(),
        labelled: data.labels().is_some(),
        taken: order.len(),
        file: output.map(|file| file.display().to_string()),
    });
    measured.store.remove()?;
    Ok(gaps)
}

/// The first inputs of the clusters of a gap, as many as are missing of each, at most `count`.
fn nearest(gap: &Gap, ordered: &[usize], clusters: &[u32], count: Option<usize>) -> Vec<usize> {
    let mut missing = gap.wanted.clone();
    let belongs = |&place: &usize| {
        let cluster = clusters[place] as usize;
        let wanted = missing.iter_mut().find(|wanted| wanted.cluster == cluster);
        let Some(wanted) = wanted.filter(|wanted| wanted.inputs > 0) else {
            return false;
        };
        wanted.inputs -= 1;
        true
    };
    let found = ordered.iter().copied().filter(belongs);
    found.take(count.unwrap_or(usize::MAX)).collect()
}
