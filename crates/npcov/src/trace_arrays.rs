//! Logits, predictions, activations and relevances in memory.

use npcov_paths::PathLayout;
use npcov_run::{PathRows, TracedRows, Tracer};

use crate::trace_file::{is_kept, truth_values};

/// What a [`TraceFile`](crate::TraceFile) holds, in memory: the same arrays under the same names.
pub struct TraceArrays {
    classes: Vec<i64>,
    /// For each output of the tracer; `None` for taps.
    outputs: Vec<Option<Rows>>,
    /// For each path layer, when there are paths.
    paths: Vec<(usize, Vec<bool>)>,
}

/// The rows of an output.
struct Rows {
    name: String,
    /// Of one row.
    shape: Vec<usize>,
    numbers: Vec<f32>,
}

/// An array, with a row for each input.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceArray {
    /// Numbers, and the shape of a row.
    Numbers(Vec<usize>, Vec<f32>),
    /// Classes.
    Classes(Vec<i64>),
    /// Truth values, and how many a row has.
    Truths(usize, Vec<bool>),
}

impl TraceArrays {
    /// Prepares to take what a tracer gives.
    pub fn new(tracer: &Tracer) -> TraceArrays {
        let outputs = tracer.outputs().iter().zip(tracer.output_shapes());
        let array = |(output, shape): (&npcov_program::Output, Vec<usize>)| {
            is_kept(output).then(|| Rows {
                name: output.name(),
                shape,
                numbers: Vec::new(),
            })
        };
        TraceArrays {
            classes: Vec::new(),
            outputs: outputs.map(array).collect(),
            paths: Vec::new(),
        }
    }

    /// Prepares to take paths as well.
    pub fn with_paths(mut self, layout: &PathLayout) -> TraceArrays {
        let layers = 0..layout.layers();
        self.paths = layers.map(|i| (layout.neurons(i), Vec::new())).collect();
        self
    }

    /// Appends the paths of a batch.
    pub fn append_paths(&mut self, layout: &PathLayout, paths: &PathRows) {
        for (layer, (_, array)) in self.paths.iter_mut().enumerate() {
            for path in paths.paths.rows() {
                truth_values(layout, path, layer, array);
            }
        }
    }

    /// Appends a batch and the classes of its inputs.
    pub fn append(&mut self, batch: &TracedRows, classes: &[usize]) {
        self.classes.extend(classes.iter().map(|&c| c as i64));
        for (array, values) in self.outputs.iter_mut().zip(&batch.outputs) {
            if let Some(rows) = array {
                rows.numbers.extend(values);
            }
        }
    }

    /// The arrays with their names.
    pub fn finish(self) -> Vec<(String, TraceArray)> {
        let classes = ("prediction".to_owned(), TraceArray::Classes(self.classes));
        let outputs = self.outputs.into_iter().flatten();
        let outputs =
            outputs.map(|rows| (rows.name, TraceArray::Numbers(rows.shape, rows.numbers)));
        let paths = self.paths.into_iter().enumerate();
        let paths = paths.map(|(i, (n, set))| (format!("path.{i}"), TraceArray::Truths(n, set)));
        [classes].into_iter().chain(outputs).chain(paths).collect()
    }
}
