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

/// What a layer gives for an input.
#[derive(Clone, Copy)]
pub(super) struct Sequence<'a> {
    /// All units of all steps.
    states: &'a [f32],
    /// Of each step, whether it is part of the sequence: 1 or 0.
    valid: &'a [f32],
    units: usize,
}

impl<'a> Sequence<'a> {
    /// Its states, without those beyond its end.
    pub(super) fn states(self) -> impl Iterator<Item = &'a [f32]> {
        let states = self.states.chunks_exact(self.units.max(1));
        let steps = states.zip(self.valid);
        steps.filter(|(_, valid)| **valid > 0.0).map(|(s, _)| s)
    }
}

impl Layer {
    fn tap(&self, reduction: Reduction) -> Tap {
        Tap {
            layer: self.index,
            side: Side::After,
            reduction,
        }
    }

    /// Its states, and which of them are part of a sequence.
    pub(super) fn taps(&self) -> [Tap; 2] {
        [Reduction::Units, Reduction::Valid].map(|reduction| self.tap(reduction))
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
        visits: impl Fn(&Model, Sequence<'_>) -> Vec<u64>,
    ) -> Result<(), CriterionError> {
        let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
        self.read_sequences(training, |sequence| {
            for visit in visits(model, sequence) {
                let count = counts.entry(visit).or_default();
                *count = count.saturating_add(1);
            }
        })?;
        (model.visited, model.counts) = counts.into_iter().unzip();
        Ok(())
    }

    /// All training sequences.
    fn read_sequences(
        &self,
        training: &dyn Training,
        mut on: impl FnMut(Sequence<'_>),
    ) -> Result<(), CriterionError> {
        let inputs = training.inputs();
        let widths = [self.steps * self.units, self.steps];
        let mut buffers = widths.map(|width| vec![0.0; BLOCK.min(inputs) * width]);
        for start in (0..inputs).step_by(BLOCK) {
            let block: Range<usize> = start..(start + BLOCK).min(inputs);
            for ((tap, width), buffer) in self.taps().into_iter().zip(widths).zip(&mut buffers) {
                training
                    .read_tap(tap, block.clone(), &mut buffer[..block.len() * width])
                    .map_err(CriterionError::Training)?;
            }
            let [states, valid] = &buffers;
            let states = states.chunks_exact(widths[0].max(1));
            let valid = valid.chunks_exact(widths[1].max(1));
            for (states, valid) in states.zip(valid).take(block.len()) {
                on(self.sequence(states, valid));
            }
        }
        Ok(())
    }

    /// A sequence, from what taps give of it.
    pub(super) fn sequence<'a>(&self, states: &'a [f32], valid: &'a [f32]) -> Sequence<'a> {
        Sequence {
            states,
            valid,
            units: self.units,
        }
    }

    /// All states of training sequences; those that are not finite are none.
    fn read(
        &self,
        training: &dyn Training,
        mut on: impl FnMut(&[f32]),
    ) -> Result<(), CriterionError> {
        self.read_sequences(training, |sequence| {
            sequence
                .states()
                .filter(|state| state.iter().all(|x| x.is_finite()))
                .for_each(&mut on);
        })
    }
}
