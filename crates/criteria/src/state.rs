//! What criteria keep of a suite.
//!
//! A state is made of a few kinds of parts, and how parts are merged, written and read is the
//! same for all criteria that use them. None depends on the order or grouping of inputs, but for
//! [`StatePart::Scores`] and [`StatePart::Lists`], which lie in the order of the inputs, and
//! [`StatePart::Kept`], which cannot be merged.

use std::collections::BTreeSet;
use std::ops::Range;

use npcov_paths::bits;

use crate::error::CriterionError;

/// What a criterion keeps of a suite: parts with names.
///
/// A criterion declares its parts once, as handles, and gets at them by those:
///
/// ```
/// use npcov_criteria::{BitSet, Handle, SetPart, State, SumsPart};
///
/// const NEURONS: SetPart = SetPart("neurons");
/// const INPUTS: SumsPart = SumsPart("inputs");
///
/// let mut state = State::new([NEURONS.with(BitSet::new(10)), INPUTS.with(vec![0])]);
/// state.get_mut(NEURONS)?.insert(3);
/// state.get_mut(INPUTS)?[0] += 1;
/// assert_eq!(state.get(NEURONS)?.count(), 1);
/// // Another criterion's state has no such part.
/// assert!(state.get(SetPart("sections")).is_err());
/// # Ok::<(), npcov_criteria::CriterionError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    parts: Vec<(&'static str, StatePart)>,
}

/// Where a part is in a state: its name, which is its name in files too, and its kind.
pub trait Handle: Copy {
    /// What the part is made from.
    type Owned;
    /// What can be seen and changed of it.
    type Content: ?Sized;

    /// The part's name.
    fn name(self) -> &'static str;

    /// The part.
    fn with(self, content: Self::Owned) -> (&'static str, StatePart);

    /// What is in a part; `None` where it is of another kind.
    fn of(part: &StatePart) -> Option<&Self::Content>;

    /// What is in a part, to be changed.
    fn of_mut(part: &mut StatePart) -> Option<&mut Self::Content>;
}

/// Defines a handle for each kind of part.
macro_rules! handles {
    ($($(#[$doc:meta])* $handle:ident: $part:ident($owned:ty) as $content:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $handle(pub &'static str);

        impl Handle for $handle {
            type Owned = $owned;
            type Content = $content;

            fn name(self) -> &'static str {
                self.0
            }

            fn with(self, content: $owned) -> (&'static str, StatePart) {
                (self.0, StatePart::$part(content))
            }

            fn of(part: &StatePart) -> Option<&$content> {
                match part {
                    StatePart::$part(content) => Some(content),
                    _ => None,
                }
            }

            fn of_mut(part: &mut StatePart) -> Option<&mut $content> {
                match part {
                    StatePart::$part(content) => Some(content),
                    _ => None,
                }
            }
        }
    )*};
}

handles! {
    /// The name of a [`StatePart::Set`].
    SetPart: Set(BitSet) as BitSet;
    /// The name of [`StatePart::Sums`].
    SumsPart: Sums(Vec<i128>) as [i128];
    /// The name of [`StatePart::Patterns`].
    PatternsPart: Patterns(Patterns) as Patterns;
    /// The name of [`StatePart::Scores`].
    ScoresPart: Scores(Vec<f64>) as Vec<f64>;
    /// The name of [`StatePart::Lists`].
    ListsPart: Lists(Vec<Box<[u32]>>) as Vec<Box<[u32]>>;
    /// The name of [`StatePart::Kept`].
    KeptPart: Kept(Kept) as Kept;
    /// The name of [`StatePart::Fixed`].
    FixedPart: Fixed(Vec<f64>) as [f64];
}

/// A piece of a state.
#[derive(Clone, Debug, PartialEq)]
pub enum StatePart {
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

    /// Adds the numbers of words as sets are [stored](BitSet::words), from the word at `first` on.
    /// What is beyond the bound is left out.
    pub fn insert_words(&mut self, first: usize, words: &[u64]) {
        let own = self.words.get_mut(first..).unwrap_or_default();
        own.iter_mut()
            .zip(words)
            .for_each(|(own, word)| *own |= word);
        if let ([.., last], used @ 1..) = (&mut self.words[..], self.len % 64) {
            *last &= (1 << used) - 1;
        }
    }

    /// How many of a range are in it.
    pub fn count_in(&self, range: Range<usize>) -> u64 {
        let range = range.start..range.end.min(self.len);
        if range.is_empty() {
            return 0;
        }
        let (first, last) = (range.start / 64, (range.end - 1) / 64);
        let count = |(word, &bits): (usize, &u64)| {
            let from = match word {
                0 => u64::MAX << (range.start % 64),
                _ => u64::MAX,
            };
            let to = match word == last - first {
                true => u64::MAX >> (63 - (range.end - 1) % 64),
                false => u64::MAX,
            };
            u64::from((bits & from & to).count_ones())
        };
        self.words[first..=last].iter().enumerate().map(count).sum()
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
pub struct InputRun {
    /// Whether they are the other state's.
    pub other: bool,
    /// Which.
    pub inputs: Range<usize>,
}

impl State {
    /// Of parts.
    pub fn new(parts: impl IntoIterator<Item = (&'static str, StatePart)>) -> State {
        State {
            parts: parts.into_iter().collect(),
        }
    }

    /// The parts with their names.
    pub fn parts(&self) -> &[(&'static str, StatePart)] {
        &self.parts
    }

    /// The parts, to be filled.
    pub fn parts_mut(&mut self) -> impl Iterator<Item = &mut StatePart> {
        self.parts.iter_mut().map(|(_, part)| part)
    }

    /// Adds inputs that follow on these.
    pub fn append(&mut self, next: &State) -> Result<(), CriterionError> {
        self.require_parts_of(next)?;
        for ((name, part), (_, next)) in self.parts.iter_mut().zip(&next.parts) {
            match (&mut *part, next) {
                (StatePart::Scores(scores), StatePart::Scores(next)) => {
                    scores.extend_from_slice(next)
                }
                (StatePart::Lists(lists), StatePart::Lists(next)) => lists.extend_from_slice(next),
                _ => part.unite(next, name)?,
            }
        }
        Ok(())
    }

    /// What does not belong to single inputs.
    pub fn without_inputs(mut self) -> State {
        for part in self.parts_mut() {
            match part {
                StatePart::Scores(scores) => *scores = Vec::new(),
                StatePart::Lists(lists) => *lists = Vec::new(),
                _ => {}
            }
        }
        self
    }

    /// What belongs to some inputs, and nothing else; `None` where there are not so many inputs.
    pub fn only_inputs(&self, inputs: Range<usize>) -> Option<State> {
        let only = |part: &StatePart| {
            Some(match part {
                StatePart::Set(_) => StatePart::Set(BitSet::new(0)),
                StatePart::Sums(_) => StatePart::Sums(Vec::new()),
                StatePart::Patterns(patterns) => StatePart::Patterns(Patterns::new(patterns.width)),
                StatePart::Scores(scores) => {
                    StatePart::Scores(scores.get(inputs.clone())?.to_vec())
                }
                StatePart::Lists(lists) => StatePart::Lists(lists.get(inputs.clone())?.to_vec()),
                StatePart::Kept(_) => StatePart::Kept(Kept::default()),
                StatePart::Fixed(_) => StatePart::Fixed(Vec::new()),
            })
        };
        let parts = self
            .parts
            .iter()
            .map(|(name, part)| Some((*name, only(part)?)));
        Some(State {
            parts: parts.collect::<Option<_>>()?,
        })
    }

    /// Adds the inputs of another state; `order` says how those of both follow on each other.
    pub fn merge(&mut self, other: &State, order: &[InputRun]) -> Result<(), CriterionError> {
        self.require_parts_of(other)?;
        for ((name, part), (_, other)) in self.parts.iter_mut().zip(&other.parts) {
            match (&mut *part, other) {
                (StatePart::Scores(scores), StatePart::Scores(others)) => {
                    *scores = in_order(scores, others, order).ok_or_else(|| unlike(name))?;
                }
                (StatePart::Lists(lists), StatePart::Lists(others)) => {
                    *lists = in_order(lists, others, order).ok_or_else(|| unlike(name))?;
                }
                _ => part.unite(other, name)?,
            }
        }
        Ok(())
    }

    /// A part. Fails where there is none of that name and kind: then the state is another
    /// criterion's.
    pub fn get<H: Handle>(&self, handle: H) -> Result<&H::Content, CriterionError> {
        let found = self.parts.iter().find(|(name, _)| *name == handle.name());
        let content = found.and_then(|(_, part)| H::of(part));
        content.ok_or_else(|| foreign(handle.name()))
    }

    /// A part, to be changed.
    pub fn get_mut<H: Handle>(&mut self, handle: H) -> Result<&mut H::Content, CriterionError> {
        let mut parts = self.parts.iter_mut();
        let found = parts.find(|(name, _)| *name == handle.name());
        let content = found.and_then(|(_, part)| H::of_mut(part));
        content.ok_or_else(|| foreign(handle.name()))
    }

    /// All scores with their names.
    pub fn all_scores(&self) -> impl Iterator<Item = (&'static str, &[f64])> {
        self.parts.iter().filter_map(|(name, part)| match part {
            StatePart::Scores(scores) => Some((*name, &scores[..])),
            _ => None,
        })
    }

    fn require_parts_of(&self, other: &State) -> Result<(), CriterionError> {
        let mut names = other.parts.iter().map(|(name, _)| *name);
        match self.parts.iter().map(|(name, _)| *name).eq(names.clone()) {
            true => Ok(()),
            false => Err(unlike(names.next().unwrap_or("nothing"))),
        }
    }
}

fn foreign(part: &str) -> CriterionError {
    CriterionError::ForeignState {
        part: part.to_owned(),
    }
}

fn unlike(part: &str) -> CriterionError {
    CriterionError::Unlike {
        part: part.to_owned(),
    }
}

/// What belongs to the inputs of two states, in the order of the inputs; `None` where the order has
/// inputs that they have not.
fn in_order<T: Clone>(own: &[T], others: &[T], order: &[InputRun]) -> Option<Vec<T>> {
    let mut all = Vec::with_capacity(own.len() + others.len());
    for run in order {
        let from = if run.other { others } else { own };
        all.extend_from_slice(from.get(run.inputs.clone())?);
    }
    Some(all)
}

impl StatePart {
    fn unite(&mut self, other: &StatePart, name: &str) -> Result<(), CriterionError> {
        match (self, other) {
            (StatePart::Set(set), StatePart::Set(other)) if set.len == other.len => {
                set.insert_words(0, &other.words);
            }
            (StatePart::Sums(sums), StatePart::Sums(other)) if sums.len() == other.len() => {
                for (sum, other) in sums.iter_mut().zip(other) {
                    *sum = sum.checked_add(*other).ok_or_else(|| unlike(name))?;
                }
            }
            (StatePart::Patterns(patterns), StatePart::Patterns(other))
                if patterns.width == other.width =>
            {
                other.rows().for_each(|row| patterns.insert(row));
            }
            (StatePart::Fixed(numbers), StatePart::Fixed(other)) if numbers == other => {}
            (StatePart::Kept(_), StatePart::Kept(_)) => return Err(CriterionError::Ordered),
            _ => return Err(unlike(name)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const THINGS: SetPart = SetPart("things");
    const SUMS: SumsPart = SumsPart("sums");
    const SCORES: ScoresPart = ScoresPart("scores");

    #[test]
    fn parts_are_found_by_name_and_kind() {
        let mut state = State::new([THINGS.with(BitSet::new(3)), SUMS.with(vec![1, 2])]);
        state.get_mut(THINGS).unwrap().insert(2);
        state.get_mut(SUMS).unwrap()[1] += 5;
        assert_eq!(state.get(SUMS).unwrap(), [1, 7]);
        assert!(state.get(THINGS).unwrap().contains(2));
        let missing = state.get(SetPart("sums")).unwrap_err();
        assert!(matches!(missing, CriterionError::ForeignState { part } if part == "sums"));
        assert!(state.get_mut(SCORES).is_err());
    }

    #[test]
    fn states_of_other_criteria_are_not_merged() {
        let things = |bound| State::new([THINGS.with(BitSet::new(bound))]);
        let others = [
            things(4),
            State::new([SetPart("others").with(BitSet::new(3))]),
            State::new([THINGS.with(BitSet::new(3)), SUMS.with(vec![])]),
            State::new([SumsPart("things").with(vec![])]),
            State::default(),
        ];
        assert!(things(3).append(&things(3)).is_ok());
        for other in others {
            let results = [things(3).append(&other), things(3).merge(&other, &[])];
            for result in results {
                assert!(
                    matches!(result, Err(CriterionError::Unlike { .. })),
                    "{other:?}"
                );
            }
        }
    }

    #[test]
    fn an_order_has_no_inputs_that_are_not_there() {
        let scores = |scores: &[f64]| State::new([SCORES.with(scores.to_vec())]);
        let run = |other, inputs| InputRun { other, inputs };
        let mut state = scores(&[1.0, 3.0]);
        let order = [run(false, 0..1), run(true, 0..1), run(false, 1..2)];
        state.merge(&scores(&[2.0]), &order).unwrap();
        assert_eq!(state, scores(&[1.0, 2.0, 3.0]));
        assert!(state.merge(&scores(&[]), &[run(true, 0..1)]).is_err());
    }

    proptest! {
        #[test]
        fn sets_are_those_of_their_numbers(
            bound in 1..300_usize,
            numbers in prop::collection::btree_set(0..300_usize, 0..60),
            words in prop::collection::vec(any::<u64>(), 0..4),
            (first, start, end) in (0..6_usize, 0..320_usize, 0..320_usize),
        ) {
            let mut set = BitSet::new(bound);
            let mut naive: BTreeSet<usize> = numbers.into_iter().filter(|&n| n < bound).collect();
            naive.iter().for_each(|&number| set.insert(number));
            set.insert_words(first, &words);
            let bits = words.iter().flat_map(|word| (0..64).map(move |bit| word >> bit & 1 == 1));
            let set_bits = bits.enumerate().filter(|(_, bit)| *bit);
            naive.extend(set_bits.map(|(i, _)| first * 64 + i).filter(|&n| n < bound));
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), naive.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.count(), naive.len() as u64);
            let within = naive.iter().filter(|n| (start..end).contains(n)).count();
            prop_assert_eq!(set.count_in(start..end), within as u64);
            let words = set.words().to_vec();
            prop_assert_eq!(BitSet::from_words(bound, words), Some(set));
        }
    }
}
