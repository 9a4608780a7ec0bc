//! `npcov report --html`: the report as pages.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use npcov::artefact::GraphFile;
use npcov::data::{Loader, read_class_names};
use npcov::run::Progress;
use npcov::{Coverage, DecisionGraph, Inputs};
use npcov_html::{Material, Names, gather, write_file, write_folder};

use crate::args::{PageArgs, ReportArgs};
use crate::config::Config;
use crate::output::Outputs;
use crate::printer::Printer;
use crate::progress::ProgressBar;
use crate::samples;

/// Files beside a state that are looked into for its decision graph.
const MOST_FILES: usize = 50;

/// Writes the pages that were asked for, and says where they are.
pub(crate) fn write(
    args: &ReportArgs,
    config: &Config,
    coverage: &Coverage,
    earlier: Option<&Coverage>,
    printer: &Printer,
) -> anyhow::Result<Option<String>> {
    let pages = &args.pages;
    if pages.html.is_none() && pages.single_file.is_none() {
        return Ok(None);
    }
    let mut outputs = outputs(pages, config)?;
    outputs.spare(&args.state)?;
    outputs.spare_all(args.against.iter().chain(&pages.graph).chain(&pages.model))?;
    outputs.spare_all(config.class_shares_file(&args.detail.class_shares))?;
    for data in pages.data.iter().chain(&pages.pool) {
        outputs.spare_data(data)?;
    }
    let coverage = some_suites(coverage, &args.suite)?;
    let graph = find_graph(pages, &args.state, &coverage)?;
    let graph = match graph {
        Some(graph) => {
            let graph = DecisionGraph::open_with(graph, pages.model.as_deref())?;
            outputs.spare_graph(&graph)?;
            let graph = match &config.label_column {
                Some(name) => graph.with_label_column(name),
                None => graph,
            };
            Some(graph.with_threads(config.threads(pages.threads)))
        }
        None => None,
    };
    let pool = match (&pages.pool, &graph) {
        (Some(pool), Some(graph)) => Some(graph.open_data(pool)?),
        (Some(pool), None) => Some(samples::open(pool)?),
        (None, _) => None,
    };
    let material = Material {
        earlier,
        gate: Some(&config.rules(earlier.is_some())),
        graph: graph.as_ref(),
        data: match &graph {
            Some(graph) => find_data(args, config, &coverage, graph, &mut outputs)?,
            None => Vec::new(),
        },
        pool: pool.map(Inputs::new),
        names: Names {
            features: names(pages.feature_names.as_deref())?,
            words: names(pages.words.as_deref())?,
        },
        ..Material::new(&coverage)
    };
    let Written { file, link, notes } = draw(pages, material, &mut ProgressBar::new(0, printer))?;
    for note in &notes {
        printer.warning(note);
    }
    printer.note(&format!("the report is in `{}`", file.display()));
    Ok(Some(link))
}

/// What pages are written to, held against what is named for them.
pub(crate) fn outputs(pages: &PageArgs, config: &Config) -> anyhow::Result<Outputs> {
    let mut outputs = Outputs::new(config, [("--single-file", pages.single_file.as_deref())])?;
    if let Some(folder) = &pages.html {
        outputs.add_folder("--html", folder)?;
    }
    outputs.spare_all(pages.words.iter().chain(&pages.feature_names))?;
    Ok(outputs)
}

/// Coverage of the suites that are named, or of all.
pub(crate) fn some_suites(
    coverage: &Coverage,
    suites: &[String],
) -> Result<Coverage, npcov::Error> {
    match suites {
        [] => Ok(coverage.clone()),
        _ => Ok(coverage.clone().with_suites(suites)?),
    }
}

/// Pages that were written.
pub(crate) struct Written {
    /// The one to open first.
    pub(crate) file: PathBuf,
    /// Its address.
    pub(crate) link: String,
    /// What is not on them, and why.
    pub(crate) notes: Vec<String>,
}

/// Writes the pages that were asked for.
pub(crate) fn draw(
    pages: &PageArgs,
    material: Material<'_>,
    progress: &mut dyn Progress,
) -> anyhow::Result<Written> {
    let dossier = gather(material, progress)?;
    if let Some(folder) = &pages.html {
        write_folder(&dossier, folder)?;
    }
    if let Some(file) = &pages.single_file {
        write_file(&dossier, file)?;
    }
    let folder = pages.html.as_ref().map(|folder| folder.join("index.html"));
    let file = folder.or(pages.single_file.clone()).unwrap_or_default();
    let link = pages.link.clone();
    Ok(Written {
        link: link.unwrap_or_else(|| file.display().to_string()),
        file,
        notes: dossier.notes,
    })
}

pub(crate) fn names(file: Option<&Path>) -> Result<Vec<String>, npcov::Error> {
    Ok(file.map(read_class_names).transpose()?.unwrap_or_default())
}

/// The decision graph of a state: the one that is named, or the one beside it.
fn find_graph(
    pages: &PageArgs,
    state: &Path,
    coverage: &Coverage,
) -> Result<Option<PathBuf>, npcov::Error> {
    if pages.graph.is_some() {
        return Ok(pages.graph.clone());
    }
    let folder = match state.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "npcov"));
    files.sort();
    let is_graph = |file: &&PathBuf| {
        let id = &coverage.state().record().graph;
        GraphFile::open(file).is_ok_and(|graph| graph.record().id == *id)
    };
    Ok(files.iter().take(MOST_FILES).find(is_graph).cloned())
}

/// Where the data may be that a graph was learnt from.
pub(crate) fn training_places(graph: &DecisionGraph) -> Vec<OsString> {
    let file = graph.learnt().file();
    let trained = Path::new(&file.record().data);
    let mut places = vec![trained.into()];
    if let Some(beside) = file.path().and_then(Path::parent) {
        let name = trained.file_name().map(Path::new);
        let names = [Some(trained), name].into_iter().flatten();
        places.extend(names.map(|name| beside.join(name).into()));
    }
    places
}

/// Data that may be that of the suites, or the training data. What is named must be there; what is only looked for need
/// not.
fn find_data(
    args: &ReportArgs,
    config: &Config,
    coverage: &Coverage,
    graph: &DecisionGraph,
    outputs: &mut Outputs,
) -> anyhow::Result<Vec<Loader<'static>>> {
    let mut found = Vec::new();
    for data in &args.pages.data {
        found.push(graph.loader(graph.open_data(data)?)?);
    }
    let folder = args.state.parent().unwrap_or(Path::new(""));
    let mut places: Vec<OsString> = config.own_data().into_iter().collect();
    places.extend(training_places(graph));
    for suite in coverage.state().suites() {
        for name in [suite.name.clone(), format!("{}.npz", suite.name)] {
            places.push(folder.join(name).into());
        }
    }
    for place in places {
        outputs.spare_data(&place)?;
        let opened = graph
            .open_data(place)
            .and_then(|samples| graph.loader(samples));
        found.extend(opened);
    }
    Ok(found)
}
