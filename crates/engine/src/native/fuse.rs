//! Which nodes are computed together.
//!
//! Two things save a pass over memory. Batch normalisation behind a convolution is a factor and a
//! shift a channel, which the weights can carry: a rewrite of the graph. And neighbouring nodes
//! can share a kernel: a chain of element-wise ones, a normalisation and a limit, or a product with what
//! happens to its input when it is read and to its sums before they are stored. A group of such nodes is a
//! [`Unit`].

use std::collections::HashSet;

use npcov_graph::op::{Binary, Unary};
use npcov_graph::{Graph, Node, NodeError, NodeErrorKind, OpError, ValueId};

use crate::native::kernel::{Context, Kernel, NodeKernel, SharedWeights, Tail};
use crate::native::op::elementwise::{Chain, Elementwise, MAX_STEPS};
use crate::native::op::{self, Role};
use crate::native::options::Options;
use crate::native::spots::Spots;
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
    /// Batch normalisation by constants, possibly a limit.
    Lines(Finish),
    /// Possibly such lines, a product, possibly an addition, possibly a limit.
    Product {
        /// The node that is a product.
        node: usize,
        lines: Option<Finish>,
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

/// Groups the nodes of a graph. What stands in the place of another value is left out.
pub(crate) fn units(graph: &Graph, spots: &Spots, options: Options) -> Vec<Unit> {
    let shared = SharedWeights::default();
    let consumers = graph.consumers();
    let outputs: HashSet<ValueId> = graph.outputs().iter().copied().collect();
    // A value that only the next node sees can disappear into a unit.
    let is_private = |v: ValueId| consumers[v.index()].len() == 1 && !outputs.contains(&v);
    let mut units: Vec<Option<Unit>> = Vec::new();
    // The unit that computes each value.
    let mut unit_of: Vec<Option<usize>> = vec![None; graph.values().len()];
    for (position, node) in graph.nodes().iter().enumerate() {
        if spots.is_free(position) {
            continue;
        }
        let cx = context(graph, node, options, &shared);
        let mut unit = Unit {
            nodes: vec![position],
            kind: kind_of(&cx, position),
        };
        if let Kind::Product { lines, .. } = &mut unit.kind
            && let Role::Product(product) = op::role(&node.op)
            && product.takes_lines(&cx)
            && is_private(node.inputs[0])
            && let Some(u) = unit_of[node.inputs[0].index()]
            && let Some(Kind::Lines(finish)) = units[u].as_ref().map(|before| before.kind)
            && let Some(before) = units[u].take()
        {
            *lines = Some(finish);
            unit.nodes.splice(0..0, before.nodes);
        }
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

/// What is known of a node before units are.
fn context<'a>(
    graph: &'a Graph,
    node: &'a Node,
    options: Options,
    shared: &'a SharedWeights,
) -> Context<'a> {
    Context {
        graph,
        node,
        options,
        shared,
        max_follows: false,
    }
}

fn kind_of(cx: &Context<'_>, position: usize) -> Kind {
    match op::role(&cx.node.op) {
        Role::Elementwise(_) => Kind::Chain,
        Role::Product(product) if product.takes_tail(cx) => Kind::Product {
            node: position,
            lines: None,
            tail: Tail::NONE,
            addend: None,
        },
        Role::Lines(_) if (1..cx.arity()).all(|i| cx.constant(i).is_some()) => {
            Kind::Lines(Finish::None)
        }
        Role::Alias | Role::Lines(_) | Role::Product(_) | Role::Alone => Kind::Node,
    }
}

/// The unit that also does the work of `node`, which uses its result `value`.
fn extended(graph: &Graph, kind: Kind, value: ValueId, node: &Node) -> Option<Kind> {
    let Role::Elementwise(op) = op::role(&node.op) else {
        return None;
    };
    let limit = match op {
        Elementwise::Unary(Unary::Relu) => Some(Finish::Clip(0.0, f32::INFINITY)),
        Elementwise::Unary(Unary::Clip { min, max }) => Some(Finish::Clip(min, max)),
        Elementwise::Unary(_)
        | Elementwise::Binary(_)
        | Elementwise::Where
        | Elementwise::Cast(_)
        | Elementwise::Share(_) => None,
    };
    // What is neither a limit nor a sum runs in a chain.
    match kind {
        Kind::Node | Kind::Chain => None,
        Kind::Lines(finish) => limit.filter(|_| finish == Finish::None).map(Kind::Lines),
        Kind::Product { tail, .. } if tail.finish != Finish::None => None,
        Kind::Product {
            node: product,
            lines,
            mut tail,
            addend,
        } => {
            let other = match (op, &node.inputs[..]) {
                (Elementwise::Binary(Binary::Add), &[a, b]) if addend.is_none() && a != b => {
                    Some(if a == value { b } else { a })
                }
                _ => None,
            };
            let fits = |other: ValueId| {
                graph.constant(other).is_none() && graph.shape(other) == graph.shape(node.output)
            };
            match (limit, other) {
                (Some(limit), _) => tail.finish = limit,
                (None, Some(other)) if fits(other) => tail.add = true,
                (None, _) => return None,
            }
            Some(Kind::Product {
                node: product,
                lines,
                tail,
                addend: other.or(addend),
            })
        }
    }
}

impl Unit {
    /// The value that the unit computes.
    pub(crate) fn output(&self, graph: &Graph) -> ValueId {
        graph.nodes()[self.last()].output
    }

    /// The node that has the unit's kernel: the product, or the first one.
    fn main(&self) -> usize {
        match self.kind {
            Kind::Product { node, .. } => node,
            Kind::Node | Kind::Chain | Kind::Lines(_) => self.nodes[0],
        }
    }

    /// Operator and name of the product, or of the first node.
    pub(crate) fn name(&self, graph: &Graph) -> String {
        let node = &graph.nodes()[self.main()];
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
        let node = &graph.nodes()[self.main()];
        let cx = Context {
            max_follows: max_follows[self.main()],
            ..context(graph, node, options, shared)
        };
        self.kernel(&cx).map_err(|error| NodeError {
            node: node.name.clone(),
            op_type: node.op.name().to_owned(),
            reason: NodeErrorKind::Op(error),
        })
    }

    fn kernel(&self, cx: &Context<'_>) -> Result<UnitKernel, OpError> {
        let (graph, node) = (cx.graph, cx.node);
        // What is read in place of the node's first input, and after all of them.
        let (mut first, mut behind) = (node.inputs.first().copied(), None);
        let prepared: NodeKernel = match self.kind {
            Kind::Chain => {
                let (chain, reads) = Chain::new(graph, &self.nodes)?;
                return Ok(UnitKernel {
                    kernel: Box::new(chain),
                    reads,
                });
            }
            Kind::Node => op::prepare(cx)?,
            Kind::Lines(finish) => op::prepare_lines(cx, finish)?,
            Kind::Product {
                lines,
                tail,
                addend,
                ..
            } => {
                let Role::Product(product) = op::role(&node.op) else {
                    return Err(OpError::invalid("it is no product"));
                };
                let lines = match lines {
                    None => None,
                    Some(finish) => {
                        let node = &graph.nodes()[self.nodes[0]];
                        first = node.inputs.first().copied();
                        Some(op::lines(&Context { node, ..*cx }, finish)?)
                    }
                };
                behind = addend;
                product.prepare(cx, lines, tail)?
            }
        };
        let read = |r: &usize| match *r {
            0 => first,
            r => node.inputs.get(r).copied().or(behind),
        };
        let reads = prepared
            .reads
            .iter()
            .map(read)
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
        let graph = npcov_graph::fold_batch_norm(graph).unwrap();
        let units = units(&graph, &Spots::of(&graph), Options::default());
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

    /// As in a DenseNet: `conv(relu(norm(x)))`, optionally with every value an output. The window has one
    /// element or `extent` of them.
    fn dense_layer(extent: usize, all_outputs: bool) -> Graph {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 70, 5, 7]));
        let mut inputs = vec![x];
        for seed in 2..5 {
            inputs.push(graph.add_constant("p", numbers(&[70], seed)));
        }
        let variance = numbers(&[70], 6).to_f32().iter().map(|x| x * x).collect();
        inputs.push(graph.add_constant("variance", Tensor::vector(variance)));
        let norm = Op::BatchNormalization(BatchNormalization { epsilon: 1e-3 });
        let n = graph.push("norm", norm, &inputs).unwrap();
        let r = graph.push("relu", Op::Unary(Unary::Relu), &[n]).unwrap();
        let conv = Op::Conv(Conv {
            window: Window::sized([extent; 2]),
            groups: 1,
        });
        let w = graph.add_constant("w", numbers(&[9, 70, extent, extent], 1));
        let y = graph.push("conv", conv, &[r, w]).unwrap();
        graph.set_outputs(match all_outputs {
            true => vec![y, r, n],
            false => vec![y],
        });
        graph
    }

    #[test]
    fn normalised_inputs_of_pointwise_convolutions_are_not_stored() {
        assert_eq!(unit_sizes(&dense_layer(1, false)), [3]);
        assert_eq!(unit_sizes(&dense_layer(2, false)), [2, 1]);
        assert_eq!(unit_sizes(&dense_layer(1, true)), [1, 1, 1]);
        let x = numbers(&[LANES, 70 * 35], 9);
        for extent in [1, 2] {
            let run = |all_outputs| {
                let graph = dense_layer(extent, all_outputs);
                let y = run_graph(&graph, Options::default(), &[x.as_f32().unwrap()]);
                y[0].iter().map(|y| y.to_bits()).collect::<Vec<_>>()
            };
            assert_eq!(run(false), run(true), "{extent}");
        }
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
