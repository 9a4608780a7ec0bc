//! The npz format: a zip file of npy arrays, as `numpy.savez` and `numpy.savez_compressed` write it.
//!
//! Only the little of zip that npz files use is read: stored and deflated members, zip64 sizes. Stored members are read
//! where they lie; deflated ones are decoded once, to exactly the size their npy header and the zip directory agree on.
//!
//! [`NpzWriter`] writes them.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use npcov_data::Source;
//! use npcov_data::npz::{Archive, Compression, NpzWriter};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("out.npz");
//! let mut writer = NpzWriter::create(&path, Compression::Stored)?;
//! let logits = writer.array::<f32>("logits", &[2])?;
//! let prediction = writer.array::<i64>("prediction", &[])?;
//! writer.append(&logits, &[0.25, 0.75])?;
//! writer.append(&prediction, &[1])?;
//! writer.finish()?;
//!
//! let archive = Archive::open(Source::open(&path)?)?;
//! assert_eq!(archive.names().collect::<Vec<_>>(), ["logits", "prediction"]);
//! assert_eq!(archive.array("logits")?.map(|rows| rows.len()), Some(1));
//! # Ok(())
//! # }
//! ```

use std::io::{self, Read};
use std::sync::Arc;

use flate2::{Crc, bufread::DeflateDecoder};

use crate::arrays::Arrays;
use crate::error::{DataError, ReadError};
use crate::formats::{Format, Location, Reading};
use crate::rows::Rows;
use crate::samples::Samples;
use crate::source::Source;
use crate::{labels, npy, texts};

pub use crate::npz_writer::{ArrayHandle, Compression, NpzWriter};
pub use crate::scalar::Scalar;

/// First bytes of a zip file with members; an empty archive starts with [`END_OF_DIRECTORY`].
pub(crate) const LOCAL_HEADER: [u8; 4] = *b"PK\x03\x04";
pub(crate) const DIRECTORY_ENTRY: [u8; 4] = *b"PK\x01\x02";
pub(crate) const END_OF_DIRECTORY: [u8; 4] = *b"PK\x05\x06";
pub(crate) const END_OF_DIRECTORY_64: [u8; 4] = *b"PK\x06\x06";
pub(crate) const LOCATOR_64: [u8; 4] = *b"PK\x06\x07";
/// Identifies the extra field with 64-bit sizes.
pub(crate) const ZIP64_FIELD: u16 = 1;
/// Compression methods.
pub(crate) const STORED: u16 = 0;
pub(crate) const DEFLATED: u16 = 8;

/// The longest directory that is read. An entry takes about 60 bytes, so this is far beyond any dataset.
const LONGEST_DIRECTORY: u64 = 16 << 20;

/// A file with several arrays: one with the samples, perhaps one with their labels, and names of classes
/// and of samples.
pub(crate) struct Npz;

/// The array with the names of classes, the first one that of label 0.
pub(crate) const CLASS_NAMES: &str = "class_names";

/// The array with a name for each sample, where it has one for each.
pub(crate) const SAMPLE_NAMES: &str = "name";

impl Format for Npz {
    fn name(&self) -> &str {
        "npz"
    }

    fn recognises(&self, location: &Location<'_>) -> bool {
        let start = location.start();
        start.starts_with(&LOCAL_HEADER) || start.starts_with(&END_OF_DIRECTORY)
    }

    fn open(&self, location: &Location<'_>) -> Result<Arc<dyn Samples>, DataError> {
        let file = location.file();
        let archive = Archive::open(location.source()?.clone());
        let archive = archive.map_err(|error| error.in_file(&file))?;
        let array = |name: &str| {
            let rows = archive.array(name);
            rows.map_err(|error| error.in_file(format!("{file}:{name}")))
        };
        let required = |name: &str| {
            array(name)?.ok_or_else(|| DataError::NoArray {
                file: file.clone(),
                array: name.to_owned(),
                found: listing(&archive),
            })
        };
        let labelled = |samples: Arrays<'static>, name: &str, rows: &Rows| {
            let count = samples.len();
            samples.with_any_labels(labels::read(rows, count, &format!("{file}:{name}"))?)
        };
        let chosen = match location.part() {
            None => Chosen::by_default(location.reading(), |name| archive.has(name)),
            Some(part) => Chosen::parse(part).ok_or_else(|| DataError::Spec {
                spec: format!("{file}:{part}"),
                reason: "name the samples, or samples and labels, as in `file.npz:x_test,y_test`, or arrays for \
                         each input, as in `file.npz:ids=a,mask=b,y=c`"
                    .to_owned(),
            })?,
        };
        let mut inputs = chosen.inputs.iter();
        let (name, first) = inputs.next().ok_or_else(|| DataError::NoArray {
            file: file.clone(),
            array: "x".to_owned(),
            found: listing(&archive),
        })?;
        let mut samples = Arrays::of_rows(name, required(first)?)?.named(location.spec());
        for (name, array) in inputs {
            samples = samples.with_rows(name, required(array)?)?;
        }
        let samples = match &chosen.labels {
            None => samples,
            Some((name, Necessity::Required)) => labelled(samples, name, &required(name)?)?,
            Some((name, Necessity::IfThere)) => match array(name)? {
                Some(rows) => labelled(samples, name, &rows)?,
                None => samples,
            },
        };
        let samples = match archive.texts(CLASS_NAMES) {
            Ok(_) if location.reading().kinds => samples,
            Ok(None) => samples,
            Ok(Some(names)) => samples.with_class_names(names)?,
            Err(error) => return Err(error.in_file(format!("{file}:{CLASS_NAMES}"))),
        };
        // Of `x`; what other arrays hold may be called otherwise.
        let sample_names = match location.part() {
            None => archive.texts(SAMPLE_NAMES).ok().flatten(),
            Some(_) => None,
        };
        Ok(Arc::new(match sample_names {
            Some(names) if names.len() == samples.len() => samples.with_sample_names(names)?,
            _ => samples,
        }))
    }
}

/// The arrays that are read.
#[derive(Debug, PartialEq, Eq)]
struct Chosen {
    /// Names of inputs, and the array of each.
    inputs: Vec<(String, String)>,
    labels: Option<(String, Necessity)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Necessity {
    Required,
    IfThere,
}

impl Chosen {
    /// Where none are named: `x` and `y`; for a model with several inputs, or without an `x`, those of its inputs' names.
    fn by_default(reading: &Reading, has: impl Fn(&str) -> bool) -> Chosen {
        let named = |name: &String| (name.clone(), name.clone());
        let inputs = match &reading.inputs[..] {
            several @ [_, _, ..] => several.iter().map(named).collect(),
            [one] if !has("x") && has(one) => vec![named(one)],
            _ => vec![named(&"x".to_owned())],
        };
        Chosen {
            inputs,
            labels: Some(match &reading.labels {
                Some(name) => (name.clone(), Necessity::Required),
                None => ("y".to_owned(), Necessity::IfThere),
            }),
        }
    }

    /// `SAMPLES`, `SAMPLES,LABELS`, or `INPUT=ARRAY` for each input, with `y=LABELS`.
    fn parse(part: &str) -> Option<Chosen> {
        let names: Vec<&str> = part.split(',').collect();
        if names.iter().any(|name| name.is_empty()) {
            return None;
        }
        let required = |name: &str| Some((name.to_owned(), Necessity::Required));
        if !part.contains('=') {
            let (x, labels) = match names[..] {
                [x] => (x, None),
                [x, y] => (x, required(y)),
                _ => return None,
            };
            let inputs = vec![(x.to_owned(), x.to_owned())];
            return Some(Chosen { inputs, labels });
        }
        let mut chosen = Chosen {
            inputs: Vec::new(),
            labels: None,
        };
        for name in names {
            let (input, array) = name.split_once('=')?;
            if input.is_empty() || array.is_empty() {
                return None;
            }
            match input {
                "y" => chosen.labels = required(array),
                input => chosen.inputs.push((input.to_owned(), array.to_owned())),
            }
        }
        Some(chosen)
    }
}

/// The first names of an archive, for an error message.
fn listing(archive: &Archive) -> String {
    const SHOWN: usize = 12;
    let mut names: Vec<String> = archive
        .names()
        .take(SHOWN)
        .map(|name| format!("`{}`", name.escape_debug()))
        .collect();
    let more = archive.names().count() - names.len();
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    if names.is_empty() {
        "no arrays".to_owned()
    } else {
        names.join(", ")
    }
}

/// An npz file whose directory was read and checked.
#[derive(Debug)]
pub struct Archive {
    source: Source,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    /// Without the `.npy`.
    name: String,
    method: u16,
    encrypted: bool,
    crc: u32,
    packed: u64,
    unpacked: u64,
    header_offset: u64,
}

impl Archive {
    /// Reads the directory of an npz file.
    pub fn open(source: Source) -> Result<Archive, ReadError> {
        let directory = Directory::locate(&source)?;
        let mut bytes = vec![0; directory.len];
        source.read_at(directory.offset, &mut bytes)?;
        let mut fields = Fields::new(&bytes);
        let mut members = Vec::new();
        for _ in 0..directory.entries {
            members.push(Member::parse(&mut fields)?);
        }
        Ok(Archive { source, members })
    }

    /// The names of the arrays, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }

    /// Whether it has an array `name`.
    pub fn has(&self, name: &str) -> bool {
        self.names().any(|own| own == name)
    }

    /// The array `name`, or nothing where the file has none of that name.
    pub fn array(&self, name: &str) -> Result<Option<Rows>, ReadError> {
        // A file with two members of one name is read as Python's zipfile does: the last one counts.
        let member = self.members.iter().rfind(|member| member.name == name);
        member.map(|member| self.rows(member)).transpose()
    }

    /// The texts of the array `name`, or nothing where the file has none of that name.
    pub fn texts(&self, name: &str) -> Result<Option<Vec<String>>, ReadError> {
        let Some(member) = self.members.iter().rfind(|member| member.name == name) else {
            return Ok(None);
        };
        if member.encrypted {
            return Err(ReadError::unsupported("is encrypted"));
        }
        let packed = self.packed(member)?;
        let reader = io::BufReader::new(packed.reader());
        let texts = match member.method {
            STORED => texts::read(&mut { reader }),
            DEFLATED => {
                packed.check_deflate_claim(member.unpacked)?;
                texts::read(&mut DeflateDecoder::new(reader))
            }
            other => Err(ReadError::unsupported(format!(
                "is compressed with zip method {other}"
            ))),
        };
        texts.map(Some)
    }

    fn rows(&self, member: &Member) -> Result<Rows, ReadError> {
        if member.encrypted {
            return Err(ReadError::unsupported("is encrypted"));
        }
        let packed = self.packed(member)?;
        match member.method {
            STORED if member.packed == member.unpacked => npy::open(&packed),
            STORED => Err(ReadError::malformed(
                "is stored, but with two different sizes",
            )),
            DEFLATED => decode(member, &packed),
            other => Err(ReadError::unsupported(format!(
                "is compressed with zip method {other}; numpy writes stored and deflated members"
            ))),
        }
    }

    /// The bytes of a member as they lie in the file.
    fn packed(&self, member: &Member) -> Result<Source, ReadError> {
        let mut header = [0; 30];
        self.source
            .read_at(member.header_offset, &mut header)
            .map_err(at_the_end)?;
        let mut fields = Fields::new(&header);
        if fields.take::<4>()? != LOCAL_HEADER {
            return Err(ReadError::malformed(
                "the zip directory points at no member",
            ));
        }
        fields.skip(22)?;
        let skip = 30 + u64::from(fields.u16()?) + u64::from(fields.u16()?);
        member
            .header_offset
            .checked_add(skip)
            .and_then(|offset| self.source.part(offset, member.packed))
            .ok_or_else(|| ReadError::malformed("a zip member reaches behind the end of the file"))
    }
}

/// Decodes one deflated npy member. Three sizes must agree before its data is decoded: what the zip directory says, what
/// the npy header needs and what DEFLATE could yield from that many bytes.
fn decode(member: &Member, packed: &Source) -> Result<Rows, ReadError> {
    packed.check_deflate_claim(member.unpacked)?;
    let buffered = io::BufReader::with_capacity(1 << 16, packed.reader());
    let mut reader = Checked {
        inner: DeflateDecoder::new(buffered),
        crc: Crc::new(),
        expected: member.crc,
    };
    let header = npy::Header::read(&mut reader)?;
    let len = header.format().byte_len()?;
    if len.checked_add(header.data_offset() as u64) != Some(member.unpacked) {
        return Err(ReadError::malformed(format!(
            "the npy header needs {len} bytes of data, the zip directory has {} bytes for both",
            member.unpacked
        )));
    }
    Rows::new(header.into_format(), Source::spool(reader, len)?)
}

/// Computes the checksum of what passes through, and compares it at the end.
struct Checked<R> {
    inner: R,
    crc: Crc,
    expected: u32,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(out)?;
        self.crc.update(&out[..count]);
        if count == 0 && !out.is_empty() && self.crc.sum() != self.expected {
            let damaged = ReadError::malformed("its checksum does not match its data");
            return Err(io::Error::other(damaged));
        }
        Ok(count)
    }
}

/// Where the directory of a zip file lies.
struct Directory {
    offset: u64,
    len: usize,
    entries: u64,
}

impl Directory {
    /// Searches the end record backwards through the space a file comment can take, as every zip reader does.
    fn locate(source: &Source) -> Result<Directory, ReadError> {
        const RECORD: usize = 22;
        let tail_len = source.len().min((RECORD + usize::from(u16::MAX)) as u64);
        let tail_start = source.len() - tail_len;
        let mut tail = vec![0; tail_len as usize];
        source.read_at(tail_start, &mut tail)?;
        let end = tail
            .windows(RECORD)
            .rposition(|record| record.starts_with(&END_OF_DIRECTORY))
            .ok_or_else(|| ReadError::malformed("has no zip directory: the file is truncated"))?;
        let mut fields = Fields::new(&tail[end..]);
        fields.skip(10)?;
        let entries = u64::from(fields.u16()?);
        let len = u64::from(fields.u32()?);
        let offset = u64::from(fields.u32()?);
        let end = tail_start + end as u64;
        let (entries, len, offset) = match Directory::zip64(source, end)? {
            Some(large) => large,
            None => (entries, len, offset),
        };
        if offset.checked_add(len).is_none_or(|behind| behind > end) {
            return Err(ReadError::malformed("its zip directory is out of place"));
        }
        match usize::try_from(len) {
            Ok(size) if len <= LONGEST_DIRECTORY => Ok(Directory {
                offset,
                len: size,
                entries,
            }),
            _ => Err(ReadError::unsupported(format!(
                "has a zip directory of {len} bytes"
            ))),
        }
    }

    /// The 64-bit record, found through the locator right in front of the end record.
    fn zip64(source: &Source, end: u64) -> Result<Option<(u64, u64, u64)>, ReadError> {
        let mut locator = [0; 20];
        let Some(start) = end.checked_sub(20) else {
            return Ok(None);
        };
        source.read_at(start, &mut locator)?;
        let mut fields = Fields::new(&locator);
        if fields.take::<4>()? != LOCATOR_64 {
            return Ok(None);
        }
        fields.skip(4)?;
        let mut record = [0; 56];
        source
            .read_at(fields.u64()?, &mut record)
            .map_err(at_the_end)?;
        let mut fields = Fields::new(&record);
        if fields.take::<4>()? != END_OF_DIRECTORY_64 {
            return Err(ReadError::malformed("its zip64 directory is out of place"));
        }
        fields.skip(28)?;
        Ok(Some((fields.u64()?, fields.u64()?, fields.u64()?)))
    }
}

impl Member {
    fn parse(fields: &mut Fields<'_>) -> Result<Member, ReadError> {
        if fields.take::<4>()? != DIRECTORY_ENTRY {
            return Err(ReadError::malformed("its zip directory is damaged"));
        }
        fields.skip(4)?;
        let flags = fields.u16()?;
        let method = fields.u16()?;
        fields.skip(4)?;
        let crc = fields.u32()?;
        let mut packed = u64::from(fields.u32()?);
        let mut unpacked = u64::from(fields.u32()?);
        let name_len = usize::from(fields.u16()?);
        let extra_len = usize::from(fields.u16()?);
        let comment_len = usize::from(fields.u16()?);
        fields.skip(8)?;
        let mut header_offset = u64::from(fields.u32()?);
        let name = String::from_utf8_lossy(fields.slice(name_len)?);
        let mut extra = Fields::new(fields.slice(extra_len)?);
        fields.skip(comment_len)?;
        while extra.bytes.len() >= 4 {
            let kind = extra.u16()?;
            let size = usize::from(extra.u16()?);
            let mut field = Fields::new(extra.slice(size)?);
            if kind == ZIP64_FIELD {
                // Present are exactly the fields that overflow in the entry itself, in this order.
                for value in [&mut unpacked, &mut packed, &mut header_offset] {
                    if *value == u64::from(u32::MAX) {
                        *value = field.u64()?;
                    }
                }
            }
        }
        Ok(Member {
            name: name.strip_suffix(".npy").unwrap_or(&name).to_owned(),
            method,
            encrypted: flags & 1 != 0,
            crc,
            packed,
            unpacked,
            header_offset,
        })
    }
}

fn at_the_end(error: io::Error) -> ReadError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            ReadError::malformed("the zip directory points behind the end of the file")
        }
        _ => error.into(),
    }
}

/// Little-endian fields, one after the other.
struct Fields<'a> {
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Fields { bytes }
    }

    fn slice(&mut self, len: usize) -> Result<&'a [u8], ReadError> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(len)
            .ok_or_else(|| ReadError::malformed("its zip directory is cut off"))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let mut out = [0; N];
        out.copy_from_slice(self.slice(N)?);
        Ok(out)
    }

    fn skip(&mut self, len: usize) -> Result<(), ReadError> {
        self.slice(len).map(|_| ())
    }

    fn u16(&mut self) -> Result<u16, ReadError> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, ReadError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, ReadError> {
        self.take().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::DeflateEncoder;
    use proptest::prelude::*;

    use super::*;
    use crate::Element;

    /// A zip file with one member, every claim of which can be bent.
    struct Zip {
        method: u16,
        data: Vec<u8>,
        unpacked: u32,
        crc: u32,
        flags: u16,
        name: &'static str,
    }

    impl Zip {
        fn stored(member: &[u8]) -> Zip {
            let mut crc = Crc::new();
            crc.update(member);
            Zip {
                method: STORED,
                data: member.to_vec(),
                unpacked: member.len() as u32,
                crc: crc.sum(),
                flags: 0,
                name: "x.npy",
            }
        }

        fn deflated(member: &[u8]) -> Zip {
            let mut encoder = DeflateEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(member).unwrap();
            Zip {
                method: DEFLATED,
                data: encoder.finish().unwrap(),
                ..Zip::stored(member)
            }
        }

        fn bytes(&self) -> Vec<u8> {
            let sizes = |out: &mut Vec<u8>| {
                out.extend(self.flags.to_le_bytes());
                out.extend(self.method.to_le_bytes());
                out.extend([0; 4]);
                out.extend(self.crc.to_le_bytes());
                out.extend((self.data.len() as u32).to_le_bytes());
                out.extend(self.unpacked.to_le_bytes());
                out.extend((self.name.len() as u16).to_le_bytes());
            };
            let mut out = LOCAL_HEADER.to_vec();
            out.extend([20, 0]);
            sizes(&mut out);
            out.extend([0; 2]);
            out.extend(self.name.bytes());
            out.extend(&self.data);
            let directory = out.len() as u32;
            out.extend(DIRECTORY_ENTRY);
            out.extend([20, 0, 20, 0]);
            sizes(&mut out);
            out.extend([0; 16]);
            out.extend(self.name.bytes());
            let len = out.len() as u32 - directory;
            out.extend(END_OF_DIRECTORY);
            out.extend([0, 0, 0, 0, 1, 0, 1, 0]);
            out.extend(len.to_le_bytes());
            out.extend(directory.to_le_bytes());
            out.extend([0, 0]);
            out
        }

        fn open(&self) -> Result<Rows, ReadError> {
            let archive = Archive::open(Source::from_bytes(self.bytes()))?;
            assert_eq!(archive.names().collect::<Vec<_>>(), ["x"]);
            Ok(archive.array("x")?.unwrap())
        }

        fn error(&self) -> String {
            self.open().unwrap_err().to_string()
        }
    }

    fn npy(rows: usize) -> Vec<u8> {
        let mut bytes = npy::Header::for_array(Element::U8, &[rows, 2]).to_bytes();
        bytes.extend((0..rows * 2).map(|v| v as u8));
        bytes
    }

    #[test]
    fn stored_and_deflated_members_hold_the_same_rows() {
        for zip in [Zip::stored(&npy(50)), Zip::deflated(&npy(50))] {
            let rows = zip.open().unwrap();
            let mut out = [0.0; 4];
            rows.read_f32(48..50, &mut Vec::new(), &mut out).unwrap();
            assert_eq!(out, [96.0, 97.0, 98.0, 99.0]);
        }
    }

    #[test]
    fn absent_arrays_are_none() {
        let archive = Archive::open(Source::from_bytes(Zip::stored(&npy(1)).bytes())).unwrap();
        assert!(archive.array("y").unwrap().is_none());
    }

    #[test]
    fn bombs_are_refused_before_they_are_decoded() {
        // A header that claims 2^40 rows, and a directory that agrees as far as 32 bits go.
        let claim = npy::Header::for_array(Element::U8, &[1 << 31]).to_bytes();
        let mut bomb = Zip::deflated(&claim);
        bomb.unpacked = (1 << 31) + claim.len() as u32;
        assert!(bomb.error().contains("cannot hold"), "{}", bomb.error());
        // More data than claimed: decoding stops one byte after the claim.
        let mut more = npy(2);
        more.extend(vec![0; 100_000]);
        let mut more = Zip::deflated(&more);
        more.unpacked = npy(2).len() as u32;
        assert!(more.error().contains("more than"), "{}", more.error());
    }

    #[test]
    fn sizes_checksums_and_flags_that_do_not_fit_are_errors() {
        let good = || Zip::deflated(&npy(50));
        let bend = |change: fn(&mut Zip)| {
            let mut zip = good();
            change(&mut zip);
            zip.error()
        };
        assert!(bend(|zip| zip.crc ^= 1).contains("checksum"));
        assert!(bend(|zip| zip.unpacked += 1).contains("zip directory"));
        assert!(bend(|zip| zip.flags = 1).contains("encrypted"));
        assert!(bend(|zip| zip.method = 12).contains("method 12"));
        assert!(bend(|zip| zip.method = STORED).contains("two different sizes"));
        assert!(bend(|zip| zip.data.truncate(20)).contains("ends"));
        assert!(bend(|zip| zip.data.fill(0xff)).contains("damaged"));
        let mut short = Zip::stored(&npy(50));
        short.data.pop();
        short.unpacked -= 1;
        assert!(
            short.error().contains("99 bytes follow"),
            "{}",
            short.error()
        );
    }

    #[test]
    fn truncated_archives_have_no_directory() {
        let bytes = Zip::stored(&npy(50)).bytes();
        for cut in [0, 10, bytes.len() / 2, bytes.len() - 1] {
            let error = Archive::open(Source::from_bytes(bytes[..cut].to_vec())).unwrap_err();
            assert!(error.to_string().contains("truncated"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn damaged_archives_never_panic(
            deflated: bool,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            cut in any::<prop::sample::Index>(),
            truncate: bool,
        ) {
            let zip = if deflated { Zip::deflated(&npy(20)) } else { Zip::stored(&npy(20)) };
            let mut bytes = zip.bytes();
            for (place, value) in changes {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            if truncate {
                bytes.truncate(cut.index(bytes.len()));
            }
            if let Ok(archive) = Archive::open(Source::from_bytes(bytes)) {
                for name in archive.names() {
                    if let Ok(Some(rows)) = archive.array(name) {
                        let mut out = vec![0.0; rows.len() * rows.sample_len()];
                        rows.read_f32(0..rows.len(), &mut Vec::new(), &mut out).unwrap();
                    }
                }
            }
        }
    }
}
