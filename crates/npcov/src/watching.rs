//! Criteria that look at numbers while these are computed.
//!
//! Every thread adds to a state of its own, and the states of a shard are merged when all of its
//! inputs are there. Nothing that is watched depends on the order of inputs, so neither does what
//! comes out of it on who saw which.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use npcov_criteria::State;

use crate::artefact::parts::SHARD;
use crate::error::Error;
use crate::measures::Measures;
use crate::tracer::Shown;

/// What criteria have watched of a range of inputs.
pub(crate) struct Watching<'m> {
    measures: &'m Measures,
    /// Position of the range's first input.
    start: usize,
    /// By shard, states that no thread is adding to, and what went wrong.
    states: Mutex<ByShard>,
}

/// By criterion, what it has watched; `None` for those that watch nothing.
pub(crate) type WatchStates = Vec<Option<State>>;

type ByShard = BTreeMap<usize, Vec<Result<WatchStates, Error>>>;

impl<'m> Watching<'m> {
    /// Nothing yet, of inputs from a position on.
    pub(crate) fn new(measures: &'m Measures, start: usize) -> Watching<'m> {
        Watching {
            measures,
            start,
            states: Mutex::default(),
        }
    }

    fn states(&self) -> MutexGuard<'_, ByShard> {
        // A thread that panics holds its states itself.
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at a tap, of inputs of one shard.
    pub(crate) fn watch(&self, shown: Shown<'_>) {
        let shard = (shown.rows.start - self.start) / SHARD;
        let free = |states: &mut Vec<_>| states.pop_if(|states: &mut Result<_, _>| states.is_ok());
        let free = self.states().get_mut(&shard).and_then(free);
        let watched = free.unwrap_or_else(|| Ok(self.measures.watch_states()));
        let watched = watched.and_then(|mut states| {
            let numbers = shown.numbers;
            self.measures.watch(shown.tap, numbers, &mut states)?;
            Ok(states)
        });
        self.states().entry(shard).or_default().push(watched);
    }

    /// Adds what was watched of a shard, whose inputs were all computed, to its criteria's states.
    pub(crate) fn finish(&self, shard: usize, states: &mut [State]) -> Result<(), Error> {
        let watched = self.states().remove(&shard).unwrap_or_default();
        for watched in watched {
            self.measures.add_watched(&watched?, states)?;
        }
        Ok(())
    }
}
