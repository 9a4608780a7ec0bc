//! Arguments that several commands take.

use std::ops::Range;

use clap::{Args, ValueEnum};
use npcov::run::Part;

use crate::value::Threads;

/// How work is done, and its result printed.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) threads: ThreadsArgs,

    #[command(flatten)]
    pub(crate) print: PrintArgs,
}

/// What work is done by.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ThreadsArgs {
    /// How many threads to use; all cores by default
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<Threads>,
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct PrintArgs {
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// How to print a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs: a versioned format, see `docs/json.md`
    Json,
}

/// How many inputs are used.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LimitArgs {
    /// Use only the first N inputs
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

impl LimitArgs {
    /// Those of so many inputs that are used.
    pub(crate) fn range(self, inputs: usize) -> Range<usize> {
        0..self.limit.map_or(inputs, |limit| limit.min(inputs))
    }
}

/// Which inputs of suites are measured, where `merge` unites what is found.
#[derive(Clone, Copy, Debug, Args)]
#[command(mut_arg("limit", |limit| limit
    .help("Use only the first N inputs of each suite")
    .conflicts_with("shard")))]
pub(crate) struct SuiteRangeArgs {
    #[command(flatten)]
    pub(crate) limit: LimitArgs,

    /// Measure only this part of each suite: `1/4` is the first quarter; `npcov merge` unites them
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<Part>,
}

impl SuiteRangeArgs {
    /// Those of so many inputs that are measured.
    pub(crate) fn range(self, inputs: usize) -> Range<usize> {
        match self.shard {
            Some(part) => part.of(inputs),
            None => self.limit.range(inputs),
        }
    }
}

/// Work that several processes share.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct PartsArgs {
    /// Do only this part of the work, and keep it beside the file to write: `1/4` is the first quarter
    ///
    /// Several processes can do their parts at the same time, on one machine or on several: in one folder
    /// that all of them see, or each in its own, to be copied together. `docs/scale.md` has examples.
    #[arg(long, value_name = "I/N", conflicts_with = "join")]
    pub(crate) shard: Option<Part>,

    /// Make the result of all parts that `--shard` left beside the file to write
    ///
    /// It is to the byte what one process makes. All other options are those that the parts were made with;
    /// parts that are missing, damaged or made otherwise are named.
    #[arg(long)]
    pub(crate) join: bool,
}
