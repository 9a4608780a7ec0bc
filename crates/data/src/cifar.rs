//! The binary form of CIFAR-10 and CIFAR-100: records of one or two label bytes and a 3x32x32 image, nothing else.
//!
//! The files have no header. What tells them apart is the length of their records, which must divide the length of the
//! file, and the range of their labels.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::arrays::Arrays;
use crate::error::{DataError, ReadError};
use crate::formats::{Format, Location};
use crate::rows::Rows;
use crate::samples::Samples;
use crate::source::Source;

const IMAGE: [usize; 3] = [3, 32, 32];
const IMAGE_BYTES: usize = 3 * 32 * 32;

/// A file of records, or a folder of such files under their official names.
pub(crate) struct Cifar;

impl Format for Cifar {
    fn name(&self) -> &str {
        "CIFAR binary (`.bin`)"
    }

    fn recognises(&self, location: &Location<'_>) -> bool {
        let path = location.path();
        if location.is_folder() {
            // No other folders have parts.
            let some = |found: Folder| found != Folder::default();
            return location.part().is_some() || Folder::find(path).is_ok_and(some);
        }
        is_records(path)
    }

    fn open(&self, location: &Location<'_>) -> Result<Arc<dyn Samples>, DataError> {
        let files = if location.is_folder() {
            Folder::files(location)?
        } else {
            location.refuse_part()?;
            vec![location.path().to_owned()]
        };
        let (rows, labels) = open(&files)?;
        let samples = Arrays::of_rows("x", rows)?.named(location.spec());
        Ok(Arc::new(samples.with_labels(labels)?))
    }
}

/// Whether a file is one of records, by its name.
pub(crate) fn is_records(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "bin")
}

/// One of the two forms of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    /// Number of classes each label byte can name; the last one is the label.
    classes: &'static [u8],
}

/// CIFAR-10: one label. CIFAR-100: the coarse label, then the fine one.
const FORMS: [Form; 2] = [
    Form { classes: &[10] },
    Form {
        classes: &[20, 100],
    },
];

impl Form {
    fn record(self) -> usize {
        self.classes.len() + IMAGE_BYTES
    }

    /// The labels of a file, or nothing where it is not of this form.
    fn labels(self, source: &Source) -> Result<Option<Vec<i64>>, ReadError> {
        let record = self.record() as u64;
        if source.is_empty() || !source.len().is_multiple_of(record) {
            return Ok(None);
        }
        let mut labels = Vec::new();
        let mut bytes = [0; 2];
        let bytes = &mut bytes[..self.classes.len()];
        for start in (0..source.len()).step_by(self.record()) {
            source.read_at(start, bytes)?;
            if bytes
                .iter()
                .zip(self.classes)
                .any(|(label, classes)| label >= classes)
            {
                return Ok(None);
            }
            labels.extend(bytes.last().map(|&label| i64::from(label)));
        }
        Ok(Some(labels))
    }
}

/// The images and labels of CIFAR files, in the order given. All must have the same form.
fn open(files: &[PathBuf]) -> Result<(Rows, Vec<i64>), DataError> {
    let mut form = None;
    let mut labels = Vec::new();
    let mut sources = Vec::new();
    for file in files {
        let name = || file.display().to_string();
        let found = Source::open(file)
            .map_err(ReadError::from)
            .and_then(|source| read(&source).map(|(form, labels)| (source, form, labels)));
        let (source, this, these) = found.map_err(|error| error.in_file(name()))?;
        if *form.get_or_insert(this) != this {
            let error =
                ReadError::malformed("is not of the same CIFAR form as the files before it");
            return Err(error.in_file(name()));
        }
        labels.extend(these);
        sources.push(source);
    }
    let form = form.unwrap_or(FORMS[0]);
    let rows = Rows::in_records(&IMAGE, form.classes.len(), form.record(), sources);
    let first = files.first().map(|file| file.display().to_string());
    let rows = rows.map_err(|error| error.in_file(first.unwrap_or_default()))?;
    Ok((rows, labels))
}

fn read(source: &Source) -> Result<(Form, Vec<i64>), ReadError> {
    let mut found = Vec::new();
    for form in FORMS {
        found.extend(form.labels(source)?.map(|labels| (form, labels)));
    }
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(_), false) => Err(ReadError::malformed(
            "fits both CIFAR-10 and CIFAR-100; split it into files of 10,000 images",
        )),
        (None, _) => Err(ReadError::malformed(format!(
            "is no CIFAR binary file: its {} bytes are not a whole number of records with one label (3073 bytes, label \
             below 10) or two (3074 bytes, labels below 20 and 100)",
            source.len()
        ))),
    }
}

/// Files of a folder that hold CIFAR sets under their official names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Folder {
    train: Vec<PathBuf>,
    test: Vec<PathBuf>,
}

impl Folder {
    /// Looks for `data_batch_*.bin` or `train.bin`, and `test_batch.bin` or `test.bin`.
    fn find(folder: &Path) -> std::io::Result<Folder> {
        let mut found = Folder::default();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or("");
            let Some(stem) = name.strip_suffix(".bin") else {
                continue;
            };
            if stem == "train" || stem.starts_with("data_batch_") {
                found.train.push(path);
            } else if stem == "test" || stem == "test_batch" {
                found.test.push(path);
            }
        }
        // By length first, so that batch 10 follows batch 9.
        found
            .train
            .sort_by_key(|path| (path.as_os_str().len(), path.clone()));
        found.test.sort();
        Ok(found)
    }

    /// The files of the set that is named, or of the only one.
    fn files(location: &Location<'_>) -> Result<Vec<PathBuf>, DataError> {
        let file = location.file();
        let found = Folder::find(location.path());
        let found = found.map_err(|error| ReadError::Io(error).in_file(&file))?;
        match (
            location.part(),
            found.train.is_empty(),
            found.test.is_empty(),
        ) {
            (Some("train") | None, false, true) | (Some("train"), false, false) => Ok(found.train),
            (Some("test") | None, true, false) | (Some("test"), false, false) => Ok(found.test),
            (None, ..) => Err(DataError::Spec {
                reason: format!(
                    "the folder holds CIFAR training and test files; name `{file}:train` or `{file}:test`"
                ),
                spec: file,
            }),
            (Some(part), ..) => Err(DataError::Spec {
                spec: format!("{file}:{part}"),
                reason: format!("the folder holds no CIFAR files called `{part}`"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(labels: &[u8], fill: u8) -> Vec<u8> {
        let mut bytes = labels.to_vec();
        bytes.extend([fill; IMAGE_BYTES]);
        bytes
    }

    fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn both_forms_are_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let ten = write(
            folder.path(),
            "a.bin",
            &[record(&[3], 1), record(&[9], 2)].concat(),
        );
        let hundred = write(folder.path(), "b.bin", &record(&[19, 99], 5));
        let (rows, labels) = open(&[ten.clone(), ten.clone()]).unwrap();
        assert_eq!((rows.len(), rows.sample_shape()), (4, &IMAGE[..]));
        assert_eq!(labels, [3, 9, 3, 9]);
        let mut out = vec![0.0; 2 * IMAGE_BYTES];
        rows.read_f32(1..3, &mut Vec::new(), &mut out).unwrap();
        assert_eq!(
            (out[0], out[IMAGE_BYTES - 1], out[IMAGE_BYTES]),
            (2.0, 2.0, 1.0)
        );
        let (rows, labels) = open(std::slice::from_ref(&hundred)).unwrap();
        assert_eq!((rows.len(), labels), (1, vec![99]));
        assert!(open(&[ten, hundred]).is_err(), "two forms");
    }

    #[test]
    fn other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for bytes in [vec![], vec![0; 3072], record(&[10], 0), record(&[20, 0], 0)] {
            let path = write(folder.path(), "x.bin", &bytes);
            let error = open(&[path]).unwrap_err().to_string();
            assert!(error.contains("is no CIFAR binary file"), "{error}");
        }
    }

    #[test]
    fn folders_know_training_and_test_files() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "data_batch_10.bin",
            "data_batch_2.bin",
            "data_batch_1.bin",
            "test_batch.bin",
            "readme.html",
        ] {
            write(folder.path(), name, b"");
        }
        let found = Folder::find(folder.path()).unwrap();
        let expected = ["data_batch_1.bin", "data_batch_2.bin", "data_batch_10.bin"];
        assert_eq!(found.train, expected.map(|name| folder.path().join(name)));
        assert_eq!(found.test, [folder.path().join("test_batch.bin")]);
    }
}
