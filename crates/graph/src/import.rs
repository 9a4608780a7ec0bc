//! From a model to a graph: shapes become static, everything that does not depend on the input
//! becomes a constant, functions and decided branches are inlined.

mod calls;
mod constants;
mod inputs;
mod loops;
mod sequences;
#[cfg(test)]
mod testing;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::activation::recognise_activations;
use crate::builder::{Builder, NodeContext, Stored};
use crate::error::{GraphError, NodeError, NodeErrorKind, OpError};
use crate::graph::{Graph, Value, ValueId};
use crate::model::OnnxModel;
use crate::normalisation::recognise_normalisation;
use crate::onnx::proto::{AttributeProto, FunctionProto, GraphProto, NodeProto};
use crate::op::{Import, import_number, import_of, import_of_domain, no_network};
use crate::order::ordered;
use crate::tensor::ShapeDisplay;
use calls::attributes;
use inputs::input_type;
pub use inputs::{LARGEST_INPUT, Specialisation};
use sequences::is_of_sequences;

/// Functions and branches may nest this deep; a function that calls itself never ends.
const MAX_DEPTH: usize = 32;

/// Functions that call functions multiply: a few lines can mean more nodes than memory holds.
const MAX_INLINED: usize = 1 << 18;

impl OnnxModel {
    /// The graph for one batch size and input shape.
    ///
    /// Nodes that cannot be used are reported together, see [`GraphError::Nodes`].
    pub fn specialise(&self, options: &Specialisation) -> Result<Graph, GraphError> {
        let mut importer = Importer {
            model: self,
            graph: Graph::new(),
            stored: Stored::default(),
            sequences: HashMap::new(),
            inlined: 0,
            errors: Vec::new(),
        };
        let mut scope = Scope::default();
        for input in self.inputs() {
            let value = match options.constants.get(&input.name) {
                Some(tensor) => importer
                    .graph
                    .add_constant(input.name.clone(), tensor.clone()),
                None => {
                    let ty = input_type(&input, options)?;
                    importer.graph.add_input(input.name.clone(), ty)
                }
            };
            importer.stored.types.insert(value, input.onnx_type);
            if scope.get(&input.name).is_some() {
                let message = format!("two inputs have the name `{}`", input.name);
                return Err(GraphError::Invalid(message));
            }
            scope.define(input.name, Binding::Value(value));
        }
        let around = Surroundings {
            opset: self.opset(),
            call: None,
            depth: 0,
        };
        let mut wanted: Vec<&str> = options.outputs.iter().map(String::as_str).collect();
        if wanted.is_empty() {
            wanted = output_names(self.graph());
        }
        let outputs = importer.subgraph(self.graph(), &wanted, &mut scope, around)?;
        if !importer.errors.is_empty() {
            return Err(GraphError::Nodes(importer.errors));
        }
        let outputs: Option<Vec<ValueId>> = outputs.into_iter().collect();
        let mut graph = importer.graph;
        graph.set_outputs(outputs.ok_or_else(|| {
            GraphError::Invalid("an output depends on nodes that cannot be used".to_owned())
        })?);
        if graph.outputs().is_empty() {
            return Err(GraphError::Invalid("the model has no output".to_owned()));
        }
        let graph = recognise_normalisation(&graph)
            .and_then(|graph| recognise_activations(&graph))
            .map_err(|e| GraphError::Invalid(e.to_string()))?;
        require_possible_values(&graph)?;
        Ok(graph)
    }
}

/// Fails where a value has more elements than the largest input: whoever makes something for each of them, neuron by
/// neuron or class by class, need not ask again.
fn require_possible_values(graph: &Graph) -> Result<(), GraphError> {
    let is_large = |v: &&Value| v.constant.is_none() && v.ty.numel() > LARGEST_INPUT;
    match graph.values().iter().find(is_large) {
        Some(value) => Err(GraphError::Invalid(format!(
            "`{}` of shape `{}` is too large: it may have {LARGEST_INPUT} elements",
            value.name,
            ShapeDisplay(&value.ty.shape)
        ))),
        None => Ok(()),
    }
}

/// What a name stands for.
#[derive(Clone, Copy)]
enum Binding {
    Value(ValueId),
    /// An optional argument that a function's caller left out.
    Absent,
    /// What could not be computed. Nodes that need it are passed over, so that one unknown
    /// operator is reported once.
    Failed,
}

impl Binding {
    fn value(self) -> Option<ValueId> {
        match self {
            Binding::Value(value) => Some(value),
            Binding::Absent | Binding::Failed => None,
        }
    }
}

/// Names, innermost subgraph last.
#[derive(Default)]
struct Scope {
    levels: Vec<HashMap<String, Binding>>,
}

impl Scope {
    fn define(&mut self, name: String, binding: Binding) {
        if self.levels.is_empty() {
            self.levels.push(HashMap::new());
        }
        if let Some(level) = self.levels.last_mut() {
            level.insert(name, binding);
        }
    }

    fn get(&self, name: &str) -> Option<Binding> {
        self.levels
            .iter()
            .rev()
            .find_map(|level| level.get(name).copied())
    }
}

struct Importer<'m> {
    model: &'m OnnxModel,
    graph: Graph,
    stored: Stored,
    /// What is in a sequence of tensors, by the value that stands for it.
    sequences: HashMap<ValueId, Vec<ValueId>>,
    /// Number of nodes from functions and branches.
    inlined: usize,
    errors: Vec<NodeError>,
}

/// What stands around a node: its operator set, and in a function the attributes of the call.
#[derive(Clone, Copy)]
struct Surroundings<'a> {
    opset: i64,
    call: Option<&'a [Cow<'a, AttributeProto>]>,
    depth: usize,
}

impl<'m> Importer<'m> {
    /// Imports what some outputs of a graph or of a branch need; returns these outputs.
    fn subgraph(
        &mut self,
        proto: &GraphProto,
        outputs: &[&str],
        scope: &mut Scope,
        around: Surroundings<'_>,
    ) -> Result<Vec<Option<ValueId>>, GraphError> {
        let nodes = nodes_of(proto, outputs)?;
        let used = used_names(&nodes, outputs);
        self.initializers(proto, &used, scope)?;
        self.nodes(&nodes, &used, scope, around)?;
        outputs
            .iter()
            .map(|name| {
                scope
                    .get(name)
                    .map(Binding::value)
                    .ok_or_else(|| GraphError::Invalid(format!("output `{name}` is not computed")))
            })
            .collect()
    }

    fn nodes(
        &mut self,
        nodes: &[&NodeProto],
        used: &HashSet<&str>,
        scope: &mut Scope,
        around: Surroundings<'_>,
    ) -> Result<(), GraphError> {
        if around.depth > 0 {
            self.inlined = self.inlined.saturating_add(nodes.len());
        }
        if self.inlined > MAX_INLINED {
            let message = format!("functions expand to more than {MAX_INLINED} nodes");
            return Err(GraphError::Invalid(message));
        }
        for node in nodes {
            let outputs = match self.node(node, used, scope, around)? {
                Ok(outputs) => outputs.into_iter().map(Some).collect(),
                Err(None) => {
                    self.report_unknown(node, &mut Vec::new());
                    Vec::new()
                }
                Err(Some(reason)) => {
                    self.report(node, reason);
                    Vec::new()
                }
            };
            for (i, name) in node
                .output
                .iter()
                .enumerate()
                .filter(|(_, n)| !n.is_empty())
            {
                let value = outputs.get(i).copied().flatten();
                if let Some(value) = value
                    && self.graph.value(value).producer.is_some()
                {
                    self.graph.rename(value, name.clone());
                }
                let binding = value.map_or(Binding::Failed, Binding::Value);
                scope.define(name.clone(), binding);
            }
        }
        Ok(())
    }

    fn report(&mut self, node: &NodeProto, reason: NodeErrorKind) {
        self.errors.push(NodeError {
            node: node.label().to_owned(),
            op_type: node.qualified_op(),
            reason,
        });
    }

    /// Reports what is unknown in a node that cannot be tried, because something before it failed:
    /// itself, or nodes of its branches and functions. `calls` are the functions around it.
    fn report_unknown(&mut self, node: &NodeProto, calls: &mut Vec<*const FunctionProto>) {
        if let Some(function) = self.function(node) {
            if !calls.contains(&std::ptr::from_ref(function)) && calls.len() < MAX_DEPTH {
                calls.push(function);
                for inner in &function.node {
                    self.report_unknown(inner, calls);
                }
                calls.pop();
            }
        } else if let Err(reason) = known(node) {
            self.report(node, reason);
        }
        for graph in node.attribute.iter().filter_map(|a| a.g.as_deref()) {
            for inner in &graph.node {
                self.report_unknown(inner, calls);
            }
        }
    }

    /// Imports a node. The outer result is for what is wrong with the file as a whole; the inner
    /// one is the node's own, `Err(None)` when something before it failed.
    #[allow(
        clippy::type_complexity,
        reason = "one use; the doc comment explains it"
    )]
    fn node(
        &mut self,
        node: &NodeProto,
        used: &HashSet<&str>,
        scope: &mut Scope,
        around: Surroundings<'_>,
    ) -> Result<Result<Vec<ValueId>, Option<NodeErrorKind>>, GraphError> {
        let op_error = |e: OpError| Some(NodeErrorKind::Op(e));
        let mut inputs = Vec::with_capacity(node.input.len());
        for name in &node.input {
            inputs.push(match (name.as_str(), scope.get(name)) {
                ("", _) | (_, Some(Binding::Absent)) => None,
                (_, Some(Binding::Value(value))) => Some(value),
                (_, Some(Binding::Failed)) => return Ok(Err(None)),
                (_, None) => {
                    return Err(GraphError::Invalid(format!(
                        "node `{}` ({}) uses `{name}`, which nothing computes",
                        node.label(),
                        node.qualified_op()
                    )));
                }
            });
        }
        let context = NodeContext {
            op_type: node.op_type.as_deref().unwrap_or_default(),
            opset: around.opset,
            attributes: attributes(node, around.call),
            inputs,
            used_outputs: node
                .output
                .iter()
                .map(|o| used.contains(o.as_str()))
                .collect(),
        };
        if let Some(function) = self.function(node) {
            return self.call(function, &context, around.depth);
        }
        if let Err(reason) = known(node) {
            return Ok(Err(Some(reason)));
        }
        let takes_sequences = node.is_standard()
            && (is_of_sequences(context.op_type)
                || matches!(context.op_type, "Identity" | "Loop" | "If"));
        let is_sequence = |value: &ValueId| self.sequences.contains_key(value);
        if !takes_sequences && context.inputs.iter().flatten().any(is_sequence) {
            let error = OpError::unsupported("a sequence of tensors as input");
            return Ok(Err(Some(NodeErrorKind::Op(error))));
        }
        let result = match (node.is_standard(), context.op_type) {
            (true, op_type) if is_of_sequences(op_type) => self.sequence(&context),
            (true, "Constant") => self.constant(node, &context),
            (true, "ConstantOfShape") => self.constant_of_shape(node, &context),
            (true, "If") => return self.branch(&context, scope, around),
            (true, "Loop") => return self.repeated(&context, scope, around),
            (true, "Scan") => return self.scanned(&context, scope, around),
            _ => match import_in(node) {
                None => return Ok(Err(Some(NodeErrorKind::UnknownOperator))),
                Some(import) => import_number(
                    import,
                    &context,
                    &mut Builder {
                        graph: &mut self.graph,
                        stored: &mut self.stored,
                        name: node.label(),
                    },
                ),
            },
        };
        Ok(result
            .and_then(|outputs| context.attributes.check_all_read().map(|()| outputs))
            .map_err(op_error))
    }
}

/// Whether a node's operator can be imported, in some form; else why not.
pub(crate) fn known(node: &NodeProto) -> Result<(), NodeErrorKind> {
    let op_type = node.op_type.as_deref().unwrap_or_default();
    let here = node.is_standard()
        && (is_of_sequences(op_type)
            || matches!(
                op_type,
                "Constant" | "ConstantOfShape" | "If" | "Loop" | "Scan"
            ));
    if here || import_in(node).is_some() {
        return Ok(());
    }
    if let Some(reason) = no_network(node.domain(), op_type) {
        return Err(reason);
    }
    Err(match op_type {
        _ if node.domain().starts_with("com.microsoft") => NodeErrorKind::OnlyOnnxRuntime,
        "NonMaxSuppression" | "RoiAlign" | "MaxRoiPool" => NodeErrorKind::Boxes,
        _ => NodeErrorKind::UnknownOperator,
    })
}

/// The import function of a node's operator.
fn import_in(node: &NodeProto) -> Option<Import> {
    let op_type = node.op_type.as_deref().unwrap_or_default();
    match node.is_standard() {
        true => import_of(op_type),
        false => import_of_domain(node.domain(), op_type),
    }
}

/// The nodes of a graph or a branch that some outputs need, in an order that can be computed.
fn nodes_of<'a>(proto: &'a GraphProto, outputs: &[&str]) -> Result<Vec<&'a NodeProto>, GraphError> {
    let inputs = proto.input.iter().filter_map(|i| i.name.as_deref());
    let constants = proto.initializer.iter().filter_map(|t| t.name.as_deref());
    let given: Vec<&str> = inputs.chain(constants).collect();
    ordered(&proto.node, outputs, &given)
}

/// The names of a graph's outputs.
fn output_names(graph: &GraphProto) -> Vec<&str> {
    graph
        .output
        .iter()
        .map(|o| o.name.as_deref().unwrap_or_default())
        .collect()
}

/// All names that nodes read, also in their branches, and the outputs.
fn used_names<'a>(nodes: &[&'a NodeProto], outputs: &[&'a str]) -> HashSet<&'a str> {
    let mut used: HashSet<&str> = outputs.iter().copied().collect();
    let mut pending: Vec<&NodeProto> = nodes.to_vec();
    while let Some(node) = pending.pop() {
        used.extend(node.input.iter().map(String::as_str));
        for graph in node.attribute.iter().filter_map(|a| a.g.as_deref()) {
            used.extend(graph.output.iter().filter_map(|o| o.name.as_deref()));
            pending.extend(&graph.node);
        }
    }
    used.remove("");
    used
}

#[cfg(test)]
mod tests {
    use super::testing::{function, node, scalar, specialise};
    use crate::onnx::proto::data_type;

    #[test]
    fn all_unknown_nodes_are_listed_wherever_they_stand() {
        let inner = vec![node("Relu", &["a"], &["c"]), node("Riddle", &["c"], &["b"])];
        let nodes = vec![
            node("Mystery", &["x"], &["m"]),
            node("Relu", &["m"], &["n"]),
            node("Puzzle", &["n"], &["p"]),
            node("f", &["p"], &["q"]),
            // Not needed, and so not judged.
            node("Secret", &["p"], &["s"]),
            node("Relu", &["q"], &["y"]),
        ];
        let error = specialise(&[1], nodes, vec![], vec![function("f", inner)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "3 of the model's nodes cannot be used:\n  \
             node `m` (Mystery): unsupported operator\n  \
             node `p` (Puzzle): unsupported operator\n  \
             node `b` (Riddle): unsupported operator"
        );
    }

    #[test]
    fn trees_are_named_as_such() {
        let mut tree = node("TreeEnsembleClassifier", &["x"], &["label", "y"]);
        tree.domain = Some("ai.onnx.ml".to_owned());
        let error = specialise(&[1, 3], vec![tree], vec![], vec![]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "1 of the model's nodes cannot be used:\n  \
             node `label` (ai.onnx.ml.TreeEnsembleClassifier): decision trees have neither neurons \
             nor a gradient; npcov is for neural networks"
        );
    }

    #[test]
    fn detectors_are_named_as_such() {
        let chosen = node("NonMaxSuppression", &["x", "x"], &["y"]);
        let error = specialise(&[1, 3], vec![chosen], vec![], vec![]).unwrap_err();
        assert!(error.to_string().contains("as detectors do"), "{error}");
    }

    #[test]
    fn names_given_twice_are_refused() {
        let twice = || {
            vec![
                scalar("one", data_type::FLOAT),
                scalar("one", data_type::FLOAT),
            ]
        };
        let add = vec![node("Add", &["x", "one"], &["y"])];
        let error = specialise(&[1], add, twice(), vec![]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid model: two initialisers have the name `one`"
        );
        let nodes = vec![node("Relu", &["x"], &["y"]), node("Tanh", &["x"], &["y"])];
        let error = specialise(&[1], nodes, vec![], vec![])
            .unwrap_err()
            .to_string();
        assert!(error.contains("the name `y` is given twice"), "{error}");
    }
}
