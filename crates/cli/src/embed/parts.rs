//! Work that several processes share: each has some rows of the data, and makes what a process alone would have made
//! of them.
//!
//! Nobody reads the whole. Every process [looks](look) at its rows; what they saw, put together, is what is known of the
//! data. With that, rows that are at hand become an [excerpt] of the whole, and parts that are made of excerpts
//! are the very parts that `build --shard` makes.

use std::ops::Range;
use std::path::{Path, PathBuf};

use npcov::coverage::{BuiltPart, MissingParts};
use npcov::data::{BLOCK_ROWS, DataError, Digest, Excerpt, Fingerprint, Run, WantedInput, Whole};
use npcov::paths::BlockBytes;
use npcov::paths::kmeans::{Answer, Question};
use npcov::run::{Part, RunError, in_parallel};
use npcov::{BuildOptions, Coverage, DecisionGraph, Inputs, Model, Suite, TrainingInputs};

use super::graph::measuring;
use super::model::with_threads;
use super::{Data, Listener, arguments};
use crate::config::Config;
use crate::graph::cover_options;
use crate::samples;

/// What one process saw of its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Digests of blocks of rows; of a block with a row that cannot be read, nothing.
    pub blocks: Vec<Digest>,
    /// Rows that cannot be read as the model wants them, each with why not.
    pub bad: Vec<(usize, String)>,
}

/// Looks at rows of some data: takes their digests, and reads each of them once as the model would.
pub fn look(model: &Model, data: &Data, rows: Range<usize>) -> anyhow::Result<Looked> {
    let loader = model.loader(data.for_model(model)?)?;
    let inputs = model.network().signature().inputs().iter();
    let lens: Vec<usize> = inputs.map(WantedInput::len).collect();
    let read = |rows: Range<usize>| {
        let array = |len: &usize| vec![0.0; len.saturating_mul(rows.len())];
        let mut arrays: Vec<Vec<f32>> = lens.iter().map(array).collect();
        let mut slices: Vec<&mut [f32]> = arrays.iter_mut().map(Vec::as_mut_slice).collect();
        loader.read_inputs(rows, &mut slices)
    };
    let starts: Vec<usize> = rows.clone().step_by(BLOCK_ROWS).collect();
    let some = |blocks: Range<usize>| -> Result<Looked, npcov::Error> {
        let mut seen = Looked::default();
        for &start in &starts[blocks] {
            let block = start..rows.end.min(start + BLOCK_ROWS);
            let digests = Fingerprint::blocks(&**loader.samples(), start..start + 1);
            let whole = digests.and_then(|digests| read(block.clone()).map(|()| digests));
            match whole {
                Ok(digests) => seen.blocks.extend(digests),
                Err(error) => {
                    let failed = |row: usize| Some((row, reason(read(row..row + 1).err()?)));
                    let before = seen.bad.len();
                    seen.bad.extend(block.filter_map(failed));
                    if seen.bad.len() == before {
                        return Err(error.into());
                    }
                }
            }
        }
        Ok(seen)
    };
    let mut seen = Looked::default();
    for part in in_parallel(starts.len(), model.threads(), some) {
        let part = part?;
        seen.blocks.extend(part.blocks);
        seen.bad.extend(part.bad);
    }
    Ok(seen)
}

/// What is wrong with a row, whose number here is none of the whole.
fn reason(error: DataError) -> String {
    match error {
        DataError::Row { reason, .. } => reason,
        other => other.to_string(),
    }
}

/// The rows among those of a range that the model cannot be run on, each with why not.
pub fn bad_rows(
    model: &Model,
    data: &Data,
    rows: Range<usize>,
) -> anyhow::Result<Vec<(usize, String)>> {
    let inputs = Inputs::new(data.for_model(model)?).rows(rows);
    let most = inputs.len();
    let bad = model.bad_rows(inputs, most)?;
    let told = |(row, error): (usize, RunError)| match error {
        RunError::Data(error) => (row, reason(error)),
        error => (row, error.to_string()),
    };
    Ok(bad.into_iter().map(told).collect())
}

/// Which rows of a whole there are.
#[derive(Clone, Debug)]
pub enum Kept {
    /// All of them are at hand, and these are kept, counted anew.
    Rows(Vec<Range<usize>>),
    /// Those of these runs are at hand.
    Runs(Vec<Run>, Box<Whole>),
}

/// Data as rows of a whole whose blocks have these digests, where they are known.
pub fn excerpt(
    model: &Model,
    data: &Data,
    kept: Kept,
    blocks: Option<Vec<Digest>>,
) -> anyhow::Result<Data> {
    let samples = data.for_model(model)?;
    let excerpt = match kept {
        Kept::Rows(rows) => Excerpt::of_rows(samples, &rows),
        Kept::Runs(runs, whole) => Excerpt::new(samples, runs, *whole),
    };
    let excerpt = match blocks {
        Some(blocks) => excerpt.and_then(|excerpt| excerpt.with_blocks(blocks)),
        None => excerpt,
    };
    Ok(Data::new(std::sync::Arc::new(
        excerpt.map_err(npcov::Error::from)?,
    )))
}

/// What `build` is asked for, in all processes alike.
struct Asked {
    model: Model,
    training: TrainingInputs<'static>,
    settings: BuildOptions,
}

impl Asked {
    fn new(
        model: &Model,
        data: &Data,
        calibration: Option<&Data>,
        options: &[String],
    ) -> anyhow::Result<Asked> {
        let args = arguments!("build", Build, ["-", "--data=-", "--output=-"], options);
        let config = Config::default();
        let mut settings = config.paths.build(&args)?;
        settings.method = config.method(&args.method)?;
        let model = with_threads(model, args.run.threads);
        let training = samples::first(&data.for_model(&model)?, args.limit);
        let (model, _) = model.for_data(training.clone())?;
        let mut training = TrainingInputs::from(training);
        if let Some(data) = calibration {
            training = training.calibrated(Inputs::new(data.for_model(&model)?));
        }
        Ok(Asked {
            model,
            training,
            settings,
        })
    }
}

/// Makes one part of a decision graph, in the folder beside `output`.
pub fn build_part(
    model: &Model,
    (data, calibration): (&Data, Option<&Data>),
    options: &[String],
    part: Part,
    output: &Path,
    listener: &mut Listener<'_>,
) -> anyhow::Result<BuiltPart> {
    let asked = Asked::new(model, data, calibration, options)?;
    let (training, settings) = (asked.training, &asked.settings);
    let progress = &mut *listener.progress;
    let built = (asked.model).build_part(training, settings, part, output, progress);
    Ok(built?)
}

/// The inputs that are in no part of a decision graph beside `output` yet.
pub fn missing_parts(
    model: &Model,
    (data, calibration): (&Data, Option<&Data>),
    options: &[String],
    output: &Path,
) -> anyhow::Result<MissingParts> {
    let asked = Asked::new(model, data, calibration, options)?;
    Ok((asked.model).missing_parts(asked.training, &asked.settings, output)?)
}

/// Gives what all of some files answer, in order; nothing where that is not to be had.
pub type AskText<'a> = dyn FnMut(&[PathBuf], &str) -> Option<Vec<String>> + 'a;

/// Clusters large classes of a decision graph whose parts are all beside `output`, by way of others that are asked in
/// words. Gives the classes that were clustered.
pub fn cluster_spread(
    model: &Model,
    (data, calibration): (&Data, Option<&Data>),
    options: &[String],
    output: &Path,
    bytes: BlockBytes,
    ask: &mut AskText<'_>,
) -> anyhow::Result<Vec<usize>> {
    let asked = Asked::new(model, data, calibration, options)?;
    let mut ask = |files: &[PathBuf], question: &Question| {
        let answers = ask(files, &serde_json::to_string(question).ok()?)?;
        let read = |answer: &String| serde_json::from_str::<Answer>(answer).ok();
        answers.iter().map(read).collect::<Option<Vec<Answer>>>()
    };
    let (training, settings) = (asked.training, &asked.settings);
    Ok((asked.model).cluster_spread(training, settings, output, bytes, &mut ask)?)
}

/// What a file answers, in words.
pub fn answer_block(file: &Path, question: &str) -> anyhow::Result<Option<String>> {
    let answer = npcov::coverage::answer_block(file, &serde_json::from_str(question)?);
    let answer = answer.map_err(npcov::Error::from)?;
    Ok(answer.as_ref().map(serde_json::to_string).transpose()?)
}

/// Measures the inputs of a range as a part of a suite, in memory.
pub fn cover_part(
    graph: &DecisionGraph,
    (name, data): (&str, &Data),
    rows: Range<usize>,
    options: &[String],
    listener: &mut Listener<'_>,
) -> anyhow::Result<Coverage> {
    let args = arguments!("cover", Cover, ["-", "--data=-"], options);
    let graph = measuring(graph, &args.measuring)?;
    let choices = &args.measuring.choices;
    let measured = cover_options(&graph, choices, args.criteria.criteria.as_ref());
    let inputs = Inputs::new(data.for_model(graph.model())?).rows(rows);
    let suite = Suite::new(name, inputs);
    Ok(graph.cover_suites(&[suite], &measured, listener.progress)?)
}
