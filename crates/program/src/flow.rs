//! Which values the logits are explained by, and where all explanations pass.

use npcov_graph::op::{Binary, Recurrence};
use npcov_graph::{Graph, Node, Op, ValueId};

/// The inputs of a node that relevance passes to.
///
/// A product with a smaller tensor is a gate (squeeze-excitation): what is gated explains the
/// output, the gate does not; nor does what is divided by. The branches of a choice do, its
/// condition does not.
pub(crate) fn carriers(graph: &Graph, node: &Node) -> Vec<ValueId> {
    let varying = |inputs: &[ValueId]| -> Vec<ValueId> {
        let varies = |id: &ValueId| graph.constant(*id).is_none();
        inputs.iter().copied().filter(varies).collect()
    };
    let inputs = &node.inputs[..];
    match &node.op {
        Op::Binary(f) => match f {
            Binary::Mul => larger(graph, varying(inputs)),
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

/// The larger of two factors; both when they are equally large.
fn larger(graph: &Graph, factors: Vec<ValueId>) -> Vec<ValueId> {
    let numel = |id: &ValueId| graph.value(*id).ty.numel();
    let most = factors.iter().map(numel).max();
    let is_largest = |id: &ValueId| Some(numel(id)) == most;
    factors.into_iter().filter(is_largest).collect()
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
    use npcov_graph::op::{Reduce, ReduceKind, Unary};
    use npcov_graph::{DType, TensorType};

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
}
