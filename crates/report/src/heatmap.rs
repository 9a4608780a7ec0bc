//! Relevance as a picture beside the input it belongs to.

use std::path::Path;

use npcov::Explained;
use npcov::data::{Element, ImageShape, Loader, write_whole};

use crate::picture::{self, PictureError};

/// Small images are enlarged to about this height.
const HEIGHT: usize = 224;
/// Pixels between the two pictures, and around them.
const GAP: usize = 8;
/// What shows there: neither the white of no relevance nor a colour of the map.
const BACKGROUND: [u8; 3] = [208; 3];

/// A picture: the input on the left where it can be shown, its relevance on the right.
///
/// Relevance is summed over the channels of a pixel. Red pixels support the explained class, blue
/// ones speak against it, white ones do neither; the strongest pixel has the full colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heatmap {
    width: usize,
    height: usize,
    /// Red, green and blue of every pixel.
    pixels: Vec<u8>,
}

impl Heatmap {
    /// Draws the relevance of an image's numbers beside the image. `None` when the numbers are not
    /// as many as the shape says, or the picture would be larger than any screen by far.
    ///
    /// Images of one or three channels are shown; of others, only the relevance. Numbers that are
    /// `bytes` are brightness as they are; others are taken for 0 to 1 or 0 to 255 if they lie in
    /// there, and else from their smallest to their largest.
    pub fn new(
        shape: ImageShape,
        image: &[f32],
        bytes: bool,
        relevance: &[f32],
    ) -> Option<Heatmap> {
        let numbers = shape
            .height
            .checked_mul(shape.width)?
            .checked_mul(shape.channels)?;
        if numbers == 0 || image.len() != numbers || relevance.len() != numbers {
            return None;
        }
        let mut panels = Vec::new();
        if let 1 | 3 = shape.channels {
            panels.push(picture::image_colours(shape, image, bytes));
        }
        panels.push(coloured(shape, relevance));
        let scale = (HEIGHT / shape.height).max(1);
        let panel = shape.width.checked_mul(scale)?.checked_add(GAP)?;
        let width = panel.checked_mul(panels.len())?.checked_add(GAP)?;
        let height = (shape.height * scale).checked_add(2 * GAP)?;
        let largest = 1 << 28;
        width.checked_mul(height).filter(|&area| area <= largest)?;
        let mut pixels = Vec::with_capacity(width * height * 3);
        for y in 0..height {
            for x in 0..width {
                let inside = |place: usize, extent: usize| {
                    place.checked_sub(GAP).filter(|&p| p < extent * scale)
                };
                let found = panels.get(x / panel).and_then(|colours| {
                    let row = inside(y, shape.height)? / scale;
                    let column = inside(x % panel, shape.width)? / scale;
                    colours.get(row * shape.width + column)
                });
                pixels.extend(found.unwrap_or(&BACKGROUND));
            }
        }
        Some(Heatmap {
            width,
            height,
            pixels,
        })
    }

    /// The relevance of an explained input beside the input; `None` when it was not computed or the
    /// input is no image.
    pub fn of(explained: &Explained, data: &Loader) -> Result<Option<Heatmap>, PictureError> {
        let (Some(relevance), Some(shape)) = (&explained.input, data.image()) else {
            return Ok(None);
        };
        let mut stored = vec![0.0; data.sample_len()];
        let index = explained.explanation.index;
        data.read_stored(index..index + 1, &mut stored)?;
        let bytes = data.input().element() == Element::U8;
        Ok(Heatmap::new(shape, &stored, bytes, relevance))
    }

    /// The picture as the bytes of a PNG file.
    pub fn to_png(&self) -> Result<Vec<u8>, PictureError> {
        picture::png(self.width, self.height, &self.pixels)
    }

    /// Writes the picture as a PNG file.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), PictureError> {
        Ok(write_whole(path, &self.to_png()?)?)
    }
}

/// The colours of a relevance, row by row.
fn coloured(shape: ImageShape, relevance: &[f32]) -> Vec<[u8; 3]> {
    let sums = picture::each(shape, |row, column| {
        (0..shape.channels)
            .map(|channel| f64::from(relevance[shape.position(row, column, channel)]))
            .sum::<f64>()
    });
    let largest = sums.iter().fold(0.0f64, |m, r| m.max(r.abs()));
    let colour = |&r: &f64| {
        let strength = if largest > 0.0 { r / largest } else { 0.0 };
        let rest = (255.0 * (1.0 - strength.abs())).round() as u8;
        match strength < 0.0 {
            true => [rest, rest, 255],
            false => [255, rest, rest],
        }
    };
    sums.iter().map(colour).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHITE: [u8; 3] = [255; 3];

    fn shape(channels: usize, channels_last: bool) -> ImageShape {
        ImageShape {
            height: 100,
            width: 2,
            channels,
            channels_last,
        }
    }

    /// The colour in the middle of a pixel of the original.
    fn colour(map: &Heatmap, panel: usize, row: usize, column: usize) -> [u8; 3] {
        // 224 / 100 is 2.
        let x = GAP + panel * (2 * 2 + GAP) + column * 2 + 1;
        let at = ((GAP + row * 2 + 1) * map.width + x) * 3;
        [map.pixels[at], map.pixels[at + 1], map.pixels[at + 2]]
    }

    #[test]
    fn red_supports_and_blue_speaks_against() {
        let mut image = vec![0.0; 200];
        let mut relevance = vec![0.0; 200];
        (image[1], image[199]) = (1.0, 0.2);
        (relevance[0], relevance[3], relevance[199]) = (2.0, -4.0, 1.0);
        let map = Heatmap::new(shape(1, false), &image, false, &relevance).unwrap();
        assert_eq!(
            (map.width, map.height),
            (2 * (4 + GAP) + GAP, 200 + 2 * GAP)
        );
        assert_eq!(colour(&map, 0, 0, 1), [255; 3]);
        assert_eq!(colour(&map, 0, 99, 1), [51; 3]);
        assert_eq!(colour(&map, 1, 0, 0), [255, 128, 128]);
        assert_eq!(colour(&map, 1, 1, 1), [0, 0, 255]);
        assert_eq!(colour(&map, 1, 99, 1), [255, 191, 191]);
        assert_eq!(colour(&map, 1, 50, 0), WHITE);
        assert_eq!(map.pixels[..3], BACKGROUND);
    }

    #[test]
    fn channels_are_found_in_either_order() {
        for channels_last in [false, true] {
            let shape = shape(3, channels_last);
            let (mut image, mut relevance) = (vec![0.0; 600], vec![0.0; 600]);
            image[shape.position(7, 1, 2)] = 200.0;
            relevance[shape.position(7, 1, 0)] = 3.0;
            relevance[shape.position(7, 1, 2)] = -3.0;
            relevance[shape.position(8, 0, 1)] = -1.0;
            let map = Heatmap::new(shape, &image, true, &relevance).unwrap();
            assert_eq!(colour(&map, 0, 7, 1), [0, 0, 200]);
            assert_eq!(colour(&map, 1, 7, 1), WHITE);
            assert_eq!(colour(&map, 1, 8, 0), [0, 0, 255]);
        }
    }

    #[test]
    fn of_other_channels_only_the_relevance_is_shown() {
        let map = Heatmap::new(shape(2, false), &[0.0; 400], true, &[0.0; 400]).unwrap();
        assert_eq!(map.width, 4 + 2 * GAP);
        assert_eq!(colour(&map, 0, 0, 0), WHITE);
        assert_eq!(
            Heatmap::new(shape(2, false), &[0.0; 399], true, &[0.0; 400]),
            None
        );
    }

    #[test]
    fn numbers_of_any_range_become_brightness() {
        let mut image = vec![-1.0; 200];
        (image[0], image[1]) = (3.0, 1.0);
        let map = Heatmap::new(shape(1, true), &image, false, &[0.0; 200]).unwrap();
        let shades = [(0, 0), (0, 1), (1, 0)].map(|(row, column)| colour(&map, 0, row, column)[0]);
        assert_eq!(shades, [255, 128, 0]);
        let plain = Heatmap::new(shape(1, true), &[-5.0; 200], false, &[0.0; 200]).unwrap();
        assert_eq!(colour(&plain, 0, 0, 0), [0; 3]);
    }

    #[test]
    fn a_png_holds_the_pixels() {
        let map = Heatmap::new(shape(1, false), &[0.5; 200], false, &[1.0; 200]).unwrap();
        let bytes = map.to_png().unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, map.pixels);
    }
}
