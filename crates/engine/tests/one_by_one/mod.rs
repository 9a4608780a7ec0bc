//! An engine that computes one set of inputs after the other.
//!
//! It takes a few sets at a time, a number that nothing else depends on, and shows values set by set. How
//! it computes is borrowed, so results must be the same bits.

use npcov_engine::native::Native;
use npcov_engine::{Buffers, Engine, EngineError, EngineRecord, Prepared, Shown, Worker};
use npcov_graph::Graph;

/// Sets that it takes at a time.
const TOGETHER: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct OneByOne {
    lender: Native,
}

impl Engine for OneByOne {
    fn name(&self) -> &'static str {
        "one-by-one"
    }

    fn record(&self) -> EngineRecord {
        EngineRecord {
            engine: self.name().to_owned(),
            together: TOGETHER,
            ..self.lender.record()
        }
    }

    fn prepare(&self, graph: &Graph, kept: usize) -> Result<Box<dyn Prepared>, EngineError> {
        Ok(Box::new(Each {
            buffers: Buffers::of(graph, kept, TOGETHER),
            lent: self.lender.prepare(graph, kept)?,
        }))
    }
}

struct Each {
    buffers: Buffers,
    lent: Box<dyn Prepared>,
}

impl Prepared for Each {
    fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    fn worker_bytes(&self) -> usize {
        self.lent.worker_bytes()
    }

    fn worker(&self) -> Result<Box<dyn Worker>, EngineError> {
        Ok(Box::new(EachWorker {
            buffers: self.buffers.clone(),
            lent: self.lent.worker()?,
        }))
    }
}

struct EachWorker {
    buffers: Buffers,
    lent: Box<dyn Worker>,
}

impl Worker for EachWorker {
    fn run(
        &mut self,
        count: usize,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        show: &mut dyn FnMut(usize, Shown<'_>),
    ) -> Result<(), EngineError> {
        self.buffers.check(count, inputs, outputs)?;
        for set in 0..count {
            let part = |len: usize| set * len..(set + 1) * len;
            let lens = &self.buffers.inputs;
            let inputs = inputs.iter().zip(lens);
            let inputs: Vec<&[f32]> = inputs.map(|(x, &len)| &x[part(len)]).collect();
            let lens = &self.buffers.outputs;
            let outputs = outputs.iter_mut().zip(lens);
            let mut outputs: Vec<&mut [f32]> = outputs.map(|(y, &len)| &mut y[part(len)]).collect();
            let mut one = |number: usize, shown: Shown<'_>| {
                let numbers: Vec<f32> = (0..shown.len()).map(|i| shown.position(i)[0]).collect();
                show(number, Shown::new(&numbers, 1, 1));
            };
            self.lent.run(1, &inputs, &mut outputs, &mut one)?;
        }
        Ok(())
    }
}
