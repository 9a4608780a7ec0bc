//! The trace: logits, and what happens in the path layers.

use npcov_graph::op::ReduceKind;
use npcov_graph::{Graph, OpError, ValueId};
use npcov_tap::{Reduction, Side, Tap};

use crate::error::ProgramError;
use crate::layers::{PathLayer, weighted_sums};
use crate::neurons::activations;
use crate::program::{NetworkView, Output, Program};

/// Appends what a tap asks for.
pub(crate) fn append_tap(
    program: &mut Graph,
    view: &NetworkView<'_>,
    tap: Tap,
) -> Result<ValueId, ProgramError> {
    let sums;
    let layers = match tap.side {
        Side::Before | Side::After => view.layers,
        Side::Sum => {
            sums = weighted_sums(view.graph, view.batch);
            &sums[..]
        }
    };
    let layer = layers.get(tap.layer).ok_or(ProgramError::Tap {
        layer: tap.layer,
        layers: layers.len(),
    })?;
    let value = tapped(program, layer, tap, view.batch);
    value.map_err(|source| ProgramError::Op {
        layer: layer.name.clone(),
        source,
    })
}

/// A program that gives the logits, one activation per neuron of each path layer in order, then
/// the taps that ask for something else. Taps that are named twice are computed once.
pub fn trace(view: &NetworkView<'_>, taps: &[Tap]) -> Result<Program, ProgramError> {
    view.check()?;
    let mut program = view.graph.clone();
    let mut outputs = vec![Output::Logits];
    let mut values = vec![view.classifier.logits];
    let activations = (0..view.layers.len()).map(Tap::activation);
    for tap in activations.chain(taps.iter().copied()) {
        if outputs.contains(&Output::Tap(tap)) {
            continue;
        }
        values.push(append_tap(&mut program, view, tap)?);
        outputs.push(Output::Tap(tap));
    }
    program.set_outputs(values);
    Ok(Program {
        graph: program.pruned(),
        outputs,
    })
}

/// Appends what a tap asks for of a layer.
pub(crate) fn tapped(
    program: &mut Graph,
    layer: &PathLayer,
    tap: Tap,
    batch: usize,
) -> Result<ValueId, OpError> {
    let value = match tap.side {
        Side::After | Side::Sum => layer.value,
        Side::Before => layer.before,
    };
    let value = layer.of_steps(program, value)?;
    let kind = match tap.reduction {
        Reduction::Units => return Ok(value),
        Reduction::Mean => {
            if let Some(mean) = layer.mean_of_valid(program, value, batch)? {
                return Ok(mean);
            }
            ReduceKind::Mean
        }
        Reduction::Max => ReduceKind::Max,
        Reduction::Min => ReduceKind::Min,
    };
    activations(program, layer, value, kind, batch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::{LayerOptions, path_layers};
    use npcov_graph::op::Unary;
    use npcov_graph::{Classifier, DType, Op, TensorType};

    #[test]
    fn taps_are_reduced_to_neurons_and_made_once() {
        for batch in [1, 3] {
            let mut graph = Graph::new();
            let x = graph.add_input("x", TensorType::new(DType::F32, [batch, 4, 2, 2]));
            let h = graph.push("relu", Op::Unary(Unary::Relu), &[x]).unwrap();
            let y = graph.push("end", Op::Unary(Unary::Neg), &[h]).unwrap();
            graph.set_outputs(vec![y]);
            let classifier = Classifier::find(&graph, y);
            let options = LayerOptions::default();
            let layers = path_layers(&graph, &classifier, batch, &options).unwrap();
            let units = Tap {
                layer: 0,
                side: Side::Before,
                reduction: Reduction::Units,
            };
            let taps = [Tap::activation(0), units, units];
            let view = NetworkView {
                graph: &graph,
                classifier: &classifier,
                layers: &layers,
                batch,
            };
            let program = trace(&view, &taps).unwrap();
            let sizes: Vec<usize> = program
                .graph
                .outputs()
                .iter()
                .map(|&o| program.graph.value(o).ty.numel())
                .collect();
            assert_eq!(sizes, [16 * batch, 4 * batch, 16 * batch]);
            assert_eq!(program.position(Output::Tap(units)), Some(2));
            assert!(trace(&view, &[Tap::activation(1)]).is_err());
        }
    }
}
