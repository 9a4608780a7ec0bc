//! Operators that move elements without computing: reshapes, transposes, slices, pads, copies.

/// Regularly spaced elements: along axis `a`, output position `i` is input position
/// `starts[a] + i * steps[a]`. Every axis of the input has an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// First position of each axis.
    pub starts: Vec<usize>,
    /// Distance between positions, negative to go backwards.
    pub steps: Vec<isize>,
    /// Extent of each axis of the output.
    pub shape: Vec<usize>,
}

/// What stands in padded positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    /// A constant.
    Constant(f32),
    /// The tensor mirrored at its border, the border itself not repeated.
    Reflect,
    /// The nearest element of the border.
    Edge,
    /// The tensor repeated.
    Wrap,
}

/// Elements added around a tensor; every axis has an entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Pad {
    /// Elements added before each axis.
    pub begins: Vec<usize>,
    /// Elements added after each axis.
    pub ends: Vec<usize>,
    /// What they are.
    pub mode: PadMode,
}
