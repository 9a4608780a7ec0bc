//! Samples: any data that a model can be asked about, whatever holds it.
//!
//! Files, folders and arrays in memory differ in where numbers come from. Whoever measures a model needs the same of all
//! of them, and gets it from one trait.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::digest::{self, Digest, Fingerprint};
use crate::element::Element;
use crate::error::{DataError, ReadError};
use crate::image::Image;
use crate::labels::Targets;
use crate::rows::sample_bytes;

/// Any data that a model can be asked about: samples, each with one array of numbers for every input of the model.
///
/// Threads share it; each read is independent of the others. [`Arrays`](crate::Arrays) and what
/// [`open`](crate::open) gives are samples. For others, four methods are enough:
///
/// ```
/// use std::ops::Range;
/// use npcov_data::{DataError, Element, SampleInput, Samples};
///
/// /// Every pair of bits, as the numbers 0 and 1.
/// struct Pairs([SampleInput; 1]);
///
/// impl Samples for Pairs {
///     fn name(&self) -> &str {
///         "pairs of bits"
///     }
///
///     fn len(&self) -> usize {
///         4
///     }
///
///     fn inputs(&self) -> &[SampleInput] {
///         &self.0
///     }
///
///     fn read(&self, _: usize, rows: Range<usize>, out: &mut [u8]) -> Result<(), DataError> {
///         self.0[0].check_bytes(&rows, self.len(), out.len())?;
///         for (row, pair) in rows.zip(out.chunks_exact_mut(2)) {
///             pair.copy_from_slice(&[row as u8 / 2, row as u8 % 2]);
///         }
///         Ok(())
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pairs = Pairs([SampleInput::new("bits", &[2], Element::U8)?]);
/// let mut numbers = [0.0; 4];
/// pairs.read_f32(0, 1..3, &mut Vec::new(), &mut numbers)?;
/// assert_eq!(numbers, [0.0, 1.0, 1.0, 0.0]);
/// # Ok(())
/// # }
/// ```
pub trait Samples: Send + Sync {
    /// What the whole is called, in messages and records: of a file, the specification it was opened with.
    fn name(&self) -> &str;

    /// Number of samples.
    fn len(&self) -> usize;

    /// Whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What each sample holds: an array for every input of a model. There is at least one.
    fn inputs(&self) -> &[SampleInput];

    /// Reads the numbers of input number `input` without loss, sample by sample: as they are stored, in C order, but
    /// little-endian wherever they come from. `out` holds exactly the bytes of `rows`.
    fn read(&self, input: usize, rows: Range<usize>, out: &mut [u8]) -> Result<(), DataError>;

    /// As [`read`](Samples::read), rounded to `f32`. `out` holds exactly the numbers of `rows`; `scratch` is reused
    /// between calls, so that nothing is allocated for each.
    fn read_f32(
        &self,
        input: usize,
        rows: Range<usize>,
        scratch: &mut Vec<u8>,
        out: &mut [f32],
    ) -> Result<(), DataError> {
        let described = input_at(self, input)?;
        described.check_numbers(&rows, self.len(), out.len())?;
        let read = |rows: Range<usize>, bytes: &mut [u8]| self.read(input, rows, bytes);
        described.element.read_f32(false, rows, scratch, out, read)
    }

    /// The images of input number `input`, where its samples are decoded images, each of which may have a height and
    /// width of its own. [`read`](Samples::read) fails for those that do not have the input's shape: height, width and
    /// channels.
    fn images(&self, _input: usize) -> Option<&dyn Images> {
        None
    }

    /// One label per sample, where there are labels.
    fn labels(&self) -> Option<&[i64]> {
        None
    }

    /// Whether there are labels.
    fn is_labelled(&self) -> bool {
        self.labels().is_some()
    }

    /// The label of one sample. Samples that hold labels in fewer bytes than [all together](Samples::labels) take answer
    /// this without making them wider.
    fn label(&self, row: usize) -> Option<i64> {
        self.labels()?.get(row).copied()
    }

    /// The numbers that a model should give, one or several per sample, where labels are there and are no classes.
    fn targets(&self) -> Option<&Targets> {
        None
    }

    /// The names of the classes, by label.
    fn class_names(&self) -> Option<&[String]> {
        None
    }

    /// What a sample is called, where it has a name: of an image folder, the file in it.
    fn sample_name(&self, _row: usize) -> Option<Cow<'_, str>> {
        None
    }

    /// The file of a sample, where it has one of its own. Its name may be any bytes, unlike what the sample is called.
    fn sample_file(&self, _row: usize) -> Option<&Path> {
        None
    }

    /// The digest of the numbers of some rows as they are now, of every input.
    fn digest_rows(&self, rows: Range<usize>) -> Result<Digest, DataError> {
        self.digest_runs(&[rows])
    }

    /// The same of several runs of rows, as if each followed the one before it.
    fn digest_runs(&self, runs: &[Range<usize>]) -> Result<Digest, DataError> {
        digest::of_runs(self, runs)
    }

    /// The digests of all [blocks](crate::BLOCK_ROWS) of rows, where they are known without reading any.
    fn known_blocks(&self) -> Option<&[Digest]> {
        None
    }

    /// Which data it is: element type, shape and numbers of every input, and the labels. Where it lies and what it, its
    /// classes or its samples are called does not matter, nor, where there is only one, what the input is called.
    ///
    /// Reads all samples; no more than a few of them are in memory at a time. [`Arrays`](crate::Arrays) and what
    /// [`open`](crate::open) gives do so once, and remember it.
    fn fingerprint(&self) -> Result<Arc<Fingerprint>, DataError> {
        Ok(Arc::new(Fingerprint::of(self)?))
    }

    /// The digest of the whole, from its [fingerprint](Samples::fingerprint).
    fn digest(&self) -> Result<Digest, DataError> {
        Ok(self.fingerprint()?.digest())
    }
}

/// Samples behind a pointer are the same samples.
macro_rules! behind_a_pointer {
    ($($pointer:ty),*) => {$(
        impl<S: Samples + ?Sized> Samples for $pointer {
            fn name(&self) -> &str {
                (**self).name()
            }

            fn len(&self) -> usize {
                (**self).len()
            }

            fn inputs(&self) -> &[SampleInput] {
                (**self).inputs()
            }

            fn read(
                &self,
                input: usize,
                rows: Range<usize>,
                out: &mut [u8],
            ) -> Result<(), DataError> {
                (**self).read(input, rows, out)
            }

            fn read_f32(
                &self,
                input: usize,
                rows: Range<usize>,
                scratch: &mut Vec<u8>,
                out: &mut [f32],
            ) -> Result<(), DataError> {
                (**self).read_f32(input, rows, scratch, out)
            }

            fn images(&self, input: usize) -> Option<&dyn Images> {
                (**self).images(input)
            }

            fn labels(&self) -> Option<&[i64]> {
                (**self).labels()
            }

            fn is_labelled(&self) -> bool {
                (**self).is_labelled()
            }

            fn label(&self, row: usize) -> Option<i64> {
                (**self).label(row)
            }

            fn targets(&self) -> Option<&Targets> {
                (**self).targets()
            }

            fn class_names(&self) -> Option<&[String]> {
                (**self).class_names()
            }

            fn sample_name(&self, row: usize) -> Option<Cow<'_, str>> {
                (**self).sample_name(row)
            }

            fn sample_file(&self, row: usize) -> Option<&Path> {
                (**self).sample_file(row)
            }

            fn digest_rows(&self, rows: Range<usize>) -> Result<Digest, DataError> {
                (**self).digest_rows(rows)
            }

            fn digest_runs(&self, runs: &[Range<usize>]) -> Result<Digest, DataError> {
                (**self).digest_runs(runs)
            }

            fn known_blocks(&self) -> Option<&[Digest]> {
                (**self).known_blocks()
            }

            fn fingerprint(&self) -> Result<Arc<Fingerprint>, DataError> {
                (**self).fingerprint()
            }
        }
    )*};
}

behind_a_pointer!(&S, Arc<S>);

/// Images that are decoded when they are asked for, each with its own height and width.
pub trait Images: Send + Sync {
    /// The image of one sample. All have the same number of channels.
    fn image(&self, row: usize) -> Result<Image, DataError>;
}

/// What each sample holds for one input of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleInput {
    name: String,
    shape: Vec<usize>,
    element: Element,
    row_bytes: usize,
}

impl SampleInput {
    /// An input of this name, with the shape of one sample. Shapes that hold nothing, or more than a machine could, are
    /// errors.
    pub fn new(
        name: impl Into<String>,
        shape: &[usize],
        element: Element,
    ) -> Result<SampleInput, ReadError> {
        Ok(SampleInput {
            name: name.into(),
            shape: shape.to_vec(),
            element,
            row_bytes: sample_bytes(element, shape)?,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Shape of one sample as it is stored; of decoded images, height, width and channels of the first one.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The type of the stored numbers.
    pub fn element(&self) -> Element {
        self.element
    }

    /// Numbers in one sample.
    pub fn sample_len(&self) -> usize {
        self.row_bytes / self.element.size()
    }

    /// Bytes in one sample.
    pub fn sample_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Fails unless `rows` are some of `samples` samples and fill a buffer of `buffer` numbers exactly.
    pub fn check_numbers(
        &self,
        rows: &Range<usize>,
        samples: usize,
        buffer: usize,
    ) -> Result<(), DataError> {
        self.check(
            rows,
            samples,
            buffer,
            buffer.checked_mul(self.element.size()),
        )
    }

    /// Fails unless `rows` are some of `samples` samples and fill a buffer of `buffer` bytes exactly.
    pub fn check_bytes(
        &self,
        rows: &Range<usize>,
        samples: usize,
        buffer: usize,
    ) -> Result<(), DataError> {
        self.check(rows, samples, buffer / self.element.size(), Some(buffer))
    }

    fn check(
        &self,
        rows: &Range<usize>,
        samples: usize,
        numbers: usize,
        bytes: Option<usize>,
    ) -> Result<(), DataError> {
        let needed = rows
            .end
            .checked_sub(rows.start)
            .and_then(|count| count.checked_mul(self.row_bytes));
        if rows.end > samples || needed.is_none() || needed != bytes {
            return Err(DataError::Range {
                start: rows.start,
                end: rows.end,
                rows: samples,
                buffer: numbers,
            });
        }
        Ok(())
    }
}

/// Input number `input`.
pub(crate) fn input_at<S: Samples + ?Sized>(
    samples: &S,
    input: usize,
) -> Result<&SampleInput, DataError> {
    samples
        .inputs()
        .get(input)
        .ok_or_else(|| DataError::Inputs {
            file: samples.name().to_owned(),
            reason: format!("there is no input {input}, but {}", listing(samples)),
        })
}

/// The inputs, for a message.
pub(crate) fn listing<S: Samples + ?Sized>(samples: &S) -> String {
    let names: Vec<String> = samples
        .inputs()
        .iter()
        .map(|input| format!("`{}`", input.name.escape_debug()))
        .collect();
    match names.as_slice() {
        [] => "no inputs".to_owned(),
        names => names.join(", "),
    }
}

impl fmt::Debug for dyn Samples + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Samples")
            .field("name", &self.name())
            .field("len", &self.len())
            .field("inputs", &self.inputs())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_buffers_must_fit() {
        let input = SampleInput::new("x", &[2, 3], Element::U16).unwrap();
        assert_eq!((input.sample_len(), input.sample_bytes()), (6, 12));
        assert!(input.check_numbers(&(1..3), 3, 12).is_ok());
        assert!(input.check_bytes(&(1..3), 3, 24).is_ok());
        assert!(input.check_bytes(&(3..3), 3, 0).is_ok());
        assert!(input.check_numbers(&(1..4), 3, 18).is_err(), "too far");
        assert!(input.check_numbers(&(1..3), 3, 11).is_err(), "too short");
        assert!(input.check_bytes(&(1..3), 3, 25).is_err(), "too long");
        let reversed = Range { start: 2, end: 1 };
        assert!(input.check_bytes(&reversed, 3, 0).is_err());
        let absurd = Range {
            start: 0,
            end: usize::MAX,
        };
        assert!(input.check_bytes(&absurd, usize::MAX, 0).is_err());
        assert!(
            input
                .check_numbers(&absurd, usize::MAX, usize::MAX)
                .is_err()
        );
    }

    #[test]
    fn shapes_that_hold_nothing_or_too_much_are_errors() {
        for shape in [&[0][..], &[2, 0], &[usize::MAX, 2]] {
            assert!(
                SampleInput::new("x", shape, Element::F32).is_err(),
                "{shape:?}"
            );
        }
        let number = SampleInput::new("x", &[], Element::F32).unwrap();
        assert_eq!(number.sample_len(), 1);
    }
}
