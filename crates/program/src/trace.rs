//! The trace: logits, and what happens in the path layers.

use npcov_graph::op::{Reduce, ReduceKind};
use npcov_graph::{Graph, Op, OpError, ValueId};

use crate::error::ProgramError;
use crate::layers::PathLayer;
use crate::program::{Output, Program, Subject};

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

impl Tap {
    /// Appends what it asks for.
    pub(crate) fn append(
        self,
        program: &mut Graph,
        subject: &Subject<'_>,
    ) -> Result<ValueId, ProgramError> {
        let layer = subject.layers.get(self.layer).ok_or(ProgramError::Tap {
            layer: self.layer,
            layers: subject.layers.len(),
        })?;
        let value = tapped(program, layer, self, subject.batch);
        value.map_err(|source| ProgramError::Op {
            layer: layer.name.clone(),
            source,
        })
    }

    /// Side and reduction as one word.
    pub(crate) fn name(&self) -> String {
        let side = match self.side {
            Side::Before => "before",
            Side::After => "after",
        };
        let reduction = match self.reduction {
            Reduction::Mean => "mean",
            Reduction::Max => "max",
            Reduction::Min => "min",
            Reduction::Units => "units",
        };
        format!("{side}-{reduction}")
    }
}

/// A program that gives the logits, one activation per neuron of each path layer in order, then
/// the taps that ask for something else. Taps that are named twice are computed once.
pub fn trace(subject: &Subject<'_>, taps: &[Tap]) -> Result<Program, ProgramError> {
    let mut program = subject.graph.clone();
    let mut outputs = vec![Output::Logits];
    let mut values = vec![subject.classifier.logits];
    let activations = (0..subject.layers.len()).map(Tap::activation);
    for tap in activations.chain(taps.iter().copied()) {
        if outputs.contains(&Output::Tap(tap)) {
            continue;
        }
        values.push(tap.append(&mut program, subject)?);
        outputs.push(Output::Tap(tap));
    }
    program.set_outputs(values);
    Ok(Program {
        graph: program.pruned(),
        outputs,
    })
}

/// Appends what a tap asks for.
pub(crate) fn tapped(
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
    let axes = layer.reduced_axes(program.shape(value), batch);
    if axes.is_empty() {
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
    use npcov_graph::{Classifier, DType, TensorType};

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
            let subject = Subject {
                graph: &graph,
                classifier: &classifier,
                layers: &layers,
                batch,
            };
            let program = trace(&subject, &taps).unwrap();
            let sizes: Vec<usize> = program
                .graph
                .outputs()
                .iter()
                .map(|&o| program.graph.value(o).ty.numel())
                .collect();
            assert_eq!(sizes, [16 * batch, 4 * batch, 16 * batch]);
            assert_eq!(program.position(Output::Tap(units)), Some(2));
            assert!(trace(&subject, &[Tap::activation(1)]).is_err());
        }
    }
}
