//! Writing npz files whose arrays grow row by row, several at once.
//!
//! A zip member must be written in one go and an npy header needs the number of rows, but results arrive batch by batch
//! for all arrays together. So each array is spooled to a nameless temporary file next to the output; at the end they are
//! assembled in a temporary file, which then takes the output's name. Until that moment the output does not exist, or is
//! what it was before.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::PathBuf;

use flate2::{Crc, write::DeflateEncoder};

use crate::element::Element;
use crate::error::DataError;
use crate::loader::Loader;
use crate::npy;
use crate::npz::{
    CLASS_NAMES, DEFLATED, DIRECTORY_ENTRY, END_OF_DIRECTORY, END_OF_DIRECTORY_64, LOCAL_HEADER,
    LOCATOR_64, SAMPLE_NAMES, STORED, ZIP64_FIELD,
};
use crate::scalar::Scalar;
use crate::texts;
use crate::whole_file::{folder_of, refuse_special, temporary_in};

/// Zip version 4.5: the first one with 64-bit sizes.
const VERSION: [u8; 2] = [45, 0];
/// 1 January 1980, midnight, the earliest time zip knows: the same results give the same bytes.
const NO_TIME: [u8; 4] = [0, 0, 0x21, 0];

/// How the arrays are put into the zip file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// As they are, like `numpy.savez`.
    Stored,
    /// Deflated, like `numpy.savez_compressed`.
    Deflated,
}

/// One array of an [`NpzWriter`], by its type.
#[derive(Debug)]
pub struct ArrayHandle<T> {
    index: usize,
    value: PhantomData<T>,
}

/// Writes an npz file; see the [module](crate::npz) for an example.
///
/// Dropped without [`finish`](NpzWriter::finish), it leaves nothing behind.
#[derive(Debug)]
pub struct NpzWriter {
    path: PathBuf,
    folder: PathBuf,
    compression: Compression,
    arrays: Vec<Spool>,
    /// Arrays of texts, whole: names, and npy files.
    texts: Vec<(String, Vec<u8>)>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Spool {
    name: String,
    element: Element,
    row_shape: Vec<usize>,
    row_len: usize,
    values: usize,
    file: BufWriter<File>,
}

impl NpzWriter {
    /// Prepares to write `path`, whose folder must exist and be writable.
    pub fn create(path: impl Into<PathBuf>, compression: Compression) -> Result<Self, DataError> {
        let path = path.into();
        let folder = folder_of(&path);
        let writer = NpzWriter {
            path,
            folder,
            compression,
            arrays: Vec::new(),
            texts: Vec::new(),
            bytes: Vec::new(),
        };
        refuse_special(&writer.path).map_err(|error| writer.failed(error))?;
        // An unwritable folder is reported here and not after hours of work.
        tempfile::tempfile_in(&writer.folder).map_err(|error| writer.failed(error))?;
        Ok(writer)
    }

    /// Adds an array with rows of the shape `row` (`[]`: one number per row).
    pub fn array<T: Scalar>(
        &mut self,
        name: &str,
        row: &[usize],
    ) -> Result<ArrayHandle<T>, DataError> {
        self.check_name(name)?;
        let row_len = row
            .iter()
            .try_fold(1usize, |product, &axis| product.checked_mul(axis));
        let Some(row_len) = row_len.filter(|&len| len > 0 && row.len() < 64) else {
            return Err(self.wrong(format!("array `{name}` cannot have rows of shape {row:?}")));
        };
        let file = tempfile::tempfile_in(&self.folder).map_err(|error| self.failed(error))?;
        self.arrays.push(Spool {
            name: name.to_owned(),
            element: T::ELEMENT,
            row_shape: row.to_vec(),
            row_len,
            values: 0,
            file: BufWriter::with_capacity(1 << 16, file),
        });
        Ok(ArrayHandle {
            index: self.arrays.len() - 1,
            value: PhantomData,
        })
    }

    /// Adds an array of texts, as numpy stores `str`.
    pub fn texts(&mut self, name: &str, texts: &[String]) -> Result<(), DataError> {
        self.check_name(name)?;
        self.texts.push((name.to_owned(), texts::to_npy(texts)));
        Ok(())
    }

    /// Adds what rows of a dataset and its classes are called, where they have names: the arrays `name` and
    /// `class_names`, which [`open`](crate::open) reads.
    pub fn names(
        &mut self,
        data: &Loader<'_>,
        rows: impl IntoIterator<Item = usize>,
    ) -> Result<(), DataError> {
        let names = rows.into_iter().map(|row| data.sample_name(row));
        let names: Option<Vec<String>> = names.map(|name| name.map(Cow::into_owned)).collect();
        if let Some(names) = names.filter(|names| !names.is_empty()) {
            self.texts(SAMPLE_NAMES, &names)?;
        }
        match data.class_names() {
            Some(names) => self.texts(CLASS_NAMES, names),
            None => Ok(()),
        }
    }

    fn check_name(&self, name: &str) -> Result<(), DataError> {
        if name.is_empty() || name.len() > 1000 || name.contains(['/', '\\', '\0']) {
            return Err(self.wrong(format!("`{name}` cannot be the name of an array")));
        }
        let mut names = (self.arrays.iter().map(|array| &array.name))
            .chain(self.texts.iter().map(|(name, _)| name));
        match names.any(|known| known == name) {
            true => Err(self.wrong(format!("there are two arrays `{name}`"))),
            false => Ok(()),
        }
    }

    /// Appends numbers to an array: any count, as long as whole rows have been appended in the end.
    pub fn append<T: Scalar>(
        &mut self,
        array: &ArrayHandle<T>,
        values: &[T],
    ) -> Result<(), DataError> {
        let written = match self.arrays.get_mut(array.index) {
            Some(array) if array.element == T::ELEMENT => {
                array.values += values.len();
                values.chunks(1 << 14).try_for_each(|chunk| {
                    self.bytes.clear();
                    T::encode(chunk, &mut self.bytes);
                    array.file.write_all(&self.bytes)
                })
            }
            _ => return Err(self.wrong("an array of another writer was passed".to_owned())),
        };
        written.map_err(|error| self.failed(error))
    }

    /// Assembles the file and gives it its name.
    pub fn finish(mut self) -> Result<(), DataError> {
        for array in &self.arrays {
            if array.values % array.row_len != 0 {
                return Err(self.wrong(format!(
                    "array `{}` ends inside a row: {} numbers, {} per row",
                    array.name, array.values, array.row_len
                )));
            }
        }
        self.assemble().map_err(|error| self.failed(error))
    }

    fn assemble(&mut self) -> io::Result<()> {
        let mut target = temporary_in(&self.folder)?;
        let mut directory = Vec::new();
        let mut zip = BufWriter::with_capacity(1 << 16, target.as_file_mut());
        for array in &mut self.arrays {
            let member = array.write_member(self.compression, &mut zip)?;
            directory.extend(member);
        }
        for (name, npy) in &self.texts {
            let member = write_member(name, self.compression, npy, &mut io::empty(), &mut zip)?;
            directory.extend(member);
        }
        let offset = zip.stream_position()?;
        let entries = (self.arrays.len() + self.texts.len()) as u64;
        zip.write_all(&directory)?;
        zip.write_all(&end_records(entries, directory.len() as u64, offset))?;
        zip.flush()?;
        drop(zip);
        target.as_file().sync_all()?;
        target.persist(&self.path)?;
        Ok(())
    }

    fn failed(&self, source: io::Error) -> DataError {
        DataError::Write {
            file: self.path.display().to_string(),
            source,
        }
    }

    fn wrong(&self, reason: String) -> DataError {
        DataError::Arrays {
            file: self.path.display().to_string(),
            reason,
        }
    }
}

impl Spool {
    fn write_member(
        &mut self,
        compression: Compression,
        zip: &mut (impl Write + Seek),
    ) -> io::Result<Vec<u8>> {
        let mut shape = vec![self.values / self.row_len];
        shape.extend(&self.row_shape);
        let header = npy::Header::for_array(self.element, &shape).to_bytes();
        self.file.flush()?;
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(0))?;
        write_member(&self.name, compression, &header, file, zip)
    }
}

/// Writes a member, then goes back to fill in its checksum and sizes. Returns its directory entry.
fn write_member(
    name: &str,
    compression: Compression,
    header: &[u8],
    data: &mut impl Read,
    zip: &mut (impl Write + Seek),
) -> io::Result<Vec<u8>> {
    let name = format!("{name}.npy");
    let method = match compression {
        Compression::Stored => STORED,
        Compression::Deflated => DEFLATED,
    };
    let start = zip.stream_position()?;
    zip.write_all(&local_header(&name, method, 0, 0, 0))?;
    let begin = zip.stream_position()?;
    let (crc, unpacked) = match compression {
        Compression::Stored => copy(header, data, zip)?,
        Compression::Deflated => {
            let mut encoder = DeflateEncoder::new(&mut *zip, flate2::Compression::default());
            let sums = copy(header, data, &mut encoder)?;
            encoder.finish()?;
            sums
        }
    };
    let end = zip.stream_position()?;
    let packed = end - begin;
    zip.seek(SeekFrom::Start(start))?;
    zip.write_all(&local_header(&name, method, crc, packed, unpacked))?;
    zip.seek(SeekFrom::Start(end))?;
    Ok(directory_entry(&name, method, crc, packed, unpacked, start))
}

/// Copies header and data, and returns their checksum and length.
fn copy(header: &[u8], data: &mut impl Read, out: &mut impl Write) -> io::Result<(u32, u64)> {
    let mut crc = Crc::new();
    crc.update(header);
    out.write_all(header)?;
    let mut total = header.len() as u64;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = data.read(&mut buffer)?;
        if count == 0 {
            return Ok((crc.sum(), total));
        }
        crc.update(&buffer[..count]);
        out.write_all(&buffer[..count])?;
        total += count as u64;
    }
}

/// Always with 64-bit sizes, so that its length does not depend on them: it is written before they are known.
fn local_header(name: &str, method: u16, crc: u32, packed: u64, unpacked: u64) -> Vec<u8> {
    let mut out = LOCAL_HEADER.to_vec();
    out.extend(VERSION);
    out.extend([0, 0]);
    out.extend(method.to_le_bytes());
    out.extend(NO_TIME);
    out.extend(crc.to_le_bytes());
    out.extend([0xff; 8]);
    out.extend((name.len() as u16).to_le_bytes());
    out.extend(20u16.to_le_bytes());
    out.extend(name.bytes());
    out.extend(ZIP64_FIELD.to_le_bytes());
    out.extend(16u16.to_le_bytes());
    out.extend(unpacked.to_le_bytes());
    out.extend(packed.to_le_bytes());
    out
}

fn directory_entry(
    name: &str,
    method: u16,
    crc: u32,
    packed: u64,
    unpacked: u64,
    start: u64,
) -> Vec<u8> {
    // Numbers that overflow 32 bits move to the extra field, the others stay.
    let mut extra = Vec::new();
    let mut narrow = |value: u64| {
        u32::try_from(value)
            .ok()
            .filter(|&narrow| narrow != u32::MAX)
            .unwrap_or_else(|| {
                extra.extend(value.to_le_bytes());
                u32::MAX
            })
    };
    let (unpacked, packed, start) = (narrow(unpacked), narrow(packed), narrow(start));
    let mut out = DIRECTORY_ENTRY.to_vec();
    out.extend(VERSION);
    out.extend(VERSION);
    out.extend([0, 0]);
    out.extend(method.to_le_bytes());
    out.extend(NO_TIME);
    out.extend(crc.to_le_bytes());
    out.extend(packed.to_le_bytes());
    out.extend(unpacked.to_le_bytes());
    out.extend((name.len() as u16).to_le_bytes());
    let extra_len = if extra.is_empty() { 0 } else { extra.len() + 4 };
    out.extend((extra_len as u16).to_le_bytes());
    out.extend([0; 10]);
    out.extend(start.to_le_bytes());
    out.extend(name.bytes());
    if !extra.is_empty() {
        out.extend(ZIP64_FIELD.to_le_bytes());
        out.extend((extra.len() as u16).to_le_bytes());
        out.extend(extra);
    }
    out
}

fn end_records(entries: u64, len: u64, offset: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let count = u16::try_from(entries).unwrap_or(u16::MAX);
    if count == u16::MAX || narrow(len) == u32::MAX || narrow(offset) == u32::MAX {
        out.extend(END_OF_DIRECTORY_64);
        out.extend(44u64.to_le_bytes());
        out.extend(VERSION);
        out.extend(VERSION);
        out.extend([0; 8]);
        for value in [entries, entries, len, offset] {
            out.extend(value.to_le_bytes());
        }
        out.extend(LOCATOR_64);
        out.extend([0; 4]);
        out.extend((offset + len).to_le_bytes());
        out.extend(1u32.to_le_bytes());
    }
    out.extend(END_OF_DIRECTORY);
    out.extend([0; 4]);
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(narrow(len).to_le_bytes());
    out.extend(narrow(offset).to_le_bytes());
    out.extend([0, 0]);
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Source;
    use crate::npz::Archive;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn arrays_that_grow_together_come_back() {
        for compression in [Compression::Stored, Compression::Deflated] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("out.npz");
            let mut writer = NpzWriter::create(&path, compression).unwrap();
            let a = writer.array::<f32>("activation.0", &[2, 3]).unwrap();
            let b = writer.array::<i64>("prediction", &[]).unwrap();
            let c = writer.array::<bool>("flag", &[1]).unwrap();
            let d = writer.array::<u8>("none", &[7]).unwrap();
            for row in 0..3i64 {
                let values: Vec<f32> = (0..6).map(|i| (row * 6 + i) as f32 / 2.0).collect();
                writer.append(&a, &values[..4]).unwrap();
                writer.append(&b, &[-row]).unwrap();
                writer.append(&a, &values[4..]).unwrap();
                writer.append(&c, &[row == 1]).unwrap();
            }
            writer.append(&d, &[]).unwrap();
            assert!(names(folder.path()).is_empty(), "no output before the end");
            writer.finish().unwrap();
            assert_eq!(names(folder.path()), ["out.npz"]);

            let archive = Archive::open(Source::open(&path).unwrap()).unwrap();
            let read = |name: &str| {
                let rows = archive.array(name).unwrap().unwrap();
                let mut out = vec![0.0; rows.len() * rows.sample_len()];
                rows.read_f32(0..rows.len(), &mut Vec::new(), &mut out)
                    .unwrap();
                (rows.element(), rows.sample_shape().to_vec(), out)
            };
            let halves: Vec<f32> = (0..18).map(|v| v as f32 / 2.0).collect();
            assert_eq!(read("activation.0"), (Element::F32, vec![2, 3], halves));
            assert_eq!(
                read("prediction"),
                (Element::I64, vec![], vec![0.0, -1.0, -2.0])
            );
            assert_eq!(read("flag"), (Element::Bool, vec![1], vec![0.0, 1.0, 0.0]));
            assert_eq!(read("none"), (Element::U8, vec![7], vec![]));
        }
    }

    #[test]
    fn an_unfinished_or_failed_file_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.npz");
        std::fs::write(&path, "old").unwrap();
        let mut writer = NpzWriter::create(&path, Compression::Stored).unwrap();
        let array = writer.array::<u8>("x", &[2]).unwrap();
        writer.append(&array, &[1, 2, 3]).unwrap();
        let error = writer.finish().unwrap_err().to_string();
        assert!(
            error.contains("ends inside a row: 3 numbers, 2 per row"),
            "{error}"
        );
        assert_eq!(names(folder.path()), ["out.npz"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn bad_names_and_folders_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing").join("out.npz");
        assert!(NpzWriter::create(missing, Compression::Stored).is_err());
        let taken = NpzWriter::create(folder.path(), Compression::Stored);
        assert!(
            taken
                .unwrap_err()
                .to_string()
                .contains("not a regular file")
        );
        let mut writer =
            NpzWriter::create(folder.path().join("out.npz"), Compression::Stored).unwrap();
        let array = writer.array::<u8>("x", &[]).unwrap();
        assert!(writer.array::<f32>("x", &[]).is_err());
        assert!(writer.array::<f32>("../x", &[]).is_err());
        assert!(writer.array::<f32>("y", &[0]).is_err());
        let mut other =
            NpzWriter::create(folder.path().join("other.npz"), Compression::Stored).unwrap();
        assert!(other.append(&array, &[1]).is_err());
    }

    #[test]
    fn entries_beyond_32_bits_are_read_back() {
        // The directory of a file of 5 GiB, laid out at its end; only the directory is read.
        let (packed, start) = (5u64 << 30, 6u64 << 30);
        let entry = directory_entry("x.npy", STORED, 1, packed, packed, start);
        assert_eq!(entry.len(), 46 + 5 + 4 + 24);
        let mut bytes = entry.clone();
        bytes.extend(end_records(1, entry.len() as u64, 0));
        let archive = Archive::open(Source::from_bytes(bytes)).unwrap();
        let error = archive.array("x").unwrap_err().to_string();
        assert!(error.contains("behind the end"), "{error}");
        // And a 64-bit end record is found through its locator.
        let mut bytes = vec![0; 10];
        for _ in 0..70_000 {
            bytes.extend(directory_entry("x.npy", STORED, 1, 2, 2, 0));
        }
        bytes.extend(end_records(70_000, bytes.len() as u64 - 10, 10));
        let archive = Archive::open(Source::from_bytes(bytes)).unwrap();
        assert_eq!(archive.names().count(), 70_000);
    }
}
