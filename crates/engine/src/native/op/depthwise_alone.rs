//! Windows that slide over single channels of one input by itself.
//!
//! A channel is copied with its padding. With a stride of `s` its rows and columns are dealt out to `s`
//! by `s` *phases*, in each of which neighbouring positions of the output see neighbours. Then a tap
//! is a shift: position `q` of the output, counted in rows as wide as a phase, sees element `q + shift`
//! of one phase. All positions are computed in one long row; those behind the width of the output are
//! dropped.

use npcov_cpu::widest;

use crate::native::pack::LANES;

/// Numbers that are summed in registers together.
const STEP: usize = 4 * LANES;

/// A tap: its weight's position, and the element that position 0 sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shift {
    pub(super) weight: usize,
    pub(super) from: usize,
}

/// The sums of a row: `y[q] += sum over shifts of w * x[q + from]`, in their order, as
/// [`Depthwise`](super::depthwise::Depthwise) has them.
pub(super) fn slide(x: &[f32], weights: &[f32], shifts: &[Shift], y: &mut [f32]) {
    widest(
        #[inline(always)]
        || {
            let (whole, rest) = y.as_chunks_mut::<STEP>();
            let behind = whole.len() * STEP;
            for (number, y) in whole.iter_mut().enumerate() {
                let mut sums = *y;
                for shift in shifts {
                    let weight = weights[shift.weight];
                    let at = shift.from + number * STEP;
                    let x: &[f32] = &x[at..at + STEP];
                    for (sum, x) in sums.iter_mut().zip(x) {
                        *sum += weight * x;
                    }
                }
                *y = sums;
            }
            for shift in shifts {
                let weight = weights[shift.weight];
                let at = shift.from + behind;
                for (sum, x) in rest.iter_mut().zip(&x[at..]) {
                    *sum += weight * x;
                }
            }
        },
    );
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

    /// Numbers of all phases, and of what positions behind the last one see.
    pub(super) fn len(&self) -> usize {
        self.strides.iter().product::<usize>() * self.extent.iter().product::<usize>()
            + self.extent[1]
    }

    /// Where an element that lies `at` rows and columns behind the beginning of the padding stands.
    pub(super) fn place(&self, at: [usize; 2]) -> usize {
        let [rows, cols] = self.strides;
        let phase = at[0] % rows * cols + at[1] % cols;
        (phase * self.extent[0] + at[0] / rows) * self.extent[1] + at[1] / cols
    }

    /// Copies a channel.
    pub(super) fn fill(&self, plane: &[f32], phases: &mut [f32]) {
        phases.fill(0.0);
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
                let to = phases[start..start + room].iter_mut();
                match step {
                    1 => to.zip(x).for_each(|(y, x)| *y = *x),
                    _ => (to.zip(x[first..].iter().step_by(step))).for_each(|(y, x)| *y = *x),
                }
            }
        }
    }
}
