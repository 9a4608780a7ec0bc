//! What coverage says.

use npcov::coverage::{ClassShares, ComparedReport};
use npcov::{Coverage, DecisionGraph, Inputs};
use npcov_html::{Material, Names};

use super::{Answer, Data, Listener, arguments};
use crate::args::ReportArgs;
use crate::config::Config;
use crate::pages;

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

/// What pages of a report (`--html`, `--single-file`) show beside the coverage.
#[derive(Clone, Default)]
pub struct Shown {
    /// The decision graph. Without it there are no pictures and no paths.
    pub graph: Option<DecisionGraph>,
    /// Training data and suites; which they are, their content tells.
    pub data: Vec<Data>,
    /// Inputs that gaps may be filled from.
    pub pool: Option<Data>,
}

/// What suites cover, and what changed since an earlier coverage.
pub fn report(
    coverage: Coverage,
    against: Option<&Coverage>,
    shown: &Shown,
    options: &[String],
    listener: &mut Listener<'_>,
) -> anyhow::Result<Written> {
    let args = arguments!("report", Report, ["-"], options);
    let link = write_pages(&args, &coverage, against, shown, listener)?;
    let link = link.as_deref();
    let found = coverage.compared(against, &args.suite);
    let found = found.map_err(npcov::Error::from)?;
    let ComparedReport { report, difference } = &found;
    let difference = difference.as_ref();
    listener.warn(report.warnings.iter().cloned());
    let text = npcov_report::report(report, difference, args.detail.all);
    Ok(Written {
        answer: Answer::new(&found, text),
        markdown: npcov_report::linked_markdown(report, difference, link),
        junit: npcov_report::linked_junit(report, difference, None, link),
    })
}

/// Writes the pages that were asked for, and gives their address.
fn write_pages(
    args: &ReportArgs,
    coverage: &Coverage,
    earlier: Option<&Coverage>,
    shown: &Shown,
    listener: &mut Listener<'_>,
) -> anyhow::Result<Option<String>> {
    let asked = &args.pages;
    if asked.html.is_none() && asked.single_file.is_none() {
        return Ok(None);
    }
    let config = Config::default();
    let mut outputs = pages::outputs(asked, &config)?;
    for spec in shown.data.iter().chain(&shown.pool).filter_map(Data::spec) {
        outputs.spare_data(spec)?;
    }
    let coverage = pages::some_suites(coverage, &args.suite)?;
    let threads = config.threads(asked.threads);
    let graph = shown.graph.clone().map(|graph| graph.with_threads(threads));
    let (mut data, mut pool) = (Vec::new(), None);
    if let Some(graph) = &graph {
        outputs.spare_graph(graph)?;
        for suite in &shown.data {
            data.push(graph.loader(suite.for_model(graph.model())?)?);
        }
        if let Some(inputs) = &shown.pool {
            pool = Some(Inputs::new(inputs.for_model(graph.model())?));
        }
    }
    let material = Material {
        earlier,
        gate: Some(&config.rules(earlier.is_some())),
        graph: graph.as_ref(),
        data,
        pool,
        names: Names {
            features: pages::names(asked.feature_names.as_deref())?,
            words: pages::names(asked.words.as_deref())?,
        },
        ..Material::new(&coverage)
    };
    let written = pages::draw(asked, material, listener.progress)?;
    listener.warn(written.notes);
    Ok(Some(written.link))
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
    if let Some(difference) = difference {
        listener.warn(crate::check::notes(difference));
    }
    let written = Written {
        answer: Answer::new(&check, npcov_report::check(&check)),
        markdown: npcov_report::markdown(report, difference),
        junit: npcov_report::linked_junit(report, difference, Some(&check), args.link.as_deref()),
    };
    Ok((check.passed, written))
}
