//! How many clusters there are.

use super::GraphClustering;
use crate::BitRows;
use crate::bits::ones;

/// How many clusters rows of bits have, from 1 to `most`: as many as [`GraphClustering`] finds with its
/// default settings, by the number of bits in which rows differ.
///
/// This looks at the rows alone. What masking does to abstract paths cannot tell: the fewer clusters,
/// the fewer neurons do their members share, and the narrowest abstract paths that still decide are
/// those of one.
pub fn number_of_clusters(rows: &BitRows, most: usize, seed: u64, threads: usize) -> usize {
    let clustering = GraphClustering {
        seed,
        ..GraphClustering::default()
    };
    let (bytes, width) = bytes_of(rows);
    let labels = clustering.run(&bytes, width, threads);
    let found = labels.iter().max().map_or(1, |&last| last as usize + 1);
    found.min(most).max(1)
}

/// A byte for each bit that some row has, 0 or 1: the squared distance of two rows is the number of
/// bits in which they differ.
fn bytes_of(rows: &BitRows) -> (Vec<u8>, usize) {
    let mut any = vec![0; rows.width()];
    for row in rows.rows() {
        any.iter_mut().zip(row).for_each(|(any, word)| *any |= word);
    }
    let mut places = vec![0; rows.width() * 64];
    let mut width = 0;
    for bit in ones(&any) {
        places[bit] = width;
        width += 1;
    }
    let mut bytes = vec![0; rows.len() * width];
    for (row, bytes) in rows.rows().zip(bytes.chunks_exact_mut(width.max(1))) {
        ones(row).for_each(|bit| bytes[places[bit]] = 1);
    }
    (bytes, width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmeans::testing::noisy_rows;

    #[test]
    fn copies_with_noise_are_as_many_as_there_are_originals() {
        for originals in 2..7 {
            for noise in [0.0, 0.05] {
                let rows = noisy_rows(100 * originals, 200, originals, noise, 3);
                assert_eq!(number_of_clusters(&rows, 10, 0, 2), originals);
                assert_eq!(number_of_clusters(&rows, 2, 0, 2), 2);
            }
        }
    }

    #[test]
    fn nothing_is_one_cluster() {
        assert_eq!(number_of_clusters(&BitRows::new(3), 10, 0, 1), 1);
        assert_eq!(number_of_clusters(&BitRows::zeros(3, 50), 10, 0, 1), 1);
        assert_eq!(number_of_clusters(&BitRows::zeros(3, 50), 0, 0, 1), 1);
    }

    #[test]
    fn bytes_are_bits_that_occur() {
        let mut rows = BitRows::new(2);
        rows.push(&[0b101, 0]);
        rows.push(&[0b100, 1 << 63]);
        assert_eq!(bytes_of(&rows), (vec![1, 1, 0, 0, 1, 1], 3));
    }
}
