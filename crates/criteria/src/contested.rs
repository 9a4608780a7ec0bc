//! How contested a decision is: whether activations are those of the class, or of another.

use std::ops::Range;

use crate::error::CriterionError;
use crate::surprise::nearest::{Query, Space};
use crate::training::{Training, read_blocks};

/// The activations of some neurons of training inputs, that those of other inputs are held against.
///
/// The score of an input is the distance to the nearest training input of its class, divided by that
/// to the nearest one of any other class. Near or above 1, the decision looks like another class's.
pub struct Contested {
    neurons: Range<usize>,
    /// The mean, which is subtracted to make numbers small.
    centre: Vec<f32>,
}

/// An input whose decision is looked at.
#[derive(Clone, Debug)]
pub struct ContestedInput<'a> {
    /// Its class.
    pub class: u32,
    /// Its activations of those neurons.
    pub activations: &'a [f32],
}

impl Contested {
    /// Looks at neurons (positions among those of all layers).
    pub fn new(
        training: &dyn Training,
        neurons: Range<usize>,
    ) -> Result<Contested, CriterionError> {
        let mut sums = vec![0.0_f64; neurons.len()];
        read_blocks(training, neurons.clone(), |_, rows| {
            for row in rows.chunks_exact(sums.len().max(1)) {
                let sums = sums.iter_mut().zip(row);
                sums.for_each(|(sum, &x)| *sum += f64::from(x));
            }
        })?;
        let inputs = training.inputs().max(1) as f64;
        Ok(Contested {
            centre: sums.iter().map(|sum| (sum / inputs) as f32).collect(),
            neurons,
        })
    }

    /// The scores of inputs; `None` for those whose class, or all other classes, have no training
    /// input.
    pub fn scores(
        &self,
        inputs: &[ContestedInput<'_>],
        training: &dyn Training,
    ) -> Result<Vec<Option<f64>>, CriterionError> {
        let space = Space {
            training,
            neurons: self.neurons.clone(),
            centre: &self.centre,
        };
        let query = |input: &ContestedInput<'_>| Query {
            class: input.class,
            except: None,
            trace: input.activations.to_vec(),
        };
        let queries: Vec<Query> = inputs.iter().map(query).collect();
        let found = space.nearest_of_both(&queries)?;
        let score = |(own, other)| Some(ratio(distance(own)?, distance(other)?));
        Ok(found.same.iter().zip(&found.others).map(score).collect())
    }
}

fn distance(nearest: &Option<crate::surprise::nearest::Nearest>) -> Option<f64> {
    nearest.as_ref().map(|nearest| nearest.squared.sqrt())
}

/// 0/0 is 1: an input that is the same as one of both. What is divided by 0 alone is as contested as
/// can be.
fn ratio(own: f64, other: f64) -> f64 {
    match (own == 0.0, other == 0.0) {
        (true, true) => 1.0,
        (false, true) => f64::MAX,
        _ => (own / other).min(f64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::TrainingTable;
    use proptest::prelude::*;

    fn table(predictions: Vec<u32>, activations: Vec<f32>) -> TrainingTable {
        TrainingTable {
            neurons: 2,
            predictions,
            activations,
            ..TrainingTable::default()
        }
    }

    fn scores(table: &TrainingTable, class: u32, points: &[f32]) -> Vec<Option<f64>> {
        let contested = Contested::new(table, 0..2).unwrap();
        let inputs: Vec<ContestedInput<'_>> = points
            .chunks_exact(2)
            .map(|activations| ContestedInput { class, activations })
            .collect();
        contested.scores(&inputs, table).unwrap()
    }

    #[test]
    fn the_own_distance_beside_the_others() {
        let table = table(vec![0, 0, 1, 2], vec![0., 0., 3., 0., 0., 4., 9., 9.]);
        assert_eq!(scores(&table, 0, &[0., 1.]), [Some(1.0 / 3.0)]);
        assert_eq!(scores(&table, 0, &[0., 4.]), [Some(f64::MAX)]);
        assert_eq!(scores(&table, 1, &[0., 1.]), [Some(3.0)]);
        assert_eq!(scores(&table, 3, &[0., 1.]), [None]);
    }

    #[test]
    fn twins_of_two_classes_and_a_class_alone() {
        let twins = table(vec![0, 1], vec![1., 1., 1., 1.]);
        assert_eq!(scores(&twins, 0, &[1., 1.]), [Some(1.0)]);
        let alone = table(vec![0, 0], vec![1., 1., 2., 2.]);
        assert_eq!(scores(&alone, 0, &[1., 1.]), [None]);
    }

    proptest! {
        #[test]
        fn as_the_definition_says(
            predictions in prop::collection::vec(0_u32..3, 1..30),
            values in prop::collection::vec(-4_i8..5, 60),
            point in [-4_i8..5, -4_i8..5],
            class in 0_u32..3,
        ) {
            let values: Vec<f32> = values.into_iter().map(f32::from).collect();
            let table = table(predictions.clone(), values[..2 * predictions.len()].to_vec());
            let point = point.map(f32::from);
            let nearest = |same: bool| {
                let rows = table.activations.chunks_exact(2).zip(&predictions);
                rows.filter(|(_, of)| (**of == class) == same)
                    .map(|(row, _)| f64::from(row[0] - point[0]).hypot(f64::from(row[1] - point[1])))
                    .min_by(f64::total_cmp)
            };
            let expected = nearest(true).zip(nearest(false)).map(|(own, other)| ratio(own, other));
            match (scores(&table, class, &point)[0], expected) {
                (Some(found), Some(expected)) => prop_assert!((found - expected).abs() <= 1e-12 * expected),
                (found, expected) => prop_assert_eq!(found, expected),
            }
        }
    }
}
