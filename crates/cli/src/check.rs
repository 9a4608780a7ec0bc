//! `npcov check`.

use npcov::coverage::{ComparedReport, Difference};

use crate::args::{CheckArgs, CheckFormat};
use crate::config::Config;
use crate::printer::Printer;

/// Holds a state against rules and prints what they found. A rule that does not hold is a result,
/// not an error.
pub(crate) fn run(args: &CheckArgs, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    let (rules, against) = config.check(args)?;
    let shares = config.class_shares(&args.class_shares)?;
    let found = crate::report::read(&args.state, against.as_deref(), &args.suite, &shares)?;
    let ComparedReport { report, difference } = &found;
    let check = rules.check(report, difference.as_ref())?;
    if let Some(difference) = difference {
        for note in notes(difference) {
            printer.note(&note);
        }
    }
    printer.data(&match args.format {
        CheckFormat::Text => npcov_report::check(&check),
        CheckFormat::Json => npcov_report::json(&check),
        CheckFormat::Junit => npcov_report::linked_junit(
            report,
            difference.as_ref(),
            Some(&check),
            args.link.as_deref(),
        ),
    })?;
    Ok(u8::from(!check.passed))
}

/// What is to be said of a difference, but for suites that are missing: these are among what rules find.
pub(crate) fn notes(difference: &Difference) -> Vec<String> {
    let mut difference = difference.clone();
    difference.missing.clear();
    npcov_report::notes(&difference)
}
