//! Parquet: a table by columns, as pandas, Polars, Spark and DuckDB write it.
//!
//! Columns of truth values, integers and floats are read; texts, dates, decimals and nested columns are named in an
//! error. A missing value is NaN. Pages may be uncompressed, or compressed with Snappy (the
//! default of pandas and Spark) or gzip.

mod footer;

use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, LogicalType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, Length, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use crate::contained::{Panicked, contained};
use crate::error::{DataError, ReadError};
use crate::formats::{Format, Location};
use crate::samples::Samples;
use crate::source::{Source, SourceReader};
use crate::table::{self, Column};

/// First and last bytes of a file.
const MAGIC: &[u8] = b"PAR1";

/// Rows that are decoded at a time.
const STEP: usize = 1 << 16;

/// A table by columns.
pub(crate) struct Parquet;

impl Format for Parquet {
    fn name(&self) -> &str {
        "Parquet"
    }

    fn recognises(&self, location: &Location<'_>) -> bool {
        location.start().starts_with(MAGIC)
    }

    fn open(&self, location: &Location<'_>) -> Result<Arc<dyn Samples>, DataError> {
        location.refuse_part()?;
        let source = location.source()?;
        let damaged =
            |_: Panicked| ReadError::malformed("is a Parquet file that the decoder fails on");
        let columns = contained(|| read(source)).map_err(damaged).flatten();
        let columns = columns.map_err(|error| error.in_file(location.file()))?;
        Ok(Arc::new(table::samples(location, columns)?))
    }
}

/// A file as the decoder reads it.
struct Chunks(Source);

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl Chunks {
    fn part(&self, start: u64, len: u64) -> Result<Source, ParquetError> {
        let behind = || ParquetError::EOF("reaches behind the end of the file".to_owned());
        self.0.part(start, len).ok_or_else(behind)
    }
}

impl ChunkReader for Chunks {
    type T = SourceReader;

    fn get_read(&self, start: u64) -> Result<SourceReader, ParquetError> {
        let len = self.0.len().saturating_sub(start);
        Ok(self.part(start, len)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // Checked against the length of the file before it is allocated.
        let part = self.part(start, length as u64)?;
        let mut bytes = Vec::with_capacity(length);
        part.reader().read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }
}

fn unread(reason: &str) -> ReadError {
    ReadError::unsupported(format!(
        "uses something of Parquet that is not read here ({reason}); write it with Snappy or gzip compression"
    ))
}

/// Refuses compressions that need code which npcov does not bring: zstd (the default of Polars), LZ4, Brotli, LZO.
fn check_compression(compression: Compression) -> Result<(), ReadError> {
    match compression {
        Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::GZIP(_) => Ok(()),
        other => Err(unread(&format!("compression {other}"))),
    }
}

fn read(source: &Source) -> Result<Vec<Column>, ReadError> {
    let damaged = |error: ParquetError| match error {
        ParquetError::NYI(reason) => unread(&reason),
        error => ReadError::malformed(format!("is a damaged Parquet file ({error})")),
    };
    footer::check(source)?;
    let file = SerializedFileReader::new(Chunks(source.clone())).map_err(damaged)?;
    let schema = file.metadata().file_metadata().schema_descr_ptr();
    let mut columns: Vec<Column> = Vec::new();
    for column in schema.columns() {
        check(column)?;
        columns.push(Column {
            name: column.name().to_owned(),
            numbers: Vec::new(),
        });
    }
    for group in 0..file.num_row_groups() {
        let group = file.get_row_group(group).map_err(damaged)?;
        for (i, column) in columns.iter_mut().enumerate() {
            let unsigned = is_unsigned(&schema.column(i));
            // Pages may hold more than the footer says.
            let most = usize::try_from(group.metadata().column(i).num_values()).unwrap_or(0);
            let most = column.numbers.len() + most;
            check_compression(group.metadata().column(i).compression())?;
            let reader = group.get_column_reader(i).map_err(damaged)?;
            let optional = schema.column(i).max_def_level() > 0;
            let all = |numbers: &mut Vec<f64>| match reader {
                ColumnReader::BoolColumnReader(reader) => {
                    values(reader, optional, |x| f64::from(u8::from(x)), most, numbers)
                }
                ColumnReader::Int32ColumnReader(reader) if unsigned => {
                    values(reader, optional, |x| f64::from(x as u32), most, numbers)
                }
                ColumnReader::Int32ColumnReader(reader) => {
                    values(reader, optional, f64::from, most, numbers)
                }
                ColumnReader::Int64ColumnReader(reader) if unsigned => {
                    values(reader, optional, |x| x as u64 as f64, most, numbers)
                }
                ColumnReader::Int64ColumnReader(reader) => {
                    values(reader, optional, |x| x as f64, most, numbers)
                }
                ColumnReader::FloatColumnReader(reader) => {
                    values(reader, optional, f64::from, most, numbers)
                }
                ColumnReader::DoubleColumnReader(reader) => {
                    values(reader, optional, |x| x, most, numbers)
                }
                _ => Ok(()),
            };
            all(&mut column.numbers).map_err(damaged)?;
        }
    }
    for column in &columns {
        if let Some(row) = column.numbers.iter().position(|x| x.is_infinite()) {
            return Err(ReadError::malformed(format!(
                "row {row}: `{}` is `{}`, not a number",
                column.name, column.numbers[row]
            )));
        }
    }
    Ok(columns)
}

/// Appends all values of a column, NaN for rows that have none.
fn values<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    optional: bool,
    number: impl Fn(T::T) -> f64,
    most: usize,
    numbers: &mut Vec<f64>,
) -> Result<(), ParquetError> {
    loop {
        let (mut found, mut levels) = (Vec::new(), Vec::new());
        let levels_out = optional.then_some(&mut levels);
        let (records, _, _) = reader.read_records(STEP, levels_out, None, &mut found)?;
        let mut found = found.into_iter().map(&number);
        match optional {
            true => numbers.extend(levels.iter().map(|&level| match level {
                0 => f64::NAN,
                _ => found.next().unwrap_or(f64::NAN),
            })),
            false => numbers.extend(found),
        }
        if numbers.len() > most {
            return Err(ParquetError::General(
                "a column has more values than it should".to_owned(),
            ));
        }
        if records == 0 {
            return Ok(());
        }
    }
}

/// Fails unless a column holds numbers, one for each row.
fn check(column: &ColumnDescriptor) -> Result<(), ReadError> {
    let name = column.name();
    let holds = |what: &str| {
        Err(ReadError::unsupported(format!(
            "column `{name}` holds {what}; columns of numbers are read"
        )))
    };
    if column.max_rep_level() > 0 || column.max_def_level() > 1 {
        return holds("lists or parts");
    }
    match column.logical_type_ref() {
        None | Some(LogicalType::Integer { .. }) => {}
        Some(LogicalType::String) => return holds("texts"),
        Some(LogicalType::Date | LogicalType::Time { .. } | LogicalType::Timestamp { .. }) => {
            return holds("dates or times");
        }
        Some(_) => return holds("something else than plain numbers"),
    }
    match column.physical_type() {
        Type::BOOLEAN | Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE => Ok(()),
        Type::INT96 => holds("dates or times"),
        Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY => holds("texts or bytes"),
    }
}

fn is_unsigned(column: &ColumnDescriptor) -> bool {
    match column.logical_type_ref() {
        Some(LogicalType::Integer(integer)) => !integer.is_signed,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use parquet::data_type::DoubleType;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;

    #[test]
    fn other_compressions_are_not_called_damage() {
        let refused = check_compression(Compression::ZSTD(Default::default())).unwrap_err();
        let error = refused.in_file("t.parquet").to_string();
        assert!(error.contains("not read here (compression ZSTD"), "{error}");
        assert!(error.contains("write it with Snappy or gzip"), "{error}");
        for read in [Compression::UNCOMPRESSED, Compression::SNAPPY] {
            check_compression(read).unwrap();
        }
    }

    /// Two groups of rows of a column that may have gaps.
    #[test]
    fn a_gap_is_a_missing_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gap.parquet");
        let schema = parse_message_type("message table { optional double age; }").unwrap();
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::default()).unwrap();
        for (numbers, present) in [(&[1.0, 2.0][..], [1, 1]), (&[3.0], [0, 1])] {
            let mut rows = writer.next_row_group().unwrap();
            let mut column = rows.next_column().unwrap().unwrap();
            column
                .typed::<DoubleType>()
                .write_batch(numbers, Some(&present), None)
                .unwrap();
            column.close().unwrap();
            rows.close().unwrap();
        }
        writer.close().unwrap();
        let numbers = &read(&Source::open(&path).unwrap()).unwrap()[0].numbers;
        assert_eq!([numbers[0], numbers[1], numbers[3]], [1.0, 2.0, 3.0]);
        assert!(numbers[2].is_nan() && numbers.len() == 4, "{numbers:?}");
    }
}
