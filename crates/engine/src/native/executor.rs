//! Running a plan on micro-batches.

use std::sync::Arc;

use npcov_cpu::FlushDenormals;
use npcov_graph::Graph;
use npcov_tap::Shown;

use crate::engine::{Buffers, Prepared, Worker};
use crate::error::EngineError;
use crate::native::kernel::Inputs;
use crate::native::options::Options;
use crate::native::pack::{LANES, Pack, numbers, numbers_mut, pack, unpack};
use crate::native::plan::{Memory, Plan, Room};

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
    pub fn lane_worker(&self) -> LaneWorker {
        LaneWorker {
            lanes: None,
            alone: Room::default(),
            plan: self.plan.clone(),
        }
    }
}

impl Prepared for Executor {
    fn buffers(&self) -> &Buffers {
        &self.plan.buffers
    }

    fn worker_bytes(&self) -> usize {
        match self.plan.one_by_one {
            true => self.plan.alone_bytes(self.plan.abreast),
            false => self.plan.lanes_bytes(),
        }
    }

    fn least(&self) -> usize {
        if self.plan.one_by_one { 1 } else { LANES }
    }

    fn worker(&self) -> Result<Box<dyn Worker>, EngineError> {
        Ok(Box::new(self.lane_worker()))
    }
}

/// Inputs up to which each is computed by itself: sixteen together take as long as so many.
const FEW: usize = 8;

/// An executor's working memory: a lane for each set of inputs, or room for a few sets, each by itself. Each is
/// there from when it is first needed.
pub struct LaneWorker {
    plan: Arc<Plan>,
    lanes: Option<Memory>,
    alone: Room,
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
    /// [`Executor::steps`] with its number, as often as it is run for some of the inputs.
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
        if count > FEW && !self.plan.one_by_one {
            return self.run_lanes(count, inputs, outputs, show, done);
        }
        let plan = self.plan.clone();
        let lens = &plan.buffers;
        let set = |i: usize, len: usize| i * len..(i + 1) * len;
        for first in (0..count).step_by(plan.abreast) {
            let abreast = plan.abreast.min(count - first);
            let made = plan.make_room(&mut self.alone, abreast);
            let bytes = plan.alone_bytes(abreast);
            made.ok_or(EngineError::Memory { bytes })?;
            let Room { values, scratch } = &mut self.alone;
            let values = &mut values[..abreast];
            for (i, values) in (first..).zip(&mut *values) {
                let values = numbers_mut(values);
                for ((place, all), &len) in plan.inputs.iter().zip(inputs).zip(&lens.inputs) {
                    values[place.range()].copy_from_slice(&all[set(i, len)]);
                }
            }
            run_alone(&plan, (values, scratch), show, &mut done);
            for (i, values) in (first..).zip(&*values) {
                let values = numbers(values);
                let places = plan.outputs.iter().zip(&mut *outputs);
                for ((place, all), &len) in places.zip(&lens.outputs) {
                    all[set(i, len)].copy_from_slice(&values[place.range()]);
                }
            }
        }
        Ok(())
    }

    fn run_lanes(
        &mut self,
        count: usize,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        show: &mut dyn FnMut(usize, Shown<'_>),
        mut done: impl FnMut(usize),
    ) -> Result<(), EngineError> {
        let plan = &*self.plan;
        let memory = room(&mut self.lanes, || plan.lanes(), plan.lanes_bytes())?;
        let Memory { values, scratch } = memory;
        let mut show_after = |steps: usize, values: &[Pack]| {
            for next in plan.shown_after(steps) {
                let numbers = numbers(&values[next.place.range()]);
                show(next.number, Shown::new(numbers, count, LANES));
            }
        };
        for (place, samples) in plan.inputs.iter().zip(inputs) {
            pack(samples, place.len, &mut values[place.range()]);
        }
        show_after(0, values);
        for (number, step) in plan.steps.iter().enumerate() {
            let (inputs, output) = Inputs::split(values, &step.inputs, step.output);
            let scratch = &mut scratch[..step.kernel.scratch()];
            step.kernel.run(&inputs, scratch, output);
            show_after(number + 1, values);
            done(number);
        }
        for (place, samples) in plan.outputs.iter().zip(outputs) {
            unpack(&values[place.range()], place.len, samples);
        }
        Ok(())
    }
}

/// The steps of a plan for the inputs that are in memory, each by itself or abreast. What is shown is
/// shown of one input after the other.
fn run_alone(
    plan: &Plan,
    (inputs, scratch): (&mut [Vec<Pack>], &mut [Pack]),
    show: &mut dyn FnMut(usize, Shown<'_>),
    done: &mut impl FnMut(usize),
) {
    let mut show_after = |steps: usize, values: &[Pack]| {
        for next in plan.shown_after(steps) {
            let numbers = &numbers(values)[next.place.range()];
            show(next.number, Shown::new(numbers, 1, 1));
        }
    };
    for values in &*inputs {
        show_after(0, values);
    }
    for stretch in &plan.stretches {
        let first = &plan.steps[stretch.start];
        if let Some(kernel) = first.abreast().filter(|_| inputs.len() > 1) {
            first.run_abreast(kernel, inputs, scratch);
            for values in &*inputs {
                show_after(stretch.end, values);
            }
            done(stretch.start);
            continue;
        }
        for values in &mut *inputs {
            for number in stretch.clone() {
                plan.steps[number].run_alone(numbers_mut(values), scratch);
                show_after(number + 1, values);
                done(number);
            }
        }
    }
}

/// Memory that is made when it is first needed.
fn room(
    memory: &mut Option<Memory>,
    make: impl FnOnce() -> Option<Memory>,
    bytes: usize,
) -> Result<&mut Memory, EngineError> {
    if memory.is_none() {
        *memory = Some(make().ok_or(EngineError::Memory { bytes })?);
    }
    memory.as_mut().ok_or(EngineError::Memory { bytes })
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
        let order = [(1, 6), (2, 6), (0, 6), (3, 1)];
        // Together, and each by itself.
        for (count, at_a_time) in [(13, 13), (5, 1)] {
            let input: Vec<f32> = (0..count * 6).map(|i| (i * 7 % 11) as f32 - 5.0).collect();
            let executor = Executor::new(&graph, Options::default(), KEEP_ALL).unwrap();
            let lens = executor.output_lens();
            let mut kept: Vec<Vec<f32>> = lens.iter().map(|len| vec![0.0; count * len]).collect();
            let mut outputs: Vec<&mut [f32]> = kept.iter_mut().map(Vec::as_mut_slice).collect();
            let mut worker = executor.worker().unwrap();
            let run = worker.run(count, &[&input], &mut outputs, &mut |_, _| unreachable!());
            run.unwrap();

            let executor = Executor::new(&graph, Options::default(), 1).unwrap();
            assert_eq!(executor.output_lens(), [1]);
            let mut output = vec![0.0; count];
            let mut seen = Vec::new();
            let mut show = |number: usize, shown: Shown<'_>| {
                assert_eq!(shown.inputs(), at_a_time);
                let first = seen.len() / order.len() * at_a_time;
                let per_input = lens[number + 1];
                for position in 0..shown.len() {
                    for (lane, x) in shown.position(position).iter().enumerate() {
                        let at = (first + lane) * per_input + position;
                        assert_eq!(*x, kept[number + 1][at], "{number}");
                    }
                }
                seen.push((number, shown.len()));
            };
            let mut worker = executor.worker().unwrap();
            let run = worker.run(count, &[&input], &mut [&mut output], &mut show);
            run.unwrap();
            assert_eq!(output[..], kept[0]);
            assert_eq!(seen, order.repeat(count / at_a_time));
        }
    }
}
