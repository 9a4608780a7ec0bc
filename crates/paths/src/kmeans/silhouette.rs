//! How many clusters there are.

use super::KMeans;
use super::points::Points;
use crate::BitRows;
use crate::random::Generator;

/// Rows that a silhouette is computed from at most.
pub const SILHOUETTE_SAMPLE: usize = 1000;

/// The silhouette that several clusters must reach to be better than one.
///
/// K-means finds some silhouette in independent bits as well: about 0.005 in 256 of them, 0.03 in
/// 64, but 0.07 and more in 32 or fewer, where this minimum does not keep noise apart.
pub const MIN_SILHOUETTE: f64 = 0.05;

/// A number of clusters, and what it was chosen by.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The number of clusters.
    pub clusters: usize,
    /// The score of every number that was tried, in ascending order.
    pub scores: Vec<Score>,
}

/// How well rows fall into a number of clusters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The number of clusters.
    pub clusters: usize,
    /// The mean silhouette, between -1 and 1.
    pub silhouette: f64,
}

/// Chooses a number of clusters from 1 to `most`, by the mean silhouette (Rousseeuw 1987).
///
/// Each number from 2 on, up to the number of distinct rows, is tried with `settings`. The
/// silhouette of a row is `(b - a) / max(a, b)`, where `a` is its mean Euclidean distance to the
/// other rows of its cluster and `b` the least of its mean distances to the rows of another
/// cluster; it is 0 if the row is alone in its cluster. All rows count, or
/// [`SILHOUETTE_SAMPLE`] of them that are drawn with the seed of the settings, the same for every
/// number of clusters. The number with the highest mean is chosen (ties: the lowest number), but
/// 1 if none reaches [`MIN_SILHOUETTE`].
pub fn choose_clusters(rows: &BitRows, most: usize, settings: &KMeans, threads: usize) -> Choice {
    let points = Points::new(rows);
    let sample = sample(rows.len(), settings.seed);
    let distances = Distances::new(&points, &sample);
    let mut scores = Vec::new();
    for clusters in 2..=most.min(points.len()) {
        let settings = KMeans {
            clusters,
            ..settings.clone()
        };
        let labels = settings.run_points(&points, threads).labels;
        let labels: Vec<u32> = sample.iter().map(|&row| labels[row]).collect();
        scores.push(Score {
            clusters,
            silhouette: distances.silhouette(&labels, clusters),
        });
    }
    Choice {
        clusters: best(&scores),
        scores,
    }
}

/// The first of the numbers with the highest silhouette, or 1.
fn best(scores: &[Score]) -> usize {
    let mut best = (1, MIN_SILHOUETTE);
    for score in scores {
        if score.silhouette > best.1 || best.0 == 1 && score.silhouette == best.1 {
            best = (score.clusters, score.silhouette);
        }
    }
    best.0
}

/// Up to [`SILHOUETTE_SAMPLE`] of `len` rows, each set of them equally likely, in ascending order.
fn sample(len: usize, seed: u64) -> Vec<usize> {
    Generator::of_seed(seed, u64::MAX).sample(len, SILHOUETTE_SAMPLE)
}

/// The Euclidean distances between the rows of a sample, row by row.
struct Distances {
    len: usize,
    distances: Vec<f64>,
}

impl Distances {
    fn new(points: &Points, sample: &[usize]) -> Distances {
        let row = |i: usize| points.bits.row(points.of_row[sample[i]] as usize);
        let len = sample.len();
        let mut distances = vec![0.0; len * len];
        for i in 0..len {
            for j in 0..i {
                let differing: u32 = row(i)
                    .iter()
                    .zip(row(j))
                    .map(|(a, b)| (a ^ b).count_ones())
                    .sum();
                let distance = f64::from(differing).sqrt();
                distances[i * len + j] = distance;
                distances[j * len + i] = distance;
            }
        }
        Distances { len, distances }
    }

    /// The mean silhouette of the sample with these labels.
    fn silhouette(&self, labels: &[u32], clusters: usize) -> f64 {
        let mut sizes = vec![0u32; clusters];
        for &label in labels {
            sizes[label as usize] += 1;
        }
        let mut total = 0.0;
        let mut sums = vec![0.0; clusters];
        for (i, &own) in labels.iter().enumerate() {
            let own = own as usize;
            if sizes[own] == 1 {
                continue;
            }
            sums.fill(0.0);
            for (distance, &label) in self.distances[i * self.len..][..self.len]
                .iter()
                .zip(labels)
            {
                sums[label as usize] += distance;
            }
            let a = sums[own] / f64::from(sizes[own] - 1);
            let others = (0..clusters).filter(|&j| j != own && sizes[j] > 0);
            let b = others
                .map(|j| sums[j] / f64::from(sizes[j]))
                .fold(f64::INFINITY, f64::min);
            // A sample may lie in one cluster.
            if b.is_finite() && a.max(b) > 0.0 {
                total += (b - a) / a.max(b);
            }
        }
        total / labels.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmeans::testing::{noisy_rows, random_rows, rows_of};

    #[test]
    fn clear_clusters_are_found() {
        for clusters in [2, 3, 5] {
            let rows = noisy_rows(300, 200, clusters, 0.05, 7);
            let choice = choose_clusters(&rows, 8, &KMeans::default(), 1);
            assert_eq!(choice.clusters, clusters);
            let tried: Vec<usize> = choice.scores.iter().map(|score| score.clusters).collect();
            assert_eq!(tried, [2, 3, 4, 5, 6, 7, 8]);
            assert_eq!(choose_clusters(&rows, 8, &KMeans::default(), 3), choice);
        }
    }

    #[test]
    fn noise_is_one_cluster() {
        let rows = random_rows(300, 200, 0.35, 7);
        assert_eq!(choose_clusters(&rows, 6, &KMeans::default(), 1).clusters, 1);
    }

    #[test]
    fn ties_go_to_fewer_clusters() {
        let choice = |silhouettes: &[f64]| {
            let score = |(i, &silhouette)| Score {
                clusters: i + 2,
                silhouette,
            };
            best(
                &silhouettes
                    .iter()
                    .enumerate()
                    .map(score)
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(choice(&[0.1, 0.4, 0.4, 0.2]), 3);
        assert_eq!(choice(&[0.01, MIN_SILHOUETTE, MIN_SILHOUETTE]), 3);
        assert_eq!(choice(&[-0.5, MIN_SILHOUETTE.next_down()]), 1);
        assert_eq!(choice(&[]), 1);
    }

    #[test]
    fn few_rows_leave_little_choice() {
        let settings = KMeans::default();
        let choose = |rows: &BitRows, most| choose_clusters(rows, most, &settings, 1);
        assert_eq!(choose(&BitRows::new(1), 5).clusters, 1);
        assert_eq!(choose(&BitRows::zeros(1, 9), 5).scores, []);
        // Two clusters of equal rows.
        let rows = rows_of(1, [[1], [6], [1], [6]].iter().map(|row| &row[..]));
        let perfect = Score {
            clusters: 2,
            silhouette: 1.0,
        };
        assert_eq!(choose(&rows, 5).scores, [perfect]);
        assert_eq!(choose(&rows, 5).clusters, 2);
        for most in [0, 1] {
            assert_eq!(choose(&rows, most).clusters, 1);
        }
    }

    #[test]
    fn silhouettes_are_means_over_rows() {
        // 0000 and 0001 against 1111: for the pair a = 1 and b = 2 or sqrt 3; the third is alone.
        let rows = rows_of(1, [[0b0000], [0b0001], [0b1111]].iter().map(|row| &row[..]));
        let points = Points::new(&rows);
        let silhouette = Distances::new(&points, &[0, 1, 2]).silhouette(&[0, 0, 1], 2);
        let expected = ((2.0 - 1.0) / 2.0 + (3f64.sqrt() - 1.0) / 3f64.sqrt()) / 3.0;
        assert!((silhouette - expected).abs() < 1e-15);
        // A cluster without a row in the sample does not count.
        assert_eq!(Distances::new(&points, &[0, 1]).silhouette(&[1, 1], 3), 0.0);
    }

    #[test]
    fn samples_are_sets_of_rows() {
        assert_eq!(sample(7, 3), [0, 1, 2, 3, 4, 5, 6]);
        let some = sample(5000, 3);
        assert_eq!(some.len(), SILHOUETTE_SAMPLE);
        assert!(some.is_sorted_by(|a, b| a < b));
        assert_ne!(some, sample(5000, 4));
        // About half of them are of the first half of the rows.
        let early = some.iter().filter(|&&row| row < 2500).count();
        assert!((430..570).contains(&early), "{early}");
    }
}
