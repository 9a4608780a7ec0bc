//! The verbs `cover` and `merge`: which decision logic suites exercise.

use std::ops::Range;
use std::path::{Path, PathBuf};

use npcov_data::npz::{Compression, NpzWriter};
use npcov_data::{DataError, Dataset, Loader, Preprocessing};
use npcov_paths::{Choices, Input, Meter, NO_CLUSTER, Observation, more_similar};
use serde::{Deserialize, Serialize};

use crate::artefact::record::{DataRecord, ExtractionRecord, PreprocessingRecord, StateRecord};
use crate::artefact::{CoverageState, GraphFile, InputRecord, PartsFolder, Suite, differences};
use crate::build::model_digest;
use crate::error::Error;
use crate::method::Method;
use crate::network::Network;
use crate::paths::{PathBatch, PathExtractor};
use crate::shards::{Event, extract_shards};

/// A decision graph with the model it was learnt from, ready to measure suites.
pub struct Ruler {
    file: GraphFile,
    network: Network,
    method: Method,
    choices: Choices,
}

impl Ruler {
    /// Opens a decision graph and its model: the one beside it that it names, or `model`. Another
    /// model than the graph was learnt from is refused.
    pub fn open(graph: impl AsRef<Path>, model: Option<&Path>) -> Result<Ruler, Error> {
        let file = GraphFile::open(graph)?;
        let record = &file.record().extraction;
        let path = match model {
            Some(path) => path.to_owned(),
            None => record.model.path(file.path()),
        };
        let refused = |differences| Error::Mismatch {
            file: file.path().display().to_string(),
            differences,
        };
        if model.is_none() && !path.exists() {
            return Err(Error::ModelMoved {
                graph: file.path().display().to_string(),
                model: path.display().to_string(),
            });
        }
        let sha256 = model_digest(&path)?;
        if sha256 != record.model.sha256 {
            return Err(Error::AnotherModel {
                graph: file.path().display().to_string(),
                model: path.display().to_string(),
                expected: record.model.sha256.clone(),
                found: sha256,
            });
        }
        let (method, batch_norm) = Method::from_info(&record.method)
            .map_err(|reason| refused(vec![format!("method: {reason}")]))?;
        let network = Network::open(&path, &record.model.options(batch_norm))?;
        let ruler = Ruler {
            choices: file.record().choices.clone(),
            network,
            method,
            file,
        };
        // The same model may have other layers for another version of npcov.
        let extractor = ruler.extractor()?;
        let record = &ruler.file.record().extraction;
        let here = ExtractionRecord {
            // Where vectors are of another width, sums are the same bits.
            cpu: record.cpu.clone(),
            ..ExtractionRecord::new(
                &extractor,
                record.model.clone(),
                record.preprocessing.clone(),
                record.alpha.clone(),
            )
        };
        let found = differences(&here, record);
        match found.is_empty() {
            true => {
                drop(extractor);
                Ok(ruler)
            }
            false => Err(Error::Mismatch {
                file: ruler.file.path().display().to_string(),
                differences: found,
            }),
        }
    }

    /// Fails with what differs unless the graph was learnt with this preprocessing.
    pub fn require_preprocessing(&self, given: &Preprocessing) -> Result<(), Error> {
        let own = &self.file.record().extraction.preprocessing;
        let found = differences(&PreprocessingRecord::from(given), own);
        match found.is_empty() {
            true => Ok(()),
            false => Err(Error::Mismatch {
                file: self.file.path().display().to_string(),
                differences: found.iter().map(|d| format!("preprocessing.{d}")).collect(),
            }),
        }
    }

    /// The decision graph.
    pub fn graph(&self) -> &GraphFile {
        &self.file
    }

    /// The model.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// How relevances are computed.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The choices that suites are measured with: those of the graph, unless they were set.
    pub fn choices(&self) -> &Choices {
        &self.choices
    }

    /// Measures with other choices. Those that make paths and the graph stay the graph's own.
    pub fn measure_with(&mut self, choices: Choices) {
        let own = self.file.record().choices.clone();
        self.choices = Choices {
            threshold: own.threshold,
            empty_layer: own.empty_layer,
            seed: own.seed,
            members: own.members,
            merge: own.merge,
            ..choices
        };
    }

    /// Extracts paths as the graph's own were.
    pub fn extractor(&self) -> Result<PathExtractor<'_>, Error> {
        let alpha = &self.file.record().extraction.alpha;
        PathExtractor::new(&self.network, &self.method, &self.choices, alpha)
    }

    /// A dataset, preprocessed as the graph's own was.
    pub fn loader(&self, spec: &str) -> Result<Loader, Error> {
        let record = &self.file.record().extraction.preprocessing;
        let preprocessing = record.preprocessing().map_err(DataError::Preprocessing)?;
        Ok(Loader::new(
            Dataset::open(spec)?,
            self.network.sample_shape(),
            &preprocessing,
        )?)
    }

    /// A state without suites.
    pub fn state(&self) -> CoverageState {
        let record = self.file.record();
        CoverageState::new(StateRecord {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            graph: record.id.clone(),
            choices: self.choices.clone(),
            anpc: record.anpc.clone(),
            classes: record
                .classes
                .iter()
                .map(|c| (c.planned, c.clusters))
                .collect(),
            class_names: record.classes.iter().map(|c| c.name.clone()).collect(),
            layers: record
                .extraction
                .layers
                .iter()
                .map(|l| l.name.clone())
                .collect(),
            suites: Vec::new(),
        })
    }

    /// Looks at one input of a batch.
    pub fn observe(&self, batch: &PathBatch, place: usize) -> Result<Observation, Error> {
        let anpc = self.file.record().anpc.layers();
        let meter = Meter::new(self.file.graph(), &self.choices, &anpc);
        meter.observe(input(batch, place), &self.file)
    }
}

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
    state.require(empty.record(), ruler.file.path())?;
    let extractor = ruler.extractor()?;
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
    for (number, suite) in suites.iter().enumerate() {
        let file = |i: usize| -> PathBuf { parts.file(&format!("suite-{number:04}-{i:06}")) };
        let whole = &records[number];
        let record = |rows: &Range<usize>| DataRecord {
            sha256: whole.sha256.clone(),
            start: rows.start,
            end: rows.end,
        };
        let is_done = |i: usize, rows: Range<usize>| {
            let shards = |state: CoverageState| -> Option<Vec<DataRecord>> {
                state.require(empty.record(), &file(i)).ok()?;
                Some(state.suites().first()?.shards.clone())
            };
            let found = CoverageState::read(file(i)).ok().and_then(shards);
            found == Some(vec![record(&rows)])
        };
        let mut written = 0;
        extract_shards(
            &extractor,
            suite.data,
            suite.range.clone(),
            threads,
            is_done,
            on,
            |i, shard| {
                let mut part = ruler.state();
                part.add(measure(
                    ruler,
                    &suite.name,
                    record(&shard.rows),
                    shard,
                    threads,
                )?)?;
                written += 1;
                part.write(file(i))
            },
        )?;
        let mut measured: Option<Suite> = None;
        for (i, _) in crate::artefact::parts::shards(suite.range.clone()) {
            for part in CoverageState::read(file(i))?.into_suites() {
                match &mut measured {
                    None => measured = Some(part),
                    Some(suite) => suite.merge(&part)?,
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

/// What one shard of a suite covers.
fn measure(
    ruler: &Ruler,
    name: &str,
    record: DataRecord,
    shard: &PathBatch,
    threads: usize,
) -> Result<Suite, Error> {
    let file = &ruler.file;
    let anpc = file.record().anpc.layers();
    let meter = Meter::new(file.graph(), &ruler.choices, &anpc);
    let inputs = shard.rows.len();
    let each = inputs.div_ceil(threads.max(1)).max(1);
    let observed: Result<Vec<Vec<Observation>>, Error> = std::thread::scope(|scope| {
        let starts = (0..inputs).step_by(each);
        let handles: Vec<_> = starts
            .map(|start| {
                let meter = &meter;
                let observe = move |i| meter.observe(input(shard, i), file);
                let rows = start..(start + each).min(inputs);
                scope.spawn(move || rows.map(observe).collect::<Result<Vec<_>, Error>>())
            })
            .collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| match handle.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        handles.into_iter().map(join).collect()
    });
    let mut suite = Suite {
        name: name.to_owned(),
        shards: vec![record],
        snpc: meter.snpc(),
        anpc: meter.anpc(),
        distances: vec![0; anpc.len()],
        beyond: vec![0; anpc.len()],
        inputs: Vec::with_capacity(inputs),
    };
    for (i, observation) in observed?.iter().flatten().enumerate() {
        meter.cover_snpc(&mut suite.snpc, observation);
        meter.cover_anpc(&mut suite.anpc, observation);
        for view in &observation.clusters {
            for (layer, (distance, _)) in view.distances.iter().enumerate() {
                suite.distances[layer] += 1;
                suite.beyond[layer] += u64::from(*distance > anpc[layer].upper);
            }
        }
        let place = |nearest: Option<(usize, f64)>| match nearest {
            Some((cluster, similarity)) => (cluster as u32, similarity),
            None => (NO_CLUSTER, 0.0),
        };
        let (nearest, similarity) = place(observation.nearest);
        let (other, other_similarity) = place(observation.nearest_other);
        suite.inputs.push(InputRecord {
            prediction: shard.predictions[i],
            nearest,
            similarity,
            other,
            other_similarity,
        });
    }
    Ok(suite)
}

/// An input of a batch, as it is measured.
fn input(batch: &PathBatch, place: usize) -> Input<'_> {
    let neurons = batch.activations.len() / batch.rows.len().max(1);
    Input {
        class: batch.predictions[place] as usize,
        path: batch.paths.row(place),
        activations: &batch.activations[place * neurons..(place + 1) * neurons],
    }
}

/// The coverage of suites.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoverageReport {
    /// The suites.
    pub suites: Vec<SuiteReport>,
    /// What all suites cover together; `None` for a single one.
    pub together: Option<Criteria>,
    /// Number of buckets to cover.
    pub buckets: Criteria<usize>,
    /// What is probably not meant, though it was measured.
    pub warnings: Vec<String>,
}

/// A number for each criterion.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Criteria<T = f64> {
    /// Structure-based neuron path coverage.
    pub snpc: T,
    /// Activation-based neuron path coverage.
    pub anpc: T,
}

/// What a suite covers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuiteReport {
    /// Its name.
    pub name: String,
    /// Number of inputs.
    pub inputs: usize,
    /// The share of buckets that it covers.
    pub criteria: Criteria,
    /// By class.
    pub classes: Vec<ClassCoverage>,
    /// By layer of ANPC: the share of distances beyond the bound; `None` without distances.
    pub beyond: Vec<Option<f64>>,
    /// The mean of how far inputs are from the clusters of their class; `None` without inputs.
    pub unknown: Option<f64>,
    /// How many inputs are more similar to the path of another class than to those of their own.
    pub incorrect: usize,
}

/// What a suite covers of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassCoverage {
    /// The class.
    pub class: usize,
    /// Its name, where the training data has names.
    pub name: Option<String>,
    /// Inputs that are classified as it.
    pub inputs: usize,
    /// The share of its buckets that are covered.
    pub criteria: Criteria,
}

/// The share of distances beyond the bound above which there is a warning.
const BEYOND: f64 = 0.2;

impl CoverageState {
    /// What the suites cover, in numbers.
    pub fn report(&self) -> CoverageReport {
        let record = self.record();
        let mut warnings = Vec::new();
        let mut suites = Vec::new();
        for suite in self.suites() {
            let shares = suite.beyond.iter().zip(&suite.distances);
            let beyond: Vec<Option<f64>> = shares
                .map(|(&beyond, &all)| (all > 0).then(|| beyond as f64 / all as f64))
                .collect();
            for (share, bound) in beyond.iter().zip(&record.anpc.layers) {
                if let Some(share) = share.filter(|&share| share > BEYOND) {
                    warnings.push(format!(
                        "`{}`: {:.0} % of the distances in layer {} are beyond {}, and cover nothing",
                        suite.name,
                        share * 100.0,
                        bound.layer,
                        bound.upper
                    ));
                }
            }
            let unknown: f64 = suite.inputs.iter().map(InputRecord::unknown).sum();
            suites.push(SuiteReport {
                name: suite.name.clone(),
                inputs: suite.inputs.len(),
                criteria: Criteria {
                    snpc: suite.snpc.value(),
                    anpc: suite.anpc.value(),
                },
                classes: self.classes(suite),
                beyond,
                unknown: (!suite.inputs.is_empty()).then(|| unknown / suite.inputs.len() as f64),
                incorrect: suite
                    .inputs
                    .iter()
                    .filter(|input| more_similar(input.other_similarity, input.similarity))
                    .count(),
            });
        }
        let together = self.together().filter(|_| self.suites().len() > 1);
        let first = self.suites().first();
        CoverageReport {
            suites,
            together: together.map(|(snpc, anpc)| Criteria {
                snpc: snpc.value(),
                anpc: anpc.value(),
            }),
            buckets: Criteria {
                snpc: first.map_or(0, |suite| suite.snpc.space().total()),
                anpc: first.map_or(0, |suite| suite.anpc.space().total()),
            },
            warnings,
        }
    }

    /// Writes where every input is in the decision graph, as arrays of an npz file: `suite`,
    /// `prediction`, `nearest`, `similarity`, `unknown`, `other` and `incorrect`. Clusters are those
    /// of the graph, -1 for none.
    pub fn write_inputs(&self, path: impl Into<PathBuf>) -> Result<(), Error> {
        let mut writer = NpzWriter::create(path, Compression::Stored)?;
        let whole = ["suite", "prediction", "nearest", "other"];
        let real = ["similarity", "unknown", "incorrect"];
        let mut columns = Vec::new();
        for name in whole {
            columns.push(writer.array::<i64>(name, &[])?);
        }
        let mut numbers = Vec::new();
        for name in real {
            numbers.push(writer.array::<f64>(name, &[])?);
        }
        let cluster = |cluster: u32| match cluster {
            NO_CLUSTER => -1,
            cluster => i64::from(cluster),
        };
        for (number, suite) in self.suites().iter().enumerate() {
            for input in &suite.inputs {
                let values = [
                    number as i64,
                    i64::from(input.prediction),
                    cluster(input.nearest),
                    cluster(input.other),
                ];
                for (column, value) in columns.iter().zip(values) {
                    writer.append(column, &[value])?;
                }
                let values = [input.similarity, input.unknown(), input.incorrect()];
                for (column, value) in numbers.iter().zip(values) {
                    writer.append(column, &[value])?;
                }
            }
        }
        Ok(writer.finish()?)
    }

    fn classes(&self, suite: &Suite) -> Vec<ClassCoverage> {
        let mut start = 0;
        let record = self.record();
        let mut classes = Vec::new();
        for (class, &(planned, clusters)) in record.classes.iter().enumerate() {
            let value = |coverage: &npcov_paths::Coverage| {
                let space = coverage.space();
                let all = planned * space.layers * usize::from(space.buckets);
                let pairs = (start..start + clusters)
                    .flat_map(|cluster| (0..space.layers).map(move |layer| (cluster, layer)));
                let covered: usize = pairs.map(|(c, l)| coverage.covered_at(c, l)).sum();
                if all == 0 {
                    0.0
                } else {
                    covered as f64 / all as f64
                }
            };
            let of_class = |input: &&InputRecord| input.prediction as usize == class;
            classes.push(ClassCoverage {
                class,
                name: record.class_names.get(class).cloned().flatten(),
                inputs: suite.inputs.iter().filter(of_class).count(),
                criteria: Criteria {
                    snpc: value(&suite.snpc),
                    anpc: value(&suite.anpc),
                },
            });
            start += clusters;
        }
        classes
    }
}
