//! In which order nodes are computed.

use npcov_graph::{Graph, OpError, Rewriter};

/// The same graph with nodes that shrink their inputs (a channel's mean, a pool) moved to where
/// these become known: the smaller value then waits in memory, not the larger one. Programs append
/// such nodes at their end.
pub(crate) fn early(graph: &Graph) -> Result<Graph, OpError> {
    let consumers = graph.consumers();
    let numel = |v: npcov_graph::ValueId| graph.value(v).ty.numel();
    let shrinks: Vec<bool> = graph
        .nodes()
        .iter()
        .map(|node| {
            let varying = node.inputs.iter().filter(|&&v| graph.constant(v).is_none());
            varying.map(|&v| numel(v)).max() > Some(numel(node.output))
        })
        .collect();
    // How many inputs of each node are still to come.
    let mut missing: Vec<usize> = graph
        .nodes()
        .iter()
        .map(|node| {
            let mut computed: Vec<_> = node
                .inputs
                .iter()
                .filter(|&&v| graph.producer(v).is_some())
                .collect();
            computed.sort_unstable();
            computed.dedup();
            computed.len()
        })
        .collect();
    let mut rewriter = Rewriter::new(graph);
    let mut is_done = vec![false; graph.nodes().len()];
    let mut stack = Vec::new();
    for first in 0..graph.nodes().len() {
        stack.push(first);
        while let Some(position) = stack.pop() {
            if std::mem::replace(&mut is_done[position], true) {
                continue;
            }
            let node = &graph.nodes()[position];
            rewriter.copy(node)?;
            // The first one on top.
            for &next in consumers[node.output.index()].iter().rev() {
                missing[next] -= 1;
                if missing[next] == 0 && shrinks[next] {
                    stack.push(next);
                }
            }
        }
    }
    rewriter.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use npcov_graph::op::{Reduce, ReduceKind, Unary};
    use npcov_graph::{DType, Op, TensorType};

    #[test]
    fn what_shrinks_comes_early() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 4, 2, 2]));
        let a = graph.push("a", Op::Unary(Unary::Relu), &[x]).unwrap();
        let b = graph.push("b", Op::Unary(Unary::Tanh), &[a]).unwrap();
        let c = graph.push("c", Op::Unary(Unary::Exp), &[b]).unwrap();
        let sum = Op::Reduce(Reduce {
            kind: ReduceKind::Sum,
            axes: vec![2, 3],
            keep_dims: false,
        });
        let mean_b = graph.push("sum b", sum.clone(), &[b]).unwrap();
        let mean_a = graph.push("sum a", sum, &[a]).unwrap();
        graph.set_outputs(vec![c, mean_a, mean_b]);
        let names: Vec<String> = early(&graph)
            .unwrap()
            .nodes()
            .iter()
            .map(|n| n.name.clone())
            .collect();
        assert_eq!(names, ["a", "sum a", "b", "sum b", "c"]);
    }
}
