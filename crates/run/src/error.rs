//! Why a network cannot be run.

use npcov_data::DataError;
use npcov_engine::EngineError;
use npcov_graph::{GraphError, Purpose};
use npcov_program::ProgramError;

/// Why a model or dataset cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
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
    /// The output is no classification of the input.
    #[error("output `{output}` {purpose}; npcov is about models that choose a class for an input")]
    NoClassifier {
        /// The output's name.
        output: String,
        /// What it is.
        purpose: Purpose,
    },
    /// No input of the model has the name that was given.
    #[error("the model has no input `{name}`; it has {}", .inputs.join(", "))]
    NoSuchInput {
        /// The name.
        name: String,
        /// The names there are.
        inputs: Vec<String>,
    },
    /// All inputs are fixed.
    #[error("all inputs of the model are fixed: nothing is left for data")]
    NoOpenInput,
    /// There are too many outputs for them to be numbers of their own.
    #[error(
        "the model gives {outputs} numbers for each input; at most {most} are looked at together. Choose one: `--task regression:OUTPUT`"
    )]
    ManyNumbers {
        /// Number of outputs.
        outputs: usize,
        /// Most outputs.
        most: usize,
    },
    /// A model of numbers gives the same one for all inputs.
    #[error(
        "the model gives the same number for all inputs (output {output}): there is nothing to tell apart"
    )]
    ConstantNumber {
        /// The output.
        output: usize,
    },
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
    /// The model's file fixes a batch size that is too large to be tried out.
    #[error(
        "the model's file fixes its batch size at {batch}; at most {most} inputs are run at once"
    )]
    LargeBatch {
        /// The batch size.
        batch: usize,
        /// The largest one.
        most: usize,
    },
    /// The output has more elements than a model has classes.
    #[error("output `{output}` tells {classes} classes apart; at most {most} are looked at")]
    ManyClasses {
        /// The output's name.
        output: String,
        /// Its elements for one input.
        classes: usize,
        /// The most that are supported.
        most: usize,
    },
    /// There are too many layers for each of them to be looked at.
    #[error(
        "the model has {layers} path layers; at most {most} are looked at. Choose them with `--layers`"
    )]
    ManyLayers {
        /// Path layers.
        layers: usize,
        /// Most of them.
        most: usize,
    },
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
    /// An input holds the number of a token that the model does not know.
    #[error("input {row}: token {position} has the number {id}, but the model knows {tokens} tokens (0 to {})", .tokens.saturating_sub(1))]
    Token {
        /// The input's position in the dataset.
        row: usize,
        /// The token's position in the input.
        position: usize,
        /// Its number.
        id: f32,
        /// How many tokens there are.
        tokens: usize,
    },
    /// The model computed something that is no number.
    #[error("input {row}: the model's logits are not finite")]
    NotFinite {
        /// The input's position in the dataset.
        row: usize,
    },
    /// Progress said stop.
    #[error("stopped before the work was done")]
    Stopped,
}

impl RunError {
    /// The same error, naming the row of the dataset instead of its position among `rows`.
    pub fn of_row(self, rows: &[usize]) -> RunError {
        match self {
            RunError::NotFinite { row } => RunError::NotFinite { row: rows[row] },
            RunError::Token {
                row,
                position,
                id,
                tokens,
            } => RunError::Token {
                row: rows[row],
                position,
                id,
                tokens,
            },
            RunError::RelevanceNotFinite { row, layer } => RunError::RelevanceNotFinite {
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
