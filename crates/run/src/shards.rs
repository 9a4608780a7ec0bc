//! Inputs shard by shard, so that nothing finished is ever done again.

use std::ops::Range;

use npcov_data::Loader;
use npcov_paths::BitRows;

use crate::error::RunError;
use crate::extraction::Extraction;
use crate::paths::PathRows;
use crate::progress::{Event, Progress};
use crate::tracer::{ShownTap, Watch};

/// Inputs that are kept together: a few seconds of work for a large network.
pub const SHARD: usize = 512;

/// The shards of a range, each with its number: all begin at multiples of [`SHARD`] from its start.
pub fn shards(
    range: std::ops::Range<usize>,
) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
    let starts = range.clone().step_by(SHARD);
    starts
        .enumerate()
        .map(move |(i, start)| (i, start..(start + SHARD).min(range.end)))
}

/// Looks at numbers while they are computed, on the threads that compute them.
pub trait Watcher: Sync {
    /// Looks at a tap, of inputs of one shard.
    fn watch(&self, shown: ShownTap<'_>);
}

/// What an earlier run left of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// All of it.
    Whole,
    /// Something that is not what was written, or not this shard.
    Damaged,
    /// Nothing.
    Nothing,
}

/// Takes what is extracted of inputs.
pub trait Sink<'a> {
    /// Why it cannot take them.
    type Error: From<RunError>;

    /// Who watches what is computed by the way.
    fn watcher(&self) -> Option<&'a dyn Watcher> {
        None
    }

    /// Some inputs of a shard, as soon as they are there.
    fn inputs(&mut self, _batch: &PathRows) -> Result<(), Self::Error> {
        Ok(())
    }

    /// A whole shard, without what [`PathRows::taps`] hold.
    fn shard(&mut self, index: usize, shard: &PathRows) -> Result<(), Self::Error>;
}

/// Part of a dataset, and the threads that work on it.
#[derive(Clone)]
pub struct SampleRange<'a> {
    /// The dataset.
    pub data: &'a Loader<'a>,
    /// Positions in it.
    pub range: Range<usize>,
    /// Number of threads.
    pub threads: usize,
}

/// Extracts what there is of a range and hands on those shards that `find` does not find whole.
pub fn extract_shards<'a, S: Sink<'a>>(
    extraction: &Extraction,
    inputs: &SampleRange<'_>,
    find: impl Fn(usize, Range<usize>) -> Found,
    progress: &mut dyn Progress,
    sink: &mut S,
) -> Result<(), S::Error> {
    let SampleRange {
        data,
        ref range,
        threads,
    } = *inputs;
    let (mut finished, mut damaged) = (0, 0);
    // Neighbouring shards are one run: threads and their memory are set up once.
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (i, rows) in shards(range.clone()) {
        match find(i, rows.clone()) {
            Found::Whole => {
                finished += rows.len();
                continue;
            }
            Found::Damaged => damaged += rows.len(),
            Found::Nothing => {}
        }
        match runs.last_mut() {
            Some(run) if run.end == rows.start => run.end = rows.end,
            _ => runs.push(rows),
        }
    }
    if finished > 0 {
        progress.tell(Event::Resumed(finished))?;
    }
    if damaged > 0 {
        progress.tell(Event::Damaged(damaged))?;
    }
    let watcher = sink.watcher();
    let watch = Watch {
        piece: SHARD,
        show: &|shown| {
            if let Some(watcher) = watcher {
                watcher.watch(shown);
            }
        },
    };
    // What was computed from rows that are other ones now belongs to no dataset.
    let fingerprint = data.fingerprint().map_err(RunError::from)?;
    let unchanged = |rows: Range<usize>| fingerprint.check(data.samples(), rows);
    for run in runs {
        let mut shard = PathRows::empty(run.start);
        extraction.run::<S::Error>(data, run.clone(), threads, &watch, |batch| {
            progress.tell(Event::Finished(batch.rows.len()))?;
            sink.inputs(batch)?;
            shard.append(batch);
            if shard.rows.len() == SHARD || shard.rows.end == run.end {
                unchanged(shard.rows.clone()).map_err(RunError::from)?;
                sink.shard((shard.rows.start - range.start) / SHARD, &shard)?;
                progress.tell(Event::Kept(shard.rows.len()))?;
                shard = PathRows::empty(shard.rows.end);
            }
            Ok(())
        })?;
    }
    Ok(())
}

impl PathRows {
    /// No inputs, from a position of the dataset on.
    pub fn empty(start: usize) -> PathRows {
        PathRows {
            rows: start..start,
            ..PathRows::default()
        }
    }

    /// Adds inputs that follow, without their taps.
    pub fn append(&mut self, next: &PathRows) {
        if self.rows.is_empty() {
            self.paths = BitRows::new(next.paths.width());
        }
        self.rows.end += next.rows.len();
        self.predictions.extend_from_slice(&next.predictions);
        self.logits.extend_from_slice(&next.logits);
        self.profiles.extend_from_slice(&next.profiles);
        self.activations.extend_from_slice(&next.activations);
        self.importance.extend_from_slice(&next.importance);
        next.paths.rows().for_each(|path| self.paths.push(path));
    }
}
