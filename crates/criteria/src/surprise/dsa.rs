//! DSA: how far a trace is from those of its class, beside how far those are from other classes.
//!
//! Let `a` be the training trace of the same predicted class that is nearest to an input's trace
//! `x` (of equally near ones, the first). The adequacy is `|x - a| / |a - b|`, with `b` the nearest
//! to `a` of the traces of any other predicted class. It is infinite where there is no `a` or no
//! `b`, and where the two are the same trace. A training input is not its own `a`.
//!
//! Options are those of [all](super). Training traces are [searched](super::nearest) in two passes
//! for as many inputs as are measured together, so that these had better be many.

use std::collections::BTreeMap;

use crate::error::CriterionError;
use crate::fit::{Fit, FitNumbers};
use crate::shape::NetworkShape;
use crate::spec::Options;
use crate::training::{Training, read_blocks};

use super::nearest::{Among, Nearest, Query, Space};
use super::{Adequacy, Inputs, Trace, sound};

/// The adequacy.
pub(crate) struct Dsa {
    trace: Trace,
    /// The mean training trace, which makes numbers small but has no say in what they are.
    centre: Vec<f32>,
}

impl Adequacy for Dsa {
    const NAMES: (&'static str, &'static str) = ("dsc", "dsa");
    const COMPARES: bool = true;

    fn create(
        _options: &mut Options<'_>,
        _network: &NetworkShape,
        trace: Trace,
    ) -> Result<(Dsa, f64), CriterionError> {
        let centre = vec![0.0; trace.neurons.len()];
        Ok((Dsa { trace, centre }, 2.0))
    }

    fn fit(&self, training: &dyn Training) -> Result<Fit, CriterionError> {
        let width = self.trace.neurons.len();
        let mut sums = vec![0.0; width];
        read_blocks(training, self.trace.neurons.clone(), |_, rows| {
            for row in rows.chunks_exact(width.max(1)) {
                sums.iter_mut()
                    .zip(row)
                    .for_each(|(sum, &x)| *sum += f64::from(x));
            }
        })?;
        let inputs = training.inputs().max(1) as f64;
        let mean = |sum: &f64| Some((sum / inputs) as f32).filter(|x| x.is_finite());
        let centre = sums.iter().map(|sum| mean(sum).unwrap_or(0.0)).collect();
        let mut fit = Fit::default();
        fit.insert("centre", &[width], FitNumbers::F32(centre));
        Ok(fit)
    }

    fn restore(&mut self, fit: Fit) -> Result<(), CriterionError> {
        self.centre = fit.f32("dsc", "centre", self.trace.neurons.len())?.to_vec();
        Ok(())
    }

    fn scores(
        &self,
        inputs: &Inputs<'_>,
        training: &dyn Training,
    ) -> Result<Vec<f64>, CriterionError> {
        let space = Space {
            training,
            neurons: self.trace.neurons.clone(),
            centre: &self.centre,
        };
        let query = |(i, &class): (usize, &u32)| Query {
            class,
            except: inputs.training.map(|positions| positions[i] as usize),
            trace: inputs.traces.row(i).to_vec(),
        };
        let queries: Vec<Query> = inputs.predictions.iter().enumerate().map(query).collect();
        let same = space.nearest(&queries, Among::Same)?;

        // Many inputs may have the same one.
        let mut distinct: BTreeMap<usize, Query> = BTreeMap::new();
        for (nearest, query) in same.iter().zip(queries) {
            if let Some(nearest) = nearest {
                distinct.entry(nearest.input).or_insert_with(|| Query {
                    class: query.class,
                    except: None,
                    trace: nearest.trace.clone(),
                });
            }
        }
        let (keys, queries): (Vec<usize>, Vec<Query>) = distinct.into_iter().unzip();
        let others = space.nearest(&queries, Among::Others)?;

        let score = |nearest: &Option<Nearest>| {
            let nearest = nearest.as_ref()?;
            let at = keys.binary_search(&nearest.input).ok()?;
            let other = others[at].as_ref()?;
            let ratio = nearest.squared.sqrt() / other.squared.sqrt();
            Some(sound(ratio))
        };
        let infinite = f64::INFINITY;
        Ok(same.iter().map(|n| score(n).unwrap_or(infinite)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Inputs;
    use super::*;
    use crate::training::TrainingTable;
    use npcov_tap::Column;
    use proptest::prelude::*;

    fn scores(
        table: &TrainingTable,
        predictions: &[u32],
        traces: &[f32],
        training: Option<&[u32]>,
    ) -> Vec<f64> {
        let trace = Trace {
            layer: 0,
            neurons: 0..table.neurons,
        };
        let centre = vec![0.0; table.neurons];
        let mut dsa = Dsa { trace, centre };
        dsa.restore(dsa.fit(table).unwrap()).unwrap();
        let inputs = Inputs {
            predictions,
            traces: Column::of(traces, table.neurons),
            training,
        };
        dsa.scores(&inputs, table).unwrap()
    }

    /// By definition.
    fn naive(table: &TrainingTable, class: u32, x: &[f32], own: Option<usize>) -> f64 {
        let rows: Vec<&[f32]> = table.activations.chunks_exact(table.neurons).collect();
        let distance = |a: &[f32], b: &[f32]| {
            let squares = a
                .iter()
                .zip(b)
                .map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
            squares.sum::<f64>().sqrt()
        };
        let mut a = None;
        let mut dist_a = f64::INFINITY;
        for (i, row) in rows.iter().enumerate() {
            if table.predictions[i] == class && Some(i) != own && distance(x, row) < dist_a {
                a = Some(row);
                dist_a = distance(x, row);
            }
        }
        let Some(a) = a else { return f64::INFINITY };
        let others = rows
            .iter()
            .zip(&table.predictions)
            .filter(|(_, c)| **c != class);
        let dist_b = others
            .map(|(row, _)| distance(a, row))
            .fold(f64::INFINITY, f64::min);
        match dist_b == 0.0 || dist_b == f64::INFINITY {
            true => f64::INFINITY,
            false => dist_a / dist_b,
        }
    }

    #[test]
    fn worked_case() {
        // Case 14.
        let table = TrainingTable {
            predictions: vec![0, 0, 1, 1],
            neurons: 2,
            activations: vec![0.0, 0.0, 1.0, 0.0, 5.0, 0.0, 9.0, 0.0],
            ..TrainingTable::default()
        };
        let traces = [2.0, 0.0, 6.0, 0.0, 2.0, 0.0];
        let infinite = f64::INFINITY;
        assert_eq!(
            scores(&table, &[0, 1, 2], &traces, None),
            [0.25, 0.25, infinite]
        );
        // As training inputs: (0, 0) is 1 from (1, 0), which is 4 from (5, 0); and so on.
        let all = scores(
            &table,
            &table.predictions,
            &table.activations,
            Some(&[0, 1, 2, 3]),
        );
        assert_eq!(all, [0.25, 0.2, 0.5, 1.0]);
    }

    proptest! {
        #[test]
        fn as_by_definition_in_any_grouping(
            rows in prop::collection::vec((0u32..3, [-3i8..3, -3i8..3]), 1..60),
            scale in prop_oneof![Just(1.0f32), Just(0.1), Just(1e-3)],
            cut in 0usize..60,
        ) {
            let table = TrainingTable {
                predictions: rows.iter().map(|row| row.0).collect(),
                neurons: 2,
                activations: rows.iter().flat_map(|row| row.1).map(|x| f32::from(x) * scale).collect(),
                ..TrainingTable::default()
            };
            // The training inputs, and the same traces as if they were others, one class on.
            let (classes, traces) = (&table.predictions, &table.activations);
            let positions: Vec<u32> = (0..rows.len() as u32).collect();
            let own = scores(&table, classes, traces, Some(&positions));
            let next: Vec<u32> = classes.iter().map(|class| (class + 1) % 4).collect();
            let others = scores(&table, &next, traces, None);
            for i in 0..rows.len() {
                let x = &traces[i * 2..i * 2 + 2];
                prop_assert_eq!(own[i], naive(&table, classes[i], x, Some(i)));
                prop_assert_eq!(others[i], naive(&table, next[i], x, None));
            }
            let cut = cut.min(rows.len());
            let mut parts = scores(&table, &next[..cut], &traces[..cut * 2], None);
            parts.extend(scores(&table, &next[cut..], &traces[cut * 2..], None));
            prop_assert_eq!(parts, others);
        }
    }
}
