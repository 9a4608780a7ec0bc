//! What a model is for, where that is no classification of its input.

use std::fmt;

use crate::classifier::{Classifier, Ending, behind_reshapes, second_of_two};
use crate::graph::{Graph, ValueId};
use crate::op::{Op, Unary};

/// What an output says, when it does not say one class of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purpose {
    /// Numbers for every place of a map: segmentation, a picture, a map of boxes.
    Map {
        /// Number of places.
        places: usize,
    },
    /// Numbers for every element of a list: boxes of a detector, tokens of a text.
    List {
        /// Number of elements.
        elements: usize,
        /// Numbers for each.
        numbers: usize,
    },
    /// A sigmoid for each of several labels, none of which excludes another.
    Labels {
        /// Number of labels.
        labels: usize,
    },
    /// Integers or truth values: a decision that was already made.
    Decision,
}

impl Purpose {
    /// What the output is, for a graph made for `batch` inputs; `None` for a classification.
    pub fn of(graph: &Graph, classifier: &Classifier, batch: usize) -> Option<Purpose> {
        let logits = classifier.logits;
        let ty = &graph.value(logits).ty;
        if ty.dtype != crate::tensor::DType::F32 {
            return Some(Purpose::Decision);
        }
        // Axes of extent 1 say nothing: a pooled map is a vector.
        let behind_batch = match &ty.shape[..] {
            [first, rest @ ..] if *first == batch.max(1) => rest,
            whole => whole,
        };
        let axes: Vec<usize> = behind_batch.iter().copied().filter(|&n| n > 1).collect();
        match axes[..] {
            [] => None,
            [labels] => {
                if classifier.ending != Ending::Logits {
                    return None;
                }
                // scikit-learn's outputs `1 - p` and `p`.
                if let Some(p) = second_of_two(graph, behind_reshapes(graph, logits))
                    && is_sigmoid(graph, p)
                {
                    let labels = graph.value(p).ty.numel() / batch.max(1);
                    return (labels > 1).then_some(Purpose::Labels { labels });
                }
                is_sigmoid(graph, logits).then_some(Purpose::Labels { labels })
            }
            [a, b] => Some(Purpose::List {
                elements: a,
                numbers: b,
            }),
            [_, ref places @ ..] => Some(Purpose::Map {
                places: places.iter().product(),
            }),
        }
    }
}

/// Whether a value is the sigmoid of something, element by element.
fn is_sigmoid(graph: &Graph, value: ValueId) -> bool {
    graph.producer(value).is_some_and(|node| {
        let is_reshaped = matches!(node.op, Op::Reshape(_)) && is_sigmoid(graph, node.inputs[0]);
        is_reshaped || node.op == Op::Unary(Unary::Sigmoid)
    })
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Purpose::Map { places } => write!(
                f,
                "has numbers for each of {places} places of a map, as segmenters and generators have"
            ),
            Purpose::List { elements, numbers } => write!(
                f,
                "is a list of {elements} with {numbers} numbers each, as detectors and models of \
                 text have"
            ),
            Purpose::Labels { labels } => write!(
                f,
                "has a sigmoid for each of {labels} labels, of which several may be true at once"
            ),
            Purpose::Decision => f.write_str("is no floating-point numbers, but a decision"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Binary;
    use crate::tensor::{DType, Tensor, TensorType};

    /// The purpose of a model whose output is a function of an input of the same shape.
    fn purpose(shape: &[usize], f: Unary) -> Option<String> {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, shape));
        let y = graph.push("y", Op::Unary(f), &[x]).unwrap();
        let classifier = Classifier::find(&graph, y);
        Purpose::of(&graph, &classifier, 1).map(|purpose| purpose.to_string())
    }

    #[test]
    fn classifiers_have_one_axis_of_classes() {
        for shape in [
            &[1, 10][..],
            &[10],
            &[1, 10, 1, 1],
            &[1, 1, 10],
            &[1, 1],
            &[],
        ] {
            assert_eq!(purpose(shape, Unary::Tanh), None, "{shape:?}");
        }
        // A single sigmoid tells two classes apart.
        assert_eq!(purpose(&[1, 1], Unary::Sigmoid), None);
    }

    #[test]
    fn other_models_are_told_by_their_outputs() {
        let said = |shape: &[usize], f| purpose(shape, f).unwrap();
        assert!(said(&[1, 21, 8, 8], Unary::Tanh).starts_with("has numbers for each of 64 places"));
        assert!(
            said(&[1, 100, 6], Unary::Tanh).starts_with("is a list of 100 with 6 numbers each")
        );
        assert!(said(&[1, 14], Unary::Sigmoid).starts_with("has a sigmoid for each of 14 labels"));
        // Three probabilities and what is left of them.
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 3]));
        let p = graph.push("p", Op::Unary(Unary::Sigmoid), &[x]).unwrap();
        let one = graph.add_constant("one", Tensor::scalar(1.0));
        let rest = Op::Binary(Binary::Sub);
        let rest = graph.push("rest", rest, &[one, p]).unwrap();
        let both = graph.push("both", Op::Concat(1), &[rest, p]).unwrap();
        let classifier = Classifier::find(&graph, both);
        let purpose = Purpose::of(&graph, &classifier, 1);
        assert_eq!(purpose, Some(Purpose::Labels { labels: 3 }));
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::I64, [1]));
        let classifier = Classifier::find(&graph, x);
        assert_eq!(Purpose::of(&graph, &classifier, 1), Some(Purpose::Decision));
    }
}
