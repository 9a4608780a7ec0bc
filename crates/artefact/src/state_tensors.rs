//! The states of criteria as tensors.

use npcov_criteria::{BitSet, Kept, Patterns, State, StatePart};
use npcov_data::DataError;
use npcov_data::safetensors::{SafetensorsReader, SafetensorsWriter, TensorSpec};

/// Sums that are written and read at once: a network for photographs may have millions.
const SUMS: usize = 1 << 14;

/// The tensors that a state is written to. Names begin with `prefix`.
pub(crate) fn specs(prefix: &str, state: &State) -> Vec<TensorSpec> {
    let mut specs = Vec::new();
    for (name, part) in state.parts() {
        let name = format!("{prefix}.{name}");
        match part {
            StatePart::Set(set) => specs.push(TensorSpec::of::<u64>(name, &[set.words().len()])),
            // Low and high half of each.
            StatePart::Sums(sums) => specs.push(TensorSpec::of::<u64>(name, &[sums.len(), 2])),
            StatePart::Patterns(patterns) => {
                let shape = [patterns.rows().len(), patterns.width()];
                specs.push(TensorSpec::of::<u32>(name, &shape));
            }
            StatePart::Scores(scores) => specs.push(TensorSpec::of::<f64>(name, &[scores.len()])),
            StatePart::Lists(lists) => {
                let numbers = lists.iter().map(|list| list.len()).sum();
                specs.push(TensorSpec::of::<u32>(
                    format!("{name}.lengths"),
                    &[lists.len()],
                ));
                specs.push(TensorSpec::of::<u32>(name, &[numbers]));
            }
            StatePart::Kept(kept) => {
                specs.push(TensorSpec::of::<u32>(
                    format!("{name}.keys"),
                    &[kept.keys.len()],
                ));
                specs.push(TensorSpec::of::<f32>(name, &[kept.numbers.len()]));
            }
            StatePart::Fixed(numbers) => specs.push(TensorSpec::of::<f64>(name, &[numbers.len()])),
        }
    }
    specs
}

/// Writes a state to its tensors.
pub(crate) fn write(
    writer: &mut SafetensorsWriter,
    prefix: &str,
    state: &State,
) -> Result<(), DataError> {
    for (name, part) in state.parts() {
        let name = format!("{prefix}.{name}");
        match part {
            StatePart::Set(set) => writer.append(&name, set.words())?,
            StatePart::Sums(sums) => {
                let halves = |sum: &i128| [*sum as u64, (*sum >> 64) as u64];
                for sums in sums.chunks(SUMS) {
                    let words: Vec<u64> = sums.iter().flat_map(halves).collect();
                    writer.append(&name, &words)?;
                }
            }
            StatePart::Patterns(patterns) => {
                for row in patterns.rows() {
                    writer.append(&name, row)?;
                }
            }
            StatePart::Scores(numbers) | StatePart::Fixed(numbers) => {
                writer.append(&name, numbers)?
            }
            StatePart::Lists(lists) => {
                let lengths: Vec<u32> = lists.iter().map(|list| list.len() as u32).collect();
                writer.append(&format!("{name}.lengths"), &lengths)?;
                writer.append(&name, &lists.concat())?;
            }
            StatePart::Kept(kept) => {
                writer.append(&format!("{name}.keys"), &kept.keys)?;
                writer.append(&name, &kept.numbers)?;
            }
        }
    }
    Ok(())
}

/// Reads a state of `inputs` inputs into an empty one. What does not fit is named.
pub(crate) fn read(
    reader: &SafetensorsReader,
    prefix: &str,
    inputs: usize,
    mut state: State,
) -> Result<Result<State, String>, DataError> {
    let names: Vec<&str> = state.parts().iter().map(|(name, _)| *name).collect();
    for (name, part) in names.iter().zip(state.parts_mut()) {
        let name = format!("{prefix}.{name}");
        let wrong = || Ok(Err(format!("`{name}` has another size")));
        let none = || Ok(Err(format!("`{name}` holds what is no number")));
        match part {
            StatePart::Set(set) => match BitSet::from_words(set.bound(), reader.read(&name)?) {
                Some(read) => *set = read,
                None => return wrong(),
            },
            StatePart::Sums(sums) => {
                if reader
                    .tensor(&name)
                    .is_some_and(|tensor| tensor.shape != [sums.len(), 2])
                {
                    return wrong();
                }
                let mut words = vec![0; 2 * SUMS.min(sums.len())];
                for (number, sums) in sums.chunks_mut(SUMS).enumerate() {
                    let start = number * SUMS;
                    let words = &mut words[..2 * sums.len()];
                    reader.read_rows::<u64>(&name, start..start + sums.len(), words)?;
                    for (sum, halves) in sums.iter_mut().zip(words.chunks_exact(2)) {
                        *sum = (i128::from(halves[1] as i64) << 64) | i128::from(halves[0]);
                    }
                }
            }
            StatePart::Patterns(patterns) => {
                let numbers: Vec<u32> = reader.read(&name)?;
                let width = patterns.width();
                if width == 0 || !numbers.len().is_multiple_of(width) {
                    return wrong();
                }
                let mut read = Patterns::new(width);
                numbers.chunks_exact(width).for_each(|row| read.insert(row));
                *patterns = read;
            }
            StatePart::Scores(scores) => {
                *scores = reader.read(&name)?;
                if scores.len() != inputs {
                    return wrong();
                }
                // What was never seen is infinitely surprising, and nothing is less than that.
                if scores.iter().any(|&x| x.is_nan() || x == f64::NEG_INFINITY) {
                    return none();
                }
            }
            StatePart::Lists(lists) => {
                let lengths: Vec<u32> = reader.read(&format!("{name}.lengths"))?;
                let numbers: Vec<u32> = reader.read(&name)?;
                let mut rest = &numbers[..];
                for length in lengths {
                    let Some((list, behind)) = rest.split_at_checked(length as usize) else {
                        return wrong();
                    };
                    lists.push(list.into());
                    rest = behind;
                }
                if lists.len() != inputs || !rest.is_empty() {
                    return wrong();
                }
            }
            StatePart::Kept(kept) => {
                *kept = Kept {
                    keys: reader.read(&format!("{name}.keys"))?,
                    numbers: reader.read(&name)?,
                };
                if kept.numbers.iter().any(|x| !x.is_finite()) {
                    return none();
                }
            }
            StatePart::Fixed(numbers) => {
                let read: Vec<f64> = reader.read(&name)?;
                if read.len() != numbers.len() {
                    return wrong();
                }
                if read.iter().any(|x| !x.is_finite()) {
                    return none();
                }
                *numbers = read;
            }
        }
    }
    Ok(Ok(state))
}
