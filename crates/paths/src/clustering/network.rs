//! Points joined by edges with weights.

use crate::neighbours::Neighbour;

/// What an edge between points with equal neighbourhoods weighs.
pub(super) const WHOLE: f64 = 65536.0;

/// An undirected network. Every edge is there twice, once from each end.
///
/// Weights are whole numbers, far below 2^53 all together: sums of them are exact, in any order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Network {
    /// Where the edges of each node begin; their number at the end.
    starts: Vec<usize>,
    /// The other end of each edge, and its weight.
    edges: Vec<(u32, f64)>,
    /// The weights of each node's edges together; of an edge within a node, both ends.
    pub(super) strengths: Vec<f64>,
    /// All strengths together: twice the weight of all edges.
    pub(super) total: f64,
}

impl Network {
    /// Of edges, each from one end and in any order, and the weight that is within each node. Edges of
    /// the same ends become one.
    pub(super) fn new(within: &[f64], mut edges: Vec<(u32, u32, f64)>) -> Network {
        let mirrored: Vec<_> = edges.iter().map(|&(a, b, weight)| (b, a, weight)).collect();
        edges.extend(mirrored);
        edges.sort_unstable_by_key(|&(a, b, _)| (a, b));
        let mut network = Network {
            starts: vec![0],
            edges: Vec::with_capacity(edges.len()),
            strengths: within.iter().map(|weight| 2.0 * weight).collect(),
            total: 0.0,
        };
        let mut of_nodes = edges.chunk_by(|a, b| a.0 == b.0).peekable();
        for (node, strength) in network.strengths.iter_mut().enumerate() {
            if let Some(of_node) = of_nodes.next_if(|edges| edges[0].0 as usize == node) {
                for parallel in of_node.chunk_by(|a, b| a.1 == b.1) {
                    let weight = parallel.iter().map(|edge| edge.2).sum();
                    network.edges.push((parallel[0].1, weight));
                    *strength += weight;
                }
            }
            network.starts.push(network.edges.len());
        }
        network.total = network.strengths.iter().sum();
        network
    }

    /// Each row is joined to its nearest ones.
    ///
    /// With `N(i)` the row `i` and its nearest rows, an edge joins `i` and `j` if `j` is in `N(i)` or `i`
    /// in `N(j)`, and weighs what both sets share, of what they have together (the Jaccard index, as in
    /// PhenoGraph, Levine et al. 2015), in whole parts of 65536. The row itself counts, so that every
    /// such edge weighs something.
    pub(super) fn of_neighbours(nearest: &[Vec<Neighbour>]) -> Network {
        let sets: Vec<Vec<u32>> = nearest
            .iter()
            .enumerate()
            .map(|(row, nearest)| {
                let mut set: Vec<u32> = nearest.iter().map(|neighbour| neighbour.row).collect();
                set.push(row as u32);
                set.sort_unstable();
                set
            })
            .collect();
        let mut edges = Vec::new();
        for (i, set) in sets.iter().enumerate() {
            for &j in set {
                let other = &sets[j as usize];
                // One that both ends name is taken from the lower.
                let named_twice = other.binary_search(&(i as u32)).is_ok();
                if j as usize == i || named_twice && (j as usize) < i {
                    continue;
                }
                let shared = set
                    .iter()
                    .filter(|row| other.binary_search(row).is_ok())
                    .count();
                let united = set.len() + other.len() - shared;
                let weight = (WHOLE * shared as f64 / united as f64).round();
                edges.push((i as u32, j, weight));
            }
        }
        Network::new(&vec![0.0; sets.len()], edges)
    }

    /// Number of nodes.
    pub(super) fn len(&self) -> usize {
        self.strengths.len()
    }

    /// The other ends of a node's edges, with weights.
    pub(super) fn edges(&self, node: usize) -> &[(u32, f64)] {
        &self.edges[self.starts[node]..self.starts[node + 1]]
    }

    /// The network of groups: a node for each, which holds the edges within it.
    pub(super) fn aggregate(&self, groups: &[u32], count: usize) -> Network {
        // Weights within a group: what its nodes have within, and the edges between them.
        let mut within = vec![0.0; count];
        let mut edges = Vec::new();
        for node in 0..self.len() {
            let group = groups[node];
            let mut outside = 0.0;
            for &(other, weight) in self.edges(node) {
                outside += weight;
                let to = groups[other as usize];
                if (other as usize) < node {
                    continue;
                }
                if to == group {
                    within[group as usize] += weight;
                } else {
                    edges.push((group, to, weight));
                }
            }
            within[group as usize] += (self.strengths[node] - outside) / 2.0;
        }
        Network::new(&within, edges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest(rows: &[u32]) -> Vec<Neighbour> {
        let neighbour = |&row: &u32| Neighbour { row, squared: 0 };
        rows.iter().map(neighbour).collect()
    }

    #[test]
    fn edges_weigh_what_neighbourhoods_share() {
        // Sets: {0, 1, 2}, {0, 1, 2}, {1, 2, 3}, {1, 2, 3}.
        let lists = [[1, 2], [0, 2], [1, 3], [1, 2]].map(|rows| nearest(&rows));
        let network = Network::of_neighbours(&lists);
        assert_eq!(network.edges(0), [(1, WHOLE), (2, WHOLE / 2.0)]);
        // 3 names 1, which does not name it: two of four.
        let half = WHOLE / 2.0;
        assert_eq!(network.edges(1), [(0, WHOLE), (2, half), (3, half)]);
        assert_eq!(network.edges(2), [(0, half), (1, half), (3, WHOLE)]);
        assert_eq!(network.edges(3), [(1, half), (2, WHOLE)]);
        assert_eq!(network.strengths, [1.5, 2.0, 2.0, 1.5].map(|s| s * WHOLE));
        assert_eq!(network.total, 7.0 * WHOLE);
    }

    #[test]
    fn groups_keep_all_weight() {
        let edges = vec![(0, 1, 3.0), (1, 2, 5.0), (3, 2, 7.0), (0, 3, 2.0)];
        let network = Network::new(&[0.0, 1.0, 0.0, 0.0, 4.0], edges);
        assert_eq!(network.strengths, [5.0, 10.0, 12.0, 9.0, 8.0]);
        let groups = network.aggregate(&[0, 0, 1, 1, 2], 3);
        assert_eq!(groups.edges(0), [(1, 7.0)]);
        assert_eq!(groups.strengths, [15.0, 21.0, 8.0]);
        assert_eq!(groups.total, network.total);
        let one = groups.aggregate(&[0, 0, 0], 1);
        assert_eq!((one.edges(0).len(), one.strengths[0]), (0, network.total));
    }

    #[test]
    fn nothing_has_no_edges() {
        assert_eq!(Network::of_neighbours(&[]).total, 0.0);
        let alone = Network::of_neighbours(&[vec![]]);
        assert_eq!((alone.len(), alone.total), (1, 0.0));
    }
}
