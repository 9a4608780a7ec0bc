//! Samples of which only some rows are at hand: those that one of several processes works on.
//!
//! Rows keep the numbers that they have in the whole, and all that can be asked of the whole (how many there are, their
//! labels, their digest) has the answer that the whole would give. Only numbers of rows that are elsewhere cannot be read.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::digest::{BLOCK_ROWS, Digest, Fingerprint, OnceFingerprint};
use crate::error::{DataError, ReadError};
use crate::image::Image;
use crate::labels::{Classes, Targets};
use crate::samples::{Images, SampleInput, Samples, input_at};

/// Neighbouring rows of a whole, and where the first of them is among the samples that are at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The rows.
    pub rows: Range<usize>,
    /// The place of the first one.
    pub at: usize,
}

impl Run {
    /// Where those of its rows are that are in a range.
    fn part(&self, rows: &Range<usize>) -> Option<Range<usize>> {
        let (start, end) = (rows.start.max(self.rows.start), rows.end.min(self.rows.end));
        let place = |row: usize| self.at + (row - self.rows.start);
        (start < end).then(|| place(start)..place(end))
    }
}

/// What is known of all rows of a whole.
#[derive(Clone, Debug)]
pub struct Whole {
    /// What it is called.
    pub name: String,
    /// Number of samples.
    pub len: usize,
    /// Height, width and channels of the first image, where samples are images.
    pub image_shape: Option<Vec<usize>>,
    /// One label per sample, where there are labels.
    pub labels: Option<Classes<'static>>,
    /// The numbers that a model should give, where there are such.
    pub targets: Option<Targets>,
    /// The names of the classes.
    pub class_names: Option<Vec<String>>,
    /// The names of all samples. Without them, samples have the names that they have at hand.
    pub sample_names: Option<Vec<String>>,
}

/// Samples of which only some rows are at hand.
///
/// ```
/// use std::sync::Arc;
/// use npcov_data::{Arrays, Excerpt, Run, Samples, Whole};
///
/// let here = Arrays::new("x", &[2], [7.0_f32, 8.0])?;
/// let whole = Whole {
///     name: "ten numbers".to_owned(),
///     len: 10,
///     image_shape: None,
///     labels: Some([0; 10].into_iter().collect()),
///     targets: None,
///     class_names: None,
///     sample_names: None,
/// };
/// let seventh = Excerpt::new(Arc::new(here), vec![Run { rows: 7..9, at: 0 }], whole)?;
/// let mut numbers = [0.0];
/// seventh.read_f32(0, 8..9, &mut Vec::new(), &mut numbers)?;
/// assert_eq!((seventh.len(), numbers), (10, [8.0]));
/// assert!(seventh.read_f32(0, 6..7, &mut Vec::new(), &mut numbers).is_err());
/// # Ok::<(), npcov_data::DataError>(())
/// ```
pub struct Excerpt<'a> {
    samples: Arc<dyn Samples + 'a>,
    /// By row.
    runs: Vec<Run>,
    whole: Whole,
    inputs: Vec<SampleInput>,
    blocks: Option<Vec<Digest>>,
    fingerprint: OnceFingerprint,
}

impl<'a> Excerpt<'a> {
    /// Rows of a whole, each run at its place among `samples`. Runs are in the order of rows.
    pub fn new(
        samples: Arc<dyn Samples + 'a>,
        runs: Vec<Run>,
        whole: Whole,
    ) -> Result<Excerpt<'a>, DataError> {
        let wrong = |reason: &str| DataError::Inputs {
            file: whole.name.clone(),
            reason: reason.to_owned(),
        };
        let mut end = 0;
        for Run { rows, at } in &runs {
            let places = at.checked_add(rows.len());
            if rows.is_empty() || rows.start < end || rows.end > whole.len {
                return Err(wrong("rows of a part are not in order, or behind the last"));
            }
            if places.is_none_or(|places| places > samples.len()) {
                return Err(wrong("a part has fewer rows than it should"));
            }
            end = rows.end;
        }
        let counts = [
            whole.labels.as_ref().map(Classes::len),
            whole.targets.as_ref().map(Targets::rows),
            whole.sample_names.as_ref().map(Vec::len),
        ];
        if counts.into_iter().flatten().any(|count| count != whole.len) {
            return Err(wrong("there is not one label or name for each sample"));
        }
        let mut inputs = samples.inputs().to_vec();
        if let (Some(shape), [input]) = (&whole.image_shape, &mut inputs[..]) {
            let described = SampleInput::new(input.name(), shape, input.element());
            *input = described.map_err(|error| error.in_file(&whole.name))?;
        }
        Ok(Excerpt {
            samples,
            runs,
            whole,
            inputs,
            blocks: None,
            fingerprint: OnceFingerprint::default(),
        })
    }

    /// The rows of samples that are kept, counted anew: those of `kept`, in order.
    pub fn of_rows(
        samples: Arc<dyn Samples + 'a>,
        kept: &[Range<usize>],
    ) -> Result<Excerpt<'a>, DataError> {
        let mut runs = Vec::new();
        let mut len = 0;
        for rows in kept.iter().filter(|rows| !rows.is_empty()) {
            let end = len + rows.len();
            runs.push(Run {
                rows: len..end,
                at: rows.start,
            });
            len = end;
        }
        let rows = || kept.iter().cloned().flatten();
        let labels = || rows().filter_map(|row| samples.label(row)).collect();
        let labels = samples.is_labelled().then(labels);
        let targets = match samples.targets() {
            Some(all) => {
                let numbers = rows().filter_map(|row| all.row(row)).flatten().copied();
                let targets = Targets::new(all.width(), numbers.collect());
                Some(targets.map_err(|error| error.in_file(samples.name()))?)
            }
            None => None,
        };
        let whole = Whole {
            name: samples.name().to_owned(),
            len,
            image_shape: None,
            labels,
            targets,
            class_names: samples.class_names().map(<[String]>::to_vec),
            sample_names: None,
        };
        Excerpt::new(samples, runs, whole)
    }

    /// The same where the digests of all [blocks](BLOCK_ROWS) of the whole are known.
    pub fn with_blocks(mut self, blocks: Vec<Digest>) -> Result<Excerpt<'a>, DataError> {
        if blocks.len() != self.whole.len.div_ceil(BLOCK_ROWS) {
            return Err(DataError::Inputs {
                file: self.whole.name,
                reason: format!("{} digests are not one for each block", blocks.len()),
            });
        }
        self.blocks = Some(blocks);
        Ok(self)
    }

    /// Where rows are among the samples at hand, run by run; an error where one is not.
    fn places(&self, rows: &Range<usize>) -> Result<Vec<Range<usize>>, DataError> {
        let first = self.runs.partition_point(|run| run.rows.end <= rows.start);
        let parts = self.runs[first..].iter();
        let parts: Vec<Range<usize>> = parts
            .take_while(|run| run.rows.start < rows.end)
            .filter_map(|run| run.part(rows))
            .collect();
        match parts.iter().map(Range::len).sum::<usize>() == rows.len() {
            true => Ok(parts),
            false => {
                let reason = format!(
                    "rows {} to {} are not in this part of the data",
                    rows.start,
                    rows.end.saturating_sub(1)
                );
                Err(ReadError::unsupported(reason).in_file(&self.whole.name))
            }
        }
    }

    fn place(&self, row: usize) -> Result<usize, DataError> {
        let places = self.places(&(row..row.saturating_add(1)))?;
        Ok(places.first().map_or(0, |place| place.start))
    }
}

impl Samples for Excerpt<'_> {
    fn name(&self) -> &str {
        &self.whole.name
    }

    fn len(&self) -> usize {
        self.whole.len
    }

    fn inputs(&self) -> &[SampleInput] {
        &self.inputs
    }

    fn read(&self, input: usize, rows: Range<usize>, out: &mut [u8]) -> Result<(), DataError> {
        let described = input_at(self, input)?;
        described.check_bytes(&rows, self.len(), out.len())?;
        let row_bytes = described.sample_bytes();
        let mut rest = out;
        for places in self.places(&rows)? {
            let (part, after) = rest.split_at_mut(places.len() * row_bytes);
            self.samples.read(input, places, part)?;
            rest = after;
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
        let described = input_at(self, input)?;
        described.check_numbers(&rows, self.len(), out.len())?;
        let row_len = described.sample_len();
        let mut rest = out;
        for places in self.places(&rows)? {
            let (part, after) = rest.split_at_mut(places.len() * row_len);
            self.samples.read_f32(input, places, scratch, part)?;
            rest = after;
        }
        Ok(())
    }

    fn images(&self, input: usize) -> Option<&dyn Images> {
        let are_images = input == 0 && self.samples.images(input).is_some();
        are_images.then_some(self as &dyn Images)
    }

    fn labels(&self) -> Option<&[i64]> {
        self.whole.labels.as_ref().map(Classes::all)
    }

    fn is_labelled(&self) -> bool {
        self.whole.labels.is_some()
    }

    fn label(&self, row: usize) -> Option<i64> {
        self.whole.labels.as_ref()?.get(row)
    }

    fn targets(&self) -> Option<&Targets> {
        self.whole.targets.as_ref()
    }

    fn class_names(&self) -> Option<&[String]> {
        self.whole.class_names.as_deref()
    }

    fn sample_name(&self, row: usize) -> Option<Cow<'_, str>> {
        match &self.whole.sample_names {
            Some(names) => names.get(row).map(|name| name.as_str().into()),
            None => self.samples.sample_name(self.place(row).ok()?),
        }
    }

    fn sample_file(&self, row: usize) -> Option<&Path> {
        self.samples.sample_file(self.place(row).ok()?)
    }

    fn digest_runs(&self, runs: &[Range<usize>]) -> Result<Digest, DataError> {
        let mut places = Vec::new();
        for rows in runs {
            places.extend(self.places(rows)?);
        }
        self.samples.digest_runs(&places)
    }

    fn known_blocks(&self) -> Option<&[Digest]> {
        self.blocks.as_deref()
    }

    fn fingerprint(&self) -> Result<Arc<Fingerprint>, DataError> {
        let take = || Ok(Arc::new(Fingerprint::of(self)?));
        self.fingerprint.get_or_take(take)
    }
}

impl Images for Excerpt<'_> {
    fn image(&self, row: usize) -> Result<Image, DataError> {
        let place = self.place(row)?;
        match self.samples.images(0) {
            Some(images) => images.image(place),
            None => Err(ReadError::unsupported("holds no images").in_file(&self.whole.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arrays;

    fn numbers(rows: Range<usize>) -> Arc<dyn Samples> {
        let numbers: Vec<f32> = rows.clone().flat_map(|i| [i as f32, 0.5]).collect();
        let labels = rows.clone().map(|i| i as i64 % 3).collect::<Vec<_>>();
        let arrays = Arrays::new("x", &[rows.len(), 2], numbers).unwrap();
        let names = rows.map(|i| format!("row {i}"));
        let arrays = arrays.with_labels(labels).unwrap();
        Arc::new(arrays.with_sample_names(names).unwrap())
    }

    fn whole(samples: &dyn Samples) -> Whole {
        Whole {
            name: samples.name().to_owned(),
            len: samples.len(),
            image_shape: None,
            labels: samples.labels().map(|all| all.iter().copied().collect()),
            targets: None,
            class_names: None,
            sample_names: None,
        }
    }

    /// The digest of a whole is that of its blocks, whoever looked at them.
    #[test]
    fn parts_have_the_digest_of_the_whole() {
        let all = numbers(0..200);
        let mut blocks = Vec::new();
        for rows in [0..128, 128..200] {
            let here = numbers(rows.clone());
            blocks.extend(Fingerprint::blocks(&here, 0..rows.len()).unwrap());
        }
        let here = numbers(128..200);
        let runs = vec![Run {
            rows: 128..200,
            at: 0,
        }];
        let part = Excerpt::new(here, runs, whole(&all)).unwrap();
        assert!(part.digest().is_err(), "rows before it are elsewhere");
        let part = part.with_blocks(blocks).unwrap();
        assert_eq!(part.digest().unwrap(), all.digest().unwrap());
        let fingerprint = part.fingerprint().unwrap();
        assert!(fingerprint.check(&part, 130..200).is_ok());
        assert!(fingerprint.check(&part, 100..130).is_err());
        assert_eq!(part.sample_name(130).unwrap(), "row 130");
        assert_eq!(part.labels(), all.labels());
        let (mut one, mut other) = ([0; 16], [0; 16]);
        part.read(0, 140..142, &mut one).unwrap();
        all.read(0, 140..142, &mut other).unwrap();
        assert_eq!(one, other);
    }

    /// Samples without some of their rows are those that never had them.
    #[test]
    fn rows_can_be_left_out() {
        let kept = [0..70, 71..150, 150..150, 160..200];
        let without = Excerpt::of_rows(numbers(0..200), &kept).unwrap();
        let rows = kept.iter().cloned().flatten();
        let (mut expected, mut labels) = (Vec::new(), Vec::new());
        for i in rows.clone() {
            expected.extend([i as f32, 0.5]);
            labels.push(i as i64 % 3);
        }
        let plain = Arrays::new("x", &[189, 2], expected.clone()).unwrap();
        let plain = plain.with_labels(labels).unwrap();
        assert_eq!(without.digest().unwrap(), plain.digest().unwrap());
        assert_eq!(without.labels(), plain.labels());
        let mut found = vec![0.0; expected.len()];
        without
            .read_f32(0, 0..189, &mut Vec::new(), &mut found)
            .unwrap();
        assert_eq!(found, expected);
        assert_eq!(without.sample_name(70).unwrap(), "row 71");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let here = || numbers(0..10);
        let run = |rows, at| Run { rows, at };
        let all = whole(&numbers(0..20));
        for runs in [
            vec![run(0..11, 0)],
            vec![run(15..21, 0)],
            vec![run(5..8, 0), run(7..9, 3)],
            vec![run(0..2, usize::MAX)],
        ] {
            assert!(Excerpt::new(here(), runs, all.clone()).is_err());
        }
        let short = Whole {
            labels: Some([0; 3].into_iter().collect()),
            ..all.clone()
        };
        assert!(Excerpt::new(here(), Vec::new(), short).is_err());
        let part = Excerpt::new(here(), vec![run(4..10, 0)], all).unwrap();
        assert!(part.with_blocks(Vec::new()).is_err());
    }
}
