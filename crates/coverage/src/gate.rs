//! What suites must reach, and whether they do.
//!
//! Conditions are written as on the command line: `snpc=0.05` and `snpc=5%` are what a suite must have at
//! least, `snpc=0.8*random` the same as a part of what a random sample of training inputs covers.
//! `0.01` is how much any share may drop, `snpc=0.01` how much one may.
//!
//! Numbers must be chosen, and two suites of the same data differ by chance. So the gate against an
//! earlier state that needs no number asks whether something is *lost*: coverage, beside what random
//! samples of training inputs of the same size cover by the same model, by more than chance and more
//! than a little ([`Relative::is_lost`]); classes, by prediction and by label, and clusters that had
//! enough inputs and have too few;
//! or different inputs, which gave way to copies.

use std::fmt;
use std::str::FromStr;

use npcov_criteria::Amount;
use serde::{Deserialize, Serialize};

use crate::difference::{Change, Counts, Difference, Relative, SuiteDifference};
use crate::missing::{ClassName, Thin};
use crate::report::{ClassCoverage, Report, SuiteReport, Values};

/// The name by which rules speak of the share of inputs that are classified as labelled.
const ACCURACY: &str = "accuracy";

/// Differences that come from the rounding of a division or subtraction count for nothing.
const ROUNDING: f64 = 1e-12;

/// The share of a suite by which copies may become more. As many inputs could be removed at random,
/// and coverage would hardly be less.
const MORE_COPIES: f64 = 0.05;

/// What suites must fulfil.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gate {
    /// What they must reach.
    pub floors: Vec<Floor>,
    /// How much less than earlier it may be. What is said of one criterion goes before what is said
    /// of all.
    pub allowances: Vec<Allowance>,
    /// Whether suites may lose nothing that an earlier state has, by these criteria; `None` where an
    /// earlier state does not matter.
    pub losses: Option<Vec<String>>,
    /// Whether classes may not have far fewer inputs than training would let expect. Clusters may: those
    /// that had enough are a matter of losses.
    pub thin_fails: bool,
}

/// What a suite must reach: `snpc=0.05`, `snpc=5%`, `snpc=0.8*random`.
#[derive(Clone, Debug, PartialEq)]
pub struct Floor {
    /// The criterion, or `accuracy`.
    pub criterion: String,
    /// At least this.
    pub bound: Bound,
}

/// A number, or part of what other inputs reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// A number.
    Value(f64),
    /// So many times what a random sample of as many training inputs covers.
    Random(f64),
    /// So many times what the training inputs cover.
    Training(f64),
}

/// How much a criterion may drop: `0.01`, `snpc=0.01`.
#[derive(Clone, Debug, PartialEq)]
pub struct Allowance {
    /// The criterion, or `accuracy`; `None` for all that are a share.
    pub criterion: Option<String>,
    /// At most by this.
    pub most: f64,
}

/// Why a rule cannot be understood or applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// It is not written as a rule about what a suite must reach.
    #[error("`{0}` is no rule; write `snpc=0.05`, `snpc=5%` or `snpc=0.8*random`")]
    Floor(String),
    /// It is not written as a rule about drops.
    #[error("`{0}` is no drop; write `0.01`, `1%` or `snpc=0.01`")]
    Allowance(String),
    /// The suites were not measured by the criterion.
    #[error("`{criterion}` was not measured; there are {}", .has.join(", "))]
    Unknown {
        /// The criterion.
        criterion: String,
        /// Those that can be named.
        has: Vec<String>,
    },
    /// The earlier state was measured by another list of criteria.
    #[error("`{criterion}` cannot be compared: the earlier state was not measured by it in the same way; both have {}", .has.join(", "))]
    NotCompared {
        /// The criterion.
        criterion: String,
        /// Those that can be compared.
        has: Vec<String>,
    },
    /// A share can be no more than 1.
    #[error("`{criterion}` is a share and cannot reach {bound}: write 5 % as `0.05` or `5%`")]
    Share {
        /// The criterion.
        criterion: String,
        /// What it was to reach.
        bound: String,
    },
    /// There is nothing that the criterion's value could be held against.
    #[error("`{criterion}` has no yardstick; there are some for {}", .has.join(", "))]
    NoBaseline {
        /// The criterion.
        criterion: String,
        /// Those that have.
        has: Vec<String>,
    },
    /// The suite is larger than any sample of the training inputs.
    #[error(
        "suite `{suite}` has {inputs} inputs, and no sample of the {training} training inputs that were measured for `{criterion}` is as large"
    )]
    NoSample {
        /// The suite.
        suite: String,
        /// The criterion.
        criterion: String,
        /// Its number of inputs.
        inputs: usize,
        /// How many training inputs were measured.
        training: u64,
        /// How many training inputs there are.
        all_training: u64,
    },
    /// What each input covers is not kept, so nobody can tell what is chance.
    #[error("`{criterion}` does not keep what each input covers, so nobody can tell a loss from chance; there are {}", .has.join(", "))]
    NoSpread {
        /// The criterion.
        criterion: String,
        /// Those that do.
        has: Vec<String>,
    },
    /// Without labels there is no accuracy.
    #[error("suite `{0}` has no labels, and without them there is no accuracy")]
    NoLabels(String),
    /// There is no earlier state.
    #[error("there is no earlier state that anything could have dropped from")]
    NothingEarlier,
}

/// A number from 0 on: `0.05`, `5%`.
fn amount(text: &str) -> Option<f64> {
    let text = text.trim();
    let number: f64 = match text.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// A criterion and what is said of it. Options of criteria have an equals sign too.
fn named(text: &str) -> Option<(String, &str)> {
    let (name, rest) = text.rsplit_once('=')?;
    let name = name.trim().to_ascii_lowercase();
    (!name.is_empty()).then_some((name, rest))
}

impl FromStr for Bound {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Bound, ConditionError> {
        let wrong = || ConditionError::Floor(text.to_owned());
        let (factor, base) = match text.rsplit_once('*') {
            Some((factor, base)) => (amount(factor).ok_or_else(wrong)?, base.trim()),
            None => (1.0, text.trim()),
        };
        match base {
            "random" => Ok(Bound::Random(factor)),
            "training" => Ok(Bound::Training(factor)),
            _ => amount(text).map(Bound::Value).ok_or_else(wrong),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Value(value) => write!(f, "{value}"),
            Bound::Random(factor) => write!(f, "{factor}*random"),
            Bound::Training(factor) => write!(f, "{factor}*training"),
        }
    }
}

impl FromStr for Floor {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Floor, ConditionError> {
        let wrong = || ConditionError::Floor(text.to_owned());
        let (criterion, bound) = named(text).ok_or_else(wrong)?;
        let bound = bound.parse().map_err(|_| wrong())?;
        Ok(Floor { criterion, bound })
    }
}

impl FromStr for Allowance {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Allowance, ConditionError> {
        let (criterion, most) = match named(text) {
            Some((criterion, most)) => (Some(criterion), most),
            None => (None, text),
        };
        let most = amount(most).ok_or_else(|| ConditionError::Allowance(text.to_owned()))?;
        Ok(Allowance { criterion, most })
    }
}

/// Whether suites fulfil rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Whether all do.
    pub passed: bool,
    /// Whether the model is another than earlier; `None` without an earlier state.
    pub model_changed: Option<bool>,
    /// What each rule found in each suite.
    pub findings: Vec<Finding>,
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
    },
    /// Classes and clusters that had enough inputs must have enough.
    NewlyThin,
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

impl Gate {
    /// Whether there is nothing to fulfil.
    pub fn is_empty(&self) -> bool {
        let quiet = self.losses.is_none() && !self.thin_fails;
        self.floors.is_empty() && self.allowances.is_empty() && quiet
    }

    /// Whether there is a rule about an earlier state.
    pub fn looks_back(&self) -> bool {
        !self.allowances.is_empty() || self.losses.is_some()
    }

    /// Holds suites against the rules, all of them.
    pub fn check(
        &self,
        report: &Report,
        difference: Option<&Difference>,
    ) -> Result<Check, ConditionError> {
        let mut findings = Vec::new();
        for suite in &report.suites {
            for floor in &self.floors {
                findings.push(finding(suite, floor.look(report, suite)?));
            }
            if self.looks_back() {
                let difference = difference.ok_or(ConditionError::NothingEarlier)?;
                if let Some(changes) = difference.suite(&suite.name) {
                    let rules = self.drops(report, suite, changes)?;
                    findings.extend(rules.into_iter().map(|rule| finding(suite, rule)));
                    if let Some(criteria) = &self.losses {
                        findings.extend(losses(criteria, suite, changes)?);
                    }
                }
            }
            if self.thin_fails {
                findings.push(finding(suite, fail_on_thin(suite)));
            }
        }
        let missing = difference.filter(|_| self.looks_back());
        for name in missing.map_or(&[][..], |difference| &difference.missing) {
            findings.push(Finding {
                suite: name.clone(),
                inputs: 0,
                passed: false,
                rule: Condition::MissingSuite,
                thin: Vec::new(),
            });
        }
        Ok(Check {
            passed: findings.iter().all(|finding| finding.passed),
            model_changed: difference.map(|difference| difference.model_changed),
            findings,
        })
    }

    /// What may drop: all shares where nothing else is said, and what is named.
    fn drops(
        &self,
        report: &Report,
        suite: &SuiteReport,
        changes: &SuiteDifference,
    ) -> Result<Vec<Condition>, ConditionError> {
        let own = |name: &str| {
            let mut named = self.allowances.iter();
            named.find(|allowance| allowance.criterion.as_deref() == Some(name))
        };
        let all = self.allowances.iter().find(|a| a.criterion.is_none());
        let mut rules = Vec::new();
        for (name, change) in &changes.criteria.0 {
            let share = report.is_share(name);
            let allowance = own(name).or(all.filter(|_| share));
            if let Some(allowance) = allowance {
                rules.push(Condition::FailOnDrop {
                    criterion: name.clone(),
                    share,
                    change: *change,
                    allowed: allowance.most,
                    old_inputs: changes.inputs.old,
                });
            }
        }
        for allowance in &self.allowances {
            let Some(name) = &allowance.criterion else {
                continue;
            };
            if name == ACCURACY {
                let no_labels = || ConditionError::NoLabels(suite.name.clone());
                rules.push(Condition::FailOnDrop {
                    criterion: name.clone(),
                    share: true,
                    change: changes.accuracy.ok_or_else(no_labels)?,
                    allowed: allowance.most,
                    old_inputs: changes.inputs.old,
                });
            } else if changes.criteria.get(name).is_none() {
                return Err(match suite.criteria.get(name) {
                    None => unknown(name, suite),
                    Some(_) => ConditionError::NotCompared {
                        criterion: name.clone(),
                        has: names(&changes.criteria),
                    },
                });
            }
        }
        Ok(rules)
    }
}

impl Floor {
    fn look(&self, report: &Report, suite: &SuiteReport) -> Result<Condition, ConditionError> {
        let name = &self.criterion;
        let (value, share) = if name == ACCURACY {
            let no_labels = || ConditionError::NoLabels(suite.name.clone());
            (suite.accuracy.ok_or_else(no_labels)?, true)
        } else {
            let value = suite.criteria.get(name).map(Amount::value);
            let value = value.ok_or_else(|| unknown(name, suite))?;
            (value, report.is_share(name))
        };
        let baselines = || {
            let found = suite.baselines.get(name);
            found.ok_or_else(|| ConditionError::NoBaseline {
                criterion: name.clone(),
                has: names(&suite.baselines),
            })
        };
        let required = match self.bound {
            Bound::Value(bound) if share && bound > 1.0 => {
                return Err(ConditionError::Share {
                    criterion: name.clone(),
                    bound: bound.to_string(),
                });
            }
            Bound::Value(bound) => bound,
            Bound::Training(factor) => factor * baselines()?.training,
            Bound::Random(factor) => {
                let random = baselines()?.random;
                factor * random.ok_or_else(|| no_sample(name, suite))?
            }
        };
        Ok(Condition::FailUnder {
            criterion: name.clone(),
            share,
            value,
            required,
            bound: self.bound,
        })
    }
}

fn finding(suite: &SuiteReport, rule: Condition) -> Finding {
    let mut thin = suite.thin();
    if matches!(rule, Condition::FailOnThin { .. }) {
        thin.retain(|thin| thin.cluster.is_none());
    }
    let passed = match &rule {
        Condition::FailUnder {
            value, required, ..
        } => *value + ROUNDING >= *required,
        Condition::FailOnDrop {
            change, allowed, ..
        } => -change.change <= *allowed + ROUNDING,
        Condition::FailOnThin { .. } => thin.is_empty(),
        Condition::FailOnLoss { relative, .. } => !relative.is_lost(),
        Condition::MoreCopies { copies, old_inputs } => {
            let share = |copies: usize, inputs: usize| copies as f64 / inputs.max(1) as f64;
            let (new, old) = (
                share(copies.new, suite.inputs),
                share(copies.old, *old_inputs),
            );
            new - old <= MORE_COPIES + ROUNDING
        }
        Condition::NewlyThin | Condition::MissingSuite => false,
    };
    Finding {
        suite: suite.name.clone(),
        inputs: suite.inputs,
        passed,
        rule,
        thin: if passed { Vec::new() } else { thin },
    }
}

/// What a suite has lost, or not: coverage by each of the criteria, classes and clusters, different
/// inputs.
fn losses(
    criteria: &[String],
    suite: &SuiteReport,
    changes: &SuiteDifference,
) -> Result<Vec<Finding>, ConditionError> {
    let old_inputs = changes.inputs.old;
    let mut findings = Vec::new();
    for name in criteria {
        let Some(relative) = changes.relative.get(name) else {
            return Err(why_not_compared(name, suite, changes));
        };
        let rule = Condition::FailOnLoss {
            criterion: name.clone(),
            relative,
            lowest: relative.lowest(),
            old_inputs,
        };
        findings.push(finding(suite, rule));
    }
    findings.push(Finding {
        suite: suite.name.clone(),
        inputs: suite.inputs,
        passed: changes.thinned.is_empty(),
        rule: Condition::NewlyThin,
        thin: changes.thinned.clone(),
    });
    if let Some(copies) = changes.copies {
        findings.push(finding(suite, Condition::MoreCopies { copies, old_inputs }));
    }
    Ok(findings)
}

/// Why what a suite covers cannot be held against what random samples cover, then and now.
fn why_not_compared(name: &str, suite: &SuiteReport, changes: &SuiteDifference) -> ConditionError {
    if suite.criteria.get(name).is_none() {
        return unknown(name, suite);
    }
    match suite.baselines.get(name) {
        None => ConditionError::NoBaseline {
            criterion: name.to_owned(),
            has: names(&suite.baselines),
        },
        Some(baselines) if baselines.of_random.is_none() => no_sample(name, suite),
        Some(baselines) if baselines.spread.is_none() => ConditionError::NoSpread {
            criterion: name.to_owned(),
            has: names(&changes.relative),
        },
        Some(_) => ConditionError::NotCompared {
            criterion: name.to_owned(),
            has: names(&changes.relative),
        },
    }
}

fn no_sample(name: &str, suite: &SuiteReport) -> ConditionError {
    let baselines = suite.baselines.get(name);
    ConditionError::NoSample {
        suite: suite.name.clone(),
        criterion: name.to_owned(),
        inputs: suite.inputs,
        training: baselines.map_or(0, |baselines| baselines.inputs),
        all_training: baselines.map_or(0, |baselines| baselines.all_inputs),
    }
}

fn fail_on_thin(suite: &SuiteReport) -> Condition {
    let (judged, not_judged) = suite.judged_classes();
    let enough = not_judged.iter().filter_map(|class| class.enough).max();
    let names = |classes: &[&ClassCoverage]| classes.iter().map(|c| c.class_name()).collect();
    let others = suite.classes.iter().filter(|class| class.enough.is_none());
    Condition::FailOnThin {
        judged: names(&judged),
        not_judged: names(&not_judged),
        not_expected: others.map(ClassCoverage::class_name).collect(),
        enough: enough.unwrap_or(suite.inputs as u64),
    }
}

fn unknown(criterion: &str, suite: &SuiteReport) -> ConditionError {
    let mut has = names(&suite.criteria);
    if suite.accuracy.is_some() {
        has.insert(0, ACCURACY.to_owned());
    }
    ConditionError::Unknown {
        criterion: criterion.to_owned(),
        has,
    }
}

fn names<T>(values: &Values<T>) -> Vec<String> {
    values.0.iter().map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headline::Baselines;
    use crate::missing::CountedBy;
    use proptest::prelude::*;

    fn values<T: Copy>(list: &[(&str, T)]) -> Values<T> {
        let entry = |&(name, value): &(&str, T)| (name.to_owned(), value);
        Values(list.iter().map(entry).collect())
    }

    /// So many of a hundred things.
    fn percent(covered: u64) -> Amount {
        Amount::Share {
            covered,
            total: 100,
        }
    }

    /// Half of SNPC, 0.3 of KMNC, and a count; four classes, of which the suite has one and misses
    /// another. Training hardly showed the third, and never the last.
    fn example() -> Report {
        let baselines = Baselines {
            training: 0.8,
            random: Some(0.6),
            reachable: 80,
            inputs: 50,
            all_inputs: 50,
            of_training: 0.5 / 0.8,
            of_random: Some(0.5 / 0.6),
            spread: Some(0.02),
        };
        let class =
            |class: usize, inputs: usize, expected: f64, enough: Option<u64>| ClassCoverage {
                class,
                name: (class == 1).then(|| "dress".to_owned()),
                inputs,
                expected,
                p: 0.001,
                thin: class == 1,
                enough,
                labelled: None,
                criteria: Values::default(),
            };
        Report {
            suites: vec![SuiteReport {
                name: "test".to_owned(),
                inputs: 10,
                accuracy: Some(0.9),
                criteria: values(&[
                    ("snpc", percent(50)),
                    ("kmnc", percent(30)),
                    ("tknp", Amount::Count(7)),
                ]),
                baselines: values(&[("snpc", baselines)]),
                classes: vec![
                    class(0, 10, 4.0, Some(5)),
                    class(1, 0, 5.9, Some(4)),
                    class(2, 0, 0.1, Some(600)),
                    class(3, 0, 0.0, None),
                ],
                ..SuiteReport::default()
            }],
            together: None,
            buckets: values(&[("snpc", 100), ("kmnc", 100)]),
            warnings: Vec::new(),
        }
    }

    fn dress(earlier: Option<usize>) -> Thin {
        Thin {
            class: ClassName {
                class: 1,
                name: Some("dress".to_owned()),
            },
            cluster: None,
            by: CountedBy::Prediction,
            inputs: 0,
            expected: 5.9,
            earlier,
        }
    }

    fn difference() -> Difference {
        Difference {
            model_changed: true,
            graph_changed: true,
            suites: vec![SuiteDifference {
                name: "test".to_owned(),
                earlier: "test".to_owned(),
                inputs: Counts { old: 10, new: 10 },
                accuracy: Some(Change::between(0.95, 0.9)),
                criteria: values(&[
                    ("snpc", Change::between(0.51, 0.5)),
                    ("kmnc", Change::between(0.4, 0.3)),
                    ("tknp", Change::between(9.0, 7.0)),
                ]),
                relative: values(&[(
                    "snpc",
                    Relative {
                        change: Change::between(0.86, 0.5 / 0.6),
                        spread: 0.03,
                    },
                )]),
                things: Values::default(),
                classes: Vec::new(),
                thinned: Vec::new(),
                copies: Some(Counts { old: 1, new: 1 }),
            }],
            ..Difference::default()
        }
    }

    fn nothing_lost(criteria: &[&str]) -> Gate {
        Gate {
            losses: Some(criteria.iter().map(|&name| name.to_owned()).collect()),
            ..Gate::default()
        }
    }

    fn floors(text: &str) -> Gate {
        Gate {
            floors: text.split(',').map(|rule| rule.parse().unwrap()).collect(),
            ..Gate::default()
        }
    }

    fn drops(text: &str) -> Gate {
        Gate {
            allowances: text.split(',').map(|rule| rule.parse().unwrap()).collect(),
            ..Gate::default()
        }
    }

    fn passed(rules: &Gate) -> Vec<bool> {
        let check = rules.check(&example(), Some(&difference())).unwrap();
        let passed: Vec<bool> = check.findings.iter().map(|f| f.passed).collect();
        assert_eq!(check.passed, passed.iter().all(|&passed| passed));
        passed
    }

    #[test]
    fn rules_are_written_in_several_ways() {
        for (text, criterion, bound) in [
            ("snpc=0.05", "snpc", Bound::Value(0.05)),
            ("SNPC = 5 %", "snpc", Bound::Value(0.05)),
            ("tknp=50", "tknp", Bound::Value(50.0)),
            ("snpc=0.8*random", "snpc", Bound::Random(0.8)),
            ("snpc=80% * training", "snpc", Bound::Training(0.8)),
            ("nc@0.5=random", "nc@0.5", Bound::Random(1.0)),
            (
                "kmnc:sections=10=0.4",
                "kmnc:sections=10",
                Bound::Value(0.4),
            ),
        ] {
            let criterion = criterion.to_owned();
            assert_eq!(text.parse(), Ok(Floor { criterion, bound }), "{text}");
        }
        for wrong in [
            "",
            "snpc",
            "0.05",
            "snpc=",
            "=0.05",
            "snpc=x",
            "snpc=-1",
            "snpc=nan",
            "snpc=inf",
            "snpc=0.8*",
            "snpc=*random",
            "snpc=0.8*rnd",
            "snpc=random*0.8",
            "snpc=%",
        ] {
            assert!(wrong.parse::<Floor>().is_err(), "{wrong}");
        }
        for (text, criterion, most) in [
            ("0.01", None, 0.01),
            ("1%", None, 0.01),
            ("snpc=0", Some("snpc"), 0.0),
        ] {
            let criterion = criterion.map(str::to_owned);
            assert_eq!(text.parse(), Ok(Allowance { criterion, most }), "{text}");
        }
        for wrong in ["", "snpc", "snpc=", "=1", "-0.01", "0.5*random"] {
            assert!(wrong.parse::<Allowance>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn bounds_are_read_as_they_are_written(number in 0.0..1e6_f64, kind in 0..3) {
            let bound = [Bound::Value, Bound::Random, Bound::Training][kind as usize](number);
            prop_assert_eq!(bound.to_string().parse(), Ok(bound));
        }

        #[test]
        fn any_text_is_a_rule_or_an_error(text in "[a-z@:=*%0-9., -]{0,12}") {
            if let Ok(floor) = text.parse::<Floor>() {
                let again = format!("{}={}", floor.criterion, floor.bound);
                prop_assert_eq!(again.parse(), Ok(floor));
            }
            if let Ok(allowance) = text.parse::<Allowance>() {
                prop_assert!(allowance.most.is_finite() && allowance.most >= 0.0);
            }
        }
    }

    #[test]
    fn all_floors_are_looked_at() {
        // 0.6 of the random 0.6 is 0.36, of the training's 0.8 is 0.48.
        let rules = "snpc=0.5,snpc=51%,kmnc=0.4,tknp=7,accuracy=0.9,snpc=0.6*random,\
                     snpc=0.6*training,snpc=random";
        let expected = [true, false, false, true, true, true, true, false];
        assert_eq!(passed(&floors(rules)), expected);
        let check = floors("snpc=0.6,snpc=0.1").check(&example(), None).unwrap();
        assert_eq!(check.findings[0].thin, [dress(None)]);
        assert!(check.findings[1].thin.is_empty() && check.model_changed.is_none());
    }

    #[test]
    fn shares_may_drop_by_as_much_as_is_allowed() {
        // 0.51 - 0.5 is a little more than 0.01 in floating point; counts are not shares.
        assert!(Change::between(0.51, 0.5).change < -0.01);
        assert_eq!(passed(&drops("0.01")), [true, false]);
        assert_eq!(passed(&drops("0.009")), [false, false]);
        assert_eq!(passed(&drops("0.01,kmnc=0.2")), [true, true]);
        assert_eq!(passed(&drops("tknp=1,accuracy=0.04")), [false, false]);
        assert_eq!(passed(&drops("tknp=2,accuracy=0.05")), [true, true]);
        let check = drops("1").check(&example(), Some(&difference())).unwrap();
        assert_eq!(check.model_changed, Some(true));
    }

    #[test]
    fn suites_that_are_gone_fail() {
        let gone = Difference {
            missing: vec!["field".to_owned()],
            ..difference()
        };
        let check = drops("1").check(&example(), Some(&gone)).unwrap();
        let last = check.findings.last().unwrap();
        assert_eq!(
            (last.suite.as_str(), &last.rule),
            ("field", &Condition::MissingSuite)
        );
        assert!(!check.passed);
        // Who does not ask about drops is not told.
        let check = floors("snpc=0.1").check(&example(), Some(&gone)).unwrap();
        assert!(check.passed);
    }

    #[test]
    fn classes_that_can_be_judged_must_have_inputs() {
        let rules = Gate {
            thin_fails: true,
            ..Gate::default()
        };
        let check = rules.check(&example(), None).unwrap();
        assert!(!check.passed);
        assert_eq!(check.findings[0].thin, [dress(None)]);
        let Condition::FailOnThin {
            judged,
            not_judged,
            not_expected,
            enough,
        } = &check.findings[0].rule
        else {
            panic!("{check:?}");
        };
        let numbers = |classes: &[ClassName]| classes.iter().map(|c| c.class).collect::<Vec<_>>();
        assert_eq!(
            (numbers(judged), numbers(not_judged)),
            (vec![0, 1], vec![2])
        );
        assert_eq!((*enough, numbers(not_expected)), (600, vec![3]));
        let mut whole = example();
        whole.suites[0].classes.remove(1);
        assert!(rules.check(&whole, None).unwrap().passed);
    }

    #[test]
    fn nothing_may_be_lost() {
        let gate = nothing_lost(&["snpc"]);
        // 0.833 after 0.86 is chance, and one copy as before.
        assert_eq!(passed(&gate), [true, true, true]);
        let check = |change: &dyn Fn(&mut SuiteDifference)| {
            let mut difference = difference();
            change(&mut difference.suites[0]);
            gate.check(&example(), Some(&difference)).unwrap()
        };
        let fell = check(&|suite| suite.relative.0[0].1.change = Change::between(1.0, 0.8));
        let failed = |check: &Check| -> Vec<bool> {
            check
                .findings
                .iter()
                .map(|finding| !finding.passed)
                .collect()
        };
        assert_eq!(failed(&fell), [true, false, false]);
        assert_eq!(fell.findings[0].thin, [dress(None)]);
        let thinned = check(&|suite| suite.thinned.push(dress(Some(4))));
        assert_eq!(failed(&thinned), [false, true, false]);
        assert_eq!(thinned.findings[1].thin, [dress(Some(4))]);
        let copied = check(&|suite| suite.copies = Some(Counts { old: 0, new: 5 }));
        assert_eq!(failed(&copied), [false, false, true]);
        // Where nobody can tell, nothing is said.
        assert_eq!(failed(&check(&|suite| suite.copies = None)), [false, false]);
    }

    #[test]
    fn rules_that_cannot_be_applied_name_what_is_there() {
        for (rules, message) in [
            (
                floors("nlc=1"),
                "`nlc` was not measured; there are accuracy, snpc, kmnc, tknp",
            ),
            (
                floors("snpc=5"),
                "`snpc` is a share and cannot reach 5: write 5 % as `0.05` or `5%`",
            ),
            (
                floors("kmnc=random"),
                "`kmnc` has no yardstick; there are some for snpc",
            ),
            (
                drops("nlc=1"),
                "`nlc` was not measured; there are accuracy, snpc, kmnc, tknp",
            ),
            (
                nothing_lost(&["nlc"]),
                "`nlc` was not measured; there are accuracy, snpc, kmnc, tknp",
            ),
            (
                nothing_lost(&["snpc", "kmnc"]),
                "`kmnc` has no yardstick; there are some for snpc",
            ),
        ] {
            let error = rules.check(&example(), Some(&difference())).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        let mut larger = example();
        larger.suites[0].baselines.0[0].1.random = None;
        larger.suites[0].accuracy = None;
        let error = floors("snpc=random").check(&larger, None).unwrap_err();
        assert!(matches!(
            error,
            ConditionError::NoSample { training: 50, .. }
        ));
        let mut unknown = difference();
        unknown.suites[0].relative = Values::default();
        let lost = nothing_lost(&["snpc"]);
        larger.suites[0].baselines.0[0].1.of_random = None;
        let error = lost.check(&larger, Some(&unknown)).unwrap_err();
        assert!(matches!(error, ConditionError::NoSample { .. }));
        larger.suites[0].baselines.0[0].1.of_random = Some(0.8);
        larger.suites[0].baselines.0[0].1.spread = None;
        let error = lost.check(&larger, Some(&unknown)).unwrap_err();
        assert!(matches!(error, ConditionError::NoSpread { .. }));
        let error = floors("accuracy=0.1").check(&larger, None).unwrap_err();
        assert_eq!(error, ConditionError::NoLabels("test".to_owned()));
        let error = drops("0.1").check(&larger, None).unwrap_err();
        assert_eq!(error, ConditionError::NothingEarlier);
        let mut other = difference();
        other.suites[0].criteria.0.remove(1);
        let error = drops("kmnc=0.1")
            .check(&example(), Some(&other))
            .unwrap_err();
        assert!(
            matches!(error, ConditionError::NotCompared { has, .. } if has == ["snpc", "tknp"])
        );
    }
}
