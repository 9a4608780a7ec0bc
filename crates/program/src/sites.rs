//! Where a model can be changed.

use npcov_graph::op::Binary;
use npcov_graph::{Graph, Op, ValueId};

use crate::layers::PathLayer;
use crate::linear::{Linear, LinearNode};
use crate::neurons::Elements;
use crate::program::NetworkView;

/// What of a model can be changed: its weights, what comes into its neurons, its activation functions, and layers that
/// could be left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sites {
    /// Constants that convolutions and dense layers multiply with, each once.
    pub weights: Vec<ValueId>,
    /// By path layer, the weights of what comes into each neuron; `None` where neurons have no weights of their own: in
    /// sums of several branches, in recurrent layers, in heads of attention.
    pub incoming: Vec<Option<Incoming>>,
    /// By path layer, the node of its activation function; `None` where it has none by itself.
    pub activations: Vec<Option<usize>>,
    /// Convolutions and dense layers whose output has the shape of their input, as positions among the nodes.
    pub layers: Vec<usize>,
}

/// The weights of what comes into the neurons of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The constant that holds them.
    pub weights: ValueId,
    /// Those of a neuron are `each` elements, `step` apart, from `first * neuron` on.
    each: usize,
    step: usize,
    first: usize,
}

impl Incoming {
    /// The positions of a neuron's weights among the elements of the constant.
    pub fn of(&self, neuron: usize) -> impl Iterator<Item = usize> + use<> {
        let (start, step) = (self.first * neuron, self.step);
        (0..self.each).map(move |i| start + i * step)
    }

    /// How many weights a neuron has.
    pub fn each(&self) -> usize {
        self.each
    }
}

impl Sites {
    /// Those of a network.
    pub fn of(view: &NetworkView<'_>) -> Sites {
        let graph = view.graph;
        let mut sites = Sites::default();
        for (position, node) in graph.nodes().iter().enumerate() {
            let Some(LinearNode {
                weight: Some(weight),
                ..
            }) = LinearNode::of(graph, node)
            else {
                continue;
            };
            if !sites.weights.contains(&weight) {
                sites.weights.push(weight);
            }
            let data = node.inputs[0];
            let same = graph.value(data).ty == graph.value(node.output).ty;
            if same && !graph.inputs().contains(&data) {
                sites.layers.push(position);
            }
        }
        for layer in view.layers {
            sites.incoming.push(incoming(graph, layer));
            sites.activations.push(activation(graph, layer));
        }
        sites
    }
}

/// The node of a layer's activation function.
fn activation(graph: &Graph, layer: &PathLayer) -> Option<usize> {
    let position = graph.value(layer.value).producer?;
    let node = &graph.nodes()[position];
    let is_function = matches!(node.op, Op::Unary(_)) && node.inputs == [layer.before];
    let given = graph.inputs().contains(&layer.before);
    (is_function && !given && layer.steps.is_none()).then_some(position)
}

/// Goes from a layer back to the weights, by what treats every neuron by itself.
fn incoming(graph: &Graph, layer: &PathLayer) -> Option<Incoming> {
    if layer.steps.is_some() || layer.elements.vectors.is_some() {
        return None;
    }
    let mut value = layer.before;
    loop {
        let node = graph.producer(value)?;
        let varying = |i: usize| {
            node.inputs
                .get(i)
                .copied()
                .filter(|&v| graph.constant(v).is_none())
        };
        if let Some(found) = LinearNode::of(graph, node) {
            if let (Some(weights), 0) = (found.weight, found.position) {
                return of_weights(graph, layer, &found.linear, weights);
            }
            // An average over positions, which every channel has by itself.
            if !matches!(node.op, Op::Pool(_)) {
                return None;
            }
        }
        let sums = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div];
        let with_constants = sums.map(Op::Binary).contains(&node.op);
        let by_itself = matches!(node.op, Op::BatchNormalization(_) | Op::Pool(_));
        value = match (varying(0), varying(1)) {
            (Some(a), None) if by_itself || with_constants => a,
            (None, Some(b)) if with_constants => b,
            _ => return None,
        };
        // Somewhere else neurons would be something else.
        if graph.shape(value).len() != graph.shape(layer.value).len() {
            return None;
        }
    }
}

/// The weights of neurons in a constant, if a neuron has some of its own.
fn of_weights(
    graph: &Graph,
    layer: &PathLayer,
    linear: &Linear,
    weights: ValueId,
) -> Option<Incoming> {
    let shape = graph.shape(weights);
    let count = graph.value(weights).ty.numel();
    let rank = graph.shape(layer.value).len();
    let each = count.checked_div(layer.neurons)?;
    let rows = Incoming {
        weights,
        each,
        step: 1,
        first: each,
    };
    let columns = Incoming {
        weights,
        each,
        step: layer.neurons,
        first: 1,
    };
    // Of a map the neurons are channels, of a row its elements.
    let of_axis = |axis: usize| match layer.channel_axis {
        Some(channel) => channel == axis,
        None => axis + 1 == rank && layer.elements == Elements::default(),
    };
    let (found, axis, neurons) = match linear {
        Linear::Conv(_) => (rows, 1, *shape.first()?),
        Linear::Gemm(gemm) if gemm.trans_b => (rows, rank - 1, *shape.first()?),
        Linear::Gemm(_) | Linear::MatMul if shape.len() > 1 => (columns, rank - 1, *shape.last()?),
        Linear::Gemm(_)
        | Linear::MatMul
        | Linear::ConvTranspose(_)
        | Linear::MatMulLeft
        | Linear::Pool(_)
        | Linear::Reduce(_)
        | Linear::Resize(_) => return None,
    };
    (of_axis(axis) && neurons == layer.neurons).then_some(found)
}
