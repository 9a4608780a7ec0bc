//! CSV: a line of names, then a line of numbers for each sample. Fields are separated by commas, in `.tsv` files by tabs,
//! and may be quoted (RFC 4180); that is what spreadsheets, pandas and R write.
//!
//! A field that is no number is an error that names the row and the column. One that is empty, `NA` (as R writes it) or
//! `NaN` is a missing value: what it stands for is not for npcov to guess, but a model may say.

use std::io::{self, BufReader, Read};
use std::sync::Arc;

use crate::error::{DataError, ReadError};
use crate::formats::{Format, Location};
use crate::samples::Samples;
use crate::source::Source;
use crate::table::{self, Column, MOST_COLUMNS};

/// The longest line. Its fields are held before they can be counted.
const LONGEST: usize = 1 << 20;

/// A text with a line for each sample.
pub(crate) struct Csv;

impl Format for Csv {
    fn name(&self) -> &str {
        "CSV (`.csv`, `.tsv`)"
    }

    fn recognises(&self, location: &Location<'_>) -> bool {
        !location.is_folder() && separator(location).is_some()
    }

    fn open(&self, location: &Location<'_>) -> Result<Arc<dyn Samples>, DataError> {
        location.refuse_part()?;
        let columns = read(location.source()?, separator(location).unwrap_or(b','));
        let columns = columns.map_err(|error| error.in_file(location.file()))?;
        Ok(Arc::new(table::samples(location, columns)?))
    }
}

/// What separates fields, told by the name of the file.
fn separator(location: &Location<'_>) -> Option<u8> {
    let extension = location.path().extension()?.to_str()?;
    match extension.to_ascii_lowercase().as_str() {
        "csv" => Some(b','),
        "tsv" => Some(b'\t'),
        _ => None,
    }
}

fn read(source: &Source, separator: u8) -> Result<Vec<Column>, ReadError> {
    let malformed = |reason: String| ReadError::malformed(reason);
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .trim(csv::Trim::All)
        .from_reader(ShortLines {
            text: BufReader::new(source.reader()),
            line: 0,
        });
    let failed = |error: csv::Error| {
        let line = error.position().map_or(0, csv::Position::line);
        match error.into_kind() {
            csv::ErrorKind::Io(error) => ReadError::from(error),
            csv::ErrorKind::UnequalLengths {
                expected_len, len, ..
            } => malformed(format!(
                "line {line} has {len} fields, the header {expected_len}"
            )),
            csv::ErrorKind::Utf8 { .. } => malformed(format!("line {line} is not UTF-8")),
            _ => malformed("is not CSV".to_owned()),
        }
    };
    let header = reader.headers().map_err(failed)?.clone();
    if header.len() > MOST_COLUMNS {
        return Err(malformed(format!(
            "has {} columns; at most {MOST_COLUMNS} are read",
            header.len()
        )));
    }
    // A byte-order mark, which spreadsheets write, is part of no name.
    let name = |name: &str| name.trim_start_matches('\u{feff}').to_owned();
    let mut columns: Vec<Column> = (header.iter())
        .map(|text| Column {
            name: name(text),
            numbers: Vec::new(),
        })
        .collect();
    if columns.is_empty() {
        return Err(malformed("is empty: a line of names is wanted".to_owned()));
    }
    let header_of_numbers = header.iter().all(|text| text.parse::<f64>().is_ok());
    if header_of_numbers {
        return Err(malformed(
            "begins with a line of numbers; the first line must name the columns".to_owned(),
        ));
    }
    let mut record = csv::StringRecord::new();
    let mut row = 0;
    while reader.read_record(&mut record).map_err(failed)? {
        for (column, text) in columns.iter_mut().zip(&record) {
            let number = match text {
                "" | "NA" => Some(f64::NAN),
                text if text.eq_ignore_ascii_case("nan") => Some(f64::NAN),
                text => text.parse::<f64>().ok().filter(|x| x.is_finite()),
            };
            let number = number.ok_or_else(|| {
                let line = record.position().map_or(0, csv::Position::line);
                let shown: String = text.escape_debug().take(40).collect();
                malformed(format!(
                    "row {row} (line {line}): `{}` is `{shown}`, not a number",
                    column.name
                ))
            })?;
            column.numbers.push(number);
        }
        row += 1;
    }
    Ok(columns)
}

/// A text of which no line is longer than [`LONGEST`].
struct ShortLines<R> {
    text: R,
    /// The length of the line that was begun.
    line: usize,
}

impl<R: Read> Read for ShortLines<R> {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        // So that a line that is read at once is not too long before it is looked at.
        let most = place.len().min(LONGEST);
        let len = self.text.read(&mut place[..most])?;
        self.line = match place[..len].iter().rposition(|&byte| byte == b'\n') {
            Some(end) => len - end - 1,
            None => self.line + len,
        };
        match self.line > LONGEST {
            true => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a line is longer than {LONGEST} bytes"),
            )),
            false => Ok(len),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::formats::{Reading, open_as};
    use crate::{Loader, Preprocessing, WantedInput};

    fn open(
        folder: &Path,
        name: &str,
        text: &str,
        labels: Option<&str>,
    ) -> Result<Arc<dyn Samples>, String> {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        let reading = Reading {
            labels: labels.map(str::to_owned),
            ..Reading::default()
        };
        let opened = open_as(&path, &reading);
        let folder = format!("{}/", folder.display());
        opened.map_err(|error| error.to_string().replace(&folder, ""))
    }

    #[test]
    fn columns_are_inputs_and_one_holds_the_labels() {
        let folder = tempfile::tempdir().unwrap();
        let text = "\u{feff}age, rooms ,price\n1,2.5,10.5\n\"3\",-4e1,11\n";
        let table = open(folder.path(), "a.csv", text, Some("price")).unwrap();
        let names: Vec<&str> = table.inputs().iter().map(|i| i.name()).collect();
        assert_eq!((names, table.len()), (vec!["age", "rooms"], 2));
        assert_eq!(table.labels(), None);
        let targets = table.targets().unwrap();
        assert_eq!(targets.row(1), Some(&[11.0][..]));
        assert_eq!(targets.reason(), "row 0 is `10.5`, not a whole number");
        let mut numbers = [0.0; 2];
        table
            .read_f32(1, 0..2, &mut Vec::new(), &mut numbers)
            .unwrap();
        assert_eq!(numbers, [2.5, -40.0]);

        let classes = open(folder.path(), "b.tsv", "x\ttarget\n1\t0\n2\t1\n", None).unwrap();
        assert_eq!(classes.labels(), Some(&[0, 1][..]));
        let unlabelled = open(folder.path(), "c.csv", "x,z\n1,0\n", None).unwrap();
        assert_eq!(unlabelled.labels(), None);
        assert_eq!(unlabelled.inputs().len(), 2);
    }

    #[test]
    fn lines_and_columns_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let wide = ",".repeat(20_000) + "\n1";
        let error = open(folder.path(), "t.csv", &wide, None).unwrap_err();
        assert_eq!(error, "`t.csv`: has 20001 columns; at most 16384 are read");
        let long = ",".repeat(40_000_000) + "\n1";
        let error = open(folder.path(), "t.csv", &long, None).unwrap_err();
        assert!(
            error.contains("a line is longer than 1048576 bytes"),
            "{error}"
        );
        let row = format!("a\n1\n{}", "1".repeat(3_000_000));
        let error = open(folder.path(), "t.csv", &row, None).unwrap_err();
        assert!(error.contains("a line is longer than"), "{error}");
    }

    /// A missing value is NaN for models with an imputer, and an error that names row and column for others.
    #[test]
    fn missing_values_are_for_models_that_fill_them_in() {
        for missing in ["", "NA", "NaN", "nan"] {
            fills_in(missing);
        }
    }

    fn fills_in(field: &str) {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("a,b\n1,2\n3,{field}\n");
        let table = open(folder.path(), "t.csv", &text, None).unwrap();
        let read = |missing: bool| {
            let wanted = WantedInput {
                name: "x".to_owned(),
                shape: vec![2],
                whole: false,
                missing,
                fixed: None,
            };
            let nothing = Preprocessing::default();
            let loader = Loader::of_inputs(Arc::clone(&table), &[wanted], 0, &nothing).unwrap();
            let mut out = [0.0; 4];
            loader.read(0..2, &mut out).map(|()| out)
        };
        let found = read(true).unwrap();
        assert_eq!(found[..3], [1.0, 2.0, 3.0]);
        assert!(found[3].is_nan());
        let error = read(false).unwrap_err().to_string();
        let expected = "t.csv`, row 1: `b` is missing, and the model has no imputer";
        assert!(error.ends_with(expected), "{error}");
    }

    #[test]
    fn what_is_no_number_names_the_row() {
        let folder = tempfile::tempdir().unwrap();
        for (text, labels, expected) in [
            (
                "a,b\n1,2\n3,\n",
                Some("b"),
                "`t.csv`: row 1: the label `b` is missing",
            ),
            (
                "a,b\n1,none\n",
                None,
                "`t.csv`: row 0 (line 2): `b` is `none`, not a number",
            ),
            (
                "a,b\n1,inf\n",
                None,
                "`t.csv`: row 0 (line 2): `b` is `inf`, not a number",
            ),
            (
                "a,b\n1,2\n1,2,3\n",
                None,
                "`t.csv`: line 3 has 3 fields, the header 2",
            ),
            ("a,a\n1,2\n", None, "`t.csv`: has two columns `a`"),
            (
                "a,b\n1,2\n",
                Some("c"),
                "`t.csv`: has no column `c`; it has `a`, `b`",
            ),
            (
                "y\n1\n",
                None,
                "`t.csv`: has no columns but that of the labels",
            ),
            ("", None, "`t.csv`: is empty: a line of names is wanted"),
            (
                "1,2\n3,4\n",
                None,
                "`t.csv`: begins with a line of numbers; the first line must name the columns",
            ),
        ] {
            let error = open(folder.path(), "t.csv", text, labels).unwrap_err();
            assert_eq!(error, expected);
        }
    }
}
