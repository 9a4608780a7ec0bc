//! Convolution of one input by itself: blocks of channels times panels of positions.

use npcov_cpu::Isa;

use super::sight::{Seen, Sight};
use crate::native::kernel::Tail;
use crate::native::pack::{LANES, Pack, numbers, numbers_mut};
use crate::native::panel::{self, MAX_ROWS, MAX_WIDTH};
use crate::native::tile::{Finish, Weights};

/// Packs of panels that are made at a time: 512 KiB, a part of the second-level cache. A block of large
/// weights is then fetched once for all of them.
const MOVED: usize = 8 * 1024;

/// Panels that are made at a time at most.
const PANELS: usize = 8;

pub(super) struct ConvAlone {
    isa: Isa,
    sight: Sight,
    /// Input channels of a group.
    inputs: usize,
}

/// What is computed for one image.
pub(super) struct Image<'a> {
    pub(super) x: &'a [f32],
    /// What is added before sums are limited.
    pub(super) other: Option<&'a [f32]>,
    /// Positions of the output.
    pub(super) pixels: usize,
}

impl ConvAlone {
    pub(super) fn new(isa: Isa, sight: Sight, inputs: usize) -> ConvAlone {
        ConvAlone { isa, sight, inputs }
    }

    /// Packs of a panel, and panels at a time.
    fn panels(&self) -> [usize; 2] {
        let each = self.sight.taps() * self.inputs * panel::width(self.isa);
        [each, (MOVED / each.max(1)).clamp(1, PANELS)]
    }

    pub(super) fn scratch(&self) -> usize {
        self.panels().iter().product()
    }

    /// Computes the channels of all groups.
    pub(super) fn run(
        &self,
        (groups, bias): (&[Weights], &[f32]),
        tail: Tail,
        image: &Image<'_>,
        scratch: &mut [Pack],
        output: &mut [f32],
    ) {
        let width = panel::width(self.isa);
        let [each, panels] = self.panels();
        let positions = width * LANES;
        let mut channel = 0;
        for (g, weights) in groups.iter().enumerate() {
            for first in (0..image.pixels).step_by(panels * positions) {
                let starts = (first..image.pixels).step_by(positions).take(panels);
                for (start, panel) in starts.clone().zip(scratch.chunks_mut(each.max(1))) {
                    self.fill(g, image, start, panel);
                }
                for block in weights.blocks() {
                    let first = channel + block.first;
                    let bias = &bias[first..first + block.height];
                    for (start, panel) in starts.clone().zip(scratch.chunks(each.max(1))) {
                        let mut sums = [Pack::ZERO; MAX_ROWS * MAX_WIDTH];
                        let sums = &mut sums[..block.height * width];
                        let len = positions.min(image.pixels - start);
                        begin(bias, image, (first, start, len), sums);
                        block.accumulate(width, panel, sums);
                        let rows = (first, image.pixels, start, len);
                        end(tail.finish, sums, block.height, rows, output);
                    }
                }
            }
            channel += weights.channels();
        }
    }

    /// What positions from `start` on see.
    fn fill(&self, group: usize, image: &Image<'_>, start: usize, panel: &mut [Pack]) {
        let positions = panel::width(self.isa) * LANES;
        let end = (start + positions).min(image.pixels);
        let channels = group * self.inputs..(group + 1) * self.inputs;
        let panel = numbers_mut(panel);
        let taps = panel.chunks_exact_mut((self.inputs * positions).max(1));
        for (tap, rows) in taps.enumerate() {
            if end - start < positions {
                rows.fill(0.0);
            }
            let pitch = positions;
            let mut seen = Seen { rows, pitch };
            let x = (image.x, channels.clone());
            self.sight.look(tap, x, start..end, &mut seen);
        }
    }
}

/// What sums begin with: the bias, and what is added.
fn begin(
    bias: &[f32],
    image: &Image<'_>,
    (first, start, len): (usize, usize, usize),
    sums: &mut [Pack],
) {
    let width = sums.len() / bias.len().max(1);
    let rows = sums.chunks_exact_mut(width.max(1)).zip(bias);
    for (m, (sums, &bias)) in rows.enumerate() {
        match image.other {
            None => sums.fill(Pack::splat(bias)),
            Some(other) => {
                let other = &other[(first + m) * image.pixels + start..][..len];
                for (sum, other) in numbers_mut(sums).iter_mut().zip(other) {
                    *sum = other + bias;
                }
            }
        }
    }
}

/// Limits sums and stores them.
fn end(
    finish: Finish,
    sums: &mut [Pack],
    height: usize,
    (first, pixels, start, len): (usize, usize, usize, usize),
    output: &mut [f32],
) {
    if let Finish::Clip(low, high) = finish {
        for sum in &mut *sums {
            *sum = sum.map(|y| {
                let y = if low > y { low } else { y };
                if high < y { high } else { y }
            });
        }
    }
    let width = sums.len() / height.max(1);
    for (m, sums) in sums.chunks_exact(width.max(1)).enumerate() {
        let to = &mut output[(first + m) * pixels + start..][..len];
        to.copy_from_slice(&numbers(sums)[..len]);
    }
}
