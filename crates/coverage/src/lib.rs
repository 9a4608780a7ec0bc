//! Decision graphs learnt from training data, and what suites cover of them.
//!
//! [`build`] learns a [`LearntGraph`] from a network and its training data. A [`Measurement`] is such
//! a graph with criteria; [`cover`] measures suites by it. [`Coverage`] says what they cover: in
//! numbers ([`Report`]), beside an earlier coverage ([`Difference`]), and whether that is enough
//! ([`Gate`]).
//!
//! ```
//! use std::sync::Arc;
//!
//! use npcov_coverage::{BuildOptions, CoverOptions, build};
//! use npcov_data::{Loader, Preprocessing, open};
//! use npcov_run::{ModelOptions, Network, SampleRange};
//!
//! # let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
//! # let (model, data) = (format!("{fixtures}/mlp-matlab.onnx"), format!("{fixtures}/fashion-1000.npz"));
//! let network = Arc::new(Network::open(model, &ModelOptions::default())?);
//! let scale = Preprocessing { divide: Some(255.0), ..Preprocessing::default() };
//! let data = Loader::new(open(&data)?, network.sample_shape(), &scale)?;
//!
//! let train = SampleRange { data: &data, range: 0..100, threads: 2 };
//! let graph = build(&network, &train, &BuildOptions::default(), None, &mut ())?;
//! let measurement = graph.measurement(&CoverOptions::default())?;
//! let test = SampleRange { range: 100..200, ..train };
//! let coverage = measurement.cover("test", &test, &mut ())?;
//! assert_eq!(coverage.report()?.suites[0].inputs, 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Relation to the other crates
//!
//! `npcov-run` runs the network, `npcov-paths` and `npcov-criteria` do the arithmetic,
//! `npcov-artefact` keeps the results. `npcov-select` stands on top; `npcov` is how all of it is used.

mod binomial;
mod build;
mod calibration;
mod class_shares;
mod classes;
mod clustering;
mod counted;
mod cover;
mod coverage;
mod difference;
mod doubts;
mod error;
mod fitting;
mod gaps;
mod gate;
mod graph;
mod graph_inspection;
mod headline;
mod measurement;
mod missing;
mod nearest;
mod parts;
mod placement;
mod portions;
mod report;
mod scores;
mod spread;
mod thin;
mod training;
mod watching;

pub use build::{AUTO_QUANTILE, AnpcUpper, BuildOptions, Learning, PAPER_UPPER, PerClass, build};
pub use class_shares::ClassShares;
pub use cover::{CoverTarget, SuiteSource, cover};
pub use coverage::Coverage;
pub use difference::{
    Change, ClassDifference, ComparedReport, Counts, Difference, Relative, SuiteDifference, Things,
};
pub use error::CoverageError;
pub use gaps::{ClusterWanted, Gap, GapOptions, GapPool, Gaps, PresentInput, TypicalInput};
pub use gate::{
    Allowance, Bound, Check, Condition, ConditionError, Finding, Floor, Gate, Losses, ThinRule,
    YardstickSource,
};
pub use graph::LearntGraph;
pub use graph_inspection::{AbstractLayer, ClassInspection, ClusterInspection, GraphInspection};
pub use headline::Baselines;
pub use measurement::{CoverOptions, Measurement};
pub use missing::{ClassName, CountedBy, Judged, Thin};
pub use parts::{
    BuiltPart, ClusteredPart, MissingParts, build_part, cluster_part, join_parts, missing_parts,
};
pub use placement::{ClusterPlacement, Exemplar, OtherPlacement, PathExplanation, Placement, Rank};
pub use report::{
    ClassCoverage, ClusterCoverage, Contribution, LabelledClass, LayerCoverage, Report,
    SuiteReport, UNUSUAL, Unusual, Values,
};
pub use scores::Scores;
pub use spread::{Ask, answer_block, cluster_spread};
