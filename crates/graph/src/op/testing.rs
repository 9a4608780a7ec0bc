//! A node as a test writes it down: attributes and inputs, imported into a graph of its own.

use std::borrow::Cow;

use bytes::Bytes;

use super::{Op, import_of, import_of_domain};
use crate::builder::{Builder, NodeContext, Stored};
use crate::error::OpError;
use crate::graph::{Graph, ValueId};
use crate::import::Specialisation;
use crate::model::OnnxModel;
use crate::onnx::attributes::Attributes;
use crate::onnx::proto::{AttributeProto, attribute_type};
use crate::tensor::{DType, Data, Tensor, TensorType};

/// An ONNX node under test.
pub(crate) struct Case {
    op_type: &'static str,
    opset: i64,
    graph: Graph,
    stored: Stored,
    attributes: Vec<AttributeProto>,
    inputs: Vec<Option<ValueId>>,
    used_outputs: Vec<bool>,
}

/// What the node became.
pub(crate) struct Imported {
    pub(crate) graph: Graph,
    pub(crate) outputs: Vec<ValueId>,
}

impl Case {
    /// A node with one output.
    pub(crate) fn new(op_type: &'static str, opset: i64) -> Self {
        Case {
            op_type,
            opset,
            graph: Graph::new(),
            stored: Stored::default(),
            attributes: Vec::new(),
            inputs: Vec::new(),
            used_outputs: vec![true],
        }
    }

    /// The next argument: a value that depends on the model's input.
    pub(crate) fn input(mut self, dtype: DType, shape: &[usize]) -> Self {
        let id = self.graph.add_input("x", TensorType::new(dtype, shape));
        self.inputs.push(Some(id));
        self
    }

    /// The next argument: a constant.
    pub(crate) fn constant(mut self, tensor: Tensor) -> Self {
        let id = self.graph.add_constant("c", tensor);
        self.inputs.push(Some(id));
        self
    }

    /// The next argument: a constant that the file stores in the given ONNX element type.
    pub(crate) fn stored(mut self, onnx: i32, tensor: Tensor) -> Self {
        let id = self.graph.add_constant("c", tensor);
        self.stored.types.insert(id, onnx);
        self.inputs.push(Some(id));
        self
    }

    /// The next argument, left out.
    pub(crate) fn absent(mut self) -> Self {
        self.inputs.push(None);
        self
    }

    /// How many outputs are declared; all of them are used.
    pub(crate) fn outputs(mut self, number: usize) -> Self {
        self.used_outputs = vec![true; number];
        self
    }

    /// Two outputs, of which only the second one is used.
    pub(crate) fn unused(mut self) -> Self {
        self.used_outputs = vec![false, true];
        self
    }

    pub(crate) fn int(self, name: &str, value: i64) -> Self {
        self.attribute(name, attribute_type::INT, |a| a.i = Some(value))
    }

    pub(crate) fn ints(self, name: &str, values: &[i64]) -> Self {
        self.attribute(name, attribute_type::INTS, |a| a.ints = values.to_vec())
    }

    pub(crate) fn float(self, name: &str, value: f32) -> Self {
        self.attribute(name, attribute_type::FLOAT, |a| a.f = Some(value))
    }

    pub(crate) fn floats(self, name: &str, values: &[f32]) -> Self {
        self.attribute(name, attribute_type::FLOATS, |a| a.floats = values.to_vec())
    }

    pub(crate) fn string(self, name: &str, value: &str) -> Self {
        let bytes = Bytes::copy_from_slice(value.as_bytes());
        self.attribute(name, attribute_type::STRING, |a| a.s = Some(bytes))
    }

    pub(crate) fn strings(self, name: &str, values: &[&str]) -> Self {
        let list = values.iter().map(|v| Bytes::copy_from_slice(v.as_bytes()));
        let list = list.collect();
        self.attribute(name, attribute_type::STRINGS, |a| a.strings = list)
    }

    fn attribute(mut self, name: &str, kind: i32, set: impl FnOnce(&mut AttributeProto)) -> Self {
        let mut attribute = AttributeProto {
            name: Some(name.to_owned()),
            r#type: Some(kind),
            ..Default::default()
        };
        set(&mut attribute);
        self.attributes.push(attribute);
        self
    }

    /// Imports the node as the model reader does.
    pub(crate) fn import(mut self) -> Result<Imported, OpError> {
        let attributes = self.attributes.into_iter().map(Cow::Owned).collect();
        let node = NodeContext {
            op_type: self.op_type,
            opset: self.opset,
            attributes: Attributes::new(attributes),
            inputs: self.inputs,
            used_outputs: self.used_outputs,
        };
        let mut builder = Builder {
            graph: &mut self.graph,
            stored: &mut self.stored,
            name: "node",
        };
        let import = ["ai.onnx.ml", "com.microsoft"]
            .iter()
            .find_map(|domain| import_of_domain(domain, self.op_type));
        let import = import_of(self.op_type).or(import);
        let import = import.expect("the operator is known");
        let outputs = import(&node, &mut builder)?;
        node.attributes.check_all_read()?;
        Ok(Imported {
            graph: self.graph,
            outputs,
        })
    }

    /// The message of the error that the import must give.
    pub(crate) fn error(self) -> String {
        match self.import() {
            Ok(_) => panic!("the node was imported"),
            Err(error) => error.to_string(),
        }
    }

    /// The first output, which must be a constant.
    pub(crate) fn value(self) -> Tensor {
        let imported = self.import().unwrap();
        let constant = imported.graph.constant(imported.outputs[0]);
        constant.expect("the output is a constant").as_ref().clone()
    }
}

impl Imported {
    /// The canonical operators, in order.
    pub(crate) fn ops(&self) -> Vec<&Op> {
        self.graph.nodes().iter().map(|n| &n.op).collect()
    }

    /// The type of the first output.
    pub(crate) fn ty(&self) -> &TensorType {
        &self.graph.value(self.outputs[0]).ty
    }
}

/// Asserts that an operator is the same after it is written as ONNX and read again.
#[track_caller]
pub(crate) fn assert_round_trip(op: Op, inputs: &[TensorType]) {
    let mut graph = Graph::new();
    let inputs: Vec<ValueId> = inputs
        .iter()
        .enumerate()
        .map(|(i, ty)| graph.add_input(format!("x{i}"), ty.clone()))
        .collect();
    let output = graph.push("node", op.clone(), &inputs).unwrap();
    graph.set_outputs(vec![output]);
    let model = OnnxModel::from_bytes(graph.to_onnx().unwrap()).unwrap();
    let again = model.specialise(&Specialisation::default()).unwrap();
    let ops: Vec<&Op> = again.nodes().iter().map(|n| &n.op).collect();
    assert_eq!(ops, [&op]);
}

/// A tensor of numbers.
pub(crate) fn floats(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::new(shape, Data::F32(values.to_vec())).unwrap()
}

/// A tensor of integers.
pub(crate) fn ints(shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::new(shape, Data::I64(values.to_vec())).unwrap()
}

/// A tensor of truth values.
pub(crate) fn bools(shape: &[usize], values: &[bool]) -> Tensor {
    Tensor::new(shape, Data::Bool(values.to_vec())).unwrap()
}

/// Asserts that two tensors agree to `tolerance`, absolute and relative to the larger one.
#[track_caller]
pub(crate) fn assert_close(got: &Tensor, expected: &Tensor, tolerance: f32) {
    assert_eq!(got.ty(), expected.ty());
    for (i, (a, b)) in got.to_f32().iter().zip(expected.to_f32()).enumerate() {
        let close = (a - b).abs() <= tolerance * (1.0 + b.abs()) || a.to_bits() == b.to_bits();
        assert!(close, "element {i}: got {a}, expected {b}");
    }
}
