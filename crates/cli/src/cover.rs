//! `npcov cover`.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::bail;
use npcov::data::require_place;
use npcov::{Coverage, Inputs, Suite};

use crate::args::{CoverArgs, Format};
use crate::config::Config;
use crate::output::Outputs;
use crate::printer::Printer;
use crate::progress::ProgressBar;
use crate::{graph, samples};

/// Measures suites, writes the state, and prints what they cover.
pub(crate) fn run(args: &CoverArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let written = [
        ("--output", args.output.as_deref()),
        ("--inputs", args.inputs.as_deref()),
    ];
    let mut outputs = Outputs::new(config, written)?;
    outputs.spare(&args.graph)?;
    outputs.spare_all(config.class_names_file(&args.measuring.classes))?;
    outputs.spare_all(config.class_shares_file(&args.detail.class_shares))?;
    (args.data.iter()).try_for_each(|data| outputs.spare_data(data))?;
    if let Some(inputs) = &args.inputs {
        require_place(inputs).map_err(npcov::Error::from)?;
    }
    if args.name.len() > args.data.len() {
        bail!("{} names for {} suites", args.name.len(), args.data.len());
    }
    let shares = config.class_shares(&args.detail.class_shares)?;
    let graph = graph::open_measuring(&args.graph, &args.measuring, config)?;
    outputs.spare_graph(&graph)?;
    let choices = &args.measuring.choices;
    let options = graph::cover_options(&graph, choices, args.criteria.criteria.as_ref());
    let mut suites = Vec::new();
    for (i, data) in args.data.iter().enumerate() {
        let name = args.name.get(i).cloned();
        let samples = graph.open_data(data)?;
        let range = args.range.range(samples.len());
        let inputs = Inputs::new(samples).rows(range);
        graph.require_labels(inputs.clone())?;
        samples::warn(&graph.warnings(inputs.clone())?, printer);
        suites.push(Suite {
            name: name.unwrap_or_else(|| suite_name(data)),
            inputs,
        });
    }
    let earlier = match &args.output {
        Some(output) if args.append && output.exists() => {
            Some(Coverage::open(output).map_err(npcov::Error::from)?)
        }
        _ => None,
    };
    let inputs = suites.iter().map(|suite| suite.inputs.len()).sum();
    let mut progress = ProgressBar::new(inputs, printer);
    let coverage = match &args.output {
        Some(output) => {
            progress = progress.keeping(output);
            graph.cover_file(&suites, &options, earlier, output, &mut progress)
        }
        None => graph.cover_suites(&suites, &options, &mut progress),
    };
    drop(progress);
    let coverage = coverage?;
    if let Some(path) = &args.inputs {
        coverage.write_inputs(path).map_err(npcov::Error::from)?;
    }
    let coverage = coverage.with_class_shares(shares);
    let coverage = coverage.map_err(npcov::Error::from)?;
    print(
        &coverage,
        args.measuring.run.print.format,
        args.detail.all,
        printer,
    )
}

/// Prints what suites cover, `all` of it or what matters most.
pub(crate) fn print(
    coverage: &Coverage,
    format: Format,
    all: bool,
    printer: &Printer,
) -> anyhow::Result<()> {
    let report = coverage.report().map_err(npcov::Error::from)?;
    for warning in &report.warnings {
        printer.warning(warning);
    }
    printer.data(&match format {
        Format::Text => npcov_report::coverage(&report, all),
        Format::Json => npcov_report::json(&report),
    })
}

/// A suite's name: its file's.
fn suite_name(data: &OsStr) -> String {
    let name = Path::new(data).file_name().unwrap_or(data);
    name.to_string_lossy().into_owned()
}
