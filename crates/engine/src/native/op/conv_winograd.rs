//! Convolution of 3x3 taps by tiles: see [`winograd`](crate::native::winograd).

use npcov_cpu::{Isa, vectorised};

use crate::native::kernel::{Inputs, Kernel, Tail};
use crate::native::pack::Pack;
use crate::native::tile::Finish;
use crate::native::winograd::transform::{self, POINTS, TILE};
use crate::native::winograd::{Matrices, Tiling, spread};

pub(super) struct ConvWinograd {
    isa: Isa,
    tiling: Tiling,
    weights: Matrices,
    bias: Vec<f32>,
    tail: Tail,
    /// Tiles that are computed together.
    group: usize,
}

impl ConvWinograd {
    /// A convolution with transformed weights, output channels by input channels.
    pub(super) fn new(
        isa: Isa,
        tiling: Tiling,
        weights: Matrices,
        bias: Vec<f32>,
        tail: Tail,
    ) -> ConvWinograd {
        ConvWinograd {
            isa,
            tiling,
            group: tiling.group(weights.columns() + weights.row_packs()),
            weights,
            bias,
            tail,
        }
    }

    /// Packs of transformed input and output.
    fn transformed(&self) -> [usize; 2] {
        let packs = |channels| POINTS * spread(channels, self.group);
        [
            packs(self.weights.columns()),
            packs(self.weights.row_packs()),
        ]
    }

    /// Stores the positions of a tile that lie in the output.
    fn store(
        &self,
        channel: usize,
        tile: usize,
        sums: &[Pack; TILE * TILE],
        other: Option<&[Pack]>,
        output: &mut [Pack],
    ) {
        let [height, width] = self.tiling.y;
        let [rows, cols] = self.tiling.inside(tile);
        let bias = self.bias[channel];
        vectorised(
            #[inline(always)]
            || {
                for (row, sums) in rows.zip(sums.chunks_exact(TILE)) {
                    let at = (channel * height + row) * width + cols.start;
                    let to = &mut output[at..at + cols.len()];
                    for (i, (y, sum)) in to.iter_mut().zip(sums).enumerate() {
                        let mut sum = sum.map(|sum| sum + bias);
                        if let Some(other) = other {
                            sum = sum.zip(other[at + i], |sum, other| sum + other);
                        }
                        *y = match self.tail.finish {
                            Finish::None => sum,
                            Finish::Clip(low, high) => sum.map(|y| {
                                let y = if low > y { low } else { y };
                                if high < y { high } else { y }
                            }),
                        };
                    }
                }
            },
        );
    }
}

impl Kernel for ConvWinograd {
    fn scratch(&self) -> usize {
        self.transformed().iter().sum()
    }

    fn run(&self, inputs: &Inputs<'_>, scratch: &mut [Pack], output: &mut [Pack]) {
        let pixels = |[height, width]: [usize; 2]| height * width;
        let (x_pixels, y_pixels) = (pixels(self.tiling.x), pixels(self.tiling.y));
        let (columns, rows) = (self.weights.columns(), self.weights.rows());
        let (v, m) = scratch.split_at_mut(self.transformed()[0]);
        let images = inputs.get(0).chunks_exact(columns * x_pixels);
        let outputs = output.chunks_exact_mut(rows * y_pixels);
        for (n, (x, y)) in images.zip(outputs).enumerate() {
            let other = self.tail.add.then(|| {
                let all = rows * y_pixels;
                &inputs.get(1)[n * all..(n + 1) * all]
            });
            for first in (0..self.tiling.tiles()).step_by(self.group) {
                let tiles = self.group.min(self.tiling.tiles() - first);
                let v_spread = spread(columns, tiles);
                for (channel, plane) in x.chunks_exact(x_pixels).enumerate() {
                    for t in 0..tiles {
                        let v = &mut v[channel * tiles + t..];
                        self.tiling
                            .transform(self.isa, plane, first + t, v, v_spread);
                    }
                }
                let m_spread = spread(self.weights.row_packs(), tiles);
                for point in 0..POINTS {
                    let (v, m) = (&v[point * v_spread..], &mut m[point * m_spread..]);
                    self.weights.forward(point, tiles, v, m);
                }
                let mut sums = [Pack::ZERO; TILE * TILE];
                for channel in 0..rows {
                    for t in 0..tiles {
                        transform::output(self.isa, &m[channel * tiles + t..], m_spread, &mut sums);
                        self.store(channel, first + t, &sums, other, y);
                    }
                }
            }
        }
    }
}
