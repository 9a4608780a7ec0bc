//! What coverage says.

use std::path::Path;

use npcov::coverage::{ClassShares, ComparedReport};
use npcov::{Coverage, DecisionGraph, Inputs};
use npcov_html::{Material, Names};

use super::{Answer, Data, Listener, arguments, spare};
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
    let link = pages::link(&args.pages);
    Ok(Written {
        answer: Answer::new(&found, text),
        markdown: npcov_report::linked_markdown(report, difference, link.as_deref()),
        junit: npcov_report::linked_junit(report, difference, None, link.as_deref()),
    })
}

/// What pages show beside coverage.
#[derive(Clone, Default)]
pub struct PageData {
    /// The decision graph; without it there are no pictures and no paths.
    pub graph: Option<DecisionGraph>,
    /// Training data and suites; which they are, their content tells.
    pub shown: Vec<Data>,
    /// Where inputs that fill gaps are sought.
    pub pool: Option<Data>,
    /// What the features of a table are called, where `--feature-names` does not say it.
    pub features: Vec<String>,
    /// What tokens mean, where `--words` does not say it.
    pub words: Vec<String>,
}

/// Writes coverage as pages, to where `--html` and `--single-file` say.
pub fn write_pages(
    coverage: &Coverage,
    against: Option<&Coverage>,
    data: &PageData,
    options: &[String],
    listener: &mut Listener<'_>,
) -> anyhow::Result<()> {
    let args = arguments!("report", Report, ["-"], options);
    let named = &args.pages;
    let read: Vec<&Data> = data.shown.iter().chain(&data.pool).collect();
    let model = data.graph.as_ref().map(|graph| graph.model().network());
    let files = model.map_or(&[][..], |network| network.files());
    spare(named.single_file.as_deref(), files, &read)?;
    let mut coverage = coverage.clone();
    if !args.suite.is_empty() {
        let chosen = coverage.with_suites(&args.suite);
        coverage = chosen.map_err(npcov::Error::from)?;
    }
    let config = Config::default();
    let graph = match (&data.graph, named.threads) {
        (Some(graph), Some(_)) => Some(graph.clone().with_threads(config.threads(named.threads))),
        (graph, _) => graph.clone(),
    };
    let mut loaders = Vec::new();
    if let Some(graph) = &graph {
        for shown in &data.shown {
            loaders.push(graph.loader(shown.samples.clone())?);
        }
        let nowhere = Path::new("");
        loaders.extend(pages::find_data(named, &config, nowhere, &coverage, graph)?);
    }
    let or = |given: Vec<String>, other: &[String]| match given.is_empty() {
        true => other.to_vec(),
        false => given,
    };
    let material = Material {
        earlier: against,
        gate: Some(&config.rules(against.is_some())),
        graph: graph.as_ref(),
        data: loaders,
        pool: (data.pool.as_ref()).map(|pool| Inputs::new(pool.samples.clone())),
        names: Names {
            features: or(
                pages::names(named.feature_names.as_deref())?,
                &data.features,
            ),
            words: or(pages::names(named.words.as_deref())?, &data.words),
        },
        ..Material::new(&coverage)
    };
    let notes = pages::publish(material, named, listener.progress)?;
    listener.warn(notes);
    Ok(())
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
