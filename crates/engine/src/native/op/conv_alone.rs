//! Convolution of one input by itself: blocks of channels times panels of positions.

use npcov_cpu::Isa;

use super::sight::{Seen, Sight};
use crate::native::kernel::Tail;
use crate::native::pack::{LANES, Pack, numbers, numbers_mut};
use crate::native::panel::{self, Ends, MAX_ROWS, MAX_WIDTH, Panel};
use crate::native::tile::{Block, Weights};

/// Packs of panels that are made at a time: 512 KiB, a part of the second-level cache. A block of large
/// weights is then fetched once for all of them.
const MOVED: usize = 8 * 1024;

/// Panels that are made at a time at most.
const PANELS: usize = 8;

/// Input channels up to which windows of one element are read where they stand: their rows lie far apart,
/// and more of them have no room in the nearest cache.
const DIRECT: usize = 128;

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
        let [each, panels] = self.panels();
        let positions = panel::width(self.isa) * LANES;
        let mut channel = 0;
        for (g, weights) in groups.iter().enumerate() {
            for first in (0..image.pixels).step_by(panels * positions) {
                let starts = (first..image.pixels).step_by(positions).take(panels);
                for (start, panel) in starts.clone().zip(scratch.chunks_mut(each.max(1))) {
                    if !self.is_direct(image, start) {
                        self.fill(g, image, start, panel);
                    }
                }
                for block in weights.blocks() {
                    let first = channel + block.first;
                    let bias = &bias[first..first + block.height];
                    let ends = Ends {
                        bias,
                        other: None,
                        finish: tail.finish,
                    };
                    for (start, panel) in starts.clone().zip(scratch.chunks(each.max(1))) {
                        let len = positions.min(image.pixels - start);
                        let width = len.div_ceil(LANES);
                        let panel = match self.is_direct(image, start) {
                            true => Panel {
                                rows: &image.x[g * self.inputs * image.pixels + start..],
                                pitch: image.pixels,
                                width,
                            },
                            false => Panel {
                                rows: numbers(panel),
                                pitch: positions,
                                width,
                            },
                        };
                        let rows = (first, start, len);
                        store(&block, panel, ends, image, rows, output);
                    }
                }
            }
            channel += weights.channels();
        }
    }

    /// Whether positions from `start` on see rows of the image that need not be copied together.
    fn is_direct(&self, image: &Image<'_>, start: usize) -> bool {
        let positions = panel::width(self.isa) * LANES;
        self.inputs <= DIRECT && self.sight.is_pointwise() && start + positions <= image.pixels
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

/// Computes the sums of a block for `len` positions from `start` on; `first` is its first channel.
fn store(
    block: &Block<'_>,
    panel: Panel<'_>,
    ends: Ends<'_>,
    image: &Image<'_>,
    (first, start, len): (usize, usize, usize),
    output: &mut [f32],
) {
    let pixels = image.pixels;
    let row = |m: usize| (first + m) * pixels + start..(first + m) * pixels + start + len;
    let at = first * pixels + start;
    if len == panel.width * LANES {
        let other = image.other.map(|other| &other[at..]);
        let ends = Ends { other, ..ends };
        return block.project(panel, &ends, &mut output[at..], pixels);
    }
    // What is less than a pack comes and goes by way of a buffer.
    let pitch = MAX_WIDTH * LANES;
    let mut sums = [0.0; MAX_ROWS * MAX_WIDTH * LANES];
    let mut others = [0.0; MAX_ROWS * MAX_WIDTH * LANES];
    if let Some(other) = image.other {
        for (m, others) in others.chunks_exact_mut(pitch).take(block.height).enumerate() {
            others[..len].copy_from_slice(&other[row(m)]);
        }
    }
    let other = image.other.map(|_| &others[..]);
    let ends = Ends { other, ..ends };
    block.project(panel, &ends, &mut sums, pitch);
    for (m, sums) in sums.chunks_exact(pitch).take(block.height).enumerate() {
        output[row(m)].copy_from_slice(&sums[..len]);
    }
}
