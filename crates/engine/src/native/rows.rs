//! Rows of one input in lanes.
//!
//! Of one input by itself, a lane can hold a row that others need nothing of: a channel that is pooled,
//! a row that is normalised. Sixteen of them are turned into packs, a kernel does with them what it does
//! with sixteen inputs, and what comes out is turned back.

use npcov_cpu::vectorised;

use crate::native::pack::{LANES, Pack};

/// Turns up to sixteen rows of `packs.len()` numbers, one after the other in `x`, into packs. Lanes
/// without a row repeat the first one.
pub(crate) fn to_packs(x: &[f32], packs: &mut [Pack]) {
    let len = packs.len();
    let rows = (x.len() / len.max(1)).min(LANES);
    let row = |lane: usize| &x[if lane < rows { lane * len } else { 0 }..][..len];
    let rows: [&[f32]; LANES] = std::array::from_fn(row);
    vectorised(
        #[inline(always)]
        || {
            for (i, pack) in packs.iter_mut().enumerate() {
                for l in 0..LANES {
                    pack.0[l] = rows[l][i];
                }
            }
        },
    );
}

/// The inverse of [`to_packs`].
pub(crate) fn from_packs(packs: &[Pack], y: &mut [f32]) {
    for (lane, row) in y.chunks_exact_mut(packs.len().max(1)).enumerate() {
        for (y, pack) in row.iter_mut().zip(packs) {
            *y = pack.0[lane];
        }
    }
}

/// Applies `f` to sixteen rows of `x` at a time, of `from` numbers each, to make rows of `to` numbers of
/// `y`. The working memory has `from + to` packs and what `f` wants.
pub(crate) fn each_sixteen(
    x: &[f32],
    from: usize,
    y: &mut [f32],
    to: usize,
    scratch: &mut [Pack],
    mut f: impl FnMut(&[Pack], &mut [Pack], &mut [Pack]),
) {
    let (packs, rest) = scratch.split_at_mut(from);
    let (made, rest) = rest.split_at_mut(to);
    let x = x.chunks((LANES * from).max(1));
    for (x, y) in x.zip(y.chunks_mut((LANES * to).max(1))) {
        to_packs(x, packs);
        f(packs, made, rest);
        from_packs(made, y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_lanes_and_rows_again() {
        for rows in [1, 3, 16, 21] {
            let x: Vec<f32> = (0..rows * 5).map(|i| i as f32).collect();
            let mut y = vec![0.0; rows * 2];
            let mut scratch = vec![Pack::ZERO; 7];
            each_sixteen(&x, 5, &mut y, 2, &mut scratch, |x, y, _| {
                y[0] = x[1];
                y[1] = x[4].map(|x| -x);
            });
            for (x, y) in x.chunks(5).zip(y.chunks(2)) {
                assert_eq!(y, [x[1], -x[4]]);
            }
        }
    }
}
