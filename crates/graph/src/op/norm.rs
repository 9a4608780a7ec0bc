//! Normalisation layers.

/// Batch normalisation with fixed statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchNormalization {
    /// Added to the variance.
    pub epsilon: f32,
}

/// Normalisation of each sample's channels by their own statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceNormalization {
    /// Added to the variance.
    pub epsilon: f32,
}

/// Normalisation over the axes from `axis` on.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerNormalization {
    /// The first normalised axis.
    pub axis: usize,
    /// Added to the variance.
    pub epsilon: f32,
}

/// Local response normalisation: `x / (bias + alpha/size * sum of squares of near channels)^beta`.
#[derive(Clone, Debug, PartialEq)]
pub struct Lrn {
    /// Scaling factor.
    pub alpha: f32,
    /// Exponent.
    pub beta: f32,
    /// Added to the scaled sum.
    pub bias: f32,
    /// Number of channels summed.
    pub size: usize,
}
