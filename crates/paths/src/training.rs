//! Training inputs: what is known of each of them in memory, and where the rest of it is.

use std::convert::Infallible;
use std::ops::Range;

use crate::bits::BitRows;
use crate::choices::Members;
use crate::layout::PathLayout;
use crate::narrow::Narrow;

/// Paths that are read at a time.
const BLOCK: usize = 1024;

/// Where the paths of training inputs are. They may be larger than memory, so they are asked for piece by piece.
pub trait PathSource {
    /// Why they cannot be had.
    type Error;

    /// Appends the paths of some training inputs to `out`, whose rows are as wide as theirs.
    fn read_paths(&self, inputs: Range<usize>, out: &mut BitRows) -> Result<(), Self::Error>;
}

impl PathSource for BitRows {
    type Error = Infallible;

    fn read_paths(&self, inputs: Range<usize>, out: &mut BitRows) -> Result<(), Infallible> {
        inputs.for_each(|input| out.push(self.row(input)));
        Ok(())
    }
}

/// Where the activations of training inputs are, besides their paths.
pub trait TrainingActivations: PathSource {
    /// Puts the activations of a training input, those of all layers one after the other, into
    /// `out`, which has room for exactly those.
    fn read(&self, input: u32, out: &mut [f32]) -> Result<(), Self::Error>;
}

/// Hands on the paths of so many training inputs, in order.
pub fn for_each_path<S: PathSource>(
    source: &S,
    layout: &PathLayout,
    inputs: usize,
    mut take: impl FnMut(u32, &[u64]),
) -> Result<(), S::Error> {
    let mut block = BitRows::new(layout.width());
    for start in (0..inputs).step_by(BLOCK) {
        let rows = start..(start + BLOCK).min(inputs);
        block.clear();
        source.read_paths(rows.clone(), &mut block)?;
        for (row, path) in rows.zip(block.rows()) {
            take(row as u32, path);
        }
    }
    Ok(())
}

/// The paths of some training inputs, whose positions ascend.
pub fn gather<S: PathSource>(
    source: &S,
    layout: &PathLayout,
    inputs: &[u32],
) -> Result<BitRows, S::Error> {
    let mut gathered = BitRows::new(layout.width());
    let mut block = BitRows::new(layout.width());
    let in_one_read = |a: &u32, b: &u32| *a as usize / BLOCK == *b as usize / BLOCK;
    for inputs in inputs.chunk_by(in_one_read) {
        let (Some(&first), Some(&last)) = (inputs.first(), inputs.last()) else {
            continue;
        };
        block.clear();
        source.read_paths(first as usize..last as usize + 1, &mut block)?;
        for &input in inputs {
            gathered.push(block.row((input - first) as usize));
        }
    }
    Ok(gathered)
}

/// What is known of every training input: few bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainingInputs {
    /// The path layers.
    pub layout: PathLayout,
    /// The class predicted for each.
    pub predictions: Narrow,
    /// The label of each, where there are labels.
    pub labels: Option<Narrow>,
}

impl TrainingInputs {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.predictions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.predictions.is_empty()
    }

    /// The class predicted for an input; one that no model has where there is no such input.
    pub fn prediction(&self, input: usize) -> u32 {
        let class = self.predictions.get(input);
        class
            .and_then(|class| class.try_into().ok())
            .unwrap_or(u32::MAX)
    }

    /// The label of an input, where there are labels.
    pub fn label(&self, input: usize) -> Option<i64> {
        self.labels.as_ref()?.get(input)
    }

    /// Whether an input takes part in the graph of its class.
    pub fn is_member(&self, input: usize, members: Members) -> bool {
        match (members, self.label(input)) {
            (Members::Predicted, _) | (_, None) => true,
            (Members::Correct, Some(label)) => self.predictions.get(input) == Some(label),
        }
    }

    /// The training inputs that a class has, in order.
    pub fn rows_of(&self, class: usize, members: Members) -> impl Iterator<Item = u32> {
        let rows = self.predictions.iter().enumerate();
        let of_class = rows.filter(move |&(_, prediction)| prediction == class as i64);
        of_class
            .filter(move |&(row, _)| self.is_member(row, members))
            .map(|(row, _)| row as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts what is read at a time.
    struct Counted(BitRows, std::cell::RefCell<Vec<Range<usize>>>);

    impl PathSource for Counted {
        type Error = Infallible;

        fn read_paths(&self, inputs: Range<usize>, out: &mut BitRows) -> Result<(), Infallible> {
            self.1.borrow_mut().push(inputs.clone());
            self.0.read_paths(inputs, out)
        }
    }

    #[test]
    fn paths_are_read_block_by_block() {
        let layout = PathLayout::new([64]);
        let mut rows = BitRows::new(1);
        (0..2500).for_each(|row| rows.push(&[row * row]));
        let source = Counted(rows, Default::default());
        let mut next = 0;
        let Ok(()) = for_each_path(&source, &layout, 2500, |row, path| {
            assert_eq!((row, path[0]), (next, u64::from(next).pow(2)));
            next += 1;
        });
        assert_eq!(next, 2500);
        assert_eq!(source.1.take(), [0..1024, 1024..2048, 2048..2500]);
        let Ok(found) = gather(&source, &layout, &[3, 1000, 1024, 2499]);
        let squares: Vec<u64> = found.rows().map(|row| row[0]).collect();
        assert_eq!(squares, [9, 1_000_000, 1024 * 1024, 2499 * 2499]);
        assert_eq!(source.1.take(), [3..1001, 1024..1025, 2499..2500]);
    }
}
