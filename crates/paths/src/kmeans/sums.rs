//! The sums `D_j(x)`: over the bits set in `x`, how many members of cluster `j` have them.

use std::ops::Add;

use crate::BitRows;

/// Words of a row that are looked up together. Their tables stay in the cache while all rows pass.
const TILE: usize = 4;
/// Clusters that are summed together at most.
const LANES: usize = 16;
/// Bits that are looked up together, and the sums of a table: one for each pattern of these bits.
const GROUP: usize = 8;
const PATTERNS: usize = 1 << GROUP;

/// Sums of one row take up this many places: clusters, filled up to whole vectors.
pub(super) fn stride(clusters: usize) -> usize {
    clusters.next_multiple_of(4)
}

/// Writes `D_j(x)` of the chosen points `x` to `sums`: a row of `stride(clusters)` for each point,
/// whose surplus places are zero. `counts` has a row of all columns for each cluster, no number of
/// which exceeds `most`.
///
/// Whole numbers up to 2^53, hence exact.
pub(super) fn member_sums(
    bits: &BitRows,
    (counts, most): (&[&[u32]], u64),
    chosen: &[u32],
    sums: &mut [f64],
) {
    sums.fill(0.0);
    // Whether the sum over a tile can exceed an i32.
    let large = most * (64 * TILE as u64) > i32::MAX as u64;
    let stride = stride(counts.len());
    for (block, counts) in counts.chunks(LANES).enumerate() {
        let sums = Places {
            sums,
            stride,
            offset: block * LANES,
        };
        match (large, counts.len().div_ceil(4)) {
            (false, 1) => block_sums::<i32, 4>(bits, counts, chosen, sums, |c| c as i32),
            (false, 2) => block_sums::<i32, 8>(bits, counts, chosen, sums, |c| c as i32),
            (false, 3) => block_sums::<i32, 12>(bits, counts, chosen, sums, |c| c as i32),
            (false, _) => block_sums::<i32, 16>(bits, counts, chosen, sums, |c| c as i32),
            (true, 1) => block_sums::<f64, 4>(bits, counts, chosen, sums, f64::from),
            (true, 2) => block_sums::<f64, 8>(bits, counts, chosen, sums, f64::from),
            (true, 3) => block_sums::<f64, 12>(bits, counts, chosen, sums, f64::from),
            (true, _) => block_sums::<f64, 16>(bits, counts, chosen, sums, f64::from),
        }
    }
}

/// Where the sums of a block of clusters go.
struct Places<'a> {
    sums: &'a mut [f64],
    stride: usize,
    offset: usize,
}

/// For each group of bits a table says what every pattern of them adds to all `L` clusters, so
/// that a row takes one addition of vectors for a group instead of one for each bit.
fn block_sums<T, const L: usize>(
    bits: &BitRows,
    counts: &[&[u32]],
    chosen: &[u32],
    places: Places,
    convert: impl Fn(u32) -> T,
) where
    T: Copy + Default + Add<Output = T> + Into<f64>,
{
    let mut tables = vec![[[T::default(); L]; PATTERNS]; TILE.min(bits.width()) * 64 / GROUP];
    for first in (0..bits.width()).step_by(TILE) {
        let words = first..(first + TILE).min(bits.width());
        for (i, table) in tables[..words.len() * 64 / GROUP].iter_mut().enumerate() {
            for bit in 0..GROUP {
                let column = first * 64 + i * GROUP + bit;
                let mut lanes = [T::default(); L];
                for (lane, counts) in lanes.iter_mut().zip(counts) {
                    *lane = convert(counts[column]);
                }
                let (known, doubled) = table[..2 << bit].split_at_mut(1 << bit);
                for (to, from) in doubled.iter_mut().zip(known) {
                    *to = plus(*from, &lanes);
                }
            }
        }
        let rows = places.sums.chunks_exact_mut(places.stride);
        for (&point, sums) in chosen.iter().zip(rows) {
            let mut total = [T::default(); L];
            let row = &bits.row(point as usize)[words.clone()];
            for (&word, tables) in row.iter().zip(tables.chunks_exact(64 / GROUP)) {
                for (i, table) in tables.iter().enumerate() {
                    total = plus(total, &table[(word >> (i * GROUP)) as usize % PATTERNS]);
                }
            }
            for (sum, lane) in sums[places.offset..][..L].iter_mut().zip(total) {
                *sum += lane.into();
            }
        }
    }
}

#[inline(always)]
fn plus<T: Copy + Add<Output = T>, const L: usize>(mut a: [T; L], b: &[T; L]) -> [T; L] {
    for (a, &b) in a.iter_mut().zip(b) {
        *a = *a + b;
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::ones;
    use crate::kmeans::testing::random_rows;

    #[test]
    fn sums_are_those_of_the_definition() {
        let bits = random_rows(40, 600, 0.4, 3);
        let columns = bits.width() * 64;
        let chosen: Vec<u32> = (0..40).filter(|i| i % 3 != 1).collect();
        for clusters in [1, 3, 4, 5, 8, 11, 15, 16, 17, 35] {
            let counts: Vec<Vec<u32>> = (0..clusters)
                .map(|j| {
                    (0..columns)
                        .map(|c| (c * 7919 + j * 31) as u32 % 1009)
                        .collect()
                })
                .collect();
            let stride = stride(clusters);
            let mut sums = vec![f64::NAN; chosen.len() * stride];
            let rows: Vec<&[u32]> = counts.iter().map(|counts| &counts[..]).collect();
            member_sums(&bits, (&rows, 1009), &chosen, &mut sums);
            for (&point, sums) in chosen.iter().zip(sums.chunks(stride)) {
                for j in 0..stride {
                    let expected = counts.get(j).map_or(0, |counts| {
                        ones(bits.row(point as usize)).map(|c| counts[c]).sum()
                    });
                    assert_eq!(
                        sums[j],
                        f64::from(expected),
                        "{clusters} clusters, {point}, {j}"
                    );
                }
            }
        }
    }

    #[test]
    fn large_counts_do_not_overflow() {
        let mut rows = BitRows::new(9);
        rows.push(&[u64::MAX; 9]);
        let counts = [&[u32::MAX; 9 * 64][..]; 2];
        let mut sums = [0.0; 4];
        let places = Places {
            sums: &mut sums,
            stride: 4,
            offset: 0,
        };
        block_sums::<f64, 4>(&rows, &counts, &[0], places, f64::from);
        let sum = 9.0 * 64.0 * f64::from(u32::MAX);
        assert_eq!(sums, [sum, sum, 0.0, 0.0]);
    }
}
