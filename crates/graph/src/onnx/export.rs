//! Writing a graph as an ONNX model.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use prost::Message;

use super::proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto, attribute_type,
    data_type,
};
use crate::error::OpError;
use crate::graph::{Graph, ValueId};
use crate::tensor::{DType, Data, Tensor, TensorType};

/// The operator set of exported models.
pub const EXPORT_OPSET: i64 = 20;

/// The file format version that carries [`EXPORT_OPSET`].
const IR_VERSION: i64 = 9;

/// An ONNX node being written; an operator's `export` adds its attributes and parameters.
pub(crate) struct OnnxNode<'a> {
    proto: NodeProto,
    /// Nodes that compute what `proto` uses, where one ONNX node is not enough.
    before: Vec<NodeProto>,
    initializers: &'a mut Vec<TensorProto>,
}

impl OnnxNode<'_> {
    /// Another ONNX operator than [`Op::name`](crate::Op::name) says.
    pub(crate) fn op_type(&mut self, op_type: &str) {
        self.proto.op_type = Some(op_type.to_owned());
    }

    /// The name of the input at `index`.
    pub(crate) fn input(&self, index: usize) -> String {
        self.proto.input.get(index).cloned().unwrap_or_default()
    }

    /// Another node's result, by the name that [`OnnxNode::before`] gave, as the next input.
    pub(crate) fn named_input(&mut self, name: String) {
        self.proto.input.push(name);
    }

    /// Puts a node without attributes in front; returns the name of its result.
    pub(crate) fn before(&mut self, op_type: &str, inputs: Vec<String>) -> String {
        self.before_with(op_type, inputs, |_| {})
    }

    /// Puts a node in front, with what `attributes` sets; returns the name of its result.
    pub(crate) fn before_with(
        &mut self,
        op_type: &str,
        inputs: Vec<String>,
        attributes: impl FnOnce(&mut OnnxNode<'_>),
    ) -> String {
        let output = self.proto.output.first().cloned().unwrap_or_default();
        let name = format!("{output}.step{}", self.before.len());
        let mut node = OnnxNode {
            proto: NodeProto {
                input: inputs,
                output: vec![name.clone()],
                name: Some(name.clone()),
                op_type: Some(op_type.to_owned()),
                ..Default::default()
            },
            before: Vec::new(),
            initializers: self.initializers,
        };
        attributes(&mut node);
        let proto = node.proto;
        self.before.push(proto);
        name
    }

    /// Another operator on other inputs, whose names [`OnnxNode::before`] or a constant gave.
    pub(crate) fn become_node(&mut self, op_type: &str, inputs: Vec<String>) {
        self.op_type(op_type);
        self.proto.input = inputs;
    }

    /// A scalar under a name of its own, for [`OnnxNode::before`].
    pub(crate) fn scalar(&mut self, value: f32) -> String {
        self.constant("scalar", &Tensor::scalar(value))
    }

    /// Integers under a name of their own, for [`OnnxNode::before`].
    pub(crate) fn ints_constant(&mut self, values: &[i64]) -> String {
        self.constant("ints", &Tensor::ints(values.to_vec()))
    }

    /// So many zeros under a name of their own, for [`OnnxNode::before`].
    pub(crate) fn zeros_constant(&mut self, count: usize) -> String {
        self.constant("zeros", &Tensor::vector(vec![0.0; count]))
    }

    fn constant(&mut self, kind: &str, tensor: &Tensor) -> String {
        let output = self.proto.output.first().cloned().unwrap_or_default();
        let name = format!("{output}.{kind}{}", self.initializers.len());
        self.initializers.push(tensor_proto(&name, tensor));
        name
    }

    /// An integer attribute.
    pub(crate) fn int(&mut self, name: &str, value: i64) {
        self.attribute(name, attribute_type::INT, |a| a.i = Some(value));
    }

    /// An attribute of integers.
    pub(crate) fn ints(&mut self, name: &str, values: &[i64]) {
        self.attribute(name, attribute_type::INTS, |a| a.ints = values.to_vec());
    }

    /// A number as attribute.
    pub(crate) fn float(&mut self, name: &str, value: f32) {
        self.attribute(name, attribute_type::FLOAT, |a| a.f = Some(value));
    }

    /// A text as attribute.
    pub(crate) fn string(&mut self, name: &str, value: &str) {
        self.attribute(name, attribute_type::STRING, |a| {
            a.s = Some(Bytes::copy_from_slice(value.as_bytes()));
        });
    }

    /// The result is the node's second output; nothing uses the first one.
    pub(crate) fn second_output(&mut self) {
        let output = self.proto.output.first().cloned().unwrap_or_default();
        self.proto.output.insert(0, format!("{output}.first"));
    }

    /// A vector of integers as the next input.
    pub(crate) fn int_input(&mut self, values: &[i64]) {
        self.constant_input(&Tensor::ints(values.to_vec()));
    }

    /// A vector of numbers as the next input.
    pub(crate) fn floats_input(&mut self, values: &[f32]) {
        self.constant_input(&Tensor::vector(values.to_vec()));
    }

    /// A scalar as the next input.
    pub(crate) fn float_input(&mut self, value: f32) {
        self.constant_input(&Tensor::scalar(value));
    }

    /// Leaves the next optional input out.
    pub(crate) fn no_input(&mut self) {
        self.proto.input.push(String::new());
    }

    fn constant_input(&mut self, tensor: &Tensor) {
        let output = self.proto.output.first().cloned().unwrap_or_default();
        let name = format!("{output}.parameter{}", self.proto.input.len());
        self.initializers.push(tensor_proto(&name, tensor));
        self.proto.input.push(name);
    }

    fn attribute(&mut self, name: &str, kind: i32, set: impl FnOnce(&mut AttributeProto)) {
        let mut attribute = AttributeProto {
            name: Some(name.to_owned()),
            r#type: Some(kind),
            ..Default::default()
        };
        set(&mut attribute);
        self.proto.attribute.push(attribute);
    }
}

impl Graph {
    /// The graph as the bytes of an ONNX model that any runtime loads: composite operators are
    /// lowered. Values are called `v0`, `v1`, ..., inputs keep their names, outputs are called
    /// `output0`, `output1`, ...
    pub fn to_onnx(&self) -> Result<Vec<u8>, OpError> {
        let names: Vec<String> = (0..self.outputs().len())
            .map(|i| format!("output{i}"))
            .collect();
        self.to_onnx_with(&names)
    }

    /// As [`Graph::to_onnx`], with a name for each output, which no other output and no input may
    /// have.
    pub fn to_onnx_with(&self, outputs: &[String]) -> Result<Vec<u8>, OpError> {
        if outputs.len() != self.outputs().len() {
            let (names, count) = (outputs.len(), self.outputs().len());
            return Err(OpError::invalid(format!(
                "{names} names for {count} outputs"
            )));
        }
        let mut distinct = BTreeSet::new();
        if let Some(name) = outputs.iter().find(|name| !distinct.insert(*name)) {
            let message = format!("two outputs are both called `{name}`");
            return Err(OpError::invalid(message));
        }
        let inputs = self.inputs().iter().map(|&i| &self.value(i).name);
        if let Some(name) = inputs.into_iter().find(|name| outputs.contains(name)) {
            let message = format!("an input and an output are both called `{name}`");
            return Err(OpError::invalid(message));
        }
        Ok(self.lowered(|_| true)?.plain_to_onnx(outputs))
    }

    fn plain_to_onnx(&self, names: &[String]) -> Vec<u8> {
        let values = self.export_names(names);
        let name_of = |id: &ValueId| values[id.index()].clone();
        let mut initializers = Vec::new();
        for (value, name) in self.values().iter().zip(&values) {
            if let Some(tensor) = &value.constant {
                initializers.push(tensor_proto(name, tensor));
            }
        }
        // ONNX Runtime insists on names that no two nodes share.
        let mut node_names = Names::new(names);
        let mut nodes = Vec::new();
        for node in self.nodes() {
            let mut onnx = OnnxNode {
                proto: NodeProto {
                    input: node.inputs.iter().map(name_of).collect(),
                    output: vec![name_of(&node.output)],
                    name: Some(node_names.distinct(&node.name)),
                    op_type: Some(node.op.name().to_owned()),
                    ..Default::default()
                },
                before: Vec::new(),
                initializers: &mut initializers,
            };
            node.op.export(&mut onnx);
            nodes.append(&mut onnx.before);
            nodes.push(onnx.proto);
        }
        // An output that is an input, a constant, or named twice needs a node of its own.
        let mut outputs = Vec::new();
        for (&output, name) in self.outputs().iter().zip(names) {
            let value = self.value(output);
            nodes.push(NodeProto {
                input: vec![name_of(&output)],
                output: vec![name.clone()],
                name: Some(name.clone()),
                op_type: Some("Identity".to_owned()),
                ..Default::default()
            });
            outputs.push(value_info(name, &value.ty));
        }
        let inputs = self
            .inputs()
            .iter()
            .map(|i| value_info(&name_of(i), &self.value(*i).ty))
            .collect();
        ModelProto {
            ir_version: Some(IR_VERSION),
            opset_import: vec![OperatorSetIdProto {
                domain: Some(String::new()),
                version: Some(EXPORT_OPSET),
            }],
            producer_name: Some("npcov".to_owned()),
            producer_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            graph: Some(GraphProto {
                node: nodes,
                name: Some("npcov".to_owned()),
                initializer: initializers,
                input: inputs,
                output: outputs,
                ..Default::default()
            }),
            functions: Vec::new(),
        }
        .encode_to_vec()
    }

    /// The names of all values: inputs keep theirs, others get one that is free.
    fn export_names(&self, outputs: &[String]) -> Vec<String> {
        let mut names = Names::new(outputs);
        for &input in self.inputs() {
            names.distinct(&self.value(input).name);
        }
        (0..self.values().len())
            .map(|i| {
                let is_input = self.inputs().contains(&ValueId(i as u32));
                match is_input {
                    true => self.values()[i].name.clone(),
                    false => names.distinct(&format!("v{i}")),
                }
            })
            .collect()
    }
}

/// Names that are used.
struct Names {
    used: BTreeSet<String>,
    /// For each name that was wanted twice, the last number behind it.
    last: BTreeMap<String, usize>,
}

impl Names {
    fn new(used: &[String]) -> Names {
        Names {
            used: used.iter().cloned().collect(),
            last: BTreeMap::new(),
        }
    }

    /// The name, or if it is used one made from it.
    fn distinct(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        while !self.used.insert(name.clone()) {
            let number = self.last.entry(wanted.to_owned()).or_insert(1);
            *number += 1;
            name = format!("{wanted}_{number}");
        }
        name
    }
}

fn value_info(name: &str, ty: &TensorType) -> ValueInfoProto {
    let dim = |&d: &usize| DimensionProto {
        dim_value: Some(d as i64),
        dim_param: None,
    };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorTypeProto {
                elem_type: Some(onnx_type(ty.dtype)),
                shape: Some(TensorShapeProto {
                    dim: ty.shape.iter().map(dim).collect(),
                }),
            }),
        }),
    }
}

/// The ONNX element type that stands for a [`DType`].
pub(crate) fn onnx_type(dtype: DType) -> i32 {
    match dtype {
        DType::F32 => data_type::FLOAT,
        DType::I64 => data_type::INT64,
        DType::Bool => data_type::BOOL,
    }
}

fn tensor_proto(name: &str, tensor: &Tensor) -> TensorProto {
    let raw: Vec<u8> = match tensor.data() {
        Data::F32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Data::I64(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Data::Bool(v) => v.iter().map(|&x| u8::from(x)).collect(),
    };
    TensorProto {
        dims: tensor.shape().iter().map(|&d| d as i64).collect(),
        data_type: Some(onnx_type(tensor.dtype())),
        name: Some(name.to_owned()),
        raw_data: Some(raw.into()),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::OnnxModel;
    use crate::op::{Op, Unary};

    #[test]
    fn names_are_distinct() {
        let mut names = Names::new(&["logits".to_owned()]);
        let wanted = ["a", "a_2", "a", "logits", "a"];
        let given = wanted.map(|name| names.distinct(name));
        assert_eq!(given, ["a", "a_2", "a_3", "logits_2", "a_4"]);
    }

    /// An input that is called as values are, and two nodes of one name.
    #[test]
    fn a_graph_may_use_any_names() {
        let mut graph = Graph::new();
        let x = graph.add_input("v1", TensorType::new(DType::F32, [1, 2]));
        let mut y = x;
        for f in [Unary::Relu, Unary::Tanh] {
            y = graph.push("f", Op::Unary(f), &[y]).unwrap();
        }
        graph.set_outputs(vec![y]);
        let model = OnnxModel::from_bytes(graph.to_onnx().unwrap()).unwrap();
        assert_eq!(model.inputs()[0].name, "v1");
        let again = model.specialise(&crate::Specialisation::default()).unwrap();
        let names: Vec<&str> = again.nodes().iter().map(|n| n.name.as_str()).collect();
        assert_eq!(names, ["f", "f_2"]);
        let error = graph.to_onnx_with(&["v1".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("both called `v1`"), "{error}");
        let error = graph.to_onnx_with(&[]).unwrap_err();
        assert_eq!(error.to_string(), "0 names for 1 outputs");
        graph.set_outputs(vec![y, x]);
        let error = graph.to_onnx_with(&["y", "y"].map(str::to_owned));
        let error = error.unwrap_err().to_string();
        assert_eq!(error, "two outputs are both called `y`");
    }
}
