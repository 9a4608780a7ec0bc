//! Files that are complete from the moment they exist under their name.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::DataError;

/// Writes a file in one go: under a temporary name first, so that a file of this name is always a whole one.
pub fn write_whole(path: impl AsRef<Path>, bytes: &[u8]) -> Result<(), DataError> {
    copy_whole(path.as_ref(), &mut &bytes[..])
}

/// The same for one of many files that are easily made again: it is not waited until the disk has it.
pub fn write_soon(path: impl AsRef<Path>, bytes: &[u8]) -> Result<(), DataError> {
    replace(path.as_ref(), &mut &bytes[..], false)
}

/// The same with all that a reader gives.
pub(crate) fn copy_whole(path: &Path, from: &mut impl Read) -> Result<(), DataError> {
    replace(path, from, true)
}

fn replace(path: &Path, from: &mut impl Read, waits: bool) -> Result<(), DataError> {
    let mut write = || {
        refuse_special(path)?;
        let folder = folder_of(path);
        // A folder that is missing is said without the temporary name.
        std::fs::metadata(&folder)?;
        let mut file = temporary_in(&folder)?;
        io::copy(from, &mut file)?;
        if waits {
            file.as_file().sync_all()?;
        }
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|source| DataError::Write {
        file: path.display().to_string(),
        source,
    })
}

/// Fails unless a file can be written as `path`: its folder is there, and nothing else has its name. For work that takes
/// long before it writes anything.
pub fn require_place(path: impl AsRef<Path>) -> Result<(), DataError> {
    let path = path.as_ref();
    let found = refuse_special(path).and_then(|()| std::fs::metadata(folder_of(path)));
    found.map(drop).map_err(|source| DataError::Write {
        file: path.display().to_string(),
        source,
    })
}

/// The folder that a file is in.
pub(crate) fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Renaming onto a device such as /dev/null would replace it.
pub(crate) fn refuse_special(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            Err(io::Error::other("it exists and is not a regular file"))
        }
        _ => Ok(()),
    }
}

/// How temporary names begin and end; in between are letters and digits.
const TEMPORARY: (&str, &str) = (".npcov-", ".tmp");

/// Whether a file of this name may be one that was never given its own: what a killed process leaves.
pub fn is_temporary(name: &str) -> bool {
    let inner = name.strip_prefix(TEMPORARY.0);
    let inner = inner.and_then(|name| name.strip_suffix(TEMPORARY.1));
    inner.is_some_and(|inner| inner.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// A file to be filled and then given its name; dropped before that, it vanishes.
pub(crate) fn temporary_in(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY.0).suffix(TEMPORARY.1);
    #[cfg(unix)]
    {
        // Readable like any other output, by the user's umask; temporary files are private by default.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_a_folder_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for content in [&b"first"[..], b"second"] {
            write_whole(&path, content).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), content);
        }
        let error = write_whole(folder.path(), b"").unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
        assert!(write_whole(folder.path().join("no/file"), b"").is_err());
        assert!(require_place(&path).is_ok() && require_place(folder.path()).is_err());
        assert!(require_place(folder.path().join("no/file")).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn temporary_names_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let file = temporary_in(folder.path()).unwrap();
        let name = file.path().file_name().unwrap().to_str().unwrap();
        assert!(is_temporary(name), "{name}");
        for other in ["a.tmp", ".npcov-../x.tmp", ".npcov-abc", "npcov-abc.tmp"] {
            assert!(!is_temporary(other), "{other}");
        }
    }
}
