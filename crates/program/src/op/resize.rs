//! Interpolation: weighted sums along single axes.

use npcov_graph::op::Resize;
use npcov_graph::{Data, Op, OpError, Tensor, ValueId};

use crate::append::Append;

/// The adjoint: along each axis in turn, a product with the transposed matrix of weights.
pub(crate) fn adjoint(
    g: &mut Append<'_>,
    resize: &Resize,
    s: ValueId,
    shape: &[usize],
) -> Result<ValueId, OpError> {
    let mut s = s;
    for map in &resize.axes {
        let input = shape[map.axis];
        let mut matrix = vec![0.0; map.output * input];
        for (o, taps) in resize.taps(map, input).into_iter().enumerate() {
            for (i, weight) in taps {
                matrix[o * input + i] += weight;
            }
        }
        let matrix = Tensor::new([map.output, input], Data::F32(matrix))
            .ok_or_else(|| OpError::invalid("an axis without elements"))?;
        let matrix = g.constant(matrix);
        // The axis moves to the end and back.
        let rank = g.shape(s).len();
        let mut perm: Vec<usize> = (0..rank).filter(|&a| a != map.axis).collect();
        perm.push(map.axis);
        let mut inverse = vec![0; rank];
        for (i, &p) in perm.iter().enumerate() {
            inverse[p] = i;
        }
        let moved = g.transpose(s, &perm)?;
        let product = g.op(Op::MatMul, &[moved, matrix])?;
        s = g.transpose(product, &inverse)?;
    }
    Ok(s)
}
