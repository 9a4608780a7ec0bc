//! Why ONNX Runtime cannot be used.

/// Why ONNX Runtime cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnnxRuntimeError {
    /// Its library is nowhere.
    #[error(
        "the library of ONNX Runtime is not found; looked at {}. `pip install onnxruntime` brings it, and `ORT_DYLIB_PATH` names its file",
        .0.join(", ")
    )]
    NotFound(Vec<String>),
    /// What was found cannot be loaded.
    #[error("ONNX Runtime cannot be loaded: {0}")]
    Load(String),
    /// Another library is loaded already, and a process has only one.
    #[error(
        "ONNX Runtime is loaded from `{loaded}` already, and cannot be loaded from `{wanted}` as well"
    )]
    AnotherLibrary {
        /// The one that is loaded.
        loaded: String,
        /// The one that was asked for.
        wanted: String,
    },
    /// It loads, and then refuses.
    #[error("ONNX Runtime: {0}")]
    Refused(String),
}
