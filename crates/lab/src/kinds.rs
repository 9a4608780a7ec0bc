//! Kinds: finer labels of inputs than the network was trained with.

use std::collections::BTreeMap;

use npcov::artefact::{DataRecord, GraphFile};
use npcov::data::Loader;
use npcov::paths::PathGraph;

use crate::error::LabError;

/// Test data or training data, with a kind for each input.
pub struct OfKinds<'a> {
    /// The inputs.
    pub data: &'a Loader<'a>,
    /// Their kinds.
    pub kinds: &'a [i64],
}

/// The kinds of a dataset, one for each input.
pub(crate) fn of_data<'k>(data: &Loader<'_>, kinds: &'k [i64]) -> Result<&'k [i64], LabError> {
    match kinds.len() == data.len() {
        true => Ok(kinds),
        false => Err(LabError::Kinds {
            data: data.name().to_owned(),
            kinds: kinds.len(),
            inputs: data.len(),
        }),
    }
}

/// The kinds of the inputs that a decision graph was learnt from.
pub(crate) struct TrainingKinds<'a> {
    graph: &'a PathGraph,
    /// By training input.
    kinds: &'a [i64],
}

impl<'a> TrainingKinds<'a> {
    /// Fails unless `data` is what the graph was learnt from.
    pub(crate) fn new(
        file: &'a GraphFile,
        data: &Loader<'_>,
        kinds: &'a [i64],
    ) -> Result<TrainingKinds<'a>, LabError> {
        let learnt = &file.record().training;
        let found = DataRecord::new(data, learnt.start, learnt.end)?;
        let of_training = of_data(data, kinds)?.get(learnt.start..learnt.end);
        match of_training {
            Some(kinds) if found == *learnt => Ok(TrainingKinds {
                graph: file.graph(),
                kinds,
            }),
            _ => Err(LabError::NotTrainingData {
                data: data.name().to_owned(),
                graph: file.name().to_owned(),
            }),
        }
    }

    /// The kinds of some training inputs.
    pub(crate) fn of(&self, rows: &[u32]) -> Vec<i64> {
        rows.iter().map(|&row| self.kinds[row as usize]).collect()
    }

    /// The training inputs in clusters of a class, and which cluster each is in.
    pub(crate) fn members(&self, class: usize) -> (Vec<u32>, Vec<u32>) {
        let clusters = self.graph.classes()[class].clusters.clone();
        let members = clusters.flat_map(|cluster| {
            let members = self.graph.members(cluster).into_iter();
            members.map(move |row| (row, cluster as u32))
        });
        let mut members: Vec<(u32, u32)> = members.collect();
        members.sort_unstable();
        members.into_iter().unzip()
    }

    /// By class: how many kinds have more inputs in it than in any other class.
    pub(crate) fn by_class(&self) -> Vec<usize> {
        let classes = self.graph.classes().len();
        let mut counts: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (cluster, class) in self.clusters() {
            for kind in self.of(&self.graph.members(cluster)) {
                counts.entry(kind).or_insert_with(|| vec![0; classes])[class] += 1;
            }
        }
        let mut kinds = vec![0; classes];
        for counts in counts.values() {
            let most = counts.iter().max();
            let class = counts.iter().position(|count| Some(count) == most);
            class.into_iter().for_each(|class| kinds[class] += 1);
        }
        kinds
    }

    /// All clusters, each with its class.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = (usize, usize)> {
        let graph = self.graph;
        (0..graph.clusters()).map(|cluster| (cluster, graph.class_of(cluster)))
    }

    /// The kind of more than half of a cluster's training inputs, if there is one, and the share of
    /// inputs that are of the most frequent kind.
    pub(crate) fn majority(&self, cluster: usize) -> (Option<i64>, f64) {
        let kinds = self.of(&self.graph.members(cluster));
        let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
        for &kind in &kinds {
            *counts.entry(kind).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|&(_, count)| count);
        let (kind, count) = most.unwrap_or((0, 0));
        let share = count as f64 / kinds.len().max(1) as f64;
        ((2 * count > kinds.len()).then_some(kind), share)
    }
}
