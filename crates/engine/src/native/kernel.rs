//! What an operator is to the executor: prepared once, run on every micro-batch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use npcov_cpu::Isa;
use npcov_graph::{Graph, Node, OpError, Tensor, ValueId};

use crate::native::options::{Kernels, Options};
use crate::native::pack::Pack;
use crate::native::plan::Place;
use crate::native::tile::{Finish, Weights};

/// An operator with everything computed that does not depend on the input.
pub(crate) trait Kernel: Send + Sync {
    /// Number of packs of working memory that [`Kernel::run`] needs.
    fn scratch(&self) -> usize {
        0
    }

    /// Computes the output, of which every pack must be written: buffers are reused and hold
    /// anything. `scratch` has the length asked for, also with any content.
    fn run(&self, inputs: &Inputs<'_>, scratch: &mut [Pack], output: &mut [Pack]);

    /// Bytes of weights that an input fetches which uses each for few positions, where [`ABREAST`] share them: sixteen
    /// inputs together fetch them once.
    fn scarcely_used(&self) -> usize {
        0
    }

    /// The same operator for one input by itself. A kernel that has none is run with that input in
    /// all lanes, which takes sixteen times the work and memory.
    fn alone(&self) -> Option<&dyn Alone> {
        None
    }
}

/// A kernel for one input by itself. Elements of tensors are numbers, and lanes hold neighbours:
/// positions, channels or rows. It performs for each element the operations that [`Kernel::run`]
/// performs in a lane, in the same order, so that both give the same bits.
pub(crate) trait Alone {
    /// Number of packs of working memory that [`Alone::run`] needs.
    fn scratch(&self) -> usize {
        0
    }

    /// As [`Kernel::run`].
    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]);

    /// The same for a few inputs, where that takes less time than one after the other.
    fn abreast(&self) -> Option<&dyn Abreast> {
        None
    }
}

/// Inputs that are computed abreast at most: as many maps of four tiles as fill the lanes.
pub(crate) const ABREAST: usize = 4;

/// A kernel for a few inputs, each in memory of its own. Weights are fetched once for all of them, and
/// lanes that one of them leaves empty hold what belongs to the next one. The bits are those of
/// [`Alone::run`].
pub(crate) trait Abreast {
    /// Number of packs of working memory for up to so many inputs.
    fn scratch(&self, count: usize) -> usize;

    /// Computes up to [`ABREAST`] inputs.
    fn run(&self, runs: &mut [Run<'_>], scratch: &mut [Pack]);
}

/// What a kernel reads of one input, and where its output belongs.
pub(crate) struct Run<'a> {
    pub(crate) inputs: Inputs<'a, f32>,
    pub(crate) output: &'a mut [f32],
}

/// A kernel and the inputs it reads at run time.
pub(crate) struct NodeKernel {
    pub(crate) kernel: Box<dyn Kernel>,
    /// Positions among the node's inputs. [`Inputs::get`] counts in this list. The executor
    /// provides them as packs even where they are constants.
    pub(crate) reads: Vec<usize>,
}

impl NodeKernel {
    /// A kernel that reads the given inputs of its node.
    pub(crate) fn new(kernel: impl Kernel + 'static, reads: impl Into<Vec<usize>>) -> NodeKernel {
        NodeKernel {
            kernel: Box::new(kernel),
            reads: reads.into(),
        }
    }
}

/// What a kernel reads: all memory but the place of its output.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a, T = Pack> {
    pub(crate) before: &'a [T],
    /// What stands behind the output, and where it begins.
    pub(crate) after: (&'a [T], usize),
    pub(crate) at: &'a [Place],
}

impl<'a, T> Inputs<'a, T> {
    /// Those of no step.
    pub(crate) fn none() -> Inputs<'a, T> {
        Inputs {
            before: &[],
            after: (&[], 0),
            at: &[],
        }
    }

    /// What the step that writes `output` reads at the places `at`, and its output.
    pub(crate) fn split(
        values: &'a mut [T],
        at: &'a [Place],
        output: Place,
    ) -> (Inputs<'a, T>, &'a mut [T]) {
        let (before, rest) = values.split_at_mut(output.start);
        let (written, after) = rest.split_at_mut(output.len);
        let inputs = Inputs {
            before,
            after: (after, output.start + output.len),
            at,
        };
        (inputs, written)
    }

    /// The elements of input `i`, counted as in [`NodeKernel::reads`].
    pub(crate) fn get(&self, i: usize) -> &'a [T] {
        let Place { start, len } = self.at[i];
        match start.checked_sub(self.after.1) {
            Some(start) => &self.after.0[start..start + len],
            None => &self.before[start..start + len],
        }
    }
}

/// Packed weights that several kernels of a plan read: by value, whether it is transposed, and the
/// bits of the factor it is multiplied by.
pub(crate) type SharedWeights = Mutex<HashMap<(ValueId, bool, u32), Arc<Weights>>>;

/// What a kernel can know when it is prepared.
pub(crate) struct Context<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) node: &'a Node,
    pub(crate) options: Options,
    pub(crate) shared: &'a SharedWeights,
    /// Whether a maximum over a map is taken of what comes of the output.
    pub(crate) max_follows: bool,
}

impl<'a> Context<'a> {
    /// The instruction set.
    pub(crate) fn isa(&self) -> Isa {
        self.options.isa
    }

    /// Whether convolutions may be computed by tiles.
    pub(crate) fn winograd(&self) -> bool {
        self.options.kernels == Kernels::Winograd
    }

    /// Number of inputs.
    pub(crate) fn arity(&self) -> usize {
        self.node.inputs.len()
    }

    /// Shape of input `i`.
    pub(crate) fn shape(&self, i: usize) -> &'a [usize] {
        self.graph.shape(self.node.inputs[i])
    }

    /// Shape of the output.
    pub(crate) fn output(&self) -> &'a [usize] {
        self.graph.shape(self.node.output)
    }

    /// The elements of input `i`, when they do not depend on the model's input.
    pub(crate) fn constant(&self, i: usize) -> Option<&'a Arc<Tensor>> {
        self.graph.constant(self.node.inputs[i])
    }

    /// The elements of input `i`, which this kernel needs before it runs.
    pub(crate) fn parameter(&self, i: usize, what: &str) -> Result<Vec<f32>, OpError> {
        match self.constant(i) {
            Some(tensor) => Ok(tensor.to_f32()),
            None => Err(OpError::unsupported(format!(
                "{what} depends on the model's input"
            ))),
        }
    }
}

/// What a convolution or matrix product does to its sums before they are stored: other nodes'
/// work, at no cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tail {
    /// Whether a tensor of the output's shape is added: the input after those of the node itself.
    pub(crate) add: bool,
    /// What happens then.
    pub(crate) finish: Finish,
}

impl Tail {
    /// Nothing.
    pub(crate) const NONE: Tail = Tail {
        add: false,
        finish: Finish::None,
    };
}
