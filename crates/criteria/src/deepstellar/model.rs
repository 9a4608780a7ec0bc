//! What is learnt of a recurrent layer: where its states lie, and which of them training visits.

use std::collections::BTreeMap;
use std::ops::Range;

use npcov_tap::{Reduction, Side, Tap};

use super::grid::Grid;
use super::principal::principal;
use crate::error::CriterionError;
use crate::training::Training;

/// Training inputs that are read at a time.
const BLOCK: usize = 256;

/// A recurrent layer.
pub(super) struct Layer {
    /// Position among the path layers.
    pub(super) index: usize,
    pub(super) units: usize,
    pub(super) steps: usize,
    /// What was learnt.
    pub(super) model: Option<Model>,
}

/// The abstraction of a layer, and what there is to visit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Model {
    pub(super) mean: Vec<f64>,
    /// Principal components, one after the other.
    pub(super) components: Vec<f64>,
    /// Of each component, the smallest and largest number.
    pub(super) extremes: Vec<f64>,
    /// States or transitions as numbers, ascending.
    pub(super) visited: Vec<u64>,
    /// How often training visits each; empty where that does not matter.
    pub(super) counts: Vec<u32>,
}

impl Model {
    /// The projections of a state.
    fn project(&self, state: &[f32]) -> impl Iterator<Item = f64> {
        let components = self.components.chunks_exact(self.mean.len().max(1));
        components.map(move |component| {
            let centred = state
                .iter()
                .zip(&self.mean)
                .map(|(&x, mean)| f64::from(x) - mean);
            centred.zip(component).map(|(x, c)| x * c).sum()
        })
    }

    /// The number of a state in a grid; `None` beyond it.
    pub(super) fn state(&self, state: &[f32], grid: Grid) -> Option<u64> {
        grid.place(self.project(state), &self.extremes)
    }
}

impl Layer {
    pub(super) fn tap(&self) -> Tap {
        Tap {
            layer: self.index,
            side: Side::After,
            reduction: Reduction::Units,
        }
    }

    /// The name of an array of the fit.
    pub(super) fn array(&self, what: &str) -> String {
        format!("{what}.{}", self.index)
    }

    /// Learns where states lie, for a criterion: up to so many components and their extremes.
    pub(super) fn abstraction(
        &self,
        criterion: &str,
        training: &dyn Training,
        most: usize,
    ) -> Result<Model, CriterionError> {
        let units = self.units;
        let (mut count, mut sums) = (0.0, vec![0.0; units]);
        self.read(training, |state| {
            count += 1.0;
            sums.iter_mut()
                .zip(state)
                .for_each(|(sum, &x)| *sum += f64::from(x));
        })?;
        if count == 0.0 {
            return Err(CriterionError::Fit {
                criterion: criterion.to_owned(),
                reason: "there are no training sequences of finite states".to_owned(),
            });
        }
        let mean: Vec<f64> = sums.iter().map(|sum| sum / count).collect();
        let mut covariance = vec![0.0; units * units];
        let mut centred = vec![0.0; units];
        self.read(training, |state| {
            for ((c, &x), mean) in centred.iter_mut().zip(state).zip(&mean) {
                *c = f64::from(x) - mean;
            }
            for (row, &a) in covariance.chunks_exact_mut(units).zip(&centred) {
                row.iter_mut()
                    .zip(&centred)
                    .for_each(|(sum, b)| *sum += a * b);
            }
        })?;
        let components = principal(&covariance, units, most);
        let found = components.len() / units.max(1);
        let mut model = Model {
            mean,
            components,
            extremes: [f64::INFINITY, f64::NEG_INFINITY].repeat(found),
            visited: Vec::new(),
            counts: Vec::new(),
        };
        let mut extremes = model.extremes.clone();
        self.read(training, |state| {
            for (x, extremes) in model.project(state).zip(extremes.chunks_exact_mut(2)) {
                extremes[0] = extremes[0].min(x);
                extremes[1] = extremes[1].max(x);
            }
        })?;
        model.extremes = extremes;
        Ok(model)
    }

    /// Counts what training sequences visit.
    pub(super) fn count(
        &self,
        training: &dyn Training,
        model: &mut Model,
        visits: impl Fn(&Model, &[f32]) -> Vec<u64>,
    ) -> Result<(), CriterionError> {
        let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
        self.read_rows(training, |row| {
            for visit in visits(model, row) {
                let count = counts.entry(visit).or_default();
                *count = count.saturating_add(1);
            }
        })?;
        (model.visited, model.counts) = counts.into_iter().unzip();
        Ok(())
    }

    /// All training sequences.
    fn read_rows(
        &self,
        training: &dyn Training,
        mut on: impl FnMut(&[f32]),
    ) -> Result<(), CriterionError> {
        let inputs = training.inputs();
        let width = self.steps * self.units;
        let mut rows = vec![0.0; BLOCK.min(inputs) * width];
        for start in (0..inputs).step_by(BLOCK) {
            let block: Range<usize> = start..(start + BLOCK).min(inputs);
            let rows = &mut rows[..block.len() * width];
            training
                .read_tap(self.tap(), block, rows)
                .map_err(CriterionError::Training)?;
            rows.chunks_exact(width.max(1)).for_each(&mut on);
        }
        Ok(())
    }

    /// All states of training sequences; those that are not finite are none.
    fn read(
        &self,
        training: &dyn Training,
        mut on: impl FnMut(&[f32]),
    ) -> Result<(), CriterionError> {
        self.read_rows(training, |row| {
            let states = row.chunks_exact(self.units.max(1));
            states
                .filter(|state| state.iter().all(|x| x.is_finite()))
                .for_each(&mut on);
        })
    }
}
