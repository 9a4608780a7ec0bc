//! Runs npcov's graphs.
//!
//! An [`Engine`] makes a graph ready to run, and each thread has a [`Worker`] that takes several sets of
//! inputs at a time. Callers know engines by these traits alone: neither how many inputs one computes
//! together nor how they lie in its memory is theirs to know.
//!
//! ```
//! use npcov_engine::native::Native;
//! use npcov_engine::{Engine, KEEP_ALL};
//! use npcov_graph::{DType, Graph, Op, TensorType, op::Unary};
//!
//! let mut graph = Graph::new();
//! let x = graph.add_input("x", TensorType::new(DType::F32, [1, 2]));
//! let y = graph.push("relu", Op::Unary(Unary::Relu), &[x])?;
//! graph.set_outputs(vec![y]);
//!
//! let engine: &dyn Engine = &Native::default();
//! let prepared = engine.prepare(&graph, KEEP_ALL)?;
//! let mut worker = prepared.worker()?;
//! let mut output = [0.0; 6];
//! // Three inputs of two numbers each.
//! let inputs = [1.0, -1.0, -2.0, 2.0, 3.0, -3.0];
//! worker.run(3, &[&inputs], &mut [&mut output], &mut |_, _| {})?;
//! assert_eq!(output, [1.0, 0.0, 0.0, 2.0, 3.0, 0.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All numbers are `f32` at run time, indices and truth values too; whole numbers are exact up to 2^24.
//!
//! [`native`] is npcov's own engine, in pure Rust.
//!
//! # Relation to the other crates
//!
//! Graphs come from `npcov-graph` or, with more outputs, from `npcov-program`. What outputs mean is
//! not known here. What is shown while a graph runs is handed on as `npcov-tap` has it, and `npcov-cpu`
//! knows the instructions of the machine.

// Whoever adds an operator is told of every place that has to decide about it.
#![warn(clippy::wildcard_enum_match_arm)]

mod engine;
mod error;
pub mod native;

pub use engine::{Buffers, Engine, EngineRecord, KEEP_ALL, Prepared, Worker, zeros};
pub use error::EngineError;
pub use npcov_tap::Shown;
