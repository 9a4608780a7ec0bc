//! Elements added around a tensor.

use super::slice::{Slice, slice};
use super::structure::{select_by_axis, to_i64};
use super::window::too_large;
use super::{Import, Op, arguments};
use crate::ValueId;
use crate::builder::{Builder, NodeContext, axes};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::{DType, Data, Tensor, TensorType, strides};

/// What stands in padded positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    /// A constant.
    Constant(f32),
    /// The tensor mirrored at its border, the border itself not repeated.
    Reflect,
    /// The nearest element of the border.
    Edge,
    /// The tensor repeated.
    Wrap,
}

/// Elements added around a tensor; every axis has an entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Pad {
    /// Elements added before each axis.
    pub begins: Vec<usize>,
    /// Elements added after each axis.
    pub ends: Vec<usize>,
    /// What they are.
    pub mode: PadMode,
}

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "Pad" => Some(import_pad),
        _ => None,
    }
}

impl Pad {
    /// The input position that stands at an output position along an axis of extent `input`;
    /// `None` where the constant does.
    pub fn source(&self, axis: usize, output: usize, input: usize) -> Option<usize> {
        let begin = self.begins[axis];
        let last = input.checked_sub(1)?;
        match output.checked_sub(begin) {
            Some(position) if position < input => Some(position),
            // Distances from the border, at least 1.
            Some(position) => self.outside(position - last, input, last, false),
            None => self.outside(begin - output, input, last, true),
        }
    }

    fn outside(&self, distance: usize, input: usize, last: usize, before: bool) -> Option<usize> {
        let from_border = match self.mode {
            PadMode::Constant(_) => return None,
            PadMode::Edge => 0,
            PadMode::Reflect => distance.min(last),
            // One step beyond a border is the opposite border.
            PadMode::Wrap => last - (distance - 1) % input,
        };
        Some(if before {
            from_border
        } else {
            last - from_border
        })
    }

    /// The output's type: every extent plus its pads.
    pub fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let [x] = arguments(inputs)?;
        if [self.begins.len(), self.ends.len()] != [x.rank(); 2] {
            let message = format!("pads of {} axes for {}", self.begins.len(), x.rank());
            return Err(OpError::invalid(message));
        }
        let mut shape = Vec::with_capacity(x.rank());
        for (axis, &extent) in x.shape.iter().enumerate() {
            let (begin, end) = (self.begins[axis], self.ends[axis]);
            let possible = match self.mode {
                PadMode::Constant(_) => true,
                PadMode::Reflect => begin.max(end) < extent.max(1),
                PadMode::Edge | PadMode::Wrap => extent > 0 || begin.max(end) == 0,
            };
            if !possible {
                let mode = self.mode_name();
                let message = format!("mode `{mode}` adds {begin} and {end} elements to {extent}");
                return Err(OpError::unsupported(message));
            }
            let padded = extent.checked_add(begin).and_then(|n| n.checked_add(end));
            shape.push(padded.ok_or_else(too_large)?);
        }
        Ok(TensorType::new(x.dtype, shape))
    }

    pub(super) fn eval(&self, inputs: &[&Tensor], output: &TensorType) -> Option<Tensor> {
        let x = inputs.first()?;
        if let PadMode::Constant(value) = self.mode {
            return self.eval_constant(x, value, output);
        }
        let strides = strides(x.shape());
        select_by_axis(x, output, |axis| {
            let extent = x.shape()[axis];
            let offset = |i| Some(self.source(axis, i, extent)? * strides[axis]);
            (0..output.shape[axis]).map(offset).collect()
        })
    }

    /// A tensor full of the constant, into which the input is copied row by row.
    fn eval_constant(&self, x: &Tensor, value: f32, output: &TensorType) -> Option<Tensor> {
        let mut starts = vec![0];
        let to = strides(&output.shape);
        let row = x.shape().last().copied().unwrap_or(1);
        if !x.data().is_empty() {
            for axis in 0..x.shape().len() {
                // A row is copied as a whole, so its own axis adds one start.
                let inner = axis + 1 == x.shape().len();
                let positions = if inner { 1 } else { x.shape()[axis] };
                let offset = |i: usize| (self.begins[axis] + i) * to[axis];
                let along = |&base: &usize| (0..positions).map(move |i| base + offset(i));
                starts = starts.iter().flat_map(along).collect::<Vec<_>>();
            }
        } else {
            starts.clear();
        }
        fn fill<T: Copy>(
            from: &[T],
            row: usize,
            starts: &[usize],
            mut into: Vec<T>,
        ) -> Option<Vec<T>> {
            for (source, &start) in from.chunks(row.max(1)).zip(starts) {
                into.get_mut(start..start + source.len())?
                    .copy_from_slice(source);
            }
            Some(into)
        }
        let numel = output.numel();
        let data = match x.data() {
            Data::F32(v) => Data::F32(fill(v, row, &starts, vec![value; numel])?),
            Data::I64(v) => Data::I64(fill(v, row, &starts, vec![value as i64; numel])?),
            Data::Bool(v) => Data::Bool(fill(v, row, &starts, vec![value != 0.0; numel])?),
        };
        Tensor::new(output.shape.clone(), data)
    }

    fn mode_name(&self) -> &'static str {
        match self.mode {
            PadMode::Constant(_) => "constant",
            PadMode::Reflect => "reflect",
            PadMode::Edge => "edge",
            PadMode::Wrap => "wrap",
        }
    }

    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        node.string("mode", self.mode_name());
        node.int_input(&[to_i64(&self.begins), to_i64(&self.ends)].concat());
        // Zero is the default whatever the element type, which a constant would have to match.
        if let PadMode::Constant(value) = self.mode
            && value != 0.0
        {
            node.float_input(value);
        }
    }
}

fn import_pad(node: &NodeContext<'_>, builder: &mut Builder<'_>) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let shape = builder.shape(x);
    let name = node.attributes.string("mode", "constant")?;
    let (pads, value, along) = if node.opset < 11 {
        let pads = node.attributes.ints("pads")?;
        let pads = pads.ok_or_else(|| OpError::invalid("`pads` is missing"))?;
        (pads, node.attributes.float("value", 0.0)?, None)
    } else {
        let pads = builder.ints(node.input(1)?, "pads")?;
        let along = node
            .optional(3)
            .map(|v| builder.ints(v, "axes"))
            .transpose()?;
        // Another mode does not look at the constant, which then may depend on anything.
        let value = node.optional(2).filter(|_| name == "constant");
        let value = value.map(|v| constant_value(builder, v)).transpose()?;
        (pads, value.unwrap_or(0.0), along)
    };
    let mode = match name.as_str() {
        "constant" => PadMode::Constant(value),
        "reflect" => PadMode::Reflect,
        "edge" => PadMode::Edge,
        "wrap" => PadMode::Wrap,
        other => return Err(OpError::invalid(format!("`mode` is `{other}`"))),
    };
    let along = match along {
        Some(list) => axes(&list, shape.len())?,
        None => (0..shape.len()).collect(),
    };
    if pads.len() != 2 * along.len() {
        let message = format!("`pads` has {} entries for {} axes", pads.len(), along.len());
        return Err(OpError::invalid(message));
    }
    let (mut begins, mut ends) = (vec![0; shape.len()], vec![0; shape.len()]);
    for (i, &axis) in along.iter().enumerate() {
        (begins[axis], ends[axis]) = (pads[i], pads[along.len() + i]);
    }
    let x = crop(builder, x, &begins, &ends)?;
    let added = |pads: &[i64]| pads.iter().map(|&p| p.max(0) as usize).collect::<Vec<_>>();
    let (begins, ends) = (added(&begins), added(&ends));
    if begins.iter().chain(&ends).all(|&p| p == 0) {
        return Ok(vec![x]);
    }
    Ok(vec![
        builder.push(Op::Pad(Pad { begins, ends, mode }), &[x])?,
    ])
}

/// The constant of a Pad; an integer must survive the way through a float.
fn constant_value(builder: &Builder<'_>, value: ValueId) -> Result<f32, OpError> {
    let float = builder.float(value, "constant_value")?;
    if builder.dtype(value) == DType::I64 {
        let exact = builder.ints(value, "constant_value")?.first().copied() == Some(float as i64);
        if !exact {
            return Err(OpError::unsupported("`constant_value` is a large integer"));
        }
    }
    Ok(float)
}

/// Removes what negative pads take away.
fn crop(
    builder: &mut Builder<'_>,
    x: ValueId,
    begins: &[i64],
    ends: &[i64],
) -> Result<ValueId, OpError> {
    let mut kept = Slice::identity(builder.graph.shape(x));
    for axis in 0..kept.shape.len() {
        let removed = |pad: i64| usize::try_from(pad.min(0).unsigned_abs()).ok();
        let left = removed(begins[axis])
            .and_then(|r| kept.shape[axis].checked_sub(r))
            .and_then(|rest| rest.checked_sub(removed(ends[axis])?));
        let left = left.ok_or_else(|| OpError::invalid("`pads` removes more than there is"))?;
        kept.starts[axis] = if left == 0 {
            0
        } else {
            removed(begins[axis]).unwrap_or(0)
        };
        kept.shape[axis] = left;
    }
    slice(builder, x, kept)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, bools, floats, ints};
    use super::*;

    fn pad(mode: &str, x: Tensor, pads: &[i64]) -> Case {
        Case::new("Pad", 19)
            .constant(x)
            .constant(ints(&[pads.len()], pads))
            .string("mode", mode)
    }

    fn line() -> Tensor {
        floats(&[3], &[1.0, 2.0, 3.0])
    }

    #[test]
    fn pads_are_numpys() {
        // numpy.pad([1, 2, 3], (2, 1), mode); `wrap` also over more than one period.
        let reflect = pad("reflect", line(), &[2, 1]).value();
        assert_eq!(reflect.to_f32(), [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]);
        let edge = pad("edge", line(), &[2, 1]).value();
        assert_eq!(edge.to_f32(), [1.0, 1.0, 1.0, 2.0, 3.0, 3.0]);
        let wrap = pad("wrap", line(), &[4, 4]).value();
        let expected = [3.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0];
        assert_eq!(wrap.to_f32(), expected);
    }

    #[test]
    fn a_constant_surrounds_every_axis() {
        // numpy.pad([[1, 2], [3, 4]], ((1, 0), (0, 1)), constant_values=9)
        let x = floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let value = pad("constant", x, &[1, 0, 0, 1])
            .constant(floats(&[], &[9.0]))
            .value();
        let expected = [9.0, 9.0, 9.0, 1.0, 2.0, 9.0, 3.0, 4.0, 9.0];
        assert_eq!(value, floats(&[3, 3], &expected));
        let value = pad("constant", ints(&[1], &[7]), &[1, 1]).constant(ints(&[], &[-2]));
        assert_eq!(value.value(), ints(&[3], &[-2, 7, -2]));
        let value = pad("constant", bools(&[1], &[true]), &[0, 1]);
        assert_eq!(value.value(), bools(&[2], &[true, false]));
        let value = pad("constant", floats(&[0], &[]), &[1, 1]);
        assert_eq!(value.value(), floats(&[2], &[0.0, 0.0]));
        let value = pad("constant", floats(&[], &[5.0]), &[]);
        assert_eq!(value.value(), floats(&[], &[5.0]));
    }

    #[test]
    fn the_attribute_form_and_chosen_axes() {
        let old = Case::new("Pad", 2)
            .input(DType::F32, &[2, 3])
            .ints("pads", &[0, 1, 0, 2])
            .float("value", 1.5);
        let imported = old.import().unwrap();
        let expected = Pad {
            begins: vec![0, 1],
            ends: vec![0, 2],
            mode: PadMode::Constant(1.5),
        };
        assert_eq!(imported.ops(), [&Op::Pad(expected)]);
        let chosen = Case::new("Pad", 18)
            .input(DType::F32, &[2, 3, 4])
            .constant(ints(&[2], &[1, 2]))
            .absent()
            .constant(ints(&[1], &[-2]))
            .import()
            .unwrap();
        assert_eq!(chosen.ty().shape, [2, 6, 4]);
    }

    #[test]
    fn negative_pads_cut_off() {
        let value = pad("constant", line(), &[-1, 2]).value();
        assert_eq!(value.to_f32(), [2.0, 3.0, 0.0, 0.0]);
        let value = pad("edge", line(), &[-2, -1]).value();
        assert!(value.to_f32().is_empty());
        let imported = Case::new("Pad", 13)
            .input(DType::F32, &[4])
            .constant(ints(&[2], &[-1, -1]))
            .import()
            .unwrap();
        assert!(matches!(imported.ops()[..], [Op::Slice(_)]));
    }

    #[test]
    fn pads_of_nothing_disappear() {
        let imported = Case::new("Pad", 13)
            .input(DType::F32, &[4])
            .constant(ints(&[2], &[0, 0]))
            .import()
            .unwrap();
        assert!(imported.ops().is_empty());
    }

    #[test]
    fn impossible_pads_are_refused() {
        for case in [
            pad("reflect", line(), &[3, 0]),
            pad("edge", floats(&[0], &[]), &[1, 0]),
            pad("wrap", floats(&[0], &[]), &[0, 1]),
            pad("constant", line(), &[1]),
            pad("constant", line(), &[-2, -2]),
            pad("constant", line(), &[i64::MIN, 0]),
            pad("constant", line(), &[i64::MAX, i64::MAX]),
            pad("mirror", line(), &[1, 1]),
            pad("constant", ints(&[1], &[0]), &[1, 1]).constant(ints(&[], &[(1 << 40) + 1])),
        ] {
            assert!(case.import().is_err());
        }
    }

    #[test]
    fn a_huge_pad_of_a_constant_is_not_computed() {
        let imported = pad("constant", line(), &[1 << 40, 0]).import().unwrap();
        assert_eq!(imported.ops().len(), 1);
    }
}
