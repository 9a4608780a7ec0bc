//! Masking studies: what becomes of predictions when neurons are switched off.
//!
//! A sample of inputs is explained once; after that, sets of neurons are masked as often as wanted:
//! critical decision paths, [others](Neurons) as large, fifths of paths, and the abstract paths of
//! clusters. `tune` chooses parameters by it; the experiments of `npcov-lab` are made of it.

mod answers;
mod kept;
mod random;
mod sets;
mod study;
mod tune;

pub use sets::Cut;
pub use study::{ClusteredPaths, Keep, MaskingOptions, MaskingStudy};
pub use tune::{
    AlphaPoint, Basis, ChosenPoint, ClassChoice, Control, Halves, JoinedTuning, PathParameters,
    Recommendation, TuneError, TuneOptions, TunedPart, Tuning, join_tuning, tune, tune_part,
};

use serde::{Deserialize, Serialize};

/// Shares of inputs whose prediction changes when neurons are masked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inconsistency {
    /// When a set of neurons is masked.
    pub inc_c: f64,
    /// When all other neurons are.
    pub inc_nc: f64,
}

impl Inconsistency {
    /// What sets a good choice of neurons apart from a poor one: Inc.C - Inc.NC.
    pub fn difference(&self) -> f64 {
        self.inc_c - self.inc_nc
    }
}

/// How far a model's number moves when neurons are masked, in standard deviations of what it gives for its
/// training data: the mean over inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// When a set of neurons is masked.
    pub without: f64,
    /// When all other neurons are.
    pub only: f64,
}

/// Which neurons of an input are masked, or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neurons {
    /// Its critical decision path.
    Path,
    /// Its most activated neurons, as many in each layer.
    Activated,
    /// Random neurons, as many in each layer.
    Random,
}

/// What the path of another class does to an input.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StrangerPoint {
    /// Inputs for which an input of another class was found.
    pub inputs: usize,
    /// When that input's path is masked, and when all other neurons are.
    pub path: Inconsistency,
    /// The share of inputs that are taken for the other input's class when only its path is left.
    pub follows: f64,
    /// How far numbers move, where the model gives numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<Shift>,
}

/// What masking does to the abstract paths of one choice of clusters and beta.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GridPoint {
    /// Clusters of each class that were asked for.
    pub clusters: usize,
    /// The share of a cluster's members above which a neuron is abstract.
    pub beta: f64,
    /// Number of abstract paths, of all classes.
    pub paths: usize,
    /// Their mean width.
    pub width: f64,
    /// With the abstract path of its cluster for each input.
    pub path: Inconsistency,
}
