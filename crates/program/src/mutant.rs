//! The model with something wrong in it.

use npcov_graph::op::Gather;
use npcov_graph::{DType, Data, Graph, Node, Op, OpError, Rewriter, Tensor, TensorType, ValueId};

use crate::append::Append;
use crate::error::ProgramError;
use crate::layers::PathLayer;
use crate::mask::masked;
use crate::program::{NetworkView, Output, Program, require_values};

/// A change of a model. What can be changed is found by [`Sites`](crate::Sites).
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Other numbers in the place of constant weights, as many of them. Where several operators share the
    /// weights, all do.
    Weights {
        /// The constant.
        constant: ValueId,
        /// Its elements.
        elements: Vec<f32>,
    },
    /// Neurons of a path layer that give 0, as if they were masked.
    Silent {
        /// Position among the path layers.
        layer: usize,
        /// The neurons.
        neurons: Vec<usize>,
    },
    /// Neurons of a path layer that have changed places for all that reads them.
    Exchanged {
        /// Position among the path layers.
        layer: usize,
        /// Neuron `i` gives what neuron `order[i]` gave: one for each, in any order.
        order: Vec<usize>,
    },
    /// A node that gives its first input as it is.
    LeftOut {
        /// Position among the graph's nodes.
        node: usize,
    },
}

/// The logits of a changed model. Without edits, they are the model's own.
pub fn mutant(view: &NetworkView<'_>, edits: &[Edit]) -> Result<Program, ProgramError> {
    Ok(Program {
        graph: edited(view, edits, &[view.classifier.logits])?,
        outputs: vec![Output::Logits],
    })
}

/// A changed model, with the outputs that it has: what a file of it holds.
pub fn mutated_graph(view: &NetworkView<'_>, edits: &[Edit]) -> Result<Graph, ProgramError> {
    edited(view, edits, view.graph.outputs())
}

fn edited(
    view: &NetworkView<'_>,
    edits: &[Edit],
    outputs: &[ValueId],
) -> Result<Graph, ProgramError> {
    view.check()?;
    edits.iter().try_for_each(|edit| check(view, edit))?;
    let graph = view.graph;
    let mut rewriter = Rewriter::new(graph);
    let failed = |layer: &str| {
        let layer = layer.to_owned();
        |source| ProgramError::Op { layer, source }
    };
    let mut masks = Vec::new();
    for edit in edits {
        match edit {
            Edit::Weights { constant, elements } => {
                let value = graph.value(*constant);
                let tensor = Tensor::new(value.ty.shape.clone(), Data::F32(elements.clone()));
                let tensor = tensor.ok_or_else(|| misfit("weights of another number"))?;
                let new = rewriter.graph().add_constant(value.name.clone(), tensor);
                rewriter.set(*constant, new);
            }
            Edit::Silent { layer, neurons } => {
                let layer = &view.layers[*layer];
                let mask = silence(rewriter.graph(), layer, neurons, view.batch);
                masks.push((layer, mask.map_err(failed(&layer.name))?));
            }
            Edit::Exchanged { .. } | Edit::LeftOut { .. } => {}
        }
    }
    for (i, node) in graph.nodes().iter().enumerate() {
        let left_out = |edit: &Edit| matches!(edit, Edit::LeftOut { node } if *node == i);
        let done = match edits.iter().any(left_out) {
            true => (rewriter.get(node.inputs[0])).map(|value| rewriter.set(node.output, value)),
            false => masked(&mut rewriter, node, &masks, view.batch),
        };
        done.and_then(|()| exchange(&mut rewriter, node, view, edits))
            .map_err(failed(&node.name))?;
    }
    let results = outputs.iter().map(|&output| rewriter.get(output));
    let results: Result<Vec<ValueId>, OpError> = results.collect();
    let results = results.map_err(failed("outputs"))?;
    let mut finished = rewriter.graph().clone();
    finished.set_outputs(results);
    Ok(finished.pruned())
}

/// A mask that is 0 for some neurons.
fn silence(
    graph: &mut Graph,
    layer: &PathLayer,
    neurons: &[usize],
    batch: usize,
) -> Result<ValueId, OpError> {
    let mut one = vec![1.0; layer.neurons];
    neurons.iter().for_each(|&neuron| one[neuron] = 0.0);
    let mut g = Append::new(graph, "silent");
    g.made(&[batch, layer.neurons], one.repeat(batch))
}

/// Puts neurons of the layer that a node computes into another order, where an edit says so.
fn exchange(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    view: &NetworkView<'_>,
    edits: &[Edit],
) -> Result<(), OpError> {
    for edit in edits {
        let Edit::Exchanged { layer, order } = edit else {
            continue;
        };
        let layer = &view.layers[*layer];
        if layer.value != node.output {
            continue;
        }
        let value = rewriter.get(node.output)?;
        let mut g = Append::new(rewriter.graph(), "exchanged");
        let shape = g.shape(value);
        // Every element is a neuron where there is no axis of them.
        let (rows, axis) = match layer.channel_axis {
            Some(axis) => (value, axis),
            None => (g.reshape(value, &[view.batch, layer.neurons])?, 1),
        };
        let order = order.iter().map(|&neuron| neuron as i64).collect();
        let order = g.constant(Tensor::ints(order));
        let rows = g.op(Op::Gather(Gather { axis }), &[rows, order])?;
        let value = g.reshape(rows, &shape)?;
        rewriter.set(node.output, value);
    }
    Ok(())
}

/// An error where an edit names something that the network has not.
fn check(view: &NetworkView<'_>, edit: &Edit) -> Result<(), ProgramError> {
    let layer = |layer: usize| {
        (view.layers.get(layer)).ok_or_else(|| misfit("an edit names a layer that is not there"))
    };
    let fits = match edit {
        Edit::Weights { constant, elements } => {
            require_values(view.graph, &[*constant])?;
            let value = view.graph.value(*constant);
            let wanted = TensorType::new(DType::F32, value.ty.shape.clone());
            value.constant.is_some() && value.ty == wanted && value.ty.numel() == elements.len()
        }
        Edit::Silent { layer: at, neurons } => {
            let count = layer(*at)?.neurons;
            neurons.iter().all(|&neuron| neuron < count)
        }
        Edit::Exchanged { layer: at, order } => {
            let layer = layer(*at)?;
            let mut sorted = order.clone();
            sorted.sort_unstable();
            layer.steps.is_none() && sorted.into_iter().eq(0..layer.neurons)
        }
        Edit::LeftOut { node } => {
            let node = view.graph.nodes().get(*node);
            let same = |node: &Node| {
                let input = node.inputs.first().map(|&i| &view.graph.value(i).ty);
                // An input of the model has a name that data is found by.
                !view.graph.inputs().contains(&node.inputs[0])
                    && input == Some(&view.graph.value(node.output).ty)
            };
            node.is_some_and(|node| !node.inputs.is_empty() && same(node))
        }
    };
    match fits {
        true => Ok(()),
        false => Err(misfit("an edit does not fit what it is about")),
    }
}

fn misfit(message: &str) -> ProgramError {
    ProgramError::Misfit(message.to_owned())
}
