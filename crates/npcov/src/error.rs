//! Why a verb cannot be carried out.

use npcov_criteria::CriterionError;
use npcov_data::DataError;
use npcov_engine::EngineError;
use npcov_graph::{GraphError, OpError};
use npcov_program::ProgramError;

/// Why a model or dataset cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model cannot be read or understood.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A program cannot be made from the model.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A program cannot be run.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The data cannot be read, or does not fit the model.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The model takes several inputs; a dataset provides one.
    #[error("the model has {} inputs ({}); only models with one input are supported", .0.len(), .0.join(", "))]
    SeveralInputs(Vec<String>),
    /// No output of the model has the name that was asked for.
    #[error("the model has no output `{name}`; it has {}", .outputs.join(", "))]
    NoSuchOutput {
        /// The name asked for.
        name: String,
        /// The names there are.
        outputs: Vec<String>,
    },
    /// The given input shape has another number of axes than the model's input.
    #[error("input shape `{given}` does not fit the model's `{declared}`")]
    InputShape {
        /// The shape that was given.
        given: String,
        /// The input's shape as declared.
        declared: String,
    },
    /// A label is none of the model's classes.
    #[error("`{data}`, row {row}: label {label}, but the model has {classes} classes (0 to {})", .classes.saturating_sub(1))]
    Label {
        /// The dataset.
        data: String,
        /// The label's position in the dataset.
        row: usize,
        /// The label.
        label: i64,
        /// Number of classes.
        classes: usize,
    },
    /// The model cannot be run on so many inputs at once.
    #[error(
        "the model's file fixes its batch size at {own}, and with {batch} inputs at a time it is another model"
    )]
    Batch {
        /// The number of inputs asked for.
        batch: usize,
        /// The number that the file fixes.
        own: usize,
    },
    /// Something is to be recorded of a network that does not know which model it was made from.
    #[error("the network has no digest of its model: make it by `Network::with_digest`")]
    NoDigest,
    /// There is no such input in the dataset.
    #[error("no input {index} in `{data}`: {}", extent(*.inputs))]
    Index {
        /// The dataset.
        data: String,
        /// The position asked for.
        index: usize,
        /// Number of inputs there are.
        inputs: usize,
    },
    /// A relevance is no number.
    #[error("input {row}: the relevance of {layer} is not finite")]
    RelevanceNotFinite {
        /// The input's position in the dataset.
        row: usize,
        /// The layer, in words.
        layer: String,
    },
    /// A picture cannot be encoded.
    #[error("cannot draw the picture: {0}")]
    Png(String),
    /// A program cannot be written as ONNX.
    #[error("cannot write the program as ONNX: {0}")]
    Export(OpError),
    /// A parameter has a value that it cannot have.
    #[error("{name} cannot be {value}: use {wanted}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        wanted: &'static str,
    },
    /// A parameter is given for a class that the model has not.
    #[error("there is no class {class}: the model has {classes} classes (0 to {})", .classes.saturating_sub(1))]
    NoSuchClass {
        /// The class.
        class: usize,
        /// Number of classes.
        classes: usize,
    },
    /// There is nothing to learn from or to measure.
    #[error("`{0}` has no inputs")]
    NoInputs(String),
    /// Labels are needed.
    #[error("`{0}` has no labels, and only inputs that are classified as labelled are to count")]
    NoLabels(String),
    /// A file is no artefact that can be used.
    #[error("`{file}`: {reason}")]
    Artefact {
        /// The file.
        file: String,
        /// Why not.
        reason: String,
    },
    /// The folder for parts of an artefact cannot be used.
    #[error("cannot keep parts in `{folder}`: {source}")]
    Folder {
        /// The folder.
        folder: String,
        /// Why not.
        source: std::io::Error,
    },
    /// A decision graph's model is not where it was.
    #[error("`{graph}` was learnt from `{model}`, which is not there")]
    ModelMoved {
        /// The decision graph.
        graph: String,
        /// Where the model should be.
        model: String,
    },
    /// A model is not the one that a decision graph was learnt from.
    #[error(
        "`{graph}` was learnt from another model than `{model}`: SHA-256 {found}, not {expected}"
    )]
    AnotherModel {
        /// The decision graph.
        graph: String,
        /// The model.
        model: String,
        /// The digest of the graph's model.
        expected: String,
        /// The digest of this one.
        found: String,
    },
    /// Artefacts do not belong together.
    #[error("`{file}` does not fit: {}", .differences.join("; "))]
    Mismatch {
        /// The file.
        file: String,
        /// What differs.
        differences: Vec<String>,
    },
    /// Inputs would count twice.
    #[error("suite `{suite}`: inputs {start} to {} were measured twice", .end.saturating_sub(1))]
    Overlap {
        /// The suite.
        suite: String,
        /// The first such input.
        start: usize,
        /// The one behind the last.
        end: usize,
    },
    /// A criterion cannot be measured.
    #[error("{criterion}: {source}")]
    Criterion {
        /// The criterion.
        criterion: String,
        /// Why not.
        source: CriterionError,
    },
    /// A decision graph has nothing for a criterion that must be fitted to training data.
    #[error("`{graph}` has nothing that `{criterion}` was fitted to; it has {has}")]
    NotFitted {
        /// The decision graph.
        graph: String,
        /// The criterion.
        criterion: String,
        /// The criteria that it has something for.
        has: String,
    },
    /// A state has no suite of the name that was asked for.
    #[error("there is no suite `{name}`; there are {}", .suites.join(", "))]
    NoSuchSuite {
        /// The name asked for.
        name: String,
        /// The names there are.
        suites: Vec<String>,
    },
    /// A criterion does not count what each input covers.
    #[error("`{criterion}` does not count things that an input covers: {reason}; {} do", .known.join(", "))]
    CountsNothing {
        /// The criterion.
        criterion: String,
        /// What it does instead.
        reason: String,
        /// Criteria that do.
        known: Vec<String>,
    },
    /// No criterion gives inputs that score.
    #[error("there is no score `{name}`; there are {}", .known.join(", "))]
    NoSuchScore {
        /// The score.
        name: String,
        /// The scores there are.
        known: Vec<String>,
    },
    /// A smaller suite does not cover what it was made to cover.
    #[error(
        "`{criterion}`: the smaller suite covers {after} of {before} things, which is a mistake of npcov"
    )]
    CoverageLost {
        /// The criterion.
        criterion: String,
        /// Things that the suite covers.
        before: u64,
        /// Things that the smaller suite covers.
        after: u64,
    },
    /// No state is given.
    #[error("there is nothing to merge")]
    NothingToMerge,
    /// A record cannot be written as JSON.
    #[error("cannot write a record: {0}")]
    Json(serde_json::Error),
    /// A number of an input is not one that it may be.
    #[error("`{data}`, input {row}: {number} is not in the range {low} to {high}")]
    OutOfRange {
        /// The dataset.
        data: String,
        /// The input's position in the dataset.
        row: usize,
        /// The number, divided but not normalised.
        number: f32,
        /// The least that it may be.
        low: f32,
        /// The most that it may be.
        high: f32,
    },
    /// The model computed something that is no number.
    #[error("input {row}: the model's logits are not finite")]
    NotFinite {
        /// The input's position in the dataset.
        row: usize,
    },
}

impl Error {
    /// The same error, naming the row of the dataset instead of its position among `rows`.
    pub(crate) fn of_row(self, rows: &[usize]) -> Error {
        match self {
            Error::NotFinite { row } => Error::NotFinite { row: rows[row] },
            Error::RelevanceNotFinite { row, layer } => Error::RelevanceNotFinite {
                row: rows[row],
                layer,
            },
            error => error,
        }
    }
}

fn extent(count: usize) -> String {
    match count {
        0 => "it is empty".to_owned(),
        count => format!("it has inputs 0 to {}", count - 1),
    }
}
