//! Greedy k-means++: rows that become the first centres.

use std::ops::Range;

use super::points::{Points, RowShards};
use crate::random::Generator;

/// The cluster of each point when `clusters` of the points are the centres.
///
/// The first centre is a row drawn uniformly. For each further one, `2 + floor(ln clusters)` rows
/// are drawn with probabilities proportional to their squared distances to the nearest centre so
/// far, and the one that leaves the least sum of these distances is taken (ties: the one drawn
/// first). A squared distance of rows of bits is the number of bits in which they differ.
///
/// All that shards are asked for are whole numbers and their sums. Which point a number draws
/// follows from the sums of the shards before its own: so it does not matter how many there are.
pub(super) fn seed<S: RowShards>(
    points: &Points<'_, S>,
    clusters: usize,
    rng: &mut Generator,
) -> Result<Vec<u32>, S::Error> {
    let trials = 2 + (clusters as f64).ln() as usize;
    let mut labels = vec![0; points.len()];
    // Every point is as far from no centre.
    let mut nearest = vec![1; points.len()];
    let first = points.point(draw(&Shares::new(points, &nearest), rng))?;
    let mut distances = [vec![0; points.len()]];
    measure(points, &[first], &mut distances)?;
    let [distances] = distances;
    nearest.copy_from_slice(&distances);
    let mut tried = vec![distances; trials];
    for label in 1..clusters {
        let shares = Shares::new(points, &nearest);
        let drawn = (0..trials).map(|_| points.point(draw(&shares, rng)));
        measure(points, &drawn.collect::<Result<Vec<_>, _>>()?, &mut tried)?;
        let left = |distances: &&Vec<u32>| -> u64 {
            let nearer = distances.iter().zip(&nearest);
            let nearer = nearer.map(|(&distance, &nearest)| distance.min(nearest));
            let weighted = nearer.zip(&points.weights);
            weighted
                .map(|(distance, &weight)| u64::from(distance) * u64::from(weight))
                .sum()
        };
        let Some(best) = tried.iter().min_by_key(left) else {
            continue;
        };
        for ((nearest, &distance), at) in nearest.iter_mut().zip(best).zip(&mut labels) {
            if distance < *nearest {
                *nearest = distance;
                *at = label as u32;
            }
        }
    }
    Ok(labels)
}

/// The squared distances of all points to each of some rows.
fn measure<S: RowShards>(
    points: &Points<'_, S>,
    to: &[Vec<u64>],
    distances: &mut [Vec<u32>],
) -> Result<(), S::Error> {
    for shard in 0..points.shards() {
        let bits = points.bits(shard)?;
        for (to, distances) in to.iter().zip(&mut *distances) {
            for (row, distance) in bits.rows().zip(&mut distances[points.of_shard(shard)]) {
                *distance = row.iter().zip(to).map(|(a, b)| (a ^ b).count_ones()).sum();
            }
        }
    }
    Ok(())
}

/// How likely points are drawn: by distance and weight, as whole numbers.
struct Shares<'a> {
    distances: &'a [u32],
    weights: &'a [u32],
    /// The points of each shard, and the sum of the shares of all shards up to it.
    shards: Vec<(Range<usize>, u64)>,
}

impl<'a> Shares<'a> {
    fn new<S: RowShards>(points: &'a Points<'_, S>, distances: &'a [u32]) -> Shares<'a> {
        let mut shares = Shares {
            distances,
            weights: &points.weights,
            shards: Vec::with_capacity(points.shards()),
        };
        let mut sum = 0;
        for shard in 0..points.shards() {
            let range = points.of_shard(shard);
            sum += range.clone().map(|point| shares.of(point)).sum::<u64>();
            shares.shards.push((range, sum));
        }
        shares
    }

    fn of(&self, point: usize) -> u64 {
        u64::from(self.distances[point]) * u64::from(self.weights[point])
    }
}

/// A point, drawn with probability proportional to its share.
fn draw(shares: &Shares<'_>, rng: &mut Generator) -> usize {
    let total = shares.shards.last().map_or(0, |shard| shard.1);
    let at = rng.below(total);
    let mut before = 0;
    for (range, sum) in &shares.shards {
        if at < *sum {
            let mut left = at - before;
            let mut points = range.clone();
            let drawn = points.find(|&point| match left.checked_sub(shares.of(point)) {
                Some(rest) => {
                    left = rest;
                    false
                }
                None => true,
            });
            return drawn.unwrap_or(range.start);
        }
        before = *sum;
    }
    0
}
