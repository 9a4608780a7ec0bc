//! What can be asked of a model.

use std::path::Path;

use npcov::artefact::{GraphFile, Kind};
use npcov::attack::{Adversaries, AttackFile, Attacked, attack as find_adversaries};
use npcov::coverage::GraphInspection;
use npcov::data::OutputLock;
use npcov::{
    BuildOptions, Coverage, DecisionGraph, Inputs, Model, ModelOptions, ProgramKind, TraceArray,
    TraceArrays, TraceFile, TrainingInputs, TuneOptions,
};

use super::explaining::Job;
use super::{Answer, Data, FileOrBytes, Listener, OptionError, arguments, spare};
use crate::args::{BuildArgs, ThreadsArgs};
use crate::config::Config;
use crate::samples;

/// Opens a model. `options` are those of [`model_options`](super::model_options), but for the names of
/// classes, which are given as they are.
pub fn open(
    source: FileOrBytes<'_>,
    options: &[String],
    class_names: Option<Vec<String>>,
) -> anyhow::Result<Model> {
    let args = arguments!("build", Build, ["--output=-", "-"], options);
    let config = Config::default();
    let network = ModelOptions {
        batch_norm: config.batch_norm(&args.method),
        ..config.network(&args.model)
    };
    let model = match source {
        FileOrBytes::File(path) => Model::open_with(path, &network)?,
        FileOrBytes::Bytes(bytes) => Model::from_bytes_with(bytes, &network)?,
    };
    let model = config.prepare(model, &args.data)?;
    let model = model.with_threads(config.threads(args.run.threads));
    Ok(match class_names {
        Some(names) => model.with_class_names(names)?,
        None => model,
    })
}

/// What is inside a model's file, also where it cannot be run; or inside that of a decision graph or of coverage.
pub fn inspect(source: FileOrBytes<'_>, options: &[String]) -> anyhow::Result<Answer> {
    let args = arguments!("inspect", Inspect, ["-"], options);
    let kind = match source {
        FileOrBytes::File(path) => Kind::of(path).map(|kind| (kind, path)),
        FileOrBytes::Bytes(_) => None,
    };
    match kind {
        Some((Kind::DecisionGraph, path)) => {
            let file = GraphFile::open(path).map_err(npcov::Error::from)?;
            let inspection = GraphInspection::of(&file).map_err(npcov::Error::from)?;
            let text = npcov_report::decision_graph(&inspection);
            return Ok(Answer::new(&inspection, text));
        }
        Some((Kind::CoverageState, path)) => {
            let coverage = Coverage::open(path).map_err(npcov::Error::from)?;
            let report = coverage.report().map_err(npcov::Error::from)?;
            let text = npcov_report::coverage(&report, false);
            return Ok(Answer::new(&report, text));
        }
        _ => {}
    }
    let network = Config::default().network(&args.model);
    let (inspection, _) = match source {
        FileOrBytes::File(path) => npcov::inspect(path, &network)?,
        FileOrBytes::Bytes(bytes) => npcov::inspect_bytes(bytes, &network)?,
    };
    let text = npcov_report::inspection(&inspection);
    Ok(Answer::new(&inspection, text))
}

/// Numbers of many inputs.
pub struct Numbers {
    /// The result.
    pub answer: Answer,
    /// Arrays by name, as the npz file has them.
    pub arrays: Vec<(String, TraceArray)>,
    /// A picture of one input, where there is one: a PNG file.
    pub picture: Option<Vec<u8>>,
}

/// A model on as many threads as an option says, or as it has.
pub(super) fn with_threads(model: &Model, flag: ThreadsArgs) -> Model {
    match flag.threads {
        Some(threads) => model.clone().with_threads(threads.0),
        None => model.clone(),
    }
}

/// Classifies data. With `activations`, one number for each neuron is kept as well.
pub fn predict(
    model: &Model,
    data: &Data,
    options: &[String],
    output: Option<&Path>,
    activations: bool,
    listener: &mut Listener<'_>,
) -> anyhow::Result<Numbers> {
    let args = arguments!("predict", Predict, ["-", "--data=-"], options);
    let model = with_threads(model, args.run.threads);
    spare(output, model.network().files(), &[data])?;
    let samples = data.for_model(&model)?;
    let inputs = samples::first(&samples, args.limit);
    let (model, notes) = model.for_data(inputs.clone())?;
    listener.warn(notes);
    listener.warn(model.warnings(inputs.clone())?);
    let loader = model.loader(samples)?;
    let network = model.network();
    let tracer = match output.is_some() || activations {
        true => network.tracer(&[]),
        false => network.logits_tracer(),
    }
    .map_err(npcov::Error::from)?;
    let mut file = output
        .map(|path| TraceFile::create(path, &tracer, &loader))
        .transpose()?;
    let mut arrays = TraceArrays::new(&tracer);
    let keep = activations || output.is_none();
    let predictions = npcov::run::predict::<npcov::Error>(
        &tracer,
        &loader,
        inputs.range(),
        model.threads(),
        |batch, classes| {
            let finished = npcov::Event::Finished(classes.len());
            listener.progress.tell(finished)?;
            if keep {
                arrays.append(batch, classes);
            }
            match &mut file {
                Some(file) => file.append(batch, classes),
                None => Ok(()),
            }
        },
    )?;
    if let Some(file) = file {
        file.finish()?;
    }
    listener.warn(predictions.warnings());
    let text = npcov_report::predictions(&predictions);
    Ok(Numbers {
        answer: Answer::new(&predictions, text),
        arrays: if keep { arrays.finish() } else { Vec::new() },
        picture: None,
    })
}

/// Explains one input (`--index`) or all of them.
pub fn explain(
    model: &Model,
    data: &Data,
    options: &[String],
    output: Option<&Path>,
    listener: &mut Listener<'_>,
) -> anyhow::Result<Numbers> {
    let args = arguments!("explain", Explain, ["-", "--data=-"], options);
    let model = with_threads(model, args.run.threads);
    spare(output, model.network().files(), &[data])?;
    Job::of_model(&model, data, &args, listener)?.run(output, listener)
}

/// Finds parameters of paths.
pub fn tune(
    model: &Model,
    data: &Data,
    options: &[String],
    listener: &mut Listener<'_>,
) -> anyhow::Result<Answer> {
    let args = arguments!("tune", Tune, ["-", "--data=-"], options);
    if args.parts.shard.is_some() || args.parts.join {
        let text =
            "`shard` and `join` are for processes that share a folder: `npcov tune` has them";
        return Err(OptionError::new(text).into());
    }
    let config = Config::default();
    let settings = TuneOptions {
        method: config.method(&args.method)?,
        choices: (config.paths).choices(&args.path_choices, None, Some(&args.study_choices)),
        sample: (!args.all).then_some(args.sample),
        alphas: args.alphas.clone(),
        clusters: args.clusters.clone(),
        betas: args.betas.clone(),
        seed: args.seed,
        restarts: config.paths.restarts(),
    };
    let model = with_threads(model, args.run.threads);
    let samples = data.for_model(&model)?;
    let (model, notes) = model.for_data(&samples)?;
    listener.warn(notes);
    listener.warn(samples::preset_note(&settings.method, model.network()));
    listener.warn(model.warnings(&samples)?);
    let tuning = model.tune(&samples, &settings, listener.progress)?;
    Ok(Answer::new(&tuning, npcov_report::tuning(&tuning)))
}

/// Learns a decision graph, in memory or in a file; with `--join`, from the parts beside that file. Scores are ranked
/// among those of `calibration`, or of training inputs that are set aside.
pub fn build(
    model: &Model,
    data: &Data,
    calibration: Option<&Data>,
    options: &[String],
    output: Option<&Path>,
    listener: &mut Listener<'_>,
) -> anyhow::Result<DecisionGraph> {
    let Learning {
        model,
        training,
        settings,
        args,
    } = Learning::new(model, data, calibration, options, output, listener)?;
    if args.parts.shard.is_some() || args.shard_classes.is_some() {
        return Err(OptionError::new("`shard` makes a part, and no graph").into());
    }
    let progress = &mut *listener.progress;
    let graph = match (output, args.parts.join) {
        (Some(path), true) => model.join_parts(training, &settings, path, progress)?,
        (None, true) => {
            return Err(OptionError::new("`join` needs `output`: parts are beside it").into());
        }
        (Some(path), false) => model.build_file(training, &settings, path, progress)?,
        (None, false) => model.build(training, &settings, progress)?,
    };
    listener.warn(graph.inspect()?.warnings);
    Ok(graph)
}

/// Does the part of [`build`] that `--shard` or `--shard-classes` names, and keeps it beside `output`.
pub fn build_part(
    model: &Model,
    data: &Data,
    calibration: Option<&Data>,
    options: &[String],
    output: &Path,
    listener: &mut Listener<'_>,
) -> anyhow::Result<Answer> {
    let learning = Learning::new(model, data, calibration, options, Some(output), listener)?;
    let Learning {
        model,
        training,
        settings,
        args,
    } = learning;
    let progress = &mut *listener.progress;
    if let Some(part) = args.shard_classes {
        let done = model.cluster_part(training, &settings, part, output, progress)?;
        return Ok(Answer::new(&done, npcov_report::clustered_part(&done)));
    }
    let Some(part) = args.parts.shard else {
        return Err(OptionError::new("`shard` says which part").into());
    };
    let built = model.build_part(training, &settings, part, output, progress)?;
    Ok(Answer::new(&built, npcov_report::built_part(&built)))
}

/// What a decision graph, or a part of it, is built from.
struct Learning {
    model: Model,
    training: TrainingInputs<'static>,
    settings: BuildOptions,
    args: BuildArgs,
}

impl Learning {
    fn new(
        model: &Model,
        data: &Data,
        calibration: Option<&Data>,
        options: &[String],
        output: Option<&Path>,
        listener: &mut Listener<'_>,
    ) -> anyhow::Result<Learning> {
        let args = arguments!("build", Build, ["-", "--data=-", "--output=-"], options);
        let config = Config::default();
        let mut settings = config.paths.build(&args)?;
        settings.method = config.method(&args.method)?;
        let model = with_threads(model, args.run.threads);
        let read: Vec<&Data> = [data].into_iter().chain(calibration).collect();
        spare(output, model.network().files(), &read)?;
        let inputs = samples::first(&data.for_model(&model)?, args.limit);
        let (model, notes) = model.for_data(inputs.clone())?;
        listener.warn(notes);
        model.require_labels(inputs.clone())?;
        listener.warn(samples::preset_note(&settings.method, model.network()));
        listener.warn(model.warnings(inputs.clone())?);
        let mut training = TrainingInputs::from(inputs);
        if let Some(data) = calibration {
            let calibration = Inputs::new(data.for_model(&model)?);
            listener.warn(model.warnings(calibration.clone())?);
            training = training.calibrated(calibration);
        }
        Ok(Learning {
            model,
            training,
            settings,
            args,
        })
    }
}

/// Changes inputs until they are misclassified; without a file, they are given back.
pub fn attack(
    model: &Model,
    data: &Data,
    options: &[String],
    output: Option<&Path>,
    listener: &mut Listener<'_>,
) -> anyhow::Result<(Answer, Adversaries)> {
    let args = arguments!("attack", Attack, ["-", "--data=-", "--output=-"], options);
    let method = crate::attack::method(args.method, &args.choices)?;
    let model = with_threads(model, args.run.threads);
    spare(output, model.network().files(), &[data])?;
    let samples = data.for_model(&model)?;
    let (model, notes) = model.for_data(&samples)?;
    listener.warn(notes);
    listener.warn(model.warnings(&samples)?);
    let loader = model.loader(samples)?;
    let settings = crate::attack::settings(&args, method, model.network())?;
    let rows = crate::attack::rows(&args, &loader)?;
    let mut file = match output {
        Some(path) => Some((
            AttackFile::create(path, &loader).map_err(npcov::Error::from)?,
            OutputLock::beside(path).map_err(npcov::Error::from)?,
        )),
        None => None,
    };
    let inputs = Attacked {
        data: &loader,
        rows: &rows,
        threads: model.threads(),
    };
    let mut all = Adversaries::default();
    let sink = |found: &Adversaries| match &mut file {
        Some((file, _)) => Ok(file.append(found)?),
        None => {
            all.append(found);
            Ok(())
        }
    };
    let report = find_adversaries::<npcov::Error>(
        model.network(),
        inputs,
        &settings,
        listener.progress,
        sink,
    )?;
    if let Some((file, _lock)) = file {
        file.finish().map_err(npcov::Error::from)?;
    }
    Ok((Answer::new(&report, npcov_report::attack(&report)), all))
}

/// Writes a program that is made from a model as ONNX. How the model was opened counts, but for its batch.
pub fn compile(
    source: FileOrBytes<'_>,
    options: &[String],
    output: &Path,
    listener: &mut Listener<'_>,
) -> anyhow::Result<Answer> {
    let args = arguments!("compile", Compile, ["-", "--output=-"], options);
    let (kind, network) = crate::compile::program(&args, &Config::default())?;
    let model = match source {
        FileOrBytes::File(path) => Model::open_with(path, &network)?,
        FileOrBytes::Bytes(bytes) => Model::from_bytes_with(bytes, &network)?,
    };
    spare(Some(output), model.network().files(), &[])?;
    if let ProgramKind::Explain(options) = &kind {
        listener.warn(samples::preset_note(&options.method, model.network()));
    }
    let written = model.compile(&kind, output)?;
    Ok(Answer::new(&written, npcov_report::compilation(&written)))
}
