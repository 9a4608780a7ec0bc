//! ONNX models as typed, static-shape graphs.
//!
//! A [`OnnxModel`] is what the file says: shapes may be open, operators unknown. A [`Graph`] is what
//! can be computed: for one batch size, with every shape known, everything that does not depend on
//! the input folded into constants, and [canonical operators](op) that mean the same whatever
//! opset or exporter they came from. [`OnnxModel::specialise`] leads from one to the other, and
//! [`Graph::to_onnx`] back to a file that any runtime loads.
//!
//! ```
//! use npcov_graph::{DType, Graph, OnnxModel, Op, Specialisation, TensorType, op::Unary};
//!
//! // A graph can be built by hand...
//! let mut graph = Graph::new();
//! let x = graph.add_input("x", TensorType::new(DType::F32, [1, 3]));
//! let y = graph.push("relu", Op::Unary(Unary::Relu), &[x])?;
//! graph.set_outputs(vec![y]);
//!
//! // ...written as ONNX, and read again.
//! let model = OnnxModel::from_bytes(graph.to_onnx()?)?;
//! assert_eq!(model.inputs()[0].shape(), "1x3");
//! let graph = model.specialise(&Specialisation::default())?;
//! assert_eq!(graph.nodes()[0].op.name(), "Relu");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Classifier::find`] says where a model's logits are, [`OnnxModel::digest`] which model it is.
//!
//! This crate depends on no other of npcov. What is *computed from* a model (traces, relevances) is
//! made by `npcov-program` as a graph that contains the model's; `npcov-engine` runs either.

// Whoever adds an operator is told of every place that has to decide about it.
#![warn(clippy::wildcard_enum_match_arm)]

mod activation;
mod builder;
mod classifier;
mod digest;
mod error;
mod fold;
mod graph;
mod import;
mod model;
mod normalisation;
mod onnx;
pub mod op;
mod order;
mod purpose;
mod rewrite;
mod tensor;

pub use classifier::{Classifier, Ending};
pub use error::{GraphError, NodeError, NodeErrorKind, OpError};
pub use fold::fold_batch_norm;
pub use graph::{Graph, Node, Value, ValueId};
pub use import::{LARGEST_INPUT, Specialisation};
pub use model::{Declaration, Dim, OnnxModel};
pub use onnx::export::EXPORT_OPSET;
pub use op::Op;
pub use purpose::Purpose;
pub use rewrite::Rewriter;
pub use tensor::{DType, Data, ShapeDisplay, Tensor, TensorType, strides};
