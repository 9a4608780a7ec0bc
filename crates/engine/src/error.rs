//! Why a graph cannot be run.

use npcov_graph::OpError;

/// Why a graph cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The engine has no kernel for this use of an operator.
    #[error("node `{node}` ({op}): {source}")]
    Node {
        /// The node's name.
        node: String,
        /// Its operator.
        op: &'static str,
        /// The reason.
        source: OpError,
    },
    /// The working memory of one thread cannot be had.
    #[error("a thread needs {} MiB of working memory, which cannot be had", bytes >> 20)]
    Memory {
        /// Its size.
        bytes: usize,
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
