//! Communities of a network: groups of nodes with more edges among them than chance would give.
//!
//! The Leiden algorithm (Traag, Waltman and van Eck 2019) for modularity with a resolution `g`
//! (Reichardt and Bornholdt 2006). With `E(A, B)` the weight between two groups, `K(A)` the strengths of
//! a group's nodes together and `M` those of all, the quality of a partition is
//!
//! ```text
//! sum over communities C of  E(C, C) - g K(C)^2 / (2 M),
//! ```
//!
//! where `E(C, C)` counts every edge once, and a node `v` outside of `C` that joins it adds
//!
//! ```text
//! E(v, C) - g K(v) K(C) / M.
//! ```
//!
//! One round moves nodes to the communities where they add most, until none wants to move. Then every
//! community is looked at by itself, and divided into parts that hold together; the parts become the
//! nodes of a smaller network, in which whole parts move in the next step. So no community falls
//! apart when a node that held it together has left, as communities of Louvain's algorithm may. Rounds
//! are repeated, each from the communities of the last, until one adds nothing.

use std::collections::VecDeque;

use super::network::Network;
use crate::random::Generator;

/// Less than this is no gain: rounding can make as much. Weights are whole numbers.
const MARGIN: f64 = 0.01;

/// The community of each node, as numbers from 0 on without gaps.
pub(super) fn communities(network: &Network, resolution: f64, random: &mut Generator) -> Vec<u32> {
    let mut membership: Vec<u32> = (0..network.len() as u32).collect();
    // Nodes without any edge are on their own.
    if network.total <= 0.0 {
        return membership;
    }
    loop {
        let before = quality(network, resolution, &membership);
        membership = round(network, resolution, membership, random);
        if quality(network, resolution, &membership) <= before + MARGIN {
            return membership;
        }
    }
}

/// How good a partition is.
pub(super) fn quality(network: &Network, resolution: f64, membership: &[u32]) -> f64 {
    let groups = network.aggregate(membership, count(membership));
    let of_group = |group: usize| {
        let edges = groups.edges(group).iter();
        let outside: f64 = edges.map(|&(_, weight)| weight).sum();
        let strength = groups.strengths[group];
        (strength - outside - resolution * strength * strength / network.total) / 2.0
    };
    (0..groups.len()).map(of_group).sum()
}

/// One round, from the communities of the last.
fn round(
    network: &Network,
    resolution: f64,
    mut membership: Vec<u32>,
    random: &mut Generator,
) -> Vec<u32> {
    // The node of the smaller network that each node is in.
    let mut node_of: Vec<u32> = (0..network.len() as u32).collect();
    let mut level = network.clone();
    loop {
        let mut partition = Partition::new(&level, resolution, membership);
        partition.move_nodes(random);
        membership = renumbered(partition.community);
        let parts = renumbered(divide(&level, resolution, &membership, random));
        let (nodes, smaller) = (level.len(), count(&parts));
        if smaller == nodes || count(&membership) == nodes {
            return node_of
                .iter()
                .map(|&node| membership[node as usize])
                .collect();
        }
        level = level.aggregate(&parts, smaller);
        node_of
            .iter_mut()
            .for_each(|node| *node = parts[*node as usize]);
        let mut of_parts = vec![0; smaller];
        for (&part, &community) in parts.iter().zip(&membership) {
            of_parts[part as usize] = community;
        }
        membership = of_parts;
    }
}

/// Numbers as they appear for the first time, from 0 on.
fn renumbered(mut groups: Vec<u32>) -> Vec<u32> {
    let largest = groups.iter().max().map_or(0, |&largest| largest as usize);
    let mut number = vec![u32::MAX; largest + 1];
    let mut next = 0;
    for group in &mut groups {
        let number = &mut number[*group as usize];
        if *number == u32::MAX {
            *number = next;
            next += 1;
        }
        *group = *number;
    }
    groups
}

/// How many groups there are, numbered without gaps.
fn count(groups: &[u32]) -> usize {
    groups
        .iter()
        .max()
        .map_or(0, |&largest| largest as usize + 1)
}

/// Nodes in groups that nodes can leave and join.
struct Partition<'a> {
    network: &'a Network,
    resolution: f64,
    /// The group of each node, below the number of nodes.
    community: Vec<u32>,
    /// `K` of each group.
    strengths: Vec<f64>,
    /// Nodes of each group.
    sizes: Vec<u32>,
    /// Groups that have no node.
    empty: Vec<u32>,
    /// The weight from the node in question to each group, and the groups where there is some.
    weights: Vec<f64>,
    near: Vec<u32>,
}

impl Partition<'_> {
    fn new(network: &Network, resolution: f64, community: Vec<u32>) -> Partition<'_> {
        let mut strengths = vec![0.0; network.len()];
        let mut sizes = vec![0; network.len()];
        for (&group, strength) in community.iter().zip(&network.strengths) {
            strengths[group as usize] += strength;
            sizes[group as usize] += 1;
        }
        let empty = (0..network.len() as u32).rev();
        Partition {
            network,
            resolution,
            community,
            strengths,
            empty: empty.filter(|&group| sizes[group as usize] == 0).collect(),
            sizes,
            weights: vec![0.0; network.len()],
            near: Vec::new(),
        }
    }

    /// Looks up the weights from a node to the groups of its neighbours, those that `counts`.
    fn look_around(&mut self, node: usize, counts: impl Fn(u32) -> bool) {
        for group in self.near.drain(..) {
            self.weights[group as usize] = 0.0;
        }
        for &(other, weight) in self.network.edges(node) {
            if !counts(other) {
                continue;
            }
            let group = self.community[other as usize];
            let sum = &mut self.weights[group as usize];
            if *sum == 0.0 {
                self.near.push(group);
            }
            *sum += weight;
        }
    }

    /// What a node adds that joins a group, having looked around; it is outside.
    fn gain(&self, node: usize, group: u32) -> f64 {
        let chance = self.network.strengths[node] * self.strengths[group as usize];
        self.weights[group as usize] - self.resolution * chance / self.network.total
    }

    fn leave(&mut self, node: usize) {
        let group = self.community[node] as usize;
        self.strengths[group] -= self.network.strengths[node];
        self.sizes[group] -= 1;
        if self.sizes[group] == 0 {
            self.empty.push(group as u32);
        }
    }

    /// Joins a group, which may be the one on top of the empty ones.
    fn join(&mut self, node: usize, group: u32) {
        if self.empty.last() == Some(&group) {
            self.empty.pop();
        }
        self.community[node] = group;
        self.strengths[group as usize] += self.network.strengths[node];
        self.sizes[group as usize] += 1;
    }

    /// Moves nodes to where they add most, in random order, until none wants to move. A node whose
    /// neighbour has gone elsewhere is asked again.
    fn move_nodes(&mut self, random: &mut Generator) {
        let mut order: Vec<u32> = (0..self.network.len() as u32).collect();
        random.shuffle(&mut order);
        let mut waits = vec![true; order.len()];
        let mut queue = VecDeque::from(order);
        while let Some(node) = queue.pop_front() {
            waits[node as usize] = false;
            if !self.move_node(node as usize) {
                continue;
            }
            let group = self.community[node as usize];
            for &(other, _) in self.network.edges(node as usize) {
                let other = other as usize;
                if self.community[other] != group && !waits[other] {
                    waits[other] = true;
                    queue.push_back(other as u32);
                }
            }
        }
    }

    /// Whether the node has moved: only for a gain.
    fn move_node(&mut self, node: usize) -> bool {
        self.look_around(node, |_| true);
        let own = self.community[node];
        self.leave(node);
        let mut best = (own, self.gain(node, own) + MARGIN);
        // On its own it adds nothing and takes nothing. Here its own group is empty if it was alone.
        let alone = self.empty.last().copied();
        for &group in self.near.iter().chain(&alone) {
            let gain = self.gain(node, group);
            if gain > best.1 {
                best = (group, gain);
            }
        }
        self.join(node, best.0);
        best.0 != own
    }
}

/// Divides each community into parts that hold together.
///
/// At first every node is a part. In random order, a node that is still by itself joins the part of
/// its community where it adds most, if it does not take anything away. Node and part have to be well
/// connected to the rest `R` of the community: `E(A, R) >= g K(A) K(R) / M`.
fn divide(
    network: &Network,
    resolution: f64,
    membership: &[u32],
    random: &mut Generator,
) -> Vec<u32> {
    let whole = Partition::new(network, resolution, membership.to_vec());
    let nodes = network.len() as u32;
    let mut parts = Partition::new(network, resolution, (0..nodes).collect());
    // The weight from each part to the rest of its community.
    let mut outward: Vec<f64> = (0..network.len())
        .map(|node| {
            let edges = network.edges(node).iter();
            let inside = edges.filter(|edge| membership[edge.0 as usize] == membership[node]);
            inside.map(|edge| edge.1).sum()
        })
        .collect();
    let mut order: Vec<u32> = (0..nodes).collect();
    random.shuffle(&mut order);
    for node in order {
        let node = node as usize;
        let community = membership[node];
        let of_all = whole.strengths[community as usize];
        let is_connected = |part: u32, parts: &Partition<'_>, outward: &[f64]| {
            let strength = parts.strengths[part as usize];
            let chance = strength * (of_all - strength) / network.total;
            outward[part as usize] >= resolution * chance
        };
        let own = parts.community[node];
        if parts.sizes[own as usize] > 1 || !is_connected(own, &parts, &outward) {
            continue;
        }
        parts.look_around(node, |other| membership[other as usize] == community);
        let mut best: Option<(u32, f64)> = None;
        for &part in &parts.near {
            let gain = parts.gain(node, part);
            let least = best.map_or(0.0, |(_, most)| most + MARGIN);
            if gain >= least && is_connected(part, &parts, &outward) {
                best = Some((part, gain));
            }
        }
        if let Some((part, _)) = best {
            let between = parts.weights[part as usize];
            outward[part as usize] += outward[own as usize] - 2.0 * between;
            parts.leave(node);
            parts.join(node, part);
        }
    }
    parts.community
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::DrawnFor;
    use proptest::prelude::*;

    fn generator(seed: u64) -> Generator {
        Generator::new(seed, DrawnFor::Clusters, 2, 0)
    }

    fn network(nodes: usize, edges: &[(u32, u32, f64)]) -> Network {
        Network::new(&vec![0.0; nodes], edges.to_vec())
    }

    /// `1 / M sum over i, j of (A_ij - g k_i k_j / M) [i and j in one community]`.
    fn modularity(nodes: usize, edges: &[(u32, u32, f64)], resolution: f64, of: &[u32]) -> f64 {
        let mut matrix = vec![vec![0.0; nodes]; nodes];
        for &(a, b, weight) in edges {
            matrix[a as usize][b as usize] += weight;
            matrix[b as usize][a as usize] += weight;
        }
        let strengths: Vec<f64> = matrix.iter().map(|row| row.iter().sum()).collect();
        let total: f64 = strengths.iter().sum();
        let mut sum = 0.0;
        for i in 0..nodes {
            for j in (0..nodes).filter(|&j| of[i] == of[j]) {
                sum += matrix[i][j] - resolution * strengths[i] * strengths[j] / total;
            }
        }
        sum / total
    }

    fn are_connected(network: &Network, communities: &[u32]) -> bool {
        (0..count(communities) as u32).all(|community| {
            let inside = |node: usize| communities[node] == community;
            let members = (0..network.len()).filter(|&node| inside(node)).count();
            let Some(first) = (0..network.len()).find(|&node| inside(node)) else {
                return false;
            };
            let mut reached = vec![first];
            let mut next = 0;
            while let Some(&node) = reached.get(next) {
                next += 1;
                for &(other, _) in network.edges(node) {
                    let other = other as usize;
                    if inside(other) && !reached.contains(&other) {
                        reached.push(other);
                    }
                }
            }
            reached.len() == members
        })
    }

    /// Cliques whose first nodes form a ring.
    fn ring_of_cliques(cliques: u32, size: u32) -> Vec<(u32, u32, f64)> {
        let mut edges = Vec::new();
        for clique in 0..cliques {
            let first = clique * size;
            for a in 0..size {
                edges.extend((0..a).map(|b| (first + a, first + b, 1000.0)));
            }
            edges.push((first, (clique + 1) % cliques * size + 1, 1000.0));
        }
        edges
    }

    #[test]
    fn cliques_in_a_ring_are_found() {
        let (cliques, size) = (12, 5);
        let edges = ring_of_cliques(cliques, size);
        let network = network((cliques * size) as usize, &edges);
        let expected: Vec<u32> = (0..cliques * size).map(|node| node / size).collect();
        for seed in 0..20 {
            let found = communities(&network, 1.0, &mut generator(seed));
            assert_eq!(renumbered(found), expected);
        }
        // Below a resolution of E / K^2 M, everything belongs together.
        let one = communities(&network, 0.001, &mut generator(0));
        assert_eq!(count(&one), 1);
    }

    #[test]
    fn nodes_without_edges_are_on_their_own() {
        let alone = communities(&network(3, &[]), 1.0, &mut generator(0));
        assert_eq!(count(&alone), 3);
        let edges = [(0, 1, 5.0), (1, 2, 5.0), (0, 2, 5.0)];
        let found = communities(&network(4, &edges), 1.0, &mut generator(0));
        assert_eq!(renumbered(found), [0, 0, 0, 1]);
        assert!(communities(&network(0, &[]), 1.0, &mut generator(0)).is_empty());
    }

    fn edges() -> impl Strategy<Value = (usize, Vec<(u32, u32, f64)>)> {
        (2..30usize).prop_flat_map(|nodes| {
            let ends = (0..nodes as u32, 0..nodes as u32, 1..2000u32);
            let edges = prop::collection::vec(ends, 1..80).prop_map(|edges| {
                let edges = edges.into_iter().filter(|edge| edge.0 != edge.1);
                edges
                    .map(|(a, b, weight)| (a, b, f64::from(weight)))
                    .collect()
            });
            (Just(nodes), edges)
        })
    }

    proptest! {
        #[test]
        fn quality_is_modularity((nodes, edges) in edges(), resolution in 0.1..2.0, seed in 0..9u64) {
            let network = network(nodes, &edges);
            prop_assume!(network.total > 0.0);
            let mut random = generator(seed);
            let groups = (0..nodes).map(|_| random.below(4) as u32).collect();
            let groups = renumbered(groups);
            let found = quality(&network, resolution, &groups) / (network.total / 2.0);
            let expected = modularity(nodes, &edges, resolution, &groups);
            prop_assert!((found - expected).abs() < 1e-9);
        }

        #[test]
        fn communities_hold_together_and_no_node_wants_to_move(
            (nodes, edges) in edges(), resolution in 0.1..2.0, seed in 0..9u64,
        ) {
            let network = network(nodes, &edges);
            let found = communities(&network, resolution, &mut generator(seed));
            prop_assert!(are_connected(&network, &found));
            if network.total > 0.0 {
                let best = modularity(nodes, &edges, resolution, &found);
                for node in 0..nodes {
                    for group in 0..=count(&found) as u32 {
                        let mut moved = found.clone();
                        moved[node] = group;
                        let other = modularity(nodes, &edges, resolution, &moved);
                        prop_assert!(other <= best + 1e-4);
                    }
                }
            }
        }
    }
}
