//! `npcov explain`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::bail;
use npcov::artefact::Kind;
use npcov::coverage::PathExplanation;
use npcov::data::formats::split;
use npcov::data::{Loader, Preprocessing};
use npcov::paths::Choices;
use npcov::run::{Explainer, PathExtractor, PathRows};
use npcov::{DecisionGraph, ExplainOptions, Model, ModelOptions, TraceFile};

use crate::args::{ExplainArgs, Format};
use crate::config::Config;
use crate::output::Outputs;
use crate::printer::Printer;
use crate::progress::ProgressBar;
use crate::samples;

/// Explains one input or all of them, prints the result, and writes relevances, paths and a heat map
/// where wanted.
pub(crate) fn run(args: &ExplainArgs, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let model = config.model(&args.model)?;
    let data = config.data(&args.data)?;
    let heatmap = heatmap_file(args, &data);
    let written = [
        ("--output", args.output.as_deref()),
        ("--heatmap", heatmap.as_deref()),
    ];
    let mut outputs = Outputs::new(config, written)?;
    outputs.spare(&model)?;
    outputs.spare_data(&data)?;
    outputs.spare_all(config.class_names_file(&args.data.classes))?;
    outputs.spare_all(config.vocabulary_file(args.vocabulary.as_deref()))?;
    let mut settings = config.explain(&args.relevance)?;
    // For a single input its own relevance is half of the answer.
    settings.input |= args.index.is_some();
    settings.lost = true;
    let preprocessing = config.preprocessing(&args.data.preprocessing);
    if Kind::of(&model) == Some(Kind::DecisionGraph) {
        return by_graph(
            args,
            config,
            printer,
            (&model, &data, &mut outputs, heatmap),
            settings,
            &preprocessing,
        );
    }
    let options = ModelOptions {
        batch_norm: config.batch_norm(&args.relevance.method),
        ..config.network(&args.model)
    };
    let opened = Model::open_with(&model, &options)?;
    outputs.spare_all(opened.network().files())?;
    let opened = config.prepare(opened, &args.data)?;
    let samples = opened.open_data(&data)?;
    let opened = samples::resolve(opened, &samples, printer)?;
    samples::warn(&opened.warnings(&samples)?, printer);
    let loader = opened.loader(samples)?;
    let network = opened.network();
    // Without path layers it is the whole answer.
    settings.input |= network.layers().is_empty();
    samples::say_preset(&settings.method, network, printer);
    let explainer = Explainer::new(network, &settings).map_err(npcov::Error::from)?;
    let paths = match args.alpha {
        None => None,
        Some(_) if settings.class.is_some() => {
            bail!("`--alpha` and `--class`: a path is that of the predicted class")
        }
        Some(alpha) => Some(Paths {
            choices: config.paths.choices(&args.choices, None, None),
            alpha: vec![alpha; network.classes()],
        }),
    };
    // The explainer has what it needs of the weights.
    drop(opened);
    let job = Job {
        args,
        threads: config.threads(args.run.threads),
        printer,
        heatmap,
        loader: &loader,
        graph: None,
        vocabulary: config.vocabulary(args.vocabulary.as_deref())?,
    };
    job.run(explainer, paths)
}

/// Explains with the model and the settings of a decision graph.
fn by_graph(
    args: &ExplainArgs,
    config: &Config,
    printer: &Printer,
    (graph, data, outputs, heatmap): (&Path, &OsStr, &mut Outputs, Option<PathBuf>),
    settings: ExplainOptions,
    preprocessing: &Preprocessing,
) -> anyhow::Result<()> {
    if let Some(first) = args.fixed_by_graphs().first() {
        bail!(
            "`{}` is a decision graph, which has its own alpha, rules and layers: leave `--{first}` out",
            graph.display()
        );
    }
    let mut graph = DecisionGraph::open_on(graph, None, config.engine(args.model.engine.as_ref()))?;
    outputs.spare_graph(&graph)?;
    if let Some(names) = config.class_names(&args.data.classes)? {
        graph = graph.with_class_names(names)?;
    }
    if let Some(name) = config.label_column(&args.data.classes) {
        graph = graph.with_label_column(&name);
    }
    let learnt = graph.learnt();
    if *preprocessing != Preprocessing::default() {
        learnt
            .require_preprocessing(preprocessing)
            .map_err(npcov::Error::from)?;
    }
    let samples = graph.open_data(data)?;
    samples::warn(&graph.warnings(&samples)?, printer);
    let loader = graph.loader(samples)?;
    let settings = ExplainOptions {
        method: learnt.method().clone(),
        activations: true,
        ..settings
    };
    let explainer = Explainer::new(learnt.network(), &settings).map_err(npcov::Error::from)?;
    let record = learnt.file().record();
    let paths = Paths {
        choices: record.choices.clone(),
        alpha: record.extraction.alpha.clone(),
    };
    let job = Job {
        args,
        threads: config.threads(args.run.threads),
        printer,
        heatmap,
        loader: &loader,
        graph: Some(&graph),
        vocabulary: config.vocabulary(args.vocabulary.as_deref())?,
    };
    job.run(explainer, Some(paths))
}

/// How paths are extracted.
struct Paths {
    choices: Choices,
    /// By class.
    alpha: Vec<f64>,
}

/// What is explained, and where the results go.
struct Job<'a> {
    args: &'a ExplainArgs,
    threads: usize,
    printer: &'a Printer,
    /// Where a heat map goes, if one is drawn.
    heatmap: Option<PathBuf>,
    loader: &'a Loader<'a>,
    graph: Option<&'a DecisionGraph>,
    /// The words for tokens, if there are any.
    vocabulary: Option<Vec<String>>,
}

impl Job<'_> {
    fn run(&self, explainer: Explainer, paths: Option<Paths>) -> anyhow::Result<()> {
        // Paths are taken from the same explanations.
        let extractor = PathExtractor::explaining(
            explainer,
            &paths
                .as_ref()
                .map_or_else(Choices::default, |p| p.choices.clone()),
            paths.as_ref().map_or(&[], |p| &p.alpha),
        )
        .map_err(npcov::Error::from)?;
        let wanted = paths.is_some();
        let mut file = match &self.args.output {
            None => None,
            Some(path) => {
                let file = TraceFile::create(path, extractor.tracer(), self.loader)?;
                Some(match wanted {
                    true => file.with_paths(extractor.layout())?,
                    false => file,
                })
            }
        };
        let text = match self.args.index {
            Some(index) => self.one(&extractor, wanted, index, file.as_mut())?,
            None => self.all(&extractor, wanted, file.as_mut())?,
        };
        if let Some(file) = file {
            file.finish()?;
        }
        self.printer.data(&text)
    }

    fn one(
        &self,
        extractor: &PathExtractor,
        wanted: bool,
        index: usize,
        file: Option<&mut TraceFile<'_>>,
    ) -> anyhow::Result<String> {
        let args = self.args;
        // Said before the work, as all that is not quite as wanted.
        let has_tokens = extractor.explainer().signature().tokens().is_some();
        let heatmap = self.heatmap.as_ref().filter(|_| {
            let image = self.loader.image().is_some();
            if !image && !has_tokens {
                let message = "no heat map: the inputs are no images";
                self.printer.warning(message);
            }
            image
        });
        let mut explained =
            npcov::explain_one(extractor.explainer(), self.loader, index, args.top)?;
        if let Some(vocabulary) = &self.vocabulary {
            explained.explanation.name_tokens(vocabulary);
        }
        let mut paths = PathRows::default();
        if wanted {
            extractor
                .extract(&explained.batch, &mut paths)
                .map_err(npcov::Error::from)?;
            explained.explanation.path = Some(match self.graph {
                Some(graph) => graph.path(extractor, &explained.explanation, &paths)?,
                None => {
                    let class = explained.explanation.prediction.class;
                    PathExplanation::of(extractor, class, &paths)
                }
            });
        }
        if let Some(file) = file {
            let class = explained.explanation.prediction.class;
            file.append(&explained.batch, &[class])?;
            file.append_paths(extractor.layout(), &paths)?;
        }
        if let (Some(path), Some(picture)) =
            (heatmap, npcov_report::Heatmap::of(&explained, self.loader)?)
        {
            picture.write(path)?;
            explained.explanation.heatmap = Some(path.display().to_string());
        }
        Ok(match args.run.print.format {
            Format::Text => npcov_report::explanation(&explained.explanation),
            Format::Json => npcov_report::json(&explained.explanation),
        })
    }

    fn all(
        &self,
        extractor: &PathExtractor,
        wanted: bool,
        mut file: Option<&mut TraceFile<'_>>,
    ) -> anyhow::Result<String> {
        let args = self.args;
        let inputs = args.limit.range(self.loader.len());
        let mut progress = ProgressBar::new(inputs.len(), self.printer);
        let mut paths = PathRows::default();
        let explanations = npcov::explain_all::<npcov::Error>(
            extractor.explainer(),
            self.loader,
            inputs,
            self.threads,
            args.top,
            |batch, classes| {
                progress.finished(classes.len())?;
                let Some(file) = file.as_mut() else {
                    return Ok(());
                };
                if wanted {
                    extractor.extract(batch, &mut paths)?;
                    file.append_paths(extractor.layout(), &paths)?;
                }
                file.append(batch, classes)
            },
        )?;
        drop(progress);
        Ok(match args.run.print.format {
            Format::Text => npcov_report::explanations(&explanations),
            Format::Json => npcov_report::json(&explanations),
        })
    }
}

/// The file for the heat map of an input: the one that is named, or one named after the data, in the current folder.
fn heatmap_file(args: &ExplainArgs, data: &OsStr) -> Option<PathBuf> {
    let index = args.index.filter(|_| !args.no_heatmap)?;
    Some(args.heatmap.clone().unwrap_or_else(|| {
        let (path, _) = split(data);
        let mut name = match path.file_stem() {
            Some(stem) => stem.to_owned(),
            None => OsString::from("input"),
        };
        name.push(format!("-{index}-heatmap.png"));
        name.into()
    }))
}
