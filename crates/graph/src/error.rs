//! What can go wrong between a file and a graph.

use std::fmt;
use std::path::PathBuf;

/// Why one operator could not be used. The caller adds which node it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// The node is valid ONNX, but npcov does not support this form of it.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// The node contradicts the ONNX specification or the shapes around it.
    #[error("{0}")]
    Invalid(String),
}

impl OpError {
    /// A form that is valid but not supported.
    pub fn unsupported(message: impl Into<String>) -> Self {
        OpError::Unsupported(message.into())
    }

    /// A contradiction.
    pub fn invalid(message: impl Into<String>) -> Self {
        OpError::Invalid(message.into())
    }
}

/// A node of the model and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeError {
    /// The node's name, or that of its first output when it has none.
    pub node: String,
    /// The ONNX operator, with its domain when that is not the standard one.
    pub op_type: String,
    /// The reason.
    pub reason: NodeErrorKind,
}

/// The reason in a [`NodeError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeErrorKind {
    /// No operator of this name is known.
    UnknownOperator,
    /// Decision trees: they are no network.
    Trees,
    /// A support vector machine: no network either.
    SupportVectors,
    /// An operator that only ONNX Runtime has.
    OnlyOnnxRuntime,
    /// Boxes are chosen among others, or cut out: a detector.
    Boxes,
    /// The operator is known; this use of it is unsupported or invalid.
    Op(OpError),
}

impl fmt::Display for NodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeErrorKind::UnknownOperator => f.write_str("unsupported operator"),
            NodeErrorKind::Trees => f.write_str(
                "decision trees have neither neurons nor a gradient; npcov is for neural networks",
            ),
            NodeErrorKind::SupportVectors => f.write_str(
                "a support vector machine has no neurons; npcov is for neural networks",
            ),
            NodeErrorKind::OnlyOnnxRuntime => f.write_str(
                "an operator of ONNX Runtime alone, as its optimiser writes them: npcov takes the file of before",
            ),
            NodeErrorKind::Boxes => f.write_str(
                "boxes are chosen or cut out, as detectors do; npcov is about models that choose a class for an input",
            ),
            NodeErrorKind::Op(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "node `{}` ({}): {}",
            self.node, self.op_type, self.reason
        )
    }
}

fn list(errors: &[NodeError]) -> String {
    errors.iter().map(|e| format!("\n  {e}")).collect()
}

/// Why a model cannot be read, specialised or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// A file cannot be read or written.
    #[error("cannot access `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is not an ONNX model.
    #[error("`{}` is not an ONNX model: {reason}", path.display())]
    NotOnnx {
        /// The file.
        path: PathBuf,
        /// What the parser met.
        reason: String,
    },
    /// The model contradicts the ONNX specification outside of a single node.
    #[error("invalid model: {0}")]
    Invalid(String),
    /// A stored tensor is damaged, of an unsupported type, or outside of the model's folder.
    #[error("tensor `{name}`: {reason}")]
    Tensor {
        /// The tensor's name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// Nodes that cannot be used: all of them, not only the first.
    #[error("{} of the model's nodes cannot be used:{}", .0.len(), list(.0))]
    Nodes(Vec<NodeError>),
    /// An input has an axis without extent, and none was given.
    #[error("input `{input}` has shape `{shape}`: the extent of axis {axis} must be given")]
    OpenAxis {
        /// The input's name.
        input: String,
        /// Its shape as declared.
        shape: String,
        /// The axis without extent.
        axis: usize,
    },
    /// A given input shape does not fit the declared one.
    #[error("input `{input}` is declared as `{declared}`, not `{given}`")]
    InputShape {
        /// The input's name.
        input: String,
        /// Its shape as declared.
        declared: String,
        /// The shape that was given.
        given: String,
    },
}
