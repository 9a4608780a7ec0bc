//! Channels side by side: the layout that [`tile`](crate::native::tile) reads.

use std::ops::Range;

use crate::native::pack::Pack;

/// Channels that are moved together: as many streams of memory as a CPU follows easily.
const CHANNELS: usize = 16;

/// Copies a range of pixels from `[channel][pixel]`, `pixels` in all, to `[pixel][channel]`.
pub(super) fn to_pixel_major(
    x: &[Pack],
    channels: usize,
    pixels: usize,
    range: Range<usize>,
    scratch: &mut [Pack],
) {
    for first in (0..channels).step_by(CHANNELS) {
        let last = channels.min(first + CHANNELS);
        let x = &x[first * pixels..last * pixels];
        for (p, y) in range.clone().zip(scratch.chunks_exact_mut(channels)) {
            for (y, x) in y[first..last].iter_mut().zip(x[p..].iter().step_by(pixels)) {
                *y = *x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_become_neighbours() {
        for (channels, pixels) in [(1, 5), (3, 1), (40, 7)] {
            let pack = |i: usize| Pack::splat(i as f32);
            let x: Vec<Pack> = (0..channels * pixels).map(pack).collect();
            for range in [0..pixels, pixels / 2..pixels] {
                let mut y = vec![Pack::ZERO; channels * range.len()];
                to_pixel_major(&x, channels, pixels, range.clone(), &mut y);
                for c in 0..channels {
                    for p in range.clone() {
                        assert_eq!(y[(p - range.start) * channels + c], x[c * pixels + p]);
                    }
                }
            }
        }
    }
}
