//! Random numbers that depend on a seed and on what they are for, never on the order of work.
//!
//! One seed serves everything that is drawn. Who draws, for what purpose and for which input or
//! repetition makes different numbers of it.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Who draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawing {
    /// Clusters of paths.
    Clusters = 0,
    /// Inputs and neurons that are masked.
    Masking = 1,
    /// Random orders of inputs.
    Selection = 2,
    /// Where attacks start.
    Attacks = 3,
    /// Experiments.
    Experiments = 4,
}

/// The generator of a seed for one purpose; `stream` tells inputs or repetitions apart.
pub fn generator(seed: u64, drawing: Drawing, purpose: u64, stream: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&purpose.to_le_bytes());
    key[31] = drawing as u8;
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(stream);
    rng
}

/// A number below `bound`, each equally likely; 0 for a bound of 0.
pub fn below(bound: u64, rng: &mut ChaCha8Rng) -> u64 {
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

/// Indices of `0..len`, `count` of them at most, in ascending order; every such choice is equally
/// likely.
pub fn sample(len: usize, count: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut missing = count.min(len);
    let mut chosen = Vec::with_capacity(missing);
    for index in 0..len {
        // Of the indices that are left, `missing` are taken: this one with that probability.
        if below((len - index) as u64, rng) < missing as u64 {
            chosen.push(index);
            missing -= 1;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(len: usize, count: usize, seed: u64) -> Vec<usize> {
        sample(len, count, &mut generator(seed, Drawing::Masking, 0, 0))
    }

    #[test]
    fn samples_are_ascending_and_of_the_size_asked_for() {
        for (len, count) in [(0, 3), (5, 0), (5, 5), (5, 9), (1000, 37)] {
            let chosen = drawn(len, count, 7);
            assert_eq!(chosen.len(), count.min(len));
            assert!(chosen.is_sorted_by(|a, b| a < b) && chosen.iter().all(|&i| i < len));
        }
    }

    #[test]
    fn every_index_is_as_likely() {
        let mut counts = [0; 10];
        for seed in 0..3000 {
            drawn(10, 3, seed).into_iter().for_each(|i| counts[i] += 1);
        }
        // 900 expected; the standard deviation is sqrt(3000 * 0.3 * 0.7) = 25.
        assert!(
            counts.iter().all(|&n: &i32| (n - 900).abs() < 125),
            "{counts:?}"
        );
    }

    #[test]
    fn seeds_users_purposes_and_streams_differ() {
        let first =
            |seed, drawing, purpose, stream| generator(seed, drawing, purpose, stream).next_u64();
        let one = first(1, Drawing::Attacks, 2, 3);
        assert_eq!(one, first(1, Drawing::Attacks, 2, 3));
        assert_ne!(one, first(2, Drawing::Attacks, 2, 3));
        assert_ne!(one, first(1, Drawing::Selection, 2, 3));
        assert_ne!(one, first(1, Drawing::Attacks, 1, 3));
        assert_ne!(one, first(1, Drawing::Attacks, 2, 4));
    }
}
