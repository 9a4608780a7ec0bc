//! Paths and activations of training inputs as Parquet files, for other people's programs.
//!
//! A file holds some neighbouring inputs, in order, and its name says which. A list of all files with their digests is
//! written last: where it is, all of them are whole.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use half::f16;
use npcov::artefact::{ArtefactError, GraphFile};
use npcov::data::{DataError, Digest, write_whole};
use npcov::paths::{BitRows, PathSource, TrainingActivations};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{
    DataType, FixedLenByteArray, FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::number::decimals;
use crate::visible::on_one_line;

/// What is wrong with files that cannot be written.
#[derive(Debug, Error)]
pub enum PathsFilesError {
    /// The graph cannot be read.
    #[error(transparent)]
    Graph(#[from] ArtefactError),
    /// A file or the folder cannot be written.
    #[error(transparent)]
    File(#[from] DataError),
    /// The encoder fails.
    #[error("cannot write `{file}`: {source}")]
    Parquet {
        /// The file.
        file: String,
        /// What the encoder says.
        source: ParquetError,
    },
    /// The folder cannot be made.
    #[error("cannot make the folder `{folder}`: {source}")]
    Folder {
        /// The folder.
        folder: String,
        /// The reason the operating system gave.
        source: std::io::Error,
    },
}

/// How activations are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Activations {
    /// Not at all.
    None,
    /// As they are.
    #[default]
    F32,
    /// Rounded, in half the room.
    F16,
}

/// Files of paths that were written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathsFiles {
    /// The folder.
    pub folder: String,
    /// What tells the graph from all others.
    pub graph: String,
    /// Training inputs in all files.
    pub inputs: usize,
    /// The neurons of each path layer: a path has one bit for each of them, layer by layer.
    pub layers: Vec<(String, usize)>,
    /// The files, in the order of inputs.
    pub files: Vec<PathsFile>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathsFile {
    /// Its name.
    pub name: String,
    /// The first of its inputs.
    pub start: usize,
    /// The one behind the last.
    pub end: usize,
    /// Its size.
    pub bytes: usize,
    /// Its digest.
    pub sha256: String,
}

/// What lists the files. Readers of whole folders pass over such names.
pub const MANIFEST: &str = "_manifest.json";

/// Writes the training inputs of a graph as files of `rows` inputs each.
pub fn write_paths(
    graph: &GraphFile,
    folder: &Path,
    activations: Activations,
    rows: usize,
) -> Result<PathsFiles, PathsFilesError> {
    std::fs::create_dir_all(folder).map_err(|source| PathsFilesError::Folder {
        folder: folder.display().to_string(),
        source,
    })?;
    let record = graph.record();
    let training = &graph.graph().parts().training;
    let inputs = training.predictions.len();
    let table = Table {
        graph,
        activations,
        neurons: graph.graph().layout().total_neurons(),
        first: record.training.start,
    };
    let mut files = Vec::new();
    for start in (0..inputs).step_by(rows.max(1)) {
        let part = start..inputs.min(start + rows.max(1));
        let (first, end) = (table.first + part.start, table.first + part.end);
        let name = format!("part-{first:012}-{end:012}.parquet");
        let path = folder.join(&name);
        let bytes = table.encode(part, &path)?;
        write_whole(&path, &bytes)?;
        files.push(PathsFile {
            name,
            start: first,
            end,
            bytes: bytes.len(),
            sha256: Digest::of(&bytes).to_string(),
        });
    }
    let layers = record.extraction.layers.iter();
    let written = PathsFiles {
        folder: folder.display().to_string(),
        graph: record.id.clone(),
        inputs,
        layers: layers.map(|l| (l.name.clone(), l.neurons)).collect(),
        files,
    };
    let manifest = crate::json(&written);
    write_whole(folder.join(MANIFEST), manifest.as_bytes())?;
    Ok(written)
}

/// What was written, for people.
pub fn paths_files(written: &PathsFiles) -> String {
    let bytes: usize = written.files.iter().map(|file| file.bytes).sum();
    format!(
        "{} training inputs in {} files, {} MB, in {}\n",
        written.inputs,
        written.files.len(),
        decimals(bytes as f64 / 1e6, 1),
        on_one_line(&written.folder),
    )
}

struct Table<'a> {
    graph: &'a GraphFile,
    activations: Activations,
    neurons: usize,
    /// The position of the first training input in its data.
    first: usize,
}

impl Table<'_> {
    fn encode(&self, inputs: Range<usize>, path: &Path) -> Result<Vec<u8>, PathsFilesError> {
        let failed = |source| PathsFilesError::Parquet {
            file: PathBuf::from(path).display().to_string(),
            source,
        };
        let mut numbers = Vec::new();
        if self.activations != Activations::None {
            numbers.resize(inputs.len() * self.neurons, 0.0);
            let rows = numbers.chunks_exact_mut(self.neurons.max(1));
            for (input, row) in inputs.clone().zip(rows) {
                TrainingActivations::read(self.graph, input as u32, row)?;
            }
        }
        let mut paths = BitRows::new(self.graph.graph().layout().width());
        self.graph.read_paths(inputs.clone(), &mut paths)?;
        let mut bytes = Vec::new();
        self.write(inputs, &paths, &numbers, &mut bytes)
            .map_err(failed)?;
        Ok(bytes)
    }

    fn write(
        &self,
        inputs: Range<usize>,
        paths: &BitRows,
        activations: &[f32],
        bytes: &mut Vec<u8>,
    ) -> Result<(), ParquetError> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_dictionary_enabled(false)
            .set_created_by(format!("npcov {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(self.metadata(&inputs)));
        let mut writer =
            SerializedFileWriter::new(bytes, self.schema()?, Arc::new(properties.build()))?;
        let parts = self.graph.graph().parts();
        let training = &parts.training;
        let mut group = writer.next_row_group()?;
        let ids: Vec<i64> = inputs.clone().map(|i| (self.first + i) as i64).collect();
        column::<Int64Type>(&mut group, &ids, None)?;
        let prediction = |input| training.predictions.get(input).unwrap_or_default() as i32;
        let predictions: Vec<i32> = inputs.clone().map(prediction).collect();
        column::<Int32Type>(&mut group, &predictions, None)?;
        let label = |input| training.labels.as_ref()?.get(input);
        optional(&mut group, inputs.clone().map(label))?;
        let cluster = |input| parts.assignment.get(input).filter(|&cluster| cluster >= 0);
        optional(&mut group, inputs.clone().map(cluster))?;
        let layout = self.graph.graph().layout();
        // In memory, every layer begins with a word of its own.
        let packed = |row: &[u64]| {
            let mut bytes = vec![0_u8; self.neurons.div_ceil(8)];
            for layer in 0..layout.layers() {
                let words = layout.layer(row, layer);
                for (neuron, bit) in layout.span(layer).enumerate() {
                    let is_critical = words[neuron / 64] >> (neuron % 64) & 1;
                    bytes[bit / 8] |= (is_critical as u8) << (bit % 8);
                }
            }
            FixedLenByteArray::from(bytes)
        };
        let paths: Vec<FixedLenByteArray> = paths.rows().map(packed).collect();
        column::<FixedLenByteArrayType>(&mut group, &paths, None)?;
        // Every element is there; the first one of a row begins a list.
        let present = vec![1; activations.len()];
        let begins = |i: usize| i16::from(!i.is_multiple_of(self.neurons.max(1)));
        let repeated: Vec<i16> = (0..activations.len()).map(begins).collect();
        let levels = Some((&present[..], Some(&repeated[..])));
        match self.activations {
            Activations::None => {}
            Activations::F32 => column::<FloatType>(&mut group, activations, levels)?,
            Activations::F16 => {
                let half = |x: &f32| f16::from_f32(*x).to_le_bytes().to_vec().into();
                let rounded: Vec<FixedLenByteArray> = activations.iter().map(half).collect();
                column::<FixedLenByteArrayType>(&mut group, &rounded, levels)?;
            }
        }
        group.close()?;
        writer.close()?;
        Ok(())
    }

    fn schema(&self) -> Result<TypePtr, ParquetError> {
        let plain = |name: &str, kind, repetition| {
            let column = Type::primitive_type_builder(name, kind).with_repetition(repetition);
            Ok::<TypePtr, ParquetError>(Arc::new(column.build()?))
        };
        let bytes = |name: &str, length: usize, meaning| {
            let column = Type::primitive_type_builder(name, Physical::FIXED_LEN_BYTE_ARRAY)
                .with_repetition(Repetition::REQUIRED)
                .with_length(i32::try_from(length).unwrap_or(i32::MAX))
                .with_logical_type(meaning);
            Ok::<TypePtr, ParquetError>(Arc::new(column.build()?))
        };
        let mut columns = vec![
            plain("id", Physical::INT64, Repetition::REQUIRED)?,
            plain("pred", Physical::INT32, Repetition::REQUIRED)?,
            plain("label", Physical::INT32, Repetition::OPTIONAL)?,
            plain("cluster", Physical::INT32, Repetition::OPTIONAL)?,
            bytes("path", self.neurons.div_ceil(8), None)?,
        ];
        let element = match self.activations {
            Activations::None => None,
            Activations::F32 => Some(plain("element", Physical::FLOAT, Repetition::REQUIRED)?),
            Activations::F16 => Some(bytes("element", 2, Some(LogicalType::Float16))?),
        };
        if let Some(element) = element {
            let list = Type::group_type_builder("list").with_repetition(Repetition::REPEATED);
            let list = Arc::new(list.with_fields(vec![element]).build()?);
            let act = Type::group_type_builder("act").with_repetition(Repetition::REQUIRED);
            let act = act.with_logical_type(Some(LogicalType::List));
            columns.push(Arc::new(act.with_fields(vec![list]).build()?));
        }
        let schema = Type::group_type_builder("schema").with_fields(columns);
        Ok(Arc::new(schema.build()?))
    }

    /// What a file says of itself.
    fn metadata(&self, inputs: &Range<usize>) -> Vec<KeyValue> {
        let record = self.graph.record();
        let extraction = &record.extraction;
        let layers = extraction.layers.iter();
        let layers: Vec<(&str, usize)> = layers.map(|l| (&*l.name, l.neurons)).collect();
        let json = |value: serde_json::Result<String>| value.unwrap_or_default();
        let rows = format!("{}-{}", self.first + inputs.start, self.first + inputs.end);
        let said = [
            ("npcov.format", "1".to_owned()),
            ("npcov.version", record.version.clone()),
            ("npcov.graph", record.id.clone()),
            ("npcov.model", extraction.model.sha256.clone()),
            ("npcov.data", record.training.sha256.clone()),
            ("npcov.rows", rows),
            ("npcov.layers", json(serde_json::to_string(&layers))),
            (
                "npcov.alpha",
                json(serde_json::to_string(&extraction.alpha)),
            ),
            (
                "npcov.method",
                json(serde_json::to_string(&extraction.method)),
            ),
            (
                "npcov.preprocessing",
                json(serde_json::to_string(&extraction.preprocessing)),
            ),
        ];
        said.into_iter()
            .map(|(key, value)| KeyValue::new(key.to_owned(), value))
            .collect()
    }
}

/// Levels of a column: whether elements are there, and whether they go on with a list.
type Levels<'a> = Option<(&'a [i16], Option<&'a [i16]>)>;

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    values: &[T::T],
    levels: Levels<'_>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("there is no such column".to_owned()));
    };
    let (defined, repeated) = levels.unzip();
    let writer = column.typed::<T>();
    writer.write_batch(values, defined, repeated.flatten())?;
    column.close()
}

/// A column of whole numbers, some of which may be missing.
fn optional(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    numbers: impl Iterator<Item = Option<i64>>,
) -> Result<(), ParquetError> {
    let narrow = |number: Option<i64>| number.and_then(|number| i32::try_from(number).ok());
    let numbers: Vec<Option<i32>> = numbers.map(narrow).collect();
    let defined: Vec<i16> = numbers.iter().map(|n| i16::from(n.is_some())).collect();
    let there: Vec<i32> = numbers.into_iter().flatten().collect();
    column::<Int32Type>(group, &there, Some((&defined, None)))
}
