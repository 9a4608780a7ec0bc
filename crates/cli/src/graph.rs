//! Decision graphs as arguments name them.

use std::path::Path;

use npcov::coverage::{CoverOptions, LearntGraph};
use npcov::data::Preprocessing;

use crate::args::{MeasureChoices, PreprocessingArgs};
use crate::config::Config;
use crate::value::Criteria;

/// Opens a decision graph with its model.
pub(crate) fn open(
    graph: &Path,
    model: Option<&Path>,
    preprocessing: &PreprocessingArgs,
    config: &Config,
) -> Result<LearntGraph, npcov::Error> {
    let graph = npcov::open_graph(graph, model)?;
    // What is said here must be what the graph was learnt with.
    let given = config.preprocessing(preprocessing);
    if given != Preprocessing::default() {
        graph.require_preprocessing(&given)?;
    }
    Ok(graph)
}

/// How suites are measured against a graph.
pub(crate) fn cover_options(
    graph: &LearntGraph,
    choices: &MeasureChoices,
    criteria: Option<&Criteria>,
) -> CoverOptions {
    let record = graph.file().record();
    let mut chosen = record.choices.clone();
    choices.apply(&mut chosen);
    CoverOptions {
        criteria: criteria.map(|criteria| criteria.specs(&record.specs())),
        choices: Some(chosen),
    }
}
