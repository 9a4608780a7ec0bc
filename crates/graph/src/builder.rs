//! What an operator's `import` works with: the ONNX node, and the graph it appends to.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::OpError;
use crate::graph::{Graph, ValueId};
use crate::onnx::attributes::Attributes;
use crate::onnx::proto::data_type;
use crate::op::{Binary, Op, Unary};
use crate::tensor::{DType, Tensor};

/// An ONNX node whose inputs are values of the graph.
pub(crate) struct NodeContext<'a> {
    /// Operator name.
    pub(crate) op_type: &'a str,
    /// Version of the operator set the node is written in.
    pub(crate) opset: i64,
    /// Attributes; those nobody asks for are an error.
    pub(crate) attributes: Attributes<'a>,
    /// Arguments, `None` where an optional one is left out.
    pub(crate) inputs: Vec<Option<ValueId>>,
    /// For each declared output, whether anything uses it.
    pub(crate) used_outputs: Vec<bool>,
}

impl NodeContext<'_> {
    /// The argument at `index`.
    pub(crate) fn input(&self, index: usize) -> Result<ValueId, OpError> {
        self.optional(index)
            .ok_or_else(|| OpError::invalid(format!("input {index} is missing")))
    }

    /// The argument at `index`, unless it is left out.
    pub(crate) fn optional(&self, index: usize) -> Option<ValueId> {
        self.inputs.get(index).copied().flatten()
    }

    /// All arguments of an operator that takes any number, at least one.
    pub(crate) fn variadic(&self) -> Result<Vec<ValueId>, OpError> {
        if self.inputs.is_empty() {
            return Err(OpError::invalid("it has no input"));
        }
        (0..self.inputs.len()).map(|i| self.input(i)).collect()
    }

    /// The same node with other arguments, as the import of another operator sees it. What that one
    /// asks of attributes counts as asked.
    pub(crate) fn with<'b>(
        &'b self,
        op_type: &'b str,
        inputs: Vec<Option<ValueId>>,
    ) -> NodeContext<'b> {
        NodeContext {
            op_type,
            opset: self.opset,
            attributes: self.attributes.shared(),
            inputs,
            used_outputs: self.used_outputs.clone(),
        }
    }

    /// An error when anything uses an output after the first `supported` ones.
    pub(crate) fn only_outputs(&self, supported: usize) -> Result<(), OpError> {
        match self
            .used_outputs
            .iter()
            .skip(supported)
            .position(|&used| used)
        {
            Some(extra) => Err(OpError::unsupported(format!(
                "output {} is used",
                supported + extra
            ))),
            None => Ok(()),
        }
    }
}

/// What is known of values beside their type in the graph.
#[derive(Default)]
pub(crate) struct Stored {
    /// The element type, as an ONNX number, that the file stores a value in: a value's own type
    /// only says that it is an integer, but the limits of a quantised one depend on its width.
    pub(crate) types: HashMap<ValueId, i32>,
    /// The numbers that quantised integers stand for.
    pub(crate) numbers: HashMap<ValueId, Quantised>,
    /// Of numbers that were dequantised, what they are in steps.
    pub(crate) dequantised: HashMap<ValueId, Steps>,
    /// The same of sums of products of such numbers.
    pub(crate) sums: HashMap<ValueId, Steps>,
}

/// Numbers that are whole multiples of a scale: `number = steps * scale`.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    /// Whole numbers, as floats.
    pub(crate) steps: ValueId,
    /// What each of them is worth, in a shape that broadcasts.
    pub(crate) scale: ValueId,
}

/// What quantised integers stand for: `number = (integer - zero) * scale`.
#[derive(Clone, Copy)]
pub(crate) struct Quantised {
    /// The numbers.
    pub(crate) number: ValueId,
    /// One step of the integers, a scalar.
    pub(crate) scale: ValueId,
    /// The integer that stands for zero, as a floating-point scalar; `None` is 0.
    pub(crate) zero: Option<ValueId>,
}

/// The graph under construction, as one node's import sees it.
pub(crate) struct Builder<'a> {
    pub(crate) graph: &'a mut Graph,
    pub(crate) stored: &'a mut Stored,
    /// Name of the node being imported.
    pub(crate) name: &'a str,
}

impl Builder<'_> {
    /// Extent of each axis.
    pub(crate) fn shape(&self, value: ValueId) -> Vec<usize> {
        self.graph.shape(value).to_vec()
    }

    /// Number of axes.
    pub(crate) fn rank(&self, value: ValueId) -> usize {
        self.graph.shape(value).len()
    }

    /// Element type.
    pub(crate) fn dtype(&self, value: ValueId) -> DType {
        self.graph.value(value).ty.dtype
    }

    /// The ONNX element type of an input, a stored constant or the result of a cast.
    pub(crate) fn stored_type(&self, value: ValueId) -> Option<i32> {
        let stored = self.stored.types.get(&value).copied();
        stored.filter(|&onnx| onnx != data_type::UNDEFINED)
    }

    /// Says that a value is of an ONNX element type. A value that two types are claimed for (a
    /// cast between integers is no node) has none from then on.
    pub(crate) fn store_type(&mut self, value: ValueId, onnx: i32) {
        let stored = self.stored.types.entry(value).or_insert(onnx);
        if *stored != onnx {
            *stored = data_type::UNDEFINED;
        }
    }

    /// The elements of a value that does not depend on the input.
    pub(crate) fn constant(&self, value: ValueId) -> Option<Arc<Tensor>> {
        self.graph.constant(value).cloned()
    }

    /// The elements of an argument that must be constant for shapes to be static.
    pub(crate) fn required_constant(
        &self,
        value: ValueId,
        what: &str,
    ) -> Result<Arc<Tensor>, OpError> {
        self.constant(value)
            .ok_or_else(|| OpError::unsupported(format!("`{what}` depends on the model's input")))
    }

    /// Constant integers, such as axes or a shape.
    pub(crate) fn ints(&self, value: ValueId, what: &str) -> Result<Vec<i64>, OpError> {
        let tensor = self.required_constant(value, what)?;
        tensor
            .as_i64()
            .map(<[i64]>::to_vec)
            .ok_or_else(|| OpError::invalid(format!("`{what}` must be integers")))
    }

    /// Constant numbers, such as scales.
    pub(crate) fn floats(&self, value: ValueId, what: &str) -> Result<Vec<f32>, OpError> {
        Ok(self.required_constant(value, what)?.to_f32())
    }

    /// A constant scalar, such as a bound.
    pub(crate) fn float(&self, value: ValueId, what: &str) -> Result<f32, OpError> {
        match self.floats(value, what)?[..] {
            [x] => Ok(x),
            _ => Err(OpError::invalid(format!("`{what}` must be a scalar"))),
        }
    }

    /// Adds a constant that is made for the node; see [`Builder::make_room`].
    pub(crate) fn tensor(&mut self, tensor: Tensor) -> ValueId {
        let name = format!("{}.constant", self.name);
        self.graph.add_made(name, tensor)
    }

    /// An error when a constant of so many elements is out of proportion to the file: to be asked
    /// before one is made whose size the file only claims.
    pub(crate) fn make_room(&mut self, elements: usize) -> Result<(), OpError> {
        match self.graph.make_room(elements) {
            true => Ok(()),
            false => Err(OpError::unsupported(format!(
                "a constant of {elements} elements"
            ))),
        }
    }

    /// Appends a canonical operator.
    pub(crate) fn push(&mut self, op: Op, inputs: &[ValueId]) -> Result<ValueId, OpError> {
        self.graph.push(self.name, op, inputs)
    }

    /// Adds a constant number.
    pub(crate) fn scalar(&mut self, value: f32) -> ValueId {
        self.tensor(Tensor::scalar(value))
    }

    /// Appends a function of each element.
    pub(crate) fn unary(&mut self, op: Unary, x: ValueId) -> Result<ValueId, OpError> {
        self.push(Op::Unary(op), &[x])
    }

    /// Appends a function of pairs of elements.
    pub(crate) fn binary(
        &mut self,
        op: Binary,
        a: ValueId,
        b: ValueId,
    ) -> Result<ValueId, OpError> {
        self.push(Op::Binary(op), &[a, b])
    }

    /// Appends a cast, unless the type is already the wanted one.
    pub(crate) fn cast(&mut self, value: ValueId, to: DType) -> Result<ValueId, OpError> {
        if self.dtype(value) == to {
            return Ok(value);
        }
        self.push(Op::Cast(to), &[value])
    }

    /// Appends a reshape, unless the shape is already the wanted one.
    pub(crate) fn reshape(
        &mut self,
        value: ValueId,
        shape: impl Into<Vec<usize>>,
    ) -> Result<ValueId, OpError> {
        let shape = shape.into();
        if self.graph.shape(value) == shape {
            return Ok(value);
        }
        self.push(Op::Reshape(shape), &[value])
    }
}

/// An axis counted from the end when negative, as a position below `rank`.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize, OpError> {
    let position = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(position)
        .ok()
        .filter(|&a| a < rank)
        .ok_or_else(|| OpError::invalid(format!("axis {axis} does not exist in {rank} axes")))
}

/// Several axes; an axis named twice is an error.
pub(crate) fn axes(list: &[i64], rank: usize) -> Result<Vec<usize>, OpError> {
    let mut axes = Vec::with_capacity(list.len());
    for &a in list {
        let position = axis(a, rank)?;
        if axes.contains(&position) {
            return Err(OpError::invalid(format!("axis {a} is named twice")));
        }
        axes.push(position);
    }
    Ok(axes)
}
