//! Critical decision paths, decision graphs and neuron path coverage: numbers and bit sets only.
//!
//! Relevances become a path ([`PathRule`]), a row of bits with the neurons that decided. The paths
//! of training inputs become a decision graph ([`PathGraph`]): for each class clusters ([`kmeans`] of
//! paths, or [`GraphClustering`] of relevance [`profile`]s), and for each cluster an abstract path, the
//! neurons that its members share. An input belongs to the cluster with the nearest centre
//! ([`Centres`]), or to that of its nearest training inputs ([`NearestRows`]). An [`Observer`] holds
//! an input against the graph and finds the buckets that it covers: of similarity to abstract paths
//! (SNPC), and of distance to the activations of training inputs (ANPC).
//!
//! ```
//! use npcov_paths::{BitRows, Choices, Input, KMeans, LearnOptions, Observer, PathGraph, PathLayout};
//! use npcov_paths::{ClassParameters, Clusters, Narrow, PathSource, TrainingActivations, TrainingInputs, bits};
//!
//! // One layer of four neurons, one class, three training paths.
//! let layout = PathLayout::new([4]);
//! let mut paths = BitRows::zeros(layout.width(), 3);
//! for (row, neuron) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)] {
//!     bits::set(paths.row_mut(row), neuron);
//! }
//! let training = TrainingInputs { layout, predictions: Narrow::filled(0, 3), labels: None };
//! let class = ClassParameters { clusters: Clusters::Fixed(1), beta: 0.6 };
//! let Ok(graph) = PathGraph::learn(training, &paths, &LearnOptions {
//!     classes: vec![class],
//!     members: Default::default(),
//!     merge: Default::default(),
//!     kmeans: KMeans::default(),
//!     threads: 1,
//! });
//! assert_eq!(graph.abstract_path(0), [0b11]);
//!
//! /// Nobody's path or activations are asked for without layers of ANPC.
//! struct Nobody;
//! impl PathSource for Nobody {
//!     type Error = std::convert::Infallible;
//!     fn read_paths(&self, _: std::ops::Range<usize>, _: &mut BitRows) -> Result<(), Self::Error> { Ok(()) }
//! }
//! impl TrainingActivations for Nobody {
//!     fn read(&self, _: u32, _: &mut [f32]) -> Result<(), Self::Error> { Ok(()) }
//! }
//! let choices = Choices::default();
//! let observer = Observer::new(&graph, &choices, &[]);
//! let input = Input { class: 0, path: &[0b101], activations: &[0.0; 4], training: None };
//! let Ok(observation) = observer.observe(input, &Nobody);
//! // The path shares one of three neurons: it lies in the 67th of 200 buckets.
//! assert_eq!(observation.nearest, Some((0, 1.0 / 3.0)));
//! assert_eq!(observation.clusters[0].layers[0].1, Some(67));
//! ```
//!
//! The crate knows neither models nor files: `npcov` extracts relevances with an engine, keeps
//! activations on disk, and stores graphs. What a suite covers is counted by `npcov-criteria`.

mod abstraction;
pub mod bits;
mod block;
mod bucket;
mod centres;
pub mod choices;
mod clustering;
mod critical;
mod graph;
pub mod kmeans;
mod landmarks;
mod layout;
mod narrow;
pub mod neighbours;
mod observe;
pub mod profile;
pub mod random;
mod similarity;
mod training;

pub use bits::BitRows;
pub use bucket::{distance_bucket, similarity_bucket};
pub use centres::Centres;
pub use choices::{Choices, Preset};
pub use clustering::{Clustering, GraphClustering, number_of_clusters};
pub use critical::{PathRule, band, rounded_band};
pub use graph::{
    BlockBytes, ClassNode, ClassParameters, ClusterList, Clusters, GraphParts, InvalidGraph,
    LearnOptions, NO_CLUSTER, PathGraph, UNCLUSTERED, cluster_blocks, cluster_class,
    cluster_restarts, is_spread,
};
pub use kmeans::{KMeans, Restart};
pub use landmarks::{Landmarks, kept_apart};
pub use layout::PathLayout;
pub use narrow::Narrow;
pub use neighbours::{NearestRows, Neighbour, vote};
pub use observe::{AnpcLayer, ClusterView, Input, Observation, Observer};
pub use similarity::{Jaccard, more_similar, similarity};
pub use training::{PathSource, TrainingActivations, TrainingInputs, for_each_path, gather};
