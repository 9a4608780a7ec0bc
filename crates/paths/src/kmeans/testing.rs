//! K-means as it is defined, and rows to test with.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::convert::Infallible;

use super::{KMeans, KMeansClusters, RowShards};
use crate::BitRows;
use crate::bits::{get, set};
use crate::random::{DrawnFor, Generator};

pub(super) fn rows_of<'a>(width: usize, rows: impl IntoIterator<Item = &'a [u64]>) -> BitRows {
    let mut of = BitRows::new(width);
    for row in rows {
        of.push(row);
    }
    of
}

/// Rows in so many shards, which differ by at most one row.
pub(crate) struct InShards<'a> {
    pub(crate) rows: &'a BitRows,
    pub(crate) shards: usize,
}

impl RowShards for InShards<'_> {
    type Error = Infallible;

    fn shards(&self) -> usize {
        self.shards
    }

    fn rows(&self, shard: usize) -> Result<Cow<'_, BitRows>, Infallible> {
        let start = |shard: usize| (self.rows.len() * shard / self.shards) as u32;
        let rows: Vec<u32> = (start(shard)..start(shard + 1)).collect();
        Ok(Cow::Owned(self.rows.gather(&rows)))
    }
}

/// Independent bits, each set with probability `density`.
pub(super) fn random_rows(len: usize, columns: usize, density: f64, seed: u64) -> BitRows {
    let mut rng = Generator::new(seed, DrawnFor::Experiments, 0, 0);
    let mut rows = BitRows::zeros(columns.div_ceil(64), len);
    for i in 0..len {
        for column in 0..columns {
            if rng.uniform() < density {
                set(rows.row_mut(i), column);
            }
        }
    }
    rows
}

/// Copies of a few random rows, in turn, with each bit flipped with probability `flip`.
pub(crate) fn noisy_rows(
    len: usize,
    columns: usize,
    prototypes: usize,
    flip: f64,
    seed: u64,
) -> BitRows {
    let prototype = random_rows(prototypes, columns, 0.35, seed);
    let mut rows = random_rows(len, columns, flip, seed + 1);
    for i in 0..len {
        for (word, &other) in rows
            .row_mut(i)
            .iter_mut()
            .zip(prototype.row(i % prototypes))
        {
            *word ^= other;
        }
    }
    rows
}

/// A fraction that is not negative, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fraction(u128, u128);

impl Fraction {
    fn new(n: u128, d: u128) -> Fraction {
        let (mut a, mut b) = (n, d);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        Fraction(n / a, d / a)
    }

    fn plus(self, other: Fraction) -> Fraction {
        Fraction::new(self.0 * other.1 + other.0 * self.1, self.1 * other.1)
    }

    fn compare(self, other: Fraction) -> Ordering {
        (self.0 * other.1).cmp(&(other.0 * self.1))
    }
}

/// A centre: for every column a fraction with one denominator for all.
#[derive(Clone)]
struct Mean {
    counts: Vec<u128>,
    size: u128,
}

impl Mean {
    fn of(rows: &BitRows, members: impl Iterator<Item = usize>) -> Mean {
        let mut mean = Mean {
            counts: vec![0; rows.width() * 64],
            size: 0,
        };
        for member in members {
            mean.size += 1;
            for (column, count) in mean.counts.iter_mut().enumerate() {
                *count += u128::from(get(rows.row(member), column));
            }
        }
        mean
    }

    /// The sum of (x_t - c_t / N)^2.
    fn distance(&self, row: &[u64]) -> Fraction {
        let squares = self.counts.iter().enumerate().map(|(column, &count)| {
            let bit = u128::from(get(row, column)) * self.size;
            bit.abs_diff(count).pow(2)
        });
        Fraction::new(squares.sum(), self.size.pow(2))
    }
}

/// The rows that are not equal to an earlier one.
fn distinct(rows: &BitRows) -> Vec<usize> {
    (0..rows.len())
        .filter(|&i| (0..i).all(|earlier| rows.row(earlier) != rows.row(i)))
        .collect()
}

/// K-means by its definition, with distances and inertias as fractions. What the settings leave
/// open is taken from [`super::seeding`]: draws are among the distinct rows, in the order of their
/// first appearance.
pub(super) fn naive(settings: &KMeans, rows: &BitRows) -> KMeansClusters {
    let distinct = distinct(rows);
    let clusters = settings.clusters.min(distinct.len());
    if clusters == 0 {
        return KMeansClusters::default();
    }
    let restarts = if clusters == 1 { 1 } else { settings.restarts };
    let mut best: Option<(Fraction, KMeansClusters)> = None;
    for restart in 0..restarts {
        let mut rng = Generator::new(settings.seed, DrawnFor::Clusters, 0, restart as u64);
        let labels = naive_seeds(rows, &distinct, clusters, &mut rng);
        let (inertia, clustering) = naive_iterate(rows, clusters, labels, settings.iterations);
        if best
            .as_ref()
            .is_none_or(|(least, _)| inertia.compare(*least) == Ordering::Less)
        {
            best = Some((
                inertia,
                KMeansClusters {
                    restart,
                    ..clustering
                },
            ));
        }
    }
    best.unwrap().1
}

fn hamming(a: &[u64], b: &[u64]) -> u64 {
    (0..a.len() * 64)
        .filter(|&bit| get(a, bit) != get(b, bit))
        .count() as u64
}

/// The nearest of the seeds for each row.
fn naive_seeds(
    rows: &BitRows,
    distinct: &[usize],
    clusters: usize,
    rng: &mut Generator,
) -> Vec<usize> {
    let nearest = |row: usize, seeds: &[usize]| {
        seeds
            .iter()
            .map(|&seed| hamming(rows.row(row), rows.row(seed)))
            .min()
    };
    let mut draw = |shares: Vec<u64>| {
        let total: u64 = shares.iter().sum();
        let mut at = loop {
            let number = rng.number();
            if number < u64::MAX / total * total {
                break number % total;
            }
        };
        for (index, share) in shares.into_iter().enumerate() {
            if at < share {
                return distinct[index];
            }
            at -= share;
        }
        unreachable!()
    };
    let mut seeds = Vec::new();
    while seeds.len() < clusters {
        let share = |&point: &usize| -> u64 {
            let equal = (0..rows.len()).filter(|&row| rows.row(row) == rows.row(point));
            equal.map(|row| nearest(row, &seeds).unwrap_or(1)).sum()
        };
        let shares: Vec<u64> = distinct.iter().map(share).collect();
        let trials = if seeds.is_empty() {
            1
        } else {
            2 + (clusters as f64).ln() as usize
        };
        let candidates: Vec<usize> = (0..trials).map(|_| draw(shares.clone())).collect();
        let left = |candidate: &usize| -> u64 {
            let with = [&seeds[..], &[*candidate]].concat();
            (0..rows.len()).filter_map(|row| nearest(row, &with)).sum()
        };
        seeds.push(candidates.into_iter().min_by_key(left).unwrap());
    }
    let label = |row: &[u64]| {
        (0..clusters)
            .min_by_key(|&j| hamming(row, rows.row(seeds[j])))
            .unwrap()
    };
    rows.rows().map(label).collect()
}

/// Lloyd's iterations from the labels of the first.
pub(super) fn naive_iterate(
    rows: &BitRows,
    clusters: usize,
    mut labels: Vec<usize>,
    max_iterations: usize,
) -> (Fraction, KMeansClusters) {
    let means = |labels: &[usize]| -> Vec<Mean> {
        let mean = |j| Mean::of(rows, (0..rows.len()).filter(move |&i| labels[i] == j));
        (0..clusters).map(mean).collect()
    };
    let mut centres = means(&labels);
    let mut iterations = 1;
    let mut converged = clusters == 1;
    while !converged && iterations < max_iterations {
        iterations += 1;
        let before = labels.clone();
        for (row, label) in rows.rows().zip(&mut labels) {
            *label = 0;
            for j in 1..clusters {
                if centres[j]
                    .distance(row)
                    .compare(centres[*label].distance(row))
                    .is_lt()
                {
                    *label = j;
                }
            }
        }
        for empty in 0..clusters {
            if labels.contains(&empty) {
                continue;
            }
            let mut farthest: Option<usize> = None;
            for point in distinct(rows) {
                let shared = (0..rows.len())
                    .any(|i| labels[i] == labels[point] && rows.row(i) != rows.row(point));
                let distance = |i: usize| centres[labels[i]].distance(rows.row(i));
                if shared && farthest.is_none_or(|f| distance(point).compare(distance(f)).is_gt()) {
                    farthest = Some(point);
                }
            }
            let farthest = farthest.unwrap();
            for i in 0..rows.len() {
                if rows.row(i) == rows.row(farthest) {
                    labels[i] = empty;
                }
            }
        }
        converged = labels == before;
        centres = means(&labels);
    }
    let mut order = Vec::new();
    for &label in &labels {
        if !order.contains(&label) {
            order.push(label);
        }
    }
    // One cluster after the other: their sums have small denominators.
    let inertia = order.iter().fold(Fraction(0, 1), |sum, &j| {
        let members = (0..rows.len()).filter(|&i| labels[i] == j);
        let distances = members.map(|i| centres[j].distance(rows.row(i)));
        sum.plus(distances.fold(Fraction(0, 1), Fraction::plus))
    });
    let clustering = KMeansClusters {
        labels: labels
            .iter()
            .map(|label| order.iter().position(|other| other == label).unwrap() as u32)
            .collect(),
        sizes: order
            .iter()
            .map(|&label| centres[label].size as u32)
            .collect(),
        inertia: inertia.0 as f64 / inertia.1 as f64,
        iterations,
        restart: 0,
        converged,
    };
    (inertia, clustering)
}
