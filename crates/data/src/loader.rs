//! Samples in the shape, order and scale the model wants, read range by range.

use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::dataset::{Dataset, Samples};
use crate::element::Element;
use crate::error::DataError;
use crate::folder::ImageFolder;
use crate::layout::{self, Arrange, ImageShape, Layout};
use crate::preprocess::{Normalise, Preprocessing};
use crate::resize::Resize;
use crate::rows::Rows;

/// A dataset bound to the sample shape a model wants.
///
/// It can be shared by threads; each call of [`read`](Loader::read) is independent of the others.
pub struct Loader {
    dataset: Dataset,
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
    /// For arrays, whose samples all have one size; images of a folder may each have their own.
    plan: Option<Resize>,
}

impl Loader {
    /// Checks that the dataset fits `wanted`, the shape of one model input without the batch axis, and decides how to
    /// rearrange it.
    ///
    /// The shapes may differ by axes of length 1, by flattening and by the place of the channel axis, as far as they tell
    /// what is meant; where they do not, the error names `--layout`, which is `preprocessing.layout`.
    pub fn new(
        dataset: Dataset,
        wanted: &[usize],
        preprocessing: &Preprocessing,
    ) -> Result<Loader, DataError> {
        let stored = dataset.sample_shape();
        let mismatch = |reason: String| DataError::Shape {
            file: dataset.name().to_owned(),
            stored: stored.to_vec(),
            wanted: wanted.to_vec(),
            reason,
        };
        // Decoded images lie as HWC whatever was asked for; only an array can be told otherwise.
        let layout = match dataset.samples() {
            Samples::Images(_) => Some(Layout::Hwc),
            Samples::Rows(_) => preprocessing.layout,
        };
        let (resize, shape, layout) = match preprocessing.resize {
            None => (None, stored.to_vec(), layout),
            Some(to) => {
                let (resizing, shape, layout) = resizing(&dataset, to, layout)?;
                (resizing, shape, Some(layout))
            }
        };
        let (arrange, channels) = layout::arrange(&shape, wanted, layout)
            .map_err(|reason| mismatch(explain(reason, &dataset, &shape, preprocessing)))?;
        let normalise = Normalise::new(preprocessing, wanted, channels)?;
        let image = layout::image_shape(&shape, wanted, channels);
        let sample_len = wanted.iter().product();
        let mut warnings = Vec::new();
        if dataset.element() == Element::U8 && preprocessing.divide.is_none() {
            warnings.push(
                "pixel values 0..255 go into the model as they are; add `--divide 255` if it was trained on 0..1"
                    .to_owned(),
            );
        }
        Ok(Loader {
            dataset,
            stored_shape: shape,
            sample_len,
            resize,
            arrange,
            normalise,
            preprocessing: preprocessing.clone(),
            image,
            warnings,
            buffers: Mutex::new(Vec::new()),
        })
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.dataset.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.dataset.is_empty()
    }

    /// One label per sample, where the dataset has labels.
    pub fn labels(&self) -> Option<&[i64]> {
        self.dataset.labels()
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

    /// What is probably not meant, though it can be done.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The dataset behind it.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
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
        let result = match self.dataset.samples() {
            Samples::Rows(rows) => self.read_rows(rows, normalise, range, &mut buffers, out),
            Samples::Images(folder) => {
                self.read_images(folder, normalise, range, &mut buffers, out)
            }
        };
        self.lock().push(buffers);
        result
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Buffers>> {
        // A panic elsewhere cannot leave spare buffers in a bad state.
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_rows(
        &self,
        rows: &Rows,
        normalise: &Normalise,
        range: Range<usize>,
        buffers: &mut Buffers,
        out: &mut [f32],
    ) -> Result<(), DataError> {
        let named = |error: crate::ReadError| error.in_file(self.dataset.name());
        if self.resize.is_none() && self.arrange == Arrange::AsIs {
            rows.read_f32(range.clone(), &mut buffers.bytes, out)
                .map_err(named)?;
            return self.finish(normalise, range.start, rows.element(), out);
        }
        // Several rows at a time: one read serves many rows, in Fortran order too.
        let step = ((1 << 20) / rows.row_bytes().max(4 * self.sample_len)).max(1);
        let mut start = range.start;
        for block in out.chunks_mut(step * self.sample_len) {
            let count = block.len() / self.sample_len;
            let here = start..start + count;
            buffers.numbers.resize(block.len(), 0.0);
            if let Some(resizing) = &self.resize {
                buffers.bytes.resize(count * rows.row_bytes(), 0);
                rows.read(here, &mut buffers.bytes).map_err(named)?;
                buffers.resized.clear();
                if let Some(plan) = &resizing.plan {
                    let plane = rows.row_bytes() / resizing.planes;
                    for pixels in buffers.bytes.chunks_exact(plane) {
                        plan.apply(pixels, resizing.channels, &mut buffers.resized);
                    }
                }
                Element::U8.to_f32(false, &buffers.resized, &mut buffers.numbers);
            } else {
                rows.read_f32(here, &mut buffers.bytes, &mut buffers.numbers)
                    .map_err(named)?;
            }
            let stored = buffers.numbers.chunks_exact(self.sample_len);
            for (from, to) in stored.zip(block.chunks_exact_mut(self.sample_len)) {
                self.arrange.apply(from, to);
            }
            self.finish(normalise, start, rows.element(), block)?;
            start += count;
        }
        Ok(())
    }

    fn read_images(
        &self,
        folder: &ImageFolder,
        normalise: &Normalise,
        range: Range<usize>,
        buffers: &mut Buffers,
        out: &mut [f32],
    ) -> Result<(), DataError> {
        for (row, sample) in range.zip(out.chunks_exact_mut(self.sample_len)) {
            let image = folder.image(row)?;
            let pixels = match &self.resize {
                Some(resizing) => {
                    buffers.resized.clear();
                    let plan = Resize::new((image.height, image.width), resizing.to);
                    plan.apply(&image.pixels, image.channels, &mut buffers.resized);
                    &buffers.resized
                }
                None => &image.pixels,
            };
            let [height, width, _] = *folder.shape();
            if self.resize.is_none() && (image.height, image.width) != (height, width) {
                return Err(DataError::Row {
                    file: folder.name(row),
                    row,
                    reason: format!(
                        "the image is {}x{}, the first one of the folder {height}x{width}; add `--resize`",
                        image.height, image.width
                    ),
                });
            }
            buffers.numbers.resize(self.sample_len, 0.0);
            Element::U8.to_f32(false, pixels, &mut buffers.numbers);
            self.arrange.apply(&buffers.numbers, sample);
            self.finish(normalise, row, Element::U8, sample)?;
        }
        Ok(())
    }

    /// Normalises samples from `row` on, and holds them to be finite before and after.
    fn finish(
        &self,
        normalise: &Normalise,
        row: usize,
        element: Element,
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
                file: self.dataset.name().to_owned(),
                row: row + place / self.sample_len.max(1),
                reason: format!(
                    "number {} {reason} `{value}`",
                    place % self.sample_len.max(1)
                ),
            })
        };
        if element.is_float() {
            check(samples, "is, as `f32`,")?;
        }
        normalise.apply(samples);
        check(samples, "becomes, after preprocessing,")
    }
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader")
            .field("dataset", &self.dataset)
            .field("sample_len", &self.sample_len)
            .field("arrange", &self.arrange)
            .field("normalise", &self.normalise)
            .finish_non_exhaustive()
    }
}

/// How the samples of a dataset are resized, and their shape and layout after that. What has that size already is not
/// resized, and need not be 8-bit images.
fn resizing(
    dataset: &Dataset,
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
    let stored = dataset.sample_shape();
    let axes = layout::image_axes(stored, layout);
    if dataset.element() != Element::U8 {
        return match axes {
            Ok((height, width, _, layout)) if (height, width) == to => {
                Ok((None, stored.to_vec(), layout))
            }
            _ => Err(DataError::Preprocessing(format!(
                "`--resize` is for 8-bit images, `{}` holds {}",
                dataset.name(),
                dataset.element()
            ))),
        };
    }
    let (height, width, channels, layout) = axes.map_err(|reason| {
        DataError::Preprocessing(format!(
            "cannot resize samples of shape {stored:?} in `{}`: {reason}",
            dataset.name()
        ))
    })?;
    let (planes, interleaved, shape) = match layout {
        Layout::Chw => (channels, 1, vec![channels, to.0, to.1]),
        Layout::Hwc => (1, channels, vec![to.0, to.1, channels]),
        Layout::Hw | Layout::Flat => (1, 1, vec![to.0, to.1]),
    };
    let plan = match dataset.samples() {
        Samples::Rows(_) => Some(Resize::new((height, width), to)),
        Samples::Images(_) => None,
    };
    let resizing = Resizing {
        to,
        planes,
        channels: interleaved,
        plan,
    };
    Ok((Some(resizing), shape, layout))
}

/// Adds the option that helps to a mismatch of shapes.
fn explain(reason: String, dataset: &Dataset, shape: &[usize], options: &Preprocessing) -> String {
    if options.resize.is_some() {
        format!("{reason} (after `--resize` they have shape {shape:?})")
    } else if matches!(dataset.samples(), Samples::Images(_)) {
        format!("{reason}; `--resize HxW` changes the size of images")
    } else {
        reason
    }
}
