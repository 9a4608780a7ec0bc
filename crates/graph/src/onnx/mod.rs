//! The ONNX file format.

pub(crate) mod attributes;
pub(crate) mod export;
pub(crate) mod proto;
pub(crate) mod tensor;
