//! Convolution and its transpose.

use super::window::Window;

/// Convolution over any number of spatial axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conv {
    /// The sliding window; explicit pads, whatever `auto_pad` said.
    pub window: Window,
    /// Number of groups that input and output channels are split into.
    pub groups: usize,
}

/// Transposed convolution: scatters what [`Conv`] with the same window gathers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvTranspose {
    /// The sliding window over the *output*.
    pub window: Window,
    /// Number of groups that input and output channels are split into.
    pub groups: usize,
    /// Spatial extent of the output, from `output_padding` or `output_shape`.
    pub output: Vec<usize>,
}
