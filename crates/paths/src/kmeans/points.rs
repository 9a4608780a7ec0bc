//! What k-means works on: distinct rows and the columns in which they differ.

use std::borrow::Cow;
use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::BitRows;
use crate::bits::count;

/// Rows that follow one another in shards, each of which is asked for when it is needed.
pub trait RowShards: Sync {
    /// Why a shard cannot be had.
    type Error: Send;

    /// How many shards there are.
    fn shards(&self) -> usize;

    /// The rows of a shard, as wide as those of all others: always the same ones.
    fn rows(&self, shard: usize) -> Result<Cow<'_, BitRows>, Self::Error>;
}

/// All of them at once.
impl RowShards for BitRows {
    type Error = Infallible;

    fn shards(&self) -> usize {
        1
    }

    fn rows(&self, _: usize) -> Result<Cow<'_, BitRows>, Infallible> {
        Ok(Cow::Borrowed(self))
    }
}

/// The distinct rows in order of their first appearance, without the columns that are the same in
/// all of them: a column of equal bits adds nothing to any distance.
///
/// A point is in the shard of the first row that is equal to it. So the points of a shard follow
/// those of the shard before. The numbers here are few for each row; the bits of points are held
/// only where all rows are one shard, and read again and again where they are not.
pub(super) struct Points<'a, S> {
    source: &'a S,
    differing: Packing,
    /// Of every shard.
    pieces: Vec<Piece>,
    /// The bits of the only shard.
    held: Option<Cow<'a, BitRows>>,
    /// How many rows each point stands for.
    pub(super) weights: Vec<u32>,
    /// Bits set in each point, in columns that differ.
    pub(super) ones: Vec<u32>,
    /// The point of each row.
    pub(super) of_row: Vec<u32>,
}

/// The points of a shard.
struct Piece {
    /// Among all points.
    points: Range<usize>,
    /// Their rows in the shard.
    rows: Vec<u32>,
}

impl<'a, S: RowShards> Points<'a, S> {
    pub(super) fn new(source: &'a S) -> Result<Points<'a, S>, S::Error> {
        let mut columns: Option<[Vec<u64>; 2]> = None;
        let mut seen: HashMap<[u64; 4], u32> = HashMap::new();
        let (mut weights, mut ones, mut of_row) = (Vec::new(), Vec::new(), Vec::new());
        let mut pieces = Vec::new();
        for shard in 0..source.shards() {
            let rows = source.rows(shard)?;
            let width = rows.width();
            let [all, any] = columns.get_or_insert_with(|| [vec![u64::MAX; width], vec![0; width]]);
            let first = weights.len();
            let mut firsts = Vec::new();
            for (i, row) in rows.rows().enumerate() {
                for ((all, any), &word) in all.iter_mut().zip(&mut *any).zip(row) {
                    *all &= word;
                    *any |= word;
                }
                let next = weights.len() as u32;
                let point = *seen.entry(key(row)).or_insert(next);
                if point == next {
                    weights.push(0);
                    ones.push(count(row));
                    firsts.push(i as u32);
                }
                weights[point as usize] += 1;
                of_row.push(point);
            }
            pieces.push(Piece {
                points: first..weights.len(),
                rows: firsts,
            });
        }
        let [all, any] = columns.unwrap_or_default();
        // Bits that every row has are in no column that differs.
        let common = if weights.is_empty() { 0 } else { count(&all) };
        ones.iter_mut().for_each(|ones| *ones -= common);
        let mut points = Points {
            source,
            differing: Packing::new(all.iter().zip(&any).map(|(all, any)| any & !all)),
            pieces,
            held: None,
            weights,
            ones,
            of_row,
        };
        if points.shards() == 1 {
            points.held = Some(Cow::Owned(points.read(0)?));
        }
        Ok(points)
    }

    pub(super) fn len(&self) -> usize {
        self.weights.len()
    }

    /// Number of shards.
    pub(super) fn shards(&self) -> usize {
        self.pieces.len()
    }

    /// The points of a shard, among all.
    pub(super) fn of_shard(&self, shard: usize) -> Range<usize> {
        self.pieces[shard].points.clone()
    }

    /// The bits of the points of a shard.
    pub(super) fn bits(&self, shard: usize) -> Result<Cow<'_, BitRows>, S::Error> {
        match &self.held {
            Some(bits) => Ok(Cow::Borrowed(&**bits)),
            None => Ok(Cow::Owned(self.read(shard)?)),
        }
    }

    /// The bits of one point.
    pub(super) fn point(&self, point: usize) -> Result<Vec<u64>, S::Error> {
        let shard = (self.pieces).partition_point(|piece| piece.points.end <= point);
        let bits = self.bits(shard)?;
        Ok(bits.row(point - self.pieces[shard].points.start).to_vec())
    }

    fn read(&self, shard: usize) -> Result<BitRows, S::Error> {
        let rows = self.source.rows(shard)?;
        let firsts = &self.pieces[shard].rows;
        let mut bits = BitRows::zeros(self.differing.width(), firsts.len());
        for (i, &row) in firsts.iter().enumerate() {
            self.differing.pack(rows.row(row as usize), bits.row_mut(i));
        }
        Ok(bits)
    }

    /// Columns, those that fill up the last word included.
    pub(super) fn columns(&self) -> usize {
        self.differing.width() * 64
    }
}

impl<'a> Points<'a, BitRows> {
    /// Some of the points of a whole, as they are: distinct rows without columns that are the same in all of it.
    pub(super) fn of_block(bits: &'a BitRows, weights: &[u32]) -> Points<'a, BitRows> {
        let all = 0..bits.len();
        Points {
            source: bits,
            differing: Packing::new(std::iter::repeat_n(u64::MAX, bits.width())),
            pieces: vec![Piece {
                rows: all.clone().map(|row| row as u32).collect(),
                points: all,
            }],
            held: Some(Cow::Borrowed(bits)),
            weights: weights.to_vec(),
            ones: bits.rows().map(count).collect(),
            of_row: Vec::new(),
        }
    }
}

/// What two rows have in common only if they are equal: the row itself where it is short, and else its SHA-256, by
/// which all files of npcov are told apart as well.
fn key(row: &[u64]) -> [u64; 4] {
    let mut key = [0; 4];
    match key.get_mut(..row.len()) {
        Some(start) => start.copy_from_slice(row),
        None => {
            let mut digest = Sha256::new();
            row.iter()
                .for_each(|word| digest.update(word.to_le_bytes()));
            let digest: [u8; 32] = digest.finalize().into();
            for (word, bytes) in key.iter_mut().zip(digest.as_chunks().0) {
                *word = u64::from_le_bytes(*bytes);
            }
        }
    }
    key
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
    use crate::kmeans::testing::InShards;
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
        let Ok(points) = Points::new(&rows);
        assert_eq!(points.of_row, [0, 1, 0]);
        assert_eq!(points.weights, [2, 1]);
        let Ok(bits) = points.bits(0);
        assert_eq!(bits.rows().collect::<Vec<_>>(), [[0b10], [0b01]]);
        assert_eq!(points.ones, [1, 1]);
    }

    #[test]
    fn a_point_is_in_the_shard_of_its_first_row() {
        let mut rows = BitRows::new(5);
        for row in [1, 2, 1, 3, 2, 7] {
            rows.push(&[8, 0, row, 0, row]);
        }
        let shards = InShards {
            rows: &rows,
            shards: 3,
        };
        let Ok(points) = Points::new(&shards);
        let Ok(whole) = Points::new(&rows);
        assert_eq!(points.of_row, [0, 1, 0, 2, 1, 3]);
        assert_eq!(
            (&points.of_row, &points.weights),
            (&whole.of_row, &whole.weights)
        );
        let bits = |points: &Points<'_, InShards<'_>>, shard: usize| {
            points.bits(shard).unwrap().into_owned()
        };
        assert_eq!(
            [0, 1, 2].map(|shard| points.of_shard(shard)),
            [0..2, 2..3, 3..4]
        );
        let Ok(all) = whole.bits(0);
        for shard in 0..3 {
            let own = points.of_shard(shard).map(|point| point as u32);
            assert_eq!(bits(&points, shard), all.gather(&own.collect::<Vec<_>>()));
        }
        assert_eq!(points.ones, whole.ones);
    }
}
