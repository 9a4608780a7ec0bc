//! What suites may not lose of what an earlier state has: coverage, beside what random samples of training
//! inputs of the same size cover by the same model, by more than chance and more than a little
//! ([`Relative::is_lost`](crate::Relative::is_lost)); classes, by prediction and by label, and clusters that had enough
//! inputs and have too few; or different inputs, which gave way to copies.

use npcov_criteria::judging_criterion;

use super::{
    Condition, ConditionError, Finding, YardstickSource, finding, names, no_sample, unknown,
};
use crate::difference::SuiteDifference;
use crate::report::SuiteReport;

/// What suites may not lose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Losses {
    /// Coverage by SNPC where chance can be told from loss, classes, clusters, and different inputs.
    Usual,
    /// The same by these criteria. One by which nothing can be told is an error.
    By(Vec<String>),
}

impl Losses {
    /// What a suite has lost, or not: coverage by each of the criteria, classes and clusters, different
    /// inputs.
    pub(super) fn look(
        &self,
        suite: &SuiteReport,
        changes: &SuiteDifference,
    ) -> Result<Vec<Finding>, ConditionError> {
        let criteria = match self {
            Losses::Usual => judging_criterion()
                .map(|criterion| criterion.name.to_owned())
                .into_iter()
                .collect(),
            Losses::By(criteria) => criteria.clone(),
        };
        let old_inputs = changes.inputs.old;
        let mut findings = Vec::new();
        for name in &criteria {
            let Some(relative) = changes.relative.get(name) else {
                match (self, why_not_compared(name, suite, changes)) {
                    (
                        Losses::Usual,
                        ConditionError::NoSample {
                            inputs,
                            training,
                            all_training,
                            ..
                        },
                    ) => {
                        findings.push(finding(
                            suite,
                            Condition::LossNotJudged {
                                criterion: name.clone(),
                                too_many: inputs,
                                yardstick: YardstickSource {
                                    inputs: training,
                                    all_inputs: all_training,
                                },
                            },
                        ));
                        continue;
                    }
                    (_, error) => return Err(error),
                }
            };
            let baselines = suite.baselines.get(name);
            let mut found = finding(
                suite,
                Condition::FailOnLoss {
                    criterion: name.clone(),
                    relative,
                    lowest: relative.lowest(),
                    old_inputs,
                    yardstick: baselines.as_ref().map(YardstickSource::of),
                },
            );
            // What became thin is named by a finding of its own.
            let is_named = |class: usize, cluster| {
                let mut thinned = changes.thinned.iter();
                thinned.any(|thin| (thin.class.class, thin.cluster) == (class, cluster))
            };
            found
                .thin
                .retain(|thin| !is_named(thin.class.class, thin.cluster));
            findings.push(found);
        }
        findings.push(Finding {
            suite: suite.name.clone(),
            inputs: suite.inputs,
            passed: changes.thinned.is_empty(),
            rule: Condition::NewlyThin {
                judged: suite.judged(),
            },
            thin: changes.thinned.clone(),
        });
        if let Some(copies) = changes.copies {
            findings.push(finding(suite, Condition::MoreCopies { copies, old_inputs }));
        }
        Ok(findings)
    }
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
        Some(baselines) if baselines.of_random.is_none() => no_sample(name, suite, suite.inputs),
        Some(baselines) if baselines.spread.is_none() => ConditionError::NoSpread {
            criterion: name.to_owned(),
            has: names(&changes.relative),
        },
        // Both were measured alike, so it is the earlier suite that no sample is as large as.
        Some(_) if changes.criteria.get(name).is_some() => {
            no_sample(name, suite, changes.inputs.old)
        }
        Some(_) => ConditionError::NotCompared {
            criterion: name.to_owned(),
            has: names(&changes.relative),
        },
    }
}
