//! What positions of a map see under the taps of a window, for one input by itself.

use std::ops::Range;

use npcov_graph::op::Window;

use super::conv::Volume;
use crate::native::pick::{Run, pick};

/// The windows of a map of two axes.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    /// Height and width of what is seen and of the map whose positions see it.
    x: [usize; 2],
    y: [usize; 2],
    /// From what a position sees under a tap to what the next one sees.
    strides: [usize; 2],
    /// The row and column that position 0 sees under each tap, if the tap sees any.
    taps: Vec<Option<[isize; 2]>>,
    /// The columns of positions that see a column of the map under each tap.
    columns: Vec<Range<usize>>,
}

/// Where rows of what is seen go: one for each channel, so many numbers apart.
pub(super) struct Seen<'a> {
    pub(super) rows: &'a mut [f32],
    pub(super) pitch: usize,
}

/// The last two of three axes of a window.
fn last(list: &[usize]) -> [usize; 2] {
    [list[1], list[2]]
}

impl Sight {
    /// What positions of `y` see of `x` through a window over three axes, of which the first has an
    /// extent of one.
    pub(super) fn new(window: &Window, x: &Volume, y: &Volume) -> Option<Sight> {
        if !is_flat(window, x, y) {
            return None;
        }
        let (dilations, pads) = (last(&window.dilations), last(&window.pads_begin));
        let tap = |[row, col]: [usize; 2]| {
            let at = [row * dilations[0], col * dilations[1]];
            Some(std::array::from_fn(|a| at[a] as isize - pads[a] as isize))
        };
        let mut sight = Sight {
            x: last(&x.extent),
            y: last(&y.extent),
            strides: last(&window.strides),
            taps: taps(window).map(tap).collect(),
            columns: Vec::new(),
        };
        sight.straighten();
        sight.find_columns();
        Some(sight)
    }

    /// Positions that see one element each, their own, are one long row.
    fn straighten(&mut self) {
        if self.is_pointwise() {
            self.x = [1, self.x.iter().product()];
            self.y = self.x;
        }
    }

    /// Finds the columns of positions that see something.
    fn find_columns(&mut self) {
        let columns = |tap: &Option<[isize; 2]>| {
            let Some([_, column]) = *tap else { return 0..0 };
            // The first of the columns that see `end` or something behind it.
            let limit = |end: usize| {
                let end = usize::try_from(end as isize - column).unwrap_or(0);
                end.div_ceil(self.strides[1]).min(self.y[1])
            };
            limit(0)..limit(self.x[1])
        };
        self.columns = self.taps.iter().map(columns).collect();
    }

    /// What positions of `x` that are a stride apart, the first one at `first`, see of `y`: where they
    /// are seen from.
    pub(super) fn back(
        window: &Window,
        x: &Volume,
        y: &Volume,
        first: [usize; 2],
    ) -> Option<Sight> {
        if !is_flat(window, x, y) {
            return None;
        }
        let (dilations, pads) = (last(&window.dilations), last(&window.pads_begin));
        let (strides, extent) = (last(&window.strides), last(&x.extent));
        // Position `first + i * stride` is seen by `i + (first + pad - tap * dilation) / stride`.
        let tap = |tap: [usize; 2]| {
            let at = |a: usize| {
                let at = (first[a] + pads[a]) as isize - (tap[a] * dilations[a]) as isize;
                let stride = strides[a] as isize;
                (at % stride == 0).then_some(at / stride)
            };
            Some([at(0)?, at(1)?])
        };
        let mut sight = Sight {
            x: last(&y.extent),
            y: std::array::from_fn(|a| extent[a].saturating_sub(first[a]).div_ceil(strides[a])),
            strides: [1, 1],
            taps: taps(window).map(tap).collect(),
            columns: Vec::new(),
        };
        if strides == [1, 1] {
            sight.straighten();
        }
        sight.find_columns();
        Some(sight)
    }

    /// Number of positions.
    pub(super) fn positions(&self) -> usize {
        self.y.iter().product()
    }

    /// The row and column of a position.
    pub(super) fn position(&self, at: usize) -> [usize; 2] {
        [at / self.y[1], at % self.y[1]]
    }

    /// Positions in a row.
    pub(super) fn width(&self) -> usize {
        self.y[1]
    }

    /// Number of taps.
    pub(super) fn taps(&self) -> usize {
        self.taps.len()
    }

    /// Whether each position sees one element, its own.
    pub(super) fn is_pointwise(&self) -> bool {
        self.sees_one() && self.strides == [1, 1] && self.x == self.y
    }

    /// Whether each position sees one element.
    pub(super) fn sees_one(&self) -> bool {
        self.taps == [Some([0, 0])]
    }

    /// Whether a tap sees anything at all.
    pub(super) fn sees(&self, tap: usize) -> bool {
        self.taps[tap].is_some()
    }

    /// Whether no tap sees anything.
    pub(super) fn is_blind(&self) -> bool {
        self.taps.iter().all(Option::is_none)
    }

    /// What `positions` see of some channels of an image under a tap; zeros where that is padding.
    pub(super) fn look(
        &self,
        tap: usize,
        (image, channels): (&[f32], Range<usize>),
        positions: Range<usize>,
        seen: &mut Seen<'_>,
    ) {
        let [height, width] = self.x;
        let map = height * width;
        let image = &image[channels.start * map..channels.end * map];
        let (columns, tap) = (&self.columns[tap], self.taps[tap]);
        let Some(tap) = tap else {
            for row in seen.rows.chunks_mut(seen.pitch).take(channels.len()) {
                row[..positions.len()].fill(0.0);
            }
            return;
        };
        let [mut row, mut col] = self.position(positions.start);
        let mut to = 0;
        while to < positions.len() {
            let len = (self.y[1] - col).min(positions.len() - to);
            let at = [row, col].map(|at| at as isize);
            let at: [isize; 2] = std::array::from_fn(|a| at[a] * self.strides[a] as isize + tap[a]);
            let inside = match usize::try_from(at[0]) {
                Ok(row) if row < height => columns.clone(),
                _ => 0..0,
            };
            let among = |column: usize| column.clamp(col, col + len) - col;
            let run = Run {
                first: at[0] * width as isize + at[1],
                step: self.strides[1],
                inside: among(inside.start)..among(inside.end),
                len,
            };
            pick(image, map, &run, &mut seen.rows[to..], seen.pitch);
            to += len;
            (row, col) = (row + 1, 0);
        }
    }
}

/// Whether a window moves over two axes only.
fn is_flat(window: &Window, x: &Volume, y: &Volume) -> bool {
    let extents = [x.extent[0], y.extent[0], window.kernel[0]];
    extents == [1, 1, 1] && window.pads_begin[0] == 0
}

/// The taps of a window, by row and column.
fn taps(window: &Window) -> impl Iterator<Item = [usize; 2]> {
    let [rows, cols] = last(&window.kernel);
    (0..rows * cols).map(move |tap| [tap / cols, tap % cols])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every range of positions sees what the definition of a window says.
    #[test]
    fn positions_see_what_the_definition_says() {
        for (kernel, stride, dilation, pad, extent) in [
            ([3, 3], 1, 1, 1, [5, 6]),
            ([3, 2], 2, 1, 1, [7, 9]),
            ([1, 1], 1, 1, 0, [4, 11]),
            ([1, 1], 2, 1, 0, [5, 5]),
            ([2, 3], 1, 2, 3, [4, 4]),
            ([5, 5], 3, 1, 4, [6, 3]),
        ] {
            let window = Window {
                kernel: vec![1, kernel[0], kernel[1]],
                strides: vec![1, stride, stride],
                dilations: vec![1, dilation, dilation],
                pads_begin: vec![0, pad, pad],
                pads_end: vec![0, pad, pad],
            };
            let out =
                |a: usize| (extent[a] + 2 * pad - (kernel[a] - 1) * dilation - 1) / stride + 1;
            let volume = |h: usize, w: usize| Volume {
                batch: 1,
                channels: 2,
                extent: [1, h, w],
            };
            let ([h, w], [oh, ow]) = (extent, [out(0), out(1)]);
            let sight = Sight::new(&window, &volume(h, w), &volume(oh, ow)).unwrap();
            let image: Vec<f32> = (0..3 * h * w).map(|i| i as f32 + 1.0).collect();
            for tap in 0..sight.taps() {
                for start in 0..oh * ow {
                    let end = (start + 7).min(oh * ow);
                    let mut rows = vec![-1.0; 2 * 9];
                    let mut seen = Seen {
                        rows: &mut rows,
                        pitch: 9,
                    };
                    sight.look(tap, (&image, 1..3), start..end, &mut seen);
                    for (i, p) in (start..end).enumerate() {
                        let along =
                            |o: usize, k: usize| (o * stride + k * dilation).wrapping_sub(pad);
                        let row = along(p / ow, tap / kernel[1]);
                        let col = along(p % ow, tap % kernel[1]);
                        for c in 0..2 {
                            let expected = match row < h && col < w {
                                true => image[((c + 1) * h + row) * w + col],
                                false => 0.0,
                            };
                            assert_eq!(rows[c * 9 + i], expected);
                        }
                    }
                }
            }
        }
    }
}
