//! Labels: of each sample a class, which is a whole number, or the numbers that a model should give for it.

use std::borrow::Cow;
use std::sync::OnceLock;

use crate::element::Number;
use crate::error::{DataError, ReadError};
use crate::rows::Rows;

/// Floats count whole numbers exactly up to here.
const EXACT_IN_F64: f64 = 9_007_199_254_740_992.0;

/// One-hot rows with more classes are not labels: a row of billions of numbers should not come into memory to find out.
const MOST_CLASSES: usize = 1 << 20;

/// Most numbers that a model gives for a sample, and is held to.
const MOST_TARGETS: usize = 1 << 10;

/// The numbers that a model should give, for each sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Targets {
    width: usize,
    numbers: Vec<f64>,
    /// Where and why they are no classes.
    reason: String,
}

impl Targets {
    /// Of samples one after the other, `width` numbers each.
    pub fn new(width: usize, numbers: Vec<f64>) -> Result<Targets, ReadError> {
        if width == 0 || !numbers.len().is_multiple_of(width) {
            return Err(ReadError::malformed(format!(
                "{} numbers are not {width} for each sample",
                numbers.len()
            )));
        }
        let reason = match numbers
            .iter()
            .position(|&x| whole(Number::Float(x)).is_none())
        {
            Some(place) => format!(
                "row {} is `{}`, not a whole number",
                place / width,
                numbers[place]
            ),
            None => format!("rows of {width} numbers are no classes"),
        };
        Ok(Targets {
            width,
            numbers,
            reason,
        })
    }

    /// Numbers of one sample.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Samples that have them.
    pub fn rows(&self) -> usize {
        self.numbers.len() / self.width.max(1)
    }

    /// Those of a sample.
    pub fn row(&self, row: usize) -> Option<&[f64]> {
        let start = row.checked_mul(self.width)?;
        self.numbers.get(start..start.checked_add(self.width)?)
    }

    /// Why they are no classes.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// The class of each sample. There may be millions, and most classes fit into a byte.
///
/// ```
/// use npcov_data::Classes;
///
/// let classes: Classes = [3, 0, 7].into_iter().collect();
/// assert_eq!((classes.len(), classes.get(2)), (3, Some(7)));
/// ```
#[derive(Clone, Debug)]
pub struct Classes<'a>(Held<'a>);

#[derive(Clone, Debug)]
enum Held<'a> {
    Narrow {
        bytes: Vec<u8>,
        /// The same as whole numbers, once someone asks for all of them at once.
        wide: OnceLock<Vec<i64>>,
    },
    Wide(Cow<'a, [i64]>),
}

impl Default for Classes<'_> {
    fn default() -> Self {
        Classes(Held::Narrow {
            bytes: Vec::new(),
            wide: OnceLock::new(),
        })
    }
}

impl<'a> From<Cow<'a, [i64]>> for Classes<'a> {
    fn from(classes: Cow<'a, [i64]>) -> Self {
        Classes(Held::Wide(classes))
    }
}

impl FromIterator<i64> for Classes<'_> {
    fn from_iter<I: IntoIterator<Item = i64>>(classes: I) -> Self {
        let mut all = Classes::default();
        classes.into_iter().for_each(|class| all.push(class));
        all
    }
}

impl Classes<'_> {
    /// Adds the class of the next sample.
    pub fn push(&mut self, class: i64) {
        match (&mut self.0, u8::try_from(class)) {
            (Held::Narrow { bytes, wide }, Ok(byte)) => {
                wide.take();
                bytes.push(byte);
            }
            (Held::Narrow { bytes, .. }, Err(_)) => {
                let mut classes: Vec<i64> = bytes.iter().map(|&byte| byte.into()).collect();
                classes.push(class);
                self.0 = Held::Wide(Cow::Owned(classes));
            }
            (Held::Wide(classes), _) => classes.to_mut().push(class),
        }
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Held::Narrow { bytes, .. } => bytes.len(),
            Held::Wide(classes) => classes.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The class of a sample.
    pub fn get(&self, row: usize) -> Option<i64> {
        match &self.0 {
            Held::Narrow { bytes, .. } => bytes.get(row).map(|&byte| byte.into()),
            Held::Wide(classes) => classes.get(row).copied(),
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = i64> {
        (0..self.len()).filter_map(|row| self.get(row))
    }

    /// All of them at once, which takes eight bytes each from then on.
    pub(crate) fn all(&self) -> &[i64] {
        match &self.0 {
            Held::Narrow { bytes, wide } => {
                wide.get_or_init(|| bytes.iter().map(|&byte| byte.into()).collect())
            }
            Held::Wide(classes) => classes,
        }
    }
}

impl PartialEq for Classes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

/// What labels are.
#[derive(Debug, PartialEq)]
pub(crate) enum Labels {
    /// A class of each sample.
    Classes(Classes<'static>),
    /// Numbers of each sample.
    Numbers(Targets),
}

/// Reads all labels of an array with one row for each of `count` samples.
///
/// A row is one number, integer or a whole float, or, exactly one-hot, several: a single 1, the rest 0
/// (`keras.utils.to_categorical`). Where any row is neither, all are numbers, not classes: probabilities are not taken for
/// classes, since those would be a guess.
pub(crate) fn read(rows: &Rows, count: usize, file: &str) -> Result<Labels, DataError> {
    let wrong = |reason: String| DataError::Labels {
        file: file.to_owned(),
        reason,
    };
    // Before any is read: a small file can hold many.
    if rows.len() != count {
        let found = rows.len();
        return Err(wrong(format!(
            "there are {found} labels for {count} samples"
        )));
    }
    let width = rows.sample_len();
    let one_hot = width > 1;
    if width > MOST_CLASSES {
        return Err(wrong(format!(
            "rows of shape {:?} are too long for one-hot labels",
            rows.sample_shape()
        )));
    }
    let mut classes = Classes::default();
    let found = rows.for_each_row::<Problem>(|row, values| {
        let class = match one_hot {
            true => class_of_one_hot(values).ok_or_else(|| {
                format!(
                    "row {row} of shape {:?} is neither one whole number nor one-hot (a single 1, the rest 0)",
                    rows.sample_shape()
                )
            }),
            false => values.first().and_then(|&value| whole(value)).ok_or_else(|| {
                let value = values.first().map(Number::to_string).unwrap_or_default();
                format!("row {row} is `{value}`, not a whole number")
            }),
        };
        classes.push(class.map_err(Problem::NoClass)?);
        Ok(())
    });
    let reason = match found {
        Ok(()) => return Ok(Labels::Classes(classes)),
        Err(Problem::Read(error)) => return Err(error.in_file(file)),
        Err(Problem::NoClass(reason)) => reason,
    };
    if width > MOST_TARGETS || !rows.element().is_float() {
        return Err(wrong(reason));
    }
    let mut numbers = Vec::new();
    let found = rows.for_each_row::<Problem>(|row, values| {
        for value in values {
            let number = value.to_f64();
            if !number.is_finite() {
                return Err(Problem::NoClass(format!("row {row} holds `{number}`")));
            }
            numbers.push(number);
        }
        Ok(())
    });
    match found {
        Ok(()) => Ok(Labels::Numbers(Targets {
            width,
            numbers,
            reason,
        })),
        Err(Problem::NoClass(reason)) => Err(wrong(reason)),
        Err(Problem::Read(error)) => Err(error.in_file(file)),
    }
}

enum Problem {
    Read(ReadError),
    NoClass(String),
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        Problem::Read(error)
    }
}

fn whole(number: Number) -> Option<i64> {
    match number {
        Number::Whole(value) => i64::try_from(value).ok(),
        Number::Float(value) if value.trunc() == value && value.abs() <= EXACT_IN_F64 => {
            Some(value as i64)
        }
        Number::Float(_) => None,
    }
}

fn class_of_one_hot(values: &[Number]) -> Option<i64> {
    let mut class = None;
    for (index, &value) in values.iter().enumerate() {
        match whole(value)? {
            0 => {}
            1 if class.is_none() => class = Some(index as i64),
            _ => return None,
        }
    }
    class
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;
    use crate::element::Element;
    use crate::rows::NumberFormat;

    fn labels(element: Element, shape: &[usize], bytes: Vec<u8>) -> Result<Vec<i64>, String> {
        let format = NumberFormat {
            element,
            big_endian: false,
            fortran_order: false,
            shape: shape.to_vec(),
        };
        let rows = Rows::new(format, Source::from_bytes(bytes)).unwrap();
        match read(&rows, rows.len(), "y.npy").map_err(|error| error.to_string())? {
            Labels::Classes(classes) => Ok(classes.all().to_vec()),
            Labels::Numbers(targets) => Err(format!("numbers: {}", targets.reason())),
        }
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    #[test]
    fn integers_whole_floats_and_single_columns_are_labels() {
        assert_eq!(labels(Element::U8, &[3], vec![7, 0, 9]), Ok(vec![7, 0, 9]));
        assert_eq!(labels(Element::I8, &[2, 1], vec![1, 0xff]), Ok(vec![1, -1]));
        assert_eq!(
            labels(Element::F32, &[2], floats(&[3.0, -0.0])),
            Ok(vec![3, 0])
        );
        let big = (1i64 << 60) + 1;
        assert_eq!(
            labels(Element::I64, &[1], big.to_le_bytes().to_vec()),
            Ok(vec![big])
        );
    }

    #[test]
    fn classes_take_a_byte_as_long_as_they_fit() {
        let mut classes = Classes::default();
        let mut expected = Vec::new();
        for class in [0, 255, 7, 256, 3, -1, i64::MAX] {
            let narrow = matches!(classes.0, Held::Narrow { .. });
            assert_eq!(
                narrow,
                expected.iter().all(|class| (0..256).contains(class))
            );
            classes.push(class);
            expected.push(class);
            assert_eq!(classes.len(), expected.len());
            let found: Vec<i64> = (0..8).filter_map(|row| classes.get(row)).collect();
            assert_eq!(found, expected);
        }
        assert_eq!(classes.all(), expected);
        let mut few = Classes::default();
        few.push(9);
        assert_eq!(few.all(), [9]);
        assert_eq!(few, Classes::from(Cow::from(&[9][..])));
        few.push(8);
        assert_eq!(few.all(), [9, 8]);
    }

    #[test]
    fn exact_one_hot_rows_are_labels() {
        let rows = floats(&[0.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
        assert_eq!(labels(Element::F32, &[2, 3], rows), Ok(vec![1, 0]));
    }

    #[test]
    fn rows_too_long_for_classes_are_refused_unread() {
        let shape = [1, MOST_CLASSES + 1];
        let error = labels(Element::U8, &shape, vec![0; MOST_CLASSES + 1]).unwrap_err();
        assert!(error.contains("too long"), "{error}");
    }

    #[test]
    fn too_many_labels_are_refused_unread() {
        let format = NumberFormat {
            element: Element::U8,
            big_endian: false,
            fortran_order: false,
            shape: vec![1 << 30],
        };
        // Whoever reads a byte of it fails.
        let unreadable = std::io::Read::take(std::io::empty(), 0);
        let rows = Rows::new(format, Source::spool(unreadable, 1 << 30).unwrap()).unwrap();
        let error = read(&rows, 2, "y.npy").unwrap_err().to_string();
        let expected = "labels in `y.npy`: there are 1073741824 labels for 2 samples";
        assert_eq!(error, expected);
    }

    #[test]
    fn anything_else_names_the_row() {
        let error = labels(Element::F32, &[2], floats(&[1.0, 0.5])).unwrap_err();
        assert_eq!(error, "numbers: row 1 is `0.5`, not a whole number");
        let rows = floats(&[0.25, 0.75, 1.0, 0.0]);
        let error = labels(Element::F32, &[2, 2], rows).unwrap_err();
        assert!(
            error.starts_with("numbers: row 0 of shape [2] is neither"),
            "{error}"
        );
        let error = labels(Element::F32, &[2], floats(&[0.5, f32::NAN])).unwrap_err();
        assert_eq!(error, "labels in `y.npy`: row 1 holds `NaN`");
        for bad in [f32::NAN, f32::INFINITY, 1e30] {
            assert!(labels(Element::F32, &[1], floats(&[bad])).is_err(), "{bad}");
        }
        assert!(labels(Element::U64, &[1], vec![0xff; 8]).is_err());
        for bad in [[0, 0, 0], [1, 1, 0], [0, 2, 0]] {
            let error = labels(Element::U8, &[1, 3], bad.to_vec()).unwrap_err();
            assert!(error.contains("row 0 of shape [3] is neither"), "{error}");
        }
    }
}
