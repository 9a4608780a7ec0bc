//! Attacked inputs as a dataset.

use std::path::PathBuf;

use npcov_data::Loader;
use npcov_data::npz::{ArrayHandle, Compression, NpzWriter};

use crate::Adversaries;
use crate::error::AttackError;

/// An npz file of attacked inputs that can be used like the dataset that they come from, with the
/// same preprocessing.
///
/// It holds `x` (f32, inputs x the shape of stored samples), `y` (i64, labels), and for each input
/// also `prediction` (i64), `success` (bool), `index` (i64, its position in the dataset) and
/// `distance` (f32, in pixels), and `name` and `class_names`, where samples and classes have names. Dropped before [`finish`](AttackFile::finish), it leaves nothing
/// behind.
pub struct AttackFile<'d> {
    data: &'d Loader<'d>,
    writer: NpzWriter,
    x: ArrayHandle<f32>,
    y: ArrayHandle<i64>,
    prediction: ArrayHandle<i64>,
    success: ArrayHandle<bool>,
    index: ArrayHandle<i64>,
    distance: ArrayHandle<f32>,
    rows: Vec<usize>,
}

impl<'d> AttackFile<'d> {
    /// Prepares to write inputs of a dataset. An unwritable folder is reported here.
    pub fn create(
        path: impl Into<PathBuf>,
        data: &'d Loader<'d>,
    ) -> Result<AttackFile<'d>, AttackError> {
        let mut writer = NpzWriter::create(path, Compression::Stored)?;
        Ok(AttackFile {
            x: writer.array("x", data.stored_shape())?,
            y: writer.array("y", &[])?,
            prediction: writer.array("prediction", &[])?,
            success: writer.array("success", &[])?,
            index: writer.array("index", &[])?,
            distance: writer.array("distance", &[])?,
            rows: Vec::new(),
            writer,
            data,
        })
    }

    /// Appends some inputs.
    pub fn append(&mut self, found: &Adversaries) -> Result<(), AttackError> {
        let mut restored = vec![0.0; self.data.sample_len()];
        for sample in found.samples.chunks_exact(restored.len().max(1)) {
            self.data.restore(sample, &mut restored);
            self.writer.append(&self.x, &restored)?;
        }
        let whole = |numbers: &[usize]| numbers.iter().map(|&n| n as i64).collect::<Vec<_>>();
        self.writer.append(&self.y, &whole(&found.labels))?;
        self.writer
            .append(&self.prediction, &whole(&found.predictions))?;
        self.writer.append(&self.success, &found.success)?;
        self.writer.append(&self.index, &whole(&found.rows))?;
        self.rows.extend(&found.rows);
        let distances: Vec<f32> = found.distances.iter().map(|&d| d as f32).collect();
        Ok(self.writer.append(&self.distance, &distances)?)
    }

    /// Writes the file under its name.
    pub fn finish(mut self) -> Result<(), AttackError> {
        self.writer.names(self.data, self.rows)?;
        Ok(self.writer.finish()?)
    }
}
