//! Decision graphs as arguments name them.

use std::path::Path;

use npcov::data::Preprocessing;
use npcov::{CoverOptions, DecisionGraph};

use crate::args::{
    ClassNamesArgs, GraphModelArgs, MeasureChoices, MeasuringArgs, PreprocessingArgs,
};
use crate::config::Config;
use crate::value::Criteria;

/// Opens a decision graph with its model.
pub(crate) fn open(
    graph: &Path,
    args: &GraphModelArgs,
    (classes, preprocessing): (&ClassNamesArgs, &PreprocessingArgs),
    config: &Config,
) -> Result<DecisionGraph, npcov::Error> {
    let engine = config.engine(args.engine.as_ref());
    let mut graph = DecisionGraph::open_on(graph, args.model.as_deref(), engine)?;
    if let Some(names) = config.class_names(classes)? {
        graph = graph.with_class_names(names)?;
    }
    if let Some(name) = config.label_column(classes) {
        graph = graph.with_label_column(&name);
    }
    // What is said here must be what the graph was learnt with.
    let given = config.preprocessing(preprocessing);
    if given != Preprocessing::default() {
        graph.learnt().require_preprocessing(&given)?;
    }
    Ok(graph)
}

/// The same for commands that measure.
pub(crate) fn open_measuring(
    graph: &Path,
    args: &MeasuringArgs,
    config: &Config,
) -> Result<DecisionGraph, npcov::Error> {
    let graph = open(
        graph,
        &args.model,
        (&args.classes, &args.preprocessing),
        config,
    )?;
    Ok(graph.with_threads(config.threads(args.run.threads)))
}

/// How suites are measured against a graph.
pub(crate) fn cover_options(
    graph: &DecisionGraph,
    choices: &MeasureChoices,
    criteria: Option<&Criteria>,
) -> CoverOptions {
    let record = graph.learnt().file().record();
    let mut chosen = record.choices.clone();
    choices.apply(&mut chosen);
    CoverOptions {
        criteria: criteria.map(|criteria| criteria.specs(&record.specs())),
        choices: Some(chosen),
    }
}
