//! From a model to a graph: shapes become static, everything that does not depend on the input
//! becomes a constant, functions and decided branches are inlined.

mod loops;
mod sequences;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::activation::recognise_activations;
use crate::builder::{Builder, NodeContext, Stored};
use crate::error::{GraphError, NodeError, NodeErrorKind, OpError};
use crate::graph::{Graph, ValueId};
use crate::model::{Declaration, Dim, OnnxModel, standard_opset};
use crate::normalisation::recognise_normalisation;
use crate::onnx::attributes::Attributes;
use crate::onnx::proto::{AttributeProto, FunctionProto, GraphProto, NodeProto};
use crate::onnx::tensor::read_tensor;
use crate::op::{Import, import_number, import_of, import_of_domain, is_tree};
use crate::order::ordered;
use crate::tensor::{Data, ShapeDisplay, Tensor, TensorType, element_count};
use sequences::is_of_sequences;

/// Functions and branches may nest this deep; a function that calls itself never ends.
const MAX_DEPTH: usize = 32;

/// Functions that call functions multiply: a few lines can mean more nodes than memory holds.
const MAX_INLINED: usize = 1 << 18;

/// Elements of the largest input, batch included: as `f32` it takes half a gigabyte.
pub const LARGEST_INPUT: usize = 1 << 27;

/// What is left open in a model and must be known for a graph.
#[derive(Clone, Debug, Default)]
pub struct Specialisation {
    /// Extent of the first axis of every input where the model leaves it open; 0 means 1.
    pub batch: usize,
    /// Whether a first axis that the model fixes takes `batch` too.
    pub rebatch: bool,
    /// Whole shapes of inputs, by name, for axes that are open after the first.
    pub shapes: BTreeMap<String, Vec<usize>>,
    /// Inputs that are bound to a constant, by name.
    pub constants: BTreeMap<String, Tensor>,
    /// The outputs that are wanted, by name; all when empty. What they do not need is not looked at.
    pub outputs: Vec<String>,
}

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
        recognise_normalisation(&graph)
            .and_then(|graph| recognise_activations(&graph))
            .map_err(|e| GraphError::Invalid(e.to_string()))
    }
}

/// The static type of an input.
fn input_type(input: &Declaration, options: &Specialisation) -> Result<TensorType, GraphError> {
    let dtype = input.dtype.ok_or_else(|| {
        GraphError::Invalid(format!(
            "input `{}` is no tensor of numbers; a model that takes text has to be exported from behind the step that \
             makes numbers of it",
            input.name
        ))
    })?;
    let shape = input_shape(input, options)?;
    match element_count(&shape) {
        Some(count) if count <= LARGEST_INPUT => Ok(TensorType::new(dtype, shape)),
        _ => Err(GraphError::Invalid(format!(
            "input `{}` of shape `{}` is too large: it may have {LARGEST_INPUT} elements",
            input.name,
            ShapeDisplay(&shape)
        ))),
    }
}

/// The static shape of an input.
fn input_shape(input: &Declaration, options: &Specialisation) -> Result<Vec<usize>, GraphError> {
    let given = options.shapes.get(&input.name);
    let Some(dims) = &input.dims else {
        return given.cloned().ok_or_else(|| GraphError::OpenAxis {
            input: input.name.clone(),
            shape: input.shape(),
            axis: 0,
        });
    };
    if let Some(shape) = given
        && shape.len() != dims.len()
    {
        return Err(wrong_shape(input, shape));
    }
    let mut extents = Vec::with_capacity(dims.len());
    for (axis, dim) in dims.iter().enumerate() {
        let given = given.map(|shape| shape[axis]);
        extents.push(match (dim, given) {
            (Dim::Fixed(n), _) if axis > 0 || !options.rebatch => match given {
                Some(g) if g != *n => {
                    return Err(wrong_shape(input, given_shape(options, input)));
                }
                _ => *n,
            },
            (_, Some(g)) => g,
            (_, None) if axis == 0 => options.batch.max(1),
            (_, None) => {
                return Err(GraphError::OpenAxis {
                    input: input.name.clone(),
                    shape: input.shape(),
                    axis,
                });
            }
        });
    }
    Ok(extents)
}

fn given_shape<'a>(options: &'a Specialisation, input: &Declaration) -> &'a [usize] {
    options.shapes.get(&input.name).map_or(&[], Vec::as_slice)
}

fn wrong_shape(input: &Declaration, given: &[usize]) -> GraphError {
    GraphError::InputShape {
        input: input.name.clone(),
        declared: input.shape(),
        given: ShapeDisplay(given).to_string(),
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

    /// The constants of a graph or a branch that something uses.
    fn initializers(
        &mut self,
        proto: &GraphProto,
        used: &HashSet<&str>,
        scope: &mut Scope,
    ) -> Result<(), GraphError> {
        let mut read = HashSet::new();
        for tensor in &proto.initializer {
            let name = tensor.name.clone().unwrap_or_default();
            if !read.insert(tensor.name.as_deref().unwrap_or_default()) {
                let message = format!("two initialisers have the name `{name}`");
                return Err(GraphError::Invalid(message));
            }
            if used.contains(name.as_str()) {
                let value = read_tensor(tensor, &self.model.external)?;
                let value = self.graph.add_constant(name.clone(), value);
                if let Some(stored) = tensor.data_type {
                    self.stored.types.insert(value, stored);
                }
                scope.define(name, Binding::Value(value));
            }
        }
        Ok(())
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

    fn function(&self, node: &NodeProto) -> Option<&'m FunctionProto> {
        let text = |s: &Option<String>| s.clone().unwrap_or_default();
        self.model.proto.functions.iter().find(|f| {
            f.name == node.op_type
                && text(&f.domain) == text(&node.domain)
                && text(&f.overload) == text(&node.overload)
        })
    }

    /// Inlines a function of the model.
    #[allow(clippy::type_complexity, reason = "as `node`")]
    fn call(
        &mut self,
        function: &'m FunctionProto,
        context: &NodeContext<'_>,
        depth: usize,
    ) -> Result<Result<Vec<ValueId>, Option<NodeErrorKind>>, GraphError> {
        if depth >= MAX_DEPTH {
            return Err(GraphError::Invalid(format!(
                "function `{}` nests too deeply",
                context.op_type
            )));
        }
        let mut scope = Scope::default();
        for (i, name) in function.input.iter().enumerate() {
            let binding = context.optional(i).map_or(Binding::Absent, Binding::Value);
            scope.define(name.clone(), binding);
        }
        let outputs: Vec<&str> = function.output.iter().map(String::as_str).collect();
        let given: Vec<&str> = function.input.iter().map(String::as_str).collect();
        let nodes = ordered(&function.node, &outputs, &given)?;
        let used = used_names(&nodes, &outputs);
        let mut arguments = context.attributes.list().to_vec();
        for default in &function.attribute_proto {
            if !arguments.iter().any(|a| a.name == default.name) {
                arguments.push(Cow::Borrowed(default));
            }
        }
        let around = Surroundings {
            opset: standard_opset(&function.opset_import).unwrap_or(context.opset),
            call: Some(&arguments),
            depth: depth + 1,
        };
        self.nodes(&nodes, &used, &mut scope, around)?;
        let values: Option<Vec<ValueId>> = outputs
            .iter()
            .map(|name| scope.get(name)?.value())
            .collect();
        // What failed inside is already reported.
        Ok(values.ok_or(None))
    }

    /// Inlines the branch that a constant condition takes.
    #[allow(clippy::type_complexity, reason = "as `node`")]
    fn branch(
        &mut self,
        context: &NodeContext<'_>,
        scope: &mut Scope,
        around: Surroundings<'_>,
    ) -> Result<Result<Vec<ValueId>, Option<NodeErrorKind>>, GraphError> {
        let decide = || -> Result<&GraphProto, OpError> {
            let condition = self.graph.constant(context.input(0)?).ok_or_else(|| {
                OpError::unsupported("the condition depends on the model's input")
            })?;
            let taken = condition.to_f32().first().is_some_and(|&c| c != 0.0);
            let name = if taken { "then_branch" } else { "else_branch" };
            context
                .attributes
                .graph(name)?
                .ok_or_else(|| OpError::invalid(format!("it has no `{name}`")))
        };
        let branch = match decide() {
            Ok(branch) => branch,
            Err(e) => return Ok(Err(Some(NodeErrorKind::Op(e)))),
        };
        if around.depth >= MAX_DEPTH {
            return Err(GraphError::Invalid("branches nest too deeply".to_owned()));
        }
        scope.levels.push(HashMap::new());
        let around = Surroundings {
            depth: around.depth + 1,
            ..around
        };
        let outputs = self.subgraph(branch, &output_names(branch), scope, around);
        scope.levels.pop();
        Ok(outputs?.into_iter().collect::<Option<_>>().ok_or(None))
    }

    fn constant(
        &mut self,
        node: &NodeProto,
        context: &NodeContext<'_>,
    ) -> Result<Vec<ValueId>, OpError> {
        let attributes = &context.attributes;
        let mut stored = None;
        let tensor = if let Some(proto) = attributes.tensor("value")? {
            stored = proto.data_type;
            self.attribute_tensor(&proto)?
        } else if let Some(x) = attributes.optional_float("value_float")? {
            Tensor::scalar(x)
        } else if let Some(x) = attributes.floats("value_floats")? {
            Tensor::vector(x)
        } else if let Some(x) = attributes.optional_int("value_int")? {
            scalar_of(Data::I64(vec![x]))?
        } else if let Some(x) = attributes.ints("value_ints")? {
            Tensor::ints(x)
        } else {
            return Err(OpError::unsupported("it holds no numbers"));
        };
        let value = self.graph.add_constant(node.label(), tensor);
        if let Some(stored) = stored {
            self.stored.types.insert(value, stored);
        }
        Ok(vec![value])
    }

    fn constant_of_shape(
        &mut self,
        node: &NodeProto,
        context: &NodeContext<'_>,
    ) -> Result<Vec<ValueId>, OpError> {
        let mut builder = Builder {
            graph: &mut self.graph,
            stored: &mut self.stored,
            name: node.label(),
        };
        let shape = builder.ints(context.input(0)?, "shape")?;
        let shape = shape
            .iter()
            .map(|&d| usize::try_from(d))
            .collect::<Result<Vec<usize>, _>>()
            .map_err(|_| OpError::invalid(format!("shape {shape:?}")))?;
        let value = match context.attributes.tensor("value")? {
            Some(proto) => self.attribute_tensor(&proto)?.reshaped([]),
            None => Some(Tensor::scalar(0.0)),
        };
        let value = value.ok_or_else(|| OpError::invalid("`value` must have one element"))?;
        builder = Builder {
            graph: &mut self.graph,
            stored: &mut self.stored,
            name: node.label(),
        };
        let value = builder.tensor(value);
        Ok(vec![builder.push(crate::op::Op::Expand(shape), &[value])?])
    }

    fn attribute_tensor(&self, proto: &crate::onnx::proto::TensorProto) -> Result<Tensor, OpError> {
        read_tensor(proto, &self.model.external).map_err(|e| OpError::invalid(e.to_string()))
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
    Err(match op_type {
        _ if is_tree(node.domain(), op_type) => NodeErrorKind::Trees,
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

fn scalar_of(data: Data) -> Result<Tensor, OpError> {
    Tensor::new([], data).ok_or_else(|| OpError::invalid("it is no scalar"))
}

/// The node's attributes; inside a function, references are replaced by the call's arguments, and
/// references to arguments that were not given disappear.
fn attributes<'a>(
    node: &'a NodeProto,
    call: Option<&'a [Cow<'a, AttributeProto>]>,
) -> Attributes<'a> {
    let list = node
        .attribute
        .iter()
        .filter_map(|attribute| {
            let reference = attribute.ref_attr_name.as_deref().unwrap_or_default();
            if reference.is_empty() {
                return Some(Cow::Borrowed(attribute));
            }
            let argument = call?
                .iter()
                .find(|a| a.name.as_deref() == Some(reference))?;
            let mut argument = argument.clone().into_owned();
            argument.name.clone_from(&attribute.name);
            Some(Cow::Owned(argument))
        })
        .collect();
    Attributes::new(list)
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
    use prost::Message;

    use super::*;
    use crate::onnx::proto::{
        DimensionProto, ModelProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
        TensorTypeProto, TypeProto, ValueInfoProto, attribute_type, data_type,
    };
    use crate::op::{Binary, Op, Unary};

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    fn node(op_type: &str, input: &[&str], output: &[&str]) -> NodeProto {
        NodeProto {
            op_type: Some(op_type.to_owned()),
            input: names(input),
            output: names(output),
            ..Default::default()
        }
    }

    fn attribute(name: &str) -> AttributeProto {
        AttributeProto {
            name: Some(name.to_owned()),
            ..Default::default()
        }
    }

    fn scalar(name: &str, onnx: i32) -> TensorProto {
        TensorProto {
            name: Some(name.to_owned()),
            data_type: Some(onnx),
            int32_data: vec![1],
            float_data: vec![1.0],
            ..Default::default()
        }
    }

    /// A value of `f32`; extents are left out for outputs.
    fn value(name: &str, dims: Option<&[i64]>) -> ValueInfoProto {
        let dim = |&d: &i64| DimensionProto {
            dim_value: Some(d),
            dim_param: None,
        };
        ValueInfoProto {
            name: Some(name.to_owned()),
            r#type: Some(TypeProto {
                tensor_type: Some(TensorTypeProto {
                    elem_type: Some(data_type::FLOAT),
                    shape: dims.map(|dims| TensorShapeProto {
                        dim: dims.iter().map(dim).collect(),
                    }),
                }),
            }),
        }
    }

    /// A model from `x` to `y`.
    fn specialise(
        dims: &[i64],
        nodes: Vec<NodeProto>,
        initializer: Vec<TensorProto>,
        functions: Vec<FunctionProto>,
    ) -> Result<Graph, GraphError> {
        let proto = ModelProto {
            graph: Some(GraphProto {
                node: nodes,
                initializer,
                input: vec![value("x", Some(dims))],
                output: vec![value("y", None)],
                ..Default::default()
            }),
            functions,
            opset_import: vec![OperatorSetIdProto {
                domain: None,
                version: Some(17),
            }],
            ..Default::default()
        };
        OnnxModel::from_bytes(proto.encode_to_vec())?.specialise(&Specialisation::default())
    }

    fn ops(graph: &Graph) -> Vec<&Op> {
        graph.nodes().iter().map(|n| &n.op).collect()
    }

    #[test]
    fn inputs_beyond_any_memory_are_refused() {
        let relu = || vec![node("Relu", &["x"], &["y"])];
        assert!(specialise(&[1, 3], relu(), vec![], vec![]).is_ok());
        let error = specialise(&[1 << 40, 1 << 40], relu(), vec![], vec![]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid model: input `x` of shape `1099511627776x1099511627776` is too large: it may have 134217728 elements"
        );
        assert!(specialise(&[1, LARGEST_INPUT as i64], relu(), vec![], vec![]).is_ok());
        assert!(specialise(&[1, LARGEST_INPUT as i64 + 1], relu(), vec![], vec![]).is_err());
    }

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

    #[test]
    fn the_type_of_a_zero_point_is_that_of_the_file() {
        let quantised = |nodes: Vec<NodeProto>, onnx| {
            let last = node("QuantizeLinear", &["x", "scale", "zero"], &["y"]);
            let stored = vec![scalar("scale", data_type::FLOAT), scalar("stored", onnx)];
            specialise(&[1], [nodes, vec![last]].concat(), stored, vec![])
        };
        let cast = |from: &str, to: &str, onnx: i32| {
            let mut cast = node("Cast", &[from], &[to]);
            cast.attribute.push(AttributeProto {
                r#type: Some(attribute_type::INT),
                i: Some(onnx.into()),
                ..attribute("to")
            });
            cast
        };
        let limits = |graph: Result<Graph, GraphError>| match ops(&graph.unwrap())[..] {
            // The zero point is 1, and limits are those of the steps from it.
            [
                ..,
                Op::Unary(Unary::Clip { min, max }),
                Op::Binary(Binary::Add),
                Op::Cast(_),
            ] => (*min + 1.0, *max + 1.0),
            ref other => panic!("{other:?}"),
        };
        let identity = || vec![node("Identity", &["stored"], &["zero"])];
        assert_eq!(
            limits(quantised(identity(), data_type::INT8)),
            (-128.0, 127.0)
        );
        assert_eq!(
            limits(quantised(identity(), data_type::UINT8)),
            (0.0, 255.0)
        );
        let computed = vec![cast("stored", "zero", data_type::INT16)];
        let computed = quantised(computed, data_type::FLOAT);
        assert_eq!(limits(computed), (-32_768.0, 32_767.0));
        // Between integers a cast is nothing, and the value would be of two types.
        let recast = vec![cast("stored", "zero", data_type::UINT8)];
        let error = quantised(recast, data_type::INT32).unwrap_err().to_string();
        assert!(
            error.contains("the zero point's type is computed"),
            "{error}"
        );
    }

    fn function(name: &str, nodes: Vec<NodeProto>) -> FunctionProto {
        FunctionProto {
            name: Some(name.to_owned()),
            input: names(&["a"]),
            output: names(&["b"]),
            node: nodes,
            ..Default::default()
        }
    }

    #[test]
    fn functions_that_multiply_are_refused() {
        // Each function calls the next one twice: 2^depth ReLUs.
        let chain = |depth: usize| {
            let mut functions = vec![function("f0", vec![node("Relu", &["a"], &["b"])])];
            for i in 1..=depth {
                let next = format!("f{}", i - 1);
                let calls = vec![node(&next, &["a"], &["c"]), node(&next, &["c"], &["b"])];
                functions.push(function(&format!("f{i}"), calls));
            }
            let call = node(&format!("f{depth}"), &["x"], &["y"]);
            specialise(&[1], vec![call], vec![], functions)
        };
        assert_eq!(chain(5).unwrap().nodes().len(), 32);
        let error = chain(30).unwrap_err().to_string();
        assert!(error.contains("functions expand to more than"), "{error}");
        let itself = function("f", vec![node("f", &["a"], &["b"])]);
        let error = specialise(&[1], vec![node("f", &["x"], &["y"])], vec![], vec![itself]);
        assert!(error.unwrap_err().to_string().contains("nests too deeply"));
    }

    #[test]
    fn arguments_of_a_call_reach_the_branches_of_the_function() {
        let alpha = AttributeProto {
            r#type: Some(attribute_type::FLOAT),
            ref_attr_name: Some("slope".to_owned()),
            ..attribute("alpha")
        };
        let mut leaky = node("LeakyRelu", &["a"], &["inner"]);
        leaky.attribute.push(alpha);
        let branch = GraphProto {
            node: vec![leaky],
            output: vec![value("inner", None)],
            ..Default::default()
        };
        let mut branching = node("If", &["condition"], &["b"]);
        for name in ["then_branch", "else_branch"] {
            branching.attribute.push(AttributeProto {
                g: Some(Box::new(branch.clone())),
                ..attribute(name)
            });
        }
        let mut function = function("f", vec![branching]);
        function.input.push("condition".to_owned());
        let mut call = node("f", &["x", "yes"], &["y"]);
        call.attribute.push(AttributeProto {
            r#type: Some(attribute_type::FLOAT),
            f: Some(0.25),
            ..attribute("slope")
        });
        let yes = vec![scalar("yes", data_type::BOOL)];
        let graph = specialise(&[1], vec![call], yes, vec![function]).unwrap();
        assert_eq!(ops(&graph), [&Op::Unary(Unary::LeakyRelu { alpha: 0.25 })]);
    }

    /// As PyTorch exports `squeeze`: an axis is taken away if its extent is 1.
    #[test]
    fn the_shape_of_the_input_decides_between_branches() {
        let number = |name: &str, dims: Vec<i64>| TensorProto {
            name: Some(name.to_owned()),
            dims,
            data_type: Some(data_type::INT64),
            int64_data: vec![1],
            ..Default::default()
        };
        let branch = |op: &str| AttributeProto {
            g: Some(Box::new(GraphProto {
                node: vec![match op {
                    "Squeeze" => node(op, &["x", "axes"], &["inner"]),
                    _ => node(op, &["x"], &["inner"]),
                }],
                output: vec![value("inner", None)],
                ..Default::default()
            })),
            ..attribute(if op == "Squeeze" {
                "then_branch"
            } else {
                "else_branch"
            })
        };
        let mut branching = node("If", &["is_one"], &["z"]);
        branching.attribute = vec![branch("Squeeze"), branch("Identity")];
        let nodes = vec![
            node("Shape", &["x"], &["shape"]),
            node("Gather", &["shape", "one"], &["extent"]),
            node("Equal", &["extent", "one"], &["is_one"]),
            branching,
            node("Relu", &["z"], &["y"]),
        ];
        for (dims, expected) in [([2, 1, 4], &[2, 4][..]), ([2, 3, 4], &[2, 3, 4])] {
            let constants = vec![number("one", vec![]), number("axes", vec![1])];
            let graph = specialise(&dims, nodes.clone(), constants, vec![]).unwrap();
            assert_eq!(graph.shape(graph.outputs()[0]), expected);
        }
    }

    /// A `Loop` that doubles what it carries; `condition` is the body's own.
    fn doubling(most: &str, condition: NodeProto) -> Result<Graph, GraphError> {
        let body = GraphProto {
            node: vec![node("Add", &["carried", "carried"], &["twice"]), condition],
            input: ["number", "going", "carried"]
                .map(|name| value(name, None))
                .to_vec(),
            output: ["on", "twice", "twice"]
                .map(|name| value(name, None))
                .to_vec(),
            ..Default::default()
        };
        let mut repeated = node("Loop", &[most, "", "x"], &["last", "y"]);
        repeated.attribute.push(AttributeProto {
            g: Some(Box::new(body)),
            ..attribute("body")
        });
        let three = TensorProto {
            name: Some("three".to_owned()),
            data_type: Some(data_type::INT64),
            int64_data: vec![3],
            ..Default::default()
        };
        specialise(&[2], vec![repeated], vec![three], vec![])
    }

    #[test]
    fn loops_that_constants_decide_are_unrolled() {
        let goes_on = || node("Identity", &["going"], &["on"]);
        let graph = doubling("three", goes_on()).unwrap();
        let sums = ops(&graph).into_iter().filter(|op| op.name() == "Add");
        assert_eq!(sums.count(), 3);
        assert_eq!(graph.shape(graph.outputs()[0]), [3, 2]);
        let endless = doubling("", goes_on()).unwrap_err().to_string();
        assert!(endless.contains("more than 1024 repetitions"), "{endless}");
        // As long as something in the input is positive.
        let depends = node("Identity", &["carried"], &["on"]);
        let error = doubling("three", depends).unwrap_err().to_string();
        assert!(error.contains("depends on the model's input"), "{error}");
    }
}
