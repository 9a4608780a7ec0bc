//! Decision graphs in files.

use std::ops::Range;
use std::path::{Path, PathBuf};

use npcov_criteria::{Fit, FitNumbers, Spec, Training, TrainingError};
use npcov_data::safetensors::{SafetensorsReader, SafetensorsWriter, TensorSpec};
use npcov_data::{DataError, Digest, Element, Source};
use npcov_paths::{
    BitRows, ClassNode, GraphParts, PathGraph, PathLayout, TrainingActivations, TrainingPaths,
};

use crate::error::ArtefactError;
use crate::names;
use crate::record::{CriterionRecord, GraphRecord};
use crate::store::ShardStore;
use crate::{Kind, MOST_CLUSTERS, metadata, open, record_of};

/// The tensors with the names of training inputs.
const NAMES: &str = "name";

/// A decision graph and what it was learnt from. The activations of training inputs, the largest
/// part, stay in the file.
pub struct GraphFile {
    path: Option<PathBuf>,
    record: GraphRecord,
    graph: PathGraph,
    /// Of training inputs, where they have names.
    names: Vec<String>,
    reader: SafetensorsReader,
}

impl GraphFile {
    /// Opens a decision graph, and checks that its parts fit.
    pub fn open(path: impl AsRef<Path>) -> Result<GraphFile, ArtefactError> {
        let path = path.as_ref();
        let (reader, record) = open::<GraphRecord>(path, Kind::DecisionGraph)?;
        GraphFile::of(reader, record, Some(path.to_owned()))
    }

    /// The same of bytes in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<GraphFile, ArtefactError> {
        let reader = SafetensorsReader::new(&Source::from_bytes(bytes), "memory")?;
        let record = record_of(&reader, Kind::DecisionGraph)?;
        GraphFile::of(reader, record, None)
    }

    fn of(
        reader: SafetensorsReader,
        record: GraphRecord,
        path: Option<PathBuf>,
    ) -> Result<GraphFile, ArtefactError> {
        let wrong = |reason: String| ArtefactError::Artefact {
            file: reader.name().to_owned(),
            reason,
        };
        let neurons = record.extraction.layers.iter().map(|layer| layer.neurons);
        let layout = PathLayout::new(neurons.collect::<Vec<_>>());
        let inputs = record.training.end.saturating_sub(record.training.start);
        let mut classes = Vec::new();
        let mut end = 0usize;
        for class in &record.classes {
            // Whatever is counted of so many clusters is far from overflowing.
            if class.planned > MOST_CLUSTERS || class.clusters > class.planned {
                return Err(wrong(
                    "a class has more clusters than it may have".to_owned(),
                ));
            }
            let start = end;
            end = end.saturating_add(class.clusters);
            classes.push(ClassNode {
                clusters: start..end,
                planned: class.planned,
                beta: class.beta,
            });
        }
        let labels = match reader.tensor("label") {
            Some(_) => Some(reader.read("label")?),
            None => None,
        };
        let parts = GraphParts {
            training: TrainingPaths {
                paths: read_rows(&reader, &layout, "path", inputs)?,
                predictions: reader.read("prediction")?,
                labels,
                layout: layout.clone(),
            },
            classes,
            assignment: reader.read("cluster")?,
            abstract_paths: read_rows(&reader, &layout, "abstract", end)?,
        };
        let activations = reader
            .tensor("activation")
            .map(|tensor| tensor.shape.clone());
        if activations != Some(vec![inputs, layout.total_neurons()]) {
            return Err(wrong("its activations have another shape".to_owned()));
        }
        let graph = PathGraph::assemble(parts).map_err(|error| wrong(error.to_string()))?;
        if record
            .anpc
            .layers
            .iter()
            .any(|l| l.layer >= layout.layers())
        {
            return Err(wrong("ANPC names a layer that is not there".to_owned()));
        }
        let names = names::read(&reader, NAMES, inputs)?;
        Ok(GraphFile {
            path,
            record,
            graph,
            names,
            reader,
        })
    }

    /// Writes a decision graph as the artefact that shards were made for, and opens it. `activations`
    /// gives those of each training input; `names` are those of all, or none.
    pub fn write(
        store: &ShardStore,
        record: &GraphRecord,
        graph: &PathGraph,
        fits: &[Fit],
        names: &[String],
        activations: &impl TrainingActivations<Error = ArtefactError>,
    ) -> Result<GraphFile, ArtefactError> {
        let layout = graph.layout();
        let GraphParts {
            training,
            assignment,
            abstract_paths,
            ..
        } = graph.parts();
        let (inputs, neurons) = (training.paths.len(), layout.total_neurons());
        let mut tensors = vec![
            TensorSpec::of::<u32>("prediction", &[inputs]),
            TensorSpec::of::<u32>("cluster", &[inputs]),
            TensorSpec::of::<f32>("activation", &[inputs, neurons]),
        ];
        if training.labels.is_some() {
            tensors.push(TensorSpec::of::<i64>("label", &[inputs]));
        }
        tensors.extend(row_specs(layout, "path", inputs));
        tensors.extend(row_specs(layout, "abstract", abstract_paths.len()));
        for (criterion, fit) in record.criteria.iter().zip(fits) {
            for (name, array) in fit.arrays() {
                let name = array_name(&criterion.criterion, name);
                tensors.push(match &array.numbers {
                    FitNumbers::F32(_) => TensorSpec::of::<f32>(name, &array.shape),
                    FitNumbers::F64(_) => TensorSpec::of::<f64>(name, &array.shape),
                    FitNumbers::U32(_) => TensorSpec::of::<u32>(name, &array.shape),
                });
            }
        }
        tensors.extend(names::specs(NAMES, names));
        let metadata = metadata(Kind::DecisionGraph, record)?;
        let reader = store.write_artefact(&metadata, &tensors, |writer| {
            writer.append("prediction", &training.predictions)?;
            writer.append("cluster", assignment)?;
            if let Some(labels) = &training.labels {
                writer.append("label", labels)?;
            }
            append_rows(writer, layout, "path", &training.paths)?;
            append_rows(writer, layout, "abstract", abstract_paths)?;
            for (criterion, fit) in record.criteria.iter().zip(fits) {
                for (name, array) in fit.arrays() {
                    let name = array_name(&criterion.criterion, name);
                    match &array.numbers {
                        FitNumbers::F32(numbers) => writer.append(&name, numbers)?,
                        FitNumbers::F64(numbers) => writer.append(&name, numbers)?,
                        FitNumbers::U32(numbers) => writer.append(&name, numbers)?,
                    }
                }
            }
            names::write(writer, NAMES, names)?;
            let mut row = vec![0.0; neurons];
            for input in 0..inputs {
                activations.read(input as u32, &mut row)?;
                writer.append("activation", &row)?;
            }
            Ok::<(), ArtefactError>(())
        })?;
        let path = store.artefact().map(Path::to_owned);
        // What is used is what is written: reading a number may round it.
        let record = record_of(&reader, Kind::DecisionGraph)?;
        GraphFile::of(reader, record, path)
    }

    /// Writes it to a file, whole or not at all, which names its model by the way to `model`.
    pub fn save(&self, path: &Path, model: Option<&Path>) -> Result<(), ArtefactError> {
        let mut record = self.record.clone();
        record.extraction.model.place(model, path);
        let metadata = metadata(Kind::DecisionGraph, &record)?;
        Ok(self.reader.save(path, &metadata)?)
    }

    /// The file; `None` in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// What it is called in messages.
    pub fn name(&self) -> &str {
        self.reader.name()
    }

    /// What it was learnt from, and how.
    pub fn record(&self) -> &GraphRecord {
        &self.record
    }

    /// The decision graph.
    pub fn graph(&self) -> &PathGraph {
        &self.graph
    }

    /// What a training input is called, where it has a name.
    pub fn training_name(&self, input: usize) -> Option<&str> {
        let name = self.names.get(input)?;
        (!name.is_empty()).then_some(name)
    }

    /// What a criterion learnt from the training data.
    pub fn fit(&self, criterion: &CriterionRecord) -> Result<Fit, ArtefactError> {
        let mut fit = Fit::default();
        for array in &criterion.arrays {
            let name = array_name(&criterion.criterion, array);
            let (shape, element) = match self.reader.tensor(&name) {
                Some(spec) => (spec.shape.clone(), spec.element),
                None => (Vec::new(), Element::F32),
            };
            let numbers = match element {
                Element::F64 => FitNumbers::F64(self.reader.read(&name)?),
                Element::U32 => FitNumbers::U32(self.reader.read(&name)?),
                _ => FitNumbers::F32(self.reader.read(&name)?),
            };
            fit.insert(array.clone(), &shape, numbers);
        }
        Ok(fit)
    }
}

/// The tensor that holds an array of what a criterion learnt.
fn array_name(criterion: &Spec, array: &str) -> String {
    format!("fit.{criterion}.{array}")
}

impl Training for GraphFile {
    fn predictions(&self) -> &[u32] {
        &self.graph.parts().training.predictions
    }

    fn labels(&self) -> Option<&[i64]> {
        self.graph.parts().training.labels.as_deref()
    }

    fn read(
        &self,
        inputs: Range<usize>,
        neurons: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), TrainingError> {
        for (input, row) in inputs.zip(out.chunks_exact_mut(neurons.len().max(1))) {
            self.reader
                .read_row_part("activation", input, neurons.clone(), row)?;
        }
        Ok(())
    }

    fn importance(&self, _layer: usize) -> Option<&[f64]> {
        None
    }
}

impl TrainingActivations for GraphFile {
    type Error = ArtefactError;

    fn read(&self, input: u32, out: &mut [f32]) -> Result<(), ArtefactError> {
        Ok(self
            .reader
            .read_row_into("activation", input as usize, out)?)
    }
}

/// The digest of everything that coverage depends on: not of file names.
pub fn identify(record: &GraphRecord, graph: &PathGraph) -> Result<String, ArtefactError> {
    let mut record = record.clone();
    record.id = String::new();
    record.data = String::new();
    record.values = None;
    record.extraction.model.file = String::new();
    let mut bytes = metadata(Kind::DecisionGraph, &record)?.into_bytes();
    let parts = graph.parts();
    for row in parts
        .training
        .paths
        .rows()
        .chain(parts.abstract_paths.rows())
    {
        bytes.extend(row.iter().flat_map(|word| word.to_le_bytes()));
    }
    bytes.extend(
        parts
            .assignment
            .iter()
            .flat_map(|cluster| cluster.to_le_bytes()),
    );
    Ok(Digest::of(&bytes).to_string())
}

/// Bit rows as one tensor of words for each layer.
pub fn row_specs(layout: &PathLayout, name: &str, rows: usize) -> Vec<TensorSpec> {
    let spec = |layer| {
        TensorSpec::of::<u64>(
            format!("{name}.{layer}"),
            &[rows, layout.words(layer).len()],
        )
    };
    (0..layout.layers()).map(spec).collect()
}

/// Appends bit rows to the tensors of their layers.
pub fn append_rows(
    writer: &mut SafetensorsWriter,
    layout: &PathLayout,
    name: &str,
    rows: &BitRows,
) -> Result<(), DataError> {
    for layer in 0..layout.layers() {
        let name = format!("{name}.{layer}");
        for row in rows.rows() {
            writer.append(&name, layout.layer(row, layer))?;
        }
    }
    Ok(())
}

/// Reads bit rows from the tensors of their layers.
pub fn read_rows(
    reader: &SafetensorsReader,
    layout: &PathLayout,
    name: &str,
    count: usize,
) -> Result<BitRows, ArtefactError> {
    let mut layers = Vec::new();
    for spec in row_specs(layout, name, count) {
        let found = reader.tensor(&spec.name);
        if found.is_some_and(|found| found.shape != spec.shape) {
            return Err(ArtefactError::Artefact {
                file: reader.name().to_owned(),
                reason: format!("`{}` has another shape", spec.name),
            });
        }
        layers.push(reader.read::<u64>(&spec.name)?);
    }
    let mut rows = BitRows::zeros(layout.width(), count);
    for (layer, words) in layers.iter().enumerate() {
        let width = layout.words(layer).len();
        for row in 0..count {
            let words = &words[row * width..(row + 1) * width];
            layout
                .layer_mut(rows.row_mut(row), layer)
                .copy_from_slice(words);
        }
    }
    Ok(rows)
}
