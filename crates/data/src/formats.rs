//! Opening data: which format a file or folder is, told by its content.
//!
//! Every format stands in a file of its own and implements [`Format`]; [`FORMATS`] lists them. `docs/adding-a-format.md`
//! shows how to add one, here or in a program that uses this crate.

use std::path::Path;
use std::sync::Arc;

use crate::cifar::Cifar;
use crate::error::{DataError, ReadError};
use crate::folder::ImageFolders;
use crate::idx::Idx;
use crate::npy::Npy;
use crate::npz::Npz;
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
/// | `train-images-idx3-ubyte`, also `.gz` and `train-images.idx3-ubyte` | its images | the file `train-labels-...` next to it, if there is one |
/// | `test_batch.bin` | CIFAR-10 or CIFAR-100 records | in the records (CIFAR-100: the fine ones) |
/// | a folder of CIFAR files | `folder:train` or `folder:test`; `folder` where it holds only one of them | in the records |
/// | a folder of folders | PNG and JPEG images | one class per folder, in the order of their names |
/// | a folder of images | PNG and JPEG images | - |
///
/// Labels are whole numbers of any type, as `[n]` or `[n, 1]`, or exactly one-hot rows `[n, classes]`.
pub fn open(spec: &str) -> Result<Arc<dyn Samples>, DataError> {
    open_with(FORMATS, spec)
}

/// As [`open`], with formats of the caller's choice: [`FORMATS`], others in front of them, or others alone.
pub fn open_with(formats: &[&dyn Format], spec: &str) -> Result<Arc<dyn Samples>, DataError> {
    let location = Location::new(spec)?;
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
    spec: &'s str,
    path: &'s Path,
    part: Option<&'s str>,
    /// Of a file.
    source: Option<Source>,
    start: Vec<u8>,
}

impl<'s> Location<'s> {
    /// Finds what `spec` names, `PATH` or `PATH:PART`, and reads the first bytes of a file.
    fn new(spec: &'s str) -> Result<Location<'s>, DataError> {
        // A path that exists is meant as it is, even with a colon in it.
        let (path, part) = match spec.rsplit_once(':') {
            Some((path, part)) if !Path::new(spec).exists() && Path::new(path).exists() => {
                (Path::new(path), Some(part))
            }
            _ => (Path::new(spec), None),
        };
        let mut location = Location {
            spec,
            path,
            part,
            source: None,
            start: Vec::new(),
        };
        if !path.is_dir() {
            let (source, start) = begin(path)
                .map_err(ReadError::from)
                .map_err(|error| error.in_file(location.file()))?;
            location.source = Some(source);
            location.start = start;
        }
        Ok(location)
    }

    /// The specification as it was given.
    pub fn spec(&self) -> &'s str {
        self.spec
    }

    /// The file or folder.
    pub fn path(&self) -> &'s Path {
        self.path
    }

    /// The file or folder, for messages.
    pub fn file(&self) -> String {
        self.path.display().to_string()
    }

    /// What follows the colon, where something does: names of arrays, or of one of several sets.
    pub fn part(&self) -> Option<&'s str> {
        self.part
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
