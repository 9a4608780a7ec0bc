//! Errors of npcov as exceptions of Python.

use npcov_cli::embed::{Failure, FailureKind};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// The exception for an error: one of `npcov.errors`, with the message and the hint of the command line.
pub(crate) fn raised(py: Python<'_>, error: &anyhow::Error) -> PyErr {
    let Failure {
        kind,
        message,
        hint,
    } = Failure::of(error);
    let name = match kind {
        FailureKind::Model => "ModelError",
        FailureKind::Data => "DataError",
        FailureKind::Artefact => "ArtefactError",
        FailureKind::Option => "OptionError",
        FailureKind::Other => "NpcovError",
        FailureKind::Stopped => return PyKeyboardInterrupt::new_err(message),
    };
    let exception = py
        .import("npcov.errors")
        .and_then(|module| module.getattr(name)?.call1((message, hint)));
    match exception {
        Ok(exception) => PyErr::from_value(exception),
        Err(other) => other,
    }
}

/// Anything that npcov or a part of it says.
pub(crate) fn raised_from(py: Python<'_>, error: impl Into<npcov::Error>) -> PyErr {
    raised(py, &anyhow::Error::from(error.into()))
}
