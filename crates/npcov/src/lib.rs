//! Coverage for neural networks.

mod error;
mod network;
mod tracer;

pub use error::Error;
pub use network::{Network, NetworkOptions};
pub use tracer::{Batch, Tracer};

pub use npcov_data as data;
pub use npcov_engine as engine;
pub use npcov_graph as graph;
pub use npcov_program as program;
