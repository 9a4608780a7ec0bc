//! Inputs that were chosen, and the file they are written to.

use std::borrow::Cow;
use std::path::Path;

use npcov_data::npz::{Compression, NpzWriter};
use npcov_data::{DataError, Element, Loader, Preprocessing};
use serde::{Deserialize, Serialize};

use crate::error::SelectError;
use crate::pool::Pool;
use crate::ranking::Ranked;

/// An input that was chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chosen {
    /// Its position in the pool.
    pub input: usize,
    /// What it is called, where it has a name: a file of an image folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// Why it was chosen: its score, or the number of things that it covers or adds; `None` where
    /// a score is infinite.
    pub score: Option<f64>,
    /// The predicted class.
    pub prediction: usize,
    /// The label; `None` without labels.
    pub label: Option<i64>,
}

impl Chosen {
    /// A place in an order of the inputs from `start` on.
    pub(crate) fn new(ranked: &Ranked, start: usize, pool: &Pool, data: &Loader<'_>) -> Chosen {
        let input = start + ranked.input;
        Chosen {
            input,
            sample: data.sample_name(input).map(Cow::into_owned),
            score: Some(ranked.score).filter(|score| score.is_finite()),
            prediction: pool.predictions[ranked.input] as usize,
            label: data.labels().and_then(|labels| labels.get(input)).copied(),
        }
    }

    /// Whether it is labelled, and classified as something else.
    pub fn is_fault(&self) -> bool {
        self.label
            .is_some_and(|label| label != self.prediction as i64)
    }
}

/// Writes the inputs of an order to an npz file, as they are stored. In the folder of parts until
/// it is whole.
pub(crate) fn write(
    data: &Loader,
    order: &[Ranked],
    start: usize,
    pool: &Pool,
    output: &Path,
) -> Result<(), SelectError> {
    let stored = as_stored(data)?;
    let shape = stored_shape(data).to_vec();
    let bytes = stored.input().element() == Element::U8;
    let temporary = pool.store.unfinished(output);
    let mut writer = NpzWriter::create(&temporary, Compression::Deflated)?;
    let (mut pixels, mut numbers) = (None, None);
    match bytes {
        true => pixels = Some(writer.array::<u8>("x", &shape)?),
        false => numbers = Some(writer.array::<f32>("x", &shape)?),
    }
    let labels = data.labels();
    let y = labels.map(|_| writer.array::<i64>("y", &[])).transpose()?;
    let index = writer.array::<i64>("index", &[])?;
    let score = writer.array::<f64>("score", &[])?;
    let mut sample = vec![0.0; stored.sample_len()];
    for ranked in order {
        let input = start + ranked.input;
        stored.read(input..input + 1, &mut sample)?;
        if let Some(x) = &pixels {
            let pixels: Vec<u8> = sample.iter().map(|&x| x as u8).collect();
            writer.append(x, &pixels)?;
        }
        if let Some(x) = &numbers {
            writer.append(x, &sample)?;
        }
        if let (Some(y), Some(label)) = (&y, labels.and_then(|labels| labels.get(input))) {
            writer.append(y, &[*label])?;
        }
        writer.append(&index, &[input as i64])?;
        writer.append(&score, &[ranked.score])?;
    }
    writer.names(data, order.iter().map(|ranked| start + ranked.input))?;
    writer.finish()?;
    std::fs::rename(&temporary, output).map_err(|source| {
        DataError::Write {
            file: output.display().to_string(),
            source,
        }
        .into()
    })
}

/// The dataset with its numbers as they are stored, in their own order: whoever reads them again
/// preprocesses them as the pool itself is.
fn as_stored<'a>(data: &Loader<'a>) -> Result<Loader<'a>, SelectError> {
    let own = data.preprocessing();
    let nothing = match data.are_images() {
        true => Preprocessing {
            resize: own.resize,
            crop: own.crop,
            interpolation: own.interpolation,
            ..Preprocessing::default()
        },
        false => Preprocessing::default(),
    };
    Ok(data.with_preprocessing(stored_shape(data), &nothing)?)
}

/// The shape that inputs are written in. Decoded images may each have another size, and rows of an array cannot: those
/// are written resized.
fn stored_shape<'l>(data: &'l Loader<'_>) -> &'l [usize] {
    match data.are_images() {
        true => data.stored_shape(),
        false => data.input().shape(),
    }
}
