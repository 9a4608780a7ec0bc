//! Smaller suites that cover the same.

use std::ops::Range;
use std::path::Path;

use npcov_criteria::Spec;
use npcov_data::Loader;
use serde::{Deserialize, Serialize};

use super::chosen::{self, Chosen};
use super::pool::{Pool, Wanted};
use super::ranking::{self, Covered, Ranked, SlotLists};
use super::{strategy, total};
use crate::error::Error;
use crate::ruler::Ruler;
use crate::shards::Event;

/// A suite that was made smaller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Minimization {
    /// The suite, as it was named.
    pub data: String,
    /// Inputs in it.
    pub inputs: usize,
    /// The file with the inputs that are kept.
    pub file: String,
    /// What is covered before and after.
    pub criteria: Vec<MinimizedCriterion>,
    /// The inputs that are kept, first those that add the most.
    pub chosen: Vec<Chosen>,
}

/// What a suite and a smaller one cover by a criterion: the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MinimizedCriterion {
    /// The criterion.
    pub criterion: String,
    /// Things that the suite covers.
    pub before: u64,
    /// Things that the smaller suite covers.
    pub after: u64,
    /// Things there are; `None` where nobody knows.
    pub total: Option<u64>,
}

/// Finds a small part of a suite that covers all that the suite covers, by each of some criteria,
/// and in which no input can be left out; writes it to an npz file, as [`select`](super::select)
/// does.
///
/// The smallest such part is hard to find; this one is greedy.
pub fn minimize(
    ruler: &mut Ruler,
    suite: &Loader,
    range: Range<usize>,
    criteria: &[Spec],
    output: &Path,
    threads: usize,
    on: &mut dyn FnMut(Event),
) -> Result<Minimization, Error> {
    strategy::require_things(ruler, criteria)?;
    let start = range.start;
    let pool = Pool::measure(ruler, &Wanted::Slots, suite, range, output, threads, on)?;
    let kept = ranking::minimal(&pool.lists)?;
    let before = ranking::covered(&pool.lists, 0..pool.lists.len())?;
    let after = ranking::covered(&pool.lists, kept.iter().map(|ranked| ranked.input))?;
    let mut found = Vec::new();
    for (i, measure) in ruler.measures().list().iter().enumerate() {
        // Numbers and patterns.
        let things = |covered: &Covered| covered.count_of(2 * i) + covered.count_of(2 * i + 1);
        let criterion = MinimizedCriterion {
            criterion: measure.spec.to_string(),
            before: things(&before),
            after: things(&after),
            total: total(measure)?,
        };
        if criterion.before != criterion.after {
            return Err(Error::CoverageLost {
                criterion: criterion.criterion,
                before: criterion.before,
                after: criterion.after,
            });
        }
        found.push(criterion);
    }
    chosen::write(ruler, suite, &kept, start, &pool, output)?;
    let chosen = |ranked: &Ranked| Chosen::new(ranked, start, &pool, suite.labels());
    let minimization = Minimization {
        data: suite.dataset().name().to_owned(),
        inputs: pool.lists.len(),
        file: output.display().to_string(),
        criteria: found,
        chosen: kept.iter().map(chosen).collect(),
    };
    pool.parts.remove()?;
    Ok(minimization)
}
