//! What criteria see of inputs.

use std::ops::Range;

use npcov_paths::Observation;

use crate::subject::Tap;

/// Numbers of a tap: a span of the row that each input has in a larger table.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    /// The table, row after row.
    pub data: &'a [f32],
    /// Numbers in a row of the table.
    pub stride: usize,
    /// Where the span begins.
    pub start: usize,
    /// Numbers in the span.
    pub len: usize,
}

impl<'a> Column<'a> {
    /// The whole rows of a table.
    pub fn of(data: &'a [f32], len: usize) -> Column<'a> {
        Column {
            data,
            stride: len,
            start: 0,
            len,
        }
    }

    /// The numbers of an input.
    pub fn row(&self, input: usize) -> &'a [f32] {
        let start = input * self.stride + self.start;
        &self.data[start..start + self.len]
    }

    fn slice(&self, inputs: &Range<usize>) -> Column<'a> {
        Column {
            data: &self.data[inputs.start * self.stride..inputs.end * self.stride],
            ..*self
        }
    }
}

/// How many inputs lie beside each other in [`Lanes`].
pub const LANES: usize = 16;

/// Numbers of a tap while they are computed: for each position of a row, those of up to [`LANES`]
/// inputs beside each other.
#[derive(Clone, Copy, Debug)]
pub struct Lanes<'a> {
    packs: &'a [[f32; LANES]],
    inputs: usize,
}

impl<'a> Lanes<'a> {
    /// Of so many inputs, which have the first places at each position. What is in the other places
    /// does not count, nor do numbers behind the last whole position.
    pub fn of(numbers: &'a [f32], inputs: usize) -> Lanes<'a> {
        Lanes {
            packs: numbers.as_chunks().0,
            inputs: inputs.min(LANES),
        }
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// By position, the places of all inputs; those behind the last input hold anything.
    pub fn packs(&self) -> &'a [[f32; LANES]] {
        self.packs
    }
}

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

    /// What a tap gives. It is one that the criterion asked for.
    pub fn tap(&self, tap: Tap) -> Column<'a> {
        let found = self.taps.iter().find(|(key, _)| *key == tap);
        match found {
            Some((_, column)) => *column,
            None => panic!("{tap:?} was not asked for"),
        }
    }

    /// The mean activations of a layer's neurons.
    pub fn activations(&self, layer: usize) -> Column<'a> {
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
