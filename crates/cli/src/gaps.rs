//! `npcov gaps`.

use std::path::Path;

use anyhow::bail;
use npcov::data::{Loader, Samples};
use npcov::{Coverage, DecisionGraph, GapOptions, Gaps};
use npcov_report::GapImages;

use crate::args::{Format, GapsArgs};
use crate::config::Config;
use crate::output::Outputs;
use crate::printer::Printer;
use crate::progress::ProgressBar;
use crate::{graph, samples};

/// Says what a suite is missing, and writes the inputs of a pool that fill it.
pub(crate) fn run(args: &GapsArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let mut outputs = Outputs::new(
        config,
        [
            ("--output", args.output.as_deref()),
            ("--picture", args.picture.as_deref()),
        ],
    )?;
    outputs.spare(&args.graph)?;
    outputs.spare(&args.state)?;
    for data in args.pool.iter().chain(&args.data) {
        outputs.spare_data(data)?;
    }
    outputs.spare_all(config.class_names_file(&args.classes))?;
    outputs.spare_all(config.class_shares_file(&args.class_shares))?;
    let shares = config.class_shares(&args.class_shares)?;
    let coverage = Coverage::open(&args.state).and_then(|c| c.with_class_shares(shares));
    let coverage = coverage.map_err(npcov::Error::from)?;
    let given = (&args.classes, &args.preprocessing);
    let graph = graph::open(&args.graph, &args.model, given, config)?
        .with_threads(config.threads(args.run.threads));
    outputs.spare_graph(&graph)?;
    let measured_with =
        (graph.learnt()).require_state(coverage.state(), &args.state.display().to_string());
    measured_with.map_err(npcov::Error::from)?;
    let options = GapOptions {
        suites: args.suite.clone(),
        exemplars: args.exemplars,
        count: args.count,
    };
    let pool = match &args.pool {
        Some(pool) => Some(samples::first(&graph.open_data(pool)?, args.limit)),
        None => None,
    };
    let gaps = match &pool {
        None => graph.gaps(&coverage, &options)?,
        Some(pool) => {
            samples::warn(&graph.warnings(pool.clone())?, printer);
            let mut progress = ProgressBar::new(pool.len(), printer);
            let pool = pool.clone();
            match &args.output {
                Some(output) => {
                    progress = progress.keeping(output);
                    graph.fill_gaps_file(&coverage, pool, &options, output, &mut progress)?
                }
                None => graph.fill_gaps(&coverage, pool, &options, &mut progress)?,
            }
        }
    };
    let written = gaps.pool.as_ref().and_then(|pool| pool.file.as_ref());
    if let (Some(output), None) = (&args.output, written) {
        let output = output.display();
        printer.note(&format!(
            "`{output}` is not written: there is nothing to add"
        ));
    }
    if let Some(picture) = &args.picture {
        let pool = pool.map(|pool| graph.loader(pool.samples().clone()));
        draw(
            &gaps,
            &graph,
            pool.transpose()?.as_ref(),
            (args, picture),
            printer,
        )?;
    }
    printer.data(&match args.run.print.format {
        Format::Text => npcov_report::gaps(&gaps),
        Format::Json => npcov_report::json(&gaps),
    })
}

/// Draws gaps with what can be seen of them.
fn draw(
    gaps: &Gaps,
    graph: &DecisionGraph,
    pool: Option<&Loader<'_>>,
    (args, picture): (&GapsArgs, &Path),
    printer: &Printer,
) -> anyhow::Result<()> {
    if gaps.gaps.is_empty() {
        printer.warning("there are no gaps to draw");
        return Ok(());
    }
    let record = graph.learnt().file().record();
    let mut loaders = Vec::new();
    for data in &args.data {
        loaders.push(load(graph, graph.open_data(data)?)?);
    }
    // Data that has moved, or changed, is just not shown.
    if let Ok(training) = graph.open_data(&record.data) {
        loaders.extend(load(graph, training));
    }
    let training = loaders
        .iter()
        .find(|(digest, _)| *digest == record.training.sha256);
    if training.is_none() {
        printer.warning(&format!(
            "the training data `{}` is not there: the picture lacks what is typical; `--data` says where it is",
            record.data
        ));
    }
    let images = GapImages {
        training: training.map(|(_, data)| data),
        suites: loaders
            .iter()
            .map(|(digest, data)| (digest.clone(), data))
            .collect(),
        pool,
    };
    match npcov_report::gap_sheet(gaps, &images)? {
        Some(sheet) => Ok(sheet.write(picture)?),
        None => bail!("`--picture`: there are no images to draw"),
    }
}

/// Data with its digest.
fn load(
    graph: &DecisionGraph,
    data: std::sync::Arc<dyn Samples>,
) -> Result<(String, Loader<'static>), npcov::Error> {
    let data = graph.loader(data)?;
    Ok((data.fingerprint()?.digest().to_string(), data))
}
