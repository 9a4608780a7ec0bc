//! Landmarks: the training inputs that others are held against.
//!
//! Where an input belongs, and how familiar it is, is told by its neighbours among training inputs.
//! All of them are asked, as long as they are not too many: beyond ten thousand of a class a random
//! sample stands for the rest, so that telling costs the same however large the training data is.
//! Some inputs are kept apart: their scores say what is usual for inputs that the graph does not know.

use std::ops::Range;

use crate::graph::{InvalidGraph, NO_CLUSTER, PathGraph};
use crate::random::{DrawnFor, Generator};
use crate::training::TrainingInputs;

/// The most landmarks of a class.
const MOST_OF_CLASS: usize = 10_000;

/// The most landmarks of all classes; each then has an equal part of them at most.
const MOST: usize = 100_000;

/// The most inputs that are kept apart.
const APART: usize = 1_000;

/// One in so many inputs is kept apart.
const ONE_IN: usize = 10;

/// What landmarks are drawn for, among what is drawn for clusters.
const PURPOSE: u64 = 1;

/// The training inputs that others are held against, class by class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Landmarks {
    /// Training inputs, those of a class ascending, classes in order.
    rows: Vec<u32>,
    /// By class, its landmarks.
    classes: Vec<Range<usize>>,
}

impl Landmarks {
    /// Chooses from the members of each of so many classes, but for those that are kept apart (ascending).
    pub fn choose<M: IntoIterator<Item = u32>>(
        classes: usize,
        members: impl Fn(usize) -> M,
        apart: &[u32],
        seed: u64,
    ) -> Landmarks {
        let most = MOST_OF_CLASS.min(MOST / classes.max(1)).max(1);
        let mut landmarks = Landmarks::default();
        for class in 0..classes {
            // Gone through twice: a list of all would grow with the training data.
            let free = || {
                let members = members(class).into_iter();
                members.filter(|row| apart.binary_search(row).is_err())
            };
            let start = landmarks.rows.len();
            let mut draw = Generator::new(seed, DrawnFor::Clusters, PURPOSE, class as u64);
            let chosen = draw.sample(free().count(), most);
            let mut chosen = chosen.into_iter().peekable();
            let is_chosen = |&(i, _): &(usize, u32)| chosen.next_if_eq(&i).is_some();
            let rows = free().enumerate().filter(is_chosen);
            landmarks.rows.extend(rows.map(|(_, row)| row));
            landmarks.classes.push(start..landmarks.rows.len());
        }
        landmarks
    }

    /// Puts the landmarks of a graph together again, and checks that they fit.
    pub fn assemble(rows: Vec<u32>, graph: &PathGraph) -> Result<Landmarks, InvalidGraph> {
        let mut keys = Vec::with_capacity(rows.len());
        for &row in &rows {
            if graph.cluster_of(row) == NO_CLUSTER {
                return Err(InvalidGraph("a landmark is in no cluster"));
            }
            keys.push((graph.training().prediction(row as usize), row));
        }
        if !keys.is_sorted_by(|a, b| a < b) {
            return Err(InvalidGraph("landmarks are in another order"));
        }
        let of_class = |class: usize| {
            let end = |class: usize| keys.partition_point(|&(c, _)| (c as usize) < class);
            end(class)..end(class + 1)
        };
        Ok(Landmarks {
            classes: (0..graph.classes().len()).map(of_class).collect(),
            rows,
        })
    }

    /// The training inputs, class by class.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Those of a class, as positions among all.
    pub fn of_class(&self, class: usize) -> Range<usize> {
        self.classes.get(class).cloned().unwrap_or(0..0)
    }
}

/// The training inputs that are kept apart, ascending: one in ten of every class, spread over it, of
/// those that are classified as labelled.
pub fn kept_apart(training: &TrainingInputs, classes: usize) -> Vec<u32> {
    let right = || {
        let rows = training.predictions.iter().enumerate();
        let is_right = |row, class| training.label(row).is_none_or(|label| label == class);
        let right = rows.filter(move |&(row, class)| is_right(row, class));
        right.filter_map(|(row, class)| Some((row as u32, usize::try_from(class).ok()?)))
    };
    let mut counts = vec![0_usize; classes];
    right().for_each(|(_, class)| counts.get_mut(class).into_iter().for_each(|n| *n += 1));
    // By class: how many were seen, and how many of them kept apart.
    let mut seen = vec![(0, 0); classes];
    // Of all those, so many are taken; which one comes next is known without a list of them.
    let all_apart: usize = counts.iter().map(|all| all / ONE_IN).sum();
    let count = all_apart.min(APART);
    let mut next = 0;
    let mut apart = Vec::with_capacity(count);
    for (row, class) in right() {
        let (Some(&all), Some((place, kept))) = (counts.get(class), seen.get_mut(class)) else {
            continue;
        };
        let wanted = all / ONE_IN;
        if *kept < wanted && *place == *kept * all / wanted {
            if apart.len() < count && next == apart.len() * all_apart / count {
                apart.push(row);
            }
            next += 1;
            *kept += 1;
        }
        *place += 1;
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::narrow::Narrow;

    fn choose(members: &[Vec<u32>], apart: &[u32], seed: u64) -> Landmarks {
        Landmarks::choose(members.len(), |class| members[class].clone(), apart, seed)
    }

    #[test]
    fn all_members_are_landmarks_but_those_kept_apart() {
        let members = [vec![0, 2, 3], vec![], vec![1, 4]];
        let landmarks = choose(&members, &[2, 4], 0);
        assert_eq!(landmarks.rows(), [0, 3, 1]);
        assert_eq!(landmarks.of_class(0), 0..2);
        assert_eq!(landmarks.of_class(1), 2..2);
        assert_eq!(landmarks.of_class(2), 2..3);
        assert_eq!(landmarks.of_class(7), 0..0);
    }

    #[test]
    fn a_large_class_is_sampled() {
        let members = [(0..25_000).collect::<Vec<u32>>()];
        let landmarks = choose(&members, &[], 1);
        assert_eq!(landmarks.rows().len(), MOST_OF_CLASS);
        assert!(landmarks.rows().is_sorted_by(|a, b| a < b));
        assert!(landmarks.rows().iter().any(|&row| row > 24_000));
        assert_ne!(landmarks, choose(&members, &[], 2));
        let many: Vec<Vec<u32>> = (0..1_000).map(|_| (0..200).collect()).collect();
        assert_eq!(choose(&many, &[], 1).rows().len(), MOST);
    }

    #[test]
    fn one_in_ten_of_the_right_ones_is_kept_apart() {
        let training = |labels| TrainingInputs {
            predictions: Narrow::filled(1, 100),
            labels,
            ..TrainingInputs::default()
        };
        assert_eq!(kept_apart(&training(None), 2).len(), 10);
        let labels = (0..100).map(|row| i64::from(row >= 40)).collect();
        let apart = kept_apart(&training(Some(labels)), 2);
        assert_eq!(apart, [40, 50, 60, 70, 80, 90]);
        assert!(kept_apart(&TrainingInputs::default(), 2).is_empty());
        let mut small = training(None);
        small.predictions.set(7, 0);
        assert!(!kept_apart(&small, 2).contains(&7));
        let large = TrainingInputs {
            predictions: (0..40_000).map(|row| row % 3).collect(),
            ..TrainingInputs::default()
        };
        let apart = kept_apart(&large, 3);
        assert!(apart.len() == APART && apart.is_sorted_by(|a, b| a < b));
    }
}
