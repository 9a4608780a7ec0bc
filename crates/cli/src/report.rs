//! `npcov report`.

use std::path::Path;

use npcov::coverage::{ClassShares, ComparedReport, Coverage};

use crate::args::{ReportArgs, ReportFormat};
use crate::config::Config;
use crate::pages;
use crate::printer::Printer;

/// Prints what a state says, and what changed since an earlier one; writes its pages where they are asked for.
pub(crate) fn run(args: &ReportArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let shares = config.class_shares(&args.detail.class_shares)?;
    let (coverage, earlier) = open(&args.state, args.against.as_deref(), &shares)?;
    let link = pages::write(args, config, &coverage, earlier.as_ref(), printer)?;
    let found = coverage.compared(earlier.as_ref(), &args.suite);
    let found = found.map_err(npcov::Error::from)?;
    let ComparedReport { report, difference } = &found;
    let (difference, link) = (difference.as_ref(), link.as_deref());
    printer.data(&match args.format {
        ReportFormat::Text => npcov_report::report(report, difference, args.detail.all),
        ReportFormat::Json => npcov_report::json(&found),
        ReportFormat::Markdown => npcov_report::linked_markdown(report, difference, link),
        ReportFormat::Junit => npcov_report::linked_junit(report, difference, None, link),
    })
}

/// A state, and an earlier one. Classes of both should be as frequent as the shares say.
fn open(
    path: &Path,
    against: Option<&Path>,
    shares: &ClassShares,
) -> Result<(Coverage, Option<Coverage>), npcov::Error> {
    let open = |path: &Path| {
        let coverage = Coverage::open(path).and_then(|c| c.with_class_shares(shares.clone()));
        coverage.map_err(npcov::Error::from)
    };
    Ok((open(path)?, against.map(open).transpose()?))
}

/// What a state says of some suites, or of all where none is named, and what changed in them since
/// an earlier state. Classes of both should be as frequent as the shares say.
pub(crate) fn read(
    path: &Path,
    against: Option<&Path>,
    suites: &[String],
    shares: &ClassShares,
) -> anyhow::Result<ComparedReport> {
    let (coverage, earlier) = open(path, against, shares)?;
    let compared = coverage.compared(earlier.as_ref(), suites);
    Ok(compared.map_err(npcov::Error::from)?)
}
