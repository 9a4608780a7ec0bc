//! `npcov mutate`.

use std::path::Path;

use anyhow::bail;
use npcov::data::write_whole;
use npcov::mutate::{Among, Mutant, Mutants, MutationOptions};
use npcov::paths::bits;
use npcov::run::{Network, SampleRange};
use npcov::{DecisionGraph, Inputs, Model};

use crate::args::{Format, MutateArgs, Whereabouts};
use crate::config::Config;
use crate::output::Outputs;
use crate::printer::Printer;
use crate::progress::ProgressBar;
use crate::samples;

/// Makes mutants, writes them where wanted, and says which of them a suite kills.
pub(crate) fn run(args: &MutateArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let model = config.model(&args.model)?;
    let data = config.data(&args.data)?;
    let mut outputs = Outputs::new(
        config,
        [
            ("--output", args.output.as_deref()),
            ("--predictions", args.predictions.as_deref()),
        ],
    )?;
    outputs.spare(&model)?;
    outputs.spare_data(&data)?;
    outputs.spare_all(config.class_names_file(&args.data.classes))?;
    outputs.spare_all(&args.graph)?;
    if let Some(judge) = &args.judge {
        outputs.spare_data(judge)?;
    }
    let model = Model::open_with(model, &config.network(&args.model))?;
    outputs.spare_all(model.network().files())?;
    let model = config.prepare(model, &args.data)?;
    let samples = model.open_data(&data)?;
    let inputs = Inputs::new(samples.clone()).rows(args.range.range(samples.len()));
    let model = samples::resolve(model, inputs.clone(), printer)?;
    samples::warn(&model.warnings(inputs.clone())?, printer);
    let network = model.network();
    let threads = config.threads(args.run.threads);

    let options = options(args);
    let graph = match &args.graph {
        Some(file) => Some(DecisionGraph::open_with(file, network.file())?),
        None => None,
    };
    let among = among(args.paths, graph.as_ref(), network)?;
    let mutants = Mutants::among(network, &options, among.as_ref());
    let mut mutants = mutants.map_err(npcov::Error::from)?;
    if let Some(folder) = &args.mutants_to {
        let written = write(&mutants, folder, &mut outputs)?;
        printer.note(&format!("{written} mutants are in `{}`", folder.display()));
    }
    if let Some(judge) = &args.judge {
        let data = model.loader(model.open_data(judge)?)?;
        let judging = SampleRange {
            range: 0..data.len(),
            data: &data,
            threads,
        };
        let work = mutants.work(data.len());
        let mut progress = ProgressBar::new(work, printer);
        let judged = mutants.judge(&judging, &mut progress);
        judged.map_err(npcov::Error::from)?;
    }
    let loader = model.loader(samples)?;
    let suite = SampleRange {
        data: &loader,
        range: inputs.range(),
        threads,
    };
    let mut progress = ProgressBar::new(mutants.work(inputs.len()), printer);
    let file = args.predictions.as_deref();
    let state = mutants.measure_into(&suite, file, &mut progress);
    let state = state.map_err(npcov::Error::from)?;
    drop(progress);
    if let Some(output) = &args.output {
        state.save(output).map_err(npcov::Error::from)?;
    }
    let report = state.report();
    printer.data(&match args.run.print.format {
        Format::Text => npcov_report::mutation(&report),
        Format::Json => npcov_report::json(&report),
    })
}

/// Which mutants are asked for.
pub(crate) fn options(args: &MutateArgs) -> MutationOptions {
    MutationOptions {
        operators: args.operators.clone(),
        ratios: args.ratio.clone(),
        mutants: args.mutants,
        sd: args.sd,
        seed: args.seed,
        quality: args.quality,
    }
}

/// The neurons that may be changed.
pub(crate) fn among(
    paths: Option<Whereabouts>,
    graph: Option<&DecisionGraph>,
    network: &Network,
) -> anyhow::Result<Option<Among>> {
    let (Some(paths), Some(graph)) = (paths, graph) else {
        return Ok(None);
    };
    let learnt = graph.learnt();
    let own = learnt.network();
    let file = learnt.file().path();
    let file = file.map_or("a decision graph".into(), Path::to_string_lossy);
    let layers = |network: &Network| -> Vec<(String, usize)> {
        let layers = network.layers().iter();
        layers.map(|l| (l.name.clone(), l.neurons)).collect()
    };
    if own.digest() != network.digest() || layers(own) != layers(network) {
        bail!("`{file}` is of another model, or of other path layers");
    }
    let parts = learnt.file().graph().parts();
    let layout = learnt.file().graph().layout();
    let wanted = paths == Whereabouts::Inside;
    let neurons = (0..layout.layers()).map(|layer| {
        let is_on = |neuron: usize| {
            let mut paths = parts.abstract_paths.rows();
            paths.any(|path| bits::get(layout.layer(path, layer), neuron))
        };
        let all = 0..layout.neurons(layer);
        all.map(|neuron| is_on(neuron) == wanted).collect()
    });
    let words = match paths {
        Whereabouts::Inside => "on an abstract path of",
        Whereabouts::Outside => "on no abstract path of",
    };
    Ok(Some(Among {
        words: format!("{words} {file}"),
        neurons: neurons.collect(),
    }))
}

/// Writes the mutants as ONNX, and gives their number.
pub(crate) fn write(
    mutants: &Mutants<'_>,
    folder: &Path,
    outputs: &mut Outputs,
) -> anyhow::Result<usize> {
    if !folder.is_dir() {
        bail!("`--mutants-to {}` is no folder", folder.display());
    }
    let names: Vec<_> = mutants
        .list()
        .iter()
        .map(|m| folder.join(name(m)))
        .collect();
    for path in &names {
        outputs.add("--mutants-to", path)?;
    }
    for (number, path) in names.iter().enumerate() {
        let bytes = mutants.onnx(number).map_err(npcov::Error::from)?;
        write_whole(path, &bytes).map_err(npcov::Error::from)?;
    }
    Ok(names.len())
}

/// The file of a mutant.
fn name(mutant: &Mutant) -> String {
    let Mutant {
        operator, number, ..
    } = mutant;
    match mutant.ratio {
        Some(ratio) => format!("{operator}-{ratio}-{number}.onnx"),
        None => format!("{operator}-{number}.onnx"),
    }
}
