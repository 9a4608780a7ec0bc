//! The arguments of `select` and `minimize`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use npcov::select::Strategy;

use super::{ClassNamesArgs, LimitArgs, MeasureChoices, PartsArgs, PreprocessingArgs, RunArgs};
use crate::value::{Criteria, EngineName};

/// Pick the inputs of a pool that are worth having
///
/// Orders the inputs of a pool by a strategy and writes the first ones to an npz file, to be
/// labelled, looked at or added to a suite. Where the pool has labels, it also prints how early the
/// order shows misclassified inputs (APFD), beside the 0.5 of a random order.
///
/// Pools may be larger than memory. Work that was interrupted goes on where it was when the same
/// command is given again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov select graph.npcov --data pool.npz --count 100 --by additional:snpc -o to-label.npz
  npcov select graph.npcov --data pool.npz --count 100 --by score:deepgini -o to-label.npz
  npcov select graph.npcov --data pool.npz --count 100 --by score:lsa:layer=-2 -o to-label.npz
  npcov select graph.npcov --data test.npz --by total:kmnc:sections=100 -o ranked.npz
  npcov select graph.npcov --data pool.npz --count 100 --shard 2/4 -o to-label.npz
  npcov select graph.npcov --data pool.npz --count 100 --join -o to-label.npz")]
pub(crate) struct SelectArgs {
    /// The decision graph
    #[arg(value_name = "GRAPH")]
    pub(crate) graph: PathBuf,

    /// The pool: npz, npy, IDX, CIFAR binary, or a folder of images
    #[arg(long, value_name = "POOL")]
    pub(crate) data: OsString,

    /// Which inputs come first
    ///
    /// `additional:CRITERION`: each next input adds the most to what those before it cover; when
    /// none adds anything, everything counts as not covered again. `total:CRITERION`: those that
    /// cover the most by themselves. CRITERION is one that counts things, such as `snpc`, `anpc`,
    /// `kmnc`, `nbc`, `tknc`, `lsc`, with options as in `--criteria` of `cover`.
    ///
    /// `score:NAME`: those with the highest score: `deepgini`, `entropy`, `margin`, `max-softmax`,
    /// `lsa`, `dsa`, `mdsa`, `unfamiliar` (decided as next to nothing of its class was in training)
    /// or `contested` (decided nearly as another class). `random`: a random order, to compare with.
    ///
    /// Of equal inputs, the first in the pool comes first.
    #[arg(long, value_name = "STRATEGY")]
    pub(crate) by: Strategy,

    /// How many inputs to pick; by default all: the pool in its new order
    ///
    /// APFD is always that of the whole pool. With `additional` and `--count`, it is left out for
    /// pools of more than 20,000 inputs, whose whole order would take long.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) count: Option<usize>,

    /// Start from what this coverage state covers already
    ///
    /// Inputs count by what they cover beyond it, and those that add nothing to it are not picked. For
    /// `additional` and `total`.
    #[arg(long, value_name = "STATE")]
    pub(crate) given: Option<PathBuf>,

    /// The npz file to write
    ///
    /// Arrays: `x` (the inputs, as they are stored in the pool), `y` (their labels, if there are
    /// any), `name` and `class_names` (where samples and classes have names), `index` (their positions
    /// in the pool) and `score` (their score, or the number of things that they cover or add; 0 for
    /// `random`). It can be the `--data` of other commands.
    #[arg(long, short, value_name = "OUT.npz")]
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) limit: LimitArgs,

    #[command(flatten)]
    pub(crate) parts: PartsArgs,

    /// Seed of `random`
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) measuring: MeasuringArgs,
}

/// Make a suite smaller that covers the same
///
/// Finds a small part of a suite that covers every thing which the suite covers, and in which no
/// input can be left out. Greedy: each next input adds the most; then those that later ones made
/// redundant are dropped. The coverage that is printed is the same before and after.
///
/// Work that was interrupted goes on where it was when the same command is given again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov minimize graph.npcov --data suite.npz -o small.npz
  npcov minimize graph.npcov --data suite.npz --criteria snpc,anpc,kmnc:sections=10 -o small.npz
  npcov minimize graph.npcov --data suite.npz --criteria default -o small.npz")]
pub(crate) struct MinimizeArgs {
    /// The decision graph
    #[arg(value_name = "GRAPH")]
    pub(crate) graph: PathBuf,

    /// The suite: npz, npy, IDX, CIFAR binary, or a folder of images
    #[arg(long, value_name = "SUITE")]
    pub(crate) data: OsString,

    /// The criteria whose coverage is kept; by default `snpc,anpc`
    ///
    /// Criteria that count things, with options as in `--criteria` of `cover`; `default` stands for
    /// those of them that the graph was built for. The more there are to cover, the more inputs are
    /// kept.
    #[arg(long, value_name = "LIST")]
    pub(crate) criteria: Option<Criteria>,

    /// Keep only what this coverage state does not cover already
    #[arg(long, value_name = "STATE")]
    pub(crate) given: Option<PathBuf>,

    /// The npz file to write
    ///
    /// Arrays: `x` (the inputs that are kept, as they are stored in the suite), `y` (their labels,
    /// if there are any), `name` and `class_names` (where samples and classes have names), `index` (their
    /// positions in the suite) and `score` (the number of things that each adds to those before it).
    #[arg(long, short, value_name = "OUT.npz")]
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) limit: LimitArgs,

    #[command(flatten)]
    pub(crate) measuring: MeasuringArgs,
}

/// What suites are measured by.
#[derive(Clone, Debug, Args)]
pub(crate) struct CriteriaArgs {
    /// The criteria to measure; by default all that the graph was built for
    ///
    /// Names with options, such as `snpc,kmnc:sections=100`; `default` stands for those of the
    /// graph. `docs/criteria.md` explains them.
    #[arg(long, value_name = "LIST")]
    pub(crate) criteria: Option<Criteria>,
}

/// Where the model of a decision graph is.
#[derive(Clone, Debug, Args)]
pub(crate) struct GraphModelArgs {
    /// The model's file, if it is no longer where it was
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// Measure with this engine: `native[:MIB]` or `onnxruntime[:PROVIDER][@LIBRARY]`
    ///
    /// With a number, inputs are computed one by one where sixteen together would take a thread more than so many MiB
    /// (else 512): slower, with the same results. By default npcov's own, for graphs that were learnt with it. A graph of one engine can be measured with another
    /// one, where that is asked for.
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine: Option<EngineName>,
}

/// How inputs are measured, and the result is printed.
#[derive(Debug, Args)]
pub(crate) struct MeasuringArgs {
    #[command(flatten)]
    pub(crate) model: GraphModelArgs,

    #[command(flatten)]
    pub(crate) run: RunArgs,

    #[command(flatten)]
    pub(crate) choices: MeasureChoices,

    #[command(flatten)]
    pub(crate) classes: ClassNamesArgs,

    #[command(flatten)]
    pub(crate) preprocessing: PreprocessingArgs,
}

pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("use a whole number from 1 on".to_owned()),
        Ok(count) => Ok(count),
    }
}
