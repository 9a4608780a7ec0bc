//! Sets of neurons as rows of bits.

/// Rows of bits, all of one length, one after the other in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BitRows {
    /// Words in a row.
    width: usize,
    len: usize,
    words: Vec<u64>,
}

impl BitRows {
    /// No rows yet, of `width` words each.
    pub fn new(width: usize) -> BitRows {
        BitRows {
            width,
            len: 0,
            words: Vec::new(),
        }
    }

    /// `len` rows without a bit.
    pub fn zeros(width: usize, len: usize) -> BitRows {
        BitRows {
            width,
            len,
            words: vec![0; width * len],
        }
    }

    /// Words in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A row.
    pub fn row(&self, index: usize) -> &[u64] {
        &self.words[index * self.width..(index + 1) * self.width]
    }

    /// A row to change.
    pub fn row_mut(&mut self, index: usize) -> &mut [u64] {
        &mut self.words[index * self.width..(index + 1) * self.width]
    }

    /// All rows.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[u64]> {
        (0..self.len).map(|index| self.row(index))
    }

    /// Appends a row. It has the width of the others.
    pub fn push(&mut self, row: &[u64]) {
        assert_eq!(row.len(), self.width, "a row of another width");
        self.words.extend_from_slice(row);
        self.len += 1;
    }

    /// Appends so many rows without a bit.
    pub fn extend_with_zeros(&mut self, rows: usize) {
        self.len += rows;
        self.words.resize(self.len * self.width, 0);
    }

    /// Removes all rows; their memory is kept for others.
    pub fn clear(&mut self) {
        self.len = 0;
        self.words.clear();
    }

    /// The named rows, in the order of `indices`.
    pub fn gather(&self, indices: &[u32]) -> BitRows {
        let mut gathered = BitRows::new(self.width);
        gathered.words.reserve(indices.len() * self.width);
        for &index in indices {
            gathered.push(self.row(index as usize));
        }
        gathered
    }
}

/// Number of bits that are set.
pub fn count(row: &[u64]) -> u32 {
    row.iter().map(|word| word.count_ones()).sum()
}

/// Number of bits that are set in both.
#[inline(always)]
pub fn count_both(a: &[u64], b: &[u64]) -> u32 {
    let mut count = 0;
    for (a, b) in a.iter().zip(b) {
        count += (a & b).count_ones();
    }
    count
}

/// The positions of the bits that are set, in ascending order.
pub fn ones(row: &[u64]) -> impl Iterator<Item = usize> {
    row.iter().enumerate().flat_map(|(i, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                i * 64 + bit
            })
        })
    })
}

/// Sets a bit.
pub fn set(row: &mut [u64], bit: usize) {
    row[bit / 64] |= 1 << (bit % 64);
}

/// Whether a bit is set.
pub fn get(row: &[u64], bit: usize) -> bool {
    row[bit / 64] >> (bit % 64) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_set_counted_and_listed() {
        let mut rows = BitRows::zeros(2, 2);
        for bit in [0, 63, 64, 100] {
            set(rows.row_mut(1), bit);
        }
        assert_eq!(ones(rows.row(1)).collect::<Vec<_>>(), [0, 63, 64, 100]);
        assert_eq!((count(rows.row(0)), count(rows.row(1))), (0, 4));
        assert!(get(rows.row(1), 63) && !get(rows.row(1), 62));
        let other = [1, 1 << 36];
        rows.push(&other);
        assert_eq!(count_both(rows.row(1), rows.row(2)), 2);
        let gathered = rows.gather(&[2, 0]);
        assert_eq!(gathered.rows().collect::<Vec<_>>(), [&other[..], &[0, 0]]);
    }
}
