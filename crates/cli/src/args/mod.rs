//! The arguments, and all help texts.

mod attack;
mod coverage;
#[cfg(test)]
mod documents;
mod gaps;
mod gate;
mod lab;
mod mutate;
mod selection;
mod shared;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use npcov::data::{Interpolation, Layout};
use npcov::engine::native::Kernels;
use npcov::program::{LayerKind, Preset, Selector};
use npcov::run::Task;

pub(crate) use attack::{AttackArgs, AttackChoices, AttackName};
pub(crate) use coverage::{
    BuildArgs, CoverArgs, DemoArgs, ExportArgs, ExportedActivations, InitArgs, MeasureChoices,
    MergeArgs, PathChoices, StudyChoices, TuneArgs,
};

pub(crate) use gaps::GapsArgs;
pub(crate) use gate::{
    CheckArgs, CheckFormat, ClassSharesArgs, DetailArgs, PageArgs, ReportArgs, ReportFormat,
    ThinParts,
};
pub(crate) use lab::{
    GraphArgs, KindsArgs, LabArgs, LabOptions, Question, Rq1Args, Rq2Args, Rq3Args, Rq4Args,
    Rq5Args, Rq6Args, Rq7Args, StudyArgs,
};
pub(crate) use mutate::{MutateArgs, Whereabouts};
pub(crate) use selection::{CriteriaArgs, GraphModelArgs, MeasuringArgs, MinimizeArgs, SelectArgs};
pub(crate) use shared::{
    Format, LimitArgs, PartsArgs, PrintArgs, RunArgs, SuiteRangeArgs, ThreadsArgs,
};

use crate::value::{
    AttributionName, BatchNormName, BatchSize, BiasName, Bins, CropSize, DirectionName, EngineName,
    FixedInput, ReferenceName, ResizeSize, RuleSetting, Shape, View,
};

/// Coverage for neural networks
///
/// npcov reads an ONNX model and data, and measures which decision logic of the model the data
/// exercises.
///
/// `npcov demo` shows it on data of its own. With your model: `tune` finds good parameters, `build`
/// learns a decision graph from the training data, `cover` measures suites with it.
///
/// `report` sets the numbers beside yardsticks and earlier ones, `check` fails where they are too low.
///
/// Results go to standard output, messages and progress to standard error. The exit code is 0, 1
/// when `check` finds that a rule does not hold, 2 after an error, or 130 after Ctrl-C.
#[derive(Debug, Parser)]
#[command(name = "npcov", version, max_term_width = 100, after_long_help = CONFIG_HELP)]
pub(crate) struct Cli {
    /// Read settings from this file instead of `npcov.toml`
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,

    /// Print results and errors only: no warnings, notes and progress
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const CONFIG_HELP: &str = "\
Settings can stand in `npcov.toml`, in the current folder; flags override it:

  model = \"model.onnx\"
  data = \"test.npz\"
  class-names = \"classes.txt\"
  threads = 4
  layers = [\"block*\", -1]

  [preprocessing]
  divide = 255
  mean = [0.49, 0.48, 0.45]
  std = [0.25, 0.24, 0.26]

  [explain]
  preset = \"epsilon-plus\"
  rule = [\"first=flat\", \"Add=epsilon:0.1\"]
  batch-norm = \"fold\"

  [paths]
  alpha = 0.8
  clusters = 4
  beta = 0.8
  class.3 = { alpha = 0.9, clusters = 7 }
  choices.preset = \"tables\"
  measure.snpc-buckets = 100

  [check]
  fail-under = { snpc = 0.05, kmnc = \"0.8*random\" }
  fail-on-drop = 0.01";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(DemoArgs),
    Init(InitArgs),
    Inspect(InspectArgs),
    Predict(PredictArgs),
    Explain(ExplainArgs),
    Tune(TuneArgs),
    Build(BuildArgs),
    Cover(CoverArgs),
    Merge(MergeArgs),
    Export(ExportArgs),
    Report(ReportArgs),
    Check(CheckArgs),
    Gaps(GapsArgs),
    Select(SelectArgs),
    Minimize(MinimizeArgs),
    Attack(AttackArgs),
    Mutate(MutateArgs),
    Compile(CompileArgs),
    Lab(LabArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Print a script that completes commands and flags in a shell
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov completions bash > ~/.local/share/bash-completion/completions/npcov
  npcov completions zsh > ~/.zfunc/_npcov
  npcov completions fish > ~/.config/fish/completions/npcov.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Write man pages, one for each command
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov man --output ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The folder to write into, which must exist
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: PathBuf,
}

/// Show what is inside a model, a decision graph or a coverage state
///
/// Of a model: inputs, outputs, operators, parameters and the path layers: the layers whose neurons
/// critical decision paths consist of. A cut layer is crossed by every path from input to output;
/// only there does relevance add up to the logit.
///
/// Nodes that npcov cannot use are listed, all of them, and the exit code is 2.
///
/// Of a decision graph: the clusters of every class with their members, and how wide their abstract
/// paths are; with `--format json` also the neurons. Of a coverage state: what its suites cover.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov inspect model.onnx
  npcov inspect model.onnx --format json | jq '.path_layers[].neurons'
  npcov inspect detector.onnx --input-shape 3x48x192
  npcov inspect graph.npcov
  npcov inspect graph.npcov --format json | jq '.classes[3].clusters[0].layers[1].neurons'")]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) print: PrintArgs,

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
  npcov predict model.onnx --data photos/ --resize 256 --crop 224 \\
      --divide 255 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
  npcov predict model.onnx --data cifar-10-batches-bin:test --divide 255 --output results.npz
  npcov predict prices.onnx --data houses.csv --label-column price --task regression")]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    pub(crate) limit: LimitArgs,

    /// Write logits, predictions and activations to this npz file
    ///
    /// Arrays: `logits` (inputs x logits), `prediction` (inputs) and for each path layer, from
    /// input to output, `activation.0`, `activation.1`, ... (inputs x neurons). In Python:
    /// `numpy.load("results.npz")["activation.0"]`.
    #[arg(long, short, value_name = "OUT.npz")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) run: RunArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// Show which neurons decided
///
/// Explains logits by relevance: how much each neuron of the path layers contributed to the class,
/// from the output back to the input. A positive relevance supports the class, a negative one
/// speaks against it. On a cut layer the relevances of all neurons add up to the logit, or to 1
/// where the logit is not positive.
///
/// With `--index`, one input: its prediction, the sum of relevance in every layer, the strongest
/// neurons, and a heat map as a PNG file: the input on the left, its relevance on the right, red
/// where it supports the class and blue where it speaks against it. Without, all inputs: how well
/// relevance is conserved in every layer, and which neurons are most often on top.
///
/// With `--alpha`, the critical decision path as well: the neurons that have that share of relevance
/// together. A decision graph in the place of the model tells the rest: which cluster of training
/// inputs decides alike, how similar each layer is to it, and which inputs are typical of it.
///
/// `docs/rules.md` explains the rules and which to choose.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov explain model.onnx --data test.npz --divide 255 --index 7
  npcov explain model.onnx --data test.npz --divide 255 --index 7 --class 3 --heatmap why-3.png
  npcov explain model.onnx --data test.npz --divide 255 --output relevances.npz
  npcov explain model.onnx --data test.npz --divide 255 --alpha 0.8 --output paths.npz
  npcov explain graph.npcov --data test.npz --index 7
  npcov explain model.onnx --data test.npz --preset epsilon-plus --rule first=zbox:0,1
  npcov explain bert.onnx --data ids.npz --index 0 --vocabulary vocab.txt
  npcov explain vit.onnx --data test.npz --attribution attnlrp")]
pub(crate) struct ExplainArgs {
    /// Explain this input, counted from 0, and draw its heat map
    #[arg(long, value_name = "I", conflicts_with = "limit")]
    pub(crate) index: Option<usize>,

    #[command(flatten)]
    pub(crate) limit: LimitArgs,

    /// How many neurons to name in each layer
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) top: usize,

    /// Write the heat map to this file instead of `DATA-I-heatmap.png`
    #[arg(long, value_name = "FILE.png", requires = "index")]
    pub(crate) heatmap: Option<PathBuf>,

    /// Write no heat map
    #[arg(long, requires = "index", conflicts_with = "heatmap")]
    pub(crate) no_heatmap: bool,

    /// The words for the numbers of tokens, one a line, the first one that of token 0
    ///
    /// For models that take token ids: with `--index`, the relevance of each token is printed by its
    /// word.
    #[arg(long, value_name = "FILE")]
    pub(crate) vocabulary: Option<PathBuf>,

    /// Write logits, predictions and relevances to this npz file
    ///
    /// Arrays: `logits` (inputs x logits), `prediction` (inputs) and for each path layer, from
    /// input to output, `relevance.0`, `relevance.1`, ... (inputs x neurons). In Python:
    /// `numpy.load("relevances.npz")["relevance.0"]`. With `--alpha` also `path.0`, `path.1`, ...
    /// (truth values, inputs x neurons).
    #[arg(long, short, value_name = "OUT.npz")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) run: RunArgs,

    /// Extract critical decision paths: neurons with this share of relevance together
    #[arg(long, value_name = "A", help_heading = "Paths")]
    pub(crate) alpha: Option<f64>,

    #[command(flatten)]
    pub(crate) choices: PathChoices,

    #[command(flatten)]
    pub(crate) relevance: RelevanceArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// Write what npcov computes as an ONNX file for any runtime
///
/// A program contains the model and what is computed from it, in plain ONNX operators: activations
/// (`trace`), relevances (`explain`), a switch for every neuron (`mask`), or the gradient of a loss
/// (`gradient`). Inputs are those of the model, preprocessed; every output has a row for each of
/// them.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov compile model.onnx --program explain -o explained.onnx
  npcov compile model.onnx --program explain --input-relevance --batch 32 -o explained.onnx
  npcov compile model.onnx --program mask -o masked.onnx
  npcov compile model.onnx --program gradient --loss margin --batch 32 -o gradient.onnx")]
pub(crate) struct CompileArgs {
    /// What to compute
    #[arg(long, value_enum, default_value_t = ProgramName::Explain)]
    pub(crate) program: ProgramName,

    /// The file to write
    #[arg(long, short, value_name = "OUT.onnx")]
    pub(crate) output: PathBuf,

    /// The loss of `--program gradient`; by default `cross-entropy`
    #[arg(long, value_enum)]
    pub(crate) loss: Option<LossName>,

    /// How many inputs the program takes at once
    ///
    /// By default 1, or the number that the model's file fixes in a way that cannot be undone.
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<BatchSize>,

    #[command(flatten)]
    pub(crate) print: PrintArgs,

    #[command(flatten)]
    pub(crate) relevance: RelevanceArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// What `compile` can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgramName {
    /// Logits, and one activation for each neuron
    Trace,
    /// Logits, and one relevance for each neuron
    Explain,
    /// Logits; inputs `mask.0`, `mask.1`, ... multiply the neurons: 1 keeps one, 0 switches it off
    Mask,
    /// Logits, the loss of the class in the input `label`, and its gradient with respect to the input
    Gradient,
}

/// A loss whose gradient `compile` can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LossName {
    /// Minus the logarithm of the label's probability
    CrossEntropy,
    /// The largest logit of another class, minus that of the label
    Margin,
}

/// What is explained, and by which rules.
#[derive(Debug, Args)]
#[command(next_help_heading = "Relevance")]
pub(crate) struct RelevanceArgs {
    /// Explain this class instead of the predicted one
    #[arg(long, value_name = "C")]
    pub(crate) class: Option<usize>,

    /// Compute the relevance of the input as well, as `relevance.input`
    ///
    /// It has the shape of the model's input. With `--index` it is always there.
    #[arg(long)]
    pub(crate) input_relevance: bool,

    #[command(flatten)]
    pub(crate) method: MethodArgs,
}

/// How relevances are computed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Relevance")]
pub(crate) struct MethodArgs {
    /// How linear operators share relevance: RULE, or WHERE=RULE for some nodes
    ///
    /// Rules: `alpha-beta:BETA` (the default, with 0.5), `zplus`, `epsilon:EPS`, `gamma:GAMMA`,
    /// `zbox:LOW,HIGH`, `flat`, `identity`, `gradient`. WHERE is `first` (the first layers with
    /// weights), `attention` (products of two activations), an ONNX operator (`Conv`), the name of a node, or a pattern in which `*` stands
    /// for any characters. May be repeated; the most particular WHERE that fits a node counts.
    #[arg(long, value_name = "[WHERE=]RULE")]
    pub(crate) rule: Vec<RuleSetting>,

    /// Rules under one name, which `--rule` changes
    ///
    /// `npc` (the default), `transformer` (the default of models with attention), `epsilon-plus`, `epsilon-plus-flat`, `epsilon-alpha2-beta1`,
    /// `epsilon-alpha2-beta1-flat`.
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<Preset>,

    /// Whether biases take a share of relevance, which is lost then; by default as the preset says
    #[arg(long, value_enum)]
    pub(crate) bias: Option<BiasName>,

    /// Whether relevance passes batch norm unchanged, or batch norm is folded into the convolution
    /// before it
    ///
    /// By default `identity`. Models whose exporter has folded it already have none left.
    #[arg(long, value_enum)]
    pub(crate) batch_norm: Option<BatchNormName>,

    /// How relevance is computed; by default `lrp`
    #[arg(long, value_enum)]
    pub(crate) attribution: Option<AttributionName>,
}

impl ExplainArgs {
    /// What is given although a decision graph has it: how its model was opened, how relevances and paths come about.
    pub(crate) fn fixed_by_graphs(&self) -> Vec<&'static str> {
        let (model, task, method) = (&self.model, &self.model.task, &self.relevance.method);
        let given = [
            ("alpha", self.alpha.is_some()),
            ("class", self.relevance.class.is_some()),
            ("rule", !method.rule.is_empty()),
            ("preset", method.preset.is_some()),
            ("bias", method.bias.is_some()),
            ("batch-norm", method.batch_norm.is_some()),
            ("attribution", method.attribution.is_some()),
            ("choices", self.choices.choices.is_some()),
            ("threshold", self.choices.threshold.is_some()),
            ("empty-layer", self.choices.empty_layer.is_some()),
            ("relevance-seed", self.choices.relevance_seed.is_some()),
            ("members", self.choices.members.is_some()),
            ("merge", self.choices.merge.is_some()),
            ("input-shape", model.input_shape.is_some()),
            ("output-name", model.output_name.is_some()),
            ("input", !model.input.is_empty()),
            ("input-name", model.input_name.is_some()),
            ("layers", model.layers.is_some()),
            ("units", model.units.is_some()),
            ("rnn", model.rnn.is_some()),
            ("path-layers", model.path_layers.is_some()),
            ("token", model.token.is_some()),
            ("task", task.task.is_some()),
            ("bins", task.bins.is_some()),
            ("reference", task.reference.is_some()),
            ("direction", task.direction.is_some()),
            ("tolerance", task.tolerance.is_some()),
        ];
        let given = given.into_iter().filter(|(_, given)| *given);
        given.map(|(name, _)| name).collect()
    }
}

impl RelevanceArgs {
    /// Whether any of them is given.
    pub(crate) fn is_given(&self) -> bool {
        let RelevanceArgs {
            class,
            input_relevance,
            method,
        } = self;
        class.is_some() || *input_relevance || method.is_given()
    }
}

impl MethodArgs {
    /// Whether any of them is given.
    pub(crate) fn is_given(&self) -> bool {
        let MethodArgs {
            rule,
            preset,
            bias,
            batch_norm,
            attribution,
        } = self;
        !rule.is_empty()
            || preset.is_some()
            || bias.is_some()
            || batch_norm.is_some()
            || attribution.is_some()
    }
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

    /// Always give an input this number, where the model has several: `--input training=0`
    ///
    /// May be repeated. The other inputs are those of the data, found by name.
    #[arg(long, value_name = "NAME=NUMBER", allow_hyphen_values = true)]
    pub(crate) input: Vec<FixedInput>,

    /// The input that is preprocessed, attacked and drawn, where the model has several
    ///
    /// By default the only one of floats, the only one of images, or else the first.
    #[arg(long, value_name = "NAME")]
    pub(crate) input_name: Option<String>,

    #[command(flatten)]
    pub(crate) task: TaskArgs,

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

    /// What the neurons of recurrent layers are: `sum`, `steps`, `segments:N` or `last`
    ///
    /// Hidden units, over all steps, at each step, in each of N parts of the sequence, or after
    /// the last step.
    #[arg(long, value_name = "VIEW")]
    pub(crate) rnn: Option<View>,

    /// What path layers are made of: `activations` (the default), `heads`, `residual`
    ///
    /// `activations` are the outputs of activation functions, in transformers the hidden features of
    /// MLPs. `heads` are heads of attention, `residual` the features of the residual stream after
    /// each block. Several with commas between them.
    #[arg(long, value_name = "KIND,...", value_delimiter = ',')]
    pub(crate) path_layers: Option<Vec<LayerKind>>,

    /// Look only at this token in path layers that have tokens, counted from 0; at all by default
    ///
    /// A vision transformer that classifies by a class token has it at 0.
    #[arg(long, value_name = "I")]
    pub(crate) token: Option<usize>,

    /// What runs the model: `native[:MIB]` (the default) or `onnxruntime[:PROVIDER][@LIBRARY]`
    ///
    /// npcov's own engine computes sixteen inputs together where a thread needs at most 512 MiB for that, or MIB, and
    /// else one by one. Less memory takes longer, with the same results. ONNX Runtime is no part of npcov. Its library is looked for where `@LIBRARY` or `ORT_DYLIB_PATH` says, then
    /// in the Python package `onnxruntime`. Providers: `cpu` (the default), `cuda`, `tensorrt`, `rocm`,
    /// `migraphx`, `directml`, `coreml`, `openvino`. Results differ in the last digits.
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine: Option<EngineName>,

    /// How convolutions are computed: `direct` or `winograd`
    ///
    /// Results differ in the last digits. For comparing the two.
    #[arg(long, value_name = "KERNELS", default_value_t, hide = true)]
    pub(crate) kernels: Kernels,
}

/// What the outputs of a model mean.
#[derive(Debug, Args)]
#[command(next_help_heading = "Task")]
pub(crate) struct TaskArgs {
    /// What the outputs mean: classification, classification:argmin, regression, regression:OUTPUT or
    /// regression:joint
    ///
    /// By default the model and the labels tell: outputs behind a softmax or sigmoid are classes, a
    /// single output is a logit of two classes where labels are 0 and 1 and else a number, and several
    /// outputs are numbers where labels are no classes. `argmin` takes the smallest score. Several
    /// numbers are looked at together (`joint`), or one of them, counted from 0.
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<Task>,

    /// Numbers as classes: how many bins, equally frequent, or where they end (`--bins=-0.1,0.1`)
    ///
    /// By default 10. Bins are learnt from what the model gives for the data, and one of them is split
    /// at the reference.
    #[arg(long, value_name = "N|a,b,...", allow_hyphen_values = true)]
    pub(crate) bins: Option<Bins>,

    /// What numbers are held against: `mean` (the default) or `median` of what the model gives,
    /// `labels` (their mean), or a number
    #[arg(long, value_name = "REF", allow_hyphen_values = true)]
    pub(crate) reference: Option<ReferenceName>,

    /// What is explained of a number: its `deviation` from the reference, the `output` itself, what
    /// drives it `up`, or only what lies between it and the reference (`from-reference`)
    #[arg(long, value_name = "WAY")]
    pub(crate) direction: Option<DirectionName>,

    /// How far a number may be from its label; by default 3 standard deviations of the residuals
    #[arg(long, value_name = "NUMBER")]
    pub(crate) tolerance: Option<f64>,
}

/// A dataset, and what happens to it before it enters the model.
#[derive(Debug, Args)]
#[command(next_help_heading = "Data")]
pub(crate) struct DataArgs {
    /// The data: npz, npy, IDX, CIFAR binary, CSV, Parquet, or a folder of images
    ///
    /// An npz file holds the arrays `x` and, if there are labels, `y`; others are named with
    /// `--data file.npz:x_test,y_test`. For a model with several inputs it holds arrays of their names;
    /// others are named with `--data file.npz:ids=a,mask=b,y=c`. `class_names` and `name` name classes
    /// and samples. A table has a line of names; its columns are the model's input, or its inputs by
    /// name. A folder has one folder of PNG or JPEG images per class. A folder of CIFAR files takes
    /// `folder:train` or `folder:test`.
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<OsString>,

    #[command(flatten)]
    pub(crate) classes: ClassNamesArgs,

    #[command(flatten)]
    pub(crate) preprocessing: PreprocessingArgs,
}

/// What the model's classes are called.
#[derive(Debug, Args)]
#[command(next_help_heading = "Data")]
pub(crate) struct ClassNamesArgs {
    /// The names of the model's classes, one a line, the first one that of class 0
    ///
    /// Data whose classes have names (a folder for each, or `class_names` in an npz file) is matched
    /// with these: a folder of two of ten classes gets the right labels. A decision graph knows the
    /// names that its training data had.
    #[arg(long, value_name = "FILE")]
    pub(crate) class_names: Option<PathBuf>,

    /// The column of a table, or the array of an npz file, that holds the labels
    ///
    /// By default a column `y`, `label` or `target`, or the array `y`, where there is one.
    #[arg(long, value_name = "NAME")]
    pub(crate) label_column: Option<String>,
}

/// What happens to data before it enters the model.
#[derive(Debug, Args)]
#[command(next_help_heading = "Data")]
pub(crate) struct PreprocessingArgs {
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

    /// Bring 8-bit images to this height and width, or their shorter side to this length
    ///
    /// `--resize 224x224` does not keep the aspect ratio, `--resize 256` does: with `--crop 224` that is
    /// what most models for photographs were trained with (torchvision's `Resize` and `CenterCrop`).
    /// The numbers are those of Pillow, bit for bit.
    #[arg(long, value_name = "N|HxW")]
    pub(crate) resize: Option<ResizeSize>,

    /// Cut the middle out of 8-bit images, after they are resized: `--crop 224`, `--crop 224x192`
    #[arg(long, value_name = "N|HxW")]
    pub(crate) crop: Option<CropSize>,

    /// How images are resized: nearest, bilinear (the default) or bicubic
    #[arg(long, value_name = "NAME")]
    pub(crate) interpolation: Option<Interpolation>,

    /// How the data lies, where its shape does not tell: hw, chw, hwc or flat
    ///
    /// `chw` is one plane of pixels per channel, `hwc` the channels side by side in each pixel,
    /// `hw` one channel, `flat` numbers in exactly the order that the model wants.
    #[arg(long, value_name = "LAYOUT")]
    pub(crate) layout: Option<Layout>,
}
