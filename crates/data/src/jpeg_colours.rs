//! Colours of JPEG photographs as libjpeg makes them, which is what Pillow and torchvision read with.
//!
//! Most photographs store colour at half the resolution (4:2:0). Decoders agree on what is stored up to rounding, but not
//! on what they make of it in between: rounding twice, as zune-jpeg does, is up to two grey levels away from libjpeg.
//! So colour is taken as it is stored. A unit of such a file has four blocks of brightness, two by two, and one block of
//! each colour. Its header is changed to say that the four blocks stand side by side: the same bits are then an image
//! twice as wide and half as high, with a ratio of 4 to 1 that the decoder fills by repetition. From that, blocks are
//! put back in their places, and colours are interpolated and converted by libjpeg's formulas.

/// A file of one scan with colours at half the resolution.
pub(crate) struct StoredColours {
    /// The same file, its blocks side by side.
    pub(crate) laid_out: Vec<u8>,
    width: usize,
    height: usize,
}

impl StoredColours {
    /// Looks at the headers of a file; `None` where it is of another kind.
    pub(crate) fn find(bytes: &[u8]) -> Option<StoredColours> {
        let number =
            |at: usize| Some(usize::from(*bytes.get(at)?) << 8 | usize::from(*bytes.get(at + 1)?));
        let mut at = 2;
        let mut frame = None;
        loop {
            // Any marker may be filled up in front.
            let marker = match (bytes.get(at)?, bytes.get(at + 1)?) {
                (0xff, 0xff) => {
                    at += 1;
                    continue;
                }
                (0xff, &marker) => marker,
                _ => return None,
            };
            let length = number(at + 2)?;
            let content = at + 4;
            match marker {
                // Huffman coding, one scan after the other: a progressive file has several.
                0xc0 | 0xc1 => frame = Some(content),
                0xc2..=0xcf if marker != 0xc4 && marker != 0xcc => return None,
                // Adobe's marker says that three components are no YCbCr when its last byte is 0.
                0xee if length >= 14
                    && bytes.get(content..content + 5)? == b"Adobe"
                    && *bytes.get(content + 11)? != 1 =>
                {
                    return None;
                }
                0xda => {
                    let all_in_one = *bytes.get(content)? == 3;
                    return StoredColours::with(bytes, frame.filter(|_| all_in_one)?);
                }
                _ => {}
            }
            at = content + length.checked_sub(2)?;
        }
    }

    /// The file whose frame header's content stands at `at`.
    fn with(bytes: &[u8], at: usize) -> Option<StoredColours> {
        let header = bytes.get(at..at + 15)?;
        let number = |at: usize| usize::from(header[at]) << 8 | usize::from(header[at + 1]);
        let (height, width) = (number(1), number(3));
        let sampling = [header[7], header[10], header[13]];
        if header[0] != 8 || header[5] != 3 || sampling != [0x22, 0x11, 0x11] {
            return None;
        }
        let (wide, high) = (width.div_ceil(16) * 32, height.div_ceil(16) * 8);
        let (wide, high) = (u16::try_from(wide).ok()?, u16::try_from(high).ok()?);
        if width == 0 || height == 0 {
            return None;
        }
        let mut laid_out = bytes.to_vec();
        laid_out[at + 1..at + 3].copy_from_slice(&high.to_be_bytes());
        laid_out[at + 3..at + 5].copy_from_slice(&wide.to_be_bytes());
        laid_out[at + 7] = 0x41;
        Some(StoredColours {
            laid_out,
            width,
            height,
        })
    }

    /// The pixels in RGB, from the decoded [`StoredColours::laid_out`] in YCbCr.
    pub(crate) fn pixels(&self, decoded: &[u8]) -> Option<Vec<u8>> {
        let (width, height) = (self.width, self.height);
        let across = width.div_ceil(16);
        let wide = across * 32;
        if decoded.len() != wide * height.div_ceil(16) * 8 * 3 {
            return None;
        }
        let stored = |row: usize, column: usize, channel: usize| {
            decoded[(row * wide + column) * 3 + channel]
        };
        // Of four blocks side by side, the last two stand below the first two.
        let brightness = |y: usize, x: usize| {
            let block = y % 16 / 8 * 2 + x % 16 / 8;
            stored(y / 16 * 8 + y % 8, x / 16 * 32 + block * 8 + x % 8, 0)
        };
        let (columns, rows) = (width.div_ceil(2), height.div_ceil(2));
        let plane = |channel: usize| -> Vec<u8> {
            (0..rows)
                .flat_map(|row| (0..columns).map(move |column| (row, column)))
                .map(|(row, column)| stored(row, column * 4, channel))
                .collect()
        };
        let [blue, red] = [1, 2].map(|channel| doubled(&plane(channel), columns, rows, height));
        let mut pixels = Vec::with_capacity(width * height * 3);
        for y in 0..height {
            for x in 0..width {
                let at = y * 2 * columns + x;
                pixels.extend(rgb(brightness(y, x), blue[at], red[at]));
            }
        }
        Some(pixels)
    }
}

/// A plane at twice its resolution, in so many rows: three parts of the nearest sample and one of the next, along both
/// axes, rounded once, down and up in turns.
fn doubled(plane: &[u8], columns: usize, rows: usize, height: usize) -> Vec<u8> {
    let mut doubled = Vec::with_capacity(2 * columns * height);
    let mut sums = vec![0; columns];
    for y in 0..height {
        let near = y / 2;
        // Beyond the edge, the edge itself goes on.
        let next = match y % 2 {
            0 => near.saturating_sub(1),
            _ => (near + 1).min(rows - 1),
        };
        let row = |row: usize| &plane[row * columns..(row + 1) * columns];
        for ((sum, &a), &b) in sums.iter_mut().zip(row(near)).zip(row(next)) {
            *sum = 3 * u16::from(a) + u16::from(b);
        }
        for x in 0..columns {
            let left = if x == 0 { sums[x] } else { sums[x - 1] };
            let right = if x + 1 == columns {
                sums[x]
            } else {
                sums[x + 1]
            };
            doubled.push(((3 * sums[x] + left + 8) >> 4) as u8);
            doubled.push(((3 * sums[x] + right + 7) >> 4) as u8);
        }
    }
    doubled
}

/// YCbCr as RGB, by JFIF's formulas in 16 binary places.
fn rgb(y: u8, blue: u8, red: u8) -> [u8; 3] {
    let (y, b, r) = (i32::from(y), i32::from(blue) - 128, i32::from(red) - 128);
    let half = 1 << 15;
    [
        y + ((91_881 * r + half) >> 16),
        y + ((-22_554 * b - 46_802 * r + half) >> 16),
        y + ((116_130 * b + half) >> 16),
    ]
    .map(|x| x.clamp(0, 255) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples 0, 16 and 32 side by side, and the same a row below: (3a + b) / 4 along one axis.
    #[test]
    fn samples_are_interpolated_and_rounded_once() {
        let plane = [0, 16, 32, 0, 16, 32];
        let row = [0, 4, 12, 20, 28, 32];
        assert_eq!(doubled(&plane, 3, 2, 4), row.repeat(4));
        // Sums of 4, 3 and 1 in the first column: (3 * 3 + 0 + 7) / 16 is still 1, (3 * 1 + 1 + 8) / 16 is not.
        let expected = [[1, 1, 0, 0], [1, 1, 0, 0], [0; 4]].concat();
        assert_eq!(doubled(&[1, 0, 0, 0], 2, 2, 3), expected);
    }

    /// The colours of ITU-R BT.601 as JFIF has them: red is (76, 85, 255), blue (29, 255, 107).
    #[test]
    fn colours_are_those_of_jfif() {
        assert_eq!(rgb(76, 85, 255), [254, 0, 0]);
        assert_eq!(rgb(29, 255, 107), [0, 0, 254]);
        assert_eq!(rgb(200, 128, 128), [200; 3]);
    }

    #[test]
    fn other_files_are_left_to_the_decoder() {
        for bytes in [
            &b""[..],
            b"\xff\xd8",
            b"\xff\xd8\xff\xda\x00\x02",
            &[0xff; 64],
        ] {
            assert!(StoredColours::find(bytes).is_none());
        }
    }
}
