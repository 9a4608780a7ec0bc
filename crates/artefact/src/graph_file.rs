//! Decision graphs in files.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use npcov_criteria::{Fit, FitNumbers, PerInput, Spec, Training, TrainingError};
use npcov_data::safetensors::{SafetensorsReader, SafetensorsWriter, TensorSpec};
use npcov_data::{DataError, Digester, Element, Scalar, Source};
use npcov_paths::{
    BitRows, ClassNode, GraphParts, Landmarks, NO_CLUSTER, Narrow, PathGraph, PathLayout,
    PathSource, TrainingActivations, TrainingInputs, UNCLUSTERED, for_each_path,
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

/// The most bytes of training paths that are kept in memory. More of them stay in the file.
const PATHS_IN_MEMORY: usize = 16 << 20;

/// Rows that are read or written at a time.
const BLOCK: usize = 4096;

/// A decision graph and what it was learnt from. The activations of training inputs, the largest
/// part, stay in the file, and so do their paths where they are many: of each input, a few bytes are in memory.
pub struct GraphFile {
    path: Option<PathBuf>,
    record: GraphRecord,
    graph: PathGraph,
    /// The training inputs that others are held against, whose profiles the file has.
    landmarks: Landmarks,
    calibration: Calibration,
    /// Of training inputs, where they have names.
    names: Vec<String>,
    /// The training paths, where they are few.
    paths: Option<BitRows>,
    reader: Arc<SafetensorsReader>,
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
            Some(_) => Some(read_narrow::<i64>(&reader, "label", |label| label)?),
            None => None,
        };
        let parts = GraphParts {
            training: TrainingInputs {
                predictions: read_narrow::<u32>(&reader, "prediction", i64::from)?,
                labels,
                layout: layout.clone(),
            },
            classes,
            assignment: read_narrow(&reader, "cluster", |cluster| match cluster {
                NO_CLUSTER => UNCLUSTERED,
                cluster => i64::from(cluster),
            })?,
            abstract_paths: read_rows(&reader, &layout, "abstract", end)?,
        };
        if parts.training.len() != inputs {
            return Err(wrong("not every training input has a class".to_owned()));
        }
        require_rows(&reader, &layout, "path", inputs)?;
        // No overflow: the file has so many bytes.
        let paths = match inputs * layout.width() * size_of::<u64>() <= PATHS_IN_MEMORY {
            true => Some(read_rows(&reader, &layout, "path", inputs)?),
            false => None,
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
        let file = GraphFile {
            path,
            record,
            graph,
            landmarks,
            calibration: Calibration::read(&reader)?,
            names: names::read(&reader, NAMES, inputs)?,
            paths,
            reader: Arc::new(reader),
        };
        // This reads every path.
        match identify(&file.record, &file.graph, &file)? == file.record.id {
            true => Ok(file),
            false => Err(ArtefactError::Artefact {
                file: file.reader.name().to_owned(),
                reason: "it is not the graph that its id names".to_owned(),
            }),
        }
    }

    /// Writes a decision graph as the artefact that shards were made for, and opens it. `numbers` has
    /// the paths, activations and profiles of training inputs, and is done with before the file is read again.
    pub fn write(
        store: &ShardStore,
        record: &GraphRecord,
        graph: PathGraph,
        surroundings: &Surroundings<'_>,
        numbers: impl TrainingActivations<Error = ArtefactError> + TrainingProfiles,
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
            abstract_paths,
            ..
        } = graph.parts();
        let (inputs, neurons) = (training.len(), layout.total_neurons());
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
                    FitNumbers::F64(_) | FitNumbers::PerInput(_) => {
                        TensorSpec::of::<f64>(name, &array.shape)
                    }
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
            for start in (0..inputs).step_by(BLOCK) {
                let rows = start..(start + BLOCK).min(inputs);
                let predictions = rows.clone().map(|row| training.prediction(row));
                writer.append("prediction", &predictions.collect::<Vec<u32>>())?;
                let clusters = rows.clone().map(|row| graph.cluster_of(row as u32));
                writer.append("cluster", &clusters.collect::<Vec<u32>>())?;
                if training.labels.is_some() {
                    let labels = rows.clone().filter_map(|row| training.label(row));
                    writer.append("label", &labels.collect::<Vec<i64>>())?;
                }
                let mut paths = BitRows::new(layout.width());
                numbers.read_paths(rows, &mut paths)?;
                append_rows(writer, layout, "path", &paths)?;
            }
            append_rows(writer, layout, "abstract", abstract_paths)?;
            for (criterion, fit) in record.criteria.iter().zip(fits) {
                for (name, array) in fit.arrays() {
                    let name = array_name(&criterion.criterion, name);
                    match &array.numbers {
                        FitNumbers::F32(numbers) => writer.append(&name, numbers)?,
                        FitNumbers::F64(numbers) => writer.append(&name, numbers)?,
                        FitNumbers::U32(numbers) => writer.append(&name, numbers)?,
                        FitNumbers::PerInput(numbers) => append_numbers(writer, &name, numbers)?,
                    }
                }
            }
            names::write(writer, NAMES, names, &mut 0)?;
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
        drop((graph, numbers));
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
                Element::F64 if array.as_str() == FitNumbers::PER_INPUT => {
                    let (reader, len) = (self.reader.clone(), shape.first().copied());
                    let read =
                        move |inputs, out: &mut [f64]| Ok(reader.read_rows(&name, inputs, out)?);
                    FitNumbers::PerInput(PerInput::new(len.unwrap_or(0), read))
                }
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
    fn inputs(&self) -> usize {
        self.graph.training().len()
    }

    fn prediction(&self, input: usize) -> u32 {
        self.graph.training().prediction(input)
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

impl PathSource for GraphFile {
    type Error = ArtefactError;

    fn read_paths(&self, inputs: Range<usize>, out: &mut BitRows) -> Result<(), ArtefactError> {
        match &self.paths {
            Some(paths) => inputs.for_each(|input| out.push(paths.row(input))),
            None => append_read_rows(&self.reader, self.graph.layout(), "path", inputs, out)?,
        }
        Ok(())
    }
}

impl TrainingActivations for GraphFile {
    fn read(&self, input: u32, out: &mut [f32]) -> Result<(), ArtefactError> {
        Ok(self
            .reader
            .read_row_into("activation", input as usize, out)?)
    }
}

/// The digest of everything that coverage depends on: not of file names.
pub fn identify(
    record: &GraphRecord,
    graph: &PathGraph,
    paths: &impl PathSource<Error = ArtefactError>,
) -> Result<String, ArtefactError> {
    let mut record = record.clone();
    record.id = String::new();
    record.data = String::new();
    record.values = None;
    record.extraction.model.file = String::new();
    let mut digester = Digester::default();
    digester.update(metadata(Kind::DecisionGraph, &record)?.as_bytes());
    let mut bytes = Vec::new();
    let mut take = |row: &[u64]| {
        bytes.clear();
        bytes.extend(row.iter().flat_map(|word| word.to_le_bytes()));
        digester.update(&bytes);
    };
    let inputs = graph.training().len();
    for_each_path(paths, graph.layout(), inputs, |_, path| take(path))?;
    graph.parts().abstract_paths.rows().for_each(take);
    for input in 0..inputs {
        digester.update(&graph.cluster_of(input as u32).to_le_bytes());
    }
    Ok(digester.finish().to_string())
}

/// Appends numbers of which every training input has one.
fn append_numbers(
    writer: &mut SafetensorsWriter,
    name: &str,
    numbers: &PerInput,
) -> Result<(), ArtefactError> {
    let mut block = Vec::new();
    for start in (0..numbers.len()).step_by(BLOCK) {
        let inputs = start..(start + BLOCK).min(numbers.len());
        block.resize(inputs.len(), 0.0);
        let read = numbers.read(inputs, &mut block);
        read.map_err(|error| ArtefactError::Artefact {
            file: name.to_owned(),
            reason: error.to_string(),
        })?;
        writer.append(name, &block)?;
    }
    Ok(())
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
    require_rows(reader, layout, name, count)?;
    let mut rows = BitRows::new(layout.width());
    append_read_rows(reader, layout, name, 0..count, &mut rows)?;
    Ok(rows)
}

/// Fails unless a file has tensors for so many bit rows.
fn require_rows(
    reader: &SafetensorsReader,
    layout: &PathLayout,
    name: &str,
    count: usize,
) -> Result<(), ArtefactError> {
    for spec in row_specs(layout, name, count) {
        let found = reader.tensor(&spec.name);
        if found.is_none_or(|found| found.shape != spec.shape) {
            return Err(ArtefactError::Artefact {
                file: reader.name().to_owned(),
                reason: format!("`{}` has another shape", spec.name),
            });
        }
    }
    Ok(())
}

/// Appends some of a file's bit rows to others.
pub fn append_read_rows(
    reader: &SafetensorsReader,
    layout: &PathLayout,
    name: &str,
    range: Range<usize>,
    out: &mut BitRows,
) -> Result<(), ArtefactError> {
    let first = out.len();
    out.extend_with_zeros(range.len());
    let mut words = Vec::new();
    for layer in 0..layout.layers() {
        let name = format!("{name}.{layer}");
        let width = layout.words(layer).len();
        words.resize(range.len() * width, 0_u64);
        reader.read_rows(&name, range.clone(), &mut words)?;
        for (place, words) in words.chunks_exact(width.max(1)).enumerate() {
            let row = out.row_mut(first + place);
            layout.layer_mut(row, layer).copy_from_slice(words);
            // The last word has bits for neurons that the layer does not have.
            let used = layout.neurons(layer) % 64;
            if used > 0 && words.last().is_some_and(|word| word >> used != 0) {
                return Err(ArtefactError::Artefact {
                    file: reader.name().to_owned(),
                    reason: format!("`{name}` has neurons that are not there"),
                });
            }
        }
    }
    Ok(())
}

/// Reads whole numbers, one for each of many inputs.
fn read_narrow<T: Scalar>(
    reader: &SafetensorsReader,
    name: &str,
    number: impl Fn(T) -> i64,
) -> Result<Narrow, ArtefactError> {
    let count = reader.tensor(name).and_then(|tensor| tensor.shape.first());
    let count = count.copied().unwrap_or(0);
    let mut numbers = Narrow::default();
    let mut block = Vec::new();
    for start in (0..count).step_by(BLOCK) {
        let rows = start..(start + BLOCK).min(count);
        block.resize(rows.len(), T::default());
        reader.read_rows(name, rows, &mut block)?;
        numbers.extend(block.iter().copied().map(&number));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of two layers, one of which takes two words.
    fn written(rows: &BitRows, layout: &PathLayout) -> SafetensorsReader {
        let specs = row_specs(layout, "path", rows.len());
        let mut writer = SafetensorsWriter::in_memory("{}", &specs).unwrap();
        append_rows(&mut writer, layout, "path", rows).unwrap();
        let source = Source::from_bytes(writer.into_bytes().unwrap());
        SafetensorsReader::new(&source, "test").unwrap()
    }

    #[test]
    fn some_rows_are_those_of_all() {
        let layout = PathLayout::new([70, 3]);
        let mut rows = BitRows::new(layout.width());
        for row in 0..10 {
            rows.push(&[row * 12345, row % 64, row % 8]);
        }
        let reader = written(&rows, &layout);
        assert_eq!(read_rows(&reader, &layout, "path", 10).unwrap(), rows);
        assert!(read_rows(&reader, &layout, "path", 9).is_err());
        let mut some = BitRows::new(layout.width());
        for range in [2..3, 5..5, 7..10] {
            append_read_rows(&reader, &layout, "path", range, &mut some).unwrap();
        }
        assert_eq!(some, rows.gather(&[2, 7, 8, 9]));
        assert!(append_read_rows(&reader, &layout, "path", 9..11, &mut some).is_err());
    }

    #[test]
    fn neurons_that_are_not_there_are_refused() {
        let layout = PathLayout::new([70, 3]);
        let mut rows = BitRows::zeros(layout.width(), 4);
        rows.row_mut(2)[2] = 1 << 3;
        let reader = written(&rows, &layout);
        let mut some = BitRows::new(layout.width());
        append_read_rows(&reader, &layout, "path", 0..2, &mut some).unwrap();
        let error = append_read_rows(&reader, &layout, "path", 1..4, &mut some).unwrap_err();
        assert!(
            error.to_string().contains("`path.1` has neurons"),
            "{error}"
        );
    }
}
