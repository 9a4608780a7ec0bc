//! What is known of the inputs of a pool, which may be larger than memory.
//!
//! Inputs are measured shard by shard; each shard becomes a file in the folder of parts. In memory
//! are a few numbers for each input; the lists of what they cover are as well where there is room,
//! and otherwise in one file, from which they are read one at a time.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;

use npcov_artefact::{
    ArtefactError, DataRecord, NO_SCORE, Origin, ScoreKind, ShardStore, WantedShard,
};
use npcov_coverage::Measurement;
use npcov_criteria::{Batch, Member, Slot, Spec};
use npcov_data::DataError;
use npcov_data::safetensors::{SafetensorsReader, SafetensorsWriter, TensorSpec};
use npcov_paths::{Centres, Input, NO_CLUSTER, Observer};
use npcov_run::{
    Found, Part, PathRows, Progress, RunError, SampleRange, Sink, extract_shards, in_parallel,
    shards,
};

use crate::error::SelectError;
use crate::given::Given;
use crate::ranking::SlotLists;

/// Numbers of things that are kept in memory: 128 MiB of them.
const IN_MEMORY: u64 = 1 << 25;

/// What is wanted of inputs, besides their predictions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wanted {
    /// Nothing.
    Nothing,
    /// What they cover by each of the criteria.
    Slots,
    /// The score of this name that one of the criteria gives them.
    Score(String),
    /// A score that their neighbours in the decision graph give them.
    Neighbours(ScoreKind),
    /// The cluster that they belong to, and how far they are from its centre.
    Cluster(Centres),
}

impl Wanted {
    fn name(&self) -> &str {
        match self {
            Wanted::Nothing => "nothing",
            Wanted::Slots => "slots",
            Wanted::Score(name) => name,
            Wanted::Neighbours(kind) => kind.name(),
            Wanted::Cluster(_) => "cluster",
        }
    }
}

/// The inputs of a pool.
pub(crate) struct Pool {
    /// What each input is taken for.
    pub(crate) predictions: Vec<u32>,
    /// A score for each, where one was wanted: of a cluster, the distance from its centre.
    pub(crate) scores: Vec<f64>,
    /// The cluster of each, where that was wanted.
    pub(crate) clusters: Vec<u32>,
    /// What each covers, where that was wanted.
    pub(crate) lists: PoolLists,
    /// Where all this is stored.
    pub(crate) store: ShardStore,
}

impl Pool {
    /// Measures inputs, or goes on with that where a file is to be written.
    pub(crate) fn measure(
        measurement: &Measurement<'_>,
        wanted: &Wanted,
        given: &Given,
        pool: &SampleRange<'_>,
        output: Option<&Path>,
        progress: &mut dyn Progress,
    ) -> Result<Pool, SelectError> {
        let measuring = Measuring::new(measurement, wanted, given, pool)?;
        let store = ShardStore::of(output, &measuring.plan)?;
        measuring.extract(&store, None, progress)?;
        measuring.gather(store)
    }
}

/// All that is settled before the first input of a pool is measured: the same in every process that
/// takes part.
pub(crate) struct Measuring<'a> {
    measurement: &'a Measurement<'a>,
    wanted: &'a Wanted,
    given: &'a Given,
    pool: &'a SampleRange<'a>,
    /// What the shards are made from.
    origin: Origin,
    /// What they depend on.
    pub(crate) plan: String,
}

impl<'a> Measuring<'a> {
    pub(crate) fn new(
        measurement: &'a Measurement<'a>,
        wanted: &'a Wanted,
        given: &'a Given,
        pool: &'a SampleRange<'a>,
    ) -> Result<Measuring<'a>, SelectError> {
        let (data, range) = (pool.data, &pool.range);
        if range.is_empty() {
            return Err(RunError::NoInputs(data.name().to_owned()).into());
        }
        let state = measurement.state();
        let measured = state.record();
        let record = DataRecord::new(data, range.start, range.end)?;
        let plan = serde_json::json!({
            "measured": measured,
            "data": record,
            "wanted": wanted.name(),
            "given": given.identity(),
        });
        Ok(Measuring {
            measurement,
            wanted,
            given,
            pool,
            origin: Origin {
                model: measured.model.clone(),
                graph: measured.graph.clone(),
                data: record.sha256.clone(),
            },
            plan: plan.to_string(),
        })
    }

    /// What an earlier run left of a shard.
    fn find(&self, store: &ShardStore, index: usize, rows: Range<usize>) -> Found {
        let wanted = TensorSpec::of::<u32>("prediction", &[rows.len()]);
        store.find(&shard_name(index), rows, |reader| {
            reader.tensor("prediction") == Some(&wanted)
        })
    }

    /// Measures inputs, or a part of them, and keeps what is found.
    pub(crate) fn extract(
        &self,
        store: &ShardStore,
        part: Option<Part>,
        progress: &mut dyn Progress,
    ) -> Result<(), SelectError> {
        let range = self.pool.range.clone();
        let own = part.map_or(range.clone(), |part| part.rows(range));
        let mut recording = Recording {
            measurement: self.measurement,
            wanted: self.wanted,
            given: self.given,
            threads: self.pool.threads,
            store,
            metadata: serde_json::to_string(&self.origin).map_err(ArtefactError::Json)?,
            streamed: Vec::new(),
        };
        recording.forget();
        let find = |i: usize, rows: Range<usize>| match own.contains(&rows.start) {
            true => self.find(store, i, rows),
            false => Found::NotWanted,
        };
        let extraction = self.measurement.extraction()?;
        extract_shards(extraction, self.pool, find, progress, &mut recording)
    }

    /// Makes sure that all parts are there.
    pub(crate) fn require(&self, store: &ShardStore) -> Result<(), SelectError> {
        let shards = shards(self.pool.range.clone()).map(|(i, rows)| WantedShard {
            name: shard_name(i),
            inputs: rows.clone(),
            found: self.find(store, i, rows),
            origin: &self.origin,
        });
        Ok(store.require(shards)?)
    }

    /// What was found in all inputs.
    pub(crate) fn gather(&self, store: ShardStore) -> Result<Pool, SelectError> {
        let (wanted, range) = (self.wanted, &self.pool.range);
        let kinds = kinds(self.measurement, wanted);
        let mut predictions = Vec::with_capacity(range.len());
        let (mut scores, mut clusters) = (Vec::new(), Vec::new());
        let parts = Parts {
            store: &store,
            shards: shards(range.clone()).collect(),
        };
        for reader in parts.open() {
            let reader = reader?;
            predictions.extend(reader.read::<u32>("prediction")?);
            scores.extend(reader.read::<f64>("score")?);
            clusters.extend(reader.read::<u32>("cluster")?);
        }
        let inputs = predictions.len();
        let is_scored = !matches!(wanted, Wanted::Nothing | Wanted::Slots);
        if is_scored && scores.len() != inputs {
            return Err(damaged(&store, "not every input has a score").into());
        }
        if matches!(wanted, Wanted::Cluster(_)) && clusters.len() != inputs {
            return Err(damaged(&store, "not every input has a cluster").into());
        }
        let lists = PoolLists::gather(&parts, &kinds, IN_MEMORY)?;
        Ok(Pool {
            predictions,
            scores,
            clusters,
            lists,
            store,
        })
    }
}

/// Things are numbers or patterns of each criterion.
fn kinds(measurement: &Measurement<'_>, wanted: &Wanted) -> Vec<Things> {
    let members = measurement.criteria().members().iter();
    let counted = members.filter(|_| *wanted == Wanted::Slots);
    let kinds = counted.flat_map(|member| {
        let bound = member.criterion.bound_of_numbers();
        [Things::Below(bound), Things::Patterns]
    });
    kinds.collect()
}

/// What a shard is called.
fn shard_name(index: usize) -> String {
    format!("inputs-{index:06}")
}

/// What was kept of a pool is not what it should be.
fn damaged(store: &ShardStore, reason: &str) -> ArtefactError {
    let folder = store.folder();
    ArtefactError::Artefact {
        file: folder.map_or("memory".to_owned(), |folder| folder.display().to_string()),
        reason: reason.to_owned(),
    }
}

/// Writes the shards of a pool.
struct Recording<'a> {
    measurement: &'a Measurement<'a>,
    wanted: &'a Wanted,
    given: &'a Given,
    threads: usize,
    store: &'a ShardStore,
    /// What shards say of themselves.
    metadata: String,
    /// By criterion, what was seen of the shard's inputs as soon as they were there.
    streamed: Vec<Seen>,
}

/// What one criterion finds in inputs.
#[derive(Default)]
struct Seen {
    slots: Vec<Vec<Slot>>,
    scores: Vec<f64>,
}

impl Seen {
    fn append(&mut self, next: Seen) {
        self.slots.extend(next.slots);
        self.scores.extend(next.scores);
    }
}

impl Recording<'_> {
    fn forget(&mut self) {
        let members = self.measurement.criteria().members();
        self.streamed = members.iter().map(|_| Seen::default()).collect();
    }

    /// What a criterion finds in some inputs.
    fn find(&self, member: &Member, batch: &Batch<'_>) -> Result<Seen, SelectError> {
        let training = self.measurement.graph().file();
        let found = match self.wanted {
            Wanted::Slots => member
                .criterion
                .slots_of_each(batch, training)
                .map(|slots| Seen {
                    slots,
                    scores: Vec::new(),
                }),
            Wanted::Score(name) => {
                let mut state = member.criterion.state();
                let observed = member.criterion.observe(batch, training, &mut state);
                let scores = state.all_scores().find(|(key, _)| key == name);
                let scores = scores.map_or(Vec::new(), |(_, scores)| scores.to_vec());
                observed.map(|()| Seen {
                    slots: Vec::new(),
                    scores,
                })
            }
            _ => Ok(Seen::default()),
        };
        Ok(found.map_err(|e| member.failed(e))?)
    }

    /// What is found in some inputs of a shard; nothing for criteria that have seen them already.
    fn part(
        &self,
        observer: &Observer<'_>,
        shard: &PathRows,
        inputs: Range<usize>,
    ) -> Result<Vec<Seen>, SelectError> {
        let criteria = self.measurement.criteria();
        let places = inputs.clone().filter(|_| criteria.need_paths());
        let seen: Vec<Input<'_>> = places.map(|i| shard.input(i)).collect();
        let observations = observer.observe_all(&seen, self.measurement.graph().file())?;
        let mut batch = self.measurement.batch(shard, &[]).slice(inputs);
        batch.observations = &observations;
        let mut found = Vec::new();
        for member in criteria.members() {
            found.push(match member.is_streamed() {
                true => Seen::default(),
                false => self.find(member, &batch)?,
            });
        }
        Ok(found)
    }
}

impl Sink<'_> for Recording<'_> {
    type Error = SelectError;

    fn inputs(&mut self, batch: &PathRows) -> Result<(), SelectError> {
        let criteria = self.measurement.criteria();
        for (i, member) in criteria.members().iter().enumerate() {
            if member.is_streamed() {
                let found = self.find(member, &self.measurement.batch(batch, &[]))?;
                self.streamed[i].append(found);
            }
        }
        Ok(())
    }

    fn shard(&mut self, index: usize, shard: &PathRows) -> Result<(), SelectError> {
        let criteria = self.measurement.criteria();
        let anpc = self.measurement.anpc();
        let observer = self.measurement.observer(&anpc);
        let inputs = shard.rows.len();
        let parts = in_parallel(inputs, self.threads, |inputs| {
            self.part(&observer, shard, inputs)
        });
        let (mut scores, mut clusters) = (Vec::new(), Vec::new());
        match self.wanted {
            Wanted::Neighbours(kind) => {
                let found = self.measurement.scores(shard, self.threads)?;
                scores.extend(found.iter().map(|scores| scores.get(*kind)));
            }
            Wanted::Cluster(centres) => {
                let found = self.measurement.scores(shard, self.threads)?;
                clusters.extend(found.iter().map(|scores| scores.cluster));
                scores.extend(
                    clusters
                        .iter()
                        .enumerate()
                        .map(|(i, &cluster)| match cluster {
                            NO_CLUSTER => NO_SCORE,
                            cluster => centres.distance(cluster as usize, shard.paths.row(i)),
                        }),
                );
            }
            Wanted::Nothing | Wanted::Slots | Wanted::Score(_) => {}
        }
        let mut all = std::mem::take(&mut self.streamed);
        self.forget();
        for part in parts {
            for (all, found) in all.iter_mut().zip(part?) {
                all.append(found);
            }
        }
        let mut columns = Vec::new();
        for (i, (member, found)) in criteria.members().iter().zip(&mut all).enumerate() {
            scores.extend_from_slice(&found.scores);
            if *self.wanted == Wanted::Slots {
                self.given.leave_out(i, &mut found.slots);
                columns.extend(lists_of(&member.spec, &found.slots)?);
            }
        }
        let part = ShardOf {
            predictions: &shard.predictions,
            scores: &scores,
            clusters: &clusters,
            kinds: &columns,
        };
        Ok(part.write(self.store, index, shard.rows.clone(), &self.metadata)?)
    }
}

/// Lists of numbers, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
struct Ragged {
    lengths: Vec<u32>,
    numbers: Vec<u32>,
}

impl Ragged {
    fn push(&mut self, list: &[u32]) {
        self.lengths.push(list.len() as u32);
        self.numbers.extend_from_slice(list);
    }

    fn specs(&self, name: &str) -> [TensorSpec; 2] {
        [
            TensorSpec::of::<u32>(format!("{name}.lengths"), &[self.lengths.len()]),
            TensorSpec::of::<u32>(name, &[self.numbers.len()]),
        ]
    }

    fn write(&self, writer: &mut SafetensorsWriter, name: &str) -> Result<(), DataError> {
        writer.append(&format!("{name}.lengths"), &self.lengths)?;
        writer.append(name, &self.numbers)
    }

    fn read(reader: &SafetensorsReader, name: &str) -> Result<Ragged, SelectError> {
        let ragged = Ragged {
            lengths: reader.read(&format!("{name}.lengths"))?,
            numbers: reader.read(name)?,
        };
        let total: u64 = ragged.lengths.iter().map(|&len| u64::from(len)).sum();
        match total == ragged.numbers.len() as u64 {
            true => Ok(ragged),
            false => Err(ArtefactError::Artefact {
                file: reader.name().to_owned(),
                reason: format!("`{name}` has another size"),
            }
            .into()),
        }
    }

    fn lists(&self) -> impl Iterator<Item = &[u32]> {
        let mut rest = &self.numbers[..];
        self.lengths.iter().map(move |&len| {
            let (list, behind) = rest.split_at((len as usize).min(rest.len()));
            rest = behind;
            list
        })
    }
}

/// Things of one kind that the inputs of a shard cover.
struct Kind {
    /// For each input.
    lists: Ragged,
    /// The patterns that the numbers in the lists stand for; none where they stand for themselves.
    patterns: Ragged,
}

/// The numbers, and the patterns, that inputs cover by a criterion.
fn lists_of(spec: &Spec, slots: &[Vec<Slot>]) -> Result<[Kind; 2], SelectError> {
    let mut numbers = Ragged::default();
    let mut numbered = Ragged::default();
    let mut patterns = Ragged::default();
    let mut known: BTreeMap<&[u32], u32> = BTreeMap::new();
    for slots in slots {
        let (mut own, mut rows) = (Vec::new(), Vec::new());
        for slot in slots {
            match slot {
                Slot::Number(number) => match u32::try_from(*number) {
                    Ok(number) => own.push(number),
                    Err(_) => {
                        return Err(RunError::Parameter {
                            name: "criterion",
                            value: spec.to_string(),
                            wanted: "one with fewer than 4,294,967,296 things to cover",
                        }
                        .into());
                    }
                },
                Slot::Pattern(row) => {
                    let next = known.len() as u32;
                    rows.push(*known.entry(row).or_insert_with(|| {
                        patterns.push(row);
                        next
                    }));
                }
            }
        }
        numbers.push(&own);
        numbered.push(&rows);
    }
    Ok([
        Kind {
            lists: numbers,
            patterns: Ragged::default(),
        },
        Kind {
            lists: numbered,
            patterns,
        },
    ])
}

/// What a shard holds.
struct ShardOf<'a> {
    predictions: &'a [u32],
    scores: &'a [f64],
    clusters: &'a [u32],
    kinds: &'a [Kind],
}

impl ShardOf<'_> {
    fn write(
        &self,
        store: &ShardStore,
        index: usize,
        inputs: Range<usize>,
        metadata: &str,
    ) -> Result<(), DataError> {
        let mut specs = vec![
            TensorSpec::of::<u32>("prediction", &[self.predictions.len()]),
            TensorSpec::of::<f64>("score", &[self.scores.len()]),
            TensorSpec::of::<u32>("cluster", &[self.clusters.len()]),
        ];
        for (kind, Kind { lists, patterns }) in self.kinds.iter().enumerate() {
            specs.extend(lists.specs(&format!("{kind}.things")));
            specs.extend(patterns.specs(&format!("{kind}.patterns")));
        }
        store.write(&shard_name(index), inputs, metadata, &specs, |writer| {
            writer.append("prediction", self.predictions)?;
            writer.append("score", self.scores)?;
            writer.append("cluster", self.clusters)?;
            for (kind, Kind { lists, patterns }) in self.kinds.iter().enumerate() {
                lists.write(writer, &format!("{kind}.things"))?;
                patterns.write(writer, &format!("{kind}.patterns"))?;
            }
            Ok(())
        })
    }
}

/// The shards of all inputs of a pool.
struct Parts<'a> {
    store: &'a ShardStore,
    /// Their numbers and inputs.
    shards: Vec<(usize, Range<usize>)>,
}

impl Parts<'_> {
    /// Opens one after the other.
    fn open(&self) -> impl Iterator<Item = Result<SafetensorsReader, DataError>> {
        let shards = self.shards.iter();
        shards.map(|(i, inputs)| self.store.open(&shard_name(*i), inputs.clone()))
    }

    /// All inputs.
    fn inputs(&self) -> Range<usize> {
        let first = self.shards.first().map_or(0, |(_, inputs)| inputs.start);
        first..self.shards.last().map_or(first, |(_, inputs)| inputs.end)
    }
}

/// What the numbers in the lists of a kind stand for.
#[derive(Clone, Copy, Debug)]
enum Things {
    /// Themselves, all below a bound.
    Below(u64),
    /// Patterns, by their places.
    Patterns,
}

/// Hands on the things of each kind that the inputs of each shard cover, one list after the other.
/// Equal patterns become equal numbers, in the order in which they are first seen.
fn each_shard(
    parts: &Parts<'_>,
    kinds: &[Things],
    mut take: impl FnMut(usize, &[u32]) -> Result<(), SelectError>,
) -> Result<(), SelectError> {
    let mut patterns: Vec<HashMap<Box<[u32]>, u32>> = vec![HashMap::new(); kinds.len()];
    for reader in parts.open().filter(|_| !kinds.is_empty()) {
        let reader = reader?;
        for (kind, known) in patterns.iter_mut().enumerate() {
            let mut things = Ragged::read(&reader, &format!("{kind}.things"))?.numbers;
            let rows = Ragged::read(&reader, &format!("{kind}.patterns"))?;
            let mut numbers = Vec::with_capacity(rows.lengths.len());
            for row in rows.lists() {
                let next = known.len() as u32;
                numbers.push(*known.entry(row.into()).or_insert(next));
            }
            for thing in &mut things {
                let meant = match kinds[kind] {
                    Things::Below(bound) => Some(*thing).filter(|&i| u64::from(i) < bound),
                    Things::Patterns => numbers.get(*thing as usize).copied(),
                };
                let reason = "an input covers what is not there to be covered";
                *thing = meant.ok_or_else(|| damaged(parts.store, reason))?;
            }
            take(kind, &things)?;
        }
    }
    Ok(())
}

/// What the inputs of a pool cover.
pub(crate) struct PoolLists {
    inputs: usize,
    /// For each kind of things, where the list of each input begins; and where the last one ends.
    starts: Vec<Vec<u64>>,
    store: Store,
}

/// What the file with all lists is called.
const GATHERED: &str = "lists";

/// Where lists are.
enum Store {
    /// For each kind, lists one after the other.
    Memory(Vec<Vec<u32>>),
    /// The same, in a file.
    File(Box<SafetensorsReader>),
}

impl PoolLists {
    /// Gathers the lists of shards, in the order of inputs: in memory if there are at most
    /// `in_memory` numbers, otherwise in a file.
    fn gather(
        parts: &Parts<'_>,
        kinds: &[Things],
        in_memory: u64,
    ) -> Result<PoolLists, SelectError> {
        let inputs = parts.inputs().len();
        let mut starts = vec![vec![0]; kinds.len()];
        for reader in parts.open().filter(|_| !kinds.is_empty()) {
            let reader = reader?;
            for (kind, starts) in starts.iter_mut().enumerate() {
                let mut end = starts.last().copied().unwrap_or(0);
                for length in reader.read::<u32>(&format!("{kind}.things.lengths"))? {
                    end += u64::from(length);
                    starts.push(end);
                }
            }
        }
        if starts.iter().any(|starts| starts.len() != inputs + 1) {
            let reason = "not every input has a list of what it covers";
            return Err(damaged(parts.store, reason).into());
        }
        let totals: Vec<u64> = starts.iter().filter_map(|s| s.last().copied()).collect();
        let store = if totals.iter().sum::<u64>() <= in_memory {
            let mut lists = vec![Vec::new(); kinds.len()];
            each_shard(parts, kinds, |kind, things| {
                lists[kind].extend_from_slice(things);
                Ok(())
            })?;
            Store::Memory(lists)
        } else {
            let tensor = |(kind, &total): (usize, &u64)| {
                TensorSpec::of::<u32>(kind.to_string(), &[total as usize])
            };
            let specs: Vec<TensorSpec> = totals.iter().enumerate().map(tensor).collect();
            let (store, inputs) = (parts.store, parts.inputs());
            store.write(GATHERED, inputs.clone(), "{}", &specs, |writer| {
                each_shard(parts, kinds, |kind, things| {
                    Ok(writer.append(&kind.to_string(), things)?)
                })
            })?;
            Store::File(Box::new(store.open(GATHERED, inputs)?))
        };
        Ok(PoolLists {
            inputs,
            starts,
            store,
        })
    }

    /// Where an input's list is among those of a kind.
    fn span(&self, kind: usize, input: usize) -> Range<usize> {
        let at = |i: usize| self.starts[kind].get(i).map_or(0, |&start| start as usize);
        at(input)..at(input + 1)
    }
}

impl SlotLists for PoolLists {
    type Error = SelectError;

    fn len(&self) -> usize {
        self.inputs
    }

    fn count(&self, input: usize) -> u64 {
        let kinds = 0..self.starts.len();
        kinds.map(|kind| self.span(kind, input).len() as u64).sum()
    }

    fn read(&self, input: usize, out: &mut Vec<u64>) -> Result<(), SelectError> {
        out.clear();
        let mut buffer = Vec::new();
        for kind in 0..self.starts.len() {
            let span = self.span(kind, input);
            let things = match &self.store {
                Store::Memory(lists) => lists[kind].get(span).unwrap_or(&[]),
                Store::File(_) if span.is_empty() => &[],
                Store::File(reader) => {
                    buffer.resize(span.len(), 0);
                    reader.read_rows(&kind.to_string(), span, &mut buffer)?;
                    &buffer
                }
            };
            let kind = (kind as u64) << 32;
            out.extend(things.iter().map(|&thing| kind | u64::from(thing)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(i: u64) -> Slot {
        Slot::Number(i)
    }

    fn pattern(row: &[u32]) -> Slot {
        Slot::Pattern(row.into())
    }

    #[test]
    fn lists_come_back_from_memory_and_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let shards = [
            vec![
                vec![number(7), number(9), pattern(&[1, 2])],
                vec![],
                vec![pattern(&[3]), pattern(&[1, 2])],
            ],
            vec![vec![pattern(&[3]), pattern(&[5, 5])], vec![number(9)]],
        ];
        let spec: Spec = "snpc".parse().unwrap();
        let store = ShardStore::beside(&folder.path().join("pool.npz"), "").unwrap();
        let parts = Parts {
            store: &store,
            shards: vec![(0, 0..3), (1, 3..5)],
        };
        for ((i, inputs), slots) in parts.shards.iter().zip(&shards) {
            // Another criterion has the same numbers, which are other things.
            let other: Vec<Vec<Slot>> = slots.iter().map(|_| vec![number(7)]).collect();
            let mut kinds: Vec<Kind> = lists_of(&spec, slots).unwrap().into();
            kinds.extend(lists_of(&spec, &other).unwrap());
            let shard = ShardOf {
                predictions: &vec![0; slots.len()],
                scores: &[],
                clusters: &[],
                kinds: &kinds,
            };
            shard.write(&store, *i, inputs.clone(), "{}").unwrap();
        }
        let kinds = |bound| {
            let numbers = Things::Below(bound);
            [numbers, Things::Patterns, numbers, Things::Patterns]
        };
        let kind = |kind: u64, i: u64| kind << 32 | i;
        let expected = [
            vec![kind(0, 7), kind(0, 9), kind(1, 0), kind(2, 7)],
            vec![kind(2, 7)],
            vec![kind(1, 1), kind(1, 0), kind(2, 7)],
            vec![kind(1, 1), kind(1, 2), kind(2, 7)],
            vec![kind(0, 9), kind(2, 7)],
        ];
        for in_memory in [1000, 0] {
            let lists = PoolLists::gather(&parts, &kinds(10), in_memory).unwrap();
            assert_eq!(store.open(GATHERED, 0..5).is_ok(), in_memory == 0);
            assert_eq!(lists.len(), 5);
            let mut list = Vec::new();
            for (input, expected) in expected.iter().enumerate() {
                lists.read(input, &mut list).unwrap();
                assert_eq!(list, *expected);
                assert_eq!(lists.count(input), expected.len() as u64);
            }
        }
        let others = Parts {
            store: &store,
            shards: vec![(0, 0..3), (1, 3..6)],
        };
        assert!(PoolLists::gather(&others, &kinds(10), 0).is_err());
        // The 9 is none of nine things.
        assert!(PoolLists::gather(&parts, &kinds(9), 0).is_err());
    }

    #[test]
    fn numbers_that_are_too_large_are_refused() {
        let spec: Spec = "kmnc".parse().unwrap();
        assert!(lists_of(&spec, &[vec![number(u64::from(u32::MAX))]]).is_ok());
        assert!(lists_of(&spec, &[vec![number(1 << 32)]]).is_err());
    }
}
