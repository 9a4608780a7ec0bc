//! Which nodes are computed together.
//!
//! Two things save a pass over memory. Batch normalisation behind a convolution is a factor and a
//! shift a channel, which the weights can carry: a rewrite of the graph. And neighbouring nodes
//! can share a kernel: a chain of element-wise ones, or a product with what happens to its sums
//! before they are stored. A group of such nodes is a [`Unit`].

use std::collections::HashSet;

use npcov_graph::op::{Binary, Unary};
use npcov_graph::{Graph, Node, NodeError, NodeErrorKind, OpError, ValueId};

use crate::native::kernel::{Context, Kernel, NodeKernel, SharedWeights, Tail};
use crate::native::op::elementwise::{Chain, Elementwise, MAX_STEPS};
use crate::native::op::{self, Role};
use crate::native::options::Options;
use crate::native::tile::Finish;

/// Nodes that are computed by one kernel; positions in the graph, ascending. The last one's output
/// is the unit's.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) nodes: Vec<usize>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// A single node.
    Node,
    /// Element-wise nodes.
    Chain,
    /// A product, possibly an addition, possibly a limit.
    Product {
        tail: Tail,
        /// The value that is added.
        addend: Option<ValueId>,
    },
}

/// A unit's kernel and the values it reads.
pub(crate) struct UnitKernel {
    pub(crate) kernel: Box<dyn Kernel>,
    pub(crate) reads: Vec<ValueId>,
}

/// Groups the nodes of a graph. Aliases are no nodes to the engine and are left out.
pub(crate) fn units(graph: &Graph, options: Options) -> Vec<Unit> {
    let consumers = graph.consumers();
    let outputs: HashSet<ValueId> = graph.outputs().iter().copied().collect();
    // A value that only the next node sees can disappear into a unit.
    let is_private = |v: ValueId| consumers[v.index()].len() == 1 && !outputs.contains(&v);
    let mut units: Vec<Option<Unit>> = Vec::new();
    // The unit that computes each value.
    let mut unit_of: Vec<Option<usize>> = vec![None; graph.values().len()];
    for (position, node) in graph.nodes().iter().enumerate() {
        let Some(kind) = kind_of(graph, node, options) else {
            continue;
        };
        let mut unit = Unit {
            nodes: vec![position],
            kind,
        };
        let absorbable: Vec<(ValueId, usize)> = node
            .inputs
            .iter()
            .filter(|&&v| is_private(v) && graph.shape(v) == graph.shape(node.output))
            .filter_map(|&v| Some((v, unit_of[v.index()]?)))
            .collect();
        if unit.kind == Kind::Chain {
            if let Some((product, kind)) = absorbable.iter().find_map(|&(v, u)| {
                let kind = units[u].as_ref()?.kind;
                Some((u, extended(graph, kind, v, node)?))
            }) {
                if let Some(before) = units[product].take() {
                    unit.nodes.splice(0..0, before.nodes);
                }
                unit.kind = kind;
            } else {
                for (_, u) in absorbable {
                    let fits = units[u].as_ref().is_some_and(|before| {
                        before.kind == Kind::Chain
                            && before.nodes.len() + unit.nodes.len() <= MAX_STEPS
                    });
                    if fits && let Some(before) = units[u].take() {
                        unit.nodes.extend(before.nodes);
                    }
                }
                unit.nodes.sort_unstable();
            }
        }
        unit_of[node.output.index()] = Some(units.len());
        units.push(Some(unit));
    }
    units.into_iter().flatten().collect()
}

fn kind_of(graph: &Graph, node: &Node, options: Options) -> Option<Kind> {
    let cx = Context {
        graph,
        node,
        options,
        shared: &SharedWeights::default(),
        max_follows: false,
    };
    match op::role(&node.op) {
        Role::Alias => None,
        Role::Elementwise(_) => Some(Kind::Chain),
        Role::Product(product) if product.takes_tail(&cx) => Some(Kind::Product {
            tail: Tail::NONE,
            addend: None,
        }),
        Role::Product(_) | Role::Alone => Some(Kind::Node),
    }
}

/// The product that also does the work of `node`, which uses its result `value`.
fn extended(graph: &Graph, kind: Kind, value: ValueId, node: &Node) -> Option<Kind> {
    let Kind::Product { mut tail, addend } = kind else {
        return None;
    };
    if tail.finish != Finish::None {
        return None;
    }
    let Role::Elementwise(op) = op::role(&node.op) else {
        return None;
    };
    // What is neither a limit nor a sum runs in a chain.
    match (op, &node.inputs[..]) {
        (Elementwise::Unary(Unary::Relu), _) => tail.finish = Finish::Clip(0.0, f32::INFINITY),
        (Elementwise::Unary(Unary::Clip { min, max }), _) => tail.finish = Finish::Clip(min, max),
        (Elementwise::Binary(Binary::Add), &[a, b]) if addend.is_none() && a != b => {
            let other = if a == value { b } else { a };
            let fits =
                graph.constant(other).is_none() && graph.shape(other) == graph.shape(node.output);
            tail.add = true;
            return fits.then_some(Kind::Product {
                tail,
                addend: Some(other),
            });
        }
        (
            Elementwise::Unary(_)
            | Elementwise::Binary(_)
            | Elementwise::Where
            | Elementwise::Cast(_)
            | Elementwise::Share(_),
            _,
        ) => return None,
    }
    Some(Kind::Product { tail, addend })
}

impl Unit {
    /// The value that the unit computes.
    pub(crate) fn output(&self, graph: &Graph) -> ValueId {
        graph.nodes()[self.last()].output
    }

    /// Operator and name of the first node.
    pub(crate) fn name(&self, graph: &Graph) -> String {
        let node = &graph.nodes()[self.nodes[0]];
        format!("{} `{}`", node.op.name(), node.name)
    }

    /// The position of the last node: where the unit stands among the others.
    pub(crate) fn last(&self) -> usize {
        self.nodes[self.nodes.len() - 1]
    }

    /// The unit's kernel.
    pub(crate) fn prepare(
        &self,
        graph: &Graph,
        options: Options,
        shared: &SharedWeights,
        max_follows: &[bool],
    ) -> Result<UnitKernel, NodeError> {
        let first = self.nodes[0];
        let node = &graph.nodes()[first];
        let cx = Context {
            graph,
            node,
            options,
            shared,
            max_follows: max_follows[first],
        };
        self.kernel(&cx).map_err(|error| NodeError {
            node: node.name.clone(),
            op_type: node.op.name().to_owned(),
            reason: NodeErrorKind::Op(error),
        })
    }

    fn kernel(&self, cx: &Context<'_>) -> Result<UnitKernel, OpError> {
        let (graph, node) = (cx.graph, cx.node);
        let (prepared, addend): (NodeKernel, Option<ValueId>) = match self.kind {
            Kind::Chain => {
                let (chain, reads) = Chain::new(graph, &self.nodes)?;
                return Ok(UnitKernel {
                    kernel: Box::new(chain),
                    reads,
                });
            }
            Kind::Node => (op::prepare(cx)?, None),
            Kind::Product { tail, addend } => {
                let Role::Product(product) = op::role(&node.op) else {
                    return Err(OpError::invalid("it is no product"));
                };
                (product.prepare(cx, tail)?, addend)
            }
        };
        // An input after the node's own is the addend.
        let reads = prepared
            .reads
            .iter()
            .map(|&r| node.inputs.get(r).copied().or(addend))
            .collect::<Option<_>>()
            .ok_or_else(|| OpError::invalid("a kernel reads an input that does not exist"))?;
        Ok(UnitKernel {
            kernel: prepared.kernel,
            reads,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::op::testing::run_graph;
    use crate::native::pack::LANES;
    use npcov_graph::op::{BatchNormalization, Conv, Window};
    use npcov_graph::{DType, Data, Op, Tensor, TensorType};

    fn numbers(shape: &[usize], seed: usize) -> Tensor {
        let count = shape.iter().product();
        let data = (0..count)
            .map(|i| ((i * 37 + seed * 11) % 23) as f32 / 11.0 - 1.0)
            .collect();
        Tensor::new(shape, Data::F32(data)).unwrap()
    }

    /// A residual block: `relu(norm(conv(x)) + x)`, optionally with every value an output.
    fn block(all_outputs: bool) -> Graph {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 4, 5, 5]));
        let conv = Op::Conv(Conv {
            window: Window {
                pads_begin: vec![1, 1],
                pads_end: vec![1, 1],
                ..Window::sized([3, 3])
            },
            groups: 1,
        });
        let w = graph.add_constant("w", numbers(&[4, 4, 3, 3], 1));
        let z = graph.push("conv", conv, &[x, w]).unwrap();
        let mut inputs = vec![z];
        for seed in 2..5 {
            inputs.push(graph.add_constant("p", numbers(&[4], seed)));
        }
        inputs.push(graph.add_constant("variance", Tensor::vector(vec![0.5, 1.0, 2.0, 0.1])));
        let norm = Op::BatchNormalization(BatchNormalization { epsilon: 1e-3 });
        let n = graph.push("norm", norm, &inputs).unwrap();
        let s = graph.push("add", Op::Binary(Binary::Add), &[n, x]).unwrap();
        let y = graph.push("relu", Op::Unary(Unary::Relu), &[s]).unwrap();
        graph.set_outputs(match all_outputs {
            true => vec![y, z, n, s],
            false => vec![y],
        });
        graph
    }

    fn unit_sizes(graph: &Graph) -> Vec<usize> {
        let units = units(
            &npcov_graph::fold_batch_norm(graph).unwrap(),
            Options::default(),
        );
        units.iter().map(|u| u.nodes.len()).collect()
    }

    #[test]
    fn a_residual_block_is_one_unit() {
        assert_eq!(unit_sizes(&block(false)), [3]);
    }

    #[test]
    fn what_an_output_shows_is_computed() {
        assert_eq!(unit_sizes(&block(true)), [1, 1, 1, 1]);
    }

    #[test]
    fn fused_and_separate_nodes_agree() {
        let run = |graph: &Graph| {
            let x = numbers(&[LANES, 100], 9);
            run_graph(graph, Options::default(), &[x.as_f32().unwrap()]).swap_remove(0)
        };
        let (fused, separate) = (run(&block(false)), run(&block(true)));
        for (a, b) in fused.iter().zip(&separate) {
            assert!((a - b).abs() <= 1e-5, "{a} and {b}");
        }
        assert!(fused.iter().any(|&y| y > 0.0) && fused.contains(&0.0));
    }

    /// `(x + 1) * tanh(x)`: two chains that meet become one.
    #[test]
    fn chains_that_meet_are_one_unit() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 8]));
        let one = graph.add_constant("one", Tensor::scalar(1.0));
        let a = graph.push("a", Op::Binary(Binary::Add), &[x, one]).unwrap();
        let t = graph.push("t", Op::Unary(Unary::Tanh), &[x]).unwrap();
        let y = graph.push("y", Op::Binary(Binary::Mul), &[a, t]).unwrap();
        graph.set_outputs(vec![y]);
        assert_eq!(unit_sizes(&graph), [3]);
    }
}
