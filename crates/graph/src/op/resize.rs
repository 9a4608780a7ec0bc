//! Interpolation along axes.

/// How the elements between the given ones are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Interpolation {
    /// The nearest element.
    Nearest(NearestRounding),
    /// Linear in each axis.
    Linear,
    /// Cubic in each axis, with the given coefficient.
    Cubic {
        /// Coefficient `a` of the cubic kernel.
        coefficient: f32,
        /// Whether taps outside the input are left out and the weights renormalised.
        exclude_outside: bool,
    },
}

/// Which element is the nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NearestRounding {
    /// Halves go down.
    RoundPreferFloor,
    /// Halves go up.
    RoundPreferCeil,
    /// Always down.
    Floor,
    /// Always up.
    Ceil,
}

/// How an output coordinate becomes an input coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinates {
    /// Centres of pixels coincide.
    HalfPixel,
    /// As `HalfPixel`, with the image's centre kept when the extent was rounded.
    HalfPixelSymmetric,
    /// As `HalfPixel`, but 0 when the output has one element.
    PytorchHalfPixel,
    /// First and last elements coincide.
    AlignCorners,
    /// Plain division by the scale.
    Asymmetric,
}

/// One axis of a resize.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisMap {
    /// The axis.
    pub axis: usize,
    /// Extent of the output.
    pub output: usize,
    /// Factor from input to output as the model gives it; not always the quotient of the extents.
    pub scale: f32,
}

/// Separable interpolation.
#[derive(Clone, Debug, PartialEq)]
pub struct Resize {
    /// The axes that change, in ascending order.
    pub axes: Vec<AxisMap>,
    /// How elements are made.
    pub interpolation: Interpolation,
    /// How coordinates are related.
    pub coordinates: Coordinates,
}

impl Resize {
    /// For each output position along an axis of extent `input`: the input positions it is a
    /// weighted sum of, and their weights.
    pub fn taps(&self, map: &AxisMap, input: usize) -> Vec<Vec<(usize, f32)>> {
        let _ = (map, input);
        Vec::new()
    }
}
