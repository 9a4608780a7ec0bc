//! `npcov cover`.

use std::path::Path;

use anyhow::bail;
use npcov::coverage::{CoverTarget, Coverage, SuiteSource};
use npcov::data::Loader;

use crate::args::{CoverArgs, Format};
use crate::config::Config;
use crate::graph;
use crate::output::refuse_overwriting;
use crate::printer::Printer;
use crate::progress::ProgressBar;

/// Measures suites, writes the state, and prints what they cover.
pub(crate) fn run(args: &CoverArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let mut read = vec![args.graph.as_path()];
    read.extend(args.data.iter().map(Path::new));
    refuse_overwriting("--output", &args.output, &read)?;
    if args.name.len() > args.data.len() {
        bail!("{} names for {} suites", args.name.len(), args.data.len());
    }
    let measuring = &args.measuring;
    let (model, preprocessing) = (measuring.model.as_deref(), &measuring.preprocessing);
    let graph = graph::open(&args.graph, model, preprocessing, config)?;
    let options = graph::cover_options(&graph, &measuring.choices, args.criteria.as_ref());
    let measurement = graph.measurement(&options).map_err(npcov::Error::from)?;

    let mut loaders: Vec<Loader> = Vec::new();
    for data in &args.data {
        loaders.push(graph.loader(data).map_err(npcov::Error::from)?);
    }
    let suite = |(i, data): (usize, &'_ Loader)| -> (String, _) {
        let name = args.name.get(i).cloned();
        let name = name.unwrap_or_else(|| suite_name(&args.data[i]));
        (name, args.range(data.len()))
    };
    let suites: Vec<SuiteSource<'_>> = loaders
        .iter()
        .enumerate()
        .map(|(i, data)| {
            let (name, range) = suite((i, data));
            SuiteSource { name, data, range }
        })
        .collect();
    let earlier = match args.append && args.output.exists() {
        true => Some(Coverage::open(&args.output).map_err(npcov::Error::from)?),
        false => None,
    };
    let target = CoverTarget {
        output: Some(&args.output),
        earlier,
        threads: config.threads(measuring.threads),
    };
    let inputs = suites.iter().map(|suite| suite.range.len()).sum();
    let mut progress = ProgressBar::new(inputs, printer);
    let coverage = npcov::coverage::cover(&measurement, &suites, target, &mut progress);
    drop(progress);
    let coverage = coverage.map_err(npcov::Error::from)?;
    if let Some(path) = &args.inputs {
        coverage.write_inputs(path).map_err(npcov::Error::from)?;
    }
    print(&coverage, measuring.format, printer)
}

/// Prints what suites cover.
pub(crate) fn print(coverage: &Coverage, format: Format, printer: &Printer) -> anyhow::Result<()> {
    let report = coverage.report().map_err(npcov::Error::from)?;
    for warning in &report.warnings {
        printer.warning(warning);
    }
    printer.data(&match format {
        Format::Text => npcov_report::coverage(&report),
        Format::Json => npcov_report::json(&report),
    })
}

/// A suite's name: its file's.
fn suite_name(data: &str) -> String {
    let path = Path::new(data.trim_end_matches('/'));
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| data.to_owned())
}
