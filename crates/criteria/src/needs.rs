//! What criteria need to be fitted and measured.

use npcov_tap::Tap;

use crate::shape::NetworkShape;

/// What a criterion needs. Whoever measures by it provides that, and nothing that nobody needs.
///
/// Predictions and logits are always there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Numbers of each input, which it finds in a [`Batch`](crate::Batch).
    pub taps: Vec<Tap>,
    /// Numbers that are too many to be kept for a batch, and are looked at once, by the thread that
    /// computes them: [`Watching`](crate::Watching).
    pub watched: Vec<Tap>,
    /// The places of inputs in the decision graph: paths have to be extracted.
    pub paths: bool,
    /// In those places, the distances to the nearest training inputs of each cluster.
    pub neighbours: bool,
    /// The activations of training inputs, also while it measures. To be fitted, every criterion may
    /// read them.
    pub training_traces: bool,
    /// Numbers of training inputs that it is fitted with, besides activations.
    pub training_taps: Vec<Tap>,
    /// The layer whose neurons' importance it is fitted with.
    pub importance: Option<usize>,
}

impl Needs {
    /// Some numbers of each input, and nothing else.
    pub fn taps(taps: impl IntoIterator<Item = Tap>) -> Needs {
        Needs {
            taps: taps.into_iter().collect(),
            ..Needs::default()
        }
    }

    /// The mean activations of all neurons, and nothing else.
    pub fn activations(network: &NetworkShape) -> Needs {
        Needs::taps((0..network.layers.len()).map(Tap::activation))
    }

    /// Whether every input is compared with training inputs one by one. That takes long beside
    /// extracting its activations, so only a sample of the training inputs is measured to hold suites
    /// against.
    pub fn compares(&self) -> bool {
        self.neighbours || self.training_traces
    }
}
