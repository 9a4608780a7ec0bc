//! Parts of a tensor: Slice and Split.

use super::structure::{select_by_axis, to_i64, to_usize};
use super::{Import, Op, arguments};
use crate::ValueId;
use crate::builder::{Builder, NodeContext, axes, axis};
use crate::error::OpError;
use crate::onnx::export::OnnxNode;
use crate::tensor::{ShapeDisplay, Tensor, TensorType, strides};

/// Regularly spaced elements: along axis `a`, output position `i` is input position
/// `starts[a] + i * steps[a]`. Every axis of the input has an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// First position of each axis.
    pub starts: Vec<usize>,
    /// Distance between positions, negative to go backwards.
    pub steps: Vec<isize>,
    /// Extent of each axis of the output.
    pub shape: Vec<usize>,
}

pub(super) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "Slice" => Some(import_slice),
        "Split" => Some(import_split),
        _ => None,
    }
}

impl Slice {
    /// The slice that keeps a tensor of the given shape as it is.
    pub fn identity(shape: &[usize]) -> Self {
        Slice {
            starts: vec![0; shape.len()],
            steps: vec![1; shape.len()],
            shape: shape.to_vec(),
        }
    }

    /// The input position of an output position along one axis.
    pub fn source(&self, axis: usize, output: usize) -> usize {
        let step = self.steps[axis];
        let distance = output.wrapping_mul(step.unsigned_abs());
        match step < 0 {
            true => self.starts[axis].wrapping_sub(distance),
            false => self.starts[axis].wrapping_add(distance),
        }
    }

    /// The output's type: the slice's shape, all of which must lie inside the input.
    pub fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let [x] = arguments(inputs)?;
        let rank = x.rank();
        let complete = [self.starts.len(), self.steps.len(), self.shape.len()] == [rank; 3];
        if !complete || !(0..rank).all(|axis| self.inside(axis, x.shape[axis])) {
            return Err(OpError::invalid(format!(
                "the slice goes beyond a shape of `{}`",
                ShapeDisplay(&x.shape)
            )));
        }
        Ok(TensorType::new(x.dtype, self.shape.clone()))
    }

    /// Whether the first and last positions, and so all of them, exist in an extent; nothing may be
    /// taken from anywhere up to its end.
    fn inside(&self, axis: usize, extent: usize) -> bool {
        let start = self.starts[axis];
        let Some(last) = self.shape[axis].checked_sub(1) else {
            return start <= extent;
        };
        let distance = last.checked_mul(self.steps[axis].unsigned_abs());
        let end = distance.and_then(|distance| match self.steps[axis] < 0 {
            true => start.checked_sub(distance),
            false => start.checked_add(distance),
        });
        start < extent && end.is_some_and(|end| end < extent)
    }

    pub(super) fn eval(&self, inputs: &[&Tensor], output: &TensorType) -> Option<Tensor> {
        let x = inputs.first()?;
        let strides = strides(x.shape());
        select_by_axis(x, output, |axis| {
            let offset = |i| self.source(axis, i) * strides[axis];
            Some((0..output.shape[axis]).map(offset).collect())
        })
    }

    pub(super) fn export(&self, node: &mut OnnxNode<'_>) {
        let ends: Vec<i64> = (0..self.shape.len())
            .map(|axis| self.export_end(axis))
            .collect();
        let steps: Vec<i64> = self.steps.iter().map(|&s| s as i64).collect();
        node.int_input(&to_i64(&self.starts));
        node.int_input(&ends);
        node.int_input(&(0..self.shape.len() as i64).collect::<Vec<_>>());
        node.int_input(&steps);
    }

    /// ONNX's end of an axis: one step past the last position. Before the first element that is
    /// any number too negative to count from the end.
    fn export_end(&self, axis: usize) -> i64 {
        let step = self.steps[axis] as i64;
        let distance = (self.shape[axis] as i64).saturating_mul(step);
        let end = (self.starts[axis] as i64).saturating_add(distance);
        if end < 0 { i64::MIN } else { end }
    }
}

/// Appends a slice, unless it keeps everything.
pub(super) fn slice(
    builder: &mut Builder<'_>,
    x: ValueId,
    slice: Slice,
) -> Result<ValueId, OpError> {
    if slice == Slice::identity(builder.graph.shape(x)) {
        return Ok(x);
    }
    builder.push(Op::Slice(slice), &[x])
}

fn import_slice(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let shape = builder.shape(x);
    let required = |list: Option<_>, what| {
        list.ok_or_else(|| OpError::invalid(format!("`{what}` is missing")))
    };
    let (starts, ends, along, steps) = if node.opset < 10 {
        (
            required(node.attributes.ints("starts")?, "starts")?,
            required(node.attributes.ints("ends")?, "ends")?,
            node.attributes.ints("axes")?,
            None,
        )
    } else {
        let optional = |i, what| node.optional(i).map(|v| builder.ints(v, what)).transpose();
        (
            required(optional(1, "starts")?, "starts")?,
            required(optional(2, "ends")?, "ends")?,
            optional(3, "axes")?,
            optional(4, "steps")?,
        )
    };
    let along = match along {
        Some(list) => axes(&list, shape.len())?,
        None => (0..starts.len().min(shape.len())).collect(),
    };
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if [starts.len(), ends.len(), steps.len()] != [along.len(); 3] {
        return Err(OpError::invalid(
            "starts, ends, axes and steps differ in number",
        ));
    }
    let mut op = Slice::identity(&shape);
    for (i, &axis) in along.iter().enumerate() {
        let (start, step, extent) = resolve(starts[i], ends[i], steps[i], shape[axis])
            .ok_or_else(|| OpError::invalid(format!("a step is {}", steps[i])))?;
        (op.starts[axis], op.steps[axis], op.shape[axis]) = (start, step, extent);
    }
    Ok(vec![slice(builder, x, op)?])
}

/// Start, step and extent of `start..end` by `step` over `extent` positions, by ONNX's rules: what
/// is negative counts from the end, what is out of range is clamped. `None` when the step is 0.
fn resolve(start: i64, end: i64, step: i64, extent: usize) -> Option<(usize, isize, usize)> {
    let length = i64::try_from(extent).ok()?;
    let from_end = |p: i64| if p < 0 { p.saturating_add(length) } else { p };
    // Going backwards, the start is not behind the last element and the end may be before the
    // first one.
    let (low, high) = if step < 0 {
        (-1, length - 1)
    } else {
        (0, length)
    };
    let start = from_end(start).clamp(0, high.max(0));
    let end = from_end(end).clamp(low, high);
    let distance = if step < 0 { start - end } else { end - start };
    let distance = u64::try_from(distance).unwrap_or(0);
    let count = match step.unsigned_abs() {
        0 => return None,
        _ if extent == 0 => 0,
        size => distance.div_ceil(size),
    };
    match count {
        0 => Some((0, 1, 0)),
        // The distance to a neighbour that does not exist has no meaning.
        1 => Some((start as usize, 1, 1)),
        _ => Some((start as usize, isize::try_from(step).ok()?, count as usize)),
    }
}

fn import_split(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
) -> Result<Vec<ValueId>, OpError> {
    let x = node.input(0)?;
    let shape = builder.shape(x);
    let along = axis(node.attributes.int("axis", 0)?, shape.len())?;
    let outputs = node.used_outputs.len();
    let given = match node.optional(1) {
        Some(sizes) => Some(builder.ints(sizes, "split")?),
        None => node.attributes.ints("split")?,
    };
    let declared = node.attributes.optional_int("num_outputs")?;
    let sizes = match given {
        Some(sizes) => to_usize(&sizes, "split")?,
        None => equal_parts(shape[along], outputs, declared)?,
    };
    let total = sizes.iter().try_fold(0usize, |acc, &s| acc.checked_add(s));
    if sizes.len() != outputs || total != Some(shape[along]) {
        return Err(OpError::invalid(format!(
            "parts of {sizes:?} for {outputs} outputs and an extent of {}",
            shape[along]
        )));
    }
    let mut start = 0;
    let mut parts = Vec::with_capacity(sizes.len());
    for size in sizes {
        let mut part = Slice::identity(&shape);
        part.starts[along] = if size == 0 { 0 } else { start };
        part.shape[along] = size;
        parts.push(slice(builder, x, part)?);
        start += size;
    }
    Ok(parts)
}

/// The extents of equal parts; only where their number is declared may the last one be smaller.
fn equal_parts(
    extent: usize,
    outputs: usize,
    declared: Option<i64>,
) -> Result<Vec<usize>, OpError> {
    if outputs == 0 || declared.is_some_and(|n| usize::try_from(n) != Ok(outputs)) {
        let message = format!("`num_outputs` is not the number of outputs, {outputs}");
        return Err(OpError::invalid(message));
    }
    let size = extent.div_ceil(outputs);
    let even = extent.is_multiple_of(outputs) || declared.is_some();
    let last = (outputs - 1)
        .checked_mul(size)
        .and_then(|n| extent.checked_sub(n));
    let last = last.filter(|_| even).ok_or_else(|| {
        OpError::invalid(format!(
            "an extent of {extent} has no {outputs} equal parts"
        ))
    })?;
    let mut sizes = vec![size; outputs];
    sizes[outputs - 1] = last;
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, floats, ints};
    use super::*;
    use crate::tensor::DType;

    fn counting(n: usize) -> Tensor {
        floats(&[n], &(0..n).map(|i| i as f32).collect::<Vec<_>>())
    }

    /// `numpy.arange(n)[start:end:step]` as this crate computes it.
    fn slice_of(n: usize, start: i64, end: i64, step: i64) -> Vec<f32> {
        Case::new("Slice", 13)
            .constant(counting(n))
            .constant(ints(&[1], &[start]))
            .constant(ints(&[1], &[end]))
            .constant(ints(&[1], &[0]))
            .constant(ints(&[1], &[step]))
            .value()
            .to_f32()
    }

    #[test]
    fn slices_are_numpys() {
        // Right-hand sides: numpy.arange(n)[start:end:step] (an end of i64::MIN is `None`).
        let none: [f32; 0] = [];
        assert_eq!(slice_of(5, 1, 4, 1), [1.0, 2.0, 3.0]);
        assert_eq!(slice_of(5, 1, i64::MAX, 2), [1.0, 3.0]);
        assert_eq!(slice_of(5, -2, i64::MAX, 1), [3.0, 4.0]);
        assert_eq!(slice_of(5, -9, -3, 1), [0.0, 1.0]);
        assert_eq!(slice_of(5, 4, 2, 1), none);
        assert_eq!(slice_of(5, 9, 20, 1), none);
        assert_eq!(slice_of(5, -1, i64::MIN, -1), [4.0, 3.0, 2.0, 1.0, 0.0]);
        assert_eq!(slice_of(5, i64::MAX, -6, -2), [4.0, 2.0, 0.0]);
        assert_eq!(slice_of(5, 3, 0, -1), [3.0, 2.0, 1.0]);
        assert_eq!(slice_of(5, 0, 3, -1), none);
        assert_eq!(slice_of(5, 2, i64::MAX, i64::MAX), [2.0]);
        assert_eq!(slice_of(5, 2, i64::MIN, i64::MIN), [2.0]);
        // Where ONNX clamps and NumPy does not: a start before the first element, backwards.
        assert_eq!(slice_of(5, -9, i64::MIN, -1), [0.0]);
        assert_eq!(slice_of(0, 0, i64::MAX, 1), none);
        assert_eq!(slice_of(0, -1, i64::MIN, -1), none);
    }

    #[test]
    fn nothing_is_taken_from_inside_only() {
        let x = TensorType::new(DType::F32, [3]);
        let nothing = |start| Slice {
            starts: vec![start],
            steps: vec![1],
            shape: vec![0],
        };
        assert_eq!(nothing(3).infer(&[&x]).unwrap().shape, [0]);
        assert!(nothing(4).infer(&[&x]).is_err());
    }

    #[test]
    fn the_attribute_form_and_default_axes() {
        let case = Case::new("Slice", 9)
            .input(DType::F32, &[20, 10, 5])
            .ints("starts", &[0, 0])
            .ints("ends", &[3, 10]);
        let imported = case.import().unwrap();
        assert_eq!(imported.ty().shape, [3, 10, 5]);
        let expected = Slice {
            starts: vec![0; 3],
            steps: vec![1; 3],
            shape: vec![3, 10, 5],
        };
        assert_eq!(imported.ops(), [&Op::Slice(expected)]);
    }

    #[test]
    fn a_slice_of_everything_disappears() {
        let imported = Case::new("Slice", 13)
            .input(DType::F32, &[4, 3])
            .constant(ints(&[1], &[0]))
            .constant(ints(&[1], &[i64::MAX]))
            .constant(ints(&[1], &[-1]))
            .import()
            .unwrap();
        assert!(imported.ops().is_empty());
    }

    #[test]
    fn impossible_slices_are_refused() {
        let case = |starts: &[i64], ends: &[i64], axes: &[i64], steps: &[i64]| {
            Case::new("Slice", 13)
                .input(DType::F32, &[4, 3])
                .constant(ints(&[starts.len()], starts))
                .constant(ints(&[ends.len()], ends))
                .constant(ints(&[axes.len()], axes))
                .constant(ints(&[steps.len()], steps))
        };
        assert!(case(&[0], &[1], &[2], &[1]).import().is_err());
        assert!(case(&[0], &[1], &[0], &[0]).import().is_err());
        assert!(case(&[0, 0], &[1], &[0], &[1]).import().is_err());
        assert!(case(&[0, 0], &[1, 1], &[0, -2], &[1, 1]).import().is_err());
        let beyond = Slice {
            starts: vec![3],
            steps: vec![-2],
            shape: vec![3],
        };
        assert!(beyond.infer(&[&TensorType::new(DType::F32, [4])]).is_err());
    }

    #[test]
    fn exported_ends_select_the_same_elements() {
        for (start, step, extent) in [(0, 1, 5), (4, -1, 5), (1, 2, 2), (3, -3, 2), (2, 1, 0)] {
            let op = Slice {
                starts: vec![start],
                steps: vec![step],
                shape: vec![extent],
            };
            let own = op.eval(&[&counting(5)], &TensorType::new(DType::F32, [extent]));
            let end = op.export_end(0);
            let onnx = slice_of(5, start as i64, end, step as i64);
            assert_eq!(own.unwrap().to_f32(), onnx, "{op:?}");
        }
    }

    fn split(opset: i64, extent: usize, outputs: usize) -> Case {
        Case::new("Split", opset)
            .input(DType::F32, &[2, extent])
            .int("axis", 1)
            .outputs(outputs)
    }

    fn extents(case: Case) -> Vec<usize> {
        let imported = case.import().unwrap();
        let shape = |&id| imported.graph.shape(id)[1];
        imported.outputs.iter().map(shape).collect()
    }

    #[test]
    fn splits_are_slices() {
        assert_eq!(extents(split(11, 6, 3)), [2, 2, 2]);
        assert_eq!(extents(split(11, 6, 2).ints("split", &[2, 4])), [2, 4]);
        assert_eq!(
            extents(split(13, 6, 2).constant(ints(&[2], &[0, 6]))),
            [0, 6]
        );
        // "Split" of the ONNX operators: 7 elements in 4 parts.
        assert_eq!(extents(split(18, 7, 4).int("num_outputs", 4)), [2, 2, 2, 1]);
        let imported = split(11, 6, 2).import().unwrap();
        let second = Slice {
            starts: vec![0, 3],
            steps: vec![1, 1],
            shape: vec![2, 3],
        };
        assert_eq!(imported.ops()[1], &Op::Slice(second));
    }

    #[test]
    fn impossible_splits_are_refused() {
        assert!(split(11, 7, 2).import().is_err());
        assert!(split(11, 6, 2).ints("split", &[2, 3]).import().is_err());
        assert!(split(11, 6, 2).ints("split", &[-1, 7]).import().is_err());
        assert!(split(11, 6, 3).ints("split", &[2, 4]).import().is_err());
        assert!(
            split(18, 6, 2)
                .int("num_outputs", i64::MAX)
                .import()
                .is_err()
        );
        assert!(split(18, 1, 4).int("num_outputs", 4).import().is_err());
    }
}
