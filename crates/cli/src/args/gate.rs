//! The arguments of commands that look at coverage states.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use npcov::coverage::{Allowance, Floor, ThinRule};
use serde::Deserialize;

use super::ThreadsArgs;
use crate::value::Shares;

/// What is shown of coverage, and what suites should be like.
#[derive(Debug, Args)]
pub(crate) struct DetailArgs {
    /// Show every criterion with a word on what it means, all classes, layers, and the inputs that add
    /// most
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) class_shares: ClassSharesArgs,
}

/// What suites should be like.
#[derive(Debug, Args)]
pub(crate) struct ClassSharesArgs {
    /// How frequent classes should be in a suite: `training`, `balanced`, or a file
    ///
    /// By default as frequent as among training inputs, by prediction and by label. `balanced` is for suites that
    /// have all classes alike on purpose. A file has a number for each class, its share or how many
    /// inputs of it there should be, with commas or space between them. In `npcov.toml`:
    /// `class-shares`.
    #[arg(long, value_name = "SHARES")]
    pub(crate) class_shares: Option<Shares>,
}

/// Show what a coverage state says, beside yardsticks
///
/// A bare number says little: most buckets may be out of reach. So first comes what each suite
/// reaches as a part of what as many training inputs, drawn at random, reach on average, and by how
/// much chance moves that. Then gaps, which are classes and clusters with far fewer inputs than
/// training would let expect, and the classes. `--all` shows every criterion, layers, and the inputs
/// without which the suite would cover least.
///
/// With `--against`, also what changed since an earlier state. A retrained model is no obstacle:
/// values are compared and marked, single buckets only for the same decision graph.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov report state.npcov
  npcov report state.npcov --against main.npcov --format markdown >> $GITHUB_STEP_SUMMARY
  npcov report state.npcov --html report --data test.npz
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

    #[command(flatten)]
    pub(crate) detail: DetailArgs,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) format: ReportFormat,

    #[command(flatten)]
    pub(crate) pages: PageArgs,
}

/// The report as pages.
#[derive(Debug, Args)]
#[command(next_help_heading = "Pages")]
pub(crate) struct PageArgs {
    /// Write pages with pictures into this folder: open its `index.html`
    ///
    /// What is covered and what is missing, with typical inputs, heat maps, errors in groups and a map
    /// of the clusters. Nothing is loaded from anywhere, and everything shown is in the `report.json`
    /// beside the pages. Rules of the table `[check]` of `npcov.toml` are the verdict.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) html: Option<PathBuf>,

    /// Write the overview and the ten clusters that need it most as one file
    #[arg(long, value_name = "FILE.html")]
    pub(crate) single_file: Option<PathBuf>,

    /// The decision graph; by default the one beside the state
    #[arg(long, value_name = "GRAPH")]
    pub(crate) graph: Option<PathBuf>,

    /// The model's file, if it is no longer where it was
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// Data of a suite, or training data, for their pictures; may be repeated
    ///
    /// Which it is, its content tells: data that is not what was measured is not shown. Training data is
    /// looked for where it was, suites beside the state by their names.
    #[arg(long, value_name = "DATA")]
    pub(crate) data: Vec<OsString>,

    /// Show what this pool offers for each gap: npz, npy, IDX, CIFAR binary, or a folder of images
    #[arg(long, value_name = "DATA")]
    pub(crate) pool: Option<OsString>,

    /// What the features of a table are called, one a line
    #[arg(long, value_name = "FILE")]
    pub(crate) feature_names: Option<PathBuf>,

    /// The words that tokens stand for, one a line, the first one that of 0
    #[arg(long, value_name = "FILE")]
    pub(crate) words: Option<PathBuf>,

    /// The address that Markdown and JUnit link to; by default the file
    #[arg(long, value_name = "URL")]
    pub(crate) link: Option<String>,

    #[command(flatten)]
    pub(crate) threads: ThreadsArgs,
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

/// Fail when suites lose something, or cover too little
///
/// With `--against EARLIER` alone, fails when a suite has lost something that it had: coverage, by
/// more than chance; a class or a cluster; or different inputs, which gave way to copies. No number
/// has to be chosen, the model may have been trained again, and the suite may have another size.
///
/// Other rules have numbers. Each is a line of the result: first those that do not hold, with the
/// reason, then the others. The exit code is 0 when all hold, 1 when one does not, and 2 when a rule
/// cannot be applied or a state cannot be read. `docs/ci.md` shows how to use it in CI.
///
/// Rules can stand in `npcov.toml`, in a table `[check]` with keys named as the flags.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  npcov check state.npcov --against main.npcov
  npcov check state.npcov --against main.npcov --fail-under accuracy=90%
  npcov check state.npcov --fail-under snpc=0.8*random --fail-on-thin=clusters
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

    /// Fail when something of `--against` is lost, by these criteria: `snpc`, `snpc,anpc`
    ///
    /// Coverage as a part of what as many random training inputs reach may not fall by more than chance
    /// and more than a twentieth; classes and clusters that had enough inputs must have enough; and no
    /// more than a twentieth of the inputs may have become copies. With `--against` and without
    /// `--fail-on-drop`, that is the rule, by SNPC.
    #[arg(long, value_name = "CRITERION,...", value_delimiter = ',')]
    pub(crate) fail_on_loss: Option<Vec<String>>,

    /// Fail when a class has far fewer inputs than training would let expect; `=clusters`: or a cluster
    ///
    /// By more than chance, so small suites are judged on few classes and clusters; the result says on which.
    #[arg(
        long,
        value_name = "PARTS",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "classes"
    )]
    pub(crate) fail_on_thin: Option<ThinParts>,

    /// The earlier state; that of another model will do
    #[arg(long, value_name = "STATE")]
    pub(crate) against: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) class_shares: ClassSharesArgs,

    /// Only this suite; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) suite: Vec<String>,

    /// The address of the report's pages, for JUnit to link to
    #[arg(long, value_name = "URL")]
    pub(crate) link: Option<String>,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = CheckFormat::Text)]
    pub(crate) format: CheckFormat,
}

/// What must have inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ThinParts {
    /// Classes
    Classes,
    /// Classes, and clusters of them
    Clusters,
}

impl From<ThinParts> for ThinRule {
    fn from(parts: ThinParts) -> ThinRule {
        match parts {
            ThinParts::Classes => ThinRule::Classes,
            ThinParts::Clusters => ThinRule::Clusters,
        }
    }
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
