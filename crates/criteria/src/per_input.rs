//! Numbers of which every training input has one, or a few.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::training::TrainingError;

/// Numbers of which every training input has one, or a few. There are as many as training inputs, so they may be in a
/// file, and are read part by part.
#[derive(Clone)]
pub struct PerInput {
    len: usize,
    read: Arc<Read>,
}

/// Puts the numbers of some inputs into a list of as many.
type Read = dyn Fn(Range<usize>, &mut [f64]) -> Result<(), TrainingError> + Send + Sync;

impl PerInput {
    /// So many numbers, which `read` gives.
    pub fn new(
        len: usize,
        read: impl Fn(Range<usize>, &mut [f64]) -> Result<(), TrainingError> + Send + Sync + 'static,
    ) -> PerInput {
        PerInput {
            len,
            read: Arc::new(read),
        }
    }

    /// Numbers in memory.
    pub fn in_memory(numbers: Vec<f64>) -> PerInput {
        PerInput::new(numbers.len(), move |inputs, out| {
            let found = numbers.get(inputs).ok_or("numbers of no inputs")?;
            out.copy_from_slice(found);
            Ok(())
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts the numbers of some inputs into `out`, which has room for exactly those.
    pub fn read(&self, inputs: Range<usize>, out: &mut [f64]) -> Result<(), TrainingError> {
        (self.read)(inputs, out)
    }
}

impl PartialEq for PerInput {
    /// Whether they are the same ones; equal ones in two places are not.
    fn eq(&self, other: &PerInput) -> bool {
        self.len == other.len && Arc::ptr_eq(&self.read, &other.read)
    }
}

impl fmt::Debug for PerInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PerInput({})", self.len)
    }
}

/// Numbers that are read at a time.
const BLOCK: usize = 4096;

/// Blocks that are kept: inputs of several classes are asked for in turn, and are near to each other.
const BLOCKS: usize = 4;

/// Gives single numbers of inputs that mostly ascend.
pub(crate) struct Lookup<'a> {
    numbers: &'a PerInput,
    /// Blocks with their positions, the one that was used last at the end.
    blocks: Vec<(usize, Vec<f64>)>,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(numbers: &'a PerInput) -> Lookup<'a> {
        Lookup {
            numbers,
            blocks: Vec::with_capacity(BLOCKS),
        }
    }

    pub(crate) fn get(&mut self, input: usize) -> Result<f64, TrainingError> {
        let found = self.block(input / BLOCK)?.get(input % BLOCK);
        Ok(*found.ok_or("numbers of no inputs")?)
    }

    /// Two numbers that follow one another, the first one in an even place: a pair is in one block.
    pub(crate) fn pair(&mut self, pair: usize) -> Result<(f64, f64), TrainingError> {
        let first = 2 * pair;
        let block = self.block(first / BLOCK)?;
        match block.get(first % BLOCK..first % BLOCK + 2) {
            Some(&[first, second]) => Ok((first, second)),
            _ => Err("numbers of no inputs".into()),
        }
    }

    fn block(&mut self, wanted: usize) -> Result<&[f64], TrainingError> {
        let is_last = |blocks: &[(usize, Vec<f64>)]| blocks.last().is_some_and(|b| b.0 == wanted);
        if !is_last(&self.blocks) {
            let found = self.blocks.iter().position(|&(block, _)| block == wanted);
            let block = match found {
                Some(place) => self.blocks.remove(place),
                None => self.read(wanted)?,
            };
            self.blocks.push(block);
        }
        Ok(self.blocks.last().map_or(&[], |(_, numbers)| numbers))
    }

    /// Reads a block, in the place of the one that was not used for the longest time.
    fn read(&mut self, wanted: usize) -> Result<(usize, Vec<f64>), TrainingError> {
        let mut numbers = match self.blocks.len() < BLOCKS {
            true => Vec::new(),
            false => self.blocks.remove(0).1,
        };
        let len = self.numbers.len;
        let inputs = (wanted * BLOCK).min(len)..((wanted + 1) * BLOCK).min(len);
        numbers.resize(inputs.len(), 0.0);
        self.numbers.read(inputs, &mut numbers)?;
        Ok((wanted, numbers))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn blocks_are_read_once_for_inputs_that_are_near() {
        let reads = Arc::new(Mutex::new(Vec::new()));
        let seen = reads.clone();
        let numbers = PerInput::new(6 * BLOCK + 3, move |inputs, out| {
            seen.lock().unwrap().push(inputs.start / BLOCK);
            inputs.zip(out).for_each(|(input, out)| *out = input as f64);
            Ok(())
        });
        let mut lookup = Lookup::new(&numbers);
        for step in 0..6 * BLOCK {
            for input in [step, (step + BLOCK).min(6 * BLOCK + 2)] {
                assert_eq!(lookup.get(input).unwrap(), input as f64);
            }
        }
        assert_eq!(*reads.lock().unwrap(), [0, 1, 2, 3, 4, 5, 6]);
        assert!(lookup.get(6 * BLOCK + 3).is_err());
    }
}
