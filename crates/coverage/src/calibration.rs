//! Calibration by data of the user's own: inputs that the network was not trained with.

use std::ops::Range;

use npcov_artefact::{Calibration, DataRecord, NO_SCORE, ShardStore};
use npcov_data::Loader;
use npcov_paths::{Landmarks, PathLayout};
use npcov_run::{PathRows, RunError, SampleRange, shards};

use crate::error::CoverageError;
use crate::scores::{LastLayer, neighbours_of_all, unfamiliar};
use crate::training::{ShardForm, TrainingShards, read_shard};

/// Training inputs that others are held against.
pub(crate) struct Known<'a> {
    pub(crate) shards: &'a TrainingShards<'a>,
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

/// The scores of inputs that are classified as labelled, by what is kept of them; of all where there are
/// no labels.
pub(crate) fn calibrate(
    inputs: &SampleRange<'_>,
    kept: (&ShardStore, &ShardForm),
    known: &Known<'_>,
) -> Result<Calibration, CoverageError> {
    let mut strangers = Strangers {
        known,
        last: LastLayer::new(known.layout, known.landmarks, known.shards)?,
        data: inputs.data,
        threads: inputs.threads,
        unfamiliar: Vec::new(),
        contested: Vec::new(),
    };
    for (i, rows) in shards(inputs.range.clone()) {
        strangers.add(&read_shard(kept, i, rows)?)?;
    }
    Ok(Calibration::new(strangers.unfamiliar, strangers.contested))
}

/// Inputs that the network was not trained with, and their scores.
struct Strangers<'a> {
    known: &'a Known<'a>,
    last: LastLayer,
    /// The dataset, which may have labels.
    data: &'a Loader<'a>,
    threads: usize,
    unfamiliar: Vec<f64>,
    contested: Vec<f64>,
}

impl Strangers<'_> {
    fn add(&mut self, rows: &PathRows) -> Result<(), CoverageError> {
        let Known {
            shards,
            landmarks,
            classes,
            ..
        } = *self.known;
        let is_right = |place: usize| {
            let label = self.data.label(rows.rows.start + place);
            label.is_none_or(|label| label == i64::from(rows.predictions[place]))
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
