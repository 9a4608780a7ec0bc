//! Abstract paths: what the members of a cluster have in common.

use crate::bits::{self, BitRows};
use crate::choices::Merge;
use crate::layout::PathLayout;

/// How often the neurons of a layer are critical among the members of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frequencies {
    /// By neuron: the number of members that have it.
    pub(crate) counts: Vec<u32>,
    /// By neuron: the first member that has it; `u32::MAX` for none.
    first: Vec<u32>,
    members: u32,
}

impl Frequencies {
    /// Counts a layer of the given members.
    pub(crate) fn of(layout: &PathLayout, layer: usize, paths: &BitRows, members: &[u32]) -> Self {
        let neurons = layout.neurons(layer);
        let mut counts = vec![0; neurons];
        let mut first = vec![u32::MAX; neurons];
        for (i, &member) in members.iter().enumerate() {
            for neuron in bits::ones(layout.layer(paths.row(member as usize), layer)) {
                counts[neuron] += 1;
                first[neuron] = first[neuron].min(i as u32);
            }
        }
        Frequencies {
            counts,
            first,
            members: members.len() as u32,
        }
    }

    /// Calls `take` with each neuron of the abstract layer.
    pub(crate) fn merge(&self, rule: Merge, beta: f64, mut take: impl FnMut(usize)) {
        match rule {
            Merge::Strict => {
                for (neuron, &count) in self.counts.iter().enumerate() {
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
                let enough = |neuron: &usize| self.counts[*neuron] + 1 >= threshold;
                let (in_it, rest): (Vec<usize>, Vec<usize>) =
                    (0..self.counts.len()).partition(enough);
                // Frequent ones first; of equal ones that which an earlier member has.
                let key = |&neuron: &usize| {
                    (
                        std::cmp::Reverse(self.counts[neuron]),
                        self.first[neuron],
                        neuron,
                    )
                };
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
        frequencies.merge(rule, beta, |neuron| set.push(neuron));
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
        let mut paths = BitRows::zeros(layout.width(), 3);
        for (row, neurons) in [(0, vec![1]), (1, vec![0, 69]), (2, vec![69])] {
            for neuron in neurons {
                bits::set(layout.layer_mut(paths.row_mut(row), 0), neuron);
            }
        }
        let found = Frequencies::of(&layout, 0, &paths, &[2, 1]);
        assert_eq!(
            (found.counts[69], found.counts[0], found.counts[1]),
            (2, 1, 0)
        );
        assert_eq!(
            (found.first[69], found.first[0], found.first[1]),
            (0, 1, u32::MAX)
        );
    }
}
