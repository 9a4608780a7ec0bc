//! K-means of points that no process holds together.
//!
//! Points lie in blocks. One process leads: it knows centres and sums, and no points but those that were drawn. All blocks
//! are asked the same question, and each answers from its points and the question alone: so it does not matter who is
//! asked, nor how often, and an answer that was lost with a worker is asked for again. Answers are whole numbers whose sums
//! and maxima do not depend on how points are divided, so draws, labels and clusters are those of all points together.
//!
//! All restarts go through the points together. A pass costs `restarts * clusters * bits` numbers of each block, and there
//! are two for each cluster that is seeded, and one for each iteration.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::exact::{OverSquare, compare_over_squares};
use super::lloyd::{Centre, Lloyd, Outcome};
use super::points::Points;
use super::{KMeans, Run, is_better};
use crate::BitRows;
use crate::bits::{count, ones};
use crate::random::{DrawnFor, Generator};

/// Points that lie together: distinct rows, and how many rows each stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointBlock {
    /// Which one of all blocks it is.
    pub number: usize,
    /// The distinct rows.
    pub points: BitRows,
    /// How many rows each stands for.
    pub weights: Vec<u32>,
}

/// What all blocks are asked in one pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question(Asked);

/// What one block answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer(Told);

type Row = Vec<u64>;

/// Where a point is: its block, and the sum of the shares before it there.
type Place = (usize, u64);

/// Each list has an entry for each restart that is asked about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Asked {
    /// With these points as centres: points by their places.
    Draw(Vec<(Vec<Row>, Vec<Place>)>),
    /// With these points as centres: how far all points are from the nearest one, if each of some other points were
    /// another centre.
    Left(Vec<(Vec<Row>, Vec<Row>)>),
    /// The sums of clusters.
    Sums(Vec<Centres>),
    /// The point that is farthest from its centre, in clusters of which so many have at least two.
    Farthest(Vec<(Centres, Vec<u32>)>),
    /// The cluster of each point.
    Labels(Centres),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Told {
    Draw(Vec<Vec<Row>>),
    Left(Vec<Vec<u64>>),
    Sums(Vec<Sums>),
    Farthest(Vec<Option<(Row, u32)>>),
    Labels(Vec<u32>),
}

/// What points are assigned to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Centres {
    clusters: Vec<Sum>,
    /// Points that were given to an empty cluster, however far they are.
    given: Vec<(Row, u32)>,
}

/// The rows of a cluster: how many there are, and how many of them have each bit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sum {
    pub(super) size: u32,
    pub(super) counts: Vec<u32>,
}

/// What clusters have of a block, or of several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Sums {
    clusters: Vec<Sum>,
    /// By cluster, its points.
    points: Vec<u32>,
    /// The SHA-256 of the labels, block by block: which labels a block has is known from it, as to which it had before.
    labels: Vec<[u8; 32]>,
}

impl PointBlock {
    /// The answer to a question, if it is about points as wide as these.
    pub fn answer(&self, Question(question): &Question) -> Option<Answer> {
        let points = &Points::of_block(&self.points, &self.weights);
        let told = match question {
            Asked::Draw(restarts) => {
                let drawn = restarts.iter().map(|(centres, places)| {
                    let here = places.iter().filter(|place| place.0 == self.number);
                    let here: Vec<u64> = here.map(|place| place.1).collect();
                    match here.is_empty() {
                        true => Some(Vec::new()),
                        false => self.draw(centres, &here),
                    }
                });
                Told::Draw(drawn.collect::<Option<_>>()?)
            }
            Asked::Left(restarts) => {
                let left = restarts.iter().map(|(centres, tried)| -> Option<Vec<u64>> {
                    let nearest = self.nearest(centres)?;
                    tried.iter().map(|row| self.left(&nearest, row)).collect()
                });
                Told::Left(left.collect::<Option<_>>()?)
            }
            Asked::Sums(restarts) => {
                let sums = restarts.iter().map(|centres| {
                    let assigned = self.assign(points, centres)?;
                    let Ok(clusters) = assigned.sums();
                    let bytes = assigned.labels.iter().flat_map(|label| label.to_le_bytes());
                    let digest = Sha256::digest(bytes.collect::<Vec<u8>>());
                    Some(Sums {
                        clusters,
                        points: assigned.members(),
                        labels: vec![digest.into()],
                    })
                });
                Told::Sums(sums.collect::<Option<_>>()?)
            }
            Asked::Farthest(restarts) => {
                let farthest = restarts.iter().map(|(centres, members)| {
                    let assigned = self.assign(points, centres)?;
                    if members.len() != centres.clusters.len() {
                        return None;
                    }
                    let Ok(found) = assigned.farthest(members);
                    let told = |point| (self.points.row(point).to_vec(), assigned.labels[point]);
                    Some(found.map(|(point, _)| told(point)))
                });
                Told::Farthest(farthest.collect::<Option<_>>()?)
            }
            Asked::Labels(centres) => Told::Labels(self.assign(points, centres)?.labels),
        };
        Some(Answer(told))
    }

    /// The distance of each point to the nearest centre, or as far as it gets from none.
    fn nearest(&self, centres: &[Row]) -> Option<Vec<u32>> {
        let mut nearest = vec![u32::MAX; self.points.len()];
        for centre in centres {
            self.has_width(centre)?;
            for (nearest, row) in nearest.iter_mut().zip(self.points.rows()) {
                *nearest = distance(row, centre).min(*nearest);
            }
        }
        Some(nearest)
    }

    fn draw(&self, centres: &[Row], places: &[u64]) -> Option<Vec<Row>> {
        // Rows are equally likely to be the first centre.
        let nearest = match centres.is_empty() {
            true => vec![1; self.points.len()],
            false => self.nearest(centres)?,
        };
        let shares = nearest.iter().zip(&self.weights);
        let shares: Vec<u64> = shares
            .map(|(&distance, &weight)| u64::from(distance) * u64::from(weight))
            .collect();
        let drawn = places.iter().map(|&place| {
            let mut left = place;
            let point = shares.iter().position(|&share| {
                let is_it = left < share;
                left = left.saturating_sub(share);
                is_it
            })?;
            Some(self.points.row(point).to_vec())
        });
        drawn.collect()
    }

    fn left(&self, nearest: &[u32], tried: &[u64]) -> Option<u64> {
        self.has_width(tried)?;
        let points = self.points.rows().zip(nearest).zip(&self.weights);
        let shares = points.map(|((row, &nearest), &weight)| {
            u64::from(distance(row, tried).min(nearest)) * u64::from(weight)
        });
        Some(shares.sum())
    }

    fn assign<'a>(
        &self,
        points: &'a Points<'a, BitRows>,
        centres: &Centres,
    ) -> Option<Lloyd<'a, BitRows>> {
        let columns = points.columns();
        let is_centre = |sum: &Sum| sum.size > 0 && sum.counts.len() == columns;
        if centres.clusters.is_empty() || !centres.clusters.iter().all(is_centre) {
            return None;
        }
        let Ok(mut assigned) = Lloyd::assigned(points, &centres.clusters);
        for (row, cluster) in &centres.given {
            if *cluster as usize >= centres.clusters.len() {
                return None;
            }
            for (label, point) in assigned.labels.iter_mut().zip(self.points.rows()) {
                if point == row {
                    *label = *cluster;
                }
            }
        }
        Some(assigned)
    }

    fn has_width(&self, row: &[u64]) -> Option<()> {
        (row.len() == self.points.width()).then_some(())
    }
}

/// The squared distance of two rows.
fn distance(a: &[u64], b: &[u64]) -> u32 {
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
}

/// One restart, as the process knows it that leads.
struct Course {
    restart: usize,
    /// Where labels come from.
    centres: Centres,
    /// What follows from labels.
    sums: Sums,
    iterations: usize,
    converged: bool,
}

/// The process that leads.
pub(super) struct Leader<F> {
    /// By block, the rows that its points stand for.
    pub(super) weights: Vec<u64>,
    /// Words of a row.
    pub(super) width: usize,
    /// Gives the answers of all blocks, in order.
    pub(super) ask: F,
}

impl<F: FnMut(&Question) -> Option<Vec<Answer>>> Leader<F> {
    /// The best restart; nothing where an answer is none to its question.
    pub(super) fn run(&mut self, settings: &KMeans, clusters: usize) -> Option<Run> {
        // One cluster is the same whatever its seed.
        let restarts = match clusters {
            0 => return None,
            1 => 1,
            _ => settings.restarts.max(1),
        };
        let mut courses: Vec<Course> = (self.seed(settings.seed, clusters, restarts)?)
            .into_iter()
            .enumerate()
            .map(|(restart, rows)| Course {
                restart,
                centres: self.at(&rows),
                sums: Sums::default(),
                iterations: 1,
                converged: clusters == 1,
            })
            .collect();
        self.assign(&mut courses.iter_mut().collect::<Vec<_>>())?;
        loop {
            let is_open = |course: &&mut Course| {
                !course.converged && course.iterations < settings.iterations.max(1)
            };
            let mut open: Vec<&mut Course> = courses.iter_mut().filter(is_open).collect();
            if open.is_empty() {
                break;
            }
            let mut before = Vec::new();
            for course in &mut open {
                before.push(std::mem::take(&mut course.sums.labels));
                course.iterations += 1;
                course.centres = Centres {
                    clusters: std::mem::take(&mut course.sums.clusters),
                    given: Vec::new(),
                };
            }
            self.assign(&mut open)?;
            self.fill_empty(&mut open)?;
            for (course, before) in open.into_iter().zip(before) {
                course.converged = course.sums.labels == before;
            }
        }
        let best = courses.into_iter().reduce(|a, b| {
            let explained = |course: &Course| -> Vec<(u128, u32)> {
                let clusters = course.sums.clusters.iter();
                clusters.map(|sum| (sum.square(), sum.size)).collect()
            };
            match is_better((&explained(&a), a.restart), (&explained(&b), b.restart)) {
                true => a,
                false => b,
            }
        })?;
        let mut labels = Vec::new();
        for answer in (self.ask)(&Question(Asked::Labels(best.centres)))? {
            let Answer(Told::Labels(next)) = answer else {
                return None;
            };
            labels.extend(next);
        }
        let outcome = Outcome {
            labels,
            centres: best.sums.clusters.iter().map(Sum::centre).collect(),
            counts: (best.sums.clusters.into_iter())
                .map(|sum| sum.counts)
                .collect(),
            iterations: best.iterations,
            converged: best.converged,
        };
        Some(Run {
            restart: best.restart,
            outcome,
        })
    }

    /// The first centres of each restart, as [`seed`](super::seeding::seed) draws them.
    fn seed(&mut self, seed: u64, clusters: usize, restarts: usize) -> Option<Vec<Vec<Row>>> {
        let generator = |i| Generator::new(seed, DrawnFor::Clusters, 0, i as u64);
        let mut generators: Vec<Generator> = (0..restarts).map(generator).collect();
        let trials = 2 + (clusters as f64).ln() as usize;
        let mut chosen: Vec<Vec<Row>> = vec![Vec::new(); restarts];
        let mut shares = vec![self.weights.clone(); restarts];
        for label in 0..clusters {
            let trials = if label == 0 { 1 } else { trials };
            let mut places = Vec::new();
            for (shares, generator) in shares.iter().zip(&mut generators) {
                let draw = |_| place(shares, generator);
                places.push((0..trials).map(draw).collect::<Option<Vec<_>>>()?);
            }
            let tried = self.draw(&chosen, places)?;
            let asked = chosen.iter().cloned().zip(tried.iter().cloned()).collect();
            let answers = (self.ask)(&Question(Asked::Left(asked)))?;
            for (i, tried) in tried.into_iter().enumerate() {
                // By row that was tried, block by block.
                let mut left = vec![Vec::new(); trials];
                for answer in &answers {
                    let Answer(Told::Left(restarts)) = answer else {
                        return None;
                    };
                    let of_block = restarts.get(i).filter(|left| left.len() == trials)?;
                    for (left, &here) in left.iter_mut().zip(of_block) {
                        left.push(here);
                    }
                }
                let together = left.into_iter().zip(tried);
                let (best, row) = together.min_by_key(|(left, _)| left.iter().sum::<u64>())?;
                shares[i] = best;
                chosen[i].push(row);
            }
        }
        Some(chosen)
    }

    /// The points at some places of each restart.
    fn draw(&mut self, chosen: &[Vec<Row>], places: Vec<Vec<Place>>) -> Option<Vec<Vec<Row>>> {
        let asked = chosen.iter().cloned().zip(places.iter().cloned()).collect();
        let mut drawn = Vec::new();
        for answer in (self.ask)(&Question(Asked::Draw(asked)))? {
            let Answer(Told::Draw(restarts)) = answer else {
                return None;
            };
            drawn.push(restarts.into_iter().map(Vec::into_iter).collect::<Vec<_>>());
        }
        let restarts = places.into_iter().enumerate().map(|(i, places)| {
            let rows = places.into_iter().map(|(block, _)| {
                let row = drawn.get_mut(block)?.get_mut(i)?.next()?;
                (row.len() == self.width).then_some(row)
            });
            rows.collect()
        });
        restarts.collect()
    }

    /// Points as centres.
    fn at(&self, rows: &[Row]) -> Centres {
        let centre = |row: &Row| {
            let mut counts = vec![0; self.width * 64];
            ones(row).for_each(|bit| counts[bit] = 1);
            Sum { size: 1, counts }
        };
        Centres {
            clusters: rows.iter().map(centre).collect(),
            given: Vec::new(),
        }
    }

    /// Gives every point the nearest centre, and sums up what follows.
    fn assign(&mut self, courses: &mut [&mut Course]) -> Option<()> {
        if courses.is_empty() {
            return Some(());
        }
        let asked = courses
            .iter()
            .map(|course| course.centres.clone())
            .collect();
        for course in &mut *courses {
            course.sums = Sums::default();
        }
        for answer in (self.ask)(&Question(Asked::Sums(asked)))? {
            let Answer(Told::Sums(restarts)) = answer else {
                return None;
            };
            if restarts.len() != courses.len() {
                return None;
            }
            for (course, sums) in courses.iter_mut().zip(restarts) {
                let clusters = course.centres.clusters.len();
                course.sums.add(sums, clusters, self.width * 64)?;
            }
        }
        Some(())
    }

    /// Gives each empty cluster, in order, the point that is farthest from its centre, as
    /// [`fill_empty`](Lloyd::fill_empty) does.
    fn fill_empty(&mut self, courses: &mut [&mut Course]) -> Option<()> {
        loop {
            let has_empty = |course: &&mut &mut Course| course.sums.points.contains(&0);
            let mut open: Vec<_> = courses.iter_mut().filter(has_empty).collect();
            if open.is_empty() {
                break;
            }
            let asked = open.iter();
            let asked = asked.map(|course| (course.centres.clone(), course.sums.points.clone()));
            let answers = (self.ask)(&Question(Asked::Farthest(asked.collect())))?;
            for (i, course) in open.iter_mut().enumerate() {
                let mut farthest: Option<(&(Row, u32), OverSquare)> = None;
                for answer in &answers {
                    let Answer(Told::Farthest(restarts)) = answer else {
                        return None;
                    };
                    let Some(point) = restarts.get(i)? else {
                        continue;
                    };
                    let cluster = course.centres.clusters.get(point.1 as usize)?;
                    let distance = cluster.distance(&point.0);
                    let farther = |most| compare_over_squares(distance, most).is_gt();
                    if farthest.is_none_or(|(_, most)| farther(most)) {
                        farthest = Some((point, distance));
                    }
                }
                let ((row, from), _) = farthest?;
                let points = &mut course.sums.points;
                let empty = points.iter().position(|&points| points == 0)?;
                let left = points.get_mut(*from as usize)?;
                *left = left.checked_sub(1)?;
                points[empty] = 1;
                course.centres.given.push((row.clone(), empty as u32));
            }
        }
        let was_empty = |course: &&mut &mut Course| !course.centres.given.is_empty();
        let given = courses.iter_mut().filter(was_empty);
        self.assign(&mut given.map(|course| &mut **course).collect::<Vec<_>>())
    }
}

/// The place of a point that is drawn with probability proportional to its share, from the sums of blocks.
fn place(shares: &[u64], generator: &mut Generator) -> Option<Place> {
    let mut left = generator.below(shares.iter().sum());
    for (block, &share) in shares.iter().enumerate() {
        match left.checked_sub(share) {
            Some(rest) => left = rest,
            None => return Some((block, left)),
        }
    }
    None
}

impl Sum {
    fn square(&self) -> u128 {
        let squares = self.counts.iter().map(|&count| u128::from(count).pow(2));
        squares.sum()
    }

    pub(super) fn centre(&self) -> Centre {
        Centre {
            size: self.size,
            square: self.square(),
        }
    }

    /// The squared distance of a row to the centre, as a numerator over the square of its size.
    fn distance(&self, row: &[u64]) -> OverSquare {
        let sum = ones(row).map(|bit| self.counts.get(bit).map_or(0, |&count| i128::from(count)));
        self.centre().distance(count(row), sum.sum())
    }
}

impl Sums {
    /// Adds what clusters have of the next block.
    fn add(&mut self, next: Sums, clusters: usize, columns: usize) -> Option<()> {
        let fits = |sum: &Sum| sum.counts.len() == columns;
        if next.clusters.len() != clusters || next.points.len() != clusters {
            return None;
        }
        if !next.clusters.iter().all(fits) {
            return None;
        }
        self.labels.extend(next.labels);
        if self.clusters.is_empty() {
            (self.clusters, self.points) = (next.clusters, next.points);
            return Some(());
        }
        for (all, next) in self.clusters.iter_mut().zip(next.clusters) {
            all.size = all.size.checked_add(next.size)?;
            for (all, next) in all.counts.iter_mut().zip(next.counts) {
                *all = all.checked_add(next)?;
            }
        }
        for (all, next) in self.points.iter_mut().zip(next.points) {
            *all = all.checked_add(next)?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;
    use crate::kmeans::KMeansClusters;
    use crate::kmeans::testing::{InShards, noisy_rows, rows_of};

    /// Blocks that are asked in some order, some of them twice.
    fn by_blocks(
        settings: &KMeans,
        rows: &BitRows,
        shards: usize,
        last_first: bool,
    ) -> KMeansClusters {
        let blocks = std::cell::RefCell::new(Vec::new());
        let keep = |block: PointBlock| -> Result<(), Infallible> {
            blocks.borrow_mut().push(block);
            Ok(())
        };
        let ask = |question: &Question| {
            let blocks = blocks.borrow();
            let answer = |block: &PointBlock| block.answer(question);
            let answers: Option<Vec<Answer>> = match last_first {
                true => blocks.iter().rev().map(answer).collect(),
                false => blocks.iter().map(answer).collect(),
            };
            let mut answers = answers?;
            if last_first {
                answers.reverse();
            }
            assert_eq!(blocks.first().and_then(answer), answers.first().cloned());
            Some(answers)
        };
        let Ok(found) = settings.run_blocks(&InShards { rows, shards }, keep, ask);
        found.unwrap_or_default()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Rows that are equal lie in different blocks, and blocks may be empty.
        #[test]
        fn blocks_give_the_bits_of_all_rows_together(
            rows in prop_oneof![
                prop::collection::vec(0..32u64, 0..14),
                prop::collection::vec(0..1u64 << 10, 0..24),
            ],
            clusters in 0..9usize,
            restarts in 0..4usize,
            iterations in prop_oneof![0..4usize, Just(300)],
            seed in 0..50u64,
            last_first: bool,
        ) {
            let words: Vec<[u64; 2]> = rows.iter().map(|row| [row << 59 | 2, row >> 5]).collect();
            let rows = rows_of(2, words.iter().map(|row| &row[..]));
            let settings = KMeans { clusters, restarts, iterations, seed };
            let together = settings.run(&rows, 1);
            for shards in [1, 3, 16] {
                let found = by_blocks(&settings, &rows, shards, last_first);
                prop_assert_eq!(found.inertia.to_bits(), together.inertia.to_bits());
                prop_assert_eq!(&found, &together, "{} blocks", shards);
            }
        }
    }

    #[test]
    fn wide_rows_in_blocks_are_as_together() {
        for (clusters, columns) in [(3, 70), (5, 300), (17, 520)] {
            let mut rows = noisy_rows(200, columns, 8, 0.35, columns as u64);
            for i in (0..200).step_by(3) {
                let row = rows.row(i).to_vec();
                rows.push(&row);
            }
            let settings = KMeans {
                clusters,
                ..KMeans::default()
            };
            let together = settings.run(&rows, 2);
            assert!(together.iterations > 2, "{clusters} clusters");
            for shards in [1, 4, 30] {
                let found = by_blocks(&settings, &rows, shards, false);
                assert_eq!(found, together, "{shards} blocks");
            }
        }
    }

    /// The third centre is the mean of the two ends, each of which is nearer to the mean of its side.
    #[test]
    fn an_empty_cluster_takes_the_farthest_point_of_all_blocks() {
        let words = [0b000001, 0b000011, 0b111110, 0b111100, 0b000000, 0b111111];
        let blocks: Vec<PointBlock> = (words.chunks(2).enumerate())
            .map(|(number, words)| PointBlock {
                number,
                points: rows_of(1, words.chunks(1)),
                weights: vec![1; words.len()],
            })
            .collect();
        let ask = |question: &Question| blocks.iter().map(|block| block.answer(question)).collect();
        let mut leader = Leader {
            weights: vec![2; 3],
            width: 1,
            ask,
        };
        let sum = |words: [u64; 2]| {
            let mut counts = vec![0; 64];
            words
                .iter()
                .flat_map(|word| ones(std::slice::from_ref(word)).collect::<Vec<_>>())
                .for_each(|bit| counts[bit] += 1);
            Sum { size: 2, counts }
        };
        let mut course = Course {
            restart: 0,
            centres: Centres {
                clusters: vec![sum([1, 3]), sum([62, 60]), sum([0, 63])],
                given: Vec::new(),
            },
            sums: Sums::default(),
            iterations: 1,
            converged: false,
        };
        leader.assign(&mut [&mut course]).unwrap();
        assert_eq!(course.sums.points, [3, 3, 0]);
        leader.fill_empty(&mut [&mut course]).unwrap();
        assert_eq!(course.sums.points, [2, 3, 1]);
        assert_eq!(course.centres.given, [(vec![0], 2)]);
    }

    #[test]
    fn worked_case() {
        // 1100, 1110 | 0011, 0001, in blocks of two.
        let rows = rows_of(1, [0b0011, 0b0111, 0b1100, 0b1000].chunks(1));
        let settings = KMeans {
            clusters: 2,
            ..KMeans::default()
        };
        let found = by_blocks(&settings, &rows, 2, false);
        assert_eq!((&found.labels[..], found.inertia), (&[0, 0, 1, 1][..], 1.0));
        let centre = |counts: [u32; 4]| {
            let counts = counts.into_iter().chain([0; 60]).collect();
            Sum { size: 2, counts }
        };
        let clusters = vec![centre([2, 2, 1, 0]), centre([0, 0, 1, 2])];
        let block = PointBlock {
            number: 0,
            points: rows,
            weights: vec![1; 4],
        };
        let centres = Centres {
            clusters: clusters.clone(),
            given: Vec::new(),
        };
        let Some(Answer(Told::Sums(sums))) = block.answer(&Question(Asked::Sums(vec![centres])))
        else {
            panic!("no sums");
        };
        assert_eq!(sums[0].clusters, clusters);
    }

    #[test]
    fn what_is_no_answer_gives_nothing() {
        let rows = noisy_rows(20, 70, 4, 0.3, 1);
        let block = PointBlock {
            number: 0,
            points: rows.clone(),
            weights: vec![1; 20],
        };
        let narrow = Centres {
            clusters: vec![Sum {
                size: 1,
                counts: vec![0; 64],
            }],
            given: Vec::new(),
        };
        assert_eq!(block.answer(&Question(Asked::Labels(narrow))), None);
        let narrow = Asked::Draw(vec![(vec![vec![0]], vec![(0, 0)])]);
        assert_eq!(block.answer(&Question(narrow)), None);
        let answers = [
            None,
            Some(Vec::new()),
            Some(vec![Answer(Told::Labels(vec![7; 20]))]),
        ];
        for answer in answers {
            let keep = |_| Ok::<(), Infallible>(());
            let Ok(found) = KMeans::default().run_blocks(&rows, keep, |_| answer.clone());
            assert_eq!(found, None);
        }
    }
}
