//! Element types of stored numbers, and their conversion to `f32`.

use std::fmt;
use std::ops::Range;

/// Bytes of rows that are read at a time, or one row: raw bytes never double the memory of a large batch.
const BLOCK: usize = 1 << 20;

/// The type of the numbers in a dataset, as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// One byte, zero or not.
    Bool,
    /// Unsigned 8 bit: pixels.
    U8,
    /// Signed 8 bit.
    I8,
    /// Unsigned 16 bit.
    U16,
    /// Signed 16 bit.
    I16,
    /// Unsigned 32 bit.
    U32,
    /// Signed 32 bit.
    I32,
    /// Unsigned 64 bit.
    U64,
    /// Signed 64 bit.
    I64,
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

/// One stored number without loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Whole(i128),
    Float(f64),
}

impl Number {
    /// The nearest double.
    pub(crate) fn to_f64(self) -> f64 {
        match self {
            Number::Whole(value) => value as f64,
            Number::Float(value) => value,
        }
    }
}

/// Applies `$convert` to each `$bytes`-sized group, read in the byte order asked for.
macro_rules! convert {
    ($type:ty, $big:expr, $bytes:expr, $out:expr, $convert:expr) => {{
        const SIZE: usize = size_of::<$type>();
        let (groups, _) = $bytes.as_chunks::<SIZE>();
        if $big {
            for (value, group) in $out.iter_mut().zip(groups) {
                *value = $convert(<$type>::from_be_bytes(*group));
            }
        } else {
            for (value, group) in $out.iter_mut().zip(groups) {
                *value = $convert(<$type>::from_le_bytes(*group));
            }
        }
    }};
}

impl Element {
    /// Every element type, for tests and tables.
    pub const ALL: [Element; 12] = [
        Element::Bool,
        Element::U8,
        Element::I8,
        Element::U16,
        Element::I16,
        Element::U32,
        Element::I32,
        Element::U64,
        Element::I64,
        Element::F16,
        Element::F32,
        Element::F64,
    ];

    /// Bytes per number.
    pub fn size(self) -> usize {
        match self {
            Element::Bool | Element::U8 | Element::I8 => 1,
            Element::U16 | Element::I16 | Element::F16 => 2,
            Element::U32 | Element::I32 | Element::F32 => 4,
            Element::U64 | Element::I64 | Element::F64 => 8,
        }
    }

    /// Whether the type can hold NaN and infinities.
    pub fn is_float(self) -> bool {
        matches!(self, Element::F16 | Element::F32 | Element::F64)
    }

    /// Converts as many numbers as both `bytes` and `out` hold.
    pub(crate) fn to_f32(self, big_endian: bool, bytes: &[u8], out: &mut [f32]) {
        match self {
            Element::Bool => convert!(u8, big_endian, bytes, out, |v| f32::from(u8::from(v != 0))),
            Element::U8 => convert!(u8, big_endian, bytes, out, f32::from),
            Element::I8 => convert!(i8, big_endian, bytes, out, f32::from),
            Element::U16 => convert!(u16, big_endian, bytes, out, f32::from),
            Element::I16 => convert!(i16, big_endian, bytes, out, f32::from),
            Element::U32 => convert!(u32, big_endian, bytes, out, |v| v as f32),
            Element::I32 => convert!(i32, big_endian, bytes, out, |v| v as f32),
            Element::U64 => convert!(u64, big_endian, bytes, out, |v| v as f32),
            Element::I64 => convert!(i64, big_endian, bytes, out, |v| v as f32),
            Element::F16 => convert!(u16, big_endian, bytes, out, half_to_f32),
            Element::F32 => convert!(f32, big_endian, bytes, out, |v| v),
            Element::F64 => convert!(f64, big_endian, bytes, out, |v| v as f32),
        }
    }

    /// Reads rows block by block by `read`, which gives their bytes, and converts them. `out` holds exactly the rows;
    /// `scratch` is reused between calls.
    pub(crate) fn read_f32<E>(
        self,
        big_endian: bool,
        rows: Range<usize>,
        scratch: &mut Vec<u8>,
        out: &mut [f32],
        mut read: impl FnMut(Range<usize>, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let row_len = out.len().checked_div(rows.len()).unwrap_or(0);
        if row_len == 0 {
            return Ok(());
        }
        let row_bytes = row_len * self.size();
        let step = (BLOCK / row_bytes).max(1);
        let mut start = rows.start;
        for block in out.chunks_mut(step * row_len) {
            let end = start + block.len() / row_len;
            scratch.resize((end - start) * row_bytes, 0);
            read(start..end, scratch)?;
            self.to_f32(big_endian, scratch, block);
            start = end;
        }
        Ok(())
    }

    /// Converts without loss, as many numbers as both `bytes` and `out` hold.
    pub(crate) fn to_numbers(self, big_endian: bool, bytes: &[u8], out: &mut [Number]) {
        let whole = Number::Whole;
        match self {
            Element::Bool => convert!(u8, big_endian, bytes, out, |v| whole((v != 0).into())),
            Element::U8 => convert!(u8, big_endian, bytes, out, |v: u8| whole(v.into())),
            Element::I8 => convert!(i8, big_endian, bytes, out, |v: i8| whole(v.into())),
            Element::U16 => convert!(u16, big_endian, bytes, out, |v: u16| whole(v.into())),
            Element::I16 => convert!(i16, big_endian, bytes, out, |v: i16| whole(v.into())),
            Element::U32 => convert!(u32, big_endian, bytes, out, |v: u32| whole(v.into())),
            Element::I32 => convert!(i32, big_endian, bytes, out, |v: i32| whole(v.into())),
            Element::U64 => convert!(u64, big_endian, bytes, out, |v: u64| whole(v.into())),
            Element::I64 => convert!(i64, big_endian, bytes, out, |v: i64| whole(v.into())),
            Element::F16 => convert!(u16, big_endian, bytes, out, |v| Number::Float(
                half_to_f32(v).into()
            )),
            Element::F32 => convert!(f32, big_endian, bytes, out, |v: f32| Number::Float(
                v.into()
            )),
            Element::F64 => convert!(f64, big_endian, bytes, out, Number::Float),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Element::Bool => "bool",
            Element::U8 => "u8",
            Element::I8 => "i8",
            Element::U16 => "u16",
            Element::I16 => "i16",
            Element::U32 => "u32",
            Element::I32 => "i32",
            Element::U64 => "u64",
            Element::I64 => "i64",
            Element::F16 => "f16",
            Element::F32 => "f32",
            Element::F64 => "f64",
        })
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(value) => value.fmt(f),
            Number::Float(value) => value.fmt(f),
        }
    }
}

/// The value of an IEEE half: every half is exactly an `f32`.
fn half_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let mantissa = u32::from(bits) & 0x3ff;
    match exponent {
        // Subnormal: mantissa * 2^-24, exact since the mantissa has 10 bits.
        0 => {
            let magnitude = mantissa as f32 * f32::from_bits((127 - 24) << 23);
            f32::from_bits(magnitude.to_bits() | sign)
        }
        // Infinity and NaN keep the all-ones exponent.
        0x1f => f32::from_bits(sign | 0x7f80_0000 | mantissa << 13),
        // The exponent bias is 15 in halves and 127 in singles.
        _ => f32::from_bits(sign | (exponent + 127 - 15) << 23 | mantissa << 13),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition of IEEE binary16, in `f64`.
    fn reference_half(bits: u16) -> f64 {
        let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
        let exponent = i32::from(bits >> 10 & 0x1f);
        let fraction = f64::from(bits & 0x3ff) / 1024.0;
        match exponent {
            0 => sign * fraction * 2f64.powi(-14),
            31 if fraction == 0.0 => sign * f64::INFINITY,
            31 => f64::NAN,
            _ => sign * (1.0 + fraction) * 2f64.powi(exponent - 15),
        }
    }

    #[test]
    fn every_half_converts_to_its_definition() {
        for bits in 0..=u16::MAX {
            let expected = reference_half(bits);
            let got = f64::from(half_to_f32(bits));
            assert!(
                got == expected && got.is_sign_negative() == expected.is_sign_negative()
                    || got.is_nan() && expected.is_nan(),
                "{bits:#06x}: {got} instead of {expected}"
            );
        }
    }

    #[test]
    fn both_byte_orders_and_all_types_convert() {
        // -2 (254 and so on where unsigned, true for bool) in two's complement; 0xfe.. patterns of floats below.
        let cases = [
            (Element::Bool, vec![0xfe], 1.0),
            (Element::U8, vec![0xfe], 254.0),
            (Element::I8, vec![0xfe], -2.0),
            (Element::U16, vec![0xff, 0xfe], 65534.0),
            (Element::I16, vec![0xff, 0xfe], -2.0),
            (Element::U32, vec![0, 1, 0, 2], 65538.0),
            (Element::I32, vec![0xff, 0xff, 0xff, 0xfe], -2.0),
            (Element::U64, vec![0, 0, 0, 0, 0, 1, 0, 2], 65538.0),
            (
                Element::I64,
                vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe],
                -2.0,
            ),
            (Element::F16, vec![0xc0, 0x00], -2.0),
            (Element::F32, (-2f32).to_be_bytes().to_vec(), -2.0),
            (Element::F64, (-2f64).to_be_bytes().to_vec(), -2.0),
        ];
        assert_eq!(cases.len(), Element::ALL.len());
        for (element, big, expected) in cases {
            assert_eq!(big.len(), element.size());
            let little: Vec<u8> = big.iter().rev().copied().collect();
            for (big_endian, bytes) in [(true, &big), (false, &little)] {
                let mut out = [0f32];
                element.to_f32(big_endian, bytes, &mut out);
                assert_eq!(out, [expected], "{element}");
                let mut exact = [Number::Whole(0)];
                element.to_numbers(big_endian, bytes, &mut exact);
                match exact[0] {
                    Number::Whole(value) => assert_eq!(value as f32, expected, "{element}"),
                    Number::Float(value) => assert_eq!(value as f32, expected, "{element}"),
                }
            }
        }
    }
}
