//! The training data, as criteria are fitted to it and compare inputs with it.

use std::error::Error;
use std::ops::Range;

use npcov_tap::Tap;

use crate::per_input::PerInput;

/// Why training data cannot be read.
pub type TrainingError = Box<dyn Error + Send + Sync>;

/// Training inputs. Their activations may be larger than memory, so they are read part by part.
pub trait Training: Sync {
    /// How many there are.
    fn inputs(&self) -> usize;

    /// The predicted class of an input.
    fn prediction(&self, input: usize) -> u32;

    /// Reads the mean activations of some neurons (positions among those of all layers) for some
    /// inputs into `out`, inputs one after the other.
    fn read(
        &self,
        inputs: Range<usize>,
        neurons: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), TrainingError>;

    /// Reads what a tap gives for some inputs, which is there where a criterion
    /// [asked for it](crate::Needs::training_taps) and while it is fitted.
    fn read_tap(
        &self,
        tap: Tap,
        _inputs: Range<usize>,
        _out: &mut [f32],
    ) -> Result<(), TrainingError> {
        Err(format!("`{}` of layer {} was not kept", tap.name(), tap.layer).into())
    }

    /// Keeps so many numbers, where there is room for one of every input, or a few, until what is given back is dropped.
    /// `compute` is asked for them in order.
    fn keep(&self, count: usize, compute: &mut Compute<'_>) -> Result<PerInput, TrainingError> {
        let mut numbers = vec![0.0; count];
        for places in kept_blocks(count) {
            compute(places.clone(), &mut numbers[places])?;
        }
        Ok(PerInput::in_memory(numbers))
    }

    /// The relevance of each neuron of a layer for the decisions on training inputs that were
    /// classified correctly, summed over those; over all inputs where there are no labels. `None`
    /// for a layer that no criterion asked for.
    fn importance(&self, layer: usize) -> Option<&[f64]>;
}

/// Computes the numbers in some places.
pub type Compute<'a> = dyn FnMut(Range<usize>, &mut [f64]) -> Result<(), TrainingError> + 'a;

/// Numbers that are computed at a time, to be [kept](Training::keep).
const KEPT: usize = 1 << 15;

/// The places of so many numbers, in the blocks in which they are [kept](Training::keep).
pub fn kept_blocks(count: usize) -> impl Iterator<Item = Range<usize>> {
    let starts = (0..count).step_by(KEPT);
    starts.map(move |start| start..(start + KEPT).min(count))
}

/// Inputs that are read at a time.
const BLOCK: usize = 1024;

/// Hands on the activations of all training inputs, block by block: the inputs, and their rows.
pub(crate) fn read_blocks(
    training: &dyn Training,
    neurons: Range<usize>,
    on: impl FnMut(Range<usize>, &[f32]),
) -> Result<(), TrainingError> {
    read_blocks_of(training, 0..training.inputs(), neurons, on)
}

/// The same of some inputs.
pub(crate) fn read_blocks_of(
    training: &dyn Training,
    inputs: Range<usize>,
    neurons: Range<usize>,
    mut on: impl FnMut(Range<usize>, &[f32]),
) -> Result<(), TrainingError> {
    let width = neurons.len();
    let mut rows = vec![0.0; BLOCK.min(inputs.len()) * width];
    for start in inputs.clone().step_by(BLOCK) {
        let block = start..(start + BLOCK).min(inputs.end);
        let rows = &mut rows[..block.len() * width];
        training.read(block.clone(), neurons.clone(), rows)?;
        on(block, rows);
    }
    Ok(())
}

/// Training data in memory: for tests and examples.
#[derive(Clone, Debug, Default)]
pub struct TrainingTable {
    /// The predicted class of each input.
    pub predictions: Vec<u32>,
    /// Neurons of all layers.
    pub neurons: usize,
    /// Activations, inputs one after the other.
    pub activations: Vec<f32>,
    /// Importances by layer.
    pub importance: Vec<Vec<f64>>,
    /// Other numbers: how many an input has, and those of all inputs one after the other.
    pub taps: Vec<(Tap, usize, Vec<f32>)>,
}

impl Training for TrainingTable {
    fn inputs(&self) -> usize {
        self.predictions.len()
    }

    fn prediction(&self, input: usize) -> u32 {
        self.predictions[input]
    }

    fn read(
        &self,
        inputs: Range<usize>,
        neurons: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), TrainingError> {
        let rows = out.chunks_exact_mut(neurons.len().max(1));
        for (input, row) in inputs.zip(rows) {
            let start = input * self.neurons;
            row.copy_from_slice(&self.activations[start + neurons.start..start + neurons.end]);
        }
        Ok(())
    }

    fn read_tap(
        &self,
        tap: Tap,
        inputs: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), TrainingError> {
        let found = self.taps.iter().find(|(known, ..)| *known == tap);
        let (_, width, numbers) = found.ok_or("no such tap")?;
        out.copy_from_slice(&numbers[inputs.start * width..inputs.end * width]);
        Ok(())
    }

    fn importance(&self, layer: usize) -> Option<&[f64]> {
        self.importance.get(layer).map(Vec::as_slice)
    }
}
