//! JSON as lines `path = value`.
//!
//! Numbers stay as they were printed: read as floats, two neighbours could become equal.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::script::Line;

/// Lists of more plain values are recorded as a digest.
const LONG: usize = 32;
/// So are lists of more objects than `MANY` that make more lines than `LINES`.
const MANY: usize = 8;
const LINES: usize = 40;

/// The lines of a document.
pub(crate) fn flatten(json: &str) -> Vec<Line> {
    serde_json::from_str::<Value>(json).unwrap_or_else(|error| panic!("{error}: {json}"));
    let mut lines = Vec::new();
    walk("", json.trim(), &mut lines);
    lines
}

fn walk(path: &str, value: &str, lines: &mut Vec<Line>) {
    match value.as_bytes()[0] {
        b'{' => {
            // Criteria that differ in options only have one name in layers: the second is `name#2`.
            let mut times: HashMap<&str, usize> = HashMap::new();
            for field in elements(value) {
                let (key, value) = field[1..].split_once("\":").unwrap();
                let value = value.trim();
                if !is_computed(key, value) {
                    continue;
                }
                let dot = if path.is_empty() { "" } else { "." };
                let time = times.entry(key).or_default();
                *time += 1;
                match *time {
                    1 => walk(&format!("{path}{dot}{key}"), value, lines),
                    n => walk(&format!("{path}{dot}{key}#{n}"), value, lines),
                }
            }
        }
        b'[' => list(path, &elements(value), lines),
        _ => lines.push(Line::new(path, value)),
    }
}

/// The elements of a list, or fields of an object, as they are written.
fn elements(value: &str) -> Vec<&str> {
    let inner = value[1..value.len() - 1].trim();
    let mut elements = Vec::new();
    let (mut start, mut depth, mut quoted, mut escaped) = (0, 0, false, false);
    for (i, c) in inner.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                elements.push(inner[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    if !inner.is_empty() {
        elements.push(inner[start..].trim());
    }
    elements
}

/// A list of plain values is one line. The fields of a long list of objects are one line each: a digest of what all
/// elements have there, so that an added field changes no other.
fn list(path: &str, elements: &[&str], lines: &mut Vec<Line>) {
    if elements.iter().all(|e| !e.starts_with(['{', '['])) {
        lines.push(match elements.len() {
            ..=LONG => Line::new(path, format!("[{}]", elements.join(", "))),
            count => Line::new(path, values(count, elements.join("\n"))),
        });
        return;
    }
    let mut each = Vec::new();
    for (i, element) in elements.iter().enumerate() {
        walk(&format!("{path}[{i}]"), element, &mut each);
    }
    if elements.len() <= MANY || each.len() <= LINES {
        lines.extend(each);
        return;
    }
    let mut columns: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (i, element) in elements.iter().enumerate() {
        let mut row = Vec::new();
        walk(&format!("{path}[*]"), element, &mut row);
        for Line { path, value } in row {
            let column = columns.entry(path).or_default();
            column.push(format!("{i}: {value}"));
        }
    }
    for (path, column) in columns {
        let all = values(column.len(), column.join("\n"));
        lines.push(Line::new(path, all));
    }
}

/// Several values in a few words.
fn values(count: usize, text: String) -> String {
    format!("{count} values, {}", digest(text))
}

/// Whether a field is something that was computed: not a file's name, the version, the processor, or the digest of a
/// model or an artefact. Digests of data stay.
fn is_computed(key: &str, value: &str) -> bool {
    let inner = value.trim_matches('"');
    let is_digest = inner.len() == 64 && inner.bytes().all(|b| b.is_ascii_hexdigit());
    match key {
        "npcov" | "file" | "heatmap" | "cpu" => false,
        "data" => is_digest,
        _ => !is_digest,
    }
}

/// The beginning of a SHA-256: enough to notice any change.
pub(crate) fn digest(bytes: impl AsRef<[u8]>) -> String {
    let sum = Sha256::digest(bytes.as_ref());
    let digits: String = sum
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256 {digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(json: &str) -> Vec<String> {
        let lines = flatten(json).into_iter();
        lines
            .map(|line| format!("{} = {}", line.path, line.value))
            .collect()
    }

    #[test]
    fn every_number_has_its_path_and_all_its_digits() {
        let digest = "0123456789abcdef".repeat(4);
        let json = format!(
            r#"{{"npcov": {{"version": "1"}}, "id": "{digest}", "data": "a.npz",
                "suites": [{{"name": "a", "criteria": {{"nc@0.2": 0.30000000000000004, "tknp": 84.0}}}}],
                "most": [{{"data": "{digest}", "input": 7}}],
                "empty": [], "none": {{}}, "neurons": [1, 2], "label": null, "why": "a \", [b]"}}"#
        );
        assert_eq!(
            lines(&json),
            [
                "suites[0].name = \"a\"",
                "suites[0].criteria.nc@0.2 = 0.30000000000000004",
                "suites[0].criteria.tknp = 84.0",
                &format!("most[0].data = \"{digest}\""),
                "most[0].input = 7",
                "empty = []",
                "neurons = [1, 2]",
                "label = null",
                "why = \"a \\\", [b]\"",
            ]
        );
    }

    #[test]
    fn no_value_hides_another_of_the_same_name() {
        assert_eq!(
            lines(r#"{"a": {"nc": 1, "nc": 2, "tknc": 3}}"#),
            ["a.nc = 1", "a.nc#2 = 2", "a.tknc = 3"]
        );
    }

    #[test]
    fn long_lists_are_digests_that_added_fields_do_not_change() {
        let long = |changed: usize, added: &str| {
            let element = |i| {
                let score = if i == changed { -1 } else { i as i64 };
                format!(r#"{{"input": {i}, "score": {score}{added}}}"#)
            };
            let elements: Vec<String> = (0..=LINES).map(element).collect();
            lines(&format!(r#"{{"chosen": [{}]}}"#, elements.join(",")))
        };
        let before = long(usize::MAX, "");
        assert_eq!(before.len(), 2);
        assert!(before[1].starts_with("chosen[*].score = 41 values, sha256 "));
        let after = long(20, r#", "label": 1"#);
        assert_eq!(after.len(), 3);
        assert_eq!(before[0], after[0]);
        assert_ne!(before[1], after[2]);
        let numbers = |last: &str| lines(&format!(r#"{{"x": [{}{last}]}}"#, "1.5, ".repeat(LONG)));
        assert_eq!(numbers("2").len(), 1);
        assert_ne!(numbers("2"), numbers("3"));
    }
}
