//! A network with its path layers, run over samples.
//!
//! A [`Network`] is a classifier that is ready to be asked: its logits and path layers are found. A
//! [`Tracer`] is a program made from it, ready to run over a dataset on any number of threads; results
//! come in the order of the data. [`Explainer`], [`PathExtractor`] and [`MaskedNetwork`] are tracers
//! whose results mean something. Long work goes [shard by shard](extract_shards), tells its
//! [`Progress`] and stops when that says so.
//!
//! ```
//! use npcov_data::{Loader, Preprocessing, open};
//! use npcov_run::{Network, ModelOptions, RunError, predict};
//!
//! # let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
//! # let (model, data) = (format!("{fixtures}/resnet8.onnx"), format!("{fixtures}/fashion-1000.npz"));
//! let network = Network::open(model, &ModelOptions::default())?;
//! let scale = Preprocessing { divide: Some(255.0), ..Preprocessing::default() };
//! let loader = Loader::new(open(&data)?, network.sample_shape(), &scale)?;
//!
//! // Each batch carries the logits and one activation for every neuron of every path layer.
//! let tracer = network.tracer(&[])?;
//! let mut strongest = 0.0_f32;
//! let result = predict(&tracer, &loader, 0..100, 2, |batch, _classes| {
//!     strongest = batch.outputs[1].iter().copied().fold(strongest, f32::max);
//!     Ok::<(), RunError>(())
//! })?;
//! assert_eq!(result.inputs, 100);
//! assert!(strongest > 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Relation to the other crates
//!
//! `npcov-program` makes the programs, `npcov-engine` runs them, `npcov-data` reads samples. Nothing
//! here writes artefacts or knows what coverage is: `npcov-artefact`, `npcov-coverage`,
//! `npcov-masking` and `npcov-attack` stand on top.

mod error;
mod explainer;
mod extraction;
mod learn;
mod masked;
mod memory;
mod method;
mod network;
mod parallel;
mod paths;
mod predict;
mod progress;
mod shards;
mod signature;
mod task;
mod tracer;

pub use error::RunError;
pub use explainer::{ExplainOptions, Explainer, Row};
pub use extraction::{Extraction, bad_rows};
pub use learn::resolve;
pub use masked::{MaskedNetwork, read_rows};
pub use method::{Method, MethodInfo, RuleAt, RuleChoice};
pub use network::{ModelOptions, Network};
pub use parallel::in_parallel;
pub use paths::{Extras, PathExtractor, PathRows};
pub use predict::{ClassResult, NumberErrors, Predictions, labels, predict};
pub use progress::{Event, Progress};
pub use shards::{Found, Part, SHARD, SampleRange, Sink, Watcher, extract_shards, shards};
pub use signature::Signature;
pub use task::{
    BinChoice, Direction, Numbers, Observed, OutputChoice, Reference, RegressionOptions, Task,
    Tolerance, bin, quantile_edges,
};
pub use tracer::{Feed, ShownTap, TracedRows, Tracer, Watch};
