//! Path layers: where activations and relevances are looked at.

use std::str::FromStr;

use npcov_graph::op::{Binary, Unary};
use npcov_graph::{Classifier, Graph, Node, Op, ValueId};

use crate::channel::channel_axes;
use crate::error::ProgramError;
use crate::flow::Flow;
use crate::program::require_values;
use crate::sign::nonnegative;

/// A layer whose neurons a path consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathLayer {
    /// The node's name in the model.
    pub name: String,
    /// The operator whose output it is.
    pub op: &'static str,
    /// The value that is looked at.
    pub value: ValueId,
    /// The value in front of the activation function.
    pub before: ValueId,
    /// The axis that tells neurons apart; `None` when every element is one.
    pub channel_axis: Option<usize>,
    /// Number of neurons.
    pub neurons: usize,
    /// Whether every path from input to logits crosses this layer. Only then do the relevances of
    /// its neurons add up to the logit.
    pub cut: bool,
}

impl PathLayer {
    /// The axes over which the elements of one neuron are spread; none when each neuron has a
    /// single element. A single input has no batch axis to keep.
    pub(crate) fn reduced_axes(&self, shape: &[usize], batch: usize) -> Vec<usize> {
        let Some(channel) = self.channel_axis else {
            return Vec::new();
        };
        let keeps = |axis: usize| axis == channel || (batch > 1 && axis == 0);
        let axes: Vec<usize> = (0..shape.len()).filter(|&a| !keeps(a)).collect();
        match axes.iter().all(|&a| shape[a] == 1) {
            true => Vec::new(),
            false => axes,
        }
    }
}

/// Names some layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// By position among the path layers; negative ones count from the end.
    Index(i64),
    /// By name; `*` stands for any characters.
    Name(String),
}

impl FromStr for Selector {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.parse() {
            Ok(index) => Selector::Index(index),
            Err(_) => Selector::Name(text.to_owned()),
        })
    }
}

/// Which layers are path layers, and what a neuron is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerOptions {
    /// Only these, in the order of the model; all when empty. A full name may also be that of a
    /// node that is no activation function.
    pub select: Vec<Selector>,
    /// Whether every unit of a feature map is a neuron, instead of every channel.
    pub units: bool,
}

/// The path layers of a model, from input to output: by default the outputs of all hidden
/// activation functions that the logits are explained through. Gates of squeeze-excitation are
/// not. In a quantised model, limits that cut negative numbers off are activation functions:
/// exporters leave the ReLU in front of them out.
///
/// `batch` is the number of inputs that the graph takes at once, on the first axis.
pub fn path_layers(
    graph: &Graph,
    classifier: &Classifier,
    batch: usize,
    options: &LayerOptions,
) -> Result<Vec<PathLayer>, ProgramError> {
    require_values(graph, &[classifier.logits])?;
    let flow = Flow::new(graph, classifier.logits);
    let axes = channel_axes(graph);
    let layer = |node: &Node| {
        let shape = graph.shape(node.output);
        let per_input = graph.value(node.output).ty.numel() / batch.max(1);
        let axis = axes[node.output.index()].filter(|_| !options.units);
        PathLayer {
            name: node.name.clone(),
            op: node.op.name(),
            value: node.output,
            before: node.inputs.first().copied().unwrap_or(node.output),
            channel_axis: axis,
            neurons: axis.map_or(per_input, |a| shape[a]),
            cut: flow.is_cut(node.output),
        }
    };
    let hidden = |node: &&Node| node.output != classifier.logits && flow.is_on_path(node.output);
    let nonnegative = nonnegative(graph);
    let activation = |node: &Node| match quantised_relu(graph, &nonnegative, node) {
        Some(before) => Some(PathLayer {
            op: "QuantizeLinear",
            before,
            ..layer(node)
        }),
        None => (is_activation(&node.op) && !limits_an_integer(graph, node)).then(|| layer(node)),
    };
    let all: Vec<PathLayer> = graph
        .nodes()
        .iter()
        .filter(hidden)
        .filter_map(activation)
        .collect();
    if options.select.is_empty() {
        return match all.is_empty() {
            true => Err(ProgramError::NoLayers),
            false => Ok(all),
        };
    }
    let mut chosen: Vec<PathLayer> = Vec::new();
    for selector in &options.select {
        let mut found: Vec<PathLayer> = match selector {
            Selector::Index(index) => at(&all, *index).cloned().into_iter().collect(),
            Selector::Name(pattern) => all
                .iter()
                .filter(|l| matches(pattern, &l.name))
                .cloned()
                .collect(),
        };
        if let (true, Selector::Name(name)) = (found.is_empty(), selector) {
            let named = |n: &&Node| n.name == *name || graph.value(n.output).name == *name;
            // The last node of that name: an ONNX operator may have become several.
            found.extend(graph.nodes().iter().rev().find(named).map(layer));
        }
        if found.is_empty() {
            return Err(ProgramError::NoSuchLayer {
                selector: match selector {
                    Selector::Index(i) => i.to_string(),
                    Selector::Name(name) => name.clone(),
                },
                layers: all.into_iter().map(|l| l.name).collect(),
            });
        }
        chosen.extend(found);
    }
    chosen.sort_by_key(|l| graph.value(l.value).producer);
    chosen.dedup();
    Ok(chosen)
}

/// What convolutions and dense layers give, biases included, from input to output: the layers that
/// criteria on plain neurons are defined on. A product of two values of which none is a weight is
/// no layer.
///
/// `batch` is as in [`path_layers`].
pub fn weighted_sums(graph: &Graph, batch: usize) -> Vec<PathLayer> {
    let axes = channel_axes(graph);
    let consumers = graph.consumers();
    let is_constant = |v: &ValueId| graph.constant(*v).is_some();
    let sum = |node: &Node| {
        let is_product = match &node.op {
            Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) => is_constant(&node.inputs[1]),
            op => *op == Op::MatMul && node.inputs.iter().any(is_constant),
        };
        if !is_product || is_constant(&node.output) {
            return None;
        }
        // A bias that stands in a node of its own.
        let value = match consumers[node.output.index()][..] {
            [only] if node.op == Op::MatMul => Some(&graph.nodes()[only])
                .filter(|n| n.op == Op::Binary(Binary::Add) && n.inputs.iter().any(is_constant))
                .filter(|n| graph.shape(n.output) == graph.shape(node.output))
                .map_or(node.output, |n| n.output),
            _ => node.output,
        };
        let per_input = graph.value(value).ty.numel() / batch.max(1);
        let axis = axes[value.index()];
        Some(PathLayer {
            name: node.name.clone(),
            op: node.op.name(),
            value,
            before: value,
            channel_axis: axis,
            neurons: axis.map_or(per_input, |a| graph.shape(value)[a]),
            cut: false,
        })
    };
    graph.nodes().iter().filter_map(sum).collect()
}

fn at(layers: &[PathLayer], index: i64) -> Option<&PathLayer> {
    let position = if index < 0 {
        index + layers.len() as i64
    } else {
        index
    };
    layers.get(usize::try_from(position).ok()?)
}

/// Whether a name fits a pattern in which `*` stands for any characters.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Whether an operator is an activation function.
fn is_activation(op: &Op) -> bool {
    match op {
        Op::Binary(binary) => match binary {
            Binary::PRelu => true,
            Binary::Add
            | Binary::Sub
            | Binary::Mul
            | Binary::Div
            | Binary::Pow
            | Binary::Min
            | Binary::Max
            | Binary::Mod
            | Binary::Fmod
            | Binary::Equal
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual
            | Binary::And
            | Binary::Or
            | Binary::Xor => false,
        },
        Op::Unary(unary) => match unary {
            Unary::Relu
            | Unary::LeakyRelu { .. }
            | Unary::ThresholdedRelu { .. }
            | Unary::Elu { .. }
            | Unary::Selu { .. }
            | Unary::Celu { .. }
            | Unary::Sigmoid
            | Unary::HardSigmoid { .. }
            | Unary::Tanh
            | Unary::Gelu { .. }
            | Unary::Swish { .. }
            | Unary::HardSwish
            | Unary::Mish
            | Unary::Softplus
            | Unary::Softsign
            | Unary::Shrink { .. } => true,
            // A limited ReLU; other limits are arithmetic.
            Unary::Clip { min, .. } => *min == 0.0,
            Unary::Abs
            | Unary::Neg
            | Unary::Exp
            | Unary::Log
            | Unary::Sqrt
            | Unary::Reciprocal
            | Unary::Erf
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round
            | Unary::Sign
            | Unary::Sin
            | Unary::Cos
            | Unary::Tan
            | Unary::Asin
            | Unary::Acos
            | Unary::Atan
            | Unary::Sinh
            | Unary::Cosh
            | Unary::Asinh
            | Unary::Acosh
            | Unary::Atanh
            | Unary::Not
            | Unary::IsNaN
            | Unary::IsInf { .. } => false,
        },
        Op::Conv(_)
        | Op::ConvTranspose(_)
        | Op::Gemm(_)
        | Op::MatMul
        | Op::BatchNormalization(_)
        | Op::InstanceNormalization(_)
        | Op::LayerNormalization(_)
        | Op::Lrn(_)
        | Op::Where
        | Op::Cast(_)
        | Op::Pool(_)
        | Op::Reduce(_)
        | Op::ArgMax(_)
        | Op::Softmax(_)
        | Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Concat(_)
        | Op::Slice(_)
        | Op::Pad(_)
        | Op::Expand(_)
        | Op::Tile(_)
        | Op::Gather(_)
        | Op::GatherElements(_)
        | Op::Resize(_)
        | Op::ScatterSum(_)
        | Op::Composite(_) => false,
    }
}

/// What a quantisation limits to numbers that are not negative: the `x` of
/// `clip(round(x / scale), 0, max) * scale`, where `x` may be times something instead, unless it could not be negative anyway, or is the
/// model's input, which nothing was computed of yet.
fn quantised_relu(graph: &Graph, nonnegative: &[bool], node: &Node) -> Option<ValueId> {
    let limited = (node.op == Op::Binary(Binary::Mul)).then(|| node.inputs[0])?;
    let limits = graph.producer(limited)?;
    if !matches!(limits.op, Op::Unary(Unary::Clip { min: 0.0, .. })) {
        return None;
    }
    let rounded = graph.producer(limits.inputs[0])?;
    let scaled = graph.producer(*rounded.inputs.first()?)?;
    let is_scaled = matches!(scaled.op, Op::Binary(Binary::Div | Binary::Mul));
    if rounded.op != Op::Unary(Unary::Round) || !is_scaled {
        return None;
    }
    let x = scaled.inputs[0];
    let mut source = x;
    while let Some(node) = graph.producer(source)
        && matches!(
            node.op,
            Op::Reshape(_) | Op::Transpose(_) | Op::Cast(_) | Op::Pad(_)
        )
    {
        source = node.inputs[0];
    }
    (graph.producer(source).is_some() && !nonnegative[x.index()]).then_some(x)
}

/// Whether a node limits a rounded number to the range of its type: quantisation, which is no
/// activation function though it may start at zero as one.
fn limits_an_integer(graph: &Graph, node: &Node) -> bool {
    let mut value = node.inputs.first().copied();
    while let Some(producer) = value.and_then(|v| graph.producer(v)) {
        if producer.op == Op::Unary(Unary::Round) {
            return true;
        }
        let adds_zero_point =
            producer.op == Op::Binary(Binary::Add) && graph.constant(producer.inputs[1]).is_some();
        if !adds_zero_point {
            return false;
        }
        value = producer.inputs.first().copied();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use npcov_graph::{DType, Tensor, TensorType};

    /// Three activations in a row on a map of four channels, and a function that is none.
    fn net() -> (Graph, Classifier) {
        let mut graph = Graph::new();
        let mut x = graph.add_input("x", TensorType::new(DType::F32, [1, 4, 2, 2]));
        for (name, f) in [
            ("block1/relu", Unary::Relu),
            ("abs", Unary::Abs),
            ("block2/tanh", Unary::Tanh),
            ("block2/relu", Unary::Relu),
        ] {
            x = graph.push(name, Op::Unary(f), &[x]).unwrap();
        }
        let y = graph.push("end", Op::Unary(Unary::Neg), &[x]).unwrap();
        graph.set_outputs(vec![y]);
        let classifier = Classifier::find(&graph, y);
        (graph, classifier)
    }

    fn names(select: &[&str]) -> Result<Vec<String>, ProgramError> {
        let (graph, classifier) = net();
        let options = LayerOptions {
            select: select.iter().map(|s| s.parse().unwrap()).collect(),
            units: false,
        };
        let layers = path_layers(&graph, &classifier, 1, &options)?;
        Ok(layers.into_iter().map(|l| l.name).collect())
    }

    #[test]
    fn layers_are_chosen_by_index_name_and_pattern() {
        assert_eq!(
            names(&[]).unwrap(),
            ["block1/relu", "block2/tanh", "block2/relu"]
        );
        assert_eq!(names(&["-1", "0"]).unwrap(), ["block1/relu", "block2/relu"]);
        assert_eq!(
            names(&["block2/*"]).unwrap(),
            ["block2/tanh", "block2/relu"]
        );
        assert_eq!(
            names(&["*relu", "2"]).unwrap(),
            ["block1/relu", "block2/relu"]
        );
        assert_eq!(names(&["abs"]).unwrap(), ["abs"]);
    }

    #[test]
    fn a_selector_without_a_layer_is_an_error_that_lists_them() {
        let error = names(&["block3"]).unwrap_err().to_string();
        assert!(
            error.contains("`block3`") && error.contains("1 `block2/tanh`"),
            "{error}"
        );
        assert!(names(&["3"]).is_err());
    }

    #[test]
    fn neurons_are_channels_or_units() {
        let (graph, classifier) = net();
        for (units, neurons) in [(false, 4), (true, 16)] {
            let options = LayerOptions {
                select: Vec::new(),
                units,
            };
            let layers = path_layers(&graph, &classifier, 1, &options).unwrap();
            assert_eq!(layers[0].neurons, neurons);
        }
    }

    /// `dequantise(quantise(relu(x)))` with 8 bits: the limit to 0..255 is no layer.
    #[test]
    fn quantisation_is_no_activation() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 4]));
        let zero = graph.add_constant("zero", Tensor::scalar(3.0));
        let h = graph.push("relu", Op::Unary(Unary::Relu), &[x]).unwrap();
        let r = graph.push("q", Op::Unary(Unary::Round), &[h]).unwrap();
        let a = graph
            .push("q", Op::Binary(Binary::Add), &[r, zero])
            .unwrap();
        let limits = Unary::Clip {
            min: 0.0,
            max: 255.0,
        };
        let q = graph.push("q", Op::Unary(limits), &[a]).unwrap();
        let y = graph
            .push("d", Op::Binary(Binary::Sub), &[q, zero])
            .unwrap();
        graph.set_outputs(vec![y]);
        let classifier = Classifier::find(&graph, y);
        let layers = path_layers(&graph, &classifier, 1, &LayerOptions::default()).unwrap();
        assert_eq!(layers.len(), 1);
        assert_eq!(layers[0].name, "relu");
    }

    /// A sum, quantised so that nothing negative is left: the limits are the layer, as numbers.
    #[test]
    fn limits_in_the_place_of_a_relu_are_a_layer() {
        for (first, layer) in [(Unary::Neg, "q"), (Unary::Relu, "first")] {
            let mut graph = Graph::new();
            let x = graph.add_input("x", TensorType::new(DType::F32, [1, 4]));
            let scale = graph.add_constant("scale", Tensor::scalar(0.5));
            let h = graph.push("first", Op::Unary(first), &[x]).unwrap();
            let div = Op::Binary(Binary::Div);
            let q = graph.push("q", div, &[h, scale]).unwrap();
            let q = graph.push("q", Op::Unary(Unary::Round), &[q]).unwrap();
            let limits = Unary::Clip {
                min: 0.0,
                max: 255.0,
            };
            let q = graph.push("q", Op::Unary(limits), &[q]).unwrap();
            let mul = Op::Binary(Binary::Mul);
            let q = graph.push("q", mul, &[q, scale]).unwrap();
            let y = graph.push("end", Op::Unary(Unary::Neg), &[q]).unwrap();
            graph.set_outputs(vec![y]);
            let classifier = Classifier::find(&graph, y);
            let found = path_layers(&graph, &classifier, 1, &LayerOptions::default()).unwrap();
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].name, layer);
            let values = if layer == "q" { (q, h) } else { (h, x) };
            assert_eq!((found[0].value, found[0].before), values);
        }
    }

    /// `(relu(x w)  + b) v`, and a product of `x` with itself.
    #[test]
    fn weighted_sums_are_products_with_weights_and_their_biases() {
        let mut graph = Graph::new();
        let square = |x: f32| Tensor::new([2, 2], npcov_graph::Data::F32(vec![x; 4])).unwrap();
        let x = graph.add_input("x", TensorType::new(DType::F32, [2, 2]));
        let w = graph.add_constant("w", square(0.5));
        let b = graph.add_constant("b", Tensor::vector(vec![1.0, 2.0]));
        let h = graph.push("first", Op::MatMul, &[x, w]).unwrap();
        let h = graph
            .push("bias", Op::Binary(Binary::Add), &[h, b])
            .unwrap();
        let r = graph.push("relu", Op::Unary(Unary::Relu), &[h]).unwrap();
        let p = graph.push("attention", Op::MatMul, &[r, r]).unwrap();
        let y = graph.push("last", Op::MatMul, &[p, w]).unwrap();
        graph.set_outputs(vec![y]);
        let found = weighted_sums(&graph, 1);
        let found: Vec<(&str, ValueId)> = found.iter().map(|l| (&*l.name, l.value)).collect();
        assert_eq!(found, [("first", h), ("last", y)]);
    }

    #[test]
    fn patterns() {
        assert!(matches("a*c", "abc") && matches("*", "") && matches("abc", "abc"));
        assert!(matches("*b*", "abc") && matches("a*b*c", "a--b--c"));
        assert!(!matches("a*c", "ab") && !matches("a", "ab") && !matches("*b*b", "ab"));
    }
}
