//! Interpolation: weighted sums along single axes.

use npcov_graph::op::Resize;
use npcov_graph::{Op, OpError, ValueId};

use crate::append::Append;
use crate::linear::WeightPart;

/// Which way a product with the matrix of weights goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From input to output.
    Forward,
    /// From output to input.
    Adjoint,
}

/// Interpolation or its adjoint: along each axis in turn, a product with the matrix of weights.
/// `shape` is the interpolation's input; `part` is all weights, or ones in their place.
pub(crate) fn product(
    g: &mut Append<'_>,
    resize: &Resize,
    direction: Direction,
    part: WeightPart,
    x: ValueId,
    shape: &[usize],
) -> Result<ValueId, OpError> {
    let mut x = x;
    for map in &resize.axes {
        let input = shape[map.axis];
        let mut matrix = g.repeated(0.0, &[map.output, input])?;
        for (o, taps) in resize.taps(map, input).into_iter().enumerate() {
            for (i, weight) in taps {
                matrix[o * input + i] += weight;
            }
        }
        if part == WeightPart::Ones {
            for weight in &mut matrix {
                *weight = f32::from(u8::from(*weight != 0.0));
            }
        }
        let mut matrix = g.made(&[map.output, input], matrix)?;
        if direction == Direction::Forward {
            matrix = g.transpose(matrix, &[1, 0])?;
        }
        // The axis moves to the end and back.
        let rank = g.shape(x).len();
        let mut perm: Vec<usize> = (0..rank).filter(|&a| a != map.axis).collect();
        perm.push(map.axis);
        let mut inverse = vec![0; rank];
        for (i, &p) in perm.iter().enumerate() {
            inverse[p] = i;
        }
        let moved = g.transpose(x, &perm)?;
        let product = g.op(Op::MatMul, &[moved, matrix])?;
        x = g.transpose(product, &inverse)?;
    }
    Ok(x)
}
