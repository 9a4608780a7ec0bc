//! Batch normalisation by constants: a straight line for each channel, and a limit.

use npcov_cpu::vectorised;
use npcov_graph::Tensor;
use npcov_graph::op::BatchNormalization;

use crate::native::kernel::Context;
use crate::native::pack::Pack;
use crate::native::tile::Finish;

/// A line for each channel.
pub(crate) struct Lines {
    /// Slopes and intercepts.
    each: Vec<(f32, f32)>,
    finish: Finish,
}

impl Lines {
    /// Those of a normalisation, and what happens to the results. `None` when its parameters depend on the model's
    /// input.
    pub(crate) fn new(op: &BatchNormalization, cx: &Context<'_>, finish: Finish) -> Option<Lines> {
        let constant = |i| Some(Tensor::to_f32(cx.constant(i)?));
        let [scale, bias, mean, variance] =
            [constant(1)?, constant(2)?, constant(3)?, constant(4)?];
        let line = |c: usize| {
            let [scale, bias, mean, variance] =
                [&scale, &bias, &mean, &variance].map(|numbers| f64::from(numbers[c]));
            let slope = scale / (variance + f64::from(op.epsilon)).sqrt();
            (slope as f32, (bias - mean * slope) as f32)
        };
        Some(Lines {
            each: (0..scale.len()).map(line).collect(),
            finish,
        })
    }

    /// What becomes of a number of a channel.
    #[inline(always)]
    pub(crate) fn at(&self, channel: usize) -> impl Fn(f32) -> f32 + use<> {
        let (slope, intercept) = self.each[channel];
        let finish = self.finish;
        move |x| finish.of(x * slope + intercept)
    }

    /// Changes rows of numbers, one for each channel from `first` on.
    pub(crate) fn change_rows(&self, first: usize, rows: &mut [f32], pitch: usize) {
        vectorised(
            #[inline(always)]
            || {
                for (c, row) in (first..).zip(rows.chunks_exact_mut(pitch)) {
                    let line = self.at(c);
                    for x in row {
                        *x = line(*x);
                    }
                }
            },
        );
    }

    /// Changes pixels, of which each has all channels side by side.
    pub(crate) fn change_pixels(&self, pixels: &mut [Pack]) {
        vectorised(
            #[inline(always)]
            || {
                for pixel in pixels.chunks_exact_mut(self.each.len()) {
                    for (c, x) in pixel.iter_mut().enumerate() {
                        *x = x.map(self.at(c));
                    }
                }
            },
        );
    }
}
