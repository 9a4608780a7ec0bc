//! PNG and JPEG files as 8-bit grey or RGB pixels.
//!
//! Palettes are resolved, 16-bit samples keep their upper byte, and an alpha channel is dropped, as the loaders that
//! models are trained with do (Pillow's `convert("RGB")`). The orientation in EXIF data is not applied, as there.

use std::io::Cursor;

use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use crate::contained::{Panicked, contained};
use crate::error::ReadError;
use crate::jpeg_colours::StoredColours;

/// The largest file and the longest decoded image that are read: far beyond any dataset, and an allocation that any
/// machine survives.
pub(crate) const LONGEST: usize = 256 << 20;

/// A decoded image: rows of pixels of channels, 8 bits each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    height: usize,
    width: usize,
    channels: usize,
    pixels: Vec<u8>,
}

impl Image {
    /// An image of these pixels; an error where they are fewer or more than `height` x `width` x `channels`, or none.
    pub fn new(
        height: usize,
        width: usize,
        channels: usize,
        pixels: Vec<u8>,
    ) -> Result<Image, ReadError> {
        let len = height
            .checked_mul(width)
            .and_then(|count| count.checked_mul(channels));
        if len != Some(pixels.len()) || pixels.is_empty() {
            return Err(ReadError::malformed(
                "decodes to fewer or more pixels than it claims",
            ));
        }
        Ok(Image {
            height,
            width,
            channels,
            pixels,
        })
    }

    /// Rows of pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Pixels in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Numbers of a pixel: 1 is grey, 3 is RGB.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// All numbers: those of a pixel side by side, then the next pixel of the row.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Decodes a PNG or JPEG file, which is told by its first bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Image, ReadError> {
        let damaged = |_: Panicked| ReadError::malformed("is an image that the decoder fails on");
        if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            contained(|| decode_png(bytes)).map_err(damaged)?
        } else if bytes.starts_with(&[0xff, 0xd8, 0xff]) {
            contained(|| decode_jpeg(bytes)).map_err(damaged)?
        } else {
            Err(ReadError::malformed("is neither a PNG nor a JPEG file"))
        }
    }

    /// Grey as RGB with three equal channels.
    pub(crate) fn into_rgb(self) -> Image {
        if self.channels == 3 {
            return self;
        }
        Image {
            channels: 3,
            pixels: self.pixels.into_iter().flat_map(|grey| [grey; 3]).collect(),
            ..self
        }
    }
}

/// Refuses images that are absurd, or larger than `bytes` of compressed data could describe at `factor` to one.
fn check_size(width: usize, height: usize, bytes: usize, factor: usize) -> Result<(), ReadError> {
    let pixels = width.saturating_mul(height);
    if pixels == 0 || pixels / factor > bytes {
        return Err(ReadError::malformed(format!(
            "claims {height}x{width} pixels in a file of {bytes} bytes"
        )));
    }
    if pixels > LONGEST / 4 {
        return Err(ReadError::unsupported(format!(
            "has {height}x{width} pixels; images are read up to {} million",
            (LONGEST / 4) >> 20
        )));
    }
    Ok(())
}

fn decode_png(bytes: &[u8]) -> Result<Image, ReadError> {
    let damaged = |error: png::DecodingError| {
        ReadError::malformed(format!("is a damaged PNG file ({error})"))
    };
    let limits = png::Limits { bytes: LONGEST };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let info = decoder.read_header_info().map_err(damaged)?;
    let (width, height) = (info.width as usize, info.height as usize);
    // 1032 is the limit of DEFLATE, and a byte holds up to eight pixels.
    check_size(width, height, bytes.len(), 1032 * 8)?;
    let mut reader = decoder.read_info().map_err(damaged)?;
    let len = reader
        .output_buffer_size()
        .filter(|&len| len <= LONGEST)
        .ok_or_else(|| ReadError::malformed("is a PNG image too large to read"))?;
    let mut pixels = vec![0; len];
    let frame = reader.next_frame(&mut pixels).map_err(damaged)?;
    pixels.truncate(frame.buffer_size());
    let (channels, alpha) = match frame.color_type {
        png::ColorType::Grayscale => (1, false),
        png::ColorType::GrayscaleAlpha => (1, true),
        png::ColorType::Rgb => (3, false),
        png::ColorType::Rgba => (3, true),
        png::ColorType::Indexed => {
            return Err(ReadError::malformed("is a PNG image without its palette"));
        }
    };
    if alpha {
        let pixel = |pixel: &[u8]| pixel.iter().take(channels).copied().collect::<Vec<u8>>();
        pixels = pixels.chunks_exact(channels + 1).flat_map(pixel).collect();
    }
    Image::new(height, width, channels, pixels)
}

fn decode_jpeg(bytes: &[u8]) -> Result<Image, ReadError> {
    let damaged = |error: zune_jpeg::errors::DecodeErrors| {
        ReadError::malformed(format!("is a damaged JPEG file ({error})"))
    };
    // A truncated file is an error, not an image with a grey rest. The decoder's strict mode notices all but the last rows
    // of blocks; that the end marker follows the last start of a scan settles those.
    let last = |marker: u8| bytes.windows(2).rposition(|pair| pair == [0xff, marker]);
    if last(0xd9) <= last(0xda) {
        return Err(ReadError::malformed("is a truncated JPEG file"));
    }
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX));
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(damaged)?;
    let (width, height) = decoder
        .info()
        .map(|info| (usize::from(info.width), usize::from(info.height)))
        .ok_or_else(|| ReadError::malformed("is a JPEG file without an image"))?;
    // A block of 8x8 pixels takes at least one bit.
    check_size(width, height, bytes.len(), 64 * 8)?;
    let (channels, colours) = match decoder.input_colorspace() {
        Some(ColorSpace::Luma) => (1, ColorSpace::Luma),
        _ => (3, ColorSpace::RGB),
    };
    if let Some(stored) = StoredColours::find(bytes) {
        let options = options.jpeg_set_out_colorspace(ColorSpace::YCbCr);
        let decoded =
            JpegDecoder::new_with_options(ZCursor::new(stored.laid_out.as_slice()), options)
                .decode();
        // What is wrong with a file is told by the decoder of the file as it is.
        if let Some(pixels) = decoded.ok().and_then(|decoded| stored.pixels(&decoded)) {
            return Image::new(height, width, channels, pixels);
        }
    }
    decoder.set_options(options.jpeg_set_out_colorspace(colours));
    let pixels = decoder.decode().map_err(damaged)?;
    Image::new(height, width, channels, pixels)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A PNG file made by the encoder of the `png` crate.
    pub(crate) fn png(colour: png::ColorType, width: u32, height: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(colour);
        encoder.set_depth(png::BitDepth::Eight);
        if colour == png::ColorType::Indexed {
            encoder.set_palette(vec![10, 20, 30, 40, 50, 60]);
        }
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(data).unwrap();
        writer.finish().unwrap();
        bytes
    }

    #[test]
    fn png_colours_become_grey_or_rgb() {
        use png::ColorType::*;
        let cases: [(_, &[u8], _, &[u8]); 5] = [
            (Grayscale, &[7, 8], 1, &[7, 8]),
            (GrayscaleAlpha, &[7, 0, 8, 255], 1, &[7, 8]),
            (Rgb, &[1, 2, 3, 4, 5, 6], 3, &[1, 2, 3, 4, 5, 6]),
            (Rgba, &[1, 2, 3, 0, 4, 5, 6, 255], 3, &[1, 2, 3, 4, 5, 6]),
            (Indexed, &[1, 0], 3, &[40, 50, 60, 10, 20, 30]),
        ];
        for (colour, data, channels, expected) in cases {
            let decoded = Image::decode(&png(colour, 2, 1, data)).unwrap();
            assert_eq!(
                (decoded.height, decoded.width, decoded.channels),
                (1, 2, channels)
            );
            assert_eq!(decoded.pixels, expected, "{colour:?}");
        }
        let grey = Image::decode(&png(Grayscale, 2, 1, &[7, 8])).unwrap();
        assert_eq!(grey.into_rgb().pixels, [7, 7, 7, 8, 8, 8]);
    }

    #[test]
    fn damaged_and_truncated_images_are_errors() {
        let good = png(png::ColorType::Rgb, 20, 20, &[9; 1200]);
        let jpeg = include_bytes!("../tests/fixtures/rgb.jpg");
        // The 12 bytes at the end of a PNG are an empty chunk.
        for (bytes, end) in [(&good[..], 12), (&jpeg[..], 0)] {
            for cut in 0..bytes.len() - end {
                assert!(Image::decode(&bytes[..cut]).is_err(), "cut at {cut}");
            }
        }
        assert!(Image::decode(b"GIF89a").is_err());
    }

    #[test]
    fn claims_far_beyond_the_file_are_refused() {
        // Width and height are bytes 16..24 of a PNG; the checksum of the header follows.
        let mut huge = png(png::ColorType::Grayscale, 1, 1, &[0]);
        huge[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0x10, 0]);
        let mut crc = flate2::Crc::new();
        crc.update(&huge[12..29]);
        huge[29..33].copy_from_slice(&crc.sum().to_be_bytes());
        let error = Image::decode(&huge).unwrap_err().to_string();
        assert!(error.contains("claims 4096x65535 pixels"), "{error}");
        // The frame header of a JPEG: ff c0, length, precision, height, width.
        let mut huge = include_bytes!("../tests/fixtures/rgb.jpg").to_vec();
        let frame = huge
            .windows(2)
            .position(|pair| pair == [0xff, 0xc0])
            .unwrap();
        huge[frame + 5..frame + 9].copy_from_slice(&[0x40, 0, 0x40, 0]);
        let error = Image::decode(&huge).unwrap_err().to_string();
        assert!(error.contains("claims 16384x16384 pixels"), "{error}");
    }

    #[test]
    fn jpeg_decodes_as_other_decoders_do() {
        // Written and decoded back by Pillow (tests/fixtures/make.py): a grey ramp and a red-green ramp. Inverse cosine
        // transforms differ by a level or two between decoders.
        let close = |image: &Image, expected: &[u8]| {
            let worst = image
                .pixels
                .iter()
                .zip(expected)
                .map(|(a, b)| a.abs_diff(*b))
                .max();
            assert!(worst <= Some(3), "{worst:?}");
            assert_eq!(image.pixels.len(), expected.len());
        };
        let grey = Image::decode(include_bytes!("../tests/fixtures/grey.jpg")).unwrap();
        assert_eq!((grey.height, grey.width, grey.channels), (8, 16, 1));
        close(&grey, include_bytes!("../tests/fixtures/grey.raw"));
        let rgb = Image::decode(include_bytes!("../tests/fixtures/rgb.jpg")).unwrap();
        assert_eq!((rgb.height, rgb.width, rgb.channels), (8, 16, 3));
        close(&rgb, include_bytes!("../tests/fixtures/rgb.raw"));
        let progressive =
            Image::decode(include_bytes!("../tests/fixtures/progressive.jpg")).unwrap();
        close(
            &progressive,
            include_bytes!("../tests/fixtures/progressive.raw"),
        );
    }

    /// Where colours are stored at half the resolution, nothing but rounding in cosine transforms is left.
    #[test]
    fn colours_at_half_the_resolution_are_those_of_pillow() {
        let image = Image::decode(include_bytes!("../tests/fixtures/colours.jpg")).unwrap();
        let expected = include_bytes!("../tests/fixtures/colours.raw");
        assert_eq!((image.height, image.width, image.channels), (43, 61, 3));
        let apart = |levels: u8| {
            let pairs = image.pixels.iter().zip(expected);
            pairs.filter(|(a, b)| a.abs_diff(**b) >= levels).count()
        };
        assert_eq!(image.pixels.len(), expected.len());
        assert!(apart(1) * 30 < expected.len(), "{}", apart(1));
        assert!(apart(2) * 100 < expected.len(), "{}", apart(2));
        assert_eq!(apart(3), 0);
    }

    proptest! {
        #[test]
        fn damaged_images_never_panic(
            file in 0usize..5,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let mut bytes = match file {
                0 => include_bytes!("../tests/fixtures/grey.jpg").to_vec(),
                1 => include_bytes!("../tests/fixtures/rgb.jpg").to_vec(),
                2 => include_bytes!("../tests/fixtures/progressive.jpg").to_vec(),
                3 => include_bytes!("../tests/fixtures/colours.jpg").to_vec(),
                _ => png(png::ColorType::Rgb, 5, 4, &[9; 60]),
            };
            for (place, value) in changes {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            if let Ok(image) = Image::decode(&bytes) {
                prop_assert_eq!(image.pixels.len(), image.height * image.width * image.channels);
            }
        }
    }
}
