//! What criteria see of inputs.

use std::ops::Range;

use npcov_paths::Observation;

use crate::error::CriterionError;
use npcov_tap::{Column, Tap};

/// Some inputs of a suite, one after the other.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    /// The predicted classes.
    pub predictions: &'a [u32],
    /// The logits.
    pub logits: Column<'a>,
    /// The taps that criteria asked for.
    pub taps: Vec<(Tap, Column<'a>)>,
    /// Where the inputs are in the decision graph; empty where nobody asked.
    pub observations: &'a [Observation],
    /// The inputs' positions in the training data, where these are training inputs: whoever compares
    /// inputs with those leaves out the input itself.
    pub training: Option<&'a [u32]>,
}

impl<'a> Batch<'a> {
    /// Number of inputs.
    pub fn len(&self) -> usize {
        self.predictions.len()
    }

    /// Whether there are no inputs.
    pub fn is_empty(&self) -> bool {
        self.predictions.is_empty()
    }

    /// What a tap gives. Fails unless it is one that was extracted.
    pub fn tap(&self, tap: Tap) -> Result<Column<'a>, CriterionError> {
        let found = self.taps.iter().find(|(key, _)| *key == tap);
        match found {
            Some((_, column)) => Ok(*column),
            None => Err(CriterionError::NoTap {
                tap: tap.name(),
                layer: tap.layer,
            }),
        }
    }

    /// The mean activations of a layer's neurons.
    pub fn activations(&self, layer: usize) -> Result<Column<'a>, CriterionError> {
        self.tap(Tap::activation(layer))
    }

    /// Some of the inputs.
    pub fn slice(&self, inputs: Range<usize>) -> Batch<'a> {
        let observations = match self.observations.is_empty() {
            true => &[],
            false => &self.observations[inputs.clone()],
        };
        Batch {
            predictions: &self.predictions[inputs.clone()],
            logits: self.logits.slice(&inputs),
            taps: self
                .taps
                .iter()
                .map(|(tap, column)| (*tap, column.slice(&inputs)))
                .collect(),
            observations,
            training: self.training.map(|positions| &positions[inputs]),
        }
    }
}
