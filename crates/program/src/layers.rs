//! Path layers: where activations and relevances are looked at.

use std::str::FromStr;

use npcov_graph::op::{Binary, States, Unary};
use npcov_graph::{Classifier, Graph, Node, Op, ValueId};
use serde::{Deserialize, Serialize};

use crate::attention::is_product;
use crate::channel::channel_axes;
use crate::error::ProgramError;
use crate::flow::{Carriers, Flow};
use crate::neurons::Elements;
use crate::program::require_values;
use crate::sign::nonnegative;
use crate::steps::{RecurrentView, Steps};

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
    /// Of a recurrent layer, which of its steps are looked at.
    pub steps: Option<Steps>,
    /// How its elements belong to its neurons.
    pub elements: Elements,
}

impl PathLayer {
    /// The value whose relevance is that of the layer: of a recurrent one all states, because what
    /// later steps make of a state is not seen at those that are read.
    pub fn explained(&self) -> ValueId {
        self.steps.as_ref().map_or(self.value, |steps| steps.states)
    }

    /// Where it stands among others: by node, then by the first step that is looked at.
    fn place(&self, graph: &Graph) -> (Option<usize>, Option<usize>) {
        let first_step = self.steps.as_ref().map(|steps| steps.looked_at.start);
        (graph.value(self.value).producer, first_step)
    }

    /// How many elements an input has in it.
    pub fn units(&self, graph: &Graph, batch: usize) -> usize {
        let all = graph.value(self.value).ty.numel() / batch.max(1);
        match &self.steps {
            Some(steps) => all / steps.all.max(1) * steps.looked_at.len(),
            None => all,
        }
    }
}

/// What path layers can be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayerKind {
    /// Outputs of activation functions: features of hidden layers, channels of feature maps.
    Activations,
    /// Heads of attention: what each makes of the values it weighs. The activation of a head is the
    /// mean length of its vectors.
    Heads,
    /// Features of the stream that residual blocks add to, after each block.
    Residual,
}

impl LayerKind {
    /// All kinds.
    pub const ALL: [LayerKind; 3] = [
        LayerKind::Activations,
        LayerKind::Heads,
        LayerKind::Residual,
    ];

    /// The kind's name.
    pub fn name(self) -> &'static str {
        match self {
            LayerKind::Activations => "activations",
            LayerKind::Heads => "heads",
            LayerKind::Residual => "residual",
        }
    }
}

impl FromStr for LayerKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = LayerKind::ALL.into_iter().find(|kind| kind.name() == text);
        named.ok_or_else(|| {
            let names = LayerKind::ALL.map(LayerKind::name).join(", ");
            format!("`{text}` is no kind of path layers; kinds are {names}")
        })
    }
}

/// Names some layers. Stored as a number or a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
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
    /// What the neurons of recurrent layers are.
    pub rnn: RecurrentView,
    /// What path layers are made of; activations when empty.
    pub kinds: Vec<LayerKind>,
    /// The only token that counts in layers that have tokens; all by default.
    pub token: Option<usize>,
}

/// The path layers of a model, from input to output: by default the outputs of all hidden
/// activation functions that the logits are explained through. Gates of squeeze-excitation are
/// not; where an activation gates a value of its size (SwiGLU), the layer is their product. In a
/// quantised model, limits that cut negative numbers off are activation functions: exporters leave
/// the ReLU in front of them out.
///
/// `batch` is the number of inputs that the graph takes at once, on the first axis.
pub fn path_layers(
    graph: &Graph,
    classifier: &Classifier,
    batch: usize,
    options: &LayerOptions,
) -> Result<Vec<PathLayer>, ProgramError> {
    require_values(graph, &[classifier.logits])?;
    let finder = Finder::new(graph, classifier, batch, options);
    let all = finder.all();
    if let (Some(token), false) = (options.token, all.is_empty()) {
        let extents: Vec<usize> = all.iter().filter_map(|l| finder.tokens(l)).collect();
        if extents.iter().all(|&extent| token >= extent) {
            let most = extents.into_iter().max().unwrap_or(0);
            return Err(ProgramError::NoSuchToken {
                token,
                tokens: most,
            });
        }
    }
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
            let last = graph.nodes().iter().rev().find(named);
            found.extend(last.into_iter().flat_map(|node| finder.layers(node)));
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
    chosen.sort_by_key(|l| l.place(graph));
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
        let is_layer = matches!(node.op, Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_))
            && is_constant(&node.inputs[1]);
        let is_matrix = node.op == Op::MatMul && node.inputs.iter().any(is_constant);
        let is_product = is_layer || is_matrix;
        if !is_product || is_constant(&node.output) {
            return None;
        }
        // A bias that stands in a node of its own, or the scales of sums of integers, which differ
        // from channel to channel.
        let belongs = |op: &Op| {
            let is_bias = *op == Op::Binary(Binary::Add) && node.op == Op::MatMul;
            is_bias || (*op == Op::Binary(Binary::Mul) && is_of_integers(graph, node))
        };
        let value = match consumers[node.output.index()][..] {
            [only] => Some(&graph.nodes()[only])
                .filter(|n| belongs(&n.op) && n.inputs.iter().any(is_constant))
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
            steps: None,
            elements: Elements::default(),
        })
    };
    graph.nodes().iter().filter_map(sum).collect()
}

/// Whether a product's weights are whole numbers, as those of a quantised model are.
fn is_of_integers(graph: &Graph, node: &Node) -> bool {
    let weights = node.inputs.get(1).and_then(|&w| graph.constant(w));
    let whole = |weights: &[f32]| weights.iter().all(|w| w.fract() == 0.0);
    weights.and_then(|w| w.as_f32()).is_some_and(whole)
}

/// Looks for path layers.
struct Finder<'a> {
    graph: &'a Graph,
    logits: ValueId,
    batch: usize,
    options: &'a LayerOptions,
    flow: Flow,
    carriers: Carriers,
    channels: Vec<Option<usize>>,
}

impl<'a> Finder<'a> {
    fn new(
        graph: &'a Graph,
        classifier: &Classifier,
        batch: usize,
        options: &'a LayerOptions,
    ) -> Finder<'a> {
        Finder {
            graph,
            logits: classifier.logits,
            batch: batch.max(1),
            options,
            flow: Flow::new(graph, classifier.logits),
            carriers: Carriers::new(graph),
            channels: channel_axes(graph),
        }
    }

    /// All layers of the kinds that are wanted, in the order of the model.
    fn all(&self) -> Vec<PathLayer> {
        let wants = |kind| match &self.options.kinds[..] {
            [] => kind == LayerKind::Activations,
            kinds => kinds.contains(&kind),
        };
        let consumers = self.graph.consumers();
        let nonnegative = nonnegative(self.graph);
        let mut layers: Vec<PathLayer> = Vec::new();
        let mut in_block = false;
        for (position, node) in self.graph.nodes().iter().enumerate() {
            let hidden = node.output != self.logits && self.flow.is_on_path(node.output);
            if !hidden {
                continue;
            }
            let carriers = self.carriers.of(position);
            let quantised = quantised_relu(self.graph, &nonnegative, node);
            let is_active = is_activation(node) && !limits_an_integer(self.graph, node);
            if quantised.is_some() || is_active {
                in_block = true;
            }
            if wants(LayerKind::Activations) {
                match (quantised, self.gated(node, &consumers)) {
                    (Some(before), _) => layers.push(PathLayer {
                        op: "QuantizeLinear",
                        before,
                        ..self.layer(node, node)
                    }),
                    (None, Some(product)) if is_active => layers.push(self.layer(product, node)),
                    (None, _) if is_active => layers.extend(self.layers(node)),
                    (None, _) => {}
                }
            }
            let is_sum = node.op == Op::Binary(Binary::Add) && carriers.len() == 2;
            if is_sum && self.flow.is_cut(node.output) {
                if in_block && wants(LayerKind::Residual) {
                    layers.push(self.layer(node, node));
                }
                in_block = false;
            }
            let is_context = is_product(self.graph, node) && carriers.len() == 1;
            if is_context && wants(LayerKind::Heads) {
                layers.push(self.heads(node));
            }
        }
        layers.sort_by_key(|l| l.place(self.graph));
        layers.dedup_by_key(|l| l.place(self.graph));
        layers
    }

    /// The layers that the output of a node is: several where the steps of a recurrent one are told
    /// apart.
    fn layers(&self, node: &Node) -> Vec<PathLayer> {
        let layer = self.layer(node, node);
        self.options.rnn.layers(self.graph, node, layer)
    }

    /// The product of an activation with a value of its size, if that is all the activation is
    /// for.
    fn gated(&self, node: &Node, consumers: &[Vec<usize>]) -> Option<&'a Node> {
        let [position] = consumers[node.output.index()][..] else {
            return None;
        };
        let next = &self.graph.nodes()[position];
        let is_gate = next.op == Op::Binary(Binary::Mul)
            && self.carriers.of(position).len() == 2
            && next.output != self.logits;
        is_gate.then_some(next)
    }

    /// The output of a node, with the input of an activation in front of it.
    fn layer(&self, node: &Node, activation: &Node) -> PathLayer {
        let shape = self.graph.shape(node.output);
        let per_input = self.graph.value(node.output).ty.numel() / self.batch;
        let axis = self.channels[node.output.index()].filter(|_| !self.options.units);
        let before = activation.inputs.first().copied().unwrap_or(node.output);
        self.with_tokens(PathLayer {
            name: node.name.clone(),
            op: node.op.name(),
            value: node.output,
            before,
            channel_axis: axis,
            neurons: axis.map_or(per_input, |a| shape[a]),
            cut: self.flow.is_cut(node.output),
            steps: None,
            elements: Elements::default(),
        })
    }

    /// What the heads of attention make of the values they weigh: vectors on the last axis, tokens
    /// before them, heads on the second axis, or on the first one with those of all inputs.
    fn heads(&self, node: &Node) -> PathLayer {
        let shape = self.graph.shape(node.output);
        let axis = usize::from(shape.len() > 3);
        let inputs = if axis == 0 { self.batch } else { 1 };
        let mut layer = self.layer(node, node);
        layer.before = node.output;
        if !self.options.units {
            layer.channel_axis = Some(axis);
            layer.neurons = shape[axis] / inputs;
            layer.elements.vectors = shape.len().checked_sub(1);
        }
        self.with_tokens(layer)
    }

    /// The axis of a layer that tokens stand on: the only one beside those of inputs and neurons.
    fn token_axis(&self, layer: &PathLayer) -> Option<usize> {
        let shape = self.graph.shape(layer.value);
        let channel = layer.channel_axis?;
        let is_other = |axis: &usize| {
            let is_batch = *axis == 0 && (self.batch > 1 || shape.len() > 2);
            *axis != channel && !is_batch && Some(*axis) != layer.elements.vectors
        };
        match (0..shape.len()).filter(is_other).collect::<Vec<_>>()[..] {
            [axis] => Some(axis),
            _ => None,
        }
    }

    /// The number of tokens of a layer that has any.
    fn tokens(&self, layer: &PathLayer) -> Option<usize> {
        let axis = self.token_axis(layer)?;
        Some(self.graph.shape(layer.value)[axis])
    }

    fn with_tokens(&self, mut layer: PathLayer) -> PathLayer {
        let Some(axis) = self.token_axis(&layer) else {
            return layer;
        };
        let extent = self.graph.shape(layer.value)[axis];
        if let Some(token) = self.options.token.filter(|&token| token < extent) {
            layer.elements.token = Some((axis, token));
            layer.cut = false;
        }
        layer.elements.padding = self.padding(extent).map(|mask| (mask, axis));
        layer
    }

    /// The input that says which of so many tokens count. Relevance does not pass to it: it has a
    /// number for each token, and all that it does is to gate.
    fn padding(&self, tokens: usize) -> Option<ValueId> {
        let inputs = self.graph.inputs().iter().copied();
        let mut masks = inputs.filter(|&input| {
            let shape = self.graph.shape(input);
            !self.flow.is_on_path(input) && *shape == [self.batch, tokens]
        });
        match (masks.next(), masks.next()) {
            (Some(mask), None) => Some(mask),
            _ => None,
        }
    }
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
fn is_activation(node: &Node) -> bool {
    match &node.op {
        // The outputs of recurrent units, not their memory.
        Op::Composite(_) => States::of(node).is_some_and(|states| states.state == 0),
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
            // A limited ReLU, or the hard hyperbolic tangent; other limits are arithmetic.
            Unary::Clip { min, max } => *min == 0.0 || (*min, *max) == (-1.0, 1.0),
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
        | Op::TopK(_)
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
        | Op::ScatterSum(_) => false,
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
    // Sums of integers differ in scale from channel to channel, until a factor brings them to one.
    let before = match scaled.op == Op::Binary(Binary::Mul) {
        true => scaled.output,
        false => x,
    };
    let mut source = x;
    while let Some(node) = graph.producer(source)
        && matches!(
            node.op,
            Op::Reshape(_) | Op::Transpose(_) | Op::Cast(_) | Op::Pad(_)
        )
    {
        source = node.inputs[0];
    }
    (graph.producer(source).is_some() && !nonnegative[x.index()]).then_some(before)
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
            ..LayerOptions::default()
        };
        let layers = path_layers(&graph, &classifier, 1, &options)?;
        Ok(layers.into_iter().map(|l| l.name).collect())
    }

    #[test]
    fn limits_that_are_activation_functions() {
        let layers = |min: f32, max: f32| {
            let mut graph = Graph::new();
            let x = graph.add_input("x", TensorType::new(DType::F32, [1, 4]));
            let limits = Op::Unary(Unary::Clip { min, max });
            let h = graph.push("h", limits, &[x]).unwrap();
            let y = graph.push("y", Op::Unary(Unary::Neg), &[h]).unwrap();
            graph.set_outputs(vec![y]);
            let classifier = Classifier::find(&graph, y);
            path_layers(&graph, &classifier, 1, &LayerOptions::default())
        };
        for (min, max) in [(0.0, 6.0), (0.0, f32::INFINITY), (-1.0, 1.0)] {
            assert_eq!(layers(min, max).unwrap().len(), 1);
        }
        for (min, max) in [(-65504.0, 65504.0), (0.2, 1.0), (f32::NEG_INFINITY, 1.0)] {
            assert!(layers(min, max).is_err());
        }
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
                units,
                ..LayerOptions::default()
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

    /// Weights that are whole numbers belong to integers, and the factor behind them to the layer.
    #[test]
    fn sums_of_integers_are_looked_at_as_numbers() {
        for (weight, scaled) in [(3.0, true), (0.5, false)] {
            let mut graph = Graph::new();
            let x = graph.add_input("x", TensorType::new(DType::F32, [1, 2]));
            let weights = npcov_graph::Data::F32(vec![weight; 4]);
            let w = graph.add_constant("w", Tensor::new([2, 2], weights).unwrap());
            let scale = graph.add_constant("scale", Tensor::vector(vec![0.1, 0.2]));
            let sum = graph.push("sum", Op::MatMul, &[x, w]).unwrap();
            let mul = Op::Binary(Binary::Mul);
            let y = graph.push("scaled", mul, &[sum, scale]).unwrap();
            graph.set_outputs(vec![y]);
            let found = weighted_sums(&graph, 1);
            assert_eq!(found[0].value, if scaled { y } else { sum });
        }
    }

    #[test]
    fn patterns() {
        assert!(matches("a*c", "abc") && matches("*", "") && matches("abc", "abc"));
        assert!(matches("*b*", "abc") && matches("a*b*c", "a--b--c"));
        assert!(!matches("a*c", "ab") && !matches("a", "ab") && !matches("*b*b", "ab"));
    }
}
