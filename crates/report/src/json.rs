//! Results as versioned JSON.

use serde::{Deserialize, Serialize};

/// Version of the JSON format. It grows when a field changes its meaning, its type or disappears;
/// fields may be added without it, so readers pass over fields that they do not know.
pub const FORMAT: u32 = 1;

/// A result with what a reader must know to understand it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document<T> {
    /// Who wrote it, and in which format.
    pub npcov: ResultHeader,
    /// The result; its fields stand next to `npcov`.
    #[serde(flatten)]
    pub result: T,
}

/// Who wrote a document, and in which format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultHeader {
    /// The [format](FORMAT).
    pub format: u32,
    /// The version of npcov.
    pub version: String,
}

/// A result as JSON, indented, with a newline at the end.
pub fn json<T: Serialize>(result: &T) -> String {
    let document = Document {
        npcov: ResultHeader {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        result,
    };
    // Results hold no map with keys other than strings, the only thing that fails here.
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}
