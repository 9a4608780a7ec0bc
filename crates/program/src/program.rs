//! What programs have in common.

use npcov_graph::{Classifier, Graph, ValueId};
use npcov_tap::Tap;

use crate::error::ProgramError;
use crate::layers::PathLayer;

/// What programs are made from: a network's graph, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct NetworkView<'a> {
    /// The model's graph.
    pub graph: &'a Graph,
    /// Where its logits are.
    pub classifier: &'a Classifier,
    /// Its path layers.
    pub layers: &'a [PathLayer],
    /// The number of inputs that the graph takes at once, on the first axis.
    pub batch: usize,
}

impl NetworkView<'_> {
    /// An error when its parts do not belong together: all programs rely on it.
    pub(crate) fn check(&self) -> Result<(), ProgramError> {
        if self.batch == 0 {
            let message = "a network that takes no input at a time".to_owned();
            return Err(ProgramError::Misfit(message));
        }
        require_values(self.graph, &[self.classifier.logits])?;
        for layer in self.layers {
            require_values(self.graph, &[layer.value, layer.before, layer.explained()])?;
            if let Some((padding, _)) = layer.elements.padding {
                require_values(self.graph, &[padding])?;
            }
            let rank = self.graph.shape(layer.value).len();
            if let Some(axis) = layer.channel_axis.filter(|&axis| axis >= rank) {
                return Err(ProgramError::Misfit(format!(
                    "layer `{}` has {rank} axes, and no channels on axis {axis}",
                    layer.name
                )));
            }
        }
        Ok(())
    }
}

/// An error when a graph has too few values for some of these to be its own.
pub(crate) fn require_values(graph: &Graph, values: &[ValueId]) -> Result<(), ProgramError> {
    let count = graph.values().len();
    match values.iter().find(|value| value.index() >= count) {
        Some(value) => Err(ProgramError::Misfit(format!(
            "value {} of a graph that has {count}",
            value.index()
        ))),
        None => Ok(()),
    }
}

/// A graph made from a model, and what its outputs are.
#[derive(Clone, Debug)]
pub struct Program {
    /// The graph.
    pub graph: Graph,
    /// What each output of the graph is; every output has a row for each input.
    pub outputs: Vec<Output>,
}

/// What an output of a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The logits.
    Logits,
    /// A tap.
    Tap(Tap),
    /// The relevances of a path layer's neurons.
    Relevance(usize),
    /// The importances of a path layer's neurons.
    Importance(usize),
    /// The relevance of an input of floats, of its shape, by its position among the model's inputs.
    InputRelevance(usize),
    /// The relevance that is lost at states before the first step of recurrent layers: one number for each of
    /// [`lost_states`](crate::lost_states).
    Lost,
    /// The value of a loss.
    Loss,
    /// The gradient of a loss with respect to the input, of its shape.
    InputGradient,
}

impl Output {
    /// The name that the output has in files.
    pub fn name(&self) -> String {
        match self {
            Output::Logits => "logits".to_owned(),
            Output::Tap(tap) if *tap == Tap::activation(tap.layer) => {
                format!("activation.{}", tap.layer)
            }
            Output::Tap(tap) => format!("tap.{}.{}", tap.layer, tap.name()),
            Output::Relevance(layer) => format!("relevance.{layer}"),
            Output::Importance(layer) => format!("importance.{layer}"),
            Output::InputRelevance(0) => "relevance.input".to_owned(),
            Output::InputRelevance(input) => format!("relevance.input.{input}"),
            Output::Lost => "relevance.lost".to_owned(),
            Output::Loss => "loss".to_owned(),
            Output::InputGradient => "gradient.input".to_owned(),
        }
    }
}

impl Program {
    /// The position of an output.
    pub fn position(&self, output: Output) -> Option<usize> {
        self.outputs.iter().position(|o| *o == output)
    }

    /// The names of the outputs in files.
    pub fn output_names(&self) -> Vec<String> {
        self.outputs.iter().map(Output::name).collect()
    }
}

#[cfg(test)]
mod tests {
    use npcov_graph::op::Unary;
    use npcov_graph::{DType, Ending, Op, TensorType};

    use super::*;
    use crate::attribution::{Attribution, GradientTimesInput, Lrp, RelevanceSeed};
    use crate::explain::{ExplainOutputs, explain};
    use crate::gradient::{Loss, Term, gradient};
    use crate::layers::{LayerOptions, path_layers};
    use crate::mask::mask;
    use crate::trace::trace;

    /// `-relu(x)`, and a value that it has not.
    fn net() -> (Graph, ValueId) {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 4]));
        let h = graph.push("relu", Op::Unary(Unary::Relu), &[x]).unwrap();
        let y = graph.push("neg", Op::Unary(Unary::Neg), &[h]).unwrap();
        graph.set_outputs(vec![y]);
        let mut larger = graph.clone();
        let foreign = larger.push("more", Op::Unary(Unary::Neg), &[y]).unwrap();
        (graph, foreign)
    }

    fn refused(view: &NetworkView<'_>, expected: &str) {
        let options = ExplainOutputs::default();
        let programs = [
            trace(view, &[]),
            mask(view),
            gradient(view, &Loss::from(Term::Margin)),
            explain(view, &Lrp::default(), &options),
        ];
        for program in programs {
            let error = program.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn parts_that_do_not_belong_together_are_errors() {
        let (graph, foreign) = net();
        let classifier = Classifier::find(&graph, graph.outputs()[0]);
        let options = LayerOptions::default();
        let layers = path_layers(&graph, &classifier, 1, &options).unwrap();
        let view = NetworkView {
            graph: &graph,
            classifier: &classifier,
            layers: &layers,
            batch: 1,
        };
        assert!(view.check().is_ok());
        refused(&NetworkView { batch: 0, ..view }, "no input at a time");
        let layer = |layer: PathLayer, expected: &str| {
            let layers = &[layer];
            refused(&NetworkView { layers, ..view }, expected);
        };
        let value = PathLayer {
            value: foreign,
            ..layers[0].clone()
        };
        layer(value, "value 3 of a graph that has 3");
        let axis = PathLayer {
            channel_axis: Some(2),
            ..layers[0].clone()
        };
        layer(axis, "layer `relu` has 2 axes, and no channels on axis 2");
        let elsewhere = Classifier {
            logits: foreign,
            ending: Ending::Logits,
        };
        let classifier = &elsewhere;
        refused(&NetworkView { classifier, ..view }, "value 3");
        assert!(path_layers(&graph, classifier, 1, &options).is_err());
    }

    /// Gives what it was told to, whatever was asked.
    struct Fixed(Vec<ValueId>);

    impl Attribution for Fixed {
        fn relevances(
            &self,
            _: &mut Graph,
            _: &RelevanceSeed,
            _: &[ValueId],
        ) -> Result<Vec<ValueId>, ProgramError> {
            Ok(self.0.clone())
        }
    }

    #[test]
    fn attributions_are_held_to_what_they_promise() {
        let mut graph = net().0;
        let (x, y) = (graph.inputs()[0], graph.outputs()[0]);
        let row = graph.push("row", Op::Reshape(vec![4]), &[x]).unwrap();
        let classifier = Classifier::find(&graph, y);
        let layers = path_layers(&graph, &classifier, 1, &LayerOptions::default()).unwrap();
        let view = NetworkView {
            graph: &graph,
            classifier: &classifier,
            layers: &layers,
            batch: 1,
        };
        let with = |relevances: &[ValueId]| {
            let options = ExplainOutputs::default();
            explain(&view, &Fixed(relevances.to_vec()), &options)
        };
        assert!(with(&[x]).is_ok());
        for wrong in [&[][..], &[x, x], &[row]] {
            let error = with(wrong).unwrap_err();
            assert!(matches!(error, ProgramError::Misfit(_)), "{error}");
        }
    }

    #[test]
    fn seeds_and_targets_are_those_of_the_program() {
        let (graph, foreign) = net();
        let (x, y) = (graph.inputs()[0], graph.outputs()[0]);
        let mut wider = graph.clone();
        let row = wider.push("row", Op::Reshape(vec![4]), &[x]).unwrap();
        let seed = |relevance| RelevanceSeed {
            logits: y,
            one_hot: relevance,
            relevance,
        };
        let lrp = Lrp::default();
        let attributions: [&dyn Attribution; 2] = [&lrp, &GradientTimesInput];
        for attribution in attributions {
            let asked = |graph: &Graph, relevance, target| {
                attribution.relevances(&mut graph.clone(), &seed(relevance), &[target])
            };
            assert!(asked(&graph, y, x).is_ok());
            for wrong in [
                asked(&graph, foreign, x),
                asked(&graph, y, foreign),
                asked(&wider, row, x),
            ] {
                assert!(matches!(wrong, Err(ProgramError::Misfit(_))));
            }
        }
    }
}
