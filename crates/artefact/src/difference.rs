//! Naming what differs between two records.

use serde::Serialize;
use serde_json::Value;

/// What differs, as `place: this, not that`; empty when nothing does.
pub fn differences<R: Serialize>(this: &R, that: &R) -> Vec<String> {
    let mut found = Vec::new();
    if let (Ok(this), Ok(that)) = (serde_json::to_value(this), serde_json::to_value(that)) {
        compare("", &this, &that, &mut found);
    }
    found
}

fn compare(place: &str, this: &Value, that: &Value, found: &mut Vec<String>) {
    let inner = |key: &str| match place {
        "" => key.to_owned(),
        place => format!("{place}.{key}"),
    };
    match (this, that) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                compare(
                    &inner(key),
                    value,
                    b.get(key).unwrap_or(&Value::Null),
                    found,
                );
            }
            for (key, value) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                compare(&inner(key), &Value::Null, value, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&inner(&i.to_string()), a, b, found);
            }
        }
        (a, b) if a != b => found.push(format!("{place}: {}, not {}", shown(a), shown(b))),
        _ => {}
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => format!("`{text}`"),
        // What has parts of its own would be a page of brackets.
        Value::Array(list) if list.iter().any(has_parts) => format!("a list of {}", list.len()),
        value => value.to_string(),
    }
}

fn has_parts(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_difference_is_named_once() {
        let this = json!({"alpha": 0.7, "model": {"sha256": "a", "units": true}, "mean": [1, 2]});
        let that = json!({"alpha": 0.8, "model": {"sha256": "a"}, "mean": [1, 3], "std": [1]});
        assert_eq!(
            differences(&this, &that),
            [
                "alpha: 0.7, not 0.8",
                "mean.1: 2, not 3",
                "model.units: true, not none",
                "std: none, not [1]"
            ]
        );
        assert!(differences(&this, &this).is_empty());
    }

    #[test]
    fn lists_of_things_are_counted() {
        let this = json!({"layers": [{"upper": 2}, {"upper": 3}]});
        let that = json!({"layers": [{"upper": 2}]});
        let expected = "layers: a list of 2, not a list of 1";
        assert_eq!(differences(&this, &that), [expected]);
    }
}
