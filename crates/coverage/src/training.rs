//! The training inputs of a decision graph while it is built, shard by shard.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use npcov_artefact::{
    ArtefactError, Kind, Origin, Passing, ShardStore, TrainingProfiles, append_read_rows,
    append_rows, metadata, row_specs,
};
use npcov_criteria::{Compute, PerInput, Tap, Training, TrainingError, kept_blocks};
use npcov_data::Loader;
use npcov_data::safetensors::{SafetensorsReader, SafetensorsWriter, TensorSpec};
use npcov_paths::{
    BitRows, Narrow, PathLayout, PathSource, TrainingActivations, TrainingInputs, gather,
};
use npcov_run::{Found, PathRows, SHARD, Sink, shards};

use crate::counted::{COUNTS, PATTERNS};
use crate::error::CoverageError;

/// So many numbers are [kept](Training::keep) in memory: 128 KB.
const FEW: usize = 1 << 14;

/// The shards of training inputs, in the folder of a decision graph's parts.
pub(crate) struct TrainingShards<'a> {
    form: ShardForm,
    store: &'a ShardStore,
    /// How many lists of numbers, or of patterns, are kept.
    kept: AtomicUsize,
    readers: Vec<SafetensorsReader>,
    inputs: TrainingInputs,
    importance: Vec<f64>,
}

/// What shards of training inputs hold, or of inputs for calibration.
#[derive(Clone)]
pub(crate) struct ShardForm {
    /// What shards are called, before their number.
    pub(crate) word: &'static str,
    pub(crate) layout: PathLayout,
    /// Number of logits.
    pub(crate) logits: usize,
    /// The layer whose importance is summed up.
    pub(crate) importance: Option<usize>,
    /// Other numbers that criteria are fitted with, and how many of each an input has.
    pub(crate) taps: Vec<(Tap, usize)>,
}

impl ShardForm {
    /// What a shard is called.
    pub(crate) fn name(&self, index: usize) -> String {
        format!("{}-{index:06}", self.word)
    }

    /// What the numbers of a tap are called.
    pub(crate) fn tap_name(tap: Tap) -> String {
        format!("tap.{}.{}", tap.layer, tap.name())
    }

    /// What an earlier run left of a shard.
    pub(crate) fn find(&self, store: &ShardStore, i: usize, inputs: Range<usize>) -> Found {
        let specs = self.specs(inputs.len());
        store.find(&self.name(i), inputs, |reader| {
            let mut specs = specs.iter();
            specs.all(|spec| reader.tensor(&spec.name) == Some(spec))
        })
    }

    fn important(&self) -> usize {
        self.importance
            .map_or(0, |layer| self.layout.neurons(layer))
    }

    fn specs(&self, inputs: usize) -> Vec<TensorSpec> {
        let mut specs = row_specs(&self.layout, "path", inputs);
        specs.push(TensorSpec::of::<u32>("prediction", &[inputs]));
        let neurons = self.layout.total_neurons();
        specs.push(TensorSpec::of::<u8>("profile", &[inputs, neurons]));
        specs.push(TensorSpec::of::<f32>("activation", &[inputs, neurons]));
        specs.push(TensorSpec::of::<f32>("logits", &[inputs, self.logits]));
        specs.push(TensorSpec::of::<f64>("importance", &[self.important()]));
        for &(tap, width) in &self.taps {
            let name = ShardForm::tap_name(tap);
            specs.push(TensorSpec::of::<f32>(&name, &[inputs, width]));
        }
        specs
    }
}

/// Writes the shards of training inputs.
pub(crate) struct ShardWriter<'a> {
    pub(crate) form: &'a ShardForm,
    pub(crate) store: &'a ShardStore,
    pub(crate) origin: Origin,
    /// The dataset, which may have labels.
    pub(crate) data: &'a Loader<'a>,
    /// What [`ShardForm::taps`] name, of the shard's inputs so far.
    pub(crate) taps: Vec<Vec<f32>>,
}

impl Sink<'_> for ShardWriter<'_> {
    type Error = CoverageError;

    fn inputs(&mut self, rows: &PathRows) -> Result<(), CoverageError> {
        for (all, numbers) in self.taps.iter_mut().zip(&rows.taps) {
            all.extend_from_slice(numbers);
        }
        Ok(())
    }

    fn shard(&mut self, index: usize, shard: &PathRows) -> Result<(), CoverageError> {
        let metadata = metadata(Kind::TrainingShard, &self.origin)?;
        let mut sums = vec![0.0; self.form.important()];
        let rows = shard.importance.chunks_exact(sums.len().max(1));
        for ((row, &prediction), importance) in shard.rows.clone().zip(&shard.predictions).zip(rows)
        {
            let label = self.data.label(row);
            let is_correct = label.is_none_or(|label| label == i64::from(prediction));
            for (sum, &x) in sums.iter_mut().zip(importance) {
                if is_correct && x.is_finite() {
                    *sum += f64::from(x);
                }
            }
        }
        let specs = self.form.specs(shard.rows.len());
        let name = self.form.name(index);
        let inputs = shard.rows.clone();
        let written: Result<(), CoverageError> =
            self.store
                .write(&name, inputs, &metadata, &specs, |writer| {
                    writer.append("prediction", &shard.predictions)?;
                    writer.append("profile", &shard.profiles)?;
                    writer.append("activation", &shard.activations)?;
                    writer.append("logits", &shard.logits)?;
                    append_rows(writer, &self.form.layout, "path", &shard.paths)?;
                    writer.append("importance", &sums)?;
                    for (&(tap, _), numbers) in self.form.taps.iter().zip(&self.taps) {
                        writer.append(&ShardForm::tap_name(tap), numbers)?;
                    }
                    Ok(())
                });
        self.taps.iter_mut().for_each(Vec::clear);
        written
    }
}

/// Reads what is kept of the inputs of a shard: classes, profiles and activations.
pub(crate) fn read_shard(
    (store, form): (&ShardStore, &ShardForm),
    index: usize,
    rows: Range<usize>,
) -> Result<PathRows, CoverageError> {
    let reader = store.open(&form.name(index), rows.clone())?;
    Ok(PathRows {
        rows,
        predictions: reader.read("prediction")?,
        profiles: reader.read("profile")?,
        activations: reader.read("activation")?,
        ..PathRows::default()
    })
}

impl<'a> TrainingShards<'a> {
    /// Opens all shards of a range.
    pub(crate) fn open(
        store: &'a ShardStore,
        form: &ShardForm,
        range: Range<usize>,
        labels: Option<Narrow>,
    ) -> Result<TrainingShards<'a>, CoverageError> {
        let mut training = TrainingShards {
            form: form.clone(),
            store,
            kept: AtomicUsize::new(0),
            readers: Vec::new(),
            inputs: TrainingInputs {
                layout: form.layout.clone(),
                predictions: Narrow::default(),
                labels,
            },
            importance: vec![0.0; form.important()],
        };
        for (i, inputs) in shards(range) {
            let mut reader = store.open(&form.name(i), inputs)?;
            reader.slim(training.readers.first());
            let predictions: Vec<u32> = reader.read("prediction")?;
            let predictions = predictions.into_iter().map(i64::from);
            training.inputs.predictions.extend(predictions);
            let sums: Vec<f64> = reader.read("importance")?;
            let totals = training.importance.iter_mut().zip(sums);
            totals.for_each(|(total, sum)| *total += sum);
            training.readers.push(reader);
        }
        Ok(training)
    }

    /// What is known of every input.
    pub(crate) fn known(&self) -> &TrainingInputs {
        &self.inputs
    }

    /// Reads the relevance profiles of some inputs, one after the other.
    pub(crate) fn read_profiles(
        &self,
        inputs: &[u32],
        out: &mut [u8],
    ) -> Result<(), ArtefactError> {
        let profiles = out.chunks_exact_mut(self.form.layout.total_neurons().max(1));
        for (&input, out) in inputs.iter().zip(profiles) {
            self.read_profile(input, out)?;
        }
        Ok(())
    }

    /// Keeps patterns that some inputs show, with how many do, until what is given back is dropped.
    pub(crate) fn keep_patterns(
        &self,
        patterns: &[(Box<[u32]>, u32)],
    ) -> Result<Passing, CoverageError> {
        let width = patterns.first().map_or(0, |(pattern, _)| pattern.len());
        let specs = [
            TensorSpec::of::<u32>(PATTERNS, &[patterns.len(), width]),
            TensorSpec::of::<u32>(COUNTS, &[patterns.len()]),
        ];
        let (name, inputs) = (self.next_kept(), 0..self.inputs.len());
        let fill = |writer: &mut SafetensorsWriter| -> Result<(), CoverageError> {
            for (pattern, count) in patterns {
                writer.append(PATTERNS, pattern)?;
                writer.append(COUNTS, &[*count])?;
            }
            Ok(())
        };
        self.store
            .write(&name, inputs.clone(), "{}", &specs, fill)?;
        Ok(self.store.open_once(&name, inputs)?)
    }

    /// What is kept next is called.
    fn next_kept(&self) -> String {
        format!("kept-{:06}", self.kept.fetch_add(1, Ordering::Relaxed))
    }

    /// Some inputs as they were extracted; their positions ascend.
    pub(crate) fn batch(&self, inputs: &[u32]) -> Result<PathRows, CoverageError> {
        let neurons = self.form.layout.total_neurons();
        let mut batch = PathRows {
            rows: 0..inputs.len(),
            predictions: Vec::with_capacity(inputs.len()),
            logits: vec![0.0; inputs.len() * self.form.logits],
            paths: gather(self, &self.form.layout, inputs)?,
            activations: vec![0.0; inputs.len() * neurons],
            ..PathRows::default()
        };
        let logits = batch.logits.chunks_exact_mut(self.form.logits.max(1));
        let activations = batch.activations.chunks_exact_mut(neurons.max(1));
        for ((&input, logits), activations) in inputs.iter().zip(logits).zip(activations) {
            batch.predictions.push(self.prediction(input as usize));
            let (shard, row) = (input as usize / SHARD, input as usize % SHARD);
            if let Some(reader) = self.readers.get(shard) {
                reader.read_row_into("activation", row, activations)?;
                reader.read_row_into("logits", row, logits)?;
            }
        }
        Ok(batch)
    }
}

impl PathSource for TrainingShards<'_> {
    type Error = ArtefactError;

    fn read_paths(&self, inputs: Range<usize>, out: &mut BitRows) -> Result<(), ArtefactError> {
        let mut start = inputs.start;
        while start < inputs.end {
            let (shard, row) = (start / SHARD, start % SHARD);
            let count = (SHARD - row).min(inputs.end - start);
            if let Some(reader) = self.readers.get(shard) {
                append_read_rows(reader, &self.form.layout, "path", row..row + count, out)?;
            }
            start += count;
        }
        Ok(())
    }
}

impl TrainingActivations for TrainingShards<'_> {
    fn read(&self, input: u32, out: &mut [f32]) -> Result<(), ArtefactError> {
        let (shard, row) = (input as usize / SHARD, input as usize % SHARD);
        match self.readers.get(shard) {
            Some(reader) => Ok(reader.read_row_into("activation", row, out)?),
            None => Ok(()),
        }
    }
}

impl TrainingProfiles for TrainingShards<'_> {
    fn read_profile(&self, input: u32, out: &mut [u8]) -> Result<(), ArtefactError> {
        let (shard, row) = (input as usize / SHARD, input as usize % SHARD);
        match self.readers.get(shard) {
            Some(reader) => Ok(reader.read_row_into("profile", row, out)?),
            None => Ok(()),
        }
    }
}

impl Training for TrainingShards<'_> {
    fn inputs(&self) -> usize {
        self.inputs.len()
    }

    fn prediction(&self, input: usize) -> u32 {
        self.inputs.prediction(input)
    }

    fn read(
        &self,
        inputs: Range<usize>,
        neurons: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), TrainingError> {
        for (input, row) in inputs.zip(out.chunks_exact_mut(neurons.len().max(1))) {
            if let Some(reader) = self.readers.get(input / SHARD) {
                reader.read_row_part("activation", input % SHARD, neurons.clone(), row)?;
            }
        }
        Ok(())
    }

    fn read_tap(
        &self,
        tap: Tap,
        inputs: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), TrainingError> {
        let found = self.form.taps.iter().find(|(known, _)| *known == tap);
        let &(_, width) = found.ok_or("numbers that were not kept")?;
        let name = ShardForm::tap_name(tap);
        for (input, row) in inputs.zip(out.chunks_exact_mut(width.max(1))) {
            if let Some(reader) = self.readers.get(input / SHARD) {
                reader.read_row_into(&name, input % SHARD, row)?;
            }
        }
        Ok(())
    }

    fn keep(&self, count: usize, compute: &mut Compute<'_>) -> Result<PerInput, TrainingError> {
        if count <= FEW {
            let mut numbers = vec![0.0; count];
            compute(0..count, &mut numbers)?;
            return Ok(PerInput::in_memory(numbers));
        }
        let name = self.next_kept();
        let specs = [TensorSpec::of::<f64>("number", &[count])];
        let fill = |writer: &mut SafetensorsWriter| -> Result<(), TrainingError> {
            let mut numbers = Vec::new();
            for places in kept_blocks(count) {
                numbers.resize(places.len(), 0.0);
                compute(places, &mut numbers)?;
                writer.append("number", &numbers)?;
            }
            Ok(())
        };
        self.store.write(&name, 0..count, "{}", &specs, fill)?;
        let kept = self.store.open_once(&name, 0..count)?;
        Ok(PerInput::new(count, move |places, out| {
            Ok(kept.reader().read_rows("number", places, out)?)
        }))
    }

    fn importance(&self, layer: usize) -> Option<&[f64]> {
        (self.form.importance == Some(layer)).then_some(&self.importance[..])
    }
}
