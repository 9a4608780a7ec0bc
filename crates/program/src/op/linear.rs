//! Convolutions, products with constants, average pools, sums: one mechanism.

use npcov_graph::op::CompositeOp;
use npcov_graph::{Op, OpError};

use super::pool::PoolAdjoint;
use super::{Choice, Shares, Step, no_rule};
use crate::append::Append;
use crate::linear::{Linear, LinearNode, WeightPart};
use crate::relevance::LinearRelevance;
use crate::rule::{Bias, Sharing};

/// The relevance of the input that the node is linear in.
pub(super) fn relevance(
    g: &mut Append<'_>,
    step: &Step<'_>,
    choice: &Choice,
) -> Result<Shares, OpError> {
    let Some(found) = LinearNode::of(step.graph, step.node) else {
        return Err(no_rule());
    };
    if let Sharing::Named(_) = choice.rule.sharing() {
        let message = format!("the rule `{}` is for operators that are named", choice.rule);
        return Err(OpError::invalid(message));
    }
    let x = step.input(found.position);
    let mut inputs = vec![x, step.cotangent];
    inputs.extend(found.weight);
    let bias = match (choice.bias, found.bias, choice.added) {
        (Bias::Ignore, ..) => None,
        (Bias::Absorb, Some((factor, bias)), _) => Some(g.times(bias, factor)?),
        (Bias::Absorb, None, Some(added)) => {
            // All axes, so that it is not taken for one number per channel.
            let shape = g.shape(added);
            let missing = step.output_shape().len().saturating_sub(shape.len());
            Some(g.reshape(added, &[vec![1; missing], shape].concat())?)
        }
        (Bias::Absorb, None, None) => None,
    };
    inputs.extend(bias);
    let op = LinearRelevance {
        linear: found.linear,
        rule: choice.rule,
        weight: found.weight.is_some(),
        bias: bias.is_some(),
        nonnegative: choice.nonnegative[found.position],
    };
    let relevance = g.op(Op::Composite(CompositeOp::new(op)), &inputs)?;
    Ok(vec![(found.position, relevance)])
}

/// The gradient of the input that the node is linear in.
pub(super) fn adjoint(g: &mut Append<'_>, step: &Step<'_>) -> Result<Shares, OpError> {
    let Some(found) = LinearNode::of(step.graph, step.node) else {
        return Err(OpError::unsupported(
            "its weight depends on the model's input",
        ));
    };
    let shape = step.shape(found.position);
    let gradient = match &found.linear {
        Linear::Pool(pool) => {
            let spread = PoolAdjoint {
                pool: pool.clone(),
                input: shape.to_vec(),
            };
            let op = Op::Composite(CompositeOp::new(spread));
            g.op(op, &[step.cotangent])?
        }
        Linear::Conv(_)
        | Linear::ConvTranspose(_)
        | Linear::Gemm(_)
        | Linear::MatMul
        | Linear::MatMulLeft
        | Linear::Reduce(_)
        | Linear::Resize(_) => {
            let linear = &found.linear;
            linear.adjoint(g, WeightPart::All, step.cotangent, found.weight, shape)?
        }
    };
    Ok(vec![(found.position, gradient)])
}
