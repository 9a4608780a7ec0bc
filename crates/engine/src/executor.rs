//! Running a plan on micro-batches.

use std::ops::Range;
use std::sync::Arc;

use npcov_cpu::Isa;
use npcov_graph::Graph;

use crate::error::EngineError;
use crate::kernel::Inputs;
use crate::options::Options;
use crate::pack::{LANES, Pack, numbers, pack, unpack};
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

    /// Prepares a graph for an instruction set.
    pub fn with_isa(graph: &Graph, isa: Isa) -> Result<Executor, EngineError> {
        let options = Options {
            isa,
            ..Options::default()
        };
        Executor::with_options(graph, options)
    }

    /// Prepares a graph to be run in a certain way.
    pub fn with_options(graph: &Graph, options: Options) -> Result<Executor, EngineError> {
        Executor::showing(graph, options, graph.outputs().len())
    }

    /// Prepares a graph whose first `kept` outputs are results. The others are *shown* in the course of
    /// a run ([`Worker::run_showing`]), and have no place of their own in memory.
    pub fn showing(graph: &Graph, options: Options, kept: usize) -> Result<Executor, EngineError> {
        Ok(Executor {
            plan: Arc::new(Plan::new(graph, options, kept)?),
        })
    }

    /// Numbers in each input of the graph.
    pub fn input_lens(&self) -> impl Iterator<Item = usize> {
        self.plan.inputs.iter().map(|port| port.len)
    }

    /// Numbers in each output of the graph, but for those that are shown.
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

    /// As [`Worker::run`]; `show` is called with each value that is shown, as soon as it is there: its
    /// number among those, and its elements as they lie in memory, [`LANES`] numbers each. The first
    /// `count` of those belong to the inputs, and what the others are is not said.
    pub fn run_showing(
        &mut self,
        count: usize,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        show: impl FnMut(usize, &[f32]),
    ) -> Result<(), EngineError> {
        self.run_steps(count, inputs, outputs, show, |_| {})
    }

    /// As [`Worker::run`]; `done` is called after each of the [`Executor::steps`] with its number.
    pub fn run_timed(
        &mut self,
        count: usize,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        done: impl FnMut(usize),
    ) -> Result<(), EngineError> {
        self.run_steps(count, inputs, outputs, |_, _| {}, done)
    }

    fn run_steps(
        &mut self,
        count: usize,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        mut show: impl FnMut(usize, &[f32]),
        mut done: impl FnMut(usize),
    ) -> Result<(), EngineError> {
        self.check(count, inputs, outputs)?;
        let mut shown = self.plan.shown.iter().peekable();
        let mut show_after = |steps: usize, values: &[Pack]| {
            while let Some(next) = shown.next_if(|next| next.after == steps) {
                show(next.number, numbers(&values[next.place.range()]));
            }
        };
        let Memory { values, scratch } = &mut self.memory;
        for (place, samples) in self.plan.inputs.iter().zip(inputs) {
            pack(samples, place.len, &mut values[place.range()]);
        }
        show_after(0, values);
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
            show_after(number + 1, values);
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

#[cfg(test)]
mod tests {
    use super::*;
    use npcov_graph::op::{Reduce, ReduceKind, Unary};
    use npcov_graph::{DType, Op, TensorType};

    /// What is shown is what would have been an output, lane by lane.
    #[test]
    fn shown_values_are_those_of_outputs() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 3, 2]));
        let a = graph.push("a", Op::Unary(Unary::Relu), &[x]).unwrap();
        let b = graph.push("b", Op::Unary(Unary::Neg), &[a]).unwrap();
        let sum = Op::Reduce(Reduce {
            kind: ReduceKind::Sum,
            axes: vec![1, 2],
            keep_dims: false,
        });
        let y = graph.push("y", sum, &[b]).unwrap();
        graph.set_outputs(vec![y, b, x, a, y]);
        let input: Vec<f32> = (0..5 * 6).map(|i| (i * 7 % 11) as f32 - 5.0).collect();

        let executor = Executor::new(&graph).unwrap();
        let lens: Vec<usize> = executor.output_lens().collect();
        let mut kept: Vec<Vec<f32>> = lens.iter().map(|len| vec![0.0; 5 * len]).collect();
        let mut outputs: Vec<&mut [f32]> = kept.iter_mut().map(Vec::as_mut_slice).collect();
        let mut worker = executor.worker().unwrap();
        worker.run(5, &[&input], &mut outputs).unwrap();

        let executor = Executor::showing(&graph, Options::default(), 1).unwrap();
        assert_eq!(executor.output_lens().collect::<Vec<_>>(), [1]);
        let mut output = [0.0; 5];
        let mut shown = Vec::new();
        let show = |number: usize, numbers: &[f32]| {
            for (i, pack) in numbers.chunks_exact(LANES).enumerate() {
                for (lane, x) in pack[..5].iter().enumerate() {
                    let per_input = lens[number + 1];
                    assert_eq!(*x, kept[number + 1][lane * per_input + i], "{number}");
                }
            }
            shown.push((number, numbers.len()));
        };
        let mut worker = executor.worker().unwrap();
        let result = worker.run_showing(5, &[&input], &mut [&mut output], show);
        result.unwrap();
        assert_eq!(output[..], kept[0]);
        let packs = [(1, 6), (2, 6), (0, 6), (3, 1)];
        assert_eq!(shown, packs.map(|(number, packs)| (number, packs * LANES)));
    }
}
