//! A decision graph, and what suites can be held against it.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use npcov_artefact::{FinishedPart, GraphFile};
use npcov_coverage::{
    CoverOptions, CoverTarget, Coverage, GapOptions, Gaps, GraphInspection, LearntGraph,
    Measurement, PathExplanation, SuiteSource,
};
use npcov_data::{Loader, Samples};
use npcov_engine::Engine;
use npcov_graph::OnnxModel;
use npcov_run::{ExplainOptions, Explainer, Part, PathExtractor, PathRows, Progress};
use npcov_select::{Minimization, MinimizeOptions, SelectOptions, Selection};

use crate::error::Error;
use crate::explain::{Explanation, explain_one};
use crate::inputs::Inputs;
use crate::model::Model;

/// Typical training inputs that are named where an input is placed in the graph.
const EXEMPLARS: usize = 5;

/// The decision logic of a model, learnt from its training data: what suites are measured against.
///
/// Clones share the graph.
#[derive(Clone)]
pub struct DecisionGraph {
    graph: Arc<LearntGraph>,
    model: Model,
    /// Whether inputs come as the program that hands them over preprocesses them.
    preprocessed: bool,
}

/// A suite: a name and inputs.
pub struct Suite<'a> {
    /// Its name.
    pub name: String,
    /// Its inputs.
    pub inputs: Inputs<'a>,
}

impl<'a> Suite<'a> {
    /// Inputs under a name.
    pub fn new(name: impl Into<String>, inputs: impl Into<Inputs<'a>>) -> Suite<'a> {
        Suite {
            name: name.into(),
            inputs: inputs.into(),
        }
    }
}

impl DecisionGraph {
    /// Opens a decision graph and the model beside it that it names.
    pub fn open(path: impl AsRef<Path>) -> Result<DecisionGraph, Error> {
        DecisionGraph::open_with(path, None)
    }

    /// The same with a model that is elsewhere. Another model than the graph was learnt from is
    /// refused.
    pub fn open_with(path: impl AsRef<Path>, model: Option<&Path>) -> Result<DecisionGraph, Error> {
        DecisionGraph::open_on(path, model, None)
    }

    /// The same on an engine that was asked for, which may be another one than the graph was learnt with.
    pub fn open_on(
        path: impl AsRef<Path>,
        model: Option<&Path>,
        engine: Option<Arc<dyn Engine>>,
    ) -> Result<DecisionGraph, Error> {
        let graph = LearntGraph::open_on(path, model, engine)?;
        Ok(DecisionGraph::ready(graph))
    }

    /// A decision graph and its model from the bytes of their files.
    pub fn from_bytes(
        graph: impl Into<Vec<u8>>,
        model: impl Into<Vec<u8>>,
    ) -> Result<DecisionGraph, Error> {
        DecisionGraph::from_bytes_on(graph, model, None)
    }

    /// The same on an engine that was asked for.
    pub fn from_bytes_on(
        graph: impl Into<Vec<u8>>,
        model: impl Into<Vec<u8>>,
        engine: Option<Arc<dyn Engine>>,
    ) -> Result<DecisionGraph, Error> {
        let file = GraphFile::from_bytes(graph.into())?;
        let model = OnnxModel::from_bytes(model.into())?;
        let graph = LearntGraph::of(file, model, "the model in memory", engine)?;
        Ok(DecisionGraph::ready(graph))
    }

    fn ready(graph: LearntGraph) -> DecisionGraph {
        let threads = Model::of(graph.network().clone()).threads();
        DecisionGraph::of(graph, threads)
    }

    pub(crate) fn of(graph: LearntGraph, threads: usize) -> DecisionGraph {
        let mut model = Model::of(graph.network().clone())
            .with_threads(threads)
            .with_preprocessing(graph.preprocessing().clone());
        if let Some(names) = graph.class_names() {
            model = model.named(names);
        }
        DecisionGraph {
            graph: Arc::new(graph),
            model,
            preprocessed: false,
        }
    }

    /// The same with other names of its classes, as [`Model::with_class_names`] has them; those of its
    /// training data by default.
    pub fn with_class_names(mut self, names: Vec<String>) -> Result<DecisionGraph, Error> {
        self.model = self.model.with_class_names(names)?;
        Ok(self)
    }

    /// The same with labels in a column of this name, or in an array of an npz file.
    pub fn with_label_column(mut self, name: &str) -> DecisionGraph {
        self.model = self.model.with_label_column(name);
        self
    }

    /// Opens a file or folder of data, for the inputs that its model has.
    pub fn open_data(&self, spec: impl AsRef<OsStr>) -> Result<Arc<dyn Samples>, Error> {
        self.model.open_data(spec)
    }

    /// The same on so many threads; on all cores by default. No result depends on it.
    pub fn with_threads(mut self, threads: usize) -> DecisionGraph {
        self.model = self.model.with_threads(threads);
        self
    }

    /// The same for a program that preprocesses inputs as it did with the training data, before it hands
    /// them over.
    pub fn with_preprocessed_inputs(mut self) -> DecisionGraph {
        self.preprocessed = true;
        self
    }

    /// What a program did with the training data before it handed it over, unless it does so now.
    pub(crate) fn lacking_preprocessing(&self) -> Option<&str> {
        let by_caller = self.graph.preprocessing().by_caller.as_deref();
        by_caller.filter(|_| !self.preprocessed)
    }

    /// Writes it to a file, whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let model = self.graph.network().file();
        Ok(self.graph.file().save(path.as_ref(), model)?)
    }

    /// The model it was learnt from, with the preprocessing of its training data.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What it is made of.
    pub fn learnt(&self) -> &LearntGraph {
        &self.graph
    }

    /// Its classes, clusters and abstract paths.
    pub fn inspect(&self) -> Result<GraphInspection, Error> {
        Ok(GraphInspection::of(self.graph.file())?)
    }

    /// Samples as its model wants them.
    pub fn loader<'a>(&self, samples: Arc<dyn Samples + 'a>) -> Result<Loader<'a>, Error> {
        self.model.loader(samples)
    }

    /// Measures a suite by all criteria that the graph was built for, in memory.
    pub fn cover<'a>(
        &self,
        name: &str,
        inputs: impl Into<Inputs<'a>>,
        progress: &mut dyn Progress,
    ) -> Result<Coverage, Error> {
        self.cover_with(name, inputs, &CoverOptions::default(), progress)
    }

    /// The same by other criteria, or with other choices.
    pub fn cover_with<'a>(
        &self,
        name: &str,
        inputs: impl Into<Inputs<'a>>,
        options: &CoverOptions,
        progress: &mut dyn Progress,
    ) -> Result<Coverage, Error> {
        let measurement = self.graph.measurement(options)?;
        self.model.with_inputs(inputs, |_, inputs| {
            Ok(measurement.cover(name, inputs, progress)?)
        })
    }

    /// Measures several suites, in memory.
    pub fn cover_suites(
        &self,
        suites: &[Suite<'_>],
        options: &CoverOptions,
        progress: &mut dyn Progress,
    ) -> Result<Coverage, Error> {
        self.cover_into(suites, options, CoverTarget::default(), progress)
    }

    /// Measures suites and writes their coverage to a file; with `earlier`, added to that. Finished
    /// shards are kept in a folder beside it until the file is whole: a run that is cut off goes on
    /// where it was, and gives the same bytes.
    pub fn cover_file(
        &self,
        suites: &[Suite<'_>],
        options: &CoverOptions,
        earlier: Option<Coverage>,
        path: impl AsRef<Path>,
        progress: &mut dyn Progress,
    ) -> Result<Coverage, Error> {
        let target = CoverTarget {
            output: Some(path.as_ref()),
            earlier,
            ..CoverTarget::default()
        };
        self.cover_into(suites, options, target, progress)
    }

    fn cover_into(
        &self,
        suites: &[Suite<'_>],
        options: &CoverOptions,
        target: CoverTarget<'_>,
        progress: &mut dyn Progress,
    ) -> Result<Coverage, Error> {
        let mut loaders = Vec::new();
        for suite in suites {
            loaders.push(self.loader(suite.inputs.samples().clone())?);
        }
        let sources = suites.iter().zip(&loaders);
        let sources: Vec<SuiteSource<'_>> = sources
            .map(|(suite, data)| SuiteSource {
                name: suite.name.clone(),
                data,
                range: suite.inputs.range(),
            })
            .collect();
        let target = CoverTarget {
            threads: self.model.threads(),
            ..target
        };
        let measurement = self.graph.measurement(options)?;
        let coverage = npcov_coverage::cover(&measurement, &sources, target, progress)?;
        Ok(coverage)
    }

    /// Explains the input at a position: which neurons decided, its critical decision path, and where
    /// that is in the graph. `top` neurons are named in each layer.
    pub fn explain(
        &self,
        samples: &dyn Samples,
        index: usize,
        top: usize,
    ) -> Result<Explanation, Error> {
        let record = self.graph.file().record();
        let options = ExplainOptions {
            method: self.graph.method().clone(),
            activations: true,
            input: true,
            ..ExplainOptions::default()
        };
        let explainer = Explainer::new(self.graph.network(), &options)?;
        let alpha = &record.extraction.alpha;
        let extractor = PathExtractor::explaining(explainer, &record.choices, alpha)?;
        let data = self.loader(Arc::new(samples))?;
        let explained = explain_one(extractor.explainer(), &data, index, top)?;
        let mut explanation = explained.explanation;
        let mut paths = PathRows::default();
        extractor.extract(&explained.batch, &mut paths)?;
        explanation.path = Some(self.path(&extractor, &explanation, &paths)?);
        Ok(explanation)
    }

    /// The path of an explained input, the only one of `paths`, and its place in the graph.
    pub fn path(
        &self,
        extractor: &PathExtractor,
        explanation: &Explanation,
        paths: &PathRows,
    ) -> Result<PathExplanation, Error> {
        let mut path = PathExplanation::of(extractor, explanation.prediction.class, paths);
        path.placement = Some(self.placing()?.place(paths, EXEMPLARS)?);
        Ok(path)
    }

    /// Measures nothing: what an input's place is, the graph's own choices say.
    fn placing(&self) -> Result<Measurement<'_>, Error> {
        let nothing = CoverOptions {
            criteria: Some(Vec::new()),
            ..CoverOptions::default()
        };
        Ok(self.graph.measurement(&nothing)?)
    }

    /// What a suite is missing: its thin classes and clusters, with training inputs that are typical of
    /// them, and how many inputs would fill them.
    pub fn gaps(&self, coverage: &Coverage, options: &GapOptions) -> Result<Gaps, Error> {
        Ok(self.graph.gaps(coverage, options)?)
    }

    /// The same, with inputs of a pool to add; see [`npcov_select::fill_gaps`].
    pub fn fill_gaps<'a>(
        &self,
        coverage: &Coverage,
        pool: impl Into<Inputs<'a>>,
        options: &GapOptions,
        progress: &mut dyn Progress,
    ) -> Result<Gaps, Error> {
        self.fill_into(coverage, pool, options, None, progress)
    }

    /// The same; those inputs are written to an npz file, or, of an image folder, to a folder of links.
    pub fn fill_gaps_file<'a>(
        &self,
        coverage: &Coverage,
        pool: impl Into<Inputs<'a>>,
        options: &GapOptions,
        path: impl AsRef<Path>,
        progress: &mut dyn Progress,
    ) -> Result<Gaps, Error> {
        self.fill_into(coverage, pool, options, Some(path.as_ref()), progress)
    }

    fn fill_into<'a>(
        &self,
        coverage: &Coverage,
        pool: impl Into<Inputs<'a>>,
        options: &GapOptions,
        output: Option<&Path>,
        progress: &mut dyn Progress,
    ) -> Result<Gaps, Error> {
        let graph = &*self.graph;
        self.model.with_inputs(pool, |_, pool| {
            let filled = npcov_select::fill_gaps(graph, coverage, options, pool, output, progress);
            Ok(filled?)
        })
    }

    /// Orders the inputs of a pool by what they are worth, and gives the first.
    pub fn select<'a>(
        &self,
        pool: impl Into<Inputs<'a>>,
        options: &SelectOptions,
        progress: &mut dyn Progress,
    ) -> Result<Selection, Error> {
        self.model.with_inputs(pool, |_, pool| {
            Ok(npcov_select::select(
                &self.graph,
                pool,
                options,
                None,
                progress,
            )?)
        })
    }

    /// The same; those inputs are written to an npz file.
    pub fn select_file<'a>(
        &self,
        pool: impl Into<Inputs<'a>>,
        options: &SelectOptions,
        path: impl AsRef<Path>,
        progress: &mut dyn Progress,
    ) -> Result<Selection, Error> {
        let output = Some(path.as_ref());
        self.model.with_inputs(pool, |_, pool| {
            Ok(npcov_select::select(
                &self.graph,
                pool,
                options,
                output,
                progress,
            )?)
        })
    }

    /// Measures a part of a pool for [`select_file`](DecisionGraph::select_file), and keeps that beside the file that is
    /// to be. When all parts are there, [`join_selection`](DecisionGraph::join_selection) writes it.
    pub fn select_part<'a>(
        &self,
        pool: impl Into<Inputs<'a>>,
        options: &SelectOptions,
        part: Part,
        path: impl AsRef<Path>,
        progress: &mut dyn Progress,
    ) -> Result<FinishedPart, Error> {
        let (graph, path) = (&*self.graph, path.as_ref());
        self.model.with_inputs(pool, |_, pool| {
            let done = npcov_select::select_part(graph, pool, options, part, path, progress);
            Ok(done?)
        })
    }

    /// Selects inputs of a pool whose [parts](DecisionGraph::select_part) were measured: the file has the bytes of one that
    /// is written in one go. Parts that are missing or do not belong together are errors that name them.
    pub fn join_selection<'a>(
        &self,
        pool: impl Into<Inputs<'a>>,
        options: &SelectOptions,
        path: impl AsRef<Path>,
    ) -> Result<Selection, Error> {
        let (graph, path) = (&*self.graph, path.as_ref());
        self.model.with_inputs(pool, |_, pool| {
            Ok(npcov_select::join_selection(graph, pool, options, path)?)
        })
    }

    /// Finds a small part of a suite that covers all that the suite covers.
    pub fn minimize<'a>(
        &self,
        suite: impl Into<Inputs<'a>>,
        options: &MinimizeOptions,
        progress: &mut dyn Progress,
    ) -> Result<Minimization, Error> {
        self.model.with_inputs(suite, |_, suite| {
            Ok(npcov_select::minimize(
                &self.graph,
                suite,
                options,
                None,
                progress,
            )?)
        })
    }

    /// The same; that part is written to an npz file.
    pub fn minimize_file<'a>(
        &self,
        suite: impl Into<Inputs<'a>>,
        options: &MinimizeOptions,
        path: impl AsRef<Path>,
        progress: &mut dyn Progress,
    ) -> Result<Minimization, Error> {
        let output = Some(path.as_ref());
        self.model.with_inputs(suite, |_, suite| {
            Ok(npcov_select::minimize(
                &self.graph,
                suite,
                options,
                output,
                progress,
            )?)
        })
    }
}
