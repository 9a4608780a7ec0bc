//! `npcov report`.

use std::path::Path;

use npcov::{ComparedReport, CoverageState};

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
    let mut state = CoverageState::read(path)?;
    let mut difference = match against {
        Some(against) => Some(state.difference(&CoverageState::read(against)?)?),
        None => None,
    };
    if !suites.is_empty() {
        state = state.with_suites(suites)?;
        if let Some(difference) = &mut difference {
            difference.retain(suites);
        }
    }
    Ok(ComparedReport {
        report: state.report()?,
        difference,
    })
}
