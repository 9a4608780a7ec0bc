//! What masking does to predictions.

use npcov_data::Loader;
use npcov_paths::choices::{Average, Members};
use npcov_paths::{DecisionGraph, Learning, NO_CLUSTER, TrainingPaths};

use super::sets::{Sets, random_like, width};
use super::{AlphaPoint, GridPoint, Inconsistency, TuneSettings};
use crate::error::Error;
use crate::masked::MaskedNetwork;

/// A sample, ready to be masked.
pub(super) struct Study<'a> {
    pub(super) masked: &'a MaskedNetwork<'a>,
    pub(super) data: &'a Loader,
    /// Rows of the dataset.
    pub(super) sample: &'a [usize],
    pub(super) sets: &'a Sets,
    pub(super) threads: usize,
    pub(super) progress: &'a mut dyn FnMut(usize),
}

/// Adds the neurons of an input's set; inputs are positions in the sample.
type SetOf<'a> = dyn Fn(usize, &mut [u64]) + Sync + 'a;

impl Study<'_> {
    /// Paths of single inputs, and their controls.
    pub(super) fn alphas(
        &mut self,
        settings: &TuneSettings,
        counted: &[u32],
    ) -> Result<Vec<AlphaPoint>, Error> {
        let (layout, sets, sample) = (self.masked.layout(), self.sets, self.sample);
        let all = &vec![0; counted.len()];
        let mut points = Vec::new();
        let rows = sets.paths.iter().zip(&sets.activated);
        for (&alpha, (paths, activated)) in settings.alphas.iter().zip(rows) {
            let path = |i: usize, set: &mut [u64]| set.copy_from_slice(paths.row(i));
            let active = |i: usize, set: &mut [u64]| set.copy_from_slice(activated.row(i));
            let random = |i: usize, set: &mut [u64]| {
                random_like(layout, paths.row(i), settings.seed, sample[i], set);
            };
            let counted_paths = counted.iter().map(|&i| paths.row(i as usize));
            points.push(AlphaPoint {
                alpha,
                width: width(layout, counted_paths, settings.choices.width),
                path: self.inconsistency(counted, all, &path)?,
                activated: self.inconsistency(counted, all, &active)?,
                random: self.inconsistency(counted, all, &random)?,
            });
        }
        Ok(points)
    }

    /// Abstract paths of clusters.
    pub(super) fn grid(
        &mut self,
        settings: &TuneSettings,
        counted: &[u32],
        training: TrainingPaths,
        classes: usize,
    ) -> Result<Vec<GridPoint>, Error> {
        let choices = &settings.choices;
        let mut points = Vec::new();
        for &clusters in &settings.clusters {
            let learning = settings.learning(clusters, settings.betas[0], classes, self.threads);
            let graph = DecisionGraph::learn(training.clone(), &learning);
            let assignment = &graph.parts().assignment;
            let in_cluster = |&&i: &&u32| assignment[i as usize] != NO_CLUSTER;
            let inputs: Vec<u32> = counted.iter().filter(in_cluster).copied().collect();
            let group = |&i: &u32| match choices.average {
                Average::Inputs => 0,
                Average::Clusters => assignment[i as usize],
            };
            let groups: Vec<u32> = inputs.iter().map(group).collect();
            if inputs.is_empty() {
                return Err(Error::NoInputs(self.data.dataset().name().to_owned()));
            }
            for &beta in &settings.betas {
                // Each cluster as a class whose only cluster it is: merged without a search.
                let merged = TrainingPaths {
                    predictions: assignment.clone(),
                    labels: None,
                    ..training.clone()
                };
                let learning = Learning {
                    members: Members::Predicted,
                    ..settings.learning(1, beta, graph.clusters(), self.threads)
                };
                let merged = DecisionGraph::learn(merged, &learning);
                let paths = &merged.parts().abstract_paths;
                let path = |i: usize, set: &mut [u64]| {
                    set.copy_from_slice(paths.row(assignment[i] as usize));
                };
                points.push(GridPoint {
                    clusters,
                    beta,
                    paths: paths.len(),
                    width: width(self.masked.layout(), paths.rows(), choices.width),
                    path: self.inconsistency(&inputs, &groups, &path)?,
                });
            }
        }
        Ok(points)
    }

    /// Masks a set of each input, and its complement. Every group of inputs counts the same.
    fn inconsistency(
        &mut self,
        inputs: &[u32],
        groups: &[u32],
        set: &SetOf<'_>,
    ) -> Result<Inconsistency, Error> {
        let layout = self.masked.layout();
        let rest = |i: usize, off: &mut [u64]| {
            set(i, off);
            off.copy_from_slice(&layout.complement(off));
        };
        let critical = self.changed(inputs, set)?;
        let others = self.changed(inputs, &rest)?;
        Ok(Inconsistency {
            inc_c: mean_share(&critical, groups),
            inc_nc: mean_share(&others, groups),
        })
    }

    /// Which predictions change.
    fn changed(&mut self, inputs: &[u32], set: &SetOf<'_>) -> Result<Vec<bool>, Error> {
        let rows: Vec<usize> = inputs.iter().map(|&i| self.sample[i as usize]).collect();
        let off = |place: usize, off: &mut [u64]| set(inputs[place] as usize, off);
        let classes = self
            .masked
            .predict(self.data, &rows, &off, self.threads, self.progress)?;
        // What does not count is as good as done.
        (self.progress)(self.sample.len() - inputs.len());
        let own = |&i: &u32| self.sets.predictions[i as usize];
        Ok(inputs
            .iter()
            .map(own)
            .zip(classes)
            .map(|(own, class)| own != class)
            .collect())
    }
}

/// The share of each group that is true, averaged over the groups.
fn mean_share(changed: &[bool], groups: &[u32]) -> f64 {
    let count = groups.iter().max().map_or(0, |&last| last as usize + 1);
    let mut tallies = vec![(0_usize, 0_usize); count];
    for (&changed, &group) in changed.iter().zip(groups) {
        let (hits, all) = &mut tallies[group as usize];
        *hits += usize::from(changed);
        *all += 1;
    }
    tallies.retain(|&(_, all)| all > 0);
    let shares = tallies.iter().map(|&(hits, all)| hits as f64 / all as f64);
    shares.sum::<f64>() / tallies.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_cases_of_averages() {
        let changed = [true, false, false, true, true];
        // Every input counts the same: 3 of 5.
        assert_eq!(mean_share(&changed, &[0; 5]), 0.6);
        // Every cluster counts the same: 1 of 3 and 2 of 2; cluster 1 has no input.
        let clusters = [0, 0, 0, 2, 2];
        assert_eq!(mean_share(&changed, &clusters), (1.0 / 3.0 + 1.0) / 2.0);
        assert_eq!(mean_share(&[], &[]), 0.0);
    }
}
