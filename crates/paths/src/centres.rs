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
use crate::kmeans::compare_over_squares;

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
    /// Of all clusters of a graph.
    pub fn of(graph: &PathGraph) -> Centres {
        let centre = |cluster| {
            let mut counts = vec![0; graph.layout().width() * 64];
            for &member in graph.members(cluster) {
                bits::ones(graph.path(member)).for_each(|neuron| counts[neuron] += 1);
            }
            Centre {
                members: graph.members(cluster).len() as u32,
                square: counts.iter().map(|&count| u128::from(count).pow(2)).sum(),
                counts,
            }
        };
        Centres {
            classes: graph
                .classes()
                .iter()
                .map(|class| class.clusters.clone())
                .collect(),
            centres: (0..graph.clusters()).map(centre).collect(),
        }
    }

    /// The cluster of a class whose centre is nearest to a path, the lowest of several; `None` for a
    /// class without clusters.
    pub fn cluster_of(&self, class: usize, path: &[u64]) -> Option<u32> {
        let mut nearest: Option<(usize, (i128, u32))> = None;
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

    /// The members of a cluster that are nearest to its centre, at most `count`, with their distances;
    /// of those with equal paths only the first.
    pub fn typical(&self, graph: &PathGraph, cluster: usize, count: usize) -> Vec<(u32, f64)> {
        let members = graph.members(cluster).iter();
        let mut members: Vec<(u32, f64)> = members
            .map(|&row| (row, self.distance(cluster, graph.path(row))))
            .collect();
        // A stable sort: of equal ones the first.
        members.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut found: Vec<(u32, f64)> = Vec::new();
        for (row, distance) in members {
            if found.len() == count {
                break;
            }
            let path = graph.path(row);
            if found.iter().all(|&(other, _)| graph.path(other) != path) {
                found.push((row, distance));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choices::{Members, Merge};
    use crate::graph::{ClassClusters, ClassParameters, Clusters, LearnOptions, TrainingPaths};
    use crate::{BitRows, KMeans, PathLayout};
    use proptest::prelude::*;

    const NEURONS: usize = 12;

    /// Paths of two layers, for one class.
    fn training(paths: &[u64]) -> TrainingPaths {
        let layout = PathLayout::new([NEURONS / 2, NEURONS / 2]);
        let mut rows = BitRows::new(layout.width());
        for &path in paths {
            rows.push(&row(path));
        }
        TrainingPaths {
            layout,
            predictions: vec![0; paths.len()],
            labels: None,
            paths: rows,
        }
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
        PathGraph::learn(training(paths), &options)
    }

    proptest! {
        #[test]
        fn the_nearest_centre_is_that_of_the_definition(
            paths in prop::collection::vec(0..1u64 << NEURONS, 1..40),
            labels in prop::collection::vec(0..4u32, 40),
            path in 0..1u64 << NEURONS,
        ) {
            let class = ClassClusters {
                rows: (0..paths.len() as u32).collect(),
                labels: labels[..paths.len()].to_vec(),
                planned: 4,
                beta: 0.6,
            };
            let graph = PathGraph::of_clusters(training(&paths), vec![class], Merge::Strict);
            let mut nearest: Option<u32> = None;
            for cluster in 0..graph.clusters() as u32 {
                let distance = |j: u32| naive_distance(&paths, graph.members(j as usize), path);
                let has_members = !graph.members(cluster as usize).is_empty();
                if has_members && nearest.is_none_or(|j| is_nearer(distance(cluster), distance(j))) {
                    nearest = Some(cluster);
                }
            }
            prop_assert_eq!(Centres::of(&graph).cluster_of(0, &row(path)), nearest);
        }

        /// K-means numbers clusters anew when it is done, so of two centres that are equally near to a
        /// training input its own may not be the lower one.
        #[test]
        fn training_inputs_get_back_their_cluster_or_one_as_near(
            paths in prop::collection::vec(0..1u64 << NEURONS, 1..60), clusters in 1..6usize,
        ) {
            let graph = learn(&paths, clusters, 2);
            let centres = Centres::of(&graph);
            for (row, &own) in graph.parts().assignment.iter().enumerate() {
                let found = centres.cluster_of(0, graph.path(row as u32)).unwrap();
                let distance =
                    |j: u32| naive_distance(&paths, graph.members(j as usize), paths[row]);
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
        let centres = Centres::of(&graph);
        // The path 001 lacks two quarters; 011 lacks one and has three quarters too much.
        let near = (2.0f64 / 16.0).sqrt();
        let far = (9.0f64 / 16.0 + 1.0 / 16.0).sqrt();
        assert_eq!(centres.typical(&graph, 0, 2), [(1, near), (0, far)]);
        assert_eq!(
            centres.typical(&graph, 0, 9),
            [(1, near), (0, far), (2, far)]
        );
        for path in [0b011, 0b001, 0b111000] {
            let (square, over) = naive_distance(&paths, graph.members(0), path);
            let distance = (square as f64 / over as f64).sqrt();
            assert!((centres.distance(0, &row(path)) - distance).abs() < 1e-12);
        }
    }

    #[test]
    fn classes_without_clusters_have_no_nearest() {
        let centres = Centres::of(&learn(&[], 3, 1));
        assert_eq!(centres.cluster_of(0, &row(1)), None);
        assert_eq!(centres.cluster_of(1, &row(1)), None);
    }
}
