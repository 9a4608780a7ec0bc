//! Coverage states: what suites have covered, in files that can be merged.

use std::path::Path;

use npcov_data::DataError;
use npcov_data::safetensors::{SafetensorsReader, SafetensorsWriter, TensorSpec};
use npcov_paths::{Coverage, NO_CLUSTER, Space};

use super::record::{DataRecord, StateRecord, SuiteRecord};
use super::{Kind, MOST_CLUSTERS, differences, metadata, open};
use crate::error::Error;

/// What some suites cover of a decision graph.
#[derive(Clone, Debug, PartialEq)]
pub struct CoverageState {
    /// Where it comes from. Its list of suites is that of `suites`.
    record: StateRecord,
    suites: Vec<Suite>,
}

/// What a suite covers.
#[derive(Clone, Debug, PartialEq)]
pub struct Suite {
    /// Its name.
    pub name: String,
    /// What was measured, in order and without overlaps.
    pub shards: Vec<DataRecord>,
    /// Buckets of SNPC.
    pub snpc: Coverage,
    /// Buckets of ANPC.
    pub anpc: Coverage,
    /// By layer of ANPC: distances that were measured.
    pub distances: Vec<u64>,
    /// By layer of ANPC: distances beyond the bound.
    pub beyond: Vec<u64>,
    /// The inputs, in the order of the shards.
    pub inputs: Vec<InputRecord>,
}

/// Where an input is in the decision graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InputRecord {
    /// The predicted class.
    pub prediction: u32,
    /// The most similar cluster of that class, or [`NO_CLUSTER`].
    pub nearest: u32,
    /// The similarity to it.
    pub similarity: f64,
    /// The most similar cluster of another class, or [`NO_CLUSTER`].
    pub other: u32,
    /// The similarity to that.
    pub other_similarity: f64,
}

impl InputRecord {
    /// How far the input is from every cluster of its class, from 0 to 1.
    pub fn unknown(&self) -> f64 {
        1.0 - self.similarity
    }

    /// How much closer it is to a cluster of another class, from -1 to 1.
    pub fn incorrect(&self) -> f64 {
        self.other_similarity - self.similarity
    }
}

impl Suite {
    /// Adds what another part of the suite covers. The result does not depend on the order.
    pub(crate) fn merge(&mut self, other: &Suite) -> Result<(), Error> {
        let mut parts: Vec<(DataRecord, Vec<InputRecord>)> = Vec::new();
        for suite in [&*self, other] {
            let mut inputs = suite.inputs.iter().copied();
            for shard in &suite.shards {
                let count = shard.end.saturating_sub(shard.start);
                parts.push((shard.clone(), inputs.by_ref().take(count).collect()));
            }
        }
        parts.sort_by(|a, b| a.0.cmp(&b.0));
        self.shards.clear();
        self.inputs.clear();
        for (shard, inputs) in parts {
            match self.shards.last_mut() {
                Some(last) if last.sha256 == shard.sha256 && last.end > shard.start => {
                    return Err(Error::Overlap {
                        suite: self.name.clone(),
                        start: shard.start,
                        end: last.end.min(shard.end),
                    });
                }
                Some(last) if last.sha256 == shard.sha256 && last.end == shard.start => {
                    last.end = shard.end;
                }
                _ => self.shards.push(shard),
            }
            self.inputs.extend(inputs);
        }
        self.snpc.merge(&other.snpc);
        self.anpc.merge(&other.anpc);
        let add = |to: &mut [u64], from: &[u64]| to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
        add(&mut self.distances, &other.distances);
        add(&mut self.beyond, &other.beyond);
        Ok(())
    }
}

impl CoverageState {
    /// Without a suite.
    pub(crate) fn new(record: StateRecord) -> CoverageState {
        CoverageState {
            record: StateRecord {
                suites: Vec::new(),
                ..record
            },
            suites: Vec::new(),
        }
    }

    /// Where it comes from.
    pub fn record(&self) -> &StateRecord {
        &self.record
    }

    /// The suites, in the order in which they were added.
    pub fn suites(&self) -> &[Suite] {
        &self.suites
    }

    /// The suites alone.
    pub(crate) fn into_suites(self) -> Vec<Suite> {
        self.suites
    }

    /// The same inputs as one suite of this name.
    pub(crate) fn named(self, name: &str) -> Result<CoverageState, Error> {
        let mut state = CoverageState::new(self.record);
        for mut suite in self.suites {
            name.clone_into(&mut suite.name);
            state.add(suite)?;
        }
        Ok(state)
    }

    /// Adds a suite; to one of the same name, where there is one.
    pub(crate) fn add(&mut self, suite: Suite) -> Result<(), Error> {
        match self.suites.iter_mut().find(|s| s.name == suite.name) {
            Some(existing) => existing.merge(&suite)?,
            None => self.suites.push(suite),
        }
        Ok(())
    }

    /// What all suites cover together. Inputs that several of them hold count for each.
    pub fn together(&self) -> Option<(Coverage, Coverage)> {
        let (first, rest) = self.suites.split_first()?;
        let mut all = (first.snpc.clone(), first.anpc.clone());
        for suite in rest {
            all.0.merge(&suite.snpc);
            all.1.merge(&suite.anpc);
        }
        Some(all)
    }

    /// Adds the suites of another state of the same graph, with the same choices.
    pub(crate) fn merge(&mut self, other: CoverageState, file: &Path) -> Result<(), Error> {
        self.require(&other.record, file)?;
        other
            .suites
            .into_iter()
            .try_for_each(|suite| self.add(suite))
    }

    /// Fails with what differs unless another record is of the same graph and the same choices.
    pub(crate) fn require(&self, other: &StateRecord, file: &Path) -> Result<(), Error> {
        let comparable = |record: &StateRecord| StateRecord {
            version: String::new(),
            suites: Vec::new(),
            ..record.clone()
        };
        let found = differences(&comparable(other), &comparable(&self.record));
        match found.is_empty() {
            true => Ok(()),
            false => Err(Error::Mismatch {
                file: file.display().to_string(),
                differences: found,
            }),
        }
    }

    /// Reads a state.
    pub fn read(path: impl AsRef<Path>) -> Result<CoverageState, Error> {
        let path = path.as_ref();
        let (reader, record) = open::<StateRecord>(path, Kind::CoverageState)?;
        // Whatever is counted of so many clusters is far from overflowing.
        let too_many =
            |&(planned, clusters): &(usize, usize)| planned > MOST_CLUSTERS || clusters > planned;
        if record.classes.iter().any(too_many) {
            return Err(Error::Artefact {
                file: path.display().to_string(),
                reason: "a class has more clusters than it may have".to_owned(),
            });
        }
        let mut suites = Vec::new();
        for (i, suite) in record.suites.iter().enumerate() {
            suites.push(read_suite(path, &reader, &record, i, suite)?);
        }
        Ok(CoverageState { record, suites })
    }

    /// Writes it, whole or not at all.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        self.fill(|metadata, tensors| SafetensorsWriter::create(path, metadata, tensors))
    }

    /// The same by way of a temporary file in `folder`.
    pub(crate) fn write_by_way_of(&self, folder: &Path, path: &Path) -> Result<(), Error> {
        self.fill(|metadata, tensors| {
            SafetensorsWriter::create_by_way_of(folder, path, metadata, tensors)
        })
    }

    fn fill(
        &self,
        create: impl FnOnce(&str, &[TensorSpec]) -> Result<SafetensorsWriter, DataError>,
    ) -> Result<(), Error> {
        let suite_record = |suite: &Suite| SuiteRecord {
            name: suite.name.clone(),
            shards: suite.shards.clone(),
        };
        let record = StateRecord {
            suites: self.suites.iter().map(suite_record).collect(),
            ..self.record.clone()
        };
        let mut tensors = Vec::new();
        for (i, suite) in self.suites.iter().enumerate() {
            let inputs = &[suite.inputs.len()];
            tensors.extend([
                TensorSpec::of::<u64>(format!("{i}.snpc"), &[suite.snpc.words().len()]),
                TensorSpec::of::<u64>(format!("{i}.anpc"), &[suite.anpc.words().len()]),
                TensorSpec::of::<u64>(format!("{i}.distances"), &[suite.distances.len()]),
                TensorSpec::of::<u64>(format!("{i}.beyond"), &[suite.beyond.len()]),
                TensorSpec::of::<u32>(format!("{i}.prediction"), inputs),
                TensorSpec::of::<u32>(format!("{i}.nearest"), inputs),
                TensorSpec::of::<f64>(format!("{i}.similarity"), inputs),
                TensorSpec::of::<u32>(format!("{i}.other"), inputs),
                TensorSpec::of::<f64>(format!("{i}.other_similarity"), inputs),
            ]);
        }
        let metadata = metadata(Kind::CoverageState, &record)?;
        let mut writer = create(&metadata, &tensors)?;
        for (i, suite) in self.suites.iter().enumerate() {
            writer.append(&format!("{i}.snpc"), suite.snpc.words())?;
            writer.append(&format!("{i}.anpc"), suite.anpc.words())?;
            writer.append(&format!("{i}.distances"), &suite.distances)?;
            writer.append(&format!("{i}.beyond"), &suite.beyond)?;
            for input in &suite.inputs {
                writer.append(&format!("{i}.prediction"), &[input.prediction])?;
                writer.append(&format!("{i}.nearest"), &[input.nearest])?;
                writer.append(&format!("{i}.similarity"), &[input.similarity])?;
                writer.append(&format!("{i}.other"), &[input.other])?;
                writer.append(&format!("{i}.other_similarity"), &[input.other_similarity])?;
            }
        }
        Ok(writer.finish()?)
    }
}

fn read_suite(
    path: &Path,
    reader: &SafetensorsReader,
    state: &StateRecord,
    index: usize,
    record: &SuiteRecord,
) -> Result<Suite, Error> {
    let wrong = |what: &str| Error::Artefact {
        file: path.display().to_string(),
        reason: format!("suite `{}`: {what}", record.name),
    };
    let clusters = state.classes.iter().map(|class| class.1);
    let planned = state.classes.iter().map(|class| class.0);
    let space = |layers: usize, buckets: u16| Space {
        clusters: clusters.clone().fold(0, usize::saturating_add),
        planned: planned.clone().fold(0, usize::saturating_add),
        layers,
        buckets,
    };
    let coverage = |name: &str, space: Space| -> Result<Coverage, Error> {
        let words = reader.read(&format!("{index}.{name}"))?;
        Coverage::from_words(space, words)
            .ok_or_else(|| wrong(&format!("`{name}` has another number of buckets")))
    };
    let snpc = space(state.layers.len(), state.choices.snpc_buckets.get());
    let anpc = space(state.anpc.layers.len(), state.choices.anpc_buckets.get());
    let prediction: Vec<u32> = reader.read(&format!("{index}.prediction"))?;
    let nearest: Vec<u32> = reader.read(&format!("{index}.nearest"))?;
    let similarity: Vec<f64> = reader.read(&format!("{index}.similarity"))?;
    let other: Vec<u32> = reader.read(&format!("{index}.other"))?;
    let other_similarity: Vec<f64> = reader.read(&format!("{index}.other_similarity"))?;
    let count = |shard: &DataRecord| shard.end.saturating_sub(shard.start);
    let inputs = record
        .shards
        .iter()
        .map(count)
        .fold(0, usize::saturating_add);
    let lens = [
        nearest.len(),
        similarity.len(),
        other.len(),
        other_similarity.len(),
    ];
    if prediction.len() != inputs || lens.iter().any(|&len| len != inputs) {
        return Err(wrong("it has another number of inputs than it says"));
    }
    let known = |&cluster: &u32| cluster == NO_CLUSTER || (cluster as usize) < snpc.clusters;
    let classes = prediction
        .iter()
        .all(|&class| (class as usize) < state.classes.len());
    if !classes || !nearest.iter().chain(&other).all(known) {
        return Err(wrong("an input is in a class or cluster that is not there"));
    }
    let suite = Suite {
        name: record.name.clone(),
        shards: record.shards.clone(),
        snpc: coverage("snpc", snpc)?,
        anpc: coverage("anpc", anpc)?,
        distances: reader.read(&format!("{index}.distances"))?,
        beyond: reader.read(&format!("{index}.beyond"))?,
        inputs: (0..inputs)
            .map(|i| InputRecord {
                prediction: prediction[i],
                nearest: nearest[i],
                similarity: similarity[i],
                other: other[i],
                other_similarity: other_similarity[i],
            })
            .collect(),
    };
    let layers = state.anpc.layers.len();
    if suite.distances.len() != layers || suite.beyond.len() != layers {
        return Err(wrong("its distances are of other layers"));
    }
    Ok(suite)
}
