//! From a graph to a list of steps on one stretch of memory.
//!
//! Each step writes one place. A place is free again after the last step that reads its value.
//! Reshapes cost nothing: both sides share a place.

use std::ops::Range;
use std::sync::Arc;

use npcov_graph::{Graph, NodeError, NodeErrorKind, Op, ShapeDisplay, Tensor, Value, ValueId};

use crate::arena::Arena;
use crate::error::EngineError;
use crate::fuse::{self, PreparedUnit, Unit};
use crate::isa::Isa;
use crate::kernel::{Kernel, SharedWeights};
use crate::op;
use crate::pack::Pack;
use crate::schedule;

/// A kernel and the places it works on.
pub(crate) struct Step {
    pub(crate) kernel: Box<dyn Kernel>,
    pub(crate) inputs: Vec<Place>,
    /// Apart from all inputs.
    pub(crate) output: Place,
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

/// A graph, ready to run.
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Packs of memory that values stand in.
    pub(crate) memory: usize,
    /// Places that hold constants, filled once.
    pub(crate) constants: Vec<(Place, Arc<Tensor>)>,
    pub(crate) inputs: Vec<Place>,
    pub(crate) outputs: Vec<Place>,
    /// Length of the working memory that all kernels share.
    pub(crate) scratch: usize,
}

/// Elements of the largest tensor: 8 GiB of packs. Shapes come from files and users; a limit here
/// keeps everything that is made from them small enough to try.
const MAX_ELEMENTS: usize = 1 << 27;

impl Plan {
    pub(crate) fn new(graph: &Graph, isa: Isa) -> Result<Plan, EngineError> {
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
        let units = fuse::units(&graph, isa);
        let mut kernels = Vec::with_capacity(units.len());
        let mut errors = Vec::new();
        let shared = SharedWeights::default();
        for unit in &units {
            match unit.prepare(&graph, isa, &shared) {
                Ok(kernel) => kernels.push(kernel),
                Err(error) => errors.push(error),
            }
        }
        match errors.is_empty() {
            true => Ok(Planner::new(&graph, &units).plan(&units, kernels)),
            false => Err(EngineError::Nodes(errors)),
        }
    }
}

struct Planner<'a> {
    graph: &'a Graph,
    /// For each value, the value whose place it shares.
    root: Vec<usize>,
    /// For each root, the last step that reads it.
    last_use: Vec<usize>,
    /// For each root, its place.
    place_of: Vec<Option<Place>>,
    arena: Arena,
    constants: Vec<(Place, Arc<Tensor>)>,
}

/// A step index later than all steps: for what must survive the run.
const FOREVER: usize = usize::MAX;

impl<'a> Planner<'a> {
    fn new(graph: &'a Graph, units: &[Unit]) -> Self {
        let mut root: Vec<usize> = (0..graph.values().len()).collect();
        for node in graph.nodes() {
            if matches!(node.op, Op::Reshape(_)) {
                root[node.output.index()] = root[node.inputs[0].index()];
            }
        }
        let mut last_use = vec![0; root.len()];
        for (i, unit) in units.iter().enumerate() {
            for &position in &unit.nodes {
                for input in &graph.nodes()[position].inputs {
                    last_use[root[input.index()]] = i;
                }
            }
        }
        for output in graph.outputs() {
            last_use[root[output.index()]] = FOREVER;
        }
        Planner {
            graph,
            place_of: vec![None; root.len()],
            root,
            last_use,
            arena: Arena::default(),
            constants: Vec::new(),
        }
    }

    fn plan(mut self, units: &[Unit], kernels: Vec<PreparedUnit>) -> Plan {
        let graph = self.graph;
        // Constants first: theirs are the places that nothing else ever uses.
        for kernel in &kernels {
            kernel.reads.iter().for_each(|&v| self.place_constant(v));
        }
        graph.outputs().iter().for_each(|&v| self.place_constant(v));
        let inputs = graph.inputs().iter().map(|&i| self.define(i)).collect();
        let mut steps = Vec::new();
        let mut scratch = 0;
        for (i, (unit, prepared)) in units.iter().zip(kernels).enumerate() {
            scratch = scratch.max(prepared.kernel.scratch());
            let inputs = prepared.reads.iter().map(|&v| self.read(v)).collect();
            let output = self.define(unit.output(graph));
            steps.push(Step {
                kernel: prepared.kernel,
                inputs,
                output,
            });
            self.release(unit, i);
        }
        let outputs = graph.outputs().iter().map(|&o| self.read(o)).collect();
        Plan {
            steps,
            memory: self.arena.len(),
            constants: self.constants,
            inputs,
            outputs,
            scratch,
        }
    }

    /// A place for a value that a step or the caller writes.
    fn define(&mut self, value: ValueId) -> Place {
        let len = self.graph.value(value).ty.numel();
        let start = self.arena.take(len);
        let place = Place { start, len };
        self.place_of[self.root[value.index()]] = Some(place);
        place
    }

    /// A place for a value, for ever, if it is a constant that has none.
    fn place_constant(&mut self, value: ValueId) {
        let root = self.root[value.index()];
        let constant = self
            .graph
            .values()
            .get(root)
            .and_then(|v| v.constant.as_ref());
        if let (Some(constant), None) = (constant, self.place_of[root]) {
            let place = self.define(value);
            self.last_use[root] = FOREVER;
            self.constants.push((place, constant.clone()));
        }
    }

    /// The place of a value that was written before, or is a constant.
    fn read(&self, value: ValueId) -> Place {
        let nowhere = Place { start: 0, len: 0 };
        self.place_of[self.root[value.index()]].unwrap_or(nowhere)
    }

    /// Frees the places that no unit after number `step` reads.
    fn release(&mut self, unit: &Unit, step: usize) {
        for &position in &unit.nodes {
            let node = &self.graph.nodes()[position];
            for value in node.inputs.iter().chain([&node.output]) {
                let root = self.root[value.index()];
                if self.last_use[root] <= step
                    && let Some(place) = self.place_of[root].take()
                {
                    self.arena.give_back(place.start, place.len);
                }
            }
        }
    }
}

/// The memory that a plan works in.
pub(crate) struct Memory {
    pub(crate) values: Vec<Pack>,
    pub(crate) scratch: Vec<Pack>,
}

impl Memory {
    /// The memory, or `None` when the system does not have it: shapes come from files.
    pub(crate) fn new(plan: &Plan) -> Option<Memory> {
        let mut values = zeroed(plan.memory)?;
        for (place, constant) in &plan.constants {
            for (pack, x) in values[place.range()].iter_mut().zip(constant.to_f32()) {
                *pack = Pack::splat(x);
            }
        }
        Some(Memory {
            values,
            scratch: zeroed(plan.scratch)?,
        })
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
    use npcov_graph::op::{ConvTranspose, Unary, Window};
    use npcov_graph::{DType, TensorType};

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
        let plan = Plan::new(&graph, Isa::detect()).unwrap();
        assert_eq!(plan.steps.len(), 10);
        assert_eq!(plan.memory, 48);
    }

    #[test]
    fn a_value_that_is_used_later_keeps_its_place() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [4, 6]));
        let a = transpose(&mut graph, x);
        let b = transpose(&mut graph, a);
        let c = transpose(&mut graph, b);
        graph.set_outputs(vec![a, c]);
        let plan = Plan::new(&graph, Isa::detect()).unwrap();
        let written: Vec<Place> = plan.steps.iter().map(|s| s.output).collect();
        assert!(!written[1..].contains(&written[0]), "{written:?}");
    }

    #[test]
    fn reshapes_share_a_place() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [4, 6]));
        let r = graph.push("r", Op::Reshape(vec![24]), &[x]).unwrap();
        let y = relu(&mut graph, r);
        graph.set_outputs(vec![y]);
        let plan = Plan::new(&graph, Isa::detect()).unwrap();
        assert_eq!(plan.steps.len(), 1);
        assert_eq!(plan.steps[0].inputs, plan.inputs);
    }

    #[test]
    fn absurd_shapes_are_refused() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 1 << 20, 1 << 20]));
        let y = relu(&mut graph, x);
        graph.set_outputs(vec![y]);
        let error = Plan::new(&graph, Isa::detect()).err().unwrap().to_string();
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
        let error = Plan::new(&graph, Isa::detect()).err().unwrap().to_string();
        assert!(
            error.contains("`first`") && error.contains("`second`"),
            "{error}"
        );
    }
}
