//! Random numbers that depend on a seed and on what they are for, never on the order of work.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Indices of `0..len`, `count` of them at most, in ascending order; every such choice is equally
/// likely.
pub(crate) fn sample(len: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut rng = generator(seed, 0, 0);
    let mut missing = count.min(len);
    let mut chosen = Vec::with_capacity(missing);
    for index in 0..len {
        // Of the indices that are left, `missing` are taken: this one with that probability.
        if below((len - index) as u64, &mut rng) < missing as u64 {
            chosen.push(index);
            missing -= 1;
        }
    }
    chosen
}

/// `count` of `0..neurons` for one layer of one input. A smaller count gives the first of them.
pub(crate) fn neurons(
    neurons: usize,
    count: usize,
    seed: u64,
    layer: usize,
    input: usize,
) -> Vec<u32> {
    let mut rng = generator(seed, 1 + layer as u64, input as u64);
    let mut order: Vec<u32> = (0..neurons as u32).collect();
    for place in 0..count.min(neurons) {
        let other = place + below((neurons - place) as u64, &mut rng) as usize;
        order.swap(place, other);
    }
    order.truncate(count);
    order
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
    let mut draws = (0..10_000).map(|_| below(len as u64, &mut rng) as usize);
    draws.find(|&index| index < len && !same(index))
}

fn generator(seed: u64, purpose: u64, stream: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&purpose.to_le_bytes());
    // K-means has the keys that end in zeros.
    key[31] = 1;
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(stream);
    rng
}

/// A number below `bound`, each equally likely.
fn below(bound: u64, rng: &mut ChaCha8Rng) -> u64 {
    let bound = bound.max(1);
    // The largest multiple of the bound that fits, so that every remainder is equally likely.
    let multiple = u64::MAX - u64::MAX % bound;
    loop {
        let number = rng.next_u64();
        if number < multiple {
            return number % bound;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_ascending_and_of_the_size_asked_for() {
        for (len, count) in [(0, 3), (5, 0), (5, 5), (5, 9), (1000, 37)] {
            let chosen = sample(len, count, 7);
            assert_eq!(chosen.len(), count.min(len));
            assert!(chosen.is_sorted_by(|a, b| a < b) && chosen.iter().all(|&i| i < len));
        }
        assert_ne!(sample(1000, 37, 7), sample(1000, 37, 8));
    }

    #[test]
    fn every_index_is_as_likely() {
        let mut counts = [0; 10];
        for seed in 0..3000 {
            sample(10, 3, seed).into_iter().for_each(|i| counts[i] += 1);
        }
        // 900 expected; the standard deviation is sqrt(3000 * 0.3 * 0.7) = 25.
        assert!(
            counts.iter().all(|&n: &i32| (n - 900).abs() < 125),
            "{counts:?}"
        );
    }

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
