//! The header: which tensors there are and where their bytes lie.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::element::Element;
use crate::error::ReadError;
use crate::scalar::Scalar;

/// Bytes in front of the header, which hold its length.
pub(super) const PREFIX: usize = 8;

/// The longest header that is read or written, the limit of the format's own library.
pub(super) const LONGEST_HEADER: usize = 100_000_000;

/// The key of the header that is no tensor: strings by name.
const METADATA: &str = "__metadata__";

/// The one of these strings that is npcov's.
const NPCOV: &str = "npcov";

/// What a tensor is, without its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Its name in the file.
    pub name: String,
    /// The type of its numbers.
    pub element: Element,
    /// Its shape; the first axis counts the rows. `[]` is a single number.
    pub shape: Vec<usize>,
}

impl TensorSpec {
    /// A tensor of numbers of type `T`.
    pub fn of<T: Scalar>(name: impl Into<String>, shape: &[usize]) -> TensorSpec {
        TensorSpec {
            name: name.into(),
            element: T::ELEMENT,
            shape: shape.to_vec(),
        }
    }

    /// The bytes it takes, or nothing where no memory could hold its rows: axes of length 0 do not excuse the others.
    fn byte_len(&self) -> Option<u64> {
        let most = self
            .shape
            .iter()
            .try_fold(self.element.size(), |product, &axis| {
                product.checked_mul(axis.max(1))
            });
        let bytes = most.filter(|&bytes| isize::try_from(bytes).is_ok())?;
        Some(if self.shape.contains(&0) {
            0
        } else {
            bytes as u64
        })
    }
}

/// A tensor with the place of its bytes, counted from the end of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) spec: TensorSpec,
    pub(super) start: u64,
    pub(super) len: u64,
}

impl Placed {
    /// Rows, and numbers in each. A tensor without axes is one row.
    pub(super) fn rows(&self) -> (usize, usize) {
        match self.spec.shape.split_first() {
            None => (1, 1),
            // No overflow: `byte_len` has counted these axes and more.
            Some((&rows, row)) => (rows, row.iter().product()),
        }
    }

    /// How many numbers it holds.
    pub(super) fn count(&self) -> usize {
        let (rows, row_len) = self.rows();
        rows * row_len
    }
}

/// A header whose claims agree with each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The string under `npcov`.
    pub(super) metadata: Option<String>,
    /// In the order of their bytes.
    pub(super) tensors: Vec<Placed>,
}

impl Header {
    /// Gives each tensor its place: the widest numbers first, so that each tensor starts at a multiple of its element's
    /// size; among equals in the order of their names, so that the order in which they are given does not matter.
    pub(super) fn place(metadata: &str, tensors: &[TensorSpec]) -> Result<Header, String> {
        let mut specs = tensors.to_vec();
        specs.sort_by(|a, b| {
            let by_size = b.element.size().cmp(&a.element.size());
            by_size.then_with(|| a.name.cmp(&b.name))
        });
        let mut names = HashSet::new();
        let mut end = 0u64;
        let mut placed = Vec::with_capacity(specs.len());
        for spec in specs {
            if spec.name.is_empty() || spec.name == METADATA {
                return Err(format!("`{}` cannot be the name of a tensor", spec.name));
            }
            if !names.insert(spec.name.clone()) {
                return Err(format!("there are two tensors `{}`", spec.name));
            }
            let (start, len) = (end, spec.byte_len());
            let behind = len.and_then(|len| start.checked_add(len));
            let (Some(len), Some(behind)) = (len, behind.filter(|&b| i64::try_from(b).is_ok()))
            else {
                return Err(format!(
                    "tensor `{}` of shape {:?} is too large",
                    spec.name, spec.shape
                ));
            };
            end = behind;
            placed.push(Placed { spec, start, len });
        }
        Ok(Header {
            metadata: Some(metadata.to_owned()),
            tensors: placed,
        })
    }

    /// The start of a file, up to the first number, whose place is a multiple of 8: spaces fill the header up.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; PREFIX];
        serde_json::to_writer(&mut bytes, self).map_err(|error| error.to_string())?;
        bytes.resize(bytes.len().next_multiple_of(8), b' ');
        let len = bytes.len() - PREFIX;
        if len > LONGEST_HEADER {
            return Err(format!(
                "its header has {len} bytes, more than {LONGEST_HEADER}"
            ));
        }
        bytes[..PREFIX].copy_from_slice(&(len as u64).to_le_bytes());
        Ok(bytes)
    }

    /// Parses the JSON of a file in which `data_len` bytes follow it.
    pub(super) fn parse(json: &[u8], data_len: u64) -> Result<Header, ReadError> {
        if json.first() != Some(&b'{') {
            return Err(ReadError::malformed(
                "is no safetensors file: its header does not start with `{`",
            ));
        }
        let raw: RawHeader = serde_json::from_slice(json).map_err(|error| {
            ReadError::malformed(format!("its safetensors header is damaged: {error}"))
        })?;
        let mut tensors = Vec::with_capacity(raw.tensors.len());
        for (name, entry) in raw.tensors {
            tensors.push(entry.check(name)?);
        }
        // Empty tensors come in front of the one that starts where they do.
        tensors.sort_by_key(|tensor| (tensor.start, tensor.len));
        let mut end = 0;
        for tensor in &tensors {
            if tensor.start != end {
                let (name, start) = (tensor.spec.name.escape_debug(), tensor.start);
                return Err(ReadError::malformed(format!(
                    "tensor `{name}` starts at byte {start}, the ones before it end at {end}"
                )));
            }
            // No overflow: the end of its range was a number of the header.
            end = tensor.start + tensor.len;
        }
        if end != data_len {
            return Err(ReadError::malformed(format!(
                "its tensors take {end} bytes, but {data_len} follow the header"
            )));
        }
        Ok(Header {
            metadata: raw.metadata.and_then(|mut strings| strings.remove(NPCOV)),
            tensors,
        })
    }
}

/// One tensor as the JSON has it.
#[derive(Debug, Serialize, Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    dtype: std::borrow::Cow<'a, str>,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

impl Entry<'_> {
    fn check(self, name: String) -> Result<Placed, ReadError> {
        let shown = name.escape_debug().to_string();
        let Some(element) = Element::ALL
            .into_iter()
            .find(|&element| dtype(element) == self.dtype)
        else {
            return Err(ReadError::unsupported(format!(
                "tensor `{shown}` holds numbers of type `{}`",
                self.dtype.escape_debug()
            )));
        };
        let spec = TensorSpec {
            name,
            element,
            shape: self.shape,
        };
        let (start, end) = self.data_offsets;
        let needed = spec.byte_len();
        match (needed, end.checked_sub(start)) {
            (Some(needed), Some(len)) if needed == len => Ok(Placed { spec, start, len }),
            (None, _) => Err(ReadError::malformed(format!(
                "tensor `{shown}`: the shape {:?} is absurd",
                spec.shape
            ))),
            (Some(needed), _) => Err(ReadError::malformed(format!(
                "tensor `{shown}` of {element} numbers and shape {:?} takes {needed} bytes, not the bytes {start}..{end}",
                spec.shape
            ))),
        }
    }
}

/// The JSON before its claims are compared.
struct RawHeader<'a> {
    metadata: Option<BTreeMap<String, String>>,
    tensors: Vec<(String, Entry<'a>)>,
}

impl<'de> Deserialize<'de> for RawHeader<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

/// By hand since a map would keep the last of two tensors of one name, and other readers the first.
struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = RawHeader<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensors by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut names = HashSet::new();
        let mut header = RawHeader {
            metadata: None,
            tensors: Vec::new(),
        };
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format!(
                    "two entries are called `{}`",
                    name.escape_debug()
                )));
            }
            if name == METADATA {
                header.metadata = Some(map.next_value()?);
            } else {
                header.tensors.push((name, map.next_value()?));
            }
        }
        Ok(header)
    }
}

impl Serialize for Header {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(metadata) = &self.metadata {
            map.serialize_entry(METADATA, &BTreeMap::from([(NPCOV, metadata)]))?;
        }
        for Placed { spec, start, len } in &self.tensors {
            let entry = Entry {
                dtype: dtype(spec.element).into(),
                shape: spec.shape.clone(),
                data_offsets: (*start, start + len),
            };
            map.serialize_entry(&spec.name, &entry)?;
        }
        map.end()
    }
}

/// The format's name of an element type.
fn dtype(element: Element) -> &'static str {
    match element {
        Element::Bool => "BOOL",
        Element::U8 => "U8",
        Element::I8 => "I8",
        Element::U16 => "U16",
        Element::I16 => "I16",
        Element::U32 => "U32",
        Element::I32 => "I32",
        Element::U64 => "U64",
        Element::I64 => "I64",
        Element::F16 => "F16",
        Element::F32 => "F32",
        Element::F64 => "F64",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str, data_len: u64) -> Result<Header, ReadError> {
        Header::parse(json.as_bytes(), data_len)
    }

    fn tensor(dtype: &str, shape: &str, from: u64, to: u64) -> String {
        format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{from},{to}]}}"#)
    }

    #[test]
    fn wide_numbers_come_first_and_everything_is_aligned() {
        let specs = [
            TensorSpec::of::<u8>("a", &[3]),
            TensorSpec::of::<f32>("c", &[1]),
            TensorSpec::of::<u16>("b", &[5]),
            TensorSpec::of::<f32>("B", &[1, 1]),
            TensorSpec::of::<u64>("z", &[]),
            TensorSpec::of::<f64>("none", &[0, 9]),
        ];
        let header = Header::place("text", &specs).unwrap();
        let places: Vec<_> = header
            .tensors
            .iter()
            .map(|tensor| (tensor.spec.name.as_str(), tensor.start, tensor.len))
            .collect();
        assert_eq!(
            places,
            [
                ("none", 0, 0),
                ("z", 0, 8),
                ("B", 8, 4),
                ("c", 12, 4),
                ("b", 16, 10),
                ("a", 26, 3)
            ]
        );
        for tensor in &header.tensors {
            assert_eq!(tensor.start % tensor.spec.element.size() as u64, 0);
        }
        let bytes = header.to_bytes().unwrap();
        assert_eq!(bytes.len() % 8, 0);
        assert_eq!(Header::parse(&bytes[8..], 29).unwrap(), header);
        let reversed: Vec<TensorSpec> = specs.iter().rev().cloned().collect();
        let again = Header::place("text", &reversed).unwrap();
        assert_eq!(again.to_bytes().unwrap(), bytes);
    }

    #[test]
    fn the_json_is_the_one_of_the_format() {
        let header = Header::place("{}", &[TensorSpec::of::<u16>("a\"b", &[2, 1])]).unwrap();
        let bytes = header.to_bytes().unwrap();
        let json = concat!(
            r#"{"__metadata__":{"npcov":"{}"},"#,
            r#""a\"b":{"dtype":"U16","shape":[2,1],"data_offsets":[0,4]}}"#
        );
        let text = std::str::from_utf8(&bytes[8..]).unwrap();
        assert_eq!(text.trim_end_matches(' '), json);
        assert_eq!(bytes[..8], (text.len() as u64).to_le_bytes());
    }

    #[test]
    fn tensors_that_no_file_could_hold_are_refused() {
        let place = |names: &[&str], shape: &[usize]| {
            let specs: Vec<TensorSpec> = names
                .iter()
                .map(|&name| TensorSpec::of::<u64>(name, shape))
                .collect();
            Header::place("", &specs).map_err(|reason| reason.to_string())
        };
        let half = usize::MAX / 32;
        assert!(place(&["a"], &[half]).is_ok());
        assert_eq!(
            place(&["x", "y", "x"], &[1]).unwrap_err(),
            "there are two tensors `x`"
        );
        for (names, shape) in [
            (&["a"][..], &[usize::MAX][..]),
            (&["a"], &[usize::MAX, 0, 2]),
            (&["a", "b", "c"], &[half]),
        ] {
            let error = place(names, shape).unwrap_err();
            assert!(error.contains("is too large"), "{error}");
        }
        for name in ["", METADATA] {
            let error = place(&[name], &[1]).unwrap_err();
            assert!(error.contains("cannot be the name"), "{error}");
        }
        let long = TensorSpec::of::<u8>("a".repeat(LONGEST_HEADER), &[1]);
        let error = Header::place("", &[long]).unwrap().to_bytes().unwrap_err();
        assert!(error.contains("more than 100000000"), "{error}");
    }

    #[test]
    fn headers_in_any_order_and_with_foreign_strings_are_read() {
        let json = format!(
            r#"{{"b":{},"__metadata__":{{"format":"pt"}},"a":{}, "none":{}}}   "#,
            tensor("F16", "[2]", 3, 7),
            tensor("I8", "[3,1]", 0, 3),
            tensor("I32", "[4,0]", 3, 3),
        );
        let header = parse(&json, 7).unwrap();
        assert_eq!(header.metadata, None);
        let names: Vec<&str> = header
            .tensors
            .iter()
            .map(|tensor| tensor.spec.name.as_str())
            .collect();
        assert_eq!(names, ["a", "none", "b"]);
        assert_eq!(parse("{}", 0).unwrap().tensors, []);
    }

    #[test]
    fn headers_that_lie_are_refused() {
        let one = |entry: String| format!(r#"{{"x":{entry}}}"#);
        let two = |a: String, b: String| format!(r#"{{"x":{a},"y":{b}}}"#);
        let u8s = |from, to| tensor("U8", &format!("[{}]", to - from), from, to);
        let cases = [
            ("".to_owned(), "does not start"),
            (" {}".to_owned(), "does not start"),
            ("[]".to_owned(), "does not start"),
            ("{".to_owned(), "is damaged"),
            ("{}x".to_owned(), "is damaged"),
            (r#"{"x":1}"#.to_owned(), "is damaged"),
            (r#"{"__metadata__":{"npcov":1}}"#.to_owned(), "is damaged"),
            (
                r#"{"x":{"dtype":"U8","shape":[1]}}"#.to_owned(),
                "data_offsets",
            ),
            (one(tensor("U8", "[-1]", 0, 4)), "is damaged"),
            (one(tensor("U8", "[4.0]", 0, 4)), "is damaged"),
            (
                one(tensor("U8", "[99999999999999999999]", 0, 4)),
                "is damaged",
            ),
            (one("[".repeat(100_000)), "is damaged"),
            (one(tensor("BF16", "[2]", 0, 4)), "type `BF16`"),
            (one(tensor("u8", "[4]", 0, 4)), "type `u8`"),
            (
                one(tensor("U8", "[3]", 0, 4)),
                "takes 3 bytes, not the bytes 0..4",
            ),
            (one(tensor("U16", "[4]", 0, 4)), "takes 8 bytes"),
            (one(tensor("U8", "[4]", 4, 0)), "not the bytes 4..0"),
            (
                one(tensor("U8", "[4294967296,4294967296,4294967296]", 0, 4)),
                "absurd",
            ),
            (
                one(tensor("U8", "[18446744073709551615,0]", 0, 0)),
                "absurd",
            ),
            (one(u8s(0, 3)), "take 3 bytes, but 4 follow"),
            (one(u8s(0, 5)), "take 5 bytes, but 4 follow"),
            (one(u8s(1, 4)), "`x` starts at byte 1"),
            (two(u8s(0, 3), u8s(2, 4)), "`y` starts at byte 2"),
            (two(u8s(0, 2), u8s(3, 4)), "the ones before it end at 2"),
            (two(u8s(0, 4), u8s(0, 4)), "`y` starts at byte 0"),
            (
                two(u8s(0, 4), u8s(u64::MAX - 1, u64::MAX)),
                "starts at byte",
            ),
            (
                format!(r#"{{"x":{},"x":{}}}"#, u8s(0, 2), u8s(2, 4)),
                "two entries are called `x`",
            ),
            (
                r#"{"__metadata__":{},"__metadata__":{}}"#.to_owned(),
                "two entries are called `__metadata__`",
            ),
        ];
        for (json, expected) in cases {
            let error = parse(&json, 4).unwrap_err().to_string();
            assert!(error.contains(expected), "{json:.200}: {error}");
        }
        assert!(Header::parse(b"{\"\xff\":1}", 4).is_err());
    }

    #[test]
    fn every_element_has_its_name() {
        for element in Element::ALL {
            let json = format!(
                r#"{{"x":{}}}"#,
                tensor(dtype(element), "[]", 0, element.size() as u64)
            );
            let header = parse(&json, element.size() as u64).unwrap();
            assert_eq!(header.tensors[0].spec.element, element);
        }
    }
}
