//! Classes that are matched by name: labels count the classes that data has, a model counts its own.
//!
//! A folder that holds two of ten classes labels them 0 and 1. Where the names of the model's classes are known, each
//! label is changed to the place of its name among those.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::digest::Digest;
use crate::error::{DataError, ReadError};
use crate::labels::{Classes, Targets};
use crate::samples::{Images, SampleInput, Samples};

/// Bytes of the longest file of names, or of words.
const LONGEST: u64 = 16 << 20;

/// Names that are listed in a message.
const LISTED: usize = 20;

/// Samples as they are for a model whose classes have these names, the first one that of class 0.
///
/// Labels of samples whose classes have names are those of the same names here; a name that is not here is an error.
/// Samples without names of classes have these.
///
/// ```
/// use std::sync::Arc;
/// use npcov_data::{Arrays, Samples, match_classes};
///
/// let two = Arrays::new("x", &[3], [0.0_f32, 1.0, 2.0])?
///     .with_labels(vec![0, 1, 1])?
///     .with_class_names(["boot", "shirt"])?;
/// let model = ["bag", "boot", "coat", "shirt"].map(str::to_owned);
/// let matched = match_classes(Arc::new(two), &model)?;
/// assert_eq!(matched.labels(), Some(&[1, 3, 3][..]));
/// # Ok::<(), npcov_data::DataError>(())
/// ```
pub fn match_classes<'a>(
    samples: Arc<dyn Samples + 'a>,
    classes: &[String],
) -> Result<Arc<dyn Samples + 'a>, DataError> {
    let own = samples.class_names();
    if own == Some(classes) {
        return Ok(samples);
    }
    let labels = match own {
        None => None,
        Some(own) => {
            let places: HashMap<&str, i64> = classes.iter().map(String::as_str).zip(0..).collect();
            let place = |name: &String| places.get(name.as_str()).copied();
            let unknown: Vec<&String> = own.iter().filter(|name| place(name).is_none()).collect();
            if !unknown.is_empty() {
                return Err(DataError::UnknownClasses {
                    file: samples.name().to_owned(),
                    found: listing(own),
                    unknown: listing(unknown),
                    known: listing(classes),
                });
            }
            let moved: Vec<Option<i64>> = own.iter().map(place).collect();
            // A label without a name stays what it is, and is refused where labels are used.
            let matched = |label: i64| {
                let moved = usize::try_from(label)
                    .ok()
                    .and_then(|label| moved.get(label));
                moved.copied().flatten().unwrap_or(label)
            };
            let labels = (0..samples.len()).filter_map(|row| samples.label(row));
            samples.is_labelled().then(|| labels.map(matched).collect())
        }
    };
    Ok(Arc::new(Matched {
        samples,
        classes: classes.to_vec(),
        labels,
        targets: None,
    }))
}

/// Samples with classes of the caller's own, made from the numbers that a model should give: the names of the classes, the
/// class of each sample, and its numbers.
pub fn with_classes<'a>(
    samples: Arc<dyn Samples + 'a>,
    classes: Vec<String>,
    labels: Vec<i64>,
    targets: Targets,
) -> Result<Arc<dyn Samples + 'a>, DataError> {
    if labels.len() != samples.len() || targets.rows() != samples.len() {
        return Err(DataError::Labels {
            file: samples.name().to_owned(),
            reason: format!(
                "there are {} labels for {} samples",
                labels.len(),
                samples.len()
            ),
        });
    }
    Ok(Arc::new(Matched {
        samples,
        classes,
        labels: Some(labels.into_iter().collect()),
        targets: Some(targets),
    }))
}

/// Reads the words for the numbers of tokens from a file, one a line, the first one that of token 0. A vocabulary may have
/// empty words, and a word twice.
pub fn read_vocabulary(path: impl AsRef<Path>) -> Result<Vec<String>, DataError> {
    Ok(text_of(path.as_ref())?.lines().map(str::to_owned).collect())
}

fn text_of(path: &Path) -> Result<String, DataError> {
    let text = npcov_file::read_text(path, LONGEST);
    text.map_err(|error| ReadError::Io(error).in_file(path.display().to_string()))
}

/// Reads the names of a model's classes from a file, one a line, the first one that of class 0.
pub fn read_class_names(path: impl AsRef<Path>) -> Result<Vec<String>, DataError> {
    let path = path.as_ref();
    let file = || path.display().to_string();
    let text = text_of(path)?;
    let names: Vec<String> = text
        .trim_end()
        .lines()
        .map(|l| l.trim().to_owned())
        .collect();
    let wrong = |reason: String| DataError::Names {
        file: file(),
        reason,
    };
    let mut known = BTreeSet::new();
    for (i, name) in names.iter().enumerate() {
        if name.is_empty() {
            return Err(wrong(format!("line {} is empty", i + 1)));
        }
        if !known.insert(name) {
            return Err(wrong(format!("there are two classes `{name}`")));
        }
    }
    match names.is_empty() {
        true => Err(wrong("there is none".to_owned())),
        false => Ok(names),
    }
}

/// The first names, for a message.
fn listing<'n>(names: impl IntoIterator<Item = &'n String, IntoIter: ExactSizeIterator>) -> String {
    let names = names.into_iter();
    let more = names.len().saturating_sub(LISTED);
    let mut shown: Vec<String> = names
        .take(LISTED)
        .map(|name| format!("`{}`", name.escape_debug()))
        .collect();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    match shown.is_empty() {
        true => "none".to_owned(),
        false => shown.join(", "),
    }
}

/// Samples with the classes of a model.
struct Matched<'a> {
    samples: Arc<dyn Samples + 'a>,
    classes: Vec<String>,
    /// Where they are others than those of the samples.
    labels: Option<Classes<'static>>,
    targets: Option<Targets>,
}

impl Matched<'_> {
    /// Whether the samples have these labels.
    fn are_of_samples(&self, labels: &Classes<'_>) -> bool {
        let own = (0..self.samples.len()).filter_map(|row| self.samples.label(row));
        self.samples.is_labelled() && own.eq(labels.iter())
    }
}

impl Samples for Matched<'_> {
    fn name(&self) -> &str {
        self.samples.name()
    }

    fn len(&self) -> usize {
        self.samples.len()
    }

    fn inputs(&self) -> &[SampleInput] {
        self.samples.inputs()
    }

    fn read(&self, input: usize, rows: Range<usize>, out: &mut [u8]) -> Result<(), DataError> {
        self.samples.read(input, rows, out)
    }

    fn read_f32(
        &self,
        input: usize,
        rows: Range<usize>,
        scratch: &mut Vec<u8>,
        out: &mut [f32],
    ) -> Result<(), DataError> {
        self.samples.read_f32(input, rows, scratch, out)
    }

    fn images(&self, input: usize) -> Option<&dyn Images> {
        self.samples.images(input)
    }

    fn labels(&self) -> Option<&[i64]> {
        match &self.labels {
            Some(labels) => Some(labels.all()),
            None => self.samples.labels(),
        }
    }

    fn is_labelled(&self) -> bool {
        self.labels.is_some() || self.samples.is_labelled()
    }

    fn label(&self, row: usize) -> Option<i64> {
        match &self.labels {
            Some(labels) => labels.get(row),
            None => self.samples.label(row),
        }
    }

    fn targets(&self) -> Option<&Targets> {
        match &self.targets {
            Some(targets) => Some(targets),
            None => self.samples.targets(),
        }
    }

    fn class_names(&self) -> Option<&[String]> {
        Some(&self.classes)
    }

    fn sample_name(&self, row: usize) -> Option<Cow<'_, str>> {
        self.samples.sample_name(row)
    }

    fn sample_file(&self, row: usize) -> Option<&Path> {
        self.samples.sample_file(row)
    }

    fn known_blocks(&self) -> Option<&[Digest]> {
        self.samples.known_blocks()
    }

    /// That of the samples, and of the labels where these have changed.
    fn digest(&self) -> Result<Digest, DataError> {
        let digest = self.samples.digest()?;
        match &self.labels {
            Some(labels) if !self.are_of_samples(labels) => {
                let labels = labels.iter().flat_map(i64::to_le_bytes);
                let contents: Vec<u8> = digest.as_bytes().iter().copied().chain(labels).collect();
                Ok(Digest::of(&contents))
            }
            _ => Ok(digest),
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::arrays::Arrays;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn samples(labels: &[i64], classes: Option<&[&str]>) -> Arc<dyn Samples> {
        let pixels = vec![7u8; labels.len()];
        let arrays = Arrays::new("x", &[labels.len()], pixels)
            .unwrap()
            .named("data");
        let arrays = arrays.with_labels(labels.to_vec()).unwrap();
        match classes {
            Some(classes) => Arc::new(arrays.with_class_names(classes.to_vec()).unwrap()),
            None => Arc::new(arrays),
        }
    }

    #[test]
    fn labels_follow_the_names() {
        let model = names(&["bag", "boot", "coat"]);
        let data = samples(&[1, 0, 1], Some(&["boot", "coat"]));
        let matched = match_classes(data.clone(), &model).unwrap();
        assert_eq!(matched.labels(), Some(&[2, 1, 2][..]));
        assert_eq!(matched.class_names(), Some(&model[..]));
        // Other labels are other data, and the same ones the same.
        let digest = |samples: &Arc<dyn Samples>| samples.digest().unwrap();
        assert_ne!(digest(&matched), digest(&data));
        let prefix = samples(&[1, 0, 1], Some(&["bag", "boot"]));
        let matched = match_classes(prefix.clone(), &model).unwrap();
        assert_eq!(matched.labels(), Some(&[1, 0, 1][..]));
        assert_eq!(digest(&matched), digest(&prefix));
    }

    #[test]
    fn without_names_labels_stay() {
        let matched = match_classes(samples(&[2, 9], None), &names(&["a", "b", "c"])).unwrap();
        assert_eq!(matched.labels(), Some(&[2, 9][..]));
        assert_eq!(matched.class_names().unwrap().len(), 3);
    }

    #[test]
    fn unknown_classes_list_both_sides() {
        let data = samples(&[0, 1], Some(&["boot", "hat"]));
        let error = match_classes(data, &names(&["bag", "boot"])).err().unwrap();
        assert_eq!(
            error.to_string(),
            "`data` has the classes `boot`, `hat`; the model has no `hat`, but `bag`, `boot`"
        );
        let many: Vec<String> = (0..25).map(|i| i.to_string()).collect();
        let error = match_classes(samples(&[0], Some(&["hat"])), &many)
            .err()
            .unwrap();
        assert!(error.to_string().ends_with("`19`, and 5 more"), "{error}");
    }

    #[test]
    fn files_hold_one_name_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("names.txt");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_class_names(&path).map_err(|error| error.to_string())
        };
        assert_eq!(
            read("T-shirt/top\r\nankle boot\n\n").unwrap(),
            ["T-shirt/top", "ankle boot"]
        );
        assert!(read("a\n\nb\n").unwrap_err().contains("line 2 is empty"));
        assert!(read("a\nb\na\n").unwrap_err().contains("two classes `a`"));
        assert!(read("\n").unwrap_err().contains("there is none"));
        assert!(read_class_names(folder.path().join("no")).is_err());
    }
}
