//! What criteria know of the network.

use npcov_paths::{AnpcLayer, Choices};
use serde::{Deserialize, Serialize};

use crate::error::CriterionError;

/// The network whose coverage is measured, as far as criteria care.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkShape {
    /// The path layers, from input to output.
    pub layers: Vec<LayerShape>,
    /// The convolutions and dense layers, from input to logits.
    pub sums: Vec<LayerShape>,
    /// Which of them are recurrent: their elements are steps of a sequence, each of all neurons.
    pub recurrent: Vec<usize>,
    /// Number of classes.
    pub classes: usize,
    /// Number of logits: one where a single one tells two classes apart.
    pub logits: usize,
    /// The decision graph; `None` where nothing is measured against one.
    pub graph: Option<GraphShape>,
}

/// A path layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerShape {
    /// Its neurons: channels, or the units of dense layers.
    pub neurons: usize,
    /// Its elements: each position of a channel is one.
    pub units: usize,
}

/// The decision graph that paths are held against.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphShape {
    /// By class: clusters that were asked for, and clusters there are.
    pub classes: Vec<(usize, usize)>,
    /// How paths are measured.
    pub choices: Choices,
    /// The layers of ANPC and their bounds.
    pub anpc: Vec<AnpcLayer>,
}

impl GraphShape {
    /// Clusters of all classes that were asked for.
    pub fn planned(&self) -> usize {
        self.classes.iter().map(|class| class.0).sum()
    }

    /// Clusters of all classes.
    pub fn clusters(&self) -> usize {
        self.classes.iter().map(|class| class.1).sum()
    }
}

/// The most elements that layers may have together. Whatever is counted of so many is far from
/// overflowing, and no network has more.
const MOST_UNITS: usize = 1 << 27;

impl NetworkShape {
    /// Fails unless its parts fit together: records of files may say anything.
    pub(crate) fn check(&self) -> Result<(), CriterionError> {
        let wrong = |reason: &str| {
            Err(CriterionError::Network {
                reason: reason.to_owned(),
            })
        };
        let mut units: usize = 0;
        for layer in self.layers.iter().chain(&self.sums) {
            units = units.saturating_add(layer.units.max(layer.neurons));
        }
        if units > MOST_UNITS || self.logits > MOST_UNITS {
            return wrong("its layers are too large");
        }
        let Some(graph) = &self.graph else {
            return Ok(());
        };
        let known = |anpc: &AnpcLayer| anpc.layer < self.layers.len();
        if !graph.anpc.iter().all(known) {
            return wrong("ANPC names a layer that is not there");
        }
        let planned = graph.classes.iter().map(|class| class.0);
        let buckets = graph
            .choices
            .snpc_buckets
            .get()
            .max(graph.choices.anpc_buckets.get());
        let layers = self.layers.len().max(graph.anpc.len());
        let slots = planned
            .fold(0, usize::saturating_add)
            .saturating_mul(layers)
            .saturating_mul(usize::from(buckets) + 1);
        // Their numbers are kept in 32 bits.
        if slots > u32::MAX as usize || graph.classes.iter().any(|class| class.1 > class.0) {
            return wrong("its decision graph has too many buckets");
        }
        Ok(())
    }

    /// Neurons of all layers.
    pub fn neurons(&self) -> usize {
        self.layers.iter().map(|layer| layer.neurons).sum()
    }

    /// Where the neurons of a layer begin among those of all layers.
    pub fn first_neuron(&self, layer: usize) -> usize {
        self.layers[..layer].iter().map(|l| l.neurons).sum()
    }
}
