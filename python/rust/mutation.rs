//! What suites notice of models with something wrong in them.

use std::path::PathBuf;

use npcov::mutate::MutationState;
use npcov_cli::embed::mutation;
use pyo3::prelude::*;

use crate::error::{raised, raised_from};
use crate::{Told, told};

/// What suites have killed of mutants.
#[pyclass(frozen, module = "npcov._npcov")]
pub(crate) struct Killed(pub(crate) MutationState);

#[pymethods]
impl Killed {
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Killed> {
        let read = py.detach(|| MutationState::read(path));
        read.map(Killed).map_err(|error| raised_from(py, error))
    }

    /// Whether a file begins like one of these.
    #[staticmethod]
    fn is_file(path: PathBuf) -> bool {
        MutationState::is_file(path)
    }

    /// Writes it to a file, whole or not at all.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let saved = py.detach(|| self.0.save(path));
        saved.map_err(|error| raised_from(py, error))
    }

    /// What any of them kills.
    fn merged(&self, py: Python<'_>, others: Vec<Bound<'_, Killed>>) -> PyResult<Killed> {
        let others: Vec<_> = others.iter().map(|other| &other.get().0).collect();
        let merged = mutation::merged(&self.0, &others);
        merged.map(Killed).map_err(|error| raised(py, &error))
    }

    /// What it is worth.
    fn report(&self) -> Told {
        told(mutation::answer(&self.0), Vec::new())
    }
}
