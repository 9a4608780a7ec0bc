//! Which inputs of a pool are worth having, and smaller suites that cover the same.
//!
//! [`select`] orders a pool by a [`Strategy`] and writes the first inputs; where labels tell which
//! inputs are misclassified, [`Apfd`] says how early the order shows them. [`minimize`] finds a
//! small part of a suite that covers what all of it covers. [`fill_gaps`] finds what a suite is missing.
//!
//! ```
//! use npcov_select::{Strategy, apfd};
//!
//! let strategy: Strategy = "additional:snpc".parse()?;
//! assert_eq!(strategy.to_string(), "additional:snpc");
//! // Two faults among four inputs, found first and last.
//! assert_eq!(apfd([true, false, false, true]), Some(0.5));
//! # Ok::<(), String>(())
//! ```
//!
//! `npcov-coverage` measures the inputs; what to do with an order is the caller's business. `npcov` is how
//! both are used together.

mod apfd;
mod chosen;
mod error;
mod gaps;
mod given;
mod links;
mod minimize;
mod parts;
mod pool;
mod ranking;
mod strategy;

use std::path::Path;

use npcov_artefact::ShardStore;
use npcov_coverage::{Coverage, LearntGraph, Measurement};
use npcov_criteria::Member;
use npcov_paths::Choices;
use npcov_run::{Progress, SampleRange};
use serde::{Deserialize, Serialize};

pub use apfd::{Apfd, apfd};
pub use chosen::Chosen;
pub use error::SelectError;
pub use gaps::fill_gaps;
pub use minimize::{Minimization, MinimizeOptions, MinimizedCriterion, minimize};
pub use parts::{join_selection, select_part};
pub use strategy::{Strategy, counting_criteria};

use given::Given;
use pool::{Measuring, Pool, Wanted};
use ranking::{Covered, Ranked, SlotLists};

/// The largest pool that is ranked to its end by [`Strategy::Additional`] for its APFD alone: that
/// may take as many steps as the square of its inputs.
pub const RANKED_ANYWAY: usize = 20_000;

/// How inputs are selected.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectOptions {
    /// Which.
    pub strategy: Strategy,
    /// How many; all by default.
    pub count: Option<usize>,
    /// Seed of [`Strategy::Random`].
    pub seed: u64,
    /// How paths are compared; as the graph says by default.
    pub choices: Option<Choices>,
    /// What is covered already: inputs are chosen by what they cover beyond it, and those that cover nothing
    /// beyond it are left out. Nothing by default; only for strategies that count what inputs cover.
    pub given: Option<Coverage>,
}

impl From<Strategy> for SelectOptions {
    fn from(strategy: Strategy) -> SelectOptions {
        SelectOptions {
            strategy,
            count: None,
            seed: 0,
            choices: None,
            given: None,
        }
    }
}

/// Inputs that were selected from a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Selection {
    /// The pool, as it was named.
    pub data: String,
    /// Inputs in it.
    pub inputs: usize,
    /// The names of the classes, where they have names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_names: Option<Vec<String>>,
    /// The [strategy](Strategy), as it is written.
    pub strategy: String,
    /// The file with the selected inputs; empty without one.
    pub file: String,
    /// What they cover; `None` for strategies that do not count that.
    pub coverage: Option<SelectionCoverage>,
    /// How early the order of the pool shows misclassified inputs; `None` without labels, and where
    /// [ranking the rest](RANKED_ANYWAY) would take long.
    pub apfd: Option<Apfd>,
    /// The selected inputs, first the best.
    pub chosen: Vec<Chosen>,
}

/// How much of what a pool covers some of its inputs cover.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SelectionCoverage {
    /// The criterion.
    pub criterion: String,
    /// Things that were covered already, where a state was given; the other numbers are things beyond those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<u64>,
    /// Things that the selected inputs cover.
    pub covered: u64,
    /// Things that the whole pool covers.
    pub pool: u64,
    /// Things there are; `None` where nobody knows.
    pub total: Option<u64>,
    /// How many inputs, from the first on, cover what the whole pool covers; `None` where so many
    /// were not ranked.
    pub enough: Option<usize>,
}

/// Orders the inputs of a pool, and writes the first ones to an npz file, where one is wanted: `x`, the
/// inputs as they are stored; `y`, their labels if there are any; `index`, their positions in the
/// pool; `score`, why they were selected.
///
/// With a file, finished shards are kept in a folder beside it until it is whole: a run that is cut
/// off goes on where it was. The result does not depend on that, nor on the number of threads.
pub fn select(
    graph: &LearntGraph,
    pool: &SampleRange<'_>,
    options: &SelectOptions,
    output: Option<&Path>,
    progress: &mut dyn Progress,
) -> Result<Selection, SelectError> {
    let asked = Asked::new(graph, options)?;
    let measuring = asked.measuring(pool)?;
    let store = ShardStore::of(output, &measuring.plan)?;
    measuring.extract(&store, None, progress)?;
    asked.choose(measuring.gather(store)?, pool, options, output)
}

/// What inputs are selected by.
struct Asked<'a> {
    measurement: Measurement<'a>,
    wanted: Wanted,
    given: Given,
}

impl<'a> Asked<'a> {
    fn new(graph: &'a LearntGraph, options: &SelectOptions) -> Result<Asked<'a>, SelectError> {
        let (measurement, wanted) =
            strategy::prepare(graph, &options.strategy, options.choices.as_ref())?;
        if options.given.is_some() && wanted != Wanted::Slots {
            return Err(SelectError::NothingToStartFrom {
                strategy: options.strategy.to_string(),
            });
        }
        let given = Given::of(options.given.as_ref(), &measurement)?;
        Ok(Asked {
            measurement,
            wanted,
            given,
        })
    }

    fn measuring<'b>(&'b self, pool: &'b SampleRange<'b>) -> Result<Measuring<'b>, SelectError> {
        Measuring::new(&self.measurement, &self.wanted, &self.given, pool)
    }

    /// Orders the inputs of a pool that was measured, and writes the first ones.
    fn choose(
        &self,
        measured: Pool,
        pool: &SampleRange<'_>,
        options: &SelectOptions,
        output: Option<&Path>,
    ) -> Result<Selection, SelectError> {
        let (data, range) = (pool.data, pool.range.clone());
        let labels = data.labels();
        let inputs = range.len();
        let count = options.count.map_or(inputs, |count| count.min(inputs));
        let mut order = match &options.strategy {
            Strategy::Additional(_) => {
                let to_the_end = labels.is_some() && inputs <= RANKED_ANYWAY;
                let most = if to_the_end { inputs } else { count };
                ranking::additional(&measured.lists, most)?
            }
            Strategy::Total(_) => ranking::total(&measured.lists),
            Strategy::Score(_) => ranking::by_score(&measured.scores),
            Strategy::Random => ranking::random(inputs, options.seed),
        };
        if options.given.is_some() {
            order.retain(|ranked| measured.lists.count(ranked.input) > 0);
        }
        let count = count.min(order.len());
        let coverage = match (&self.wanted, self.measurement.criteria().members()) {
            (Wanted::Slots, [member]) => Some(SelectionCoverage {
                given: self.given.count(0),
                ..coverage(member, &measured.lists, &order, count)?
            }),
            _ => None,
        };
        let chosen = |ranked: &Ranked| Chosen::new(ranked, range.start, &measured, data);
        let apfd = labels.filter(|_| order.len() == inputs).map(|_| {
            let is_fault: Vec<bool> = order.iter().map(|r| chosen(r).is_fault()).collect();
            let faults = |of: &[bool]| of.iter().filter(|&&is_fault| is_fault).count();
            Apfd {
                faults: faults(&is_fault),
                found: faults(&is_fault[..count]),
                value: apfd(is_fault),
                random: 0.5,
            }
        });
        let first = &order[..count];
        if let Some(output) = output {
            chosen::write(data, first, range.start, &measured, output)?;
        }
        let selection = Selection {
            data: data.name().to_owned(),
            inputs,
            class_names: data.class_names().map(<[String]>::to_vec),
            strategy: options.strategy.to_string(),
            file: output.map_or(String::new(), |file| file.display().to_string()),
            coverage,
            apfd,
            chosen: first.iter().map(chosen).collect(),
        };
        measured.store.remove()?;
        Ok(selection)
    }
}

/// What the first `count` inputs of an order cover.
fn coverage<L: SlotLists<Error = SelectError>>(
    member: &Member,
    lists: &L,
    order: &[Ranked],
    count: usize,
) -> Result<SelectionCoverage, SelectError> {
    let pool = ranking::covered(lists, 0..lists.len())?.count();
    let mut covered = Covered::default();
    let mut by_first = 0;
    let mut enough = (pool == 0).then_some(0);
    let mut list = Vec::new();
    for (i, ranked) in order.iter().enumerate() {
        lists.read(ranked.input, &mut list)?;
        covered.extend(&list);
        if i + 1 == count {
            by_first = covered.count();
        }
        if covered.count() == pool && enough.is_none() {
            enough = Some(i + 1);
        }
    }
    Ok(SelectionCoverage {
        criterion: member.spec.to_string(),
        given: None,
        covered: by_first,
        pool,
        total: member.criterion.things().map_err(|e| member.failed(e))?,
        enough,
    })
}
