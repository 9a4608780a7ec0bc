//! `npcov build`.

use std::path::Path;

use npcov::{Model, ModelOptions};

use crate::args::{BuildArgs, Format};
use crate::config::Config;
use crate::output::refuse_overwriting;
use crate::printer::Printer;
use crate::progress::ProgressBar;
use crate::samples;

/// Learns a decision graph, writes it, and prints what is in it.
pub(crate) fn run(args: &BuildArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let model = config.model(&args.model)?;
    let data = config.data(&args.data)?;
    refuse_overwriting("--output", &args.output, &[&model, Path::new(&data)])?;
    let model_options = ModelOptions {
        batch_norm: config.batch_norm(&args.method),
        ..config.network(&args.model)
    };
    let mut options = config.paths.build(args)?;
    options.method = config.method(&args.method)?;
    let model = Model::open_with(&model, &model_options)?
        .with_preprocessing(config.preprocessing(&args.data.preprocessing))
        .with_threads(config.threads(args.run.threads));
    let data = samples::open(&data)?;
    samples::warn(&model, &data, printer)?;
    let inputs = samples::first(&data, args.limit);
    let mut progress = ProgressBar::new(inputs.len(), printer);
    let graph = model.build_file(inputs, &options, &args.output, &mut progress);
    drop(progress);
    let inspection = graph?.inspect();
    for warning in &inspection.warnings {
        printer.warning(warning);
    }
    printer.data(&match args.run.format {
        Format::Text => npcov_report::decision_graph(&inspection),
        Format::Json => npcov_report::json(&inspection),
    })
}
