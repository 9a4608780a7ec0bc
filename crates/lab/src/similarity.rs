//! How similar the paths of inputs are, within classes and clusters and between them.

use npcov::paths::choices::Similarity;
use npcov::paths::{BitRows, PathLayout, similarity};
use serde::{Deserialize, Serialize};

/// Mean similarities of pairs of inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Similarities {
    /// Of pairs in one group; `None` without such pairs.
    pub intra: Option<f64>,
    /// Of pairs in different groups; `None` without such pairs.
    pub inter: Option<f64>,
}

/// The mean similarity of pairs that `pairing` puts into the same group, and into different ones.
/// Every pair of different inputs counts once; those of which `pairing` says nothing do not.
pub(crate) fn similarities(
    layout: &PathLayout,
    paths: &BitRows,
    kind: Similarity,
    pairing: impl Fn(usize, usize) -> Option<bool>,
) -> Similarities {
    let means = means(layout, paths, kind, 2, |a, b| {
        pairing(a, b).map(usize::from)
    });
    Similarities {
        intra: means[1],
        inter: means[0],
    }
}

/// The mean similarity of pairs whose classes, which have an order, are so far apart: by distance, from 0 to
/// the largest that there could be.
pub(crate) fn by_distance(
    layout: &PathLayout,
    paths: &BitRows,
    kind: Similarity,
    classes: &[u32],
    count: usize,
) -> Vec<Option<f64>> {
    means(layout, paths, kind, count, |a, b| {
        Some(classes[a].abs_diff(classes[b]) as usize).filter(|&distance| distance < count)
    })
}

/// The mean similarity of pairs of each kind; `None` without such pairs.
fn means(
    layout: &PathLayout,
    paths: &BitRows,
    kind: Similarity,
    kinds: usize,
    kind_of: impl Fn(usize, usize) -> Option<usize>,
) -> Vec<Option<f64>> {
    // How many pairs, and the sum of their similarities.
    let mut sums = vec![(0_u64, 0.0_f64); kinds];
    for a in 0..paths.len() {
        for b in 0..a {
            if let Some(place) = kind_of(a, b) {
                let (pairs, sum) = &mut sums[place];
                *pairs += 1;
                *sum += similarity(layout, kind, paths.row(a), paths.row(b));
            }
        }
    }
    let mean = |(pairs, sum): (u64, f64)| (pairs > 0).then(|| sum / pairs as f64);
    sums.into_iter().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use npcov::paths::bits;

    #[test]
    fn worked_case() {
        // Two layers of four neurons; classes 0, 0 and 1.
        let layout = PathLayout::new([4, 4]);
        let mut paths = BitRows::zeros(layout.width(), 3);
        for (row, layer, neuron) in [
            (0, 0, 0),
            (0, 0, 1),
            (0, 1, 0),
            (1, 0, 1),
            (1, 1, 0),
            (2, 0, 3),
            (2, 1, 0),
            (2, 1, 1),
        ] {
            bits::set(layout.layer_mut(paths.row_mut(row), layer), neuron);
        }
        let classes = [0, 0, 1];
        let found = similarities(&layout, &paths, Similarity::LayerMean, |a, b| {
            Some(classes[a] == classes[b])
        });
        // 0 and 1: (1/2 + 1) / 2; with 2: (0 + 1/2) / 2 each.
        assert_eq!((found.intra, found.inter), (Some(0.75), Some(0.25)));
        let none = similarities(&layout, &paths, Similarity::LayerMean, |_, _| None);
        assert_eq!(none, Similarities::default());
        // The same as bins 2, 2 and 0 of four: no pair is one or three apart.
        let found = by_distance(&layout, &paths, Similarity::LayerMean, &[2, 2, 0], 4);
        assert_eq!(found, [Some(0.75), None, Some(0.25), None]);
    }
}
