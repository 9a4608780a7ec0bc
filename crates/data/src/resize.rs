//! Resizing and cropping of 8-bit images, as Pillow and torchvision do it.
//!
//! An output pixel is the average of the input pixels under a curve around its centre: a triangle for bilinear, two cubics
//! for bicubic interpolation. Enlarging, the triangle is two input pixels wide: plain interpolation. Shrinking, it widens
//! by the factor, so that every input pixel counts; plain interpolation would skip pixels there, and give a model other
//! images than it was trained on. Width first, then height, rounded to 8 bits after each, with weights in fixed point: bit
//! for bit what Pillow computes. `nearest` takes the input pixel under the centre.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Fixed-point bits of the weights: 8 bits of pixel and 2 to spare are left of 32.
const BITS: u32 = 22;

/// The size that images are brought to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ImageSize {
    /// Height and width; the aspect ratio is not kept.
    Exactly(usize, usize),
    /// The shorter side; the other one follows, rounded down (torchvision's `Resize` of one number).
    ShortSide(usize),
}

impl ImageSize {
    /// Height and width of an image of this height and width after resizing.
    pub(crate) fn of(self, (height, width): (usize, usize)) -> (usize, usize) {
        // Sides are below 2^16, so that no product overflows.
        match self {
            ImageSize::Exactly(height, width) => (height, width),
            ImageSize::ShortSide(side) if height <= width => (side, side * width / height.max(1)),
            ImageSize::ShortSide(side) => (side * height / width.max(1), side),
        }
    }

    /// Its numbers.
    pub(crate) fn sides(self) -> (usize, usize) {
        match self {
            ImageSize::Exactly(height, width) => (height, width),
            ImageSize::ShortSide(side) => (side, side),
        }
    }
}

/// As on the command line: `224x320`, or `256` for the shorter side.
impl fmt::Display for ImageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageSize::Exactly(height, width) => write!(f, "{height}x{width}"),
            ImageSize::ShortSide(side) => write!(f, "{side}"),
        }
    }
}

/// How an output pixel is made from input pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interpolation {
    /// The input pixel under its centre.
    Nearest,
    /// A triangle around it.
    #[default]
    Bilinear,
    /// Cubics around it, with slope parameter -0.5.
    Bicubic,
}

/// How far from its centre a curve reaches, and its height at a distance.
type Curve = (f64, fn(f64) -> f64);

impl Interpolation {
    /// Whether it is bilinear.
    pub(crate) fn is_default(&self) -> bool {
        *self == Interpolation::default()
    }

    /// The curve that input pixels are weighted by; `None` where there is none.
    fn curve(self) -> Option<Curve> {
        match self {
            Interpolation::Nearest => None,
            Interpolation::Bilinear => Some((1.0, |x| (1.0 - x.abs()).max(0.0))),
            Interpolation::Bicubic => Some((2.0, cubic)),
        }
    }
}

/// Keys' cubic convolution with `a = -0.5`.
fn cubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    match x.abs() {
        x if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
        x if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
        _ => 0.0,
    }
}

impl fmt::Display for Interpolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Interpolation::Nearest => "nearest",
            Interpolation::Bilinear => "bilinear",
            Interpolation::Bicubic => "bicubic",
        })
    }
}

impl FromStr for Interpolation {
    type Err = String;

    fn from_str(text: &str) -> Result<Interpolation, String> {
        match text {
            "nearest" => Ok(Interpolation::Nearest),
            "bilinear" => Ok(Interpolation::Bilinear),
            "bicubic" => Ok(Interpolation::Bicubic),
            _ => Err(format!(
                "`{text}` is no interpolation; use `nearest`, `bilinear` or `bicubic`"
            )),
        }
    }
}

/// What is done to the height and width of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) resize: Option<ImageSize>,
    pub(crate) crop: Option<(usize, usize)>,
    pub(crate) interpolation: Interpolation,
}

impl Geometry {
    /// The plan for images of this height and width, or why there is none.
    pub(crate) fn plan(&self, from: (usize, usize)) -> Result<Resize, String> {
        let to = self.resize.map_or(from, |size| size.of(from));
        let resize = Resize::new(from, to, self.interpolation);
        match self.crop {
            None => Ok(resize),
            Some(crop) if crop.0 <= to.0 && crop.1 <= to.1 => Ok(resize.cropped(crop)),
            Some((height, width)) => Err(format!(
                "an image of {}x{} pixels is too small to be cropped to {height}x{width}",
                to.0, to.1
            )),
        }
    }
}

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
    fn new(from: (usize, usize), to: (usize, usize), interpolation: Interpolation) -> Resize {
        Resize {
            columns: taps(from.1, to.1, interpolation),
            rows: taps(from.0, to.0, interpolation),
            width: from.1,
        }
    }

    /// The same, of which only the middle is wanted. What is left over is halved, and rounded to the even pixel where the
    /// halves are none: as torchvision's `CenterCrop` does it.
    fn cropped(mut self, (height, width): (usize, usize)) -> Resize {
        let middle = |taps: &mut Vec<Taps>, wanted: usize| {
            let spare = taps.len() - wanted;
            let start = (spare as f64 / 2.0).round_ties_even() as usize;
            taps.drain(..start);
            taps.truncate(wanted);
        };
        middle(&mut self.rows, height);
        middle(&mut self.columns, width);
        self
    }

    /// Height and width of what it gives.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.rows.len(), self.columns.len())
    }

    /// Resizes one image of `channels` interleaved channels and appends it to `out`.
    pub(crate) fn apply(&self, pixels: &[u8], channels: usize, out: &mut Vec<u8>) {
        // Only the lines that some row of the result is made from.
        let first = self.rows.first().map_or(0, |taps| taps.start);
        let ends = self.rows.iter().map(|taps| taps.start + taps.weights.len());
        let last = ends.max().unwrap_or(0);
        let row = self.columns.len() * channels;
        let mut narrowed = Vec::with_capacity((last - first) * row);
        let lines = pixels.chunks_exact(self.width * channels);
        for line in lines.take(last).skip(first) {
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
                let values = narrowed[(taps.start - first) * row + column..]
                    .iter()
                    .step_by(row);
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

fn taps(from: usize, to: usize, interpolation: Interpolation) -> Vec<Taps> {
    let scale = from as f64 / to as f64;
    let Some((reach, curve)) = interpolation.curve() else {
        // Centres are added up, as Pillow does: one that is between two pixels is rounded as it is there.
        let centres = std::iter::successors(Some(0.5 * scale), |centre| Some(centre + scale));
        let pixel = |centre: f64| Taps {
            start: (centre as usize).min(from - 1),
            weights: vec![1 << BITS],
        };
        return centres.take(to).map(pixel).collect();
    };
    let widened = scale.max(1.0);
    let reach = reach * widened;
    (0..to)
        .map(|index| {
            let centre = (index as f64 + 0.5) * scale;
            // Pixels whose own centre, half a pixel to the right of their index, may lie under the curve.
            let start = ((centre - reach + 0.5) as usize).min(from - 1);
            let end = ((centre + reach + 0.5) as usize).clamp(start + 1, from);
            let weights = (start..end)
                .map(|pixel| curve((pixel as f64 + 0.5 - centre) / widened))
                .collect::<Vec<f64>>();
            let sum: f64 = weights.iter().sum();
            // Rounded away from zero where the halves are.
            let fixed = |weight: f64| (weight / sum * f64::from(1 << BITS)).round() as i64;
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
        Resize::new(from, to, Interpolation::Bilinear).apply(pixels, channels, &mut out);
        out
    }

    #[test]
    fn other_interpolations_agree_with_pillow() {
        let cases: [(_, (usize, usize), &[u8]); 4] = [
            (
                Interpolation::Bicubic,
                (6, 5),
                include_bytes!("../tests/fixtures/bicubic_6x5x3.raw"),
            ),
            (
                Interpolation::Bicubic,
                (20, 31),
                include_bytes!("../tests/fixtures/bicubic_20x31x3.raw"),
            ),
            (
                Interpolation::Nearest,
                (6, 5),
                include_bytes!("../tests/fixtures/nearest_6x5x3.raw"),
            ),
            (
                Interpolation::Nearest,
                (20, 31),
                include_bytes!("../tests/fixtures/nearest_20x31x3.raw"),
            ),
        ];
        for (interpolation, to, expected) in cases {
            let mut out = Vec::new();
            Resize::new((13, 17), to, interpolation).apply(NOISE, 3, &mut out);
            assert_eq!(out, expected, "{interpolation} {to:?}");
        }
    }

    /// Every third centre of 32 pixels made 24 lies between two of them. What Pillow 13 takes of
    /// `np.arange(32, dtype=np.uint8)[None]`, resized to 24 x 1 by `NEAREST`.
    #[test]
    fn centres_between_two_pixels_agree_with_pillow() {
        let line: Vec<u8> = (0..32).collect();
        let mut out = Vec::new();
        Resize::new((1, 32), (1, 24), Interpolation::Nearest).apply(&line, 1, &mut out);
        let expected = [
            0, 2, 3, 4, 5, 7, 8, 10, 11, 12, 14, 15, 16, 18, 19, 20, 21, 23, 24, 25, 27, 28, 29, 31,
        ];
        assert_eq!(out, expected);
    }

    /// `Resize` and `CenterCrop` of torchvision (tests/fixtures/make.py): 13 x 17 becomes 8 x 10, and what is left over
    /// is halved to even numbers.
    #[test]
    fn short_sides_and_middles_agree_with_torchvision() {
        let cases: [(_, &[u8]); 3] = [
            (
                (Some(8), Some((5, 7))),
                include_bytes!("../tests/fixtures/resize_8_crop_5x7.raw"),
            ),
            (
                (Some(8), Some((7, 5))),
                include_bytes!("../tests/fixtures/resize_8_crop_7x5.raw"),
            ),
            (
                (None, Some((4, 4))),
                include_bytes!("../tests/fixtures/crop_4x4.raw"),
            ),
        ];
        for ((side, crop), expected) in cases {
            let geometry = Geometry {
                resize: side.map(ImageSize::ShortSide),
                crop,
                interpolation: Interpolation::Bilinear,
            };
            let plan = geometry.plan((13, 17)).unwrap();
            let mut out = Vec::new();
            plan.apply(NOISE, 3, &mut out);
            assert_eq!(out, expected, "{side:?} {crop:?}");
        }
        let large = Geometry {
            resize: None,
            crop: Some((14, 2)),
            interpolation: Interpolation::Bilinear,
        };
        let refused = large.plan((13, 17)).unwrap_err();
        assert_eq!(
            refused,
            "an image of 13x17 pixels is too small to be cropped to 14x2"
        );
    }

    #[test]
    fn the_other_side_is_rounded_down() {
        let to = ImageSize::ShortSide(256);
        assert_eq!(to.of((375, 500)), (256, 341));
        assert_eq!(to.of((500, 375)), (341, 256));
        assert_eq!(to.of((500, 500)), (256, 256));
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
