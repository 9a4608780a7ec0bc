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
    // Groups apart and together: how many pairs, and the sum of their similarities.
    let mut sums = [(0_u64, 0.0_f64); 2];
    for a in 0..paths.len() {
        for b in 0..a {
            if let Some(together) = pairing(a, b) {
                let (pairs, sum) = &mut sums[usize::from(together)];
                *pairs += 1;
                *sum += similarity(layout, kind, paths.row(a), paths.row(b));
            }
        }
    }
    let mean = |(pairs, sum): (u64, f64)| (pairs > 0).then(|| sum / pairs as f64);
    Similarities {
        intra: mean(sums[1]),
        inter: mean(sums[0]),
    }
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
    }
}
