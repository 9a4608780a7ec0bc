//! `npcov merge`.

use npcov::coverage::Coverage;

use crate::args::MergeArgs;
use crate::config::Config;
use crate::output::Outputs;
use crate::printer::Printer;

/// Unites coverage states, writes the result, and prints what it covers.
pub(crate) fn run(args: &MergeArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let outputs = Outputs::new(config, [("--output", Some(&*args.output))])?;
    outputs.spare_all(&args.states)?;
    let merged = Coverage::merge_files(&args.states, args.name.as_deref());
    let coverage = merged.map_err(npcov::Error::from)?;
    coverage.save(&args.output).map_err(npcov::Error::from)?;
    crate::cover::print(&coverage, args.format, false, printer)
}
