//! What can be wrong with a criterion.

use crate::training::TrainingError;

/// Why a criterion cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum CriterionError {
    /// There is none of that name.
    #[error("there is no criterion `{name}`; {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The one that was probably meant, and the names there are.
        known: String,
    },
    /// A criterion has no such option.
    #[error("`{criterion}` has no option `{option}`; it has {known}")]
    Option {
        /// The criterion.
        criterion: String,
        /// The option.
        option: String,
        /// The options it has.
        known: String,
    },
    /// An option cannot have that value.
    #[error("`{criterion}`: `{option}` is `{value}`, but must be {wanted}")]
    Value {
        /// The criterion.
        criterion: String,
        /// The option.
        option: String,
        /// Its value.
        value: String,
        /// What it may be.
        wanted: String,
    },
    /// A criterion's name is not followed by options as they are written.
    #[error("`{text}` is no option: write `name=value`")]
    Syntax {
        /// What is there instead.
        text: String,
    },
    /// The network is none that criteria can look at.
    #[error("the network cannot be measured: {reason}")]
    Network {
        /// Why not.
        reason: String,
    },
    /// It cannot be fitted to the training data, or not to this network.
    #[error("cannot be fitted: {reason}")]
    Fit {
        /// The criterion.
        criterion: String,
        /// Why.
        reason: String,
    },
    /// What was fitted is not what the criterion stores.
    #[error("`{criterion}`: what was fitted to the training data is damaged: {reason}")]
    Damaged {
        /// The criterion.
        criterion: String,
        /// What is wrong.
        reason: String,
    },
    /// Training data cannot be read.
    #[error("training data cannot be read")]
    Training(#[source] TrainingError),
    /// A state is of another criterion.
    #[error("the state is another criterion's: it has no such part as `{part}`")]
    ForeignState {
        /// The part that it should have.
        part: String,
    },
    /// A state says of its inputs what cannot be.
    #[error("no inputs cover what it says: {what}")]
    Impossible {
        /// What it says.
        what: String,
    },
    /// What a criterion needs of inputs is not there.
    #[error("`{tap}` of path layer {layer} was not extracted")]
    NoTap {
        /// What is missing.
        tap: String,
        /// The layer's position.
        layer: usize,
    },
    /// States are of different criteria.
    #[error("`{part}` is not the same in both states")]
    Unlike {
        /// The part of the state.
        part: String,
    },
    /// A state depends on the order of inputs.
    #[error("what it counts depends on the order of all inputs: measure them in one run")]
    Ordered,
}

impl From<TrainingError> for CriterionError {
    fn from(error: TrainingError) -> Self {
        CriterionError::Training(error)
    }
}

/// A criterion's error, with its name and options.
#[derive(Debug, thiserror::Error)]
#[error("{criterion}: {source}")]
pub struct NamedCriterionError {
    /// The criterion, as it is written.
    pub criterion: String,
    /// What is wrong.
    pub source: Box<CriterionError>,
}
