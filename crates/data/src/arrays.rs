//! Arrays with one row per sample, in memory or in files.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use crate::digest::{Fingerprint, OnceFingerprint};
use crate::error::{DataError, ReadError};
use crate::labels::{Classes, Labels, Targets};
use crate::rows::Rows;
use crate::samples::{SampleInput, Samples, input_at};
use crate::scalar::Scalar;

/// Samples in arrays: one for every input, with a row for each sample.
///
/// Numbers in memory may be owned or borrowed: whatever gives a slice of them is taken, as a `Vec<f32>`, a `&[u8]` or an
/// `Arc<[i64]>`, and read where it lies. Arrays in files ([`Rows`]) are read from there.
///
/// ```
/// use npcov_data::{Arrays, Samples};
///
/// # fn main() -> Result<(), npcov_data::DataError> {
/// let pixels: Vec<u8> = (0..2 * 28 * 28).map(|i| i as u8).collect();
/// let digits = Arrays::new("x", &[2, 28, 28], &pixels[..])?
///     .named("two digits")
///     .with_labels(vec![0, 1])?
///     .with_class_names(["zero", "one"])?
///     .with_sample_names(["first", "second"])?
///     .with_input("weight", &[2], [0.5f32, 1.0])?;
/// assert_eq!(digits.len(), 2);
/// assert_eq!(digits.inputs()[0].shape(), [28, 28]);
/// assert_eq!(digits.sample_name(1).as_deref(), Some("second"));
/// # Ok(())
/// # }
/// ```
pub struct Arrays<'a> {
    name: String,
    len: usize,
    inputs: Vec<SampleInput>,
    /// The numbers of each input.
    arrays: Vec<Box<dyn Array + 'a>>,
    labels: Option<Classes<'a>>,
    targets: Option<Targets>,
    class_names: Option<Vec<String>>,
    sample_names: Option<Vec<String>>,
    fingerprint: OnceFingerprint,
}

/// The numbers of one input. Ranges and buffers that it is asked with were checked.
trait Array: Send + Sync {
    /// Whether [`read`](Array::read) gives the most significant byte of a number first.
    fn is_big_endian(&self) -> bool;

    /// Reads rows as they are stored, in C order.
    fn read(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), ReadError>;

    /// Reads rows as `f32`.
    fn read_f32(
        &self,
        rows: Range<usize>,
        scratch: &mut Vec<u8>,
        out: &mut [f32],
    ) -> Result<(), ReadError>;
}

impl Array for Rows {
    fn is_big_endian(&self) -> bool {
        Rows::is_big_endian(self)
    }

    fn read(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), ReadError> {
        Rows::read(self, rows, out)
    }

    fn read_f32(
        &self,
        rows: Range<usize>,
        scratch: &mut Vec<u8>,
        out: &mut [f32],
    ) -> Result<(), ReadError> {
        Rows::read_f32(self, rows, scratch, out)
    }
}

/// Numbers of type `T` in memory.
struct InMemory<T, N> {
    numbers: N,
    sample_len: usize,
    element: PhantomData<T>,
}

impl<T: Scalar, N: AsRef<[T]>> InMemory<T, N> {
    fn rows(&self, rows: Range<usize>) -> Result<&[T], ReadError> {
        // Nothing holds `N` to the length it had when it was checked.
        let part = rows.start * self.sample_len..rows.end * self.sample_len;
        let numbers = self.numbers.as_ref().get(part);
        numbers.ok_or_else(|| ReadError::malformed("an array in memory has become shorter"))
    }
}

impl<T: Scalar, N: AsRef<[T]> + Send + Sync> Array for InMemory<T, N> {
    fn is_big_endian(&self) -> bool {
        false
    }

    fn read(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), ReadError> {
        T::write(self.rows(rows)?, out);
        Ok(())
    }

    fn read_f32(
        &self,
        rows: Range<usize>,
        _: &mut Vec<u8>,
        out: &mut [f32],
    ) -> Result<(), ReadError> {
        T::to_f32(self.rows(rows)?, out);
        Ok(())
    }
}

impl<'a> Arrays<'a> {
    /// One input of this name: numbers in memory, in C order of `shape`, whose first axis counts the samples.
    pub fn new<T: Scalar>(
        input: &str,
        shape: &[usize],
        numbers: impl AsRef<[T]> + Send + Sync + 'a,
    ) -> Result<Arrays<'a>, DataError> {
        Arrays::empty(shape.first().copied().unwrap_or(0)).with_input(input, shape, numbers)
    }

    /// One input of this name: an array in a file.
    pub fn of_rows(input: &str, rows: Rows) -> Result<Arrays<'a>, DataError> {
        Arrays::empty(rows.len()).with_rows(input, rows)
    }

    fn empty(len: usize) -> Arrays<'a> {
        Arrays {
            name: "arrays in memory".to_owned(),
            len,
            inputs: Vec::new(),
            arrays: Vec::new(),
            labels: None,
            targets: None,
            class_names: None,
            sample_names: None,
            fingerprint: OnceFingerprint::default(),
        }
    }

    /// Gives the whole a name, for messages and records.
    pub fn named(mut self, name: impl Into<String>) -> Arrays<'a> {
        self.name = name.into();
        self
    }

    /// Adds an input: numbers in memory, as in [`new`](Arrays::new).
    pub fn with_input<T: Scalar>(
        self,
        input: &str,
        shape: &[usize],
        numbers: impl AsRef<[T]> + Send + Sync + 'a,
    ) -> Result<Arrays<'a>, DataError> {
        let Some((&len, sample)) = shape.split_first() else {
            return Err(self.wrong_input(format!(
                "input `{input}` is a single number, not one row per sample"
            )));
        };
        let described = SampleInput::new(input, sample, T::ELEMENT);
        let described = described.map_err(|error| error.in_file(&self.name))?;
        let found = numbers.as_ref().len();
        if described.sample_len().checked_mul(len) != Some(found) {
            return Err(self.wrong_input(format!(
                "input `{input}` of shape {shape:?} cannot be made of {found} numbers"
            )));
        }
        let array = InMemory {
            numbers,
            sample_len: described.sample_len(),
            element: PhantomData,
        };
        self.with_array(described, len, Box::new(array))
    }

    /// Adds an input: an array in a file.
    pub fn with_rows(self, input: &str, rows: Rows) -> Result<Arrays<'a>, DataError> {
        let described = SampleInput::new(input, rows.sample_shape(), rows.element());
        let described = described.map_err(|error| error.in_file(&self.name))?;
        self.with_array(described, rows.len(), Box::new(rows))
    }

    fn with_array(
        mut self,
        input: SampleInput,
        len: usize,
        array: Box<dyn Array + 'a>,
    ) -> Result<Arrays<'a>, DataError> {
        let name = input.name();
        if self.inputs.iter().any(|known| known.name() == name) {
            return Err(self.wrong_input(format!("there are two inputs `{name}`")));
        }
        if len != self.len {
            return Err(self.wrong_input(format!(
                "input `{name}` has {len} rows for {} samples",
                self.len
            )));
        }
        self.inputs.push(input);
        self.arrays.push(array);
        self.fingerprint = OnceFingerprint::default();
        Ok(self)
    }

    /// Adds labels, one per sample.
    pub fn with_labels(self, labels: impl Into<Cow<'a, [i64]>>) -> Result<Arrays<'a>, DataError> {
        self.with_classes(labels.into().into())
    }

    /// Adds labels, one per sample, in as few bytes as they are held in.
    pub fn with_classes(mut self, labels: Classes<'a>) -> Result<Arrays<'a>, DataError> {
        if labels.len() != self.len {
            return Err(DataError::Labels {
                file: self.name,
                reason: format!("there are {} labels for {} samples", labels.len(), self.len),
            });
        }
        self.labels = Some(labels);
        self.fingerprint = OnceFingerprint::default();
        self.check_class_names()
    }

    /// Adds the numbers that a model should give, of each sample.
    pub fn with_targets(mut self, targets: Targets) -> Result<Arrays<'a>, DataError> {
        if targets.rows() != self.len {
            return Err(DataError::Labels {
                file: self.name,
                reason: format!(
                    "there are {} rows of numbers for {} samples",
                    targets.rows(),
                    self.len
                ),
            });
        }
        self.targets = Some(targets);
        self.fingerprint = OnceFingerprint::default();
        Ok(self)
    }

    /// Adds labels of either kind.
    pub(crate) fn with_any_labels(self, labels: Labels) -> Result<Arrays<'a>, DataError> {
        match labels {
            Labels::Classes(classes) => self.with_classes(classes),
            Labels::Numbers(targets) => self.with_targets(targets),
        }
    }

    /// Names the classes, by label: the first name is that of label 0.
    pub fn with_class_names(
        mut self,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Arrays<'a>, DataError> {
        self.class_names = Some(names.into_iter().map(Into::into).collect());
        self.check_class_names()
    }

    /// Names the samples.
    pub fn with_sample_names(
        mut self,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Arrays<'a>, DataError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        if names.len() != self.len {
            return Err(self.wrong_names(format!(
                "there are {} names for {} samples",
                names.len(),
                self.len
            )));
        }
        self.sample_names = Some(names);
        Ok(self)
    }

    /// Where classes have names, every label is one of them.
    fn check_class_names(self) -> Result<Arrays<'a>, DataError> {
        let (Some(names), Some(labels)) = (&self.class_names, &self.labels) else {
            return Ok(self);
        };
        let named = |label: i64| usize::try_from(label).is_ok_and(|label| label < names.len());
        let mut rows = (0..labels.len()).filter_map(|row| Some((row, labels.get(row)?)));
        match rows.find(|&(_, label)| !named(label)) {
            None => Ok(self),
            Some((row, label)) => Err(self.wrong_names(format!(
                "there are {} names of classes, but row {row} has the label {label}",
                names.len()
            ))),
        }
    }

    fn wrong_input(&self, reason: String) -> DataError {
        DataError::Inputs {
            file: self.name.clone(),
            reason,
        }
    }

    fn wrong_names(&self, reason: String) -> DataError {
        DataError::Names {
            file: self.name.clone(),
            reason,
        }
    }

    fn array(&self, input: usize) -> Result<(&SampleInput, &(dyn Array + 'a)), DataError> {
        let described = input_at(self, input)?;
        // There are as many arrays as inputs.
        Ok((described, &*self.arrays[input]))
    }
}

impl Samples for Arrays<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> usize {
        self.len
    }

    fn inputs(&self) -> &[SampleInput] {
        &self.inputs
    }

    fn read(&self, input: usize, rows: Range<usize>, out: &mut [u8]) -> Result<(), DataError> {
        let (described, array) = self.array(input)?;
        described.check_bytes(&rows, self.len, out.len())?;
        array
            .read(rows, out)
            .map_err(|error| error.in_file(&self.name))?;
        if array.is_big_endian() {
            out.chunks_exact_mut(described.element().size())
                .for_each(<[u8]>::reverse);
        }
        Ok(())
    }

    fn read_f32(
        &self,
        input: usize,
        rows: Range<usize>,
        scratch: &mut Vec<u8>,
        out: &mut [f32],
    ) -> Result<(), DataError> {
        let (described, array) = self.array(input)?;
        described.check_numbers(&rows, self.len, out.len())?;
        array
            .read_f32(rows, scratch, out)
            .map_err(|error| error.in_file(&self.name))
    }

    fn labels(&self) -> Option<&[i64]> {
        self.labels.as_ref().map(Classes::all)
    }

    fn is_labelled(&self) -> bool {
        self.labels.is_some()
    }

    fn label(&self, row: usize) -> Option<i64> {
        self.labels.as_ref()?.get(row)
    }

    fn targets(&self) -> Option<&Targets> {
        self.targets.as_ref()
    }

    fn class_names(&self) -> Option<&[String]> {
        self.class_names.as_deref()
    }

    fn sample_name(&self, row: usize) -> Option<Cow<'_, str>> {
        let name = self.sample_names.as_ref()?.get(row)?;
        Some(Cow::Borrowed(name))
    }

    fn fingerprint(&self) -> Result<Arc<Fingerprint>, DataError> {
        let take = || Ok(Arc::new(Fingerprint::of(self)?));
        self.fingerprint.get_or_take(take)
    }
}

impl fmt::Debug for Arrays<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self as &dyn Samples).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::element::Element;
    use crate::npz::{Compression, NpzWriter};
    use crate::rows::NumberFormat;
    use crate::source::Source;
    use crate::{Loader, Preprocessing, WantedInput};

    /// The same arrays as a file.
    fn as_file<T: Scalar>(path: &Path, sample: &[usize], x: &[T], y: &[i64]) -> Arc<dyn Samples> {
        let mut writer = NpzWriter::create(path, Compression::Stored).unwrap();
        let array = writer.array::<T>("x", sample).unwrap();
        writer.append(&array, x).unwrap();
        let labels = writer.array::<i64>("y", &[]).unwrap();
        writer.append(&labels, y).unwrap();
        writer.finish().unwrap();
        crate::open(path.to_str().unwrap()).unwrap()
    }

    fn all(samples: &dyn Samples, input: usize) -> (Vec<u8>, Vec<f32>) {
        let described = &samples.inputs()[input];
        let mut bytes = vec![0; samples.len() * described.sample_bytes()];
        let mut numbers = vec![0.0; samples.len() * described.sample_len()];
        samples.read(input, 0..samples.len(), &mut bytes).unwrap();
        samples
            .read_f32(input, 0..samples.len(), &mut Vec::new(), &mut numbers)
            .unwrap();
        (bytes, numbers)
    }

    fn is_its_file<T: Scalar>(numbers: [T; 12]) {
        let folder = tempfile::tempdir().unwrap();
        let labels = [4, -1, 0];
        let file = as_file(&folder.path().join("x.npz"), &[2, 2], &numbers, &labels);
        let memory = Arrays::new("x", &[3, 2, 2], &numbers[..]).unwrap();
        let memory = memory.with_labels(&labels).unwrap();
        assert_eq!(memory.inputs(), file.inputs());
        assert_eq!(memory.labels(), file.labels());
        assert_eq!(all(&memory, 0), all(&*file, 0), "{}", T::ELEMENT);
        assert_eq!(memory.digest().unwrap(), file.digest().unwrap());
        let size = T::ELEMENT.size();
        let mut one = vec![0; 4 * size];
        memory.read(0, 1..2, &mut one).unwrap();
        assert_eq!(one, all(&memory, 0).0[4 * size..8 * size]);
        assert!(memory.read(0, 1..2, &mut one[1..]).is_err());
        assert!(memory.read(1, 0..0, &mut []).is_err());
    }

    #[test]
    fn arrays_in_memory_are_what_they_are_in_a_file() {
        let numbers = [0u8, 1, 2, 3, 4, 5, 127, 128, 129, 200, 254, 255];
        is_its_file(numbers);
        is_its_file(numbers.map(|v| v % 2 == 0));
        is_its_file(numbers.map(|v| v as i8));
        is_its_file(numbers.map(|v| u16::from(v) * 257));
        is_its_file(numbers.map(|v| i32::from(v) - 100));
        is_its_file(numbers.map(|v| (i64::from(v) << 50) + 1));
        is_its_file(numbers.map(|v| f32::from(v) / 3.0));
        is_its_file(numbers.map(|v| f64::from(v) / 3.0));
    }

    #[test]
    fn numbers_are_owned_borrowed_or_shared() {
        let numbers = vec![1i64 << 60, (1 << 60) + 1];
        let shared: Arc<[i64]> = numbers.clone().into();
        let expected = all(&Arrays::new("ids", &[2], &numbers).unwrap(), 0).0;
        assert_eq!(expected[8..], ((1i64 << 60) + 1).to_le_bytes());
        for arrays in [
            Arrays::new("ids", &[2], &numbers[..]).unwrap(),
            Arrays::new("ids", &[2], shared).unwrap(),
            Arrays::new("ids", &[2], numbers.clone()).unwrap(),
        ] {
            assert_eq!(all(&arrays, 0).0, expected);
        }
    }

    #[test]
    fn big_endian_files_give_little_endian_bytes() {
        let format = NumberFormat {
            element: Element::I16,
            big_endian: true,
            fortran_order: false,
            shape: vec![2, 2],
        };
        let source = Source::from_bytes(vec![0, 1, 0, 2, 0, 3, 0, 4]);
        let arrays = Arrays::of_rows("x", Rows::new(format, source).unwrap()).unwrap();
        let expected = (vec![1, 0, 2, 0, 3, 0, 4, 0], vec![1.0, 2.0, 3.0, 4.0]);
        assert_eq!(all(&arrays, 0), expected);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let new = |shape: &[usize]| Arrays::new("x", shape, [0f32; 6]);
        for shape in [
            &[][..],
            &[5],
            &[2, 2],
            &[2, 3, 2],
            &[usize::MAX, 3],
            &[6, 0],
        ] {
            assert!(new(shape).is_err(), "{shape:?}");
        }
        let message = |result: Result<Arrays<'_>, DataError>| result.unwrap_err().to_string();
        let x = || new(&[3, 2]).unwrap().named("mine");
        let short = message(x().with_input("y", &[3, 2], [0u8; 5]));
        assert_eq!(
            short,
            "`mine`: input `y` of shape [3, 2] cannot be made of 5 numbers"
        );
        let rows = message(x().with_input("y", &[2], [0u8; 2]));
        assert_eq!(rows, "`mine`: input `y` has 2 rows for 3 samples");
        let twice = message(x().with_input("x", &[3], [0u8; 3]));
        assert_eq!(twice, "`mine`: there are two inputs `x`");
        let labels = x().with_labels(vec![0, 1]).unwrap_err();
        assert!(matches!(labels, DataError::Labels { .. }), "{labels}");
        let names = x().with_sample_names(["a"]).unwrap_err();
        assert!(matches!(names, DataError::Names { .. }), "{names}");
        // In any order.
        let named = x().with_class_names(["a", "b"]).unwrap();
        let labelled = x().with_labels(vec![0, 2, 1]).unwrap();
        let expected = "names in `mine`: there are 2 names of classes, but row 1 has the label 2";
        assert_eq!(message(labelled.with_class_names(["a", "b"])), expected);
        assert_eq!(message(named.with_labels(vec![0, 2, 1])), expected);
        assert!(new(&[0, 2]).is_err());
        assert!(Arrays::new("x", &[0, 2], [0f32; 0]).unwrap().is_empty());
    }

    #[test]
    fn several_inputs_are_read_by_name() {
        let arrays = |first: &str, second: &str| {
            Arrays::new(first, &[2, 2], [1u8, 2, 3, 4])
                .and_then(|arrays| arrays.with_input(second, &[2], [0.5f32, 0.25]))
                .unwrap()
        };
        let both = arrays("x", "mask");
        assert_ne!(
            both.digest().unwrap(),
            arrays("mask", "x").digest().unwrap(),
            "which is which counts"
        );
        let both: Arc<dyn Samples> = Arc::new(both);
        let wanted = |name: &str, shape: &[usize], whole: bool| WantedInput {
            name: name.to_owned(),
            shape: shape.to_vec(),
            whole,
            missing: false,
            fixed: None,
        };
        let divided = Preprocessing {
            divide: Some(2.0),
            ..Preprocessing::default()
        };
        let loader = |inputs: &[WantedInput], place: usize| {
            Loader::of_inputs(Arc::clone(&both), inputs, place, &divided)
        };
        // In the model's order, whatever that of the arrays; only the input at the place is preprocessed.
        let inputs = [wanted("mask", &[1], false), wanted("x", &[2], false)];
        let read = |place: usize| {
            let (mut mask, mut x) = ([0.0; 1], [0.0; 2]);
            let loader = loader(&inputs, place).unwrap();
            loader.read_inputs(1..2, &mut [&mut mask, &mut x]).unwrap();
            (mask, x)
        };
        assert_eq!(read(1), ([0.25], [1.5, 2.0]));
        assert_eq!(read(0), ([0.125], [3.0, 4.0]));
        let fixed = WantedInput {
            fixed: Some(7.0),
            ..wanted("id", &[3], true)
        };
        let three = [inputs[0].clone(), inputs[1].clone(), fixed];
        let (mut mask, mut x, mut id) = ([0.0; 2], [0.0; 4], [0.0; 6]);
        let all = loader(&three, 1).unwrap();
        all.read_inputs(0..2, &mut [&mut mask, &mut x, &mut id])
            .unwrap();
        assert_eq!(id, [7.0; 6]);
        let message = |result: Result<Loader<'_>, DataError>| result.unwrap_err().to_string();
        let absent = [inputs[1].clone(), wanted("y", &[2], false)];
        assert_eq!(
            message(loader(&absent, 0)),
            "`arrays in memory`: input `y` takes 2 numbers, and the columns are 1 (`mask`)"
        );
        let long = [wanted("mask", &[3], false), inputs[1].clone()];
        assert!(message(loader(&long, 1)).contains("input `mask` has another size"));
        let ids = [wanted("mask", &[1], true), inputs[1].clone()];
        let ids = loader(&ids, 1).unwrap();
        let error = ids.read_inputs(1..2, &mut [&mut [0.0][..], &mut [0.0; 2][..]]);
        assert_eq!(
            error.unwrap_err().to_string(),
            "`arrays in memory`, row 1: number 0 of input `mask` is `0.25`, and whole numbers up to 2^24 are wanted"
        );
        assert_eq!(
            message(Loader::new(both.clone(), &[2], &divided)),
            "`arrays in memory`: no input of the model takes `mask`"
        );
    }

    #[test]
    fn missing_numbers_are_for_models_that_fill_them_in() {
        let numbers = [1.0f32, f32::NAN, f32::INFINITY, 4.0];
        let arrays: Arc<dyn Samples> = Arc::new(Arrays::new("x", &[2, 2], numbers).unwrap());
        let read = |missing: bool, row: usize| {
            let wanted = WantedInput {
                name: "x".to_owned(),
                shape: vec![2],
                whole: false,
                missing,
                fixed: None,
            };
            let nothing = Preprocessing::default();
            let loader = Loader::of_inputs(Arc::clone(&arrays), &[wanted], 0, &nothing).unwrap();
            let mut out = [0.0; 2];
            loader.read(row..row + 1, &mut out).map(|()| out)
        };
        let found = read(true, 0).unwrap();
        assert!(found[0] == 1.0 && found[1].is_nan());
        assert!(read(false, 0).is_err() && read(true, 1).is_err());
    }

    #[test]
    fn a_digest_is_of_what_there_is_when_it_is_asked_for() {
        let x = || Arrays::new("x", &[2], [1u8, 2]).unwrap();
        let asked = x();
        asked.digest().unwrap();
        let labelled = asked.with_labels(vec![0, 1]).unwrap();
        let expected = x().with_labels(vec![0, 1]).unwrap().digest().unwrap();
        assert_eq!(labelled.digest().unwrap(), expected);
        labelled.digest().unwrap();
        let two = labelled.with_input("y", &[2], [3u8, 4]).unwrap();
        assert_ne!(two.digest().unwrap(), expected);
    }

    #[test]
    fn borrowed_samples_go_into_a_loader_with_their_names() {
        let pixels = [1u8, 2, 3];
        let samples = Arrays::new("x", &[3], &pixels[..])
            .and_then(|samples| samples.with_labels(vec![0, 1, 0]))
            .and_then(|samples| samples.with_class_names(["cat", "dog"]))
            .and_then(|samples| samples.with_sample_names(["a", "b", "c"]))
            .unwrap()
            .named("pets");
        let loader = Loader::new(Arc::new(&samples), &[1], &Preprocessing::default()).unwrap();
        assert_eq!((loader.name(), loader.len()), ("pets", 3));
        assert_eq!(loader.labels(), samples.labels());
        assert_eq!(loader.class_names(), samples.class_names());
        assert_eq!(loader.sample_name(2).as_deref(), Some("c"));
        assert_eq!(loader.sample_name(3), None);
        let mut out = [0.0; 3];
        loader.read(0..3, &mut out).unwrap();
        assert_eq!(out, [1.0, 2.0, 3.0]);
    }

    /// Gives no numbers once it was told so.
    struct Fickle<'a>(&'a AtomicBool);

    impl AsRef<[u8]> for Fickle<'_> {
        fn as_ref(&self) -> &[u8] {
            match self.0.load(Ordering::Relaxed) {
                true => &[],
                false => &[1, 2],
            }
        }
    }

    #[test]
    fn numbers_that_vanish_are_an_error() {
        let gone = AtomicBool::new(false);
        let arrays = Arrays::new::<u8>("x", &[2], Fickle(&gone)).unwrap();
        assert_eq!(all(&arrays, 0).0, [1, 2]);
        gone.store(true, Ordering::Relaxed);
        assert!(arrays.read(0, 0..2, &mut [0; 2]).is_err());
    }
}
