//! Why mutants cannot be made or measured.

use npcov_data::DataError;
use npcov_graph::OpError;
use npcov_program::ProgramError;
use npcov_run::RunError;

/// Why mutants cannot be made or measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MutationError {
    /// The network cannot be run, or a parameter is wrong.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Nothing of the model can be changed.
    #[error("the model has nothing that these operators change: {0}")]
    Nothing(String),
    /// The model gives numbers: which class of a mutant is killed is not defined for those.
    #[error(
        "the model gives numbers, and mutants are killed by class; `--task classification` if it has classes"
    )]
    Numbers,
    /// States do not belong together.
    #[error("the states cannot be merged: {0}")]
    Misfit(&'static str),
    /// A state file is none.
    #[error("`{file}` is no mutation state: {reason}")]
    File {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A mutant cannot be written as ONNX.
    #[error("cannot write the mutant as ONNX: {0}")]
    Export(OpError),
}

impl From<DataError> for MutationError {
    fn from(error: DataError) -> MutationError {
        MutationError::Run(error.into())
    }
}

impl From<ProgramError> for MutationError {
    fn from(error: ProgramError) -> MutationError {
        MutationError::Run(error.into())
    }
}
