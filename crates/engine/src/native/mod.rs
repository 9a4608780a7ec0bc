//! npcov's own engine: many inputs in lockstep, in pure Rust.
//!
//! A graph is made for one set of inputs, and this engine runs it for several at once: a tensor element
//! is a *pack* of numbers, one for each set, which fill a cache line. Kernels are written as if for a
//! single input and vectorise for any shape. Lanes never mix, and every lane performs the same operations
//! in the same order; so the result for an input is the same bits wherever it stands in a batch and
//! whatever stands beside it, and results do not depend on the number of threads, which share nothing
//! but the plan. Convolutions and dense layers are sums of products in one fixed order, and no kernel
//! depends on the width of vectors: CPUs with the same [arithmetic](npcov_cpu::Arithmetic) agree with
//! each other.
//!
//! An [`Executor`] is a graph with kernels prepared, neighbouring nodes fused and every buffer planned. A
//! run allocates nothing.

mod arena;
mod executor;
mod fuse;
mod kernel;
mod lines;
mod math;
mod op;
mod options;
mod pack;
mod panel;
mod pick;
mod plan;
mod plane;
mod rows;
mod schedule;
mod slide;
mod sparse;
mod spots;
mod tile;
mod turn;
mod vector;
mod winograd;

pub use executor::{Executor, LaneWorker};
pub use options::{Kernels, Options};

use std::sync::Arc;

use npcov_graph::Graph;

use crate::engine::{Engine, EngineRecord, Prepared};
use crate::error::EngineError;
use pack::LANES;

/// npcov's own engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Native {
    options: Options,
}

impl Native {
    /// One that computes in a certain way.
    pub fn new(options: Options) -> Native {
        Native { options }
    }

    /// As [`Engine::prepare`], for those who look inside: at the time that each step takes.
    pub fn executor(&self, graph: &Graph, kept: usize) -> Result<Executor, EngineError> {
        Executor::new(graph, self.options, kept)
    }
}

impl Engine for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn record(&self) -> EngineRecord {
        let Options { isa, kernels, .. } = self.options;
        EngineRecord {
            engine: self.name().to_owned(),
            arithmetic: isa.arithmetic().name().to_owned(),
            kernels: kernels.name().to_owned(),
            cpu: isa.name().to_owned(),
            together: LANES,
        }
    }

    fn with_kernels(&self, name: &str) -> Option<Arc<dyn Engine>> {
        let options = Options {
            kernels: name.parse().ok()?,
            ..self.options
        };
        Some(Arc::new(Native::new(options)))
    }

    fn prepare(&self, graph: &Graph, kept: usize) -> Result<Box<dyn Prepared>, EngineError> {
        Ok(Box::new(self.executor(graph, kept)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_what_was_asked_for() {
        for isa in npcov_cpu::Isa::available() {
            for kernels in [Kernels::Direct, Kernels::Winograd] {
                let options = Options {
                    isa,
                    kernels,
                    ..Options::default()
                };
                let record = Native::new(options).record();
                assert_eq!((&*record.engine, &*record.cpu), ("native", isa.name()));
                assert_eq!(record.kernels, kernels.name());
                assert_eq!(record.arithmetic, isa.arithmetic().name());
            }
        }
    }
}
