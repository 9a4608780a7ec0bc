//! `npcov build`.

use std::path::Path;
use std::sync::Arc;

use npcov::coverage::GraphInspection;
use npcov::data::{Loader, open};
use npcov::run::{ModelOptions, SampleRange};

use crate::args::{BuildArgs, Format};
use crate::config::Config;
use crate::output::refuse_overwriting;
use crate::printer::Printer;
use crate::progress::ProgressBar;

/// Learns a decision graph, writes it, and prints what is in it.
pub(crate) fn run(args: &BuildArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let model = config.model(&args.model)?;
    let data = config.data(&args.data)?;
    refuse_overwriting("--output", &args.output, &[&model, Path::new(&data)])?;
    let network_options = ModelOptions {
        batch_norm: config.batch_norm(&args.method),
        ..config.network(&args.model)
    };
    let mut options = config.paths.build(args)?;
    options.method = config.method(&args.method)?;
    let network = Arc::new(npcov::open_network(&model, &network_options)?);
    let preprocessing = config.preprocessing(&args.data.preprocessing);
    let dataset = data::open(&data).map_err(npcov::Error::from)?;
    let loader =
        Loader::new(dataset, network.sample_shape(), &preprocessing).map_err(npcov::Error::from)?;
    for warning in loader.warnings() {
        printer.warning(warning);
    }
    let count = args.limit.map_or(loader.len(), |n| n.min(loader.len()));
    let inputs = SampleRange {
        data: &loader,
        range: 0..count,
        threads: config.threads(args.threads),
    };
    let mut progress = ProgressBar::new(count, printer);
    let output = Some(args.output.as_path());
    let graph = npcov::coverage::build(&network, &inputs, &options, output, &mut progress);
    drop(progress);
    let inspection = GraphInspection::of(graph.map_err(npcov::Error::from)?.file());
    for warning in &inspection.warnings {
        printer.warning(warning);
    }
    printer.data(&match args.format {
        Format::Text => npcov_report::decision_graph(&inspection),
        Format::Json => npcov_report::json(&inspection),
    })
}
