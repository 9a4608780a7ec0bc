//! `npcov predict`.

use npcov::{Model, TraceFile};

use crate::args::{Format, PredictArgs};
use crate::config::Config;
use crate::output::Outputs;
use crate::printer::Printer;
use crate::progress::ProgressBar;
use crate::samples;

/// Classifies a dataset, prints how that went and writes logits and activations where wanted.
pub(crate) fn run(args: &PredictArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let model = config.model(&args.model)?;
    let data = config.data(&args.data)?;
    let mut outputs = Outputs::new(config, [("--output", args.output.as_deref())])?;
    outputs.spare(&model)?;
    outputs.spare_data(&data)?;
    outputs.spare_all(config.class_names_file(&args.data.classes))?;
    let model = Model::open_with(model, &config.network(&args.model))?;
    outputs.spare_all(model.network().files())?;
    let model = config.prepare(model, &args.data)?;
    let samples = model.open_data(&data)?;
    let inputs = samples::first(&samples, args.limit);
    let model = samples::resolve(model, inputs.clone(), printer)?;
    samples::warn(&model.warnings(inputs.clone())?, printer);
    let loader = model.loader(samples)?;
    let network = model.network();
    // Activations that nobody sees are not computed.
    let (tracer, mut file) = match &args.output {
        None => (network.logits_tracer().map_err(npcov::Error::from)?, None),
        Some(path) => {
            let tracer = network.tracer(&[]).map_err(npcov::Error::from)?;
            let file = TraceFile::create(path, &tracer, &loader)?;
            (tracer, Some(file))
        }
    };
    // The program has what it needs of the weights.
    drop(model);
    let threads = config.threads(args.run.threads);
    let mut progress = ProgressBar::new(inputs.len(), printer);
    let predictions = npcov::run::predict::<npcov::Error>(
        &tracer,
        &loader,
        inputs.range(),
        threads,
        |batch, classes| {
            progress.finished(classes.len())?;
            file.as_mut()
                .map_or(Ok(()), |file| file.append(batch, classes))
        },
    )?;
    drop(progress);
    if let Some(file) = file {
        file.finish()?;
    }
    samples::warn(&predictions.warnings(), printer);
    printer.data(&match args.run.print.format {
        Format::Text => npcov_report::predictions(&predictions),
        Format::Json => npcov_report::json(&predictions),
    })
}
