//! Work that several processes share.

use std::ops::Range;
use std::path::PathBuf;

use npcov::data::{Digest, Run, Targets, Whole};
use npcov::paths::BlockBytes;
use npcov::run::Part;
use npcov_cli::embed::parts::{self, Kept};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::coverage::Coverage;
use crate::error::{raised, raised_from};
use crate::graph::DecisionGraph;
use crate::model::Model;
use crate::samples::{Labels, Samples, Words};
use crate::work::work;

/// Whatever reads data: a model, or the one of a graph.
#[derive(FromPyObject)]
pub(crate) enum Reader<'py> {
    Model(Bound<'py, Model>),
    Graph(Bound<'py, DecisionGraph>),
}

impl Reader<'_> {
    fn model(&self, threads: usize) -> npcov::Model {
        let model = match self {
            Reader::Model(model) => model.get().0.clone(),
            Reader::Graph(graph) => graph.get().0.model().clone(),
        };
        model.with_threads(threads)
    }
}

/// Rows by number, each with a reason.
type BadRows = Vec<(usize, String)>;

/// The bytes of digests.
fn bytes(digests: &[Digest]) -> Vec<u8> {
    digests
        .iter()
        .flat_map(|digest| *digest.as_bytes())
        .collect()
}

/// Looks at rows: digests of their blocks, and rows that cannot be read.
#[pyfunction]
pub(crate) fn look<'py>(
    py: Python<'py>,
    reader: Reader<'_>,
    data: &Samples,
    rows: (usize, usize),
    threads: usize,
) -> PyResult<(Bound<'py, PyBytes>, BadRows)> {
    let (model, data) = (reader.model(threads), data.0.clone());
    let (seen, _) = work(py, None, move |_| {
        parts::look(&model, &data, rows.0..rows.1)
    })?;
    Ok((PyBytes::new(py, &bytes(&seen.blocks)), seen.bad))
}

/// The rows that the model cannot be run on.
#[pyfunction]
pub(crate) fn bad_rows(
    py: Python<'_>,
    reader: Reader<'_>,
    data: &Samples,
    rows: (usize, usize),
    threads: usize,
) -> PyResult<BadRows> {
    let (model, data) = (reader.model(threads), data.0.clone());
    let (bad, _) = work(py, None, move |_| {
        parts::bad_rows(&model, &data, rows.0..rows.1)
    })?;
    Ok(bad)
}

/// What is known of a whole: its name, number of rows, shape of its first image, labels and names.
type Known = (String, usize, Option<Vec<usize>>, Words);

/// Data as rows of a whole. Each run is the first row, the one behind the last, and the place of the first among the
/// data; without a `whole` the data is all of it, and rows from the place of each run on are kept.
#[pyfunction]
#[pyo3(signature = (reader, data, runs, blocks=None, whole=None))]
pub(crate) fn excerpt(
    py: Python<'_>,
    reader: Reader<'_>,
    data: &Samples,
    runs: Vec<(usize, usize, usize)>,
    blocks: Option<&[u8]>,
    whole: Option<Known>,
) -> PyResult<Samples> {
    let wrong = |text: &str| PyValueError::new_err(text.to_owned());
    let runs = runs.into_iter().map(|(start, end, at)| Run {
        rows: start..end,
        at,
    });
    let kept = match whole {
        None => {
            let place = |run: Run| run.at..run.at.saturating_add(run.rows.len());
            Kept::Rows(runs.map(place).collect())
        }
        Some((name, len, image_shape, (labels, class_names, sample_names))) => {
            let (labels, targets) = match labels {
                None => (None, None),
                Some(Labels::Classes(labels)) => (Some(labels.0), None),
                Some(Labels::Numbers(width, numbers)) => {
                    let targets = Targets::new(width, numbers);
                    let targets = targets.map_err(|error| error.in_file(&name));
                    (None, Some(targets.map_err(|error| raised_from(py, error))?))
                }
            };
            let whole = Whole {
                name,
                len,
                image_shape,
                labels,
                targets,
                class_names,
                sample_names,
            };
            Kept::Runs(runs.collect(), Box::new(whole))
        }
    };
    let blocks = match blocks.map(|bytes| bytes.as_chunks::<32>()) {
        None => None,
        Some((digests, [])) => Some(digests.iter().map(|&digest| digest.into()).collect()),
        Some(_) => return Err(wrong("digests are 32 bytes each")),
    };
    let (model, data) = (reader.model(1), data.0.clone());
    let made = py.detach(|| parts::excerpt(&model, &data, kept, blocks));
    made.map(Samples).map_err(|error| raised(py, &error))
}

/// Makes one part of a graph in the folder beside `output`.
#[pyfunction]
#[pyo3(signature = (model, data, flags, part, output, calibration=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "called by name, from Python")]
pub(crate) fn build_part(
    py: Python<'_>,
    model: &Model,
    data: &Samples,
    flags: Vec<String>,
    part: (usize, usize),
    output: PathBuf,
    calibration: Option<&Samples>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(usize, usize)> {
    let no_part = || PyValueError::new_err(format!("there is no part {}/{}", part.0, part.1));
    let part = Part::new(part.0, part.1).ok_or_else(no_part)?;
    let (model, data) = (model.0.clone(), data.0.clone());
    let calibration = calibration.map(|data| data.0.clone());
    let (built, _) = work(py, progress, move |listener| {
        let data = (&data, calibration.as_ref());
        parts::build_part(&model, data, &flags, part, &output, listener)
    })?;
    Ok((built.start, built.end))
}

/// Rows of one kind.
type Rows = Vec<(usize, usize)>;

/// The training inputs that are in no part yet, and those for calibration.
#[pyfunction]
#[pyo3(signature = (model, data, flags, output, calibration=None))]
pub(crate) fn missing_parts(
    py: Python<'_>,
    model: &Model,
    data: &Samples,
    flags: Vec<String>,
    output: PathBuf,
    calibration: Option<&Samples>,
) -> PyResult<(Rows, Rows)> {
    let (model, data) = (model.0.clone(), data.0.clone());
    let calibration = calibration.map(|data| data.0.clone());
    let (missing, _) = work(py, None, move |_| {
        parts::missing_parts(&model, (&data, calibration.as_ref()), &flags, &output)
    })?;
    let pairs = |rows: Vec<Range<usize>>| rows.into_iter().map(|r| (r.start, r.end)).collect();
    Ok((pairs(missing.training), pairs(missing.calibration)))
}

/// Clusters large classes by way of others. `ask` is called with files of points and a question about them, and gives
/// what each of them answers, or nothing. A class of up to `held` bytes is left as it is; others have `block` bytes in each
/// file.
#[pyfunction]
#[pyo3(signature = (model, data, flags, output, held, block, ask, calibration=None))]
#[expect(clippy::too_many_arguments, reason = "called by name, from Python")]
pub(crate) fn cluster_spread(
    py: Python<'_>,
    model: &Model,
    data: &Samples,
    flags: Vec<String>,
    output: PathBuf,
    held: usize,
    block: usize,
    ask: Py<PyAny>,
    calibration: Option<&Samples>,
) -> PyResult<Vec<usize>> {
    let (model, data) = (model.0.clone(), data.0.clone());
    let calibration = calibration.map(|data| data.0.clone());
    let mut failed = None;
    let mut answers = |files: &[PathBuf], question: &str| {
        let answers = Python::attach(|py| -> PyResult<Option<Vec<String>>> {
            ask.call1(py, (files, question))?.extract(py)
        });
        answers.unwrap_or_else(|error| {
            failed = Some(error);
            None
        })
    };
    let bytes = BlockBytes { held, block };
    let data = (&data, calibration.as_ref());
    let clustered =
        py.detach(|| parts::cluster_spread(&model, data, &flags, &output, bytes, &mut answers));
    match failed {
        Some(error) => Err(error),
        None => clustered.map_err(|error| raised(py, &error)),
    }
}

/// What a file of points answers, or nothing.
#[pyfunction]
pub(crate) fn answer_block(
    py: Python<'_>,
    file: PathBuf,
    question: &str,
) -> PyResult<Option<String>> {
    let answer = py.detach(|| parts::answer_block(&file, question));
    answer.map_err(|error| raised(py, &error))
}

/// Measures some rows as a part of a suite.
#[pyfunction]
#[pyo3(signature = (graph, name, data, rows, flags, progress=None))]
pub(crate) fn cover_part(
    py: Python<'_>,
    graph: &DecisionGraph,
    name: String,
    data: &Samples,
    rows: (usize, usize),
    flags: Vec<String>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Coverage> {
    let (graph, data) = (graph.0.clone(), data.0.clone());
    let (coverage, _) = work(py, progress, move |listener| {
        parts::cover_part(&graph, (&name, &data), rows.0..rows.1, &flags, listener)
    })?;
    Ok(Coverage(coverage))
}

/// The rows of part `part` of `parts`: shards are never divided, so there may be none.
#[pyfunction]
pub(crate) fn part_rows(part: usize, parts: usize, rows: usize) -> Option<(usize, usize)> {
    let rows = Part::new(part, parts)?.rows(0..rows);
    Some((rows.start, rows.end))
}
