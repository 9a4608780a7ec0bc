//! Why an experiment cannot be made.

use npcov::artefact::ArtefactError;
use npcov::attack::AttackError;
use npcov::coverage::CoverageError;
use npcov::data::DataError;
use npcov::run::RunError;

/// Why an experiment cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A step of it cannot be carried out.
    #[error(transparent)]
    Npcov(#[from] npcov::Error),
    /// What was finished cannot be kept or found again.
    #[error("cannot keep finished work in `{folder}`: {reason}")]
    Folder {
        /// The folder.
        folder: String,
        /// Why not.
        reason: String,
    },
    /// Labels are needed.
    #[error("`{0}` has no labels, and the experiment needs to know what is misclassified")]
    NoLabels(String),
    /// There are fewer inputs of a kind than the experiment takes.
    #[error("`{data}` has {found} {kind}, and {wanted} are needed")]
    TooFew {
        /// The dataset.
        data: String,
        /// What is missing.
        kind: &'static str,
        /// How many there are.
        found: usize,
        /// How many are needed.
        wanted: usize,
    },
    /// Other data than the decision graph was learnt from.
    #[error("`{data}` is not what `{graph}` was learnt from")]
    NotTrainingData {
        /// The data.
        data: String,
        /// The decision graph.
        graph: String,
    },
    /// There is not a kind for each input.
    #[error("`{data}` has {inputs} inputs and {kinds} kinds")]
    Kinds {
        /// The data.
        data: String,
        /// How many kinds it has.
        kinds: usize,
        /// How many inputs it has.
        inputs: usize,
    },
    /// Clusters of k-means, where those by a network of neighbours are looked at.
    #[error(
        "the clusters of `{0}` are those of k-means: build it with `--clustering graph`, to which \
         k-means is compared"
    )]
    NoCommunities(String),
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
}

impl From<ArtefactError> for LabError {
    fn from(error: ArtefactError) -> LabError {
        LabError::Npcov(error.into())
    }
}

impl From<AttackError> for LabError {
    fn from(error: AttackError) -> LabError {
        LabError::Npcov(error.into())
    }
}

impl From<CoverageError> for LabError {
    fn from(error: CoverageError) -> LabError {
        LabError::Npcov(error.into())
    }
}

impl From<DataError> for LabError {
    fn from(error: DataError) -> LabError {
        LabError::Npcov(error.into())
    }
}

impl From<RunError> for LabError {
    fn from(error: RunError) -> LabError {
        LabError::Npcov(error.into())
    }
}

/// Fails with what a parameter may be.
pub(crate) fn parameter<T>(
    name: &'static str,
    value: impl ToString,
    wanted: &'static str,
) -> Result<T, LabError> {
    Err(LabError::Parameter {
        name,
        value: value.to_string(),
        wanted,
    })
}
