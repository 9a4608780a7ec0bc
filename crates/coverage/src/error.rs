//! Why coverage cannot be measured.

use npcov_artefact::ArtefactError;
use npcov_criteria::{CriterionError, NamedCriterionError};
use npcov_data::DataError;
use npcov_graph::GraphError;
use npcov_run::RunError;

/// Why a decision graph cannot be learnt, or a suite not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoverageError {
    /// The network cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An artefact cannot be used.
    #[error(transparent)]
    Artefact(#[from] ArtefactError),
    /// Inputs cannot be held against training inputs.
    #[error("cannot look at training inputs: {0}")]
    Neighbours(#[from] CriterionError),
    /// A decision graph's model is not where it was: nothing is there, or something else.
    #[error("the model that `{graph}` was learnt from is not at `{model}`")]
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
    /// A decision graph was learnt with another engine than npcov's own, and none was asked for.
    #[error("`{graph}` was learnt with the engine `{engine}`")]
    AnotherEngine {
        /// The decision graph.
        graph: String,
        /// The engine.
        engine: String,
    },
    /// A state does not say to which clusters inputs belong.
    #[error(
        "the state does not say to which clusters its inputs belong: no criterion that it was measured by needs paths"
    )]
    WithoutPaths,
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
    /// What should be the share of a class is none.
    #[error("`{0}` is no share of a class")]
    NoShare(String),
    /// Scores are to be calibrated by inputs that the graph is learnt from.
    #[error(
        "`{0}` is what the graph is learnt from: calibration needs inputs that the network was not trained with"
    )]
    CalibratedByTraining(String),
    /// There is not one share for each class.
    #[error("there are {given} shares of classes, and the decision graph has {classes} classes")]
    ClassShares {
        /// How many shares there are.
        given: usize,
        /// How many classes there are.
        classes: usize,
    },
}

impl From<DataError> for CoverageError {
    fn from(error: DataError) -> CoverageError {
        CoverageError::Run(error.into())
    }
}

impl From<GraphError> for CoverageError {
    fn from(error: GraphError) -> CoverageError {
        CoverageError::Run(error.into())
    }
}

impl From<NamedCriterionError> for CoverageError {
    fn from(error: NamedCriterionError) -> CoverageError {
        CoverageError::Artefact(error.into())
    }
}
