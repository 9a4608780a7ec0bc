//! Sliding windows: what convolutions and pools share.

/// A window that slides over the spatial axes; one entry per spatial axis in every field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Extent of the window in taps.
    pub kernel: Vec<usize>,
    /// Distance between neighbouring windows.
    pub strides: Vec<usize>,
    /// Distance between neighbouring taps.
    pub dilations: Vec<usize>,
    /// Positions added before the first element.
    pub pads_begin: Vec<usize>,
    /// Positions added after the last element.
    pub pads_end: Vec<usize>,
}
