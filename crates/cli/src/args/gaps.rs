//! The arguments of `gaps`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::selection::at_least_one;
use super::{
    ClassNamesArgs, ClassSharesArgs, GraphModelArgs, LimitArgs, PreprocessingArgs, RunArgs,
};

/// Say what a suite is missing, and which inputs to add
///
/// Lists the classes and clusters of which a suite has far fewer inputs than training would let
/// expect: training inputs that are typical of them, what the suite has of them and, from a pool, what
/// to add. Typical are inputs whose critical decision paths are nearest to the centre of the cluster.
///
/// An input of the pool belongs to a gap when the graph puts it there, as `cover` does with the
/// suite's: its label is not asked for. The most typical come first, as many as make the class or
/// cluster as frequent in the suite as it is in training. What the suite has already is passed over.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov gaps graph.npcov state.npcov
  npcov gaps graph.npcov state.npcov --pool pool.npz -o add.npz
  npcov gaps graph.npcov state.npcov --pool photos/ -o add/
  npcov gaps graph.npcov state.npcov --pool pool.npz --picture gaps.png --data test.npz",
    mut_arg("limit", |limit| limit
        .requires("pool")
        .help("Use only the first N inputs of the pool")))]
pub(crate) struct GapsArgs {
    /// The decision graph
    #[arg(value_name = "GRAPH")]
    pub(crate) graph: PathBuf,

    /// The coverage state that `cover` wrote of the suite
    #[arg(value_name = "STATE")]
    pub(crate) state: PathBuf,

    /// Only this suite of the state; can be given several times
    ///
    /// Several suites are looked at as if they were one. By default all suites of the state.
    #[arg(long, value_name = "NAME")]
    pub(crate) suite: Vec<String>,

    /// Look for inputs to add here: npz, npy, IDX, CIFAR binary, or a folder of images
    #[arg(long, value_name = "DATA")]
    pub(crate) pool: Option<OsString>,

    /// Write the inputs to add: an npz file, or a folder
    ///
    /// An npz file has the arrays that `select` writes; `score` is the distance from the centre of the
    /// cluster. For a pool that is a folder of images, and a name that does not end with `.npz`, links
    /// to the images are written, in one folder a class as in the pool. The file or folder can be the
    /// `--data` of other commands.
    #[arg(long, short, value_name = "FILE", requires = "pool")]
    pub(crate) output: Option<PathBuf>,

    /// Add at most N inputs to a gap; by default as many as fill it
    #[arg(long, value_name = "N", value_parser = at_least_one, requires = "pool")]
    pub(crate) count: Option<usize>,

    /// How many typical inputs of training, and inputs of the suite, to name
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) exemplars: usize,

    #[command(flatten)]
    pub(crate) limit: LimitArgs,

    /// Draw the gaps: a PNG file
    ///
    /// For each gap a row of images that are typical in training, one of images of the suite, one of
    /// images of the pool. Training data is looked for where it was; `--data` says where it is now,
    /// and where the suite is.
    #[arg(long, value_name = "FILE.png")]
    pub(crate) picture: Option<PathBuf>,

    /// Training data or a suite, for their images in the picture; can be given several times
    ///
    /// Which it is, its content tells.
    #[arg(long, value_name = "DATA", requires = "picture")]
    pub(crate) data: Vec<OsString>,

    #[command(flatten)]
    pub(crate) class_shares: ClassSharesArgs,

    #[command(flatten)]
    pub(crate) model: GraphModelArgs,

    #[command(flatten)]
    pub(crate) run: RunArgs,

    #[command(flatten)]
    pub(crate) classes: ClassNamesArgs,

    #[command(flatten)]
    pub(crate) preprocessing: PreprocessingArgs,
}
