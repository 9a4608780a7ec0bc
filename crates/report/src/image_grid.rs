//! Inputs side by side in one picture.

use std::path::Path;

use npcov::data::{ImageShape, write_whole};

use crate::picture::{self, PictureError};

/// Small images are enlarged to about this height.
const HEIGHT: usize = 56;
/// Pixels between images, and around them.
const GAP: usize = 4;
/// Pixels between groups of rows.
const GROUP_GAP: usize = 16;
/// What shows there.
const BACKGROUND: [u8; 3] = [208; 3];

/// A picture with rows of images, in groups that stand apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageGrid {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl ImageGrid {
    /// Draws groups of rows of images, each image as the numbers of its pixels. `None` for shapes
    /// that cannot be shown, images of another size, and pictures that would be larger than any
    /// screen by far.
    ///
    /// Numbers that are `bytes` are brightness as they are; see [`Heatmap`](crate::Heatmap).
    pub fn new(shape: ImageShape, groups: &[Vec<Vec<Vec<f32>>>], bytes: bool) -> Option<ImageGrid> {
        if !matches!(shape.channels, 1 | 3) || shape.height == 0 || shape.width == 0 {
            return None;
        }
        let numbers = shape
            .height
            .checked_mul(shape.width)?
            .checked_mul(shape.channels)?;
        let images = groups.iter().flatten().flatten();
        if images.into_iter().any(|image| image.len() != numbers) {
            return None;
        }
        let scale = (HEIGHT / shape.height).max(1);
        let (wide, high) = (shape.width * scale + GAP, shape.height * scale + GAP);
        let columns = groups.iter().flatten().map(Vec::len).max()?;
        let rows: usize = groups.iter().map(Vec::len).sum();
        let gaps = groups.len().saturating_sub(1) * GROUP_GAP;
        let width = columns.checked_mul(wide)?.checked_add(GAP)?;
        let height = rows.checked_mul(high)?.checked_add(GAP + gaps)?;
        width.checked_mul(height).filter(|&area| area <= 1 << 26)?;
        let mut grid = ImageGrid {
            width,
            height,
            pixels: BACKGROUND.repeat(width * height),
        };
        let mut top = GAP;
        for group in groups {
            for row in group {
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

    #[test]
    fn images_stand_where_they_belong() {
        let image = |x: f32| vec![x; 112];
        let groups = [
            vec![vec![image(0.0), image(1.0)]],
            vec![vec![image(1.0)], vec![image(0.0)]],
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
    fn what_cannot_be_shown_is_not() {
        let image = vec![0.0; 112];
        let groups = [vec![vec![image]]];
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
