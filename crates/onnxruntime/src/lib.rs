//! An engine that runs npcov's graphs in ONNX Runtime: on GPUs, with operators that `native` lacks, or as an
//! independent check.
//!
//! Graphs are lowered to plain operators and handed over as ONNX, as `npcov compile` writes them. ONNX Runtime is
//! no part of npcov: its library is [looked for](Library) when the engine is made, and nothing else needs it.
//!
//! ```no_run
//! use npcov_engine::Engine;
//! use npcov_onnxruntime::{OnnxRuntime, Provider};
//!
//! let engine = OnnxRuntime::new(Provider::Cpu, None)?;
//! println!("{:?}", engine.record());
//! # Ok::<(), npcov_onnxruntime::OnnxRuntimeError>(())
//! ```
//!
//! What comes out for an input must not depend on its neighbours, and ONNX Runtime chooses its code by the shape of a
//! batch: so sets of inputs are run one at a time. Each thread has a session of its own with one thread, as the authors
//! of `ort` advise.

mod engine;
mod error;
mod library;
mod provider;

pub use engine::OnnxRuntime;
pub use error::OnnxRuntimeError;
pub use library::Library;
pub use provider::Provider;
