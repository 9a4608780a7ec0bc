//! What rules found in suites, and what they looked at.

use serde::{Deserialize, Serialize};

use super::Bound;
use crate::difference::{Change, Counts, Difference, Relative};
use crate::headline::Baselines;
use crate::missing::{ClassName, Judged, Thin};
use crate::report::SuiteReport;

/// Differences that come from the rounding of a division or subtraction count for nothing.
const ROUNDING: f64 = 1e-12;

/// The share of a suite by which copies may become more. As many inputs could be removed at random,
/// and coverage would hardly be less.
const MORE_COPIES: f64 = 0.05;

/// Whether suites fulfil rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Check {
    /// Whether all do.
    pub passed: bool,
    /// Whether the model is another than earlier; `None` without an earlier state.
    pub model_changed: Option<bool>,
    /// What each rule found in each suite.
    pub findings: Vec<Finding>,
}

impl Check {
    /// What rules found, since an earlier state where there is one.
    pub fn new(findings: Vec<Finding>, since: Option<&Difference>) -> Check {
        Check {
            passed: findings.iter().all(|finding| finding.passed),
            model_changed: since.map(|difference| difference.model_changed),
            findings,
        }
    }
}

/// What a rule found in a suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The suite.
    pub suite: String,
    /// Its number of inputs.
    pub inputs: usize,
    /// Whether it fulfils the rule.
    pub passed: bool,
    /// The rule, and what it looked at.
    #[serde(flatten)]
    pub rule: Condition,
    /// Where it does not: classes and clusters that the suite has far fewer inputs of than expected.
    pub thin: Vec<Thin>,
}

/// What a yardstick was computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct YardstickSource {
    /// Training inputs that were measured.
    pub inputs: u64,
    /// Training inputs there are.
    pub all_inputs: u64,
}

impl YardstickSource {
    pub(super) fn of(baselines: &Baselines) -> YardstickSource {
        YardstickSource {
            inputs: baselines.inputs,
            all_inputs: baselines.all_inputs,
        }
    }

    /// Whether a sample of the training inputs was measured, not all of them.
    pub fn is_sample(&self) -> bool {
        self.inputs < self.all_inputs
    }
}

/// A rule, and what it looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum Condition {
    /// What the suite must reach.
    FailUnder {
        /// The criterion, or `accuracy`.
        criterion: String,
        /// Whether it is a share.
        share: bool,
        /// What the suite is worth.
        value: f64,
        /// What it must be.
        required: f64,
        /// Where that comes from.
        bound: Bound,
        /// What its yardstick was computed from; `None` for a plain number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        yardstick: Option<YardstickSource>,
    },
    /// How much less it may be than earlier.
    FailOnDrop {
        /// The criterion, or `accuracy`.
        criterion: String,
        /// Whether it is a share.
        share: bool,
        /// Then and now.
        #[serde(flatten)]
        change: Change,
        /// How much less it may be.
        allowed: f64,
        /// How many inputs the suite had.
        old_inputs: usize,
    },
    /// Classes must have inputs.
    FailOnThin {
        /// Classes of which the suite would show that they are missing.
        judged: Vec<ClassName>,
        /// Classes for which it is too small.
        not_judged: Vec<ClassName>,
        /// Classes that no inputs are expected of: training inputs are never classified as them.
        not_expected: Vec<ClassName>,
        /// Inputs that would be enough to judge all of them.
        enough: u64,
    },
    /// Clusters must have inputs.
    FailOnThinClusters {
        /// How many could be judged.
        judged: Judged,
    },
    /// As much as earlier must be covered, beside what random training inputs cover.
    FailOnLoss {
        /// The criterion.
        criterion: String,
        /// Then and now.
        #[serde(flatten)]
        relative: Relative,
        /// The lowest value that is no loss.
        lowest: f64,
        /// How many inputs the suite had.
        old_inputs: usize,
        /// What the yardstick was computed from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        yardstick: Option<YardstickSource>,
    },
    /// Whether as much as earlier is covered cannot be told: no random sample is as large as the suite is,
    /// or was.
    LossNotJudged {
        /// The criterion.
        criterion: String,
        /// Inputs of the suite that is too large.
        too_many: usize,
        /// The training inputs that samples are drawn from.
        yardstick: YardstickSource,
    },
    /// Classes and clusters that had enough inputs must have enough.
    NewlyThin {
        /// How many could be judged.
        #[serde(default)]
        judged: Judged,
    },
    /// Inputs must be as different as they were.
    MoreCopies {
        /// Inputs that are copies of others, then and now.
        copies: Counts,
        /// How many inputs the suite had.
        old_inputs: usize,
    },
    /// The suite is in the earlier state only.
    MissingSuite,
}

/// What a rule found in a suite.
pub(super) fn finding(suite: &SuiteReport, rule: Condition) -> Finding {
    let mut thin = suite.thin();
    match rule {
        Condition::FailOnThin { .. } => thin.retain(|thin| thin.cluster.is_none()),
        Condition::FailOnThinClusters { .. } => thin.retain(|thin| thin.cluster.is_some()),
        _ => {}
    }
    let passed = match &rule {
        Condition::FailUnder {
            value, required, ..
        } => *value + ROUNDING >= *required,
        Condition::FailOnDrop {
            change, allowed, ..
        } => -change.change <= *allowed + ROUNDING,
        Condition::FailOnThin { .. } | Condition::FailOnThinClusters { .. } => thin.is_empty(),
        Condition::LossNotJudged { .. } => true,
        Condition::FailOnLoss { relative, .. } => !relative.is_lost(),
        Condition::MoreCopies { copies, old_inputs } => {
            let share = |copies: usize, inputs: usize| copies as f64 / inputs.max(1) as f64;
            let (new, old) = (
                share(copies.new, suite.inputs),
                share(copies.old, *old_inputs),
            );
            new - old <= MORE_COPIES + ROUNDING
        }
        Condition::NewlyThin { .. } | Condition::MissingSuite => false,
    };
    Finding {
        suite: suite.name.clone(),
        inputs: suite.inputs,
        passed,
        rule,
        thin: if passed { Vec::new() } else { thin },
    }
}
