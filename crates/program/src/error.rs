//! Why a program cannot be made.

use npcov_graph::{NodeError, OpError};

/// Why a program cannot be made from a graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// A selector names no layer of the model.
    #[error("no layer matches `{selector}`; {}", list(.layers))]
    NoSuchLayer {
        /// The selector as it was written.
        selector: String,
        /// The names of the layers there are.
        layers: Vec<String>,
    },
    /// The model has no activation function between input and logits, and no layer was named.
    #[error("the model has no hidden activation function, so it has no path layers")]
    NoLayers,
    /// The only token that is to count is one that no layer has.
    #[error("there is no token {token}: the path layers have {tokens} tokens")]
    NoSuchToken {
        /// The token asked for, counted from 0.
        token: usize,
        /// The most that a layer has; 0 where none has tokens.
        tokens: usize,
    },
    /// A tap names a layer that does not exist.
    #[error("a tap names path layer {layer}, of {layers}")]
    Tap {
        /// The layer asked for.
        layer: usize,
        /// How many there are.
        layers: usize,
    },
    /// A loss names a layer that does not exist.
    #[error("a loss names path layer {layer}, of {layers}")]
    LossLayer {
        /// The layer asked for.
        layer: usize,
        /// How many there are.
        layers: usize,
    },
    /// What is said of a network, or asked of its graph, is not there.
    #[error("{0}")]
    Misfit(String),
    /// Some nodes have no rule by which relevance passes through them.
    #[error("relevance cannot pass through{}", nodes(.0))]
    NotExplained(Vec<NodeError>),
    /// Some nodes have no gradient.
    #[error("gradients cannot pass through{}", nodes(.0))]
    NotDifferentiated(Vec<NodeError>),
    /// Rules are given for nodes that the model does not have.
    #[error("no node or operator of the model is called {}", quoted(.0))]
    NoSuchNode(Vec<String>),
    /// The class to explain is none of the model's.
    #[error("class {class}, but the model has {classes} classes (0 to {})", .classes.saturating_sub(1))]
    Class {
        /// The class asked for.
        class: usize,
        /// Number of classes.
        classes: usize,
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
    let shown = shown.join(", ");
    match more {
        0 if names.is_empty() => "the model has no path layers".to_owned(),
        0 => format!("the path layers are {shown}"),
        more => format!("the path layers are {shown} and {more} more"),
    }
}

/// One node a line; with many, the first ones.
fn nodes(errors: &[NodeError]) -> String {
    let mut text: String = errors
        .iter()
        .take(20)
        .map(|error| format!("\n  {error}"))
        .collect();
    if let Some(more) = errors.len().checked_sub(20).filter(|&more| more > 0) {
        text.push_str(&format!("\n  and {more} more"));
    }
    text
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    names.join(", ")
}
