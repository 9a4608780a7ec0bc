//! Which buckets are covered.

use crate::bits;

/// What there is to cover: buckets for each cluster and layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Clusters there are.
    pub clusters: usize,
    /// Clusters that were planned: those that are missing count as uncovered.
    pub planned: usize,
    /// Layers that take part.
    pub layers: usize,
    /// Buckets of each.
    pub buckets: u16,
}

impl Space {
    /// Number of buckets to cover.
    pub fn total(&self) -> usize {
        self.planned * self.layers * usize::from(self.buckets)
    }

    /// One for each bucket, and one below the first, which some choices count as well.
    fn slots(&self) -> usize {
        usize::from(self.buckets) + 1
    }

    fn words(&self) -> usize {
        (self.clusters * self.layers * self.slots()).div_ceil(64)
    }
}

/// The covered buckets: a set, so that inputs may be measured in any order and in any parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    space: Space,
    bits: Vec<u64>,
}

impl Coverage {
    /// Nothing is covered.
    pub fn new(space: Space) -> Coverage {
        Coverage {
            space,
            bits: vec![0; space.words()],
        }
    }

    /// As it was stored; `None` when the words are not those of such a space.
    pub fn from_words(space: Space, words: Vec<u64>) -> Option<Coverage> {
        let last = space.clusters * space.layers * space.slots() % 64;
        let padding = words
            .last()
            .map_or(0, |word| if last == 0 { 0 } else { word >> last });
        (words.len() == space.words() && padding == 0).then_some(Coverage { space, bits: words })
    }

    /// What it is stored as.
    pub fn words(&self) -> &[u64] {
        &self.bits
    }

    /// What there is to cover.
    pub fn space(&self) -> Space {
        self.space
    }

    /// Covers a bucket.
    pub fn cover(&mut self, cluster: usize, layer: usize, bucket: u16) {
        let slot = (cluster * self.space.layers + layer) * self.space.slots() + usize::from(bucket);
        bits::set(&mut self.bits, slot);
    }

    /// Number of covered buckets.
    pub fn covered(&self) -> usize {
        bits::count(&self.bits) as usize
    }

    /// Number of covered buckets of a cluster and layer.
    pub fn covered_at(&self, cluster: usize, layer: usize) -> usize {
        let start = (cluster * self.space.layers + layer) * self.space.slots();
        let slots = start..start + self.space.slots();
        slots.filter(|&slot| bits::get(&self.bits, slot)).count()
    }

    /// The share of buckets that are covered; 0 where there is nothing to cover.
    pub fn value(&self) -> f64 {
        match self.space.total() {
            0 => 0.0,
            total => self.covered() as f64 / total as f64,
        }
    }

    /// Covers what another one covers. Both are of one space.
    pub fn merge(&mut self, other: &Coverage) {
        assert_eq!(self.space, other.space, "coverage of another space");
        for (word, other) in self.bits.iter_mut().zip(&other.bits) {
            *word |= other;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: Space = Space {
        clusters: 2,
        planned: 2,
        layers: 2,
        buckets: 4,
    };

    #[test]
    fn worked_case() {
        // Case 9: two classes with a cluster each, two layers, four buckets.
        let mut coverage = Coverage::new(SPACE);
        coverage.cover(0, 0, 2);
        coverage.cover(0, 1, 4);
        assert_eq!(coverage.value(), 0.125);
        // The same buckets again do not add; those of another class do.
        coverage.cover(0, 1, 4);
        assert_eq!(coverage.covered(), 2);
        coverage.cover(1, 1, 4);
        assert_eq!((coverage.covered(), coverage.covered_at(1, 1)), (3, 1));
    }

    #[test]
    fn missing_clusters_are_uncovered() {
        let mut coverage = Coverage::new(Space {
            planned: 4,
            ..SPACE
        });
        coverage.cover(0, 0, 1);
        assert_eq!(coverage.value(), 1.0 / 32.0);
    }

    #[test]
    fn words_that_are_no_coverage_are_refused() {
        let mut coverage = Coverage::new(SPACE);
        coverage.cover(1, 1, 4);
        let words = coverage.words().to_vec();
        assert_eq!(Coverage::from_words(SPACE, words.clone()), Some(coverage));
        assert_eq!(Coverage::from_words(SPACE, vec![]), None);
        assert_eq!(Coverage::from_words(SPACE, vec![words[0] << 1]), None);
    }
}
