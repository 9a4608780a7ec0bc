//! The IDX format of MNIST and its relatives: a big-endian header of four bytes and the axes, then the numbers.
//!
//! A gzip-compressed file is decoded once, to exactly the size its header claims.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;

use crate::arrays::Arrays;
use crate::element::Element;
use crate::error::{DataError, ReadError};
use crate::formats::{Format, Location};
use crate::labels::{self, Labels};
use crate::rows::{NumberFormat, Rows};
use crate::samples::Samples;
use crate::source::{Source, decode_error};

/// First bytes of a gzip file.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// A file with one array of images, and perhaps one with their labels next to it.
pub(crate) struct Idx;

impl Format for Idx {
    fn name(&self) -> &str {
        "IDX"
    }

    fn recognises(&self, location: &Location<'_>) -> bool {
        let start = location.start();
        start.first_chunk().is_some_and(starts_like) || start.starts_with(GZIP)
    }

    fn open(&self, location: &Location<'_>) -> Result<Arc<dyn Samples>, DataError> {
        location.refuse_part()?;
        let rows = open(location.source()?).map_err(|error| error.in_file(location.file()))?;
        let samples = Arrays::of_rows("x", rows)?.named(location.spec());
        let found = label_candidates(location.path())
            .into_iter()
            .find(|candidate| candidate.is_file());
        let samples = match found {
            None => samples,
            Some(path) => {
                let count = samples.len();
                samples.with_any_labels(read_labels(&path, count)?)?
            }
        };
        Ok(Arc::new(samples))
    }
}

fn read_labels(path: &Path, count: usize) -> Result<Labels, DataError> {
    let file = path.display().to_string();
    let rows = Source::open(path)
        .map_err(ReadError::from)
        .and_then(|source| open(&source))
        .map_err(|error| error.in_file(&file))?;
    labels::read(&rows, count, &file)
}

/// The array in an IDX file, plain or gzip-compressed.
pub fn open(source: &Source) -> Result<Rows, ReadError> {
    let mut start = [0; 2];
    if source.read_at(0, &mut start).is_ok() && start == GZIP {
        let mut reader = MultiGzDecoder::new(BufReader::with_capacity(1 << 16, source.reader()));
        let (format, _) = header(&mut reader)?;
        let len = format.byte_len()?;
        source.check_deflate_claim(len)?;
        return Rows::new(format, Source::spool(reader, len)?);
    }
    let (format, offset) = header(&mut source.reader())?;
    let data = source
        .len()
        .checked_sub(offset)
        .and_then(|len| source.part(offset, len))
        .ok_or_else(truncated)?;
    Rows::new(format, data)
}

/// Whether a file that starts like this can be IDX.
fn starts_like(bytes: &[u8; 4]) -> bool {
    bytes[0] == 0 && bytes[1] == 0 && element(bytes[2]).is_some() && bytes[3] > 0
}

/// Takes exactly the header, and returns its length with what it says.
fn header(reader: &mut impl Read) -> Result<(NumberFormat, u64), ReadError> {
    let mut exactly = |out: &mut [u8; 4]| {
        reader.read_exact(out).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => truncated(),
            _ => decode_error(error),
        })
    };
    let mut magic = [0; 4];
    exactly(&mut magic)?;
    let [0, 0, code, axes] = magic else {
        return Err(ReadError::malformed(
            "does not start with the IDX magic bytes",
        ));
    };
    let element = element(code).ok_or_else(|| {
        ReadError::malformed(format!(
            "its IDX header names the unknown element type {code:#04x}"
        ))
    })?;
    let mut shape = Vec::new();
    for _ in 0..axes {
        let mut axis = [0; 4];
        exactly(&mut axis)?;
        let axis = u32::from_be_bytes(axis);
        shape.push(usize::try_from(axis).unwrap_or(usize::MAX));
    }
    let format = NumberFormat {
        element,
        big_endian: true,
        fortran_order: false,
        shape,
    };
    Ok((format, 4 + 4 * u64::from(axes)))
}

fn element(code: u8) -> Option<Element> {
    Some(match code {
        0x08 => Element::U8,
        0x09 => Element::I8,
        0x0b => Element::I16,
        0x0c => Element::I32,
        0x0d => Element::F32,
        0x0e => Element::F64,
        _ => return None,
    })
}

fn truncated() -> ReadError {
    ReadError::malformed("ends inside its IDX header")
}

/// Where the labels of an image file are looked for: `train-images-idx3-ubyte` and `train-images.idx3-ubyte` have theirs
/// in `train-labels-idx1-ubyte` and `train-labels.idx1-ubyte`; either may be compressed.
pub(crate) fn label_candidates(images: &Path) -> Vec<PathBuf> {
    let Some(name) = images.file_name().and_then(|name| name.to_str()) else {
        return Vec::new();
    };
    let plain = name.strip_suffix(".gz").unwrap_or(name);
    let Some((before, after)) = plain.rsplit_once("images") else {
        return Vec::new();
    };
    let labels = format!("{before}labels{}", after.replacen("idx3", "idx1", 1));
    let packed = format!("{labels}.gz");
    let order = if plain == name {
        [labels, packed]
    } else {
        [packed, labels]
    };
    order.map(|name| images.with_file_name(name)).to_vec()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    fn images() -> Vec<u8> {
        let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3];
        bytes.extend(0..12);
        bytes
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn error(bytes: Vec<u8>) -> String {
        open(&Source::from_bytes(bytes)).unwrap_err().to_string()
    }

    #[test]
    fn plain_and_compressed_files_hold_the_same_rows() {
        for bytes in [images(), gzip(&images())] {
            let rows = open(&Source::from_bytes(bytes)).unwrap();
            assert_eq!((rows.len(), rows.sample_shape()), (2, &[2, 3][..]));
            let mut out = [0.0; 6];
            rows.read_f32(1..2, &mut Vec::new(), &mut out).unwrap();
            assert_eq!(out, [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
        }
    }

    #[test]
    fn numbers_are_big_endian() {
        let mut bytes = vec![0, 0, 0x0b, 1, 0, 0, 0, 2];
        bytes.extend([0x01, 0x00, 0xff, 0xff]);
        let rows = open(&Source::from_bytes(bytes)).unwrap();
        let mut out = [0.0; 2];
        rows.read_f32(0..2, &mut Vec::new(), &mut out).unwrap();
        assert_eq!(out, [256.0, -1.0]);
    }

    #[test]
    fn claims_must_match_the_data() {
        let mut short = images();
        short.pop();
        assert!(error(short.clone()).contains("11 bytes follow"));
        assert!(error(gzip(&short)).contains("ends after 11 of 12"));
        let mut long = images();
        long.push(0);
        assert!(error(long.clone()).contains("13 bytes follow"));
        assert!(error(gzip(&long)).contains("more than the 12 bytes"));
        let absurd = [vec![0, 0, 8, 4], vec![0xff; 16]].concat();
        assert!(error(absurd.clone()).contains("absurd"));
        let bomb = [
            vec![0, 0, 8, 2],
            vec![0, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff],
        ]
        .concat();
        assert!(error(gzip(&bomb)).contains("cannot hold"));
        assert!(error(vec![0, 0, 8, 3, 0]).contains("ends inside"));
        assert!(error(vec![0, 0, 7, 1, 0, 0, 0, 0]).contains("element type 0x07"));
        assert!(error(b"hello".to_vec()).contains("magic"));
    }

    #[test]
    fn damaged_gzip_is_an_error() {
        let mut bytes = gzip(&images());
        let end = bytes.len() - 6;
        bytes[end] ^= 0xff;
        assert!(error(bytes).contains("damaged"));
        assert!(error(GZIP.to_vec()).contains("ends inside"));
    }

    #[test]
    fn labels_are_looked_for_under_their_usual_names() {
        let names = |image: &str| {
            let found = label_candidates(&Path::new("data").join(image));
            found
                .into_iter()
                .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names("train-images-idx3-ubyte.gz"),
            ["train-labels-idx1-ubyte.gz", "train-labels-idx1-ubyte"]
        );
        assert_eq!(
            names("t10k-images.idx3-ubyte"),
            ["t10k-labels.idx1-ubyte", "t10k-labels.idx1-ubyte.gz"]
        );
        assert!(names("other.idx").is_empty());
    }

    proptest! {
        #[test]
        fn damaged_files_never_panic(
            packed: bool,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        ) {
            let mut bytes = if packed { gzip(&images()) } else { images() };
            for (place, value) in changes {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            if let Ok(rows) = open(&Source::from_bytes(bytes)) {
                let mut out = vec![0.0; rows.len() * rows.sample_len()];
                rows.read_f32(0..rows.len(), &mut Vec::new(), &mut out).unwrap();
            }
        }
    }
}
