//! The trace: logits, and what happens in the path layers.

use npcov_graph::op::ReduceKind;
use npcov_graph::{Graph, Node, Op, OpError, ValueId};
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
    let mut layer = layer.clone();
    let value = beside_batch_norm(program, view, tap, &mut layer)
        .and_then(|()| tapped(program, &layer, tap, view.batch));
    value.map_err(|source| ProgramError::Op {
        layer: layer.name.clone(),
        source,
    })
}

/// Where batch normalisation follows a weighted sum, what is looked at is a second sum beside it:
/// engines make one of sum and normalisation, and logits must be the same bits whether somebody looks
/// or not.
fn beside_batch_norm(
    program: &mut Graph,
    view: &NetworkView<'_>,
    tap: Tap,
    layer: &mut PathLayer,
) -> Result<(), OpError> {
    let normalised = |node: &Node| {
        matches!(node.op, Op::BatchNormalization(_)) && node.inputs.first() == Some(&layer.value)
    };
    if tap.side != Side::Sum || !view.graph.nodes().iter().any(normalised) {
        return Ok(());
    }
    let Some(sum) = view.graph.producer(layer.value) else {
        return Ok(());
    };
    let appended = &program.nodes()[view.graph.nodes().len()..];
    let is_copy = |node: &&Node| node.op == sum.op && node.inputs == sum.inputs;
    layer.value = match appended.iter().find(is_copy) {
        Some(copy) => copy.output,
        None => program.push(sum.name.clone(), sum.op.clone(), &sum.inputs)?,
    };
    Ok(())
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
        Reduction::Valid => return layer.valid_steps(program, value),
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
    use npcov_graph::{Classifier, DType, TensorType};

    /// Taps of a sum in front of batch normalisation share one copy of it, and the sum that the
    /// logits are made of keeps its only use.
    #[test]
    fn sums_in_front_of_batch_norm_are_looked_at_beside_it() {
        use npcov_graph::op::{BatchNormalization, Conv, Window};
        use npcov_graph::{Data, Tensor};
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 1, 2, 2]));
        let weight = Tensor::new([1, 1, 1, 1], Data::F32(vec![2.0])).unwrap();
        let weight = graph.add_constant("w", weight);
        let one = graph.add_constant("one", Tensor::vector(vec![1.0]));
        let conv = Op::Conv(Conv {
            window: Window::sized([1, 1]),
            groups: 1,
        });
        let h = graph.push("conv", conv.clone(), &[x, weight]).unwrap();
        let norm = Op::BatchNormalization(BatchNormalization { epsilon: 1e-5 });
        let h = graph.push("norm", norm, &[h, one, one, one, one]).unwrap();
        let y = graph.push("relu", Op::Unary(Unary::Relu), &[h]).unwrap();
        graph.set_outputs(vec![y]);
        let classifier = Classifier::find(&graph, y);
        let view = NetworkView {
            graph: &graph,
            classifier: &classifier,
            layers: &[],
            batch: 1,
        };
        let tap = |reduction| Tap {
            layer: 0,
            side: Side::Sum,
            reduction,
        };
        let taps = [tap(Reduction::Mean), tap(Reduction::Units)];
        let program = trace(&view, &taps).unwrap();
        let copies = program.graph.nodes().iter().filter(|n| n.op == conv);
        assert_eq!(copies.count(), 2);
        let uses = program.graph.consumers();
        let first = program.graph.nodes().iter().find(|n| n.op == conv).unwrap();
        assert_eq!(uses[first.output.index()].len(), 1);
    }

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
