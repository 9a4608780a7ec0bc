//! The arguments of commands that look at coverage states.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use npcov::coverage::{Allowance, Floor};

/// Show what a coverage state says, beside yardsticks
///
/// A bare number says little: most buckets may be out of reach. So beside the value of each suite
/// stands what a random sample of as many training inputs covers on average, what all training
/// inputs cover, and how many things that are. Then classes, clusters with few inputs, layers, and
/// the inputs without which the suite would cover least.
///
/// With `--against`, also what changed since an earlier state. A retrained model is no obstacle:
/// values are compared and marked, single buckets only for the same decision graph.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov report state.npcov
  npcov report state.npcov --against main.npcov --format markdown >> $GITHUB_STEP_SUMMARY
  npcov report state.npcov --suite unit --suite field
  npcov report state.npcov --format json | jq '.suites[0].yardsticks.snpc'")]
pub(crate) struct ReportArgs {
    /// The coverage state
    #[arg(value_name = "STATE")]
    pub(crate) state: PathBuf,

    /// Say what changed since this earlier state
    #[arg(long, value_name = "STATE")]
    pub(crate) against: Option<PathBuf>,

    /// Only this suite; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) suite: Vec<String>,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) format: ReportFormat,
}

/// How to print a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people
    Text,
    /// For programs: a versioned format, see `docs/json.md`
    Json,
    /// For pull requests
    Markdown,
    /// For programs that collect test results: JUnit XML
    Junit,
}

/// Fail when suites cover too little
///
/// Holds the suites of a coverage state against rules, and prints a line for each: first those that
/// do not hold, with the reason, then the others. The exit code is 0 when all hold, 1 when one does
/// not, and 2 when a rule cannot be applied or a state cannot be read. `docs/ci.md` shows how to use
/// it in CI.
///
/// Rules can stand in `npcov.toml`, in a table `[check]` with keys named as the flags.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov check state.npcov --fail-under snpc=0.05,accuracy=90%
  npcov check state.npcov --fail-under snpc=0.8*random --fail-on-thin
  npcov check state.npcov --fail-on-drop 0.01 --against main.npcov
  npcov check state.npcov --fail-on-drop 0.01,kmnc=0.05 --against main.npcov --format junit")]
pub(crate) struct CheckArgs {
    /// The coverage state
    #[arg(value_name = "STATE")]
    pub(crate) state: PathBuf,

    /// What every suite must reach: `snpc=0.05,kmnc=40%,accuracy=0.9`
    ///
    /// Criteria by the names that `report --format json` shows, or `accuracy`. A number, a
    /// percentage, or part of a yardstick: `snpc=0.8*random` is 0.8 of what as many training inputs,
    /// drawn at random, cover on average, `snpc=0.5*training` half of what all of them cover.
    #[arg(long, value_name = "RULE,...", value_delimiter = ',')]
    pub(crate) fail_under: Option<Vec<Floor>>,

    /// How much less than in `--against` it may be: `0.01`, or `snpc=0.01,kmnc=0.02`
    ///
    /// `0.01` (or `1%`) allows every criterion that is a share to fall by one point; what is said of
    /// a criterion by name goes before it. A suite that is no longer there has fallen.
    #[arg(long, value_name = "DROP,...", value_delimiter = ',')]
    pub(crate) fail_on_drop: Option<Vec<Allowance>>,

    /// Fail when a class has no inputs, or far fewer than training would let expect
    #[arg(long)]
    pub(crate) fail_on_thin: bool,

    /// The earlier state, for `--fail-on-drop`; that of another model will do
    #[arg(long, value_name = "STATE")]
    pub(crate) against: Option<PathBuf>,

    /// Only this suite; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) suite: Vec<String>,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = CheckFormat::Text)]
    pub(crate) format: CheckFormat,
}

/// How to print what was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// For people
    Text,
    /// For programs: a versioned format, see `docs/json.md`
    Json,
    /// For programs that collect test results: JUnit XML
    Junit,
}
