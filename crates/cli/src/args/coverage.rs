//! The arguments of commands about paths and coverage.

use std::ffi::OsString;
use std::num::NonZero;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use npcov::paths::Preset;
use npcov::paths::choices::{
    AnpcClusters, AnpcCounted, Arithmetic, Average, Buckets, Disjoint, Edges, EmptyLayer, Members,
    Merge, Neighbour, Norm, Population, SeedChoice, Similarity, Threshold, Width,
};
use npcov::run::Part;
use serde::Deserialize;

use super::{
    CriteriaArgs, DataArgs, DetailArgs, LimitArgs, MeasuringArgs, MethodArgs, ModelArgs, PartsArgs,
    PrintArgs, RunArgs, SuiteRangeArgs, ThreadsArgs,
};
use crate::value::{ClusterCount, ClusteringMethod, Criteria, Upper};

/// Learn a decision graph from training data
///
/// Explains every training input, keeps the neurons that decided as its critical decision path,
/// gathers the paths of each class into clusters, and merges each cluster into an abstract path. The
/// graph is what suites are measured against; it knows its model and preprocessing.
///
/// Work that was interrupted goes on where it was when the same command is given again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov build model.onnx --data train.npz --divide 255 -o graph.npcov
  npcov build model.onnx --data train.npz --divide 255 \\
      --alpha 0.8 --clusters auto --beta 0.8 --anpc-upper auto -o graph.npcov
  npcov build model.onnx --data train.npz --divide 255 --shard 2/4 -o graph.npcov
  npcov build model.onnx --data train.npz --divide 255 --shard-classes 2/4 -o graph.npcov
  npcov build model.onnx --data train.npz --divide 255 --join -o graph.npcov")]
pub(crate) struct BuildArgs {
    /// The decision graph to write
    #[arg(long, short, value_name = "GRAPH")]
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) limit: LimitArgs,

    /// Inputs that the model was not trained with, to rank the scores of others among theirs; by default
    /// one in ten training inputs is set aside
    ///
    /// Data in any of the formats of `--data`, prepared the same way. A network knows what it was trained
    /// with, so ranks among other inputs are the better ones, if you can spare some.
    #[arg(long, value_name = "DATA")]
    pub(crate) calibration: Option<OsString>,

    #[command(flatten)]
    pub(crate) parts: PartsArgs,

    /// Cluster only this part of the classes, when all parts of `--shard` are there, for `--join`
    ///
    /// Several processes can do their parts at the same time, with the options of the join. Classes that
    /// none of them clustered, or clustered by other settings, are clustered by the join. Where there are
    /// more parts than classes, classes are divided too: into restarts of k-means, or blocks of 4096 inputs.
    #[arg(long, value_name = "I/N", conflicts_with_all = ["shard", "join"])]
    pub(crate) shard_classes: Option<Part>,

    #[command(flatten)]
    pub(crate) run: RunArgs,

    #[command(flatten)]
    pub(crate) paths: PathArgs,

    /// ANPC: the distance up to which there are buckets; by default 2
    ///
    /// One number, one for each layer of ANPC (`1,1,12`), or `auto`: for each layer the distance
    /// below which 99 % of the training inputs are (`auto:0.95` for another share).
    #[arg(long, value_name = "U", help_heading = "Measuring")]
    pub(crate) anpc_upper: Option<Upper>,

    /// ANPC: indices of the path layers that take part; by default all
    #[arg(
        long,
        value_name = "I,...",
        value_delimiter = ',',
        help_heading = "Measuring"
    )]
    pub(crate) anpc_layers: Option<Vec<usize>>,

    /// The criteria that suites can be measured by; by default the usual ones
    ///
    /// Names with options, such as `snpc,kmnc:sections=100,lsc:layer=-2`; `default` stands for the
    /// usual ones. What they learn from training data becomes part of the graph. `docs/criteria.md`
    /// explains them.
    #[arg(long, value_name = "LIST", help_heading = "Measuring")]
    pub(crate) criteria: Option<Criteria>,

    /// Training inputs that suites are held against by criteria that take long (ANPC, DSC, ...); by
    /// default 1,000
    ///
    /// A suite can be held against a random sample of as many training inputs if it has no more inputs
    /// than these.
    #[arg(long, value_name = "N", help_heading = "Measuring")]
    pub(crate) yardstick_inputs: Option<usize>,

    #[command(flatten)]
    pub(crate) path_choices: PathChoices,

    #[command(flatten)]
    pub(crate) measure_choices: MeasureChoices,

    #[command(flatten)]
    pub(crate) method: MethodArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// Measure which decision logic suites exercise
///
/// Prints what each suite reaches of what as many random training inputs reach, which classes and
/// clusters it has too few inputs of, and with `--all` what it is worth by every criterion that the
/// graph was built for. SNPC counts how many degrees of similarity between an input's path and the
/// abstract paths of its class were seen, ANPC how many distances of activations; `docs/criteria.md`
/// explains the others. The state keeps what was covered, to be merged with others.
///
/// Work that was interrupted goes on where it was when the same command is given again, if there is a
/// state to write.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov cover graph.npcov --data test.npz
  npcov cover graph.npcov --data test.npz -o state.npcov
  npcov cover graph.npcov --data unit.npz --data field.npz -o state.npcov --format json
  npcov cover graph.npcov --data test.npz --shard 2/4 -o state-2.npcov
  npcov cover graph.npcov --data test.npz -o state.npcov --inputs per-input.npz")]
pub(crate) struct CoverArgs {
    /// The decision graph
    #[arg(value_name = "GRAPH")]
    pub(crate) graph: PathBuf,

    /// A suite: npz, npy, IDX, CIFAR binary, or a folder of images; may be repeated
    #[arg(long, value_name = "SUITE", required = true)]
    pub(crate) data: Vec<OsString>,

    /// The name of a suite, in the order of `--data`; by default that of its file
    ///
    /// Suites of one name are one suite.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Vec<String>,

    /// The coverage state to write; by default none
    #[arg(long, short, value_name = "STATE")]
    pub(crate) output: Option<PathBuf>,

    /// Add to the state instead of writing over it
    #[arg(long, requires = "output")]
    pub(crate) append: bool,

    /// Write what was found for every input to this npz file
    ///
    /// Arrays: `name` (that of the sample, or its row), `suite`, `prediction`, `label` (-1 for none),
    /// `cluster` (the one of the predicted class that the input belongs to), the scores `unfamiliar`
    /// (how far the decision is from those of its class in training) and `contested` (how much it
    /// looks like one of another class) with their ranks `unfamiliar.p` and `contested.p` (the share
    /// of usual inputs with at least such a score), and the scores of criteria that give inputs
    /// scores: `lsa`, `dsa`, `deepgini`, ...
    #[arg(long, value_name = "OUT.npz")]
    pub(crate) inputs: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) range: SuiteRangeArgs,

    #[command(flatten)]
    pub(crate) detail: DetailArgs,

    #[command(flatten)]
    pub(crate) criteria: CriteriaArgs,

    #[command(flatten)]
    pub(crate) measuring: MeasuringArgs,
}

/// Unite coverage states of one decision graph
///
/// Suites of the same name become one, as if all their inputs had been measured together. Inputs
/// that were measured twice, and states of other graphs or choices, are refused.
///
/// What suites have killed of the same mutants (`npcov mutate --output`) is united as well.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov merge state-1.npcov state-2.npcov -o state.npcov
  npcov merge unit.npcov field.npcov --name all -o all.npcov
  npcov merge killed-1.json killed-2.json -o killed.json")]
pub(crate) struct MergeArgs {
    /// The coverage states
    #[arg(value_name = "STATE", required = true)]
    pub(crate) states: Vec<PathBuf>,

    /// The coverage state to write
    #[arg(long, short, value_name = "STATE")]
    pub(crate) output: PathBuf,

    /// Make one suite of all, with this name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

/// Write paths and activations as Parquet files, for other programs
///
/// The training inputs of a decision graph become rows of a table, in files that pandas, Polars, Spark and
/// DuckDB read: number, predicted class, label, cluster, critical decision path and activations of each.
/// `_manifest.json` is written last, and lists the files.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov export graph.npcov -o paths
  npcov export graph.npcov -o paths --activations f16 --rows 10000")]
pub(crate) struct ExportArgs {
    /// The decision graph
    #[arg(value_name = "GRAPH")]
    pub(crate) graph: PathBuf,

    /// The folder to write files to
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: PathBuf,

    /// How to write activations
    #[arg(long, value_enum, default_value_t = ExportedActivations::F32)]
    pub(crate) activations: ExportedActivations,

    /// Training inputs in each file
    #[arg(long, value_name = "N", default_value = "10000")]
    pub(crate) rows: NonZero<usize>,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

/// How activations are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportedActivations {
    /// As they are
    F32,
    /// Rounded to half the size
    F16,
    /// Not at all
    None,
}

/// Find good parameters by masking
///
/// Switches off the critical neurons of training inputs, or all others, and counts how many
/// predictions change: Inc.C should be high, Inc.NC low, and paths narrow. First for each alpha,
/// then, with the best, for each number of clusters and beta. Beside it stand as many of the most
/// activated neurons, and as many random ones: a path means something where it does better. The
/// number of clusters is chosen by how the paths fall into groups, which masking cannot tell.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov tune model.onnx --data train.npz --divide 255
  npcov tune model.onnx --data train.npz --divide 255 --all --choices tables
  npcov tune model.onnx --data train.npz --divide 255 --write npcov.toml
  npcov tune model.onnx --data train.npz --divide 255 --write npcov.toml --shard 2/4
  npcov tune model.onnx --data train.npz --divide 255 --write npcov.toml --join",
    mut_arg("shard", |shard| shard.requires("write").long_help(TUNE_SHARD_HELP)),
    mut_arg("join", |join| join.requires("write")))]
pub(crate) struct TuneArgs {
    /// Shares of relevance to try
    #[arg(long, value_name = "A,...", value_delimiter = ',', default_values_t = [0.7, 0.8, 0.9, 1.0])]
    pub(crate) alphas: Vec<f64>,

    /// Numbers of clusters to try
    #[arg(long, value_name = "K,...", value_delimiter = ',', default_values_t = [1, 4, 7, 10])]
    pub(crate) clusters: Vec<usize>,

    /// Shares of members to try
    #[arg(long, value_name = "B,...", value_delimiter = ',', default_values_t = [0.6, 0.7, 0.8, 0.9])]
    pub(crate) betas: Vec<f64>,

    /// Use a random sample of so many inputs
    #[arg(long, value_name = "N", default_value_t = 2000, conflicts_with = "all")]
    pub(crate) sample: usize,

    /// Use all inputs
    #[arg(long)]
    pub(crate) all: bool,

    /// Write the recommended parameters into this file, usually `npcov.toml`
    ///
    /// What else the file holds stays as it is.
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) parts: PartsArgs,

    /// Seed of the sample, the random control and the clustering
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) run: RunArgs,

    #[command(flatten)]
    pub(crate) path_choices: PathChoices,

    #[command(flatten)]
    pub(crate) study_choices: StudyChoices,

    #[command(flatten)]
    pub(crate) method: MethodArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

const TUNE_SHARD_HELP: &str = "\
Do only this part of the work, and keep it beside the file that `--write` names: `1/4` is the first quarter

Several processes can do their parts at the same time. There are two steps: do all parts, and then all of \
them once more; the second time, what all of the first found is used. `docs/scale.md` has an example.";

/// Write a commented `npcov.toml` to start from
///
/// Looks at the model and the data, and writes down what was found: shapes, path layers, how pixels
/// are scaled.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov init model.onnx --data train.npz --divide 255")]
pub(crate) struct InitArgs {
    /// The file to write
    #[arg(long, short, value_name = "FILE", default_value = "npcov.toml")]
    pub(crate) output: PathBuf,

    /// Write over a file that is there
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// Show what npcov does, on a model and images of its own
///
/// A network that was taught three groups of clothing, and a suite that looks complete: npcov learns a
/// decision graph from 3,000 images of Fashion-MNIST, says what the suite is missing, and fills it from
/// a pool. Takes a few seconds, needs no files, and writes into a folder only if asked to.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Keep the model, the data and all results in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) threads: ThreadsArgs,
}

/// The parameters of a decision graph.
#[derive(Debug, Args)]
#[command(next_help_heading = "Paths")]
pub(crate) struct PathArgs {
    /// The share of relevance that critical neurons have together; by default 0.8
    #[arg(long, value_name = "A")]
    pub(crate) alpha: Option<f64>,

    /// How the training inputs of a class become clusters: `kmeans` or `graph`
    ///
    /// `graph` joins inputs that are decided alike, by their relevance, and finds how many clusters
    /// there are (`graph:resolution=0.5` finds more of them). `kmeans` is the paper's way: so many
    /// clusters of paths as `--clusters` says. By default `graph`, and `kmeans` where `--clusters` or
    /// `--choices` is given.
    #[arg(long, value_name = "METHOD")]
    pub(crate) clustering: Option<ClusteringMethod>,

    /// K-means: how many clusters each class has; by default 4
    ///
    /// `auto` chooses 1 to 10 for each class: as many as groups of paths that are more like one
    /// another than like others; `auto:20` up to 20.
    #[arg(long, value_name = "K|auto")]
    pub(crate) clusters: Option<ClusterCount>,

    /// The share of a cluster above which a neuron is part of its abstract path; by default 0.8
    #[arg(long, value_name = "B")]
    pub(crate) beta: Option<f64>,

    /// Restarts of the clustering, of which the best counts; by default 10
    #[arg(long, value_name = "N")]
    pub(crate) restarts: Option<usize>,

    /// Seed of the clustering; by default 0
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

/// Choices about paths and decision graphs; `docs/choices.md` explains them.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Choices")]
pub(crate) struct PathChoices {
    /// All choices at once: `paper` (the default), `reference` or `tables`
    ///
    /// `paper` follows the definitions, `reference` the authors' code, `tables` what the paper's
    /// tables were made with. Flags for single choices change the preset; `docs/choices.md` explains
    /// them all.
    #[arg(long, value_name = "PRESET")]
    pub(crate) choices: Option<Preset>,

    /// What alpha is a share of: `logit` or `positive-mass`
    #[arg(long, value_name = "CHOICE")]
    pub(crate) threshold: Option<Threshold>,

    /// A layer without critical neurons: `keep` or `top-neuron`
    #[arg(long, value_name = "CHOICE")]
    pub(crate) empty_layer: Option<EmptyLayer>,

    /// What is shared out: `logit-or-one`, `logit` or `log-probability`
    #[arg(long, value_name = "CHOICE")]
    pub(crate) relevance_seed: Option<SeedChoice>,

    /// Training inputs that count: `predicted` (all) or `correct`
    #[arg(long, value_name = "CHOICE")]
    pub(crate) members: Option<Members>,

    /// When a neuron is abstract: `strict` or `rounded`
    #[arg(long, value_name = "CHOICE")]
    pub(crate) merge: Option<Merge>,
}

/// Choices about how suites are measured; `docs/choices.md` explains them.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Measuring")]
pub(crate) struct MeasureChoices {
    /// How similar paths are: `layer-mean` or `whole-path`
    #[arg(long, value_name = "CHOICE")]
    pub(crate) similarity: Option<Similarity>,

    /// SNPC: number of buckets; by default 200
    #[arg(long, value_name = "M")]
    pub(crate) snpc_buckets: Option<Buckets<200>>,

    /// SNPC, paths without a common neuron: `no-bucket` or `bucket-zero`
    #[arg(long, value_name = "CHOICE")]
    pub(crate) snpc_disjoint: Option<Disjoint>,

    /// SNPC, how buckets are computed: `exact` or `float`
    #[arg(long, value_name = "CHOICE")]
    pub(crate) snpc_arithmetic: Option<Arithmetic>,

    /// ANPC: number of buckets; by default 200
    #[arg(long, value_name = "M")]
    pub(crate) anpc_buckets: Option<Buckets<200>>,

    /// ANPC, clusters of the class: `all` or `nearest`
    #[arg(long, value_name = "CHOICE")]
    pub(crate) anpc_clusters: Option<AnpcClusters>,

    /// ANPC, whose activations are compared: those of the nearest `path` or `activation`
    #[arg(long, value_name = "CHOICE")]
    pub(crate) anpc_neighbour: Option<Neighbour>,

    /// ANPC, the distance: `l2` or `rms`
    #[arg(long, value_name = "CHOICE")]
    pub(crate) anpc_norm: Option<Norm>,

    /// ANPC, layers that count: `all-layers` or `last-layer`
    #[arg(long, value_name = "CHOICE")]
    pub(crate) anpc_counted: Option<AnpcCounted>,

    /// ANPC, ends of buckets: `upper-closed` or `overflow`
    #[arg(long, value_name = "CHOICE")]
    pub(crate) anpc_edges: Option<Edges>,
}

/// Choices about masking; `docs/choices.md` explains them.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Choices")]
pub(crate) struct StudyChoices {
    /// Inputs that count: `all` or `correct`
    #[arg(long, value_name = "CHOICE")]
    pub(crate) population: Option<Population>,

    /// How widths are averaged: `exact` or `rounded`
    #[arg(long, value_name = "CHOICE")]
    pub(crate) width: Option<Width>,

    /// How clusters are averaged: over `inputs` or `clusters`
    #[arg(long, value_name = "CHOICE")]
    pub(crate) average: Option<Average>,
}
