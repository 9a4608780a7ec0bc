//! Rust's types of numbers as files hold them: one after the other, little-endian.

use crate::element::Element;

/// A type of numbers that [`Arrays`](crate::Arrays) hold in memory, that [`NpzWriter`](crate::npz::NpzWriter) and
/// [`SafetensorsWriter`](crate::safetensors::SafetensorsWriter) write and
/// [`SafetensorsReader`](crate::safetensors::SafetensorsReader) reads.
pub trait Scalar: sealed::Sealed + Copy + Default + Send + Sync + 'static {
    /// The element type in the file.
    const ELEMENT: Element;
}

mod sealed {
    pub trait Sealed: Sized {
        /// Writes as many numbers as both `values` and `bytes` hold.
        fn write(values: &[Self], bytes: &mut [u8]);

        /// Appends the bytes of `values`.
        fn encode(values: &[Self], bytes: &mut Vec<u8>) {
            let start = bytes.len();
            bytes.resize(start + size_of_val(values), 0);
            Self::write(values, &mut bytes[start..]);
        }

        /// Reads as many numbers as both `bytes` and `out` hold.
        fn decode(bytes: &[u8], out: &mut [Self]);

        /// Converts as many numbers as both `values` and `out` hold.
        fn to_f32(values: &[Self], out: &mut [f32]);
    }
}

macro_rules! scalar {
    ($type:ty, $element:ident, $to_bytes:expr, $from_bytes:expr, $to_f32:expr) => {
        impl Scalar for $type {
            const ELEMENT: Element = Element::$element;
        }
        impl sealed::Sealed for $type {
            fn write(values: &[Self], bytes: &mut [u8]) {
                let (groups, _) = bytes.as_chunks_mut::<{ size_of::<$type>() }>();
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

            fn to_f32(values: &[Self], out: &mut [f32]) {
                for (number, &value) in out.iter_mut().zip(values) {
                    *number = $to_f32(value);
                }
            }
        }
    };
    ($type:ty, $element:ident) => {
        scalar!(
            $type,
            $element,
            <$type>::to_le_bytes,
            <$type>::from_le_bytes,
            |value| value as f32
        );
    };
}

scalar!(
    bool,
    Bool,
    |v| [u8::from(v)],
    |[byte]: [u8; 1]| byte != 0,
    |v| f32::from(u8::from(v))
);
scalar!(u8, U8);
scalar!(i8, I8);
scalar!(u16, U16);
scalar!(i16, I16);
scalar!(u32, U32);
scalar!(i32, I32);
scalar!(u64, U64);
scalar!(i64, I64);
scalar!(f32, F32);
scalar!(f64, F64);

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
        // Numbers in memory and in a file are the same `f32`.
        let (mut here, mut there) = ([0f32; 2], [0f32; 2]);
        T::to_f32(&values, &mut here);
        T::ELEMENT.to_f32(false, expected, &mut there);
        assert_eq!(here.map(f32::to_bits), there.map(f32::to_bits));
    }

    #[test]
    fn numbers_are_little_endian() {
        check([true, false], &[1, 0]);
        check([1u8, 255], &[1, 255]);
        check([1i8, -2], &[1, 254]);
        check([1u16, 0x0203], &[1, 0, 3, 2]);
        check([1i16, -2], &[1, 0, 254, 255]);
        check([1u32, 0x0203_0405], &[1, 0, 0, 0, 5, 4, 3, 2]);
        check([1i32, -2], &[1, 0, 0, 0, 254, 255, 255, 255]);
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
