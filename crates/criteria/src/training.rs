//! The training data, as criteria are fitted to it and compare inputs with it.

use std::error::Error;
use std::ops::Range;

use npcov_tap::Tap;

/// Why training data cannot be read.
pub type TrainingError = Box<dyn Error + Send + Sync>;

/// Training inputs. Their activations may be larger than memory, so they are read part by part.
pub trait Training: Sync {
    /// The predicted class of each input.
    fn predictions(&self) -> &[u32];

    /// The label of each input, where there are labels.
    fn labels(&self) -> Option<&[i64]>;

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

    /// The relevance of each neuron of a layer for the decisions on training inputs that were
    /// classified correctly, summed over those; over all inputs where there are no labels. `None`
    /// for a layer that no criterion asked for.
    fn importance(&self, layer: usize) -> Option<&[f64]>;
}

/// Inputs that are read at a time.
const BLOCK: usize = 1024;

/// Hands on the activations of all training inputs, block by block: the inputs, and their rows.
pub(crate) fn read_blocks(
    training: &dyn Training,
    neurons: Range<usize>,
    mut on: impl FnMut(Range<usize>, &[f32]),
) -> Result<(), TrainingError> {
    let inputs = training.predictions().len();
    let width = neurons.len();
    let mut rows = vec![0.0; BLOCK.min(inputs) * width];
    for start in (0..inputs).step_by(BLOCK) {
        let block = start..(start + BLOCK).min(inputs);
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
    /// The label of each input, where there are labels.
    pub labels: Option<Vec<i64>>,
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
    fn predictions(&self) -> &[u32] {
        &self.predictions
    }

    fn labels(&self) -> Option<&[i64]> {
        self.labels.as_deref()
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
