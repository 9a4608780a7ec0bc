//! Landmarks: the training inputs that others are held against.
//!
//! Where an input belongs, and how familiar it is, is told by its neighbours among training inputs.
//! All of them are asked, as long as they are not too many: beyond ten thousand of a class a random
//! sample stands for the rest, so that telling costs the same however large the training data is.
//! Some inputs are kept apart: their scores say what is usual for inputs that the graph does not know.

use std::ops::Range;

use crate::graph::{InvalidGraph, NO_CLUSTER, PathGraph, TrainingPaths};
use crate::random::{Generator, Task};

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
    /// Chooses from the members of each class, but for those that are kept apart (ascending).
    pub fn choose(members: &[Vec<u32>], apart: &[u32], seed: u64) -> Landmarks {
        let most = MOST_OF_CLASS.min(MOST / members.len().max(1)).max(1);
        let mut landmarks = Landmarks::default();
        for (class, members) in members.iter().enumerate() {
            let is_free = |row: &u32| apart.binary_search(row).is_err();
            let free: Vec<u32> = members.iter().copied().filter(is_free).collect();
            let start = landmarks.rows.len();
            let mut draw = Generator::new(seed, Task::Clusters, PURPOSE, class as u64);
            let chosen = draw.sample(free.len(), most);
            landmarks.rows.extend(chosen.into_iter().map(|i| free[i]));
            landmarks.classes.push(start..landmarks.rows.len());
        }
        landmarks
    }

    /// Puts the landmarks of a graph together again, and checks that they fit.
    pub fn assemble(rows: Vec<u32>, graph: &PathGraph) -> Result<Landmarks, InvalidGraph> {
        let parts = graph.parts();
        let mut keys = Vec::with_capacity(rows.len());
        for &row in &rows {
            let class = parts.training.predictions.get(row as usize);
            let cluster = parts.assignment.get(row as usize);
            match (class, cluster) {
                (Some(&class), Some(&cluster)) if cluster != NO_CLUSTER => keys.push((class, row)),
                _ => return Err(InvalidGraph("a landmark is in no cluster")),
            }
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
pub fn kept_apart(training: &TrainingPaths, classes: usize) -> Vec<u32> {
    let mut right = vec![Vec::new(); classes];
    for (row, &class) in training.predictions.iter().enumerate() {
        let labels = training.labels.as_ref();
        let is_right = labels.is_none_or(|labels| labels[row] == i64::from(class));
        if let (Some(rows), true) = (right.get_mut(class as usize), is_right) {
            rows.push(row as u32);
        }
    }
    let mut apart: Vec<u32> = right
        .iter()
        .flat_map(|rows| spread(rows, rows.len() / ONE_IN))
        .collect();
    apart.sort_unstable();
    let count = apart.len().min(APART);
    spread(&apart, count).collect()
}

/// So many of some rows, at equal distances.
fn spread(rows: &[u32], count: usize) -> impl Iterator<Item = u32> {
    (0..count).map(move |i| rows[i * rows.len() / count])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_members_are_landmarks_but_those_kept_apart() {
        let members = [vec![0, 2, 3], vec![], vec![1, 4]];
        let landmarks = Landmarks::choose(&members, &[2, 4], 0);
        assert_eq!(landmarks.rows(), [0, 3, 1]);
        assert_eq!(landmarks.of_class(0), 0..2);
        assert_eq!(landmarks.of_class(1), 2..2);
        assert_eq!(landmarks.of_class(2), 2..3);
        assert_eq!(landmarks.of_class(7), 0..0);
    }

    #[test]
    fn a_large_class_is_sampled() {
        let members = [(0..25_000).collect::<Vec<u32>>()];
        let landmarks = Landmarks::choose(&members, &[], 1);
        assert_eq!(landmarks.rows().len(), MOST_OF_CLASS);
        assert!(landmarks.rows().is_sorted_by(|a, b| a < b));
        assert!(landmarks.rows().iter().any(|&row| row > 24_000));
        assert_ne!(landmarks, Landmarks::choose(&members, &[], 2));
        let many: Vec<Vec<u32>> = (0..1_000).map(|_| (0..200).collect()).collect();
        assert_eq!(Landmarks::choose(&many, &[], 1).rows().len(), MOST);
    }

    #[test]
    fn one_in_ten_of_the_right_ones_is_kept_apart() {
        let training = |labels| TrainingPaths {
            predictions: vec![1; 100],
            labels,
            ..TrainingPaths::default()
        };
        assert_eq!(kept_apart(&training(None), 2).len(), 10);
        let labels = (0..100).map(|row| i64::from(row >= 40)).collect();
        let apart = kept_apart(&training(Some(labels)), 2);
        assert_eq!(apart, [40, 50, 60, 70, 80, 90]);
        assert!(kept_apart(&TrainingPaths::default(), 2).is_empty());
        let mut small = training(None);
        small.predictions[7] = 0;
        assert!(!kept_apart(&small, 2).contains(&7));
        let large = TrainingPaths {
            predictions: (0..40_000).map(|row| row % 3).collect(),
            ..TrainingPaths::default()
        };
        let apart = kept_apart(&large, 3);
        assert!(apart.len() == APART && apart.is_sorted_by(|a, b| a < b));
    }
}
