//! `npcov merge`.

use std::path::Path;

use npcov::coverage::Coverage;

use crate::args::MergeArgs;
use crate::output::refuse_overwriting;
use crate::printer::Printer;

/// Unites coverage states, writes the result, and prints what it covers.
pub(crate) fn run(args: &MergeArgs, printer: &Printer) -> anyhow::Result<()> {
    let read: Vec<&Path> = args.states.iter().map(AsRef::as_ref).collect();
    refuse_overwriting("--output", &args.output, &read)?;
    let merged = Coverage::merge_files(&args.states, args.name.as_deref());
    let coverage = merged.map_err(npcov::Error::from)?;
    coverage.save(&args.output).map_err(npcov::Error::from)?;
    crate::cover::print(&coverage, args.format, false, printer)
}
