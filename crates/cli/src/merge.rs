//! `npcov merge`.

use anyhow::bail;
use npcov::coverage::Coverage;
use npcov::mutate::MutationState;

use crate::args::{Format, MergeArgs};
use crate::config::Config;
use crate::output::Outputs;
use crate::printer::Printer;

/// Unites coverage states, or what suites have killed of mutants, writes the result, and prints what it is worth.
pub(crate) fn run(args: &MergeArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let mut outputs = Outputs::new(config, [("--output", Some(&*args.output))])?;
    outputs.spare_all(&args.states)?;
    if args.states.iter().any(MutationState::is_file) {
        return killed(args, printer);
    }
    let merged = Coverage::merge_files(&args.states, args.name.as_deref());
    let coverage = merged.map_err(npcov::Error::from)?;
    coverage.save(&args.output).map_err(npcov::Error::from)?;
    crate::cover::print(&coverage, args.print.format, false, printer)
}

fn killed(args: &MergeArgs, printer: &Printer) -> anyhow::Result<()> {
    if args.name.is_some() {
        bail!("`--name` is for coverage states");
    }
    let read = |path| MutationState::read(path).map_err(npcov::Error::from);
    let mut states = args.states.iter().map(read);
    let Some(first) = states.next() else {
        bail!("there is nothing to merge");
    };
    let mut all = first?;
    for state in states {
        all.merge(&state?).map_err(npcov::Error::from)?;
    }
    all.save(&args.output).map_err(npcov::Error::from)?;
    let report = all.report();
    printer.data(&match args.print.format {
        Format::Text => npcov_report::mutation(&report),
        Format::Json => npcov_report::json(&report),
    })
}
