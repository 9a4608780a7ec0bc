//! Decision graphs.

use std::path::PathBuf;

use npcov_cli::embed::graph;
use pyo3::prelude::*;

use crate::coverage::Coverage;
use crate::error::{raised, raised_from};
use crate::model::{Explained, OnnxSource, explained};
use crate::samples::Samples;
use crate::work::work;
use crate::{Told, told};

/// A decision graph with its model.
#[pyclass(frozen, module = "npcov._npcov")]
pub(crate) struct DecisionGraph(pub(crate) npcov::DecisionGraph);

/// Samples as a list.
type Suites<'py> = Vec<(String, Bound<'py, Samples>)>;

#[pymethods]
impl DecisionGraph {
    #[new]
    #[pyo3(signature = (source, model, flags, class_names=None, preprocessed=false))]
    fn new(
        py: Python<'_>,
        source: OnnxSource,
        model: Option<OnnxSource>,
        flags: Vec<String>,
        class_names: Option<Vec<String>>,
        preprocessed: bool,
    ) -> PyResult<DecisionGraph> {
        let model = model.as_ref().map(OnnxSource::get);
        let opened = py.detach(|| graph::open(source.get(), model, &flags, class_names));
        let graph = opened.map_err(|error| raised(py, &error))?;
        Ok(DecisionGraph(match preprocessed {
            true => graph.with_preprocessed_inputs(),
            false => graph,
        }))
    }

    /// Writes it to a file, whole or not at all.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let saved = py.detach(|| self.0.save(path));
        saved.map_err(|error| raised_from(py, error))
    }

    /// What tells it from all others.
    #[getter]
    fn id(&self) -> &str {
        &self.0.learnt().file().record().id
    }

    /// The digest of its model.
    #[getter]
    fn model_sha256(&self) -> &str {
        &self.0.learnt().file().record().extraction.model.sha256
    }

    /// Shape of one input.
    #[getter]
    fn input_shape(&self) -> Vec<usize> {
        self.0.model().network().sample_shape().to_vec()
    }

    /// Names of classes, where training data or somebody gave them.
    #[getter]
    fn class_names(&self) -> Option<Vec<String>> {
        self.0.model().class_names().map(<[String]>::to_vec)
    }

    /// All files that its model was read from.
    #[getter]
    fn model_files(&self) -> Vec<PathBuf> {
        self.0.model().network().files().to_vec()
    }

    /// What its caller did with training data before npcov saw it.
    #[getter]
    fn preprocessed_by(&self) -> Option<String> {
        self.0.learnt().preprocessing().by_caller.clone()
    }

    /// The engine, as it is recorded: its name, how products are added up, kernels.
    #[getter]
    fn engine(&self) -> (String, String, String) {
        let record = self.0.learnt().network().engine().record();
        (record.engine, record.arithmetic, record.kernels)
    }

    /// How many samples there are, read as its model reads them.
    fn count(&self, py: Python<'_>, data: &Samples) -> PyResult<usize> {
        let samples = py.detach(|| data.0.for_model(self.0.model()));
        let samples = samples.map_err(|error| raised(py, &error))?;
        Ok(samples.len())
    }

    fn inspect(&self, py: Python<'_>) -> PyResult<Told> {
        let answer = py.detach(|| graph::inspect(&self.0));
        let answer = answer.map_err(|error| raised(py, &error))?;
        Ok(told(answer, Vec::new()))
    }

    /// For every cluster a picture of typical training inputs, where these are images.
    fn clusters(&self, py: Python<'_>, training: &Samples) -> PyResult<Option<Vec<Vec<u8>>>> {
        let (graph, training) = (self.0.clone(), training.0.clone());
        let (pictures, _) = work(py, None, move |_| graph::clusters(&graph, &training))?;
        Ok(pictures)
    }

    #[pyo3(signature = (suites, flags, earlier=None, output=None, progress=None))]
    fn cover(
        &self,
        py: Python<'_>,
        suites: Suites<'_>,
        flags: Vec<String>,
        earlier: Option<&Coverage>,
        output: Option<PathBuf>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Coverage, Vec<String>)> {
        let graph = self.0.clone();
        let suites = suites.into_iter();
        let suites: Vec<_> = suites.map(|(name, s)| (name, s.get().0.clone())).collect();
        let earlier = earlier.map(|coverage| coverage.0.clone());
        let (coverage, warnings) = work(py, progress, move |listener| {
            graph::cover(
                &graph,
                &suites,
                &flags,
                earlier,
                output.as_deref(),
                listener,
            )
        })?;
        Ok((Coverage(coverage), warnings))
    }

    #[pyo3(signature = (data, flags, output=None, progress=None))]
    fn explain(
        &self,
        py: Python<'_>,
        data: &Samples,
        flags: Vec<String>,
        output: Option<PathBuf>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Explained> {
        let (graph, data) = (self.0.clone(), data.0.clone());
        let (found, warnings) = work(py, progress, move |listener| {
            graph::explain(&graph, &data, &flags, output.as_deref(), listener)
        })?;
        Ok(explained(found, warnings))
    }

    #[pyo3(signature = (coverage, flags, pool=None, shown=Vec::new(), output=None, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "called by name, from Python")]
    fn gaps(
        &self,
        py: Python<'_>,
        coverage: &Coverage,
        flags: Vec<String>,
        pool: Option<&Samples>,
        shown: Vec<Bound<'_, Samples>>,
        output: Option<PathBuf>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Told, Option<Vec<u8>>)> {
        let (graph, coverage) = (self.0.clone(), coverage.0.clone());
        let data = graph::GapData {
            pool: pool.map(|pool| pool.0.clone()),
            shown: shown.iter().map(|data| data.get().0.clone()).collect(),
        };
        let ((answer, picture), warnings) = work(py, progress, move |listener| {
            graph::gaps(
                &graph,
                &coverage,
                &data,
                &flags,
                output.as_deref(),
                listener,
            )
        })?;
        Ok((told(answer, warnings), picture))
    }

    /// Writes training inputs as Parquet files.
    fn export(&self, py: Python<'_>, flags: Vec<String>, folder: PathBuf) -> PyResult<Told> {
        let answer = py.detach(|| graph::export(&self.0, &flags, &folder));
        let answer = answer.map_err(|error| raised(py, &error))?;
        Ok(told(answer, Vec::new()))
    }

    #[pyo3(signature = (pool, flags, given=None, output=None, progress=None))]
    fn select(
        &self,
        py: Python<'_>,
        pool: &Samples,
        flags: Vec<String>,
        given: Option<&Coverage>,
        output: Option<PathBuf>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Told> {
        let (graph, pool) = (self.0.clone(), pool.0.clone());
        let given = given.map(|coverage| coverage.0.clone());
        let (answer, warnings) = work(py, progress, move |listener| {
            graph::select(&graph, &pool, &flags, given, output.as_deref(), listener)
        })?;
        Ok(told(answer, warnings))
    }

    #[pyo3(signature = (suite, flags, given=None, output=None, progress=None))]
    fn minimize(
        &self,
        py: Python<'_>,
        suite: &Samples,
        flags: Vec<String>,
        given: Option<&Coverage>,
        output: Option<PathBuf>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Told> {
        let (graph, suite) = (self.0.clone(), suite.0.clone());
        let given = given.map(|coverage| coverage.0.clone());
        let (answer, warnings) = work(py, progress, move |listener| {
            graph::minimize(&graph, &suite, &flags, given, output.as_deref(), listener)
        })?;
        Ok(told(answer, warnings))
    }
}
