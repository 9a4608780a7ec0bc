//! Lloyd's iterations: centres from labels, labels from centres.
//!
//! With `N` the members of a cluster, `c_t` how many of them have bit `t`, `S` the sum of all
//! `c_t^2` and `D(x)` the sum of `c_t` over the bits set in `x`, the squared distance of `x` to the
//! centre is
//!
//! ```text
//! sum over t of (x_t - c_t / N)^2  =  |x| - 2 D(x) / N + S / N^2  =  |x| + (S - 2 N D(x)) / N^2.
//! ```
//!
//! Floating point finds the nearest centre where it can tell, integers decide the rest. Most
//! points are not looked at at all in later iterations: a point stays when its centre, having
//! moved away as far as it can have, is still nearer than every other centre, having come as near
//! as it can have (Elkan's bounds). This needs bounds with room for rounding, and changes nothing.
//!
//! Where points are in shards, each is asked for whole numbers alone: how many of those that joined
//! or left a cluster have each bit, whether a label changed, which of its points is farthest. Their
//! sums and maxima do not depend on how points are divided. A shard whose points all stay is not
//! even read.

use std::cmp::Ordering;

use super::blocks::Sum;
use super::column::add_columns;
use super::exact::{OverSquare, compare_over_squares};
use super::points::{Points, RowShards};
use super::sums::{member_sums, stride};
use crate::bits::ones;

/// The centre of a cluster, as whole numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Centre {
    /// `N`.
    pub(super) size: u32,
    /// `S`.
    pub(super) square: u128,
}

impl Centre {
    /// The squared distance of a point less its number of bits, as a numerator over `N^2`.
    fn numerator(&self, sum: i128) -> i128 {
        self.square as i128 - 2 * i128::from(self.size) * sum
    }

    /// The squared distance of a point of so many bits, as a numerator over `N^2`.
    pub(super) fn distance(&self, ones: u32, sum: i128) -> OverSquare {
        let ones = i128::from(ones) * i128::from(self.size).pow(2);
        (ones + self.numerator(sum), self.size)
    }
}

/// Labels that the iterations arrived at.
pub(super) struct Outcome {
    pub(super) labels: Vec<u32>,
    /// The means of the clusters, none of which is empty.
    pub(super) centres: Vec<Centre>,
    /// `c_t` of each cluster.
    pub(super) counts: Vec<Vec<u32>>,
    /// Times that points were assigned to centres, the centres of the seeding included.
    pub(super) iterations: usize,
    /// Whether the last of them changed no label.
    pub(super) converged: bool,
}

impl Outcome {
    /// `S / N` of every cluster.
    pub(super) fn explained(&self) -> Vec<(u128, u32)> {
        self.centres
            .iter()
            .map(|centre| (centre.square, centre.size))
            .collect()
    }
}

/// Iterates from `labels`, which are the result of the first iteration.
pub(super) fn iterate<S: RowShards>(
    points: &Points<'_, S>,
    clusters: usize,
    labels: Vec<u32>,
    max_iterations: usize,
) -> Result<Outcome, S::Error> {
    let mut state = Lloyd::new(points, clusters, labels);
    let mut iterations = 1;
    // One cluster is where it will be.
    let mut converged = clusters == 1;
    state.move_centres(&vec![u32::MAX; points.len()])?;
    while !converged && iterations < max_iterations {
        iterations += 1;
        let before = state.labels.clone();
        state.assign()?;
        state.fill_empty()?;
        converged = state.labels == before;
        state.move_centres(&before)?;
    }
    Ok(Outcome {
        labels: state.labels,
        centres: state.centres,
        counts: state.counts,
        iterations,
        converged,
    })
}

/// Relative room for rounding in bounds. Every bound takes less than a thousand operations.
const ROOM: f64 = 1e-9;

/// What one assignment has to look at.
struct Contest {
    /// By their place in the shard.
    points: Vec<u32>,
    /// In ascending order. The other clusters are farther from all of the points than their own.
    clusters: Vec<usize>,
}

/// What joined a cluster and what left it: how many rows, and how many of them have each bit.
#[derive(Clone, Default)]
struct Change {
    joined: u32,
    left: u32,
    plus: Vec<u32>,
    minus: Vec<u32>,
}

pub(super) struct Lloyd<'a, S> {
    points: &'a Points<'a, S>,
    pub(super) labels: Vec<u32>,
    centres: Vec<Centre>,
    counts: Vec<Vec<u32>>,
    /// How far each centre can have moved in all iterations together.
    moved: Vec<f64>,
    /// For each point: its distance to its own centre at most, less `moved` of that cluster.
    /// Infinite where it has to be looked at in any case: no lower bound exceeds it.
    upper: Vec<f64>,
    /// For each point and cluster: its distance at least, plus `moved` of that cluster. Infinite
    /// for its own cluster and for surplus places.
    lower: Vec<f64>,
    /// Clusters of a row of `lower`.
    stride: usize,
    /// More than what rounding can do to a squared distance.
    margin: f64,
    sums: Vec<f64>,
}

impl<'a, S: RowShards> Lloyd<'a, S> {
    fn new(points: &'a Points<'a, S>, clusters: usize, labels: Vec<u32>) -> Lloyd<'a, S> {
        let stride = stride(clusters);
        Lloyd {
            points,
            labels,
            centres: vec![Centre::default(); clusters],
            counts: vec![vec![0; points.columns()]; clusters],
            moved: vec![0.0; stride],
            upper: vec![f64::INFINITY; points.len()],
            lower: vec![f64::INFINITY; points.len() * stride],
            stride,
            // |x|, S / N^2 and 2 D / N are at most twice the columns, and a few roundings each
            // take 2^-53 of that.
            margin: points.columns() as f64 * 2f64.powi(-47),
            sums: Vec::new(),
        }
    }

    /// Points that have the nearest one of given centres.
    pub(super) fn assigned(
        points: &'a Points<'a, S>,
        centres: &[Sum],
    ) -> Result<Lloyd<'a, S>, S::Error> {
        let mut state = Lloyd::new(points, centres.len(), vec![0; points.len()]);
        state.centres = centres.iter().map(Sum::centre).collect();
        state.counts = centres.iter().map(|sum| sum.counts.clone()).collect();
        state.assign()?;
        Ok(state)
    }

    /// What the points of each cluster are together.
    pub(super) fn sums(&self) -> Result<Vec<Sum>, S::Error> {
        let mut changes = vec![Change::default(); self.centres.len()];
        let before = vec![u32::MAX; self.labels.len()];
        for shard in 0..self.points.shards() {
            self.count_changes(shard, &before, &mut changes)?;
        }
        let sum = |mut change: Change| {
            change.plus.resize(self.points.columns(), 0);
            Sum {
                size: change.joined,
                counts: change.plus,
            }
        };
        Ok(changes.into_iter().map(sum).collect())
    }

    /// How many points each cluster has.
    pub(super) fn members(&self) -> Vec<u32> {
        let mut members = vec![0; self.centres.len()];
        for &label in &self.labels {
            members[label as usize] += 1;
        }
        members
    }

    /// Gives every cluster the mean of its members as its centre. `before` are the labels of which
    /// the centres are the means so far.
    fn move_centres(&mut self, before: &[u32]) -> Result<(), S::Error> {
        let mut changes = vec![Change::default(); self.centres.len()];
        for shard in 0..self.points.shards() {
            self.count_changes(shard, before, &mut changes)?;
        }
        for (j, change) in changes.iter().enumerate() {
            if change.joined == 0 && change.left == 0 {
                continue;
            }
            let old_size = self.centres[j].size;
            let size = old_size + change.joined - change.left;
            let (old_part, part) = (
                1.0 / f64::from(old_size.max(1)),
                1.0 / f64::from(size.max(1)),
            );
            let mut shift = 0.0;
            let mut square = 0;
            let columns = change.plus.iter().zip(&change.minus);
            for (count, (plus, minus)) in self.counts[j].iter_mut().zip(columns) {
                let old = f64::from(*count) * old_part;
                *count = *count + plus - minus;
                shift += (f64::from(*count) * part - old).powi(2);
                square += u128::from(*count) * u128::from(*count);
            }
            self.moved[j] += shift.sqrt() * (1.0 + ROOM) + ROOM;
            self.centres[j] = Centre { size, square };
        }
        Ok(())
    }

    /// Adds, by cluster, what points of a shard that joined or left it were.
    fn count_changes(
        &self,
        shard: usize,
        before: &[u32],
        changes: &mut [Change],
    ) -> Result<(), S::Error> {
        let range = self.points.of_shard(shard);
        let mut joined = vec![Vec::new(); changes.len()];
        let mut left = vec![Vec::new(); changes.len()];
        let labels = before[range.clone()]
            .iter()
            .zip(&self.labels[range.clone()]);
        for (point, (&from, &to)) in labels.enumerate() {
            if from != to {
                joined[to as usize].push(point as u32);
                if let Some(left) = left.get_mut(from as usize) {
                    left.push(point as u32);
                }
            }
        }
        if joined.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let bits = self.points.bits(shard)?;
        let weights = &self.points.weights[range];
        let add = |members: &[u32], weight: &mut u32, columns: &mut Vec<u32>| {
            *weight += members.iter().map(|&i| weights[i as usize]).sum::<u32>();
            columns.resize(self.points.columns(), 0);
            add_columns(&bits, weights, members, columns);
        };
        for (j, change) in changes.iter_mut().enumerate() {
            if !joined[j].is_empty() || !left[j].is_empty() {
                add(&joined[j], &mut change.joined, &mut change.plus);
                add(&left[j], &mut change.left, &mut change.minus);
            }
        }
        Ok(())
    }

    /// Gives every point the nearest centre (ties: the lowest cluster).
    fn assign(&mut self) -> Result<(), S::Error> {
        (0..self.points.shards()).try_for_each(|shard| self.assign_shard(shard))
    }

    fn assign_shard(&mut self, shard: usize) -> Result<(), S::Error> {
        let Contest { points, clusters } = self.contest(shard);
        if points.is_empty() {
            return Ok(());
        }
        let start = self.points.of_shard(shard).start;
        let bits = self.points.bits(shard)?;
        let counts: Vec<&[u32]> = clusters.iter().map(|&j| &self.counts[j][..]).collect();
        let lanes = stride(clusters.len());
        self.sums.resize(points.len() * lanes, 0.0);
        let largest = self.centres.iter().map(|centre| u64::from(centre.size));
        let counts = (&counts[..], largest.max().unwrap_or_default());
        member_sums(&bits, counts, &points, &mut self.sums);

        // Distance^2 - |x| = offset - factor * D; surplus lanes are infinitely far.
        let mut offset = vec![f64::INFINITY; lanes];
        let mut factor = vec![0.0; lanes];
        for (lane, &j) in clusters.iter().enumerate() {
            let size = f64::from(self.centres[j].size);
            offset[lane] = self.centres[j].square as f64 / (size * size);
            factor[lane] = 2.0 / size;
        }
        let mut squares = vec![0.0; lanes];
        for (&point, sums) in points.iter().zip(self.sums.chunks_exact(lanes)) {
            let point = start + point as usize;
            for (square, (sum, (offset, factor))) in squares
                .iter_mut()
                .zip(sums.iter().zip(offset.iter().zip(&factor)))
            {
                *square = offset - factor * sum;
            }
            let limit = least(&squares) + self.margin;
            let (mut nearest, mut near) = (0, 0);
            for (lane, &square) in squares.iter().enumerate().rev() {
                nearest = if square <= limit { lane } else { nearest };
                near += u32::from(square <= limit);
            }
            if near > 1 {
                let fraction = |lane: usize| {
                    let centre = &self.centres[clusters[lane]];
                    (centre.numerator(sums[lane] as i128), centre.size)
                };
                for lane in nearest + 1..lanes {
                    if squares[lane] <= limit
                        && compare_over_squares(fraction(lane), fraction(nearest)).is_lt()
                    {
                        nearest = lane;
                    }
                }
            }
            let ones = f64::from(self.points.ones[point]);
            for square in &mut squares {
                *square = (*square + (ones - self.margin)).max(0.0).sqrt();
            }
            let lower = &mut self.lower[point * self.stride..][..self.stride];
            for (&j, distance) in clusters.iter().zip(&squares) {
                lower[j] = distance + self.moved[j];
            }
            let label = clusters[nearest];
            lower[label] = f64::INFINITY;
            self.upper[point] = (limit + ones).max(0.0).sqrt() - self.moved[label];
            self.labels[point] = label as u32;
        }
        Ok(())
    }

    /// The points of a shard whose nearest centre is not known from bounds, and the clusters it can be of.
    fn contest(&self, shard: usize) -> Contest {
        let range = self.points.of_shard(shard);
        let lower = &self.lower[range.start * self.stride..range.end * self.stride];
        let rows = lower.chunks_exact(self.stride);
        let labels = &self.labels[range.clone()];
        let bounds = rows.zip(&self.upper[range]).zip(labels);
        let mut points = Vec::new();
        let mut contested = vec![false; self.stride];
        for (point, ((lower, upper), &label)) in bounds.enumerate() {
            let label = label as usize;
            let upper = (upper + self.moved[label]) * (1.0 + ROOM) + ROOM;
            let distances = || {
                lower
                    .iter()
                    .zip(&self.moved)
                    .map(|(lower, moved)| lower - moved)
            };
            // A sum, not `any`: without a branch it takes a vector at a time.
            let rivals: u32 = distances().map(|lower| u32::from(lower <= upper)).sum();
            if rivals > 0 {
                points.push(point as u32);
                contested[label] = true;
                for (contested, lower) in contested.iter_mut().zip(distances()) {
                    *contested |= lower <= upper;
                }
            }
        }
        let clusters = (0..self.centres.len()).filter(|&j| contested[j]).collect();
        Contest { points, clusters }
    }

    /// Gives each empty cluster, in order, the point that is farthest from the centre it was
    /// assigned to (ties: the lowest), among those whose cluster has other points.
    fn fill_empty(&mut self) -> Result<(), S::Error> {
        let mut members = self.members();
        for empty in 0..members.len() {
            if members[empty] > 0 {
                continue;
            }
            // There are at least as many points as clusters.
            let Some((point, _)) = self.farthest(&members)? else {
                continue;
            };
            members[self.labels[point] as usize] -= 1;
            members[empty] = 1;
            self.labels[point] = empty as u32;
            self.upper[point] = f64::INFINITY;
        }
        Ok(())
    }

    /// The point that is farthest from the centre it was assigned to (ties: the lowest), among those whose cluster has
    /// other points, and how far it is.
    pub(super) fn farthest(
        &self,
        members: &[u32],
    ) -> Result<Option<(usize, OverSquare)>, S::Error> {
        let mut farthest: Option<(usize, OverSquare)> = None;
        for shard in 0..self.points.shards() {
            let bits = self.points.bits(shard)?;
            for (point, row) in self.points.of_shard(shard).zip(bits.rows()) {
                let label = self.labels[point] as usize;
                if members[label] < 2 {
                    continue;
                }
                let distance = self.distance(point, row, label);
                let farther = farthest.is_none_or(|(_, most)| {
                    compare_over_squares(distance, most) == Ordering::Greater
                });
                if farther {
                    farthest = Some((point, distance));
                }
            }
        }
        Ok(farthest)
    }

    /// The squared distance to a centre, as a numerator over the square of its size.
    fn distance(&self, point: usize, row: &[u64], cluster: usize) -> OverSquare {
        let counts = &self.counts[cluster];
        let sum = ones(row).map(|t| i128::from(counts[t])).sum();
        self.centres[cluster].distance(self.points.ones[point], sum)
    }
}

/// The least of numbers that fill whole vectors.
fn least(numbers: &[f64]) -> f64 {
    let mut least = [f64::INFINITY; 4];
    for four in numbers.as_chunks::<4>().0 {
        for (least, &number) in least.iter_mut().zip(four) {
            *least = if number < *least { number } else { *least };
        }
    }
    least.into_iter().fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmeans::testing::{InShards, naive_iterate, rows_of};
    use proptest::prelude::*;

    /// Labels in the order of their first appearance.
    fn canonical(labels: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut order = Vec::new();
        labels
            .map(|label| {
                order
                    .iter()
                    .position(|&other| other == label)
                    .unwrap_or_else(|| {
                        order.push(label);
                        order.len() - 1
                    }) as u32
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// From labels that no seeding would give: clusters run empty, centres move far.
        #[test]
        fn iterations_are_those_of_the_definition(
            rows in prop::collection::vec((0..64u64, any::<u32>()), 6..24),
            clusters in 2..6u32,
            iterations in 2..12usize,
            shards in 1..5usize,
        ) {
            let words: Vec<[u64; 1]> = rows.iter().map(|row| [row.0]).collect();
            let rows_of = rows_of(1, words.iter().map(|row| &row[..]));
            let shards = InShards { rows: &rows_of, shards };
            let Ok(points) = Points::new(&shards);
            prop_assume!(points.len() >= clusters as usize);
            let labels: Vec<u32> = (0..clusters)
                .chain(rows.iter().map(|row| row.1 % clusters))
                .take(points.len())
                .collect();
            let Ok(outcome) = iterate(&points, clusters as usize, labels.clone(), iterations);
            let of_rows = points.of_row.iter().map(|&point| labels[point as usize] as usize);
            let (_, expected) =
                naive_iterate(&rows_of, clusters as usize, of_rows.collect(), iterations);
            let of_rows = points.of_row.iter().map(|&point| outcome.labels[point as usize]);
            prop_assert_eq!(canonical(of_rows), expected.labels);
            prop_assert_eq!(outcome.iterations, expected.iterations);
            prop_assert_eq!(outcome.converged, expected.converged);
        }
    }

    #[test]
    fn an_empty_cluster_takes_the_farthest_point() {
        // The third cluster has the two ends, each of which is nearer to the mean of its side than
        // to the mean of both ends.
        let words = [
            [0b000001],
            [0b000011],
            [0b111110],
            [0b111100],
            [0b000000],
            [0b111111],
        ];
        let rows = rows_of(1, words.iter().map(|row| &row[..]));
        let Ok(points) = Points::new(&rows);
        let mut state = Lloyd::new(&points, 3, vec![0, 0, 1, 1, 2, 2]);
        let Ok(()) = state.move_centres(&[u32::MAX; 6]);
        let Ok(()) = state.assign();
        assert_eq!(state.labels, [0, 0, 1, 1, 0, 1]);
        // With (1, 1/2, 0, 0, 0, 0) and its complement as means the ends are 1 + 1/4 from theirs,
        // all others 1/4. The first end is taken.
        let Ok(()) = state.fill_empty();
        assert_eq!(state.labels, [0, 0, 1, 1, 2, 1]);
        // Its bounds are those of another cluster: it has to be looked at.
        assert_eq!(state.upper[4], f64::INFINITY);
    }

    #[test]
    fn an_empty_cluster_takes_no_point_that_is_alone() {
        let words = [[0b1111], [0b0000], [0b0001], [0b0010]];
        let rows = rows_of(1, words.iter().map(|row| &row[..]));
        let Ok(points) = Points::new(&rows);
        let mut state = Lloyd::new(&points, 3, vec![0, 0, 1, 1]);
        let Ok(()) = state.move_centres(&[u32::MAX; 4]);
        // From its mean of four halves the first point is 1 away, but alone; the others are 1/2
        // from theirs.
        state.labels = vec![0, 1, 1, 1];
        let Ok(()) = state.fill_empty();
        assert_eq!(state.labels, [0, 2, 1, 1]);
    }

    #[test]
    fn integers_decide_what_rounding_hides() {
        let rows = rows_of(1, [[0], [1]].iter().map(|row| &row[..]));
        let Ok(points) = Points::new(&rows);
        // Of N members all but one have the bit: the squared distance of the point that has it is
        // 1 / N^2, and the two distances differ by 2e-27.
        for (sizes, nearest) in [
            ([1_000_000_006, 1_000_000_007], 1),
            ([1_000_000_007, 1_000_000_006], 0),
            ([1_000_000_007, 1_000_000_007], 0),
        ] {
            let mut state = Lloyd::new(&points, 2, vec![0, 0]);
            for (j, size) in sizes.into_iter().enumerate() {
                state.counts[j][0] = size - 1;
                let square = u128::from(size - 1).pow(2);
                state.centres[j] = Centre { size, square };
            }
            let Ok(()) = state.assign();
            assert_eq!(state.labels[1], nearest, "{sizes:?}");
        }
    }
}
