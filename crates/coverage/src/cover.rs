//! The verb `cover`: which decision logic suites exercise.

use std::ops::Range;
use std::path::Path;

use npcov_artefact::CoverageState;
use npcov_artefact::{ArtefactError, DataRecord, InputRecord, MeasuredSuite, NO_LABEL, ShardStore};
use npcov_criteria::{Member, State};
use npcov_data::Loader;
use npcov_paths::{Input, Observation};
use npcov_run::{
    Found, PathRows, Progress, RunError, SHARD, SampleRange, Sink, Watcher, extract_shards,
    in_parallel, shards,
};

use crate::coverage::Coverage;
use crate::error::CoverageError;
use crate::measurement::Measurement;
use crate::watching::Watching;

/// A suite that is to be measured.
pub struct SuiteSource<'a> {
    /// Its name.
    pub name: String,
    /// Its data.
    pub data: &'a Loader<'a>,
    /// The part that is measured.
    pub range: Range<usize>,
}

/// Where coverage goes, and what it is added to.
#[derive(Default)]
pub struct CoverTarget<'a> {
    /// The file that the coverage is written to. Finished shards are kept in a folder beside it until
    /// it is whole: a run that is cut off goes on where it was, and gives the same bytes. Without a
    /// file all is in memory.
    pub output: Option<&'a Path>,
    /// What suites are added to; nothing by default.
    pub earlier: Option<Coverage>,
    /// Number of threads; one by default. The result does not depend on it.
    pub threads: usize,
}

/// Measures suites.
pub fn cover(
    measurement: &Measurement<'_>,
    suites: &[SuiteSource<'_>],
    target: CoverTarget<'_>,
    progress: &mut dyn Progress,
) -> Result<Coverage, CoverageError> {
    let empty = measurement.state();
    let mut state = match target.earlier {
        Some(earlier) => earlier.into_state(),
        None => measurement.state(),
    };
    let file = measurement.graph().file();
    state.require(empty.record(), Path::new(file.name()))?;
    let extraction = measurement.extraction()?;
    let mut records = Vec::new();
    for suite in suites {
        let Range { start, end } = suite.range;
        records.push(DataRecord::new(suite.data, start, end)?);
    }
    let plan = serde_json::json!({ "measured": empty.record(), "suites": records });
    let plan = serde_json::to_string(&plan).map_err(ArtefactError::Json)?;
    let store = ShardStore::of(target.output, &plan)?;
    let names = suites.iter().map(|suite| suite.name.as_str());
    if store.resumed() && state.holds(names.zip(&records)) {
        // The earlier run was cut off when all was written.
        store.remove()?;
        return Ok(Coverage::new(state));
    }
    for (number, (suite, record)) in suites.iter().zip(&records).enumerate() {
        let inputs = SampleRange {
            data: suite.data,
            range: suite.range.clone(),
            threads: target.threads,
        };
        let mut measuring = Measuring {
            measurement,
            suite,
            number,
            threads: target.threads,
            sha256: &record.sha256,
            store: &store,
            watching: &Watching::new(measurement.criteria(), suite.range.start),
            streamed: measurement.criteria().states(),
        };
        let found = measuring.found();
        extract_shards(
            extraction,
            &inputs,
            |i, _| found[i],
            progress,
            &mut measuring,
        )?;
        let mut measured: Option<MeasuredSuite> = None;
        for (i, inputs) in shards(suite.range.clone()) {
            for part in measuring.read(i, inputs)?.into_suites() {
                match &mut measured {
                    None => measured = Some(part),
                    Some(suite) => suite.append(part, measurement.criteria())?,
                }
            }
        }
        state.add(match measured {
            Some(measured) => MeasuredSuite {
                name: suite.name.clone(),
                ..measured
            },
            None => {
                let name = suite.data.name().to_owned();
                return Err(RunError::NoInputs(name).into());
            }
        })?;
    }
    if target.output.is_some() {
        state.write_artefact(&store)?;
    }
    store.remove()?;
    Ok(Coverage::new(state))
}

impl Measurement<'_> {
    /// Measures one suite in memory.
    pub fn cover(
        &self,
        name: &str,
        inputs: &SampleRange<'_>,
        progress: &mut dyn Progress,
    ) -> Result<Coverage, CoverageError> {
        let suite = SuiteSource {
            name: name.to_owned(),
            data: inputs.data,
            range: inputs.range.clone(),
        };
        let target = CoverTarget {
            threads: inputs.threads,
            ..CoverTarget::default()
        };
        cover(self, &[suite], target, progress)
    }
}

/// Measures the shards of a suite.
struct Measuring<'a> {
    measurement: &'a Measurement<'a>,
    suite: &'a SuiteSource<'a>,
    /// The suite's position among all.
    number: usize,
    threads: usize,
    /// Digest of its dataset.
    sha256: &'a str,
    store: &'a ShardStore,
    watching: &'a Watching<'a>,
    /// What those criteria saw of the shard that look at inputs as soon as they are there.
    streamed: Vec<State>,
}

impl Measuring<'_> {
    /// What a shard is called.
    fn name(&self, index: usize) -> String {
        format!("suite-{:04}-{index:06}", self.number)
    }

    fn read(&self, index: usize, inputs: Range<usize>) -> Result<CoverageState, ArtefactError> {
        CoverageState::from_reader(&self.store.open(&self.name(index), inputs)?)
    }

    fn record(&self, rows: &Range<usize>) -> DataRecord {
        DataRecord {
            sha256: self.sha256.to_owned(),
            start: rows.start,
            end: rows.end,
        }
    }

    /// What an earlier run left of each shard.
    fn found(&self) -> Vec<Found> {
        let empty = self.measurement.state();
        let find = |(i, rows): (usize, Range<usize>)| {
            let name = self.name(i);
            self.store.find(&name, rows.clone(), |reader| {
                let fits = |state: CoverageState| -> Option<bool> {
                    state.require(empty.record(), Path::new(&name)).ok()?;
                    Some(state.suites().first()?.shards == [self.record(&rows)])
                };
                let state = CoverageState::from_reader(reader);
                state.ok().and_then(fits).unwrap_or(false)
            })
        };
        let mut found: Vec<Found> = shards(self.suite.range.clone()).map(find).collect();
        // Where the order of inputs matters, a shard goes on from the one before it.
        let criteria = self.measurement.criteria().members();
        if criteria.iter().any(|member| member.criterion.ordered())
            && let Some(first) = found.iter().position(|&found| found != Found::Whole)
        {
            for found in &mut found[first..] {
                if *found == Found::Whole {
                    *found = Found::Nothing;
                }
            }
        }
        found
    }
}

impl<'a> Sink<'a> for Measuring<'a> {
    type Error = CoverageError;

    fn watcher(&self) -> Option<&'a dyn Watcher> {
        Some(self.watching)
    }

    fn inputs(&mut self, rows: &PathRows) -> Result<(), CoverageError> {
        let batch = self.measurement.batch(rows, &[]);
        let training = self.measurement.graph().file();
        let criteria = self.measurement.criteria();
        Ok(criteria.observe(&batch, training, &mut self.streamed, Member::is_streamed)?)
    }

    fn shard(&mut self, index: usize, shard: &PathRows) -> Result<(), CoverageError> {
        let empty = self.measurement.criteria().states();
        let mut streamed = std::mem::replace(&mut self.streamed, empty);
        self.watching.finish(index, &mut streamed)?;
        let before = || match index {
            0 => Ok(None),
            index => {
                let before = shard.rows.start.saturating_sub(SHARD)..shard.rows.start;
                let suite = self
                    .read(index - 1, before)?
                    .into_suites()
                    .into_iter()
                    .next();
                Ok(suite.map(|suite| suite.states))
            }
        };
        let suite = MeasuredSuite {
            name: self.suite.name.clone(),
            shards: vec![self.record(&shard.rows)],
            inputs: Vec::new(),
            names: sample_names(self.suite.data, shard.rows.clone()),
            states: streamed,
        };
        let data = self.suite.data;
        let suite = complete(suite, self.measurement, shard, data, before, self.threads)?;
        let mut part = self.measurement.state();
        part.add(suite)?;
        Ok(part.write_shard(self.store, &self.name(index), shard.rows.clone())?)
    }
}

/// The names of samples; nothing where none has a name.
pub(crate) fn sample_names(data: &Loader<'_>, rows: Range<usize>) -> Vec<String> {
    let name = |row| data.sample_name(row).unwrap_or_default();
    // A million empty names are 24 MB.
    match rows.clone().all(|row| name(row).is_empty()) {
        true => Vec::new(),
        false => rows.map(|row| name(row).into_owned()).collect(),
    }
}

/// Completes a suite of one shard that has the states of streamed criteria so far. `before` gives the
/// states of the shard before it, for criteria that go on from there.
fn complete(
    mut suite: MeasuredSuite,
    measurement: &Measurement<'_>,
    shard: &PathRows,
    data: &Loader<'_>,
    before: impl FnOnce() -> Result<Option<Vec<State>>, CoverageError>,
    threads: usize,
) -> Result<MeasuredSuite, CoverageError> {
    let criteria = measurement.criteria();
    let (observations, states) = observe(measurement, shard, threads)?;
    let before = match criteria.members().iter().any(|m| m.criterion.ordered()) {
        true => before()?,
        false => None,
    };
    for (i, (member, state)) in criteria.members().iter().zip(states).enumerate() {
        if member.is_streamed() {
            continue;
        }
        suite.states[i] = state;
        if member.criterion.ordered() {
            if let Some(before) = before.as_ref().and_then(|states| states.get(i)) {
                suite.states[i] = before.clone();
            }
            let batch = measurement.batch(shard, &observations);
            let observed = (member.criterion).observe(
                &batch,
                measurement.graph().file(),
                &mut suite.states[i],
            );
            observed.map_err(|e| member.failed(e))?;
        }
    }
    let scores = measurement.scores(shard, threads)?;
    let input = |(i, row): (usize, usize)| InputRecord {
        prediction: shard.predictions[i],
        label: data.label(row).unwrap_or(NO_LABEL),
        cluster: scores[i].cluster,
        unfamiliar: scores[i].unfamiliar,
        contested: scores[i].contested,
    };
    suite.inputs = shard.rows.clone().enumerate().map(input).collect();
    Ok(suite)
}

/// Where the inputs of a shard are in the decision graph, and what criteria keep of them, but for
/// those that look at inputs at another time.
fn observe(
    measurement: &Measurement<'_>,
    shard: &PathRows,
    threads: usize,
) -> Result<(Vec<Observation>, Vec<State>), CoverageError> {
    let file = measurement.graph().file();
    let criteria = measurement.criteria();
    let anpc = measurement.anpc();
    let observer = measurement.observer(&anpc);
    let paths = criteria.need_paths();
    let now = |member: &Member| !member.is_streamed() && !member.criterion.ordered();
    let part = |inputs: Range<usize>| -> Result<(Vec<Observation>, Vec<State>), CoverageError> {
        let places = inputs.clone().filter(|_| paths);
        let seen: Vec<Input<'_>> = places.map(|i| shard.input(i)).collect();
        let observations = observer.observe_all(&seen, file)?;
        let mut batch = measurement.batch(shard, &[]).slice(inputs);
        batch.observations = &observations;
        let mut states = criteria.states();
        criteria.observe(&batch, file, &mut states, now)?;
        Ok((observations, states))
    };
    let mut observations = Vec::with_capacity(shard.rows.len());
    let mut states = criteria.states();
    for result in in_parallel(shard.rows.len(), threads, part) {
        let (observed, next) = result?;
        observations.extend(observed);
        for ((state, next), member) in states.iter_mut().zip(&next).zip(criteria.members()) {
            if now(member) {
                state.append(next).map_err(|e| member.failed(e))?;
            }
        }
    }
    Ok((observations, states))
}
