//! Clusters of relevance profiles, by a network of nearest neighbours.
//!
//! Unlike k-means, it needs no number of clusters, and clusters may have any shape: each input is
//! joined to those that are most like it (`network`), and the clusters are communities of the network
//! that comes out (`leiden`).

mod leiden;
mod network;
mod number;

use crate::neighbours::{NearestRows, Neighbour, vote};
use crate::random::{DrawnFor, Generator};
use network::Network;
pub use number::number_of_clusters;
use serde::{Deserialize, Serialize};

/// Rows that a community must have at least to be a cluster.
const FEWEST: usize = 10;

/// How the training inputs of a class are clustered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "lowercase")]
pub enum Clustering {
    /// K-means of paths, as in the paper.
    KMeans,
    /// Communities of relevance profiles.
    Graph(GraphClustering),
}

/// How rows of bytes are clustered.
///
/// - Up to `landmarks` rows are clustered themselves; of more rows, so many are drawn.
/// - Each of these is joined to its nearest ones, by an edge that weighs what share of their
///   neighbourhoods they have in common.
/// - Communities are those of highest modularity, as far as the Leiden algorithm finds it.
/// - A community of fewer than 10 rows, or of fewer than 1 % of the rows that were clustered, is none,
///   unless it is the largest.
/// - A row without a community, because it was not drawn or because its own was too small, goes to
///   the one that most of its nearest rows with a community have ([`vote`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphClustering {
    /// Nearest rows of each row.
    pub neighbours: usize,
    /// How much more than by chance the rows of a community have to do with one another: the higher,
    /// the more communities.
    pub resolution: f64,
    /// Rows that are clustered themselves, at most.
    pub landmarks: usize,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for GraphClustering {
    /// 15 neighbours, resolution 0.3, 10,000 landmarks, seed 0.
    fn default() -> GraphClustering {
        GraphClustering {
            neighbours: 15,
            resolution: 0.3,
            landmarks: 10_000,
            seed: 0,
        }
    }
}

/// A row that has no community yet.
const NONE: u32 = u32::MAX;

impl GraphClustering {
    /// The cluster of each row of `width` bytes. Larger clusters have lower numbers; of clusters of one
    /// size the one with the first row.
    ///
    /// The number of threads does not change the result.
    pub fn run(&self, rows: &[u8], width: usize, threads: usize) -> Vec<u32> {
        let count = rows.len() / width.max(1);
        let mut random = Generator::new(self.seed, DrawnFor::Clusters, 1, 0);
        let landmarks = random.sample(count, self.landmarks.max(1));
        let landmarks: Vec<u32> = landmarks.into_iter().map(|row| row as u32).collect();
        let bytes = gather(rows, width, &landmarks);
        let network = Network::of_neighbours(&self.neighbourhoods(&bytes, width, threads));
        let communities = leiden::communities(&network, self.resolution, &mut random);

        let mut labels = vec![NONE; count];
        let kept = large_enough(&communities);
        for (&row, &community) in landmarks.iter().zip(&communities) {
            if kept[community as usize] {
                labels[row as usize] = community;
            }
        }
        self.place_others(rows, width, &mut labels, threads);
        numbered_by_size(labels)
    }

    /// The nearest other rows of each row.
    fn neighbourhoods(&self, rows: &[u8], width: usize, threads: usize) -> Vec<Vec<Neighbour>> {
        let numbers: Vec<u32> = (0..(rows.len() / width.max(1)) as u32).collect();
        let mut nearest = NearestRows::new(rows, width, self.neighbours);
        for &row in &numbers {
            nearest.leave_out(row as usize, row);
        }
        nearest.show(&numbers, rows, threads);
        nearest.into_lists()
    }

    /// Gives rows without a label the one that most of their nearest rows with a label have.
    fn place_others(&self, rows: &[u8], width: usize, labels: &mut [u32], threads: usize) {
        let all = 0..labels.len() as u32;
        let (others, known): (Vec<u32>, Vec<u32>) =
            all.partition(|&row| labels[row as usize] == NONE);
        let candidates = gather(rows, width, &known);
        let queries = gather(rows, width, &others);
        let mut nearest = NearestRows::new(&queries, width, self.neighbours.max(1));
        nearest.show(&known, &candidates, threads);
        let voted = nearest.into_lists();
        for (row, nearest) in others.into_iter().zip(voted) {
            let label = vote(&nearest, |row| labels[row as usize]);
            labels[row as usize] = label.unwrap_or(0);
        }
    }
}

/// The named rows, one after the other.
fn gather(rows: &[u8], width: usize, numbers: &[u32]) -> Vec<u8> {
    let row = |&number: &u32| &rows[number as usize * width..][..width];
    numbers.iter().flat_map(row).copied().collect()
}

/// Which communities are clusters.
fn large_enough(communities: &[u32]) -> Vec<bool> {
    let sizes = sizes(communities);
    let fewest = FEWEST.max(communities.len().div_ceil(100));
    let largest = sizes.iter().copied().max().unwrap_or(0);
    let mut kept: Vec<bool> = sizes.iter().map(|&size| size >= fewest).collect();
    if largest < fewest {
        let first = sizes.iter().position(|&size| size == largest);
        first.into_iter().for_each(|first| kept[first] = true);
    }
    kept
}

/// The rows of each label.
fn sizes(labels: &[u32]) -> Vec<usize> {
    let mut sizes = Vec::new();
    for &label in labels {
        let label = label as usize;
        sizes.resize(sizes.len().max(label + 1), 0);
        sizes[label] += 1;
    }
    sizes
}

/// The same clusters, the largest first.
fn numbered_by_size(labels: Vec<u32>) -> Vec<u32> {
    let sizes = sizes(&labels);
    let mut order: Vec<u32> = Vec::new();
    for &label in &labels {
        if !order.contains(&label) {
            order.push(label);
        }
    }
    // A stable sort: of equal ones the first.
    order.sort_by_key(|&label| std::cmp::Reverse(sizes[label as usize]));
    let mut number = vec![0; sizes.len()];
    for (new, &label) in order.iter().enumerate() {
        number[label as usize] = new as u32;
    }
    labels
        .into_iter()
        .map(|label| number[label as usize])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 20;

    /// Rows around random centres: row `i` around the one that `of` says.
    fn blobs(count: usize, spread: u64, of: impl Fn(usize) -> usize) -> Vec<u8> {
        let mut random = Generator::new(1, DrawnFor::Experiments, 0, 0);
        let centres: Vec<[u8; WIDTH]> = (0..count.clamp(1, 8))
            .map(|_| std::array::from_fn(|_| 50 + random.below(150) as u8))
            .collect();
        let mut rows = Vec::new();
        for row in 0..count {
            let noise = |&centre: &u8| centre.saturating_add(random.below(spread) as u8);
            rows.extend(centres[of(row)].iter().map(noise));
        }
        rows
    }

    /// Three kinds, of 5, 3 and 2 in ten.
    fn kind(row: usize) -> usize {
        [1, 0, 2, 1, 1, 0, 1, 2, 1, 0][row % 10]
    }

    #[test]
    fn blobs_are_found_the_largest_first() {
        let rows = blobs(400, 30, kind);
        let expected: Vec<u32> = (0..400).map(|row| [1, 0, 2][kind(row)]).collect();
        for seed in 0..5 {
            for landmarks in [10_000, 400, 200] {
                let clustering = GraphClustering {
                    landmarks,
                    seed,
                    ..GraphClustering::default()
                };
                assert_eq!(clustering.run(&rows, WIDTH, 2), expected);
            }
        }
    }

    #[test]
    fn threads_do_not_matter_and_seeds_give_the_same_again() {
        // One wide cloud, in which communities are a matter of taste.
        let rows = blobs(700, 50, |_| 0);
        let clustering = GraphClustering {
            landmarks: 500,
            resolution: 1.0,
            ..GraphClustering::default()
        };
        let once = clustering.run(&rows, WIDTH, 1);
        assert!(once.contains(&2));
        for threads in [2, 3, 7] {
            assert_eq!(clustering.run(&rows, WIDTH, threads), once);
        }
    }

    #[test]
    fn a_few_outliers_are_no_cluster() {
        // Nine rows far from the others, and nearer to those of kind 1.
        let mut rows = blobs(300, 30, |row| row % 2);
        let near = rows[WIDTH..2 * WIDTH].to_vec();
        for i in 0..9_u8 {
            rows.extend(near.iter().map(|&byte| byte.saturating_add(60 + i)));
        }
        let labels = GraphClustering::default().run(&rows, WIDTH, 1);
        // 150 + 9 of kind 1 are the largest cluster.
        let expected = (0..309).map(|row| u32::from(row < 300 && row % 2 == 0));
        assert_eq!(labels, expected.collect::<Vec<_>>());
    }

    #[test]
    fn few_rows_are_one_cluster() {
        let clustering = GraphClustering::default();
        for count in 0..10 {
            let rows = blobs(count, 200, |_| 0);
            assert_eq!(clustering.run(&rows, WIDTH, 2), vec![0; count]);
        }
    }

    #[test]
    fn equal_rows_are_one_cluster() {
        let labels = GraphClustering::default().run(&[7; 3 * 200], 3, 1);
        assert_eq!(labels, [0; 200]);
        let none = GraphClustering {
            neighbours: 0,
            resolution: 0.0,
            landmarks: 0,
            seed: 0,
        };
        assert_eq!(none.run(&[7; 3 * 50], 3, 1), [0; 50]);
    }

    /// `fixtures/communities.txt` says what NumPy and leidenalg make of its points
    /// (`scripts/community_oracles.py`).
    #[test]
    fn communities_are_as_good_as_those_of_leidenalg() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fixtures/communities.txt"
        );
        let text = std::fs::read_to_string(path).unwrap();
        let lines = |kind: &'static str| -> Vec<Vec<f64>> {
            let lines = text.lines().filter_map(move |line| line.strip_prefix(kind));
            let numbers = |line: &str| line.split(' ').map(|word| word.parse().unwrap()).collect();
            lines.map(numbers).collect()
        };
        let points = lines("point ");
        let bytes: Vec<u8> = points.concat().iter().map(|&byte| byte as u8).collect();
        let lists = GraphClustering::default().neighbourhoods(&bytes, points[0].len(), 1);
        let network = Network::of_neighbours(&lists);
        let edges: usize = (0..points.len())
            .map(|node| network.edges(node).len())
            .sum();
        assert_eq!(edges as f64 / 2.0, lines("network ")[0][0]);
        let weight = network.total / 2.0 / network::WHOLE;
        assert!((weight - lines("network ")[0][1]).abs() < 0.01);

        for expected in lines("communities ") {
            let &[resolution, median] = &expected[..] else {
                panic!("{expected:?}")
            };
            // Of eleven seeds, as there: single runs differ by half a per cent.
            let mut found: Vec<f64> = (0..11)
                .map(|seed| {
                    let mut random = Generator::new(seed, DrawnFor::Clusters, 1, 0);
                    let found = leiden::communities(&network, resolution, &mut random);
                    leiden::quality(&network, resolution, &found) / (network.total / 2.0)
                })
                .collect();
            found.sort_by(f64::total_cmp);
            let least = median * 0.999;
            assert!(
                found[5] >= least,
                "{found:?} against {median} at {resolution}"
            );
        }
    }

    #[test]
    fn sizes_decide_what_is_a_cluster() {
        let of = |sizes: &[usize]| {
            let label = |(label, &size): (usize, &usize)| vec![label as u32; size];
            let labels: Vec<u32> = sizes.iter().enumerate().flat_map(label).collect();
            large_enough(&labels)
        };
        assert_eq!(of(&[9, 30, 10]), [false, true, true]);
        assert_eq!(of(&[4, 6, 6]), [false, true, false]);
        assert_eq!(of(&[1960, 20, 20]), [true, true, true]);
        assert_eq!(of(&[1962, 20, 19]), [true, false, false]);
    }
}
