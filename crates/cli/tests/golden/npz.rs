//! Arrays of npz files as lines `file/array = type shape digest`.
//!
//! A reader of its own: the numbers in files are pinned, whatever becomes of the library's reader and writer.

use std::io::Read;
use std::path::Path;

use flate2::read::DeflateDecoder;

use crate::flatten::digest;
use crate::script::Line;

/// The arrays of a file, in its order.
pub(crate) fn arrays(folder: &Path, name: &str) -> Vec<Line> {
    let file = std::fs::read(folder.join(name)).unwrap();
    let arrays = members(&file).into_iter();
    arrays
        .map(|(member, npy)| {
            let array = member.strip_suffix(".npy").unwrap();
            let (header, data) = split(&npy);
            let kind = between(header, "'descr': '", "'");
            let shape = between(header, "'shape': ", ")");
            Line::new(
                format!("{name}/{array}"),
                format!("{kind} {shape}) {}", digest(data)),
            )
        })
        .collect()
}

/// The members of a zip file: their names, and what is in them.
fn members(zip: &[u8]) -> Vec<(String, Vec<u8>)> {
    let short = |at: usize| usize::from(u16::from_le_bytes([zip[at], zip[at + 1]]));
    let long = |at: usize| short(at) + (short(at + 2) << 16);
    // The record at the end, which has no comment, tells how many members there are and where they are listed.
    let end = zip.len() - 22;
    assert_eq!(zip[end..end + 4], *b"PK\x05\x06");
    let mut entry = long(end + 16);
    let mut members = Vec::new();
    for _ in 0..short(end + 10) {
        assert_eq!(zip[entry..entry + 4], *b"PK\x01\x02");
        let (method, packed, start) = (short(entry + 10), long(entry + 20), long(entry + 42));
        let names = [28, 30, 32].map(|at| short(entry + at));
        let name = String::from_utf8(zip[entry + 46..entry + 46 + names[0]].to_vec()).unwrap();
        let data = start + 30 + short(start + 26) + short(start + 28);
        let packed = &zip[data..data + packed];
        let mut content = Vec::new();
        match method {
            0 => content.extend(packed),
            8 => {
                _ = DeflateDecoder::new(packed)
                    .read_to_end(&mut content)
                    .unwrap()
            }
            _ => panic!("member `{name}` is packed by method {method}"),
        }
        members.push((name, content));
        entry += 46 + names.iter().sum::<usize>();
    }
    members
}

/// The header of an npy file, and its numbers.
fn split(npy: &[u8]) -> (&str, &[u8]) {
    assert_eq!(npy[..7], *b"\x93NUMPY\x01", "version 1");
    let data = 10 + usize::from(u16::from_le_bytes([npy[8], npy[9]]));
    (std::str::from_utf8(&npy[10..data]).unwrap(), &npy[data..])
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap();
    rest.split_once(after).unwrap().0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `fashion-1000.npz` is deflated. Expected digests are of Python's `zipfile` and `hashlib`.
    #[test]
    fn arrays_of_a_file() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
        let lines = arrays(&fixtures, "fashion-1000.npz");
        assert_eq!(
            lines,
            [
                Line::new(
                    "fashion-1000.npz/x",
                    "|u1 (1000, 28, 28) sha256 8d46efb2efae7259"
                ),
                Line::new("fashion-1000.npz/y", "|u1 (1000,) sha256 86fea14d645de73e"),
            ]
        );
    }
}
