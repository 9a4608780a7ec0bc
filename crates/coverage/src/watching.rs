//! Criteria that look at numbers while these are computed.
//!
//! Every thread adds to what it has seen itself of a shard, and that is added up when all of the shard's
//! inputs are there. Nothing that is watched depends on the order of inputs, so neither does what
//! comes out of it on who saw which.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use npcov_criteria::{CriterionSet, NamedCriterionError, State, WatchingSet};
use npcov_run::{SHARD, ShownTap, Watcher};

/// What criteria have watched of a range of inputs.
pub(crate) struct Watching<'m> {
    criteria: &'m CriterionSet,
    /// Position of the range's first input.
    start: usize,
    seen: Mutex<Seen>,
}

/// What no thread is adding to.
#[derive(Default)]
struct Seen {
    /// By shard.
    shards: BTreeMap<usize, Vec<WatchingSet>>,
    /// What was handed over, to begin another shard with: there may be as many sums as a network has units.
    free: Vec<WatchingSet>,
}

impl<'m> Watching<'m> {
    /// Nothing yet, of inputs from a position on.
    pub(crate) fn new(criteria: &'m CriterionSet, start: usize) -> Watching<'m> {
        Watching {
            criteria,
            start,
            seen: Mutex::default(),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // A thread that panics holds what it has seen itself.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what was watched of a shard, whose inputs were all computed, to its criteria's states.
    pub(crate) fn finish(
        &self,
        shard: usize,
        states: &mut [State],
    ) -> Result<(), NamedCriterionError> {
        let watched = self.seen().shards.remove(&shard).unwrap_or_default();
        for mut watched in watched {
            self.criteria.hand_over(&mut watched, states)?;
            self.seen().free.push(watched);
        }
        Ok(())
    }
}

impl Watcher for Watching<'_> {
    fn watch(&self, shown: ShownTap<'_>) {
        let shard = (shown.rows.start - self.start) / SHARD;
        let there = {
            let mut seen = self.seen();
            let of_shard = seen.shards.entry(shard).or_default().pop();
            of_shard.or_else(|| seen.free.pop())
        };
        let mut watching = there.unwrap_or_else(|| self.criteria.watching());
        self.criteria.watch(shown.tap, shown.numbers, &mut watching);
        let mut seen = self.seen();
        seen.shards.entry(shard).or_default().push(watching);
    }
}
