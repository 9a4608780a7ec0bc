//! Operators that move elements: what arrived moves back.

use npcov_graph::op::{Binary, Gather, GatherElements, Pad, PadMode, ScatterSum, Slice};
use npcov_graph::{Data, Op, OpError, Tensor, ValueId, strides};

use super::{Shares, Step};
use crate::append::Append;

pub(super) fn reshape_adjoint(g: &mut Append<'_>, step: &Step<'_>) -> Result<Shares, OpError> {
    Ok(vec![(0, g.reshape(step.cotangent, step.shape(0))?)])
}

pub(super) fn transpose_adjoint(
    g: &mut Append<'_>,
    step: &Step<'_>,
    perm: &[usize],
) -> Result<Shares, OpError> {
    let mut inverse = vec![0; perm.len()];
    for (i, &p) in perm.iter().enumerate() {
        inverse[p] = i;
    }
    Ok(vec![(0, g.transpose(step.cotangent, &inverse)?)])
}

pub(super) fn slice_adjoint(
    g: &mut Append<'_>,
    step: &Step<'_>,
    slice: &Slice,
) -> Result<Shares, OpError> {
    let (r, shape) = (step.cotangent, step.shape(0));
    if slice.steps.iter().any(|&s| s != 1) {
        let from = |axis: usize, i: usize| Some(slice.source(axis, i));
        let back = scatter_by_axis(g, r, shape, &slice.shape, from)?;
        return Ok(vec![(0, back)]);
    }
    let ends = (0..shape.len())
        .map(|a| shape[a] - slice.starts[a] - slice.shape[a])
        .collect();
    let pad = Pad {
        begins: slice.starts.clone(),
        ends,
        mode: PadMode::Constant(0.0),
    };
    Ok(vec![(0, g.op(Op::Pad(pad), &[r])?)])
}

pub(super) fn pad_adjoint(
    g: &mut Append<'_>,
    step: &Step<'_>,
    pad: &Pad,
) -> Result<Shares, OpError> {
    let (r, shape) = (step.cotangent, step.shape(0));
    let back = match pad.mode {
        PadMode::Constant(_) => without_pads(g, r, pad)?,
        PadMode::Reflect | PadMode::Edge | PadMode::Wrap => {
            let from = |axis: usize, i: usize| pad.source(axis, i, shape[axis]);
            scatter_by_axis(g, r, shape, step.output_shape(), from)?
        }
    };
    Ok(vec![(0, back)])
}

pub(super) fn expand_adjoint(g: &mut Append<'_>, step: &Step<'_>) -> Result<Shares, OpError> {
    Ok(vec![(0, g.unbroadcast(step.cotangent, step.shape(0))?)])
}

pub(super) fn tile_adjoint(
    g: &mut Append<'_>,
    step: &Step<'_>,
    repeats: &[usize],
) -> Result<Shares, OpError> {
    // Each axis as `repeats x extent`, of which the first is summed.
    let shape = step.shape(0);
    let split: Vec<usize> = repeats
        .iter()
        .zip(shape)
        .flat_map(|(&n, &d)| [n, d])
        .collect();
    let r = g.reshape(step.cotangent, &split)?;
    let sum = g.sum(r, (0..repeats.len()).map(|a| 2 * a).collect())?;
    Ok(vec![(0, g.reshape(sum, shape)?)])
}

pub(super) fn concat_adjoint(
    g: &mut Append<'_>,
    step: &Step<'_>,
    axis: usize,
) -> Result<Shares, OpError> {
    let mut shares = Shares::new();
    let mut start = 0;
    for i in 0..step.node.inputs.len() {
        let shape = step.shape(i);
        let mut slice = Slice::identity(shape);
        slice.starts[axis] = start;
        start += shape[axis];
        if step.varies(i) {
            shares.push((i, g.op(Op::Slice(slice), &[step.cotangent])?));
        }
    }
    Ok(shares)
}

pub(super) fn gather_adjoint(
    g: &mut Append<'_>,
    step: &Step<'_>,
    gather: &Gather,
) -> Result<Shares, OpError> {
    if step.varies(0) && step.varies(1) {
        return varying_gather_adjoint(g, step, gather);
    }
    let picked = picked(step, gather.axis)?;
    let shape = step.shape(0);
    // The axes of the indices as one.
    let mut from = shape.to_vec();
    from[gather.axis] = picked.len();
    let r = g.reshape(step.cotangent, &from)?;
    let source = |axis: usize, i: usize| match axis == gather.axis {
        true => Some(picked[i]),
        false => Some(i),
    };
    Ok(vec![(0, scatter_by_axis(g, r, shape, &from, source)?)])
}

/// What arrived goes to the positions that the input chose: `E' R`, with a row of `E` for each index
/// that has a 1 at its position.
fn varying_gather_adjoint(
    g: &mut Append<'_>,
    step: &Step<'_>,
    gather: &Gather,
) -> Result<Shares, OpError> {
    let shape = step.shape(0);
    let (before, after) = (&shape[..gather.axis], &shape[gather.axis + 1..]);
    let (before, after) = (before.iter().product(), after.iter().product());
    let (extent, count) = (shape[gather.axis], step.shape(1).iter().product());
    let index = g.reshape(step.input(1), &[1, count])?;
    let index = from_start(g, index, extent)?;
    let positions = Tensor::ints((0..extent as i64).collect()).reshaped([extent, 1]);
    let positions = positions.ok_or_else(|| OpError::invalid("an axis without extent"))?;
    let positions = g.constant(positions);
    let is_chosen = g.binary(Binary::Equal, index, positions)?;
    let (one, none) = (g.scalar(1.0), g.scalar(0.0));
    let chosen = g.choose(is_chosen, one, none)?;
    let r = g.reshape(step.cotangent, &[before, count, after])?;
    let back = g.op(Op::MatMul, &[chosen, r])?;
    Ok(vec![(0, g.reshape(back, shape)?)])
}

/// Positions along an axis, of which negative ones count from its end.
fn from_start(g: &mut Append<'_>, index: ValueId, extent: usize) -> Result<ValueId, OpError> {
    let (zero, length) = (
        g.constant(Tensor::ints(vec![0])),
        g.constant(Tensor::ints(vec![extent as i64])),
    );
    let from_end = g.add(index, length)?;
    let is_negative = g.binary(Binary::Less, index, zero)?;
    g.choose(is_negative, from_end, index)
}

/// The relevance of a row that was looked up in a table is that of its index: the sum over what
/// stands in the row.
pub(crate) fn lookup_relevance(
    g: &mut Append<'_>,
    step: &Step<'_>,
    gather: &Gather,
) -> Result<Shares, OpError> {
    let indices = step.shape(1);
    let is_index = |axis: &usize| (gather.axis..gather.axis + indices.len()).contains(axis);
    let axes = (0..step.output_shape().len()).filter(|axis| !is_index(axis));
    let sum = g.sum(step.cotangent, axes.collect())?;
    Ok(vec![(1, g.reshape(sum, indices)?)])
}

pub(super) fn gather_elements_adjoint(
    g: &mut Append<'_>,
    step: &Step<'_>,
    gather: &GatherElements,
) -> Result<Shares, OpError> {
    let (shape, output) = (step.shape(0), step.output_shape());
    let (from, steps) = (strides(output), strides(shape));
    // Where an element would come from, were its index 0.
    let first = |i: usize| -> usize {
        let others = (0..output.len()).filter(|&axis| axis != gather.axis);
        others
            .map(|axis| i / from[axis] % output[axis] * steps[axis])
            .sum()
    };
    let stride = steps[gather.axis];
    if step.varies(1) {
        let index = from_start(g, step.input(1), shape[gather.axis])?;
        let stride = g.constant(Tensor::ints(vec![stride as i64]));
        let count = output.iter().product::<usize>();
        let first = Tensor::ints((0..count).map(|i| first(i) as i64).collect());
        let first = first.reshaped(output.to_vec());
        let first = g.constant(first.ok_or_else(|| OpError::invalid("elements without places"))?);
        let places = g.mul(index, stride)?;
        let places = g.add(places, first)?;
        let scatter = ScatterSum {
            shape: shape.to_vec(),
        };
        let back = g.op(Op::ScatterSum(scatter), &[step.cotangent, places])?;
        return Ok(vec![(0, back)]);
    }
    let picked = picked(step, gather.axis)?.into_iter().enumerate();
    let places = picked.map(|(i, position)| first(i) + position * stride);
    let back = scatter(g, step.cotangent, shape, output, places.collect())?;
    Ok(vec![(0, back)])
}

/// The positions along an axis that were picked. Indices must be constants: where elements came
/// from is known when the program is made.
fn picked(step: &Step<'_>, axis: usize) -> Result<Vec<usize>, OpError> {
    let varying = || OpError::unsupported("its indices depend on the model's input");
    let indices = step.graph.constant(step.input(1)).ok_or_else(varying)?;
    let indices = indices.as_i64().ok_or_else(varying)?;
    let extent = step.shape(0)[axis];
    let position = |&index: &i64| {
        let position = match index < 0 {
            true => extent.checked_add_signed(isize::try_from(index).ok()?)?,
            false => usize::try_from(index).ok()?,
        };
        (position < extent).then_some(position)
    };
    indices
        .iter()
        .map(position)
        .collect::<Option<_>>()
        .ok_or_else(|| OpError::invalid("an element comes from outside"))
}

/// Adds each element of `r`, of shape `from`, to the place that its position along every axis
/// comes from; those that come from nowhere are dropped.
pub(super) fn scatter_by_axis(
    g: &mut Append<'_>,
    r: ValueId,
    shape: &[usize],
    from: &[usize],
    source: impl Fn(usize, usize) -> Option<usize>,
) -> Result<ValueId, OpError> {
    let steps = strides(shape);
    let mut places = vec![0];
    for axis in 0..from.len() {
        let sources = (0..from[axis])
            .map(|i| source(axis, i).filter(|&s| s < shape[axis]))
            .collect::<Option<Vec<usize>>>()
            .ok_or_else(|| OpError::invalid("an element comes from outside"))?;
        places = places
            .iter()
            .flat_map(|&place| sources.iter().map(move |&s| (place, s)))
            .map(|(place, s)| place + s * steps[axis])
            .collect();
    }
    scatter(g, r, shape, from, places)
}

fn scatter(
    g: &mut Append<'_>,
    r: ValueId,
    shape: &[usize],
    from: &[usize],
    places: Vec<usize>,
) -> Result<ValueId, OpError> {
    let inside = shape.iter().product::<usize>();
    if places.iter().any(|&p| p >= inside) {
        return Err(OpError::invalid("an element comes from outside"));
    }
    let places = places.into_iter().map(|p| p as i64).collect();
    let places = Tensor::new(from, Data::I64(places))
        .ok_or_else(|| OpError::invalid("elements without places"))?;
    let places = g.constant(places);
    let scatter = ScatterSum {
        shape: shape.to_vec(),
    };
    g.op(Op::ScatterSum(scatter), &[r, places])
}

/// What stands inside of the pads.
pub(super) fn without_pads(g: &mut Append<'_>, x: ValueId, pad: &Pad) -> Result<ValueId, OpError> {
    let mut slice = Slice::identity(&g.shape(x));
    for axis in 0..slice.shape.len() {
        slice.starts[axis] = pad.begins[axis];
        slice.shape[axis] = slice.shape[axis].saturating_sub(pad.begins[axis] + pad.ends[axis]);
    }
    g.op(Op::Slice(slice), &[x])
}

#[cfg(test)]
mod tests {
    use npcov_graph::{DType, Graph, TensorType};

    use super::*;
    use crate::op::adjoint;

    /// The error of the way back through a node that picks elements of four.
    fn refused(op: Op, index: i64) -> String {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [4]));
        let index = graph.add_constant("i", Tensor::ints(vec![index]));
        let y = graph.push("y", op, &[x, index]).unwrap();
        let mut program = graph.clone();
        let step = Step {
            graph: &graph,
            node: &graph.nodes()[0],
            cotangent: y,
        };
        let result = adjoint(&mut Append::new(&mut program, "y"), &step);
        result.unwrap_err().to_string()
    }

    #[test]
    fn indices_of_elements_that_are_not_there_are_errors() {
        for index in [4, -5, i64::MAX, i64::MIN] {
            for op in [
                Op::Gather(Gather { axis: 0 }),
                Op::GatherElements(GatherElements { axis: 0 }),
            ] {
                assert_eq!(refused(op, index), "an element comes from outside");
            }
        }
    }
}
