//! Why an artefact cannot be used.

use npcov_criteria::NamedCriterionError;
use npcov_data::DataError;

/// Why an artefact cannot be read, written or merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArtefactError {
    /// A file cannot be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A file is no artefact that can be used.
    #[error("`{file}`: {reason}")]
    Artefact {
        /// The file.
        file: String,
        /// Why not.
        reason: String,
    },
    /// A model is where an artefact should be.
    #[error("`{file}` is an ONNX model, not {wanted}")]
    IsModel {
        /// The file.
        file: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// Artefacts do not belong together.
    #[error("`{file}` does not fit:{}", listed(.differences))]
    Mismatch {
        /// The file.
        file: String,
        /// What differs.
        differences: Vec<String>,
    },
    /// A state was measured with another decision graph, of which nothing can be compared.
    #[error("`{file}` is of another decision graph")]
    AnotherGraph {
        /// The file.
        file: String,
        /// The digest of its graph.
        found: String,
        /// The digest of the graph that is meant.
        expected: String,
    },
    /// Parts that should be joined are not all there, or not all of one piece.
    #[error("`{folder}` cannot be joined, {} of {all} parts are wrong:{}", .wrong.len(), listed(.wrong))]
    Parts {
        /// The folder of parts.
        folder: String,
        /// How many parts there should be.
        all: usize,
        /// What is wrong, by part.
        wrong: Vec<String>,
    },
    /// Inputs would count twice.
    #[error("suite `{suite}`: inputs {start} to {} were measured twice", .end.saturating_sub(1))]
    Overlap {
        /// The suite.
        suite: String,
        /// The first such input.
        start: usize,
        /// The one behind the last.
        end: usize,
    },
    /// A criterion cannot be measured.
    #[error(transparent)]
    Criterion(#[from] NamedCriterionError),
    /// A state has no suite of the name that was asked for.
    #[error("there is no suite `{name}`; there are {}", .suites.join(", "))]
    NoSuchSuite {
        /// The name asked for.
        name: String,
        /// The names there are.
        suites: Vec<String>,
    },
    /// No state is given.
    #[error("there is nothing to merge")]
    NothingToMerge,
    /// A record cannot be written as JSON.
    #[error("cannot write a record: {0}")]
    Json(serde_json::Error),
}

/// Differences that are listed.
const LISTED: usize = 12;

/// Differences, one a line.
fn listed(differences: &[String]) -> String {
    let shown = differences.iter().take(LISTED);
    let mut text: String = shown
        .map(|difference| format!("\n  {difference}"))
        .collect();
    if let more @ 1.. = differences.len().saturating_sub(LISTED) {
        text += &format!("\n  and {more} more");
    }
    text
}
