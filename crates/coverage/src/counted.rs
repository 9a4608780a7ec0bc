//! How many training inputs cover each thing, where there may be as many things as inputs: patterns.
//!
//! A few patterns are counted in memory. What is more goes to files, in sorted runs, which are read side by side in the
//! end: equal patterns then follow one another.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use npcov_artefact::Passing;
use npcov_criteria::{Slot, TrainingCounts, TrainingCoverage};

use crate::error::CoverageError;
use crate::training::TrainingShards;

/// Numbers in the patterns that are held in memory: 256 KB, and some times as much for finding them.
const HELD: usize = 1 << 16;

/// Numbers that are read at a time, of all runs together.
const READ: usize = 1 << 16;

/// The tensor of a run with its patterns, ascending.
pub(crate) const PATTERNS: &str = "pattern";

/// The tensor of a run with how many inputs cover each of them.
pub(crate) const COUNTS: &str = "count";

/// Counts how many training inputs cover each thing.
#[derive(Default)]
pub(crate) struct Counted {
    counts: TrainingCounts,
    runs: Vec<Passing>,
}

impl Counted {
    /// Counts inputs, each of which covers some things.
    pub(crate) fn add(
        &mut self,
        inputs: &[Vec<Slot>],
        training: &TrainingShards<'_>,
    ) -> Result<(), CoverageError> {
        self.add_holding(inputs, training, HELD)
    }

    /// The same with another limit than [`HELD`].
    fn add_holding(
        &mut self,
        inputs: &[Vec<Slot>],
        training: &TrainingShards<'_>,
        held: usize,
    ) -> Result<(), CoverageError> {
        inputs.iter().for_each(|slots| self.counts.add(slots));
        if self.counts.pattern_numbers() > held {
            self.close_run(training)?;
        }
        Ok(())
    }

    /// Adds what another one counted.
    pub(crate) fn merge(
        &mut self,
        other: Counted,
        training: &TrainingShards<'_>,
    ) -> Result<(), CoverageError> {
        self.counts.merge(other.counts);
        self.runs.extend(other.runs);
        if self.counts.pattern_numbers() > HELD {
            self.close_run(training)?;
        }
        Ok(())
    }

    /// How often things are covered.
    pub(crate) fn coverage(
        mut self,
        training: &TrainingShards<'_>,
    ) -> Result<TrainingCoverage, CoverageError> {
        if self.runs.is_empty() {
            return Ok(self.counts.coverage());
        }
        self.close_run(training)?;
        let numbers = READ / self.runs.len();
        let mut runs: Vec<Run> = (self.runs.into_iter())
            .map(|file| Run::new(file, numbers))
            .collect();
        let mut next = BinaryHeap::new();
        for i in 0..runs.len() {
            advance(&mut runs, i, &mut next)?;
        }
        let mut last: Option<Shown> = None;
        while let Some(Reverse((pattern, i, count))) = next.pop() {
            advance(&mut runs, i, &mut next)?;
            match &mut last {
                Some((known, sum)) if *known == pattern => *sum += count,
                _ => {
                    if let Some((_, sum)) = last.replace((pattern, count)) {
                        self.counts.add_covered_by(sum);
                    }
                }
            }
        }
        if let Some((_, sum)) = last {
            self.counts.add_covered_by(sum);
        }
        Ok(self.counts.coverage())
    }

    /// Puts the patterns that are in memory into a file.
    fn close_run(&mut self, training: &TrainingShards<'_>) -> Result<(), CoverageError> {
        let patterns = self.counts.take_patterns();
        if !patterns.is_empty() {
            self.runs.push(training.keep_patterns(&patterns)?);
        }
        Ok(())
    }
}

/// A pattern, and how many inputs cover it.
type Shown = (Box<[u32]>, u32);

/// The first pattern of every run that is not counted yet, with the run's place and how many inputs cover it.
type Next = BinaryHeap<Reverse<(Box<[u32]>, usize, u32)>>;

/// Puts the next pattern of a run among those of the others.
fn advance(runs: &mut [Run], i: usize, next: &mut Next) -> Result<(), CoverageError> {
    if let Some((pattern, count)) = runs[i].next()? {
        next.push(Reverse((pattern, i, count)));
    }
    Ok(())
}

/// A run that is read from its start to its end.
struct Run {
    file: Passing,
    /// Numbers in a pattern.
    width: usize,
    /// Those that were not read yet, and how many of them are read at a time.
    left: Range<usize>,
    step: usize,
    /// What was read, and the place of the next one in it.
    patterns: Vec<u32>,
    counts: Vec<u32>,
    place: usize,
}

impl Run {
    /// Reads so many numbers at a time, or one pattern.
    fn new(file: Passing, numbers: usize) -> Run {
        let shape = file.reader().tensor(PATTERNS).map(|spec| &spec.shape[..]);
        let (count, width) = match shape {
            Some(&[count, width]) => (count, width),
            _ => (0, 0),
        };
        Run {
            file,
            width,
            left: 0..count,
            step: (numbers / width.max(1)).max(1),
            patterns: Vec::new(),
            counts: Vec::new(),
            place: 0,
        }
    }

    /// The next pattern, and how many inputs cover it.
    fn next(&mut self) -> Result<Option<Shown>, CoverageError> {
        if self.place == self.counts.len() {
            let rows = self.left.start..self.left.end.min(self.left.start + self.step);
            self.left.start = rows.end;
            self.place = 0;
            self.patterns.resize(rows.len() * self.width, 0);
            self.counts.resize(rows.len(), 0);
            let reader = self.file.reader();
            reader.read_rows(PATTERNS, rows.clone(), &mut self.patterns)?;
            reader.read_rows(COUNTS, rows, &mut self.counts)?;
        }
        let Some(&count) = self.counts.get(self.place) else {
            return Ok(None);
        };
        let start = self.place * self.width;
        self.place += 1;
        Ok(Some((
            self.patterns[start..start + self.width].into(),
            count,
        )))
    }
}

#[cfg(test)]
mod tests {
    use npcov_artefact::ShardStore;
    use npcov_paths::PathLayout;
    use proptest::prelude::*;

    use super::*;
    use crate::training::ShardForm;

    fn no_shards(store: &ShardStore) -> TrainingShards<'_> {
        let form = ShardForm {
            word: "paths",
            layout: PathLayout::new([1]),
            logits: 1,
            importance: None,
            taps: Vec::new(),
        };
        TrainingShards::open(store, &form, 0..0, None).unwrap()
    }

    proptest! {
        /// Batches of inputs, counted by two threads, with room for some numbers: the same as all of them in memory.
        #[test]
        fn runs_count_as_memory_does(
            batches in prop::collection::vec(prop::collection::vec((0..3_u32, 0..9_u32, 0..4_u64), 0..9), 0..9),
            middle in any::<prop::sample::Index>(),
            held in 0..20_usize,
        ) {
            let slots = |&(a, b, number): &(u32, u32, u64)| {
                vec![Slot::Pattern([a, b].into()), Slot::Number(number)]
            };
            let batches: Vec<Vec<Vec<Slot>>> =
                batches.iter().map(|batch| batch.iter().map(slots).collect()).collect();
            let store = ShardStore::in_memory();
            let training = no_shards(&store);
            let (mut naive, mut parts) = (TrainingCounts::default(), [(); 2].map(|()| Counted::default()));
            let middle = middle.index(batches.len() + 1);
            for (i, batch) in batches.iter().enumerate() {
                batch.iter().for_each(|slots| naive.add(slots));
                parts[usize::from(i >= middle)].add_holding(batch, &training, held).unwrap();
            }
            let [mut counted, other] = parts;
            counted.merge(other, &training).unwrap();
            prop_assert_eq!(counted.coverage(&training).unwrap(), naive.coverage());
        }
    }

    /// A run has two patterns: three numbers are held, and a pattern has two.
    #[test]
    fn what_is_kept_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = ShardStore::beside(&folder.path().join("graph.npcov"), "{}").unwrap();
        let training = no_shards(&store);
        let files = || std::fs::read_dir(store.folder().unwrap()).unwrap().count();
        let before = files();
        let mut counted = Counted::default();
        for input in 0..100 {
            let slots = vec![Slot::Pattern([input % 7, 1].into())];
            counted.add_holding(&[slots], &training, 3).unwrap();
        }
        assert_eq!(files(), before + 50);
        let coverage = counted.coverage(&training).unwrap();
        assert_eq!(coverage.frequencies, [(14, 5), (15, 2)]);
        assert_eq!(files(), before);
    }
}
