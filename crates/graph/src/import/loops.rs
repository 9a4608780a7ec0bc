//! `Loop` and `Scan` whose course is decided by constants: their bodies, one after the other.

use std::collections::{HashMap, HashSet};

use super::{Binding, Importer, MAX_DEPTH, Scope, Surroundings, nodes_of, used_names};
use crate::builder::{Builder, NodeContext, axis};
use crate::error::{GraphError, NodeErrorKind, OpError};
use crate::graph::ValueId;
use crate::onnx::proto::{GraphProto, NodeProto};
use crate::op::{MAX_STEPS, Op, Slice};
use crate::tensor::{Data, Tensor};

/// As of a node: the file's own errors outside, the node's inside.
type Outcome<T> = Result<Result<T, Option<NodeErrorKind>>, GraphError>;

/// Goes on with what is there, or returns what is wrong with the node.
macro_rules! found {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Ok(Err(Some(NodeErrorKind::Op(error)))),
        }
    };
}

/// A body that is imported several times.
struct Body<'a> {
    proto: &'a GraphProto,
    inputs: Vec<&'a str>,
    outputs: Vec<&'a str>,
    nodes: Vec<&'a NodeProto>,
    used: HashSet<&'a str>,
}

impl<'a> Body<'a> {
    fn of(context: &'a NodeContext<'_>) -> Result<Result<Body<'a>, OpError>, GraphError> {
        let proto = match context.attributes.graph("body") {
            Ok(Some(proto)) => proto,
            Ok(None) => return Ok(Err(OpError::invalid("it has no `body`"))),
            Err(error) => return Ok(Err(error)),
        };
        let names = |list: &'a [crate::onnx::proto::ValueInfoProto]| {
            let name = |value: &'a crate::onnx::proto::ValueInfoProto| {
                value.name.as_deref().unwrap_or_default()
            };
            list.iter().map(name).collect::<Vec<&str>>()
        };
        let (inputs, outputs) = (names(&proto.input), names(&proto.output));
        let nodes = nodes_of(proto, &outputs)?;
        let used = used_names(&nodes, &outputs);
        Ok(Ok(Body {
            proto,
            inputs,
            outputs,
            nodes,
            used,
        }))
    }
}

impl Importer<'_> {
    /// `Loop`: as long as there are repetitions left and the condition holds.
    pub(super) fn repeated(
        &mut self,
        context: &NodeContext<'_>,
        scope: &mut Scope,
        around: Surroundings<'_>,
    ) -> Outcome<Vec<ValueId>> {
        let body = found!(Body::of(context)?);
        let most = match context.optional(0) {
            Some(most) => Some(found!(self.decided(most, "the number of repetitions"))),
            None => None,
        };
        let mut goes_on = match context.optional(1) {
            Some(condition) => found!(self.decided(condition, "the condition")) != 0.0,
            None => true,
        };
        let carried = (2..context.inputs.len()).map(|i| context.input(i));
        let mut carried = found!(carried.collect::<Result<Vec<_>, _>>());
        let count = carried.len();
        if body.inputs.len() != count + 2 || body.outputs.len() <= count {
            let error = OpError::invalid("a body that does not fit its inputs and outputs");
            return Ok(Err(Some(NodeErrorKind::Op(error))));
        }
        let mut collected = vec![Vec::new(); body.outputs.len() - count - 1];
        self.enter(&body, scope, around)?;
        let mut repetition = 0;
        while goes_on && most.is_none_or(|most| (repetition as f32) < most) {
            if repetition >= MAX_STEPS {
                scope.levels.pop();
                let message = format!("more than {MAX_STEPS} repetitions");
                let error = OpError::unsupported(message);
                return Ok(Err(Some(NodeErrorKind::Op(error))));
            }
            let number = Tensor::new([], Data::I64(vec![repetition as i64]));
            let yes = Tensor::new([], Data::Bool(vec![true]));
            let (Some(number), Some(yes)) = (number, yes) else {
                return Err(GraphError::Invalid("a scalar has one element".to_owned()));
            };
            let mut inputs = vec![
                self.graph.add_made("repetition", number),
                self.graph.add_made("condition", yes),
            ];
            inputs.extend(&carried);
            let Some(outputs) = self.turn(&body, &inputs, scope, around)? else {
                scope.levels.pop();
                return Ok(Err(None));
            };
            goes_on = match self.decided(outputs[0], "the condition") {
                Ok(condition) => condition != 0.0,
                Err(error) => {
                    scope.levels.pop();
                    return Ok(Err(Some(NodeErrorKind::Op(error))));
                }
            };
            carried = outputs[1..=count].to_vec();
            for (list, &output) in collected.iter_mut().zip(&outputs[1 + count..]) {
                list.push(output);
            }
            repetition += 1;
        }
        scope.levels.pop();
        for list in collected {
            carried.push(found!(self.stacked(&list, 0)));
        }
        Ok(Ok(carried))
    }

    /// `Scan`: once for each position of the sequences.
    pub(super) fn scanned(
        &mut self,
        context: &NodeContext<'_>,
        scope: &mut Scope,
        around: Surroundings<'_>,
    ) -> Outcome<Vec<ValueId>> {
        let body = found!(Body::of(context)?);
        let scan = found!(self.scan(context, &body));
        let mut carried = scan.initial.clone();
        let count = carried.len();
        let mut collected = vec![Vec::new(); body.outputs.len() - count];
        self.enter(&body, scope, around)?;
        for position in 0..scan.positions {
            let mut inputs = carried.clone();
            for sequence in &scan.sequences {
                let at = match sequence.reverse {
                    true => scan.positions - 1 - position,
                    false => position,
                };
                let element = self.element(sequence.value, sequence.axis, at);
                inputs.push(match element {
                    Ok(element) => element,
                    Err(error) => {
                        scope.levels.pop();
                        return Ok(Err(Some(NodeErrorKind::Op(error))));
                    }
                });
            }
            let Some(outputs) = self.turn(&body, &inputs, scope, around)? else {
                scope.levels.pop();
                return Ok(Err(None));
            };
            carried = outputs[..count].to_vec();
            for (list, &output) in collected.iter_mut().zip(&outputs[count..]) {
                list.push(output);
            }
        }
        scope.levels.pop();
        for (i, mut list) in collected.into_iter().enumerate() {
            if scan.backwards[i] {
                list.reverse();
            }
            carried.push(found!(self.stacked(&list, scan.output_axes[i])));
        }
        Ok(Ok(carried))
    }

    /// What a `Scan` goes through.
    fn scan(&self, context: &NodeContext<'_>, body: &Body<'_>) -> Result<Scan, OpError> {
        if context.opset < 9 {
            return Err(OpError::unsupported("a form of before operator set 9"));
        }
        let attributes = &context.attributes;
        let values = context.variadic()?;
        let sequences = usize::try_from(attributes.int("num_scan_inputs", 0)?).unwrap_or(0);
        let misfit = || OpError::invalid("a body that does not fit its inputs and outputs");
        let states = values.len().checked_sub(sequences).ok_or_else(misfit)?;
        let results = body.outputs.len().checked_sub(states).ok_or_else(misfit)?;
        if sequences == 0 || body.inputs.len() != values.len() {
            return Err(misfit());
        }
        let list = |name: &str, count: usize| -> Result<Vec<i64>, OpError> {
            let list = attributes.ints(name)?.unwrap_or(vec![0; count]);
            match list.len() == count {
                true => Ok(list),
                false => Err(OpError::invalid(format!(
                    "`{name}` has {} numbers",
                    list.len()
                ))),
            }
        };
        let directions = list("scan_input_directions", sequences)?;
        let axes = list("scan_input_axes", sequences)?;
        let mut positions = None;
        let mut found = Vec::new();
        for (i, &value) in values[states..].iter().enumerate() {
            let shape = self.graph.shape(value);
            let axis = axis(axes[i], shape.len())?;
            if *positions.get_or_insert(shape[axis]) != shape[axis] {
                return Err(OpError::invalid("sequences of different lengths"));
            }
            found.push(Sequence {
                value,
                axis,
                reverse: directions[i] != 0,
            });
        }
        let positions = positions.unwrap_or(0);
        if positions > MAX_STEPS {
            let message = format!("a sequence of {positions} steps; there may be {MAX_STEPS}");
            return Err(OpError::unsupported(message));
        }
        let directions = list("scan_output_directions", results)?;
        Ok(Scan {
            initial: values[..states].to_vec(),
            sequences: found,
            positions,
            output_axes: list("scan_output_axes", results)?,
            backwards: directions.iter().map(|&d| d != 0).collect(),
        })
    }

    /// Opens the level of a body's own constants, which all repetitions share.
    fn enter(
        &mut self,
        body: &Body<'_>,
        scope: &mut Scope,
        around: Surroundings<'_>,
    ) -> Result<(), GraphError> {
        if around.depth >= MAX_DEPTH {
            return Err(GraphError::Invalid("loops nest too deeply".to_owned()));
        }
        scope.levels.push(HashMap::new());
        self.initializers(body.proto, &body.used, scope)
    }

    /// Imports a body once; `None` when something in it failed, which is reported then.
    fn turn(
        &mut self,
        body: &Body<'_>,
        inputs: &[ValueId],
        scope: &mut Scope,
        around: Surroundings<'_>,
    ) -> Result<Option<Vec<ValueId>>, GraphError> {
        scope.levels.push(HashMap::new());
        for (name, &input) in body.inputs.iter().zip(inputs) {
            scope.define((*name).to_owned(), Binding::Value(input));
        }
        let around = Surroundings {
            depth: around.depth + 1,
            ..around
        };
        self.nodes(&body.nodes, &body.used, scope, around)?;
        let outputs = body.outputs.iter().map(|name| {
            let binding = scope.get(name);
            binding.ok_or_else(|| GraphError::Invalid(format!("output `{name}` is not computed")))
        });
        let outputs = outputs.collect::<Result<Vec<Binding>, _>>();
        scope.levels.pop();
        Ok(outputs?.into_iter().map(Binding::value).collect())
    }

    /// A number that the course of a loop depends on.
    fn decided(&self, value: ValueId, what: &str) -> Result<f32, OpError> {
        let depends = || OpError::unsupported(format!("{what} depends on the model's input"));
        let tensor = self.graph.constant(value).ok_or_else(depends)?;
        match tensor.to_f32()[..] {
            [number] => Ok(number),
            _ => Err(OpError::invalid(format!("{what} is no scalar"))),
        }
    }

    /// One position of an axis, which disappears.
    fn element(&mut self, value: ValueId, axis: usize, at: usize) -> Result<ValueId, OpError> {
        let mut builder = self.builder("Scan");
        let mut shape = builder.shape(value);
        let mut slice = Slice::identity(&shape);
        slice.starts[axis] = at;
        slice.shape[axis] = 1;
        let part = builder.push(Op::Slice(slice), &[value])?;
        shape.remove(axis);
        builder.reshape(part, shape)
    }

    /// What repetitions gave, along an axis that appears for it.
    pub(super) fn stacked(&mut self, list: &[ValueId], along: i64) -> Result<ValueId, OpError> {
        let mut builder = self.builder("Loop");
        let Some(&first) = list.first() else {
            return Err(OpError::unsupported(
                "what no repetition gives has no shape",
            ));
        };
        let mut shape = builder.shape(first);
        shape.insert(axis(along, shape.len() + 1)?, 1);
        let position = axis(along, shape.len())?;
        let mut parts = Vec::with_capacity(list.len());
        for &value in list {
            parts.push(builder.reshape(value, shape.clone())?);
        }
        match parts[..] {
            [only] => Ok(only),
            _ => builder.push(Op::Concat(position), &parts),
        }
    }

    pub(super) fn builder<'b>(&'b mut self, name: &'b str) -> Builder<'b> {
        Builder {
            graph: &mut self.graph,
            stored: &mut self.stored,
            name,
        }
    }
}

/// What a `Scan` goes through.
struct Scan {
    initial: Vec<ValueId>,
    sequences: Vec<Sequence>,
    positions: usize,
    output_axes: Vec<i64>,
    /// For each result, whether the first one comes last.
    backwards: Vec<bool>,
}

struct Sequence {
    value: ValueId,
    axis: usize,
    reverse: bool,
}

#[cfg(test)]
mod tests {
    use super::super::testing::{attribute, node, ops, specialise, value};
    use super::*;
    use crate::graph::Graph;
    use crate::onnx::proto::{AttributeProto, TensorProto, data_type};

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
