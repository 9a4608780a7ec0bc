//! Inputs side by side in one picture.

use std::path::Path;

use npcov::data::{ImageShape, write_whole};

use crate::lettering;
use crate::picture::{self, PictureError};

/// Small images are enlarged to about this height.
const HEIGHT: usize = 56;
/// Pixels between images, and around them.
const GAP: usize = 4;
/// Pixels from a line of words to what is below it.
const LINE: usize = lettering::HEIGHT + GAP;
/// Pixels between groups of rows.
const GROUP_GAP: usize = 16;
/// What shows there.
const BACKGROUND: [u8; 3] = [208; 3];
/// The colour of words.
const INK: [u8; 3] = [32; 3];

/// Rows of images that belong together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ImageGroup {
    /// What stands above them; may be empty.
    pub(crate) title: String,
    /// Each row with what stands above it, which may be empty.
    pub(crate) rows: Vec<(String, Vec<Vec<f32>>)>,
}

/// A picture with rows of images, in groups that stand apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageGrid {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl ImageGrid {
    /// Draws a row of images, each as the numbers of its pixels. `None` where groups of them could not be drawn.
    pub fn row(shape: ImageShape, images: Vec<Vec<f32>>, bytes: bool) -> Option<ImageGrid> {
        let group = ImageGroup {
            title: String::new(),
            rows: vec![(String::new(), images)],
        };
        ImageGrid::new(shape, &[group], bytes)
    }

    /// Draws groups of rows of images, each image as the numbers of its pixels, below what they are. `None` for shapes
    /// that cannot be shown, images of another size, and pictures that would be larger than any
    /// screen by far.
    ///
    /// Numbers that are `bytes` are brightness as they are; see [`Heatmap`](crate::Heatmap).
    pub(crate) fn new(shape: ImageShape, groups: &[ImageGroup], bytes: bool) -> Option<ImageGrid> {
        if !matches!(shape.channels, 1 | 3) || shape.height == 0 || shape.width == 0 {
            return None;
        }
        let numbers = shape
            .height
            .checked_mul(shape.width)?
            .checked_mul(shape.channels)?;
        let rows = || groups.iter().flat_map(|group| &group.rows);
        let images = rows().flat_map(|(_, images)| images);
        if images.into_iter().any(|image| image.len() != numbers) {
            return None;
        }
        let scale = (HEIGHT / shape.height).max(1);
        let (wide, high) = (shape.width * scale + GAP, shape.height * scale + GAP);
        let columns = rows().map(|(_, images)| images.len()).max()?;
        let captions = || {
            let titles = groups.iter().map(|group| &group.title);
            let captions = titles.chain(rows().map(|(caption, _)| caption));
            captions.filter(|caption| !caption.is_empty())
        };
        let gaps = groups.len().saturating_sub(1) * GROUP_GAP;
        let widest = captions().map(|caption| lettering::width(caption)).max();
        let width = columns.checked_mul(wide)?.max(widest.unwrap_or(0));
        let width = width.checked_add(GAP)?;
        let words = captions().count().checked_mul(LINE)?;
        let height = rows().count().checked_mul(high)?;
        let height = height.checked_add(words)?.checked_add(GAP + gaps)?;
        width.checked_mul(height).filter(|&area| area <= 1 << 26)?;
        let mut grid = ImageGrid {
            width,
            height,
            pixels: BACKGROUND.repeat(width * height),
        };
        let mut top = GAP;
        for group in groups {
            top = grid.write_words(&group.title, top);
            for (caption, row) in &group.rows {
                top = grid.write_words(caption, top);
                for (column, image) in row.iter().enumerate() {
                    let colours = picture::image_colours(shape, image, bytes);
                    grid.draw(&colours, shape, scale, (GAP + column * wide, top));
                }
                top += high;
            }
            top += GROUP_GAP;
        }
        Some(grid)
    }

    /// Writes a line of words, if there are any; returns where what is below it begins.
    fn write_words(&mut self, words: &str, top: usize) -> usize {
        for (x, y) in lettering::ink(words) {
            let place = ((top + y) * self.width + GAP + x) * 3;
            self.pixels[place..place + 3].copy_from_slice(&INK);
        }
        if words.is_empty() { top } else { top + LINE }
    }

    fn draw(
        &mut self,
        colours: &[[u8; 3]],
        shape: ImageShape,
        scale: usize,
        (left, top): (usize, usize),
    ) {
        for y in 0..shape.height * scale {
            for x in 0..shape.width * scale {
                let colour = colours[(y / scale) * shape.width + x / scale];
                let place = ((top + y) * self.width + left + x) * 3;
                self.pixels[place..place + 3].copy_from_slice(&colour);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: ImageShape = ImageShape {
        height: 56,
        width: 2,
        channels: 1,
        channels_last: false,
    };

    fn group(rows: Vec<Vec<Vec<f32>>>) -> ImageGroup {
        let rows = rows.into_iter().map(|row| (String::new(), row));
        ImageGroup {
            title: String::new(),
            rows: rows.collect(),
        }
    }

    #[test]
    fn images_stand_where_they_belong() {
        let image = |x: f32| vec![x; 112];
        let groups = [
            group(vec![vec![image(0.0), image(1.0)]]),
            group(vec![vec![image(1.0)], vec![image(0.0)]]),
        ];
        let grid = ImageGrid::new(SHAPE, &groups, false).unwrap();
        assert_eq!((grid.width, grid.height), (16, 3 * 60 + 4 + 16));
        let pixel = |x: usize, y: usize| grid.pixels[(y * 16 + x) * 3];
        assert_eq!([pixel(4, 4), pixel(10, 4), pixel(8, 4)], [0, 255, 208]);
        // The second group begins below a wider gap.
        assert_eq!([pixel(4, 79), pixel(4, 80), pixel(10, 80)], [208, 255, 208]);
        assert_eq!(pixel(4, 140), 0);
        assert!(grid.to_png().unwrap().starts_with(b"\x89PNG"));
    }

    #[test]
    fn words_stand_above_what_they_are_about() {
        let mut group = group(vec![vec![vec![1.0; 112]], vec![vec![0.0; 112]]]);
        group.title = "I".to_owned();
        group.rows[1].0 = "IIIII".to_owned();
        let grid = ImageGrid::new(SHAPE, &[group], false).unwrap();
        // Two images below each other, two lines of words; the longer one is wider than the images.
        assert_eq!((grid.width, grid.height), (5 * 12 + 4, 2 * 60 + 2 * 18 + 4));
        let pixel = |x: usize, y: usize| grid.pixels[(y * 64 + x) * 3];
        assert_eq!([pixel(8, 4), pixel(4, 4), pixel(8, 6)], [32, 208, 32]);
        assert_eq!([pixel(4, 22), pixel(4, 77), pixel(8, 82)], [255, 255, 32]);
        assert_eq!(pixel(4, 100), 0);
    }

    #[test]
    fn what_cannot_be_shown_is_not() {
        let image = vec![0.0; 112];
        let groups = [group(vec![vec![image]])];
        let two = ImageShape {
            channels: 2,
            ..SHAPE
        };
        assert_eq!(ImageGrid::new(two, &groups, false), None);
        let larger = ImageShape { width: 3, ..SHAPE };
        assert_eq!(ImageGrid::new(larger, &groups, false), None);
        assert_eq!(ImageGrid::new(SHAPE, &[], false), None);
    }
}
