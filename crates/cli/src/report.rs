//! `npcov report`.

use std::path::Path;

use npcov::coverage::{ComparedReport, Coverage};

use crate::args::{ReportArgs, ReportFormat};
use crate::printer::Printer;

/// Prints what a state says, and what changed since an earlier one.
pub(crate) fn run(args: &ReportArgs, printer: &Printer) -> anyhow::Result<()> {
    let found = read(&args.state, args.against.as_deref(), &args.suite)?;
    let ComparedReport { report, difference } = &found;
    let difference = difference.as_ref();
    printer.data(&match args.format {
        ReportFormat::Text => npcov_report::report(report, difference),
        ReportFormat::Json => npcov_report::json(&found),
        ReportFormat::Markdown => npcov_report::markdown(report, difference),
        ReportFormat::Junit => npcov_report::junit(report, difference, None),
    })
}

/// What a state says of some suites, or of all where none is named, and what changed in them since
/// an earlier state.
pub(crate) fn read(
    path: &Path,
    against: Option<&Path>,
    suites: &[String],
) -> anyhow::Result<ComparedReport> {
    let coverage = Coverage::open(path).map_err(npcov::Error::from)?;
    let earlier = against.map(Coverage::open).transpose();
    let earlier = earlier.map_err(npcov::Error::from)?;
    let compared = coverage.compared(earlier.as_ref(), suites);
    Ok(compared.map_err(npcov::Error::from)?)
}
