//! `npcov predict`.

use std::path::Path;

use anyhow::bail;
use npcov::data::{Dataset, Loader};
use npcov::{Network, TraceFile};

use crate::args::{Format, PredictArgs};
use crate::config::Config;
use crate::printer::Printer;
use crate::progress::Progress;

/// Classifies a dataset, prints how that went and writes logits and activations where wanted.
pub(crate) fn run(args: &PredictArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let model = config.model(&args.model)?;
    let data = config.data(&args.data)?;
    if let Some(output) = &args.output {
        refuse_overwriting(output, &[&model, Path::new(&data)])?;
    }
    let network = Network::open(model, &config.network(&args.model))?;
    let dataset = Dataset::open(&data).map_err(npcov::Error::from)?;
    let preprocessing = config.preprocessing(&args.data);
    let loader =
        Loader::new(dataset, network.sample_shape(), &preprocessing).map_err(npcov::Error::from)?;
    for warning in loader.warnings() {
        printer.warning(warning);
    }
    // Activations that nobody sees are not computed.
    let (tracer, mut file) = match &args.output {
        None => (network.logits_tracer()?, None),
        Some(path) => {
            let tracer = network.tracer(&[])?;
            let file = TraceFile::create(path, &tracer)?;
            (tracer, Some(file))
        }
    };
    let inputs = args.limit.map_or(loader.len(), |n| n.min(loader.len()));
    let threads = config.threads(args.threads);
    let mut progress = Progress::new(inputs);
    let predictions = npcov::predict::<npcov::Error>(
        &network,
        &tracer,
        &loader,
        0..inputs,
        threads,
        |batch, classes| {
            progress.advance(classes.len());
            file.as_mut()
                .map_or(Ok(()), |file| file.append(batch, classes))
        },
    )?;
    drop(progress);
    if let Some(file) = file {
        file.finish()?;
    }
    printer.data(&match args.format {
        Format::Text => npcov_report::predictions(&predictions),
        Format::Json => npcov_report::json(&predictions),
    })
}

/// The output takes the place of a file of its name; the user's model or data must not be it.
fn refuse_overwriting(output: &Path, inputs: &[&Path]) -> anyhow::Result<()> {
    // A file that does not exist overwrites nothing.
    let Ok(existing) = output.canonicalize() else {
        return Ok(());
    };
    for input in inputs {
        // The part behind a colon names arrays in the file.
        let text = input.to_string_lossy();
        let file = text.rsplit_once(':').map(|(file, _)| Path::new(file));
        let same = |path: &Path| path.canonicalize().is_ok_and(|path| path == existing);
        if same(input) || file.is_some_and(same) {
            bail!(
                "`--output {}` would overwrite what is read",
                output.display()
            );
        }
    }
    Ok(())
}
