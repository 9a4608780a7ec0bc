//! Windows that slide over single channels of one input by itself.
//!
//! A channel is copied with its padding. With a stride of `s` its rows and columns are dealt out to `s`
//! by `s` *phases*, in each of which neighbouring positions of the output see neighbours. Then a tap
//! is a shift: position `q` of the output, counted in rows as wide as a phase, sees element `q + shift`
//! of one phase. All positions are computed in one long row; those behind the width of the output are
//! dropped.

use npcov_cpu::widest;

use crate::native::pack::LANES;

/// The first numbers of rows that are `pitch` apart, one row after the other.
pub(super) fn crop(rows: &[f32], pitch: usize, width: usize, y: &mut [f32]) {
    let count = y.len() / width.max(1);
    for row in 0..count {
        let (from, to) = (row * pitch, row * width);
        // A copy of known length is one instruction; what it writes behind a short row is written
        // again.
        match (rows.get(from..from + LANES), y.get_mut(to..to + LANES)) {
            (Some(x), Some(y)) if width <= LANES => y.copy_from_slice(x),
            _ => y[to..to + width].copy_from_slice(&rows[from..from + width]),
        }
    }
}

/// How a channel is copied with its padding.
#[derive(Clone, Debug)]
pub(super) struct Phases {
    /// Height and width of the channel.
    x: [usize; 2],
    /// Padding before it.
    pads: [usize; 2],
    strides: [usize; 2],
    /// Rows and columns of a phase.
    pub(super) extent: [usize; 2],
}

impl Phases {
    /// Phases of which each has `extent` rows and columns, and all of what is seen.
    pub(super) fn new(
        x: [usize; 2],
        pads: [usize; 2],
        strides: [usize; 2],
        extent: [usize; 2],
    ) -> Phases {
        Phases {
            x,
            pads,
            strides,
            extent,
        }
    }

    /// Numbers of all phases, and of what positions behind the last one see, to the end of a pack.
    pub(super) fn len(&self) -> usize {
        self.strides.iter().product::<usize>() * self.extent.iter().product::<usize>()
            + self.extent[1]
            + LANES
    }

    /// Where an element that lies `at` rows and columns behind the beginning of the padding stands.
    pub(super) fn place(&self, at: [usize; 2]) -> usize {
        let [rows, cols] = self.strides;
        let phase = at[0] % rows * cols + at[1] % cols;
        (phase * self.extent[0] + at[0] / rows) * self.extent[1] + at[1] / cols
    }

    /// Copies a channel into phases that are zero, or hold another channel.
    pub(super) fn fill(&self, plane: &[f32], phases: &mut [f32]) {
        widest(
            #[inline(always)]
            || self.fill_rows(plane, phases),
        );
    }

    #[inline(always)]
    fn fill_rows(&self, plane: &[f32], phases: &mut [f32]) {
        let [height, width] = self.x;
        let step = self.strides[1];
        for row in 0..height {
            let x = &plane[row * width..(row + 1) * width];
            for first in 0..step.min(width) {
                let at = [row + self.pads[0], first + self.pads[1]];
                if at[0] / self.strides[0] >= self.extent[0] {
                    continue;
                }
                let start = self.place(at);
                let room = self.extent[1].saturating_sub(at[1] / step);
                let to = &mut phases[start..start + room];
                every(&x[first..], step, to);
            }
        }
    }
}

/// Every `step`-th number, as many as there are and have room.
#[inline(always)]
pub(super) fn every(x: &[f32], step: usize, y: &mut [f32]) {
    let len = x.len().div_ceil(step).min(y.len());
    let y = &mut y[..len];
    match step {
        1 => in_blocks(x, y, |x| *x),
        // Pairs are vectors, of which one half is taken.
        2 => {
            let (pairs, last) = x.as_chunks::<2>();
            let whole = pairs.len().min(len);
            in_blocks(pairs, &mut y[..whole], |pair| pair[0]);
            if let ([last], true) = (last, whole < len) {
                y[whole] = *last;
            }
        }
        _ => {
            for (y, x) in y.iter_mut().zip(x.iter().step_by(step)) {
                *y = *x;
            }
        }
    }
}

/// A number from each `x`: vectors where there are enough for one, without a loop over what is left and
/// without a call.
#[inline(always)]
fn in_blocks<T>(x: &[T], y: &mut [f32], f: impl Fn(&T) -> f32) {
    match y.len() {
        16.. => blocks_of::<16, T>(x, y, f),
        8.. => blocks_of::<8, T>(x, y, f),
        4.. => blocks_of::<4, T>(x, y, f),
        _ => {
            for (y, x) in y.iter_mut().zip(x) {
                *y = f(x);
            }
        }
    }
}

/// `N` numbers at a time, of which the last ones may be made twice.
#[inline(always)]
fn blocks_of<const N: usize, T>(x: &[T], y: &mut [f32], f: impl Fn(&T) -> f32) {
    let last = y.len().saturating_sub(N);
    let mut at = 0;
    while let (Some(y), Some(x)) = (y[at..].first_chunk_mut::<N>(), x[at..].first_chunk::<N>()) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = f(x);
        }
        if at == last {
            break;
        }
        at = (at + N).min(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_that_has_room_is_taken() {
        let sizes = (0..70).flat_map(|n| [(n, 1, n), (n, 2, n), (n, 2, n / 3), (n, 3, n)]);
        for (numbers, step, room) in sizes.chain([(7, 1, 9), (41, 2, 9), (10, 3, 5)]) {
            let x: Vec<f32> = (0..numbers).map(|i| i as f32 + 1.0).collect();
            let mut y = vec![0.0; room];
            every(&x, step, &mut y);
            for (i, y) in y.iter().enumerate() {
                assert_eq!(*y, x.get(i * step).copied().unwrap_or(0.0));
            }
        }
    }

    #[test]
    fn rows_are_cropped() {
        for (pitch, width, count) in [(9, 7, 7), (16, 14, 14), (40, 33, 3), (5, 5, 1)] {
            let rows: Vec<f32> = (0..count * pitch).map(|i| i as f32).collect();
            let mut y = vec![-1.0; count * width];
            crop(&rows, pitch, width, &mut y);
            for (i, y) in y.iter().enumerate() {
                assert_eq!(*y, rows[i / width * pitch + i % width]);
            }
        }
    }
}
