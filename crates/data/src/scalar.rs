//! Rust's types of numbers as files hold them: one after the other, little-endian.

use crate::element::Element;

/// A type of numbers that [`NpzWriter`](crate::npz::NpzWriter) and
/// [`SafetensorsWriter`](crate::safetensors::SafetensorsWriter) write and
/// [`SafetensorsReader`](crate::safetensors::SafetensorsReader) reads.
pub trait Scalar: sealed::Sealed + Copy + Default {
    /// The element type in the file.
    const ELEMENT: Element;
}

mod sealed {
    pub trait Sealed: Sized {
        /// Appends the bytes of `values`.
        fn encode(values: &[Self], bytes: &mut Vec<u8>);

        /// Reads as many numbers as both `bytes` and `out` hold.
        fn decode(bytes: &[u8], out: &mut [Self]);
    }
}

macro_rules! scalar {
    ($type:ty, $element:ident, $to_bytes:expr, $from_bytes:expr) => {
        impl Scalar for $type {
            const ELEMENT: Element = Element::$element;
        }
        impl sealed::Sealed for $type {
            fn encode(values: &[Self], bytes: &mut Vec<u8>) {
                let start = bytes.len();
                bytes.resize(start + size_of_val(values), 0);
                let (groups, _) = bytes[start..].as_chunks_mut::<{ size_of::<$type>() }>();
                for (group, &value) in groups.iter_mut().zip(values) {
                    *group = $to_bytes(value);
                }
            }

            fn decode(bytes: &[u8], out: &mut [Self]) {
                let (groups, _) = bytes.as_chunks::<{ size_of::<$type>() }>();
                for (value, &group) in out.iter_mut().zip(groups) {
                    *value = $from_bytes(group);
                }
            }
        }
    };
}

scalar!(bool, Bool, |v| [u8::from(v)], |[byte]: [u8; 1]| byte != 0);
scalar!(u8, U8, u8::to_le_bytes, u8::from_le_bytes);
scalar!(u16, U16, u16::to_le_bytes, u16::from_le_bytes);
scalar!(u32, U32, u32::to_le_bytes, u32::from_le_bytes);
scalar!(u64, U64, u64::to_le_bytes, u64::from_le_bytes);
scalar!(i64, I64, i64::to_le_bytes, i64::from_le_bytes);
scalar!(f32, F32, f32::to_le_bytes, f32::from_le_bytes);
scalar!(f64, F64, f64::to_le_bytes, f64::from_le_bytes);

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    fn check<T: Scalar + PartialEq + Debug>(values: [T; 2], expected: &[u8]) {
        assert_eq!(size_of::<T>(), T::ELEMENT.size());
        let mut bytes = vec![9];
        T::encode(&values, &mut bytes);
        assert_eq!(bytes[1..], *expected, "{}", T::ELEMENT);
        let mut again = [T::default(); 2];
        T::decode(expected, &mut again);
        assert_eq!(again, values);
    }

    #[test]
    fn numbers_are_little_endian() {
        check([true, false], &[1, 0]);
        check([1u8, 255], &[1, 255]);
        check([1u16, 0x0203], &[1, 0, 3, 2]);
        check([1u32, 0x0203_0405], &[1, 0, 0, 0, 5, 4, 3, 2]);
        check(
            [1u64, u64::MAX - 1],
            &[
                1, 0, 0, 0, 0, 0, 0, 0, 254, 255, 255, 255, 255, 255, 255, 255,
            ],
        );
        check(
            [1i64, -2],
            &[
                1, 0, 0, 0, 0, 0, 0, 0, 254, 255, 255, 255, 255, 255, 255, 255,
            ],
        );
        // 1 is an exponent of 127 or 1023, which ends in the last byte but one.
        check([1f32, -0.0], &[0, 0, 0x80, 0x3f, 0, 0, 0, 0x80]);
        check(
            [1f64, -0.0],
            &[0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0x80],
        );
    }
}
