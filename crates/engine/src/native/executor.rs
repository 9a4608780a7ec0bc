//! Running a plan on micro-batches.

use std::ops::Range;
use std::sync::Arc;

use npcov_cpu::FlushDenormals;
use npcov_graph::Graph;
use npcov_tap::Shown;

use crate::engine::{Buffers, Prepared, Worker};
use crate::error::EngineError;
use crate::native::kernel::Inputs;
use crate::native::options::Options;
use crate::native::pack::{LANES, Pack, numbers, pack, unpack};
use crate::native::plan::{Memory, Plan};

/// A graph, ready to run.
#[derive(Clone)]
pub struct Executor {
    plan: Arc<Plan>,
}

impl Executor {
    pub(crate) fn new(
        graph: &Graph,
        options: Options,
        kept: usize,
    ) -> Result<Executor, EngineError> {
        let _flush = FlushDenormals::new();
        Ok(Executor {
            plan: Arc::new(Plan::new(graph, options, kept)?),
        })
    }

    /// What each step of a run computes: operator and name of a node.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        self.plan.steps.iter().map(|step| step.name.as_str())
    }

    /// As [`Prepared::worker`].
    pub fn lane_worker(&self) -> Result<LaneWorker, EngineError> {
        let memory = Memory::new(&self.plan).ok_or_else(|| EngineError::Memory {
            bytes: self.worker_bytes(),
        })?;
        Ok(LaneWorker {
            memory,
            plan: self.plan.clone(),
        })
    }
}

impl Prepared for Executor {
    fn buffers(&self) -> &Buffers {
        &self.plan.buffers
    }

    fn worker_bytes(&self) -> usize {
        let packs = self.plan.memory.saturating_add(self.plan.scratch);
        packs.saturating_mul(size_of::<Pack>())
    }

    fn worker(&self) -> Result<Box<dyn Worker>, EngineError> {
        Ok(Box::new(self.lane_worker()?))
    }
}

/// An executor's working memory, with a lane for each set of inputs.
pub struct LaneWorker {
    plan: Arc<Plan>,
    memory: Memory,
}

impl Worker for LaneWorker {
    fn run(
        &mut self,
        count: usize,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        show: &mut dyn FnMut(usize, Shown<'_>),
    ) -> Result<(), EngineError> {
        self.run_steps(count, inputs, outputs, show, |_| {})
    }
}

impl LaneWorker {
    /// As [`Worker::run`], where nothing is shown; `done` is called after each of the
    /// [`Executor::steps`] with its number.
    pub fn run_timed(
        &mut self,
        count: usize,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        done: impl FnMut(usize),
    ) -> Result<(), EngineError> {
        self.run_steps(count, inputs, outputs, &mut |_, _| {}, done)
    }

    fn run_steps(
        &mut self,
        count: usize,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        show: &mut dyn FnMut(usize, Shown<'_>),
        mut done: impl FnMut(usize),
    ) -> Result<(), EngineError> {
        self.plan.buffers.check(count, inputs, outputs)?;
        let _flush = FlushDenormals::new();
        let mut shown = self.plan.shown.iter().peekable();
        let mut show_after = |steps: usize, values: &[Pack]| {
            while let Some(next) = shown.next_if(|next| next.after == steps) {
                let numbers = numbers(&values[next.place.range()]);
                show(next.number, Shown::new(numbers, count, LANES));
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::KEEP_ALL;
    use npcov_graph::op::{Binary, Reduce, ReduceKind, Unary};
    use npcov_graph::{DType, Op, Tensor, TensorType};

    /// Numbers that only denormals can tell apart are the same, on whatever thread they are computed.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[test]
    fn denormals_are_zeros() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 2]));
        let factor = graph.add_constant("tiny", Tensor::scalar(f32::from_bits(1)));
        let y = graph
            .push("y", Op::Binary(Binary::Mul), &[x, factor])
            .unwrap();
        let half = graph.add_constant("half", Tensor::scalar(0.5));
        let z = graph
            .push("z", Op::Binary(Binary::Mul), &[x, half])
            .unwrap();
        graph.set_outputs(vec![y, z]);
        let executor = Executor::new(&graph, Options::default(), KEEP_ALL).unwrap();
        let run = || {
            let (mut y, mut z) = ([1.0; 2], [1.0; 2]);
            let mut worker = executor.worker().unwrap();
            let input = [1e30, f32::MIN_POSITIVE];
            let outputs = &mut [&mut y[..], &mut z[..]];
            worker.run(1, &[&input], outputs, &mut |_, _| {}).unwrap();
            (y, z)
        };
        let expected = ([0.0; 2], [5e29, 0.0]);
        assert_eq!(run(), expected);
        let elsewhere = std::thread::scope(|scope| scope.spawn(run).join().unwrap());
        assert_eq!(elsewhere, expected);
        // The caller's own arithmetic is left as it was.
        assert!(std::hint::black_box(f32::MIN_POSITIVE) * 0.5 > 0.0);
    }

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

        let executor = Executor::new(&graph, Options::default(), KEEP_ALL).unwrap();
        let lens = executor.output_lens();
        let mut kept: Vec<Vec<f32>> = lens.iter().map(|len| vec![0.0; 5 * len]).collect();
        let mut outputs: Vec<&mut [f32]> = kept.iter_mut().map(Vec::as_mut_slice).collect();
        let mut worker = executor.worker().unwrap();
        let run = worker.run(5, &[&input], &mut outputs, &mut |_, _| unreachable!());
        run.unwrap();

        let executor = Executor::new(&graph, Options::default(), 1).unwrap();
        assert_eq!(executor.output_lens(), [1]);
        let mut output = [0.0; 5];
        let mut seen = Vec::new();
        let mut show = |number: usize, shown: Shown<'_>| {
            assert_eq!(shown.inputs(), 5);
            let per_input = lens[number + 1];
            for position in 0..shown.len() {
                for (lane, x) in shown.position(position).iter().enumerate() {
                    assert_eq!(
                        *x,
                        kept[number + 1][lane * per_input + position],
                        "{number}"
                    );
                }
            }
            seen.push((number, shown.len()));
        };
        let mut worker = executor.worker().unwrap();
        let run = worker.run(5, &[&input], &mut [&mut output], &mut show);
        run.unwrap();
        assert_eq!(output[..], kept[0]);
        assert_eq!(seen, [(1, 6), (2, 6), (0, 6), (3, 1)]);
    }
}
