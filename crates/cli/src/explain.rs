//! `npcov explain`.

use std::path::{Path, PathBuf};

use npcov::data::{Dataset, Loader};
use npcov::{Explainer, Network, NetworkOptions, TraceFile};

use crate::args::{ExplainArgs, Format};
use crate::config::Config;
use crate::output::refuse_overwriting;
use crate::printer::Printer;
use crate::progress::Progress;

/// Explains one input or all of them, prints the result, and writes relevances and a heat map where
/// wanted.
pub(crate) fn run(args: &ExplainArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let model = config.model(&args.model)?;
    let data = config.data(&args.data)?;
    let read = [model.as_path(), Path::new(&data)];
    if let Some(output) = &args.output {
        refuse_overwriting("--output", output, &read)?;
    }
    if let Some(heatmap) = &args.heatmap {
        refuse_overwriting("--heatmap", heatmap, &read)?;
    }
    let mut settings = config.explain(&args.relevance)?;
    let options = NetworkOptions {
        batch_norm: config.batch_norm(&args.relevance.method),
        ..config.network(&args.model)
    };
    let network = Network::open(&model, &options)?;
    let dataset = Dataset::open(&data).map_err(npcov::Error::from)?;
    let preprocessing = config.preprocessing(&args.data.preprocessing);
    let loader =
        Loader::new(dataset, network.sample_shape(), &preprocessing).map_err(npcov::Error::from)?;
    for warning in loader.warnings() {
        printer.warning(warning);
    }
    let heatmap = match args.index {
        Some(index) if !args.no_heatmap => heatmap_file(args, &data, index, &loader, printer),
        _ => None,
    };
    // For a single input its own relevance is half of the answer.
    settings.input |= args.index.is_some();
    let explainer = Explainer::new(&network, &settings)?;
    let mut file = match &args.output {
        Some(path) => Some(TraceFile::create(path, explainer.tracer())?),
        None => None,
    };
    let text = match args.index {
        Some(index) => {
            let mut explained = explainer.one(&loader, index, args.top)?;
            if let Some(file) = &mut file {
                let class = explained.explanation.prediction.class;
                file.append(&explained.batch, &[class])?;
            }
            if let (Some(path), Some(picture)) = (heatmap, explained.heatmap(&loader)?) {
                picture.write(&path)?;
                explained.explanation.heatmap = Some(path.display().to_string());
            }
            match args.format {
                Format::Text => npcov_report::explanation(&explained.explanation),
                Format::Json => npcov_report::json(&explained.explanation),
            }
        }
        None => {
            let inputs = args.limit.map_or(loader.len(), |n| n.min(loader.len()));
            let threads = config.threads(args.threads);
            let mut progress = Progress::new(inputs);
            let explanations = explainer.all::<npcov::Error>(
                &loader,
                0..inputs,
                threads,
                args.top,
                |batch, classes| {
                    progress.advance(classes.len());
                    file.as_mut()
                        .map_or(Ok(()), |file| file.append(batch, classes))
                },
            )?;
            drop(progress);
            match args.format {
                Format::Text => npcov_report::explanations(&explanations),
                Format::Json => npcov_report::json(&explanations),
            }
        }
    };
    if let Some(file) = file {
        file.finish()?;
    }
    printer.data(&text)
}

/// The file for the heat map: the one that is named, or one named after the data, in the current
/// folder. `None`, and a word about it, when the input is no image.
fn heatmap_file(
    args: &ExplainArgs,
    data: &str,
    index: usize,
    loader: &Loader,
    printer: &Printer,
) -> Option<PathBuf> {
    if loader.image().is_none() {
        printer.warning("no heat map: the inputs are no images");
        return None;
    }
    Some(args.heatmap.clone().unwrap_or_else(|| {
        // The part behind a colon names arrays in the file.
        let path = match data.rsplit_once(':') {
            Some((file, _)) if !Path::new(data).exists() => file,
            _ => data,
        };
        let stem = Path::new(path).file_stem().unwrap_or_default();
        let stem = match stem.to_string_lossy() {
            stem if stem.is_empty() => "input".to_owned(),
            stem => stem.into_owned(),
        };
        PathBuf::from(format!("{stem}-{index}-heatmap.png"))
    }))
}
