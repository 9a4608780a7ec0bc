//! Constants: initialisers, and nodes that hold their value.

use std::collections::HashSet;

use super::{Binding, Importer, Scope};
use crate::builder::{Builder, NodeContext};
use crate::error::{GraphError, OpError};
use crate::graph::ValueId;
use crate::onnx::proto::{GraphProto, NodeProto, TensorProto};
use crate::onnx::tensor::read_tensor;
use crate::op::Op;
use crate::tensor::{Data, Tensor};

impl Importer<'_> {
    /// The constants of a graph or a branch that something uses.
    pub(super) fn initializers(
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

    pub(super) fn constant(
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

    pub(super) fn constant_of_shape(
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
        Ok(vec![builder.push(Op::Expand(shape), &[value])?])
    }

    fn attribute_tensor(&self, proto: &TensorProto) -> Result<Tensor, OpError> {
        read_tensor(proto, &self.model.external).map_err(|e| OpError::invalid(e.to_string()))
    }
}

fn scalar_of(data: Data) -> Result<Tensor, OpError> {
    Tensor::new([], data).ok_or_else(|| OpError::invalid("it is no scalar"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{attribute, node, ops, scalar, specialise};
    use super::*;
    use crate::graph::Graph;
    use crate::onnx::proto::{AttributeProto, attribute_type, data_type};
    use crate::op::{Binary, Unary};

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
}
