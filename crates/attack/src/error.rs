//! Why an attack cannot be carried out.

use npcov_data::DataError;
use npcov_run::RunError;

/// Why an attack cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttackError {
    /// The network cannot be run, or a parameter is wrong.
    #[error(transparent)]
    Run(#[from] RunError),
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
}

impl From<DataError> for AttackError {
    fn from(error: DataError) -> AttackError {
        AttackError::Run(error.into())
    }
}
