//! Convolution of one input by itself: blocks of channels times panels of positions.

use std::ops::Range;

use npcov_cpu::Isa;

use super::sight::{Seen, Sight};
use crate::native::kernel::Tail;
use crate::native::lines::Lines;
use crate::native::pack::{LANES, Pack, numbers, numbers_mut};
use crate::native::panel::{self, Ends, Few, MAX_FEW, MAX_ROWS, MAX_WIDTH, Panel};
use crate::native::tile::{Block, Weights};

/// Packs of panels that are made at a time: 512 KiB, a part of the second-level cache. A block of large
/// weights is then fetched once for all of them.
const MOVED: usize = 8 * 1024;

/// Panels that are made at a time at most.
const PANELS: usize = 8;

/// Input channels up to which windows of one element are read where they stand: their rows lie far apart,
/// and more of them have no room in the nearest cache.
const DIRECT: usize = 256;

/// Channels that are copied together, and changed while they are in the nearest cache.
const COPIED: usize = 64;

pub(super) struct ConvAlone {
    isa: Isa,
    sight: Sight,
    /// Input channels of a group.
    inputs: usize,
}

/// What is computed for one image.
pub(super) struct Image<'a> {
    pub(super) x: &'a [f32],
    /// What becomes of it when it is read, where windows are one element.
    pub(super) lines: Option<&'a Lines>,
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
        let pitch = panel::width(self.isa) * LANES;
        let mut channel = 0;
        for (g, weights) in groups.iter().enumerate() {
            let mut rest = panel::pieces(self.isa, image.pixels);
            while rest.clone().next().is_some() {
                let pieces = rest.clone().take(panels);
                self.fill(g, image, pieces.clone(), scratch);
                for block in weights.blocks() {
                    let first = channel + block.first;
                    let ends = Ends {
                        bias: &bias[first..first + block.height],
                        other: None,
                        finish: tail.finish,
                    };
                    for (piece, panel) in pieces.clone().zip(scratch.chunks(each.max(1))) {
                        let (rows, pitch) = match self.is_direct(image, &piece) {
                            true => (
                                &image.x[g * self.inputs * image.pixels + piece.start..],
                                image.pixels,
                            ),
                            false => (numbers(panel), pitch),
                        };
                        if piece.len() <= panel::few(self.isa) {
                            let few = Few {
                                x: rows,
                                pitch,
                                step: 1,
                                count: piece.len(),
                            };
                            store_few(&block, few, ends, image, (first, piece.start), output);
                            continue;
                        }
                        let width = piece.len().div_ceil(LANES);
                        let panel = Panel { rows, pitch, width };
                        store(&block, panel, ends, image, (first, piece), output);
                    }
                }
                rest.nth(panels - 1);
            }
            channel += weights.channels();
        }
    }

    /// Whether positions see rows of the image that need not be copied together.
    fn is_direct(&self, image: &Image<'_>, piece: &Range<usize>) -> bool {
        let whole = piece.len().is_multiple_of(LANES) || piece.len() <= panel::few(self.isa);
        let as_it_is = self.sight.is_pointwise() && image.lines.is_none();
        self.inputs <= DIRECT && as_it_is && whole
    }

    /// What positions see, a panel for each piece. Some channels are copied for all pieces before the next ones: what
    /// pieces see of a channel stands side by side.
    fn fill(
        &self,
        group: usize,
        image: &Image<'_>,
        pieces: impl Iterator<Item = Range<usize>> + Clone,
        scratch: &mut [Pack],
    ) {
        let [each, _] = self.panels();
        let pitch = panel::width(self.isa) * LANES;
        let copied = || pieces.clone().enumerate();
        let copied = || copied().filter(|(_, piece)| !self.is_direct(image, piece));
        for tap in 0..self.sight.taps() {
            for first in (0..self.inputs).step_by(COPIED) {
                let channels = first..(first + COPIED).min(self.inputs);
                for (number, piece) in copied() {
                    let panel = numbers_mut(&mut scratch[number * each..][..each]);
                    let row = |channel: usize| (tap * self.inputs + channel) * pitch;
                    let rows = &mut panel[row(channels.start)..row(channels.end)];
                    if !piece.len().is_multiple_of(LANES) {
                        rows.fill(0.0);
                    }
                    let before = group * self.inputs;
                    let of_image = before + channels.start..before + channels.end;
                    let mut seen = Seen { rows, pitch };
                    let x = (image.x, of_image);
                    self.sight.look(tap, x, piece, &mut seen);
                    if let Some(lines) = image.lines {
                        lines.change_rows(channels.start, seen.rows, pitch);
                    }
                }
            }
        }
    }
}

/// Computes the sums of a block, whose first channel is `first`, for a few positions from `start` on.
fn store_few(
    block: &Block<'_>,
    few: Few<'_>,
    ends: Ends<'_>,
    image: &Image<'_>,
    (first, start): (usize, usize),
    output: &mut [f32],
) {
    let at = |m: usize| (first + m) * image.pixels + start;
    let mut sums = [[0.0; LANES]; MAX_FEW];
    if let Some(other) = image.other {
        for m in 0..block.height {
            let other = &other[at(m)..];
            for (sums, other) in sums[..few.count].iter_mut().zip(other) {
                sums[m] = *other;
            }
        }
    }
    block.project_few(few, ends.bias, ends.finish, &mut sums);
    for m in 0..block.height {
        let to = &mut output[at(m)..];
        for (y, sums) in to.iter_mut().zip(&sums[..few.count]) {
            *y = sums[m];
        }
    }
}

/// As [`store_few`], for the positions of a piece.
fn store(
    block: &Block<'_>,
    panel: Panel<'_>,
    ends: Ends<'_>,
    image: &Image<'_>,
    (first, piece): (usize, Range<usize>),
    output: &mut [f32],
) {
    let (pixels, start, len) = (image.pixels, piece.start, piece.len());
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
        for (m, others) in others
            .chunks_exact_mut(pitch)
            .take(block.height)
            .enumerate()
        {
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
