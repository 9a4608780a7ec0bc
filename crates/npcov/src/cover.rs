//! The verbs `cover` and `merge`: which decision logic suites exercise.

use std::ops::Range;
use std::path::{Path, PathBuf};

use npcov_criteria::State;
use npcov_data::Loader;
use npcov_paths::{Input, NO_CLUSTER, Observation, Observer};

use crate::artefact::record::DataRecord;
use crate::artefact::{CoverageState, InputRecord, NO_LABEL, PartsFolder, Suite};
use crate::error::Error;
use crate::measures::{Measure, failed};
use crate::paths::PathBatch;
use crate::probe::Probe;
use crate::ruler::Ruler;
use crate::shards::{Event, Sink, extract_shards};
use crate::watching::Watching;

/// A suite that is to be measured.
pub struct SuiteSource<'a> {
    /// Its name.
    pub name: String,
    /// Its data.
    pub data: &'a Loader,
    /// The part that is measured.
    pub range: Range<usize>,
}

/// Measures suites and adds them to a state, which is written to `output`.
///
/// Finished shards are kept in a folder beside it until the file is whole: a run that is cut off
/// goes on where it was, and gives the same bytes. So does any number of threads.
pub fn cover(
    ruler: &Ruler,
    suites: &[SuiteSource<'_>],
    mut state: CoverageState,
    output: &Path,
    threads: usize,
    on: &mut dyn FnMut(Event),
) -> Result<CoverageState, Error> {
    let empty = ruler.state();
    state.require(empty.record(), ruler.graph().path())?;
    let probe = ruler.probe()?;
    let mut records = Vec::new();
    for suite in suites {
        records.push(DataRecord::new(
            suite.data,
            suite.range.start,
            suite.range.end,
        )?);
    }
    let plan = serde_json::json!({ "measured": empty.record(), "suites": records });
    let parts = PartsFolder::open(output, &serde_json::to_string(&plan).map_err(Error::Json)?)?;
    if parts.resumed() && state.holds(suites.iter().zip(&records)) {
        // The earlier run was cut off when all was written.
        parts.remove()?;
        return Ok(state);
    }
    let ordered = ruler
        .measures()
        .list()
        .iter()
        .any(|m| m.criterion.ordered());
    for (number, suite) in suites.iter().enumerate() {
        let file = |i: usize| -> PathBuf { parts.file(&format!("suite-{number:04}-{i:06}")) };
        let whole = &records[number];
        let record = |rows: &Range<usize>| DataRecord {
            sha256: whole.sha256.clone(),
            start: rows.start,
            end: rows.end,
        };
        let is_whole = |i: usize, rows: &Range<usize>| {
            let shards = |state: CoverageState| -> Option<Vec<DataRecord>> {
                state.require(empty.record(), &file(i)).ok()?;
                Some(state.suites().first()?.shards.clone())
            };
            let found = CoverageState::read(file(i)).ok().and_then(shards);
            found == Some(vec![record(rows)])
        };
        let mut whole_shards: Vec<bool> = crate::artefact::parts::shards(suite.range.clone())
            .map(|(i, rows)| is_whole(i, &rows))
            .collect();
        // Where the order of inputs matters, a shard goes on from the one before it.
        if ordered && let Some(first) = whole_shards.iter().position(|whole| !whole) {
            whole_shards[first..].fill(false);
        }
        extract_shards(
            &probe,
            suite.data,
            suite.range.clone(),
            threads,
            |i, _| whole_shards[i],
            on,
            &mut Measuring {
                ruler,
                name: &suite.name,
                labels: suite.data.labels(),
                threads,
                record: &record,
                file: &file,
                watching: &Watching::new(ruler.measures(), suite.range.start),
                streamed: ruler.measures().states(),
            },
        )?;
        let mut measured: Option<Suite> = None;
        for (i, _) in crate::artefact::parts::shards(suite.range.clone()) {
            for part in CoverageState::read(file(i))?.into_suites() {
                match &mut measured {
                    None => measured = Some(part),
                    Some(suite) => suite.append(part, ruler.measures())?,
                }
            }
        }
        state.add(match measured {
            Some(measured) => Suite {
                name: suite.name.clone(),
                ..measured
            },
            None => return Err(Error::NoInputs(suite.data.dataset().name().to_owned())),
        })?;
    }
    state.write_by_way_of(parts.folder(), output)?;
    parts.remove()?;
    Ok(state)
}

/// Unites states of the same graph. Suites of one name become one; with `name`, all do.
pub fn merge(files: &[PathBuf], name: Option<&str>) -> Result<CoverageState, Error> {
    let mut merged: Option<CoverageState> = None;
    for file in files {
        let mut state = CoverageState::read(file)?;
        if let Some(name) = name {
            state = state.named(name)?;
        }
        match &mut merged {
            None => merged = Some(state),
            Some(merged) => merged.merge(state, file)?,
        }
    }
    merged.ok_or(Error::NothingToMerge)
}

/// Measures the shards of a suite.
struct Measuring<'a> {
    ruler: &'a Ruler,
    name: &'a str,
    labels: Option<&'a [i64]>,
    threads: usize,
    record: &'a dyn Fn(&Range<usize>) -> DataRecord,
    file: &'a dyn Fn(usize) -> PathBuf,
    watching: &'a Watching<'a>,
    /// What those criteria saw of the shard that look at inputs as soon as they are there.
    streamed: Vec<State>,
}

impl<'a> Sink<'a> for Measuring<'a> {
    fn watching(&self) -> Option<&'a Watching<'a>> {
        Some(self.watching)
    }

    fn inputs(&mut self, batch: &PathBatch) -> Result<(), Error> {
        let measures = self.ruler.measures();
        let batch = measures.batch(batch, &[]);
        let training = self.ruler.graph();
        measures.observe(&batch, training, &mut self.streamed, Measure::is_streamed)
    }

    fn shard(&mut self, index: usize, shard: &PathBatch) -> Result<(), Error> {
        let empty = self.ruler.measures().states();
        let mut streamed = std::mem::replace(&mut self.streamed, empty);
        self.watching.finish(index, &mut streamed)?;
        let before = || match index {
            0 => Ok(None),
            index => {
                let before = CoverageState::read((self.file)(index - 1))?;
                let suite = before.into_suites().into_iter().next();
                Ok(suite.map(|suite| suite.states))
            }
        };
        let suite = Suite {
            name: self.name.to_owned(),
            shards: vec![(self.record)(&shard.rows)],
            inputs: Vec::new(),
            states: streamed,
        };
        let mut part = self.ruler.state();
        part.add(complete(
            suite,
            self.ruler,
            shard,
            self.labels,
            before,
            self.threads,
        )?)?;
        part.write((self.file)(index))
    }
}

/// Completes a suite of one shard that has the states of streamed criteria so far. `before` gives the
/// states of the shard before it, for criteria that go on from there.
fn complete(
    mut suite: Suite,
    ruler: &Ruler,
    shard: &PathBatch,
    labels: Option<&[i64]>,
    before: impl FnOnce() -> Result<Option<Vec<State>>, Error>,
    threads: usize,
) -> Result<Suite, Error> {
    let measures = ruler.measures();
    let list = measures.list();
    let (observations, states) = observe(ruler, shard, threads)?;
    let before = match list.iter().any(|m| m.criterion.ordered()) {
        true => before()?,
        false => None,
    };
    for (i, (measure, state)) in list.iter().zip(states).enumerate() {
        if measure.is_streamed() {
            continue;
        }
        suite.states[i] = state;
        if measure.criterion.ordered() {
            if let Some(before) = before.as_ref().and_then(|states| states.get(i)) {
                suite.states[i] = before.clone();
            }
            let batch = measures.batch(shard, &observations);
            let observed = (measure.criterion).observe(&batch, ruler.graph(), &mut suite.states[i]);
            observed.map_err(failed(&measure.spec))?;
        }
    }
    let input = |(i, row): (usize, usize)| {
        let place = |nearest: Option<(usize, f64)>| match nearest {
            Some((cluster, similarity)) => (cluster as u32, similarity),
            None => (NO_CLUSTER, 0.0),
        };
        let observation = observations.get(i);
        let (nearest, similarity) = place(observation.and_then(|o| o.nearest));
        let (other, other_similarity) = place(observation.and_then(|o| o.nearest_other));
        let label = labels.and_then(|labels| labels.get(row));
        InputRecord {
            prediction: shard.predictions[i],
            label: label.copied().unwrap_or(NO_LABEL),
            nearest,
            similarity,
            other,
            other_similarity,
        }
    };
    suite.inputs = shard.rows.clone().enumerate().map(input).collect();
    Ok(suite)
}

/// A ruler with a dataset, ready to measure parts of it in memory.
pub struct Gauge<'r> {
    ruler: &'r Ruler,
    data: &'r Loader,
    sha256: String,
    probe: Probe,
}

impl Ruler {
    /// Prepares to measure parts of a dataset in memory.
    pub fn gauge<'r>(&'r self, data: &'r Loader) -> Result<Gauge<'r>, Error> {
        Ok(Gauge {
            ruler: self,
            sha256: DataRecord::new(data, 0, 0)?.sha256,
            data,
            probe: self.probe()?,
        })
    }
}

impl Gauge<'_> {
    /// Measures a part as a suite. The result is that of [`cover`], which also keeps what is finished
    /// in files; it does not depend on the number of threads.
    pub fn measure(
        &self,
        name: &str,
        range: Range<usize>,
        threads: usize,
    ) -> Result<CoverageState, Error> {
        if range.is_empty() || range.end > self.data.len() {
            return Err(Error::NoInputs(self.data.dataset().name().to_owned()));
        }
        let mut collecting = Collecting {
            gauge: self,
            name,
            threads,
            watching: &Watching::new(self.ruler.measures(), range.start),
            streamed: self.ruler.measures().states(),
            suite: None,
        };
        extract_shards(
            &self.probe,
            self.data,
            range,
            threads,
            |_, _| false,
            &mut |_| {},
            &mut collecting,
        )?;
        let mut state = self.ruler.state();
        if let Some(suite) = collecting.suite {
            state.add(suite)?;
        }
        Ok(state)
    }
}

/// Measures the shards of a suite in memory.
struct Collecting<'a> {
    gauge: &'a Gauge<'a>,
    name: &'a str,
    threads: usize,
    watching: &'a Watching<'a>,
    streamed: Vec<State>,
    suite: Option<Suite>,
}

impl<'a> Sink<'a> for Collecting<'a> {
    fn watching(&self) -> Option<&'a Watching<'a>> {
        Some(self.watching)
    }

    fn inputs(&mut self, batch: &PathBatch) -> Result<(), Error> {
        let ruler = self.gauge.ruler;
        let measures = ruler.measures();
        let batch = measures.batch(batch, &[]);
        let states = &mut self.streamed;
        measures.observe(&batch, ruler.graph(), states, Measure::is_streamed)
    }

    fn shard(&mut self, index: usize, shard: &PathBatch) -> Result<(), Error> {
        let Gauge {
            ruler,
            data,
            sha256,
            ..
        } = self.gauge;
        let mut streamed = std::mem::replace(&mut self.streamed, ruler.measures().states());
        self.watching.finish(index, &mut streamed)?;
        let part = Suite {
            name: self.name.to_owned(),
            shards: vec![DataRecord {
                sha256: sha256.clone(),
                start: shard.rows.start,
                end: shard.rows.end,
            }],
            inputs: Vec::new(),
            states: streamed,
        };
        let before = || Ok(self.suite.as_ref().map(|suite| suite.states.clone()));
        let part = complete(part, ruler, shard, data.labels(), before, self.threads)?;
        match &mut self.suite {
            None => self.suite = Some(part),
            Some(suite) => suite.append(part, ruler.measures())?,
        }
        Ok(())
    }
}

/// Where the inputs of a shard are in the decision graph, and what criteria keep of them, but for
/// those that look at inputs at another time.
fn observe(
    ruler: &Ruler,
    shard: &PathBatch,
    threads: usize,
) -> Result<(Vec<Observation>, Vec<State>), Error> {
    let file = ruler.graph();
    let measures = ruler.measures();
    let anpc = match measures.need_neighbours(|_| true) {
        true => file.record().anpc.layers(),
        false => Vec::new(),
    };
    let observer = Observer::new(file.graph(), ruler.choices(), &anpc);
    let paths = measures.need_paths();
    let now = |measure: &Measure| !measure.is_streamed() && !measure.criterion.ordered();
    let part = |inputs: Range<usize>| -> Result<(Vec<Observation>, Vec<State>), Error> {
        let places = inputs.clone().filter(|_| paths);
        let seen: Vec<Input<'_>> = places.map(|i| shard.input(i)).collect();
        let observations = observer.observe_all(&seen, file)?;
        let mut batch = measures.batch(shard, &[]).slice(inputs);
        batch.observations = &observations;
        let mut states = measures.states();
        measures.observe(&batch, file, &mut states, now)?;
        Ok((observations, states))
    };
    let mut observations = Vec::with_capacity(shard.rows.len());
    let mut states = measures.states();
    for result in in_parallel(shard.rows.len(), threads, part) {
        let (observed, next) = result?;
        observations.extend(observed);
        for ((state, next), measure) in states.iter_mut().zip(&next).zip(measures.list()) {
            if now(measure) {
                state.append(next).map_err(failed(&measure.spec))?;
            }
        }
    }
    Ok((observations, states))
}

/// Splits so many things among threads, and gives their results in order.
pub(crate) fn in_parallel<R: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(Range<usize>) -> R + Sync,
) -> Vec<R> {
    let each = count.div_ceil(threads.max(1)).max(1);
    std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = (0..count)
            .step_by(each)
            .map(|start| scope.spawn(move || work(start..(start + each).min(count))))
            .collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, R>| match handle.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        handles.into_iter().map(join).collect()
    })
}
