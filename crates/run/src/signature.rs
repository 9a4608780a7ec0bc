//! What a network takes and gives: all that is known of it without its graph.
//!
//! Programs carry a signature, not the network they were made from. So whoever made all programs
//! they need can let go of the network, and with it of a second copy of its weights.

use npcov_graph::Ending;
use npcov_program::PathLayer;

/// The shape of a network's inputs, its classes and its path layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    pub(crate) sample_shape: Vec<usize>,
    pub(crate) ending: Ending,
    pub(crate) classes: usize,
    pub(crate) logits: usize,
    pub(crate) layers: Vec<PathLayer>,
    pub(crate) sums: Vec<PathLayer>,
    pub(crate) batch: usize,
    pub(crate) tokens: Option<usize>,
}

impl Signature {
    /// Shape of one input, without the batch axis.
    pub fn sample_shape(&self) -> &[usize] {
        &self.sample_shape
    }

    /// What comes after the logits.
    pub fn ending(&self) -> Ending {
        self.ending
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

    /// The class that logits stand for; the first of several that are largest.
    pub fn predict(&self, logits: &[f32]) -> usize {
        if self.ending == Ending::Sigmoid {
            return usize::from(logits.first().is_some_and(|&z| z > 0.0));
        }
        let mut best = 0;
        for (class, &z) in logits.iter().enumerate() {
            if z > logits[best] {
                best = class;
            }
        }
        best
    }

    /// The logit of a class. Where a single one tells two classes apart, it speaks for the second
    /// and its negative for the first.
    pub fn logit(&self, logits: &[f32], class: usize) -> Option<f32> {
        match (self.ending, class) {
            (Ending::Sigmoid, 0) => logits.first().map(|z| -z),
            (Ending::Sigmoid, 1) => logits.first().copied(),
            _ => logits.get(class).copied(),
        }
    }
}
