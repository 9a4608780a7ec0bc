//! Convolutions of 3x3 taps and stride 1 with a quarter of the multiplications.
//!
//! Winograd's `F(4x4, 3x3)`: the map is cut into tiles of four by four positions, each of which
//! sees six by six inputs. These are transformed to 36 points ([`transform`]), at each of which the
//! channels are multiplied with a matrix ([`product`]), and the results are transformed back. With
//! lanes for inputs all of it is plain arithmetic on packs; nothing is shuffled.

pub(crate) mod alike;
mod dealt;
mod firsts;
pub(crate) mod product;
pub(crate) mod single;
pub(crate) mod transform;

use std::ops::Range;

use npcov_cpu::Isa;
use npcov_graph::op::Window;

pub(crate) use self::product::Matrices;
use self::product::PANEL;
use self::transform::{POINTS, SEEN, Square, TILE};
use crate::native::pack::{LANES, Pack, numbers, numbers_mut};

/// What transforms of a channel of a tile cost, both ways, in multiply-adds of a point.
const TRANSFORM: usize = 10;

/// Packs of transformed tiles that are worked on at a time, unless a few tiles need more: 1.5 MiB,
/// about what a second-level cache holds.
const GROUP: usize = 24 * 1024;

/// Tiles that are worked on together at least, where there are as many: each weight is fetched once
/// for all of them.
const TILES: usize = 8;

/// How a map is cut into tiles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiling {
    /// Height and width of the input and of the output.
    pub(crate) x: [usize; 2],
    pub(crate) y: [usize; 2],
    /// Padding before the first row and column.
    pub(super) pads: [usize; 2],
}

impl Tiling {
    /// The tiles of a convolution from maps of extent `x` to such of extent `y`, when its window is
    /// of the right kind.
    pub(crate) fn new(window: &Window, x: &[usize], y: &[usize]) -> Option<Tiling> {
        let fits =
            window.kernel == [3, 3] && window.strides == [1, 1] && window.dilations == [1, 1];
        Some(Tiling {
            x: x.try_into().ok()?,
            y: y.try_into().ok()?,
            pads: window.pads_begin[..].try_into().ok().filter(|_| fits)?,
        })
    }

    /// Multiply-adds, and work that takes as long, for so many channels of the input and of the
    /// output.
    pub(crate) fn cost(&self, inputs: usize, outputs: usize) -> usize {
        let filled = |channels: usize| channels.next_multiple_of(PANEL);
        let products = inputs * filled(outputs);
        POINTS * self.tiles() * (products + TRANSFORM * (inputs + outputs))
    }

    /// Multiply-adds of the convolution as it is defined, without those in the padding.
    pub(crate) fn direct_cost(&self, window: &Window, inputs: usize, outputs: usize) -> usize {
        let taps = |axis: usize| -> usize {
            let along = |at| window.tap_range(axis, at, self.x[axis]).len();
            (0..self.y[axis]).map(along).sum()
        };
        taps(0) * taps(1) * inputs * outputs
    }

    /// Number of tiles.
    pub(crate) fn tiles(&self) -> usize {
        self.y[0].div_ceil(TILE) * self.y[1].div_ceil(TILE)
    }

    /// Tiles that are worked on together when each has `packs` at every point.
    pub(crate) fn group(&self, packs: usize) -> usize {
        let fitting = GROUP / (POINTS * packs).max(1);
        fitting.max(TILES).min(self.tiles())
    }

    /// Packs of tiles of so many inputs, a lane for each tile, and how many of them are worked on together
    /// when each has `packs` at every point.
    pub(crate) fn groups_alone(&self, inputs: usize, packs: usize) -> [usize; 2] {
        let all = (inputs * self.tiles()).div_ceil(LANES);
        [all, self.group(packs).min(all)]
    }

    /// Packs that the tiles of one input fill, a lane for each.
    pub(crate) fn packs(&self) -> usize {
        self.tiles().div_ceil(LANES)
    }

    /// Transforms what some packs hold of the tiles of so many inputs, one row of tiles: `plane` is a channel
    /// of each input. Each pack of a point goes next to those of the others. Where channels are dealt out is
    /// zero before the first one.
    pub(crate) fn transform_alone<'a>(
        &self,
        isa: Isa,
        (inputs, plane): (usize, &dyn Fn(usize) -> &'a [f32]),
        packs: &Range<usize>,
        dealt: &mut [Pack],
        (v, spread): (&mut [Pack], usize),
    ) {
        let (dealt, stretch) = (numbers_mut(dealt), self.stretch(inputs));
        for (input, tiles, _) in self.parts(packs, inputs) {
            let from = input * self.tiles();
            self.deal(isa, plane(input), &tiles, (&mut dealt[from..], stretch));
        }
        let square = Square::new(SEEN * stretch, stretch);
        for (number, pack) in packs.clone().enumerate() {
            let seen = &dealt[pack * LANES..];
            transform::input(isa, seen, square, &mut v[number..], spread);
        }
    }

    /// The output position at the beginning of a tile.
    fn origin(&self, tile: usize) -> [usize; 2] {
        let across = self.y[1].div_ceil(TILE);
        [tile / across * TILE, tile % across * TILE]
    }

    /// The rows and columns of a tile that lie in the output.
    pub(crate) fn inside(&self, tile: usize) -> [Range<usize>; 2] {
        let origin = self.origin(tile);
        std::array::from_fn(|a| origin[a]..(origin[a] + TILE).min(self.y[a]))
    }

    /// The rows and columns of the six by six inputs that a tile sees which lie in the input, and
    /// how many are cut off before them.
    pub(crate) fn seen(&self, tile: usize) -> [(Range<usize>, usize); 2] {
        self.inputs(self.origin(tile), SEEN)
    }

    /// The same for the window of one output position.
    pub(crate) fn window(&self, position: [usize; 2]) -> [(Range<usize>, usize); 2] {
        self.inputs(position, 3)
    }

    /// Rows and columns of the input from where the window of an output position begins.
    fn inputs(&self, position: [usize; 2], len: usize) -> [(Range<usize>, usize); 2] {
        std::array::from_fn(|a| {
            let cut = self.pads[a].saturating_sub(position[a]).min(len);
            let start = (position[a] + cut).saturating_sub(self.pads[a]);
            let end = (start + len - cut).min(self.x[a]);
            (start.min(end)..end, cut)
        })
    }

    /// Transforms what a tile sees of a channel; point `p` goes to `v[p * spread]`.
    pub(crate) fn transform(
        &self,
        isa: Isa,
        plane: &[Pack],
        tile: usize,
        v: &mut [Pack],
        spread: usize,
    ) {
        let width = self.x[1];
        let [(rows, top), (cols, left)] = self.seen(tile);
        if rows.len() == SEEN && cols.len() == SEEN {
            let x = numbers(&plane[rows.start * width + cols.start..]);
            return transform::input(isa, x, Square::of_packs(width), v, spread);
        }
        let mut seen = [Pack::ZERO; POINTS];
        for (row, seen) in rows.zip(seen.chunks_exact_mut(SEEN).skip(top)) {
            let x = &plane[row * width + cols.start..][..cols.len()];
            seen[left..left + x.len()].copy_from_slice(x);
        }
        transform::input(isa, numbers(&seen), Square::of_packs(SEEN), v, spread);
    }
}

/// The weights of a convolution at every point; `taps(row, column)` are the nine of a pair of
/// channels.
pub(crate) fn matrices(
    isa: Isa,
    rows: usize,
    columns: usize,
    taps: impl Fn(usize, usize) -> [f32; 9],
) -> Matrices {
    Matrices::new(isa, rows, columns, taps)
}

/// Whether a product with these weights may have errors that a direct sum has not. Weights of
/// one sign make a part of a sum, of which relevance rules ask whether it is nothing; by tiles,
/// nothing is seldom exactly zero. Whole numbers are those of a quantised model: integers add up
/// exactly, and what is rounded to the next grid must not depend on the kernel.
pub(crate) fn may_round(weights: &[f32]) -> bool {
    let both_signs = weights.iter().any(|&w| w > 0.0) && weights.iter().any(|&w| w < 0.0);
    both_signs && weights.iter().any(|&w| w.fract() != 0.0)
}

/// Packs from one point to the next for so many channels and tiles. One more than there are: else
/// the points of a channel would meet in a few sets of the cache.
pub(crate) fn spread(channels: usize, tiles: usize) -> usize {
    channels * tiles + 1
}
