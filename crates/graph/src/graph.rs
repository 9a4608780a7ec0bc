//! The graph: canonical operators on values of static shape.

use std::sync::Arc;

use crate::error::OpError;
use crate::op::Op;
use crate::tensor::{ShapeDisplay, Tensor, TensorType, element_count};

/// The elements of constants that may be made while a graph is built, beside [`MADE_PER_GIVEN`]
/// for each that is given. A few bytes of a file can ask for terabytes (Expand, Tile, Pad), in one
/// node or in many.
const MADE: usize = 1 << 26;

/// Weights are cast, dequantised, transposed, reshaped: a few times each.
const MADE_PER_GIVEN: usize = 8;

/// A value of a [`Graph`]: an input, a constant or the output of a node.
///
/// It is a position, like that of an element in a slice: a graph that has fewer values than the one
/// it came from panics when it is asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub(crate) u32);

impl ValueId {
    /// The value's position in [`Graph::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is known of a value.
#[derive(Clone, Debug)]
pub struct Value {
    /// Name in the ONNX file, or one derived from the node that computes it.
    pub name: String,
    /// Element type and shape.
    pub ty: TensorType,
    /// The elements, when they do not depend on the input.
    pub constant: Option<Arc<Tensor>>,
    /// The node that computes it, as a position in [`Graph::nodes`].
    pub producer: Option<usize>,
}

/// An operator applied to values.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name of the ONNX node it comes from.
    pub name: String,
    /// What it computes.
    pub op: Op,
    /// Its arguments.
    pub inputs: Vec<ValueId>,
    /// Its result.
    pub output: ValueId,
}

/// A model, or a program made from one, for one batch size: every shape is known, what does not
/// depend on the input is a constant, and nodes stand in an order in which they can be computed.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    values: Vec<Value>,
    nodes: Vec<Node>,
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    /// Elements of the constants that were given.
    given: usize,
    /// Elements of the constants that were made.
    made: usize,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Self {
        Graph::default()
    }

    /// All values; a [`ValueId`] is a position in it.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// All nodes, each after those whose results it uses.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The values that a caller provides.
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// The values that a caller receives.
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// What is known of a value.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// Extent of each axis of a value.
    pub fn shape(&self, id: ValueId) -> &[usize] {
        &self.value(id).ty.shape
    }

    /// The elements of a value that does not depend on the input.
    pub fn constant(&self, id: ValueId) -> Option<&Arc<Tensor>> {
        self.value(id).constant.as_ref()
    }

    /// The node that computes a value.
    pub fn producer(&self, id: ValueId) -> Option<&Node> {
        self.value(id).producer.map(|i| &self.nodes[i])
    }

    /// The positions of the nodes that use each value, in order, by [`ValueId::index`].
    pub fn consumers(&self) -> Vec<Vec<usize>> {
        let mut consumers = vec![Vec::new(); self.values.len()];
        for (i, node) in self.nodes.iter().enumerate() {
            for input in &node.inputs {
                let list: &mut Vec<usize> = &mut consumers[input.index()];
                if list.last() != Some(&i) {
                    list.push(i);
                }
            }
        }
        consumers
    }

    /// Adds an input.
    pub fn add_input(&mut self, name: impl Into<String>, ty: TensorType) -> ValueId {
        let id = self.add_value(name.into(), ty, None);
        self.inputs.push(id);
        id
    }

    /// Adds a constant.
    pub fn add_constant(
        &mut self,
        name: impl Into<String>,
        tensor: impl Into<Arc<Tensor>>,
    ) -> ValueId {
        let tensor = tensor.into();
        self.given = self.given.saturating_add(tensor.data().len());
        self.add_value(name.into(), tensor.ty(), Some(tensor))
    }

    /// Adds a constant that was made, with [`Graph::make_room`] where that can be large.
    pub fn add_made(&mut self, name: impl Into<String>, tensor: Tensor) -> ValueId {
        self.add_value(name.into(), tensor.ty(), Some(tensor.into()))
    }

    /// Whether a constant of so many elements may be made, which is taken as done. To be asked before it is.
    pub fn make_room(&mut self, elements: usize) -> bool {
        let made = self.made.saturating_add(elements);
        let allowed = self.given.saturating_mul(MADE_PER_GIVEN);
        let fits = made <= allowed.saturating_add(MADE);
        if fits {
            self.made = made;
        }
        fits
    }

    /// Appends a node and returns its output; on constants it is computed at once, where
    /// [`Op::eval`] can.
    pub fn push(
        &mut self,
        name: impl Into<String>,
        op: Op,
        inputs: &[ValueId],
    ) -> Result<ValueId, OpError> {
        let name = name.into();
        let types: Vec<&TensorType> = inputs
            .iter()
            .map(|i| Some(&self.values.get(i.index())?.ty))
            .collect::<Option<_>>()
            .ok_or_else(|| OpError::invalid("an input is a value of another graph"))?;
        let ty = op.infer(&types)?;
        let numel = element_count(&ty.shape).ok_or_else(|| {
            let shape = ShapeDisplay(&ty.shape);
            OpError::invalid(format!("the result of shape `{shape}` is too large"))
        })?;
        let is_constant = |&i| self.constant(i).is_some();
        if inputs.iter().all(is_constant) && self.make_room(numel) {
            let constant = |&i| self.constant(i).map(Arc::as_ref);
            let constants: Option<Vec<&Tensor>> = inputs.iter().map(constant).collect();
            if let Some(tensor) = constants.and_then(|c| op.eval(&c, &ty)) {
                return Ok(self.add_made(name, tensor));
            }
        }
        let output = self.add_value(name.clone(), ty, None);
        self.values[output.index()].producer = Some(self.nodes.len());
        self.nodes.push(Node {
            name,
            op,
            inputs: inputs.to_vec(),
            output,
        });
        Ok(output)
    }

    /// Gives a value another name.
    pub fn rename(&mut self, id: ValueId, name: impl Into<String>) {
        self.values[id.index()].name = name.into();
    }

    /// Sets what a caller receives.
    pub fn set_outputs(&mut self, outputs: Vec<ValueId>) {
        self.outputs = outputs;
    }

    /// The same graph without the nodes and constants that no output needs. Inputs stay.
    #[must_use]
    pub fn pruned(&self) -> Graph {
        let mut needed = vec![false; self.values.len()];
        for output in &self.outputs {
            needed[output.index()] = true;
        }
        for node in self.nodes.iter().rev() {
            if needed[node.output.index()] {
                for input in &node.inputs {
                    needed[input.index()] = true;
                }
            }
        }
        for input in &self.inputs {
            needed[input.index()] = true;
        }
        let mut graph = Graph::new();
        let mut map = vec![ValueId(u32::MAX); self.values.len()];
        for (i, value) in self.values.iter().enumerate() {
            if needed[i] {
                map[i] =
                    graph.add_value(value.name.clone(), value.ty.clone(), value.constant.clone());
            }
        }
        for node in self.nodes.iter().filter(|n| needed[n.output.index()]) {
            let output = map[node.output.index()];
            graph.values[output.index()].producer = Some(graph.nodes.len());
            graph.nodes.push(Node {
                name: node.name.clone(),
                op: node.op.clone(),
                inputs: node.inputs.iter().map(|i| map[i.index()]).collect(),
                output,
            });
        }
        graph.inputs = self.inputs.iter().map(|i| map[i.index()]).collect();
        graph.outputs = self.outputs.iter().map(|i| map[i.index()]).collect();
        graph
    }

    fn add_value(
        &mut self,
        name: String,
        ty: TensorType,
        constant: Option<Arc<Tensor>>,
    ) -> ValueId {
        let id = ValueId(self.values.len() as u32);
        self.values.push(Value {
            name,
            ty,
            constant,
            producer: None,
        });
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Binary;
    use crate::tensor::{DType, Data};

    fn add(graph: &mut Graph, a: ValueId, b: ValueId) -> Result<ValueId, OpError> {
        graph.push("sum", Op::Binary(Binary::Add), &[a, b])
    }

    #[test]
    fn nodes_on_constants_are_computed() {
        let mut graph = Graph::new();
        let a = graph.add_constant("a", Tensor::scalar(1.0));
        let sum = add(&mut graph, a, a).unwrap();
        assert_eq!(graph.constant(sum).unwrap().as_ref(), &Tensor::scalar(2.0));
        assert!(graph.nodes().is_empty());
    }

    #[test]
    fn results_too_large_for_memory_are_errors() {
        let mut graph = Graph::new();
        let a = graph.add_input("a", TensorType::new(DType::F32, [1 << 40, 1]));
        let b = graph.add_input("b", TensorType::new(DType::F32, [1, 1 << 40]));
        assert_eq!(
            add(&mut graph, a, b).unwrap_err().to_string(),
            "the result of shape `1099511627776x1099511627776` is too large"
        );
    }

    #[test]
    fn large_results_are_left_to_the_engine() {
        let mut graph = Graph::new();
        let side = 1 << 14;
        let zeros = |shape: [usize; 2]| Tensor::new(shape, Data::F32(vec![0.0; side])).unwrap();
        let a = graph.add_constant("a", zeros([side, 1]));
        let b = graph.add_constant("b", zeros([1, side]));
        let sum = add(&mut graph, a, b).unwrap();
        assert!(graph.constant(sum).is_none());
        assert_eq!(graph.nodes().len(), 1);
    }

    #[test]
    fn many_nodes_get_no_more_room_than_one() {
        let mut graph = Graph::new();
        let one = graph.add_constant("one", Tensor::scalar(1.0));
        let is_folded = |graph: &mut Graph| {
            let wide = graph.push("wide", Op::Expand(vec![16]), &[one]).unwrap();
            graph.constant(wide).is_some()
        };
        assert!(is_folded(&mut graph));
        assert!(graph.make_room(MADE - 16));
        assert!(!is_folded(&mut graph));
        // What a file really holds brings room with it.
        graph.add_constant("two", Tensor::vector(vec![0.0; 2]));
        assert!(is_folded(&mut graph));
        assert!(!is_folded(&mut graph));
    }

    #[test]
    fn values_of_a_larger_graph_are_no_inputs() {
        let mut other = Graph::new();
        let mut x = other.add_input("x", TensorType::new(DType::F32, [2]));
        x = add(&mut other, x, x).unwrap();
        let error = add(&mut Graph::new(), x, x).unwrap_err();
        assert_eq!(error.to_string(), "an input is a value of another graph");
    }

    #[test]
    fn pruning_keeps_what_outputs_need() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [2]));
        let one = graph.add_constant("one", Tensor::scalar(1.0));
        let two = graph.add_constant("two", Tensor::scalar(2.0));
        let kept = add(&mut graph, x, one).unwrap();
        add(&mut graph, x, two).unwrap();
        graph.set_outputs(vec![kept]);
        let pruned = graph.pruned();
        assert_eq!((pruned.nodes().len(), pruned.values().len()), (1, 3));
        let output = pruned.outputs()[0];
        let producer = pruned.producer(output).unwrap();
        assert_eq!(producer.inputs, [pruned.inputs()[0], ValueId(1)]);
        assert_eq!(pruned.value(producer.inputs[1]).name, "one");
    }
}
