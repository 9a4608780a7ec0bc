//! `npcov minimize`.

use npcov::select::counting_criteria;
use npcov::{Coverage, MinimizeOptions};

use crate::args::{Format, MinimizeArgs};
use crate::config::Config;
use crate::output::Outputs;
use crate::printer::Printer;
use crate::progress::ProgressBar;
use crate::{graph, samples};

/// Makes a suite smaller, writes it, and prints what is left.
pub(crate) fn run(args: &MinimizeArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let mut outputs = Outputs::new(config, [("--output", Some(&*args.output))])?;
    outputs.spare(&args.graph)?;
    outputs.spare_data(&args.data)?;
    outputs.spare_all(&args.given)?;
    outputs.spare_all(config.class_names_file(&args.measuring.classes))?;
    let given = match &args.given {
        Some(state) => Some(Coverage::open(state).map_err(npcov::Error::from)?),
        None => None,
    };
    let graph = graph::open_measuring(&args.graph, &args.measuring, config)?;
    outputs.spare_graph(&graph)?;
    let mut options = MinimizeOptions {
        choices: graph::cover_options(&graph, &args.measuring.choices, None).choices,
        given,
        ..MinimizeOptions::default()
    };
    if let Some(criteria) = &args.criteria {
        options.criteria = criteria.specs(&counting_criteria(graph.learnt()));
    }
    let suite = samples::first(&graph.open_data(&args.data)?, args.limit);
    samples::warn(&graph.warnings(suite.clone())?, printer);
    let mut progress = ProgressBar::new(suite.len(), printer).keeping(&args.output);
    let minimization = graph.minimize_file(suite, &options, &args.output, &mut progress);
    drop(progress);
    let minimization = minimization?;
    printer.data(&match args.measuring.run.print.format {
        Format::Text => npcov_report::minimization(&minimization),
        Format::Json => npcov_report::json(&minimization),
    })
}
