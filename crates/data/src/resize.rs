//! Bilinear resizing of 8-bit images, as Pillow and torchvision do it.
//!
//! An output pixel is the average of the input pixels under a triangle around its centre. Enlarging, the triangle is two
//! input pixels wide: plain bilinear interpolation. Shrinking, it widens by the factor, so that every input pixel counts;
//! plain interpolation would skip pixels there, and give a model other images than it was trained on. Width first, then
//! height, rounded to 8 bits after each, with weights in fixed point: bit for bit what Pillow computes. The aspect ratio is not kept.

/// Fixed-point bits of the weights: 8 bits of pixel and 2 to spare are left of 32.
const BITS: u32 = 22;

/// Weights of neighbouring input pixels for one output pixel.
#[derive(Clone, Debug)]
struct Taps {
    start: usize,
    /// They sum to `1 << BITS`, up to rounding.
    weights: Vec<i64>,
}

/// Resizes images of one size to another.
#[derive(Clone, Debug)]
pub(crate) struct Resize {
    columns: Vec<Taps>,
    rows: Vec<Taps>,
    width: usize,
}

impl Resize {
    /// From and to `(height, width)`, all at least 1.
    pub(crate) fn new(from: (usize, usize), to: (usize, usize)) -> Resize {
        Resize {
            columns: taps(from.1, to.1),
            rows: taps(from.0, to.0),
            width: from.1,
        }
    }

    /// Resizes one image of `channels` interleaved channels and appends it to `out`.
    pub(crate) fn apply(&self, pixels: &[u8], channels: usize, out: &mut Vec<u8>) {
        let row = self.columns.len() * channels;
        let mut narrowed = Vec::with_capacity(pixels.len() / self.width * self.columns.len());
        for line in pixels.chunks_exact(self.width * channels) {
            for taps in &self.columns {
                for channel in 0..channels {
                    let values = line[taps.start * channels + channel..]
                        .iter()
                        .step_by(channels);
                    narrowed.push(weighted(taps, values));
                }
            }
        }
        for taps in &self.rows {
            for column in 0..row {
                let values = narrowed[taps.start * row + column..].iter().step_by(row);
                out.push(weighted(taps, values));
            }
        }
    }
}

fn weighted<'a>(taps: &Taps, values: impl Iterator<Item = &'a u8>) -> u8 {
    let sum: i64 = taps
        .weights
        .iter()
        .zip(values)
        .map(|(weight, &value)| weight * i64::from(value))
        .sum();
    let rounded = (sum + (1 << (BITS - 1))) >> BITS;
    rounded.clamp(0, 255) as u8
}

fn taps(from: usize, to: usize) -> Vec<Taps> {
    let scale = from as f64 / to as f64;
    let reach = scale.max(1.0);
    (0..to)
        .map(|index| {
            let centre = (index as f64 + 0.5) * scale;
            // Pixels whose own centre, half a pixel to the right of their index, may lie inside the triangle.
            let start = ((centre - reach + 0.5) as usize).min(from - 1);
            let end = ((centre + reach + 0.5) as usize).clamp(start + 1, from);
            let weights = (start..end)
                .map(|pixel| (1.0 - ((pixel as f64 + 0.5 - centre) / reach).abs()).max(0.0))
                .collect::<Vec<f64>>();
            let sum: f64 = weights.iter().sum();
            let fixed = |weight: f64| (weight / sum * f64::from(1 << BITS) + 0.5) as i64;
            let weights = weights.into_iter().map(fixed).collect();
            Taps { start, weights }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOISE: &[u8] = include_bytes!("../tests/fixtures/noise_13x17x3.raw");

    fn resize(from: (usize, usize), to: (usize, usize), channels: usize, pixels: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Resize::new(from, to).apply(pixels, channels, &mut out);
        out
    }

    #[test]
    fn agrees_with_pillow() {
        // Pillow's own output (tests/fixtures/make.py).
        let cases: [((usize, usize), &[u8]); 3] = [
            ((6, 5), include_bytes!("../tests/fixtures/noise_6x5x3.raw")),
            (
                (20, 31),
                include_bytes!("../tests/fixtures/noise_20x31x3.raw"),
            ),
            (
                (13, 4),
                include_bytes!("../tests/fixtures/noise_13x4x3.raw"),
            ),
        ];
        for (to, expected) in cases {
            assert_eq!(resize((13, 17), to, 3, NOISE), expected, "{to:?}");
        }
    }

    #[test]
    fn the_same_size_is_the_same_image() {
        assert_eq!(resize((13, 17), (13, 17), 3, NOISE), NOISE);
    }

    #[test]
    fn halving_averages_and_one_pixel_spreads() {
        // Triangle of half-width 2 around the middle: weights 1, 3, 3, 1 over 8.
        assert_eq!(resize((1, 4), (1, 1), 1, &[0, 80, 160, 240]), [120]);
        assert_eq!(resize((1, 1), (2, 3), 2, &[7, 9]), [7, 9].repeat(6));
    }
}
