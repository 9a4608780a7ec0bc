//! Pictures: images in few pixels, and relevance over them.
//!
//! Relevance is drawn in two colours of growing opacity, so that nothing is the colour of the page, be that light or
//! dark.

use npcov::data::ImageShape;
use npcov_report::image_colours;

/// The longest side of a picture among others, in pixels.
const SMALL: usize = 64;
/// The same of a picture that is looked at alone.
const LARGE: usize = 224;

/// What supports, and what speaks against: orange and blue, which nearly everybody tells apart, and which stand out on
/// white as on black.
const FOR: [u8; 3] = [0xd9, 0x6a, 0x0b];
const AGAINST: [u8; 3] = [0x2f, 0x6f, 0xde];
/// What is there, of two things that are compared.
const GREY: [u8; 3] = [0x80, 0x86, 0x90];

/// A PNG file, and the size of what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Raster {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) png: Vec<u8>,
}

/// How large a picture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Among others.
    Small,
    /// Alone.
    Large,
}

impl Size {
    fn side(self) -> usize {
        match self {
            Size::Small => SMALL,
            Size::Large => LARGE,
        }
    }
}

/// Means of the numbers that fall onto each pixel of a smaller picture.
struct Shrunk {
    width: usize,
    height: usize,
    from: (usize, usize),
}

impl Shrunk {
    fn new(height: usize, width: usize, size: Size) -> Shrunk {
        let side = size.side() as f64;
        let scale = (side / height.max(width) as f64).min(1.0);
        let extent = |pixels: usize| ((pixels as f64 * scale).round() as usize).max(1);
        Shrunk {
            width: extent(width),
            height: extent(height),
            from: (height, width),
        }
    }

    /// What `sum` of the pixels of the original makes of each pixel, and how many those are.
    fn each(&self, number: impl Fn(usize, usize) -> f64) -> Vec<(f64, f64)> {
        let span = |i: usize, of: usize, from: usize| {
            let start = i * from / of;
            start..((i + 1) * from / of).max(start + 1)
        };
        let mut all = Vec::with_capacity(self.width * self.height);
        for y in 0..self.height {
            for x in 0..self.width {
                let (mut sum, mut count) = (0.0, 0.0);
                for row in span(y, self.height, self.from.0) {
                    for column in span(x, self.width, self.from.1) {
                        sum += number(row, column);
                        count += 1.0;
                    }
                }
                all.push((sum, count));
            }
        }
        all
    }
}

/// An image. One of three channels is in colour; of others, the mean of the channels is shown.
pub(crate) fn image(shape: ImageShape, numbers: &[f32], bytes: bool, size: Size) -> Raster {
    let shrunk = Shrunk::new(shape.height, shape.width, size);
    let channels = if shape.channels == 3 { 3 } else { 1 };
    let grey = |row: usize, column: usize| {
        let channel = |c| f64::from(numbers[shape.position(row, column, c)]);
        (0..shape.channels).map(channel).sum::<f64>() / shape.channels.max(1) as f64
    };
    let mut planes = Vec::new();
    for channel in 0..channels {
        let means = shrunk.each(|row, column| match channels {
            3 => f64::from(numbers[shape.position(row, column, channel)]),
            _ => grey(row, column),
        });
        planes.extend(means.into_iter().map(|(sum, count)| (sum / count) as f32));
    }
    let small = ImageShape {
        height: shrunk.height,
        width: shrunk.width,
        channels,
        channels_last: false,
    };
    let colours = image_colours(small, &planes, bytes);
    let png = match channels {
        1 => {
            let shades: Vec<u8> = colours.iter().map(|colour| colour[0]).collect();
            encode(
                (small.width, small.height),
                png::ColorType::Grayscale,
                &shades,
                &[],
            )
        }
        _ => {
            let pixels = colours.concat();
            encode(
                (small.width, small.height),
                png::ColorType::Rgb,
                &pixels,
                &[],
            )
        }
    };
    Raster {
        width: small.width,
        height: small.height,
        png,
    }
}

/// The relevance of an image, summed over the channels of a pixel. The strongest pixel has the full colour; the opacity
/// of others is the root of their part of it, so that weak ones can be seen.
pub(crate) fn relevance(shape: ImageShape, numbers: &[f32], size: Size) -> Raster {
    let shrunk = Shrunk::new(shape.height, shape.width, size);
    let sums = shrunk.each(|row, column| {
        let channel = |c| f64::from(numbers[shape.position(row, column, c)]);
        (0..shape.channels).map(channel).sum()
    });
    let means: Vec<f64> = sums.into_iter().map(|(sum, count)| sum / count).collect();
    let largest = means.iter().fold(0.0f64, |m, r| m.max(r.abs()));
    let index = |r: &f64| match largest > 0.0 {
        true => {
            let part = r / largest;
            (127.0 + part.signum() * part.abs().sqrt() * 127.0).round() as u8
        }
        false => 127,
    };
    let pixels: Vec<u8> = means.iter().map(index).collect();
    let palette: Vec<[u8; 4]> = (0..255_i32)
        .map(|i| {
            let strength = i - 127;
            let [r, g, b] = if strength < 0 { AGAINST } else { FOR };
            [r, g, b, (strength.unsigned_abs() * 2).min(255) as u8]
        })
        .collect();
    let extent = (shrunk.width, shrunk.height);
    Raster {
        width: shrunk.width,
        height: shrunk.height,
        png: encode(extent, png::ColorType::Indexed, &pixels, &palette),
    }
}

/// A row of neurons of a layer, or of as many of them together as fit.
pub(crate) struct Strip {
    rows: Vec<Vec<u8>>,
}

/// Cells of a strip, at most.
pub(crate) const MOST_CELLS: usize = 256;

/// How many cells a strip of so many neurons has, and which of them belongs to a cell.
pub(crate) fn cells(neurons: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let count = neurons.min(MOST_CELLS);
    (0..count).map(move |i| i * neurons / count..(i + 1) * neurons / count)
}

const GREYS: u8 = 100;
const BOTH: u8 = GREYS + 1;
const FIRST: u8 = GREYS + 2;
const SECOND: u8 = GREYS + 3;

impl Strip {
    /// How often members of a cluster use neurons (0 to 1), above the neurons of its abstract path.
    pub(crate) fn of_cluster(frequency: &[f64], is_abstract: impl Fn(usize) -> bool) -> Strip {
        let mut rows = vec![Vec::new(); 2];
        for cell in cells(frequency.len()) {
            let most = cell.clone().map(|i| frequency[i]).fold(0.0, f64::max);
            rows[0].push((most * f64::from(GREYS)).round() as u8);
            rows[1].push(if cell.clone().any(&is_abstract) {
                BOTH
            } else {
                0
            });
        }
        Strip { rows }
    }

    /// An input's path above a cluster's: blue where they agree, orange where only one of them is.
    pub(crate) fn comparing(
        neurons: usize,
        of_input: impl Fn(usize) -> bool,
        of_cluster: impl Fn(usize) -> bool,
    ) -> Strip {
        let mut rows = vec![Vec::new(); 2];
        for cell in cells(neurons) {
            let (a, b) = (cell.clone().any(&of_input), cell.clone().any(&of_cluster));
            let agree = cell.clone().any(|i| of_input(i) && of_cluster(i));
            rows[0].push(if agree {
                BOTH
            } else if a {
                FIRST
            } else {
                0
            });
            rows[1].push(if agree {
                BOTH
            } else if b {
                SECOND
            } else {
                0
            });
        }
        Strip { rows }
    }

    /// The strip as a picture of one pixel a cell.
    pub(crate) fn raster(&self) -> Raster {
        let width = self.rows.first().map_or(0, Vec::len).max(1);
        let mut palette: Vec<[u8; 4]> = (0..=GREYS)
            .map(|i| {
                let [r, g, b] = GREY;
                [r, g, b, (f64::from(i) * 2.55).round() as u8]
            })
            .collect();
        for [r, g, b] in [AGAINST, FOR, FOR] {
            palette.push([r, g, b, 255]);
        }
        let mut pixels = self.rows.concat();
        pixels.resize(width * self.rows.len(), 0);
        let height = self.rows.len();
        Raster {
            width,
            height,
            png: encode((width, height), png::ColorType::Indexed, &pixels, &palette),
        }
    }
}

/// The bytes of a PNG file.
fn encode(
    (width, height): (usize, usize),
    colour: png::ColorType,
    pixels: &[u8],
    palette: &[[u8; 4]],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut write = || {
        // Pictures have a few hundred pixels a side.
        let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
        encoder.set_color(colour);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Balanced);
        if !palette.is_empty() {
            encoder.set_palette(
                palette
                    .iter()
                    .flat_map(|c| [c[0], c[1], c[2]])
                    .collect::<Vec<u8>>(),
            );
            encoder.set_trns(palette.iter().map(|c| c[3]).collect::<Vec<u8>>());
        }
        let mut writer = encoder.write_header()?;
        writer.write_image_data(pixels)?;
        writer.finish()
    };
    // Into memory, with as many pixels as were announced: nothing of it can fail.
    let _: Result<(), png::EncodingError> = write();
    bytes
}

/// The digits of base 64, as addresses have them.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let number = (0..3).fold(0u32, |n, i| {
            n << 8 | u32::from(chunk.get(i).copied().unwrap_or(0))
        });
        for i in 0..4 {
            match i <= chunk.len() {
                true => text.push(char::from(DIGITS[(number >> (18 - 6 * i) & 63) as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(raster: &Raster) -> Vec<[u8; 4]> {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(&raster.png));
        decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::ALPHA);
        let mut reader = decoder.read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        assert_eq!(
            (info.width as usize, info.height as usize),
            (raster.width, raster.height)
        );
        let samples = info.color_type.samples();
        bytes
            .chunks_exact(samples)
            .map(|p| match samples {
                2 => [p[0], p[0], p[0], p[1]],
                _ => [p[0], p[1], p[2], p[3]],
            })
            .collect()
    }

    fn shape(height: usize, width: usize, channels: usize, channels_last: bool) -> ImageShape {
        ImageShape {
            height,
            width,
            channels,
            channels_last,
        }
    }

    #[test]
    fn small_images_keep_their_pixels_and_large_ones_are_means() {
        let grey = image(
            shape(2, 2, 1, false),
            &[0.0, 255.0, 51.0, 0.0],
            true,
            Size::Small,
        );
        let shades: Vec<u8> = decode(&grey).iter().map(|p| p[0]).collect();
        assert_eq!(shades, [0, 255, 51, 0]);
        let large: Vec<f32> = (0..128 * 256)
            .map(|i| if i % 2 == 0 { 0.0 } else { 100.0 })
            .collect();
        let small = image(shape(128, 256, 1, false), &large, true, Size::Small);
        assert_eq!((small.width, small.height), (64, 32));
        assert!(decode(&small).iter().all(|p| p[0] == 50));
    }

    #[test]
    fn colours_are_found_in_either_order() {
        for channels_last in [false, true] {
            let shape = shape(2, 3, 3, channels_last);
            let mut numbers = vec![0.0; 18];
            numbers[shape.position(1, 2, 0)] = 1.0;
            numbers[shape.position(0, 0, 2)] = 0.2;
            let pixels = decode(&image(shape, &numbers, false, Size::Large));
            assert_eq!((pixels[5], pixels[0]), ([255, 0, 0, 255], [0, 0, 51, 255]));
        }
    }

    #[test]
    fn other_channels_are_shown_as_their_mean() {
        let pixels = decode(&image(
            shape(1, 2, 2, false),
            &[0.0, 200.0, 0.0, 100.0],
            true,
            Size::Small,
        ));
        assert_eq!([pixels[0][0], pixels[1][0]], [0, 150]);
    }

    #[test]
    fn relevance_has_two_colours_and_nothing_is_transparent() {
        let pixels = decode(&relevance(
            shape(1, 3, 1, false),
            &[2.0, 0.0, -1.0],
            Size::Small,
        ));
        assert_eq!(pixels[0], [FOR[0], FOR[1], FOR[2], 254]);
        assert_eq!(pixels[1][3], 0);
        assert_eq!(pixels[2], [AGAINST[0], AGAINST[1], AGAINST[2], 180]);
        let nothing = decode(&relevance(shape(1, 2, 1, false), &[0.0; 2], Size::Small));
        assert!(nothing.iter().all(|p| p[3] == 0));
    }

    #[test]
    fn strips_have_a_cell_for_some_neurons() {
        assert_eq!(cells(1000).count(), MOST_CELLS);
        assert_eq!(cells(1000).map(|cell| cell.len()).sum::<usize>(), 1000);
        assert!(cells(0).next().is_none());
        let strip = Strip::of_cluster(&[0.0, 0.5, 1.0], |i| i == 2).raster();
        let pixels = decode(&strip);
        assert_eq!((strip.width, strip.height), (3, 2));
        assert_eq!([pixels[0][3], pixels[1][3], pixels[2][3]], [0, 127, 255]);
        assert_eq!([pixels[3][3], pixels[5][3]], [0, 255]);
        let compared = decode(&Strip::comparing(3, |i| i < 2, |i| i > 0).raster());
        let colour = |i: usize| [compared[i][0], compared[i][1], compared[i][2]];
        assert_eq!(
            [colour(0), colour(1), colour(4), colour(5)],
            [FOR, AGAINST, AGAINST, FOR]
        );
        assert_eq!((compared[2][3], compared[3][3]), (0, 0));
    }

    #[test]
    fn base64_is_that_of_the_standard() {
        // RFC 4648, 10.
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, text) in cases {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
