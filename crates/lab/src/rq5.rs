//! RQ5: how long do criteria take?
//!
//! Each criterion measures the same inputs alone; beside it stand the forward pass and the
//! explanation of those inputs. All are timed in turns, several times, and the shortest time counts:
//! what else the machine does makes times longer, never shorter. What is made once, programs and what
//! criteria learnt from training data, is not timed, as in the paper. Nor is what is told of single inputs,
//! clusters and scores, which no criterion needs: that is timed by itself.

use std::time::Instant;

use npcov::coverage::{CoverOptions, LearntGraph};
use npcov::criteria::{Spec, find};
use npcov::data::Loader;
use npcov::paths::Choices;
use npcov::run::{Event, PathRows, Progress, RunError, SHARD, SampleRange};
use serde::{Deserialize, Serialize};

use crate::error::{LabError, parameter};
use crate::published::Paper;

/// How RQ5 is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Rq5Settings {
    /// Inputs that are measured.
    pub inputs: usize,
    /// How often.
    pub rounds: usize,
    /// The criteria.
    pub criteria: Vec<Spec>,
    /// How paths are compared; as the graph says by default.
    pub choices: Option<Choices>,
    /// The network of the paper whose numbers stand beside.
    pub paper: Option<Paper>,
}

/// What RQ5 gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq5 {
    /// The data, as it was named.
    pub data: String,
    /// The decision graph's digest.
    pub graph: String,
    /// Inputs that were measured.
    pub inputs: usize,
    /// How often; the shortest time counts.
    pub rounds: usize,
    /// Threads that were used.
    pub threads: usize,
    /// Seconds of the forward pass.
    pub forward: f64,
    /// Seconds of computing relevances, without anything made of them.
    pub explain: f64,
    /// Seconds of extracting critical decision paths.
    pub extraction: f64,
    /// Seconds of telling which cluster each input belongs to, and its scores, once its path is there. `cover` does that
    /// beside criteria that need paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scores: Option<f64>,
    /// The network of the paper whose numbers stand beside.
    pub paper: Option<Paper>,
    /// By criterion.
    pub rows: Vec<Rq5Row>,
}

/// How long a criterion takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rq5Row {
    /// The criterion.
    pub criterion: String,
    /// Seconds.
    pub seconds: f64,
    /// Whether it needs critical decision paths.
    pub paths: bool,
    /// Its seconds over those of the forward pass.
    pub to_forward: f64,
    /// Its seconds over those of computing relevances.
    pub to_explain: f64,
    /// The most that this is to be over its base: the forward pass for NC and IDC, relevances for
    /// SNPC and ANPC.
    pub bar: Option<f64>,
    /// Whether it is.
    pub met: Option<bool>,
    /// The paper's seconds, on other hardware.
    pub published: Option<f64>,
    /// How many of those extracting paths took.
    pub published_extraction: Option<f64>,
}

/// What NC and IDC may take, in forward passes.
const FORWARD_BAR: f64 = 1.3;
/// What SNPC and ANPC may take, in explanations.
const EXPLAIN_BAR: f64 = 1.1;

/// Times criteria. `progress` is told of each that was timed, rounds times criteria in all.
pub fn rq5(
    graph: &LearntGraph,
    data: &Loader,
    settings: &Rq5Settings,
    threads: usize,
    progress: &mut dyn Progress,
) -> Result<Rq5, LabError> {
    if settings.rounds == 0 {
        return parameter("rounds", 0, "1 or more");
    }
    if data.len() < settings.inputs || settings.inputs == 0 {
        return Err(LabError::TooFew {
            data: data.name().to_owned(),
            kind: "inputs",
            found: data.len(),
            wanted: settings.inputs.max(1),
        });
    }
    let range = || 0..settings.inputs;
    let [mut forward, mut explain, mut extraction, mut scores] = [f64::INFINITY; 4];
    let mut seconds = vec![f64::INFINITY; settings.criteria.len()];
    for _ in 0..settings.rounds {
        let tracer = graph.network().logits_tracer()?;
        let start = Instant::now();
        tracer.run(data, range(), threads, |_| Ok::<(), RunError>(()))?;
        forward = forward.min(start.elapsed().as_secs_f64());

        let extractor = graph.extractor()?;
        let start = Instant::now();
        let tracer = extractor.tracer();
        tracer.run(data, range(), threads, |_| Ok::<(), RunError>(()))?;
        explain = explain.min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        extractor.run(data, range(), threads, |_| Ok::<(), RunError>(()))?;
        extraction = extraction.min(start.elapsed().as_secs_f64());
        if settings.criteria.iter().any(needs_paths) {
            scores = scores.min(time_scores(graph, data, range(), threads)?);
        }

        for (spec, seconds) in settings.criteria.iter().zip(&mut seconds) {
            let options = CoverOptions {
                criteria: Some(vec![spec.clone()]),
                choices: settings.choices.clone(),
            };
            let measurement = graph.measurement(&options)?.without_scores();
            // What is prepared once for any number of inputs is no part of the measurement.
            measurement.extraction()?;
            let inputs = SampleRange {
                data,
                range: range(),
                threads,
            };
            let start = Instant::now();
            measurement.cover("suite", &inputs, &mut ())?;
            *seconds = seconds.min(start.elapsed().as_secs_f64());
            progress.tell(Event::Finished(1))?;
        }
    }
    let rows = settings.criteria.iter().zip(seconds);
    let rows = rows.map(|(spec, seconds)| {
        let paths = needs_paths(spec);
        let (to_forward, to_explain) = (seconds / forward, seconds / explain);
        let bar = match spec.name.as_str() {
            _ if paths => Some((EXPLAIN_BAR, to_explain)),
            "nc" | "idc" => Some((FORWARD_BAR, to_forward)),
            _ => None,
        };
        let published = settings.paper.map(Paper::published);
        Rq5Row {
            criterion: spec.to_string(),
            seconds,
            paths,
            to_forward,
            to_explain,
            bar: bar.map(|(bar, _)| bar),
            met: bar.map(|(bar, ratio)| ratio <= bar),
            published: published.and_then(|p| p.seconds_of(&spec.name)),
            published_extraction: published.filter(|_| paths).map(|p| p.extraction_seconds),
        }
    });
    Ok(Rq5 {
        data: data.name().to_owned(),
        graph: graph.file().record().id.clone(),
        inputs: settings.inputs,
        rounds: settings.rounds,
        threads,
        forward,
        explain,
        extraction,
        scores: scores.is_finite().then_some(scores),
        paper: settings.paper,
        rows: rows.collect(),
    })
}

fn needs_paths(spec: &Spec) -> bool {
    find(&spec.name).is_some_and(|found| found.meaning.of_paths)
}

/// Seconds of telling where inputs belong and how usual they are there, a shard at a time, as `cover` does. Centres and
/// means of the training data, which are made once, are left out.
fn time_scores(
    graph: &LearntGraph,
    data: &Loader,
    range: std::ops::Range<usize>,
    threads: usize,
) -> Result<f64, LabError> {
    let snpc = CoverOptions {
        criteria: Some(vec![Spec::named("snpc")]),
        ..CoverOptions::default()
    };
    let (measurement, extractor) = (graph.measurement(&snpc)?, graph.extractor()?);
    let mut seconds = 0.0;
    for start in range.clone().step_by(SHARD) {
        let mut shard = PathRows::empty(start);
        let inputs = start..range.end.min(start + SHARD);
        extractor.run(data, inputs, threads, |rows| -> Result<(), RunError> {
            shard.append(rows);
            Ok(())
        })?;
        if start == range.start {
            measurement.clusters(&PathRows::empty(start), threads)?;
        }
        let start = Instant::now();
        measurement.scores(&shard, threads)?;
        seconds += start.elapsed().as_secs_f64();
    }
    Ok(seconds)
}
