//! Running a plan on micro-batches.

use std::ops::Range;
use std::sync::Arc;

use npcov_graph::Graph;

use crate::error::EngineError;
use crate::isa::Isa;
use crate::kernel::Inputs;
use crate::options::Options;
use crate::pack::{LANES, Pack, pack, unpack};
use crate::plan::{Memory, Plan};

/// A graph, ready to run; shared by all workers.
#[derive(Clone)]
pub struct Executor {
    plan: Arc<Plan>,
}

impl Executor {
    /// Prepares a graph.
    pub fn new(graph: &Graph) -> Result<Executor, EngineError> {
        Executor::with_options(graph, Options::default())
    }

    /// Prepares a graph for an instruction set that [`Isa::available`] lists.
    pub fn with_isa(graph: &Graph, isa: Isa) -> Result<Executor, EngineError> {
        let options = Options {
            isa,
            ..Options::default()
        };
        Executor::with_options(graph, options)
    }

    /// Prepares a graph to be run in a certain way.
    pub fn with_options(graph: &Graph, options: Options) -> Result<Executor, EngineError> {
        Ok(Executor {
            plan: Arc::new(Plan::new(graph, options)?),
        })
    }

    /// Numbers in each input of the graph.
    pub fn input_lens(&self) -> impl Iterator<Item = usize> {
        self.plan.inputs.iter().map(|port| port.len)
    }

    /// Numbers in each output of the graph.
    pub fn output_lens(&self) -> impl Iterator<Item = usize> {
        self.plan.outputs.iter().map(|port| port.len)
    }

    /// What each step of a run computes: operator and name of a node.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        self.plan.steps.iter().map(|step| step.name.as_str())
    }

    /// Bytes that a [`Worker`] allocates.
    pub fn worker_bytes(&self) -> usize {
        let packs = self.plan.memory.saturating_add(self.plan.scratch);
        packs.saturating_mul(size_of::<Pack>())
    }

    /// Working memory for one thread.
    pub fn worker(&self) -> Result<Worker, EngineError> {
        let memory = Memory::new(&self.plan).ok_or_else(|| EngineError::Memory {
            bytes: self.worker_bytes(),
        })?;
        Ok(Worker {
            memory,
            plan: self.plan.clone(),
        })
    }
}

/// An executor's working memory: one for each thread.
pub struct Worker {
    plan: Arc<Plan>,
    memory: Memory,
}

impl Worker {
    /// Runs the graph on 1 to [`LANES`] sets of inputs.
    ///
    /// `inputs[i]` holds `count` values of the graph's input `i`, one after the other;
    /// `outputs[i]` takes as many of output `i`. Nothing is allocated.
    pub fn run(
        &mut self,
        count: usize,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
    ) -> Result<(), EngineError> {
        self.run_timed(count, inputs, outputs, |_| {})
    }

    /// As [`Worker::run`]; `done` is called after each of the [`Executor::steps`] with its number.
    pub fn run_timed(
        &mut self,
        count: usize,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        mut done: impl FnMut(usize),
    ) -> Result<(), EngineError> {
        self.check(count, inputs, outputs)?;
        let Memory { values, scratch } = &mut self.memory;
        for (place, samples) in self.plan.inputs.iter().zip(inputs) {
            pack(samples, place.len, &mut values[place.range()]);
        }
        for (number, step) in self.plan.steps.iter().enumerate() {
            let Range { start, end } = step.output.range();
            let (before, rest) = values.split_at_mut(start);
            let (output, after) = rest.split_at_mut(end - start);
            let inputs = Inputs {
                before,
                after: (after, end),
                at: &step.inputs,
            };
            let scratch = &mut scratch[..step.kernel.scratch()];
            step.kernel.run(&inputs, scratch, output);
            done(number);
        }
        for (place, samples) in self.plan.outputs.iter().zip(outputs) {
            unpack(&values[place.range()], place.len, samples);
        }
        Ok(())
    }

    fn check(
        &self,
        count: usize,
        inputs: &[&[f32]],
        outputs: &[&mut [f32]],
    ) -> Result<(), EngineError> {
        // Names are only made for errors: a run allocates nothing.
        let fits = |what: &dyn Fn() -> String, got, expected| match got == expected {
            true => Ok(()),
            false => Err(EngineError::Buffer {
                what: what(),
                got,
                expected,
            }),
        };
        let Plan {
            inputs: in_ports,
            outputs: out_ports,
            ..
        } = &*self.plan;
        fits(&|| "micro-batch".into(), count, count.clamp(1, LANES))?;
        fits(&|| "list of inputs".into(), inputs.len(), in_ports.len())?;
        fits(&|| "list of outputs".into(), outputs.len(), out_ports.len())?;
        for (i, (port, x)) in in_ports.iter().zip(inputs).enumerate() {
            fits(&|| format!("input {i}"), x.len(), count * port.len)?;
        }
        for (i, (port, y)) in out_ports.iter().zip(outputs).enumerate() {
            fits(&|| format!("output {i}"), y.len(), count * port.len)?;
        }
        Ok(())
    }
}
