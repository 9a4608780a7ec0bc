//! Where the neurons of each layer are in a row of bits.

use std::ops::Range;

/// The path layers and their numbers of neurons. Every layer begins at a word of its own, so that
/// layers are compared without shifting; the bits between them are never set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathLayout {
    neurons: Vec<usize>,
    /// First word of each layer, and the number of words in a row at the end.
    starts: Vec<usize>,
}

impl PathLayout {
    /// Layers with so many neurons, from input to output.
    pub fn new(neurons: impl Into<Vec<usize>>) -> PathLayout {
        let neurons = neurons.into();
        let mut starts = vec![0];
        let mut end = 0;
        for &count in &neurons {
            end += count.div_ceil(64);
            starts.push(end);
        }
        PathLayout { neurons, starts }
    }

    /// Number of layers.
    pub fn layers(&self) -> usize {
        self.neurons.len()
    }

    /// Number of neurons of a layer.
    pub fn neurons(&self, layer: usize) -> usize {
        self.neurons[layer]
    }

    /// Number of neurons of all layers.
    pub fn total_neurons(&self) -> usize {
        self.neurons.iter().sum()
    }

    /// Words in a row.
    pub fn width(&self) -> usize {
        self.starts[self.neurons.len()]
    }

    /// The words of a layer.
    pub fn words(&self, layer: usize) -> Range<usize> {
        self.starts[layer]..self.starts[layer + 1]
    }

    /// A layer's part of a row.
    pub fn layer<'r>(&self, row: &'r [u64], layer: usize) -> &'r [u64] {
        &row[self.words(layer)]
    }

    /// A layer's part of a row, to change.
    pub fn layer_mut<'r>(&self, row: &'r mut [u64], layer: usize) -> &'r mut [u64] {
        &mut row[self.words(layer)]
    }

    /// The places of a layer's neurons among those of all layers.
    pub fn span(&self, layer: usize) -> Range<usize> {
        let start = self.neurons[..layer].iter().sum();
        start..start + self.neurons[layer]
    }

    /// Whether a row has no neurons but those of the layers.
    pub fn holds(&self, row: &[u64]) -> bool {
        let layers = self.neurons.iter().enumerate();
        layers
            .filter(|(_, neurons)| **neurons % 64 > 0)
            .all(|(layer, neurons)| {
                let last = self.layer(row, layer).last();
                last.is_none_or(|word| word >> (neurons % 64) == 0)
            })
    }

    /// The neurons that a row has not.
    pub fn complement(&self, row: &[u64]) -> Vec<u64> {
        let mut complement: Vec<u64> = row.iter().map(|word| !word).collect();
        for layer in 0..self.layers() {
            let neurons = self.neurons[layer];
            if let ([.., last], 1..) = (self.layer_mut(&mut complement, layer), neurons % 64) {
                *last &= (1 << (neurons % 64)) - 1;
            }
        }
        complement
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits;

    #[test]
    fn layers_begin_at_words() {
        let layout = PathLayout::new([64, 3, 0, 130]);
        assert_eq!((layout.width(), layout.total_neurons()), (5, 197));
        assert_eq!(
            (layout.words(1), layout.words(2), layout.words(3)),
            (1..2, 2..2, 2..5)
        );
        assert_eq!(layout.span(3), 67..197);
    }

    #[test]
    fn a_complement_has_all_other_neurons_and_no_padding() {
        let layout = PathLayout::new([64, 3, 70]);
        let mut row = vec![0; layout.width()];
        bits::set(layout.layer_mut(&mut row, 1), 1);
        let rest = layout.complement(&row);
        assert_eq!(bits::count(&rest), 64 + 2 + 70);
        assert_eq!(layout.complement(&rest), row);
    }
}
