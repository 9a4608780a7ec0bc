//! How many members of a cluster have each bit.

use crate::BitRows;
use crate::bits::ones;

/// One bit of each byte.
const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// Adds to `total`, for every column, the weight of those `members` that have its bit.
pub(super) fn add_columns(bits: &BitRows, weights: &[u32], members: &[u32], total: &mut [u32]) {
    let mut heavy = Vec::new();
    // Byte b of counter i of a word counts its column 8 b + i, and holds up to 255.
    let mut counters = vec![[0u64; 8]; bits.width()];
    for batch in members.chunks(255) {
        for &member in batch {
            if weights[member as usize] > 1 {
                heavy.push(member);
                continue;
            }
            for (counters, &word) in counters.iter_mut().zip(bits.row(member as usize)) {
                for (i, counter) in counters.iter_mut().enumerate() {
                    *counter += word >> i & LOW_BITS;
                }
            }
        }
        for (counters, total) in counters.iter_mut().zip(total.chunks_exact_mut(64)) {
            for (i, counter) in counters.iter_mut().enumerate() {
                for (b, count) in counter.to_le_bytes().into_iter().enumerate() {
                    total[8 * b + i] += u32::from(count);
                }
                *counter = 0;
            }
        }
    }
    for member in heavy {
        let weight = weights[member as usize];
        for column in ones(bits.row(member as usize)) {
            total[column] += weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmeans::points::Points;
    use crate::kmeans::testing::random_rows;

    #[test]
    fn columns_are_counted_as_row_by_row() {
        // Over two batches of single rows, and rows that repeat.
        let mut rows = random_rows(700, 130, 0.4, 1);
        for i in (0..600).step_by(7) {
            let row = rows.row(i).to_vec();
            rows.push(&row);
        }
        let Ok(points) = Points::new(&rows);
        assert!(points.weights.contains(&2) && points.len() > 510);
        let Ok(bits) = points.bits(0);
        let members: Vec<u32> = (0..points.len() as u32).filter(|i| i % 11 != 0).collect();
        // What is there stays.
        let mut expected: Vec<u32> = (0..points.columns() as u32).collect();
        let mut found = expected.clone();
        for &member in &members {
            for column in ones(bits.row(member as usize)) {
                expected[column] += points.weights[member as usize];
            }
        }
        add_columns(&bits, &points.weights, &members, &mut found);
        assert_eq!(found, expected);
    }
}
