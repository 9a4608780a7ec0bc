//! Functions of the model and decided branches: what is in them takes the place of the node.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{Binding, Importer, MAX_DEPTH, Scope, Surroundings, output_names, used_names};
use crate::builder::NodeContext;
use crate::error::{GraphError, NodeErrorKind, OpError};
use crate::graph::ValueId;
use crate::model::standard_opset;
use crate::onnx::attributes::Attributes;
use crate::onnx::proto::{AttributeProto, FunctionProto, GraphProto, NodeProto};
use crate::order::ordered;

impl<'m> Importer<'m> {
    /// The function of the model that a node calls.
    pub(super) fn function(&self, node: &NodeProto) -> Option<&'m FunctionProto> {
        let text = |s: &Option<String>| s.clone().unwrap_or_default();
        self.model.proto.functions.iter().find(|f| {
            f.name == node.op_type
                && text(&f.domain) == text(&node.domain)
                && text(&f.overload) == text(&node.overload)
        })
    }

    /// Inlines a function of the model.
    #[allow(clippy::type_complexity, reason = "as `node`")]
    pub(super) fn call(
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
    pub(super) fn branch(
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
}

/// The node's attributes; inside a function, references are replaced by the call's arguments, and
/// references to arguments that were not given disappear.
pub(super) fn attributes<'a>(
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

#[cfg(test)]
mod tests {
    use super::super::testing::{attribute, function, node, ops, scalar, specialise, value};
    use super::*;
    use crate::onnx::proto::{TensorProto, attribute_type, data_type};
    use crate::op::{Op, Unary};

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
}
