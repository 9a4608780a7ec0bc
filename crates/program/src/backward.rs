//! From the end of a graph to its beginning.

use npcov_graph::{Graph, NodeError, NodeErrorKind, OpError, ValueId};

use crate::append::Append;
use crate::op::{Shares, Step, is_differentiable};

/// Walks a graph backwards and appends, to a program that begins with the same graph, what `step`
/// makes of each node. Returns the cotangents of `targets`, `None` for those that none reaches.
///
/// Cotangents of a value that is used several times add up. Only nodes between the seeds and the
/// targets are visited. All nodes for which `step` fails are reported.
pub(crate) fn backward(
    graph: &Graph,
    program: &mut Graph,
    seeds: &[(ValueId, ValueId)],
    targets: &[ValueId],
    mut step: impl FnMut(&mut Append<'_>, &Step<'_>) -> Result<Shares, OpError>,
) -> Result<Vec<Option<ValueId>>, Vec<NodeError>> {
    // A cotangent matters where a target lies behind it.
    let mut matters = vec![false; graph.values().len()];
    for target in targets {
        matters[target.index()] = true;
    }
    for node in graph.nodes() {
        if node.inputs.iter().any(|v| matters[v.index()]) && is_differentiable(&node.op) {
            matters[node.output.index()] = true;
        }
    }
    let mut cotangents: Vec<Option<ValueId>> = vec![None; graph.values().len()];
    for &(value, cotangent) in seeds {
        cotangents[value.index()] = Some(cotangent);
    }
    let mut errors = Vec::new();
    for node in graph.nodes().iter().rev() {
        let Some(cotangent) = cotangents[node.output.index()] else {
            continue;
        };
        if !node.inputs.iter().any(|v| matters[v.index()]) || !is_differentiable(&node.op) {
            continue;
        }
        let mut g = Append::new(program, node.name.clone());
        let arrived = Step {
            graph,
            node,
            cotangent,
        };
        let result = step(&mut g, &arrived)
            .and_then(|shares| add_up(&mut g, &arrived, shares, &matters, &mut cotangents));
        if let Err(error) = result {
            errors.push(NodeError {
                node: node.name.clone(),
                op_type: node.op.name().to_owned(),
                reason: NodeErrorKind::Op(error),
            });
            // Anything of the right shape, so that nodes further back are tried as well.
            for input in &node.inputs {
                if matters[input.index()] && cotangents[input.index()].is_none() {
                    cotangents[input.index()] = Some(*input);
                }
            }
        }
    }
    match errors.is_empty() {
        true => Ok(targets.iter().map(|t| cotangents[t.index()]).collect()),
        false => Err(errors.into_iter().rev().collect()),
    }
}

/// Adds the shares of a node's inputs to what those have.
fn add_up(
    g: &mut Append<'_>,
    step: &Step<'_>,
    shares: Shares,
    matters: &[bool],
    cotangents: &mut [Option<ValueId>],
) -> Result<(), OpError> {
    for (position, share) in shares {
        let input = step.input(position);
        if !matters[input.index()] {
            continue;
        }
        if g.graph.shape(share) != step.shape(position) {
            return Err(OpError::invalid("a share has another shape than its input"));
        }
        let slot = &mut cotangents[input.index()];
        *slot = Some(match *slot {
            Some(before) => g.add(before, share)?,
            None => share,
        });
    }
    Ok(())
}
