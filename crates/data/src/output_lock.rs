//! One writer for each output.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::error::DataError;

/// What the file is called that is locked.
const LOCK: &str = "lock";

/// How often a folder is made again that others remove at the same time.
const TRIES: usize = 100;

/// The right to write an output, and the folder beside it in which parts of it are kept.
///
/// It is a lock of the operating system on a file in that folder, so that it ends with the process, however that ends. A
/// second writer is refused at once. Dropped, it leaves the folder only if something is in it.
///
/// Those who only add parts of their own can [share](OutputLock::shared) it: as long as one of them is there, nobody has
/// the output alone. What they leave in the folder, and the folder, stays.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use npcov_data::OutputLock;
///
/// # let folder = tempfile::tempdir()?;
/// let output = folder.path().join("graph.npcov");
/// let lock = OutputLock::beside(&output)?;
/// assert!(OutputLock::beside(&output).is_err());
/// drop(lock);
/// assert!(OutputLock::beside(&output).is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OutputLock {
    folder: PathBuf,
    /// Locked as long as it is open.
    _file: File,
    is_shared: bool,
}

impl OutputLock {
    /// Locks the file `output`, by way of the folder `output.parts`.
    pub fn beside(output: &Path) -> Result<OutputLock, DataError> {
        OutputLock::by(&parts_of(output), output)
    }

    /// The same together with others who share it.
    pub fn shared(output: &Path) -> Result<OutputLock, DataError> {
        OutputLock::take(&parts_of(output), output, true)
    }

    /// Locks an output by way of a folder, which is made if it is not there. A folder that is a symbolic link is refused:
    /// what is in it may be someone else's.
    pub fn by(folder: &Path, output: &Path) -> Result<OutputLock, DataError> {
        OutputLock::take(folder, output, false)
    }

    fn take(folder: &Path, output: &Path, is_shared: bool) -> Result<OutputLock, DataError> {
        let failed = |source| DataError::Folder {
            folder: folder.display().to_string(),
            source,
        };
        let path = folder.join(LOCK);
        for _ in 0..TRIES {
            match std::fs::create_dir(folder) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(failed(error));
                }
                _ => {}
            }
            match std::fs::symlink_metadata(folder) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => {
                    return Err(failed(io::Error::other(
                        "it is no folder, but a link or a file",
                    )));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            }
            let file = match open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                file => file.map_err(failed)?,
            };
            let locked = match is_shared {
                true => file.try_lock_shared(),
                false => file.try_lock(),
            };
            match locked {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(DataError::Locked {
                        file: output.display().to_string(),
                    });
                }
                // A file system without locks: nothing can be said there.
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // The one who had it may have removed the file after it was opened here.
            if is_at(&file, &path) {
                return Ok(OutputLock {
                    folder: folder.to_owned(),
                    _file: file,
                    is_shared,
                });
            }
        }
        Err(failed(ErrorKind::ResourceBusy.into()))
    }

    /// The folder for parts of the output.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for OutputLock {
    /// Only what is locked is removed: whoever opens the file from now on makes it anew.
    fn drop(&mut self) {
        // Others may have it, who would not see a lock on another file.
        if self.is_shared {
            return;
        }
        let _ = std::fs::remove_file(self.folder.join(LOCK));
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// The folder in which parts of an output are kept.
fn parts_of(output: &Path) -> PathBuf {
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(".parts");
    output.with_file_name(name)
}

/// Opens the file, or makes it; never what a link leads to.
fn open(path: &Path) -> io::Result<File> {
    if std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other("its lock is no regular file"));
    }
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path)
}

/// Whether a file that is open is the one of this name.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same =
        |a: std::fs::Metadata, b: std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    let found = file
        .metadata()
        .and_then(|a| Ok(same(a, std::fs::symlink_metadata(path)?)));
    found.unwrap_or(false)
}

/// The same where files that are open cannot be removed.
#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_writer_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out.npz");
        let lock = OutputLock::beside(&output).unwrap();
        let error = OutputLock::beside(&output).unwrap_err().to_string();
        assert!(
            error.contains("out.npz` is being written by another npcov"),
            "{error}"
        );
        assert!(OutputLock::beside(&folder.path().join("other.npz")).is_ok());
        drop(lock);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn those_who_share_it_keep_others_out() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out.npz");
        let [a, b] = [0, 1].map(|_| OutputLock::shared(&output).unwrap());
        assert!(OutputLock::beside(&output).is_err());
        drop(a);
        assert!(OutputLock::beside(&output).is_err());
        drop(b);
        let alone = OutputLock::beside(&output).unwrap();
        assert!(OutputLock::shared(&output).is_err());
        drop(alone);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_dead_process_left_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out.npz");
        let parts = folder.path().join("out.npz.parts");
        std::fs::create_dir(&parts).unwrap();
        std::fs::write(parts.join("lock"), "").unwrap();
        std::fs::write(parts.join("notes"), "").unwrap();
        drop(OutputLock::beside(&output).unwrap());
        assert!(!parts.join("lock").exists() && parts.join("notes").exists());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out.npz");
        let (parts, elsewhere) = (
            folder.path().join("out.npz.parts"),
            folder.path().join("mine"),
        );
        std::fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &parts).unwrap();
        let error = OutputLock::beside(&output).unwrap_err().to_string();
        assert!(error.contains("out.npz.parts`: it is no folder"), "{error}");
        std::fs::remove_file(&parts).unwrap();
        std::fs::create_dir(&parts).unwrap();
        std::fs::write(elsewhere.join("file"), "").unwrap();
        std::os::unix::fs::symlink(elsewhere.join("file"), parts.join("lock")).unwrap();
        assert!(OutputLock::beside(&output).is_err());
    }

    /// Threads that lock and free the same output: no two ever have it together.
    #[test]
    fn removing_the_file_lets_nobody_else_in() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out.npz");
        let (inside, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        let Ok(lock) = OutputLock::beside(&output) else {
                            continue;
                        };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        taken.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                });
            }
        });
        assert!(taken.into_inner() > 0);
    }
}
