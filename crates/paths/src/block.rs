//! Paths side by side, which are compared with another one all at once.
//!
//! Comparing two paths is a few instructions for each layer, of which most wait for one another. Here
//! each of them is done for many paths in turn, so that they become vector instructions; for every
//! single path they are those of [`Comparison::to`], and the result has the same bits.

use crate::bits::BitRows;
use crate::choices::Similarity;
use crate::layout::PathLayout;
use crate::similarity::{Comparison, layer_counts};

/// Paths in a block.
pub(crate) const PATHS: usize = 32;

/// Up to [`PATHS`] paths: for each of their words that word of all paths, for each layer how many
/// neurons they have there. Places without a path hold anything.
#[derive(Default)]
pub(crate) struct Block {
    words: Vec<[u64; PATHS]>,
    counts: Vec<[u32; PATHS]>,
}

impl Block {
    /// Puts up to [`PATHS`] paths in the place of those before.
    pub(crate) fn fill(&mut self, layout: &PathLayout, paths: &BitRows) {
        self.words.resize(layout.width(), [0; PATHS]);
        self.counts.resize(layout.layers(), [0; PATHS]);
        for (place, path) in paths.rows().take(PATHS).enumerate() {
            for (words, &word) in self.words.iter_mut().zip(path) {
                words[place] = word;
            }
            for (counts, count) in self.counts.iter_mut().zip(layer_counts(layout, path)) {
                counts[place] = count;
            }
        }
    }

    /// The similarity of each path to the one of a comparison.
    #[inline(always)]
    pub(crate) fn similarities(&self, comparison: &Comparison<'_>) -> [f64; PATHS] {
        let mut sums = [0.0; PATHS];
        let mut whole_shared = [0; PATHS];
        let mut whole_united = [0; PATHS];
        // Loops, since the closures of adapters may be compiled without the instructions.
        for (layer, counts) in self.counts.iter().enumerate() {
            let range = comparison.layout.words(layer);
            let own_words = &comparison.path[range.clone()];
            // As wide as words, and narrowed once.
            let mut wide = [0_u64; PATHS];
            for (own, others) in own_words.iter().zip(&self.words[range]) {
                for place in 0..PATHS {
                    wide[place] += u64::from((own & others[place]).count_ones());
                }
            }
            let mut shared = [0_u32; PATHS];
            for place in 0..PATHS {
                shared[place] = wide[place] as u32;
            }
            let own = comparison.counts[layer];
            match comparison.similarity {
                Similarity::LayerMean => {
                    for place in 0..PATHS {
                        // In a place without a path this may be anything.
                        let united = own.wrapping_add(counts[place]).wrapping_sub(shared[place]);
                        sums[place] += quotient(shared[place], united);
                    }
                }
                Similarity::WholePath => {
                    for place in 0..PATHS {
                        let united = own.wrapping_add(counts[place]).wrapping_sub(shared[place]);
                        whole_shared[place] += shared[place];
                        whole_united[place] = united.wrapping_add(whole_united[place]);
                    }
                }
            }
        }
        let layers = self.counts.len() as f64;
        let mut similarities = [1.0; PATHS];
        for place in 0..PATHS {
            if layers > 0.0 {
                similarities[place] = match comparison.similarity {
                    Similarity::LayerMean => sums[place] / layers,
                    Similarity::WholePath => quotient(whole_shared[place], whole_united[place]),
                };
            }
        }
        similarities
    }
}

/// What two sets share, of what they have together. Two empty sets are the same.
#[inline(always)]
fn quotient(shared: u32, united: u32) -> f64 {
    // Numbers of neurons are far below 2^31, and vector instructions know signed ones only.
    let [shared, whole] = [shared, united].map(|count| f64::from(count.cast_signed()));
    if united == 0 { 1.0 } else { shared / whole }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use npcov_cpu::counting;

    proptest! {
        #[test]
        fn similarities_are_those_of_single_paths(
            neurons in proptest::collection::vec(0..200_usize, 0..5),
            paths in 1..=PATHS,
            words in proptest::collection::vec(any::<u64>(), 1000),
            dense in any::<bool>(),
        ) {
            let layout = PathLayout::new(neurons);
            let mut random = words.into_iter().cycle();
            let mut path = || {
                // Sparse ones have empty layers.
                let one = |_| random.next().map_or(0, |word| match dense {
                    true => word,
                    false if word % 3 > 0 => 0,
                    false => 1 << (word % 64),
                });
                let words: Vec<u64> = (0..layout.width()).map(one).collect();
                // Neurons that are not there are in nobody's complement.
                layout.complement(&words)
            };
            let own = path();
            let others: Vec<Vec<u64>> = (0..2 * PATHS).map(|_| path()).collect();
            let rows = |paths: &[Vec<u64>]| {
                let mut rows = BitRows::new(layout.width());
                paths.iter().for_each(|path| rows.push(path));
                rows
            };
            // A block that held others before.
            let mut block = Block::default();
            block.fill(&layout, &rows(&others[PATHS..]));
            block.fill(&layout, &rows(&others[..paths]));
            for similarity in [Similarity::LayerMean, Similarity::WholePath] {
                let comparison = Comparison::new(&layout, similarity, &own);
                let found = counting(
                    #[inline(always)]
                    || block.similarities(&comparison),
                );
                prop_assert_eq!(found, block.similarities(&comparison));
                for (found, other) in found.iter().zip(&others[..paths]) {
                    let counts: Vec<u32> = layer_counts(&layout, other).collect();
                    prop_assert_eq!(found.to_bits(), comparison.to(other, &counts).to_bits());
                }
            }
        }
    }
}
