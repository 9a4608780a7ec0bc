//! Logits, predictions, activations and relevances as an npz file.

use std::ops::Range;
use std::path::PathBuf;

use npcov_data::Loader;
use npcov_data::npz::{ArrayHandle, Compression, NpzWriter};
use npcov_paths::{PathLayout, bits};
use npcov_program::{Output, Tap};

use npcov_run::{PathRows, TracedRows, Tracer};

use crate::error::Error;

/// An npz file that takes the results of a tracer, batch by batch.
///
/// It holds `logits` (f32, inputs x logits), `prediction` (i64, inputs) and for every path layer,
/// from input to output, what the tracer computes: `activation.0`, `activation.1`, ... and
/// `relevance.0`, `relevance.1`, ... (f32, inputs x neurons). The relevance of the input is
/// `relevance.input` (f32, inputs x the shape of one input). Where samples and classes have names, these are
/// `name` and `class_names`. Dropped before [`finish`](TraceFile::finish), it leaves nothing behind.
pub struct TraceFile<'d> {
    data: &'d Loader<'d>,
    /// Positions in the dataset, batch by batch.
    rows: Vec<Range<usize>>,
    writer: NpzWriter,
    prediction: ArrayHandle<i64>,
    /// For each output of the tracer; `None` for taps, which are no part of the file.
    outputs: Vec<Option<ArrayHandle<f32>>>,
    classes: Vec<i64>,
    /// For each path layer, when there are paths.
    paths: Vec<ArrayHandle<bool>>,
}

/// Whether an output is part of a file: taps are not, but for activations, nor is what is lost.
pub(crate) fn is_kept(output: &Output) -> bool {
    match output {
        Output::Tap(tap) => *tap == Tap::activation(tap.layer),
        Output::Lost => false,
        _ => true,
    }
}

/// The truth values of a layer's neurons on a path.
pub(crate) fn truth_values(layout: &PathLayout, path: &[u64], layer: usize, out: &mut Vec<bool>) {
    let row = layout.layer(path, layer);
    out.extend((0..layout.neurons(layer)).map(|neuron| bits::get(row, neuron)));
}

impl<'d> TraceFile<'d> {
    /// Prepares to write what a tracer gives for samples. An unwritable folder is reported here.
    pub fn create(
        path: impl Into<PathBuf>,
        tracer: &Tracer,
        data: &'d Loader<'d>,
    ) -> Result<TraceFile<'d>, Error> {
        let mut writer = NpzWriter::create(path, Compression::Stored)?;
        let prediction = writer.array("prediction", &[])?;
        let mut outputs = Vec::new();
        for (output, shape) in tracer.outputs().iter().zip(tracer.output_shapes()) {
            outputs.push(match is_kept(output) {
                true => Some(writer.array(&output.name(), &shape)?),
                false => None,
            });
        }
        Ok(TraceFile {
            data,
            rows: Vec::new(),
            writer,
            prediction,
            outputs,
            classes: Vec::new(),
            paths: Vec::new(),
        })
    }

    /// Prepares to write paths as well: `path.0`, `path.1`, ... (truth values, inputs x neurons).
    pub fn with_paths(mut self, layout: &PathLayout) -> Result<TraceFile<'d>, Error> {
        for layer in 0..layout.layers() {
            let shape = [layout.neurons(layer)];
            self.paths
                .push(self.writer.array(&format!("path.{layer}"), &shape)?);
        }
        Ok(self)
    }

    /// Appends the paths of a batch.
    pub fn append_paths(&mut self, layout: &PathLayout, paths: &PathRows) -> Result<(), Error> {
        let mut set = Vec::new();
        for (layer, array) in self.paths.iter().enumerate() {
            for row in paths.paths.rows() {
                set.clear();
                truth_values(layout, row, layer, &mut set);
                self.writer.append(array, &set)?;
            }
        }
        Ok(())
    }

    /// Appends a batch and the classes of its inputs.
    pub fn append(&mut self, batch: &TracedRows, classes: &[usize]) -> Result<(), Error> {
        self.classes.clear();
        self.classes.extend(classes.iter().map(|&c| c as i64));
        self.writer.append(&self.prediction, &self.classes)?;
        self.rows.push(batch.rows.clone());
        for (array, values) in self.outputs.iter().zip(&batch.outputs) {
            if let Some(array) = array {
                self.writer.append(array, values)?;
            }
        }
        Ok(())
    }

    /// Writes the file under its name.
    pub fn finish(mut self) -> Result<(), Error> {
        let rows = self.rows.into_iter().flatten();
        self.writer.names(self.data, rows)?;
        Ok(self.writer.finish()?)
    }
}
