//! Why a program cannot be made.

use npcov_graph::OpError;

/// Why a program cannot be made from a graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// A selector names no layer of the model.
    #[error("no layer matches `{selector}`; the path layers are {}", list(.layers))]
    NoSuchLayer {
        /// The selector as it was written.
        selector: String,
        /// The names of the layers there are.
        layers: Vec<String>,
    },
    /// The model has no activation function between input and logits, and no layer was named.
    #[error("the model has no hidden activation function: name its path layers")]
    NoLayers,
    /// A tap names a layer that does not exist.
    #[error("a tap names path layer {layer}, of {layers}")]
    Tap {
        /// The layer asked for.
        layer: usize,
        /// How many there are.
        layers: usize,
    },
    /// An operator does not fit where the program puts it.
    #[error("layer `{layer}`: {source}")]
    Op {
        /// The layer in question.
        layer: String,
        /// What is wrong.
        source: OpError,
    },
}

fn list(names: &[String]) -> String {
    let shown: Vec<String> = names
        .iter()
        .enumerate()
        .take(20)
        .map(|(i, name)| format!("{i} `{name}`"))
        .collect();
    let more = names.len().saturating_sub(shown.len());
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
