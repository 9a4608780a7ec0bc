//! Runs npcov programs.

mod error;
mod executor;
mod fuse;
mod isa;
mod kernel;
mod math;
mod op;
mod pack;
mod plan;
mod tile;

pub use error::EngineError;
pub use executor::{Executor, Worker};
pub use isa::Isa;
pub use pack::LANES;
