//! What programs have in common.

use npcov_graph::{Classifier, Graph};
use npcov_tap::Tap;

use crate::layers::PathLayer;

/// What programs are made from: a network's graph, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct NetworkView<'a> {
    /// The model's graph.
    pub graph: &'a Graph,
    /// Where its logits are.
    pub classifier: &'a Classifier,
    /// Its path layers.
    pub layers: &'a [PathLayer],
    /// The number of inputs that the graph takes at once, on the first axis.
    pub batch: usize,
}

/// A graph made from a model, and what its outputs are.
#[derive(Clone, Debug)]
pub struct Program {
    /// The graph.
    pub graph: Graph,
    /// What each output of the graph is; every output has a row for each input.
    pub outputs: Vec<Output>,
}

/// What an output of a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The logits.
    Logits,
    /// A tap.
    Tap(Tap),
    /// The relevances of a path layer's neurons.
    Relevance(usize),
    /// The importances of a path layer's neurons.
    Importance(usize),
    /// The input's relevance, of its shape.
    InputRelevance,
    /// The value of a loss.
    Loss,
    /// The gradient of a loss with respect to the input, of its shape.
    InputGradient,
}

impl Output {
    /// The name that the output has in files.
    pub fn name(&self) -> String {
        match self {
            Output::Logits => "logits".to_owned(),
            Output::Tap(tap) if *tap == Tap::activation(tap.layer) => {
                format!("activation.{}", tap.layer)
            }
            Output::Tap(tap) => format!("tap.{}.{}", tap.layer, tap.name()),
            Output::Relevance(layer) => format!("relevance.{layer}"),
            Output::Importance(layer) => format!("importance.{layer}"),
            Output::InputRelevance => "relevance.input".to_owned(),
            Output::Loss => "loss".to_owned(),
            Output::InputGradient => "gradient.input".to_owned(),
        }
    }
}

impl Program {
    /// The position of an output.
    pub fn position(&self, output: Output) -> Option<usize> {
        self.outputs.iter().position(|o| *o == output)
    }

    /// The names of the outputs in files.
    pub fn output_names(&self) -> Vec<String> {
        self.outputs.iter().map(Output::name).collect()
    }
}
