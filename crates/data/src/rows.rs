//! Samples of one shape and element type, read by row from [`Source`]s.
//!
//! A reader of a format checks its header, says where the rows lie, and is done: everything after that happens here.

use std::ops::Range;

use crate::element::{Element, Number};
use crate::error::ReadError;
use crate::source::Source;

/// A checked array: every row it claims to hold is covered by bytes that exist.
#[derive(Clone, Debug)]
pub struct Rows {
    element: Element,
    big_endian: bool,
    shape: Vec<usize>,
    row_bytes: usize,
    count: usize,
    store: Store,
}

#[derive(Clone, Debug)]
enum Store {
    /// Whole rows, in one or more places.
    ByRow(Vec<Segment>),
    /// Fortran order: number `j` of every row, then number `j + 1` of every row.
    ByColumn(Source),
}

/// `rows` rows in `source`, `stride` bytes from one to the next.
#[derive(Clone, Debug)]
struct Segment {
    source: Source,
    offset: u64,
    stride: u64,
    rows: usize,
}

/// How the numbers of one array lie in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberFormat {
    /// The type of the numbers.
    pub element: Element,
    /// Whether the most significant byte of a number comes first.
    pub big_endian: bool,
    /// Whether the first axis runs fastest, not the last one.
    pub fortran_order: bool,
    /// All axes; the first one counts the samples.
    pub shape: Vec<usize>,
}

impl NumberFormat {
    /// The bytes the array takes, or an error where no file could hold it.
    pub(crate) fn byte_len(&self) -> Result<u64, ReadError> {
        self.shape
            .iter()
            .try_fold(self.element.size() as u64, |product, &axis| {
                product.checked_mul(axis as u64)
            })
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or_else(|| ReadError::malformed(format!("the shape {:?} is absurd", self.shape)))
    }
}

impl Rows {
    /// An array that fills `source` exactly.
    pub fn new(format: NumberFormat, source: Source) -> Result<Rows, ReadError> {
        let bytes = format.byte_len()?;
        if bytes != source.len() {
            return Err(ReadError::malformed(format!(
                "the header claims {} numbers of shape {:?}, {bytes} bytes, but {} bytes follow it",
                format.element,
                format.shape,
                source.len()
            )));
        }
        let Some((&count, shape)) = format.shape.split_first() else {
            return Err(ReadError::unsupported(
                "is a single number, not one row per sample",
            ));
        };
        // Without rows there are no bytes that bound the sample shape: its size is checked by itself.
        let row_bytes = sample_bytes(format.element, shape)?;
        let store = if format.fortran_order && shape.iter().any(|&axis| axis > 1) {
            Store::ByColumn(source)
        } else {
            Store::ByRow(vec![Segment {
                source,
                offset: 0,
                stride: row_bytes as u64,
                rows: count,
            }])
        };
        Ok(Rows {
            element: format.element,
            big_endian: format.big_endian,
            shape: shape.to_vec(),
            row_bytes,
            count,
            store,
        })
    }

    /// 8-bit samples inside the fixed-size records of several files, `skip` bytes into each record.
    pub(crate) fn in_records(
        shape: &[usize],
        skip: usize,
        record: usize,
        files: Vec<Source>,
    ) -> Result<Rows, ReadError> {
        let row_bytes = sample_bytes(Element::U8, shape)?;
        debug_assert!(skip + row_bytes <= record);
        let mut count = 0usize;
        let mut segments = Vec::with_capacity(files.len());
        for source in files {
            let rows = usize::try_from(source.len() / record as u64)
                .map_err(|_| ReadError::unsupported("has more rows than this machine can count"))?;
            count = count.checked_add(rows).ok_or_else(|| {
                ReadError::unsupported("has more rows than this machine can count")
            })?;
            segments.push(Segment {
                source,
                offset: skip as u64,
                stride: record as u64,
                rows,
            });
        }
        Ok(Rows {
            element: Element::U8,
            big_endian: false,
            shape: shape.to_vec(),
            row_bytes,
            count,
            store: Store::ByRow(segments),
        })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Shape of one row.
    pub fn sample_shape(&self) -> &[usize] {
        &self.shape
    }

    /// The type of the numbers.
    pub fn element(&self) -> Element {
        self.element
    }

    /// Numbers in one row.
    pub fn sample_len(&self) -> usize {
        self.row_bytes / self.element.size()
    }

    /// Whether the numbers have their most significant byte first; of single bytes, never.
    pub(crate) fn is_big_endian(&self) -> bool {
        self.big_endian && self.element.size() > 1
    }

    /// Reads rows as stored, in C order, into the first `range.len() * row_bytes` bytes of `out`.
    pub(crate) fn read(&self, range: Range<usize>, out: &mut [u8]) -> Result<(), ReadError> {
        let wanted = range.len().checked_mul(self.row_bytes);
        let Some(out) = wanted
            .filter(|_| range.end <= self.count)
            .and_then(|len| out.get_mut(..len))
        else {
            return Err(ReadError::malformed(format!(
                "rows {range:?} are outside of its {} rows",
                self.count
            )));
        };
        match &self.store {
            Store::ByRow(segments) => read_segments(segments, self.row_bytes, range, out),
            Store::ByColumn(source) => self.read_columns(source, range, out),
        }
    }

    /// Reads rows as `f32` into `out`, which holds exactly the rows of `range`; `scratch` is reused between calls.
    pub fn read_f32(
        &self,
        range: Range<usize>,
        scratch: &mut Vec<u8>,
        out: &mut [f32],
    ) -> Result<(), ReadError> {
        let sample = self.sample_len();
        if range.end > self.count || range.len().checked_mul(sample) != Some(out.len()) {
            return Err(ReadError::malformed(format!(
                "rows {range:?} of {} do not fit a buffer of {} numbers",
                self.count,
                out.len()
            )));
        }
        let read = |rows: Range<usize>, bytes: &mut [u8]| self.read(rows, bytes);
        self.element
            .read_f32(self.big_endian, range, scratch, out, read)
    }

    /// Passes the numbers of every row, in order and without loss, to `visit`, which may stop with an error.
    pub(crate) fn for_each_row<E: From<ReadError>>(
        &self,
        mut visit: impl FnMut(usize, &[Number]) -> Result<(), E>,
    ) -> Result<(), E> {
        let step = ((1 << 16) / self.row_bytes).max(1);
        let sample = self.sample_len();
        let mut bytes = Vec::new();
        let mut numbers = Vec::new();
        for start in (0..self.count).step_by(step) {
            let end = self.count.min(start.saturating_add(step));
            bytes.resize((end - start) * self.row_bytes, 0);
            numbers.resize((end - start) * sample, Number::Whole(0));
            self.read(start..end, &mut bytes)?;
            self.element
                .to_numbers(self.big_endian, &bytes, &mut numbers);
            for (row, values) in (start..end).zip(numbers.chunks_exact(sample)) {
                visit(row, values)?;
            }
        }
        Ok(())
    }

    /// One positioned read per number of a row: the numbers `j` of neighbouring rows lie side by side.
    fn read_columns(
        &self,
        source: &Source,
        range: Range<usize>,
        out: &mut [u8],
    ) -> Result<(), ReadError> {
        let size = self.element.size();
        let mut column = vec![0; range.len() * size];
        for j in 0..self.sample_len() {
            // No overflow: the whole array was counted in bytes when it was opened.
            let offset = (j * self.count + range.start) * size;
            source.read_at(offset as u64, &mut column)?;
            let place = c_index(j, &self.shape) * size;
            let rows = out.chunks_exact_mut(self.row_bytes);
            for (row, value) in rows.zip(column.chunks_exact(size)) {
                row[place..place + size].copy_from_slice(value);
            }
        }
        Ok(())
    }
}

fn read_segments(
    segments: &[Segment],
    row_bytes: usize,
    range: Range<usize>,
    mut out: &mut [u8],
) -> Result<(), ReadError> {
    let mut first = 0;
    for segment in segments {
        let from = range.start.clamp(first, first + segment.rows) - first;
        let to = range.end.clamp(first, first + segment.rows) - first;
        first += segment.rows;
        if from == to {
            continue;
        }
        let (here, rest) = out.split_at_mut((to - from) * row_bytes);
        out = rest;
        let position = |row: usize| segment.offset + row as u64 * segment.stride;
        if segment.stride == row_bytes as u64 {
            segment.source.read_at(position(from), here)?;
        } else {
            for (row, bytes) in (from..to).zip(here.chunks_exact_mut(row_bytes)) {
                segment.source.read_at(position(row), bytes)?;
            }
        }
    }
    Ok(())
}

/// The bytes that one sample takes: some, and no more than a machine could hold.
pub(crate) fn sample_bytes(element: Element, shape: &[usize]) -> Result<usize, ReadError> {
    if shape.contains(&0) {
        return Err(ReadError::unsupported(format!(
            "samples of shape {shape:?} hold no numbers"
        )));
    }
    shape
        .iter()
        .try_fold(element.size(), |product, &axis| product.checked_mul(axis))
        .filter(|&bytes| isize::try_from(bytes).is_ok())
        .ok_or_else(|| ReadError::malformed(format!("the sample shape {shape:?} is absurd")))
}

/// Where number `j` of the Fortran order (first axis fastest) stands in C order (last axis fastest).
fn c_index(mut j: usize, shape: &[usize]) -> usize {
    let mut stride: usize = shape.iter().product();
    let mut index = 0;
    for &axis in shape {
        stride /= axis;
        index += j % axis * stride;
        j /= axis;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(shape: &[usize], fortran_order: bool) -> NumberFormat {
        NumberFormat {
            element: Element::U8,
            big_endian: false,
            fortran_order,
            shape: shape.to_vec(),
        }
    }

    fn all(rows: &Rows, range: Range<usize>) -> Vec<f32> {
        let mut out = vec![0.0; range.len() * rows.sample_len()];
        rows.read_f32(range, &mut Vec::new(), &mut out).unwrap();
        out
    }

    #[test]
    fn rows_are_read_by_range() {
        let source = Source::from_bytes((0..24).collect());
        let rows = Rows::new(format(&[4, 2, 3], false), source).unwrap();
        assert_eq!((rows.len(), rows.sample_shape()), (4, &[2, 3][..]));
        assert_eq!(all(&rows, 1..2), [6., 7., 8., 9., 10., 11.]);
        assert_eq!(all(&rows, 0..4).len(), 24);
        assert_eq!(all(&rows, 4..4), [0.0; 0]);
        assert!(rows.read(3..5, &mut [0; 12]).is_err());
        assert!(rows.read_f32(0..1, &mut Vec::new(), &mut [0.0; 5]).is_err());
    }

    #[test]
    fn fortran_order_gives_the_same_rows() {
        // numpy: np.asfortranarray(np.arange(24).reshape(4, 2, 3)).ravel(order="K")
        let stored = [
            0, 6, 12, 18, 3, 9, 15, 21, 1, 7, 13, 19, 4, 10, 16, 22, 2, 8, 14, 20, 5, 11, 17, 23,
        ];
        let source = Source::from_bytes(stored.to_vec());
        let rows = Rows::new(format(&[4, 2, 3], true), source).unwrap();
        let expected: Vec<f32> = (0..24u8).map(f32::from).collect();
        assert_eq!(all(&rows, 0..4), expected);
        assert_eq!(all(&rows, 2..3), expected[12..18]);
    }

    #[test]
    fn records_of_several_files_are_one_array() {
        // Records of 1 + 2 bytes: the first byte is skipped.
        let files = vec![
            Source::from_bytes(vec![9, 0, 1, 9, 2, 3]),
            Source::from_bytes(vec![]),
            Source::from_bytes(vec![9, 4, 5]),
        ];
        let rows = Rows::in_records(&[2], 1, 3, files).unwrap();
        assert_eq!(rows.len(), 3);
        assert_eq!(all(&rows, 0..3), [0., 1., 2., 3., 4., 5.]);
        assert_eq!(all(&rows, 1..3), [2., 3., 4., 5.]);
    }

    #[test]
    fn claims_that_the_bytes_do_not_back_are_errors() {
        let source = || Source::from_bytes(vec![0; 6]);
        for shape in [
            &[7][..],
            &[5],
            &[],
            &[usize::MAX, usize::MAX],
            &[usize::MAX, 0],
            &[0, usize::MAX],
        ] {
            assert!(
                Rows::new(format(shape, false), source()).is_err(),
                "{shape:?}"
            );
        }
        let empty = |shape: &[usize]| Rows::new(format(shape, false), Source::from_bytes(vec![]));
        assert!(empty(&[0, 3]).unwrap().is_empty());
        assert!(
            empty(&[usize::MAX, 0]).is_err(),
            "countless rows without bytes"
        );
        assert!(empty(&[0, usize::MAX, usize::MAX]).is_err());
    }

    #[test]
    fn every_row_is_visited_once_without_loss() {
        let bytes: Vec<u8> = (0..40_000u64)
            .flat_map(|v| (v << 40).to_le_bytes())
            .collect();
        let format = NumberFormat {
            element: Element::U64,
            big_endian: false,
            fortran_order: false,
            shape: vec![20_000, 2],
        };
        let rows = Rows::new(format, Source::from_bytes(bytes)).unwrap();
        let mut next = 0;
        rows.for_each_row::<ReadError>(|row, values| {
            assert_eq!(row, next);
            let expected = [row as i128 * 2, row as i128 * 2 + 1].map(|v| Number::Whole(v << 40));
            assert_eq!(values, expected);
            next += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(next, 20_000);
    }
}
