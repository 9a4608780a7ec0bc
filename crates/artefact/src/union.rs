//! Coverage states in files, united into another file.
//!
//! What a state says of single inputs is as long as its suites. It is not held: in the end it goes from file to file.
//! The rest of a state has a size that the criteria decide, and is united as files come.

use std::ops::Range;
use std::path::{Path, PathBuf};

use npcov_data::safetensors::{SafetensorsWriter, TensorSpec};

use crate::error::ArtefactError;
use crate::record::DataRecord;
use crate::state_file::{CoverageState, MeasuredSuite, in_order};

/// Coverage states of one graph in files, to be united into another file. It has the bytes of the states united in
/// memory, but takes no more memory for more inputs: one file is read at a time.
#[derive(Debug, Default)]
pub struct StateUnion {
    files: Vec<PathBuf>,
    /// All that does not belong to single inputs.
    state: Option<CoverageState>,
    /// What does, for each suite.
    suites: Vec<Spread>,
}

/// The inputs of a suite, spread over files.
#[derive(Debug, Default)]
struct Spread {
    runs: Vec<(DataRecord, Run)>,
    /// The tensors that they will fill.
    tensors: Vec<TensorSpec>,
    is_named: bool,
}

/// Inputs that follow each other in a file.
#[derive(Debug)]
struct Run {
    file: usize,
    /// The suite's position in that file.
    suite: usize,
    inputs: Range<usize>,
}

impl StateUnion {
    /// Adds a file, which must stay as it is until the end.
    pub fn add(&mut self, file: &Path) -> Result<(), ArtefactError> {
        let state = CoverageState::read(file)?;
        let (record, calibration) = (state.record().clone(), state.calibration());
        let whole = match &mut self.state {
            Some(whole) => whole,
            none => none.insert(CoverageState::new(record.clone(), calibration.clone())),
        };
        whole.require(&record, file)?;
        let criteria = record.specs();
        for (position, suite) in state.into_suites().into_iter().enumerate() {
            let known = whole.suites.iter().position(|s| s.name == suite.name);
            let place = known.unwrap_or(whole.suites.len());
            if known.is_none() {
                self.suites.push(Spread::default());
            }
            let spread = &mut self.suites[place];
            let mut start = 0;
            for shard in &suite.shards {
                let end = start + shard.end.saturating_sub(shard.start);
                let run = Run {
                    file: self.files.len(),
                    suite: position,
                    inputs: start..end,
                };
                spread.runs.push((shard.clone(), run));
                start = end;
            }
            spread.is_named |= !suite.names.is_empty();
            let inputs = only_inputs(&suite, 0..suite.inputs.len(), false);
            let inputs = inputs.ok_or_else(|| changed(file))?;
            lengthen(&mut spread.tensors, inputs.specs(place, &criteria));
            let rest = without_inputs(suite);
            match whole.suites.get_mut(place) {
                None => whole.suites.push(rest),
                Some(suite) => {
                    let states = suite.states.iter_mut().zip(&rest.states);
                    for ((state, other), criterion) in states.zip(&criteria) {
                        state.append(other).map_err(|e| criterion.failed(e))?;
                    }
                }
            }
        }
        self.files.push(file.to_owned());
        Ok(())
    }

    /// Writes the union, whole or not at all.
    pub fn finish(self, output: &Path) -> Result<(), ArtefactError> {
        let mut state = self.state.ok_or(ArtefactError::NothingToMerge)?;
        let criteria = state.record().specs();
        let mut tensors = Vec::new();
        let mut spread_runs = Vec::new();
        for (place, mut spread) in self.suites.into_iter().enumerate() {
            let inputs = spread.runs.iter().map(|(_, run)| run.inputs.len()).sum();
            // Beside names, an input without one has an empty one.
            let ends = format!("{place}.name.ends");
            let named = spread.tensors.iter_mut().find(|t| t.name == ends);
            named.into_iter().for_each(|ends| ends.shape = vec![inputs]);
            tensors.extend(spread.tensors);
            let suite = &mut state.suites[place];
            let (shards, runs) = in_order(&suite.name, spread.runs)?;
            suite.shards = shards;
            spread_runs.push((spread.is_named, runs));
        }
        let (metadata, mut all) = state.layout()?;
        lengthen(&mut all, tensors);
        let mut writer = SafetensorsWriter::create(output, &metadata, &all)?;
        state.fill(&mut writer)?;
        let mut open: Option<(usize, Vec<MeasuredSuite>)> = None;
        for (place, (is_named, runs)) in spread_runs.into_iter().enumerate() {
            let mut named = 0;
            for run in runs {
                let file = &self.files[run.file];
                let suites = match open.take() {
                    Some((open, suites)) if open == run.file => suites,
                    _ => CoverageState::read(file)?.into_suites(),
                };
                let suite = suites.get(run.suite);
                let inputs = suite.and_then(|suite| only_inputs(suite, run.inputs, is_named));
                let inputs = inputs.ok_or_else(|| changed(file))?;
                inputs.write(place, &criteria, &mut writer, &mut named)?;
                open = Some((run.file, suites));
            }
        }
        Ok(writer.finish()?)
    }
}

/// What a suite covers, without what it says of single inputs.
fn without_inputs(suite: MeasuredSuite) -> MeasuredSuite {
    let states = suite.states.into_iter();
    MeasuredSuite {
        inputs: Vec::new(),
        names: Vec::new(),
        states: states.map(|state| state.without_inputs()).collect(),
        ..suite
    }
}

/// What a suite says of some inputs, and nothing else, with names if need be; `None` where it has not so many inputs.
fn only_inputs(
    suite: &MeasuredSuite,
    inputs: Range<usize>,
    is_named: bool,
) -> Option<MeasuredSuite> {
    let names = match is_named || !suite.names.is_empty() {
        true => {
            let name = |i| suite.names.get(i).cloned().unwrap_or_default();
            inputs.clone().map(name).collect()
        }
        false => Vec::new(),
    };
    let states = suite.states.iter();
    Some(MeasuredSuite {
        name: suite.name.clone(),
        shards: Vec::new(),
        inputs: suite.inputs.get(inputs.clone())?.to_vec(),
        names,
        states: states
            .map(|state| state.only_inputs(inputs.clone()))
            .collect::<Option<_>>()?,
    })
}

fn changed(file: &Path) -> ArtefactError {
    ArtefactError::Artefact {
        file: file.display().to_string(),
        reason: "it changed while it was united with others".to_owned(),
    }
}

/// Makes tensors longer by the rows of others of the same names; those that are not there are added.
fn lengthen(tensors: &mut Vec<TensorSpec>, others: Vec<TensorSpec>) {
    for other in others {
        match tensors.iter_mut().find(|tensor| tensor.name == other.name) {
            Some(tensor) => {
                let rows = tensor.shape.iter_mut().zip(other.shape);
                rows.take(1).for_each(|(rows, more)| *rows += more);
            }
            None => tensors.push(other),
        }
    }
}
