//! Opening a dataset: which format a path is, and where its samples and labels are.

use std::path::{Path, PathBuf};

use crate::element::Element;
use crate::error::{DataError, ReadError};
use crate::folder::ImageFolder;
use crate::npz::Archive;
use crate::rows::Rows;
use crate::source::Source;
use crate::{cifar, folder, idx, labels, npy, npz};

/// An opened dataset: headers are checked, labels are in memory, samples are read on demand by a [`Loader`].
///
/// [`Loader`]: crate::Loader
#[derive(Debug)]
pub struct Dataset {
    name: String,
    samples: Samples,
    labels: Option<Vec<i64>>,
    class_names: Option<Vec<String>>,
}

/// Where the samples come from.
#[derive(Debug)]
pub(crate) enum Samples {
    Rows(Rows),
    Images(ImageFolder),
}

impl Dataset {
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
    pub fn open(spec: &str) -> Result<Dataset, DataError> {
        // A path that exists is meant as it is, even with a colon in it.
        let (path, part) = match spec.rsplit_once(':') {
            Some((path, part)) if !Path::new(spec).exists() && Path::new(path).exists() => {
                (Path::new(path), Some(part))
            }
            _ => (Path::new(spec), None),
        };
        let dataset = if path.is_dir() {
            Dataset::open_folder(path, part)?
        } else {
            Dataset::open_file(path, part)?
        };
        let labels = dataset.labels.as_ref().map_or(dataset.len(), Vec::len);
        if labels != dataset.len() {
            return Err(DataError::Labels {
                file: spec.to_owned(),
                reason: format!("there are {labels} labels for {} samples", dataset.len()),
            });
        }
        Ok(Dataset {
            name: spec.to_owned(),
            ..dataset
        })
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        match &self.samples {
            Samples::Rows(rows) => rows.len(),
            Samples::Images(images) => images.len(),
        }
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The specification it was opened with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One label per sample, where the dataset has labels.
    pub fn labels(&self) -> Option<&[i64]> {
        self.labels.as_deref()
    }

    /// The names of the classes, by label: those of the class folders.
    pub fn class_names(&self) -> Option<&[String]> {
        self.class_names.as_deref()
    }

    /// Shape of one sample as it is stored; of an image folder, height, width and channels of its first image.
    pub fn sample_shape(&self) -> &[usize] {
        match &self.samples {
            Samples::Rows(rows) => rows.sample_shape(),
            Samples::Images(images) => images.shape(),
        }
    }

    /// The type of the stored numbers.
    pub fn element(&self) -> Element {
        match &self.samples {
            Samples::Rows(rows) => rows.element(),
            Samples::Images(_) => Element::U8,
        }
    }

    pub(crate) fn samples(&self) -> &Samples {
        &self.samples
    }

    fn of_rows(rows: Rows, labels: Option<Vec<i64>>) -> Dataset {
        Dataset {
            name: String::new(),
            samples: Samples::Rows(rows),
            labels,
            class_names: None,
        }
    }

    fn open_folder(path: &Path, part: Option<&str>) -> Result<Dataset, DataError> {
        let file = path.display().to_string();
        let cifar =
            cifar::Folder::find(path).map_err(|error| ReadError::Io(error).in_file(&file))?;
        let files = match (part, cifar.train.is_empty(), cifar.test.is_empty()) {
            (Some("train") | None, false, true) | (Some("train"), false, false) => cifar.train,
            (Some("test") | None, true, false) | (Some("test"), false, false) => cifar.test,
            (None, true, true) => {
                let contents = folder::open(path)?;
                let (class_names, labels) = contents.classes.unzip();
                return Ok(Dataset {
                    name: file,
                    samples: Samples::Images(contents.images),
                    labels,
                    class_names,
                });
            }
            (None, false, false) => {
                return Err(DataError::Spec {
                    spec: file.clone(),
                    reason: format!(
                        "the folder holds CIFAR training and test files; name `{file}:train` or `{file}:test`"
                    ),
                });
            }
            (Some(part), ..) => {
                return Err(DataError::Spec {
                    spec: format!("{file}:{part}"),
                    reason: format!("the folder holds no CIFAR files called `{part}`"),
                });
            }
        };
        let (rows, labels) = cifar::open(&files)?;
        Ok(Dataset::of_rows(rows, Some(labels)))
    }

    fn open_file(path: &Path, part: Option<&str>) -> Result<Dataset, DataError> {
        let file = path.display().to_string();
        let source = Source::open(path).map_err(|error| ReadError::Io(error).in_file(&file))?;
        let mut start = [0; 8];
        let known = usize::try_from(source.len()).unwrap_or(8).min(8);
        source
            .read_at(0, &mut start[..known])
            .map_err(|error| ReadError::Io(error).in_file(&file))?;
        if start.starts_with(&npz::LOCAL_HEADER) || start.starts_with(&npz::END_OF_DIRECTORY) {
            return open_npz(&file, source, part);
        }
        if let Some(part) = part {
            return Err(DataError::Spec {
                spec: format!("{file}:{part}"),
                reason: "only npz files hold arrays with names".to_owned(),
            });
        }
        if start.starts_with(npy::MAGIC) {
            let rows = npy::open(&source).map_err(|error| error.in_file(&file))?;
            return Ok(Dataset::of_rows(rows, None));
        }
        // By name and in front of IDX: CIFAR files have no magic bytes and may start with any.
        if path.extension().is_some_and(|extension| extension == "bin") {
            let (rows, labels) = cifar::open(&[path.to_owned()])?;
            return Ok(Dataset::of_rows(rows, Some(labels)));
        }
        let [a, b, c, d, ..] = start;
        if idx::starts_like(&[a, b, c, d]) || start.starts_with(idx::GZIP) {
            return open_idx(path, &source);
        }
        Err(DataError::UnknownFormat { file })
    }
}

fn open_npz(file: &str, source: Source, part: Option<&str>) -> Result<Dataset, DataError> {
    let archive = Archive::open(source).map_err(|error| error.in_file(file))?;
    let array = |name: &str| {
        let rows = archive.array(name);
        rows.map_err(|error| error.in_file(format!("{file}:{name}")))
    };
    let required = |name: &str| {
        array(name)?.ok_or_else(|| DataError::NoArray {
            file: file.to_owned(),
            array: name.to_owned(),
            found: listing(&archive),
        })
    };
    let read_labels = |name: &str, rows: &Rows| labels::read(rows, &format!("{file}:{name}"));
    match part
        .map(|part| part.split(',').collect::<Vec<_>>())
        .as_deref()
    {
        None => {
            let samples = required("x")?;
            let found = array("y")?;
            let labels = found.map(|rows| read_labels("y", &rows)).transpose()?;
            Ok(Dataset::of_rows(samples, labels))
        }
        Some([x]) if !x.is_empty() => Ok(Dataset::of_rows(required(x)?, None)),
        Some([x, y]) if !x.is_empty() && !y.is_empty() => {
            let samples = required(x)?;
            let labels = read_labels(y, &required(y)?)?;
            Ok(Dataset::of_rows(samples, Some(labels)))
        }
        Some(_) => Err(DataError::Spec {
            spec: format!("{file}:{}", part.unwrap_or_default()),
            reason: "name the samples, or samples and labels, as in `file.npz:x_test,y_test`"
                .to_owned(),
        }),
    }
}

/// The first names of an archive, for an error message.
fn listing(archive: &Archive) -> String {
    const SHOWN: usize = 12;
    let mut names: Vec<String> = archive
        .names()
        .take(SHOWN)
        .map(|name| format!("`{}`", name.escape_debug()))
        .collect();
    let more = archive.names().count() - names.len();
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    if names.is_empty() {
        "no arrays".to_owned()
    } else {
        names.join(", ")
    }
}

fn open_idx(path: &Path, source: &Source) -> Result<Dataset, DataError> {
    let file = path.display().to_string();
    let rows = idx::open(source).map_err(|error| error.in_file(&file))?;
    let found: Option<PathBuf> = idx::label_candidates(path)
        .into_iter()
        .find(|candidate| candidate.is_file());
    let labels = found.map(|path| {
        let file = path.display().to_string();
        let rows = Source::open(&path)
            .map_err(ReadError::from)
            .and_then(|source| idx::open(&source))
            .map_err(|error| error.in_file(&file))?;
        labels::read(&rows, &file)
    });
    Ok(Dataset::of_rows(rows, labels.transpose()?))
}
