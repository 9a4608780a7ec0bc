//! How similar paths are.

use crate::bits;
use crate::choices::Similarity;
use crate::layout::PathLayout;

/// The Jaccard similarity of two sets as a fraction: what they share, of what they have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jaccard {
    /// Number of neurons in both.
    pub shared: u32,
    /// Number of neurons in either.
    pub united: u32,
}

impl Jaccard {
    /// Of two sets.
    pub fn of(a: &[u64], b: &[u64]) -> Jaccard {
        let shared = bits::count_both(a, b);
        Jaccard {
            shared,
            united: bits::count(a) + bits::count(b) - shared,
        }
    }

    /// The fraction's value. Two empty sets are the same: 1.
    #[inline(always)]
    pub fn value(self) -> f64 {
        match self.united {
            0 => 1.0,
            united => f64::from(self.shared) / f64::from(united),
        }
    }
}

/// The similarity of paths, prepared for many comparisons with one of them.
pub(crate) struct Comparison<'a> {
    pub(crate) layout: &'a PathLayout,
    pub(crate) similarity: Similarity,
    pub(crate) path: &'a [u64],
    /// Neurons of `path` in each layer.
    pub(crate) counts: Vec<u32>,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(layout: &'a PathLayout, similarity: Similarity, path: &'a [u64]) -> Self {
        Comparison {
            layout,
            similarity,
            path,
            counts: layer_counts(layout, path).collect(),
        }
    }

    /// The similarity to a path with `counts` neurons in its layers.
    #[inline(always)]
    pub(crate) fn to(&self, other: &[u64], counts: &[u32]) -> f64 {
        let mut sum = Combined::new(self.similarity);
        // A loop, since the closures of adapters may be compiled without the popcount instruction.
        for (layer, (&a, &b)) in self.counts.iter().zip(counts).enumerate() {
            let words = self.layout.words(layer);
            let shared = bits::count_both(&self.path[words.clone()], &other[words]);
            sum.add(Jaccard {
                shared,
                united: a + b - shared,
            });
        }
        sum.value()
    }
}

/// Number of neurons that a path has in each layer.
pub(crate) fn layer_counts(layout: &PathLayout, path: &[u64]) -> impl Iterator<Item = u32> {
    (0..layout.layers()).map(move |layer| bits::count(layout.layer(path, layer)))
}

/// The similarity of paths whose layers have these similarities; 1 without layers.
struct Combined {
    similarity: Similarity,
    layers: u32,
    sum: f64,
    whole: Jaccard,
}

impl Combined {
    fn new(similarity: Similarity) -> Combined {
        let whole = Jaccard {
            shared: 0,
            united: 0,
        };
        Combined {
            similarity,
            layers: 0,
            sum: 0.0,
            whole,
        }
    }

    #[inline(always)]
    fn add(&mut self, layer: Jaccard) {
        self.layers += 1;
        match self.similarity {
            Similarity::LayerMean => self.sum += layer.value(),
            Similarity::WholePath => {
                self.whole.shared += layer.shared;
                self.whole.united += layer.united;
            }
        }
    }

    #[inline(always)]
    fn value(&self) -> f64 {
        match (self.similarity, self.layers) {
            (_, 0) => 1.0,
            (Similarity::LayerMean, layers) => self.sum / f64::from(layers),
            (Similarity::WholePath, _) => self.whole.value(),
        }
    }
}

/// The similarity of two paths.
pub fn similarity(layout: &PathLayout, similarity: Similarity, a: &[u64], b: &[u64]) -> f64 {
    let counts: Vec<u32> = layer_counts(layout, b).collect();
    Comparison::new(layout, similarity, a).to(b, &counts)
}

/// Whether a similarity is above another by more than the rounding of their sums.
///
/// Layers with similarities 1, 4/6 are as similar as 5/6, 5/6, but a sum of quotients may differ in
/// its last bits. For `n` layers it is off by at most `n` times 2^-53: a hundredth of this
/// bound for a hundred layers. Means that differ by less without being equal hardly occur.
pub fn more_similar(a: f64, b: f64) -> bool {
    a - b > 1e-12
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_means_are_equal_in_spite_of_rounding() {
        let mean = |layers: [(u32, u32); 3]| {
            let mut sum = Combined::new(Similarity::LayerMean);
            for (shared, united) in layers {
                sum.add(Jaccard { shared, united });
            }
            sum.value()
        };
        let (a, b) = (
            mean([(3, 5), (4, 5), (5, 5)]),
            mean([(3, 5), (5, 5), (4, 5)]),
        );
        assert!(a != b, "no example: {a}");
        assert!(!more_similar(a, b) && !more_similar(b, a));
        let (a, b) = (
            mean([(4, 4), (6, 6), (4, 6)]),
            mean([(4, 4), (5, 6), (5, 6)]),
        );
        assert!(!more_similar(a, b) && !more_similar(b, a));
        let c = mean([(999, 1000), (6, 6), (4, 6)]);
        assert!(more_similar(a, c) && !more_similar(c, a));
    }

    #[test]
    fn layers_are_averaged_or_taken_together() {
        let layout = PathLayout::new([4, 70]);
        let mut a = vec![0; layout.width()];
        let mut b = a.clone();
        // 1 of 3 in the first layer, 1 of 1 in the second.
        for (row, neurons) in [(&mut a, [0, 1]), (&mut b, [1, 2])] {
            for neuron in neurons {
                bits::set(layout.layer_mut(row, 0), neuron);
            }
            bits::set(layout.layer_mut(row, 1), 69);
        }
        assert_eq!(
            similarity(&layout, Similarity::LayerMean, &a, &b),
            (1.0 / 3.0 + 1.0) / 2.0
        );
        assert_eq!(
            similarity(&layout, Similarity::WholePath, &a, &b),
            2.0 / 4.0
        );
    }

    #[test]
    fn two_empty_sets_are_alike_and_one_is_not() {
        assert_eq!(Jaccard::of(&[0], &[0]).value(), 1.0);
        assert_eq!(Jaccard::of(&[0], &[1]).value(), 0.0);
    }
}
