//! Results as versioned JSON.

use serde::{Deserialize, Serialize};

use crate::visible::is_obeyed;

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
    let text = serde_json::to_string_pretty(&document).unwrap_or_default();
    plain(&text) + "\n"
}

/// JSON that can be shown: what a terminal would obey is escaped. Beyond lines, such characters stand in strings only.
fn plain(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '\n' => text.push('\n'),
            // All of them have four digits.
            other if is_obeyed(other) => text += &format!("\\u{:04x}", u32::from(other)),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of every size, and next to each other.
    #[test]
    fn numbers_are_read_back_to_the_last_bit() {
        let mut bits = 1_u64;
        for i in 0..20_000 {
            // An odd factor visits all numbers (Knuth's MMIX).
            bits = bits
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let share = 1.0 - f64::from(i) * f64::EPSILON;
            for number in [f64::from_bits(bits), share, share / 3.0]
                .into_iter()
                .filter(|x| x.is_finite())
            {
                let text = json(&std::collections::BTreeMap::from([("number", number)]));
                let read: serde_json::Value = serde_json::from_str(&text).unwrap();
                let read = read["number"].as_f64().unwrap();
                assert_eq!(read.to_bits(), number.to_bits(), "{number:e}");
            }
        }
    }

    #[test]
    fn strings_are_shown_and_read_back() {
        let name = "\x1b[2J \u{9b}m \u{7f} \u{202e}abc\u{2028} é".to_owned();
        let text = json(&std::collections::BTreeMap::from([("name", &name)]));
        assert!(!text.chars().any(|c| c != '\n' && is_obeyed(c)), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["name"], name);
    }
}
