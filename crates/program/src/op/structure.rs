//! Operators that move elements: what arrived moves back.

use npcov_graph::op::{Pad, PadMode, ScatterSum, Slice};
use npcov_graph::{Data, Op, OpError, Tensor, ValueId, strides};

use super::{Shares, Step};
use crate::append::Append;

/// The structural adjoint.
pub(super) fn adjoint(g: &mut Append<'_>, step: &Step<'_>) -> Result<Shares, OpError> {
    let r = step.cotangent;
    let shape = step.shape(0);
    let only = |value| Ok(vec![(0, value)]);
    match &step.node.op {
        Op::Reshape(_) => only(g.reshape(r, shape)?),
        Op::Transpose(perm) => {
            let mut inverse = vec![0; perm.len()];
            for (i, &p) in perm.iter().enumerate() {
                inverse[p] = i;
            }
            only(g.transpose(r, &inverse)?)
        }
        Op::Concat(axis) => concat(g, step, *axis),
        Op::Slice(slice) if slice.steps.iter().all(|&s| s == 1) => {
            let ends = (0..shape.len())
                .map(|a| shape[a] - slice.starts[a] - slice.shape[a])
                .collect();
            let pad = Pad {
                begins: slice.starts.clone(),
                ends,
                mode: PadMode::Constant(0.0),
            };
            only(g.op(Op::Pad(pad), &[r])?)
        }
        Op::Slice(slice) => {
            let from = |axis: usize, i: usize| Some(slice.source(axis, i));
            only(scatter_by_axis(g, r, shape, &slice.shape, from)?)
        }
        Op::Pad(pad) => match pad.mode {
            PadMode::Constant(_) => only(without_pads(g, r, pad)?),
            _ => {
                let from = |axis: usize, i: usize| pad.source(axis, i, shape[axis]);
                only(scatter_by_axis(g, r, shape, step.output_shape(), from)?)
            }
        },
        Op::Expand(_) => only(g.unbroadcast(r, shape)?),
        Op::Tile(repeats) => {
            // Each axis as `repeats x extent`, of which the first is summed.
            let split: Vec<usize> = repeats
                .iter()
                .zip(shape)
                .flat_map(|(&n, &d)| [n, d])
                .collect();
            let r = g.reshape(r, &split)?;
            let sum = g.sum(r, (0..repeats.len()).map(|a| 2 * a).collect())?;
            only(g.reshape(sum, shape)?)
        }
        Op::Gather(_) | Op::GatherElements(_) => gather(g, step),
        _ => Err(OpError::invalid("it moves no elements")),
    }
}

fn concat(g: &mut Append<'_>, step: &Step<'_>, axis: usize) -> Result<Shares, OpError> {
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

/// Indices must be constants: where elements came from is known when the program is made.
fn gather(g: &mut Append<'_>, step: &Step<'_>) -> Result<Shares, OpError> {
    let varying = || OpError::unsupported("its indices depend on the model's input");
    let indices = step.graph.constant(step.input(1)).ok_or_else(varying)?;
    let indices = indices.as_i64().ok_or_else(varying)?;
    let shape = step.shape(0);
    let at = |axis: usize, index: i64| match index < 0 {
        true => shape[axis].saturating_add_signed(index as isize),
        false => index as usize,
    };
    let r = step.cotangent;
    match &step.node.op {
        Op::Gather(gather) => {
            // The axes of the indices as one.
            let mut picked = shape.to_vec();
            picked[gather.axis] = indices.len();
            let r = g.reshape(r, &picked)?;
            let from = |axis: usize, i: usize| match axis == gather.axis {
                true => Some(at(axis, indices[i])),
                false => Some(i),
            };
            Ok(vec![(0, scatter_by_axis(g, r, shape, &picked, from)?)])
        }
        Op::GatherElements(gather) => {
            let output = step.output_shape();
            let steps = strides(shape);
            let mut places = Vec::with_capacity(indices.len());
            for (i, &index) in indices.iter().enumerate() {
                let mut rest = i;
                let mut place = 0;
                for axis in (0..output.len()).rev() {
                    let position = rest % output[axis];
                    rest /= output[axis];
                    let position = match axis == gather.axis {
                        true => at(axis, index),
                        false => position,
                    };
                    place += position * steps[axis];
                }
                places.push(place);
            }
            Ok(vec![(0, scatter(g, r, shape, output, places)?)])
        }
        _ => Err(OpError::invalid("it gathers nothing")),
    }
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
