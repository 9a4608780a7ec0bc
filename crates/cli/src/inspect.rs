//! `npcov inspect`.

use npcov::artefact::{GraphFile, Kind};
use npcov::coverage::{Coverage, GraphInspection};

use crate::args::{Format, InspectArgs};
use crate::config::Config;
use crate::printer::Printer;

/// Prints what is in a model, a decision graph or a coverage state. A model that cannot be run is an error, after everything that its file
/// says.
pub(crate) fn run(args: &InspectArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let path = config.model(&args.model)?;
    match Kind::of(&path) {
        Some(Kind::DecisionGraph) => {
            let file = GraphFile::open(&path).map_err(npcov::Error::from)?;
            let found = GraphInspection::of(&file).map_err(npcov::Error::from)?;
            for warning in &found.warnings {
                printer.warning(warning);
            }
            return printer.data(&match args.print.format {
                Format::Text => npcov_report::decision_graph(&found),
                Format::Json => npcov_report::json(&found),
            });
        }
        Some(Kind::CoverageState) => {
            return crate::cover::print(
                &Coverage::open(&path).map_err(npcov::Error::from)?,
                args.print.format,
                false,
                printer,
            );
        }
        _ => {}
    }
    let (inspection, problem) = npcov::inspect(path, &config.network(&args.model))?;
    printer.data(&match args.print.format {
        Format::Text => npcov_report::inspection(&inspection),
        Format::Json => npcov_report::json(&inspection),
    })?;
    problem.map_or(Ok(()), |problem| Err(npcov::Error::from(problem).into()))
}
