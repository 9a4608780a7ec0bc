//! `npcov inspect`.

use crate::args::{Format, InspectArgs};
use crate::config::Config;
use crate::printer::Printer;

/// Prints what is in a model. One that cannot be run is an error, after everything that its file
/// says.
pub(crate) fn run(args: &InspectArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let path = config.model(&args.model)?;
    let (inspection, problem) = npcov::inspect(path, &config.network(&args.model))?;
    printer.data(&match args.format {
        Format::Text => npcov_report::inspection(&inspection),
        Format::Json => npcov_report::json(&inspection),
    })?;
    problem.map_or(Ok(()), |problem| Err(problem.into()))
}
