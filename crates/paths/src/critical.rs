//! Critical decision paths: the neurons that a decision depends on most.

use crate::choices::{EmptyLayer, Threshold};

/// How the critical neurons of a layer are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathRule {
    /// The share of relevance that critical neurons have together, above 0 and at most 1.
    pub alpha: f64,
    /// What `alpha` is a share of.
    pub threshold: Threshold,
    /// What becomes of layers without a critical neuron.
    pub empty_layer: EmptyLayer,
}

impl PathRule {
    /// Puts the critical neurons of a layer into `critical`, the most relevant first; equal ones in
    /// the order of their positions.
    ///
    /// They are the shortest such list of neurons with positive relevance whose sum reaches the
    /// threshold, or all of those when their sum does not. `seed` is the relevance that was shared
    /// out, `cut` whether all of it passed through this layer. All relevances are numbers.
    pub fn select(&self, relevances: &[f32], seed: f64, cut: bool, critical: &mut Vec<u32>) {
        critical.clear();
        critical.extend((0..relevances.len() as u32).filter(|&i| relevances[i as usize] > 0.0));
        let relevance = |i: &u32| relevances[*i as usize];
        critical.sort_unstable_by(|a, b| relevance(b).total_cmp(&relevance(a)).then(a.cmp(b)));
        // Added in the order in which the prefix is: the sum of all is the mass, bit by bit.
        let mass: f64 = critical.iter().map(|i| f64::from(relevance(i))).sum();
        let reached = |sum: f64| match (self.threshold, cut) {
            (Threshold::Logit, true) => sum > self.alpha * seed,
            (Threshold::Logit, false) => sum > self.alpha * mass,
            (Threshold::PositiveMass, _) => sum >= self.alpha * mass,
        };
        let mut sum = 0.0;
        let mut chosen = 0;
        while chosen < critical.len() && !reached(sum) {
            sum += f64::from(relevance(&critical[chosen]));
            chosen += 1;
        }
        critical.truncate(chosen);
        if critical.is_empty() && self.empty_layer == EmptyLayer::TopNeuron {
            let larger = |best: usize, i: usize| match relevances[i] > relevances[best] {
                true => i,
                false => best,
            };
            let top = (0..relevances.len()).reduce(larger);
            critical.extend(top.map(|i| i as u32));
        }
    }
}

/// A fifth of the neurons of a path layer, in the order of their relevance: positions of the first
/// and of the one behind the last. What does not divide evenly goes to the more relevant fifths, so
/// that the first is never empty.
pub fn band(neurons: usize, fifth: usize) -> std::ops::Range<usize> {
    (neurons * fifth).div_ceil(5)..(neurons * (fifth + 1)).div_ceil(5)
}

/// The same as the authors' code cuts them: slices of a fifth, rounded half to even; the neurons
/// that rounding loses are in none.
pub fn rounded_band(neurons: usize, fifth: usize) -> std::ops::Range<usize> {
    let slice = ((neurons as f64 / 5.0).round_ties_even() as usize).max(1);
    let clip = |position: usize| position.min(neurons);
    clip(slice * fifth)..clip(slice * (fifth + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAPER: PathRule = PathRule {
        alpha: 0.7,
        threshold: Threshold::Logit,
        empty_layer: EmptyLayer::Keep,
    };
    const REFERENCE: PathRule = PathRule {
        alpha: 0.7,
        threshold: Threshold::PositiveMass,
        empty_layer: EmptyLayer::TopNeuron,
    };

    fn select(rule: PathRule, alpha: f64, relevances: &[f32], seed: f64) -> Vec<u32> {
        let mut critical = vec![99];
        PathRule { alpha, ..rule }.select(relevances, seed, true, &mut critical);
        critical
    }

    /// The definition: of all prefixes of the positive neurons, the shortest that is above the
    /// threshold, else the longest.
    fn paper_twin(alpha: f64, relevances: &[f32], base: f64) -> Vec<u32> {
        let mut order: Vec<u32> = (0..relevances.len() as u32).collect();
        order.sort_by(|&a, &b| relevances[b as usize].total_cmp(&relevances[a as usize]));
        order.retain(|&i| relevances[i as usize] > 0.0);
        let sum = |prefix: &[u32]| -> f64 {
            prefix
                .iter()
                .map(|&i| f64::from(relevances[i as usize]))
                .sum()
        };
        let prefixes = (0..=order.len()).map(|len| order[..len].to_vec());
        let mut enough = prefixes.filter(|prefix| sum(prefix) > alpha * base);
        enough.next().unwrap_or(order)
    }

    /// The walk of the authors' code over all neurons, as the specification describes it.
    fn reference_twin(alpha: f64, relevances: &[f32]) -> Vec<u32> {
        let mut order: Vec<u32> = (0..relevances.len() as u32).collect();
        order.sort_by(|&a, &b| relevances[b as usize].total_cmp(&relevances[a as usize]));
        let value = |i: u32| f64::from(relevances[i as usize]);
        let mass: f64 = order.iter().map(|&i| value(i)).filter(|&r| r > 0.0).sum();
        let mut sum = 0.0;
        for (position, &i) in order.iter().enumerate() {
            sum += value(i);
            if sum >= alpha * mass || value(i) <= 0.0 {
                order.truncate(position + 1);
                return order;
            }
        }
        order
    }

    #[test]
    fn worked_case_of_a_net() {
        // Case 6: relevances (4.5, -2, 1.5) of logit 4.
        let r = [4.5, -2.0, 1.5];
        assert_eq!(select(PAPER, 0.8, &r, 4.0), [0]);
        assert_eq!(select(REFERENCE, 0.8, &r, 4.0), [0, 2]);
        // A log-probability as seed turns all signs.
        let r = [-0.0546608, 0.0242937, -0.0182203];
        assert_eq!(select(REFERENCE, 0.8, &r, -0.0485874), [1]);
    }

    #[test]
    fn worked_cases_of_paths() {
        // Case 7.
        let r = [5.0, 3.0, 1.0, -2.0];
        assert_eq!(select(PAPER, 0.7, &r, 7.0), [0]);
        assert_eq!(select(REFERENCE, 0.7, &r, 7.0), [0, 1]);
        assert_eq!(select(PAPER, 0.8, &r, 7.0), [0, 1]);
        assert_eq!(select(REFERENCE, 0.8, &r, 7.0), [0, 1]);
        assert_eq!(select(PAPER, 1.0, &r, 7.0), [0, 1]);
        assert_eq!(select(REFERENCE, 1.0, &r, 7.0), [0, 1, 2]);
        let r = [3.0, 3.0, 2.0, 2.0];
        assert_eq!(select(PAPER, 0.6, &r, 10.0), [0, 1, 2]);
        assert_eq!(select(REFERENCE, 0.6, &r, 10.0), [0, 1]);
        assert_eq!(select(PAPER, 0.8, &r, 10.0), [0, 1, 2, 3]);
        assert_eq!(select(REFERENCE, 0.8, &r, 10.0), [0, 1, 2]);
        for r in [[-1.0, -2.0, -3.0], [0.0; 3]] {
            assert_eq!(select(PAPER, 0.7, &r, 5.0), []);
            assert_eq!(select(REFERENCE, 0.7, &r, 5.0), [0]);
        }
    }

    #[test]
    fn seeds_that_are_not_positive() {
        let r = [5.0, 3.0];
        assert_eq!(select(PAPER, 0.7, &r, -1.0), []);
        assert_eq!(select(PAPER, 0.7, &r, 0.0), [0]);
    }

    #[test]
    fn layers_that_carry_a_share_are_measured_by_their_own_mass() {
        let mut critical = Vec::new();
        // A logit of 100 is out of reach; half of the mass of 6 is not.
        PathRule {
            alpha: 0.5,
            ..PAPER
        }
        .select(&[1.0, 3.0, 2.0], 100.0, false, &mut critical);
        assert_eq!(critical, [1, 2]);
    }

    #[test]
    fn worked_case_of_bands() {
        // Case 20.
        let bands = |cut: fn(usize, usize) -> std::ops::Range<usize>, len| {
            (0..5).map(|t| cut(len, t)).collect::<Vec<_>>()
        };
        assert_eq!(bands(band, 12), [0..3, 3..5, 5..8, 8..10, 10..12]);
        assert_eq!(bands(rounded_band, 12), [0..2, 2..4, 4..6, 6..8, 8..10]);
        let lens = |cut, len| bands(cut, len).iter().map(|b| b.len()).collect::<Vec<_>>();
        assert_eq!(lens(band, 3), [1, 1, 0, 1, 0]);
        assert_eq!(lens(rounded_band, 3), [1, 1, 1, 0, 0]);
    }

    proptest! {
        #[test]
        fn selections_follow_their_definitions(
            r in prop::collection::vec((-4i32..8).prop_map(|x| x as f32 / 4.0), 1..20),
            alpha in 0.05f64..1.0,
            seed in -2.0f64..4.0,
        ) {
            prop_assert_eq!(select(PAPER, alpha, &r, seed), paper_twin(alpha, &r, seed));
            prop_assert_eq!(select(REFERENCE, alpha, &r, seed), reference_twin(alpha, &r));
        }

        #[test]
        fn paths_grow_with_alpha(
            r in prop::collection::vec(-1.0f32..2.0, 1..30),
            low in 0.05f64..1.0,
            high in 0.05f64..1.0,
            seed in 0.1f64..4.0,
        ) {
            let (low, high) = (low.min(high), low.max(high));
            for rule in [PAPER, REFERENCE] {
                let (small, large) = (select(rule, low, &r, seed), select(rule, high, &r, seed));
                prop_assert!(large.starts_with(&small));
            }
        }

        #[test]
        fn a_positive_factor_changes_nothing(
            r in prop::collection::vec(-1.0f32..2.0, 1..30),
            seed in 0.1f64..4.0,
            power in -3i32..4,
        ) {
            // Powers of two scale without rounding.
            let factor = 2f32.powi(power);
            let scaled: Vec<f32> = r.iter().map(|x| x * factor).collect();
            let seeds = (seed, seed * f64::from(factor));
            prop_assert_eq!(select(PAPER, 0.7, &r, seeds.0), select(PAPER, 0.7, &scaled, seeds.1));
        }
    }
}
