//! Which rows and neurons are drawn to be masked.

use npcov_paths::random::{DrawnFor, Generator};

/// Rows of a dataset, `count` of them at most, in ascending order.
pub(crate) fn rows(len: usize, count: usize, seed: u64) -> Vec<usize> {
    generator(seed, 0, 0).sample(len, count)
}

/// Half of a sample, of an odd number the larger half: positions in ascending order.
pub(crate) fn half(len: usize, seed: u64) -> Vec<usize> {
    generator(seed, u64::MAX - 1, 0).sample(len, len.div_ceil(2))
}

/// `count` of `0..neurons` for one layer of one input. A smaller count gives the first of them.
pub(crate) fn neurons(
    neurons: usize,
    count: usize,
    seed: u64,
    layer: usize,
    input: usize,
) -> Vec<u32> {
    generator(seed, 1 + layer as u64, input as u64).first(neurons, count)
}

/// Another of `0..len` than what `same` rejects, for an input; `None` where ten thousand draws find
/// none.
pub(crate) fn other(
    len: usize,
    seed: u64,
    input: usize,
    same: impl Fn(usize) -> bool,
) -> Option<usize> {
    let mut rng = generator(seed, u64::MAX, input as u64);
    let mut draws = (0..10_000).map(|_| rng.below(len as u64) as usize);
    draws.find(|&index| index < len && !same(index))
}

fn generator(seed: u64, purpose: u64, stream: u64) -> Generator {
    Generator::new(seed, DrawnFor::Masking, purpose, stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_never_the_same() {
        for input in 0..50 {
            let found = other(10, 3, input, |i| i % 2 == 0).unwrap();
            assert!(found < 10 && found % 2 == 1);
            assert_eq!(other(10, 3, input, |i| i % 2 == 0), Some(found));
        }
        assert_eq!(other(10, 3, 0, |_| true), None);
        assert_eq!(other(0, 3, 0, |_| false), None);
    }

    #[test]
    fn smaller_sets_are_parts_of_larger_ones() {
        let all = neurons(70, 70, 1, 2, 3);
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..70).collect::<Vec<_>>());
        assert_eq!(neurons(70, 12, 1, 2, 3), all[..12]);
        for (seed, layer, input) in [(2, 2, 3), (1, 1, 3), (1, 2, 4)] {
            assert_ne!(neurons(70, 70, seed, layer, input), all);
        }
    }
}
