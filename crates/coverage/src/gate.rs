//! What suites must reach, and whether they do.
//!
//! Conditions are written as on the command line: `snpc=0.05` and `snpc=5%` are what a suite must have at
//! least, `snpc=0.8*random` the same as a part of what a random sample of training inputs covers.
//! `0.01` is how much any share may drop, `snpc=0.01` how much one may.
//!
//! Numbers must be chosen, and two suites of the same data differ by chance. So the gate against an
//! earlier state that needs no number asks whether something is [lost](losses).

mod check;
mod losses;
mod rules;

use npcov_criteria::Amount;

pub use check::{Check, Condition, Finding, YardstickSource};
pub use losses::Losses;
pub use rules::{Allowance, Bound, ConditionError, Floor};

use check::finding;

use crate::difference::{Difference, SuiteDifference};
use crate::report::{ClassCoverage, Report, SuiteReport, Values};

/// The name by which rules speak of the share of inputs that are classified as labelled.
const ACCURACY: &str = "accuracy";

/// What suites must fulfil.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gate {
    /// What they must reach.
    pub floors: Vec<Floor>,
    /// How much less than earlier it may be. What is said of one criterion goes before what is said
    /// of all.
    pub allowances: Vec<Allowance>,
    /// What suites may not lose of what an earlier state has; `None` where that does not matter.
    pub losses: Option<Losses>,
    /// What may not have far fewer inputs than training would let expect.
    pub thin_fails: Option<ThinRule>,
}

/// What may not have far fewer inputs than training would let expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinRule {
    /// Classes.
    Classes,
    /// Classes, and clusters of them.
    Clusters,
}

impl Gate {
    /// Whether there is nothing to fulfil.
    pub fn is_empty(&self) -> bool {
        let quiet = self.losses.is_none() && self.thin_fails.is_none();
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
                    if let Some(losses) = &self.losses {
                        findings.extend(losses.look(suite, changes)?);
                    }
                }
            }
            if self.thin_fails.is_some() {
                findings.push(finding(suite, fail_on_thin(suite)));
            }
            if self.thin_fails == Some(ThinRule::Clusters) {
                let judged = suite.judged();
                findings.push(finding(suite, Condition::FailOnThinClusters { judged }));
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
        Ok(Check::new(findings, difference))
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
                factor * random.ok_or_else(|| no_sample(name, suite, suite.inputs))?
            }
        };
        Ok(Condition::FailUnder {
            criterion: name.clone(),
            share,
            value,
            required,
            bound: self.bound,
            yardstick: match self.bound {
                Bound::Value(_) => None,
                _ => suite.baselines.get(name).as_ref().map(YardstickSource::of),
            },
        })
    }
}

/// No sample is as large as the suite, which has or had so many inputs.
fn no_sample(name: &str, suite: &SuiteReport, inputs: usize) -> ConditionError {
    let baselines = suite.baselines.get(name);
    ConditionError::NoSample {
        suite: suite.name.clone(),
        criterion: name.to_owned(),
        inputs,
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
    use crate::difference::{Change, Counts, Relative};
    use crate::headline::Baselines;
    use crate::missing::{ClassName, CountedBy, Thin};
    use crate::report::ClusterCoverage;

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
            losses: Some(Losses::By(
                criteria.iter().map(|&name| name.to_owned()).collect(),
            )),
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
            thin_fails: Some(ThinRule::Classes),
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
        // What became thin is named once.
        let both = check(&|suite| {
            suite.relative.0[0].1.change = Change::between(1.0, 0.8);
            suite.thinned.push(dress(Some(4)));
        });
        assert_eq!(failed(&both), [true, true, false]);
        assert_eq!(both.findings[0].thin, []);
        assert_eq!(both.findings[1].thin, [dress(Some(4))]);
    }

    #[test]
    fn a_suite_that_no_sample_is_as_large_as_is_judged_by_the_rest() {
        let usual = Gate {
            losses: Some(Losses::Usual),
            ..Gate::default()
        };
        assert_eq!(passed(&usual), [true, true, true]);
        let mut larger = example();
        larger.suites[0].inputs = 70;
        larger.suites[0].baselines.0[0].1.random = None;
        larger.suites[0].baselines.0[0].1.of_random = None;
        let mut lost = difference();
        lost.suites[0].relative = Values::default();
        lost.suites[0].thinned.push(dress(Some(4)));
        lost.suites[0].copies = Some(Counts { old: 0, new: 60 });
        let check = usual.check(&larger, Some(&lost)).unwrap();
        let verdicts: Vec<bool> = check.findings.iter().map(|f| f.passed).collect();
        assert_eq!(verdicts, [true, false, false]);
        let not_judged = |too_many: usize| Condition::LossNotJudged {
            criterion: "snpc".to_owned(),
            too_many,
            yardstick: YardstickSource {
                inputs: 50,
                all_inputs: 50,
            },
        };
        assert_eq!(check.findings[0].rule, not_judged(70));
        assert_eq!(check.findings[1].thin, [dress(Some(4))]);
        // It was the earlier suite that is too large.
        lost.suites[0].inputs.old = 99;
        let check = usual.check(&example(), Some(&lost)).unwrap();
        assert_eq!(check.findings[0].rule, not_judged(99));
        // Who names the criterion must be able to rely on it.
        let named = nothing_lost(&["snpc"]).check(&larger, Some(&lost));
        assert!(matches!(
            named,
            Err(ConditionError::NoSample { inputs: 70, .. })
        ));
    }

    #[test]
    fn clusters_may_be_asked_for() {
        let cluster = |cluster: usize, thin: bool| ClusterCoverage {
            cluster,
            class: 0,
            inputs: 5,
            expected: 5.0,
            p: 0.001,
            thin,
            enough: Some(if cluster == 2 { 30 } else { 9 }),
            criteria: Values::default(),
        };
        let mut report = example();
        report.suites[0].classes.truncate(1);
        report.suites[0].clusters = vec![cluster(0, false), cluster(1, true), cluster(2, false)];
        let rules = |parts| Gate {
            thin_fails: Some(parts),
            ..Gate::default()
        };
        assert!(
            rules(ThinRule::Classes)
                .check(&report, None)
                .unwrap()
                .passed
        );
        let check = rules(ThinRule::Clusters).check(&report, None).unwrap();
        let [classes, clusters] = &check.findings[..] else {
            panic!("{check:?}");
        };
        assert!(classes.passed && !clusters.passed);
        assert_eq!(
            clusters.thin.iter().map(|t| t.cluster).collect::<Vec<_>>(),
            [Some(1)]
        );
        let Condition::FailOnThinClusters { judged } = clusters.rule else {
            panic!("{clusters:?}");
        };
        assert_eq!((judged.clusters, judged.clusters_not_judged), (2, 1));
        assert_eq!(judged.enough_of_class, Some(30));
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
