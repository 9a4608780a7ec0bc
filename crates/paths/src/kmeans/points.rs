//! What k-means works on: distinct rows and the columns in which they differ.

use std::collections::HashMap;

use crate::BitRows;
use crate::bits::count;

/// The distinct rows in order of their first appearance, without the columns that are the same in
/// all of them: a column of equal bits adds nothing to any distance.
pub(super) struct Points {
    pub(super) bits: BitRows,
    /// How many rows each point stands for.
    pub(super) weights: Vec<u32>,
    /// Bits set in each point.
    pub(super) ones: Vec<u32>,
    /// The point of each row.
    pub(super) of_row: Vec<u32>,
}

impl Points {
    pub(super) fn new(rows: &BitRows) -> Points {
        let differing = differing_columns(rows);
        let mut bits = BitRows::new(differing.width());
        let mut packed = vec![0; differing.width()];
        let mut weights = Vec::new();
        let mut of_row = Vec::with_capacity(rows.len());
        let mut seen: HashMap<Vec<u64>, u32> = HashMap::new();
        for row in rows.rows() {
            differing.pack(row, &mut packed);
            if let Some(&point) = seen.get(&packed) {
                weights[point as usize] += 1;
                of_row.push(point);
            } else {
                let point = weights.len() as u32;
                seen.insert(packed.clone(), point);
                bits.push(&packed);
                weights.push(1);
                of_row.push(point);
            }
        }
        let ones = bits.rows().map(count).collect();
        Points {
            bits,
            weights,
            ones,
            of_row,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.weights.len()
    }

    /// Columns, those that fill up the last word included.
    pub(super) fn columns(&self) -> usize {
        self.bits.width() * 64
    }

    /// Number of rows.
    pub(super) fn total_weight(&self) -> u64 {
        self.of_row.len() as u64
    }
}

/// The columns in which at least two rows differ.
fn differing_columns(rows: &BitRows) -> Packing {
    let mut all = vec![u64::MAX; rows.width()];
    let mut any = vec![0; rows.width()];
    for row in rows.rows() {
        for ((all, any), &word) in all.iter_mut().zip(&mut any).zip(row) {
            *all &= word;
            *any |= word;
        }
    }
    Packing::new(all.iter().zip(&any).map(|(all, any)| any & !all))
}

/// Picks columns of a row and packs them without gaps.
struct Packing {
    words: Vec<Compress>,
    columns: usize,
}

impl Packing {
    fn new(masks: impl Iterator<Item = u64>) -> Packing {
        let words: Vec<Compress> = masks.map(Compress::new).collect();
        let columns = words.iter().map(|word| word.columns as usize).sum();
        Packing { words, columns }
    }

    fn width(&self) -> usize {
        self.columns.div_ceil(64)
    }

    fn pack(&self, row: &[u64], packed: &mut [u64]) {
        packed.fill(0);
        let mut at = 0;
        for (compress, &word) in self.words.iter().zip(row) {
            if compress.columns == 0 {
                continue;
            }
            let bits = compress.apply(word);
            let (index, shift) = (at / 64, at % 64);
            packed[index] |= bits << shift;
            if shift + compress.columns as usize > 64 {
                packed[index + 1] |= bits >> (64 - shift);
            }
            at += compress.columns as usize;
        }
    }
}

/// Moves the bits of a word that a mask selects to its low end, in order.
///
/// A bit moves right by the number of unselected bits below it. Step `i` of six moves by `2^i`
/// those bits whose distance has binary digit `i`; which ones is known from the mask alone.
struct Compress {
    mask: u64,
    columns: u32,
    moves: [u64; 6],
}

impl Compress {
    fn new(mask: u64) -> Compress {
        let mut moves = [0; 6];
        let mut at = mask;
        // Bit b tells whether the bits b-1, b-2, ... hold an unselected one to be counted.
        let mut unselected = !mask << 1;
        for (i, moving) in moves.iter_mut().enumerate() {
            // Parity of the counted bits at and below every place.
            let mut parity = unselected;
            for shift in [1, 2, 4, 8, 16, 32] {
                parity ^= parity << shift;
            }
            *moving = parity & at;
            at = at ^ *moving | *moving >> (1 << i);
            // Every second one remains, to be counted in the next digit.
            unselected &= !parity;
        }
        Compress {
            mask,
            columns: mask.count_ones(),
            moves,
        }
    }

    fn apply(&self, word: u64) -> u64 {
        let mut bits = word & self.mask;
        for (i, moves) in self.moves.iter().enumerate() {
            let moving = bits & moves;
            bits = bits ^ moving | moving >> (1 << i);
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::{get, set};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn compress_keeps_the_selected_bits_in_order(mask: u64, word: u64) {
            let mut expected = 0;
            for (to, from) in (0..64).filter(|bit| mask >> bit & 1 == 1).enumerate() {
                expected |= (word >> from & 1) << to;
            }
            prop_assert_eq!(Compress::new(mask).apply(word), expected);
        }

        #[test]
        fn packing_keeps_the_selected_columns_in_order(
            (masks, row) in prop::collection::vec(any::<(u64, u64)>(), 0..5)
                .prop_map(|pairs| pairs.into_iter().unzip::<_, _, Vec<u64>, Vec<u64>>())
        ) {
            let packing = Packing::new(masks.iter().copied());
            let mut packed = vec![u64::MAX; packing.width()];
            packing.pack(&row, &mut packed);
            let mut expected = vec![0; packing.width()];
            let columns = (0..masks.len() * 64).filter(|&column| get(&masks, column));
            for (to, from) in columns.enumerate() {
                if get(&row, from) {
                    set(&mut expected, to);
                }
            }
            prop_assert_eq!(packed, expected);
        }
    }

    #[test]
    fn equal_rows_are_one_point_and_equal_columns_none() {
        let mut rows = BitRows::new(2);
        for row in [[0b1101, 1], [0b1011, 1], [0b1101, 1]] {
            rows.push(&row);
        }
        let points = Points::new(&rows);
        assert_eq!(points.of_row, [0, 1, 0]);
        assert_eq!(points.weights, [2, 1]);
        assert_eq!(points.bits.rows().collect::<Vec<_>>(), [[0b10], [0b01]]);
        assert_eq!(points.ones, [1, 1]);
    }
}
