//! Values that stand in the place of others, so that nothing is computed to have them.
//!
//! A reshape is its input under another shape. A concatenation along the first axis that has an extent is its
//! inputs one after the other: they are written where they belong in it. One that repeats the beginning of
//! another, as each layer of a DenseNet does, is a part of the same place. Any other concatenation is copied
//! together by a kernel.

use std::collections::HashSet;

use npcov_graph::{Graph, Node, Op, ValueId};

use crate::native::op::{self, Role};
use crate::native::pack::LANES;

/// Where the values of a graph stand.
pub(crate) struct Spots {
    /// For each value that stands in the place of another one, that one and how far from its beginning.
    homes: Vec<Option<(usize, usize)>>,
    /// For each node, whether its output is there without a step.
    free: Vec<bool>,
}

impl Spots {
    pub(crate) fn of(graph: &Graph) -> Spots {
        let mut spots = Spots {
            homes: vec![None; graph.values().len()],
            free: vec![false; graph.nodes().len()],
        };
        for (position, node) in graph.nodes().iter().enumerate() {
            if matches!(op::role(&node.op), Role::Alias) {
                spots.homes[node.output.index()] = Some(spots.spot(node.inputs[0]));
                spots.free[position] = true;
            }
        }
        // The last ones first: earlier ones are their beginnings.
        for (position, node) in graph.nodes().iter().enumerate().rev() {
            if let Op::Concat(axis) = node.op
                && graph.shape(node.output)[..axis].iter().all(|&e| e == 1)
            {
                spots.free[position] = spots.join(graph, node);
            }
        }
        spots.shorten();
        spots
    }

    /// Makes all ways one step long: graphs may be chains.
    fn shorten(&mut self) {
        let mut way = Vec::new();
        for value in 0..self.homes.len() {
            let mut end = value;
            while let Some((home, _)) = self.homes[end] {
                way.push(end);
                end = home;
            }
            let mut offset = 0;
            for at in way.drain(..).rev() {
                offset += self.homes[at].map_or(0, |(_, further)| further);
                self.homes[at] = Some((end, offset));
            }
        }
    }

    /// The value in whose place a value stands, and how far from its beginning.
    pub(crate) fn spot(&self, value: ValueId) -> (usize, usize) {
        let (mut at, mut offset) = (value.index(), 0);
        while let Some((home, further)) = self.homes[at] {
            (at, offset) = (home, offset + further);
        }
        (at, offset)
    }

    /// Whether the output of the node at a position is there without a step.
    pub(crate) fn is_free(&self, position: usize) -> bool {
        self.free[position]
    }

    /// Has the inputs of a concatenation stand one after the other, if they can. Each begins at a cache line.
    fn join(&mut self, graph: &Graph, node: &Node) -> bool {
        let whole = node.output.index();
        let len = |value: ValueId| graph.value(value).ty.numel();
        let mut end = 0;
        let starts: Vec<usize> = (node.inputs.iter())
            .map(|&input| {
                end += len(input);
                end - len(input)
            })
            .collect();
        let spots: Vec<(usize, usize)> = node.inputs.iter().map(|&v| self.spot(v)).collect();
        if self.homes[whole].is_none()
            && let Some(&(home, base)) = spots.first()
            && home != whole
            && (spots.iter().zip(&starts)).all(|(spot, start)| *spot == (home, base + start))
        {
            self.homes[whole] = Some((home, base));
            return true;
        }
        let (within, before) = self.spot(node.output);
        let can_move = |i: usize| {
            let (home, offset) = spots[i];
            let value = &graph.values()[home];
            offset == 0
                && value.ty.numel() == len(node.inputs[i])
                && value.constant.is_none()
                && starts[i].is_multiple_of(LANES)
                && home != within
        };
        let mut moved = HashSet::new();
        if end == 0 || !(0..spots.len()).all(|i| can_move(i) && moved.insert(spots[i].0)) {
            return false;
        }
        for ((home, _), start) in spots.into_iter().zip(starts) {
            self.homes[home] = Some((within, before + start));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use npcov_graph::op::Unary;
    use npcov_graph::{DType, Tensor, TensorType};

    fn relu(graph: &mut Graph, x: ValueId) -> ValueId {
        graph.push("relu", Op::Unary(Unary::Relu), &[x]).unwrap()
    }

    fn concat(graph: &mut Graph, inputs: &[ValueId]) -> ValueId {
        graph.push("concat", Op::Concat(1), inputs).unwrap()
    }

    fn image(graph: &mut Graph, channels: usize) -> ValueId {
        let shape = [1, channels, 4, 4];
        graph.add_input(format!("x{channels}"), TensorType::new(DType::F32, shape))
    }

    /// As in a DenseNet: each layer sees the concatenation of all before it.
    #[test]
    fn beginnings_of_a_concatenation_are_parts_of_it() {
        let mut graph = Graph::new();
        let mut features = vec![image(&mut graph, 3)];
        let mut joined = Vec::new();
        for _ in 0..3 {
            joined.push(concat(&mut graph, &features));
            let next = relu(&mut graph, joined[joined.len() - 1]);
            features.push(next);
        }
        let whole = concat(&mut graph, &features);
        let flat = Op::Reshape(vec![1, 24 * 16]);
        let flat = graph.push("flat", flat, &[whole]).unwrap();
        graph.set_outputs(vec![flat]);
        let spots = Spots::of(&graph);
        // 3 + 3 + 6 + 12 channels of sixteen elements.
        let ends = [0, 48, 96, 192];
        for (feature, end) in features.iter().zip(ends) {
            assert_eq!(spots.spot(*feature), (whole.index(), end));
        }
        for value in joined.into_iter().chain([whole, flat]) {
            assert_eq!(spots.spot(value), (whole.index(), 0));
        }
        for (position, node) in graph.nodes().iter().enumerate() {
            let computed = matches!(node.op, Op::Unary(_));
            assert_eq!(spots.is_free(position), !computed);
        }
    }

    #[test]
    fn a_part_of_a_part_stands_within_both() {
        let mut graph = Graph::new();
        let (a, b, c) = (
            image(&mut graph, 1),
            image(&mut graph, 2),
            image(&mut graph, 3),
        );
        let inner = concat(&mut graph, &[a, b]);
        let outer = concat(&mut graph, &[c, inner]);
        graph.set_outputs(vec![outer]);
        let spots = Spots::of(&graph);
        for (value, offset) in [(c, 0), (inner, 48), (a, 48), (b, 64)] {
            assert_eq!(spots.spot(value), (outer.index(), offset));
        }
    }

    /// Ways to where values stand do not become longer with the graph.
    #[test]
    fn chains_stand_where_their_ends_do() {
        let mut graph = Graph::new();
        let x = image(&mut graph, 1);
        let mut values = vec![x];
        for _ in 0..20 {
            let joined = concat(&mut graph, &values[values.len() - 1..]);
            let shape = Op::Reshape(vec![1, 1, 4, 4]);
            values.extend([joined, graph.push("r", shape, &[joined]).unwrap()]);
        }
        graph.set_outputs(values[40..].to_vec());
        let spots = Spots::of(&graph);
        let places: HashSet<_> = values.iter().map(|&value| spots.spot(value)).collect();
        assert_eq!(places.len(), 1);
        for (home, _) in spots.homes.iter().flatten() {
            assert_eq!(spots.homes[*home], None);
        }
    }

    #[test]
    fn what_cannot_stand_there_is_copied() {
        let mut graph = Graph::new();
        let (a, b) = (image(&mut graph, 1), image(&mut graph, 2));
        let constant = graph.add_constant(
            "c",
            Tensor::new([1, 1, 4, 4], npcov_graph::Data::F32(vec![1.0; 16])).unwrap(),
        );
        // Twice the same, a constant, two that differ in what comes first, rows of more than one channel.
        let copied = [
            concat(&mut graph, &[a, a]),
            concat(&mut graph, &[a, constant]),
            graph.push("rows", Op::Concat(2), &[b, b]).unwrap(),
        ];
        let first = concat(&mut graph, &[a, b]);
        let second = concat(&mut graph, &[b, a]);
        graph.set_outputs(vec![first, second]);
        let spots = Spots::of(&graph);
        for value in copied.into_iter().chain([first, second]) {
            let joined = value == second;
            let position = graph.nodes().iter().position(|n| n.output == value);
            assert_eq!(spots.is_free(position.unwrap()), joined);
            assert_eq!(spots.spot(value), (value.index(), 0));
        }
    }

    /// An odd number of elements would begin the next one in the middle of a pack.
    #[test]
    fn parts_begin_at_cache_lines() {
        let mut graph = Graph::new();
        let row = TensorType::new(DType::F32, [1, 5]);
        let (a, b) = (graph.add_input("a", row.clone()), graph.add_input("b", row));
        let both = concat(&mut graph, &[a, b]);
        graph.set_outputs(vec![both]);
        assert!(!Spots::of(&graph).is_free(0));
    }
}
