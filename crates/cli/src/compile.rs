//! `npcov compile`.

use anyhow::bail;
use npcov::program::Term;
use npcov::{Model, ModelOptions, ProgramKind};

use crate::args::{CompileArgs, Format, LossName, ProgramName};
use crate::config::Config;
use crate::output::Outputs;
use crate::printer::Printer;
use crate::samples;

/// Writes a program as ONNX and prints what it takes and gives.
pub(crate) fn run(args: &CompileArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let model = config.model(&args.model)?;
    let mut outputs = Outputs::new(config, [("--output", Some(&*args.output))])?;
    outputs.spare(&model)?;
    let (kind, options) = program(args, config)?;
    let model = Model::open_with(&model, &options)?;
    outputs.spare_all(model.network().files())?;
    if let ProgramKind::Explain(options) = &kind {
        samples::say_preset(&options.method, model.network(), printer);
    }
    let written = model.compile(&kind, &args.output)?;
    printer.data(&match args.print.format {
        Format::Text => npcov_report::compilation(&written),
        Format::Json => npcov_report::json(&written),
    })
}

/// The program that is asked for, and how its model is opened.
pub(crate) fn program(
    args: &CompileArgs,
    config: &Config,
) -> anyhow::Result<(ProgramKind, ModelOptions)> {
    if args.loss.is_some() && args.program != ProgramName::Gradient {
        bail!("`--loss` is for `--program gradient`");
    }
    let relevance = &args.relevance;
    let (kind, batch_norm) = match args.program {
        ProgramName::Explain => (
            ProgramKind::Explain(config.explain(relevance)?),
            config.batch_norm(&relevance.method),
        ),
        // Silence would let a user believe that they count.
        _ if relevance.is_given() => {
            bail!("options of relevance are for `--program explain`")
        }
        ProgramName::Trace => (ProgramKind::Trace, Default::default()),
        ProgramName::Mask => (ProgramKind::Mask, Default::default()),
        ProgramName::Gradient => {
            let term = match args.loss {
                Some(LossName::CrossEntropy) | None => Term::CrossEntropy,
                Some(LossName::Margin) => Term::Margin,
            };
            (ProgramKind::Gradient(term.into()), Default::default())
        }
    };
    let options = ModelOptions {
        batch_norm,
        batch: args.batch.map(|batch| batch.0),
        ..config.network(&args.model)
    };
    Ok((kind, options))
}
