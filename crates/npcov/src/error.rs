//! Why something cannot be done.

use npcov_artefact::ArtefactError;
use npcov_attack::AttackError;
use npcov_coverage::CoverageError;
use npcov_data::DataError;
use npcov_graph::{GraphError, OpError};
use npcov_masking::TuneError;
use npcov_mutate::MutationError;
use npcov_program::ProgramError;
use npcov_run::RunError;
use npcov_select::SelectError;

/// Why something cannot be done, by the part that says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A model or dataset cannot be used, or a network not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An artefact cannot be read, written or merged.
    #[error(transparent)]
    Artefact(#[from] ArtefactError),
    /// A decision graph cannot be learnt, or a suite not be measured.
    #[error(transparent)]
    Coverage(CoverageError),
    /// An attack cannot be carried out.
    #[error(transparent)]
    Attack(AttackError),
    /// Mutants cannot be made or measured.
    #[error(transparent)]
    Mutation(MutationError),
    /// Inputs cannot be selected.
    #[error(transparent)]
    Select(SelectError),
    /// A program cannot be written as ONNX.
    #[error("cannot write the program as ONNX: {0}")]
    Export(OpError),
}

// What a part only passes on belongs to the part that said it first.

impl From<CoverageError> for Error {
    fn from(error: CoverageError) -> Error {
        match error {
            CoverageError::Run(error) => Error::Run(error),
            CoverageError::Artefact(error) => Error::Artefact(error),
            error => Error::Coverage(error),
        }
    }
}

impl From<AttackError> for Error {
    fn from(error: AttackError) -> Error {
        match error {
            AttackError::Run(error) => Error::Run(error),
            error => Error::Attack(error),
        }
    }
}

impl From<MutationError> for Error {
    fn from(error: MutationError) -> Error {
        match error {
            MutationError::Run(error) => Error::Run(error),
            error => Error::Mutation(error),
        }
    }
}

impl From<TuneError> for Error {
    fn from(error: TuneError) -> Error {
        match error {
            TuneError::Run(error) => Error::Run(error),
            TuneError::Artefact(error) => Error::Artefact(error),
        }
    }
}

impl From<SelectError> for Error {
    fn from(error: SelectError) -> Error {
        match error {
            SelectError::Coverage(error) => error.into(),
            error => Error::Select(error),
        }
    }
}

impl From<DataError> for Error {
    fn from(error: DataError) -> Error {
        Error::Run(error.into())
    }
}

impl From<GraphError> for Error {
    fn from(error: GraphError) -> Error {
        Error::Run(error.into())
    }
}

impl From<ProgramError> for Error {
    fn from(error: ProgramError) -> Error {
        Error::Run(error.into())
    }
}
