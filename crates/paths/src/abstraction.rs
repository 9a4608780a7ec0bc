//! Abstract paths: what the members of a cluster have in common.

use std::ops::Range;

use crate::bits;
use crate::choices::Merge;
use crate::layout::PathLayout;

/// How often neurons are critical among the members of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frequencies {
    /// By neuron, those of all layers: the number of members that have it.
    counts: Vec<u32>,
    /// By neuron: the first member that has it; `u32::MAX` for none.
    first: Vec<u32>,
    members: u32,
}

impl Frequencies {
    /// Of no members yet.
    pub(crate) fn new(layout: &PathLayout) -> Frequencies {
        let neurons = layout.total_neurons();
        Frequencies {
            counts: vec![0; neurons],
            first: vec![u32::MAX; neurons],
            members: 0,
        }
    }

    /// Counts a member.
    pub(crate) fn add(&mut self, layout: &PathLayout, member: u32, path: &[u64]) {
        self.members += 1;
        let mut start = 0;
        for layer in 0..layout.layers() {
            for neuron in bits::ones(layout.layer(path, layer)) {
                self.counts[start + neuron] += 1;
                let first = &mut self.first[start + neuron];
                *first = (*first).min(member);
            }
            start += layout.neurons(layer);
        }
    }

    /// What the members have in common.
    pub(crate) fn abstract_path(&self, layout: &PathLayout, rule: Merge, beta: f64) -> Vec<u64> {
        let mut path = vec![0; layout.width()];
        for layer in 0..layout.layers() {
            let set = layout.layer_mut(&mut path, layer);
            self.merge(layout.span(layer), rule, beta, |neuron| {
                bits::set(set, neuron)
            });
        }
        path
    }

    /// Calls `take` with each neuron of an abstract layer, whose neurons are a span of all.
    fn merge(&self, span: Range<usize>, rule: Merge, beta: f64, mut take: impl FnMut(usize)) {
        let (counts, first) = (&self.counts[span.clone()], &self.first[span]);
        match rule {
            Merge::Strict => {
                for (neuron, &count) in counts.iter().enumerate() {
                    // The quotient, not `count > beta * members`: that is wrong for some counts
                    // that are exactly a share of beta, 63 of 90 and 0.7 the first.
                    let weight = f64::from(count) / f64::from(self.members);
                    if count > 0 && weight > beta {
                        take(neuron);
                    }
                }
            }
            Merge::Rounded => {
                let threshold = (f64::from(self.members) * beta).round_ties_even() as u32;
                let enough = |neuron: &usize| counts[*neuron] + 1 >= threshold;
                let (in_it, rest): (Vec<usize>, Vec<usize>) = (0..counts.len()).partition(enough);
                // Frequent ones first; of equal ones that which an earlier member has.
                let key =
                    |&neuron: &usize| (std::cmp::Reverse(counts[neuron]), first[neuron], neuron);
                let next = rest.into_iter().min_by_key(key);
                in_it.into_iter().chain(next).for_each(take);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(members: u32, counts: &[u32], rule: Merge, beta: f64) -> Vec<usize> {
        let frequencies = Frequencies {
            counts: counts.to_vec(),
            first: counts
                .iter()
                .map(|&c| if c > 0 { 0 } else { u32::MAX })
                .collect(),
            members,
        };
        let mut set = Vec::new();
        frequencies.merge(0..counts.len(), rule, beta, |neuron| set.push(neuron));
        set.sort_unstable();
        set
    }

    #[test]
    fn worked_cases() {
        // Case 8.
        let counts = [5, 4, 3, 1, 0];
        assert_eq!(merged(5, &counts, Merge::Strict, 0.8), [0]);
        assert_eq!(merged(5, &counts, Merge::Rounded, 0.8), [0, 1, 2, 3]);
        assert_eq!(merged(5, &counts, Merge::Strict, 0.6), [0, 1]);
        let counts = [1, 0, 1, 0];
        assert_eq!(merged(1, &counts, Merge::Strict, 0.8), [0, 2]);
        assert_eq!(merged(1, &counts, Merge::Rounded, 0.8), [0, 1, 2, 3]);
        let counts = [10, 9, 8, 7, 6, 2, 0];
        assert_eq!(merged(10, &counts, Merge::Strict, 0.9), [0]);
        assert_eq!(merged(10, &counts, Merge::Rounded, 0.9), [0, 1, 2, 3]);
    }

    #[test]
    fn exact_shares_are_not_above_beta() {
        for (beta, tenths) in [(0.6, 6), (0.7, 7), (0.8, 8), (0.9, 9)] {
            for members in (10..=6000).step_by(10) {
                let count = members / 10 * tenths;
                assert_eq!(merged(members, &[count], Merge::Strict, beta), [0; 0]);
                assert_eq!(merged(members, &[count + 1], Merge::Strict, beta), [0]);
            }
        }
    }

    #[test]
    fn small_clusters_take_whole_layers_when_rounded() {
        // Section 3: two members and beta .7 take everything, beta .8 what a member has and one more.
        let counts = [2, 1, 0, 0];
        assert_eq!(merged(2, &counts, Merge::Rounded, 0.7), [0, 1, 2, 3]);
        assert_eq!(merged(2, &counts, Merge::Rounded, 0.8), [0, 1, 2]);
    }

    #[test]
    fn frequencies_are_counted_among_members() {
        let layout = PathLayout::new([70, 3]);
        let mut found = Frequencies::new(&layout);
        for (member, layer, neurons) in [(4, 0, &[69][..]), (7, 0, &[0, 69]), (9, 1, &[2])] {
            let mut path = vec![0; layout.width()];
            let set = layout.layer_mut(&mut path, layer);
            neurons.iter().for_each(|&neuron| bits::set(set, neuron));
            found.add(&layout, member, &path);
        }
        let of = |neuron: usize| (found.counts[neuron], found.first[neuron]);
        assert_eq!(found.members, 3);
        assert_eq!(
            [of(69), of(0), of(1), of(72)],
            [(2, 4), (1, 7), (0, u32::MAX), (1, 9)]
        );
        let path = found.abstract_path(&layout, Merge::Strict, 0.5);
        assert_eq!(path, [0, 1 << 5, 0]);
        let path = found.abstract_path(&layout, Merge::Strict, 0.3);
        assert_eq!(path, [1, 1 << 5, 1 << 2]);
    }
}
