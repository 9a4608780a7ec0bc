//! Files that others named: only regular ones are opened, and only up to a size that is known before.
//!
//! A FIFO would wait for a writer that never comes, and a device such as `/dev/zero` never ends. So what a path leads
//! to is looked at before it is opened, and once more when it is open, where nobody can put something else in its place.
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("notes.txt");
//! std::fs::write(&path, "hello")?;
//! assert_eq!(npcov_file::read(&path, 5)?, b"hello");
//! assert_eq!(npcov_file::read_text(&path, 5)?, "hello");
//! let error = npcov_file::read(&path, 4).unwrap_err();
//! assert_eq!(error.to_string(), "it is too large: 5 bytes, where at most 4 are read");
//! let error = npcov_file::read(folder.path(), 4).unwrap_err();
//! assert_eq!(error.to_string(), "it is not a regular file");
//! # Ok(())
//! # }
//! ```

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Opens a regular file, with its length.
pub fn open(path: impl AsRef<Path>) -> io::Result<(File, u64)> {
    let path = path.as_ref();
    regular(&std::fs::metadata(path)?)?;
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    regular(&metadata)?;
    Ok((file, metadata.len()))
}

fn regular(metadata: &Metadata) -> io::Result<()> {
    match metadata.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
    }
}

/// The content of a regular file of at most `most` bytes.
pub fn read(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    let (file, len) = open(path)?;
    let too_large = || {
        let message = format!("it is too large: {len} bytes, where at most {most} are read");
        io::Error::new(ErrorKind::FileTooLarge, message)
    };
    let size = usize::try_from(len).ok().filter(|_| len <= most);
    let size = size.ok_or_else(too_large)?;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(size)
        .map_err(|_| io::Error::from(ErrorKind::OutOfMemory))?;
    // Whoever appends to it meanwhile does not make it larger here.
    file.take(len).read_to_end(&mut bytes)?;
    match bytes.len() == size {
        true => Ok(bytes),
        false => Err(io::Error::new(
            ErrorKind::UnexpectedEof,
            "it became shorter while it was read",
        )),
    }
}

/// The same for text.
pub fn read_text(path: impl AsRef<Path>, most: u64) -> io::Result<String> {
    let text = String::from_utf8(read(path, most)?);
    text.map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_utf_8() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, [0xff]).unwrap();
        let error = read_text(&path, 10).unwrap_err();
        assert_eq!(error.to_string(), "it is not UTF-8 text");
        let missing = read(folder.path().join("missing"), 10).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    /// None of them is waited for: the test would never end.
    #[cfg(unix)]
    #[test]
    fn devices_fifos_and_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&fifo, &link).unwrap();
        for path in [&fifo, &link, folder.path(), Path::new("/dev/zero")] {
            let error = open(path).unwrap_err().to_string();
            assert_eq!(error, "it is not a regular file", "{}", path.display());
        }
    }
}
