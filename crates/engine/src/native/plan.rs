//! From a graph to a list of steps on one stretch of memory.
//!
//! Each step writes one place. A place is free again after the last step that reads its value.
//! Reshapes cost nothing, and most concatenations: what stands in the place of another value has no step.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use npcov_cpu::FlushDenormals;
use npcov_graph::{Graph, NodeError, NodeErrorKind, ShapeDisplay, Tensor, Value, ValueId};

use crate::engine::Buffers;
use crate::error::EngineError;
use crate::native::arena::{Life, layout};
use crate::native::fuse::{self, Unit, UnitKernel};
use crate::native::kernel::{ABREAST, Abreast, Inputs, Kernel, Run, SharedWeights};
use crate::native::op;
use crate::native::options::Options;
use crate::native::pack::{LANES, Pack, numbers_mut};
use crate::native::schedule;
use crate::native::spots::Spots;

/// A kernel and the places it works on.
pub(crate) struct Step {
    /// Operator and name of the node, of several that of the first.
    pub(crate) name: String,
    pub(crate) kernel: Box<dyn Kernel>,
    pub(crate) inputs: Vec<Place>,
    /// Apart from all inputs.
    pub(crate) output: Place,
    /// Where inputs stand, behind the output, when a kernel for sixteen inputs computes one.
    spread: Vec<Place>,
}

/// Where a value stands in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) start: usize,
    pub(crate) len: usize,
}

impl Place {
    /// The place as a range.
    pub(crate) fn range(self) -> Range<usize> {
        self.start..self.start + self.len
    }
}

/// A value that is shown as soon as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// How many steps are done by then.
    pub(crate) after: usize,
    /// Which of the values that are shown.
    pub(crate) number: usize,
    pub(crate) place: Place,
}

/// A graph, ready to run.
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Packs of memory that values stand in.
    pub(crate) memory: usize,
    /// Places that hold constants, filled once.
    pub(crate) constants: Vec<(Place, Arc<Tensor>)>,
    pub(crate) inputs: Vec<Place>,
    pub(crate) outputs: Vec<Place>,
    pub(crate) buffers: Buffers,
    /// What is shown in the course of a run, by step.
    pub(crate) shown: Vec<Shown>,
    /// Length of the working memory that all kernels share.
    pub(crate) scratch: usize,
    /// The same for kernels that compute one input by itself.
    pub(crate) alone_scratch: usize,
    /// The same where some are computed abreast.
    abreast_scratch: usize,
    /// Whether inputs are computed one by one however many there are.
    pub(crate) one_by_one: bool,
    /// Inputs of which each has a memory of its own, so that some steps take them abreast.
    pub(crate) abreast: usize,
    /// All steps: those that take inputs abreast, and those between them, through which each input goes by
    /// itself while its values are in the cache.
    pub(crate) stretches: Vec<Range<usize>>,
}

/// Elements of a value from which on inputs are computed one by one: a pack for each would be 64 MiB, and
/// what one step writes would come from memory when the next one reads it.
const LARGE: usize = 1 << 20;

/// The same where values weigh more than weights that are [scarcely used](Kernel::scarcely_used): a pack for each
/// is 16 MiB.
const MIDDLING: usize = 1 << 18;

/// Whether inputs are computed one by one because their values are large. Between two sizes it depends on what
/// comes from memory for each input: the values of sixteen that are computed together, or weights that each of them
/// fetches again.
fn one_by_one(steps: &[Step]) -> bool {
    let largest = steps.iter().map(|step| step.output.len).max().unwrap_or(0);
    let moved = steps.iter().map(|step| step.output.len * size_of::<f32>());
    let fetched = steps.iter().map(|step| step.kernel.scarcely_used());
    largest >= LARGE || largest >= MIDDLING && fetched.sum::<usize>() < moved.sum()
}

/// Bytes of the memory for sixteen inputs.
fn pack_bytes(values: usize, scratch: usize) -> usize {
    let packs = values.saturating_add(scratch);
    packs.saturating_mul(size_of::<Pack>())
}

impl Step {
    /// Packs of working memory for one input by itself: that of its kernel, or, without one, that of
    /// the kernel for sixteen and all it reads and writes.
    fn alone_scratch(&self) -> usize {
        match self.kernel.alone() {
            Some(kernel) => kernel.scratch(),
            None => {
                let places = self.inputs.iter().chain([&self.output]);
                self.kernel.scratch() + places.map(|place| place.len).sum::<usize>()
            }
        }
    }

    /// The kernel for a few inputs abreast.
    pub(crate) fn abreast(&self) -> Option<&dyn Abreast> {
        self.kernel.alone()?.abreast()
    }

    /// Computes inputs abreast: `values` are the memories of up to [`ABREAST`] of them.
    pub(crate) fn run_abreast(
        &self,
        kernel: &dyn Abreast,
        values: &mut [Vec<Pack>],
        scratch: &mut [Pack],
    ) {
        let count = values.len().min(ABREAST);
        let mut values = values.iter_mut();
        let mut runs: [Run<'_>; ABREAST] = std::array::from_fn(|_| {
            let (inputs, output) = match values.next() {
                Some(values) => Inputs::split(numbers_mut(values), &self.inputs, self.output),
                None => (Inputs::none(), &mut [][..]),
            };
            Run { inputs, output }
        });
        kernel.run(&mut runs[..count], &mut scratch[..kernel.scratch(count)]);
    }

    /// Computes one input by itself.
    pub(crate) fn run_alone(&self, values: &mut [f32], scratch: &mut [Pack]) {
        let (inputs, output) = Inputs::split(values, &self.inputs, self.output);
        if let Some(kernel) = self.kernel.alone() {
            return kernel.run(&inputs, &mut scratch[..kernel.scratch()], output);
        }
        let (scratch, packs) = scratch.split_at_mut(self.kernel.scratch());
        for (i, place) in self.spread.iter().enumerate() {
            for (pack, x) in packs[place.range()].iter_mut().zip(inputs.get(i)) {
                *pack = Pack::splat(*x);
            }
        }
        let written = Place {
            start: 0,
            len: self.output.len,
        };
        let (inputs, packs) = Inputs::split(packs, &self.spread, written);
        self.kernel.run(&inputs, scratch, packs);
        for (y, pack) in output.iter_mut().zip(packs) {
            *y = pack.0[0];
        }
    }
}

/// Elements of the largest tensor: 8 GiB of packs. Shapes come from files and users; a limit here
/// keeps everything that is made from them small enough to try.
const MAX_ELEMENTS: usize = 1 << 27;

impl Plan {
    /// Of a graph whose first `kept` outputs are results, and whose others are shown.
    pub(crate) fn new(graph: &Graph, options: Options, kept: usize) -> Result<Plan, EngineError> {
        let is_large = |v: &&Value| v.constant.is_none() && v.ty.numel() > MAX_ELEMENTS;
        if let Some(value) = graph.values().iter().find(is_large) {
            return Err(EngineError::TooLarge {
                name: value.name.clone(),
                shape: ShapeDisplay(&value.ty.shape).to_string(),
                limit: MAX_ELEMENTS,
            });
        }
        let graph = graph
            .lowered(|node| !op::has_kernel(graph, node))
            .and_then(|graph| npcov_graph::fold_batch_norm(&graph))
            .and_then(|graph| schedule::early(&graph))
            .map_err(|error| {
                EngineError::Nodes(vec![NodeError {
                    node: "all of them".to_owned(),
                    op_type: "any".to_owned(),
                    reason: NodeErrorKind::Op(error),
                }])
            })?;
        let spots = Spots::of(&graph);
        let units = fuse::units(&graph, &spots, options);
        let mut kernels = Vec::with_capacity(units.len());
        let mut errors = Vec::new();
        for prepared in prepare(&graph, &units, options) {
            match prepared {
                Ok(kernel) => kernels.push(kernel),
                Err(error) => errors.push(error),
            }
        }
        match errors.is_empty() {
            true => {
                let planner = Planner::new(&graph, spots, (&units, &kernels), kept);
                Ok(planner.plan(&units, kernels, options.memory))
            }
            false => Err(EngineError::Nodes(errors)),
        }
    }
}

/// The kernels of all units, in their order. Most of the time goes into weights, which all CPUs share.
fn prepare(graph: &Graph, units: &[Unit], options: Options) -> Vec<Result<UnitKernel, NodeError>> {
    let shared = SharedWeights::default();
    let max_follows = op::max_follows(graph);
    let next = AtomicUsize::new(0);
    let work = || {
        let _flush = FlushDenormals::new();
        let mut prepared = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(unit) = units.get(number) else {
                return prepared;
            };
            prepared.push((number, unit.prepare(graph, options, &shared, &max_follows)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut prepared = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(units.len()))
            .map(|_| scope.spawn(work))
            .collect();
        let mut prepared = work();
        for other in others {
            match other.join() {
                Ok(more) => prepared.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        prepared
    });
    prepared.sort_by_key(|(number, _)| *number);
    prepared.into_iter().map(|(_, kernel)| kernel).collect()
}

/// Where values stand and when they are needed.
struct Planner<'a> {
    graph: &'a Graph,
    kept: &'a [ValueId],
    shown: &'a [ValueId],
    spots: Spots,
    /// For each value in whose place some stand, if only itself, the time in which one of them is needed.
    lives: Vec<Option<Life>>,
    /// For each value, the steps that are done when it is there.
    ready: Vec<usize>,
}

/// A step later than all steps: for what must survive the run.
const FOREVER: usize = usize::MAX;

impl<'a> Planner<'a> {
    fn new(
        graph: &'a Graph,
        spots: Spots,
        (units, kernels): (&[Unit], &[UnitKernel]),
        kept: usize,
    ) -> Self {
        let (kept, shown) = graph.outputs().split_at(kept.min(graph.outputs().len()));
        let mut planner = Planner {
            graph,
            kept,
            shown,
            spots,
            lives: vec![None; graph.values().len()],
            ready: vec![0; graph.values().len()],
        };
        // The caller writes before the first step, constants stay.
        for &input in graph.inputs() {
            planner.define(input, 0);
        }
        for (i, (unit, kernel)) in units.iter().zip(kernels).enumerate() {
            for &value in &kernel.reads {
                planner.read(value, i + 1);
            }
            planner.define(unit.output(graph), i + 1);
        }
        for (position, node) in graph.nodes().iter().enumerate() {
            if planner.spots.is_free(position) {
                let ready = node.inputs.iter().map(|v| planner.ready[v.index()]);
                planner.ready[node.output.index()] = ready.max().unwrap_or(0);
            }
        }
        for &output in kept {
            planner.read(output, FOREVER);
        }
        for &output in shown {
            // It need not stay.
            planner.read(output, planner.ready[output.index()]);
        }
        planner
    }

    /// A step writes a value.
    fn define(&mut self, value: ValueId, step: usize) {
        self.ready[value.index()] = step;
        self.need(value, step, step);
    }

    /// A step reads a value. A constant, which nothing has written, is there all the time.
    fn read(&mut self, value: ValueId, step: usize) {
        let (home, _) = self.spots.spot(value);
        match self.graph.values()[home].constant {
            Some(_) => self.need(value, 0, FOREVER),
            None => self.need(value, step, step),
        }
    }

    fn need(&mut self, value: ValueId, from: usize, to: usize) {
        let (home, _) = self.spots.spot(value);
        let len = self.graph.values()[home].ty.numel();
        let life = self.lives[home].get_or_insert(Life { len, from, to });
        life.from = life.from.min(from);
        life.to = life.to.max(to);
    }

    fn plan(self, units: &[Unit], kernels: Vec<UnitKernel>, budget: usize) -> Plan {
        let graph = self.graph;
        // Of one input by itself, every value begins at a cache line.
        let whole = |life: &Life| Life {
            len: life.len.next_multiple_of(LANES),
            ..*life
        };
        let lives: Vec<Life> = self.lives.iter().flatten().map(whole).collect();
        let (starts, memory) = layout(&lives);
        let mut starts = starts.into_iter();
        let places: Vec<Option<Place>> = self
            .lives
            .iter()
            .map(|life| {
                let len = life.as_ref()?.len;
                starts.next().map(|start| Place { start, len })
            })
            .collect();
        let nowhere = Place { start: 0, len: 0 };
        let place = |v: &ValueId| {
            let (home, offset) = self.spots.spot(*v);
            places[home].map_or(nowhere, |place| Place {
                start: place.start + offset,
                len: graph.value(*v).ty.numel(),
            })
        };
        let constants = graph
            .values()
            .iter()
            .zip(&places)
            .filter_map(|(value, place)| Some(((*place)?, value.constant.clone()?)))
            .collect();
        let mut shown: Vec<Shown> = (self.shown.iter().enumerate())
            .map(|(number, value)| Shown {
                after: self.ready[value.index()],
                number,
                place: place(value),
            })
            .collect();
        shown.sort_by_key(|shown| shown.after);
        let scratch = kernels.iter().map(|k| k.kernel.scratch()).max();
        let steps = units.iter().zip(kernels);
        let steps = steps.map(|(unit, prepared)| {
            let inputs: Vec<Place> = prepared.reads.iter().map(place).collect();
            let output = place(&unit.output(graph));
            let mut end = output.len;
            let spread = inputs.iter().map(|&Place { len, .. }| {
                end += len;
                Place {
                    start: end - len,
                    len,
                }
            });
            Step {
                name: unit.name(graph),
                spread: spread.collect(),
                kernel: prepared.kernel,
                inputs,
                output,
            }
        });
        let steps: Vec<Step> = steps.collect();
        let scratch = scratch.unwrap_or(0);
        let one_by_one = one_by_one(&steps) || pack_bytes(memory, scratch) > budget;
        let abreast = || steps.iter().filter_map(Step::abreast);
        let memories = budget / memory.saturating_mul(size_of::<f32>()).max(1);
        let count = match one_by_one && abreast().next().is_some() {
            true => memories.clamp(1, ABREAST),
            false => 1,
        };
        let alone_scratch = steps.iter().map(Step::alone_scratch).max().unwrap_or(0);
        let scratches = abreast().map(|kernel| kernel.scratch(count));
        Plan {
            one_by_one,
            abreast: count,
            stretches: stretches(&steps),
            abreast_scratch: scratches.max().unwrap_or(0).max(alone_scratch),
            alone_scratch,
            steps,
            memory,
            constants,
            inputs: graph.inputs().iter().map(place).collect(),
            outputs: self.kept.iter().map(place).collect(),
            buffers: Buffers::of(
                graph,
                self.kept.len(),
                if one_by_one { count } else { LANES },
            ),
            shown,
            scratch,
        }
    }
}

/// Steps that take inputs abreast, each by itself, and all steps between two of them.
fn stretches(steps: &[Step]) -> Vec<Range<usize>> {
    let mut stretches: Vec<Range<usize>> = Vec::new();
    let mut closed = true;
    for (number, step) in steps.iter().enumerate() {
        let abreast = step.abreast().is_some();
        match stretches.last_mut().filter(|_| !closed && !abreast) {
            Some(last) => last.end = number + 1,
            None => stretches.push(number..number + 1),
        }
        closed = abreast;
    }
    stretches
}

/// The memory that a plan works in for sixteen inputs: a pack for each element.
pub(crate) struct Memory {
    pub(crate) values: Vec<Pack>,
    pub(crate) scratch: Vec<Pack>,
}

/// The memory for a few inputs, each by itself: a number for each element of each.
#[derive(Default)]
pub(crate) struct Room {
    pub(crate) values: Vec<Vec<Pack>>,
    pub(crate) scratch: Vec<Pack>,
}

impl Plan {
    /// The memory for sixteen inputs, or `None` when the system does not have it: shapes come from files.
    pub(crate) fn lanes(&self) -> Option<Memory> {
        let mut values = zeroed(self.memory)?;
        for (place, constant) in &self.constants {
            for (pack, x) in values[place.range()].iter_mut().zip(constant.to_f32()) {
                *pack = Pack::splat(x);
            }
        }
        Some(Memory {
            values,
            scratch: zeroed(self.scratch)?,
        })
    }

    /// Makes room for so many inputs, each by itself, if there is less.
    pub(crate) fn make_room(&self, room: &mut Room, count: usize) -> Option<()> {
        while room.values.len() < count {
            let mut values = zeroed(self.memory.div_ceil(LANES))?;
            for (place, constant) in &self.constants {
                numbers_mut(&mut values)[place.range()].copy_from_slice(&constant.to_f32());
            }
            room.values.push(values);
        }
        let scratch = self.scratch_of(count);
        if room.scratch.len() < scratch {
            // The shorter one first, so that there are never both.
            room.scratch = Vec::new();
            room.scratch = zeroed(scratch)?;
        }
        Some(())
    }

    /// Packs of working memory for so many inputs.
    fn scratch_of(&self, count: usize) -> usize {
        match count {
            0 | 1 => self.alone_scratch,
            _ => self.abreast_scratch,
        }
    }

    /// What is shown when so many steps are done.
    pub(crate) fn shown_after(&self, steps: usize) -> &[Shown] {
        let behind = |steps| self.shown.partition_point(|shown| shown.after <= steps);
        let first = match steps {
            0 => 0,
            steps => behind(steps - 1),
        };
        &self.shown[first..behind(steps)]
    }

    /// Bytes of the memory for sixteen inputs.
    pub(crate) fn lanes_bytes(&self) -> usize {
        pack_bytes(self.memory, self.scratch)
    }

    /// Bytes of the memory for so many inputs, each by itself.
    pub(crate) fn alone_bytes(&self, count: usize) -> usize {
        let numbers = self.memory.saturating_mul(size_of::<f32>());
        let scratch = self.scratch_of(count).saturating_mul(size_of::<Pack>());
        numbers.saturating_mul(count).saturating_add(scratch)
    }
}

fn zeroed(len: usize) -> Option<Vec<Pack>> {
    let mut packs = Vec::new();
    packs.try_reserve_exact(len).ok()?;
    packs.resize(len, Pack::ZERO);
    Some(packs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::KEEP_ALL;
    use npcov_graph::op::{ConvTranspose, Unary, Window};
    use npcov_graph::{DType, Op, TensorType};

    fn relu(graph: &mut Graph, x: ValueId) -> ValueId {
        graph.push("relu", Op::Unary(Unary::Relu), &[x]).unwrap()
    }

    fn transpose(graph: &mut Graph, x: ValueId) -> ValueId {
        graph.push("t", Op::Transpose(vec![1, 0]), &[x]).unwrap()
    }

    /// A row of steps needs two places, however long it is: what a step reads and what it writes.
    #[test]
    fn places_are_reused() {
        let mut graph = Graph::new();
        let mut x = graph.add_input("x", TensorType::new(DType::F32, [4, 6]));
        for _ in 0..10 {
            x = transpose(&mut graph, x);
        }
        graph.set_outputs(vec![x]);
        let plan = Plan::new(&graph, Options::default(), KEEP_ALL).unwrap();
        assert_eq!(plan.steps.len(), 10);
        assert_eq!(plan.memory, 64);
    }

    #[test]
    fn what_has_no_room_in_lanes_is_computed_one_by_one() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [4, 6]));
        let y = transpose(&mut graph, x);
        graph.set_outputs(vec![y]);
        let plan = |memory: usize| {
            let options = Options {
                memory,
                ..Options::default()
            };
            Plan::new(&graph, options, KEEP_ALL).unwrap()
        };
        let bytes = plan(usize::MAX).lanes_bytes();
        assert!(!plan(bytes).one_by_one && plan(bytes - 1).one_by_one);
        assert_eq!(plan(0).buffers.together, 1);
    }

    #[test]
    fn a_value_that_is_used_later_keeps_its_place() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [4, 6]));
        let a = transpose(&mut graph, x);
        let b = transpose(&mut graph, a);
        let c = transpose(&mut graph, b);
        graph.set_outputs(vec![a, c]);
        let plan = Plan::new(&graph, Options::default(), KEEP_ALL).unwrap();
        let written: Vec<Place> = plan.steps.iter().map(|s| s.output).collect();
        assert!(!written[1..].contains(&written[0]), "{written:?}");
    }

    #[test]
    fn what_is_only_shown_does_not_stay() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [4, 6]));
        let mut values = vec![x];
        for i in 0..10 {
            values.push(transpose(&mut graph, values[i]));
        }
        values.rotate_left(10);
        graph.set_outputs(values);
        let plan = Plan::new(&graph, Options::default(), 1).unwrap();
        assert_eq!((plan.outputs.len(), plan.memory), (1, 64));
        // The input first; of the others, what each step has written.
        let places = std::iter::once(plan.inputs[0]).chain(plan.steps.iter().map(|s| s.output));
        for (i, (shown, place)) in plan.shown.iter().zip(places).enumerate() {
            assert_eq!((shown.after, shown.number, shown.place), (i, i, place));
        }
    }

    #[test]
    fn reshapes_share_a_place() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [4, 6]));
        let r = graph.push("r", Op::Reshape(vec![24]), &[x]).unwrap();
        let y = relu(&mut graph, r);
        graph.set_outputs(vec![y]);
        let plan = Plan::new(&graph, Options::default(), KEEP_ALL).unwrap();
        assert_eq!(plan.steps.len(), 1);
        assert_eq!(plan.steps[0].inputs, plan.inputs);
    }

    /// What is shown of a concatenation is shown when the last of its inputs is there.
    #[test]
    fn concatenations_share_a_place_with_their_inputs() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 16]));
        let a = relu(&mut graph, x);
        let t = graph.push("t", Op::Transpose(vec![1, 0]), &[a]).unwrap();
        let t = graph.push("r", Op::Reshape(vec![1, 16]), &[t]).unwrap();
        let both = graph.push("c", Op::Concat(1), &[a, t]).unwrap();
        let y = transpose(&mut graph, both);
        graph.set_outputs(vec![y, both, a]);
        let plan = Plan::new(&graph, Options::default(), 1).unwrap();
        assert_eq!(plan.steps.len(), 3);
        let [first, second, last] = [0, 1, 2].map(|i| &plan.steps[i]);
        assert_eq!(last.inputs[0].len, 32);
        assert_eq!(first.output.range().start, last.inputs[0].start);
        assert_eq!(second.output.range().end, last.inputs[0].range().end);
        let shown: Vec<_> = plan.shown.iter().map(|s| (s.after, s.place)).collect();
        assert_eq!(shown, [(1, first.output), (2, last.inputs[0])]);
    }

    #[test]
    fn absurd_shapes_are_refused() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 1 << 20, 1 << 20]));
        let y = relu(&mut graph, x);
        graph.set_outputs(vec![y]);
        let error = Plan::new(&graph, Options::default(), KEEP_ALL)
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("`x`") && error.contains("1x1048576x1048576"),
            "{error}"
        );
    }

    /// Weights that depend on the input, twice: both are named.
    #[test]
    fn all_nodes_without_a_kernel_are_reported() {
        let mut graph = Graph::new();
        let mut x = graph.add_input("x", TensorType::new(DType::F32, [1, 1, 4, 4]));
        let w = graph.add_input("w", TensorType::new(DType::F32, [1, 1, 1, 1]));
        for name in ["first", "second"] {
            let op = Op::ConvTranspose(ConvTranspose {
                window: Window::sized([1, 1]),
                groups: 1,
                output: vec![4, 4],
            });
            x = graph.push(name, op, &[x, w]).unwrap();
        }
        graph.set_outputs(vec![x]);
        let error = Plan::new(&graph, Options::default(), KEEP_ALL)
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("`first`") && error.contains("`second`"),
            "{error}"
        );
    }
}
