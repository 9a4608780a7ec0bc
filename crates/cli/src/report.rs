//! `npcov report`.

use std::path::Path;

use npcov::coverage::{ClassShares, ComparedReport, Coverage};

use crate::args::{ReportArgs, ReportFormat};
use crate::config::Config;
use crate::printer::Printer;

/// Prints what a state says, and what changed since an earlier one.
pub(crate) fn run(args: &ReportArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let shares = config.class_shares(&args.detail.class_shares)?;
    let found = read(&args.state, args.against.as_deref(), &args.suite, &shares)?;
    let ComparedReport { report, difference } = &found;
    let difference = difference.as_ref();
    printer.data(&match args.format {
        ReportFormat::Text => npcov_report::report(report, difference, args.detail.all),
        ReportFormat::Json => npcov_report::json(&found),
        ReportFormat::Markdown => npcov_report::markdown(report, difference),
        ReportFormat::Junit => npcov_report::junit(report, difference, None),
    })
}

/// What a state says of some suites, or of all where none is named, and what changed in them since
/// an earlier state. Classes of both should be as frequent as the shares say.
pub(crate) fn read(
    path: &Path,
    against: Option<&Path>,
    suites: &[String],
    shares: &ClassShares,
) -> anyhow::Result<ComparedReport> {
    let open = |path: &Path| {
        let coverage = Coverage::open(path).and_then(|c| c.with_class_shares(shares.clone()));
        coverage.map_err(npcov::Error::from)
    };
    let coverage = open(path)?;
    let earlier = against.map(open).transpose()?;
    let compared = coverage.compared(earlier.as_ref(), suites);
    Ok(compared.map_err(npcov::Error::from)?)
}
