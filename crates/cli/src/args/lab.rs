//! The arguments of `npcov lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use npcov_lab::{Bands, Paper};

use super::{DataArgs, Format, MethodArgs, ModelArgs, PathChoices, StudyChoices};
use crate::value::Threads;

/// Repeat the experiments of the paper on neuron path coverage
///
/// Each research question of the paper is a command, for any model and data. Results are printed,
/// and written as JSON and SVG into the folder `--output`. With `--paper` the published numbers stand
/// beside ours, for a network of the paper's architecture.
///
/// Work that was interrupted goes on where it was when the same command is given again.
/// `docs/guide-lab.md` explains the experiments, `docs/results.md` has our results.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov lab rq1 model.onnx --data train.npz --test test.npz --divide 255 --quick -o lab
  npcov lab rq1 sadl1.onnx --data train-images-idx3-ubyte.gz --divide 255 --choices tables \\
      --paper sadl-1 -o lab")]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) question: Question,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Question {
    Rq1(Box<Rq1Args>),
    Rq2(Box<Rq2Args>),
}

/// What all experiments take.
#[derive(Debug, Args)]
pub(crate) struct LabOptions {
    /// The folder for results; finished parts are kept in a folder in it
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: PathBuf,

    /// A small size that takes seconds; flags still change it
    #[arg(long)]
    pub(crate) quick: bool,

    /// Print the paper's numbers beside ours: `sadl-1`, `sadl-2`, `vgg16`, `alexnet` or `imagenet`
    #[arg(long, value_name = "NETWORK")]
    pub(crate) paper: Option<Paper>,

    /// Seed of every random draw
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// How many threads to use; all cores by default
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<Threads>,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// Do critical decision paths decide? Masking, with controls
///
/// Switches off the path of each training input, or all other neurons, for several alphas, and
/// counts how many predictions change. Beside it stand as many of the most activated neurons, as
/// many random ones, and the path of an input of another class. The path is also cut into fifths by
/// relevance, and paths are compared within classes and between them.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov lab rq1 model.onnx --data train.npz --test test.npz --divide 255 --quick -o lab
  npcov lab rq1 --choices tables --paper sadl-1 -o lab")]
pub(crate) struct Rq1Args {
    /// Shares of relevance to try
    #[arg(long, value_name = "A,...", value_delimiter = ',', default_values_t = [0.7, 0.8, 0.9, 1.0])]
    pub(crate) alphas: Vec<f64>,

    /// The alpha whose paths are cut into fifths; by default the paper's, or that of `npcov.toml`
    #[arg(long, value_name = "A")]
    pub(crate) alpha: Option<f64>,

    /// How paths are cut into fifths
    #[arg(long, value_enum, default_value_t = BandsName::Even)]
    pub(crate) bands: BandsName,

    /// Use a random sample of so many inputs; all by default
    #[arg(long, value_name = "N")]
    pub(crate) sample: Option<usize>,

    /// Mask controls for so many of the inputs; by default 10000
    #[arg(long, value_name = "N")]
    pub(crate) controls: Option<usize>,

    /// The data whose paths are compared; by default the training data
    #[arg(long, value_name = "FILE")]
    pub(crate) test: Option<String>,

    /// Compare paths of so many correctly classified inputs of each class; by default 100
    #[arg(long, value_name = "N")]
    pub(crate) per_class: Option<usize>,

    #[command(flatten)]
    pub(crate) lab: LabOptions,

    #[command(flatten)]
    pub(crate) study: StudyArgs,
}

/// A way to cut paths into fifths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BandsName {
    /// What does not divide evenly goes to the more relevant fifths
    Even,
    /// As in the authors' code: what rounding loses is in none
    Rounded,
}

impl From<BandsName> for Bands {
    fn from(name: BandsName) -> Bands {
        match name {
            BandsName::Even => Bands::Even,
            BandsName::Rounded => Bands::Rounded,
        }
    }
}

/// Do the abstract paths of clusters still decide?
///
/// Clusters the paths of training inputs, for several numbers of clusters, and switches off the
/// abstract path of each cluster for its members, or all other neurons. With one number of clusters
/// it also compares paths within classes and clusters and between them, and draws inputs of each
/// cluster, a row for each, into `rq2-clusters.png`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov lab rq2 model.onnx --data train.npz --divide 255 --quick -o lab
  npcov lab rq2 --choices tables --paper sadl-1 -o lab")]
pub(crate) struct Rq2Args {
    /// The share of relevance of paths; by default the paper's, or that of `npcov.toml`
    #[arg(long, value_name = "A")]
    pub(crate) alpha: Option<f64>,

    /// Numbers of clusters to try; by default 1, 4, 7 and 10
    #[arg(long, value_name = "K,...", value_delimiter = ',')]
    pub(crate) clusters: Option<Vec<usize>>,

    /// Shares of members to try; by default 0.6, 0.7, 0.8 and 0.9
    #[arg(long, value_name = "B,...", value_delimiter = ',')]
    pub(crate) betas: Option<Vec<f64>>,

    /// The number of clusters for similarities and the picture; by default the paper's, or 4
    #[arg(long, value_name = "K")]
    pub(crate) chosen: Option<usize>,

    /// Use a random sample of so many inputs; all by default
    #[arg(long, value_name = "N")]
    pub(crate) sample: Option<usize>,

    /// Compare paths of so many inputs of each class; by default 100
    #[arg(long, value_name = "N")]
    pub(crate) per_class: Option<usize>,

    /// Classes whose clusters are drawn
    #[arg(long, value_name = "C,...", value_delimiter = ',', default_values_t = [4, 5])]
    pub(crate) sheet_classes: Vec<usize>,

    #[command(flatten)]
    pub(crate) lab: LabOptions,

    #[command(flatten)]
    pub(crate) study: StudyArgs,
}

/// A model, training data, and how paths are made and masked.
#[derive(Debug, Args)]
pub(crate) struct StudyArgs {
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
