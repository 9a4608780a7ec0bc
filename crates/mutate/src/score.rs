//! What a suite's kills are worth.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::draw::Mutant;
use crate::operator::Operator;
use crate::options::MutationOptions;
use crate::state::{Killed, MutationState};

/// How many mutants a suite kills. All numbers are of the mutants that count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MutationReport {
    /// The suites.
    pub suites: Vec<String>,
    /// Number of inputs.
    pub inputs: usize,
    /// Whether labels said what is right, or the model itself.
    pub labelled: bool,
    /// How many inputs the model classifies as labelled.
    pub correct: usize,
    /// Which mutants were asked for.
    pub settings: MutationOptions,
    /// The neurons that may be changed, in words; `None` where all may.
    pub among: Option<String>,
    /// The data that mutants were judged by; `None` where it is the suite itself.
    pub judged_by: Option<String>,
    /// How many mutants were made.
    pub mutants: usize,
    /// How many of them count: they lose no more of the accuracy than is allowed.
    pub counted: usize,
    /// The mutation score: killed classes of all mutants, as a share of classes times mutants. `None` without mutants.
    pub score: Option<f64>,
    /// The share of mutants of which at least one class is killed.
    pub killed: Option<f64>,
    /// The mean share of inputs that mutants do not classify as labelled.
    pub error_rate: Option<f64>,
    /// By operator and ratio.
    pub operators: Vec<OperatorScore>,
    /// By class.
    pub classes: Vec<ClassScore>,
}

/// How many mutants of one operator and ratio are killed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OperatorScore {
    /// The operator.
    pub operator: Operator,
    /// The ratio; `None` where one layer is changed.
    pub ratio: Option<f64>,
    /// How many mutants were made.
    pub mutants: usize,
    /// How many of them count.
    pub counted: usize,
    /// The mutation score of those.
    pub score: Option<f64>,
    /// The share of them of which at least one class is killed.
    pub killed: Option<f64>,
    /// The mean share of inputs that they do not classify as labelled.
    pub error_rate: Option<f64>,
}

/// Of how many mutants a class is killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassScore {
    /// The class.
    pub class: usize,
    /// How many inputs of it the model classifies as labelled: without one, nothing is killed.
    pub correct: usize,
    /// Of how many mutants it is killed.
    pub killed: usize,
}

impl MutationState {
    /// The mutants that count: they classify enough of what the model classifies as labelled.
    pub fn counted(&self) -> Vec<bool> {
        let correct: usize = match &self.plan.judged {
            Some(judged) => judged.correct,
            None => self.correct.iter().sum(),
        };
        let least = self.plan.options.quality * correct as f64;
        let of_mutant = |mutant: usize| match &self.plan.judged {
            Some(judged) => judged.by_mutant[mutant],
            None => self.killed[mutant].correct,
        };
        let all = 0..self.killed.len();
        all.map(|mutant| of_mutant(mutant) as f64 >= least)
            .collect()
    }
}

impl MutationReport {
    pub(crate) fn of(state: &MutationState) -> MutationReport {
        let plan = &state.plan;
        let all: Vec<usize> = (0..plan.mutants.len()).collect();
        let counted = state.counted();
        let whole = Tally::of(state, &counted, &all);
        let mut operators = Vec::new();
        // In the order of the first of each kind.
        let mut kinds: Vec<(&Mutant, Vec<usize>)> = Vec::new();
        let mut places = BTreeMap::new();
        for (i, mutant) in plan.mutants.iter().enumerate() {
            let place = *places.entry(mutant.kind()).or_insert(kinds.len());
            if place == kinds.len() {
                kinds.push((mutant, Vec::new()));
            }
            kinds[place].1.push(i);
        }
        for (
            &Mutant {
                operator, ratio, ..
            },
            of_kind,
        ) in kinds
        {
            let tally = Tally::of(state, &counted, &of_kind);
            operators.push(OperatorScore {
                operator,
                ratio,
                mutants: of_kind.len(),
                counted: tally.counted.len(),
                score: tally.score(plan.classes),
                killed: tally.killed(),
                error_rate: tally.error_rate(state.inputs),
            });
        }
        let mut classes: Vec<ClassScore> = (state.correct.iter().enumerate())
            .map(|(class, &correct)| ClassScore {
                class,
                correct,
                killed: 0,
            })
            .collect();
        for &class in whole.counted.iter().flat_map(|killed| &killed.classes) {
            classes[class as usize].killed += 1;
        }
        MutationReport {
            suites: state.suites.clone(),
            inputs: state.inputs,
            labelled: state.labelled,
            correct: state.correct.iter().sum(),
            settings: plan.options.clone(),
            among: plan.among.clone(),
            judged_by: plan.judged.as_ref().map(|judged| judged.data.clone()),
            mutants: all.len(),
            counted: whole.counted.len(),
            score: whole.score(plan.classes),
            killed: whole.killed(),
            error_rate: whole.error_rate(state.inputs),
            operators,
            classes,
        }
    }
}

/// Some mutants, of which those that count are looked at.
struct Tally<'a> {
    counted: Vec<&'a Killed>,
}

impl<'a> Tally<'a> {
    fn of(state: &'a MutationState, counted: &[bool], mutants: &[usize]) -> Tally<'a> {
        let counted = mutants.iter().filter(|&&mutant| counted[mutant]);
        Tally {
            counted: counted.map(|&mutant| &state.killed[mutant]).collect(),
        }
    }

    fn mean(&self, number: impl Fn(&Killed) -> f64) -> Option<f64> {
        let count = self.counted.len();
        let sum: f64 = self.counted.iter().map(|killed| number(killed)).sum();
        (count > 0).then(|| sum / count as f64)
    }

    fn score(&self, classes: usize) -> Option<f64> {
        self.mean(|killed| killed.classes.len() as f64)
            .map(|mean| mean / classes.max(1) as f64)
    }

    fn killed(&self) -> Option<f64> {
        self.mean(|killed| f64::from(u8::from(!killed.classes.is_empty())))
    }

    fn error_rate(&self, inputs: usize) -> Option<f64> {
        self.mean(|killed| 1.0 - killed.correct as f64 / inputs.max(1) as f64)
            .filter(|_| inputs > 0)
    }
}
