//! Greedy k-means++: rows that become the first centres.

use super::points::Points;
use crate::random::Generator;

/// The cluster of each point when `clusters` of the points are the centres.
///
/// The first centre is a row drawn uniformly. For each further one, `2 + floor(ln clusters)` rows
/// are drawn with probabilities proportional to their squared distances to the nearest centre so
/// far, and the one that leaves the least sum of these distances is taken (ties: the one drawn
/// first). A squared distance of rows of bits is the number of bits in which they differ.
pub(super) fn seed(points: &Points, clusters: usize, rng: &mut Generator) -> Vec<u32> {
    let trials = 2 + (clusters as f64).ln() as usize;
    let mut labels = vec![0; points.len()];
    let weights = points.weights.iter().map(|&weight| u64::from(weight));
    let first = draw(&cumulate(weights), rng);
    let mut nearest = vec![0; points.len()];
    distances(points, first, &mut nearest);
    let mut trial = vec![0; points.len()];
    let mut best = vec![0; points.len()];
    for label in 1..clusters {
        let sums = cumulate(
            nearest
                .iter()
                .zip(&points.weights)
                .map(|(&distance, &weight)| u64::from(distance) * u64::from(weight)),
        );
        let mut least = u64::MAX;
        for _ in 0..trials {
            distances(points, draw(&sums, rng), &mut trial);
            let left = trial
                .iter()
                .zip(&nearest)
                .zip(&points.weights)
                .map(|((&trial, &nearest), &weight)| {
                    u64::from(trial.min(nearest)) * u64::from(weight)
                })
                .sum();
            if left < least {
                least = left;
                std::mem::swap(&mut trial, &mut best);
            }
        }
        for ((nearest, &distance), at) in nearest.iter_mut().zip(&best).zip(&mut labels) {
            if distance < *nearest {
                *nearest = distance;
                *at = label as u32;
            }
        }
    }
    labels
}

/// The squared distances of all points to one of them.
fn distances(points: &Points, to: usize, distances: &mut [u32]) {
    let centre = points.bits.row(to);
    for (row, distance) in points.bits.rows().zip(distances) {
        *distance = row
            .iter()
            .zip(centre)
            .map(|(a, b)| (a ^ b).count_ones())
            .sum();
    }
}

fn cumulate(shares: impl Iterator<Item = u64>) -> Vec<u64> {
    shares
        .scan(0, |sum, share| {
            *sum += share;
            Some(*sum)
        })
        .collect()
}

/// An index, drawn with probability proportional to its share of the cumulated sums.
fn draw(sums: &[u64], rng: &mut Generator) -> usize {
    let total = sums.last().copied().unwrap_or(0).max(1);
    let at = rng.below(total);
    sums.partition_point(|&sum| sum <= at)
}
