//! Small models for the tests of the import.

use prost::Message;

use super::Specialisation;
use crate::error::GraphError;
use crate::graph::Graph;
use crate::model::OnnxModel;
use crate::onnx::proto::{
    AttributeProto, DimensionProto, FunctionProto, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
    data_type,
};
use crate::op::Op;

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

pub(super) fn node(op_type: &str, input: &[&str], output: &[&str]) -> NodeProto {
    NodeProto {
        op_type: Some(op_type.to_owned()),
        input: names(input),
        output: names(output),
        ..Default::default()
    }
}

pub(super) fn attribute(name: &str) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        ..Default::default()
    }
}

pub(super) fn scalar(name: &str, onnx: i32) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(onnx),
        int32_data: vec![1],
        float_data: vec![1.0],
        ..Default::default()
    }
}

/// A value of `f32`; extents are left out for outputs.
pub(super) fn value(name: &str, dims: Option<&[i64]>) -> ValueInfoProto {
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
pub(super) fn specialise(
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

pub(super) fn ops(graph: &Graph) -> Vec<&Op> {
    graph.nodes().iter().map(|n| &n.op).collect()
}

pub(super) fn function(name: &str, nodes: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: Some(name.to_owned()),
        input: names(&["a"]),
        output: names(&["b"]),
        node: nodes,
        ..Default::default()
    }
}
