//! Why inputs cannot be selected.

use npcov_artefact::ArtefactError;
use npcov_coverage::CoverageError;
use npcov_criteria::NamedCriterionError;
use npcov_data::DataError;
use npcov_run::RunError;

/// Why inputs cannot be selected, or a suite not be made smaller.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// The inputs cannot be measured.
    #[error(transparent)]
    Coverage(#[from] CoverageError),
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
    /// A state that is given was not measured by a criterion.
    #[error("the state that is given has no `{criterion}`; it has {}", .has.join(", "))]
    NotGiven {
        /// The criterion.
        criterion: String,
        /// The criteria that it was measured by.
        has: Vec<String>,
    },
    /// A state is given to a strategy that does not count what inputs cover.
    #[error(
        "`{strategy}` does not count what inputs cover, so it cannot start from a state; `additional` and `total` can"
    )]
    NothingToStartFrom {
        /// The strategy.
        strategy: String,
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
}

impl From<RunError> for SelectError {
    fn from(error: RunError) -> SelectError {
        SelectError::Coverage(error.into())
    }
}

impl From<ArtefactError> for SelectError {
    fn from(error: ArtefactError) -> SelectError {
        SelectError::Coverage(error.into())
    }
}

impl From<DataError> for SelectError {
    fn from(error: DataError) -> SelectError {
        SelectError::Coverage(error.into())
    }
}

impl From<NamedCriterionError> for SelectError {
    fn from(error: NamedCriterionError) -> SelectError {
        SelectError::Coverage(error.into())
    }
}
