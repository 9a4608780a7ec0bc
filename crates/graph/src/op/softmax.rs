//! Softmax and its logarithm.

/// Softmax along an axis. The flattening form of old opsets is imported as reshapes around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Softmax {
    /// The axis whose exponentials add up to one.
    pub axis: usize,
    /// Whether the logarithm is taken.
    pub log: bool,
}
