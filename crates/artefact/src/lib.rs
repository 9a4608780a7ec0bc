//! What npcov writes for itself: decision graphs, coverage states, and shards of both.
//!
//! All are safetensors files. Their numbers are tensors; what the numbers were made from is a
//! [record](GraphRecord), JSON with sorted keys in the file's metadata. A file is a function of model,
//! data and settings: it holds no date and no absolute path. It holds checksums of all of itself, and is
//! refused by name where it is not what was written. Artefacts can be made and read in memory as well
//! ([`ShardStore::in_memory`]).
//!
//! ```
//! use npcov_artefact::Kind;
//!
//! // A file is asked what it is before anything else.
//! assert_eq!(Kind::of("no such file"), None);
//! ```
//!
//! `npcov-coverage` makes graphs and states, `npcov-select` keeps shards of pools; neither knows how
//! they lie in files.

mod calibration;
mod difference;
mod error;
mod graph_file;
mod names;
mod parts;
mod record;
mod state_file;
mod state_tensors;
mod store;
mod union;

use std::path::Path;

use npcov_data::safetensors::SafetensorsReader;
use npcov_data::{DataError, ReadError};
use npcov_graph::OnnxModel;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use calibration::{Calibration, ScoreKind};
pub use difference::differences;
pub use error::ArtefactError;
pub use graph_file::{
    GraphFile, Surroundings, TrainingProfiles, append_read_rows, append_rows, identify, read_rows,
    row_specs,
};
pub use parts::{FinishedPart, Origin, WantedShard};
pub use record::{
    AnpcBound, AnpcRecord, ClassRecord, CriterionRecord, DataRecord, ExtractionRecord, GraphRecord,
    LayerRecord, ModelRecord, StateRecord, SuiteRecord,
};
pub use state_file::{CoverageState, InputRecord, MeasuredSuite, NO_LABEL, NO_SCORE};
pub use store::{Flaw, Passing, ShardStore};
pub use union::StateUnion;

/// The most clusters that a class may be given.
pub const MOST_CLUSTERS: usize = 1000;

/// Version of the artefacts' format.
pub const FORMAT: u32 = 2;

/// What kind of artefact a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A decision graph.
    DecisionGraph,
    /// Coverage of suites.
    CoverageState,
    /// Paths and activations of some training inputs, while a decision graph is built.
    TrainingShard,
}

impl Kind {
    /// What a file is; `None` when it is no artefact of npcov, or cannot be read.
    pub fn of(path: impl AsRef<Path>) -> Option<Kind> {
        let reader = SafetensorsReader::open(path).ok()?;
        let header: Header = serde_json::from_str(reader.metadata()?).ok()?;
        Some(header.kind)
    }

    /// The same in words.
    pub fn words(self) -> &'static str {
        match self {
            Kind::DecisionGraph => "a decision graph",
            Kind::CoverageState => "a coverage state",
            Kind::TrainingShard => "a part of a decision graph",
        }
    }
}

/// What all artefacts say of themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    kind: Kind,
    format: u32,
}

/// A record with what all artefacts say of themselves.
#[derive(Serialize, Deserialize)]
struct Metadata<R> {
    kind: Kind,
    format: u32,
    #[serde(flatten)]
    record: R,
}

/// A record as a file's metadata: one line, keys in order.
pub fn metadata<R: Serialize>(kind: Kind, record: &R) -> Result<String, ArtefactError> {
    let metadata = Metadata {
        kind,
        format: FORMAT,
        record,
    };
    // A value's keys are sorted; those of a struct are not.
    let value = serde_json::to_value(&metadata).map_err(ArtefactError::Json)?;
    serde_json::to_string(&value).map_err(ArtefactError::Json)
}

/// Opens the file of an artefact and reads its record.
fn open<R: DeserializeOwned>(
    path: &Path,
    kind: Kind,
) -> Result<(SafetensorsReader, R), ArtefactError> {
    let reader = SafetensorsReader::open(path).map_err(|error| match error {
        DataError::Read {
            source: ReadError::Malformed(_),
            ..
        } if OnnxModel::read(path).is_ok() => ArtefactError::IsModel {
            file: path.display().to_string(),
            wanted: kind.words(),
        },
        DataError::Read {
            source: ReadError::Malformed(reason),
            ..
        } => ArtefactError::Artefact {
            file: path.display().to_string(),
            reason: format!("it is not {}: {reason}", kind.words()),
        },
        error => error.into(),
    })?;
    let record = record_of(&reader, kind)?;
    Ok((reader, record))
}

/// The record of an artefact that is open.
fn record_of<R: DeserializeOwned>(
    reader: &SafetensorsReader,
    kind: Kind,
) -> Result<R, ArtefactError> {
    let wrong = |reason: String| ArtefactError::Artefact {
        file: reader.name().to_owned(),
        reason,
    };
    let none = || wrong("it was not written by npcov".to_owned());
    let text = reader.metadata().ok_or_else(none)?;
    let header: Header = serde_json::from_str(text).map_err(|_| none())?;
    if header.kind != kind {
        let (is, wanted) = (header.kind.words(), kind.words());
        return Err(wrong(format!("it is {is}, not {wanted}")));
    }
    if header.format != FORMAT {
        return Err(wrong(format!(
            "its format is {}, and this npcov reads {FORMAT}",
            header.format
        )));
    }
    if !reader.is_sealed() {
        return Err(wrong(
            "it has no checksums: not all of it is there".to_owned(),
        ));
    }
    let metadata: Metadata<R> =
        serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    Ok(metadata.record)
}
