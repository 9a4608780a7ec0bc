//! `npcov select`.

use npcov::{Coverage, SelectOptions};

use crate::args::{Format, SelectArgs};
use crate::config::Config;
use crate::output::Outputs;
use crate::printer::Printer;
use crate::progress::ProgressBar;
use crate::{graph, samples};

/// Selects inputs of a pool, writes them, and prints which they are.
pub(crate) fn run(args: &SelectArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
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
    let options = SelectOptions {
        strategy: args.by.clone(),
        count: args.count,
        seed: args.seed,
        choices: graph::cover_options(&graph, &args.measuring.choices, None).choices,
        given,
    };
    let pool = samples::first(&graph.open_data(&args.data)?, args.limit);
    samples::warn(&graph.warnings(pool.clone())?, printer);
    let (output, format) = (&args.output, args.measuring.run.print.format);
    if let Some(part) = args.parts.shard {
        let work = part.rows(pool.range()).len();
        let mut progress = ProgressBar::new(work, printer).keeping(output);
        let done = graph.select_part(pool, &options, part, output, &mut progress);
        drop(progress);
        return printer.data(&match (done?, format) {
            (done, Format::Text) => npcov_report::finished_part(&done),
            (done, Format::Json) => npcov_report::json(&done),
        });
    }
    let mut progress = ProgressBar::new(pool.len(), printer).keeping(output);
    let selection = match args.parts.join {
        true => graph.join_selection(pool, &options, output),
        false => graph.select_file(pool, &options, output, &mut progress),
    };
    drop(progress);
    let selection = selection?;
    printer.data(&match format {
        Format::Text => npcov_report::selection(&selection),
        Format::Json => npcov_report::json(&selection),
    })
}
