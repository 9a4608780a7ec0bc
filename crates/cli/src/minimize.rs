//! `npcov minimize`.

use std::path::Path;

use npcov::run::SampleRange;
use npcov::select::{MinimizeOptions, counting_criteria};

use crate::args::{Format, MinimizeArgs};
use crate::config::Config;
use crate::graph;
use crate::output::refuse_overwriting;
use crate::printer::Printer;
use crate::progress::ProgressBar;

/// Makes a suite smaller, writes it, and prints what is left.
pub(crate) fn run(args: &MinimizeArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    refuse_overwriting(
        "--output",
        &args.output,
        &[&args.graph, Path::new(&args.data)],
    )?;
    let measuring = &args.measuring;
    let (model, preprocessing) = (measuring.model.as_deref(), &measuring.preprocessing);
    let graph = graph::open(&args.graph, model, preprocessing, config)?;
    let mut options = MinimizeOptions {
        choices: graph::cover_options(&graph, &measuring.choices, None).choices,
        ..MinimizeOptions::default()
    };
    if let Some(criteria) = &args.criteria {
        options.criteria = criteria.specs(&counting_criteria(&graph));
    }
    let suite = graph.loader(&args.data).map_err(npcov::Error::from)?;
    let count = args.limit.map_or(suite.len(), |n| n.min(suite.len()));
    let inputs = SampleRange {
        data: &suite,
        range: 0..count,
        threads: config.threads(measuring.threads),
    };
    let mut progress = ProgressBar::new(count, printer);
    let output = Some(args.output.as_path());
    let minimization = npcov::select::minimize(&graph, &inputs, &options, output, &mut progress);
    drop(progress);
    let minimization = minimization.map_err(npcov::Error::from)?;
    printer.data(&match measuring.format {
        Format::Text => npcov_report::minimization(&minimization),
        Format::Json => npcov_report::json(&minimization),
    })
}
