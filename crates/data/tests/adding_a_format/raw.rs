//! Raw files: `f32` numbers, little-endian, one sample after the other, and nothing else. The shape of
//! a sample stands in the name of the file, as in `digits.28x28.f32`.

use std::path::Path;
use std::sync::Arc;

use npcov_data::formats::{Format, Location};
use npcov_data::rows::{NumberFormat, Rows};
use npcov_data::{Arrays, DataError, Element, ReadError, SampleInput, Samples, Source};

/// A file of raw numbers.
pub(crate) struct Raw;

impl Format for Raw {
    fn name(&self) -> &str {
        "raw (`.f32`)"
    }

    fn recognises(&self, location: &Location<'_>) -> bool {
        let extension = location.path().extension();
        !location.is_folder() && extension.is_some_and(|extension| extension == "f32")
    }

    fn open(&self, location: &Location<'_>) -> Result<Arc<dyn Samples>, DataError> {
        location.refuse_part()?;
        let rows = rows(location.path(), location.source()?);
        let rows = rows.map_err(|error| error.in_file(location.file()))?;
        let samples = Arrays::of_rows("x", rows)?.named(location.spec());
        Ok(Arc::new(samples))
    }
}

/// The numbers of a file, if they are whole samples.
fn rows(path: &Path, source: &Source) -> Result<Rows, ReadError> {
    let malformed = |reason: &str| ReadError::Malformed(reason.to_owned());
    let sample = sample_shape(path)
        .ok_or_else(|| malformed("says no shape, as `digits.28x28.f32` does in its name"))?;
    // Checks that a sample is neither nothing nor absurd.
    let bytes = SampleInput::new("x", &sample, Element::F32)?.sample_bytes() as u64;
    if !source.len().is_multiple_of(bytes) {
        return Err(malformed("ends inside a sample"));
    }
    let count = usize::try_from(source.len() / bytes);
    let count = count.map_err(|_| malformed("is too long for this machine"))?;
    let format = NumberFormat {
        element: Element::F32,
        big_endian: false,
        fortran_order: false,
        shape: [&[count], &sample[..]].concat(),
    };
    Rows::new(format, source.clone())
}

/// The axes between the last two dots of a name.
fn sample_shape(path: &Path) -> Option<Vec<usize>> {
    let (_, axes) = path.file_stem()?.to_str()?.rsplit_once('.')?;
    axes.split('x').map(|axis| axis.parse().ok()).collect()
}
