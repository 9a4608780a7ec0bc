//! Maximum and average over windows.

use super::window::Window;

/// What a pool computes of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// The maximum of the elements inside the input.
    Max,
    /// The mean.
    Average {
        /// Whether padded positions count in the divisor (those that rounding up the output's
        /// extent adds never do).
        count_include_pad: bool,
    },
}

/// A pool over the spatial axes. Global pools are reductions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Maximum or average.
    pub kind: PoolKind,
    /// The sliding window; pads as the model declares them.
    pub window: Window,
    /// Whether a last, partial window counts (ONNX's `ceil_mode`).
    pub ceil_mode: bool,
}
