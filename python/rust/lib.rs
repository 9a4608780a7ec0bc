//! npcov as a module of Python: thin over `npcov_cli::embed`, which reads options in the words of the command
//! line.
//!
//! What is here is private to the Python package beside it (`python/npcov`), which has the names, types and
//! manners of Python. Verbs take flags and give JSON, text and arrays.

mod array;
mod coverage;
mod error;
mod graph;
mod model;
mod mutation;
mod parts;
mod samples;
mod work;

use std::ffi::OsString;

use npcov_cli::embed::{self, OptionInfo};
use pyo3::prelude::*;

/// JSON, text, and what the command line would warn of.
type Told = (String, String, Vec<String>);

fn told(answer: embed::Answer, warnings: Vec<String>) -> Told {
    (answer.json, answer.text, warnings)
}

/// Runs the command line, and gives its exit code.
#[pyfunction]
fn run_command(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| npcov_cli::run_command(words))
}

/// The options of a verb, or of models: name, whether it has a value, whether it repeats, what it means.
#[pyfunction]
fn options(verb: &str) -> Option<Vec<(String, bool, bool, String)>> {
    let found = match verb {
        "model" => Some(embed::model_options()),
        verb => embed::options(verb),
    };
    let tuple = |o: OptionInfo| (o.name, o.takes_value, o.repeats, o.help);
    Some(found?.into_iter().map(tuple).collect())
}

/// Private to the package `npcov`.
#[pymodule]
mod _npcov {
    #[pymodule_export]
    use super::array::Array;
    #[pymodule_export]
    use super::coverage::{Coverage, CoverageFile, CoverageUnion};
    #[pymodule_export]
    use super::graph::DecisionGraph;
    #[pymodule_export]
    use super::model::{Model, compile, inspect};
    #[pymodule_export]
    use super::mutation::Killed;
    #[pymodule_export]
    use super::parts::{
        answer_block, bad_rows, build_part, cluster_spread, cover_part, excerpt, look,
        missing_parts, part_rows,
    };
    #[pymodule_export]
    use super::samples::Samples;
    #[pymodule_export]
    use super::{options, run_command};

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        use pyo3::types::PyModuleMethods;
        npcov::data::silence_contained_panics();
        module.add("version", env!("CARGO_PKG_VERSION"))
    }
}
