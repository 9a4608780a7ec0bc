//! Random numbers that depend on a seed and on what they are for, never on the order of work.
//!
//! One seed serves everything that is drawn. Which task draws, for what purpose and for which input
//! or repetition makes different numbers of it.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// What random numbers are drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawnFor {
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
    /// What is wrong with mutants.
    Mutants = 5,
}

/// A source of random numbers: ChaCha with eight rounds, the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Generator(ChaCha8Rng);

impl Generator {
    /// Of a seed, for one purpose of a task; `stream` tells inputs or repetitions apart.
    pub fn new(seed: u64, drawn_for: DrawnFor, purpose: u64, stream: u64) -> Generator {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&purpose.to_le_bytes());
        key[31] = drawn_for as u8;
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(stream);
        Generator(rng)
    }

    /// A number of 64 bits, each equally likely.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, each equally likely; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let bound = bound.max(1);
        // The largest multiple of the bound that fits, so that every remainder is equally likely.
        let multiple = u64::MAX - u64::MAX % bound;
        loop {
            let number = self.number();
            if number < multiple {
                return number % bound;
            }
        }
    }

    /// A number from 0 up to and without 1, with 24 bits: twice it less one is exact in `f32`.
    pub fn uniform(&mut self) -> f64 {
        f64::from(self.0.next_u32() >> 8) / f64::from(1u32 << 24)
    }

    /// A normally distributed number, by the method of Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Puts a list into a random order; every order is equally likely.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for place in 1..list.len() {
            let other = self.below(place as u64 + 1) as usize;
            list.swap(place, other);
        }
    }

    /// Indices of `0..len`, `count` of them at most, in ascending order; every such choice is equally
    /// likely.
    pub fn sample(&mut self, len: usize, count: usize) -> Vec<usize> {
        let mut missing = count.min(len);
        let mut chosen = Vec::with_capacity(missing);
        for index in 0..len {
            // Of the indices that are left, `missing` are taken: this one with that probability.
            if self.below((len - index) as u64) < missing as u64 {
                chosen.push(index);
                missing -= 1;
            }
        }
        chosen
    }

    /// The first `count` of `0..len` in a random order: those of a smaller count begin those of a
    /// larger one.
    pub fn first(&mut self, len: usize, count: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..len as u32).collect();
        for place in 0..count.min(len) {
            let other = place + self.below((len - place) as u64) as usize;
            order.swap(place, other);
        }
        order.truncate(count);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generator(seed: u64) -> Generator {
        Generator::new(seed, DrawnFor::Masking, 0, 0)
    }

    #[test]
    fn samples_are_ascending_and_of_the_size_asked_for() {
        for (len, count) in [(0, 3), (5, 0), (5, 5), (5, 9), (1000, 37)] {
            let chosen = generator(7).sample(len, count);
            assert_eq!(chosen.len(), count.min(len));
            assert!(chosen.is_sorted_by(|a, b| a < b) && chosen.iter().all(|&i| i < len));
        }
    }

    #[test]
    fn every_index_is_as_likely() {
        let mut counts = [0; 10];
        for seed in 0..3000 {
            let drawn = generator(seed).sample(10, 3);
            drawn.into_iter().for_each(|i| counts[i] += 1);
        }
        // 900 expected; the standard deviation is sqrt(3000 * 0.3 * 0.7) = 25.
        assert!(
            counts.iter().all(|&n: &i32| (n - 900).abs() < 125),
            "{counts:?}"
        );
    }

    #[test]
    fn every_order_is_as_likely() {
        let mut counts = std::collections::BTreeMap::new();
        for seed in 0..6000 {
            let mut list = [0, 1, 2];
            generator(seed).shuffle(&mut list);
            *counts.entry(list.to_vec()).or_insert(0) += 1;
            let first = generator(seed + 6000).first(3, 3);
            *counts.entry(first).or_insert(0) += 1;
        }
        // 2000 expected of each of six orders; the standard deviation is 41.
        assert_eq!(counts.len(), 6);
        assert!(
            counts.values().all(|&n: &i32| (n - 2000).abs() < 205),
            "{counts:?}"
        );
    }

    #[test]
    fn fewer_of_an_order_are_its_first() {
        let all = generator(1).first(70, 70);
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..70).collect::<Vec<_>>());
        assert_eq!(generator(1).first(70, 12), all[..12]);
        assert_eq!(generator(1).first(70, 71), all);
    }

    #[test]
    fn numbers_are_spread_as_they_should_be() {
        let mut rng = generator(3);
        let uniform: Vec<f64> = (0..4000).map(|_| rng.uniform()).collect();
        assert!(uniform.iter().all(|x| (0.0..1.0).contains(x)));
        let normal: Vec<f64> = (0..4000).map(|_| rng.normal()).collect();
        let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
        let squares = |numbers: &[f64]| numbers.iter().map(|x| x * x).collect::<Vec<_>>();
        // Five standard deviations of each mean.
        assert!((mean(&uniform) - 0.5).abs() < 0.023);
        assert!((mean(&squares(&uniform)) - 1.0 / 3.0).abs() < 0.024);
        assert!(mean(&normal).abs() < 0.08);
        assert!((mean(&squares(&normal)) - 1.0).abs() < 0.12);
    }

    #[test]
    fn seeds_tasks_purposes_and_streams_differ() {
        let first =
            |seed, task, purpose, stream| Generator::new(seed, task, purpose, stream).number();
        let one = first(1, DrawnFor::Attacks, 2, 3);
        assert_eq!(one, first(1, DrawnFor::Attacks, 2, 3));
        assert_ne!(one, first(2, DrawnFor::Attacks, 2, 3));
        assert_ne!(one, first(1, DrawnFor::Selection, 2, 3));
        assert_ne!(one, first(1, DrawnFor::Attacks, 1, 3));
        assert_ne!(one, first(1, DrawnFor::Attacks, 2, 4));
    }

    #[test]
    fn numbers_are_the_same_everywhere() {
        // Computed with another program, from the definition of ChaCha.
        let mut rng = Generator::new(1, DrawnFor::Attacks, 2, 3);
        assert_eq!(rng.number(), 3_817_618_158_943_984_807);
    }
}
