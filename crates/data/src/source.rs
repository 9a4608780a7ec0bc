//! Bytes that are read by position: a file, a part of a file, or memory.
//!
//! One mechanism serves every format. A plain file is read where it lies; something compressed has no positions, so it is
//! decoded by [`Source::spool`], once and as far as it is read, and read by position from there. There are no memory maps:
//! a mapped file that is truncated by someone else is a crash, a positioned read is an error.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use crate::error::ReadError;
use crate::file_pool::FilePool;
use crate::spool::Spool;

/// Decoded data up to this size stays in memory, in its own element type; anything larger goes to a temporary file.
const SPOOL_IN_MEMORY: u64 = 16 << 20;

/// DEFLATE codes at most 258 bytes in 2 bits, so no stream grows by more than this factor (zlib's documented limit).
const DEFLATE_FACTOR: u64 = 1032;

/// Bytes that can be read at any position, from several threads at once. Clones share them.
#[derive(Clone, Debug)]
pub struct Source {
    backing: Backing,
    start: u64,
    len: u64,
}

#[derive(Clone, Debug)]
enum Backing {
    File(Arc<File>),
    /// A file that need not be open between reads.
    Pooled(Arc<FilePool>, Arc<Path>),
    Memory(Arc<Vec<u8>>),
    Spool(Arc<Spool>),
}

impl Source {
    /// The bytes of a regular file.
    pub fn open(path: &Path) -> io::Result<Source> {
        let (file, len) = npcov_file::open(path)?;
        Ok(Source {
            start: 0,
            len,
            backing: Backing::File(Arc::new(file)),
        })
    }

    /// The same, but for that the file is open only while it is read, now and then: there may be many such.
    pub fn pooled(pool: &Arc<FilePool>, path: &Path) -> io::Result<Source> {
        pool.forget(path);
        Ok(Source {
            start: 0,
            len: pool.get(path)?.metadata()?.len(),
            backing: Backing::Pooled(pool.clone(), path.into()),
        })
    }

    /// Bytes that are already in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Source {
        Source {
            start: 0,
            len: bytes.len() as u64,
            backing: Backing::Memory(Arc::new(bytes)),
        }
    }

    /// Takes exactly `len` bytes from a decoder and makes them readable by position. That they are all, the decoder is
    /// asked behind the last one: there it also compares its checksum, if it has one.
    ///
    /// What is small is decoded at once, into memory, which grows with the bytes that arrive, never with `len`. Anything
    /// larger goes to a temporary file, as far as it is read ([`Spool`]).
    pub(crate) fn spool(
        mut decoder: impl Read + Send + 'static,
        len: u64,
    ) -> Result<Source, ReadError> {
        if len > SPOOL_IN_MEMORY {
            return Ok(Source {
                backing: Backing::Spool(Arc::new(Spool::new(Box::new(decoder), len)?)),
                start: 0,
                len,
            });
        }
        let mut bytes = Vec::new();
        let mut limited = decoder.by_ref().take(len);
        limited.read_to_end(&mut bytes).map_err(decode_error)?;
        check_end(&mut decoder, bytes.len() as u64, len)?;
        Ok(Source::from_bytes(bytes))
    }

    /// Number of bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `out` with the bytes from `offset` on; an error where they end before it is full.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(out.len() as u64);
        if end.is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // No overflow: `start + len` was checked when this part was cut, and `offset + out.len() <= len`.
        let position = self.start + offset;
        match &self.backing {
            Backing::File(file) => read_file_at(file, position, out),
            Backing::Pooled(pool, path) => read_file_at(&*pool.get(path)?, position, out),
            Backing::Memory(bytes) => {
                let part = usize::try_from(position)
                    .ok()
                    .and_then(|start| bytes.get(start..start.checked_add(out.len())?))
                    .ok_or(io::ErrorKind::UnexpectedEof)?;
                out.copy_from_slice(part);
                Ok(())
            }
            Backing::Spool(spool) => spool.read_at(position, out).map_err(io::Error::other),
        }
    }

    /// The part of `len` bytes from `offset` on, or nothing where that reaches behind the end.
    pub fn part(&self, offset: u64, len: u64) -> Option<Source> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        Some(Source {
            backing: self.backing.clone(),
            start: self.start.checked_add(offset)?,
            len,
        })
    }

    /// Reads the bytes in order, from the first one.
    pub fn reader(&self) -> SourceReader {
        SourceReader {
            source: self.clone(),
            position: 0,
        }
    }

    /// Refuses a claim of `decoded` bytes that no DEFLATE stream of this length could decode to.
    pub(crate) fn check_deflate_claim(&self, decoded: u64) -> Result<(), ReadError> {
        if decoded / DEFLATE_FACTOR > self.len {
            return Err(ReadError::malformed(format!(
                "{} compressed bytes cannot hold the {decoded} bytes that the header claims",
                self.len
            )));
        }
        Ok(())
    }
}

/// Reads a [`Source`] in order.
#[derive(Debug)]
pub struct SourceReader {
    source: Source,
    position: u64,
}

impl Read for SourceReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.source.len - self.position;
        let count = out.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        self.source.read_at(self.position, &mut out[..count])?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for SourceReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(delta) => self.source.len.checked_add_signed(delta),
            SeekFrom::Current(delta) => self.position.checked_add_signed(delta),
        };
        self.position = target
            .filter(|&position| position <= self.source.len)
            .ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

/// That a decoder gave as many bytes as it should, and has no more.
pub(crate) fn check_end(decoder: &mut impl Read, decoded: u64, len: u64) -> Result<(), ReadError> {
    if decoded != len {
        return Err(ReadError::malformed(format!(
            "the compressed data ends after {decoded} of {len} bytes"
        )));
    }
    match decoder.read(&mut [0]).map_err(decode_error)? {
        0 => Ok(()),
        _ => Err(ReadError::malformed(format!(
            "decodes to more than the {len} bytes that its headers claim"
        ))),
    }
}

/// Decoders report bad data as an I/O error; only the others are the operating system's.
pub(crate) fn decode_error(error: io::Error) -> ReadError {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
            ReadError::malformed(format!("the compressed data is damaged ({error})"))
        }
        _ => error.into(),
    }
}

#[cfg(unix)]
pub(crate) fn read_file_at(file: &File, position: u64, out: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, position)
}

#[cfg(windows)]
pub(crate) fn read_file_at(file: &File, mut position: u64, mut out: &mut [u8]) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !out.is_empty() {
        match file.seek_read(out, position) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                out = &mut out[count..];
                position += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn on_disk(bytes: &[u8]) -> (tempfile::NamedTempFile, Source) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let source = Source::open(file.path()).unwrap();
        (file, source)
    }

    #[test]
    fn file_memory_and_parts_of_them_read_the_same_bytes() {
        let bytes: Vec<u8> = (0..200).collect();
        let (_file, file) = on_disk(&bytes);
        for source in [file, Source::from_bytes(bytes.clone())] {
            let part = source.part(20, 100).unwrap().part(10, 50).unwrap();
            let mut out = [0; 4];
            part.read_at(46, &mut out).unwrap();
            assert_eq!(out, [76, 77, 78, 79]);
            assert!(
                part.read_at(47, &mut out).is_err(),
                "reads stop at the part's end"
            );
            assert!(part.read_at(u64::MAX, &mut out).is_err());
            assert!(source.part(101, 100).is_none());
            assert!(source.part(u64::MAX, 2).is_none());
            let mut all = Vec::new();
            part.reader().read_to_end(&mut all).unwrap();
            assert_eq!(all, &bytes[30..80]);
        }
    }

    #[test]
    fn a_file_truncated_while_open_is_an_error() {
        let (file, source) = on_disk(&[1; 100]);
        file.as_file().set_len(50).unwrap();
        assert!(source.read_at(40, &mut [0; 20]).is_err());
    }

    #[test]
    fn spooling_takes_exactly_the_length_asked_for() {
        let spooled = Source::spool(io::repeat(7).take(60), 60).unwrap();
        assert_eq!(spooled.len(), 60);
        for len in [59, 61] {
            let wrong = Source::spool(io::repeat(7).take(60), len);
            assert!(matches!(wrong, Err(ReadError::Malformed(_))), "{wrong:?}");
        }
    }

    #[test]
    fn large_spools_go_to_a_file() {
        let len = SPOOL_IN_MEMORY + 3;
        let spooled = Source::spool(io::repeat(9).take(len), len).unwrap();
        assert!(matches!(spooled.backing, Backing::Spool(_)));
        let mut end = [0; 3];
        spooled.read_at(len - 3, &mut end).unwrap();
        assert_eq!(end, [9; 3]);
        // What is wrong behind the first bytes is found where they are read.
        let short = Source::spool(io::repeat(9).take(10), len).unwrap();
        short.read_at(2, &mut end).unwrap();
        let error = ReadError::from(short.read_at(8, &mut end).unwrap_err());
        assert!(matches!(error, ReadError::Malformed(_)), "{error:?}");
    }

    #[test]
    fn impossible_compression_is_refused() {
        let source = Source::from_bytes(vec![0; 100]);
        assert!(source.check_deflate_claim(100 * 1032).is_ok());
        assert!(source.check_deflate_claim(101 * 1032).is_err());
        assert!(source.check_deflate_claim(u64::MAX).is_err());
    }
}
