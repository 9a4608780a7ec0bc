//! Operators that exist only while shapes are being computed, and constant patterns: Shape, Size,
//! Range, NonZero, CumSum, Trilu, EyeLike, OneHot.

use super::elementwise::dtype_of;
use super::{Binary, Import, Op};
use crate::ValueId;
use crate::builder::{self, Builder, NodeContext};
use crate::error::OpError;
use crate::tensor::{DType, Data, Tensor, element_count, strides};

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "Shape" => Some(import_shape),
        "Size" => Some(import_size),
        "Range" => Some(import_range),
        "NonZero" => Some(import_non_zero),
        "CumSum" => Some(import_cum_sum),
        "Trilu" => Some(import_trilu),
        "EyeLike" => Some(import_eye_like),
        "OneHot" => Some(import_one_hot),
        _ => None,
    }
}

/// A constant of a shape that the caller has matched to the elements.
fn constant(
    b: &mut Builder<'_>,
    shape: impl Into<Vec<usize>>,
    data: Data,
) -> Result<ValueId, OpError> {
    let tensor = Tensor::new(shape, data)
        .ok_or_else(|| OpError::invalid("shape and number of elements differ"))?;
    Ok(b.tensor(tensor))
}

fn import_shape(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let shape = b.shape(node.input(0)?);
    let rank = shape.len() as i64;
    // Bounds count from the end when negative and are clamped, as a slice's in Python.
    let bound = |value: i64| {
        let from_start = if value < 0 {
            value.saturating_add(rank)
        } else {
            value
        };
        from_start.clamp(0, rank) as usize
    };
    let start = bound(node.attributes.int("start", 0)?);
    let end = bound(node.attributes.int("end", rank)?);
    let extents = shape.get(start..end).unwrap_or_default();
    let extents = extents.iter().map(|&extent| extent as i64).collect();
    Ok(vec![b.tensor(Tensor::ints(extents))])
}

fn import_size(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let shape = b.shape(node.input(0)?);
    let number = element_count(&shape).ok_or_else(|| OpError::invalid("the input is too large"))?;
    Ok(vec![constant(b, [], Data::I64(vec![number as i64]))?])
}

/// `start`, `start + delta`, ... up to but without `limit`.
fn import_range(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let inputs = [node.input(0)?, node.input(1)?, node.input(2)?];
    let data = match b.dtype(inputs[0]) {
        DType::I64 => {
            let mut bounds = [0; 3];
            for ((bound, input), what) in bounds.iter_mut().zip(inputs).zip(RANGE) {
                *bound = match b.ints(input, what)?[..] {
                    [x] => x,
                    _ => return Err(OpError::invalid(format!("`{what}` must be a scalar"))),
                };
            }
            Data::I64(int_range(b, bounds)?)
        }
        DType::F32 => {
            let mut bounds = [0.0; 3];
            for ((bound, input), what) in bounds.iter_mut().zip(inputs).zip(RANGE) {
                *bound = b.float(input, what)?;
            }
            Data::F32(float_range(b, bounds)?)
        }
        DType::Bool => return Err(OpError::invalid("`start` is of type bool")),
    };
    Ok(vec![constant(b, [data.len()], data)?])
}

const RANGE: [&str; 3] = ["start", "limit", "delta"];

fn int_range(b: &mut Builder<'_>, [start, limit, delta]: [i64; 3]) -> Result<Vec<i64>, OpError> {
    let span = i128::from(limit) - i128::from(start);
    let delta = i128::from(delta);
    let number = match delta {
        0 => return Err(OpError::invalid("`delta` is 0")),
        // Rounded up.
        1.. => (span + delta - 1) / delta,
        _ => (span + delta + 1) / delta,
    };
    let number = usize::try_from(number.max(0)).unwrap_or(usize::MAX);
    b.make_room(number)?;
    // Every element lies between `start` and `limit`, so the sum fits.
    let element = |i| (i128::from(start) + i as i128 * delta) as i64;
    Ok((0..number).map(element).collect())
}

fn float_range(b: &mut Builder<'_>, [start, limit, delta]: [f32; 3]) -> Result<Vec<f32>, OpError> {
    let (start, delta) = (f64::from(start), f64::from(delta));
    let number = ((f64::from(limit) - start) / delta).ceil();
    if delta == 0.0 || number.is_nan() {
        return Err(OpError::invalid(
            "`start`, `limit` and `delta` make no sequence",
        ));
    }
    // The conversion saturates.
    let number = number as usize;
    b.make_room(number)?;
    Ok((0..number)
        .map(|i| (start + i as f64 * delta) as f32)
        .collect())
}

/// The coordinates of the elements that are not zero, one row per axis.
fn import_non_zero(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let x = b.required_constant(node.input(0)?, "X")?;
    let found: Vec<usize> = match x.data() {
        Data::F32(v) => matching(v, |&x| x != 0.0),
        Data::I64(v) => matching(v, |&x| x != 0),
        Data::Bool(v) => matching(v, |&x| x),
    };
    let coordinates = x
        .shape()
        .iter()
        .zip(strides(x.shape()))
        .flat_map(|(&extent, stride)| found.iter().map(move |i| (i / stride % extent) as i64))
        .collect();
    Ok(vec![constant(
        b,
        [x.shape().len(), found.len()],
        Data::I64(coordinates),
    )?])
}

fn matching<T>(elements: &[T], test: impl Fn(&T) -> bool) -> Vec<usize> {
    let found = elements.iter().enumerate().filter(|(_, x)| test(x));
    found.map(|(i, _)| i).collect()
}

/// Sums of the elements up to each position of an axis.
fn import_cum_sum(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let input = node.input(0)?;
    let axis = match b.ints(node.input(1)?, "axis")?[..] {
        [axis] => builder::axis(axis, b.rank(input))?,
        _ => return Err(OpError::invalid("`axis` must be a scalar")),
    };
    let exclusive = node.attributes.flag("exclusive", false)?;
    let reverse = node.attributes.flag("reverse", false)?;
    let Some(x) = b.constant(input) else {
        return Ok(vec![sums_by_product(b, input, axis, exclusive, reverse)?]);
    };
    let extent = x.shape()[axis];
    let stride = strides(x.shape())[axis];
    let sum = Sums {
        extent,
        stride,
        exclusive,
        reverse,
    };
    let data = match x.data() {
        Data::F32(v) => Data::F32(sum.of(v, 0.0, |a, b| Some(a + b))?),
        Data::I64(v) => Data::I64(sum.of(v, 0, i64::checked_add)?),
        Data::Bool(_) => return Err(OpError::invalid("the input is of type bool")),
    };
    Ok(vec![constant(b, x.shape(), data)?])
}

/// Cumulative sums as a product with a triangle of ones.
fn sums_by_product(
    b: &mut Builder<'_>,
    x: ValueId,
    axis: usize,
    exclusive: bool,
    reverse: bool,
) -> Result<ValueId, OpError> {
    let (shape, dtype) = (b.shape(x), b.dtype(x));
    let extent = shape[axis];
    let count = extent.checked_mul(extent);
    let count = count.ok_or_else(|| OpError::unsupported("too many elements"))?;
    b.make_room(count)?;
    let counts = |at: usize| {
        let (from, to) = (at / extent.max(1), at % extent.max(1));
        let (from, to) = if reverse { (to, from) } else { (from, to) };
        f32::from(u8::from(from < to || from == to && !exclusive))
    };
    let ones = Data::F32((0..count).map(counts).collect());
    let ones = constant(b, [extent, extent], ones)?;
    let mut perm: Vec<usize> = (0..shape.len()).collect();
    perm.swap(axis, shape.len() - 1);
    let numbers = b.cast(x, DType::F32)?;
    let last = b.push(Op::Transpose(perm.clone()), &[numbers])?;
    let sums = b.push(Op::MatMul, &[last, ones])?;
    let sums = b.push(Op::Transpose(perm), &[sums])?;
    b.cast(sums, dtype)
}

/// How cumulative sums run.
struct Sums {
    extent: usize,
    stride: usize,
    exclusive: bool,
    reverse: bool,
}

impl Sums {
    fn of<T: Copy>(
        &self,
        x: &[T],
        zero: T,
        add: impl Fn(T, T) -> Option<T>,
    ) -> Result<Vec<T>, OpError> {
        let mut sums = x.to_vec();
        // Elements of one line are `stride` apart; lines start at the first `stride` elements of
        // every block.
        let block = self.extent.saturating_mul(self.stride).max(1);
        for start in (0..x.len()).filter(|i| i % block < self.stride) {
            let mut sum = zero;
            for i in 0..self.extent {
                let step = if self.reverse { self.extent - 1 - i } else { i };
                let at = start + step * self.stride;
                let before = sum;
                sum =
                    add(sum, x[at]).ok_or_else(|| OpError::unsupported("the sum is too large"))?;
                sums[at] = if self.exclusive { before } else { sum };
            }
        }
        Ok(sums)
    }
}

/// The upper or lower triangle of matrices, with zeros elsewhere: a choice by a constant mask.
fn import_trilu(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let upper = node.attributes.flag("upper", true)?;
    let k = match node.optional(1) {
        None => 0,
        Some(k) => match b.ints(k, "k")?[..] {
            [k] => k,
            _ => return Err(OpError::invalid("`k` must be a scalar")),
        },
    };
    let [.., rows, columns] = b.shape(x)[..] else {
        return Err(OpError::invalid("the input is no matrix"));
    };
    let mask = diagonal_mask(b, rows, columns, |distance| match upper {
        true => distance >= i128::from(k),
        false => distance <= i128::from(k),
    })?;
    let mask = constant(b, [rows, columns], Data::Bool(mask))?;
    let zero = match b.dtype(x) {
        DType::F32 => Data::F32(vec![0.0]),
        DType::I64 => Data::I64(vec![0]),
        DType::Bool => Data::Bool(vec![false]),
    };
    let zero = constant(b, [], zero)?;
    Ok(vec![b.push(Op::Where, &[mask, x, zero])?])
}

/// For each element of a matrix, a test of how far right of the diagonal it stands.
fn diagonal_mask(
    b: &mut Builder<'_>,
    rows: usize,
    columns: usize,
    test: impl Fn(i128) -> bool,
) -> Result<Vec<bool>, OpError> {
    b.make_room(rows.saturating_mul(columns))?;
    // An extent of zero leaves no row to visit, however many the other one counts.
    let rows = if columns == 0 { 0 } else { rows };
    let mut mask = Vec::new();
    for row in 0..rows {
        mask.extend((0..columns).map(|column| test(column as i128 - row as i128)));
    }
    Ok(mask)
}

/// Ones on a diagonal of a matrix of the input's shape.
fn import_eye_like(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let k = node.attributes.int("k", 0)?;
    let dtype = match node.attributes.optional_int("dtype")? {
        Some(onnx) => dtype_of(onnx)?,
        None => b.dtype(x),
    };
    let [rows, columns] = b.shape(x)[..] else {
        return Err(OpError::invalid(format!(
            "the input has {} axes, not 2",
            b.rank(x)
        )));
    };
    let mask = diagonal_mask(b, rows, columns, |distance| distance == i128::from(k))?;
    let mask = constant(b, [rows, columns], Data::Bool(mask))?;
    Ok(vec![b.cast(mask, dtype)?])
}

/// `on` where the position along a fresh axis is the index, `off` elsewhere: the indices compared
/// with a constant range.
fn import_one_hot(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let indices = b.cast(node.input(0)?, DType::I64)?;
    let depth = b.required_constant(node.input(1)?, "depth")?;
    let depth = match (depth.data(), depth.data().len()) {
        (Data::I64(v), 1) => v[0],
        (Data::F32(v), 1) => v[0] as i64,
        _ => return Err(OpError::invalid("`depth` must be a scalar")),
    };
    let extent = usize::try_from(depth)
        .ok()
        .filter(|&d| d > 0)
        .ok_or_else(|| OpError::invalid(format!("`depth` is {depth}")))?;
    b.make_room(extent)?;
    let values = b.required_constant(node.input(2)?, "values")?;
    let value = |i: usize| values.select(Vec::new(), &[i]);
    let (Some(off), Some(on), [2]) = (value(0), value(1), values.shape()) else {
        return Err(OpError::invalid(
            "`values` must be a vector of two elements",
        ));
    };
    let (off, on) = (b.tensor(off), b.tensor(on));

    let shape = b.shape(indices);
    let axis = builder::axis(node.attributes.int("axis", -1)?, shape.len() + 1)?;
    // Indices count from the end when negative; those still out of range match nothing.
    let zero = constant(b, [], Data::I64(vec![0]))?;
    let size = constant(b, [], Data::I64(vec![depth]))?;
    let negative = b.binary(Binary::Less, indices, zero)?;
    let wrapped = b.binary(Binary::Add, indices, size)?;
    let indices = b.push(Op::Where, &[negative, wrapped, indices])?;

    let mut unsqueezed = shape.clone();
    unsqueezed.insert(axis, 1);
    let indices = b.reshape(indices, unsqueezed)?;
    let mut along = vec![1; shape.len() + 1 - axis];
    along[0] = extent;
    let range = constant(b, along, Data::I64((0..depth).collect()))?;
    let hit = b.binary(Binary::Equal, indices, range)?;
    Ok(vec![b.push(Op::Where, &[hit, on, off])?])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, bools, floats, ints};
    use super::*;

    #[test]
    fn shape_and_size_are_constants() {
        let shape = || Case::new("Shape", 15).input(DType::F32, &[3, 4, 5]);
        assert_eq!(shape().value(), ints(&[3], &[3, 4, 5]));
        // The examples of the ONNX documentation.
        assert_eq!(shape().int("start", 1).value(), ints(&[2], &[4, 5]));
        assert_eq!(shape().int("start", -1).value(), ints(&[1], &[5]));
        assert_eq!(shape().int("end", -1).value(), ints(&[2], &[3, 4]));
        assert_eq!(
            shape().int("start", -10).int("end", 10).value(),
            ints(&[3], &[3, 4, 5])
        );
        assert_eq!(
            shape().int("start", 2).int("end", 1).value(),
            ints(&[0], &[])
        );
        assert_eq!(
            shape().int("start", i64::MIN).value(),
            ints(&[3], &[3, 4, 5])
        );
        let size = Case::new("Size", 13).input(DType::F32, &[3, 4, 5]);
        assert_eq!(size.value(), ints(&[], &[60]));
    }

    fn range(start: Tensor, limit: Tensor, delta: Tensor) -> Case {
        Case::new("Range", 11)
            .constant(start)
            .constant(limit)
            .constant(delta)
    }

    #[test]
    fn ranges_stop_before_the_limit() {
        let int = |x| ints(&[], &[x]);
        // The examples of the ONNX documentation, then np.arange(0, 7, 3).
        assert_eq!(range(int(3), int(9), int(3)).value(), ints(&[2], &[3, 6]));
        assert_eq!(
            range(int(10), int(4), int(-2)).value(),
            ints(&[3], &[10, 8, 6])
        );
        assert_eq!(
            range(int(0), int(7), int(3)).value(),
            ints(&[3], &[0, 3, 6])
        );
        assert_eq!(
            range(int(7), int(0), int(-3)).value(),
            ints(&[3], &[7, 4, 1])
        );
        assert_eq!(range(int(5), int(1), int(1)).value(), ints(&[0], &[]));
        let far = range(int(i64::MAX - 2), int(i64::MAX), int(1));
        assert_eq!(far.value(), ints(&[2], &[i64::MAX - 2, i64::MAX - 1]));
        let float = Tensor::scalar;
        assert_eq!(
            range(float(1.0), float(2.2), float(0.5)).value(),
            floats(&[3], &[1.0, 1.5, 2.0])
        );
    }

    #[test]
    fn hostile_ranges_are_errors() {
        let int = |x| ints(&[], &[x]);
        assert_eq!(range(int(0), int(1), int(0)).error(), "`delta` is 0");
        let long = range(int(i64::MIN), int(i64::MAX), int(1)).error();
        assert!(long.starts_with("unsupported: a constant of "), "{long}");
        let float = Tensor::scalar;
        for (limit, delta) in [(1.0, 0.0), (f32::NAN, 1.0), (1.0, f32::NAN)] {
            let error = range(float(0.0), float(limit), float(delta)).error();
            assert_eq!(error, "`start`, `limit` and `delta` make no sequence");
        }
        let endless = range(float(0.0), float(f32::INFINITY), float(1.0)).error();
        assert!(
            endless.starts_with("unsupported: a constant of "),
            "{endless}"
        );
        let open = Case::new("Range", 11)
            .input(DType::I64, &[])
            .constant(int(1))
            .constant(int(1));
        assert_eq!(
            open.error(),
            "unsupported: `start` depends on the model's input"
        );
        assert_eq!(
            range(ints(&[2], &[0, 0]), int(1), int(1)).error(),
            "`start` must be a scalar"
        );
    }

    #[test]
    fn coordinates_of_what_is_not_zero() {
        // The example of the ONNX documentation.
        let x = bools(&[2, 2], &[true, false, true, true]);
        let got = Case::new("NonZero", 13).constant(x).value();
        assert_eq!(got, ints(&[2, 3], &[0, 1, 1, 0, 0, 1]));
        let none = Case::new("NonZero", 13)
            .constant(floats(&[2, 0], &[]))
            .value();
        assert_eq!(none, ints(&[2, 0], &[]));
    }

    /// The examples of the ONNX documentation.
    #[test]
    fn sums_accumulate() {
        let x = || floats(&[2, 3], &[1., 2., 3., 4., 5., 6.]);
        let sum = |axis| {
            Case::new("CumSum", 14)
                .constant(x())
                .constant(ints(&[], &[axis]))
        };
        assert_eq!(sum(0).value(), floats(&[2, 3], &[1., 2., 3., 5., 7., 9.]));
        assert_eq!(sum(-1).value(), floats(&[2, 3], &[1., 3., 6., 4., 9., 15.]));
        assert_eq!(
            sum(1).int("exclusive", 1).value(),
            floats(&[2, 3], &[0., 1., 3., 0., 4., 9.])
        );
        assert_eq!(
            sum(1).int("exclusive", 1).int("reverse", 1).value(),
            floats(&[2, 3], &[5., 3., 0., 11., 6., 0.])
        );
        let large = Case::new("CumSum", 14)
            .constant(ints(&[2], &[i64::MAX, 1]))
            .constant(ints(&[], &[0]));
        assert_eq!(large.error(), "unsupported: the sum is too large");
        // Of what depends on the input, by a product with a triangle of ones.
        let open = |reverse| {
            let imported = Case::new("CumSum", 14)
                .input(DType::I64, &[3])
                .constant(ints(&[], &[0]))
                .int("exclusive", 1)
                .int("reverse", reverse)
                .import()
                .unwrap();
            let product = imported.graph.nodes().iter().find(|n| n.op == Op::MatMul);
            let ones = imported.graph.constant(product.unwrap().inputs[1]);
            assert_eq!(imported.ty().dtype, DType::I64);
            ones.unwrap().as_f32().unwrap().to_vec()
        };
        assert_eq!(open(0), [0., 1., 1., 0., 0., 1., 0., 0., 0.]);
        assert_eq!(open(1), [0., 0., 0., 1., 0., 0., 1., 1., 0.]);
    }

    /// `np.triu` and `np.tril` of `np.arange(1, 7).reshape(2, 3)`.
    #[test]
    fn triangles_are_cut_out() {
        let x = || ints(&[2, 3], &[1, 2, 3, 4, 5, 6]);
        let trilu = || Case::new("Trilu", 14).constant(x());
        assert_eq!(trilu().value(), ints(&[2, 3], &[1, 2, 3, 0, 5, 6]));
        assert_eq!(
            trilu().constant(ints(&[], &[1])).value(),
            ints(&[2, 3], &[0, 2, 3, 0, 0, 6])
        );
        assert_eq!(
            trilu().constant(ints(&[], &[-1])).int("upper", 0).value(),
            ints(&[2, 3], &[0, 0, 0, 4, 0, 0])
        );
        assert_eq!(trilu().constant(ints(&[], &[i64::MIN])).value(), x(),);
        let on_activations = Case::new("Trilu", 14).input(DType::F32, &[5, 2, 3]);
        assert_eq!(on_activations.import().unwrap().ops(), [&Op::Where]);
        let vector = Case::new("Trilu", 14).input(DType::F32, &[3]);
        assert_eq!(vector.error(), "the input is no matrix");
    }

    #[test]
    fn ones_on_a_diagonal() {
        let eye = |shape: &[usize]| Case::new("EyeLike", 9).input(DType::I64, shape);
        assert_eq!(eye(&[2, 2]).value(), ints(&[2, 2], &[1, 0, 0, 1]));
        assert_eq!(
            eye(&[2, 3]).int("k", 1).int("dtype", 1).value(),
            floats(&[2, 3], &[0., 1., 0., 0., 0., 1.])
        );
        assert_eq!(eye(&[1 << 50, 0]).value(), ints(&[1 << 50, 0], &[]));
        assert_eq!(eye(&[2]).error(), "the input has 1 axes, not 2");
        let large = eye(&[1 << 30, 1 << 30]).error();
        assert!(large.starts_with("unsupported: a constant of "), "{large}");
    }

    fn one_hot(indices: Tensor, depth: Tensor, values: Tensor) -> Case {
        Case::new("OneHot", 11)
            .constant(indices)
            .constant(depth)
            .constant(values)
    }

    #[test]
    fn indices_become_rows() {
        let values = || floats(&[2], &[1.0, 3.0]);
        let hot = || one_hot(ints(&[2], &[0, -1]), ints(&[], &[3]), values());
        assert_eq!(hot().value(), floats(&[2, 3], &[3., 1., 1., 1., 1., 3.]));
        assert_eq!(
            hot().int("axis", 0).value(),
            floats(&[3, 2], &[3., 1., 1., 1., 1., 3.])
        );
        // Out of range: nothing is on.
        let out = one_hot(floats(&[2], &[5.0, -4.0]), floats(&[1], &[3.0]), values());
        assert_eq!(out.value(), floats(&[2, 3], &[1.0; 6]));
    }

    #[test]
    fn one_hot_checks_depth_and_values() {
        let indices = || ints(&[1], &[0]);
        let values = || floats(&[2], &[0.0, 1.0]);
        let depth = one_hot(indices(), ints(&[], &[0]), values());
        assert_eq!(depth.error(), "`depth` is 0");
        let depth = one_hot(indices(), ints(&[2], &[1, 1]), values());
        assert_eq!(depth.error(), "`depth` must be a scalar");
        let three = one_hot(indices(), ints(&[], &[2]), floats(&[3], &[0.0; 3]));
        assert_eq!(three.error(), "`values` must be a vector of two elements");
        let long = one_hot(indices(), ints(&[], &[i64::MAX]), values()).error();
        assert!(long.starts_with("unsupported: a constant of "), "{long}");
    }
}
