//! The decision graph: for each class, clusters of training paths and what their members share.

use std::ops::Range;

use npcov_cpu::counting;

use crate::abstraction::Frequencies;
use crate::bits::{self, BitRows};
use crate::block::{Block, PATHS};
use crate::choices::{Members, Merge, Similarity};
use crate::clustering::number_of_clusters;
use crate::kmeans::KMeans;
use crate::layout::PathLayout;
use crate::similarity::{Comparison, layer_counts, more_similar};

/// The cluster of a training input that belongs to none.
pub const NO_CLUSTER: u32 = u32::MAX;

/// How many clusters a class gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clusters {
    /// So many.
    Fixed(usize),
    /// From 1 to so many, as many as [`number_of_clusters`] finds.
    Auto(usize),
}

/// How the paths of a class become abstract paths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassParameters {
    /// Number of clusters.
    pub clusters: Clusters,
    /// Above which share of a cluster's members a neuron is part of its abstract path.
    pub beta: f64,
}

/// How a decision graph is learnt.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnOptions {
    /// For each class of the model.
    pub classes: Vec<ClassParameters>,
    /// Which training inputs take part.
    pub members: Members,
    /// Which neurons are part of an abstract path.
    pub merge: Merge,
    /// Restarts, iterations and seed of the clustering; its number of clusters is not used.
    pub kmeans: KMeans,
    /// Threads that may be used; the result does not depend on it.
    pub threads: usize,
}

/// The paths of training inputs, with the classes predicted for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainingPaths {
    /// The path layers.
    pub layout: PathLayout,
    /// One row for each input.
    pub paths: BitRows,
    /// One class for each input.
    pub predictions: Vec<u32>,
    /// One label for each input, where there are labels.
    pub labels: Option<Vec<i64>>,
}

impl TrainingPaths {
    /// The training inputs that a class has, in order.
    pub fn rows_of(&self, class: usize, members: Members) -> Vec<u32> {
        let of_class = |row: usize| self.predictions[row] as usize == class;
        let counts = |row: usize| match (members, &self.labels) {
            (Members::Predicted, _) | (_, None) => true,
            (Members::Correct, Some(labels)) => labels[row] == class as i64,
        };
        let rows = 0..self.paths.len();
        rows.filter(|&row| of_class(row) && counts(row))
            .map(|row| row as u32)
            .collect()
    }
}

/// The clusters of a class, however they were found.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassClusters {
    /// Its training inputs, in order ([`TrainingPaths::rows_of`]).
    pub rows: Vec<u32>,
    /// For each of them its cluster among those of the class, from 0 on without gaps.
    pub labels: Vec<u32>,
    /// How many clusters were asked for, at least as many as there are.
    pub planned: usize,
    /// Above which share of a cluster's members a neuron is part of its abstract path.
    pub beta: f64,
}

/// A class in a decision graph.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassNode {
    /// Its clusters among those of the graph.
    pub clusters: Range<usize>,
    /// How many clusters were asked for: those that are missing can never be covered.
    pub planned: usize,
    /// The share of members above which a neuron is abstract.
    pub beta: f64,
}

/// What a decision graph consists of, as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphParts {
    /// The training paths.
    pub training: TrainingPaths,
    /// The classes, in order; their clusters follow one another.
    pub classes: Vec<ClassNode>,
    /// The cluster of each training input, or [`NO_CLUSTER`].
    pub assignment: Vec<u32>,
    /// One abstract path for each cluster.
    pub abstract_paths: BitRows,
}

/// GraphParts that do not make a decision graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no decision graph: {0}")]
pub struct InvalidGraph(pub(crate) &'static str);

/// A decision graph: abstract paths of every class, and the training paths they were learnt from.
#[derive(Clone, Debug, PartialEq)]
pub struct PathGraph {
    parts: GraphParts,
    /// Training inputs of each cluster, in order.
    members: Vec<Vec<u32>>,
    /// Neurons in each layer of each training path.
    path_counts: Vec<u32>,
    /// Neurons in each layer of each abstract path.
    abstract_counts: Vec<u32>,
}

impl PathGraph {
    /// Learns a decision graph, with clusters by k-means. Predictions are classes of `options`; others
    /// are left out.
    pub fn learn(training: TrainingPaths, options: &LearnOptions) -> PathGraph {
        let cluster = |(class, parameters): (usize, &ClassParameters)| {
            let rows = training.rows_of(class, options.members);
            let paths = training.paths.gather(&rows);
            let (seed, threads) = (options.kmeans.seed, options.threads);
            let clusters = match parameters.clusters {
                Clusters::Fixed(clusters) => clusters,
                Clusters::Auto(most) => number_of_clusters(&paths, most, seed, threads),
            };
            let kmeans = KMeans {
                clusters,
                ..options.kmeans.clone()
            };
            let clustering = kmeans.run(&paths, threads);
            ClassClusters {
                rows,
                labels: clustering.labels,
                planned: match parameters.clusters {
                    Clusters::Fixed(clusters) => clusters,
                    Clusters::Auto(_) => clustering.sizes.len().max(1),
                },
                beta: parameters.beta,
            }
        };
        let classes = options.classes.iter().enumerate().map(cluster).collect();
        PathGraph::of_clusters(training, classes, options.merge)
    }

    /// The decision graph of clusters that are known, for each class.
    pub fn of_clusters(
        training: TrainingPaths,
        classes: Vec<ClassClusters>,
        merge: Merge,
    ) -> PathGraph {
        let layout = &training.layout;
        let mut assignment = vec![NO_CLUSTER; training.paths.len()];
        let mut abstract_paths = BitRows::new(layout.width());
        let mut nodes = Vec::new();
        for class in classes {
            let start = abstract_paths.len();
            let clusters = class
                .labels
                .iter()
                .max()
                .map_or(0, |&last| last as usize + 1);
            let mut members = vec![Vec::new(); clusters];
            for (&row, &label) in class.rows.iter().zip(&class.labels) {
                members[label as usize].push(row);
                assignment[row as usize] = start as u32 + label;
            }
            for members in &members {
                let path = abstract_path(layout, &training.paths, members, (merge, class.beta));
                abstract_paths.push(&path);
            }
            nodes.push(ClassNode {
                clusters: start..abstract_paths.len(),
                planned: class.planned,
                beta: class.beta,
            });
        }
        PathGraph::index(GraphParts {
            training,
            classes: nodes,
            assignment,
            abstract_paths,
        })
    }

    /// Puts a decision graph together again, and checks that its parts fit.
    pub fn assemble(parts: GraphParts) -> Result<PathGraph, InvalidGraph> {
        let fail = |reason| Err(InvalidGraph(reason));
        let training = &parts.training;
        let inputs = training.paths.len();
        let width = training.layout.width();
        if training.paths.width() != width || parts.abstract_paths.width() != width {
            return fail("paths have other layers");
        }
        if training.predictions.len() != inputs || parts.assignment.len() != inputs {
            return fail("not every training input has a class and a cluster");
        }
        if training
            .labels
            .as_ref()
            .is_some_and(|labels| labels.len() != inputs)
        {
            return fail("not every training input has a label");
        }
        let mut end = 0;
        for class in &parts.classes {
            if class.clusters.start != end || class.clusters.end < end {
                return fail("clusters of classes do not follow one another");
            }
            if class.clusters.len() > class.planned {
                return fail("a class has more clusters than planned");
            }
            end = class.clusters.end;
        }
        if end != parts.abstract_paths.len() {
            return fail("not every cluster has an abstract path");
        }
        for (&cluster, &class) in parts.assignment.iter().zip(&training.predictions) {
            let node = parts.classes.get(class as usize);
            let fits = |node: &ClassNode| node.clusters.contains(&(cluster as usize));
            if cluster != NO_CLUSTER && !node.is_some_and(fits) {
                return fail("a training input is in a cluster of another class");
            }
        }
        let empty = vec![0; width];
        let everything = training.layout.complement(&empty);
        let outside = |path: &[u64]| path.iter().zip(&everything).any(|(p, e)| p & !e != 0);
        if training
            .paths
            .rows()
            .chain(parts.abstract_paths.rows())
            .any(outside)
        {
            return fail("a path has neurons that its layers have not");
        }
        Ok(PathGraph::index(parts))
    }

    fn index(parts: GraphParts) -> PathGraph {
        let layout = &parts.training.layout;
        let counts = |rows: &BitRows| -> Vec<u32> {
            rows.rows()
                .flat_map(|row| layer_counts(layout, row))
                .collect()
        };
        let mut members = vec![Vec::new(); parts.abstract_paths.len()];
        for (row, &cluster) in parts.assignment.iter().enumerate() {
            if cluster != NO_CLUSTER {
                members[cluster as usize].push(row as u32);
            }
        }
        PathGraph {
            path_counts: counts(&parts.training.paths),
            abstract_counts: counts(&parts.abstract_paths),
            members,
            parts,
        }
    }

    /// What it consists of.
    pub fn parts(&self) -> &GraphParts {
        &self.parts
    }

    /// The path layers.
    pub fn layout(&self) -> &PathLayout {
        &self.parts.training.layout
    }

    /// The classes, in order.
    pub fn classes(&self) -> &[ClassNode] {
        &self.parts.classes
    }

    /// Number of clusters of all classes.
    pub fn clusters(&self) -> usize {
        self.members.len()
    }

    /// Number of clusters that were asked for, of all classes.
    pub fn planned_clusters(&self) -> usize {
        self.parts.classes.iter().map(|class| class.planned).sum()
    }

    /// The class that a cluster belongs to.
    pub fn class_of(&self, cluster: usize) -> usize {
        let is_of = |class: &ClassNode| class.clusters.contains(&cluster);
        self.parts.classes.iter().position(is_of).unwrap_or(0)
    }

    /// The training inputs of a cluster, in order.
    pub fn members(&self, cluster: usize) -> &[u32] {
        &self.members[cluster]
    }

    /// The abstract path of a cluster.
    pub fn abstract_path(&self, cluster: usize) -> &[u64] {
        self.parts.abstract_paths.row(cluster)
    }

    /// The path of a training input.
    pub fn path(&self, input: u32) -> &[u64] {
        self.parts.training.paths.row(input as usize)
    }

    /// The clusters and layers whose abstract set is empty.
    pub fn empty_layers(&self) -> Vec<(usize, usize)> {
        let layers = self.layout().layers().max(1);
        let counts = self.abstract_counts.iter().enumerate();
        let empty = counts.filter(|&(_, &count)| count == 0);
        empty.map(|(i, _)| (i / layers, i % layers)).collect()
    }

    /// The members of a cluster that are most similar to its abstract path, at most `count`, the
    /// most similar first.
    pub fn exemplars(&self, cluster: usize, kind: Similarity, count: usize) -> Vec<(u32, f64)> {
        let comparison = Comparison::new(self.layout(), kind, self.abstract_path(cluster));
        let score = |&row: &u32| (row, comparison.to(self.path(row), self.counts_of(row)));
        let mut scored: Vec<(u32, f64)> = self.members[cluster].iter().map(score).collect();
        // A stable sort: of equal ones the first.
        scored.sort_by(|a, b| b.1.total_cmp(&a.1));
        scored.truncate(count);
        scored
    }

    /// For each seeker the member of a cluster with the most similar path, other than itself; the
    /// first of equal ones.
    ///
    /// Members are spread over all training paths, which are more than caches hold. So they are read
    /// once, a block at a time, and every seeker looks through the block.
    pub(crate) fn neighbours(
        &self,
        cluster: usize,
        seekers: &[(&Comparison<'_>, Option<u32>)],
    ) -> Vec<Option<u32>> {
        let mut best: Vec<Option<(u32, f64)>> = vec![None; seekers.len()];
        let mut block = Block::default();
        let mut paths = Vec::with_capacity(PATHS);
        for rows in self.members[cluster].chunks(PATHS) {
            if seekers.is_empty() {
                break;
            }
            paths.clear();
            paths.extend(
                rows.iter()
                    .map(|&row| (self.path(row), self.counts_of(row))),
            );
            block.fill(&paths);
            for (best, &(comparison, itself)) in best.iter_mut().zip(seekers) {
                let scores = counting(
                    #[inline(always)]
                    || block.similarities(comparison),
                );
                let scores = &scores[..rows.len()];
                // Most blocks hold nothing better.
                let most = scores.iter().copied().fold(0.0, f64::max);
                if best.is_some_and(|(_, highest)| !more_similar(most, highest)) {
                    continue;
                }
                for (&row, &score) in rows.iter().zip(scores) {
                    let is_better = best.is_none_or(|(_, highest)| more_similar(score, highest));
                    if is_better && itself != Some(row) {
                        *best = Some((row, score));
                    }
                }
            }
        }
        best.iter().map(|best| best.map(|(row, _)| row)).collect()
    }

    fn counts_of(&self, input: u32) -> &[u32] {
        let layers = self.layout().layers();
        &self.path_counts[input as usize * layers..(input as usize + 1) * layers]
    }

    /// Neurons in each layer of a cluster's abstract path.
    pub(crate) fn abstract_counts(&self, cluster: usize) -> &[u32] {
        let layers = self.layout().layers();
        &self.abstract_counts[cluster * layers..(cluster + 1) * layers]
    }
}

/// What a cluster's members have in common.
fn abstract_path(
    layout: &PathLayout,
    paths: &BitRows,
    members: &[u32],
    (merge, beta): (Merge, f64),
) -> Vec<u64> {
    let mut path = vec![0; layout.width()];
    for layer in 0..layout.layers() {
        let set = layout.layer_mut(&mut path, layer);
        Frequencies::of(layout, layer, paths, members)
            .merge(merge, beta, |neuron| bits::set(set, neuron));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths of one layer of four neurons, as in case 22.
    fn training(rows: &[(&str, u32, i64)]) -> TrainingPaths {
        let layout = PathLayout::new([4]);
        let mut paths = BitRows::zeros(1, rows.len());
        for (i, (text, _, _)) in rows.iter().enumerate() {
            for (neuron, _) in text.match_indices('1') {
                bits::set(paths.row_mut(i), neuron);
            }
        }
        TrainingPaths {
            layout,
            paths,
            predictions: rows.iter().map(|row| row.1).collect(),
            labels: Some(rows.iter().map(|row| row.2).collect()),
        }
    }

    fn options(clusters: usize, members: Members) -> LearnOptions {
        let parameters = ClassParameters {
            clusters: Clusters::Fixed(clusters),
            beta: 0.6,
        };
        LearnOptions {
            classes: vec![parameters; 2],
            members,
            merge: Merge::Strict,
            kmeans: KMeans::default(),
            threads: 1,
        }
    }

    const ROWS: [(&str, u32, i64); 6] = [
        ("1100", 0, 0),
        ("1110", 0, 0),
        ("0110", 1, 1),
        ("0011", 0, 1),
        ("0001", 0, 0),
        ("0111", 1, 1),
    ];

    #[test]
    fn classes_are_clustered_one_by_one() {
        let graph = PathGraph::learn(training(&ROWS), &options(2, Members::Predicted));
        let [zero, one] = graph.classes() else {
            panic!("two classes")
        };
        assert_eq!((zero.clusters.clone(), one.clusters.clone()), (0..2, 2..4));
        let of = |cluster| {
            (
                graph.members(cluster).to_vec(),
                graph.abstract_path(cluster)[0],
            )
        };
        let mut clusters = [of(0), of(1)];
        clusters.sort();
        assert_eq!(clusters, [(vec![0, 1], 0b0011), (vec![3, 4], 0b1000)]);
        assert_eq!((graph.class_of(1), graph.class_of(2)), (0, 1));
    }

    #[test]
    fn wrongly_classified_inputs_can_be_left_out() {
        let graph = PathGraph::learn(training(&ROWS), &options(1, Members::Correct));
        assert_eq!(graph.members(0), [0, 1, 4]);
        assert_eq!(graph.parts().assignment[3], NO_CLUSTER);
    }

    #[test]
    fn missing_clusters_stay_planned() {
        let graph = PathGraph::learn(training(&ROWS), &options(3, Members::Predicted));
        assert_eq!((graph.clusters(), graph.planned_clusters()), (5, 6));
        let graph = PathGraph::learn(training(&ROWS[..2]), &options(3, Members::Predicted));
        assert_eq!(graph.classes()[1].clusters, 2..2);
    }

    #[test]
    fn clusters_may_be_known_before() {
        let options = options(2, Members::Predicted);
        let learnt = PathGraph::learn(training(&ROWS), &options);
        let class = |class: usize| {
            let rows = training(&ROWS).rows_of(class, Members::Predicted);
            let first = learnt.classes()[class].clusters.start as u32;
            let label = |&row: &u32| learnt.parts().assignment[row as usize] - first;
            ClassClusters {
                labels: rows.iter().map(label).collect(),
                rows,
                planned: 2,
                beta: 0.6,
            }
        };
        let classes = vec![class(0), class(1)];
        let known = PathGraph::of_clusters(training(&ROWS), classes, Merge::Strict);
        assert_eq!(known, learnt);
        let none = ClassClusters {
            rows: vec![],
            labels: vec![],
            planned: 0,
            beta: 0.6,
        };
        let graph = PathGraph::of_clusters(training(&ROWS), vec![none], Merge::Strict);
        assert_eq!(
            (graph.clusters(), graph.parts().assignment[0]),
            (0, NO_CLUSTER)
        );
    }

    #[test]
    fn exemplars_are_most_like_the_abstract_path() {
        let graph = PathGraph::learn(training(&ROWS), &options(1, Members::Predicted));
        // Of 1100, 1110, 0011, 0001 no neuron is in more than half: only beta above .5 is empty.
        assert_eq!(graph.empty_layers(), [(0, 0)]);
        let exemplars = graph.exemplars(1, Similarity::LayerMean, 1);
        // Both members of class 1 share 0110.
        assert_eq!(exemplars, [(2, 1.0)]);
    }

    #[test]
    fn neighbours_are_the_first_of_the_most_similar() {
        // Many paths, of which several are alike, in more than a block.
        let texts = ["1100", "1110", "0110", "0011", "1111", "0001", "1010"];
        let count = 3 * PATHS + 5;
        let rows: Vec<_> = (0..count).map(|i| (texts[i * i % 7], 0, 0)).collect();
        let graph = PathGraph::learn(training(&rows), &options(2, Members::Predicted));
        let kind = Similarity::LayerMean;
        let comparisons: Vec<Comparison<'_>> = (0..16_u64)
            .map(|bits| vec![bits].leak())
            .map(|path| Comparison::new(graph.layout(), kind, path))
            .collect();
        for cluster in 0..graph.clusters() {
            let members = graph.members(cluster);
            for itself in [None, Some(members[0]), Some(members[members.len() / 2])] {
                let seekers: Vec<_> = comparisons.iter().map(|c| (c, itself)).collect();
                let naive = |comparison: &Comparison<'_>| {
                    let mut best: Option<(u32, f64)> = None;
                    for &row in members.iter().filter(|&&row| Some(row) != itself) {
                        let score = comparison.to(graph.path(row), graph.counts_of(row));
                        if best.is_none_or(|(_, highest)| more_similar(score, highest)) {
                            best = Some((row, score));
                        }
                    }
                    best.map(|(row, _)| row)
                };
                let expected: Vec<_> = comparisons.iter().map(naive).collect();
                assert_eq!(graph.neighbours(cluster, &seekers), expected);
            }
        }
    }

    #[test]
    fn parts_are_checked() {
        let graph = PathGraph::learn(training(&ROWS), &options(2, Members::Predicted));
        assert_eq!(
            PathGraph::assemble(graph.parts().clone()),
            Ok(graph.clone())
        );
        let broken = |change: fn(&mut GraphParts)| {
            let mut parts = graph.parts().clone();
            change(&mut parts);
            PathGraph::assemble(parts).unwrap_err().to_string()
        };
        let other_class = broken(|parts| parts.assignment[0] = 2);
        assert!(other_class.contains("another class"), "{other_class}");
        let neurons = broken(|parts| parts.abstract_paths.row_mut(0)[0] |= 1 << 4);
        assert!(neurons.contains("neurons"), "{neurons}");
        for change in [
            (|parts: &mut GraphParts| parts.assignment.truncate(1)) as fn(&mut GraphParts),
            |parts| parts.training.predictions.push(0),
            |parts| parts.training.labels = Some(vec![]),
            |parts| parts.training.paths = BitRows::new(2),
            |parts| parts.classes[1].clusters = 1..4,
            |parts| parts.classes[0].planned = 1,
            |parts| parts.abstract_paths.push(&[0]),
        ] {
            broken(change);
        }
    }
}
