//! Interpolation: weighted sums along single axes.

use npcov_graph::op::{AxisMap, Resize};
use npcov_graph::{Op, OpError, ValueId};

use crate::append::Append;
use crate::linear::WeightPart;
use crate::relevance::{or_zeros, sum};

/// Which way a product with the matrix of weights goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From input to output.
    Forward,
    /// From output to input.
    Adjoint,
}

/// Interpolation or its adjoint: along each axis in turn, a product with the matrix of weights.
/// `shape` is the interpolation's input; `part` says which weights, or that ones stand in their place.
///
/// A weight is a product of one for each axis, so it is negative where an odd number of those is:
///
/// ```text
/// W+ = A+ B+ + A- B-      W- = A+ B- + A- B+
/// ```
pub(crate) fn product(
    g: &mut Append<'_>,
    resize: &Resize,
    direction: Direction,
    part: WeightPart,
    x: ValueId,
    shape: &[usize],
) -> Result<ValueId, OpError> {
    let (mut even, mut odd) = (Some(x), None);
    for map in &resize.axes {
        let weights = matrix(g, resize, map, shape[map.axis])?;
        let of = |f: fn(f32) -> f32| weights.iter().copied().map(f).collect::<Vec<f32>>();
        let (same, other) = match part {
            WeightPart::All => (weights, None),
            WeightPart::Ones => (of(|w| f32::from(u8::from(w != 0.0))), None),
            WeightPart::Positive | WeightPart::Negative => {
                let other = of(|w| w.min(0.0));
                let other = other.iter().any(|&w| w < 0.0).then_some(other);
                (of(|w| w.max(0.0)), other)
            }
        };
        let extents = [map.output, shape[map.axis]];
        let mut weighted = |x: Option<ValueId>, weights: Option<&Vec<f32>>| match (x, weights) {
            (Some(x), Some(weights)) => {
                along(g, map.axis, extents, weights, direction, x).map(Some)
            }
            _ => Ok(None),
        };
        let [kept, turned] = [weighted(even, Some(&same))?, weighted(odd, other.as_ref())?];
        let [still, newly] = [weighted(odd, Some(&same))?, weighted(even, other.as_ref())?];
        (even, odd) = (sum(g, kept, turned)?, sum(g, still, newly)?);
    }
    let mut shape = shape.to_vec();
    if direction == Direction::Forward {
        for map in &resize.axes {
            shape[map.axis] = map.output;
        }
    }
    match part {
        WeightPart::Negative => or_zeros(g, odd, &shape),
        WeightPart::All | WeightPart::Positive | WeightPart::Ones => or_zeros(g, even, &shape),
    }
}

/// The weights along an axis of extent `input`: a row for each output.
fn matrix(
    g: &mut Append<'_>,
    resize: &Resize,
    map: &AxisMap,
    input: usize,
) -> Result<Vec<f32>, OpError> {
    let mut matrix = g.repeated(0.0, &[map.output, input])?;
    for (o, taps) in resize.taps(map, input).into_iter().enumerate() {
        for (i, weight) in taps {
            matrix[o * input + i] += weight;
        }
    }
    Ok(matrix)
}

/// The product of a matrix, of `extents` rows and columns, with each line of `x` along an axis.
fn along(
    g: &mut Append<'_>,
    axis: usize,
    extents: [usize; 2],
    matrix: &[f32],
    direction: Direction,
    x: ValueId,
) -> Result<ValueId, OpError> {
    let mut matrix = g.made(&extents, matrix.to_vec())?;
    if direction == Direction::Forward {
        matrix = g.transpose(matrix, &[1, 0])?;
    }
    // The axis moves to the end and back.
    let rank = g.shape(x).len();
    let mut perm: Vec<usize> = (0..rank).filter(|&a| a != axis).collect();
    perm.push(axis);
    let mut inverse = vec![0; rank];
    for (i, &p) in perm.iter().enumerate() {
        inverse[p] = i;
    }
    let moved = g.transpose(x, &perm)?;
    let product = g.op(Op::MatMul, &[moved, matrix])?;
    g.transpose(product, &inverse)
}
