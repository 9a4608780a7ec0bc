//! Coverage states.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use npcov::artefact::{CoverageState, StateUnion};
use npcov::data::safetensors::SafetensorsReader;
use npcov_cli::embed::{Listener, coverage};
use pyo3::prelude::*;

use crate::error::{raised, raised_from};
use crate::graph::DecisionGraph;
use crate::samples::Samples;
use crate::work::work;
use crate::{Told, told};

/// What suites cover of a decision graph.
#[pyclass(frozen, module = "npcov._npcov")]
pub(crate) struct Coverage(pub(crate) npcov::Coverage);

/// What a report is as JSON and text, as Markdown, and as JUnit XML.
type Reported = (Told, String, String);

fn reported(written: coverage::Written, warnings: Vec<String>) -> Reported {
    let coverage::Written {
        answer,
        markdown,
        junit,
    } = written;
    (told(answer, warnings), markdown, junit)
}

#[pymethods]
impl Coverage {
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Coverage> {
        let opened = py.detach(|| npcov::Coverage::open(path));
        opened.map(Coverage).map_err(|error| raised_from(py, error))
    }

    /// Writes it to a file, whole or not at all.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let saved = py.detach(|| self.0.save(path));
        saved.map_err(|error| raised_from(py, error))
    }

    /// Writes what is known of every input to an npz file.
    fn write_inputs(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let written = py.detach(|| self.0.write_inputs(path));
        written.map_err(|error| raised_from(py, error))
    }

    /// What tells its graph from all others.
    #[getter]
    fn graph(&self) -> &str {
        &self.0.state().record().graph
    }

    /// The suites, each with its number of inputs.
    #[getter]
    fn suites(&self) -> Vec<(String, usize)> {
        let suites = self.0.state().suites().iter();
        suites.map(|s| (s.name.clone(), s.inputs.len())).collect()
    }

    /// Both together; with `name`, as one suite.
    #[pyo3(signature = (others, name=None))]
    fn merged(
        &self,
        py: Python<'_>,
        others: Vec<Bound<'_, Coverage>>,
        name: Option<&str>,
    ) -> PyResult<Coverage> {
        let all = [&self.0]
            .into_iter()
            .chain(others.iter().map(|c| &c.get().0));
        let mut merged: Option<npcov::Coverage> = None;
        for coverage in all {
            let mut state = coverage.clone().into_state();
            if let Some(name) = name {
                state = state.named(name).map_err(|error| raised_from(py, error))?;
            }
            let next = npcov::Coverage::new(state);
            match &mut merged {
                None => merged = Some(next),
                Some(merged) => merged.merge(next).map_err(|error| raised_from(py, error))?,
            }
        }
        Ok(Coverage(merged.unwrap_or_else(|| self.0.clone())))
    }

    /// The same where classes should be as frequent as `shares` says.
    fn with_class_shares(&self, py: Python<'_>, shares: &str) -> PyResult<Coverage> {
        let expecting = coverage::with_class_shares(self.0.clone(), shares);
        expecting.map(Coverage).map_err(|error| raised(py, &error))
    }

    #[pyo3(signature = (flags, against=None, graph=None, data=Vec::new(), pool=None, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "called by name, from Python")]
    fn report(
        &self,
        py: Python<'_>,
        flags: Vec<String>,
        against: Option<&Coverage>,
        graph: Option<&DecisionGraph>,
        data: Vec<Bound<'_, Samples>>,
        pool: Option<&Samples>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Reported> {
        let (own, against) = (self.0.clone(), against.map(|c| c.0.clone()));
        let shown = coverage::Shown {
            graph: graph.map(|graph| graph.0.clone()),
            data: data.iter().map(|data| data.get().0.clone()).collect(),
            pool: pool.map(|pool| pool.0.clone()),
        };
        let (written, warnings) = work(py, progress, move |listener| {
            coverage::report(own, against.as_ref(), &shown, &flags, listener)
        })?;
        Ok(reported(written, warnings))
    }

    #[pyo3(signature = (flags, against=None))]
    fn check(
        &self,
        py: Python<'_>,
        flags: Vec<String>,
        against: Option<&Coverage>,
    ) -> PyResult<(bool, Reported)> {
        let (own, against) = (self.0.clone(), against.map(|c| &c.0));
        let found = py.detach(|| {
            let mut nothing = ();
            let mut listener = Listener::new(&mut nothing);
            let (passed, written) = coverage::check(own, against, &flags, &mut listener)?;
            Ok((passed, written, listener.warnings))
        });
        let (passed, written, warnings) = found.map_err(|error| raised(py, &error))?;
        Ok((passed, reported(written, warnings)))
    }

    /// Whether both say the same of the same inputs, by the same graph and choices.
    fn __eq__(&self, other: &Coverage) -> bool {
        let (own, other) = (self.0.state(), other.0.state());
        own.suites() == other.suites() && own.require(other.record(), Path::new("")).is_ok()
    }
}

/// The file of a coverage state that is open, but not read yet: it may be replaced or removed until then.
#[pyclass(frozen, module = "npcov._npcov")]
pub(crate) struct CoverageFile(SafetensorsReader);

#[pymethods]
impl CoverageFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<CoverageFile> {
        let opened = SafetensorsReader::open(path);
        opened
            .map(CoverageFile)
            .map_err(|error| raised_from(py, error))
    }

    fn read(&self, py: Python<'_>) -> PyResult<Coverage> {
        let read = py.detach(|| CoverageState::from_reader(&self.0));
        let state = read.map_err(|error| raised_from(py, error))?;
        Ok(Coverage(npcov::Coverage::new(state)))
    }
}

/// Coverage states in files, united into another file without holding what they say of single inputs.
#[pyclass(frozen, module = "npcov._npcov")]
pub(crate) struct CoverageUnion(Mutex<StateUnion>);

#[pymethods]
impl CoverageUnion {
    #[new]
    fn new() -> CoverageUnion {
        CoverageUnion(Mutex::default())
    }

    /// Adds a file, which must stay as it is until the end.
    fn add(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let added = py.detach(|| self.lock().add(&path));
        added.map_err(|error| raised_from(py, error))
    }

    /// Writes the union, whole or not at all. Nothing is left of it here.
    fn finish(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let written = py.detach(|| std::mem::take(&mut *self.lock()).finish(&path));
        written.map_err(|error| raised_from(py, error))
    }
}

impl CoverageUnion {
    fn lock(&self) -> MutexGuard<'_, StateUnion> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
