//! Calibration by data of the user's own: inputs that the network was not trained with.

use std::ops::{ControlFlow, Range};

use npcov_artefact::{Calibration, DataRecord, NO_SCORE};
use npcov_paths::{Landmarks, PathLayout};
use npcov_run::{
    Event, Extraction, Found, PathRows, Progress, RunError, SampleRange, Sink, extract_shards,
};

use crate::error::CoverageError;
use crate::scores::{LastLayer, neighbours_of_all, unfamiliar};
use crate::training::TrainingShards;

/// Training inputs that others are held against.
pub(crate) struct Known<'a> {
    pub(crate) shards: &'a TrainingShards,
    pub(crate) landmarks: &'a Landmarks,
    pub(crate) layout: &'a PathLayout,
    pub(crate) classes: usize,
}

/// What a graph says of its calibration inputs. Training inputs cannot be among them: they are nearer to
/// others of the training data than any input is that the network does not know.
pub(crate) fn record(
    inputs: &SampleRange<'_>,
    training: &DataRecord,
) -> Result<DataRecord, CoverageError> {
    let SampleRange {
        data, ref range, ..
    } = *inputs;
    if range.is_empty() {
        return Err(RunError::NoInputs(data.name().to_owned()).into());
    }
    let record = DataRecord::new(data, range.start, range.end)?;
    let apart = record.end <= training.start || training.end <= record.start;
    match record.sha256 == training.sha256 && !apart {
        true => Err(CoverageError::CalibratedByTraining(data.name().to_owned())),
        false => Ok(record),
    }
}

/// The scores of inputs that are classified as labelled; of all where there are no labels.
pub(crate) fn calibrate(
    extraction: &Extraction,
    inputs: &SampleRange<'_>,
    known: &Known<'_>,
    progress: &mut dyn Progress,
) -> Result<Calibration, CoverageError> {
    let mut strangers = Strangers {
        known,
        last: LastLayer::new(known.layout, known.landmarks, known.shards)?,
        labels: inputs.data.labels(),
        threads: inputs.threads,
        unfamiliar: Vec::new(),
        contested: Vec::new(),
    };
    let find = |_, _: Range<usize>| Found::Nothing;
    let progress = &mut NothingKept(progress);
    extract_shards(extraction, inputs, find, progress, &mut strangers)?;
    Ok(Calibration::new(strangers.unfamiliar, strangers.contested))
}

/// Progress of work whose parts are not there for a later run.
struct NothingKept<'a>(&'a mut dyn Progress);

impl Progress for NothingKept<'_> {
    fn on(&mut self, event: Event) -> ControlFlow<()> {
        match event {
            Event::Kept(_) => ControlFlow::Continue(()),
            event => self.0.on(event),
        }
    }
}

/// Inputs that the network was not trained with, and their scores.
struct Strangers<'a> {
    known: &'a Known<'a>,
    last: LastLayer,
    /// By position in the dataset.
    labels: Option<&'a [i64]>,
    threads: usize,
    unfamiliar: Vec<f64>,
    contested: Vec<f64>,
}

impl Sink<'_> for Strangers<'_> {
    type Error = CoverageError;

    fn shard(&mut self, _index: usize, rows: &PathRows) -> Result<(), CoverageError> {
        let Known {
            shards,
            landmarks,
            classes,
            ..
        } = *self.known;
        let is_right = |place: usize| {
            let label = self.labels.and_then(|l| l.get(rows.rows.start + place));
            label.is_none_or(|&label| label == i64::from(rows.predictions[place]))
        };
        let read = |landmark: Range<usize>, out: &mut [u8]| {
            shards.read_profiles(&landmarks.rows()[landmark], out)
        };
        let (threads, scores) = (self.threads, &mut self.unfamiliar);
        neighbours_of_all(landmarks, classes, &read, rows, threads, |place, found| {
            let score = unfamiliar(found);
            if is_right(place) && score != NO_SCORE {
                scores.push(score);
            }
        })?;
        let contested = self.last.scores(landmarks, shards, rows, threads)?;
        let right = contested.into_iter().enumerate();
        let right = right.filter(|&(place, score)| is_right(place) && score != NO_SCORE);
        self.contested.extend(right.map(|(_, score)| score));
        Ok(())
    }
}
