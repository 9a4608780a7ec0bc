//! Suites made of inputs of a dataset and of attacked ones, as files that can be measured.

use std::path::Path;

use npcov::artefact::{InputRecord, MeasuredSuite};
use npcov::coverage::{ClusterCoverage, Coverage, Measurement, Report, Values};
use npcov::data::Loader;
use npcov::data::npz::{ArrayHandle, Compression, NpzWriter};
use npcov::run::SampleRange;

use crate::error::LabError;

/// A dataset that is being written: inputs as they are stored in another one, and labels.
pub(crate) struct SuiteFile<'d> {
    data: &'d Loader<'d>,
    writer: NpzWriter,
    x: ArrayHandle<f32>,
    y: ArrayHandle<i64>,
    inputs: usize,
}

impl<'d> SuiteFile<'d> {
    pub(crate) fn create(path: &Path, data: &'d Loader<'d>) -> Result<SuiteFile<'d>, LabError> {
        let mut writer = NpzWriter::create(path, Compression::Stored)?;
        Ok(SuiteFile {
            x: writer.array("x", data.stored_shape())?,
            y: writer.array("y", &[])?,
            writer,
            data,
            inputs: 0,
        })
    }

    /// Appends an input in the order of the model, as it is stored.
    pub(crate) fn push(&mut self, stored: &[f32], label: i64) -> Result<(), LabError> {
        let mut restored = vec![0.0; stored.len()];
        self.data.restore(stored, &mut restored);
        self.writer.append(&self.x, &restored)?;
        self.writer.append(&self.y, &[label])?;
        self.inputs += 1;
        Ok(())
    }

    /// Appends rows of the dataset.
    pub(crate) fn push_rows(&mut self, rows: &[usize], labels: &[i64]) -> Result<(), LabError> {
        let mut sample = vec![0.0; self.data.sample_len()];
        for &row in rows {
            self.data.read_stored(row..row + 1, &mut sample)?;
            self.push(&sample, labels[row])?;
        }
        Ok(())
    }

    /// Inputs so far.
    pub(crate) fn len(&self) -> usize {
        self.inputs
    }

    pub(crate) fn finish(self) -> Result<(), LabError> {
        Ok(self.writer.finish()?)
    }
}

/// A file, opened like the data that a graph was learnt from.
pub(crate) fn open(
    measurement: &Measurement<'_>,
    path: &Path,
) -> Result<Loader<'static>, LabError> {
    let text = path.to_str().ok_or_else(|| LabError::Folder {
        folder: path.display().to_string(),
        reason: "its name is no UTF-8".to_owned(),
    })?;
    let graph = measurement.graph();
    let reading = graph.network().reading(None);
    Ok(graph.loader(npcov::data::open_as(text, &reading)?)?)
}

/// Measures part of a dataset as a suite.
pub(crate) fn measure(
    measurement: &Measurement<'_>,
    name: &str,
    inputs: &SampleRange<'_>,
) -> Result<Coverage, LabError> {
    Ok(measurement.cover(name, inputs, &mut ())?)
}

/// What the only suite of a coverage is worth.
pub(crate) fn values(coverage: &Coverage) -> Result<Values<f64>, LabError> {
    let report: Report = coverage.report()?;
    let first = report.suites.into_iter().next();
    let amounts = first.map(|suite| suite.criteria).unwrap_or_default();
    let values = amounts.0.into_iter();
    Ok(Values(
        values
            .map(|(name, amount)| (name, amount.value()))
            .collect(),
    ))
}

/// What a report says of the clusters of a suite with these inputs. What they cover is left out.
pub(crate) fn clusters(
    measurement: &Measurement<'_>,
    inputs: Vec<InputRecord>,
) -> Result<Vec<ClusterCoverage>, LabError> {
    let mut state = measurement.state();
    state.add(MeasuredSuite {
        name: "suite".to_owned(),
        shards: Vec::new(),
        inputs,
        names: Vec::new(),
        states: measurement.criteria().states(),
    })?;
    let report: Report = Coverage::new(state).report()?;
    let first = report.suites.into_iter().next();
    Ok(first.map(|suite| suite.clusters).unwrap_or_default())
}
