//! What criteria keep of a suite.
//!
//! A state is made of a few kinds of parts, and how parts are merged, written and read is the
//! same for all criteria that use them. None depends on the order or grouping of inputs, but for
//! [`Part::Scores`] and [`Part::Lists`], which lie in the order of the inputs, and [`Part::Kept`], which cannot be
//! merged.

use std::collections::BTreeSet;
use std::ops::Range;

use npcov_paths::bits;

use crate::error::CriterionError;

/// What a criterion keeps of a suite: parts with names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    parts: Vec<(&'static str, Part)>,
}

/// A piece of a state.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Things that were covered, by number: their union.
    Set(BitSet),
    /// Whole numbers: their sums. Numbers with a fraction are kept in a
    /// [fixed point](crate::exact).
    Sums(Vec<i128>),
    /// Rows of numbers, each kept once.
    Patterns(Patterns),
    /// A number for each input, in their order.
    Scores(Vec<f64>),
    /// A list of numbers for each input, in their order.
    Lists(Vec<Box<[u32]>>),
    /// Vectors that were kept because of those before them.
    Kept(Kept),
    /// Numbers that belong to the criterion, and are the same for all suites.
    Fixed(Vec<f64>),
}

/// A set of numbers below a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitSet {
    len: usize,
    words: Vec<u64>,
}

impl BitSet {
    /// Nothing, of `len` things.
    pub fn new(len: usize) -> BitSet {
        BitSet {
            len,
            words: vec![0; len.div_ceil(64)],
        }
    }

    /// As it was stored; `None` when the words are not those of such a set.
    pub fn from_words(len: usize, words: Vec<u64>) -> Option<BitSet> {
        let padding = match (words.last(), len % 64) {
            (None, _) | (_, 0) => 0,
            (Some(word), used) => word >> used,
        };
        (words.len() == len.div_ceil(64) && padding == 0).then_some(BitSet { len, words })
    }

    /// What it is stored as.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The bound.
    pub fn bound(&self) -> usize {
        self.len
    }

    /// Adds a number.
    pub fn insert(&mut self, number: usize) {
        debug_assert!(number < self.len);
        bits::set(&mut self.words, number);
    }

    /// Whether a number is in it.
    pub fn contains(&self, number: usize) -> bool {
        bits::get(&self.words, number)
    }

    /// How many are in it.
    pub fn count(&self) -> u64 {
        self.words
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum()
    }

    /// How many of a range are in it.
    pub fn count_in(&self, range: Range<usize>) -> u64 {
        range.filter(|&number| self.contains(number)).count() as u64
    }

    /// The numbers in it, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        bits::ones(&self.words)
    }
}

/// Distinct rows of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patterns {
    width: usize,
    rows: BTreeSet<Box<[u32]>>,
}

impl Patterns {
    /// None yet, of `width` numbers each.
    pub fn new(width: usize) -> Patterns {
        Patterns {
            width,
            rows: BTreeSet::new(),
        }
    }

    /// Numbers in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Adds a row.
    pub fn insert(&mut self, row: &[u32]) {
        debug_assert_eq!(row.len(), self.width);
        if !self.rows.contains(row) {
            self.rows.insert(row.into());
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.rows.len() as u64
    }

    /// The rows, in ascending order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.rows.iter().map(AsRef::as_ref)
    }
}

/// Vectors that were kept, each with a number that says where it belongs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// Where each belongs.
    pub keys: Vec<u32>,
    /// The vectors, one after the other; their lengths go by their keys.
    pub numbers: Vec<f32>,
}

/// A run of inputs of one of two states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Whether they are the other state's.
    pub other: bool,
    /// Which.
    pub inputs: Range<usize>,
}

impl State {
    /// Of parts.
    pub fn new(parts: impl IntoIterator<Item = (&'static str, Part)>) -> State {
        State {
            parts: parts.into_iter().collect(),
        }
    }

    /// The parts with their names.
    pub fn parts(&self) -> &[(&'static str, Part)] {
        &self.parts
    }

    /// The parts, to be filled.
    pub fn parts_mut(&mut self) -> impl Iterator<Item = &mut Part> {
        self.parts.iter_mut().map(|(_, part)| part)
    }

    /// Adds inputs that follow on these.
    pub fn append(&mut self, next: &State) -> Result<(), CriterionError> {
        for ((name, part), (_, next)) in self.parts.iter_mut().zip(&next.parts) {
            match (&mut *part, next) {
                (Part::Scores(scores), Part::Scores(next)) => scores.extend_from_slice(next),
                (Part::Lists(lists), Part::Lists(next)) => lists.extend_from_slice(next),
                _ => part.unite(next, name)?,
            }
        }
        Ok(())
    }

    /// Adds the inputs of another state; `order` says how those of both follow on each other.
    pub fn merge(&mut self, other: &State, order: &[Run]) -> Result<(), CriterionError> {
        for ((name, part), (_, other)) in self.parts.iter_mut().zip(&other.parts) {
            match (&mut *part, other) {
                (Part::Scores(scores), Part::Scores(others)) => {
                    *scores = in_order(scores, others, order);
                }
                (Part::Lists(lists), Part::Lists(others)) => {
                    *lists = in_order(lists, others, order);
                }
                _ => part.unite(other, name)?,
            }
        }
        Ok(())
    }

    /// A set. Which parts there are is for the criterion to know.
    pub fn set(&self, name: &str) -> &BitSet {
        match self.part(name) {
            Part::Set(set) => set,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// A set to add to.
    pub fn set_mut(&mut self, name: &str) -> &mut BitSet {
        match self.part_mut(name) {
            Part::Set(set) => set,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Sums.
    pub fn sums(&self, name: &str) -> &[i128] {
        match self.part(name) {
            Part::Sums(sums) => sums,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Sums to add to.
    pub fn sums_mut(&mut self, name: &str) -> &mut [i128] {
        match self.part_mut(name) {
            Part::Sums(sums) => sums,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Patterns.
    pub fn patterns(&self, name: &str) -> &Patterns {
        match self.part(name) {
            Part::Patterns(patterns) => patterns,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Patterns to add to.
    pub fn patterns_mut(&mut self, name: &str) -> &mut Patterns {
        match self.part_mut(name) {
            Part::Patterns(patterns) => patterns,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Scores.
    pub fn scores(&self, name: &str) -> &[f64] {
        match self.part(name) {
            Part::Scores(scores) => scores,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Scores to add to.
    pub fn scores_mut(&mut self, name: &str) -> &mut Vec<f64> {
        match self.part_mut(name) {
            Part::Scores(scores) => scores,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// All scores with their names.
    pub fn all_scores(&self) -> impl Iterator<Item = (&'static str, &[f64])> {
        self.parts.iter().filter_map(|(name, part)| match part {
            Part::Scores(scores) => Some((*name, &scores[..])),
            _ => None,
        })
    }

    /// Lists.
    pub fn lists(&self, name: &str) -> &[Box<[u32]>] {
        match self.part(name) {
            Part::Lists(lists) => lists,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Lists to add to.
    pub fn lists_mut(&mut self, name: &str) -> &mut Vec<Box<[u32]>> {
        match self.part_mut(name) {
            Part::Lists(lists) => lists,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Kept vectors.
    pub fn kept(&self, name: &str) -> &Kept {
        match self.part(name) {
            Part::Kept(kept) => kept,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Kept vectors to add to.
    pub fn kept_mut(&mut self, name: &str) -> &mut Kept {
        match self.part_mut(name) {
            Part::Kept(kept) => kept,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Numbers that are the same for all suites.
    pub fn fixed(&self, name: &str) -> &[f64] {
        match self.part(name) {
            Part::Fixed(numbers) => numbers,
            other => panic!("{name} is {other:?}"),
        }
    }

    fn part(&self, name: &str) -> &Part {
        match self.parts.iter().find(|(key, _)| *key == name) {
            Some((_, part)) => part,
            None => panic!("no part {name}"),
        }
    }

    fn part_mut(&mut self, name: &str) -> &mut Part {
        match self.parts.iter_mut().find(|(key, _)| *key == name) {
            Some((_, part)) => part,
            None => panic!("no part {name}"),
        }
    }
}

/// What belongs to the inputs of two states, in the order of the inputs.
fn in_order<T: Clone>(own: &[T], others: &[T], order: &[Run]) -> Vec<T> {
    let runs = order.iter().map(|run| match run.other {
        true => &others[run.inputs.clone()],
        false => &own[run.inputs.clone()],
    });
    runs.flatten().cloned().collect()
}

impl Part {
    fn unite(&mut self, other: &Part, name: &str) -> Result<(), CriterionError> {
        let unlike = || CriterionError::Unlike {
            part: name.to_owned(),
        };
        match (self, other) {
            (Part::Set(set), Part::Set(other)) if set.len == other.len => {
                let words = set.words.iter_mut().zip(&other.words);
                words.for_each(|(word, other)| *word |= other);
            }
            (Part::Sums(sums), Part::Sums(other)) if sums.len() == other.len() => {
                for (sum, other) in sums.iter_mut().zip(other) {
                    *sum = sum.checked_add(*other).ok_or_else(unlike)?;
                }
            }
            (Part::Patterns(patterns), Part::Patterns(other)) if patterns.width == other.width => {
                other.rows().for_each(|row| patterns.insert(row));
            }
            (Part::Fixed(numbers), Part::Fixed(other)) if numbers == other => {}
            (Part::Kept(_), Part::Kept(_)) => return Err(CriterionError::Ordered),
            _ => return Err(unlike()),
        }
        Ok(())
    }
}
