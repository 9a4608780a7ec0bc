//! Which values the logits are explained by, and where all explanations pass.

use std::cmp::Ordering;

use npcov_graph::op::{Binary, Recurrence, Unary};
use npcov_graph::{Graph, Node, Op, ValueId};

use crate::attention::attention_weights;
use crate::flooding::is_flood;

/// Which inputs of each node relevance passes to.
///
/// Of a product, what is [gated](gated_factor) explains the output, the gate does not; nor do weights
/// of attention, nor what is divided by. The branches of a choice do, its condition does not. A row of a table that is looked up explains by its index.
pub(crate) struct Carriers {
    /// By position of a node: the positions among its inputs.
    by_node: Vec<Vec<usize>>,
}

impl Carriers {
    pub(crate) fn new(graph: &Graph) -> Carriers {
        let weights = attention_weights(graph);
        let mut reached = vec![false; graph.values().len()];
        for input in graph.inputs() {
            reached[input.index()] = true;
        }
        let mut by_node = Vec::with_capacity(graph.nodes().len());
        for node in graph.nodes() {
            let mut carriers = carriers(graph, node, &weights);
            // Masks are made of truth values, which relevance does not pass.
            if carriers.iter().any(|&i| reached[node.inputs[i].index()]) {
                carriers.retain(|&i| reached[node.inputs[i].index()]);
                reached[node.output.index()] = true;
            }
            by_node.push(carriers);
        }
        Carriers { by_node }
    }

    /// The positions among the inputs of the node at a position.
    pub(crate) fn of(&self, node: usize) -> &[usize] {
        &self.by_node[node]
    }
}

fn carriers(graph: &Graph, node: &Node, weights: &[bool]) -> Vec<usize> {
    let inputs = &node.inputs[..];
    let varying = |places: std::ops::Range<usize>| -> Vec<usize> {
        let varies = |&i: &usize| inputs.get(i).is_some_and(|&v| graph.constant(v).is_none());
        places.filter(varies).collect()
    };
    let all = || varying(0..inputs.len());
    // What is weighted, where one of two factors holds weights of attention.
    let weighted = || {
        let is_weight = |i: &usize| weights[inputs[*i].index()];
        match all()[..] {
            [a, b] if is_weight(&a) && !is_weight(&b) => Some(vec![b]),
            [a, b] if is_weight(&b) && !is_weight(&a) => Some(vec![a]),
            _ => None,
        }
    };
    match &node.op {
        Op::Binary(f) => match f {
            Binary::Mul => weighted().unwrap_or_else(|| match gated_factor(graph, node) {
                Some(gated) if all().len() == 2 => vec![gated],
                _ => all(),
            }),
            // What is divided by is a scale, and so are an exponent and a slope.
            Binary::Div | Binary::Pow | Binary::PRelu => match varying(0..1)[..] {
                [a] => vec![a],
                _ => all(),
            },
            Binary::Add | Binary::Sub | Binary::Min | Binary::Max | Binary::Mod | Binary::Fmod => {
                all()
            }
            Binary::Equal
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual
            | Binary::And
            | Binary::Or
            | Binary::Xor => Vec::new(),
        },
        Op::MatMul => weighted().unwrap_or_else(all),
        Op::Where => varying(1..inputs.len()),
        Op::Gather(_) => match &varying(0..1)[..] {
            [] => varying(1..2),
            data => data.to_vec(),
        },
        Op::GatherElements(_) => varying(0..1),
        Op::ArgMax(_) | Op::TopK(_) => Vec::new(),
        Op::Composite(op) if is_flood(op) => Vec::new(),
        // Of a recurrent layer, the sequence and the state before its first step.
        Op::Composite(_) => match Recurrence::of(node).map(|op| op.arguments(inputs)) {
            Some(Ok(arguments)) => {
                let carries =
                    |i: &usize| inputs[*i] == arguments.x || arguments.initial == Some(inputs[*i]);
                all().into_iter().filter(carries).collect()
            }
            Some(Err(_)) | None => all(),
        },
        Op::Conv(_)
        | Op::ConvTranspose(_)
        | Op::Gemm(_)
        | Op::BatchNormalization(_)
        | Op::InstanceNormalization(_)
        | Op::LayerNormalization(_)
        | Op::Lrn(_)
        | Op::Unary(_)
        | Op::Cast(_)
        | Op::Pool(_)
        | Op::Reduce(_)
        | Op::Softmax(_)
        | Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Concat(_)
        | Op::Slice(_)
        | Op::Pad(_)
        | Op::Expand(_)
        | Op::Tile(_)
        | Op::Resize(_)
        | Op::ScatterSum(_) => all(),
    }
}

/// The value before it was spread over axes.
fn unspread(graph: &Graph, value: ValueId) -> ValueId {
    let mut value = value;
    while let Some(node) = graph.producer(value)
        && let Op::Expand(_) | Op::Tile(_) | Op::Cast(_) = node.op
        && let Some(&before) = node.inputs.first()
    {
        value = before;
    }
    value
}

/// Which of two factors the other one is a gate of: the larger one (squeeze-excitation), and of equally
/// large ones the one that is no logistic function, where the other one is (a recurrent cell that is
/// written out). What was spread over axes counts as it was before.
pub(crate) fn gated_factor(graph: &Graph, node: &Node) -> Option<usize> {
    let &[a, b] = &node.inputs[..] else {
        return None;
    };
    let numel = |id: ValueId| graph.value(unspread(graph, id)).ty.numel();
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
        let carriers = Carriers::new(graph);
        // Backwards from the logits...
        let mut needed = vec![false; count];
        needed[logits.index()] = true;
        for (position, node) in graph.nodes().iter().enumerate().rev() {
            if needed[node.output.index()] {
                for &i in carriers.of(position) {
                    needed[node.inputs[i].index()] = true;
                }
            }
        }
        // ...and forwards from the inputs. `time` is the order of computation.
        let mut on_path = vec![false; count];
        let mut time = vec![0; count];
        for input in sources(graph, &carriers, &needed) {
            on_path[input.index()] = true;
        }
        // For each value, the last moment at which a path that left before it arrives.
        let mut arrivals: Vec<(usize, usize)> = Vec::new();
        for (i, node) in graph.nodes().iter().enumerate() {
            let output = node.output.index();
            time[output] = i + 1;
            if on_path[output] {
                time[output] = 0;
            }
            for &carrier in carriers.of(i) {
                let v = node.inputs[carrier];
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
        let on_paths = (0..count).filter(|&v| on_path[v] && time[v] == 0).count();
        let cut = (0..count)
            .map(|v| match time[v] {
                _ if !on_path[v] => false,
                // The one source that there is.
                0 => on_paths == 1,
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

/// Where explanations end: the inputs. Where relevance reaches none of them, because all that the model looks at are
/// truth values (one-hot columns), the values that it ends at.
fn sources(graph: &Graph, carriers: &Carriers, needed: &[bool]) -> Vec<ValueId> {
    let is_needed = |value: &ValueId| needed[value.index()];
    let inputs: Vec<ValueId> = graph.inputs().iter().copied().filter(is_needed).collect();
    if !inputs.is_empty() {
        return inputs;
    }
    let ends = |&(position, node): &(usize, &Node)| {
        let is_end = carriers.of(position).is_empty();
        is_end && needed[node.output.index()] && graph.constant(node.output).is_none()
    };
    let nodes = graph.nodes().iter().enumerate().filter(ends);
    nodes.map(|(_, node)| node.output).collect()
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

    /// `relu(x > 0)`: nothing of the input carries relevance, and the activation is a layer all the same.
    #[test]
    fn explanations_end_at_truth_values() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 4]));
        let zero = graph.add_constant("zero", npcov_graph::Tensor::scalar(0.0));
        let is = Op::Binary(Binary::Greater);
        let is = graph.push("is", is, &[x, zero]).unwrap();
        let number = graph.push("n", Op::Cast(DType::F32), &[is]).unwrap();
        let h = graph.push("h", Op::Unary(Unary::Relu), &[number]).unwrap();
        let y = graph.push("y", Op::Unary(Unary::Tanh), &[h]).unwrap();
        let flow = Flow::new(&graph, y);
        assert!(!flow.is_on_path(x));
        assert!(flow.is_cut(is) && flow.is_cut(h) && flow.is_cut(y));
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

    /// Tokens that count are kept by a mask that was made of truth values, or spread over features.
    #[test]
    fn masks_are_not_on_a_path() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 3, 4]));
        let mask = graph.add_input("mask", TensorType::new(DType::F32, [1, 3, 1]));
        let wide = graph.push("e", Op::Expand(vec![1, 3, 4]), &[mask]).unwrap();
        let kept = graph
            .push("k", Op::Binary(Binary::Mul), &[x, wide])
            .unwrap();
        let zero = graph.add_constant("zero", npcov_graph::Tensor::scalar(0.0));
        let is = graph
            .push("is", Op::Binary(Binary::Equal), &[x, zero])
            .unwrap();
        let is = graph.push("f", Op::Cast(DType::F32), &[is]).unwrap();
        let y = graph
            .push("y", Op::Binary(Binary::Mul), &[is, kept])
            .unwrap();
        let flow = Flow::new(&graph, y);
        assert!(flow.is_on_path(x) && flow.is_cut(kept));
        assert!(!flow.is_on_path(mask) && !flow.is_on_path(is));
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
