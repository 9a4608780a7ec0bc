//! The trait that all criteria share.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::batch::Batch;
use crate::error::CriterionError;
use crate::fit::Fit;
use crate::needs::Needs;
use crate::state::{State, StatePart};
use crate::training::Training;
use npcov_tap::{Shown, Tap};

/// What a criterion has [watched](Needs::watched) on one thread. Each input is observed and, once for each tap, watched,
/// in any order and by any of those whose parts are added up in the end; so only parts that do not depend on the order
/// of inputs may change. Which inputs these are is not said: what inputs cover by themselves cannot be watched.
pub trait Watching: Send {
    /// Looks at a tap, of some inputs.
    fn watch(&mut self, tap: Tap, numbers: Shown<'_>);

    /// Adds all of it to a state of the criterion, and begins anew.
    fn hand_over(&mut self, state: &mut State) -> Result<(), CriterionError>;
}

/// A test criterion: what it needs of inputs, what it keeps of a suite, and what that is worth.
///
/// A criterion is made from its [`Spec`](crate::Spec) and the
/// [shape of the network](crate::NetworkShape). To measure, it is [fitted](Criterion::fit) once, or
/// what was fitted is [restored](Criterion::restore); to read [values](Criterion::values) from a
/// state it needs neither. What reads a state fails where that is another criterion's.
pub trait Criterion: Send + Sync {
    /// What it needs, besides predictions and logits.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// The options that the fit depends on, as text: where those are the same, a fit can be used.
    fn fitted_options(&self) -> String {
        String::new()
    }

    /// Learns from the training data.
    fn fit(&self, _training: &dyn Training) -> Result<Fit, CriterionError> {
        Ok(Fit::default())
    }

    /// Takes over what was learnt.
    fn restore(&mut self, _fit: Fit) -> Result<(), CriterionError> {
        Ok(())
    }

    /// Whether a suite must be observed from its first input to its last, in one state.
    fn ordered(&self) -> bool {
        false
    }

    /// What it keeps of a suite without inputs.
    fn state(&self) -> State;

    /// Adds inputs. Unless the criterion is [ordered](Criterion::ordered), inputs may be added to
    /// several states in any grouping, which [merged](State::merge) are the same as one.
    fn observe(
        &self,
        batch: &Batch<'_>,
        training: &dyn Training,
        state: &mut State,
    ) -> Result<(), CriterionError>;

    /// Where it has seen nothing yet of what is [watched](Needs::watched); `None` where that is nothing.
    fn watching(&self) -> Option<Box<dyn Watching>> {
        None
    }

    /// What the suite is worth: usually one value of the criterion's name.
    fn values(&self, state: &State) -> Result<Vec<CriterionValue>, CriterionError>;

    /// What the suite is worth by layer, for each of [`values`](Criterion::values); empty where
    /// layers have no part in it.
    fn by_layer(&self, _state: &State) -> Result<Vec<LayerValues>, CriterionError> {
        Ok(Vec::new())
    }

    /// What the suite is worth by cluster of the decision graph; empty where clusters have no part
    /// in it.
    fn by_cluster(&self, _state: &State) -> Result<Vec<Amount>, CriterionError> {
        Ok(Vec::new())
    }

    /// What the suite is worth by class; empty where classes have no part in it.
    fn by_class(&self, _state: &State) -> Result<Vec<Amount>, CriterionError> {
        Ok(Vec::new())
    }

    /// What is probably not meant, though it was measured.
    fn warnings(&self, _state: &State) -> Result<Vec<Warning>, CriterionError> {
        Ok(Vec::new())
    }

    /// For each of its layers, the share of what was measured that lies beyond a bound and covers
    /// nothing; `None` where nothing was measured. Empty where there are no bounds.
    fn beyond(&self, _state: &State) -> Result<Vec<Option<f64>>, CriterionError> {
        Ok(Vec::new())
    }

    /// Whether it counts things that inputs cover by themselves, which [`slots`](Criterion::slots)
    /// lists.
    fn counts_things(&self) -> bool {
        let counted = |part: &StatePart| matches!(part, StatePart::Set(_) | StatePart::Patterns(_));
        self.state().parts().iter().any(|(_, part)| counted(part))
    }

    /// What a suite covers, thing by thing, each once and in ascending order: the more things, the
    /// higher the coverage. Empty where a criterion does not count things.
    fn slots(&self, state: &State) -> Result<Vec<Slot>, CriterionError> {
        let mut slots = Vec::new();
        for (_, part) in state.parts() {
            match part {
                StatePart::Set(set) => slots.extend(set.iter().map(|i| Slot::Number(i as u64))),
                StatePart::Patterns(patterns) => {
                    slots.extend(patterns.rows().map(|row| Slot::Pattern(row.into())));
                }
                _ => {}
            }
        }
        Ok(slots)
    }

    /// Fails where a state that comes from a file is none of so many inputs. Such files are damaged or forged, and
    /// what they say is not shown.
    fn check(&self, state: &State, inputs: usize) -> Result<(), CriterionError> {
        for (name, part) in state.parts() {
            if let StatePart::Patterns(patterns) = part
                && patterns.count() > inputs as u64
            {
                let count = patterns.count();
                return Err(impossible(format!(
                    "`{name}` has {count} patterns of {inputs} inputs"
                )));
            }
        }
        check_shares(self, state)
    }

    /// How many things can be covered where so many are to be covered. There are more where a choice counts things
    /// that are not among those to cover.
    fn most_covered(&self, total: u64) -> u64 {
        total
    }

    /// How many [sums](StatePart::Sums) a state keeps, where these may be many: known without memory for them, so
    /// that they can be looked for in a file before.
    fn sums(&self) -> usize {
        0
    }

    /// What is above the numbers of all things that there are to cover by number.
    fn bound_of_numbers(&self) -> u64 {
        let state = self.state();
        let bounds = state.parts().iter().map(|(_, part)| match part {
            StatePart::Set(set) => set.bound() as u64,
            _ => 0,
        });
        bounds.max().unwrap_or(0)
    }

    /// For each input of a batch, the things that it covers.
    fn slots_of_each(
        &self,
        batch: &Batch<'_>,
        training: &dyn Training,
    ) -> Result<Vec<Vec<Slot>>, CriterionError> {
        let one = |input| {
            let mut state = self.state();
            self.observe(&batch.slice(input..input + 1), training, &mut state)?;
            self.slots(&state)
        };
        (0..batch.len()).map(one).collect()
    }

    /// What each input of the suite covers; `None` where a criterion does not keep that.
    fn slots_by_input<'s>(
        &self,
        _state: &'s State,
    ) -> Result<Option<SlotsByInput<'s>>, CriterionError> {
        Ok(None)
    }

    /// Where a thing is in the decision graph; `None` where things have no place there.
    fn place(&self, _slot: u64) -> Option<SlotPlace> {
        None
    }

    /// How many things there are to cover; `None` where nobody can tell. Unless a criterion says
    /// otherwise, its values are shares of different things.
    fn things(&self) -> Result<Option<u64>, CriterionError> {
        let mut values = self.values(&self.state())?.into_iter();
        Ok(values.try_fold(0, |sum: u64, value| match value.amount {
            Amount::Share { total, .. } => Some(sum.saturating_add(total)),
            _ => None,
        }))
    }
}

/// Fails where a state covers more than there is, in whole, in a layer, in a cluster or in a class.
pub(crate) fn check_shares<C: Criterion + ?Sized>(
    criterion: &C,
    state: &State,
) -> Result<(), CriterionError> {
    let values = criterion.values(state)?.into_iter().map(|v| v.amount);
    let layers = criterion.by_layer(state)?.into_iter();
    let amounts = values
        .chain(layers.flat_map(|value| value.layers))
        .chain(criterion.by_cluster(state)?)
        .chain(criterion.by_class(state)?);
    for amount in amounts {
        if let Amount::Share { covered, total } = amount
            && covered > criterion.most_covered(total)
        {
            return Err(impossible(format!("it covers {covered} of {total} things")));
        }
    }
    Ok(())
}

/// A state says what cannot be.
pub(crate) fn impossible(what: String) -> CriterionError {
    CriterionError::Impossible { what }
}

/// Something that an input can cover.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// One of a known number of things.
    Number(u64),
    /// One of the rows that can be seen.
    Pattern(Box<[u32]>),
}

/// Where something that can be covered is in a decision graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPlace {
    /// The cluster, among those of the graph.
    pub cluster: usize,
    /// The layer, among those that the criterion looks at.
    pub layer: usize,
    /// The bucket; from 1 on, or 0 for what is below the first.
    pub bucket: usize,
}

/// What each input of a suite covers, by number.
#[derive(Clone, Copy, Debug)]
pub struct SlotsByInput<'s> {
    /// For each input in order, its things.
    pub lists: &'s [Box<[u32]>],
    /// Above all numbers.
    pub bound: usize,
}

/// What is probably not meant, in words that follow on the name of a suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The words.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What a suite is worth by one measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CriterionValue {
    /// The measure: the criterion, and what tells its measures apart.
    pub name: String,
    /// How much.
    pub amount: Amount,
}

/// A measure by layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerValues {
    /// The measure.
    pub name: String,
    /// For each path layer.
    pub layers: Vec<Amount>,
}

/// How much a suite is worth.
///
/// In JSON it is its [value](Amount::value); read again, that is a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "f64", into = "f64")]
pub enum Amount {
    /// Things that are covered, of all there are.
    Share {
        /// Those that are covered.
        covered: u64,
        /// All of them.
        total: u64,
    },
    /// Things that were counted, without a limit.
    Count(u64),
    /// A number that is neither.
    Number(f64),
}

impl From<Amount> for f64 {
    fn from(amount: Amount) -> f64 {
        amount.value()
    }
}

impl From<f64> for Amount {
    fn from(number: f64) -> Amount {
        Amount::Number(number)
    }
}

impl Amount {
    /// Whether it is a part of what there is.
    pub fn is_share(self) -> bool {
        matches!(self, Amount::Share { .. })
    }

    /// As one number; a share of nothing is 0.
    pub fn value(self) -> f64 {
        match self {
            Amount::Share { total: 0, .. } => 0.0,
            Amount::Share { covered, total } => covered as f64 / total as f64,
            Amount::Count(count) => count as f64,
            Amount::Number(number) => number,
        }
    }
}

impl CriterionValue {
    /// A share of what there is.
    pub fn share(name: impl Into<String>, covered: u64, total: u64) -> CriterionValue {
        CriterionValue {
            name: name.into(),
            amount: Amount::Share { covered, total },
        }
    }

    /// A count.
    pub fn count(name: impl Into<String>, count: u64) -> CriterionValue {
        CriterionValue {
            name: name.into(),
            amount: Amount::Count(count),
        }
    }

    /// A number.
    pub fn number(name: impl Into<String>, number: f64) -> CriterionValue {
        CriterionValue {
            name: name.into(),
            amount: Amount::Number(number),
        }
    }
}
