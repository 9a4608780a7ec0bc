//! `npcov merge`.

use std::path::Path;

use crate::args::MergeArgs;
use crate::output::refuse_overwriting;
use crate::printer::Printer;

/// Unites coverage states, writes the result, and prints what it covers.
pub(crate) fn run(args: &MergeArgs, printer: &Printer) -> anyhow::Result<()> {
    let read: Vec<&Path> = args.states.iter().map(AsRef::as_ref).collect();
    refuse_overwriting("--output", &args.output, &read)?;
    let state = npcov::merge(&args.states, args.name.as_deref())?;
    state.write(&args.output)?;
    crate::cover::print(&state, args.format, printer)
}
