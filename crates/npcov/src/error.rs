//! Why a verb cannot be carried out.

use npcov_data::DataError;
use npcov_engine::EngineError;
use npcov_graph::GraphError;
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
    /// The model computed something that is no number.
    #[error("input {row}: the model's logits are not finite")]
    NotFinite {
        /// The input's position in the dataset.
        row: usize,
    },
}
