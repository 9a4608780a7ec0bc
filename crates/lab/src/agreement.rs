//! How well clusters agree with kinds that they were made without.

use std::collections::BTreeMap;

/// The adjusted Rand index (Hubert and Arabie 1985): how many pairs of inputs are together or apart in
/// both, beyond what chance gives. 1 for the same division, about 0 for divisions that have nothing to
/// do with each other.
///
/// ```
/// // Which number a cluster has does not matter.
/// assert_eq!(npcov_lab::adjusted_rand(&[0, 0, 1, 1], &[7, 7, 3, 3]), 1.0);
/// assert_eq!(npcov_lab::adjusted_rand(&[0, 0, 0, 0], &[7, 7, 3, 3]), 0.0);
/// ```
pub fn adjusted_rand(clusters: &[u32], kinds: &[i64]) -> f64 {
    let counts = Counts::new(clusters, kinds);
    let both = pairs(counts.cells.values());
    let only_clusters = pairs(counts.clusters.values()) - both;
    let only_kinds = pairs(counts.kinds.values()) - both;
    let neither = pairs([&counts.inputs].into_iter()) - both - only_clusters - only_kinds;
    if only_clusters == 0.0 && only_kinds == 0.0 {
        return 1.0;
    }
    // (index - expected) / (largest - expected), times what makes it whole numbers.
    2.0 * (both * neither - only_clusters * only_kinds)
        / ((both + only_kinds) * (only_kinds + neither)
            + (both + only_clusters) * (only_clusters + neither))
}

/// The share of inputs that are of the most frequent kind of their cluster; 1 without inputs. More
/// clusters make it higher, so it is read beside their number.
///
/// ```
/// assert_eq!(npcov_lab::purity(&[0, 0, 0, 1], &[7, 7, 3, 3]), 0.75);
/// ```
pub fn purity(clusters: &[u32], kinds: &[i64]) -> f64 {
    let counts = Counts::new(clusters, kinds);
    let mut most: BTreeMap<u32, u64> = BTreeMap::new();
    for (&(cluster, _), &inputs) in &counts.cells {
        let most = most.entry(cluster).or_default();
        *most = inputs.max(*most);
    }
    match counts.inputs {
        0 => 1.0,
        inputs => most.values().sum::<u64>() as f64 / inputs as f64,
    }
}

/// Inputs by cluster and kind.
#[derive(Default)]
struct Counts {
    cells: BTreeMap<(u32, i64), u64>,
    clusters: BTreeMap<u32, u64>,
    kinds: BTreeMap<i64, u64>,
    inputs: u64,
}

impl Counts {
    fn new(clusters: &[u32], kinds: &[i64]) -> Counts {
        let mut counts = Counts::default();
        for (&cluster, &kind) in clusters.iter().zip(kinds) {
            *counts.cells.entry((cluster, kind)).or_default() += 1;
            *counts.clusters.entry(cluster).or_default() += 1;
            *counts.kinds.entry(kind).or_default() += 1;
            counts.inputs += 1;
        }
        counts
    }
}

/// Pairs of inputs within groups of these sizes.
fn pairs<'a>(sizes: impl Iterator<Item = &'a u64>) -> f64 {
    sizes
        .map(|&size| size as f64 * (size as f64 - 1.0) / 2.0)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at every pair, and compares the number that agree with what is expected of it when
    /// inputs are dealt to clusters of the same sizes at random.
    fn naive_rand(clusters: &[u32], kinds: &[i64]) -> f64 {
        let (mut both, mut in_cluster, mut in_kind, mut all) = (0.0, 0.0, 0.0, 0.0);
        for i in 0..clusters.len() {
            for j in 0..i {
                let (cluster, kind) = (clusters[i] == clusters[j], kinds[i] == kinds[j]);
                both += f64::from(cluster && kind);
                in_cluster += f64::from(cluster);
                in_kind += f64::from(kind);
                all += 1.0;
            }
        }
        let expected = in_cluster * in_kind / all;
        (both - expected) / ((in_cluster + in_kind) / 2.0 - expected)
    }

    fn naive_purity(clusters: &[u32], kinds: &[i64]) -> f64 {
        let most = |cluster: u32| {
            let of = |kind: &i64| {
                let pairs = clusters.iter().zip(kinds);
                pairs.filter(|&pair| pair == (&cluster, kind)).count()
            };
            kinds.iter().map(of).max().unwrap_or(0)
        };
        let largest = clusters.iter().max().map_or(0, |&last| last + 1);
        (0..largest).map(most).sum::<usize>() as f64 / clusters.len() as f64
    }

    /// Divisions and what scikit-learn says of them, made by `scripts/agreement_oracles.py`.
    fn oracles() -> Vec<(Vec<u32>, Vec<i64>, f64, f64)> {
        let text = include_str!("../../../fixtures/cluster-agreement.txt");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let case = |line: &str| {
            let [clusters, kinds, rand, purity] = line
                .split(" | ")
                .collect::<Vec<_>>()
                .try_into()
                .expect("four parts");
            let clusters = clusters.split(' ').map(|x| x.parse().expect("a cluster"));
            let kinds = kinds.split(' ').map(|x| x.parse().expect("a kind"));
            let number = |x: &str| x.parse().expect("a number");
            (
                clusters.collect(),
                kinds.collect(),
                number(rand),
                number(purity),
            )
        };
        lines.map(case).collect()
    }

    #[test]
    fn agreement_is_that_of_scikit_learn_and_of_the_definition() {
        let cases = oracles();
        assert!(cases.len() >= 8);
        for (clusters, kinds, rand, pure) in cases {
            let found = (adjusted_rand(&clusters, &kinds), purity(&clusters, &kinds));
            assert!((found.0 - rand).abs() < 1e-12, "{found:?}, not {rand}");
            assert!((found.1 - pure).abs() < 1e-12, "{found:?}, not {pure}");
            let naive = (
                naive_rand(&clusters, &kinds),
                naive_purity(&clusters, &kinds),
            );
            // Where chance cannot do worse the definition is 0/0.
            assert!(naive.0.is_nan() || (naive.0 - rand).abs() < 1e-12);
            assert!((naive.1 - pure).abs() < 1e-12);
        }
    }

    #[test]
    fn nothing_and_one_input_agree() {
        assert_eq!((adjusted_rand(&[], &[]), purity(&[], &[])), (1.0, 1.0));
        assert_eq!((adjusted_rand(&[3], &[9]), purity(&[3], &[9])), (1.0, 1.0));
    }
}
