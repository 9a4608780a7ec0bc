//! What other inputs cover, to hold a suite's coverage against.
//!
//! A share of buckets means little by itself: most may be out of reach. So training inputs are
//! measured as if they were a suite, and how many of them cover each thing is counted. From that
//! follows what all of them cover, and what a random sample of any size covers on average, without
//! drawing one: of `N` inputs of which `c` cover a thing, a sample of `n` misses it with probability
//! `C(N - c, n) / C(N, n)`, the product over `i < c` of `(N - n - i) / (N - i)`.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::criterion::Slot;

/// The most inputs that may have been measured: what is summed over so many takes a second.
const MOST_INPUTS: u64 = 1 << 27;

/// How often training inputs cover things.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Counted")]
pub struct TrainingCoverage {
    /// Inputs that were measured.
    pub inputs: u64,
    /// How many things are covered by so many inputs: pairs of inputs and things, ascending.
    pub frequencies: Vec<(u64, u64)>,
}

/// The same as a file has it, which may say anything.
#[derive(Deserialize)]
struct Counted {
    inputs: u64,
    frequencies: Vec<(u64, u64)>,
}

impl TryFrom<Counted> for TrainingCoverage {
    type Error = &'static str;

    fn try_from(counted: Counted) -> Result<TrainingCoverage, &'static str> {
        let Counted {
            inputs,
            frequencies,
        } = counted;
        let mut before = 0;
        let mut all = 0_u64;
        for &(count, things) in &frequencies {
            let sum = all.checked_add(things);
            let (true, Some(sum)) = (before < count && count <= inputs, sum) else {
                return Err("a yardstick has frequencies that no inputs have");
            };
            (before, all) = (count, sum);
        }
        match inputs <= MOST_INPUTS {
            true => Ok(TrainingCoverage {
                inputs,
                frequencies,
            }),
            false => Err("a yardstick has more inputs than can be"),
        }
    }
}

impl TrainingCoverage {
    /// How many things any of the inputs covers.
    pub fn covered(&self) -> u64 {
        self.frequencies.iter().map(|(_, things)| things).sum()
    }

    /// How many things a random sample of that many of the inputs covers on average. A sample
    /// cannot have more inputs than there are.
    pub fn expected(&self, sample: u64) -> f64 {
        let (all, sample) = (self.inputs as f64, sample.min(self.inputs) as f64);
        let mut missed = 1.0;
        let mut done = 0;
        let mut expected = 0.0;
        for &(count, things) in &self.frequencies {
            for i in done..count.min(self.inputs) {
                let i = i as f64;
                missed *= ((all - sample - i) / (all - i)).max(0.0);
            }
            done = count;
            expected += things as f64 * (1.0 - missed);
        }
        expected
    }
}

/// Counts how many inputs cover each thing.
#[derive(Clone, Debug, Default)]
pub struct TrainingCounts {
    inputs: u64,
    numbers: Vec<u32>,
    patterns: HashMap<Box<[u32]>, u32>,
    /// Numbers in the patterns.
    pattern_numbers: usize,
    /// Of things that are not told apart here: how many of them are covered by so many inputs.
    others: BTreeMap<u32, u64>,
}

impl TrainingCounts {
    /// Counts an input, which covers these things.
    pub fn add(&mut self, slots: &[Slot]) {
        self.inputs += 1;
        for slot in slots {
            match slot {
                Slot::Number(number) => {
                    let number = *number as usize;
                    if number >= self.numbers.len() {
                        self.numbers.resize(number + 1, 0);
                    }
                    self.numbers[number] += 1;
                }
                Slot::Pattern(pattern) => match self.patterns.get_mut(pattern) {
                    Some(count) => *count += 1,
                    None => {
                        self.pattern_numbers += pattern.len();
                        self.patterns.insert(pattern.clone(), 1);
                    }
                },
            }
        }
    }

    /// How many numbers the patterns hold that are counted. There may be as many patterns as inputs.
    pub fn pattern_numbers(&self) -> usize {
        self.pattern_numbers
    }

    /// Takes the patterns out, ascending, each with how many inputs cover it. They can be [counted](Self::add_covered_by)
    /// elsewhere.
    pub fn take_patterns(&mut self) -> Vec<(Box<[u32]>, u32)> {
        self.pattern_numbers = 0;
        let mut patterns: Vec<_> = std::mem::take(&mut self.patterns).into_iter().collect();
        patterns.sort_unstable();
        patterns
    }

    /// Counts a thing that is covered by so many of the inputs, and no other one than is counted here.
    pub fn add_covered_by(&mut self, inputs: u32) {
        *self.others.entry(inputs).or_default() += 1;
    }

    /// Adds what another one counted. Of patterns there may be as many as inputs: none is there twice meanwhile.
    pub fn merge(&mut self, mut other: TrainingCounts) {
        if self.patterns.len() < other.patterns.len() {
            std::mem::swap(&mut self.patterns, &mut other.patterns);
            self.pattern_numbers = other.pattern_numbers;
        }
        self.inputs += other.inputs;
        if self.numbers.len() < other.numbers.len() {
            self.numbers.resize(other.numbers.len(), 0);
        }
        let numbers = self.numbers.iter_mut().zip(&other.numbers);
        numbers.for_each(|(count, other)| *count += other);
        for (pattern, count) in other.patterns {
            let width = pattern.len();
            let known = self.patterns.entry(pattern).or_insert_with(|| {
                self.pattern_numbers += width;
                0
            });
            *known += count;
        }
        for (inputs, things) in other.others {
            *self.others.entry(inputs).or_default() += things;
        }
    }

    /// How often things are covered.
    pub fn coverage(&self) -> TrainingCoverage {
        let mut frequencies = BTreeMap::new();
        let counts = self.numbers.iter().chain(self.patterns.values());
        for &count in counts.filter(|&&count| count > 0) {
            *frequencies.entry(u64::from(count)).or_default() += 1;
        }
        for (&inputs, things) in &self.others {
            *frequencies.entry(u64::from(inputs)).or_default() += things;
        }
        TrainingCoverage {
            inputs: self.inputs,
            frequencies: frequencies.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four inputs: one thing is covered by all, one by two, one by one; a pattern by one.
    fn example() -> Vec<Vec<Slot>> {
        let number = Slot::Number;
        let pattern = Slot::Pattern([7, 8].into());
        vec![
            vec![number(0), number(3)],
            vec![number(0), number(3), number(5)],
            vec![number(0)],
            vec![number(0), pattern],
        ]
    }

    #[test]
    fn expectation_is_the_mean_over_all_samples() {
        let inputs = example();
        let mut counts = TrainingCounts::default();
        inputs.iter().for_each(|slots| counts.add(slots));
        let coverage = counts.coverage();
        assert_eq!(coverage.frequencies, [(1, 2), (2, 1), (4, 1)]);
        assert_eq!(coverage.covered(), 4);
        // By hand: over all subsets of each size.
        for size in 0..=4_u32 {
            let (mut subsets, mut covered) = (0, 0);
            for subset in 0..16_u32 {
                if subset.count_ones() == size {
                    let chosen = (0..4).filter(|i| subset >> i & 1 == 1);
                    let union: std::collections::BTreeSet<&Slot> =
                        chosen.flat_map(|i| &inputs[i as usize]).collect();
                    subsets += 1;
                    covered += union.len();
                }
            }
            let mean = covered as f64 / f64::from(subsets);
            assert!((coverage.expected(u64::from(size)) - mean).abs() < 1e-12);
        }
        assert_eq!(coverage.expected(9), 4.0);
    }

    #[test]
    fn frequencies_that_cannot_be_are_refused() {
        let read = |inputs: u64, frequencies: &[(u64, u64)]| {
            TrainingCoverage::try_from(Counted {
                inputs,
                frequencies: frequencies.to_vec(),
            })
        };
        assert!(read(4, &[(1, 2), (4, u64::MAX - 2)]).is_ok());
        for (inputs, frequencies) in [
            (4, &[(0, 1)][..]),
            (4, &[(5, 1)]),
            (4, &[(2, 1), (1, 1)]),
            (4, &[(1, 1), (1, 1)]),
            (4, &[(1, 2), (4, u64::MAX)]),
            (1 << 63, &[(1 << 63, 1)]),
        ] {
            assert!(read(inputs, frequencies).is_err(), "{frequencies:?}");
        }
    }

    #[test]
    fn parts_count_as_the_whole() {
        let inputs = example();
        let mut whole = TrainingCounts::default();
        inputs.iter().for_each(|slots| whole.add(slots));
        let (mut a, mut b) = (TrainingCounts::default(), TrainingCounts::default());
        inputs[..1].iter().for_each(|slots| a.add(slots));
        inputs[1..].iter().for_each(|slots| b.add(slots));
        a.merge(b.clone());
        assert_eq!(a.coverage(), whole.coverage());
        assert_eq!((a.pattern_numbers(), b.pattern_numbers()), (2, 2));
        // Patterns that are counted elsewhere count the same.
        for (_, inputs) in a.take_patterns() {
            a.add_covered_by(inputs);
        }
        assert_eq!(a.coverage(), whole.coverage());
        assert_eq!(a.pattern_numbers(), 0);
    }
}
