//! Constant tensors and the types of values.
//!
//! Three element types are enough for inference: every floating-point width is read as `f32`,
//! every integer width as `i64`. What a file stored in `f16`, `bf16` or `f64` is converted once.

use std::fmt;

/// Element type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// Any floating-point type of the file.
    F32,
    /// Any integer type of the file.
    I64,
    /// Truth values.
    Bool,
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DType::F32 => "float",
            DType::I64 => "integer",
            DType::Bool => "bool",
        })
    }
}

/// Element type and static shape of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Extent of each axis.
    pub shape: Vec<usize>,
}

impl TensorType {
    /// A type from its parts.
    pub fn new(dtype: DType, shape: impl Into<Vec<usize>>) -> Self {
        TensorType {
            dtype,
            shape: shape.into(),
        }
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements; the largest number there is, where it would be larger.
    pub fn numel(&self) -> usize {
        match self.shape.contains(&0) {
            true => 0,
            false => self.shape.iter().fold(1, |n, &d| n.saturating_mul(d)),
        }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.dtype, ShapeDisplay(&self.shape))
    }
}

/// Shows a shape as `1x3x32x32`, and a scalar's as `scalar`.
pub struct ShapeDisplay<'a>(pub &'a [usize]);

impl fmt::Display for ShapeDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.0.split_first() else {
            return f.write_str("scalar");
        };
        write!(f, "{first}")?;
        rest.iter().try_for_each(|d| write!(f, "x{d}"))
    }
}

/// The elements of a constant, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Floating-point elements.
    F32(Vec<f32>),
    /// Integer elements.
    I64(Vec<i64>),
    /// Truth values.
    Bool(Vec<bool>),
}

impl Data {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Data::F32(v) => v.len(),
            Data::I64(v) => v.len(),
            Data::Bool(v) => v.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        match self {
            Data::F32(_) => DType::F32,
            Data::I64(_) => DType::I64,
            Data::Bool(_) => DType::Bool,
        }
    }
}

/// A constant tensor: row-major elements and their shape, which always agree in number.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    shape: Vec<usize>,
    data: Data,
}

impl Tensor {
    /// A tensor from its parts, or `None` when the number of elements is not the shape's.
    pub fn new(shape: impl Into<Vec<usize>>, data: Data) -> Option<Self> {
        let shape = shape.into();
        (element_count(&shape)? == data.len()).then_some(Tensor { shape, data })
    }

    /// A scalar of floating-point type.
    pub fn scalar(value: f32) -> Self {
        Tensor {
            shape: Vec::new(),
            data: Data::F32(vec![value]),
        }
    }

    /// A vector of floating-point type.
    pub fn vector(values: Vec<f32>) -> Self {
        Tensor {
            shape: vec![values.len()],
            data: Data::F32(values),
        }
    }

    /// A vector of integers.
    pub fn ints(values: Vec<i64>) -> Self {
        Tensor {
            shape: vec![values.len()],
            data: Data::I64(values),
        }
    }

    /// Extent of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.data.dtype()
    }

    /// Element type and shape.
    pub fn ty(&self) -> TensorType {
        TensorType::new(self.dtype(), self.shape.clone())
    }

    /// The elements, when they are floating-point numbers.
    pub fn as_f32(&self) -> Option<&[f32]> {
        match &self.data {
            Data::F32(v) => Some(v),
            Data::I64(_) | Data::Bool(_) => None,
        }
    }

    /// The elements, when they are integers.
    pub fn as_i64(&self) -> Option<&[i64]> {
        match &self.data {
            Data::I64(v) => Some(v),
            Data::F32(_) | Data::Bool(_) => None,
        }
    }

    /// The elements as floating-point numbers, whatever their type; truth values are 0 and 1.
    pub fn to_f32(&self) -> Vec<f32> {
        match &self.data {
            Data::F32(v) => v.clone(),
            Data::I64(v) => v.iter().map(|&x| x as f32).collect(),
            Data::Bool(v) => v.iter().map(|&x| f32::from(u8::from(x))).collect(),
        }
    }

    /// The same elements under another shape, or `None` when the number of elements differs.
    pub fn reshaped(&self, shape: impl Into<Vec<usize>>) -> Option<Self> {
        Tensor::new(shape, self.data.clone())
    }

    /// A tensor of the elements at the given row-major positions of `self`.
    ///
    /// This is how every structural operator (transpose, slice, gather, expand...) is evaluated
    /// on constants: a list of source positions, whatever the element type.
    pub(crate) fn select(&self, shape: Vec<usize>, positions: &[usize]) -> Option<Self> {
        fn pick<T: Copy>(from: &[T], at: &[usize]) -> Option<Vec<T>> {
            at.iter().map(|&i| from.get(i).copied()).collect()
        }
        let data = match &self.data {
            Data::F32(v) => Data::F32(pick(v, positions)?),
            Data::I64(v) => Data::I64(pick(v, positions)?),
            Data::Bool(v) => Data::Bool(pick(v, positions)?),
        };
        Tensor::new(shape, data)
    }
}

/// Number of elements of a shape, or `None` when it, or a stride, is beyond what an address can
/// count: extents of zero do not excuse the others.
pub(crate) fn element_count(shape: &[usize]) -> Option<usize> {
    let bound = shape
        .iter()
        .try_fold(size_of::<i64>(), |acc, &d| acc.checked_mul(d.max(1)))?;
    isize::try_from(bound).ok()?;
    Some(shape.iter().product())
}

/// Row-major strides of a shape; the largest number there is, where one would be larger.
pub fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (0..shape.len().saturating_sub(1)).rev() {
        strides[axis] = usize::saturating_mul(strides[axis + 1], shape[axis + 1]);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shape_and_data_must_agree() {
        assert!(Tensor::new([2, 2], Data::F32(vec![0.0; 4])).is_some());
        assert!(Tensor::new([2, 2], Data::F32(vec![0.0; 3])).is_none());
        assert!(Tensor::new([usize::MAX, 2], Data::F32(vec![])).is_none());
        assert!(Tensor::new([0, usize::MAX, 2], Data::F32(vec![])).is_none());
        assert!(Tensor::new([2, 0, 3], Data::F32(vec![])).is_some());
    }

    #[test]
    fn shapes_are_shown_with_crosses() {
        assert_eq!(ShapeDisplay(&[1, 3, 32]).to_string(), "1x3x32");
        assert_eq!(ShapeDisplay(&[]).to_string(), "scalar");
    }

    #[test]
    fn strides_are_row_major() {
        assert_eq!(strides(&[2, 3, 4]), [12, 4, 1]);
        assert_eq!(strides(&[]), [0usize; 0]);
    }

    #[test]
    fn absurd_shapes_have_as_many_elements_as_can_be_counted() {
        let numel = |shape: &[usize]| TensorType::new(DType::F32, shape).numel();
        assert_eq!(numel(&[1 << 40, 1 << 40]), usize::MAX);
        assert_eq!(numel(&[1 << 40, 1 << 40, 0]), 0);
        assert_eq!(strides(&[2, 1 << 40, 1 << 40]), [usize::MAX, 1 << 40, 1]);
    }
}
