//! Protobuf messages as trees, to be changed field by field.
//!
//! Lengths follow from what is in a field, so a mutant is a message of other content, not a broken one.

use crate::mutator::{Random, change_bytes};

/// Which fields of a message are messages, and of which kind: that many of ONNX as models consist of.
#[derive(Clone, Copy)]
pub(crate) struct Kind(&'static [(u64, &'static Kind)]);

static LEAF: Kind = Kind(&[]);
static SHAPE: Kind = Kind(&[(1, &LEAF)]);
static TENSOR_TYPE: Kind = Kind(&[(2, &SHAPE)]);
static TYPE: Kind = Kind(&[(1, &TENSOR_TYPE)]);
static VALUE: Kind = Kind(&[(2, &TYPE)]);
static TENSOR: Kind = Kind(&[(13, &LEAF)]);
static ATTRIBUTE: Kind = Kind(&[(5, &TENSOR), (6, &GRAPH), (11, &GRAPH)]);
static NODE: Kind = Kind(&[(5, &ATTRIBUTE)]);
static GRAPH: Kind = Kind(&[
    (1, &NODE),
    (5, &TENSOR),
    (11, &VALUE),
    (12, &VALUE),
    (13, &VALUE),
]);
static FUNCTION: Kind = Kind(&[(7, &NODE), (9, &LEAF), (11, &ATTRIBUTE)]);
/// `ModelProto`.
pub(crate) static MODEL: Kind = Kind(&[(7, &GRAPH), (8, &LEAF), (25, &FUNCTION)]);

#[derive(Clone)]
struct Field {
    number: u64,
    content: Content,
}

#[derive(Clone)]
enum Content {
    Varint(u64),
    Fixed32([u8; 4]),
    Fixed64([u8; 8]),
    Bytes(Vec<u8>),
    Message(Vec<Field>),
}

/// A message with one to four of its fields changed.
pub(crate) fn change(random: &mut Random, message: &[u8], kind: &Kind) -> Vec<u8> {
    let mut fields = parse(message, kind).expect("a message that is none is no seed");
    for _ in 0..=random.below(4) {
        let donor = random.below(count(&fields));
        let donor = at(&mut fields, &mut { donor }).map(|(siblings, i)| siblings[i].clone());
        let target = random.below(count(&fields));
        if let (Some((siblings, i)), Some(donor)) = (at(&mut fields, &mut { target }), donor) {
            change_field(random, siblings, i, donor);
        }
    }
    encode(&fields)
}

fn change_field(random: &mut Random, siblings: &mut Vec<Field>, i: usize, donor: Field) {
    match random.below(10) {
        0 => drop(siblings.remove(i)),
        1 => siblings.insert(i, siblings[i].clone()),
        2 => {
            let other = random.below(siblings.len());
            siblings.swap(i, other);
        }
        3 => siblings[i].content = donor.content,
        4 => siblings.insert(i, donor),
        _ => match &mut siblings[i].content {
            Content::Varint(number) => *number = random.number(),
            Content::Fixed32(bytes) => {
                let odd = [0.0, -1.0, 1e-40, 1e38, f32::NAN, f32::INFINITY, 0.5, 1e-7];
                *bytes = random.choose(&odd).to_le_bytes();
            }
            Content::Fixed64(bytes) => *bytes = random.number().to_le_bytes(),
            Content::Bytes(bytes) => match random.below(3) {
                0 => *bytes = random.number().to_string().into_bytes(),
                _ => change_bytes(random, bytes),
            },
            Content::Message(fields) => {
                if let Content::Message(others) = donor.content {
                    *fields = others;
                }
            }
        },
    }
}

/// Number of fields, at all depths.
fn count(fields: &[Field]) -> usize {
    let inside = |field: &Field| match &field.content {
        Content::Message(fields) => 1 + count(fields),
        _ => 1,
    };
    fields.iter().map(inside).sum()
}

/// The field of a number in this order, as a place among its siblings.
fn at<'f>(fields: &'f mut Vec<Field>, number: &mut usize) -> Option<(&'f mut Vec<Field>, usize)> {
    let mut found = None;
    for (i, field) in fields.iter().enumerate() {
        let size = match &field.content {
            Content::Message(inner) => 1 + count(inner),
            _ => 1,
        };
        if *number < size {
            found = Some(i);
            break;
        }
        *number -= size;
    }
    let i = found?;
    if *number == 0 {
        return Some((fields, i));
    }
    *number -= 1;
    match &mut fields[i].content {
        Content::Message(inner) => at(inner, number),
        _ => None,
    }
}

fn parse(mut bytes: &[u8], kind: &Kind) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let number = key >> 3;
        let content = match key & 7 {
            0 => Content::Varint(varint(&mut bytes)?),
            1 => Content::Fixed64(*take(&mut bytes, 8)?.first_chunk()?),
            5 => Content::Fixed32(*take(&mut bytes, 4)?.first_chunk()?),
            2 => {
                let len = usize::try_from(varint(&mut bytes)?).ok()?;
                let inside = take(&mut bytes, len)?;
                match kind.0.iter().find(|(known, _)| *known == number) {
                    Some((_, kind)) => Content::Message(parse(inside, kind)?),
                    None => Content::Bytes(inside.to_vec()),
                }
            }
            _ => return None,
        };
        fields.push(Field { number, content });
    }
    Some(fields)
}

fn take<'b>(bytes: &mut &'b [u8], len: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn encode(fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Field { number, content } in fields {
        let mut key = |kind: u64| push_varint(&mut bytes, number << 3 | kind);
        match content {
            Content::Varint(value) => {
                key(0);
                push_varint(&mut bytes, *value);
            }
            Content::Fixed64(value) => {
                key(1);
                bytes.extend(value);
            }
            Content::Fixed32(value) => {
                key(5);
                bytes.extend(value);
            }
            Content::Bytes(inside) => {
                key(2);
                push_varint(&mut bytes, inside.len() as u64);
                bytes.extend(inside);
            }
            Content::Message(inside) => {
                key(2);
                let inside = encode(inside);
                push_varint(&mut bytes, inside.len() as u64);
                bytes.extend(inside);
            }
        }
    }
    bytes
}

fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[test]
fn what_is_not_changed_stays() {
    for name in ["vit.onnx", "mlp-function.onnx", "mlp-external.onnx"] {
        let bytes = crate::fixture(name);
        let fields = parse(&bytes, &MODEL).unwrap();
        assert!(encode(&fields) == bytes, "{name}");
        let all = count(&fields);
        let mut fields = fields;
        assert!((0..all).all(|i| at(&mut fields, &mut { i }).is_some()));
        assert!(at(&mut fields, &mut { all }).is_none());
    }
}
