//! Coverage for neural networks: the library behind the command `npcov`.
//!
//! This is where a model and data meet. A [`Network`] is a classifier that is ready to be asked: its
//! logits and path layers are found. A [`Tracer`] runs it over a dataset, on any number of threads,
//! and hands on logits and activations in the order of the data. The verbs [`inspect`],
//! [`predict`], [`Explainer`] and [`compile`] are what the commands of those names do.
//!
//! ```
//! use npcov::data::{self, Loader, Preprocessing};
//! use npcov::{Error, Network, NetworkOptions, predict};
//!
//! # let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
//! # let (model, data) = (format!("{fixtures}/resnet8.onnx"), format!("{fixtures}/fashion-1000.npz"));
//! let network = Network::open(model, &NetworkOptions::default())?;
//! let scale = Preprocessing { divide: Some(255.0), ..Preprocessing::default() };
//! let loader = Loader::new(data::open(&data)?, network.sample_shape(), &scale)?;
//!
//! // Each batch carries the logits and one activation for every neuron of every path layer.
//! let tracer = network.tracer(&[])?;
//! let mut strongest = 0.0_f32;
//! let result = predict(&tracer, &loader, 0..100, 2, |batch, _classes| {
//!     strongest = batch.outputs[1].iter().copied().fold(strongest, f32::max);
//!     Ok::<(), Error>(())
//! })?;
//! assert_eq!(result.inputs, 100);
//! assert!(strongest > 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The parts are crates of their own, re-exported here: [`graph`] reads models, [`program`] makes
//! programs from them, [`engine`] runs those, [`data`] reads datasets. The command line
//! (`npcov-cli`) and what is shown to people (`npcov-report`) stand on top.

mod artefact;
mod attack;
mod build;
mod check;
mod compile;
mod cover;
mod coverage_report;
mod difference;
mod error;
mod explain;
mod fitting;
mod graph_inspection;
mod heatmap;
mod inspect;
mod masked;
mod masking;
mod measures;
mod method;
mod network;
mod paths;
mod placement;
mod predict;
mod probe;
mod ruler;
mod select;
mod shards;
mod sheet;
mod signature;
mod trace_file;
mod tracer;
mod tune;
mod watching;

pub use artefact::{
    ClassRecord, CoverageState, CriterionRecord, DataRecord, ExtractionRecord, GraphFile,
    GraphRecord, InputRecord, Kind, LayerRecord, ModelRecord, NO_LABEL, SelectorRecord,
    StateRecord, Suite, SuiteRecord,
};
pub use attack::{
    Adversaries, AttackFile, AttackMethod, AttackReport, AttackSettings, CarliniWagner, Diversity,
    DiversityReport, MeanDistance, Norm, Pgd, attack,
};
pub use build::{
    AUTO_QUANTILE, AnpcBound, AnpcRecord, AnpcUpper, BuildSettings, PAPER_UPPER, PerClass, Source,
    build,
};
pub use check::{
    Allowance, Bound, Check, ClassName, Finding, Floor, Rule, RuleError, Rules, ThinClass,
};
pub use compile::{Compilation, ProgramKind, compile};
pub use cover::{Gauge, SuiteSource, cover, merge};
pub use coverage_report::{
    ClassCoverage, ClusterCoverage, Contribution, CoverageReport, LayerCoverage, SuiteReport,
    Values, Yardsticks,
};
pub use difference::{
    Change, ClassDifference, ComparedReport, Counts, Difference, SuiteDifference, Things,
};
pub use error::Error;
pub use explain::{
    ClassLogit, ExplainSettings, Explained, Explainer, Explanation, Explanations, LayerRelevance,
    LayerSummary, NeuronCount, NeuronRelevance, Spread,
};
pub use graph_inspection::{AbstractLayer, ClassInspection, ClusterInspection, GraphInspection};
pub use heatmap::Heatmap;
pub use inspect::{
    Batching, EndingKind, Extent, Inspection, LayerInfo, Port, Unsupported, inspect,
};
pub use masked::MaskedNetwork;
pub use masking::{
    ClusteredPaths, Cut, GridPoint, Inconsistency, MaskingSettings, MaskingStudy, Neurons,
    StrangerPoint,
};
pub use measures::default_criteria;
pub use method::{Method, MethodInfo, RuleAt, RuleChoice};
pub use network::{Network, NetworkOptions, read_model};
pub use paths::{Extras, PathBatch, PathExtractor};
pub use placement::{ClusterPlacement, Exemplar, OtherPlacement, PathExplanation, Placement};
pub use predict::{ClassResult, Predictions, predict};
pub use ruler::Ruler;
pub use select::{
    Apfd, Chosen, Minimization, MinimizedCriterion, RANKED_ANYWAY, SelectSettings, Selection,
    SelectionCoverage, Strategy, apfd, minimize, select,
};
pub use shards::Event;
pub use sheet::Sheet;
pub use signature::Signature;
pub use trace_file::TraceFile;
pub use tracer::{Batch, Tracer};
pub use tune::{
    AlphaPoint, Basis, Control, PathParameters, Recommendation, TuneSettings, Tuning, tune,
};

pub use npcov_criteria as criteria;
pub use npcov_data as data;
pub use npcov_engine as engine;
pub use npcov_graph as graph;
pub use npcov_paths as decision;
pub use npcov_program as program;
