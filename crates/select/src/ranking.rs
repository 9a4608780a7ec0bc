//! Orders of inputs, by what they cover or by their scores.
//!
//! What inputs cover are lists of numbers, which may be far more than memory holds: they are read
//! one at a time. The greedy order is *lazy*: what an input adds only ever shrinks while others are
//! chosen, so what it added at an earlier time is a bound, and only inputs whose bound is the
//! highest are looked at again (Minoux, 1978). The order is that of the greedy method which looks
//! at all of them every time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use npcov_paths::random::{DrawnFor, Generator};

/// The things that each of some inputs covers, by number.
///
/// The upper half of a number says what kind of thing it is, the lower one which.
pub(crate) trait SlotLists {
    /// Why a list cannot be read.
    type Error;

    /// Number of inputs.
    fn len(&self) -> usize;

    /// How many things an input covers.
    fn count(&self, input: usize) -> u64;

    /// Puts the things that an input covers into `out`, in the place of what is there: each once.
    fn read(&self, input: usize, out: &mut Vec<u64>) -> Result<(), Self::Error>;
}

/// A place in an order of inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ranked {
    /// The input.
    pub(crate) input: usize,
    /// Why it is there: its score, or the number of things that it covers or adds.
    pub(crate) score: f64,
}

/// A set of things.
#[derive(Clone, Debug, Default)]
pub(crate) struct Covered {
    /// For each kind, a bit for each thing.
    kinds: Vec<Vec<u64>>,
    counts: Vec<u64>,
}

impl Covered {
    /// Adds a thing. Whether it was not there before.
    pub(crate) fn insert(&mut self, thing: u64) -> bool {
        let (kind, word, bit) = place(thing);
        if self.kinds.len() <= kind {
            self.kinds.resize_with(kind + 1, Vec::new);
            self.counts.resize(kind + 1, 0);
        }
        let words = &mut self.kinds[kind];
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        let is_new = words[word] & bit == 0;
        words[word] |= bit;
        self.counts[kind] += u64::from(is_new);
        is_new
    }

    /// Adds things.
    pub(crate) fn extend(&mut self, things: &[u64]) {
        for &thing in things {
            self.insert(thing);
        }
    }

    /// Whether a thing is in it.
    pub(crate) fn contains(&self, thing: u64) -> bool {
        let (kind, word, bit) = place(thing);
        let words = self.kinds.get(kind).map_or(&[][..], |words| words);
        words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many there are of a kind.
    pub(crate) fn count_of(&self, kind: usize) -> u64 {
        self.counts.get(kind).copied().unwrap_or(0)
    }

    fn clear(&mut self) {
        self.kinds.iter_mut().for_each(|words| words.fill(0));
        self.counts.fill(0);
    }
}

/// Where a thing's bit is.
fn place(thing: u64) -> (usize, usize, u64) {
    let (kind, number) = ((thing >> 32) as usize, thing as u32);
    (kind, number as usize / 64, 1 << (number % 64))
}

/// What some inputs cover together.
pub(crate) fn covered<L: SlotLists>(
    lists: &L,
    inputs: impl IntoIterator<Item = usize>,
) -> Result<Covered, L::Error> {
    let mut covered = Covered::default();
    let mut list = Vec::new();
    for input in inputs {
        lists.read(input, &mut list)?;
        covered.extend(&list);
    }
    Ok(covered)
}

/// The first `most` inputs of the coverage-additional order: each next input adds the most things;
/// of equal ones, the first. When no input adds anything, everything counts as not
/// covered again, and the rest is ordered in the same way. Inputs that cover nothing come last.
pub(crate) fn additional<L: SlotLists>(lists: &L, most: usize) -> Result<Vec<Ranked>, L::Error> {
    let mut order = Vec::new();
    let (mut rest, empty): (Vec<usize>, Vec<usize>) =
        (0..lists.len()).partition(|&input| lists.count(input) > 0);
    let mut covered = Covered::default();
    while !rest.is_empty() && order.len() < most {
        let round = additional_round(lists, &mut rest, most - order.len(), &mut covered)?;
        order.extend(round);
        covered.clear();
    }
    order.extend(empty.into_iter().map(|input| Ranked { input, score: 0.0 }));
    order.truncate(most);
    Ok(order)
}

/// Takes inputs from `rest` until none adds anything to what is covered, or `most` are found. What
/// stays is in ascending order, as before.
fn additional_round<L: SlotLists>(
    lists: &L,
    rest: &mut Vec<usize>,
    most: usize,
    covered: &mut Covered,
) -> Result<Vec<Ranked>, L::Error> {
    let bound = |&input: &usize| (lists.count(input), Reverse(input));
    let mut bounds: BinaryHeap<(u64, Reverse<usize>)> = rest.iter().map(bound).collect();
    let mut order = Vec::new();
    let mut unused = Vec::new();
    let mut list = Vec::new();
    while let Some((_, Reverse(input))) = bounds.pop() {
        if order.len() == most {
            unused.push(input);
            continue;
        }
        lists.read(input, &mut list)?;
        let gain = list.iter().filter(|&&thing| !covered.contains(thing));
        let gain = gain.count() as u64;
        if gain == 0 {
            unused.push(input);
        } else if bounds
            .peek()
            .is_some_and(|next| *next > (gain, Reverse(input)))
        {
            bounds.push((gain, Reverse(input)));
        } else {
            covered.extend(&list);
            let score = gain as f64;
            order.push(Ranked { input, score });
        }
    }
    unused.sort_unstable();
    *rest = unused;
    Ok(order)
}

/// The coverage-total order: inputs that cover the most things first.
pub(crate) fn total<L: SlotLists>(lists: &L) -> Vec<Ranked> {
    let counts: Vec<f64> = (0..lists.len()).map(|i| lists.count(i) as f64).collect();
    by_score(&counts)
}

/// The inputs with the highest scores first; of equal ones, the first.
pub(crate) fn by_score(scores: &[f64]) -> Vec<Ranked> {
    // Zeros are equal, whatever their sign.
    let ranked = |(input, score): (usize, &f64)| Ranked {
        input,
        score: score + 0.0,
    };
    let mut order: Vec<Ranked> = scores.iter().enumerate().map(ranked).collect();
    order.sort_by(|a, b| b.score.total_cmp(&a.score));
    order
}

/// A random order; each is equally likely.
pub(crate) fn random(inputs: usize, seed: u64) -> Vec<Ranked> {
    let mut rng = Generator::new(seed, DrawnFor::Selection, 0, 0);
    let mut order: Vec<(u64, usize)> = (0..inputs).map(|i| (rng.number(), i)).collect();
    order.sort_unstable();
    let ranked = |(_, input)| Ranked { input, score: 0.0 };
    order.into_iter().map(ranked).collect()
}

/// A small set of inputs that covers what all cover, none of which can be left out. They come in
/// the order in which they were found, each with the number of things that it adds to those before
/// it.
///
/// The smallest such set is hard to find. A greedy one has at most 1 + ln(n) times as many inputs,
/// where n is the most things that one input covers (Chvatal, 1979).
pub(crate) fn minimal<L: SlotLists>(lists: &L) -> Result<Vec<Ranked>, L::Error> {
    let mut inputs: Vec<usize> = (0..lists.len()).collect();
    let all = inputs.len();
    let found = additional_round(lists, &mut inputs, all, &mut Covered::default())?;
    let mut times: HashMap<u64, u32> = HashMap::new();
    let mut list = Vec::new();
    for ranked in &found {
        lists.read(ranked.input, &mut list)?;
        for &thing in &list {
            *times.entry(thing).or_default() += 1;
        }
    }
    // Those that were found last add least.
    let mut kept = Vec::new();
    for ranked in found.into_iter().rev() {
        lists.read(ranked.input, &mut list)?;
        let is_needed = list.iter().any(|thing| times.get(thing) == Some(&1));
        if is_needed {
            kept.push(ranked.input);
            continue;
        }
        for thing in &list {
            if let Some(times) = times.get_mut(thing) {
                *times -= 1;
            }
        }
    }
    let mut covered = Covered::default();
    let mut order = Vec::new();
    for &input in kept.iter().rev() {
        lists.read(input, &mut list)?;
        let added = list.iter().filter(|&&thing| covered.insert(thing)).count();
        let score = added as f64;
        order.push(Ranked { input, score });
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// Lists in memory.
    struct Table(Vec<Vec<u64>>);

    impl SlotLists for Table {
        type Error = Infallible;

        fn len(&self) -> usize {
            self.0.len()
        }

        fn count(&self, input: usize) -> u64 {
            self.0[input].len() as u64
        }

        fn read(&self, input: usize, out: &mut Vec<u64>) -> Result<(), Infallible> {
            out.clone_from(&self.0[input]);
            Ok(())
        }
    }

    /// Lists of a few things of two kinds.
    fn lists() -> impl Strategy<Value = Vec<Vec<u64>>> {
        let thing = (0u64..2, 0u64..20).prop_map(|(kind, i)| kind << 32 | (i * 7));
        let list = prop::collection::btree_set(thing, 0..8);
        let list = list.prop_map(|list| list.into_iter().collect());
        prop::collection::vec(list, 0..30)
    }

    /// The definition: looks at all inputs before each choice.
    fn naive_additional(lists: &[Vec<u64>]) -> Vec<(usize, usize)> {
        let mut order = Vec::new();
        let mut rest: Vec<usize> = (0..lists.len()).collect();
        let mut covered: BTreeSet<u64> = BTreeSet::new();
        while !rest.is_empty() {
            let gain = |input: usize| lists[input].iter().filter(|t| !covered.contains(t)).count();
            let most = rest.iter().map(|&input| gain(input)).max().unwrap();
            if most == 0 && !covered.is_empty() {
                covered.clear();
                continue;
            }
            let place = rest.iter().position(|&input| gain(input) == most).unwrap();
            let input = rest.remove(place);
            covered.extend(&lists[input]);
            order.push((input, most));
        }
        order
    }

    fn pairs(order: &[Ranked]) -> Vec<(usize, usize)> {
        let pair = |ranked: &Ranked| (ranked.input, ranked.score as usize);
        order.iter().map(pair).collect()
    }

    fn union<'a>(lists: impl IntoIterator<Item = &'a Vec<u64>>) -> BTreeSet<u64> {
        lists.into_iter().flatten().copied().collect()
    }

    #[test]
    fn worked_case() {
        // Input 1 covers three things. After it, inputs 0 and 2 add one each: 0 is the first of
        // them. Then 2 adds `5`, and 3 nothing. From the start, 3 covers two things. Input 4
        // covers nothing at all.
        let table = Table(vec![
            vec![1, 4],
            vec![1, 2, 3],
            vec![2, 5],
            vec![1, 3],
            vec![],
        ]);
        let Ok(order) = additional(&table, 5);
        assert_eq!(pairs(&order), [(1, 3), (0, 1), (2, 1), (3, 2), (4, 0)]);
        assert_eq!(
            pairs(&total(&table)),
            [(1, 3), (0, 2), (2, 2), (3, 2), (4, 0)]
        );
        let Ok(kept) = minimal(&table);
        assert_eq!(pairs(&kept), [(1, 3), (0, 1), (2, 1)]);
        let Ok(covered) = covered(&table, [0, 2]);
        assert_eq!(covered.count(), 4);
    }

    #[test]
    fn what_greedy_took_first_may_be_redundant() {
        // Greedy takes 0 with four things; 1 and 2 are needed for `5` and `6`, and cover the rest.
        let table = Table(vec![vec![1, 2, 3, 4], vec![1, 2, 5], vec![3, 4, 6]]);
        let Ok(kept) = minimal(&table);
        assert_eq!(pairs(&kept), [(1, 3), (2, 3)]);
    }

    #[test]
    fn infinite_scores_come_first_and_equal_ones_in_order() {
        let scores = [0.0, f64::INFINITY, -1.0, -0.0, 2.0, f64::INFINITY];
        let order: Vec<usize> = by_score(&scores).iter().map(|r| r.input).collect();
        assert_eq!(order, [1, 5, 4, 0, 3, 2]);
    }

    #[test]
    fn random_orders_are_of_all_inputs_and_depend_on_the_seed() {
        let order = |seed| -> Vec<usize> { random(50, seed).iter().map(|r| r.input).collect() };
        let mut sorted = order(1);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        // Each input is first about as often: 200 times of 2,000, with a standard deviation of 13.
        let mut first = [0; 10];
        (0..2000).for_each(|seed| first[random(10, seed)[0].input] += 1);
        assert!(
            first.iter().all(|n: &i32| (n - 200).abs() < 70),
            "{first:?}"
        );
    }

    proptest! {
        #[test]
        fn the_lazy_order_is_the_naive_one(lists in lists(), most in 0usize..40) {
            let naive = naive_additional(&lists);
            let most = most.min(lists.len());
            let Ok(order) = additional(&Table(lists.clone()), lists.len());
            prop_assert_eq!(pairs(&order), naive.clone());
            let Ok(begin) = additional(&Table(lists), most);
            prop_assert_eq!(&pairs(&begin)[..], &naive[..most]);
        }

        #[test]
        fn minimal_sets_cover_everything_and_nothing_is_redundant(lists in lists()) {
            let Ok(kept) = minimal(&Table(lists.clone()));
            let inputs: Vec<usize> = kept.iter().map(|ranked| ranked.input).collect();
            let all = union(&lists);
            prop_assert_eq!(&union(inputs.iter().map(|&i| &lists[i])), &all);
            for left_out in &inputs {
                let others = inputs.iter().filter(|input| *input != left_out);
                prop_assert!(union(others.map(|&i| &lists[i])).len() < all.len());
            }
            let added: f64 = kept.iter().map(|ranked| ranked.score).sum();
            prop_assert_eq!(added as usize, all.len());
        }

        #[test]
        fn sets_count_what_is_in_them(lists in lists()) {
            let Ok(found) = covered(&Table(lists.clone()), 0..lists.len());
            let all = union(&lists);
            prop_assert_eq!(found.count(), all.len() as u64);
            let kinds = [0, 1].map(|kind| found.count_of(kind));
            prop_assert_eq!(kinds[0], all.iter().filter(|&&t| t >> 32 == 0).count() as u64);
            prop_assert_eq!(kinds[0] + kinds[1], found.count());
            prop_assert!(all.iter().all(|&thing| found.contains(thing)));
            prop_assert!(!found.contains(1) && !found.contains(9 << 32));
        }
    }
}
