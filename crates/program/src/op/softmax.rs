//! Softmax and its logarithm.

use npcov_graph::OpError;
use npcov_graph::op::{Softmax, Unary};

use super::{Shares, Step};
use crate::append::Append;

/// With `p` the softmax and `r` what arrived, the gradient of the input is `p (r - sum(p r))`, and
/// `r - p sum(r)` behind a logarithm.
pub(super) fn adjoint(
    g: &mut Append<'_>,
    step: &Step<'_>,
    softmax: &Softmax,
) -> Result<Shares, OpError> {
    let (y, r) = (step.node.output, step.cotangent);
    let gradient = match softmax.log {
        false => {
            let product = g.mul(y, r)?;
            let sum = g.sum(product, vec![softmax.axis])?;
            let difference = g.sub(r, sum)?;
            g.mul(y, difference)?
        }
        true => {
            let p = g.unary(Unary::Exp, y)?;
            let sum = g.sum(r, vec![softmax.axis])?;
            let product = g.mul(p, sum)?;
            g.sub(r, product)?
        }
    };
    Ok(vec![(0, gradient)])
}
