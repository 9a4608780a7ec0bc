//! Arrays of texts in npz files: names of classes and of samples.
//!
//! numpy stores texts of one length, filled up with zeros: `<U12` is twelve characters of four bytes, `|S12` twelve bytes.

use std::io::Read;

use crate::error::ReadError;
use crate::npy::{self, TextFormat};
use crate::source::decode_error;

/// The most bytes that an array of texts may have: names of a million samples.
pub(crate) const MOST_BYTES: u64 = 256 << 20;

/// The most texts: each takes some bytes of its own in memory, however short it is.
const MOST_TEXTS: usize = 1 << 22;

/// The texts of an npy array with one axis.
pub(crate) fn read(reader: &mut impl Read) -> Result<Vec<String>, ReadError> {
    let TextFormat {
        kind,
        big_endian,
        width,
        shape,
    } = TextFormat::read(reader)?;
    let [count] = shape[..] else {
        return Err(ReadError::unsupported(format!(
            "holds texts of shape {shape:?}, not one after the other"
        )));
    };
    let size = if kind == 'U' { 4 } else { 1 };
    let row = width.checked_mul(size);
    let bytes = row.and_then(|row| row.checked_mul(count));
    let fits = |bytes: &usize| *bytes as u64 <= MOST_BYTES && count <= MOST_TEXTS;
    let (Some(row), Some(bytes)) = (row, bytes.filter(fits)) else {
        return Err(ReadError::unsupported(format!(
            "holds {count} texts of {width} characters"
        )));
    };
    // Nothing is allocated on the word of the header: what there is, is read.
    let mut found = Vec::new();
    let taken = reader.take(bytes as u64).read_to_end(&mut found);
    if taken.map_err(decode_error)? != bytes {
        return Err(ReadError::malformed("ends inside its texts"));
    }
    if row == 0 {
        return Ok(vec![String::new(); count]);
    }
    let text = |bytes: &[u8]| match kind {
        'U' => characters(bytes, big_endian),
        _ => String::from_utf8(bytes.to_vec()).ok(),
    };
    let texts = found.chunks_exact(row).map(|bytes| {
        let text = text(bytes)?;
        Some(text.trim_end_matches('\0').to_owned())
    });
    let texts: Option<Vec<String>> = texts.collect();
    texts.ok_or_else(|| ReadError::malformed("holds texts that are none"))
}

/// Characters of four bytes.
fn characters(bytes: &[u8], big_endian: bool) -> Option<String> {
    let (characters, _) = bytes.as_chunks::<4>();
    let character = |&bytes: &[u8; 4]| {
        char::from_u32(match big_endian {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        })
    };
    characters.iter().map(character).collect()
}

/// An npy array of texts, as numpy writes it.
pub(crate) fn to_npy(texts: &[String]) -> Vec<u8> {
    let width = texts.iter().map(|text| text.chars().count()).max();
    // numpy has no texts without a character.
    let width = width.unwrap_or(0).max(1);
    let mut bytes = npy::header_bytes(&format!("<U{width}"), false, &[texts.len()]);
    for text in texts {
        let rest = std::iter::repeat_n('\0', width - text.chars().count());
        for character in text.chars().chain(rest) {
            bytes.extend(u32::from(character).to_le_bytes());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Result<Vec<String>, ReadError> {
        read(&mut &bytes[..])
    }

    fn header(descr: &str, shape: &[usize]) -> Vec<u8> {
        npy::header_bytes(descr, false, shape)
    }

    #[test]
    fn texts_come_back() {
        for texts in [
            vec!["T-shirt/top".to_owned(), "Käfer".to_owned(), String::new()],
            vec![String::new()],
            vec![],
        ] {
            assert_eq!(parse(&to_npy(&texts)).unwrap(), texts);
        }
    }

    /// `numpy.array(["ab", "c"])` with the types `<U2`, `>U2` and `S2`, as numpy 2.1 writes their bytes.
    #[test]
    fn numpy_is_read() {
        let le = b"a\0\0\0b\0\0\0c\0\0\0\0\0\0\0";
        let be = b"\0\0\0a\0\0\0b\0\0\0c\0\0\0\0";
        for (descr, data) in [("<U2", &le[..]), (">U2", be), ("|S2", b"abc\0")] {
            let bytes = [header(descr, &[2]), data.to_vec()].concat();
            assert_eq!(parse(&bytes).unwrap(), ["ab", "c"], "{descr}");
        }
    }

    #[test]
    fn what_is_no_list_of_texts_is_refused() {
        for (descr, shape, data, reason) in [
            ("<f4", &[1][..], &[0; 4][..], "not texts"),
            ("|O", &[1], &[0; 8], "not texts"),
            ("<U1", &[], b"a\0\0\0", "one after the other"),
            ("<U1", &[2], b"a\0\0\0", "ends inside"),
            ("<U1", &[1], b"\0\0\0\xff", "are none"),
            ("|S1", &[1], b"\xff", "are none"),
            ("<U99999999", &[99999999], b"", "holds 99999999 texts"),
            ("<U0", &[usize::MAX], b"", "texts"),
        ] {
            let error = parse(&[&header(descr, shape), data].concat()).unwrap_err();
            assert!(error.to_string().contains(reason), "{descr}: {error}");
        }
    }
}
