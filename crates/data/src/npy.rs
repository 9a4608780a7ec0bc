//! The npy format: one array with a small Python literal as its header.
//!
//! ```
//! use npcov_data::npy::Header;
//!
//! let header = Header::for_array(npcov_data::Element::F32, &[60000, 784]);
//! let parsed = Header::parse(&header.to_bytes()).unwrap();
//! assert_eq!(parsed.shape(), [60000, 784]);
//! ```

use std::io::{self, Read};
use std::sync::Arc;

use crate::arrays::Arrays;
use crate::element::Element;
use crate::error::{DataError, ReadError};
use crate::formats::{Format, Location};
use crate::rows::{NumberFormat, Rows};
use crate::samples::Samples;
use crate::source::{Source, decode_error};

/// The first bytes of every npy file.
const MAGIC: &[u8] = b"\x93NUMPY";

/// The longest header that is read; numpy itself refuses headers of more than 10,000 bytes.
const LONGEST_HEADER: usize = 1 << 16;

/// A file with one array.
pub(crate) struct Npy;

impl Format for Npy {
    fn name(&self) -> &str {
        "npy"
    }

    fn recognises(&self, location: &Location<'_>) -> bool {
        location.start().starts_with(MAGIC)
    }

    fn open(&self, location: &Location<'_>) -> Result<Arc<dyn Samples>, DataError> {
        location.refuse_part()?;
        let rows = open(location.source()?).map_err(|error| error.in_file(location.file()))?;
        let samples = Arrays::of_rows("x", rows)?.named(location.spec());
        Ok(Arc::new(samples))
    }
}

/// What an npy header says: element type, byte order, axis order and shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    format: NumberFormat,
    /// Bytes from the start of the file to the first number.
    data_offset: usize,
}

impl Header {
    /// The header of a little-endian array in C order.
    pub fn for_array(element: Element, shape: &[usize]) -> Header {
        let mut header = Header {
            format: NumberFormat {
                element,
                big_endian: false,
                fortran_order: false,
                shape: shape.to_vec(),
            },
            data_offset: 0,
        };
        header.data_offset = header.to_bytes().len();
        header
    }

    /// Parses the header at the start of `bytes`; what follows the header is not looked at.
    pub fn parse(bytes: &[u8]) -> Result<Header, ReadError> {
        Header::read(&mut &bytes[..])
    }

    /// The element type.
    pub fn element(&self) -> Element {
        self.format.element
    }

    /// The shape, all axes.
    pub fn shape(&self) -> &[usize] {
        &self.format.shape
    }

    /// The header as numpy writes it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let NumberFormat {
            element,
            big_endian,
            fortran_order,
            ref shape,
        } = self.format;
        let order = match (element.size(), big_endian) {
            (1, _) => '|',
            (_, true) => '>',
            (_, false) => '<',
        };
        let descr = format!("{order}{}", type_code(element));
        header_bytes(&descr, fortran_order, shape)
    }

    /// Takes exactly the header from `reader`.
    pub(crate) fn read(reader: &mut impl Read) -> Result<Header, ReadError> {
        let (literal, data_offset) = read_literal(reader)?;
        let ((element, big_endian), fortran_order, shape) =
            Literal { rest: &literal }.entries(Literal::descr)?;
        Ok(Header {
            format: NumberFormat {
                element,
                big_endian,
                fortran_order,
                shape,
            },
            data_offset,
        })
    }

    pub(crate) fn data_offset(&self) -> usize {
        self.data_offset
    }

    pub(crate) fn into_format(self) -> NumberFormat {
        self.format
    }

    pub(crate) fn format(&self) -> &NumberFormat {
        &self.format
    }
}

/// The array in a plain npy file, read where it lies.
pub fn open(source: &Source) -> Result<Rows, ReadError> {
    let header = Header::read(&mut source.reader())?;
    let offset = header.data_offset() as u64;
    let data = source
        .len()
        .checked_sub(offset)
        .and_then(|len| source.part(offset, len))
        .ok_or_else(truncated)?;
    Rows::new(header.into_format(), data)
}

/// Takes exactly a header from `reader`: its literal, and the bytes up to the first element.
fn read_literal(reader: &mut impl Read) -> Result<(String, usize), ReadError> {
    let mut start = [0; 8];
    read_exact(reader, &mut start)?;
    if !start.starts_with(MAGIC) {
        return Err(ReadError::malformed(
            "does not start with the npy magic bytes",
        ));
    }
    let (length, prefix) = match start[6] {
        1 => {
            let mut length = [0; 2];
            read_exact(reader, &mut length)?;
            (usize::from(u16::from_le_bytes(length)), 10)
        }
        2 | 3 => {
            let mut length = [0; 4];
            read_exact(reader, &mut length)?;
            let length = u32::from_le_bytes(length);
            (usize::try_from(length).unwrap_or(usize::MAX), 12)
        }
        other => {
            return Err(ReadError::unsupported(format!(
                "has npy format version {other}"
            )));
        }
    };
    if length > LONGEST_HEADER {
        return Err(ReadError::malformed(format!(
            "claims an npy header of {length} bytes"
        )));
    }
    let mut literal = vec![0; length];
    read_exact(reader, &mut literal)?;
    let literal = String::from_utf8(literal)
        .map_err(|_| ReadError::malformed("its npy header is not text"))?;
    Ok((literal, prefix + length))
}

/// The header of an array of elements with this type code, in C order, as numpy writes it: version 1.0, padded to a
/// multiple of 64 bytes. (Version 1.0 counts the header in 16 bits; numpy has at most 64 axes, so that is enough.)
pub(crate) fn header_bytes(descr: &str, fortran_order: bool, shape: &[usize]) -> Vec<u8> {
    let axes: Vec<String> = shape.iter().map(usize::to_string).collect();
    let shape = match axes.as_slice() {
        [single] => format!("({single},)"),
        _ => format!("({})", axes.join(", ")),
    };
    let fortran = if fortran_order { "True" } else { "False" };
    let mut literal =
        format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
    let unpadded = MAGIC.len() + 4 + literal.len() + 1;
    literal.extend(std::iter::repeat_n(
        ' ',
        unpadded.next_multiple_of(64) - unpadded,
    ));
    literal.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((literal.len() as u16).to_le_bytes());
    bytes.extend(literal.into_bytes());
    bytes
}

/// What an array of texts is made of.
pub(crate) struct TextFormat {
    /// `U` for characters of four bytes, `S` for bytes.
    pub(crate) kind: char,
    /// Whether the most significant byte of a character comes first.
    pub(crate) big_endian: bool,
    /// Characters or bytes in each.
    pub(crate) width: usize,
    /// The shape, all axes.
    pub(crate) shape: Vec<usize>,
}

impl TextFormat {
    /// Takes exactly the header from `reader`.
    pub(crate) fn read(reader: &mut impl Read) -> Result<TextFormat, ReadError> {
        let (literal, _) = read_literal(reader)?;
        let ((order, kind, width), _, shape) =
            Literal { rest: &literal }.entries(Literal::text_descr)?;
        Ok(TextFormat {
            kind,
            big_endian: order == '>',
            width,
            shape,
        })
    }
}

fn truncated() -> ReadError {
    ReadError::malformed("ends inside its npy header")
}

fn read_exact(reader: &mut impl Read, out: &mut [u8]) -> Result<(), ReadError> {
    reader.read_exact(out).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => truncated(),
        _ => decode_error(error),
    })
}

fn type_code(element: Element) -> &'static str {
    match element {
        Element::Bool => "b1",
        Element::U8 => "u1",
        Element::I8 => "i1",
        Element::U16 => "u2",
        Element::I16 => "i2",
        Element::U32 => "u4",
        Element::I32 => "i4",
        Element::U64 => "u8",
        Element::I64 => "i8",
        Element::F16 => "f2",
        Element::F32 => "f4",
        Element::F64 => "f8",
    }
}

/// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`, keys in any order, from left to right.
struct Literal<'a> {
    rest: &'a str,
}

impl<'a> Literal<'a> {
    /// The entries: what `read_descr` makes of the type, whether axes are in Fortran's order, and the shape.
    fn entries<D>(
        mut self,
        read_descr: fn(&mut Literal<'a>) -> Result<D, ReadError>,
    ) -> Result<(D, bool, Vec<usize>), ReadError> {
        let mut descr = None;
        let mut fortran_order = None;
        let mut shape = None;
        self.expect('{')?;
        while !self.take('}') {
            let key = self.string()?;
            self.expect(':')?;
            let repeated = match key {
                "descr" => descr.replace(read_descr(&mut self)?).is_some(),
                "fortran_order" => fortran_order.replace(self.boolean()?).is_some(),
                "shape" => shape.replace(self.shape()?).is_some(),
                _ => return Err(self.nonsense(&format!("an unknown key `{}`", shorten(key)))),
            };
            if repeated {
                return Err(self.nonsense("a repeated key"));
            }
            if !self.take(',') {
                self.expect('}')?;
                break;
            }
        }
        if !self.rest.trim().is_empty() {
            return Err(self.nonsense("text behind the `}`"));
        }
        match (descr, fortran_order, shape) {
            (Some(descr), Some(fortran_order), Some(shape)) => Ok((descr, fortran_order, shape)),
            _ => Err(self.nonsense("not all of `descr`, `fortran_order` and `shape`")),
        }
    }

    fn descr(&mut self) -> Result<(Element, bool), ReadError> {
        if self.rest.trim_start().starts_with(['[', '(']) {
            return Err(ReadError::unsupported(
                "holds a structured array; save one plain array per name",
            ));
        }
        let text = self.string()?;
        let unknown = || {
            ReadError::unsupported(format!(
                "holds elements of the type `{}`; read are bool, integers and floats of up to 64 bits",
                shorten(text)
            ))
        };
        let (order, code) = text.split_at_checked(1).ok_or_else(unknown)?;
        if code.starts_with('O') {
            return Err(ReadError::unsupported(
                "holds pickled Python objects, which are refused: loading them could run any program; save numbers",
            ));
        }
        let element = Element::ALL
            .into_iter()
            .find(|&element| type_code(element) == code)
            .ok_or_else(unknown)?;
        match order {
            "<" => Ok((element, false)),
            ">" => Ok((element, true)),
            "|" if element.size() == 1 => Ok((element, false)),
            _ => Err(unknown()),
        }
    }

    /// The type of texts: byte order, kind and width.
    fn text_descr(&mut self) -> Result<(char, char, usize), ReadError> {
        let text = self.string()?;
        let mut rest = text.chars();
        let (order, kind) = (rest.next(), rest.next());
        match (order, kind, rest.as_str().parse()) {
            (Some(order), Some(kind @ ('U' | 'S')), Ok(width)) if "<>|".contains(order) => {
                Ok((order, kind, width))
            }
            _ => Err(ReadError::unsupported(format!(
                "holds elements of the type `{}`, not texts",
                shorten(text)
            ))),
        }
    }

    fn boolean(&mut self) -> Result<bool, ReadError> {
        self.rest = self.rest.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(self.nonsense("no True or False where one is due"))
    }

    fn shape(&mut self) -> Result<Vec<usize>, ReadError> {
        self.expect('(')?;
        let mut axes = Vec::new();
        while !self.take(')') {
            self.rest = self.rest.trim_start();
            let end = self
                .rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(self.rest.len());
            let (digits, rest) = self.rest.split_at(end);
            let axis = digits
                .parse()
                .map_err(|_| self.nonsense("an axis of the shape that is no length"))?;
            // Python 2 wrote long integers with an L.
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            axes.push(axis);
            if axes.len() > 64 {
                return Err(self.nonsense("more axes than the 64 that numpy allows"));
            }
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(axes)
    }

    fn string(&mut self) -> Result<&'a str, ReadError> {
        self.rest = self.rest.trim_start();
        let quoted = ['\'', '"'].into_iter().find_map(|quote| {
            let inside = self.rest.strip_prefix(quote)?;
            inside.split_once(quote)
        });
        let (text, rest) = quoted.ok_or_else(|| self.nonsense("no string where one is due"))?;
        self.rest = rest;
        Ok(text)
    }

    fn take(&mut self, token: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, token: char) -> Result<(), ReadError> {
        if self.take(token) {
            Ok(())
        } else {
            Err(self.nonsense(&format!("no `{token}` where one is due")))
        }
    }

    fn nonsense(&self, what: &str) -> ReadError {
        ReadError::malformed(format!("its npy header is nonsense: it has {what}"))
    }
}

/// At most 40 characters of text from a file, escaped, for an error message.
fn shorten(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(literal: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((literal.len() as u16).to_le_bytes());
        bytes.extend(literal.bytes());
        bytes.extend(data);
        bytes
    }

    fn error(literal: &str) -> String {
        Header::parse(&file(literal, &[])).unwrap_err().to_string()
    }

    #[test]
    fn reads_what_numpy_writes() {
        // np.save of np.arange(6, dtype='<i2').reshape(2, 3), numpy 2.x: 128 bytes of header.
        let literal = format!(
            "{:117}\n",
            "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }"
        );
        let bytes = file(&literal, &[0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0]);
        let header = Header::parse(&bytes).unwrap();
        assert_eq!(
            (header.data_offset(), header.to_bytes()),
            (128, bytes[..128].to_vec())
        );
        let rows = open(&Source::from_bytes(bytes)).unwrap();
        let mut out = [0.0; 3];
        rows.read_f32(1..2, &mut Vec::new(), &mut out).unwrap();
        assert_eq!(out, [3.0, 4.0, 5.0]);
    }

    #[test]
    fn reads_versions_2_and_3_any_key_order_and_python_2_longs() {
        let literal = "{\"shape\":(2L,), 'fortran_order':True,'descr':'>f8'}";
        for version in [2, 3] {
            let mut bytes = MAGIC.to_vec();
            bytes.extend([version, 0]);
            bytes.extend((literal.len() as u32).to_le_bytes());
            bytes.extend(literal.bytes());
            let header = Header::parse(&bytes).unwrap();
            assert_eq!(header.shape(), [2]);
            assert_eq!(header.element(), Element::F64);
            assert!(header.format().big_endian && header.format().fortran_order);
        }
        let mut version_4 = MAGIC.to_vec();
        version_4.extend([4, 0, 0, 0]);
        assert!(Header::parse(&version_4).is_err());
    }

    #[test]
    fn refuses_what_is_no_plain_array_of_numbers() {
        let descr = |d: &str| {
            error(&format!(
                "{{'descr': {d}, 'fortran_order': False, 'shape': (1,)}}"
            ))
        };
        assert!(descr("'|O'").contains("pickled"));
        assert!(descr("[('a', '<f4')]").contains("structured"));
        for text in [
            "'<c8'",
            "'<U5'",
            "'|S3'",
            "'<M8[ns]'",
            "''",
            "'é'",
            "'|f4'",
            "'=f4'",
            "'<f16'",
        ] {
            assert!(descr(text).contains("holds elements of the type"), "{text}");
        }
    }

    #[test]
    fn refuses_nonsense_headers() {
        let shape = |s: &str| {
            error(&format!(
                "{{'descr': '<f4', 'fortran_order': False, 'shape': {s}}}"
            ))
        };
        for text in [
            "(-1,)",
            "(1.5,)",
            "(,)",
            "(1",
            "3",
            "(99999999999999999999999,)",
            "(1 2)",
        ] {
            assert!(shape(text).contains("nonsense"), "{text}");
        }
        assert!(shape(&format!("({})", "1,".repeat(65))).contains("axes"));
        for literal in [
            "",
            "{}",
            "{",
            "{'descr'",
            "{'descr': '<f4'}",
            "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
            "{'other': 1}",
        ] {
            assert!(error(literal).contains("nonsense"), "{literal}");
        }
    }

    #[test]
    fn refuses_headers_longer_than_the_file_or_absurd() {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0, 0xff, 0xff]);
        assert!(
            Header::parse(&bytes)
                .unwrap_err()
                .to_string()
                .contains("ends inside")
        );
        let mut bytes = MAGIC.to_vec();
        bytes.extend([2, 0, 0xff, 0xff, 0xff, 0xff]);
        assert!(
            Header::parse(&bytes)
                .unwrap_err()
                .to_string()
                .contains("4294967295")
        );
    }

    fn any_header() -> impl Strategy<Value = Header> {
        let shape = prop::collection::vec(1usize..6, 1..5);
        let element = prop::sample::select(Element::ALL.to_vec());
        (element, shape, any::<bool>(), any::<bool>()).prop_map(|(element, shape, big, fortran)| {
            let mut header = Header::for_array(element, &shape);
            header.format.big_endian = big && element.size() > 1;
            header.format.fortran_order = fortran;
            header.data_offset = header.to_bytes().len();
            header
        })
    }

    proptest! {
        #[test]
        fn headers_survive_a_round_trip(header in any_header()) {
            let bytes = header.to_bytes();
            prop_assert_eq!(bytes.len() % 64, 0);
            prop_assert_eq!(Header::parse(&bytes).unwrap(), header);
        }

        /// Numbers written one by one in the order the header names come back in C order.
        #[test]
        fn arrays_survive_a_round_trip(header in any_header()) {
            let format = header.format().clone();
            let total: usize = format.shape.iter().product();
            // Strides in numbers, of the order the header names.
            let mut strides = vec![0; format.shape.len()];
            let mut stride = 1;
            let mut axes: Vec<usize> = (0..strides.len()).collect();
            if !format.fortran_order {
                axes.reverse();
            }
            for axis in axes {
                strides[axis] = stride;
                stride *= format.shape[axis];
            }
            let size = format.element.size();
            let mut data = vec![0; total * size];
            for c in 0..total {
                let (mut rest, mut place) = (c, 0);
                for axis in (0..strides.len()).rev() {
                    place += rest % format.shape[axis] * strides[axis];
                    rest /= format.shape[axis];
                }
                let bytes = encode(format.element, format.big_endian, (c % 100) as u8);
                data[place * size..][..size].copy_from_slice(&bytes);
            }
            let mut bytes = header.to_bytes();
            bytes.extend(data);
            let rows = open(&Source::from_bytes(bytes)).unwrap();
            let mut out = vec![-1.0; total];
            rows.read_f32(0..rows.len(), &mut Vec::new(), &mut out).unwrap();
            for (c, &value) in out.iter().enumerate() {
                let expected = (c % 100) as f32;
                let expected = if format.element == Element::Bool { expected.min(1.0) } else { expected };
                prop_assert_eq!(value, expected);
            }
        }

        #[test]
        fn damaged_files_never_panic(
            header in any_header(),
            cut in 0usize..400,
            changes in prop::collection::vec((0usize..200, any::<u8>()), 0..4),
        ) {
            let mut bytes = header.to_bytes();
            bytes.extend([1; 200]);
            for (place, value) in changes {
                bytes[place] = value;
            }
            bytes.truncate(cut);
            if let Ok(rows) = open(&Source::from_bytes(bytes)) {
                let mut out = vec![0.0; rows.len() * rows.sample_len()];
                prop_assert!(rows.read_f32(0..rows.len(), &mut Vec::new(), &mut out).is_ok());
            }
        }
    }

    /// A small whole number in any element type.
    fn encode(element: Element, big_endian: bool, value: u8) -> Vec<u8> {
        let mut big = match element {
            Element::F32 => f32::from(value).to_be_bytes().to_vec(),
            Element::F64 => f64::from(value).to_be_bytes().to_vec(),
            Element::F16 => {
                // Exact: 7 bits fit a half's 11. The top 16 bits of the single with the exponent rebiased.
                let single = f32::from(value).to_bits();
                let half = if value == 0 {
                    0
                } else {
                    (single >> 13) - ((127 - 15) << 10)
                };
                (half as u16).to_be_bytes().to_vec()
            }
            _ => {
                let mut bytes = vec![0; element.size()];
                bytes[element.size() - 1] = value;
                bytes
            }
        };
        if !big_endian {
            big.reverse();
        }
        big
    }
}
