//! Coverage for neural networks: which decision logic does a test suite exercise, and which does it
//! miss?
//!
//! A [`Model`] learns a [`DecisionGraph`] from training data. The graph measures suites; their
//! [`Coverage`] is a [`Report`] for people and programs, and passes or fails a [`Gate`]. Data is anything
//! that implements [`Samples`](data::Samples): arrays in memory, files, folders of images, or your own.
//!
//! # Build, cover, report
//!
//! ```
//! use npcov::{BuildOptions, Inputs, Model};
//! use npcov::data::{Preprocessing, open};
//!
//! # let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
//! # let (file, images) = (format!("{fixtures}/lenet.onnx"), format!("{fixtures}/fashion-1000.npz"));
//! let scale = Preprocessing { divide: Some(255.0), ..Preprocessing::default() };
//! let model = Model::open(file)?.with_preprocessing(scale);
//! let data = open(&images)?;
//!
//! let train = Inputs::from(&data).rows(0..300);
//! let graph = model.build(train, &BuildOptions::default(), &mut ())?;
//!
//! let suite = Inputs::from(&data).rows(300..400);
//! let coverage = graph.cover("test", suite, &mut ())?;
//!
//! let report = coverage.report()?;
//! let snpc = report.suites[0].criteria.get("snpc").unwrap();
//! assert!(snpc.value() > 0.0 && snpc.value() < 1.0);
//! for gap in report.gaps() {
//!     println!("cluster {}: {} inputs, {:.0} expected", gap.cluster, gap.inputs, gap.expected);
//! }
//! # Ok::<(), npcov::Error>(())
//! ```
//!
//! `build_file`, `cover_file` and so on do the same with files: what is finished is kept beside them, and
//! a run that was cut off goes on where it was.
//!
//! # Explain, select
//!
//! ```
//! # use npcov::{BuildOptions, Inputs, Model};
//! # use npcov::data::{Preprocessing, open};
//! # let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
//! # let (file, images) = (format!("{fixtures}/lenet.onnx"), format!("{fixtures}/fashion-1000.npz"));
//! # let scale = Preprocessing { divide: Some(255.0), ..Preprocessing::default() };
//! # let model = Model::open(file)?.with_preprocessing(scale);
//! # let data = open(&images)?;
//! # let train = Inputs::from(&data).rows(0..300);
//! # let graph = model.build(train, &BuildOptions::default(), &mut ())?;
//! use npcov::SelectOptions;
//! use npcov::select::Strategy;
//!
//! // Which neurons decided, and where the input is in the decision graph.
//! let explanation = graph.explain(&data, 301, 3)?;
//! let path = explanation.path.unwrap();
//! assert!(path.width < 0.5 && path.placement.is_some());
//!
//! // Ten inputs that cover as much as possible.
//! let by: Strategy = "additional:snpc".parse().unwrap();
//! let options = SelectOptions { count: Some(10), ..SelectOptions::from(by) };
//! let pool = Inputs::from(&data).rows(300..400);
//! let selection = graph.select(pool, &options, &mut ())?;
//! assert_eq!(selection.chosen.len(), 10);
//! # Ok::<(), npcov::Error>(())
//! ```
//!
//! # Tune, attack, mutate
//!
//! ```
//! # use npcov::{Inputs, Model};
//! # use npcov::data::{Preprocessing, open};
//! # let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
//! # let (file, images) = (format!("{fixtures}/lenet.onnx"), format!("{fixtures}/fashion-1000.npz"));
//! # let scale = Preprocessing { divide: Some(255.0), ..Preprocessing::default() };
//! # let model = Model::open(file)?.with_preprocessing(scale);
//! # let data = open(&images)?;
//! use npcov::attack::{AttackMethod, Pgd};
//! use npcov::{AttackOptions, MutationOptions, TuneOptions};
//!
//! // Parameters of paths, chosen by what switching neurons off does to predictions.
//! let few = TuneOptions { sample: Some(100), clusters: vec![1, 2], ..TuneOptions::default() };
//! let tuning = model.tune(&data, &few, &mut ())?;
//! assert!(tuning.chosen.alpha <= 1.0);
//!
//! let options = AttackOptions::from(AttackMethod::Pgd(Pgd::fast(0.1)));
//! let (report, found) = model.attack(Inputs::from(&data).rows(0..20), &options, &mut ())?;
//! assert!(report.correct_after < report.correct_before);
//! assert_eq!(found.predictions.len(), 20);
//!
//! // Models with something wrong in them: how many does a suite tell from this one?
//! let options = MutationOptions { mutants: 1, ..MutationOptions::default() };
//! let killed = model.mutate(Inputs::from(&data).rows(0..100), &options, &mut ())?;
//! assert_eq!(killed.report().mutants, 5);
//! # Ok::<(), npcov::Error>(())
//! ```
//!
//! # Progress, and stopping
//!
//! Verbs that take long have a [`Progress`]: `&mut ()` for none, or a closure that gets every
//! [`Event`] and may say stop. `examples/embed.rs` is a whole program.
//!
//! # Parts
//!
//! What is behind these nouns are crates of their own, re-exported as modules, from the model's file to
//! the verdict: [`graph`], [`program`], [`engine`], [`onnxruntime`], [`data`], [`run`], [`paths`], [`criteria`],
//! [`artefact`], [`coverage`], and the products [`masking`], [`attack`], [`mutate`], [`select`]. The command line
//! (`npcov-cli`) and what is shown to people (`npcov-report`) stand on top.

mod compile;
mod decision_graph;
mod doubts;
mod error;
mod explain;
mod inputs;
mod inspect;
mod model;
mod trace_arrays;
mod trace_file;

pub use compile::{Compilation, ProgramKind};
pub use decision_graph::{DecisionGraph, Suite};
pub use error::Error;
pub use explain::{
    ClassLogit, ColumnRelevance, Explained, ExplainedNumber, Explanation, Explanations,
    InputRelevance, LayerRelevance, LayerSummary, LostRelevance, LostSummary, NeuronCount,
    NeuronRelevance, Spread, TokenRelevance, explain_all, explain_one,
};
pub use inputs::{Inputs, TrainingInputs};
pub use inspect::{
    Batching, EndingKind, Extent, Inspection, LayerInfo, Port, Unsupported, inspect, inspect_bytes,
};
pub use model::Model;
pub use trace_arrays::{TraceArray, TraceArrays};
pub use trace_file::TraceFile;

pub use npcov_attack::AttackOptions;
pub use npcov_coverage::{
    BuildOptions, BuiltPart, CoverOptions, Coverage, GapOptions, Gaps, Gate, Report,
};
pub use npcov_masking::TuneOptions;
pub use npcov_mutate::MutationOptions;
pub use npcov_run::{Event, ExplainOptions, ModelOptions, Progress};
pub use npcov_select::{MinimizeOptions, SelectOptions};

pub use npcov_artefact as artefact;
pub use npcov_attack as attack;
pub use npcov_coverage as coverage;
pub use npcov_criteria as criteria;
pub use npcov_data as data;
pub use npcov_engine as engine;
pub use npcov_graph as graph;
pub use npcov_masking as masking;
pub use npcov_mutate as mutate;
pub use npcov_onnxruntime as onnxruntime;
pub use npcov_paths as paths;
pub use npcov_program as program;
pub use npcov_run as run;
pub use npcov_select as select;
