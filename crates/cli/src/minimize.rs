//! `npcov minimize`.

use std::path::Path;

use npcov::criteria::Spec;

use crate::args::{Format, MinimizeArgs};
use crate::config::Config;
use crate::output::refuse_overwriting;
use crate::printer::Printer;
use crate::progress::Progress;
use crate::select;

/// Makes a suite smaller, writes it, and prints what is left.
pub(crate) fn run(args: &MinimizeArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    refuse_overwriting(
        "--output",
        &args.output,
        &[&args.graph, Path::new(&args.data)],
    )?;
    let mut ruler = select::ruler(&args.graph, &args.measuring, config)?;
    let criteria = match &args.criteria {
        Some(criteria) => criteria.specs(&ruler.counting_criteria()),
        None => ["snpc", "anpc"].map(named).into(),
    };
    let suite = ruler.loader(&args.data)?;
    let inputs = args.limit.map_or(suite.len(), |n| n.min(suite.len()));
    let mut progress = Progress::new(inputs);
    let minimization = npcov::minimize(
        &mut ruler,
        &suite,
        0..inputs,
        &criteria,
        &args.output,
        config.threads(args.measuring.threads),
        &mut |event| progress.on(event, printer),
    )?;
    drop(progress);
    printer.data(&match args.measuring.format {
        Format::Text => npcov_report::minimization(&minimization),
        Format::Json => npcov_report::json(&minimization),
    })
}

fn named(name: &str) -> Spec {
    Spec {
        name: name.to_owned(),
        options: Default::default(),
    }
}
