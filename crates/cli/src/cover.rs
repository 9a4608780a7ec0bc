//! `npcov cover`.

use std::path::Path;

use anyhow::bail;
use npcov::data::{Loader, Preprocessing};
use npcov::{CoverageState, Ruler, SuiteSource};

use crate::args::{CoverArgs, Format};
use crate::config::Config;
use crate::output::refuse_overwriting;
use crate::printer::Printer;
use crate::progress::Progress;

/// Measures suites, writes the state, and prints what they cover.
pub(crate) fn run(args: &CoverArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let mut read = vec![args.graph.as_path()];
    read.extend(args.data.iter().map(Path::new));
    refuse_overwriting("--output", &args.output, &read)?;
    if args.name.len() > args.data.len() {
        bail!("{} names for {} suites", args.name.len(), args.data.len());
    }
    let mut ruler = Ruler::open(&args.graph, args.model.as_deref())?;
    // What is said here must be what the graph was learnt with.
    let given = config.preprocessing(&args.preprocessing);
    if given != Preprocessing::default() {
        ruler.require_preprocessing(&given)?;
    }
    let mut choices = ruler.choices().clone();
    args.choices.apply(&mut choices);
    ruler.measure_with(choices)?;
    if let Some(criteria) = &args.criteria {
        let usual = ruler.graph().record().specs();
        ruler.measure(&criteria.specs(&usual))?;
    }

    let mut loaders: Vec<Loader> = Vec::new();
    for data in &args.data {
        loaders.push(ruler.loader(data)?);
    }
    let suite = |(i, data): (usize, &'_ Loader)| -> (String, std::ops::Range<usize>) {
        let name = args.name.get(i).cloned();
        let range = match (args.shard, args.limit) {
            (Some(part), _) => part.of(data.len()),
            (None, limit) => 0..limit.map_or(data.len(), |n| n.min(data.len())),
        };
        (name.unwrap_or_else(|| suite_name(&args.data[i])), range)
    };
    let suites: Vec<SuiteSource<'_>> = loaders
        .iter()
        .enumerate()
        .map(|(i, data)| {
            let (name, range) = suite((i, data));
            SuiteSource { name, data, range }
        })
        .collect();
    let state = match args.append && args.output.exists() {
        true => CoverageState::read(&args.output)?,
        false => ruler.state(),
    };
    let inputs = suites.iter().map(|suite| suite.range.len()).sum();
    let threads = config.threads(args.threads);
    let mut progress = Progress::new(inputs);
    let state = npcov::cover(
        &ruler,
        &suites,
        state,
        &args.output,
        threads,
        &mut |event| {
            progress.on(event, printer);
        },
    )?;
    drop(progress);
    if let Some(path) = &args.inputs {
        state.write_inputs(path)?;
    }
    print(&state, args.format, printer)
}

/// Prints what the suites of a state cover.
pub(crate) fn print(
    state: &CoverageState,
    format: Format,
    printer: &Printer,
) -> anyhow::Result<()> {
    let report = state.report()?;
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
