//! The arguments of `npcov attack`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use npcov::program::Selector;

use super::{DataArgs, LimitArgs, ModelArgs, RunArgs};
use crate::value::BatchSize;

/// Change inputs a little, so that they are misclassified
///
/// Looks for adversaries of the inputs, by gradients, and writes them as a dataset that `predict`,
/// `cover` and the others read with the same preprocessing. An input is to leave the class of its
/// label, or the class it is predicted as where the data has no labels.
///
/// Radii, steps and distances are in pixels: stored numbers over `--divide`, before `--mean` and
/// `--std`. Pixels stay in `--range`, 0 to 1 by default.
///
/// With `--lambda` and `--layer` the attack also spreads the activity of a path layer, for suites
/// that exercise it more evenly.
///
/// The results are the same bits for any number of threads. `docs/guide-attack.md` explains the
/// methods.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov attack model.onnx --data test.npz --divide 255 -o adversaries.npz
  npcov attack model.onnx --data test.npz --divide 255 --epsilon 0.3 --per-class 10 -o adversaries.npz
  npcov attack model.onnx --data test.npz --divide 255 --method cw --limit 100 -o adversaries.npz
  npcov attack model.onnx --data test.npz --divide 255 --lambda 100 --layer -1 -o diverse.npz
  npcov cover graph.npcov --data adversaries.npz -o state.npcov")]
pub(crate) struct AttackArgs {
    /// The npz file to write
    ///
    /// Arrays: `x` (the inputs after the attack, in the shape and scale of the data), `y` (labels),
    /// `prediction`, `success` (truth values), `index` (the input's position in the data) and
    /// `distance` (in pixels, in the norm of the method). In Python:
    /// `numpy.load("adversaries.npz")["success"]`.
    #[arg(long, short, value_name = "OUT.npz")]
    pub(crate) output: PathBuf,

    /// How to look for adversaries
    #[arg(long, value_enum, default_value_t = AttackName::Pgd)]
    pub(crate) method: AttackName,

    #[command(flatten)]
    pub(crate) limit: LimitArgs,

    /// Attack only the first N inputs of each label
    #[arg(long, value_name = "N", conflicts_with = "limit")]
    pub(crate) per_class: Option<usize>,

    /// Seed of random starts
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) run: RunArgs,

    #[command(flatten)]
    pub(crate) choices: AttackChoices,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) data: DataArgs,
}

/// A way to look for adversaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AttackName {
    /// One step along the sign of the gradient
    Fgsm,
    /// Projected gradient descent; no pixel changes by more than epsilon
    Pgd,
    /// The same; the whole change is no longer than epsilon
    PgdL2,
    /// Carlini and Wagner: the shortest change that is enough
    Cw,
    /// Carlini and Wagner: the change whose largest pixel is smallest
    CwLinf,
}

/// Parameters of attacks.
#[derive(Debug, Args)]
#[command(next_help_heading = "Attack")]
pub(crate) struct AttackChoices {
    /// Steps of `pgd` and `pgd-l2` (by default 40), or of each round of `cw` and `cw-linf` (1000)
    #[arg(long, value_name = "N")]
    pub(crate) steps: Option<usize>,

    /// How far an input may move; by default 0.1 for `fgsm` and `pgd`, 1 for `pgd-l2`
    #[arg(long, value_name = "E", allow_hyphen_values = true)]
    pub(crate) epsilon: Option<f32>,

    /// How far a step of `pgd` or `pgd-l2` goes; by default 0.01, or a tenth of epsilon
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    pub(crate) step: Option<f32>,

    /// Start `pgd` and `pgd-l2` at the input, not at a random point near it
    #[arg(long)]
    pub(crate) no_random_start: bool,

    /// How far `cw` and `cw-linf` must bring another logit above the label's; by default 0
    #[arg(long, value_name = "K", allow_hyphen_values = true)]
    pub(crate) confidence: Option<f32>,

    /// How many weights of the logits `cw` (by default 9) and `cw-linf` (5) try
    ///
    /// The first is `--factor`. While it is not enough, the next is ten times larger; then the
    /// smallest that is enough is sought by halves.
    #[arg(long, value_name = "R")]
    pub(crate) rounds: Option<usize>,

    /// The first weight of the logits for `cw` and `cw-linf`; by default 0.001
    #[arg(long, value_name = "C", allow_hyphen_values = true)]
    pub(crate) factor: Option<f32>,

    /// Adam's learning rate for `cw` (by default 0.01) and `cw-linf` (0.0005)
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub(crate) learning_rate: Option<f32>,

    /// Where `cw` and `cw-linf` look for pixels; by default in `--range`
    ///
    /// `--tanh-box=-1,1` leaves the range, as the suites of the paper on neuron path coverage did.
    #[arg(long, value_name = "LOW,HIGH", allow_hyphen_values = true)]
    pub(crate) tanh_box: Option<Bounds>,

    /// Weight of the regulariser that spreads the activity of `--layer`
    ///
    /// The loss is lowered by lambda times the divergence of the layer's activity from an even one.
    #[arg(long, value_name = "L", requires = "layer", allow_hyphen_values = true)]
    pub(crate) lambda: Option<f64>,

    /// The path layer whose activity is spread: its index (`-1` is the last one) or name
    ///
    /// `npcov inspect` lists the path layers.
    #[arg(
        long,
        value_name = "I",
        requires = "lambda",
        allow_hyphen_values = true
    )]
    pub(crate) layer: Option<Selector>,

    /// Attack so many inputs together; by default 500
    ///
    /// With `--lambda` the activity of a batch is spread as a whole. Without, results do not depend
    /// on it.
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<BatchSize>,

    /// The least and the largest pixel
    #[arg(
        long,
        value_name = "LOW,HIGH",
        default_value = "0,1",
        allow_hyphen_values = true
    )]
    pub(crate) range: Bounds,
}

/// Two numbers: `0,1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds(pub(crate) f32, pub(crate) f32);

impl FromStr for Bounds {
    type Err = String;

    fn from_str(text: &str) -> Result<Bounds, String> {
        let numbers = text.split(',').map(|part| part.trim().parse());
        match numbers.collect::<Result<Vec<f32>, _>>().as_deref() {
            Ok(&[low, high]) => Ok(Bounds(low, high)),
            _ => Err(format!("`{text}` is no range; write it like `0,1`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        assert_eq!("-1, 1".parse(), Ok(Bounds(-1.0, 1.0)));
        for wrong in ["", "1", "0,1,2", "a,b", "0;1"] {
            assert!(wrong.parse::<Bounds>().is_err(), "{wrong}");
        }
    }
}
