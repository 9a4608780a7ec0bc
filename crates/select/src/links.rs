//! A folder of links to images.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use npcov_data::{DataError, Loader};

/// The folder of images that inputs come from, where links to them can be written to `output`; `None` for
/// other data, and where an npz file is asked for.
pub(crate) fn folder_of(data: &Loader<'_>, output: &Path) -> Option<PathBuf> {
    let folder = Path::new(data.name());
    let is_npz = output
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("npz"));
    (data.are_images() && !is_npz && folder.is_dir()).then(|| folder.to_owned())
}

/// Writes links to images in a folder, in folders of the same names: one a class. Whole or not at all: at
/// `temporary` until it is.
pub(crate) fn write<'a>(
    folder: &Path,
    images: impl Iterator<Item = &'a Path>,
    temporary: &Path,
    output: &Path,
) -> Result<(), DataError> {
    let failed = |path: &Path, source: io::Error| DataError::Write {
        file: path.display().to_string(),
        source,
    };
    // What an earlier attempt left.
    if temporary.is_dir() {
        fs::remove_dir_all(temporary).map_err(|e| failed(temporary, e))?;
    }
    let there = folder.canonicalize().map_err(|e| failed(folder, e))?;
    for image in images {
        let name = image.strip_prefix(folder).unwrap_or(image);
        let (from, to) = (there.join(name), temporary.join(name));
        let parent = to.parent().unwrap_or(temporary);
        fs::create_dir_all(parent).map_err(|e| failed(parent, e))?;
        link(&from, &to).map_err(|e| failed(&output.join(name), e))?;
    }
    // A folder with something in it is not replaced.
    fs::rename(temporary, output).map_err(|e| failed(output, e))
}

/// Links to a file; where that is not possible, copies it.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(unix)]
    let linked = std::os::unix::fs::symlink(from, to);
    #[cfg(windows)]
    let linked = std::os::windows::fs::symlink_file(from, to);
    #[cfg(not(any(unix, windows)))]
    let linked: io::Result<()> = Err(io::ErrorKind::Unsupported.into());
    match linked {
        Ok(()) => Ok(()),
        Err(_) => fs::copy(from, to).map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn links_keep_their_names() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("pool/boot")).unwrap();
        fs::write(at("pool/boot/7.png"), "seven").unwrap();
        fs::write(at("pool/8.png"), "eight").unwrap();
        // No text, but a name.
        let unreadable = || {
            use std::os::unix::ffi::OsStrExt;
            at("pool").join(std::ffi::OsStr::from_bytes(b"\xff.png"))
        };
        fs::write(unreadable(), "ff").unwrap();
        // Something of an attempt that was cut off.
        fs::create_dir_all(at("half/bag")).unwrap();
        let images = [at("pool/boot/7.png"), at("pool/8.png"), unreadable()];
        let write = || {
            let images = images.iter().map(PathBuf::as_path);
            write(&at("pool"), images, &at("half"), &at("out"))
        };
        write().unwrap();
        assert_eq!(fs::read_to_string(at("out/boot/7.png")).unwrap(), "seven");
        assert_eq!(fs::read_to_string(at("out/8.png")).unwrap(), "eight");
        let linked = at("out").join(unreadable().file_name().unwrap());
        assert_eq!(fs::read_to_string(linked).unwrap(), "ff");
        assert!(!at("out/bag").exists() && !at("half").exists());
        // What is there stays.
        let error = write().unwrap_err().to_string();
        assert!(error.contains("out"), "{error}");
    }
}
