//! `npcov build`.

use npcov::{Inputs, Model, ModelOptions, TrainingInputs};

use crate::args::{BuildArgs, Format};
use crate::config::Config;
use crate::output::Outputs;
use crate::printer::Printer;
use crate::progress::ProgressBar;
use crate::samples;

/// Learns a decision graph, writes it, and prints what is in it.
pub(crate) fn run(args: &BuildArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let model = config.model(&args.model)?;
    let data = config.data(&args.data)?;
    let mut outputs = Outputs::new(config, [("--output", Some(&*args.output))])?;
    outputs.spare(&model)?;
    outputs.spare_data(&data)?;
    if let Some(calibration) = &args.calibration {
        outputs.spare_data(calibration)?;
    }
    outputs.spare_all(config.class_names_file(&args.data.classes))?;
    let model_options = ModelOptions {
        batch_norm: config.batch_norm(&args.method),
        ..config.network(&args.model)
    };
    let mut options = config.paths.build(args)?;
    options.method = config.method(&args.method)?;
    let model =
        Model::open_with(&model, &model_options)?.with_threads(config.threads(args.run.threads));
    outputs.spare_all(model.network().files())?;
    let model = config.prepare(model, &args.data)?;
    let inputs = samples::first(&model.open_data(&data)?, args.limit);
    let model = samples::resolve(model, inputs.clone(), printer)?;
    samples::say_preset(&options.method, model.network(), printer);
    model.require_labels(inputs.clone())?;
    samples::warn(&model.warnings(inputs.clone())?, printer);
    let mut training = TrainingInputs::from(inputs);
    if let Some(data) = &args.calibration {
        let calibration = Inputs::new(model.open_data(data)?);
        samples::warn(&model.warnings(calibration.clone())?, printer);
        training = training.calibrated(calibration);
    }
    let (output, format) = (&args.output, args.run.print.format);
    let runs = [Some(&training.training), training.calibration.as_ref()];
    let runs = runs.into_iter().flatten();
    if let Some(part) = args.parts.shard {
        let work = runs.map(|inputs| part.rows(inputs.range()).len()).sum();
        let mut progress = ProgressBar::new(work, printer).keeping(output);
        let built = model.build_part(training, &options, part, output, &mut progress);
        drop(progress);
        return printer.data(&match (built?, format) {
            (built, Format::Text) => npcov_report::built_part(&built),
            (built, Format::Json) => npcov_report::json(&built),
        });
    }
    let mut progress = ProgressBar::new(runs.map(Inputs::len).sum(), printer).keeping(output);
    if let Some(part) = args.shard_classes {
        let done = model.cluster_part(training, &options, part, output, &mut progress);
        drop(progress);
        return printer.data(&match (done?, format) {
            (done, Format::Text) => npcov_report::clustered_part(&done),
            (done, Format::Json) => npcov_report::json(&done),
        });
    }
    let graph = match args.parts.join {
        true => model.join_parts(training, &options, output, &mut progress),
        false => model.build_file(training, &options, output, &mut progress),
    };
    drop(progress);
    let inspection = graph?.inspect()?;
    samples::warn(&inspection.warnings, printer);
    printer.data(&match format {
        Format::Text => npcov_report::decision_graph(&inspection),
        Format::Json => npcov_report::json(&inspection),
    })
}
