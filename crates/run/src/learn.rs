//! What the outputs of a model mean, where only data can tell.

use std::ops::Range;
use std::sync::Arc;

use npcov_data::Loader;

use crate::error::RunError;
use crate::network::{Network, targets_of};
use crate::signature::widened;
use crate::task::{Observed, RegressionOptions, Task};

/// The network for what its outputs mean, and what was found out about that.
///
/// Outputs behind a softmax or a sigmoid are classes, and so are those that the task says are. A single output is a logit
/// of two classes where all labels are 0 or 1, else it is a number; several outputs are numbers where labels are none of
/// the classes. Of numbers, bins are learnt from what the network gives for the inputs of `range`.
pub fn resolve(
    network: &Arc<Network>,
    data: &Loader,
    range: Range<usize>,
    threads: usize,
) -> Result<(Arc<Network>, Vec<String>), RunError> {
    let outputs = network.signature().logits();
    let options = match &network.options().task {
        _ if !network.is_open() => return Ok((network.clone(), Vec::new())),
        Task::Regression(options) => options.clone(),
        _ => {
            let binary = || (0..data.len()).all(|row| matches!(data.label(row), Some(0 | 1)));
            match (outputs, data.is_labelled(), data.targets()) {
                (1, true, _) if binary() => {
                    let note = "the model has a single logit, and all labels are 0 or 1: two classes, by its sign";
                    let network = network.with_task(Task::Classification)?;
                    return Ok((Arc::new(network), vec![note.to_owned()]));
                }
                (1, _, _) | (_, _, Some(_)) => RegressionOptions::default(),
                _ => return Ok((network.clone(), Vec::new())),
            }
        }
    };
    let told = matches!(network.options().task, Task::Regression(_));
    let plain = network.with_task(Task::Regression(options.clone()))?;
    let tracer = plain.logits_tracer()?;
    let mut numbers = Vec::new();
    tracer.run(data, range.clone(), threads, |batch| {
        let found = batch.outputs.first().map_or(&[][..], Vec::as_slice);
        let rows = batch.rows.clone().zip(found.chunks_exact(outputs.max(1)));
        for (row, found) in rows {
            if !found.iter().all(|x| x.is_finite()) {
                return Err(RunError::NotFinite { row });
            }
            numbers.extend(widened(found));
        }
        Ok(())
    })?;
    if numbers.is_empty() {
        return Err(RunError::NoInputs(data.name().to_owned()));
    }
    let chosen = match options.output {
        crate::task::OutputChoice::One(output) => Some(output),
        _ => None,
    };
    let all = targets_of(&**data.samples(), outputs, chosen)?;
    let part = range.start * outputs..range.end * outputs;
    let observed = Observed {
        outputs,
        numbers: &numbers,
        targets: all.as_deref().and_then(|all| all.get(part)),
    };
    let (learnt, mut notes) = options.learn(&observed)?;
    if !told {
        let why = match data.targets() {
            Some(_) => "labels are no classes",
            None if data.is_labelled() => "a single output, and labels other than 0 and 1",
            None => "a single output, and no labels",
        };
        notes.insert(
            0,
            format!(
                "the model gives numbers ({why}): they are told apart by {} bins; `--task` says otherwise",
                learnt.classes()
            ),
        );
    }
    let network = network.with_task(Task::Numbers(learnt))?;
    Ok((Arc::new(network), notes))
}
