//! What changed since an earlier state.
//!
//! Values can be compared whatever else changed: a retrained model has another graph, and how much
//! of it a suite covers is still a question with an answer. Single things, such as buckets, are the
//! same things only where the graph and all options are the same.

use std::collections::BTreeSet;

use npcov_artefact::{MeasuredSuite, differences};
use npcov_criteria::{CriterionSet, Member, Slot, Spec};
use serde::{Deserialize, Serialize};

use crate::coverage::Coverage;
use crate::error::CoverageError;
use crate::missing::Thin;
use crate::report::{Report, SuiteReport, Values, values_of};

/// What changed since an earlier state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Difference {
    /// Whether the model is another.
    pub model_changed: bool,
    /// Whether the decision graph is another; that of another model always is.
    pub graph_changed: bool,
    /// What was chosen otherwise, as `choice: this, not that`.
    pub choices: Vec<String>,
    /// The suites that both states have.
    pub suites: Vec<SuiteDifference>,
    /// Suites that only the earlier state has.
    pub missing: Vec<String>,
    /// Suites that only this state has.
    pub added: Vec<String>,
    /// Criteria that only one of both was measured by.
    pub not_compared: Vec<String>,
}

/// What changed in a suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuiteDifference {
    /// Its name.
    pub name: String,
    /// Its name in the earlier state: another one where both have a single suite.
    pub earlier: String,
    /// Number of inputs.
    pub inputs: Counts,
    /// The share of inputs that are classified as labelled; `None` without labels.
    pub accuracy: Option<Change>,
    /// What it is worth by each criterion of both states.
    pub criteria: Values<Change>,
    /// What it covers as a part of what a random sample of as many training inputs covers, for each
    /// criterion of which that is known in both states.
    pub relative: Values<Relative>,
    /// What it covers, thing by thing; empty unless graph and choices are the same.
    pub things: Values<Things>,
    /// Classes that have fewer inputs.
    pub classes: Vec<ClassDifference>,
    /// Classes and clusters that have too few inputs, and had enough.
    pub thinned: Vec<Thin>,
    /// Inputs that are copies of others; `None` where nobody can tell.
    pub copies: Option<Counts>,
}

/// What a suite covers as a part of what a random sample of as many training inputs covers, then and
/// now. Models and sizes of suites may differ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Relative {
    /// Then and now.
    #[serde(flatten)]
    pub change: Change,
    /// By how much chance moves the change: one standard deviation.
    pub spread: f64,
}

/// So many standard deviations chance moves a value downwards once in 741 times.
const SURELY: f64 = 3.0;

/// A suite that covers less by less than this part of what it covered has lost nothing to speak of.
const LITTLE: f64 = 0.05;

impl Relative {
    /// Whether the suite covers less, by more than chance and by more than a little.
    pub fn is_lost(&self) -> bool {
        let lost = -self.change.change;
        lost > SURELY * self.spread && lost > LITTLE * self.change.old
    }

    /// The lowest value now that is no loss.
    pub fn lowest(&self) -> f64 {
        self.change.old - (SURELY * self.spread).max(LITTLE * self.change.old)
    }
}

/// A value then and now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Earlier.
    pub old: f64,
    /// In this state.
    pub new: f64,
    /// How much it grew.
    pub change: f64,
}

impl Change {
    /// From one value to another.
    pub fn between(old: f64, new: f64) -> Change {
        let change = new - old;
        Change { old, new, change }
    }
}

/// A count then and now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Earlier.
    pub old: usize,
    /// In this state.
    pub new: usize,
}

/// Things that are covered in one of two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Things {
    /// Covered earlier, and no longer.
    pub lost: usize,
    /// Covered in this state, and not earlier.
    pub new: usize,
}

/// A class that has fewer inputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassDifference {
    /// The class.
    pub class: usize,
    /// Its name, where the training data has names.
    pub name: Option<String>,
    /// Inputs that are classified as it.
    pub inputs: Counts,
}

/// The coverage of suites, beside that of an earlier state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedReport {
    /// The coverage.
    #[serde(flatten)]
    pub report: Report,
    /// What changed; `None` without an earlier state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
}

impl Difference {
    /// What changed in a suite.
    pub fn suite(&self, name: &str) -> Option<&SuiteDifference> {
        self.suites.iter().find(|suite| suite.name == name)
    }

    /// Leaves only what is about some suites.
    pub fn retain(&mut self, names: &[String]) {
        self.suites.retain(|suite| names.contains(&suite.name));
        self.missing.retain(|name| names.contains(name));
        self.added.retain(|name| names.contains(name));
    }
}

impl Coverage {
    /// What changed since an earlier state. Suites of one name are compared, and single suites
    /// whatever their names are.
    pub fn difference(&self, old: &Coverage) -> Result<Difference, CoverageError> {
        let (now, then) = (self.state(), old.state());
        let (record, old_record) = (now.record(), then.record());
        let graph_changed = record.graph != old_record.graph;
        let mut choices = differences(&record.choices, &old_record.choices);
        choices.extend(differences(&record.anpc, &old_record.anpc));
        let comparison = Comparison {
            new: now.criteria()?,
            old: then.criteria()?,
            graph_changed,
            thing_by_thing: !graph_changed && choices.is_empty(),
        };
        let reports = (self.report()?, old.report()?);
        let mut suites = Vec::new();
        let mut compared = Vec::new();
        let single = now.suites().len() == 1 && then.suites().len() == 1;
        let mut added = Vec::new();
        for (suite, report) in now.suites().iter().zip(&reports.0.suites) {
            let mut olds = then.suites().iter().zip(&reports.1.suites);
            match olds.find(|(old, _)| single || old.name == suite.name) {
                None => added.push(suite.name.clone()),
                Some(earlier) => {
                    compared.push(earlier.0.name.clone());
                    suites.push(comparison.suite((suite, report), earlier)?);
                }
            }
        }
        let missing = then.suites().iter().map(|suite| suite.name.clone());
        let missing = missing.filter(|name| !compared.contains(name));
        Ok(Difference {
            model_changed: record.model != old_record.model,
            graph_changed,
            choices,
            suites,
            missing: missing.collect(),
            added,
            not_compared: in_one(&record.specs(), &old_record.specs()),
        })
    }
}

/// The criteria of two states.
struct Comparison {
    new: CriterionSet,
    old: CriterionSet,
    graph_changed: bool,
    thing_by_thing: bool,
}

impl Comparison {
    fn suite(
        &self,
        (suite, report): (&MeasuredSuite, &SuiteReport),
        (old, old_report): (&MeasuredSuite, &SuiteReport),
    ) -> Result<SuiteDifference, CoverageError> {
        let mut criteria = Values::default();
        let mut things = Values::default();
        for (member, state) in self.new.members().iter().zip(&suite.states) {
            let mut olds = self.old.members().iter().zip(&old.states);
            let Some((old_member, old_state)) = olds.find(|(m, _)| m.spec == member.spec) else {
                continue;
            };
            let values = values_of(&self.new, member, state)?;
            // The names may differ in options that are there to tell criteria apart.
            let olds = values_of(&self.old, old_member, old_state)?;
            let name = match &values[..] {
                [value] => value.name.clone(),
                _ => member.spec.to_string(),
            };
            for (value, old) in values.into_iter().zip(olds) {
                let change = Change::between(old.amount.value(), value.amount.value());
                criteria.0.push((value.name, change));
            }
            if self.thing_by_thing {
                let slots = |member: &Member, state| {
                    let slots = member.criterion.slots(state);
                    slots.map_err(|e| member.failed(e))
                };
                let (now, then) = (slots(member, state)?, slots(old_member, old_state)?);
                if !now.is_empty() || !then.is_empty() {
                    things.0.push((name, compare(&then, &now)));
                }
            }
        }
        let classes = report.classes.iter().zip(&old_report.classes);
        let fewer = classes.filter(|(new, old)| new.inputs < old.inputs);
        let accuracies = report.accuracy.zip(old_report.accuracy);
        let copies = report.copies.zip(old_report.copies);
        Ok(SuiteDifference {
            name: suite.name.clone(),
            earlier: old.name.clone(),
            inputs: Counts {
                old: old_report.inputs,
                new: report.inputs,
            },
            accuracy: accuracies.map(|(new, old)| Change::between(old, new)),
            relative: relative(&criteria, report, old_report),
            criteria,
            things,
            thinned: report.thinned(old_report, !self.graph_changed),
            copies: copies.map(|(new, old)| Counts { old, new }),
            classes: fewer
                .map(|(new, old)| ClassDifference {
                    class: new.class,
                    name: new.name.clone(),
                    inputs: Counts {
                        old: old.inputs,
                        new: new.inputs,
                    },
                })
                .collect(),
        })
    }
}

/// What is known of both suites beside random samples, for criteria that both have.
fn relative(
    criteria: &Values<Change>,
    report: &SuiteReport,
    old: &SuiteReport,
) -> Values<Relative> {
    let both = |(name, _): &(String, Change)| {
        let (new, old) = (report.baselines.get(name)?, old.baselines.get(name)?);
        let relative = Relative {
            change: Change::between(old.of_random?, new.of_random?),
            spread: old.spread?.hypot(new.spread?),
        };
        Some((name.clone(), relative))
    };
    Values(criteria.0.iter().filter_map(both).collect())
}

fn compare(then: &[Slot], now: &[Slot]) -> Things {
    let then: BTreeSet<&Slot> = then.iter().collect();
    let now: BTreeSet<&Slot> = now.iter().collect();
    Things {
        lost: then.difference(&now).count(),
        new: now.difference(&then).count(),
    }
}

/// Criteria that only one of two lists has.
fn in_one(new: &[Spec], old: &[Spec]) -> Vec<String> {
    let only_new = new.iter().filter(|spec| !old.contains(spec));
    let only_old = old.iter().filter(|spec| !new.contains(spec));
    only_new.chain(only_old).map(Spec::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_lost_and_new() {
        let slots = |numbers: &[u64]| -> Vec<Slot> {
            numbers.iter().map(|&number| Slot::Number(number)).collect()
        };
        let things = compare(&slots(&[0, 1, 5, 9]), &slots(&[1, 2, 9]));
        assert_eq!(things, Things { lost: 2, new: 1 });
        let pattern = |row: [u32; 2]| Slot::Pattern(row.into());
        let things = compare(&[pattern([1, 2])], &[pattern([1, 2]), pattern([2, 1])]);
        assert_eq!(things, Things { lost: 0, new: 1 });
    }

    #[test]
    fn a_loss_is_more_than_chance_and_more_than_a_little() {
        let relative = |old: f64, new: f64, spread: f64| Relative {
            change: Change::between(old, new),
            spread,
        };
        assert!(relative(1.0, 0.9, 0.02).is_lost());
        assert!(!relative(1.0, 0.9, 0.04).is_lost());
        // However sure it is, four hundredths are little.
        assert!(!relative(1.0, 0.96, 0.001).is_lost());
        assert!(!relative(0.8, 1.0, 0.01).is_lost());
        assert_eq!(relative(1.0, 0.5, 0.1).lowest(), 0.7);
        assert_eq!(relative(0.8, 0.5, 0.001).lowest(), 0.76);
    }

    #[test]
    fn criteria_of_one_list_are_named() {
        let specs = |text: &str| -> Vec<Spec> {
            text.split(' ').map(|spec| spec.parse().unwrap()).collect()
        };
        let found = in_one(&specs("snpc kmnc:sections=10"), &specs("kmnc snpc nc"));
        assert_eq!(found, ["kmnc:sections=10", "kmnc", "nc"]);
    }

    #[test]
    fn only_some_suites() {
        let suite = |name: &str| SuiteDifference {
            name: name.to_owned(),
            earlier: name.to_owned(),
            inputs: Counts { old: 1, new: 1 },
            accuracy: None,
            criteria: Values::default(),
            relative: Values::default(),
            things: Values::default(),
            classes: Vec::new(),
            thinned: Vec::new(),
            copies: None,
        };
        let mut difference = Difference {
            suites: vec![suite("unit"), suite("field")],
            missing: vec!["gone".to_owned()],
            ..Difference::default()
        };
        difference.retain(&["field".to_owned()]);
        assert!(difference.suite("unit").is_none() && difference.suite("field").is_some());
        assert!(difference.missing.is_empty());
    }
}
