//! `npcov build`.

use std::path::Path;

use npcov::data::{Dataset, Loader};
use npcov::{Network, NetworkOptions, Source, read_model};

use crate::args::{BuildArgs, Format};
use crate::config::Config;
use crate::output::refuse_overwriting;
use crate::printer::Printer;
use crate::progress::Progress;

/// Learns a decision graph, writes it, and prints what is in it.
pub(crate) fn run(args: &BuildArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let model = config.model(&args.model)?;
    let data = config.data(&args.data)?;
    refuse_overwriting("--output", &args.output, &[&model, Path::new(&data)])?;
    let options = NetworkOptions {
        batch_norm: config.batch_norm(&args.method),
        ..config.network(&args.model)
    };
    let settings = config.paths.build(args)?;
    let network = Network::with_digest(read_model(&model)?, &options)?;
    let preprocessing = config.preprocessing(&args.data.preprocessing);
    let dataset = Dataset::open(&data).map_err(npcov::Error::from)?;
    let loader =
        Loader::new(dataset, network.sample_shape(), &preprocessing).map_err(npcov::Error::from)?;
    for warning in loader.warnings() {
        printer.warning(warning);
    }
    let source = Source {
        file: &model,
        options: &options,
        network: &network,
        preprocessing: &preprocessing,
        method: &config.method(&args.method)?,
    };
    let inputs = args.limit.map_or(loader.len(), |n| n.min(loader.len()));
    let mut progress = Progress::new(inputs);
    let graph = npcov::build(
        &source,
        &loader,
        0..inputs,
        &settings,
        &args.output,
        config.threads(args.threads),
        &mut |event| progress.on(event, printer),
    )?;
    drop(progress);
    let inspection = npcov::GraphInspection::of(&graph);
    for warning in &inspection.warnings {
        printer.warning(warning);
    }
    printer.data(&match args.format {
        Format::Text => npcov_report::decision_graph(&inspection),
        Format::Json => npcov_report::json(&inspection),
    })
}
