//! What a network takes and gives: all that is known of it without its graph.
//!
//! Programs carry a signature, not the network they were made from. So whoever made all programs
//! they need can let go of the network, and with it of a second copy of its weights.

use npcov_data::WantedInput;
use npcov_graph::Ending;
use npcov_program::PathLayer;

use crate::task::Numbers;

/// The shape of a network's inputs, its classes and its path layers.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    pub(crate) inputs: Vec<WantedInput>,
    pub(crate) place: usize,
    pub(crate) ending: Ending,
    pub(crate) numbers: Option<Numbers>,
    pub(crate) classes: usize,
    pub(crate) logits: usize,
    pub(crate) layers: Vec<PathLayer>,
    pub(crate) sums: Vec<PathLayer>,
    pub(crate) batch: usize,
    pub(crate) tokens: Option<usize>,
}

impl Signature {
    /// The inputs, each with its shape for one sample.
    pub fn inputs(&self) -> &[WantedInput] {
        &self.inputs
    }

    /// The place of the input that is preprocessed, attacked and drawn.
    pub fn place(&self) -> usize {
        self.place
    }

    /// Shape of that input for one sample, without the batch axis.
    pub fn sample_shape(&self) -> &[usize] {
        self.input_shape(self.place)
    }

    /// Shape of an input for one sample, without the batch axis.
    pub fn input_shape(&self, input: usize) -> &[usize] {
        self.inputs.get(input).map_or(&[], |input| &input.shape)
    }

    /// What comes after the logits.
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// How numbers become classes, where the outputs are numbers.
    pub fn numbers(&self) -> Option<&Numbers> {
        self.numbers.as_ref()
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Number of logits: one for a sigmoid that tells two classes apart.
    pub fn logits(&self) -> usize {
        self.logits
    }

    /// The path layers, from input to output; none when the model has no hidden activation
    /// function and no layer was named.
    pub fn layers(&self) -> &[PathLayer] {
        &self.layers
    }

    /// The convolutions and dense layers, from input to logits.
    pub fn sums(&self) -> &[PathLayer] {
        &self.sums
    }

    /// How many tokens it knows, where an input holds their numbers.
    pub fn tokens(&self) -> Option<usize> {
        self.tokens
    }

    /// Number of inputs that the graph takes at once: 1, unless another number was asked for or the
    /// model fixes one in a way that cannot be undone.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// The class that logits stand for; the first of several that are largest. Of numbers, the class of what they are.
    pub fn predict(&self, logits: &[f32]) -> usize {
        if self.ending == Ending::Sigmoid {
            return usize::from(logits.first().is_some_and(|&z| z > 0.0));
        }
        if let Some(numbers) = &self.numbers {
            return numbers.class(&widened(logits));
        }
        let smallest = self.ending == Ending::Smallest;
        let is_better = |z: f32, best: f32| if smallest { z < best } else { z > best };
        let mut best = 0;
        for (class, &z) in logits.iter().enumerate() {
            if is_better(z, logits[best]) {
                best = class;
            }
        }
        best
    }

    /// The logit of a class. Where a single one tells two classes apart, it speaks for the second
    /// and its negative for the first. Where the smallest score is chosen, it is the score's negative; of numbers, how far
    /// they deviate, 0 where they hardly do.
    pub fn logit(&self, logits: &[f32], class: usize) -> Option<f32> {
        if let Some(numbers) = &self.numbers {
            return Some(numbers.seed(&widened(logits)).unwrap_or(0.0) as f32);
        }
        match (self.ending, class) {
            (Ending::Smallest, class) => logits.get(class).map(|z| -z),
            (Ending::Sigmoid, 0) => logits.first().map(|z| -z),
            (Ending::Sigmoid, 1) => logits.first().copied(),
            _ => logits.get(class).copied(),
        }
    }
}

/// Numbers as doubles.
pub(crate) fn widened(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|&x| f64::from(x)).collect()
}
