//! What a Parquet file claims of itself, held against the file before the decoder sees it.
//!
//! The decoder allocates what the footer and the headers of pages ask for, and follows nested schemas as deep as they are.
//! So both are walked here first (they are Thrift in its compact protocol): only flat schemas are let through, whose
//! counts fit, and pages of a size that any writer stays below.

use std::io::Read;

use super::MAGIC;
use crate::error::ReadError;
use crate::source::Source;
use crate::table::MOST_COLUMNS;

/// The largest footer.
const LARGEST_FOOTER: u64 = 1 << 26;
/// The largest page, decoded and in the file. Writers make pages of about a megabyte.
const LARGEST_PAGE: i64 = 1 << 24;
/// The longest header of a page.
const LONGEST_HEADER: u64 = 1 << 16;
/// Structures inside of structures.
const DEEPEST: usize = 16;
/// Most numbers of a table, which are in memory.
const MOST_NUMBERS: u64 = 1 << 28;
/// So many may always be there. More must be worth it: a few bytes of a file can stand for any number of equal ones.
const FEW_NUMBERS: u64 = 1 << 24;
/// Numbers to each byte of the file, beyond those.
const PER_BYTE: u64 = 64;

/// The columns of a part of the file: where their pages are.
#[derive(Default)]
struct Chunk {
    values: i64,
    compressed: i64,
    data: Option<i64>,
    dictionary: Option<i64>,
}

/// Fails unless the file is what the decoder can be given.
pub(super) fn check(source: &Source) -> Result<(), ReadError> {
    let bytes = footer(source)?;
    let mut footer = Walker(&bytes);
    let (mut columns, mut groups) = (None, Vec::new());
    footer.structure(0, &mut |walker, field, kind| match (field, kind) {
        (2, Kind::LIST) => {
            columns = Some(flat_schema(walker)?);
            Ok(true)
        }
        (4, Kind::LIST) => {
            walker.structures(1, |walker| {
                groups.push(row_group(walker)?);
                Ok(())
            })?;
            Ok(true)
        }
        _ => Ok(false),
    })?;
    let columns = columns.ok_or_else(damaged)?;
    let most = (source.len().saturating_mul(PER_BYTE)).clamp(FEW_NUMBERS, MOST_NUMBERS);
    let mut numbers = 0_u64;
    for group in &groups {
        if group.len() != columns {
            return Err(damaged());
        }
        for chunk in group {
            let values = u64::try_from(chunk.values).map_err(|_| damaged())?;
            numbers = numbers.saturating_add(values);
            if numbers > most {
                return Err(ReadError::unsupported(format!(
                    "has more than {most} numbers, which is more than is read of a file of its size"
                )));
            }
            pages(source, chunk)?;
        }
    }
    Ok(())
}

fn damaged() -> ReadError {
    ReadError::malformed("is a damaged Parquet file (its footer or a header of a page)")
}

/// The bytes of the footer, which stands before its length and the last mark.
fn footer(source: &Source) -> Result<Vec<u8>, ReadError> {
    let tail = source.len().checked_sub(8).ok_or_else(damaged)?;
    let end = bytes(source, tail, 8)?;
    let len = u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]]));
    if end[4..] != *MAGIC {
        return Err(damaged());
    }
    if len > LARGEST_FOOTER {
        return Err(ReadError::unsupported(format!(
            "has a footer of {len} bytes; at most {LARGEST_FOOTER} are read"
        )));
    }
    let start = tail.checked_sub(len).ok_or_else(damaged)?;
    bytes(source, start, len)
}

fn bytes(source: &Source, start: u64, len: u64) -> Result<Vec<u8>, ReadError> {
    let part = source.part(start, len).ok_or_else(damaged)?;
    let mut bytes = Vec::new();
    part.reader().read_to_end(&mut bytes)?;
    match bytes.len() as u64 == len {
        true => Ok(bytes),
        false => Err(damaged()),
    }
}

/// The number of columns of a schema whose elements are all children of the first.
fn flat_schema(walker: &mut Walker<'_>) -> Result<usize, ReadError> {
    let (mut declared, mut columns) = (None, 0);
    walker.structures(1, |walker| {
        let (mut name, mut children) = (String::new(), 0);
        walker.structure(2, &mut |walker, field, kind| match (field, kind) {
            (4, Kind::BINARY) => {
                name = String::from_utf8_lossy(walker.binary()?).into_owned();
                Ok(true)
            }
            (5, Kind::I32) => {
                children = walker.integer()?;
                Ok(true)
            }
            _ => Ok(false),
        })?;
        if declared.is_none() {
            declared = Some(children);
            return Ok(());
        }
        if children != 0 {
            return Err(ReadError::unsupported(format!(
                "column `{name}` holds lists or parts; columns of numbers are read"
            )));
        }
        columns += 1;
        if columns > MOST_COLUMNS {
            return Err(ReadError::unsupported(format!(
                "has more than {MOST_COLUMNS} columns"
            )));
        }
        Ok(())
    })?;
    match declared == i64::try_from(columns).ok() {
        true => Ok(columns),
        false => Err(damaged()),
    }
}

fn row_group(walker: &mut Walker<'_>) -> Result<Vec<Chunk>, ReadError> {
    let mut chunks = Vec::new();
    walker.structure(2, &mut |walker, field, kind| match (field, kind) {
        (1, Kind::LIST) => {
            walker.structures(3, |walker| {
                let mut chunk = None;
                walker.structure(4, &mut |walker, field, kind| match (field, kind) {
                    (3, Kind::STRUCT) => {
                        chunk = Some(column(walker)?);
                        Ok(true)
                    }
                    _ => Ok(false),
                })?;
                chunks.push(chunk.ok_or_else(damaged)?);
                Ok(())
            })?;
            Ok(true)
        }
        _ => Ok(false),
    })?;
    Ok(chunks)
}

fn column(walker: &mut Walker<'_>) -> Result<Chunk, ReadError> {
    let mut chunk = Chunk::default();
    walker.structure(5, &mut |walker, field, kind| {
        if kind != Kind::I64 {
            return Ok(false);
        }
        match field {
            5 => chunk.values = walker.integer()?,
            7 => chunk.compressed = walker.integer()?,
            9 => chunk.data = Some(walker.integer()?),
            11 => chunk.dictionary = Some(walker.integer()?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(chunk)
}

/// Fails unless the pages of a column are of a size that can be held, and say how many values they have.
fn pages(source: &Source, chunk: &Chunk) -> Result<(), ReadError> {
    let offset = |place: Option<i64>| place.and_then(|place| u64::try_from(place).ok());
    let data = offset(chunk.data).ok_or_else(damaged)?;
    let mut start = match offset(chunk.dictionary) {
        Some(dictionary) if dictionary > 0 => dictionary.min(data),
        _ => data,
    };
    let len = u64::try_from(chunk.compressed).map_err(|_| damaged())?;
    let end = start.checked_add(len).ok_or_else(damaged)?;
    if end > source.len() {
        return Err(damaged());
    }
    while start < end {
        let header = bytes(source, start, (end - start).min(LONGEST_HEADER))?;
        let mut walker = Walker(&header);
        let (mut decoded, mut stored, mut values, mut is_dictionary) = (-1, -1, -1, false);
        walker.structure(0, &mut |walker, field, kind| {
            match (field, kind) {
                (2, Kind::I32) => decoded = walker.integer()?,
                (3, Kind::I32) => stored = walker.integer()?,
                (5 | 7 | 8, Kind::STRUCT) => {
                    is_dictionary |= field == 7;
                    walker.structure(1, &mut |walker, field, kind| match (field, kind) {
                        (1, Kind::I32) => {
                            values = walker.integer()?;
                            Ok(true)
                        }
                        _ => Ok(false),
                    })?;
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        if [decoded, stored].iter().any(|size| *size > LARGEST_PAGE) {
            return Err(ReadError::unsupported(format!(
                "has a page of {} bytes; at most {LARGEST_PAGE} are read",
                decoded.max(stored)
            )));
        }
        // A dictionary has at least a bit for each of its values.
        let most = match is_dictionary {
            true => decoded.saturating_mul(8),
            false => MOST_NUMBERS as i64,
        };
        if decoded < 0 || stored < 0 || values > most {
            return Err(damaged());
        }
        let header = header.len() - walker.0.len();
        start += header as u64 + u64::try_from(stored).map_err(|_| damaged())?;
    }
    Ok(())
}

/// The type of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind(u8);

impl Kind {
    const I32: Kind = Kind(5);
    const I64: Kind = Kind(6);
    const BINARY: Kind = Kind(8);
    const LIST: Kind = Kind(9);
    const STRUCT: Kind = Kind(12);
}

/// What is left of a message.
struct Walker<'a>(&'a [u8]);

/// Called with each field of a structure; says whether it read it.
type Visit<'v, 'a> = dyn FnMut(&mut Walker<'a>, i64, Kind) -> Result<bool, ReadError> + 'v;

impl<'a> Walker<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], ReadError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, ReadError> {
        Ok(self.take(1)?[0])
    }

    fn varint(&mut self) -> Result<u64, ReadError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(damaged())
    }

    /// A number whose sign is its last bit.
    fn integer(&mut self) -> Result<i64, ReadError> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn binary(&mut self) -> Result<&'a [u8], ReadError> {
        let len = usize::try_from(self.varint()?).map_err(|_| damaged())?;
        self.take(len)
    }

    /// Number and type of the elements of a list. Each takes a byte or more.
    fn list(&mut self) -> Result<(usize, Kind), ReadError> {
        let head = self.byte()?;
        let len = match head >> 4 {
            15 => self.varint()?,
            len => u64::from(len),
        };
        let len = usize::try_from(len).ok().filter(|&len| len <= self.0.len());
        Ok((len.ok_or_else(damaged)?, Kind(head & 15)))
    }

    /// Calls `read` for each structure of a list.
    fn structures(
        &mut self,
        depth: usize,
        mut read: impl FnMut(&mut Walker<'a>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let (len, kind) = self.list()?;
        if (len > 0 && kind != Kind::STRUCT) || depth > DEEPEST {
            return Err(damaged());
        }
        (0..len).try_for_each(|_| read(self))
    }

    /// Calls `visit` with each field, and passes over those that it does not read.
    fn structure(&mut self, depth: usize, visit: &mut Visit<'_, 'a>) -> Result<(), ReadError> {
        if depth > DEEPEST {
            return Err(damaged());
        }
        let mut field = 0;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            field = match head >> 4 {
                0 => self.integer()?,
                more => field + i64::from(more),
            };
            let kind = Kind(head & 15);
            if !visit(self, field, kind)? {
                self.pass(depth, kind, false)?;
            }
        }
    }

    /// Passes over a value. Truth values are types of fields, and bytes in lists.
    fn pass(&mut self, depth: usize, kind: Kind, in_list: bool) -> Result<(), ReadError> {
        match kind.0 {
            1 | 2 if !in_list => {}
            1..=3 => drop(self.byte()?),
            4..=6 => drop(self.varint()?),
            7 => drop(self.take(8)?),
            8 => drop(self.binary()?),
            9 | 10 => {
                if depth >= DEEPEST {
                    return Err(damaged());
                }
                let (len, kind) = self.list()?;
                (0..len).try_for_each(|_| self.pass(depth + 1, kind, true))?;
            }
            12 => self.structure(depth + 1, &mut |_, _, _| Ok(false))?,
            13 => drop(self.take(16)?),
            // Maps, which Parquet has none of, and what does not exist.
            _ => return Err(damaged()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(mut number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    }

    /// Fields of a structure, in ascending order, with its end.
    fn structure(fields: &[(u8, u8, Vec<u8>)]) -> Vec<u8> {
        let (mut bytes, mut last) = (Vec::new(), 0);
        for (field, kind, value) in fields {
            bytes.push((field - last) << 4 | kind);
            bytes.extend(value);
            last = *field;
        }
        bytes.push(0);
        bytes
    }

    fn integer(number: u64) -> Vec<u8> {
        varint(number << 1)
    }

    fn text(text: &str) -> Vec<u8> {
        [&varint(text.len() as u64)[..], text.as_bytes()].concat()
    }

    fn list(kind: u8, items: &[Vec<u8>]) -> Vec<u8> {
        let head = [vec![0xf0 | kind], varint(items.len() as u64)].concat();
        [head, items.concat()].concat()
    }

    fn group(name: &str, children: u64) -> Vec<u8> {
        structure(&[(4, 8, text(name)), (5, 5, integer(children))])
    }

    /// A column of doubles.
    fn leaf(name: &str) -> Vec<u8> {
        structure(&[(1, 5, integer(5)), (3, 5, integer(0)), (4, 8, text(name))])
    }

    fn page(decoded: u64, values: u64, content: &[u8]) -> Vec<u8> {
        let levels = [2, 3, 4].map(|field| (field, 5, integer(if field == 2 { 0 } else { 3 })));
        let data = [vec![(1, 5, integer(values))], levels.to_vec()].concat();
        let header = structure(&[
            (1, 5, integer(0)),
            (2, 5, integer(decoded)),
            (3, 5, integer(content.len() as u64)),
            (5, 12, structure(&data)),
        ]);
        [&header, content].concat()
    }

    /// A file of one column, with a page behind the mark.
    fn file(schema: &[Vec<u8>], page: &[u8], values: u64, codec: u64) -> Vec<u8> {
        let chunk = structure(&[
            (1, 5, integer(5)),
            (2, 9, list(5, &[integer(0)])),
            (3, 9, list(8, &[text("x")])),
            (4, 5, integer(codec)),
            (5, 6, integer(values)),
            (6, 6, integer(page.len() as u64)),
            (7, 6, integer(page.len() as u64)),
            (9, 6, integer(4)),
        ]);
        let chunk = structure(&[(2, 6, integer(4)), (3, 12, chunk)]);
        let group = structure(&[
            (1, 9, list(12, &[chunk])),
            (2, 6, integer(page.len() as u64)),
            (3, 6, integer(values)),
        ]);
        let footer = structure(&[
            (1, 5, integer(1)),
            (2, 9, list(12, schema)),
            (3, 6, integer(values)),
            (4, 9, list(12, &[group])),
        ]);
        let len = (footer.len() as u32).to_le_bytes();
        [MAGIC, page, &footer, &len, MAGIC].concat()
    }

    fn read(bytes: Vec<u8>) -> Result<Vec<f64>, String> {
        let mut columns = super::super::read(&Source::from_bytes(bytes))
            .map_err(|error| error.in_file("t.parquet").to_string())?;
        Ok(columns.remove(0).numbers)
    }

    #[test]
    fn claims_are_held_against_the_file() {
        let numbers: Vec<u8> = [1.0_f64, 2.5]
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        let schema = [group("schema", 1), leaf("x")];
        let honest = page(16, 2, &numbers);
        assert_eq!(read(file(&schema, &honest, 2, 0)), Ok(vec![1.0, 2.5]));

        let refused = |bytes: Vec<u8>, expected: &str| {
            let error = read(bytes).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        // Children that are not there; the decoder would make room for them.
        let many = [group("schema", (1 << 31) - 1), leaf("x")];
        refused(file(&many, &honest, 2, 0), "damaged");
        // A schema that is deeper than any stack.
        let mut nested = vec![group("schema", 1)];
        nested.extend(vec![group("g", 1); 200_000]);
        nested.push(leaf("x"));
        refused(
            file(&nested, &honest, 2, 0),
            "column `g` holds lists or parts",
        );
        // Snappy, of which 2 GiB are to come.
        let large = page((1 << 31) - 1, 2, b"\x08\x0cabcd");
        refused(
            file(&schema, &large, 2, 1),
            "has a page of 2147483647 bytes",
        );
        refused(file(&schema, &honest, 1 << 40, 0), "numbers");
        let wide = [vec![group("schema", 20_000)], vec![leaf("x"); 20_000]].concat();
        refused(file(&wide, &honest, 2, 0), "has more than 16384 columns");
    }

    /// Cut anywhere or with any bit flipped, a file is read or refused.
    #[test]
    fn damaged_files_are_no_panic() {
        let numbers: Vec<u8> = (0..4).flat_map(|x| f64::from(x).to_le_bytes()).collect();
        let schema = [group("schema", 1), leaf("x")];
        let honest = file(&schema, &page(32, 4, &numbers), 4, 0);
        for len in 0..honest.len() {
            let _ = check(&Source::from_bytes(honest[..len].to_vec()));
        }
        for bit in 0..8 * honest.len() {
            let mut bytes = honest.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let _ = check(&Source::from_bytes(bytes));
        }
    }
}
