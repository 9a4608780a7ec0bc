//! What can be asked of a decision graph.

use std::path::Path;

use npcov::data::{Element, Preprocessing};
use npcov::select::counting_criteria;
use npcov::{Coverage, DecisionGraph, GapOptions, Inputs, MinimizeOptions, SelectOptions, Suite};
use npcov_report::{GapImages, ImageGrid};

use super::explaining::Job;
use super::model::Numbers;
use super::{Answer, Data, FileOrBytes, Listener, OptionError, arguments, spare_graph};
use crate::args::{ClassNamesArgs, MeasuringArgs, PreprocessingArgs, ThreadsArgs};
use crate::config::Config;
use crate::graph::cover_options;
use crate::{args, samples};

/// The largest decision graph that is taken into memory as a whole.
const LARGEST: u64 = 1 << 34;

/// Opens a decision graph with its model: the one that it names, or another place of it. `options` are those
/// of models that can be said of graphs.
pub fn open(
    graph: FileOrBytes<'_>,
    model: Option<FileOrBytes<'_>>,
    options: &[String],
    class_names: Option<Vec<String>>,
) -> anyhow::Result<DecisionGraph> {
    let args = arguments!("cover", Cover, ["-", "--data=-"], options);
    let engine = Config::default().engine(args.measuring.model.engine.as_ref());
    let graph = match (graph, model) {
        (FileOrBytes::File(graph), None) => DecisionGraph::open_on(graph, None, engine)?,
        (FileOrBytes::File(graph), Some(FileOrBytes::File(model))) => {
            DecisionGraph::open_on(graph, Some(model), engine)?
        }
        (FileOrBytes::File(graph), Some(FileOrBytes::Bytes(model))) => {
            let bytes = npcov_file::read(graph, LARGEST).map_err(|error| {
                anyhow::Error::from(error).context(format!("cannot read `{}`", graph.display()))
            })?;
            DecisionGraph::from_bytes_on(bytes, model, engine)?
        }
        (FileOrBytes::Bytes(graph), Some(FileOrBytes::Bytes(model))) => {
            DecisionGraph::from_bytes_on(graph, model, engine)?
        }
        (FileOrBytes::Bytes(_), _) => {
            anyhow::bail!("a decision graph from bytes needs its model as bytes too")
        }
    };
    let graph = prepared(
        &graph,
        (&args.measuring.classes, &args.measuring.preprocessing),
    )?;
    let threads = Config::default().threads(args.measuring.run.threads);
    let graph = graph.with_threads(threads);
    Ok(match class_names {
        Some(names) => graph.with_class_names(names)?,
        None => graph,
    })
}

/// A graph whose preprocessing is what options say, if they say something, with the names of classes that they
/// name.
fn prepared(
    graph: &DecisionGraph,
    (classes, preprocessing): (&ClassNamesArgs, &PreprocessingArgs),
) -> anyhow::Result<DecisionGraph> {
    let config = Config::default();
    let given = config.preprocessing(preprocessing);
    if given != Preprocessing::default() {
        let required = graph.learnt().require_preprocessing(&given);
        required.map_err(npcov::Error::from)?;
    }
    let graph = match config.label_column(classes) {
        Some(name) => graph.clone().with_label_column(&name),
        None => graph.clone(),
    };
    Ok(match config.class_names(classes)? {
        Some(names) => graph.with_class_names(names)?,
        None => graph,
    })
}

/// The same on as many threads as an option says, or as it has.
fn with_threads(graph: DecisionGraph, flag: ThreadsArgs) -> DecisionGraph {
    match flag.threads {
        Some(threads) => graph.with_threads(threads.0),
        None => graph,
    }
}

/// Its classes, clusters and abstract paths.
pub fn inspect(graph: &DecisionGraph) -> anyhow::Result<Answer> {
    let inspection = graph.inspect()?;
    let text = npcov_report::decision_graph(&inspection);
    Ok(Answer::new(&inspection, text))
}

/// A graph as options of measuring want it.
pub(super) fn measuring(
    graph: &DecisionGraph,
    args: &MeasuringArgs,
) -> anyhow::Result<DecisionGraph> {
    let graph = prepared(graph, (&args.classes, &args.preprocessing))?;
    Ok(with_threads(graph, args.run.threads))
}

/// Measures suites, each with its name, in memory or in a file; with `earlier`, added to that.
pub fn cover(
    graph: &DecisionGraph,
    suites: &[(String, Data)],
    options: &[String],
    earlier: Option<Coverage>,
    output: Option<&Path>,
    listener: &mut Listener<'_>,
) -> anyhow::Result<Coverage> {
    let args = arguments!("cover", Cover, ["-", "--data=-"], options);
    let graph = measuring(graph, &args.measuring)?;
    let data: Vec<&Data> = suites.iter().map(|(_, data)| data).collect();
    spare_graph(output, &graph, &args.measuring.classes, &data)?;
    let choices = &args.measuring.choices;
    let measured = cover_options(&graph, choices, args.criteria.criteria.as_ref());
    let mut parts = Vec::new();
    for (name, data) in suites {
        let samples = data.for_model(graph.model())?;
        let range = args.range.range(samples.len());
        let inputs = Inputs::new(samples).rows(range);
        graph.require_labels(inputs.clone())?;
        listener.warn(graph.warnings(inputs.clone())?);
        parts.push(Suite::new(name.clone(), inputs));
    }
    Ok(match (output, earlier) {
        (Some(path), earlier) => {
            graph.cover_file(&parts, &measured, earlier, path, listener.progress)?
        }
        (None, None) => graph.cover_suites(&parts, &measured, listener.progress)?,
        (None, Some(mut earlier)) => {
            let more = graph.cover_suites(&parts, &measured, listener.progress)?;
            earlier.merge(more).map_err(npcov::Error::from)?;
            earlier
        }
    })
}

/// Explains one input (`--index`) or all of them, with their places in the graph.
pub fn explain(
    graph: &DecisionGraph,
    data: &Data,
    options: &[String],
    output: Option<&Path>,
    listener: &mut Listener<'_>,
) -> anyhow::Result<Numbers> {
    let args = arguments!("explain", Explain, ["-", "--data=-"], options);
    let graph = prepared(graph, (&args.data.classes, &args.data.preprocessing))?;
    let graph = with_threads(graph, args.run.threads);
    spare_graph(output, &graph, &args.data.classes, &[data])?;
    Job::of_graph(&graph, data, &args, listener)?.run(output, listener)
}

/// Data that gaps can be shown with.
#[derive(Clone, Default)]
pub struct GapData {
    /// Where inputs to add are sought.
    pub pool: Option<Data>,
    /// Training data and suites, for a picture; which they are, their content tells.
    pub shown: Vec<Data>,
}

/// What suites are missing, which inputs of a pool fill that, and a picture of it: a PNG file.
pub fn gaps(
    graph: &DecisionGraph,
    coverage: &Coverage,
    data: &GapData,
    options: &[String],
    output: Option<&Path>,
    listener: &mut Listener<'_>,
) -> anyhow::Result<(Answer, Option<Vec<u8>>)> {
    // Options of pools are refused without one.
    let known: &[&str] = match data.pool {
        Some(_) => &["-", "-", "--pool=-"],
        None => &["-", "-"],
    };
    let args = arguments!("gaps", Gaps, *known, options);
    let graph = prepared(graph, (&args.classes, &args.preprocessing))?;
    let graph = with_threads(graph, args.run.threads);
    let pool: Vec<&Data> = data.pool.iter().chain(&data.shown).collect();
    spare_graph(output, &graph, &args.classes, &pool)?;
    let settings = GapOptions {
        suites: args.suite.clone(),
        exemplars: args.exemplars,
        count: args.count,
    };
    let found = match &data.pool {
        None => graph.gaps(coverage, &settings)?,
        Some(pool) => {
            let inputs = samples::first(&pool.for_model(graph.model())?, args.limit);
            listener.warn(graph.warnings(inputs.clone())?);
            let progress = &mut *listener.progress;
            match output {
                Some(path) => graph.fill_gaps_file(coverage, inputs, &settings, path, progress)?,
                None => graph.fill_gaps(coverage, inputs, &settings, progress)?,
            }
        }
    };
    let picture = match data.shown.is_empty() || found.gaps.is_empty() {
        true => None,
        false => sheet(&graph, &found, data)?,
    };
    Ok((Answer::new(&found, npcov_report::gaps(&found)), picture))
}

/// A picture of gaps, with what can be seen of them.
fn sheet(
    graph: &DecisionGraph,
    found: &npcov::Gaps,
    data: &GapData,
) -> anyhow::Result<Option<Vec<u8>>> {
    let mut loaders = Vec::new();
    for shown in &data.shown {
        let loader = graph.loader(shown.for_model(graph.model())?)?;
        let digest = loader.fingerprint().map_err(npcov::Error::from)?.digest();
        loaders.push((digest.to_string(), loader));
    }
    let pool = match &data.pool {
        Some(pool) => Some(graph.loader(pool.for_model(graph.model())?)?),
        None => None,
    };
    let training = &graph.learnt().file().record().training.sha256;
    let images = GapImages {
        training: loaders
            .iter()
            .find(|(digest, _)| digest == training)
            .map(|(_, data)| data),
        suites: loaders
            .iter()
            .map(|(digest, data)| (digest.clone(), data))
            .collect(),
        pool: pool.as_ref(),
    };
    Ok(match npcov_report::gap_sheet(found, &images)? {
        Some(sheet) => Some(sheet.to_png()?),
        None => None,
    })
}

/// Writes the training inputs of a graph as Parquet files into a folder.
pub fn export(graph: &DecisionGraph, options: &[String], folder: &Path) -> anyhow::Result<Answer> {
    let args = arguments!("export", Export, ["-", "--output=-"], options);
    let written = crate::export::write(graph.learnt().file(), &args, folder)?;
    Ok(Answer::new(&written, npcov_report::paths_files(&written)))
}

/// How many typical inputs of a cluster are shown.
const TYPICAL: usize = 8;

/// For every cluster, the training inputs that are most like its abstract path: a PNG file. `None` where inputs are no
/// images, or `training` is other data than what the graph was learnt from.
pub fn clusters(graph: &DecisionGraph, training: &Data) -> anyhow::Result<Option<Vec<Vec<u8>>>> {
    let data = graph.loader(training.for_model(graph.model())?)?;
    let file = graph.learnt().file();
    let record = file.record();
    let digest = data.fingerprint().map_err(npcov::Error::from)?.digest();
    let Some(shape) = data.image() else {
        return Ok(None);
    };
    if digest.to_string() != record.training.sha256 {
        return Ok(None);
    }
    let bytes = data.input().element() == Element::U8;
    let similarity = record.choices.similarity;
    let mut pictures = Vec::new();
    for cluster in 0..file.graph().parts().abstract_paths.len() {
        let typical = file.graph().exemplars(file, cluster, similarity, TYPICAL);
        let mut row = Vec::new();
        for (input, _) in typical.map_err(npcov::Error::from)? {
            let input = record.training.start + input as usize;
            let mut image = vec![0.0; data.sample_len()];
            let read = data.read_stored(input..input + 1, &mut image);
            read.map_err(npcov::Error::from)?;
            row.push(image);
        }
        let Some(grid) = ImageGrid::row(shape, row, bytes) else {
            return Ok(None);
        };
        pictures.push(grid.to_png()?);
    }
    Ok(Some(pictures))
}

/// Orders the inputs of a pool by what they are worth, and gives the first. With `--shard`, it measures a part of
/// them, beside `output`; with `--join`, it picks from all parts.
pub fn select(
    graph: &DecisionGraph,
    pool: &Data,
    options: &[String],
    given: Option<Coverage>,
    output: Option<&Path>,
    listener: &mut Listener<'_>,
) -> anyhow::Result<Answer> {
    let known = ["-", "--data=-", "--output=-"];
    let args: args::SelectArgs = arguments!("select", Select, known, options);
    if output.is_none() && (args.parts.shard.is_some() || args.parts.join) {
        let text = "`shard` and `join` need `output`: parts are beside it";
        return Err(OptionError::new(text).into());
    }
    let graph = measuring(graph, &args.measuring)?;
    spare_graph(output, &graph, &args.measuring.classes, &[pool])?;
    let settings = SelectOptions {
        strategy: args.by.clone(),
        count: args.count,
        seed: args.seed,
        choices: cover_options(&graph, &args.measuring.choices, None).choices,
        given,
    };
    let inputs = samples::first(&pool.for_model(graph.model())?, args.limit);
    listener.warn(graph.warnings(inputs.clone())?);
    let progress = &mut *listener.progress;
    if let (Some(part), Some(path)) = (args.parts.shard, output) {
        let done = graph.select_part(inputs, &settings, part, path, progress)?;
        return Ok(Answer::new(&done, npcov_report::finished_part(&done)));
    }
    let selection = match output {
        Some(path) if args.parts.join => graph.join_selection(inputs, &settings, path)?,
        Some(path) => graph.select_file(inputs, &settings, path, progress)?,
        None => graph.select(inputs, &settings, progress)?,
    };
    let text = npcov_report::selection(&selection);
    Ok(Answer::new(&selection, text))
}

/// Finds a small part of a suite that covers all that the suite covers.
pub fn minimize(
    graph: &DecisionGraph,
    suite: &Data,
    options: &[String],
    given: Option<Coverage>,
    output: Option<&Path>,
    listener: &mut Listener<'_>,
) -> anyhow::Result<Answer> {
    let known = ["-", "--data=-", "--output=-"];
    let args: args::MinimizeArgs = arguments!("minimize", Minimize, known, options);
    let graph = measuring(graph, &args.measuring)?;
    spare_graph(output, &graph, &args.measuring.classes, &[suite])?;
    let mut settings = MinimizeOptions {
        choices: cover_options(&graph, &args.measuring.choices, None).choices,
        given,
        ..MinimizeOptions::default()
    };
    if let Some(criteria) = &args.criteria {
        settings.criteria = criteria.specs(&counting_criteria(graph.learnt()));
    }
    let inputs = samples::first(&suite.for_model(graph.model())?, args.limit);
    listener.warn(graph.warnings(inputs.clone())?);
    let progress = &mut *listener.progress;
    let minimization = match output {
        Some(path) => graph.minimize_file(inputs, &settings, path, progress)?,
        None => graph.minimize(inputs, &settings, progress)?,
    };
    let text = npcov_report::minimization(&minimization);
    Ok(Answer::new(&minimization, text))
}
