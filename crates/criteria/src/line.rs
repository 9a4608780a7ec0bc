//! Clusters of numbers on a line.
//!
//! On a line, the clusters of k-means are intervals of the sorted numbers, and the best ones can be
//! found for certain: the first j numbers in k clusters cost the least over i of what the first i
//! cost in k - 1 clusters and the numbers i..j in one. The best i does not fall as j grows, so that
//! halving the range of j finds all of them in n log n steps. Sums of squares and of distances over
//! intervals come from running sums.

use std::ops::Range;

/// Numbers of clusters that are tried.
const CLUSTERS: Range<usize> = 2..5;

/// The means of the best 2, 3 or 4 clusters, ascending: those of k-means with the highest mean
/// silhouette; of equally high ones the fewest. Numbers that are all the same are one cluster.
/// They must be finite.
pub(crate) fn best_centroids(numbers: Vec<f32>) -> Vec<f64> {
    let line = Line::new(numbers);
    let mut best: Option<(f64, Vec<usize>)> = None;
    for ends in line.partitions() {
        let silhouette = line.silhouette(&ends);
        if best.as_ref().is_none_or(|(other, _)| silhouette > *other) {
            best = Some((silhouette, ends));
        }
    }
    let ends = best.map_or_else(|| vec![line.len()], |(_, ends)| ends);
    intervals(&ends).map(|range| line.mean(range)).collect()
}

/// Sorted numbers with running sums of them and of their squares. Sums are taken from the median,
/// lest squares of large numbers cancel.
struct Line {
    numbers: Vec<f64>,
    middle: f64,
    sums: Vec<f64>,
    squares: Vec<f64>,
}

fn intervals(ends: &[usize]) -> impl Iterator<Item = Range<usize>> {
    let starts = std::iter::once(&0).chain(ends);
    starts.zip(ends).map(|(&start, &end)| start..end)
}

impl Line {
    fn new(mut numbers: Vec<f32>) -> Line {
        numbers.sort_by(f32::total_cmp);
        let middle = numbers.get(numbers.len() / 2).map_or(0.0, |&x| x.into());
        let numbers: Vec<f64> = numbers.iter().map(|&x| f64::from(x) - middle).collect();
        let running = |term: fn(f64) -> f64| {
            let mut sum = 0.0;
            let mut sums = vec![0.0];
            sums.extend(numbers.iter().map(|&x| {
                sum += term(x);
                sum
            }));
            sums
        };
        Line {
            sums: running(|x| x),
            squares: running(|x| x * x),
            numbers,
            middle,
        }
    }

    fn len(&self) -> usize {
        self.numbers.len()
    }

    fn sum(&self, range: &Range<usize>) -> f64 {
        self.sums[range.end] - self.sums[range.start]
    }

    fn mean(&self, range: Range<usize>) -> f64 {
        self.middle + self.sum(&range) / range.len().max(1) as f64
    }

    /// The sum of squared distances from the mean.
    fn cost(&self, range: Range<usize>) -> f64 {
        let sum = self.sum(&range);
        let squares = self.squares[range.end] - self.squares[range.start];
        (squares - sum * sum / range.len().max(1) as f64).max(0.0)
    }

    /// The best clusters by their ends, for each number of clusters that is tried and not more
    /// than there are distinct numbers.
    fn partitions(&self) -> Vec<Vec<usize>> {
        let distinct = self.numbers.chunk_by(|a, b| a == b).count();
        let most = distinct.min(CLUSTERS.end - 1);
        // What the first j numbers cost, and by number of clusters where the last one begins.
        let mut costs: Vec<f64> = (0..=self.len()).map(|j| self.cost(0..j)).collect();
        let mut starts: Vec<Vec<u32>> = Vec::new();
        let mut partitions = Vec::new();
        for clusters in 2..=most {
            let mut next = vec![f64::INFINITY; self.len() + 1];
            let mut start = vec![0_u32; self.len() + 1];
            let places = clusters..self.len() + 1;
            let first = clusters - 1..self.len();
            self.divide(&costs, places, first, &mut next, &mut start);
            costs = next;
            starts.push(start);
            if CLUSTERS.contains(&clusters) {
                let mut ends = vec![self.len()];
                for start in starts.iter().rev() {
                    ends.push(start[ends[ends.len() - 1]] as usize);
                }
                ends.reverse();
                partitions.push(ends);
            }
        }
        partitions
    }

    /// Finds the best beginning of the last cluster for the first j numbers, for all j of a range,
    /// knowing where the beginnings must be.
    fn divide(
        &self,
        costs: &[f64],
        places: Range<usize>,
        starts: Range<usize>,
        next: &mut [f64],
        start: &mut [u32],
    ) {
        if places.is_empty() {
            return;
        }
        let j = places.start + places.len() / 2;
        let mut best = starts.start;
        for i in starts.start..starts.end.min(j) {
            let cost = costs[i] + self.cost(i..j);
            if cost < next[j] {
                next[j] = cost;
                best = i;
            }
        }
        // There are fewer than 2^32 training inputs.
        start[j] = best as u32;
        self.divide(costs, places.start..j, starts.start..best + 1, next, start);
        self.divide(costs, j + 1..places.end, best..starts.end, next, start);
    }

    /// The sum of distances from a number to those of an interval that lies on one side of it, or
    /// that it belongs to.
    fn distances(&self, from: usize, range: &Range<usize>) -> f64 {
        let x = self.numbers[from];
        let middle = from.clamp(range.start, range.end);
        let (below, above) = (range.start..middle, middle..range.end);
        let near = x * below.len() as f64 - self.sum(&below);
        let far = self.sum(&above) - x * above.len() as f64;
        (near + far).max(0.0)
    }

    /// The mean silhouette: how much nearer numbers are on average to their own cluster than to
    /// the next one. A number alone in its cluster counts as 0.
    fn silhouette(&self, ends: &[usize]) -> f64 {
        let clusters: Vec<Range<usize>> = intervals(ends).collect();
        let mut total = 0.0;
        for (own, cluster) in clusters.iter().enumerate() {
            if cluster.len() < 2 {
                continue;
            }
            // On a line the next cluster is one of the neighbours.
            let before = own.checked_sub(1).map(|other| &clusters[other]);
            let neighbours = [before, clusters.get(own + 1)];
            for from in cluster.clone() {
                let apart = |other: &Range<usize>| self.distances(from, other) / other.len() as f64;
                let within = self.distances(from, cluster) / (cluster.len() - 1) as f64;
                let next = neighbours.iter().flatten().map(|other| apart(other));
                let next = next.fold(f64::INFINITY, f64::min);
                let larger = within.max(next);
                if larger > 0.0 {
                    total += (next - within) / larger;
                }
            }
        }
        total / self.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The mean silhouette by definition.
    fn naive_silhouette(numbers: &[f64], ends: &[usize]) -> f64 {
        let clusters: Vec<Range<usize>> = intervals(ends).collect();
        let mean = |from: usize, cluster: &Range<usize>, len: usize| {
            let distances = cluster.clone().map(|i| (numbers[i] - numbers[from]).abs());
            distances.sum::<f64>() / len as f64
        };
        let one = |from: usize| {
            let own = clusters.iter().position(|c| c.contains(&from)).unwrap();
            if clusters[own].len() == 1 {
                return 0.0;
            }
            let a = mean(from, &clusters[own], clusters[own].len() - 1);
            let others = (0..clusters.len()).filter(|&other| other != own);
            let b = others.map(|other| mean(from, &clusters[other], clusters[other].len()));
            let b = b.fold(f64::INFINITY, f64::min);
            if a.max(b) == 0.0 {
                0.0
            } else {
                (b - a) / a.max(b)
            }
        };
        (0..numbers.len()).map(one).sum::<f64>() / numbers.len() as f64
    }

    /// The least cost of any partition, trying all.
    fn naive_cost(line: &Line, range: Range<usize>, clusters: usize) -> f64 {
        if clusters == 1 {
            return line.cost(range);
        }
        let rest = |end: usize| {
            line.cost(range.start..end) + naive_cost(line, end..range.end, clusters - 1)
        };
        let ends = range.start + 1..=range.end - (clusters - 1);
        ends.map(rest).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn worked_case() {
        // Case 21.
        let numbers = [0.0, 0.1, 0.2, 5.0, 5.1, 5.2, 10.0, 10.1, 10.2, 10.3];
        let line = Line::new(numbers.to_vec());
        let partitions = line.partitions();
        assert_eq!(partitions[1], [3, 6, 10]);
        let silhouettes: Vec<f64> = partitions
            .iter()
            .map(|ends| line.silhouette(ends))
            .collect();
        assert!((silhouettes[0] - 0.7185486).abs() < 1e-6, "{silhouettes:?}");
        assert!((silhouettes[1] - 0.9706972).abs() < 1e-6);
        assert!(silhouettes[2] < silhouettes[1]);
        let centroids = best_centroids(numbers.to_vec());
        let expected = [0.1, 5.1, 10.15];
        assert!(
            centroids
                .iter()
                .zip(expected)
                .all(|(c, e)| (c - e).abs() < 1e-6)
        );
    }

    #[test]
    fn equal_numbers_are_one_cluster() {
        assert_eq!(best_centroids(vec![2.5; 12]), [2.5]);
        assert_eq!(best_centroids(vec![1.0, 1.0, 3.0, 3.0]), [1.0, 3.0]);
    }

    proptest! {
        #[test]
        fn clusters_are_the_best_there_are(
            numbers in prop::collection::vec(prop_oneof![-5.0f32..5.0, (-3i8..3).prop_map(f32::from)], 1..14),
            large in prop_oneof![Just(0.0f32), Just(1000.0)],
        ) {
            let numbers: Vec<f32> = numbers.iter().map(|x| x + large).collect();
            let line = Line::new(numbers);
            for ends in line.partitions() {
                let cost: f64 = intervals(&ends).map(|range| line.cost(range)).sum();
                let least = naive_cost(&line, 0..line.len(), ends.len());
                prop_assert!(cost <= least + 1e-9, "{cost} is not {least}");
                prop_assert!(intervals(&ends).all(|range| !range.is_empty()));
                let slow = naive_silhouette(&line.numbers, &ends);
                prop_assert!((line.silhouette(&ends) - slow).abs() < 1e-9);
            }
        }
    }
}
