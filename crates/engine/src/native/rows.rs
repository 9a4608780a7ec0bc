//! Rows of one input in lanes.
//!
//! Of one input by itself, a lane can hold a row that others need nothing of: a channel that is pooled,
//! a row that is normalised. Sixteen of them are turned into packs, a kernel does with them what it does
//! with sixteen inputs, and what comes out is turned back.

use crate::native::pack::{LANES, Pack, numbers, numbers_mut};
use crate::native::turn::{Matrix, turn};

/// Turns up to sixteen rows of `packs.len()` numbers, one after the other in `x`, into packs. Lanes
/// without a row repeat the first one.
pub(crate) fn to_packs(x: &[f32], packs: &mut [Pack]) {
    to_packs_from(x, packs.len(), packs);
}

/// As [`to_packs`], of rows that begin `pitch` numbers apart.
pub(crate) fn to_packs_from(x: &[f32], pitch: usize, packs: &mut [Pack]) {
    let cols = packs.len();
    let rows = (x.len().saturating_sub(cols) / pitch.max(1) + 1).min(LANES);
    turn(x, Matrix { rows, cols, pitch }, numbers_mut(packs), LANES);
    if rows < LANES {
        for pack in packs {
            let first = pack.0[0];
            pack.0[rows..].fill(first);
        }
    }
}

/// The inverse of [`to_packs`].
pub(crate) fn from_packs(packs: &[Pack], y: &mut [f32]) {
    let rows = packs.len();
    let cols = (y.len() / rows.max(1)).min(LANES);
    let pitch = LANES;
    turn(numbers(packs), Matrix { rows, cols, pitch }, y, rows);
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
