//! The trace: logits, and what happens in the path layers.

use npcov_graph::op::{Reduce, ReduceKind};
use npcov_graph::{Classifier, Graph, Op, OpError, ValueId};

use crate::error::ProgramError;
use crate::layers::PathLayer;

/// Which side of an activation function a tap looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// What goes into it.
    Before,
    /// What comes out of it.
    After,
}

/// What becomes of the elements that belong to one neuron.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Their mean.
    Mean,
    /// The largest one.
    Max,
    /// The smallest one.
    Min,
    /// All of them are kept: the layer's elements in the model's order.
    Units,
}

/// Something that a criterion needs of a path layer, besides its activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tap {
    /// The layer, as a position among the path layers.
    pub layer: usize,
    /// Before or after the activation function.
    pub side: Side,
    /// What is kept.
    pub reduction: Reduction,
}

impl Tap {
    /// A layer's activation as paths use it: the mean of each neuron.
    pub fn activation(layer: usize) -> Tap {
        Tap {
            layer,
            side: Side::After,
            reduction: Reduction::Mean,
        }
    }
}

/// What an output of a trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The logits.
    Logits,
    /// A tap.
    Tap(Tap),
}

/// A program that gives the logits, one activation per neuron of each path layer, and taps.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The program.
    pub graph: Graph,
    /// What each output of the program is: the logits, the activations of the layers in order,
    /// then the taps that ask for something else.
    pub outputs: Vec<Output>,
}

impl Trace {
    /// The trace of a model.
    ///
    /// `batch` is the number of inputs that the graph takes at once, on the first axis; every
    /// output has as many rows. Taps that are named twice are computed once.
    pub fn new(
        graph: &Graph,
        classifier: &Classifier,
        layers: &[PathLayer],
        batch: usize,
        taps: &[Tap],
    ) -> Result<Trace, ProgramError> {
        let mut program = graph.clone();
        let mut outputs = vec![Output::Logits];
        let mut values = vec![classifier.logits];
        let activations = (0..layers.len()).map(Tap::activation);
        for tap in activations.chain(taps.iter().copied()) {
            if outputs.contains(&Output::Tap(tap)) {
                continue;
            }
            let layer = layers.get(tap.layer).ok_or(ProgramError::Tap {
                layer: tap.layer,
                layers: layers.len(),
            })?;
            let value =
                tapped(&mut program, layer, tap, batch).map_err(|source| ProgramError::Op {
                    layer: layer.name.clone(),
                    source,
                })?;
            outputs.push(Output::Tap(tap));
            values.push(value);
        }
        program.set_outputs(values);
        Ok(Trace {
            graph: program.pruned(),
            outputs,
        })
    }

    /// The position of a tap among the outputs.
    pub fn position(&self, tap: Tap) -> Option<usize> {
        self.outputs.iter().position(|o| *o == Output::Tap(tap))
    }
}

/// Appends what a tap asks for.
fn tapped(
    program: &mut Graph,
    layer: &PathLayer,
    tap: Tap,
    batch: usize,
) -> Result<ValueId, OpError> {
    let value = match tap.side {
        Side::After => layer.value,
        Side::Before => layer.before,
    };
    let kind = match tap.reduction {
        Reduction::Units => return Ok(value),
        Reduction::Mean => ReduceKind::Mean,
        Reduction::Max => ReduceKind::Max,
        Reduction::Min => ReduceKind::Min,
    };
    let Some(channel) = layer.channel_axis else {
        return Ok(value);
    };
    let shape = program.shape(value);
    // A single input has no batch axis to keep: all axes but the channels' are one neuron's.
    let keeps = |axis: usize| axis == channel || (batch > 1 && axis == 0);
    let axes: Vec<usize> = (0..shape.len()).filter(|&a| !keeps(a)).collect();
    if axes.iter().all(|&a| shape[a] == 1) {
        return Ok(value);
    }
    let reduce = Reduce {
        kind,
        axes,
        keep_dims: false,
    };
    program.push(layer.name.clone(), Op::Reduce(reduce), &[value])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::{LayerOptions, path_layers};
    use npcov_graph::op::Unary;
    use npcov_graph::{DType, TensorType};

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
            let trace = Trace::new(&graph, &classifier, &layers, batch, &taps).unwrap();
            let sizes: Vec<usize> = trace
                .graph
                .outputs()
                .iter()
                .map(|&o| trace.graph.value(o).ty.numel())
                .collect();
            assert_eq!(sizes, [16 * batch, 4 * batch, 16 * batch]);
            assert_eq!(trace.position(units), Some(2));
            let missing = Tap::activation(1);
            assert!(Trace::new(&graph, &classifier, &layers, batch, &[missing]).is_err());
        }
    }
}
