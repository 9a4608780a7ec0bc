//! Extracting paths shard by shard, so that nothing finished is ever done again.

use std::ops::Range;
use std::path::PathBuf;

use npcov_criteria::{Training, TrainingError};
use npcov_data::Loader;
use npcov_data::safetensors::{SafetensorsReader, SafetensorsWriter, TensorSpec};
use npcov_paths::{BitRows, PathGraph, PathLayout, TrainingActivations, TrainingPaths};

use crate::artefact::parts::{SHARD, shards};
use crate::artefact::{Kind, PartsFolder, graph_file, metadata};
use crate::error::Error;
use crate::paths::PathBatch;
use crate::probe::Probe;
use crate::tracer::Watch;
use crate::watching::Watching;

/// What a long piece of work tells while it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// So many inputs were found finished from an earlier run.
    Resumed(usize),
    /// So many more inputs are finished.
    Inputs(usize),
    /// The inputs are finished, and clusters are being found.
    Clustering,
    /// Clusters are found, and criteria are being fitted to the training data.
    Fitting,
}

/// Takes what is extracted of inputs.
pub(crate) trait Sink<'a> {
    /// Who watches what is computed by the way.
    fn watching(&self) -> Option<&'a Watching<'a>> {
        None
    }

    /// Some inputs of a shard, as soon as they are there.
    fn inputs(&mut self, _batch: &PathBatch) -> Result<(), Error> {
        Ok(())
    }

    /// A whole shard, without what [`PathBatch::taps`] hold.
    fn shard(&mut self, index: usize, shard: &PathBatch) -> Result<(), Error>;
}

/// Extracts what there is of a range and hands on those shards that `is_done` does not know yet.
pub(crate) fn extract_shards<'a>(
    probe: &Probe,
    data: &Loader,
    range: Range<usize>,
    threads: usize,
    is_done: impl Fn(usize, Range<usize>) -> bool,
    on: &mut dyn FnMut(Event),
    sink: &mut dyn Sink<'a>,
) -> Result<(), Error> {
    let (done, missing): (Vec<_>, Vec<_>) =
        shards(range.clone()).partition(|(i, rows)| is_done(*i, rows.clone()));
    let finished = done.iter().map(|(_, rows)| rows.len()).sum();
    if finished > 0 {
        on(Event::Resumed(finished));
    }
    // Neighbouring shards are one run: threads and their memory are set up once.
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (_, rows) in missing {
        match runs.last_mut() {
            Some(run) if run.end == rows.start => run.end = rows.end,
            _ => runs.push(rows),
        }
    }
    let watching = sink.watching();
    let watch = Watch {
        piece: SHARD,
        show: &|shown| {
            if let Some(watching) = watching {
                watching.watch(shown);
            }
        },
    };
    for run in runs {
        let mut shard = PathBatch::empty(run.start);
        probe.run::<Error>(data, run.clone(), threads, &watch, |batch| {
            on(Event::Inputs(batch.rows.len()));
            sink.inputs(batch)?;
            shard.append(batch);
            if shard.rows.len() == SHARD || shard.rows.end == run.end {
                sink.shard((shard.rows.start - range.start) / SHARD, &shard)?;
                shard = PathBatch::empty(shard.rows.end);
            }
            Ok(())
        })?;
    }
    Ok(())
}

impl PathBatch {
    fn empty(start: usize) -> PathBatch {
        PathBatch {
            rows: start..start,
            ..PathBatch::default()
        }
    }

    /// Adds inputs that follow, without their taps.
    fn append(&mut self, next: &PathBatch) {
        if self.rows.is_empty() {
            self.paths = BitRows::new(next.paths.width());
        }
        self.rows.end += next.rows.len();
        self.predictions.extend_from_slice(&next.predictions);
        self.logits.extend_from_slice(&next.logits);
        self.activations.extend_from_slice(&next.activations);
        self.importance.extend_from_slice(&next.importance);
        next.paths.rows().for_each(|path| self.paths.push(path));
    }
}

/// The shards of training inputs, in the folder of a decision graph's parts.
pub(crate) struct TrainingShards {
    form: ShardForm,
    readers: Vec<SafetensorsReader>,
    predictions: Vec<u32>,
    labels: Option<Vec<i64>>,
    importance: Vec<f64>,
}

/// What shards of training inputs hold.
#[derive(Clone)]
pub(crate) struct ShardForm {
    pub(crate) layout: PathLayout,
    /// Number of logits.
    pub(crate) logits: usize,
    /// The layer whose importance is summed up.
    pub(crate) importance: Option<usize>,
}

impl ShardForm {
    /// The file of a shard.
    fn file(parts: &PartsFolder, index: usize) -> PathBuf {
        parts.file(&format!("paths-{index:06}"))
    }

    /// Whether a shard is there and whole.
    pub(crate) fn is_done(&self, parts: &PartsFolder, i: usize, inputs: usize) -> bool {
        let Ok(reader) = SafetensorsReader::open(ShardForm::file(parts, i)) else {
            return false;
        };
        self.specs(inputs)
            .iter()
            .all(|spec| reader.tensor(&spec.name) == Some(spec))
    }

    fn important(&self) -> usize {
        self.importance
            .map_or(0, |layer| self.layout.neurons(layer))
    }

    fn specs(&self, inputs: usize) -> Vec<TensorSpec> {
        let mut specs = graph_file::row_specs(&self.layout, "path", inputs);
        specs.push(TensorSpec::of::<u32>("prediction", &[inputs]));
        let neurons = self.layout.total_neurons();
        specs.push(TensorSpec::of::<f32>("activation", &[inputs, neurons]));
        specs.push(TensorSpec::of::<f32>("logits", &[inputs, self.logits]));
        specs.push(TensorSpec::of::<f64>("importance", &[self.important()]));
        specs
    }
}

/// Writes the shards of training inputs.
pub(crate) struct ShardWriter<'a> {
    pub(crate) form: &'a ShardForm,
    pub(crate) parts: &'a PartsFolder,
    /// By position in the dataset.
    pub(crate) labels: Option<&'a [i64]>,
}

impl Sink<'_> for ShardWriter<'_> {
    fn shard(&mut self, index: usize, shard: &PathBatch) -> Result<(), Error> {
        let range = [shard.rows.start, shard.rows.end];
        let metadata = metadata(Kind::TrainingShard, &serde_json::json!({ "range": range }))?;
        let specs = self.form.specs(shard.rows.len());
        let file = ShardForm::file(self.parts, index);
        let mut writer = SafetensorsWriter::create(file, &metadata, &specs)?;
        writer.append("prediction", &shard.predictions)?;
        writer.append("activation", &shard.activations)?;
        writer.append("logits", &shard.logits)?;
        graph_file::append_rows(&mut writer, &self.form.layout, "path", &shard.paths)?;
        let mut sums = vec![0.0; self.form.important()];
        let rows = shard.importance.chunks_exact(sums.len().max(1));
        for ((row, &prediction), importance) in shard.rows.clone().zip(&shard.predictions).zip(rows)
        {
            let label = self.labels.and_then(|labels| labels.get(row));
            let is_correct = label.is_none_or(|&label| label == i64::from(prediction));
            for (sum, &x) in sums.iter_mut().zip(importance) {
                if is_correct && x.is_finite() {
                    *sum += f64::from(x);
                }
            }
        }
        writer.append("importance", &sums)?;
        Ok(writer.finish()?)
    }
}

impl TrainingShards {
    /// Opens all shards of a range.
    pub(crate) fn open(
        parts: &PartsFolder,
        form: &ShardForm,
        range: Range<usize>,
        labels: Option<Vec<i64>>,
    ) -> Result<TrainingShards, Error> {
        let mut training = TrainingShards {
            form: form.clone(),
            readers: Vec::new(),
            predictions: Vec::new(),
            labels,
            importance: vec![0.0; form.important()],
        };
        for (i, _) in shards(range) {
            let reader = SafetensorsReader::open(ShardForm::file(parts, i))?;
            training
                .predictions
                .extend(reader.read::<u32>("prediction")?);
            let sums: Vec<f64> = reader.read("importance")?;
            let totals = training.importance.iter_mut().zip(sums);
            totals.for_each(|(total, sum)| *total += sum);
            training.readers.push(reader);
        }
        Ok(training)
    }

    /// All paths, with the labels of their inputs.
    pub(crate) fn paths(&self) -> Result<TrainingPaths, Error> {
        let layout = &self.form.layout;
        let mut training = TrainingPaths {
            layout: layout.clone(),
            paths: BitRows::new(layout.width()),
            predictions: self.predictions.clone(),
            labels: self.labels.clone(),
        };
        let starts = (0..self.predictions.len()).step_by(SHARD);
        for (reader, start) in self.readers.iter().zip(starts) {
            let inputs = SHARD.min(self.predictions.len() - start);
            let paths = graph_file::read_rows(reader, layout, "path", inputs)?;
            paths.rows().for_each(|row| training.paths.push(row));
        }
        Ok(training)
    }

    /// Some inputs as they were extracted; their paths are the graph's.
    pub(crate) fn batch(&self, inputs: &[u32], graph: &PathGraph) -> Result<PathBatch, Error> {
        let neurons = self.form.layout.total_neurons();
        let mut batch = PathBatch {
            rows: 0..inputs.len(),
            predictions: Vec::with_capacity(inputs.len()),
            logits: vec![0.0; inputs.len() * self.form.logits],
            paths: BitRows::new(self.form.layout.width()),
            activations: vec![0.0; inputs.len() * neurons],
            ..PathBatch::default()
        };
        let logits = batch.logits.chunks_exact_mut(self.form.logits.max(1));
        let activations = batch.activations.chunks_exact_mut(neurons.max(1));
        for ((&input, logits), activations) in inputs.iter().zip(logits).zip(activations) {
            batch.predictions.push(self.predictions[input as usize]);
            batch.paths.push(graph.path(input));
            let (shard, row) = (input as usize / SHARD, input as usize % SHARD);
            if let Some(reader) = self.readers.get(shard) {
                reader.read_row_into("activation", row, activations)?;
                reader.read_row_into("logits", row, logits)?;
            }
        }
        Ok(batch)
    }
}

impl TrainingActivations for TrainingShards {
    type Error = Error;

    fn read(&self, input: u32, out: &mut [f32]) -> Result<(), Error> {
        let (shard, row) = (input as usize / SHARD, input as usize % SHARD);
        match self.readers.get(shard) {
            Some(reader) => Ok(reader.read_row_into("activation", row, out)?),
            None => Ok(()),
        }
    }
}

impl Training for TrainingShards {
    fn predictions(&self) -> &[u32] {
        &self.predictions
    }

    fn labels(&self) -> Option<&[i64]> {
        self.labels.as_deref()
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

    fn importance(&self, layer: usize) -> Option<&[f64]> {
        (self.form.importance == Some(layer)).then_some(&self.importance[..])
    }
}
