//! The model with a switch for every neuron.

use npcov_graph::{DType, Rewriter, TensorType};

use crate::error::ProgramError;
use crate::neurons::masked as masked_layer;
use crate::program::{NetworkView, Output, Program};

/// A program that gives the logits when the neurons of the path layers are multiplied by masks.
///
/// After the model's own input it takes one for each path layer, `mask.0`, `mask.1`, ..., with a
/// number for each neuron: 1 leaves it as it is, 0 switches it off. Masks of ones give the model's
/// own logits, bit by bit.
pub fn mask(view: &NetworkView<'_>) -> Result<Program, ProgramError> {
    view.check()?;
    let graph = view.graph;
    let mut rewriter = Rewriter::new(graph);
    let mut masks = Vec::new();
    for (i, layer) in view.layers.iter().enumerate() {
        let ty = TensorType::new(DType::F32, [view.batch, layer.neurons]);
        masks.push(rewriter.graph().add_input(format!("mask.{i}"), ty));
    }
    for node in graph.nodes() {
        let mut masked = rewriter.copy(node);
        for (layer, &mask) in view.layers.iter().zip(&masks) {
            if layer.value == node.output {
                masked = masked.and_then(|value| {
                    let product = masked_layer(rewriter.graph(), layer, value, mask, view.batch)?;
                    rewriter.set(node.output, product);
                    Ok(product)
                });
            }
        }
        masked.map_err(|source| ProgramError::Op {
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
