//! K-means on rows of bits, in whole numbers.
//!
//! The members of a cluster are summed up by how many of them have each bit, so that centres,
//! distances and inertias are fractions of integers and every comparison is exact: the result
//! depends on the rows, the settings and the seed, and on nothing else.
//!
//! ```
//! use npcov_paths::BitRows;
//! use npcov_paths::kmeans::KMeans;
//!
//! let mut rows = BitRows::new(1);
//! for row in [0b0011, 0b0111, 0b1100, 0b1000] {
//!     rows.push(&[row]);
//! }
//! let clustering = KMeans { clusters: 2, ..KMeans::default() }.run(&rows, 1);
//! assert_eq!(clustering.labels, [0, 0, 1, 1]);
//! assert_eq!(clustering.inertia, 1.0);
//! ```
//!
//! Time and memory grow linearly with the rows. A row costs a table look-up for every eight of
//! its bits, not one operation for every bit and cluster (`sums`), and in later iterations most
//! rows cost nothing (`lloyd`).
//!
//! Rows that are too many for memory are clustered [in shards](KMeans::run_shards), with the same
//! draws, the same sums and hence the same bits: all that is found of a shard are whole numbers,
//! which are added up, and of the rows themselves one shard is in memory at a time. Others can be asked for these numbers,
//! in whatever processes ([`KMeans::run_blocks`]).

mod blocks;
mod column;
mod exact;
mod lloyd;
mod points;
mod seeding;
mod sums;
#[cfg(test)]
pub(crate) mod testing;

use std::sync::atomic::{AtomicUsize, Ordering as Memory};

use crate::BitRows;
use crate::random::{DrawnFor, Generator};
use blocks::Leader;
pub use blocks::{Answer, PointBlock, Question};
use exact::compare_sums;
pub(crate) use exact::{OverSquare, compare_over_squares};
use lloyd::Outcome;
use points::Points;
pub use points::RowShards;

/// Settings of k-means with Euclidean distances.
///
/// - Seeding: greedy k-means++ (Arthur and Vassilvitskii 2007, as in scikit-learn). The first
///   centre is a row drawn uniformly; for each further one, `2 + floor(ln k)` rows are drawn with
///   probabilities proportional to their squared distances to the nearest centre so far, and the
///   one is taken that leaves the least sum of these distances (ties: the one drawn first).
/// - Lloyd's iterations until no label changes. A row belongs to the nearest centre (ties: the
///   lowest cluster). Clusters that lose all rows are refilled, in order: each takes the row that
///   is farthest from the centre it was assigned to (ties: the first row), with all rows equal to
///   it, out of a cluster that has other rows as well.
/// - Of several restarts the one with the lowest inertia counts (ties: the earliest).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KMeans {
    /// Number of clusters, at least 1. There are fewer when there are fewer distinct rows.
    pub clusters: usize,
    /// Number of restarts, at least 1.
    pub restarts: usize,
    /// Iterations of one restart at most, at least 1.
    pub iterations: usize,
    /// Seed of the random numbers: ChaCha8, with a stream for each restart.
    pub seed: u64,
}

impl Default for KMeans {
    /// The reference's settings: ten restarts of up to 300 iterations, seed 0; one cluster.
    fn default() -> KMeans {
        KMeans {
            clusters: 1,
            restarts: 10,
            iterations: 300,
            seed: 0,
        }
    }
}

/// Rows in clusters, none of which is empty. Clusters are in the order of their first rows, and
/// equal rows are in one cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KMeansClusters {
    /// The cluster of each row.
    pub labels: Vec<u32>,
    /// The number of rows of each cluster.
    pub sizes: Vec<u32>,
    /// The sum of all squared distances of rows to the means of their clusters.
    pub inertia: f64,
    /// Iterations of the restart that won.
    pub iterations: usize,
    /// The restart that won.
    pub restart: usize,
    /// Whether no label changed in the last iteration.
    pub converged: bool,
}

impl KMeans {
    /// The most restarts that anyone is given: more than these find nothing better, and take days.
    pub const MOST_RESTARTS: usize = 1000;

    /// Clusters the rows. There are as many clusters as asked for, or as there are distinct rows
    /// if these are fewer; without rows there is none.
    ///
    /// Restarts are shared among `threads` threads. Their number does not change the result.
    pub fn run(&self, rows: &BitRows, threads: usize) -> KMeansClusters {
        let Ok(clustering) = self.run_shards(rows, threads);
        clustering
    }

    /// The same for rows in shards; how they are divided does not change the result. Several shards are
    /// read again for every step, one by each thread at a time; what stays in memory is some hundred
    /// bytes for each distinct row.
    pub fn run_shards<S: RowShards>(
        &self,
        shards: &S,
        threads: usize,
    ) -> Result<KMeansClusters, S::Error> {
        let points = &Points::new(shards)?;
        // One cluster is the same whatever its seed.
        let restarts: Vec<usize> = match self.clusters_of(points) {
            0 | 1 => vec![0],
            _ => (0..self.restarts.max(1)).collect(),
        };
        let better = |best: &mut Option<Run>, run| *best = Run::best(best.take(), Some(run));
        let best = self.race(points, &restarts, threads, better)?;
        let best = best.into_iter().flatten().reduce(Run::better);
        Ok(best.map_or_else(KMeansClusters::default, |run| {
            run.clustering(&points.of_row).clusters
        }))
    }

    /// Some of the restarts, each by itself, in this order. Several processes may do some each: of all restarts
    /// together, the [better](Restart::better) one is what [`run_shards`](KMeans::run_shards) gives.
    pub fn run_restarts<S: RowShards>(
        &self,
        shards: &S,
        restarts: &[usize],
        threads: usize,
    ) -> Result<Vec<Restart>, S::Error> {
        let points = &Points::new(shards)?;
        let runs = self.race(points, restarts, threads, Vec::push)?;
        let mut runs: Vec<Restart> = (runs.into_iter().flatten())
            .map(|run: Run| run.clustering(&points.of_row))
            .collect();
        let place = |run: &Restart| restarts.iter().position(|&r| r == run.clusters.restart);
        runs.sort_by_key(place);
        Ok(runs)
    }

    /// The same by others. Points are laid out in blocks, which `keep` is given one by one; `ask` gives the answers of
    /// all of them, in order. Nothing where these are none.
    ///
    /// What stays in memory is some ten bytes for each row.
    pub fn run_blocks<S: RowShards, E: From<S::Error>>(
        &self,
        shards: &S,
        mut keep: impl FnMut(PointBlock) -> Result<(), E>,
        ask: impl FnMut(&Question) -> Option<Vec<Answer>>,
    ) -> Result<Option<KMeansClusters>, E> {
        let points = Points::new(shards)?;
        let mut leader = Leader {
            weights: Vec::new(),
            width: points.columns() / 64,
            ask,
        };
        for number in 0..points.shards() {
            let weights = points.weights[points.of_shard(number)].to_vec();
            leader
                .weights
                .push(weights.iter().map(|&weight| u64::from(weight)).sum());
            keep(PointBlock {
                number,
                points: points.bits(number)?.into_owned(),
                weights,
            })?;
        }
        let clusters = self.clusters_of(&points);
        let of_row = points.of_row;
        let run = leader.run(self, clusters);
        let run = run.filter(|run| {
            let labels = &run.outcome.labels;
            let are_clusters = labels.iter().all(|&label| (label as usize) < clusters);
            labels.len() == points.weights.len() && are_clusters
        });
        Ok(run.map(|run| run.clustering(&of_row).clusters))
    }

    /// How many clusters there will be.
    fn clusters_of<S: RowShards>(&self, points: &Points<'_, S>) -> usize {
        self.clusters.max(1).min(points.len())
    }

    /// Runs restarts on several threads, each of which keeps something of those that it runs. Without points
    /// there is nothing to run.
    fn race<S: RowShards, T: Default + Send>(
        &self,
        points: &Points<'_, S>,
        restarts: &[usize],
        threads: usize,
        keep: impl Fn(&mut T, Run) + Sync,
    ) -> Result<Vec<T>, S::Error> {
        let clusters = self.clusters_of(points);
        if clusters == 0 {
            return Ok(Vec::new());
        }
        let next = AtomicUsize::new(0);
        let work = || {
            let mut kept = T::default();
            while let Some(&restart) = restarts.get(next.fetch_add(1, Memory::Relaxed)) {
                keep(&mut kept, self.restart(points, clusters, restart)?);
            }
            Ok(kept)
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads.min(restarts.len()))
                .map(|_| scope.spawn(work))
                .collect();
            let mut all = vec![work()?];
            for other in others {
                match other.join() {
                    Ok(kept) => all.push(kept?),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(all)
        })
    }

    fn restart<S: RowShards>(
        &self,
        points: &Points<'_, S>,
        clusters: usize,
        restart: usize,
    ) -> Result<Run, S::Error> {
        let mut rng = Generator::new(self.seed, DrawnFor::Clusters, 0, restart as u64);
        let labels = seeding::seed(points, clusters, &mut rng)?;
        let outcome = lloyd::iterate(points, clusters, labels, self.iterations.max(1))?;
        Ok(Run { restart, outcome })
    }
}

/// Where one restart arrived, and what tells exactly whether another one did better.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Restart {
    /// The clusters, as [`KMeans::run`] gives those of the best restart.
    pub clusters: KMeansClusters,
    /// For each cluster: how many of its rows have a bit, squared, summed over all bits in which rows differ.
    pub squares: Vec<u128>,
}

impl Restart {
    /// The one of lower inertia, or else the earlier. Both are of the same rows, in clusters that are not empty.
    pub fn better(self, other: Restart) -> Restart {
        let explained = |restart: &Restart| -> Vec<(u128, u32)> {
            let squares = restart.squares.iter().copied();
            squares
                .zip(restart.clusters.sizes.iter().copied())
                .collect()
        };
        let (a, b) = (explained(&self), explained(&other));
        match is_better((&a, self.clusters.restart), (&b, other.clusters.restart)) {
            true => self,
            false => other,
        }
    }
}

/// What a restart arrived at, point by point.
struct Run {
    restart: usize,
    outcome: Outcome,
}

impl Run {
    /// The better one, where there are two.
    fn best(a: Option<Run>, b: Option<Run>) -> Option<Run> {
        match (a, b) {
            (Some(a), Some(b)) => Some(Run::better(a, b)),
            (a, b) => a.or(b),
        }
    }

    /// The run of lower inertia, or else the earlier.
    fn better(self, other: Run) -> Run {
        let (a, b) = (self.outcome.explained(), other.outcome.explained());
        match is_better((&a, self.restart), (&b, other.restart)) {
            true => self,
            false => other,
        }
    }

    fn clustering(self, of_row: &[u32]) -> Restart {
        let Outcome {
            labels,
            centres,
            counts,
            iterations,
            converged,
        } = self.outcome;
        let mut order = vec![u32::MAX; centres.len()];
        let mut sizes = Vec::with_capacity(centres.len());
        let mut squares = Vec::with_capacity(centres.len());
        let mut inertia = 0.0;
        // Points are in the order of their first rows.
        for &label in &labels {
            let label = label as usize;
            if order[label] == u32::MAX {
                order[label] = sizes.len() as u32;
                let size = centres[label].size;
                sizes.push(size);
                squares.push(centres[label].square);
                // Bits of all members - S / N, as one fraction.
                let bits: u128 = counts[label].iter().map(|&count| u128::from(count)).sum();
                let numerator = bits * u128::from(size) - centres[label].square;
                inertia += numerator as f64 / f64::from(size);
            }
        }
        let clusters = KMeansClusters {
            labels: of_row
                .iter()
                .map(|&point| order[labels[point as usize] as usize])
                .collect(),
            sizes,
            inertia,
            iterations,
            restart: self.restart,
            converged,
        };
        Restart { clusters, squares }
    }
}

/// Whether one restart has the lower inertia, or else is the earlier: each by `S / N` of its clusters, and its number.
///
/// The inertia is the number of all bits less the sum of all `S / N`.
fn is_better(a: (&[(u128, u32)], usize), b: (&[(u128, u32)], usize)) -> bool {
    compare_sums(b.0, a.0).then(a.1.cmp(&b.1)).is_le()
}

#[cfg(test)]
mod tests {
    use super::testing::{InShards, naive, noisy_rows, random_rows, rows_of};
    use super::*;
    use proptest::prelude::*;

    fn kmeans(clusters: usize) -> KMeans {
        KMeans {
            clusters,
            ..KMeans::default()
        }
    }

    /// Rows of few bits: ties, duplicates and constant columns are frequent.
    fn small_rows() -> impl Strategy<Value = BitRows> {
        let narrow = prop::collection::vec(0..32u64, 0..14);
        let spread = prop::collection::vec(0..1u64 << 10, 0..24);
        prop_oneof![narrow, spread].prop_map(|rows| {
            let words: Vec<[u64; 2]> = rows.iter().map(|row| [row << 59 | 2, row >> 5]).collect();
            rows_of(2, words.iter().map(|row| &row[..]))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn clusterings_are_those_of_the_definition(
            rows in small_rows(),
            clusters in 1..9usize,
            restarts in 1..4usize,
            iterations in prop_oneof![1..4usize, Just(300)],
            seed in 0..50u64,
        ) {
            let settings = KMeans { clusters, restarts, iterations, seed };
            let clustering = settings.run(&rows, 2);
            let expected = naive(&settings, &rows);
            prop_assert_eq!(&clustering.labels, &expected.labels);
            prop_assert_eq!(&clustering.sizes, &expected.sizes);
            prop_assert_eq!(clustering.iterations, expected.iterations);
            prop_assert_eq!(clustering.restart, expected.restart);
            prop_assert_eq!(clustering.converged, expected.converged);
            prop_assert!((clustering.inertia - expected.inertia).abs() < 1e-9);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Rows that are equal lie in different shards, and shards may be empty.
        #[test]
        fn shards_give_the_bits_of_all_rows_together(
            rows in small_rows(),
            clusters in 1..9usize,
            iterations in prop_oneof![1..4usize, Just(300)],
            seed in 0..50u64,
        ) {
            let settings = KMeans { clusters, restarts: 3, iterations, seed };
            let together = settings.run(&rows, 1);
            for shards in [1, 3, 16] {
                let Ok(found) = settings.run_shards(&InShards { rows: &rows, shards }, 2);
                prop_assert_eq!(found.inertia.to_bits(), together.inertia.to_bits());
                prop_assert_eq!(&found, &together, "{} shards", shards);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Whoever runs them, and in whatever order they are compared.
        #[test]
        fn the_better_of_all_restarts_is_the_clustering(
            rows in small_rows(),
            clusters in 1..6usize,
            restarts in 1..6usize,
            seed in 0..50u64,
            cut in 0..6usize,
            shards in 1..4usize,
        ) {
            let settings = KMeans { clusters, restarts, iterations: 300, seed };
            let whole = settings.run(&rows, 1);
            let all: Vec<usize> = (0..restarts).collect();
            let (some, others) = all.split_at(cut.min(restarts));
            let in_shards = InShards { rows: &rows, shards };
            let Ok(mut found) = settings.run_restarts(&in_shards, others, 2);
            let Ok(more) = settings.run_restarts(&rows, some, 1);
            found.extend(more);
            let numbers: Vec<usize> = found.iter().map(|run| run.clusters.restart).collect();
            if rows.is_empty() {
                prop_assert!(found.is_empty());
            } else {
                prop_assert_eq!(numbers, [others, some].concat());
                let best = found.into_iter().reduce(Restart::better).unwrap();
                prop_assert_eq!(best.clusters, whole);
            }
        }
    }

    #[test]
    fn wide_rows_in_shards_are_as_together() {
        for (clusters, columns) in [(3, 70), (5, 300), (17, 520)] {
            let mut rows = noisy_rows(200, columns, 8, 0.35, columns as u64);
            for i in (0..200).step_by(3) {
                let row = rows.row(i).to_vec();
                rows.push(&row);
            }
            let together = kmeans(clusters).run(&rows, 2);
            assert!(together.iterations > 2, "{clusters} clusters");
            for shards in [3, 16, 300] {
                let Ok(found) = kmeans(clusters).run_shards(
                    &InShards {
                        rows: &rows,
                        shards,
                    },
                    2,
                );
                assert_eq!(found, together, "{shards} shards");
            }
        }
    }

    /// A shard that cannot be read.
    struct Torn(BitRows);

    impl RowShards for Torn {
        type Error = &'static str;

        fn shards(&self) -> usize {
            2
        }

        fn rows(&self, shard: usize) -> Result<std::borrow::Cow<'_, BitRows>, &'static str> {
            match shard {
                0 => Ok(std::borrow::Cow::Borrowed(&self.0)),
                _ => Err("torn"),
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let torn = Torn(random_rows(30, 20, 0.5, 4));
        assert_eq!(kmeans(2).run_shards(&torn, 2), Err("torn"));
    }

    #[test]
    fn wide_rows_cluster_by_the_definition() {
        // More clusters than a block of lanes, more words than a tile.
        for (clusters, columns) in [(3, 70), (5, 300), (17, 520)] {
            let rows = noisy_rows(200, columns, 8, 0.35, columns as u64);
            let settings = KMeans {
                restarts: 2,
                ..kmeans(clusters)
            };
            let clustering = settings.run(&rows, 1);
            // The second looks at every row, bounds come in with the third.
            assert!(clustering.iterations > 2, "{clusters} clusters");
            let expected = naive(&settings, &rows);
            assert_eq!(clustering.labels, expected.labels);
            assert_eq!(clustering.restart, expected.restart);
        }
    }

    #[test]
    fn worked_case() {
        // 1100, 1110 | 0011, 0001: the pairs differ in one bit, whose squared distances to the
        // mean are 1/4 twice.
        let rows = rows_of(
            1,
            [[0b0011], [0b0111], [0b1100], [0b1000]]
                .iter()
                .map(|row| &row[..]),
        );
        let clustering = kmeans(2).run(&rows, 1);
        assert_eq!(clustering.labels, [0, 0, 1, 1]);
        assert_eq!(clustering.sizes, [2, 2]);
        assert_eq!(clustering.inertia, 1.0);
        assert!(clustering.converged);
    }

    #[test]
    fn threads_do_not_matter() {
        let rows = random_rows(500, 200, 0.3, 9);
        let alone = kmeans(6).run(&rows, 1);
        for threads in [0, 2, 8] {
            assert_eq!(kmeans(6).run(&rows, threads), alone);
        }
        let seeded = KMeans {
            seed: 1,
            ..kmeans(6)
        };
        assert_ne!(seeded.run(&rows, 1).labels, alone.labels);
    }

    #[test]
    fn there_are_no_more_clusters_than_distinct_rows() {
        let rows = rows_of(1, [[5], [9], [5], [5], [9], [6]].iter().map(|row| &row[..]));
        for clusters in [3, 4, 100] {
            let clustering = kmeans(clusters).run(&rows, 2);
            assert_eq!(clustering.labels, [0, 1, 0, 0, 1, 2]);
            assert_eq!(clustering.sizes, [3, 2, 1]);
            assert_eq!(clustering.inertia, 0.0);
        }
    }

    #[test]
    fn equal_rows_one_row_and_no_row() {
        let equal = rows_of(1, [[7], [7], [7]].iter().map(|row| &row[..]));
        let clustering = kmeans(2).run(&equal, 1);
        assert_eq!((clustering.labels, clustering.sizes), (vec![0; 3], vec![3]));
        assert_eq!(clustering.inertia, 0.0);
        let one = kmeans(4).run(&BitRows::zeros(3, 1), 1);
        assert_eq!((one.labels, one.sizes), (vec![0], vec![1]));
        let without_bits = kmeans(2).run(&BitRows::zeros(0, 2), 1);
        assert_eq!(without_bits.sizes, [2]);
        for clusters in [0, 3] {
            assert_eq!(
                kmeans(clusters).run(&BitRows::new(2), 1),
                KMeansClusters::default()
            );
        }
    }

    #[test]
    fn settings_of_zero_count_as_one() {
        let rows = random_rows(30, 20, 0.5, 4);
        let zero = KMeans {
            clusters: 0,
            restarts: 0,
            iterations: 0,
            seed: 0,
        };
        assert_eq!(zero.run(&rows, 0).sizes, [30]);
        let zero = KMeans {
            clusters: 3,
            ..zero
        };
        let clustering = zero.run(&rows, 0);
        assert_eq!((clustering.iterations, clustering.converged), (1, false));
        assert_eq!(clustering.sizes.len(), 3);
    }
}
