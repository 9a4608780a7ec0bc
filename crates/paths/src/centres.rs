//! Which cluster a path belongs to: the one whose centre is nearest.
//!
//! With `N` members of a cluster, `c_t` of them with neuron `t`, the centre is `c_t / N`. For a path of
//! `|b|` neurons,
//!
//! ```text
//! sum over t of (b_t - c_t / N)^2  =  |b| + (sum over t of c_t^2  -  2 N sum over t in b of c_t) / N^2,
//! ```
//!
//! which is compared in whole numbers. This is the rule by which k-means makes clusters: once it has
//! converged, no training input is nearer to another centre than to its own.

use std::ops::Range;

use crate::bits;
use crate::graph::PathGraph;
use crate::kmeans::{OverSquare, compare_over_squares};
use crate::training::{PathSource, for_each_path};

/// The centres of a decision graph's clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct Centres {
    /// The clusters of each class.
    classes: Vec<Range<usize>>,
    centres: Vec<Centre>,
}

#[derive(Clone, Debug, PartialEq)]
struct Centre {
    /// `N`.
    members: u32,
    /// `c_t`, by bits of a path.
    counts: Vec<u32>,
    /// The sum of their squares.
    square: u128,
}

impl Centre {
    /// The squared distance of a path less its number of neurons, as a numerator over `N^2`.
    fn numerator(&self, path: &[u64]) -> i128 {
        let counts = bits::ones(path).map(|neuron| i128::from(self.counts[neuron]));
        self.square as i128 - 2 * i128::from(self.members) * counts.sum::<i128>()
    }
}

impl Centres {
    /// Of all clusters of a graph, whose training paths are there.
    pub fn of<S: PathSource>(graph: &PathGraph, source: &S) -> Result<Centres, S::Error> {
        let empty = Centre {
            members: 0,
            square: 0,
            counts: vec![0; graph.layout().width() * 64],
        };
        let mut centres = vec![empty; graph.clusters()];
        for_each_path(
            source,
            graph.layout(),
            graph.training().len(),
            |row, path| {
                if let Some(centre) = centres.get_mut(graph.cluster_of(row) as usize) {
                    centre.members += 1;
                    bits::ones(path).for_each(|neuron| centre.counts[neuron] += 1);
                }
            },
        )?;
        for centre in &mut centres {
            let squares = centre.counts.iter().map(|&count| u128::from(count).pow(2));
            centre.square = squares.sum();
        }
        Ok(Centres {
            classes: graph
                .classes()
                .iter()
                .map(|class| class.clusters.clone())
                .collect(),
            centres,
        })
    }

    /// The cluster of a class whose centre is nearest to a path, the lowest of several; `None` for a
    /// class without clusters.
    pub fn cluster_of(&self, class: usize, path: &[u64]) -> Option<u32> {
        let mut nearest: Option<(usize, OverSquare)> = None;
        for cluster in self.classes.get(class)?.clone() {
            let centre = &self.centres[cluster];
            if centre.members == 0 {
                continue;
            }
            let distance = (centre.numerator(path), centre.members);
            let is_nearer = |(_, least)| compare_over_squares(distance, least).is_lt();
            if nearest.is_none_or(is_nearer) {
                nearest = Some((cluster, distance));
            }
        }
        nearest.map(|(cluster, _)| cluster as u32)
    }

    /// How far a path is from the centre of a cluster.
    pub fn distance(&self, cluster: usize, path: &[u64]) -> f64 {
        let centre = &self.centres[cluster];
        let square = f64::from(centre.members).powi(2);
        // An empty cluster has its centre where no neuron is.
        let beside = centre.numerator(path) as f64 / square.max(1.0);
        // Rounding must not make a root of something below zero.
        (bits::ones(path).count() as f64 + beside).max(0.0).sqrt()
    }

    /// By cluster, for those that are wanted: the members that are nearest to its centre, at most `count`, with their
    /// distances; of those with equal paths only the first. All paths are read once.
    pub fn typical<S: PathSource>(
        &self,
        graph: &PathGraph,
        source: &S,
        wanted: impl Fn(usize) -> bool,
        count: usize,
    ) -> Result<Vec<Vec<(u32, f64)>>, S::Error> {
        let wanted: Vec<bool> = (0..graph.clusters()).map(wanted).collect();
        let mut all: Vec<Vec<(u32, f64, Vec<u64>)>> = vec![Vec::new(); graph.clusters()];
        for_each_path(
            source,
            graph.layout(),
            graph.training().len(),
            |row, path| {
                let cluster = graph.cluster_of(row) as usize;
                let (Some(found), Some(true)) = (all.get_mut(cluster), wanted.get(cluster)) else {
                    return;
                };
                let distance = self.distance(cluster, path);
                // Of equal ones the first.
                let place =
                    found.partition_point(|(_, other, _)| other.total_cmp(&distance).is_le());
                if place < count && found.iter().all(|(_, _, other)| other != path) {
                    found.insert(place, (row, distance, path.to_vec()));
                    found.truncate(count);
                }
            },
        )?;
        let without_path = |found: Vec<(u32, f64, Vec<u64>)>| {
            found
                .into_iter()
                .map(|(row, distance, _)| (row, distance))
                .collect()
        };
        Ok(all.into_iter().map(without_path).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choices::{Members, Merge};
    use crate::graph::{ClassParameters, ClusterList, Clusters, LearnOptions};
    use crate::narrow::Narrow;
    use crate::training::TrainingInputs;
    use crate::{BitRows, KMeans, PathLayout};
    use proptest::prelude::*;

    const NEURONS: usize = 12;

    /// Paths of two layers, for one class.
    fn training(paths: &[u64]) -> (TrainingInputs, BitRows) {
        let layout = PathLayout::new([NEURONS / 2, NEURONS / 2]);
        let mut rows = BitRows::new(layout.width());
        for &path in paths {
            rows.push(&row(path));
        }
        let inputs = TrainingInputs {
            layout,
            predictions: Narrow::filled(0, paths.len()),
            labels: None,
        };
        (inputs, rows)
    }

    fn row(path: u64) -> [u64; 2] {
        let half = NEURONS / 2;
        [path & ((1 << half) - 1), path >> half]
    }

    /// The sum of squares, over `N^2`.
    fn naive_distance(paths: &[u64], members: &[u32], path: u64) -> (u128, u128) {
        let bit = |path: u64, t: usize| i128::from(path >> t & 1);
        let size = members.len() as i128;
        let squares = (0..NEURONS).map(|t| {
            let count: i128 = members.iter().map(|&m| bit(paths[m as usize], t)).sum();
            (size * bit(path, t) - count).pow(2) as u128
        });
        (squares.sum(), (size * size) as u128)
    }

    fn is_nearer(a: (u128, u128), b: (u128, u128)) -> bool {
        a.0 * b.1 < b.0 * a.1
    }

    fn learn(paths: &[u64], clusters: usize, restarts: usize) -> PathGraph {
        let class = ClassParameters {
            clusters: Clusters::Fixed(clusters),
            beta: 0.6,
        };
        let options = LearnOptions {
            classes: vec![class],
            members: Members::Predicted,
            merge: Merge::Strict,
            kmeans: KMeans {
                restarts,
                ..KMeans::default()
            },
            threads: 1,
        };
        let (inputs, paths) = training(paths);
        let Ok(graph) = PathGraph::learn(inputs, &paths, &options);
        graph
    }

    proptest! {
        #[test]
        fn the_nearest_centre_is_that_of_the_definition(
            paths in prop::collection::vec(0..1u64 << NEURONS, 1..40),
            labels in prop::collection::vec(0..4u32, 40),
            path in 0..1u64 << NEURONS,
        ) {
            let mut clusters = ClusterList::new(paths.len());
            (0..).zip(&labels[..paths.len()]).for_each(|(row, &label)| clusters.add(row, label));
            clusters.close_class(Some(4), 0.6);
            let (inputs, rows) = training(&paths);
            let Ok(graph) = PathGraph::of_clusters(inputs, clusters, Merge::Strict, &rows);
            let mut nearest: Option<u32> = None;
            for cluster in 0..graph.clusters() as u32 {
                let distance = |j: u32| naive_distance(&paths, &graph.members(j as usize), path);
                let has_members = !graph.members(cluster as usize).is_empty();
                if has_members && nearest.is_none_or(|j| is_nearer(distance(cluster), distance(j))) {
                    nearest = Some(cluster);
                }
            }
            let Ok(centres) = Centres::of(&graph, &rows);
            prop_assert_eq!(centres.cluster_of(0, &row(path)), nearest);
        }

        /// K-means numbers clusters anew when it is done, so of two centres that are equally near to a
        /// training input its own may not be the lower one.
        #[test]
        fn training_inputs_get_back_their_cluster_or_one_as_near(
            paths in prop::collection::vec(0..1u64 << NEURONS, 1..60), clusters in 1..6usize,
        ) {
            let graph = learn(&paths, clusters, 2);
            let rows = training(&paths).1;
            let Ok(centres) = Centres::of(&graph, &rows);
            for input in 0..paths.len() {
                let own = graph.cluster_of(input as u32);
                let found = centres.cluster_of(0, rows.row(input)).unwrap();
                let distance =
                    |j: u32| naive_distance(&paths, &graph.members(j as usize), paths[input]);
                prop_assert!(!is_nearer(distance(found), distance(own)));
                prop_assert!(found <= own);
            }
        }
    }

    #[test]
    fn typical_members_are_nearest_to_the_centre_and_differ() {
        // The centre has neuron 0 in full, 1 and 2 by a quarter.
        let paths = [0b011, 0b001, 0b101, 0b001];
        let graph = learn(&paths, 1, 1);
        let rows = training(&paths).1;
        let Ok(centres) = Centres::of(&graph, &rows);
        // The path 001 lacks two quarters; 011 lacks one and has three quarters too much.
        let near = (2.0f64 / 16.0).sqrt();
        let far = (9.0f64 / 16.0 + 1.0 / 16.0).sqrt();
        let typical = |count| {
            let Ok(found) = centres.typical(&graph, &rows, |_| true, count);
            found
        };
        assert_eq!(typical(2), [[(1, near), (0, far)]]);
        assert_eq!(typical(9), [[(1, near), (0, far), (2, far)]]);
        let Ok(nothing) = centres.typical(&graph, &rows, |_| false, 9);
        assert_eq!(nothing, [[]; 1]);
        for path in [0b011, 0b001, 0b111000] {
            let (square, over) = naive_distance(&paths, &graph.members(0), path);
            let distance = (square as f64 / over as f64).sqrt();
            assert!((centres.distance(0, &row(path)) - distance).abs() < 1e-12);
        }
    }

    #[test]
    fn classes_without_clusters_have_no_nearest() {
        let Ok(centres) = Centres::of(&learn(&[], 3, 1), &training(&[]).1);
        assert_eq!(centres.cluster_of(0, &row(1)), None);
        assert_eq!(centres.cluster_of(1, &row(1)), None);
    }
}
