//! Which values the logits are explained by, and where all explanations pass.

use std::cmp::Ordering;

use npcov_graph::op::{Binary, Recurrence, Unary};
use npcov_graph::{Graph, Node, Op, ValueId};

/// The inputs of a node that relevance passes to.
///
/// Of a product, what is [gated](gated_factor) explains the output, the gate does not; nor does what
/// is divided by. The branches of a choice do, its
/// condition does not.
pub(crate) fn carriers(graph: &Graph, node: &Node) -> Vec<ValueId> {
    let varying = |inputs: &[ValueId]| -> Vec<ValueId> {
        let varies = |id: &ValueId| graph.constant(*id).is_none();
        inputs.iter().copied().filter(varies).collect()
    };
    let inputs = &node.inputs[..];
    match &node.op {
        Op::Binary(f) => match f {
            Binary::Mul => match (varying(inputs), gated_factor(graph, node)) {
                (factors, Some(gated)) if factors.len() == 2 => vec![inputs[gated]],
                (factors, _) => factors,
            },
            // What is divided by is a scale, and so are an exponent and a slope.
            Binary::Div | Binary::Pow | Binary::PRelu => match varying(&inputs[..1])[..] {
                [a] => vec![a],
                _ => varying(inputs),
            },
            Binary::Add
            | Binary::Sub
            | Binary::Min
            | Binary::Max
            | Binary::Mod
            | Binary::Fmod
            | Binary::Equal
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual
            | Binary::And
            | Binary::Or
            | Binary::Xor => varying(inputs),
        },
        Op::Where => varying(&inputs[1..]),
        Op::Gather(_) | Op::GatherElements(_) => varying(&inputs[..1]),
        // Of a recurrent layer, the sequence and the state before its first step.
        Op::Composite(_) => match Recurrence::of(node).map(|op| op.arguments(inputs)) {
            Some(Ok(arguments)) => {
                let mut carriers = vec![arguments.x];
                carriers.extend(arguments.initial);
                varying(&carriers)
            }
            Some(Err(_)) | None => varying(inputs),
        },
        Op::Conv(_)
        | Op::ConvTranspose(_)
        | Op::Gemm(_)
        | Op::MatMul
        | Op::BatchNormalization(_)
        | Op::InstanceNormalization(_)
        | Op::LayerNormalization(_)
        | Op::Lrn(_)
        | Op::Unary(_)
        | Op::Cast(_)
        | Op::Pool(_)
        | Op::Reduce(_)
        | Op::ArgMax(_)
        | Op::Softmax(_)
        | Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Concat(_)
        | Op::Slice(_)
        | Op::Pad(_)
        | Op::Expand(_)
        | Op::Tile(_)
        | Op::Resize(_)
        | Op::ScatterSum(_) => varying(inputs),
    }
}

/// Which of two factors the other one is a gate of: the larger one (squeeze-excitation), and of equally
/// large ones the one that is no logistic function, where the other one is (a recurrent cell that is
/// written out).
pub(crate) fn gated_factor(graph: &Graph, node: &Node) -> Option<usize> {
    let &[a, b] = &node.inputs[..] else {
        return None;
    };
    let numel = |id: ValueId| graph.value(id).ty.numel();
    match numel(a).cmp(&numel(b)) {
        Ordering::Greater => Some(0),
        Ordering::Less => Some(1),
        Ordering::Equal => match (is_logistic(graph, a), is_logistic(graph, b)) {
            (true, false) => Some(1),
            (false, true) => Some(0),
            (true, true) | (false, false) => None,
        },
    }
}

/// Whether a value is a logistic function of something, some elements of it, or one minus it.
fn is_logistic(graph: &Graph, value: ValueId) -> bool {
    let Some(node) = graph.producer(value) else {
        return false;
    };
    if let Op::Unary(Unary::Sigmoid | Unary::HardSigmoid { .. }) = node.op {
        return true;
    }
    if let Op::Slice(_) | Op::Reshape(_) | Op::Transpose(_) | Op::Cast(_) = node.op {
        return is_logistic(graph, node.inputs[0]);
    }
    let from_one = |one: ValueId| {
        let numbers = graph.constant(one).and_then(|tensor| tensor.as_f32());
        numbers.is_some_and(|numbers| numbers.iter().all(|&x| x == 1.0))
    };
    node.op == Op::Binary(Binary::Sub)
        && from_one(node.inputs[0])
        && is_logistic(graph, node.inputs[1])
}

/// What lies between the graph's inputs and its logits.
pub(crate) struct Flow {
    /// By value: whether it lies on a path from an input to the logits.
    on_path: Vec<bool>,
    /// By value: whether every path crosses it.
    cut: Vec<bool>,
}

impl Flow {
    pub(crate) fn new(graph: &Graph, logits: ValueId) -> Flow {
        let count = graph.values().len();
        // Backwards from the logits...
        let mut needed = vec![false; count];
        needed[logits.index()] = true;
        for node in graph.nodes().iter().rev() {
            if needed[node.output.index()] {
                for v in carriers(graph, node) {
                    needed[v.index()] = true;
                }
            }
        }
        // ...and forwards from the inputs. `time` is the order of computation.
        let mut on_path = vec![false; count];
        let mut time = vec![0; count];
        for &input in graph.inputs() {
            on_path[input.index()] = needed[input.index()];
        }
        // For each value, the last moment at which a path that left before it arrives.
        let mut arrivals: Vec<(usize, usize)> = Vec::new();
        for (i, node) in graph.nodes().iter().enumerate() {
            let output = node.output.index();
            time[output] = i + 1;
            for v in carriers(graph, node) {
                if needed[output] && on_path[v.index()] {
                    on_path[output] = true;
                    arrivals.push((time[v.index()], i + 1));
                }
            }
        }
        // A value is crossed by every path unless some edge leaves before it and arrives after.
        let mut reach = vec![0; graph.nodes().len() + 1];
        for (from, to) in arrivals {
            reach[from] = reach[from].max(to);
        }
        for i in 1..reach.len() {
            reach[i] = reach[i].max(reach[i - 1]);
        }
        let sources = graph.inputs().iter().filter(|v| on_path[v.index()]).count();
        let cut = (0..count)
            .map(|v| match time[v] {
                _ if !on_path[v] => false,
                0 => sources == 1,
                t => reach[t - 1] <= t,
            })
            .collect();
        Flow { on_path, cut }
    }

    /// Whether the logits are explained through this value.
    pub(crate) fn is_on_path(&self, value: ValueId) -> bool {
        self.on_path[value.index()]
    }

    /// Whether every path from the inputs to the logits crosses this value.
    pub(crate) fn is_cut(&self, value: ValueId) -> bool {
        self.cut[value.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use npcov_graph::op::{Reduce, ReduceKind};
    use npcov_graph::{DType, Tensor, TensorType};

    /// `x -> a -> (b, c) -> b + c -> d`
    #[test]
    fn branches_are_no_cuts() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 4]));
        let unary = |graph: &mut Graph, x| graph.push("u", Op::Unary(Unary::Relu), &[x]).unwrap();
        let a = unary(&mut graph, x);
        let b = unary(&mut graph, a);
        let c = unary(&mut graph, a);
        let s = graph.push("s", Op::Binary(Binary::Add), &[b, c]).unwrap();
        let d = unary(&mut graph, s);
        let flow = Flow::new(&graph, d);
        let cuts: Vec<bool> = [x, a, b, c, s, d].iter().map(|&v| flow.is_cut(v)).collect();
        assert_eq!(cuts, [true, true, false, false, true, true]);
    }

    /// A skip over the second activation: `x -> a -> b`, `a + b`.
    #[test]
    fn a_skip_makes_what_it_skips_no_cut() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 4]));
        let a = graph.push("a", Op::Unary(Unary::Relu), &[x]).unwrap();
        let b = graph.push("b", Op::Unary(Unary::Relu), &[a]).unwrap();
        let s = graph.push("s", Op::Binary(Binary::Add), &[a, b]).unwrap();
        let flow = Flow::new(&graph, s);
        assert!(flow.is_cut(a) && !flow.is_cut(b) && flow.is_cut(s));
    }

    /// A map divided by its own size.
    #[test]
    fn scales_are_not_on_a_path() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 4]));
        let h = graph.push("h", Op::Unary(Unary::Relu), &[x]).unwrap();
        let s = graph.push("s", Op::Unary(Unary::Exp), &[h]).unwrap();
        let y = graph.push("y", Op::Binary(Binary::Div), &[h, s]).unwrap();
        let flow = Flow::new(&graph, y);
        assert!(flow.is_cut(h) && !flow.is_on_path(s));
    }

    /// Squeeze-excitation: the gate is computed from the map it scales.
    #[test]
    fn gates_are_not_on_a_path() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 4, 2, 2]));
        let h = graph.push("h", Op::Unary(Unary::Relu), &[x]).unwrap();
        let mean = Op::Reduce(Reduce {
            kind: ReduceKind::Mean,
            axes: vec![2, 3],
            keep_dims: true,
        });
        let m = graph.push("m", mean, &[h]).unwrap();
        let g = graph.push("g", Op::Unary(Unary::Sigmoid), &[m]).unwrap();
        let y = graph.push("y", Op::Binary(Binary::Mul), &[h, g]).unwrap();
        let flow = Flow::new(&graph, y);
        assert!(flow.is_on_path(h) && !flow.is_on_path(g));
        assert!(flow.is_cut(h));
    }

    /// `z tanh(x) + (1 - z) x` with a gate `z` of the same size, as a written-out GRU has it.
    #[test]
    fn logistic_factors_are_gates() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 4]));
        let unary = |graph: &mut Graph, f, x| graph.push("u", Op::Unary(f), &[x]).unwrap();
        let binary = |graph: &mut Graph, f, a, b| graph.push("b", Op::Binary(f), &[a, b]).unwrap();
        let z = unary(&mut graph, Unary::Sigmoid, x);
        let t = unary(&mut graph, Unary::Tanh, x);
        let one = graph.add_constant("one", Tensor::scalar(1.0));
        let rest = binary(&mut graph, Binary::Sub, one, z);
        let new = binary(&mut graph, Binary::Mul, z, t);
        let old = binary(&mut graph, Binary::Mul, x, rest);
        let y = binary(&mut graph, Binary::Add, new, old);
        let flow = Flow::new(&graph, y);
        assert!(flow.is_on_path(t) && !flow.is_on_path(z) && !flow.is_on_path(rest));
        // Of two logistic functions, none is the gate.
        let both = binary(&mut graph, Binary::Mul, z, rest);
        let node = graph.producer(both).unwrap();
        assert_eq!(gated_factor(&graph, node), None);
    }
}
