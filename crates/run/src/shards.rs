//! Inputs shard by shard, so that nothing finished is ever done again.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

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

/// One of several parts of some work, which the parts together are: `2/4` is the second quarter.
///
/// ```
/// use npcov_run::Part;
///
/// let part: Part = "2/3".parse()?;
/// assert_eq!(part.of(10), 3..6);
/// assert_eq!(part.to_string(), "2/3");
/// assert!("4/3".parse::<Part>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    part: usize,
    parts: usize,
}

impl Part {
    /// The most parts that there can be.
    pub const MOST: usize = 1_000_000;

    /// Part `part` of `parts`, the first of which is 1; `None` where there is no such part.
    pub fn new(part: usize, parts: usize) -> Option<Part> {
        let is_one = (1..=Part::MOST).contains(&parts) && (1..=parts).contains(&part);
        is_one.then_some(Part { part, parts })
    }

    /// How many parts there are.
    pub fn parts(self) -> usize {
        self.parts
    }

    /// Its range of `count` things. The parts together are all of them, and differ by at most one.
    pub fn of(self, count: usize) -> Range<usize> {
        count * (self.part - 1) / self.parts..count * self.part / self.parts
    }

    /// Its rows of a range, whose [shards](shards) are never divided: there may be none.
    pub fn rows(self, range: Range<usize>) -> Range<usize> {
        let shards = self.of(range.len().div_ceil(SHARD));
        let row = |shard: usize| (range.start + shard * SHARD).min(range.end);
        row(shards.start)..row(shards.end)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.parts)
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Part, String> {
        let wrong = || format!("`{text}` is no part; write `1/4` to `4/4`");
        let (part, parts) = text.split_once('/').ok_or_else(wrong)?;
        let numbers = part.parse().ok().zip(parts.parse().ok());
        let part = numbers.and_then(|(part, parts)| Part::new(part, parts));
        part.ok_or_else(wrong)
    }
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
    /// It is none of this run's.
    NotWanted,
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

/// Extracts what there is of a range and hands on those shards that `find` finds wanted and not whole.
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
            Found::NotWanted => continue,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let part = |text: &str| text.parse::<Part>().unwrap().of(10);
        assert_eq!([part("1/3"), part("2/3"), part("3/3")], [0..3, 3..6, 6..10]);
        for wrong in ["", "1", "0/3", "4/3", "1/0", "a/b", "-1/2", "1/1000001"] {
            assert!(wrong.parse::<Part>().is_err(), "{wrong}");
        }
    }

    /// One after the other, the parts' rows are the range, and each begins with a shard.
    #[test]
    fn parts_divide_no_shard() {
        for (start, end) in [(0, 0), (0, 1), (7, 519), (7, 520), (100, 9000)] {
            for count in [1, 2, 3, 16, 40] {
                let mut next = start;
                for i in 1..=count {
                    let rows = Part::new(i, count).unwrap().rows(start..end);
                    assert_eq!(rows.start, next, "{i}/{count} of {start}..{end}");
                    assert!(rows.is_empty() || (rows.start - start).is_multiple_of(SHARD));
                    next = rows.end;
                }
                assert_eq!(next, end);
            }
        }
    }
}
