//! Clusters of numbers on a line.
//!
//! On a line, the clusters of k-means are intervals of the sorted numbers, and the best ones can be
//! found for certain. Four clusters are two and two: what the first t numbers cost in two clusters,
//! and the others in two. The best place to divide the first t numbers does not fall as t grows, nor
//! does the best place to divide the others, so that halving the range of t finds all of them in
//! n log n steps ([`Divisions`]). Sums of squares and of distances over intervals come from running
//! sums.
//!
//! There may be as many numbers as training inputs, so that neither they nor their sums are in
//! memory: they are [kept](Training::keep), sorted by merging runs, and read block by block. Places are
//! gone through in order, and what is found of one is used and forgotten.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::per_input::{Lookup, PerInput};
use crate::training::{Training, TrainingError};

/// Numbers of clusters that are tried.
const CLUSTERS: Range<usize> = 2..5;

/// Numbers of runs that are held while they are merged: 1 MB, unless there are very many runs.
const MERGED: usize = 1 << 17;

/// Stands for no number behind those of a run: numbers are finite.
pub(crate) const NOTHING: f64 = f64::INFINITY;

/// The means of the best 2, 3 or 4 clusters, ascending: those of k-means with the highest mean
/// silhouette; of equally high ones the fewest. Numbers that are all the same are one cluster.
pub(crate) fn best_centroids(
    training: &dyn Training,
    runs: Runs<'_>,
) -> Result<Vec<f64>, TrainingError> {
    let line = Line::new(training, runs)?;
    let partitions = line.partitions()?;
    let silhouettes = line.silhouettes(&partitions)?;
    let mut best: Option<(f64, &[usize])> = None;
    for (ends, silhouette) in partitions.iter().zip(silhouettes) {
        if best.is_none_or(|(other, _)| silhouette > other) {
            best = Some((silhouette, ends));
        }
    }
    let whole = [line.len];
    let ends = best.map_or(&whole[..], |(_, ends)| ends);
    let mut sums = Sums::of(&line);
    intervals(ends)
        .map(|range| Ok(line.middle + sums.mean(range)?))
        .collect()
}

/// Sorted runs of finite numbers among kept ones; what a run does not fill is [`NOTHING`].
pub(crate) struct Runs<'a> {
    pub(crate) kept: &'a PerInput,
    /// Where each run is.
    pub(crate) runs: Vec<Range<usize>>,
    /// How many numbers there are in all.
    pub(crate) len: usize,
}

impl<'a> Runs<'a> {
    /// All numbers of all runs, ascending.
    fn merge(self) -> Result<Merge<'a>, TrainingError> {
        let step = (MERGED / self.runs.len().max(1)).clamp(64, 4096);
        let mut merge = Merge {
            kept: self.kept,
            step,
            runs: self.runs.into_iter().map(Run::new).collect(),
            next: BinaryHeap::new(),
        };
        (0..merge.runs.len()).try_for_each(|run| merge.advance(run))?;
        Ok(merge)
    }
}

/// Runs that are being merged.
struct Merge<'a> {
    kept: &'a PerInput,
    /// Numbers of a run that are read at a time.
    step: usize,
    runs: Vec<Run>,
    /// The next number of each run that has one.
    next: BinaryHeap<Reverse<(Ordered, usize)>>,
}

/// What is left of a run, and the numbers before that which are read.
struct Run {
    left: Range<usize>,
    read: std::vec::IntoIter<f64>,
}

impl Run {
    fn new(left: Range<usize>) -> Run {
        Run {
            left,
            read: Vec::new().into_iter(),
        }
    }
}

/// A number that can be compared with all others.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ordered(f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Ordered) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Ordered) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Merge<'_> {
    /// Makes the next number of a run known.
    fn advance(&mut self, run: usize) -> Result<(), TrainingError> {
        let Run { left, read } = &mut self.runs[run];
        if read.as_slice().is_empty() && left.start < left.end {
            let now = left.start..(left.start + self.step).min(left.end);
            left.start = now.end;
            let mut numbers = vec![0.0; now.len()];
            self.kept.read(now, &mut numbers)?;
            *read = numbers.into_iter();
        }
        match read.next() {
            Some(number) if number < NOTHING => {
                self.next.push(Reverse((Ordered(number), run)));
            }
            // Nothing follows.
            _ => *left = left.end..left.end,
        }
        Ok(())
    }

    fn next(&mut self) -> Result<f64, TrainingError> {
        let Reverse((Ordered(number), run)) = self.next.pop().ok_or("runs have fewer numbers")?;
        self.advance(run)?;
        Ok(number)
    }
}

/// Sorted numbers with running sums of them and of their squares. Sums are taken from the median,
/// lest squares of large numbers cancel.
struct Line {
    len: usize,
    numbers: PerInput,
    middle: f64,
    /// For each number, and for the end, the sum of all numbers before it, and that of their squares.
    sums: PerInput,
}

fn intervals(ends: &[usize]) -> impl Iterator<Item = Range<usize>> {
    let starts = std::iter::once(&0).chain(ends);
    starts.zip(ends).map(|(&start, &end)| start..end)
}

impl Line {
    fn new(training: &dyn Training, runs: Runs<'_>) -> Result<Line, TrainingError> {
        let len = runs.len;
        let mut merge = runs.merge()?;
        let numbers = training.keep(len, &mut |_, out| {
            out.iter_mut()
                .try_for_each(|out| merge.next().map(|number| *out = number))
        })?;
        drop(merge);
        let mut middle = [0.0];
        if len > 0 {
            numbers.read(len / 2..len / 2 + 1, &mut middle)?;
        }
        let [middle] = middle;
        let mut ascending = Lookup::new(&numbers);
        let (mut sum, mut squares) = (0.0, 0.0);
        let sums = training.keep(2 * (len + 1), &mut |places, out| {
            for (place, out) in places.zip(out) {
                *out = match place % 2 {
                    0 => sum,
                    _ => squares,
                };
                if place % 2 == 1 && place / 2 < len {
                    let x = ascending.get(place / 2)? - middle;
                    sum += x;
                    squares += x * x;
                }
            }
            Ok(())
        })?;
        drop(ascending);
        Ok(Line {
            len,
            numbers,
            middle,
            sums,
        })
    }

    /// How many distinct numbers there are; where there are more than so many, so many.
    fn distinct(&self, most: usize) -> Result<usize, TrainingError> {
        let mut numbers = Lookup::new(&self.numbers);
        let (mut distinct, mut before) = (0, f64::NAN);
        for place in 0..self.len {
            let number = numbers.get(place)?;
            distinct += usize::from(number != before);
            before = number;
            if distinct == most {
                break;
            }
        }
        Ok(distinct)
    }

    /// The best clusters by their ends, for each number of clusters that is tried and not more
    /// than there are distinct numbers. Of equally good ones those that end first.
    fn partitions(&self) -> Result<Vec<Vec<usize>>, TrainingError> {
        let len = self.len;
        let distinct = self.distinct(CLUSTERS.end - 1)?;
        let mut sums = Sums::of(self);
        let mut two = Best::NONE;
        for place in 1..len {
            two.look(sums.cost(0..place)? + sums.cost(place..len)?, [place]);
        }
        let (mut three, mut four) = (Best::NONE, Best::NONE);
        let mut before = Divisions::before(self);
        let mut behind = Divisions::behind(self);
        while let Some(first) = before.next()? {
            three.look(
                first.cost + sums.cost(first.place..len)?,
                [first.at, first.place],
            );
            if let Some(last) = behind.next()? {
                four.look(first.cost + last.cost, [first.at, first.place, last.at]);
            }
        }
        let all = [two.ends(len), three.ends(len), four.ends(len)];
        let tried = CLUSTERS.zip(all);
        let possible = tried.filter(|(clusters, _)| *clusters <= distinct);
        Ok(possible.map(|(_, ends)| ends).collect())
    }

    /// The mean silhouette of each partition: how much nearer numbers are on average to their own
    /// cluster than to the next one. A number alone in its cluster counts as 0.
    fn silhouettes(&self, partitions: &[Vec<usize>]) -> Result<Vec<f64>, TrainingError> {
        let mut sums = Sums::of(self);
        let mut totals = Vec::new();
        for ends in partitions {
            let clusters: Result<Vec<Cluster>, _> = intervals(ends)
                .map(|range| Cluster::new(range, &mut sums))
                .collect();
            totals.push((clusters?, 0, 0.0));
        }
        let mut numbers = Lookup::new(&self.numbers);
        for from in 0..self.len {
            let point = Point {
                place: from,
                x: numbers.get(from)? - self.middle,
                before: sums.at(from)?.0,
            };
            for (clusters, own, total) in &mut totals {
                *own += usize::from(clusters[*own].range.end == from);
                *total += point.silhouette(clusters, *own);
            }
        }
        let mean = |(_, _, total): (_, _, f64)| total / self.len.max(1) as f64;
        Ok(totals.into_iter().map(mean).collect())
    }
}

/// A cluster of sorted numbers, and the sums up to its first and behind its last number.
struct Cluster {
    range: Range<usize>,
    start: f64,
    end: f64,
}

impl Cluster {
    fn new(range: Range<usize>, sums: &mut Sums<'_>) -> Result<Cluster, TrainingError> {
        Ok(Cluster {
            start: sums.at(range.start)?.0,
            end: sums.at(range.end)?.0,
            range,
        })
    }
}

/// A number, its place, and the sum of all numbers before it.
struct Point {
    place: usize,
    x: f64,
    before: f64,
}

impl Point {
    /// The sum of distances to the numbers of a cluster that lies on one side, or that it belongs to.
    fn distances(&self, cluster: &Cluster) -> f64 {
        let range = &cluster.range;
        let middle = self.place.clamp(range.start, range.end);
        let sum = match middle {
            _ if middle == range.start => cluster.start,
            _ if middle == range.end => cluster.end,
            _ => self.before,
        };
        let near = self.x * (middle - range.start) as f64 - (sum - cluster.start);
        let far = (cluster.end - sum) - self.x * (range.end - middle) as f64;
        (near + far).max(0.0)
    }

    /// What it adds to the silhouette of clusters, one of which is its own.
    fn silhouette(&self, clusters: &[Cluster], own: usize) -> f64 {
        let cluster = &clusters[own];
        if cluster.range.len() < 2 {
            return 0.0;
        }
        // On a line the next cluster is one of the neighbours.
        let before = own.checked_sub(1).map(|other| &clusters[other]);
        let neighbours = [before, clusters.get(own + 1)];
        let apart = |other: &Cluster| self.distances(other) / other.range.len() as f64;
        let within = self.distances(cluster) / (cluster.range.len() - 1) as f64;
        let next = neighbours.into_iter().flatten().map(apart);
        let next = next.fold(f64::INFINITY, f64::min);
        let larger = within.max(next);
        match larger > 0.0 {
            true => (next - within) / larger,
            false => 0.0,
        }
    }
}

/// Looks up running sums.
struct Sums<'a>(Lookup<'a>);

impl<'a> Sums<'a> {
    fn of(line: &'a Line) -> Sums<'a> {
        Sums(Lookup::new(&line.sums))
    }

    /// The sum of the numbers before a place, and that of their squares.
    fn at(&mut self, place: usize) -> Result<(f64, f64), TrainingError> {
        self.0.pair(place)
    }

    /// The mean, from the median on.
    fn mean(&mut self, range: Range<usize>) -> Result<f64, TrainingError> {
        let sum = self.at(range.end)?.0 - self.at(range.start)?.0;
        Ok(sum / range.len().max(1) as f64)
    }

    /// The sum of squared distances from the mean.
    fn cost(&mut self, range: Range<usize>) -> Result<f64, TrainingError> {
        let (start, end) = (self.at(range.start)?, self.at(range.end)?);
        Ok(cost(range.len(), start, end))
    }
}

/// The sum of squared distances from the mean of so many numbers, by the running sums at their start and end.
fn cost(len: usize, start: (f64, f64), end: (f64, f64)) -> f64 {
    let (sum, squares) = (end.0 - start.0, end.1 - start.1);
    (squares - sum * sum / len.max(1) as f64).max(0.0)
}

/// The least cost that was seen, and the ends of all clusters but the last one there.
struct Best<const ENDS: usize> {
    cost: f64,
    ends: [usize; ENDS],
}

impl<const ENDS: usize> Best<ENDS> {
    const NONE: Self = Best {
        cost: f64::INFINITY,
        ends: [0; ENDS],
    };

    fn look(&mut self, cost: f64, ends: [usize; ENDS]) {
        if cost < self.cost {
            *self = Best { cost, ends };
        }
    }

    /// With that of the last one.
    fn ends(self, last: usize) -> Vec<usize> {
        self.ends.into_iter().chain([last]).collect()
    }
}

/// The best division of the numbers before or behind a place into two clusters.
#[derive(Clone, Copy, Debug)]
struct Division {
    place: usize,
    /// Where the second cluster begins.
    at: usize,
    cost: f64,
}

/// The best divisions for a range of places, in order. The division of the middle one is found first, and bounds those
/// on both sides: no more are held than places can be halved.
struct Divisions<'a> {
    sums: Sums<'a>,
    len: usize,
    side: Side,
    /// What follows, the next one last.
    left: Vec<Step>,
}

/// Which numbers are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Before,
    Behind,
}

enum Step {
    /// Places, and where their second clusters can begin.
    Halve(Range<usize>, Range<usize>),
    Give(Division),
}

impl<'a> Divisions<'a> {
    /// Of the numbers before places 2 to the last.
    fn before(line: &'a Line) -> Divisions<'a> {
        Divisions::new(line, Side::Before, 2..line.len)
    }

    /// Of the numbers from places 2 on, two at least.
    fn behind(line: &'a Line) -> Divisions<'a> {
        Divisions::new(line, Side::Behind, 2..line.len.saturating_sub(1))
    }

    fn new(line: &'a Line, side: Side, places: Range<usize>) -> Divisions<'a> {
        Divisions {
            sums: Sums::of(line),
            len: line.len,
            side,
            left: vec![Step::Halve(places, 1..line.len)],
        }
    }

    fn next(&mut self) -> Result<Option<Division>, TrainingError> {
        while let Some(step) = self.left.pop() {
            match step {
                Step::Give(division) => return Ok(Some(division)),
                Step::Halve(places, _) if places.is_empty() => {}
                Step::Halve(places, within) => {
                    let middle = places.start + places.len() / 2;
                    let found = self.best(middle, &within)?;
                    let (above, below) = (found.at..within.end, within.start..found.at + 1);
                    self.left.push(Step::Halve(middle + 1..places.end, above));
                    self.left.push(Step::Give(found));
                    self.left.push(Step::Halve(places.start..middle, below));
                }
            }
        }
        Ok(None)
    }

    /// The best division at a place, with a second cluster that begins in a range.
    fn best(&mut self, place: usize, within: &Range<usize>) -> Result<Division, TrainingError> {
        let whole = match self.side {
            Side::Before => 0..place,
            Side::Behind => place..self.len,
        };
        let (start, end) = (self.sums.at(whole.start)?, self.sums.at(whole.end)?);
        let mut best = Division {
            place,
            at: within.start,
            cost: f64::INFINITY,
        };
        for at in within.start.max(whole.start + 1)..within.end.min(whole.end) {
            let middle = self.sums.at(at)?;
            let cost = cost(at - whole.start, start, middle) + cost(whole.end - at, middle, end);
            if cost < best.cost {
                best = Division { at, cost, ..best };
            }
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::TrainingTable;
    use proptest::prelude::*;

    /// Runs of three numbers each, but for the last one.
    fn runs(numbers: &[f32]) -> PerInput {
        let mut kept = Vec::new();
        for run in numbers.chunks(3) {
            let mut run: Vec<f64> = run.iter().map(|&x| x.into()).collect();
            run.sort_by(f64::total_cmp);
            run.resize(4, NOTHING);
            kept.extend(run);
        }
        PerInput::in_memory(kept)
    }

    fn all(kept: &PerInput, len: usize) -> Runs<'_> {
        let starts = (0..kept.len()).step_by(4);
        Runs {
            kept,
            runs: starts.map(|start| start..start + 4).collect(),
            len,
        }
    }

    fn line(numbers: &[f32]) -> Line {
        let kept = runs(numbers);
        Line::new(&TrainingTable::default(), all(&kept, numbers.len())).unwrap()
    }

    fn centroids(numbers: &[f32]) -> Vec<f64> {
        let kept = runs(numbers);
        best_centroids(&TrainingTable::default(), all(&kept, numbers.len())).unwrap()
    }

    /// The numbers from the median on.
    fn centred(line: &Line) -> Vec<f64> {
        let mut numbers = vec![0.0; line.len];
        line.numbers.read(0..line.len, &mut numbers).unwrap();
        numbers.iter().map(|x| x - line.middle).collect()
    }

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

    /// What numbers cost as one cluster, by definition.
    fn naive_cost(numbers: &[f64]) -> f64 {
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        numbers.iter().map(|x| (x - mean).powi(2)).sum()
    }

    /// The least cost of any partition, trying all.
    fn least_cost(numbers: &[f64], clusters: usize) -> f64 {
        if clusters == 1 {
            return naive_cost(numbers);
        }
        let rest = |end: usize| {
            let (first, rest) = numbers.split_at(end);
            naive_cost(first) + least_cost(rest, clusters - 1)
        };
        let ends = 1..=numbers.len() - (clusters - 1);
        ends.map(rest).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn worked_case() {
        // Case 21.
        let numbers = [10.2, 0.0, 0.1, 5.0, 5.1, 0.2, 5.2, 10.0, 10.1, 10.3];
        let line = line(&numbers);
        let partitions = line.partitions().unwrap();
        assert_eq!(partitions[1], [3, 6, 10]);
        let silhouettes = line.silhouettes(&partitions).unwrap();
        assert!((silhouettes[0] - 0.7185486).abs() < 1e-6, "{silhouettes:?}");
        assert!((silhouettes[1] - 0.9706972).abs() < 1e-6);
        assert!(silhouettes[2] < silhouettes[1]);
        let expected = [0.1, 5.1, 10.15];
        assert!(
            centroids(&numbers)
                .iter()
                .zip(expected)
                .all(|(c, e)| (c - e).abs() < 1e-6)
        );
    }

    #[test]
    fn equal_numbers_are_one_cluster() {
        assert_eq!(centroids(&[2.5; 12]), [2.5]);
        assert_eq!(centroids(&[1.0, 3.0, 1.0, 3.0]), [1.0, 3.0]);
    }

    #[test]
    fn of_equally_good_clusters_those_that_end_first_are_taken() {
        let partitions = line(&[4.0, 0.0, 1.0, 3.0, 2.0]).partitions().unwrap();
        assert_eq!(partitions, [vec![2, 5], vec![1, 3, 5], vec![1, 2, 3, 5]]);
    }

    /// More numbers than are in memory at a time. Costs of prefixes by definition, with all beginnings of their last
    /// clusters; costs of intervals are those of the line, which the other tests look at.
    #[test]
    fn many_numbers_are_divided_as_by_definition() {
        let mut state = 1_u64;
        let mut number = |i: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            let noise = (state >> 40) as f32 / 16_777_216.0;
            [0.0, 4.0, 5.0, 20.0, -3.0][i * i % 5] + noise * noise
        };
        let numbers: Vec<f32> = (0..5_000).map(&mut number).collect();
        let line = line(&numbers);
        let mut sorted: Vec<f64> = numbers.iter().map(|&x| x.into()).collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted[2_500];
        let found = centred(&line).into_iter().zip(&sorted);
        assert!(found.into_iter().all(|(x, y)| x == y - middle));
        let mut sums = vec![(0.0, 0.0)];
        for x in &sorted {
            let (sum, squares) = sums[sums.len() - 1];
            sums.push((sum + (x - middle), squares + (x - middle).powi(2)));
        }
        let of = |range: Range<usize>| cost(range.len(), sums[range.start], sums[range.end]);
        let mut costs: Vec<f64> = (0..=sorted.len()).map(|j| of(0..j)).collect();
        for ends in line.partitions().unwrap() {
            let least = |j: usize| {
                let costs = (0..j).map(|i| costs[i] + of(i..j));
                costs.fold(f64::INFINITY, f64::min)
            };
            costs = (0..=sorted.len()).map(least).collect();
            let found: f64 = intervals(&ends).map(of).sum();
            let least = costs[sorted.len()];
            assert!((found - least).abs() < 1e-9 * least, "{ends:?}");
        }
    }

    proptest! {
        #[test]
        fn clusters_are_the_best_there_are(
            numbers in prop::collection::vec(prop_oneof![-5.0f32..5.0, (-3i8..3).prop_map(f32::from)], 1..14),
            large in prop_oneof![Just(0.0f32), Just(1000.0)],
        ) {
            let numbers: Vec<f32> = numbers.iter().map(|x| x + large).collect();
            let line = line(&numbers);
            let centred = centred(&line);
            prop_assert!(centred.is_sorted());
            let partitions = line.partitions().unwrap();
            let silhouettes = line.silhouettes(&partitions).unwrap();
            for (ends, silhouette) in partitions.iter().zip(silhouettes) {
                let cost: f64 = intervals(ends).map(|range| naive_cost(&centred[range])).sum();
                let least = least_cost(&centred, ends.len());
                prop_assert!(cost <= least + 1e-9, "{cost} is not {least}");
                prop_assert!(intervals(ends).all(|range| !range.is_empty()));
                let slow = naive_silhouette(&centred, ends);
                prop_assert!((silhouette - slow).abs() < 1e-9);
            }
        }
    }
}
