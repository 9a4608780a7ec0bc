//! What experiments draw at random.

use npcov::paths::random::{DrawnFor, Generator};

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Inputs whose paths are compared.
    Similarity = 0,
    /// Inputs that controls are masked for.
    Controls = 1,
    /// Inputs that are shown for a cluster.
    Shown = 2,
    /// The suite that errors are put into.
    Benign = 3,
    /// Which inputs of it are replaced, and the order of classes.
    Replaced = 4,
    /// Natural errors.
    Natural = 5,
    /// Inputs that are attacked.
    Attacked = 6,
    /// Benign inputs in the place of errors.
    Others = 7,
    /// Seeds of diverse suites.
    Seeds = 8,
    /// Suites without a kind, and complete ones.
    Kinds = 9,
    /// Pairs of a bootstrap sample.
    Bootstrap = 10,
}

pub(crate) fn generator(seed: u64, purpose: Purpose, stream: u64) -> Generator {
    Generator::new(seed, DrawnFor::Experiments, purpose as u64, stream)
}

/// Puts a list into a random order; every order is equally likely.
pub(crate) fn shuffle<T>(list: &mut [T], seed: u64, purpose: Purpose, stream: u64) {
    generator(seed, purpose, stream).shuffle(list);
}

/// Some of a list, in its order; every choice is equally likely.
pub(crate) fn some<T: Copy>(list: &[T], count: usize, seed: u64, purpose: Purpose) -> Vec<T> {
    let mut places: Vec<usize> = (0..list.len()).collect();
    shuffle(&mut places, seed, purpose, 0);
    places.truncate(count);
    places.sort_unstable();
    places.into_iter().map(|place| list[place]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_purposes_and_streams_differ() {
        let order = |seed, purpose, stream| {
            let mut list: Vec<u8> = (0..20).collect();
            shuffle(&mut list, seed, purpose, stream);
            list
        };
        let one = order(1, Purpose::Seeds, 0);
        assert_eq!(one, order(1, Purpose::Seeds, 0));
        assert_ne!(one, order(2, Purpose::Seeds, 0));
        assert_ne!(one, order(1, Purpose::Benign, 0));
        assert_ne!(one, order(1, Purpose::Seeds, 1));
    }

    #[test]
    fn some_of_a_list_keep_their_order() {
        let list = [5, 6, 7, 8, 9];
        let chosen = some(&list, 3, 1, Purpose::Controls);
        assert!(chosen.len() == 3 && chosen.is_sorted() && chosen.iter().all(|x| list.contains(x)));
        assert_eq!(some(&list, 9, 1, Purpose::Controls), list);
    }
}
