//! What coverage says.

use npcov::Coverage;
use npcov::coverage::{ClassShares, ComparedReport};

use super::{Answer, Listener, arguments};
use crate::config::Config;

/// Coverage where suites should have inputs of classes by some shares: `training`, `balanced`, or numbers
/// with commas between them.
pub fn with_class_shares(coverage: Coverage, shares: &str) -> anyhow::Result<Coverage> {
    let shares = match shares {
        "training" => ClassShares::Training,
        "balanced" => ClassShares::Balanced,
        numbers => numbers.parse().map_err(npcov::Error::from)?,
    };
    Ok(coverage
        .with_class_shares(shares)
        .map_err(npcov::Error::from)?)
}

/// How a report is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// As JSON and text.
    pub answer: Answer,
    /// For pull requests.
    pub markdown: String,
    /// For programs that collect test results.
    pub junit: String,
}

/// What suites cover, and what changed since an earlier coverage.
pub fn report(
    coverage: Coverage,
    against: Option<&Coverage>,
    options: &[String],
    listener: &mut Listener<'_>,
) -> anyhow::Result<Written> {
    let args = arguments!("report", Report, ["-"], options);
    let found = coverage.compared(against, &args.suite);
    let found = found.map_err(npcov::Error::from)?;
    let ComparedReport { report, difference } = &found;
    let difference = difference.as_ref();
    listener.warn(report.warnings.iter().cloned());
    let text = npcov_report::report(report, difference, args.detail.all);
    Ok(Written {
        answer: Answer::new(&found, text),
        markdown: npcov_report::markdown(report, difference),
        junit: npcov_report::junit(report, difference, None),
    })
}

/// Whether suites are what they must be.
pub fn check(
    coverage: Coverage,
    against: Option<&Coverage>,
    options: &[String],
    listener: &mut Listener<'_>,
) -> anyhow::Result<(bool, Written)> {
    let known: &[&str] = match against {
        Some(_) => &["-", "--against=-"],
        None => &["-"],
    };
    let args = arguments!("check", Check, *known, options);
    let (rules, _) = Config::default().check(&args)?;
    let found = coverage.compared(against, &args.suite);
    let found = found.map_err(npcov::Error::from)?;
    let ComparedReport { report, difference } = &found;
    let difference = difference.as_ref();
    let check = rules.check(report, difference)?;
    listener.warn(report.warnings.iter().cloned());
    let written = Written {
        answer: Answer::new(&check, npcov_report::check(&check)),
        markdown: npcov_report::markdown(report, difference),
        junit: npcov_report::junit(report, difference, Some(&check)),
    };
    Ok((check.passed, written))
}
