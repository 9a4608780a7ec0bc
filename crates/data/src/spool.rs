//! Something compressed, decoded into a temporary file as far as it is read.
//!
//! Work on the first thousand rows of a file decodes those and no more, and a file that claims more than the temporary
//! folder can hold harms only those who read that far.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::ReadError;
use crate::source::{check_end, decode_error, read_file_at};

/// Bytes that are decoded in one go.
const CHUNK: usize = 1 << 16;

/// `len` bytes of a decoder.
pub(crate) struct Spool {
    /// Has no name, or is deleted when it is closed: it does not outlive the process.
    file: File,
    len: u64,
    /// Bytes in the file. Changed only by who holds `decoder`.
    decoded: AtomicU64,
    decoder: Mutex<Decoder>,
}

enum Decoder {
    Running(Box<dyn Read + Send>),
    /// All is decoded.
    Done,
    /// Why nothing more is.
    Failed(String),
}

impl Spool {
    pub(crate) fn new(decoder: Box<dyn Read + Send>, len: u64) -> Result<Spool, ReadError> {
        Ok(Spool {
            file: tempfile::tempfile().map_err(temporary)?,
            len,
            decoded: AtomicU64::new(0),
            decoder: Mutex::new(Decoder::Running(decoder)),
        })
    }

    /// Fills `out` with the bytes from `position` on, of which there are enough.
    pub(crate) fn read_at(&self, position: u64, out: &mut [u8]) -> Result<(), ReadError> {
        let end = position + out.len() as u64;
        if self.decoded.load(Ordering::Acquire) < end {
            self.decode_to(end)?;
        }
        Ok(read_file_at(&self.file, position, out)?)
    }

    fn decode_to(&self, end: u64) -> Result<(), ReadError> {
        let mut decoder = self.decoder.lock().unwrap_or_else(PoisonError::into_inner);
        let result = match &mut *decoder {
            Decoder::Done => Ok(()),
            Decoder::Failed(reason) => Err(ReadError::malformed(reason.as_str())),
            Decoder::Running(reader) => self.advance(reader, end),
        };
        match &result {
            Err(error) => *decoder = Decoder::Failed(error.to_string()),
            Ok(()) if self.decoded.load(Ordering::Acquire) == self.len => *decoder = Decoder::Done,
            Ok(()) => {}
        }
        result
    }

    fn advance(&self, mut reader: &mut (dyn Read + Send), end: u64) -> Result<(), ReadError> {
        let mut chunk = vec![0; CHUNK];
        let mut decoded = self.decoded.load(Ordering::Acquire);
        while decoded < end {
            let wanted = CHUNK.min(usize::try_from(self.len - decoded).unwrap_or(CHUNK));
            let count = match reader.read(&mut chunk[..wanted]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                count => count.map_err(decode_error)?,
            };
            if count == 0 {
                break;
            }
            (&self.file).write_all(&chunk[..count]).map_err(temporary)?;
            decoded += count as u64;
            // Whoever has the last bytes knows that they are the last ones.
            if decoded == self.len {
                check_end(&mut reader, decoded, self.len)?;
            }
            self.decoded.store(decoded, Ordering::Release);
        }
        match decoded < end {
            true => check_end(&mut reader, decoded, self.len),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decoded = self.decoded.load(Ordering::Acquire);
        write!(f, "Spool({decoded} of {} bytes)", self.len)
    }
}

/// The temporary folder cannot take what is decoded: not the fault of the file.
fn temporary(source: io::Error) -> ReadError {
    let folder: PathBuf = std::env::temp_dir();
    ReadError::Temporary { folder, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Counts what is taken from it.
    struct Counted(Arc<AtomicU64>, io::Take<io::Repeat>);

    impl Read for Counted {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let count = self.1.read(out)?;
            self.0.fetch_add(count as u64, Ordering::Relaxed);
            Ok(count)
        }
    }

    fn counted(len: u64, claimed: u64) -> (Arc<AtomicU64>, Spool) {
        let count = Arc::new(AtomicU64::new(0));
        let reader = Counted(count.clone(), io::repeat(5).take(len));
        (count, Spool::new(Box::new(reader), claimed).unwrap())
    }

    #[test]
    fn nothing_is_decoded_before_it_is_read_and_nothing_twice() {
        let (taken, spool) = counted(1 << 20, 1 << 20);
        let mut out = [0; 10];
        for (position, decoded) in [(0, CHUNK), (100, CHUNK), (CHUNK, 2 * CHUNK), (3, 2 * CHUNK)] {
            spool.read_at(position as u64, &mut out).unwrap();
            assert_eq!(out, [5; 10]);
            assert_eq!(taken.load(Ordering::Relaxed), decoded as u64);
        }
        spool.read_at((1 << 20) - 10, &mut out).unwrap();
        assert_eq!(taken.load(Ordering::Relaxed), 1 << 20);
    }

    #[test]
    fn a_failure_stays() {
        for (len, claimed, text) in [(99, 100, "ends after 99"), (101, 100, "more than the 100")] {
            let (_, spool) = counted(len, claimed);
            for _ in 0..2 {
                let error = spool.read_at(90, &mut [0; 10]).unwrap_err().to_string();
                assert!(error.contains(text), "{error}");
            }
        }
    }

    #[test]
    fn threads_see_the_same_bytes() {
        let reader = io::Cursor::new(
            (0..1u32 << 18)
                .flat_map(u32::to_le_bytes)
                .collect::<Vec<u8>>(),
        );
        let spool = Spool::new(Box::new(reader), 1 << 20).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let spool = &spool;
                scope.spawn(move || {
                    for i in (thread..1 << 18).step_by(4099) {
                        let mut out = [0; 4];
                        spool.read_at(u64::from(i) * 4, &mut out).unwrap();
                        assert_eq!(u32::from_le_bytes(out), i);
                    }
                });
            }
        });
    }
}
