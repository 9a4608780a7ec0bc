//! Opening data: which format a file or folder is, told by its content.
//!
//! Every format stands in a file of its own and implements [`Format`]; [`FORMATS`] lists them. `docs/adding-a-format.md`
//! shows how to add one, here or in a program that uses this crate.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cifar::{self, Cifar};
use crate::csv::Csv;
use crate::error::{DataError, ReadError};
use crate::folder::{self, ImageFolders};
use crate::idx::{self, Idx};
use crate::npy::Npy;
use crate::npz::Npz;
use crate::parquet::Parquet;
use crate::samples::Samples;
use crate::source::Source;

/// A kind of file or folder that holds samples.
pub trait Format: Send + Sync {
    /// What it is called in messages, as in "it is neither npy nor ...".
    fn name(&self) -> &str;

    /// Whether a file or folder looks like one of these. A first look: [`open`](Format::open) finds out whether it is
    /// sound.
    fn recognises(&self, location: &Location<'_>) -> bool;

    /// Opens it: headers are checked and labels in memory, samples are read on demand. The samples have the name
    /// [`spec`](Location::spec).
    fn open(&self, location: &Location<'_>) -> Result<Arc<dyn Samples>, DataError>;
}

/// The formats that [`open`] knows. The first one that recognises a file or folder opens it.
pub static FORMATS: &[&dyn Format] = &[
    &Npy,
    &Npz,
    // Told by name, since its files have no magic bytes. They may start with any, also with those of IDX.
    &Cifar,
    &Idx,
    &Parquet,
    // Told by name: a text has no magic bytes.
    &Csv,
    // Takes every folder that nobody else does.
    &ImageFolders,
];

/// Opens what `spec` names; the format is told by the content.
///
/// | `spec` | samples | labels |
/// |---|---|---|
/// | `file.npy` | its array | - |
/// | `file.npz` | array `x` | array `y`, if there is one |
/// | `file.npz:x_test,y_test` | array `x_test` | array `y_test` |
/// | `file.npz:x_test` | array `x_test` | - |
/// | `file.npz:ids=a,mask=b,y=c` | array `a` for the input `ids`, `b` for `mask` | array `c` |
/// | `file.csv`, `.tsv`, `.parquet` | its columns of numbers | the column that [`Reading::labels`] names, or `y`, `label` or `target` |
/// | `train-images-idx3-ubyte`, also `.gz` and `train-images.idx3-ubyte` | its images | the file `train-labels-...` next to it, if there is one |
/// | `test_batch.bin` | CIFAR-10 or CIFAR-100 records | in the records (CIFAR-100: the fine ones) |
/// | a folder of CIFAR files | `folder:train` or `folder:test`; `folder` where it holds only one of them | in the records |
/// | a folder of folders | PNG and JPEG images | one class per folder, in the order of their names |
/// | a folder of images | PNG and JPEG images | - |
///
/// An npz file's `class_names` and `name`, arrays of texts, are the names of its classes and of its samples.
/// Labels are whole numbers of any type, as `[n]` or `[n, 1]`, or exactly one-hot rows `[n, classes]`: classes. Floats that
/// are neither are the numbers that a model should give ([`Samples::targets`]).
pub fn open(spec: impl AsRef<OsStr>) -> Result<Arc<dyn Samples>, DataError> {
    open_as(spec, &Reading::default())
}

/// As [`open`], for a model of which something is known.
pub fn open_as(spec: impl AsRef<OsStr>, reading: &Reading) -> Result<Arc<dyn Samples>, DataError> {
    open_with(FORMATS, spec, reading)
}

/// What data is read for, where a file holds more than one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The names of the model's inputs that data is for. Of an npz file, arrays of these names are read where there are
    /// several, or no `x`.
    pub inputs: Vec<String>,
    /// What holds the labels: a column of a table, or an array of an npz file.
    pub labels: Option<String>,
    /// Whether labels are kinds, finer than the classes: names of classes are not theirs, and are left out.
    pub kinds: bool,
}

/// As [`open_as`], with formats of the caller's choice: [`FORMATS`], others in front of them, or others alone.
pub fn open_with(
    formats: &[&dyn Format],
    spec: impl AsRef<OsStr>,
    reading: &Reading,
) -> Result<Arc<dyn Samples>, DataError> {
    let location = Location::new(spec.as_ref(), reading)?;
    match formats.iter().find(|format| format.recognises(&location)) {
        Some(format) => format.open(&location),
        None => {
            location.refuse_part()?;
            Err(DataError::UnknownFormat {
                file: location.file(),
                known: listing(formats),
            })
        }
    }
}

/// The files and folders that are read for `spec`, labels included. None is opened.
pub fn files(spec: impl AsRef<OsStr>) -> Vec<PathBuf> {
    let (path, _) = split(spec.as_ref());
    let labels = idx::label_candidates(&path);
    let labels = labels.into_iter().filter(|file| file.is_file());
    [path].into_iter().chain(labels).collect()
}

/// Whether a file of this name, in a folder of samples, is one of them: an image, or CIFAR records.
pub fn is_of_folder(file: &Path) -> bool {
    folder::is_image(file) || cifar::is_records(file)
}

/// The path in a specification, and the part behind a colon. A path that exists is meant as it is, even with a colon in it.
pub fn split(spec: &OsStr) -> (PathBuf, Option<&str>) {
    match at_colon(spec) {
        Some((path, part)) if !Path::new(spec).exists() && path.exists() => (path, Some(part)),
        _ => (PathBuf::from(spec), None),
    }
}

/// What stands before and behind the last colon. A path may be any bytes; behind the colon there is text.
fn at_colon(spec: &OsStr) -> Option<(PathBuf, &str)> {
    let bytes = spec.as_encoded_bytes();
    let colon = bytes.iter().rposition(|&byte| byte == b':')?;
    let part = std::str::from_utf8(&bytes[colon + 1..]).ok()?;
    #[cfg(unix)]
    let path: &OsStr = std::os::unix::ffi::OsStrExt::from_bytes(&bytes[..colon]);
    #[cfg(not(unix))]
    let path: &OsStr = spec.to_str()?.get(..colon)?.as_ref();
    Some((path.into(), part))
}

/// The names of formats, as they follow "neither".
fn listing(formats: &[&dyn Format]) -> String {
    let mut names: Vec<&str> = formats.iter().map(|format| format.name()).collect();
    // A list is read most easily with its short names first.
    names.sort_by_key(|name| name.len());
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("{} nor {last}", others.join(", "))
        }
        _ => names.concat(),
    }
}

/// The file or folder that a specification names, and the part of it that is meant.
#[derive(Debug)]
pub struct Location<'s> {
    spec: &'s OsStr,
    path: PathBuf,
    part: Option<&'s str>,
    reading: &'s Reading,
    /// Of a file.
    source: Option<Source>,
    start: Vec<u8>,
}

impl<'s> Location<'s> {
    /// Finds what `spec` names, `PATH` or `PATH:PART`, and reads the first bytes of a file.
    fn new(spec: &'s OsStr, reading: &'s Reading) -> Result<Location<'s>, DataError> {
        let (path, part) = split(spec);
        let mut location = Location {
            spec,
            path,
            part,
            reading,
            source: None,
            start: Vec::new(),
        };
        if !location.path.is_dir() {
            let (source, start) = begin(&location.path)
                .map_err(ReadError::from)
                .map_err(|error| error.in_file(location.file()))?;
            location.source = Some(source);
            location.start = start;
        }
        Ok(location)
    }

    /// The specification as it was given, for messages and records.
    pub fn spec(&self) -> Cow<'s, str> {
        self.spec.to_string_lossy()
    }

    /// The file or folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file or folder, for messages.
    pub fn file(&self) -> String {
        self.path.display().to_string()
    }

    /// What follows the colon, where something does: names of arrays, or of one of several sets.
    pub fn part(&self) -> Option<&'s str> {
        self.part
    }

    /// What it is read for.
    pub fn reading(&self) -> &'s Reading {
        self.reading
    }

    /// Whether it is a folder.
    pub fn is_folder(&self) -> bool {
        self.source.is_none()
    }

    /// The first bytes of a file: eight, or all where it is shorter. A folder has none.
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    /// The bytes of a file; an error for a folder.
    pub fn source(&self) -> Result<&Source, DataError> {
        let folder = || ReadError::unsupported("is a folder").in_file(self.file());
        self.source.as_ref().ok_or_else(folder)
    }

    /// Fails where a part is named: for formats that have none.
    pub fn refuse_part(&self) -> Result<(), DataError> {
        match self.part {
            None => Ok(()),
            Some(part) => Err(DataError::Spec {
                spec: format!("{}:{part}", self.file()),
                reason: "only npz files hold arrays with names".to_owned(),
            }),
        }
    }
}

/// A file and its first bytes.
fn begin(path: &Path) -> std::io::Result<(Source, Vec<u8>)> {
    const START: u64 = 8;
    let source = Source::open(path)?;
    let mut start = vec![0; source.len().min(START) as usize];
    source.read_at(0, &mut start)?;
    Ok((source, start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_separates_unless_it_is_part_of_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a"), "").unwrap();
        std::fs::write(at("b:x"), "").unwrap();
        let cases = [
            ("a:x,y", "a", Some("x,y")),
            ("b:x", "b:x", None),
            ("c:x", "c:x", None),
        ];
        for (spec, path, part) in cases {
            assert_eq!(split(at(spec).as_os_str()), (at(path), part), "{spec}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn paths_may_be_any_bytes() {
        use std::os::unix::ffi::OsStrExt;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
        std::fs::write(at(b"\xff.npz"), "").unwrap();
        let (path, part) = (at(b"\xff.npz"), at(b"\xff.npz:x"));
        assert_eq!(split(part.as_os_str()), (path, Some("x")));
        assert_eq!(files(&part), [at(b"\xff.npz")]);
    }
}
