//! Tables: columns of numbers with names, one of which may hold the labels.
//!
//! Every column is an input of its own, a number for each sample; a loader puts those side by side that a model wants as
//! one input.

use std::collections::HashSet;

use crate::arrays::Arrays;
use crate::error::{DataError, ReadError};
use crate::formats::Location;
use crate::labels::Targets;

/// Columns that hold labels, where none is named: the first of these that is there.
const LABELS: [&str; 3] = ["y", "label", "target"];

/// Most columns that a table may have: each is an array of its own.
pub(crate) const MOST_COLUMNS: usize = 1 << 14;

/// A column of numbers; NaN where one is missing.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) numbers: Vec<f64>,
}

/// Samples of the columns of a table. Rows are counted from 0, as everywhere.
pub(crate) fn samples(
    location: &Location<'_>,
    columns: Vec<Column>,
) -> Result<Arrays<'static>, DataError> {
    let file = location.file();
    let wrong = |reason: String| ReadError::malformed(reason).in_file(&file);
    if columns.len() > MOST_COLUMNS {
        return Err(wrong(format!(
            "has {} columns; at most {MOST_COLUMNS} are read",
            columns.len()
        )));
    }
    let mut names = HashSet::new();
    for column in &columns {
        if !names.insert(column.name.as_str()) {
            return Err(wrong(format!("has two columns `{}`", column.name)));
        }
    }
    let is = |name: &str| columns.iter().position(|column| column.name == name);
    let labels = match &location.reading().labels {
        Some(name) => Some(is(name).ok_or_else(|| {
            let names: Vec<String> = columns.iter().map(|c| format!("`{}`", c.name)).collect();
            wrong(format!(
                "has no column `{name}`; it has {}",
                names.join(", ")
            ))
        })?),
        None => LABELS.iter().find_map(|name| is(name)),
    };
    let mut found: Option<Arrays<'static>> = None;
    let mut targets = None;
    for (i, column) in columns.into_iter().enumerate() {
        if Some(i) == labels {
            targets = Some(column);
            continue;
        }
        let (name, rows) = (column.name, [column.numbers.len()]);
        found = Some(match found {
            None => Arrays::new(&name, &rows, column.numbers)?.named(location.spec()),
            Some(arrays) => arrays.with_input(&name, &rows, column.numbers)?,
        });
    }
    let samples = found.ok_or_else(|| wrong("has no columns but that of the labels".to_owned()))?;
    let Some(column) = targets else {
        return Ok(samples);
    };
    if let Some(row) = column.numbers.iter().position(|x| x.is_nan()) {
        return Err(wrong(format!(
            "row {row}: the label `{}` is missing",
            column.name
        )));
    }
    let is_class = |x: &f64| x.trunc() == *x && x.abs() < 9e15;
    if column.numbers.iter().all(is_class) {
        let classes: Vec<i64> = column.numbers.iter().map(|&x| x as i64).collect();
        return samples.with_labels(classes);
    }
    let targets = Targets::new(1, column.numbers).map_err(|error| error.in_file(&file))?;
    samples.with_targets(targets)
}
