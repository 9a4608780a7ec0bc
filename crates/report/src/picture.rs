//! What all pictures have in common: colours of images, and PNG files.

use npcov::data::{DataError, ImageShape};

/// Why a picture cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// What it shows cannot be read, or its file not be written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// It cannot be encoded.
    #[error("cannot draw the picture: {0}")]
    Png(String),
}

/// A picture as the bytes of a PNG file: red, green and blue of every pixel.
pub(crate) fn png(width: usize, height: usize, pixels: &[u8]) -> Result<Vec<u8>, PictureError> {
    let mut bytes = Vec::new();
    let mut encode = || {
        // Pictures are drawn far below this.
        let size = |extent: usize| u32::try_from(extent).unwrap_or(u32::MAX);
        let mut encoder = png::Encoder::new(&mut bytes, size(width), size(height));
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(pixels)?;
        writer.finish()
    };
    encode().map_err(|error: png::EncodingError| PictureError::Png(error.to_string()))?;
    Ok(bytes)
}

/// The colours of an image of one or three channels, row by row. Numbers that are `bytes` are brightness as they are;
/// others are taken for 0 to 1 or 0 to 255 if they lie in there, and else from their smallest to their largest.
pub fn image_colours(shape: ImageShape, image: &[f32], bytes: bool) -> Vec<[u8; 3]> {
    let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
    for &x in image {
        (low, high) = (low.min(x), high.max(x));
    }
    let (black, white) = match (low >= 0.0, high) {
        _ if bytes => (0.0, 255.0),
        (true, high) if high <= 1.0 => (0.0, 1.0),
        (true, high) if high <= 255.0 => (0.0, 255.0),
        _ => (low, high),
    };
    // An image of one colour has no range; it is black.
    let range = if white > black { white - black } else { 1.0 };
    let brightness = |x: f32| ((x - black) / range * 255.0).round() as u8;
    let colour = |row, column| {
        [0, 1, 2].map(|c| brightness(image[shape.position(row, column, c % shape.channels)]))
    };
    each(shape, colour)
}

/// Something for each pixel, row by row.
pub(crate) fn each<T>(shape: ImageShape, of: impl Fn(usize, usize) -> T) -> Vec<T> {
    (0..shape.height)
        .flat_map(|row| (0..shape.width).map(move |column| (row, column)))
        .map(|(row, column)| of(row, column))
        .collect()
}
