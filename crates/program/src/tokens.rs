//! Inputs that are the numbers of tokens: positions in a table of embeddings.

use npcov_graph::{DType, Graph, Op, ValueId};

/// How many tokens a model knows, for an input that holds their numbers: the rows of the smallest
/// table that is looked up by the input as it is. `None` when the input holds something else.
pub fn known_tokens(graph: &Graph, input: ValueId) -> Option<usize> {
    if graph.value(input).ty.dtype != DType::I64 {
        return None;
    }
    let mut holds = vec![false; graph.values().len()];
    holds[input.index()] = true;
    let mut known: Option<usize> = None;
    for node in graph.nodes() {
        let holds_first = node.inputs.first().is_some_and(|v| holds[v.index()]);
        let is_moved = matches!(
            node.op,
            Op::Cast(_)
                | Op::Reshape(_)
                | Op::Transpose(_)
                | Op::Slice(_)
                | Op::Expand(_)
                | Op::Tile(_)
        );
        holds[node.output.index()] = holds_first && is_moved;
        if let Op::Gather(gather) = &node.op
            && let [table, indices] = node.inputs[..]
            && graph.constant(table).is_some()
            && holds[indices.index()]
        {
            let rows = graph.shape(table)[gather.axis];
            known = Some(known.map_or(rows, |known| known.min(rows)));
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;
    use npcov_graph::op::{Binary, Gather};
    use npcov_graph::{Tensor, TensorType};

    #[test]
    fn tables_that_are_looked_up_by_the_input_tell() {
        let mut graph = Graph::new();
        let ids = graph.add_input("ids", TensorType::new(DType::I64, [1, 3]));
        let table = |graph: &mut Graph, rows: usize| {
            let tensor = Tensor::vector(vec![0.0; rows]).reshaped([rows, 1]).unwrap();
            graph.add_constant("table", tensor)
        };
        let (words, short) = (table(&mut graph, 9), table(&mut graph, 2));
        let gather = || Op::Gather(Gather { axis: 0 });
        let row = graph.push("row", Op::Reshape(vec![3]), &[ids]).unwrap();
        graph.push("words", gather(), &[words, row]).unwrap();
        assert_eq!(known_tokens(&graph, ids), Some(9));
        // What is computed from the numbers is another number.
        let one = graph.add_constant("one", Tensor::ints(vec![1]));
        let next = graph
            .push("next", Op::Binary(Binary::Mod), &[ids, one])
            .unwrap();
        graph.push("short", gather(), &[short, next]).unwrap();
        assert_eq!(known_tokens(&graph, ids), Some(9));
        let x = graph.add_input("x", TensorType::new(DType::F32, [1]));
        assert_eq!(known_tokens(&graph, x), None);
    }
}
