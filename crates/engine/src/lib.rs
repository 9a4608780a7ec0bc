//! Runs npcov's graphs: sixteen inputs in lockstep, in pure Rust.
//!
//! An [`Executor`] is a graph made ready to run: kernels prepared, neighbouring nodes fused, every
//! buffer planned. Each thread has a [`Worker`] of it, which takes up to [`LANES`] sets of inputs at
//! a time and allocates nothing.
//!
//! ```
//! use npcov_engine::Executor;
//! use npcov_graph::{DType, Graph, Op, TensorType, op::Unary};
//!
//! let mut graph = Graph::new();
//! let x = graph.add_input("x", TensorType::new(DType::F32, [1, 2]));
//! let y = graph.push("relu", Op::Unary(Unary::Relu), &[x])?;
//! graph.set_outputs(vec![y]);
//!
//! let executor = Executor::new(&graph)?;
//! let mut worker = executor.worker()?;
//! let mut output = [0.0; 6];
//! // Three inputs of two numbers each.
//! worker.run(3, &[&[1.0, -1.0, -2.0, 2.0, 3.0, -3.0]], &mut [&mut output])?;
//! assert_eq!(output, [1.0, 0.0, 0.0, 2.0, 3.0, 0.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Lanes
//!
//! A graph is made for one input, and the engine runs it for sixteen at once: a tensor element is a
//! *pack* of sixteen numbers, one for each input, which fill a cache line. Kernels are written as if
//! for a single input and vectorise for any shape. Lanes never mix, and every lane performs the same
//! operations in the same order; so the result for an input is the same bits wherever it stands in a
//! batch and whatever stands beside it, and results do not depend on the number of threads, which
//! share nothing but the plan. Convolutions and dense layers are sums of fused multiply-adds in one
//! fixed order, and no kernel depends on the width of vectors: CPUs with FMA agree with each other.
//!
//! All numbers are `f32` at run time, indices and truth values too; whole numbers are exact up to
//! 2^24.
//!
//! # Relation to the other crates
//!
//! Graphs come from `npcov-graph` or, with more outputs, from `npcov-program`. What outputs mean is
//! not known here.

mod arena;
mod error;
mod executor;
mod fuse;
mod kernel;
mod math;
mod op;
mod options;
mod pack;
mod plan;
mod schedule;
mod sparse;
mod tile;
mod vector;
mod winograd;

pub use error::EngineError;
pub use executor::{Executor, Worker};
pub use npcov_cpu::Isa;
pub use options::{Kernels, Options};
pub use pack::LANES;
