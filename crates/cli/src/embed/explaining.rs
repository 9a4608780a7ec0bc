//! Explanations with all their numbers.

use std::path::Path;

use anyhow::bail;
use npcov::coverage::PathExplanation;
use npcov::data::Loader;
use npcov::paths::Choices;
use npcov::run::{Explainer, PathExtractor, PathRows};
use npcov::{DecisionGraph, ExplainOptions, Model, TraceArrays, TraceFile};

use super::model::Numbers;
use super::{Answer, Data, Listener};
use crate::args::ExplainArgs;
use crate::config::Config;
use crate::samples;

/// What is explained, and how.
pub(super) struct Job<'a> {
    args: &'a ExplainArgs,
    threads: usize,
    loader: Loader<'static>,
    graph: Option<&'a DecisionGraph>,
    /// The words for tokens, if there are any.
    vocabulary: Option<Vec<String>>,
    extractor: PathExtractor,
    /// Whether paths are wanted as well.
    paths: bool,
}

impl<'a> Job<'a> {
    pub(super) fn of_model(
        model: &Model,
        data: &Data,
        args: &'a ExplainArgs,
        listener: &mut Listener<'_>,
    ) -> anyhow::Result<Job<'a>> {
        let config = Config::default();
        let mut settings = config.explain(&args.relevance)?;
        // Without path layers it is the whole answer.
        settings.input |= args.index.is_some() || model.network().layers().is_empty();
        settings.lost = true;
        let samples = data.for_model(model)?;
        let (model, notes) = model.for_data(&samples)?;
        listener.warn(notes);
        listener.warn(model.warnings(&samples)?);
        let alpha = match args.alpha {
            Some(_) if settings.class.is_some() => {
                bail!("`--alpha` and `--class`: a path is that of the predicted class")
            }
            Some(alpha) => vec![alpha; model.network().classes()],
            None => Vec::new(),
        };
        let choices = match args.alpha {
            Some(_) => config.paths.choices(&args.choices, None, None),
            None => Choices::default(),
        };
        listener.warn(samples::preset_note(&settings.method, model.network()));
        let explainer = Explainer::new(model.network(), &settings).map_err(npcov::Error::from)?;
        let extractor = PathExtractor::explaining(explainer, &choices, &alpha);
        Ok(Job {
            args,
            threads: model.threads(),
            loader: model.loader(samples)?,
            graph: None,
            vocabulary: config.vocabulary(args.vocabulary.as_deref())?,
            extractor: extractor.map_err(npcov::Error::from)?,
            paths: args.alpha.is_some(),
        })
    }

    pub(super) fn of_graph(
        graph: &'a DecisionGraph,
        data: &Data,
        args: &'a ExplainArgs,
        listener: &mut Listener<'_>,
    ) -> anyhow::Result<Job<'a>> {
        let config = Config::default();
        let mut settings = config.explain(&args.relevance)?;
        if let Some(first) = args.fixed_by_graphs().first() {
            bail!(
                "a decision graph has its own alpha, rules and layers: leave `{}` out",
                first.replace('-', "_")
            );
        }
        settings.input |= args.index.is_some();
        settings.lost = true;
        let samples = data.for_model(graph.model())?;
        listener.warn(graph.warnings(&samples)?);
        let learnt = graph.learnt();
        let settings = ExplainOptions {
            method: learnt.method().clone(),
            activations: true,
            ..settings
        };
        let record = learnt.file().record();
        let explainer = Explainer::new(learnt.network(), &settings).map_err(npcov::Error::from)?;
        let alpha = &record.extraction.alpha;
        let extractor = PathExtractor::explaining(explainer, &record.choices, alpha);
        Ok(Job {
            args,
            threads: graph.model().threads(),
            loader: graph.loader(samples)?,
            graph: Some(graph),
            vocabulary: config.vocabulary(args.vocabulary.as_deref())?,
            extractor: extractor.map_err(npcov::Error::from)?,
            paths: true,
        })
    }

    /// Explains, and keeps the numbers in a file or in memory.
    pub(super) fn run(
        &self,
        output: Option<&Path>,
        listener: &mut Listener<'_>,
    ) -> anyhow::Result<Numbers> {
        let layout = self.extractor.layout();
        let mut target = match output {
            Some(path) => {
                let file = TraceFile::create(path, self.extractor.tracer(), &self.loader)?;
                Target::File(match self.paths {
                    true => file.with_paths(layout)?,
                    false => file,
                })
            }
            None => {
                let arrays = TraceArrays::new(self.extractor.tracer());
                Target::Memory(match self.paths {
                    true => arrays.with_paths(layout),
                    false => arrays,
                })
            }
        };
        let (answer, picture) = match self.args.index {
            Some(index) => self.one(index, &mut target)?,
            None => (self.all(&mut target, listener)?, None),
        };
        let arrays = match target {
            Target::Memory(arrays) => arrays.finish(),
            Target::File(file) => {
                file.finish()?;
                Vec::new()
            }
        };
        Ok(Numbers {
            answer,
            arrays,
            picture,
        })
    }

    fn one(
        &self,
        index: usize,
        target: &mut Target<'_>,
    ) -> anyhow::Result<(Answer, Option<Vec<u8>>)> {
        let extractor = &self.extractor;
        let explainer = extractor.explainer();
        let mut explained = npcov::explain_one(explainer, &self.loader, index, self.args.top)?;
        if let Some(vocabulary) = &self.vocabulary {
            explained.explanation.name_tokens(vocabulary);
        }
        let class = explained.explanation.prediction.class;
        let mut paths = PathRows::default();
        if self.paths {
            let extracted = extractor.extract(&explained.batch, &mut paths);
            extracted.map_err(npcov::Error::from)?;
            explained.explanation.path = Some(match self.graph {
                Some(graph) => graph.path(extractor, &explained.explanation, &paths)?,
                None => PathExplanation::of(extractor, class, &paths),
            });
        }
        target.append(extractor, &explained.batch, &[class], &paths)?;
        let picture = match npcov_report::Heatmap::of(&explained, &self.loader)? {
            Some(picture) => Some(picture.to_png()?),
            None => None,
        };
        let text = npcov_report::explanation(&explained.explanation);
        Ok((Answer::new(&explained.explanation, text), picture))
    }

    fn all(&self, target: &mut Target<'_>, listener: &mut Listener<'_>) -> anyhow::Result<Answer> {
        let inputs = self.args.limit.range(self.loader.len());
        let mut paths = PathRows::default();
        let explanations = npcov::explain_all::<npcov::Error>(
            self.extractor.explainer(),
            &self.loader,
            inputs,
            self.threads,
            self.args.top,
            |batch, classes| {
                let finished = npcov::Event::Finished(classes.len());
                listener.progress.tell(finished)?;
                if self.paths {
                    self.extractor.extract(batch, &mut paths)?;
                }
                target.append(&self.extractor, batch, classes, &paths)
            },
        )?;
        let text = npcov_report::explanations(&explanations);
        Ok(Answer::new(&explanations, text))
    }
}

/// Where numbers go.
enum Target<'d> {
    File(TraceFile<'d>),
    Memory(TraceArrays),
}

impl Target<'_> {
    /// Takes a batch, the classes of its inputs, and their paths where there are any.
    fn append(
        &mut self,
        extractor: &PathExtractor,
        batch: &npcov::run::TracedRows,
        classes: &[usize],
        paths: &PathRows,
    ) -> Result<(), npcov::Error> {
        let layout = extractor.layout();
        match self {
            Target::File(file) => {
                file.append(batch, classes)?;
                file.append_paths(layout, paths)
            }
            Target::Memory(arrays) => {
                arrays.append(batch, classes);
                arrays.append_paths(layout, paths);
                Ok(())
            }
        }
    }
}
