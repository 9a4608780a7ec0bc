//! Elements picked by index.

/// Slices of the first input at the positions of the second along an axis; negative positions
/// count from the end. The axis is replaced by the axes of the positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gather {
    /// The axis indexed.
    pub axis: usize,
}

/// One element of the first input for each position in the second, along an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatherElements {
    /// The axis indexed.
    pub axis: usize,
}
