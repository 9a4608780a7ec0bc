//! Coverage states: what suites have covered, in files that can be merged.

use std::ops::Range;
use std::path::Path;

use npcov_criteria::{Amount, CriterionError, CriterionSet, InputRun, Spec, State};
use npcov_data::safetensors::{SafetensorsReader, SafetensorsWriter, TensorSpec};
use npcov_paths::NO_CLUSTER;

use crate::calibration::{Calibration, ScoreKind};
use crate::error::ArtefactError;
use crate::names;
use crate::record::{
    CriterionRecord, DataRecord, StateRecord, SuiteRecord, TOO_MANY_INPUTS, are_possible,
};
use crate::store::ShardStore;
use crate::{Kind, MOST_CLUSTERS, differences, metadata, open, record_of, state_tensors};

/// What some suites cover of a decision graph.
#[derive(Clone, Debug, PartialEq)]
pub struct CoverageState {
    /// Where it comes from. Its list of suites is that of `suites`.
    record: StateRecord,
    /// What scores of inputs are held against.
    calibration: Calibration,
    pub(crate) suites: Vec<MeasuredSuite>,
}

/// What a suite covers.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredSuite {
    /// Its name.
    pub name: String,
    /// What was measured, in order and without overlaps.
    pub shards: Vec<DataRecord>,
    /// The inputs, in the order of the shards.
    pub inputs: Vec<InputRecord>,
    /// Their names, or nothing where none has a name; empty for an input without one.
    pub names: Vec<String>,
    /// What each criterion of the state keeps.
    pub states: Vec<State>,
}

/// Where an input is in the decision graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InputRecord {
    /// The predicted class.
    pub prediction: u32,
    /// The label; [`NO_LABEL`] without labels.
    pub label: i64,
    /// The cluster of that class that it belongs to, or [`NO_CLUSTER`].
    pub cluster: u32,
    /// How far its decision is from every one of its class that training showed, or [`NO_SCORE`].
    pub unfamiliar: f64,
    /// How far that is beside the way to decisions of other classes, or [`NO_SCORE`].
    pub contested: f64,
}

/// The label of inputs that have none.
pub const NO_LABEL: i64 = i64::MIN;

/// The score of inputs that have none; scores are never negative.
pub const NO_SCORE: f64 = -1.0;

impl InputRecord {
    /// Whether it is classified as labelled; `None` without a label.
    pub fn is_correct(&self) -> Option<bool> {
        (self.label != NO_LABEL).then_some(self.label == i64::from(self.prediction))
    }

    /// What the score of a kind is; `None` where the input has none.
    pub fn score(&self, kind: ScoreKind) -> Option<f64> {
        let score = match kind {
            ScoreKind::Unfamiliar => self.unfamiliar,
            ScoreKind::Contested => self.contested,
        };
        (score != NO_SCORE).then_some(score)
    }
}

impl MeasuredSuite {
    /// Adds another part of the suite. The result does not depend on the order of parts.
    pub fn merge(&mut self, other: &MeasuredSuite, criteria: &[Spec]) -> Result<(), ArtefactError> {
        let mut parts: Vec<(DataRecord, InputRun)> = Vec::new();
        for (other, suite) in [(false, &*self), (true, other)] {
            let mut start = 0;
            for shard in &suite.shards {
                let end = start + shard.end.saturating_sub(shard.start);
                let inputs = start..end;
                parts.push((shard.clone(), InputRun { other, inputs }));
                start = end;
            }
        }
        let (shards, order) = in_order(&self.name, parts)?;
        let (mut inputs, mut names) = (Vec::new(), Vec::new());
        let named = !(self.names.is_empty() && other.names.is_empty());
        for run in &order {
            let suite = if run.other { other } else { &*self };
            inputs.extend_from_slice(&suite.inputs[run.inputs.clone()]);
            if named {
                let name = |i: usize| suite.names.get(i).cloned().unwrap_or_default();
                names.extend(run.inputs.clone().map(name));
            }
        }
        let states = self.states.iter_mut().zip(&other.states).zip(criteria);
        for ((state, other), criterion) in states {
            state
                .merge(other, &order)
                .map_err(|e| criterion.failed(e))?;
        }
        self.shards = shards;
        self.inputs = inputs;
        self.names = names;
        Ok(())
    }

    /// Adds the shard that was measured next. States of criteria for which the order of inputs
    /// matters go on in it.
    pub fn append(
        &mut self,
        next: MeasuredSuite,
        criteria: &CriterionSet,
    ) -> Result<(), ArtefactError> {
        for shard in next.shards {
            match self.shards.last_mut() {
                Some(last) if last.sha256 == shard.sha256 && last.end == shard.start => {
                    last.end = shard.end;
                }
                _ => self.shards.push(shard),
            }
        }
        if !(self.names.is_empty() && next.names.is_empty()) {
            self.names.resize(self.inputs.len(), String::new());
            self.names.extend(next.names);
            let inputs = self.inputs.len() + next.inputs.len();
            self.names.resize(inputs, String::new());
        }
        self.inputs.extend(next.inputs);
        let states = self.states.iter_mut().zip(next.states);
        for ((state, next), member) in states.zip(criteria.members()) {
            match member.criterion.ordered() {
                true => *state = next,
                false => state.append(&next).map_err(|e| member.failed(e))?,
            }
        }
        Ok(())
    }
}

/// Shards of a suite in their order, neighbours as one, and where each of them is found. None may overlap.
pub(crate) fn in_order<T>(
    suite: &str,
    mut parts: Vec<(DataRecord, T)>,
) -> Result<(Vec<DataRecord>, Vec<T>), ArtefactError> {
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    let mut shards: Vec<DataRecord> = Vec::new();
    let mut places = Vec::with_capacity(parts.len());
    for (shard, place) in parts {
        match shards.last_mut() {
            Some(last) if last.sha256 == shard.sha256 && last.end > shard.start => {
                return Err(ArtefactError::Overlap {
                    suite: suite.to_owned(),
                    start: shard.start,
                    end: last.end.min(shard.end),
                });
            }
            Some(last) if last.sha256 == shard.sha256 && last.end == shard.start => {
                last.end = shard.end;
            }
            _ => shards.push(shard),
        }
        places.push(place);
    }
    Ok((shards, places))
}

impl CoverageState {
    /// Without a suite.
    pub fn new(record: StateRecord, calibration: Calibration) -> CoverageState {
        CoverageState {
            record: StateRecord {
                suites: Vec::new(),
                ..record
            },
            calibration,
            suites: Vec::new(),
        }
    }

    /// What scores of inputs are held against.
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// Where it comes from.
    pub fn record(&self) -> &StateRecord {
        &self.record
    }

    /// The suites, in the order in which they were added.
    pub fn suites(&self) -> &[MeasuredSuite] {
        &self.suites
    }

    /// Leaves only the suites that `keep` wants.
    pub fn retain_suites(&mut self, keep: impl FnMut(&MeasuredSuite) -> bool) {
        self.suites.retain(keep);
    }

    /// The suites alone.
    pub fn into_suites(self) -> Vec<MeasuredSuite> {
        self.suites
    }

    /// The same inputs as one suite of this name.
    pub fn named(self, name: &str) -> Result<CoverageState, ArtefactError> {
        let mut state = CoverageState::new(self.record, self.calibration);
        for mut suite in self.suites {
            name.clone_into(&mut suite.name);
            state.add(suite)?;
        }
        Ok(state)
    }

    /// Some of the suites as one of this name, as if their inputs had been measured together. A name
    /// that no suite has is an error.
    pub fn united(&self, suites: &[&str], name: &str) -> Result<CoverageState, ArtefactError> {
        let mut state = CoverageState::new(self.record.clone(), self.calibration.clone());
        for &wanted in suites {
            let found = self.suites.iter().find(|suite| suite.name == wanted);
            let suite = found.ok_or_else(|| ArtefactError::NoSuchSuite {
                name: wanted.to_owned(),
                suites: self.suites.iter().map(|suite| suite.name.clone()).collect(),
            })?;
            state.add(MeasuredSuite {
                name: name.to_owned(),
                ..suite.clone()
            })?;
        }
        Ok(state)
    }

    /// Adds a suite; to one of the same name, where there is one.
    pub fn add(&mut self, suite: MeasuredSuite) -> Result<(), ArtefactError> {
        let criteria = self.record.specs();
        match self.suites.iter_mut().find(|s| s.name == suite.name) {
            Some(existing) => existing.merge(&suite, &criteria)?,
            None => self.suites.push(suite),
        }
        Ok(())
    }

    /// Whether parts of datasets were measured, each for the suite of that name.
    pub fn holds<'a>(&self, mut parts: impl Iterator<Item = (&'a str, &'a DataRecord)>) -> bool {
        parts.all(|(name, part)| {
            let covers = |shard: &DataRecord| {
                shard.sha256 == part.sha256 && shard.start <= part.start && shard.end >= part.end
            };
            let suite = self.suites.iter().find(|suite| suite.name == name);
            suite.is_some_and(|suite| suite.shards.iter().any(covers))
        })
    }

    /// The criteria, to tell what their states are worth.
    pub fn criteria(&self) -> Result<CriterionSet, ArtefactError> {
        let record = &self.record;
        Ok(CriterionSet::new(&record.specs(), record.network_shape())?)
    }

    /// What all suites cover together, by criterion; `None` where the order of inputs matters.
    /// Inputs that several of them hold count for each.
    pub fn together(&self) -> Vec<Option<State>> {
        let Some((first, rest)) = self.suites.split_first() else {
            return Vec::new();
        };
        let one = |(i, state): (usize, &State)| {
            let mut all = state.clone();
            let mut states = rest.iter().filter_map(|suite| suite.states.get(i));
            states.try_for_each(|state| all.append(state)).ok()?;
            Some(all)
        };
        first.states.iter().enumerate().map(one).collect()
    }

    /// Adds the suites of another state of the same graph, with the same choices.
    pub fn merge(&mut self, other: CoverageState, file: &Path) -> Result<(), ArtefactError> {
        self.require(&other.record, file)?;
        other
            .suites
            .into_iter()
            .try_for_each(|suite| self.add(suite))
    }

    /// Fails with what differs unless another record is of the same graph and the same choices.
    pub fn require(&self, other: &StateRecord, file: &Path) -> Result<(), ArtefactError> {
        if other.graph != self.record.graph {
            return Err(ArtefactError::AnotherGraph {
                file: file.display().to_string(),
                found: other.graph.clone(),
                expected: self.record.graph.clone(),
            });
        }
        // Baselines and labels follow from the graph and the criteria, and nobody reads lists of
        // frequencies.
        let comparable = |record: &StateRecord| StateRecord {
            version: String::new(),
            training_labels: Vec::new(),
            suites: Vec::new(),
            criteria: record.criteria.iter().map(CriterionRecord::bare).collect(),
            ..record.clone()
        };
        let found = differences(&comparable(other), &comparable(&self.record));
        match found.is_empty() {
            true => Ok(()),
            false => Err(ArtefactError::Mismatch {
                file: file.display().to_string(),
                differences: found,
            }),
        }
    }

    /// Reads a state.
    pub fn read(path: impl AsRef<Path>) -> Result<CoverageState, ArtefactError> {
        let (reader, record) = open::<StateRecord>(path.as_ref(), Kind::CoverageState)?;
        CoverageState::of(&reader, record)
    }

    /// Reads a state from an artefact that is open.
    pub fn from_reader(reader: &SafetensorsReader) -> Result<CoverageState, ArtefactError> {
        CoverageState::of(reader, record_of(reader, Kind::CoverageState)?)
    }

    fn of(reader: &SafetensorsReader, record: StateRecord) -> Result<CoverageState, ArtefactError> {
        // Whatever is counted of so many clusters is far from overflowing.
        let too_many =
            |&(planned, clusters): &(usize, usize)| planned > MOST_CLUSTERS || clusters > planned;
        let refused = |reason: String| ArtefactError::Artefact {
            file: reader.name().to_owned(),
            reason,
        };
        if record.classes.iter().any(too_many) {
            let reason = "a class has more clusters than it may have";
            return Err(refused(reason.to_owned()));
        }
        if !are_possible(&record.shares) || !are_possible(&record.training_labels) {
            return Err(refused(TOO_MANY_INPUTS.to_owned()));
        }
        let clusters: usize = record.classes.iter().map(|class| class.1).sum();
        if record.shares.len() != clusters {
            return Err(refused("not every cluster has a share".to_owned()));
        }
        if ![0, record.classes.len()].contains(&record.training_labels.len()) {
            return Err(refused("not every class has training labels".to_owned()));
        }
        let criteria = CriterionSet::new(&record.specs(), record.network_shape())
            .map_err(|error| refused(error.to_string()))?;
        if criteria.members().len() != record.criteria.len() {
            return Err(refused("it has a criterion twice".to_owned()));
        }
        let mut suites = Vec::new();
        for (i, suite) in record.suites.iter().enumerate() {
            suites.push(read_suite(reader, &record, &criteria, i, suite)?);
        }
        Ok(CoverageState {
            calibration: Calibration::read(reader)?,
            record,
            suites,
        })
    }

    /// Writes it, whole or not at all.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), ArtefactError> {
        let (metadata, tensors) = self.layout()?;
        let mut writer = SafetensorsWriter::create(path.as_ref(), &metadata, &tensors)?;
        self.fill(&mut writer)?;
        Ok(writer.finish()?)
    }

    /// Writes it as a shard of some inputs.
    pub fn write_shard(
        &self,
        store: &ShardStore,
        shard: &str,
        inputs: Range<usize>,
    ) -> Result<(), ArtefactError> {
        let (metadata, tensors) = self.layout()?;
        store.write(shard, inputs, &metadata, &tensors, |writer| {
            self.fill(writer)
        })
    }

    /// Writes it as the artefact that shards were made for.
    pub fn write_artefact(&self, store: &ShardStore) -> Result<(), ArtefactError> {
        let (metadata, tensors) = self.layout()?;
        let written = store.write_artefact(&metadata, &tensors, |writer| self.fill(writer));
        written.map(drop)
    }

    /// Its metadata and tensors.
    pub(crate) fn layout(&self) -> Result<(String, Vec<TensorSpec>), ArtefactError> {
        let suite_record = |suite: &MeasuredSuite| SuiteRecord {
            name: suite.name.clone(),
            shards: suite.shards.clone(),
        };
        let record = StateRecord {
            suites: self.suites.iter().map(suite_record).collect(),
            ..self.record.clone()
        };
        let mut tensors: Vec<TensorSpec> = self.calibration.specs().collect();
        let criteria = self.record.specs();
        for (i, suite) in self.suites.iter().enumerate() {
            tensors.extend(suite.specs(i, &criteria));
        }
        Ok((metadata(Kind::CoverageState, &record)?, tensors))
    }

    pub(crate) fn fill(&self, writer: &mut SafetensorsWriter) -> Result<(), ArtefactError> {
        self.calibration.write(writer)?;
        let criteria = self.record.specs();
        let mut suites = self.suites.iter().enumerate();
        suites.try_for_each(|(i, suite)| suite.write(i, &criteria, writer, &mut 0))
    }
}

impl MeasuredSuite {
    /// The tensors of suite `i` of a file.
    pub(crate) fn specs(&self, i: usize, criteria: &[Spec]) -> Vec<TensorSpec> {
        let inputs = &[self.inputs.len()];
        let mut tensors = vec![
            TensorSpec::of::<u32>(format!("{i}.prediction"), inputs),
            TensorSpec::of::<i64>(format!("{i}.label"), inputs),
            TensorSpec::of::<u32>(format!("{i}.cluster"), inputs),
            TensorSpec::of::<f64>(format!("{i}.unfamiliar"), inputs),
            TensorSpec::of::<f64>(format!("{i}.contested"), inputs),
        ];
        tensors.extend(names::specs(&format!("{i}.name"), &self.names));
        for (state, criterion) in self.states.iter().zip(criteria) {
            tensors.extend(state_tensors::specs(&format!("{i}.{criterion}"), state));
        }
        tensors
    }

    /// Appends it to the tensors of suite `i` of a file. Names that are there already end at `named`, which is moved on.
    pub(crate) fn write(
        &self,
        i: usize,
        criteria: &[Spec],
        writer: &mut SafetensorsWriter,
        named: &mut u64,
    ) -> Result<(), ArtefactError> {
        for (state, criterion) in self.states.iter().zip(criteria) {
            state_tensors::write(writer, &format!("{i}.{criterion}"), state)?;
        }
        names::write(writer, &format!("{i}.name"), &self.names, named)?;
        for input in &self.inputs {
            writer.append(&format!("{i}.prediction"), &[input.prediction])?;
            writer.append(&format!("{i}.label"), &[input.label])?;
            writer.append(&format!("{i}.cluster"), &[input.cluster])?;
            writer.append(&format!("{i}.unfamiliar"), &[input.unfamiliar])?;
            writer.append(&format!("{i}.contested"), &[input.contested])?;
        }
        Ok(())
    }

    /// The scores that criteria gave the inputs, by name.
    pub fn scores<'a>(
        &'a self,
        record: &'a StateRecord,
    ) -> impl Iterator<Item = (String, &'a [f64])> {
        let criteria = record.criteria.iter().zip(&self.states);
        criteria.flat_map(|(record, state)| {
            let options = record.criterion.to_string();
            let options = options[record.criterion.name.len()..].to_owned();
            state.all_scores().map(move |(name, scores)| {
                let name = format!("{name}{options}");
                (name, scores)
            })
        })
    }
}

fn read_suite(
    reader: &SafetensorsReader,
    state: &StateRecord,
    criteria: &CriterionSet,
    index: usize,
    record: &SuiteRecord,
) -> Result<MeasuredSuite, ArtefactError> {
    let wrong = |what: &str| ArtefactError::Artefact {
        file: reader.name().to_owned(),
        reason: format!("suite `{}`: {what}", record.name),
    };
    let prediction: Vec<u32> = reader.read(&format!("{index}.prediction"))?;
    let label: Vec<i64> = reader.read(&format!("{index}.label"))?;
    let cluster: Vec<u32> = reader.read(&format!("{index}.cluster"))?;
    let unfamiliar: Vec<f64> = reader.read(&format!("{index}.unfamiliar"))?;
    let contested: Vec<f64> = reader.read(&format!("{index}.contested"))?;
    let count = |shard: &DataRecord| shard.end.saturating_sub(shard.start);
    let inputs = record
        .shards
        .iter()
        .map(count)
        .fold(0, usize::saturating_add);
    let lens = [
        prediction.len(),
        label.len(),
        cluster.len(),
        unfamiliar.len(),
        contested.len(),
    ];
    if lens.iter().any(|&len| len != inputs) {
        return Err(wrong("it has another number of inputs than it says"));
    }
    let parts = record.shards.iter().map(|shard| (shard.clone(), ()));
    let in_order = in_order(&record.name, parts.collect());
    let is_part = |shard: &DataRecord| shard.start < shard.end;
    if !record.shards.iter().all(is_part)
        || in_order.ok().map(|found| found.0) != Some(record.shards.clone())
    {
        return Err(wrong("its parts overlap or are in no order"));
    }
    let mut end = 0;
    let clusters = state.classes.iter().map(|class| {
        let start = end;
        end += class.1;
        start..end
    });
    let clusters: Vec<Range<usize>> = clusters.collect();
    let known = |(&class, &cluster): (&u32, &u32)| {
        let own = clusters.get(class as usize);
        own.is_some_and(|own| cluster == NO_CLUSTER || own.contains(&(cluster as usize)))
    };
    let is_score = |&score: &f64| score == NO_SCORE || (score >= 0.0 && score.is_finite());
    if !unfamiliar.iter().chain(&contested).all(is_score) {
        return Err(wrong("the score of an input is none"));
    }
    if !prediction.iter().zip(&cluster).all(known) {
        return Err(wrong("an input is in a class or cluster that is not there"));
    }
    let mut states = Vec::new();
    for (member, known) in criteria.members().iter().zip(&state.criteria) {
        let prefix = format!("{index}.{}", member.spec);
        let own = |tensor: &&TensorSpec| {
            let part = tensor.name.strip_prefix(&prefix);
            part.is_some_and(|part| part.starts_with('.'))
        };
        let numbers = |tensor: &TensorSpec| tensor.shape.iter().product::<usize>();
        let stored: usize = reader.tensors().filter(own).map(numbers).sum();
        // A sum is two of them.
        if member.criterion.sums() > stored / 2 {
            return Err(wrong(&format!("`{prefix}` has another size")));
        }
        let read = state_tensors::read(reader, &prefix, inputs, member.criterion.state())?;
        let read = read.map_err(|reason| wrong(&reason))?;
        let impossible = |error: CriterionError| wrong(&format!("`{prefix}`: {error}"));
        member.criterion.check(&read, inputs).map_err(impossible)?;
        if let Some(training) = &known.training_coverage {
            let values = member.criterion.values(&read).map_err(impossible)?;
            // A criterion is fitted to nothing here, so what there is stands in the state.
            let all = values
                .iter()
                .try_fold(0_u64, |all, value| match value.amount {
                    Amount::Share { total, .. } => Some(all.saturating_add(total)),
                    _ => None,
                });
            let possible = |all| training.covered() <= member.criterion.most_covered(all);
            if !all.is_none_or(possible) {
                let reason = "training inputs cover more than there is";
                return Err(wrong(&format!("`{prefix}`: {reason}")));
            }
        }
        states.push(read);
    }
    Ok(MeasuredSuite {
        name: record.name.clone(),
        shards: record.shards.clone(),
        names: names::read(reader, &format!("{index}.name"), inputs)?,
        inputs: (0..inputs)
            .map(|i| InputRecord {
                prediction: prediction[i],
                label: label[i],
                cluster: cluster[i],
                unfamiliar: unfamiliar[i],
                contested: contested[i],
            })
            .collect(),
        states,
    })
}
