//! Positions of extreme elements.

/// The index of the maximum or minimum along an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgMax {
    /// The axis searched.
    pub axis: usize,
    /// Whether the axis stays with extent 1.
    pub keep_dims: bool,
    /// Whether the last of several equal elements is taken instead of the first.
    pub select_last: bool,
    /// Whether the minimum is searched.
    pub minimum: bool,
}
