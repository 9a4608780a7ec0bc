//! The arguments of `npcov mutate`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use npcov::mutate::Operator;

use super::{DataArgs, ModelArgs, RunArgs, SuiteRangeArgs};

/// Make models with something wrong in them, and count which a suite notices
///
/// Changes the model in small ways that nobody asked for (mutants), and runs the suite on each of
/// them. An input kills a class of a mutant when the model classifies it as labelled, as that class,
/// and the mutant does not. The mutation score is the share of classes of all mutants that are killed.
///
/// Mutants that lose too much of the accuracy do not count: every suite notices them. `--judge`
/// decides that by other data, the same for all suites that are to be compared.
///
/// `--output` keeps what was killed; `npcov merge` unites what several suites kill. The results are
/// the same for any number of threads.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Operators:
  gf    weights fuzzed: normally distributed numbers are added to a share of all weights
  ws    incoming weights of a share of all neurons shuffled
  neb   a share of all neurons silent
  nai   incoming weights of a share of all neurons negated
  ns    a share of all neurons exchanged with others of their layer
  afrm  the activation function of one layer removed
  ld    one layer left out, where its output has the shape of its input

Examples:
  npcov mutate model.onnx --data test.npz --divide 255
  npcov mutate model.onnx --data test.npz --divide 255 --ratio 0.01,0.05 --mutants 20 -o killed.json
  npcov mutate model.onnx --data test.npz --divide 255 --operators afrm,ld --mutants-to mutants/
  npcov mutate model.onnx --data test.npz --divide 255 --operators neb --graph graph.npcov --paths inside
  npcov merge killed-1.json killed-2.json -o killed.json")]
pub(crate) struct MutateArgs {
    /// What is wrong with mutants
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "gf,ws,neb,nai,ns"
    )]
    pub(crate) operators: Vec<Operator>,

    /// Shares of all weights or neurons that are changed, at least one
    #[arg(
        long,
        value_name = "R,...",
        value_delimiter = ',',
        default_value = "0.01"
    )]
    pub(crate) ratio: Vec<f64>,

    /// How many mutants to make of each operator and ratio
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) mutants: usize,

    /// The standard deviation of what `gf` adds to weights
    #[arg(long, value_name = "SD", default_value_t = 0.1)]
    pub(crate) sd: f64,

    /// The share of the model's accuracy below which a mutant does not count
    #[arg(long, value_name = "SHARE", default_value_t = 0.9)]
    pub(crate) quality: f64,

    /// Data whose accuracy says which mutants count; by default the suite itself
    #[arg(long, value_name = "FILE")]
    pub(crate) judge: Option<OsString>,

    /// A decision graph of the model, for `--paths`
    #[arg(long, value_name = "GRAPH", requires = "paths")]
    pub(crate) graph: Option<PathBuf>,

    /// Change only neurons that are on an abstract path of `--graph`, or only those that are on none
    ///
    /// For `ws`, `neb`, `nai` and `ns`. As many are changed as without: a share of all neurons.
    #[arg(long, value_enum, value_name = "WHERE", requires = "graph")]
    pub(crate) paths: Option<Whereabouts>,

    #[command(flatten)]
    pub(crate) range: SuiteRangeArgs,

    /// Seed of every random draw
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Write what was killed to this file
    #[arg(long, short, value_name = "KILLED.json")]
    pub(crate) output: Option<PathBuf>,

    /// Write what the model and all mutants take each input for to this npz file
    ///
    /// Arrays: `truth` (inputs: labels, or what the model says), `prediction` (inputs) and `mutants`
    /// (mutants x inputs; -1 where a mutant gives no numbers). In Python:
    /// `numpy.load("predictions.npz")["mutants"]`.
    #[arg(long, value_name = "OUT.npz")]
    pub(crate) predictions: Option<PathBuf>,

    /// Write the mutants as ONNX files into this folder, which must exist
    ///
    /// Files are named after the operator, the ratio and the number: `neb-0.01-3.onnx`. A mutant takes
    /// one input at a time.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) mutants_to: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) run: RunArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// Where neurons are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Whereabouts {
    /// On the abstract path of a cluster
    Inside,
    /// On no abstract path
    Outside,
}
