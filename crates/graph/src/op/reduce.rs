//! Reductions over axes.

use super::{Import, Op, arguments};
use crate::ValueId;
use crate::builder::{self, Builder, NodeContext};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::{DType, Data, ShapeDisplay, Tensor, TensorType, strides};

/// What a reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceKind {
    /// Arithmetic mean.
    Mean,
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// Maximum.
    Max,
    /// Minimum.
    Min,
    /// Sum of absolute values.
    L1,
    /// Square root of the sum of squares.
    L2,
    /// Sum of squares.
    SumSquare,
    /// Logarithm of the sum.
    LogSum,
    /// Logarithm of the sum of exponentials.
    LogSumExp,
}

/// A reduction over axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduce {
    /// What is computed.
    pub kind: ReduceKind,
    /// The axes that are reduced, at least one, in ascending order.
    pub axes: Vec<usize>,
    /// Whether reduced axes stay with extent 1.
    pub keep_dims: bool,
}

impl ReduceKind {
    const ALL: [ReduceKind; 10] = [
        ReduceKind::Mean,
        ReduceKind::Sum,
        ReduceKind::Prod,
        ReduceKind::Max,
        ReduceKind::Min,
        ReduceKind::L1,
        ReduceKind::L2,
        ReduceKind::SumSquare,
        ReduceKind::LogSum,
        ReduceKind::LogSumExp,
    ];

    fn name(self) -> &'static str {
        match self {
            ReduceKind::Mean => "ReduceMean",
            ReduceKind::Sum => "ReduceSum",
            ReduceKind::Prod => "ReduceProd",
            ReduceKind::Max => "ReduceMax",
            ReduceKind::Min => "ReduceMin",
            ReduceKind::L1 => "ReduceL1",
            ReduceKind::L2 => "ReduceL2",
            ReduceKind::SumSquare => "ReduceSumSquare",
            ReduceKind::LogSum => "ReduceLogSum",
            ReduceKind::LogSumExp => "ReduceLogSumExp",
        }
    }

    fn named(op_type: &str) -> Option<ReduceKind> {
        Self::ALL.into_iter().find(|kind| kind.name() == op_type)
    }

    /// Whether the result of integers is an integer.
    fn keeps_integers(self) -> bool {
        match self {
            ReduceKind::Sum
            | ReduceKind::Prod
            | ReduceKind::Max
            | ReduceKind::Min
            | ReduceKind::L1
            | ReduceKind::SumSquare => true,
            ReduceKind::Mean | ReduceKind::L2 | ReduceKind::LogSum | ReduceKind::LogSumExp => false,
        }
    }

    /// The reduction of numbers.
    fn of_floats(self, x: &[f64]) -> f64 {
        // Adding to 0, not to the -0 that `Iterator::sum` makes of nothing.
        let sum = |f: fn(f64) -> f64| x.iter().fold(0.0, |acc, &x| acc + f(x));
        // NaN is larger and smaller than everything, as in NumPy.
        let max = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
        let min = |a: f64, b: f64| if a.is_nan() || a < b { a } else { b };
        match self {
            ReduceKind::Mean => sum(|x| x) / x.len() as f64,
            ReduceKind::Sum => sum(|x| x),
            ReduceKind::Prod => x.iter().product(),
            ReduceKind::Max => x.iter().copied().fold(f64::NEG_INFINITY, max),
            ReduceKind::Min => x.iter().copied().fold(f64::INFINITY, min),
            ReduceKind::L1 => sum(f64::abs),
            ReduceKind::L2 => sum(|x| x * x).sqrt(),
            ReduceKind::SumSquare => sum(|x| x * x),
            ReduceKind::LogSum => sum(|x| x).ln(),
            ReduceKind::LogSumExp => {
                let top = x.iter().copied().fold(f64::NEG_INFINITY, max);
                if top.is_finite() {
                    top + x.iter().map(|&x| (x - top).exp()).sum::<f64>().ln()
                } else {
                    top
                }
            }
        }
    }

    /// The reduction of integers, or `None` where it is none or too large.
    fn of_ints(self, x: &[i64]) -> Option<i64> {
        let mut x = x.iter().copied();
        match self {
            ReduceKind::Sum => x.try_fold(0, i64::checked_add),
            ReduceKind::Prod => x.try_fold(1, i64::checked_mul),
            ReduceKind::Max => x.max(),
            ReduceKind::Min => x.min(),
            ReduceKind::L1 => x.try_fold(0i64, |acc, x| acc.checked_add(x.checked_abs()?)),
            ReduceKind::SumSquare => x.try_fold(0i64, |acc, x| acc.checked_add(x.checked_mul(x)?)),
            ReduceKind::Mean | ReduceKind::L2 | ReduceKind::LogSum | ReduceKind::LogSumExp => None,
        }
    }
}

impl Reduce {
    pub(super) fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// The output's type.
    pub fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let [x] = arguments(inputs)?;
        match x.dtype {
            DType::F32 => {}
            DType::I64 if self.kind.keeps_integers() => {}
            other @ (DType::I64 | DType::Bool) => {
                return Err(OpError::unsupported(format!(
                    "the input is of type {other}"
                )));
            }
        }
        let shape = reduced(&x.shape, &self.axes, self.keep_dims)?;
        Ok(TensorType::new(x.dtype, shape))
    }

    pub(super) fn eval(&self, inputs: &[&Tensor], output: &TensorType) -> Option<Tensor> {
        let x = inputs.first()?;
        // Next to an extent of zero, the others may be too large for a list.
        let (starts, offsets) = match output.numel() {
            0 => (Vec::new(), Vec::new()),
            _ => self.groups(x.shape()),
        };
        let data = match x.data() {
            Data::F32(v) => {
                let reduce = |start: &usize| {
                    let element = |offset| v.get(start + offset).map(|&x| f64::from(x));
                    let group: Option<Vec<f64>> = offsets.iter().map(element).collect();
                    Some(self.kind.of_floats(&group?) as f32)
                };
                Data::F32(starts.iter().map(reduce).collect::<Option<_>>()?)
            }
            Data::I64(v) => {
                let reduce = |start: &usize| {
                    let element = |offset| v.get(start + offset).copied();
                    let group: Option<Vec<i64>> = offsets.iter().map(element).collect();
                    self.kind.of_ints(&group?)
                };
                Data::I64(starts.iter().map(reduce).collect::<Option<_>>()?)
            }
            Data::Bool(_) => return None,
        };
        Tensor::new(output.shape.clone(), data)
    }

    /// The row-major position of the first element of each group that is reduced to one, and
    /// how far from it the group's elements stand.
    fn groups(&self, shape: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let mut starts = vec![0];
        let mut offsets = vec![0];
        for (axis, (&extent, stride)) in shape.iter().zip(strides(shape)).enumerate() {
            let list = match self.axes.contains(&axis) {
                true => &mut offsets,
                false => &mut starts,
            };
            *list = list
                .iter()
                .flat_map(|&at| (0..extent).map(move |i| at + i * stride))
                .collect();
        }
        (starts, offsets)
    }

    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        let axes: Vec<i64> = self.axes.iter().map(|&a| a as i64).collect();
        node.int_input(&axes);
        node.int("keepdims", i64::from(self.keep_dims));
    }
}

/// The shape without the given axes, which must exist, ascend and not be empty.
pub(super) fn reduced(
    shape: &[usize],
    axes: &[usize],
    keep_dims: bool,
) -> Result<Vec<usize>, OpError> {
    let ascending = axes.windows(2).all(|pair| pair[0] < pair[1]);
    if !ascending || axes.last().is_none_or(|&last| last >= shape.len()) {
        let shape = ShapeDisplay(shape);
        return Err(OpError::invalid(format!(
            "axes {axes:?} of shape `{shape}`"
        )));
    }
    if let Some(axis) = axes.iter().find(|&&axis| shape[axis] == 0) {
        return Err(OpError::unsupported(format!(
            "axis {axis} has no element to reduce"
        )));
    }
    Ok(remaining(shape, axes, keep_dims))
}

/// The shape without the given axes, or with an extent of 1 there.
fn remaining(shape: &[usize], axes: &[usize], keep_dims: bool) -> Vec<usize> {
    let extent = |(axis, &extent): (usize, &usize)| match axes.contains(&axis) {
        true => keep_dims.then_some(1),
        false => Some(extent),
    };
    shape.iter().enumerate().filter_map(extent).collect()
}

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" => Some(import_global_pool),
        _ => ReduceKind::named(op_type).map(|_| import as Import),
    }
}

/// Axes are an attribute before opset 18 (ReduceSum: 13), an input since; without any, all axes
/// are reduced, unless `noop_with_empty_axes` says none.
fn import(node: &NodeContext<'_>, b: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let kind = ReduceKind::named(node.op_type)
        .ok_or_else(|| OpError::unsupported(format!("reduction `{}`", node.op_type)))?;
    let as_input = if kind == ReduceKind::Sum { 13 } else { 18 };
    let keep_dims = node.attributes.flag("keepdims", true)?;
    let mut noop = false;
    let axes = if node.opset < as_input {
        node.attributes.ints("axes")?
    } else {
        noop = node.attributes.flag("noop_with_empty_axes", false)?;
        node.optional(1)
            .map(|axes| b.ints(axes, "axes"))
            .transpose()?
    };
    let axes = axes.unwrap_or_default();
    let x = node.input(0)?;
    if axes.is_empty() && noop {
        return import_noop(kind, x);
    }
    let rank = b.rank(x);
    if rank == 0 {
        // A scalar is a vector of one element, so that there is an axis to reduce.
        builder::axes(&axes, rank)?;
        let vector = b.reshape(x, [1])?;
        return Ok(vec![reduce(b, kind, vec![0], false, vector)?]);
    }
    let mut axes = match axes.is_empty() {
        true => (0..rank).collect(),
        false => builder::axes(&axes, rank)?,
    };
    axes.sort_unstable();
    Ok(vec![reduce(b, kind, axes, keep_dims, x)?])
}

/// No axis is reduced. The specification of opset 18 says that the input is returned; later
/// texts say that the function of single elements (square, absolute value...) still applies.
fn import_noop(kind: ReduceKind, x: ValueId) -> Result<Vec<ValueId>, OpError> {
    match kind {
        ReduceKind::Mean
        | ReduceKind::Sum
        | ReduceKind::Prod
        | ReduceKind::Max
        | ReduceKind::Min
        | ReduceKind::LogSumExp => Ok(vec![x]),
        ReduceKind::L1 | ReduceKind::L2 | ReduceKind::SumSquare | ReduceKind::LogSum => {
            Err(OpError::unsupported("`noop_with_empty_axes` without axes"))
        }
    }
}

/// A global pool is a reduction of the spatial axes.
fn import_global_pool(
    node: &NodeContext<'_>,
    b: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let kind = match node.op_type {
        "GlobalMaxPool" => ReduceKind::Max,
        "GlobalLpPool" => match node.attributes.int("p", 2)? {
            1 => ReduceKind::L1,
            2 => ReduceKind::L2,
            p => return Err(OpError::unsupported(format!("`p` is {p}"))),
        },
        _ => ReduceKind::Mean,
    };
    let x = node.input(0)?;
    let rank = b.rank(x);
    if rank < 3 {
        return Err(OpError::invalid(format!(
            "the input has {rank} axes, none spatial"
        )));
    }
    Ok(vec![reduce(b, kind, (2..rank).collect(), true, x)?])
}

/// Appends a reduction. That of no elements is a constant: the sum is 0, the maximum minus
/// infinity, the mean not a number.
pub(super) fn reduce(
    b: &mut Builder<'_>,
    kind: ReduceKind,
    axes: Vec<usize>,
    keep_dims: bool,
    x: ValueId,
) -> Result<ValueId, OpError> {
    let shape = b.shape(x);
    let is_empty = |&axis: &usize| shape.get(axis) == Some(&0);
    if let Some(axis) = axes.iter().copied().find(is_empty) {
        let neutral = match b.dtype(x) {
            DType::F32 => Some(Data::F32(vec![kind.of_floats(&[]) as f32])),
            DType::I64 => kind.of_ints(&[]).map(|x| Data::I64(vec![x])),
            DType::Bool => None,
        };
        let neutral = neutral.and_then(|data| Tensor::new([], data));
        let neutral = b.tensor(neutral.ok_or_else(|| {
            OpError::unsupported(format!("axis {axis} has no element to reduce"))
        })?);
        let shape = remaining(&shape, &axes, keep_dims);
        return b.push(Op::Expand(shape), &[neutral]);
    }
    let reduce = Reduce {
        kind,
        axes,
        keep_dims,
    };
    b.push(Op::Reduce(reduce), &[x])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, assert_close, assert_round_trip, floats, ints};
    use super::*;

    /// The tensor of the examples in the ONNX documentation of the Reduce operators.
    fn example() -> Tensor {
        let x: Vec<f32> = (1..=12).map(|x| x as f32).collect();
        floats(&[3, 2, 2], &x)
    }

    /// Values of NumPy over axis 1 of `np.arange(1, 13).reshape(3, 2, 2)`, as in the ONNX
    /// documentation.
    #[test]
    fn reductions_have_the_documented_values() {
        let table: [(&str, [f32; 6]); 10] = [
            ("ReduceMean", [2., 3., 6., 7., 10., 11.]),
            ("ReduceSum", [4., 6., 12., 14., 20., 22.]),
            ("ReduceProd", [3., 8., 35., 48., 99., 120.]),
            ("ReduceMax", [3., 4., 7., 8., 11., 12.]),
            ("ReduceMin", [1., 2., 5., 6., 9., 10.]),
            ("ReduceL1", [4., 6., 12., 14., 20., 22.]),
            (
                "ReduceL2",
                [
                    3.162_277_7,
                    4.472_136,
                    8.602_325,
                    10.,
                    14.212_67,
                    15.620_499,
                ],
            ),
            ("ReduceSumSquare", [10., 20., 74., 100., 202., 244.]),
            (
                "ReduceLogSum",
                [
                    1.386_294_4,
                    1.791_759_5,
                    2.484_906_6,
                    2.639_057_3,
                    2.995_732_3,
                    3.091_042_5,
                ],
            ),
            (
                "ReduceLogSumExp",
                [
                    3.126_928, 4.126_928, 7.126_928, 8.126_928, 11.126_928, 12.126_928,
                ],
            ),
        ];
        for (op, expected) in table {
            let axes = ints(&[1], &[-2]);
            let got = Case::new(op, 18).constant(example()).constant(axes).value();
            assert_close(&got, &floats(&[3, 1, 2], &expected), 1e-6);
        }
    }

    #[test]
    fn axes_are_an_attribute_in_old_opsets() {
        let case = || {
            Case::new("ReduceSum", 11)
                .constant(example())
                .int("keepdims", 0)
        };
        let got = case().ints("axes", &[2, 0]).value();
        assert_eq!(got, floats(&[2], &[33.0, 45.0]));
        assert_eq!(case().value(), floats(&[], &[78.0]));
        let same = case().ints("axes", &[1, -2]);
        assert_eq!(same.error(), "axis -2 is named twice");
        assert_eq!(
            case().ints("axes", &[3]).error(),
            "axis 3 does not exist in 3 axes"
        );
        let attribute = Case::new("ReduceSum", 13)
            .constant(example())
            .ints("axes", &[0]);
        assert_eq!(attribute.error(), "unsupported: attribute `axes`");
    }

    #[test]
    fn axes_must_be_constant() {
        let case = Case::new("ReduceSum", 13)
            .input(DType::F32, &[2])
            .input(DType::I64, &[1]);
        assert_eq!(
            case.error(),
            "unsupported: `axes` depends on the model's input"
        );
    }

    #[test]
    fn without_axes_everything_or_nothing_is_reduced() {
        let none = || {
            Case::new("ReduceSum", 13)
                .constant(example())
                .constant(ints(&[0], &[]))
        };
        assert_eq!(none().value(), floats(&[1, 1, 1], &[78.0]));
        assert_eq!(none().int("noop_with_empty_axes", 1).value(), example());
        let square = Case::new("ReduceSumSquare", 18)
            .constant(example())
            .int("noop_with_empty_axes", 1);
        assert_eq!(
            square.error(),
            "unsupported: `noop_with_empty_axes` without axes"
        );
        let scalar = Case::new("ReduceL1", 18).constant(Tensor::scalar(-2.0));
        assert_eq!(scalar.value(), floats(&[], &[2.0]));
    }

    #[test]
    fn integers_are_reduced_exactly() {
        let x = || ints(&[3], &[-2, 5, 1 << 60]);
        let of = |op| Case::new(op, 18).constant(x()).int("keepdims", 0);
        assert_eq!(of("ReduceSum").value(), ints(&[], &[3 + (1 << 60)]));
        assert_eq!(of("ReduceMax").value(), ints(&[], &[1 << 60]));
        assert_eq!(of("ReduceL1").value(), ints(&[], &[7 + (1 << 60)]));
        // Too large for 64 bits: the node stays.
        assert_eq!(of("ReduceProd").import().unwrap().ops().len(), 1);
        assert_eq!(
            of("ReduceMean").error(),
            "unsupported: the input is of type integer"
        );
    }

    #[test]
    fn the_reduction_of_nothing_is_neutral() {
        let of = |op_type| {
            let case = Case::new(op_type, 18).input(DType::F32, &[2, 0]);
            case.constant(ints(&[1], &[1])).value()
        };
        let both = |x: f32| floats(&[2, 1], &[x, x]);
        assert_eq!(of("ReduceSum"), both(0.0));
        assert_eq!(of("ReduceProd"), both(1.0));
        assert_eq!(of("ReduceL2"), both(0.0));
        assert_eq!(of("ReduceMax"), both(f32::NEG_INFINITY));
        assert_eq!(of("ReduceMin"), both(f32::INFINITY));
        assert_eq!(of("ReduceLogSumExp"), both(f32::NEG_INFINITY));
        assert!(of("ReduceMean").to_f32().iter().all(|x| x.is_nan()));
        let integers = Case::new("ReduceMax", 18).input(DType::I64, &[2, 0]);
        assert_eq!(
            integers.error(),
            "unsupported: axis 1 has no element to reduce"
        );
        let other = Case::new("ReduceMax", 18)
            .constant(floats(&[2, 0], &[]))
            .constant(ints(&[1], &[0]));
        assert_eq!(other.value(), floats(&[1, 0], &[]));
    }

    #[test]
    fn the_logarithm_of_exponentials_does_not_overflow() {
        let case = Case::new("ReduceLogSumExp", 18).constant(floats(&[2], &[1000.0, 1000.0]));
        // 1000 + ln 2
        assert_close(&case.value(), &floats(&[1], &[1_000.693_1]), 1e-7);
    }

    #[test]
    fn global_pools_reduce_spatial_axes() {
        let pool = |op, shape: &[usize]| Case::new(op, 13).input(DType::F32, shape);
        let imported = pool("GlobalAveragePool", &[1, 3, 5, 4]).import().unwrap();
        assert_eq!(imported.ty().shape, [1, 3, 1, 1]);
        let expected = Reduce {
            kind: ReduceKind::Mean,
            axes: vec![2, 3],
            keep_dims: true,
        };
        assert_eq!(imported.ops(), [&Op::Reduce(expected)]);
        assert_eq!(
            pool("GlobalMaxPool", &[1, 3]).error(),
            "the input has 2 axes, none spatial"
        );
        assert_eq!(
            pool("GlobalLpPool", &[1, 3, 2]).int("p", 3).error(),
            "unsupported: `p` is 3"
        );
    }

    #[test]
    fn reductions_are_written_and_read_again() {
        for kind in ReduceKind::ALL {
            for keep_dims in [false, true] {
                let axes = vec![0, 2];
                let reduce = Reduce {
                    kind,
                    axes,
                    keep_dims,
                };
                let x = TensorType::new(DType::F32, [2, 3, 4]);
                assert_round_trip(Op::Reduce(reduce), &[x]);
            }
        }
    }
}
