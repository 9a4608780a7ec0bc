//! Critical decision paths, decision graphs and neuron path coverage: numbers and bit sets only.

mod abstraction;
pub mod bits;
mod bucket;
pub mod choices;
mod coverage;
mod critical;
mod graph;
pub mod kmeans;
mod layout;
mod observe;
mod similarity;

pub use bits::BitRows;
pub use bucket::{distance_bucket, similarity_bucket};
pub use choices::{Choices, Preset};
pub use coverage::{Coverage, Space};
pub use critical::{PathRule, band, rounded_band};
pub use graph::{
    ClassNode, ClassParameters, Clusters, DecisionGraph, InvalidGraph, Learning, NO_CLUSTER, Parts,
    TrainingPaths,
};
pub use kmeans::KMeans;
pub use layout::Layout;
pub use observe::{AnpcLayer, ClusterView, Input, Meter, Observation, TrainingActivations};
pub use similarity::{Jaccard, similarity};
