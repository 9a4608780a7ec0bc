//! Decision graphs in files.

use std::ops::Range;
use std::path::{Path, PathBuf};

use npcov_criteria::{Fit, FitNumbers, Spec, Training, TrainingError};
use npcov_data::safetensors::{SafetensorsReader, SafetensorsWriter, TensorSpec};
use npcov_data::{DataError, Digester, Element, Source};
use npcov_paths::{
    BitRows, ClassNode, GraphParts, Landmarks, PathGraph, PathLayout, TrainingActivations,
    TrainingPaths,
};

use crate::calibration::Calibration;
use crate::error::ArtefactError;
use crate::names;
use crate::record::{CriterionRecord, GraphRecord, TOO_MANY_INPUTS, are_possible};
use crate::store::ShardStore;
use crate::{Kind, MOST_CLUSTERS, metadata, open, record_of};

/// The tensors with the names of training inputs.
const NAMES: &str = "name";

/// The tensor with the training inputs that others are held against.
const LANDMARKS: &str = "landmark";

/// The tensor with their relevance profiles.
const PROFILES: &str = "profile";

/// A decision graph and what it was learnt from. The activations of training inputs, the largest
/// part, stay in the file.
pub struct GraphFile {
    path: Option<PathBuf>,
    record: GraphRecord,
    graph: PathGraph,
    /// The training inputs that others are held against, whose profiles the file has.
    landmarks: Landmarks,
    calibration: Calibration,
    /// Of training inputs, where they have names.
    names: Vec<String>,
    reader: SafetensorsReader,
}

/// What a decision graph knows besides paths, to tell where an input belongs.
pub struct Surroundings<'a> {
    /// What each criterion learnt.
    pub fits: &'a [Fit],
    /// The training inputs that others are held against.
    pub landmarks: &'a Landmarks,
    /// What scores are held against.
    pub calibration: &'a Calibration,
    /// Names of all training inputs, or none.
    pub names: &'a [String],
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
        let neurons: Vec<usize> = record.extraction.layers.iter().map(|l| l.neurons).collect();
        let total = neurons
            .iter()
            .try_fold(0usize, |sum, n| sum.checked_add(*n));
        let inputs = record.training.end.saturating_sub(record.training.start);
        // The file is as long as all activations together: from here on, nothing that the record
        // counts is larger than the file.
        let shape = reader.tensor("activation").map(|tensor| &tensor.shape[..]);
        if inputs == 0 || total.is_none_or(|total| total == 0 || shape != Some(&[inputs, total])) {
            return Err(wrong("its activations have another shape".to_owned()));
        }
        let layout = PathLayout::new(neurons);
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
        let graph = PathGraph::assemble(parts).map_err(|error| wrong(error.to_string()))?;
        if record
            .anpc
            .layers
            .iter()
            .any(|l| l.layer >= layout.layers())
        {
            return Err(wrong("ANPC names a layer that is not there".to_owned()));
        }
        let landmarks = Landmarks::assemble(reader.read(LANDMARKS)?, &graph)
            .map_err(|error| wrong(error.to_string()))?;
        let profiles = reader.tensor(PROFILES).map(|tensor| tensor.shape.clone());
        if profiles != Some(vec![landmarks.rows().len(), layout.total_neurons()]) {
            return Err(wrong("its profiles have another shape".to_owned()));
        }
        if record.shares.len() != graph.clusters() {
            return Err(wrong("not every cluster has a share".to_owned()));
        }
        if !are_possible(&record.shares) {
            return Err(wrong(TOO_MANY_INPUTS.to_owned()));
        }
        let names = names::read(&reader, NAMES, inputs)?;
        if identify(&record, &graph)? != record.id {
            return Err(wrong("it is not the graph that its id names".to_owned()));
        }
        Ok(GraphFile {
            path,
            record,
            graph,
            landmarks,
            calibration: Calibration::read(&reader)?,
            names,
            reader,
        })
    }

    /// Writes a decision graph as the artefact that shards were made for, and opens it. `numbers` has
    /// the activations and profiles of training inputs.
    pub fn write(
        store: &ShardStore,
        record: &GraphRecord,
        graph: &PathGraph,
        surroundings: &Surroundings<'_>,
        numbers: &(impl TrainingActivations<Error = ArtefactError> + TrainingProfiles),
    ) -> Result<GraphFile, ArtefactError> {
        let Surroundings {
            fits,
            landmarks,
            calibration,
            names,
        } = *surroundings;
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
        let count = landmarks.rows().len();
        tensors.push(TensorSpec::of::<u32>(LANDMARKS, &[count]));
        tensors.push(TensorSpec::of::<u8>(PROFILES, &[count, neurons]));
        tensors.extend(calibration.specs());
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
            calibration.write(writer)?;
            writer.append(LANDMARKS, landmarks.rows())?;
            let mut profile = vec![0_u8; neurons];
            for &input in landmarks.rows() {
                numbers.read_profile(input, &mut profile)?;
                writer.append(PROFILES, &profile)?;
            }
            let mut row = vec![0.0; neurons];
            for input in 0..inputs {
                numbers.read(input as u32, &mut row)?;
                writer.append("activation", &row)?;
            }
            Ok::<(), ArtefactError>(())
        })?;
        let path = store.artefact().map(Path::to_owned);
        // What is used is what is written.
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

    /// The training inputs that others are held against.
    pub fn landmarks(&self) -> &Landmarks {
        &self.landmarks
    }

    /// Reads the profiles of some landmarks into `out`, one after the other.
    pub fn read_profiles(
        &self,
        landmarks: Range<usize>,
        out: &mut [u8],
    ) -> Result<(), ArtefactError> {
        let rows = out.chunks_exact_mut(self.graph.layout().total_neurons().max(1));
        for (landmark, row) in landmarks.zip(rows) {
            self.reader.read_row_into(PROFILES, landmark, row)?;
        }
        Ok(())
    }

    /// What scores of inputs are held against.
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
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

/// Where the relevance profiles of training inputs are.
pub trait TrainingProfiles {
    /// Puts the profile of a training input into `out`, which has room for exactly that.
    fn read_profile(&self, input: u32, out: &mut [u8]) -> Result<(), ArtefactError>;
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
    let mut digester = Digester::default();
    digester.update(metadata(Kind::DecisionGraph, &record)?.as_bytes());
    let parts = graph.parts();
    let mut bytes = Vec::new();
    for row in parts
        .training
        .paths
        .rows()
        .chain(parts.abstract_paths.rows())
    {
        bytes.clear();
        bytes.extend(row.iter().flat_map(|word| word.to_le_bytes()));
        digester.update(&bytes);
    }
    for cluster in &parts.assignment {
        digester.update(&cluster.to_le_bytes());
    }
    Ok(digester.finish().to_string())
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
    let refused = |reason: String| ArtefactError::Artefact {
        file: reader.name().to_owned(),
        reason,
    };
    let mut layers = Vec::new();
    for (layer, spec) in row_specs(layout, name, count).into_iter().enumerate() {
        let found = reader.tensor(&spec.name);
        if found.is_some_and(|found| found.shape != spec.shape) {
            return Err(refused(format!("`{}` has another shape", spec.name)));
        }
        let words = reader.read::<u64>(&spec.name)?;
        // The last word of a row has bits for neurons that the layer does not have.
        let width = layout.words(layer).len().max(1);
        let used = layout.neurons(layer) % 64;
        let mut last = words.chunks(width).filter_map(|row| row.last());
        if used > 0 && last.any(|word| word >> used != 0) {
            let reason = format!("`{}` has neurons that are not there", spec.name);
            return Err(refused(reason));
        }
        layers.push(words);
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
