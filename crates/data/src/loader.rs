//! Samples in the shape, order and scale the model wants, read range by range.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::digest::{Fingerprint, OnceFingerprint};
use crate::element::Element;
use crate::error::DataError;
use crate::image::Image;
use crate::layout::{self, Arrange, ImageShape, Layout};
use crate::preprocess::{Normalise, Preprocessing};
use crate::resize::Resize;
use crate::samples::{SampleInput, Samples, listing};

/// Samples bound to the shape a model wants.
///
/// It can be shared by threads; each call of [`read`](Loader::read) is independent of the others.
pub struct Loader<'a> {
    samples: Arc<dyn Samples + 'a>,
    /// The input that is read, and its number.
    input: SampleInput,
    index: usize,
    stored_shape: Vec<usize>,
    sample_len: usize,
    resize: Option<Resizing>,
    arrange: Arrange,
    normalise: Normalise,
    preprocessing: Preprocessing,
    image: Option<ImageShape>,
    warnings: Vec<String>,
    /// Buffers of finished calls, for the next ones: reading in the steady state allocates nothing (images excepted,
    /// whose decoders allocate).
    buffers: Mutex<Vec<Buffers>>,
    fingerprint: OnceFingerprint,
}

#[derive(Default)]
struct Buffers {
    bytes: Vec<u8>,
    resized: Vec<u8>,
    numbers: Vec<f32>,
}

/// Resizing of 8-bit samples that lie as `planes` images of `channels` interleaved channels.
struct Resizing {
    to: (usize, usize),
    planes: usize,
    channels: usize,
    /// For arrays, whose samples all have one size; decoded images may each have their own.
    plan: Option<Resize>,
}

impl<'a> Loader<'a> {
    /// Checks that samples with one input fit `wanted`, the shape of one model input without the batch axis, and decides
    /// how to rearrange them.
    ///
    /// The shapes may differ by axes of length 1, by flattening and by the place of the channel axis, as far as they tell
    /// what is meant; where they do not, the error names `--layout`, which is `preprocessing.layout`.
    pub fn new(
        samples: Arc<dyn Samples + 'a>,
        wanted: &[usize],
        preprocessing: &Preprocessing,
    ) -> Result<Loader<'a>, DataError> {
        match samples.inputs() {
            [_] => Loader::bind(samples, 0, wanted, preprocessing),
            _ => Err(DataError::Inputs {
                file: samples.name().to_owned(),
                reason: format!("holds {}: one input was expected", listing(&*samples)),
            }),
        }
    }

    /// As [`new`](Loader::new), for one of several inputs.
    pub fn of_input(
        samples: Arc<dyn Samples + 'a>,
        input: &str,
        wanted: &[usize],
        preprocessing: &Preprocessing,
    ) -> Result<Loader<'a>, DataError> {
        let mut names = samples.inputs().iter().map(SampleInput::name);
        match names.position(|name| name == input) {
            Some(index) => Loader::bind(samples, index, wanted, preprocessing),
            None => Err(DataError::Inputs {
                file: samples.name().to_owned(),
                reason: format!("holds {}, but no input `{input}`", listing(&*samples)),
            }),
        }
    }

    fn bind(
        samples: Arc<dyn Samples + 'a>,
        index: usize,
        wanted: &[usize],
        preprocessing: &Preprocessing,
    ) -> Result<Loader<'a>, DataError> {
        let input = samples.inputs()[index].clone();
        let stored = input.shape();
        let mismatch = |reason: String| DataError::Shape {
            file: samples.name().to_owned(),
            stored: stored.to_vec(),
            wanted: wanted.to_vec(),
            reason,
        };
        let are_images = samples.images(index).is_some();
        // Decoded images lie as HWC whatever was asked for; only an array can be told otherwise.
        let layout = match are_images {
            true => Some(Layout::Hwc),
            false => preprocessing.layout,
        };
        let (resize, shape, layout) = match preprocessing.resize {
            None => (None, stored.to_vec(), layout),
            Some(to) => {
                let (resizing, shape, layout) =
                    resizing(samples.name(), &input, are_images, to, layout)?;
                (resizing, shape, Some(layout))
            }
        };
        let (arrange, channels) = layout::arrange(&shape, wanted, layout)
            .map_err(|reason| mismatch(explain(reason, are_images, &shape, preprocessing)))?;
        let normalise = Normalise::new(preprocessing, wanted, channels)?;
        let image = layout::image_shape(&shape, wanted, channels);
        let sample_len = wanted.iter().product();
        let mut warnings = Vec::new();
        if input.element() == Element::U8 && preprocessing.divide.is_none() {
            warnings.push(
                "pixel values 0..255 go into the model as they are; add `--divide 255` if it was trained on 0..1"
                    .to_owned(),
            );
        }
        Ok(Loader {
            samples,
            input,
            index,
            stored_shape: shape,
            sample_len,
            resize,
            arrange,
            normalise,
            preprocessing: preprocessing.clone(),
            image,
            warnings,
            buffers: Mutex::new(Vec::new()),
            fingerprint: OnceFingerprint::default(),
        })
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// What the samples are called as a whole, in messages and records.
    pub fn name(&self) -> &str {
        self.samples.name()
    }

    /// One label per sample, where there are labels.
    pub fn labels(&self) -> Option<&[i64]> {
        self.samples.labels()
    }

    /// The names of the classes, by label.
    pub fn class_names(&self) -> Option<&[String]> {
        self.samples.class_names()
    }

    /// What a sample is called, where it has a name.
    pub fn sample_name(&self, row: usize) -> Option<Cow<'_, str>> {
        self.samples.sample_name(row)
    }

    /// What happens to samples on their way into the model.
    pub fn preprocessing(&self) -> &Preprocessing {
        &self.preprocessing
    }

    /// Numbers in one sample.
    pub fn sample_len(&self) -> usize {
        self.sample_len
    }

    /// Where the pixels are in what [`read`](Loader::read) gives, when that is an image.
    pub fn image(&self) -> Option<ImageShape> {
        self.image
    }

    /// Whether the samples are decoded images, each of which may have a height and width of its own before it is resized.
    pub fn are_images(&self) -> bool {
        self.samples.images(self.index).is_some()
    }

    /// What is probably not meant, though it can be done.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The samples behind it.
    pub fn samples(&self) -> &Arc<dyn Samples + 'a> {
        &self.samples
    }

    /// Which data it is: that of the samples, taken when it is first asked for.
    pub fn fingerprint(&self) -> Result<Arc<Fingerprint>, DataError> {
        (self.fingerprint).get_or_take(|| self.samples.fingerprint())
    }

    /// What the samples hold for the input that is read: shape and numbers as they are stored.
    pub fn input(&self) -> &SampleInput {
        &self.input
    }

    /// Reads the samples of `range`, one after the other, in C order of the wanted shape. `out` holds exactly those.
    ///
    /// NaN and infinities, stored or made by preprocessing, are an error that names the row.
    pub fn read(&self, range: Range<usize>, out: &mut [f32]) -> Result<(), DataError> {
        self.read_with(&self.normalise, range, out)
    }

    /// As [`read`](Loader::read), with the numbers as they are stored: resized where that is asked for and in the
    /// model's order, but neither divided nor normalised.
    pub fn read_stored(&self, range: Range<usize>, out: &mut [f32]) -> Result<(), DataError> {
        self.read_with(&Normalise::nothing(), range, out)
    }

    /// Shape of one sample as it is stored, after resizing where that is asked for.
    pub fn stored_shape(&self) -> &[usize] {
        &self.stored_shape
    }

    /// Brings a sample of [`read_stored`](Loader::read_stored) back into the order that it is stored in, that of
    /// [`stored_shape`](Loader::stored_shape). Both slices have its length.
    pub fn restore(&self, sample: &[f32], out: &mut [f32]) {
        self.arrange.inverse().apply(sample, out);
    }

    /// What stored numbers are divided by before anything else.
    pub fn divisor(&self) -> f32 {
        self.normalise.divisor()
    }

    /// Makes whole samples of [`read_stored`](Loader::read_stored) into those of [`read`](Loader::read), the same bits.
    pub fn normalise(&self, samples: &mut [f32]) {
        self.normalise.apply(samples);
    }

    /// Turns derivatives with respect to the model's input into those with respect to stored numbers that are divided
    /// by [`divisor`](Loader::divisor), but not normalised: pixels in 0..1.
    pub fn pull_back(&self, gradient: &mut [f32]) {
        self.normalise.pull_back(gradient);
    }

    fn read_with(
        &self,
        normalise: &Normalise,
        range: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), DataError> {
        let needed = range
            .end
            .checked_sub(range.start)
            .and_then(|rows| rows.checked_mul(self.sample_len));
        if range.end > self.len() || needed != Some(out.len()) {
            return Err(DataError::Range {
                start: range.start,
                end: range.end,
                rows: self.len(),
                buffer: out.len(),
            });
        }
        let mut buffers = self.lock().pop().unwrap_or_default();
        let result = self.read_blocks(normalise, range, &mut buffers, out);
        self.lock().push(buffers);
        result
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Buffers>> {
        // A panic elsewhere cannot leave spare buffers in a bad state.
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_blocks(
        &self,
        normalise: &Normalise,
        range: Range<usize>,
        buffers: &mut Buffers,
        out: &mut [f32],
    ) -> Result<(), DataError> {
        let samples = &*self.samples;
        if self.resize.is_none() && self.arrange == Arrange::AsIs {
            samples.read_f32(self.index, range.clone(), &mut buffers.bytes, out)?;
            return self.finish(normalise, range.start, out);
        }
        // Several rows at a time: one read serves many rows, in Fortran order too.
        let step = ((1 << 20) / self.input.sample_bytes().max(4 * self.sample_len)).max(1);
        let mut start = range.start;
        for block in out.chunks_mut(step * self.sample_len) {
            let rows = start..start + block.len() / self.sample_len;
            buffers.numbers.resize(block.len(), 0.0);
            match &self.resize {
                Some(resizing) => {
                    self.read_resized(resizing, rows.clone(), buffers)?;
                    Element::U8.to_f32(false, &buffers.resized, &mut buffers.numbers);
                }
                None => {
                    let Buffers { bytes, numbers, .. } = buffers;
                    samples.read_f32(self.index, rows.clone(), bytes, numbers)?;
                }
            }
            let stored = buffers.numbers.chunks_exact(self.sample_len);
            for (from, to) in stored.zip(block.chunks_exact_mut(self.sample_len)) {
                self.arrange.apply(from, to);
            }
            self.finish(normalise, start, block)?;
            start = rows.end;
        }
        Ok(())
    }

    /// Reads 8-bit samples at the size that is asked for into `buffers.resized`.
    fn read_resized(
        &self,
        resizing: &Resizing,
        rows: Range<usize>,
        buffers: &mut Buffers,
    ) -> Result<(), DataError> {
        let Buffers { bytes, resized, .. } = buffers;
        resized.clear();
        if let Some(plan) = &resizing.plan {
            bytes.resize(rows.len() * self.input.sample_bytes(), 0);
            self.samples.read(self.index, rows, bytes)?;
            let plane = self.input.sample_bytes() / resizing.planes;
            for pixels in bytes.chunks_exact(plane) {
                plan.apply(pixels, resizing.channels, resized);
            }
            return Ok(());
        }
        for row in rows {
            let image = self.image_of(row)?;
            let plan = Resize::new((image.height(), image.width()), resizing.to);
            plan.apply(image.pixels(), resizing.channels, resized);
        }
        Ok(())
    }

    /// Decodes an image, and holds it to what the samples say of all.
    fn image_of(&self, row: usize) -> Result<Image, DataError> {
        let wrong = |reason: String| DataError::Row {
            file: self.name().to_owned(),
            row,
            reason,
        };
        let images = self.samples.images(self.index);
        let images = images.ok_or_else(|| wrong("there is no image".to_owned()))?;
        let image = images.image(row)?;
        match (image.channels(), self.input.shape().last()) {
            (found, Some(&channels)) if found == channels => Ok(image),
            (found, _) => Err(wrong(format!(
                "an image of {found} channels among samples of shape {:?}",
                self.input.shape()
            ))),
        }
    }

    /// Normalises samples from `row` on, and holds them to be finite before and after.
    fn finish(
        &self,
        normalise: &Normalise,
        row: usize,
        samples: &mut [f32],
    ) -> Result<(), DataError> {
        let check = |samples: &[f32], reason: &str| {
            // Without an early exit: the common case is a plain pass that the compiler vectorises.
            if samples
                .iter()
                .fold(true, |finite, value| finite & value.is_finite())
            {
                return Ok(());
            }
            let place = samples
                .iter()
                .position(|value| !value.is_finite())
                .unwrap_or(0);
            let value = samples.get(place).copied().unwrap_or(f32::NAN);
            Err(DataError::Row {
                file: self.name().to_owned(),
                row: row + place / self.sample_len.max(1),
                reason: format!(
                    "number {} {reason} `{value}`",
                    place % self.sample_len.max(1)
                ),
            })
        };
        if self.input.element().is_float() {
            check(samples, "is, as `f32`,")?;
        }
        normalise.apply(samples);
        check(samples, "becomes, after preprocessing,")
    }
}

impl fmt::Debug for Loader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader")
            .field("samples", &self.samples)
            .field("input", &self.input)
            .field("sample_len", &self.sample_len)
            .field("arrange", &self.arrange)
            .field("normalise", &self.normalise)
            .finish_non_exhaustive()
    }
}

/// How samples are resized, and their shape and layout after that. What has that size already is not resized, and need not
/// be 8-bit images.
fn resizing(
    name: &str,
    input: &SampleInput,
    are_images: bool,
    to: (usize, usize),
    layout: Option<Layout>,
) -> Result<(Option<Resizing>, Vec<usize>, Layout), DataError> {
    let possible = 1..=usize::from(u16::MAX);
    if !possible.contains(&to.0) || !possible.contains(&to.1) {
        return Err(DataError::Preprocessing(format!(
            "cannot resize to {}x{}",
            to.0, to.1
        )));
    }
    let stored = input.shape();
    let axes = layout::image_axes(stored, layout);
    if input.element() != Element::U8 {
        return match axes {
            Ok((height, width, _, layout)) if (height, width) == to => {
                Ok((None, stored.to_vec(), layout))
            }
            _ => Err(DataError::Preprocessing(format!(
                "`--resize` is for 8-bit images, `{name}` holds {}",
                input.element()
            ))),
        };
    }
    let (height, width, channels, layout) = axes.map_err(|reason| {
        DataError::Preprocessing(format!(
            "cannot resize samples of shape {stored:?} in `{name}`: {reason}"
        ))
    })?;
    let (planes, interleaved, shape) = match layout {
        Layout::Chw => (channels, 1, vec![channels, to.0, to.1]),
        Layout::Hwc => (1, channels, vec![to.0, to.1, channels]),
        Layout::Hw | Layout::Flat => (1, 1, vec![to.0, to.1]),
    };
    let resizing = Resizing {
        to,
        planes,
        channels: interleaved,
        plan: (!are_images).then(|| Resize::new((height, width), to)),
    };
    Ok((Some(resizing), shape, layout))
}

/// Adds the option that helps to a mismatch of shapes.
fn explain(reason: String, are_images: bool, shape: &[usize], options: &Preprocessing) -> String {
    if options.resize.is_some() {
        format!("{reason} (after `--resize` they have shape {shape:?})")
    } else if are_images {
        format!("{reason}; `--resize HxW` changes the size of images")
    } else {
        reason
    }
}
