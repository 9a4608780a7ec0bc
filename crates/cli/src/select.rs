//! `npcov select`.

use std::path::Path;

use npcov::run::SampleRange;
use npcov::select::SelectOptions;

use crate::args::{Format, SelectArgs};
use crate::config::Config;
use crate::graph;
use crate::output::refuse_overwriting;
use crate::printer::Printer;
use crate::progress::ProgressBar;

/// Selects inputs of a pool, writes them, and prints which they are.
pub(crate) fn run(args: &SelectArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    refuse_overwriting(
        "--output",
        &args.output,
        &[&args.graph, Path::new(&args.data)],
    )?;
    let measuring = &args.measuring;
    let (model, preprocessing) = (measuring.model.as_deref(), &measuring.preprocessing);
    let graph = graph::open(&args.graph, model, preprocessing, config)?;
    let pool = graph.loader(&args.data).map_err(npcov::Error::from)?;
    let count = args.limit.map_or(pool.len(), |n| n.min(pool.len()));
    let options = SelectOptions {
        strategy: args.by.clone(),
        count: args.count,
        seed: args.seed,
        choices: graph::cover_options(&graph, &measuring.choices, None).choices,
    };
    let inputs = SampleRange {
        data: &pool,
        range: 0..count,
        threads: config.threads(measuring.threads),
    };
    let mut progress = ProgressBar::new(count, printer);
    let output = Some(args.output.as_path());
    let selection = npcov::select::select(&graph, &inputs, &options, output, &mut progress);
    drop(progress);
    let selection = selection.map_err(npcov::Error::from)?;
    printer.data(&match measuring.format {
        Format::Text => npcov_report::selection(&selection),
        Format::Json => npcov_report::json(&selection),
    })
}
