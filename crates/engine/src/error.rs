//! Why a graph cannot be run.

use npcov_graph::NodeError;

/// Why a graph cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Nodes that the engine has no kernel for: all of them, not only the first.
    #[error("{} of the model's nodes cannot be run:{}", .0.len(), list(.0))]
    Nodes(Vec<NodeError>),
    /// A tensor is too large for the engine.
    #[error("`{name}` has shape {shape}, more than the {limit} elements that are supported")]
    TooLarge {
        /// The value's name.
        name: String,
        /// Its shape.
        shape: String,
        /// The largest number of elements.
        limit: usize,
    },
    /// The working memory of one thread cannot be had.
    #[error("a thread needs {} MiB of working memory, which cannot be had", bytes >> 20)]
    Memory {
        /// Its size.
        bytes: usize,
    },
    /// An engine's own reason.
    #[error("the engine `{engine}` failed: {reason}")]
    Failed {
        /// Its name.
        engine: &'static str,
        /// Why.
        reason: String,
    },
    /// A caller's buffer does not fit the graph.
    #[error("{what} has {got} numbers, expected {expected}")]
    Buffer {
        /// Which buffer.
        what: String,
        /// Its length.
        got: usize,
        /// The length that fits.
        expected: usize,
    },
}

fn list(errors: &[NodeError]) -> String {
    errors.iter().map(|e| format!("\n  {e}")).collect()
}
