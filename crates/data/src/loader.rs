//! Samples in the shape, order and scale the model wants, read range by range.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::digest::{Fingerprint, OnceFingerprint};
use crate::element::Element;
use crate::error::DataError;
use crate::image::Image;
use crate::labels::Targets;
use crate::layout::{self, Arrange, ImageShape, Layout};
use crate::preprocess::{Normalise, Preprocessing};
use crate::resize::{Geometry, Resize};
use crate::samples::{SampleInput, Samples};
use crate::wanted::{self, Bound, PlainInput, WantedInput};

/// Samples bound to the shape a model wants.
///
/// It can be shared by threads; each call of [`read`](Loader::read) is independent of the others.
pub struct Loader<'a> {
    samples: Arc<dyn Samples + 'a>,
    /// The input that is preprocessed: what the samples hold for it, and where.
    input: SampleInput,
    bound: Bound,
    /// Its place among the model's inputs.
    place: usize,
    /// The model's other inputs, in their order.
    others: Vec<PlainInput>,
    stored_shape: Vec<usize>,
    sample_len: usize,
    /// See [`WantedInput::missing`].
    missing: bool,
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
    geometry: Geometry,
    /// Height and width of the result.
    to: (usize, usize),
    planes: usize,
    channels: usize,
    /// For arrays, whose samples all have one size; decoded images may each have their own.
    plan: Option<Resize>,
}

impl<'a> Loader<'a> {
    /// Checks that samples fit `wanted`, the shape of the input of a model with one, without the batch axis, and decides
    /// how to rearrange them.
    ///
    /// The shapes may differ by axes of length 1, by flattening and by the place of the channel axis, as far as they tell
    /// what is meant; where they do not, the error names `--layout`, which is `preprocessing.layout`.
    pub fn new(
        samples: Arc<dyn Samples + 'a>,
        wanted: &[usize],
        preprocessing: &Preprocessing,
    ) -> Result<Loader<'a>, DataError> {
        let wanted = WantedInput {
            name: "x".to_owned(),
            shape: wanted.to_vec(),
            whole: false,
            missing: false,
            fixed: None,
        };
        Loader::of_inputs(samples, &[wanted], 0, preprocessing)
    }

    /// As [`new`](Loader::new), for a model with any number of inputs. Those of samples are found by name; where both
    /// sides have a single one, whatever it is called, and columns of a table are put side by side for the input that is
    /// left. The input at `place` is preprocessed, the others are given to the model as they are stored.
    pub fn of_inputs(
        samples: Arc<dyn Samples + 'a>,
        wanted: &[WantedInput],
        place: usize,
        preprocessing: &Preprocessing,
    ) -> Result<Loader<'a>, DataError> {
        let none = || DataError::Inputs {
            file: samples.name().to_owned(),
            reason: "the model has no input for them".to_owned(),
        };
        let mut bound = wanted::bind(&*samples, wanted)?;
        let own = wanted.get(place).ok_or_else(none)?;
        let first = bound.remove(place);
        let others = wanted.iter().enumerate().filter(|(i, _)| *i != place);
        let others = others.zip(bound);
        let others = others
            .map(|((_, wanted), bound)| PlainInput::new(&*samples, wanted, bound))
            .collect::<Result<_, _>>()?;
        let input = match &first {
            Bound::Input(index) => samples.inputs()[*index].clone(),
            Bound::Columns(columns) => wanted::columns_input(&own.name, columns.len())?,
            Bound::Fixed(_) => return Err(none()),
        };
        Loader::bind(samples, input, first, own, preprocessing).map(|loader| Loader {
            place,
            others,
            ..loader
        })
    }

    fn bind(
        samples: Arc<dyn Samples + 'a>,
        input: SampleInput,
        bound: Bound,
        wanted: &WantedInput,
        preprocessing: &Preprocessing,
    ) -> Result<Loader<'a>, DataError> {
        let missing = wanted.missing;
        let wanted = &wanted.shape[..];
        let stored = input.shape();
        let mismatch = |reason: String| DataError::Shape {
            file: samples.name().to_owned(),
            stored: stored.to_vec(),
            wanted: wanted.to_vec(),
            reason,
        };
        let are_images = bound.images(&*samples).is_some();
        // Decoded images lie as HWC whatever was asked for; only an array can be told otherwise.
        let layout = match are_images {
            true => Some(Layout::Hwc),
            false => preprocessing.layout,
        };
        let (resize, shape, layout) = match preprocessing.geometry() {
            None => (None, stored.to_vec(), layout),
            Some(geometry) => {
                let (resizing, shape, layout) =
                    resizing(samples.name(), &input, are_images, geometry, layout)?;
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
            bound,
            place: 0,
            others: Vec::new(),
            stored_shape: shape,
            sample_len,
            missing,
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

    /// The same samples for the input that is preprocessed, in another shape and with other preprocessing; without the
    /// model's other inputs.
    pub fn with_preprocessing(
        &self,
        shape: &[usize],
        preprocessing: &Preprocessing,
    ) -> Result<Loader<'a>, DataError> {
        let wanted = WantedInput {
            name: self.input.name().to_owned(),
            shape: shape.to_vec(),
            whole: false,
            missing: self.missing,
            fixed: None,
        };
        let (samples, input) = (self.samples.clone(), self.input.clone());
        Loader::bind(samples, input, self.bound.clone(), &wanted, preprocessing)
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

    /// Whether there are labels.
    pub fn is_labelled(&self) -> bool {
        self.samples.is_labelled()
    }

    /// The label of one sample, where there are labels.
    pub fn label(&self, row: usize) -> Option<i64> {
        self.samples.label(row)
    }

    /// The numbers that the model should give, where labels are there and are no classes.
    pub fn targets(&self) -> Option<&Targets> {
        self.samples.targets()
    }

    /// The names of the classes, by label.
    pub fn class_names(&self) -> Option<&[String]> {
        self.samples.class_names()
    }

    /// What a sample is called, where it has a name.
    pub fn sample_name(&self, row: usize) -> Option<Cow<'_, str>> {
        self.samples.sample_name(row)
    }

    /// The file of a sample, where it has one of its own.
    pub fn sample_file(&self, row: usize) -> Option<&Path> {
        self.samples.sample_file(row)
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
        self.bound.images(&*self.samples).is_some()
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

    /// Reads the samples of `range` for all inputs of the model, in their order; each slice holds exactly those.
    pub fn read_inputs(
        &self,
        range: Range<usize>,
        out: &mut [&mut [f32]],
    ) -> Result<(), DataError> {
        if let Some(own) = out.get_mut(self.place) {
            self.read(range.clone(), own)?;
        }
        self.read_others(range, out)
    }

    /// The same without the input that is preprocessed, whose slice is left as it is.
    pub fn read_others(
        &self,
        range: Range<usize>,
        out: &mut [&mut [f32]],
    ) -> Result<(), DataError> {
        if self.others.is_empty() {
            return Ok(());
        }
        let place = self.place;
        let slices = out.iter_mut().enumerate().filter(|(i, _)| *i != place);
        let mut buffers = self.lock().pop().unwrap_or_default();
        let result = self
            .others
            .iter()
            .zip(slices)
            .try_for_each(|(input, (_, out))| {
                let needed = range.len().checked_mul(input.len());
                if range.end > self.len() || needed != Some(out.len()) {
                    return Err(DataError::Range {
                        start: range.start,
                        end: range.end,
                        rows: self.len(),
                        buffer: out.len(),
                    });
                }
                input.read(&*self.samples, range.clone(), &mut buffers.bytes, out)
            });
        self.lock().push(buffers);
        result
    }

    /// The place of the input that is preprocessed among the model's.
    pub fn place(&self) -> usize {
        self.place
    }

    /// Number of the model's inputs.
    pub fn inputs(&self) -> usize {
        1 + self.others.len()
    }

    /// The names of the columns that the input is made of, where it is made of columns.
    pub fn column_names(&self) -> Option<Vec<&str>> {
        match &self.bound {
            Bound::Columns(columns) => {
                let inputs = self.samples.inputs();
                Some(columns.iter().map(|&i| inputs[i].name()).collect())
            }
            Bound::Input(_) | Bound::Fixed(_) => None,
        }
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
            (self.bound).read_f32(samples, range.clone(), &mut buffers.bytes, out)?;
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
                    self.bound.read_f32(samples, rows.clone(), bytes, numbers)?;
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
            self.bound.read(&*self.samples, rows, bytes)?;
            let plane = self.input.sample_bytes() / resizing.planes;
            for pixels in bytes.chunks_exact(plane) {
                plan.apply(pixels, resizing.channels, resized);
            }
            return Ok(());
        }
        for row in rows {
            let image = self.image_of(row)?;
            let wrong = |reason: String| DataError::Row {
                file: self.name().to_owned(),
                row,
                reason,
            };
            let plan = (resizing.geometry)
                .plan((image.height(), image.width()))
                .map_err(wrong)?;
            if plan.size() != resizing.to {
                let ((height, width), to) = (plan.size(), resizing.to);
                return Err(wrong(format!(
                    "the image is {height}x{width} after `--resize`, the first one {}x{}; add `--crop`",
                    to.0, to.1
                )));
            }
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
        let images = self.bound.images(&*self.samples);
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

    /// Whether the model takes a number.
    fn fits(&self, x: f32) -> bool {
        x.is_finite() | (self.missing & x.is_nan())
    }

    /// Normalises samples from `row` on, and holds them to be finite, or missing where the model provides for that, before
    /// and after.
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
                .fold(true, |fits, &value| fits & self.fits(value))
            {
                return Ok(());
            }
            let place = samples
                .iter()
                .position(|&value| !self.fits(value))
                .unwrap_or(0);
            let value = samples.get(place).copied().unwrap_or(f32::NAN);
            let number = place % self.sample_len.max(1);
            let columns = self.column_names().filter(|_| value.is_nan());
            let column = columns.and_then(|names| names.get(number).copied());
            Err(DataError::Row {
                file: self.name().to_owned(),
                row: row + place / self.sample_len.max(1),
                reason: match column {
                    Some(name) => format!("`{name}` is missing, and the model has no imputer"),
                    None => format!("number {number} {reason} `{value}`"),
                },
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

/// How samples are resized, and their shape and layout after that. An array that has the final size already is taken as it
/// is, and need not hold 8-bit images: whoever writes resized images to a file reads them again with the same settings.
fn resizing(
    name: &str,
    input: &SampleInput,
    are_images: bool,
    geometry: Geometry,
    layout: Option<Layout>,
) -> Result<(Option<Resizing>, Vec<usize>, Layout), DataError> {
    let possible = 1..=usize::from(u16::MAX);
    let impossible =
        |(height, width): (usize, usize)| !possible.contains(&height) || !possible.contains(&width);
    if let Some(size) = geometry.resize.filter(|size| impossible(size.sides())) {
        let reason = format!("cannot resize to {size}");
        return Err(DataError::Preprocessing(reason));
    }
    if let Some((height, width)) = geometry.crop.filter(|&size| impossible(size)) {
        let reason = format!("cannot crop to {height}x{width}");
        return Err(DataError::Preprocessing(reason));
    }
    let stored = input.shape();
    let axes = layout::image_axes(stored, layout);
    let is_final = |size: (usize, usize)| match geometry.crop {
        Some(crop) => crop == size,
        None => geometry.resize.is_some_and(|to| to.of(size) == size),
    };
    if let Ok((height, width, _, layout)) = axes
        && is_final((height, width))
        && !are_images
    {
        return Ok((None, stored.to_vec(), layout));
    }
    if input.element() != Element::U8 {
        let option = match geometry.resize {
            Some(_) => "--resize",
            None => "--crop",
        };
        return Err(DataError::Preprocessing(format!(
            "`{option}` is for 8-bit images, `{name}` holds {}",
            input.element()
        )));
    }
    let cannot = |reason: String| {
        DataError::Preprocessing(format!(
            "cannot resize samples of shape {stored:?} in `{name}`: {reason}"
        ))
    };
    let (height, width, channels, layout) = axes.map_err(cannot)?;
    let plan = geometry.plan((height, width)).map_err(cannot)?;
    let to = plan.size();
    let (planes, interleaved, shape) = match layout {
        Layout::Chw => (channels, 1, vec![channels, to.0, to.1]),
        Layout::Hwc => (1, channels, vec![to.0, to.1, channels]),
        Layout::Hw | Layout::Flat => (1, 1, vec![to.0, to.1]),
    };
    let resizing = Resizing {
        geometry,
        to,
        planes,
        channels: interleaved,
        plan: (!are_images).then_some(plan),
    };
    Ok((Some(resizing), shape, layout))
}

/// Adds the option that helps to a mismatch of shapes.
fn explain(reason: String, are_images: bool, shape: &[usize], options: &Preprocessing) -> String {
    if let (Some(_), Some(_)) = (options.resize, options.crop) {
        format!("{reason} (after `--resize` and `--crop` they have shape {shape:?})")
    } else if options.resize.is_some() {
        format!("{reason} (after `--resize` they have shape {shape:?})")
    } else if options.crop.is_some() {
        format!("{reason} (after `--crop` they have shape {shape:?})")
    } else if are_images {
        format!("{reason}; `--resize HxW` changes the size of images")
    } else {
        reason
    }
}
