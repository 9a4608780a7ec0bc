//! The arguments of `npcov lab`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use npcov_lab::{Bands, Paper};

use super::attack::Bounds;
use super::{
    CriteriaArgs, DataArgs, GraphModelArgs, MeasureChoices, MethodArgs, ModelArgs, PathChoices,
    RunArgs, StudyChoices,
};

/// Repeat the experiments of the paper on neuron path coverage
///
/// Each research question of the paper is a command, for any model and data; so are two questions
/// that it does not ask, of clusters (`rq6`, `rq7`). Results are printed,
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
    Rq3(Box<Rq3Args>),
    Rq4(Box<Rq4Args>),
    Rq5(Box<Rq5Args>),
    Rq6(Box<Rq6Args>),
    Rq7(Box<Rq7Args>),
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

    #[command(flatten)]
    pub(crate) run: RunArgs,
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
    pub(crate) test: Option<OsString>,

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
///
/// With `--each-class` every class also chooses an alpha, a number of clusters and a beta for itself, as
/// `npcov tune` does for all, by one half of the inputs; what that is worth is printed of the other
/// half, beside one choice for all. `rq2-classes.toml` has what was chosen, as settings for
/// `npcov build --config`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov lab rq2 model.onnx --data train.npz --divide 255 --quick -o lab
  npcov lab rq2 model.onnx --data train.npz --divide 255 --sample 4000 --each-class -o lab
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

    /// Choose parameters for each class as well, on one half of the inputs, and judge them by the other
    #[arg(long)]
    pub(crate) each_class: bool,

    /// Shares of relevance that classes choose from; by default 0.7, 0.8, 0.9 and 1
    #[arg(
        long,
        value_name = "A,...",
        value_delimiter = ',',
        requires = "each_class"
    )]
    pub(crate) alphas: Option<Vec<f64>>,

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

/// Are criteria sensitive to errors in a suite?
///
/// Takes inputs that are classified as labelled, and replaces a growing share of them: by natural
/// errors, by adversaries (PGD), and, as a control, by other inputs that are classified as labelled.
/// Prints how coverage by every criterion changes, normalised by its range.
///
/// Where a class has too few errors, those of other classes stand in, and that is said.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov lab rq3 graph.npcov --data test.npz --quick -o lab
  npcov lab rq3 graph.npcov --data test.npz --epsilon 0.03 -o lab")]
pub(crate) struct Rq3Args {
    /// Inputs of a suite; by default 1000
    #[arg(long, value_name = "N")]
    pub(crate) size: Option<usize>,

    /// Shares of errors, in per cent and ascending
    #[arg(long, value_name = "P,...", value_delimiter = ',', default_values_t = [1.0, 2.0, 3.0, 5.0, 7.0, 10.0])]
    pub(crate) percents: Vec<f64>,

    /// How often to repeat with other draws; by default 5
    #[arg(long, value_name = "N")]
    pub(crate) repetitions: Option<usize>,

    /// How far adversaries may move, in pixels
    #[arg(long, value_name = "E", default_value_t = 0.1)]
    pub(crate) epsilon: f32,

    /// Steps of PGD; by default 40
    #[arg(long, value_name = "N")]
    pub(crate) steps: Option<usize>,

    /// The least and the largest pixel
    #[arg(
        long,
        value_name = "LOW,HIGH",
        default_value = "0,1",
        allow_hyphen_values = true
    )]
    pub(crate) range: Bounds,

    #[command(flatten)]
    pub(crate) lab: LabOptions,

    #[command(flatten)]
    pub(crate) graph: GraphArgs,
}

/// Does coverage go with the impartiality of outputs?
///
/// Attacks the same seeds in many ways, each with a regulariser that spreads the activity of a path
/// layer, and measures what each way gives: its coverage, and how evenly its predictions are spread
/// over the classes. Prints their correlation for every criterion, with 95 % confidence intervals.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov lab rq4 graph.npcov --data test.npz --quick -o lab
  npcov lab rq4 graph.npcov --data test.npz --target-layers 0,-1 --cw-lambdas 0 -o lab")]
pub(crate) struct Rq4Args {
    /// Numbers of seeds, as many of each label as possible; by default 100 and 500
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub(crate) sizes: Option<Vec<usize>>,

    /// Radii of PGD, in pixels; by default 0.1, 0.2 and 0.3
    #[arg(long, value_name = "E,...", value_delimiter = ',')]
    pub(crate) epsilons: Option<Vec<f32>>,

    /// Steps of PGD; by default 40
    #[arg(long, value_name = "N")]
    pub(crate) pgd_steps: Option<usize>,

    /// Confidences of the attack of Carlini and Wagner; by default 0, 20 and 40
    #[arg(long, value_name = "C,...", value_delimiter = ',')]
    pub(crate) confidences: Option<Vec<f32>>,

    /// Rounds of the attack of Carlini and Wagner; by default 3
    #[arg(long, value_name = "N")]
    pub(crate) cw_rounds: Option<usize>,

    /// Steps of each of its rounds; by default 100
    #[arg(long, value_name = "N")]
    pub(crate) cw_steps: Option<usize>,

    /// Its learning rate; by default 0.0005
    #[arg(long, value_name = "RATE")]
    pub(crate) cw_rate: Option<f32>,

    /// Weights of the regulariser; by default 0 and the powers of ten from 1 to 1000000
    #[arg(long, value_name = "L,...", value_delimiter = ',')]
    pub(crate) lambdas: Option<Vec<f64>>,

    /// Those for the attack of Carlini and Wagner; by default the same
    #[arg(long, value_name = "L,...", value_delimiter = ',')]
    pub(crate) cw_lambdas: Option<Vec<f64>>,

    /// Path layers whose activity is spread; by default the first and the last
    ///
    /// Indices: `-1` is the last one. `npcov inspect` lists the path layers.
    #[arg(
        long,
        value_name = "I,...",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub(crate) target_layers: Option<Vec<i64>>,

    /// The least and the largest pixel
    #[arg(
        long,
        value_name = "LOW,HIGH",
        default_value = "0,1",
        allow_hyphen_values = true
    )]
    pub(crate) range: Bounds,

    #[command(flatten)]
    pub(crate) lab: LabOptions,

    #[command(flatten)]
    pub(crate) graph: GraphArgs,
}

/// How long do criteria take?
///
/// Measures the same inputs by each criterion alone, in turns with the forward pass and with
/// computing relevances, and prints the shortest time of each. What is made once is not timed:
/// programs, and what criteria learnt from the training data. What `npcov cover` tells of single inputs
/// beside criteria that need paths, clusters and scores, is timed by itself.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov lab rq5 graph.npcov --data test.npz -o lab
  npcov lab rq5 graph.npcov --data test.npz --criteria snpc,nc:thresholds=0,idc --rounds 9 -o lab")]
pub(crate) struct Rq5Args {
    /// How many inputs to measure; by default 1000
    #[arg(long, value_name = "N")]
    pub(crate) inputs: Option<usize>,

    /// How often; by default 5
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<usize>,

    #[command(flatten)]
    pub(crate) lab: LabOptions,

    #[command(flatten)]
    pub(crate) graph: GraphArgs,
}

/// Do clusters find the kinds that nobody labelled?
///
/// For a network that was trained on labels which merge finer ones, its kinds: compares the clusters
/// of the graph with the kinds of its training inputs. Beside them stand clusters of paths by k-means,
/// with as many clusters as there are kinds, and activations and pixels, clustered by the method that
/// the graph was built with.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov lab rq6 graph.npcov --data train.npz -o lab
  npcov lab rq6 graph.npcov --data train.npz --kinds digit --restarts 3 -o lab")]
pub(crate) struct Rq6Args {
    /// Restarts of k-means; by default as many as the graph was built with
    #[arg(long, value_name = "N")]
    pub(crate) restarts: Option<usize>,

    #[command(flatten)]
    pub(crate) lab: LabOptions,

    #[command(flatten)]
    pub(crate) kinds: KindsArgs,
}

/// Is a missing kind named?
///
/// Draws suites from test data, each without inputs of one kind but with as many of each predicted
/// class as ever, and says whether a cluster is thin that is mostly of that kind among training inputs.
/// Complete suites are the control. Also says which clusters are thin in the whole test data, and in
/// the training data itself.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov lab rq7 graph.npcov --data train.npz --test test.npz --quick -o lab
  npcov lab rq7 graph.npcov --data train.npz --test test.npz --kinds digit --size 1000 -o lab")]
pub(crate) struct Rq7Args {
    /// The data that suites are drawn from
    #[arg(long, value_name = "FILE")]
    pub(crate) test: OsString,

    /// Inputs of a suite; by default 2000
    #[arg(long, value_name = "N")]
    pub(crate) size: Option<usize>,

    /// Complete suites; by default 40
    #[arg(long, value_name = "N")]
    pub(crate) complete: Option<usize>,

    #[command(flatten)]
    pub(crate) lab: LabOptions,

    #[command(flatten)]
    pub(crate) kinds: KindsArgs,
}

/// A decision graph, its training data, and kinds.
#[derive(Debug, Args)]
pub(crate) struct KindsArgs {
    /// The decision graph
    #[arg(value_name = "GRAPH")]
    pub(crate) graph: PathBuf,

    #[command(flatten)]
    pub(crate) model: GraphModelArgs,

    /// The array of the npz files that has the kind of each input, a whole number
    #[arg(long, value_name = "ARRAY", default_value = "kind")]
    pub(crate) kinds: String,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// A decision graph, test data, and what is measured.
#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// The decision graph
    #[arg(value_name = "GRAPH")]
    pub(crate) graph: PathBuf,

    #[command(flatten)]
    pub(crate) model: GraphModelArgs,

    #[command(flatten)]
    pub(crate) criteria: CriteriaArgs,

    #[command(flatten)]
    pub(crate) choices: MeasureChoices,

    #[command(flatten)]
    pub(crate) data: DataArgs,
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
