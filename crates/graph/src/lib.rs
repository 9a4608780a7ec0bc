//! ONNX models as typed, static-shape graphs.

mod builder;
mod error;
mod graph;
mod onnx;
pub mod op;
mod tensor;

pub use error::{GraphError, NodeError, NodeErrorKind, OpError};
pub use graph::{Graph, Node, Value, ValueId};
pub use onnx::export::EXPORT_OPSET;
pub use op::Op;
pub use tensor::{DType, Data, ShapeDisplay, Tensor, TensorType, strides};
