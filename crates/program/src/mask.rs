//! The model with a switch for every neuron.

use std::ops::Range;

use npcov_graph::op::{Arguments, CompositeOp, Recurrence};
use npcov_graph::{DType, Node, Op, OpError, Rewriter, TensorType, ValueId};

use crate::append::Append;
use crate::error::ProgramError;
use crate::layers::PathLayer;
use crate::neurons::masked as masked_layer;
use crate::program::{NetworkView, Output, Program};

/// A program that gives the logits when the neurons of the path layers are multiplied by masks.
///
/// After the model's own input it takes one for each path layer, `mask.0`, `mask.1`, ..., with a
/// number for each neuron: 1 leaves it as it is, 0 switches it off. Masks of ones give the model's
/// own logits, bit by bit. Units of a recurrent layer are switched off at all steps that are looked
/// at, for the next step as well as for later layers.
pub fn mask(view: &NetworkView<'_>) -> Result<Program, ProgramError> {
    view.check()?;
    let graph = view.graph;
    let mut rewriter = Rewriter::new(graph);
    let mut masks = Vec::new();
    for (i, layer) in view.layers.iter().enumerate() {
        let ty = TensorType::new(DType::F32, [view.batch, layer.neurons]);
        masks.push(rewriter.graph().add_input(format!("mask.{i}"), ty));
    }
    let masks: Vec<(&PathLayer, ValueId)> = view.layers.iter().zip(masks).collect();
    for node in graph.nodes() {
        masked(&mut rewriter, node, &masks, view.batch).map_err(|source| ProgramError::Op {
            layer: node.name.clone(),
            source,
        })?;
    }
    let finished = rewriter
        .get(view.classifier.logits)
        .map(|logits| {
            let mut program = rewriter.graph().clone();
            program.set_outputs(vec![logits]);
            program.pruned()
        })
        .map_err(|source| ProgramError::Op {
            layer: "logits".to_owned(),
            source,
        })?;
    Ok(Program {
        graph: finished,
        outputs: vec![Output::Logits],
    })
}

/// Copies a node, with the masks of what it computes.
pub(crate) fn masked(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    masks: &[(&PathLayer, ValueId)],
    batch: usize,
) -> Result<(), OpError> {
    let of_steps: Vec<_> = (masks.iter().copied())
        .filter(|(layer, _)| layer.steps.is_some() && layer.explained() == node.output)
        .collect();
    if let (Some(op), false) = (Recurrence::of(node), of_steps.is_empty()) {
        return masked_recurrence(rewriter, node, op, &of_steps);
    }
    let mut value = rewriter.copy(node)?;
    for (layer, mask) in masks {
        if layer.value == node.output && layer.steps.is_none() {
            value = masked_layer(rewriter.graph(), layer, value, *mask, batch)?;
            rewriter.set(node.output, value);
        }
    }
    Ok(())
}

/// Puts a recurrence in the place of a node whose units are multiplied by masks.
fn masked_recurrence(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    op: &Recurrence,
    masks: &[(&PathLayer, ValueId)],
) -> Result<(), OpError> {
    let inputs = node.inputs.iter().map(|&input| rewriter.get(input));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let arguments = op.arguments(&inputs)?;
    let mut g = Append::new(rewriter.graph(), "mask");
    let (n, all) = (g.shape(arguments.x)[0], g.shape(arguments.x)[1]);
    // The masks of all steps, one after the other; steps that no layer looks at keep theirs.
    let mut parts = Vec::new();
    let mut next = 0;
    let unmasked = |g: &mut Append<'_>, steps: Range<usize>| match steps.is_empty() {
        true => Ok(None),
        false => g.filled(&[n, steps.len(), op.hidden], 1.0).map(Some),
    };
    for (layer, mask) in masks {
        let Some(steps) = &layer.steps else { continue };
        parts.extend(unmasked(&mut g, next..steps.looked_at.start)?);
        let shape = [n, steps.looked_at.len(), op.hidden];
        let mask = match layer.channel_axis {
            Some(_) => {
                let mask = g.reshape(*mask, &[n, 1, op.hidden])?;
                g.expand(mask, &shape)?
            }
            None => g.reshape(*mask, &shape)?,
        };
        parts.push(mask);
        next = steps.looked_at.end;
    }
    parts.extend(unmasked(&mut g, next..all)?);
    let mask = match parts[..] {
        [only] => only,
        _ => g.op(Op::Concat(1), &parts)?,
    };
    let arguments = Arguments {
        mask: Some(mask),
        ..arguments
    };
    let op = Recurrence {
        given: arguments.given(),
        ..op.clone()
    };
    let op = Op::Composite(CompositeOp::new(op));
    let target = rewriter.graph();
    let states = target.push(node.name.clone(), op, &arguments.into_list())?;
    rewriter.set(node.output, states);
    Ok(())
}
