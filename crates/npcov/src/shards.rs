//! Extracting paths shard by shard, so that nothing finished is ever done again.

use std::ops::Range;
use std::path::{Path, PathBuf};

use npcov_data::Loader;
use npcov_data::safetensors::{SafetensorsReader, SafetensorsWriter, TensorSpec};
use npcov_paths::{BitRows, Layout, TrainingActivations, TrainingPaths};

use crate::artefact::parts::{SHARD, shards};
use crate::artefact::{Kind, PartsFolder, graph_file, metadata};
use crate::error::Error;
use crate::paths::{PathBatch, PathExtractor};

/// What a long piece of work tells while it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// So many inputs were found finished from an earlier run.
    Resumed(usize),
    /// So many more inputs are finished.
    Inputs(usize),
    /// The inputs are finished, and clusters are being found.
    Clustering,
}

/// Extracts the paths of a range and hands on those shards that `is_done` does not know yet.
pub(crate) fn extract_shards(
    extractor: &PathExtractor<'_>,
    data: &Loader,
    range: Range<usize>,
    threads: usize,
    is_done: impl Fn(usize, Range<usize>) -> bool,
    on: &mut dyn FnMut(Event),
    mut finish: impl FnMut(usize, &PathBatch) -> Result<(), Error>,
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
    for run in runs {
        let mut shard = PathBatch::empty(extractor.layout(), run.start);
        extractor.run::<Error>(data, run.clone(), threads, |batch| {
            on(Event::Inputs(batch.rows.len()));
            shard.append(batch);
            // Micro-batches of models with a batch size of their own may reach into the next one.
            while shard.rows.len() >= SHARD || (shard.rows.end == run.end && !shard.rows.is_empty())
            {
                let rest = shard.split_off(SHARD.min(shard.rows.len()));
                finish((shard.rows.start - range.start) / SHARD, &shard)?;
                shard = rest;
            }
            Ok(())
        })?;
    }
    Ok(())
}

impl PathBatch {
    fn empty(layout: &Layout, start: usize) -> PathBatch {
        PathBatch {
            rows: start..start,
            paths: BitRows::new(layout.width()),
            ..PathBatch::default()
        }
    }

    fn append(&mut self, next: &PathBatch) {
        self.rows.end = next.rows.end;
        self.predictions.extend_from_slice(&next.predictions);
        self.activations.extend_from_slice(&next.activations);
        next.paths.rows().for_each(|row| self.paths.push(row));
    }

    /// Keeps the first `count` inputs, and gives the others.
    fn split_off(&mut self, count: usize) -> PathBatch {
        let neurons = self.activations.len() / self.rows.len().max(1);
        let middle = self.rows.start + count;
        let rows = |range: Range<usize>| -> Vec<u32> { range.map(|row| row as u32).collect() };
        let rest = PathBatch {
            rows: middle..self.rows.end,
            predictions: self.predictions.split_off(count),
            activations: self.activations.split_off(count * neurons),
            paths: self.paths.gather(&rows(count..self.paths.len())),
        };
        self.paths = self.paths.gather(&rows(0..count));
        self.rows.end = middle;
        rest
    }
}

/// The shards of training inputs, in the folder of a decision graph's parts.
pub(crate) struct TrainingShards {
    layout: Layout,
    range: Range<usize>,
    readers: Vec<SafetensorsReader>,
}

impl TrainingShards {
    /// The file of a shard.
    pub(crate) fn file(parts: &PartsFolder, index: usize) -> PathBuf {
        parts.file(&format!("paths-{index:06}"))
    }

    /// Whether a shard is there and whole.
    pub(crate) fn is_done(parts: &PartsFolder, layout: &Layout, i: usize, inputs: usize) -> bool {
        let Ok(reader) = SafetensorsReader::open(TrainingShards::file(parts, i)) else {
            return false;
        };
        specs(layout, inputs)
            .iter()
            .all(|spec| reader.tensor(&spec.name) == Some(spec))
    }

    /// Writes a shard.
    pub(crate) fn write(file: &Path, layout: &Layout, shard: &PathBatch) -> Result<(), Error> {
        let range = [shard.rows.start, shard.rows.end];
        let metadata = metadata(Kind::TrainingShard, &serde_json::json!({ "range": range }))?;
        let specs = specs(layout, shard.rows.len());
        let mut writer = SafetensorsWriter::create(file, &metadata, &specs)?;
        writer.append("prediction", &shard.predictions)?;
        writer.append("activation", &shard.activations)?;
        graph_file::append_rows(&mut writer, layout, "path", &shard.paths)?;
        Ok(writer.finish()?)
    }

    /// Opens all shards of a range.
    pub(crate) fn open(
        parts: &PartsFolder,
        layout: &Layout,
        range: Range<usize>,
    ) -> Result<TrainingShards, Error> {
        let readers = shards(range.clone())
            .map(|(i, _)| SafetensorsReader::open(TrainingShards::file(parts, i)));
        Ok(TrainingShards {
            readers: readers.collect::<Result<_, _>>()?,
            layout: layout.clone(),
            range,
        })
    }

    /// All paths, with the labels of their inputs.
    pub(crate) fn paths(&self, labels: Option<Vec<i64>>) -> Result<TrainingPaths, Error> {
        let mut training = TrainingPaths {
            layout: self.layout.clone(),
            paths: BitRows::new(self.layout.width()),
            predictions: Vec::new(),
            labels,
        };
        for (reader, (_, rows)) in self.readers.iter().zip(shards(self.range.clone())) {
            training
                .predictions
                .extend(reader.read::<u32>("prediction")?);
            let paths = graph_file::read_rows(reader, &self.layout, "path", rows.len())?;
            paths.rows().for_each(|row| training.paths.push(row));
        }
        Ok(training)
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

fn specs(layout: &Layout, inputs: usize) -> Vec<TensorSpec> {
    let mut specs = graph_file::row_specs(layout, "path", inputs);
    specs.push(TensorSpec::of::<u32>("prediction", &[inputs]));
    specs.push(TensorSpec::of::<f32>(
        "activation",
        &[inputs, layout.total_neurons()],
    ));
    specs
}
