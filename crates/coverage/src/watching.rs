//! Criteria that look at numbers while these are computed.
//!
//! Every thread adds to a state of its own, and the states of a shard are merged when all of its
//! inputs are there. Nothing that is watched depends on the order of inputs, so neither does what
//! comes out of it on who saw which.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use npcov_criteria::{CriterionSet, NamedCriterionError, State, WatchStates};
use npcov_run::{SHARD, ShownTap, Watcher};

use crate::error::CoverageError;

/// What criteria have watched of a range of inputs.
pub(crate) struct Watching<'m> {
    criteria: &'m CriterionSet,
    /// Position of the range's first input.
    start: usize,
    shards: Mutex<BTreeMap<usize, Watched>>,
}

/// What was watched of a shard.
#[derive(Default)]
struct Watched {
    /// States that no thread is adding to.
    states: Vec<WatchStates>,
    /// What went wrong first; whoever finishes the shard is told.
    failed: Option<NamedCriterionError>,
}

impl<'m> Watching<'m> {
    /// Nothing yet, of inputs from a position on.
    pub(crate) fn new(criteria: &'m CriterionSet, start: usize) -> Watching<'m> {
        Watching {
            criteria,
            start,
            shards: Mutex::default(),
        }
    }

    fn shards(&self) -> MutexGuard<'_, BTreeMap<usize, Watched>> {
        // A thread that panics holds its states itself.
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what was watched of a shard, whose inputs were all computed, to its criteria's states.
    pub(crate) fn finish(&self, shard: usize, states: &mut [State]) -> Result<(), CoverageError> {
        let watched = self.shards().remove(&shard).unwrap_or_default();
        if let Some(failed) = watched.failed {
            return Err(failed.into());
        }
        for watched in watched.states {
            self.criteria.add_watched(&watched, states)?;
        }
        Ok(())
    }
}

impl Watcher for Watching<'_> {
    fn watch(&self, shown: ShownTap<'_>) {
        let shard = (shown.rows.start - self.start) / SHARD;
        let free = self.shards().entry(shard).or_default().states.pop();
        let mut states = free.unwrap_or_else(|| self.criteria.watch_states());
        let watched = self.criteria.watch(shown.tap, shown.numbers, &mut states);
        let mut shards = self.shards();
        let all = shards.entry(shard).or_default();
        all.states.push(states);
        if let Err(error) = watched {
            all.failed.get_or_insert(error);
        }
    }
}
