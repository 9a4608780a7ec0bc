//! From a graph to a list of steps on a fixed set of buffers.
//!
//! Each step writes one buffer. A buffer is free again after the last step that reads its value;
//! the next value takes the free buffer that fits best. Reshapes cost nothing: both sides share a
//! buffer.

use npcov_graph::{Graph, Op, ValueId};

use crate::error::EngineError;
use crate::fuse::{self, Unit};
use crate::isa::Isa;
use crate::kernel::Kernel;
use crate::pack::Pack;

/// A kernel and the buffers it works on.
pub(crate) struct Step {
    pub(crate) kernel: Box<dyn Kernel>,
    /// Buffer and length of each input.
    pub(crate) inputs: Vec<(usize, usize)>,
    /// Buffer and length of the output.
    pub(crate) output: (usize, usize),
}

/// Where an input or output of the graph stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    pub(crate) buffer: usize,
    pub(crate) len: usize,
}

/// A graph, ready to run.
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Length of each buffer.
    pub(crate) buffers: Vec<usize>,
    /// Buffers that hold constants, filled once.
    pub(crate) constants: Vec<(usize, Vec<f32>)>,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    /// Length of the working memory that all kernels share.
    pub(crate) scratch: usize,
}

impl Plan {
    pub(crate) fn new(graph: &Graph, isa: Isa) -> Result<Plan, EngineError> {
        let graph = fuse::fold_batch_norm(graph).map_err(|source| EngineError::Node {
            node: String::new(),
            op: "BatchNormalization",
            source,
        })?;
        let units = fuse::units(&graph, isa);
        Planner::new(&graph, &units).plan(&units, isa)
    }
}

struct Planner<'a> {
    graph: &'a Graph,
    /// For each value, the value whose buffer it shares.
    root: Vec<usize>,
    /// For each root, the last step that reads it.
    last_use: Vec<usize>,
    /// For each root, its buffer.
    buffer_of: Vec<Option<usize>>,
    buffers: Vec<usize>,
    free: Vec<usize>,
    constants: Vec<(usize, Vec<f32>)>,
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
            buffer_of: vec![None; root.len()],
            root,
            last_use,
            buffers: Vec::new(),
            free: Vec::new(),
            constants: Vec::new(),
        }
    }

    fn plan(mut self, units: &[Unit], isa: Isa) -> Result<Plan, EngineError> {
        let graph = self.graph;
        let inputs = graph.inputs().iter().map(|&i| self.define(i)).collect();
        let mut steps = Vec::new();
        let mut scratch = 0;
        for (i, unit) in units.iter().enumerate() {
            let prepared = unit.prepare(graph, isa)?;
            scratch = scratch.max(prepared.kernel.scratch());
            let inputs = prepared.reads.iter().map(|&v| self.read(v)).collect();
            let output = self.define(unit.output(graph));
            steps.push(Step {
                kernel: prepared.kernel,
                inputs,
                output: (output.buffer, output.len),
            });
            self.release(unit, i);
        }
        let outputs = graph
            .outputs()
            .iter()
            .map(|&o| {
                let (buffer, len) = self.read(o);
                Port { buffer, len }
            })
            .collect();
        Ok(Plan {
            steps,
            buffers: self.buffers,
            constants: self.constants,
            inputs,
            outputs,
            scratch,
        })
    }

    fn numel(&self, value: ValueId) -> usize {
        self.graph.value(value).ty.numel()
    }

    /// A buffer for a value that a step or the caller writes.
    fn define(&mut self, value: ValueId) -> Port {
        let len = self.numel(value);
        let root = self.root[value.index()];
        // The smallest free buffer that is large enough, else the largest one, enlarged.
        let best = (0..self.free.len()).min_by_key(|&f| {
            let size = self.buffers[self.free[f]];
            (size < len, size.abs_diff(len))
        });
        let buffer = match best {
            Some(f) => self.free.swap_remove(f),
            None => {
                self.buffers.push(0);
                self.buffers.len() - 1
            }
        };
        self.buffers[buffer] = self.buffers[buffer].max(len);
        self.buffer_of[root] = Some(buffer);
        Port { buffer, len }
    }

    /// The buffer of a value that was written before, or is a constant.
    fn read(&mut self, value: ValueId) -> (usize, usize) {
        let root = self.root[value.index()];
        let len = self.numel(value);
        if let Some(buffer) = self.buffer_of[root] {
            return (buffer, len);
        }
        let constant = self
            .graph
            .values()
            .get(root)
            .and_then(|v| v.constant.as_ref())
            .map(|t| t.to_f32())
            .unwrap_or_default();
        self.buffers.push(len);
        let buffer = self.buffers.len() - 1;
        self.buffer_of[root] = Some(buffer);
        self.last_use[root] = FOREVER;
        self.constants.push((buffer, constant));
        (buffer, len)
    }

    /// Frees the buffers that no unit after number `step` reads.
    fn release(&mut self, unit: &Unit, step: usize) {
        for &position in &unit.nodes {
            let node = &self.graph.nodes()[position];
            for value in node.inputs.iter().chain([&node.output]) {
                let root = self.root[value.index()];
                if self.last_use[root] <= step
                    && let Some(buffer) = self.buffer_of[root].take()
                {
                    self.free.push(buffer);
                }
            }
        }
    }
}

/// The memory that a plan works in.
pub(crate) struct Memory {
    pub(crate) buffers: Vec<Vec<Pack>>,
    pub(crate) scratch: Vec<Pack>,
}

impl Memory {
    /// The memory, or `None` when the system does not have it: shapes come from files.
    pub(crate) fn new(plan: &Plan) -> Option<Memory> {
        let mut buffers = plan
            .buffers
            .iter()
            .map(|&n| zeroed(n))
            .collect::<Option<Vec<_>>>()?;
        for (buffer, constant) in &plan.constants {
            for (pack, &x) in buffers[*buffer].iter_mut().zip(constant) {
                *pack = Pack::splat(x);
            }
        }
        Some(Memory {
            buffers,
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
