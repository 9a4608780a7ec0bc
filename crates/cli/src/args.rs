//! The arguments, and all help texts.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use npcov::data::Layout;
use npcov::program::Selector;

use crate::value::{Shape, Size, Threads};

/// Coverage for neural networks
///
/// npcov reads an ONNX model and data, and measures which decision logic of the model the data
/// exercises.
///
/// Results go to standard output, messages and progress to standard error. The exit code is 0, or
/// 2 after an error.
#[derive(Debug, Parser)]
#[command(name = "npcov", version, max_term_width = 100, after_long_help = CONFIG_HELP)]
pub(crate) struct Cli {
    /// Read settings from this file instead of `npcov.toml`
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const CONFIG_HELP: &str = "\
Settings can stand in `npcov.toml`, in the current folder; flags override it:

  model = \"model.onnx\"
  data = \"test.npz\"
  threads = 4
  layers = [\"block*\", -1]

  [preprocessing]
  divide = 255
  mean = [0.49, 0.48, 0.45]
  std = [0.25, 0.24, 0.26]";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Inspect(InspectArgs),
    Predict(PredictArgs),
}

/// Show what is inside a model
///
/// Prints inputs, outputs, operators, parameters and the path layers: the layers whose neurons
/// critical decision paths consist of. A cut layer is crossed by every path from input to output;
/// only there does relevance add up to the logit.
///
/// Nodes that npcov cannot use are listed, all of them, and the exit code is 2.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov inspect model.onnx
  npcov inspect model.onnx --format json | jq '.path_layers[].neurons'
  npcov inspect detector.onnx --input-shape 3x48x192")]
pub(crate) struct InspectArgs {
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// Classify data
///
/// Runs a model on a dataset and prints the accuracy and who is taken for whom, or how often each
/// class is predicted where the data has no labels. `--output` keeps the logits, and one
/// activation for each neuron of the path layers.
///
/// The numbers are the same bits for any number of threads.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov predict model.onnx --data test.npz --divide 255
  npcov predict model.onnx --data photos/ --resize 224x224 \\
      --divide 255 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
  npcov predict model.onnx --data cifar-10-batches-bin:test --divide 255 --output results.npz")]
pub(crate) struct PredictArgs {
    /// Classify only the first N inputs
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// Write logits, predictions and activations to this npz file
    ///
    /// Arrays: `logits` (inputs x logits), `prediction` (inputs) and for each path layer, from
    /// input to output, `activation.0`, `activation.1`, ... (inputs x neurons). In Python:
    /// `numpy.load("results.npz")["activation.0"]`.
    #[arg(long, short, value_name = "OUT.npz")]
    pub(crate) output: Option<PathBuf>,

    /// How many threads to use; all cores by default
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<Threads>,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// How to print a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs: a versioned format, see `docs/json.md`
    Json,
}

/// A model, and what its file leaves open.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// The model: an ONNX file
    ///
    /// Weights in files of their own are found next to it. May be left out when `npcov.toml` names
    /// a model.
    #[arg(value_name = "MODEL", help_heading = None)]
    pub(crate) model: Option<PathBuf>,

    /// Shape of one input, for a model that leaves axes open
    ///
    /// Without the batch axis: `--input-shape 3x48x192`.
    #[arg(long, value_name = "3x48x192")]
    pub(crate) input_shape: Option<Shape>,

    /// The output that holds the classification; the first one by default
    #[arg(long, value_name = "NAME")]
    pub(crate) output_name: Option<String>,

    /// Use only these path layers
    ///
    /// Indices (`0`; `-1` is the last one), names, and patterns in which `*` stands for any
    /// characters, with commas between them: `--layers 'block2/*,-1'`. A full name may also be that
    /// of a node that is no activation function. `npcov inspect` lists the path layers.
    #[arg(
        long,
        value_name = "SEL,...",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub(crate) layers: Option<Vec<Selector>>,

    /// Count every unit of a feature map as a neuron, not every channel
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true
    )]
    pub(crate) units: Option<bool>,
}

/// A dataset, and what happens to it before it enters the model.
#[derive(Debug, Args)]
#[command(next_help_heading = "Data")]
pub(crate) struct DataArgs {
    /// The data: npz, npy, IDX, CIFAR binary, or a folder of images
    ///
    /// An npz file holds the arrays `x` and, if there are labels, `y`; others are named with
    /// `--data file.npz:x_test,y_test`. A folder has one folder of PNG or JPEG images per class. A
    /// folder of CIFAR files takes `folder:train` or `folder:test`.
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<String>,

    /// Divide every number by this, before anything else
    ///
    /// `--divide 255` brings pixels to the range 0 to 1. What enters the model is
    /// `(x / divide - mean) / std`.
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    pub(crate) divide: Option<f32>,

    /// Subtract this: one number, or one for each channel
    #[arg(
        long,
        value_name = "a,b,c",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub(crate) mean: Option<Vec<f32>>,

    /// Divide by this at the end: one number, or one for each channel
    #[arg(
        long,
        value_name = "a,b,c",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub(crate) std: Option<Vec<f32>>,

    /// Bring 8-bit images to this height and width
    ///
    /// Bilinear, the aspect ratio is not kept: `--resize 224x224`.
    #[arg(long, value_name = "HxW")]
    pub(crate) resize: Option<Size>,

    /// How the data lies, where its shape does not tell: hw, chw, hwc or flat
    ///
    /// `chw` is one plane of pixels per channel, `hwc` the channels side by side in each pixel,
    /// `hw` one channel, `flat` numbers in exactly the order that the model wants.
    #[arg(long, value_name = "LAYOUT")]
    pub(crate) layout: Option<Layout>,
}
