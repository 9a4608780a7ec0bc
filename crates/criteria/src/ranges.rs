//! The range of each neuron over the training data.

use crate::error::CriterionError;
use crate::fit::{Fit, FitNumbers};
use crate::training::{Training, read_blocks};

/// For each neuron of all layers, what training inputs gave it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NeuronRanges {
    /// The smallest activation.
    pub(crate) low: Vec<f32>,
    /// The largest activation.
    pub(crate) high: Vec<f32>,
    /// The standard deviation, of the population.
    pub(crate) deviation: Vec<f32>,
}

impl NeuronRanges {
    /// Of the training data.
    pub(crate) fn fit(
        training: &dyn Training,
        neurons: usize,
    ) -> Result<NeuronRanges, CriterionError> {
        let inputs = training.inputs();
        let mut ranges = NeuronRanges {
            low: vec![f32::INFINITY; neurons],
            high: vec![f32::NEG_INFINITY; neurons],
            deviation: vec![0.0; neurons],
        };
        // Numbers are taken from the first input's, lest squares of large ones cancel.
        let mut first = Vec::new();
        let mut sums = vec![(0.0_f64, 0.0_f64); neurons];
        read_blocks(training, 0..neurons, |_, rows| {
            for row in rows.chunks_exact(neurons.max(1)) {
                if first.is_empty() {
                    first = row.to_vec();
                }
                for (i, &x) in row.iter().enumerate() {
                    ranges.low[i] = ranges.low[i].min(x);
                    ranges.high[i] = ranges.high[i].max(x);
                    let moved = f64::from(x) - f64::from(first[i]);
                    sums[i].0 += moved;
                    sums[i].1 += moved * moved;
                }
            }
        })?;
        for (deviation, (sum, squares)) in ranges.deviation.iter_mut().zip(sums) {
            let mean = sum / inputs.max(1) as f64;
            let variance = (squares / inputs.max(1) as f64 - mean * mean).max(0.0);
            *deviation = variance.sqrt() as f32;
        }
        Ok(ranges)
    }

    /// As arrays.
    pub(crate) fn store(&self) -> Fit {
        let mut fit = Fit::default();
        let arrays = [
            ("low", &self.low),
            ("high", &self.high),
            ("deviation", &self.deviation),
        ];
        for (name, numbers) in arrays {
            fit.insert(name, &[numbers.len()], FitNumbers::F32(numbers.clone()));
        }
        fit
    }

    /// From arrays.
    pub(crate) fn restore(
        fit: &Fit,
        criterion: &str,
        neurons: usize,
    ) -> Result<NeuronRanges, CriterionError> {
        let array = |name| fit.f32(criterion, name, neurons).map(<[f32]>::to_vec);
        Ok(NeuronRanges {
            low: array("low")?,
            high: array("high")?,
            deviation: array("deviation")?,
        })
    }
}
