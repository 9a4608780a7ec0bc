//! Coverage for neural networks.

mod error;
mod inspect;
mod network;
mod predict;
mod trace_file;
mod tracer;

pub use error::Error;
pub use inspect::{
    Batching, EndingKind, Extent, Inspection, LayerInfo, Port, Unsupported, inspect,
};
pub use network::{Network, NetworkOptions};
pub use predict::{ClassResult, Predictions, predict};
pub use trace_file::TraceFile;
pub use tracer::{Batch, Tracer};

pub use npcov_data as data;
pub use npcov_engine as engine;
pub use npcov_graph as graph;
pub use npcov_program as program;
