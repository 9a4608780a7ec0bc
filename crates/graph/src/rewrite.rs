//! Making a graph from another one.

use crate::error::OpError;
use crate::graph::{Graph, Node, ValueId};
use crate::op::Op;

impl Graph {
    /// The same graph with the plain operators of its composite ones in their place, where
    /// `lower` says so.
    pub fn lowered(&self, lower: impl Fn(&Node) -> bool) -> Result<Graph, OpError> {
        let mut rewriter = Rewriter::new(self);
        for node in self.nodes() {
            if let Op::Composite(composite) = &node.op
                && lower(node)
            {
                let inputs = node
                    .inputs
                    .iter()
                    .map(|&i| rewriter.get(i))
                    .collect::<Result<Vec<_>, _>>()?;
                let output = composite.lower(rewriter.graph(), &node.name, &inputs)?;
                rewriter.set(node.output, output);
            } else {
                rewriter.copy(node)?;
            }
        }
        rewriter.finish()
    }
}

/// A graph under construction that follows another one, node by node: some copied, some replaced.
///
/// ```
/// use npcov_graph::{DType, Graph, Op, Rewriter, TensorType, op::Unary};
///
/// let mut graph = Graph::new();
/// let x = graph.add_input("x", TensorType::new(DType::F32, [1, 3]));
/// let y = graph.push("relu", Op::Unary(Unary::Relu), &[x])?;
/// graph.set_outputs(vec![y]);
///
/// // Every ReLU becomes a hyperbolic tangent.
/// let mut rewriter = Rewriter::new(&graph);
/// for node in graph.nodes() {
///     match node.op {
///         Op::Unary(Unary::Relu) => rewriter.replace(node, Op::Unary(Unary::Tanh), &node.inputs)?,
///         _ => rewriter.copy(node)?,
///     };
/// }
/// assert_eq!(rewriter.finish()?.nodes()[0].op.name(), "Tanh");
/// # Ok::<(), npcov_graph::OpError>(())
/// ```
pub struct Rewriter<'g> {
    from: &'g Graph,
    to: Graph,
    map: Vec<Option<ValueId>>,
}

impl<'g> Rewriter<'g> {
    /// Starts with the inputs of `from`.
    pub fn new(from: &'g Graph) -> Self {
        let mut rewriter = Rewriter {
            from,
            to: Graph::new(),
            map: vec![None; from.values().len()],
        };
        for &input in from.inputs() {
            let value = from.value(input);
            let copy = rewriter.to.add_input(value.name.clone(), value.ty.clone());
            rewriter.map[input.index()] = Some(copy);
        }
        rewriter
    }

    /// The graph so far, to add to.
    pub fn graph(&mut self) -> &mut Graph {
        &mut self.to
    }

    /// What has become of a value; constants are copied when they are first asked for.
    pub fn get(&mut self, id: ValueId) -> Result<ValueId, OpError> {
        let value = self
            .from
            .values()
            .get(id.index())
            .ok_or_else(|| OpError::invalid("a value of another graph is asked for"))?;
        let place = &mut self.map[id.index()];
        if place.is_none()
            && let Some(tensor) = &value.constant
        {
            *place = Some(self.to.add_constant(value.name.clone(), tensor.clone()));
        }
        place.ok_or_else(|| {
            OpError::invalid(format!("`{}` is used before it is computed", value.name))
        })
    }

    /// Copies a node.
    pub fn copy(&mut self, node: &Node) -> Result<ValueId, OpError> {
        self.replace(node, node.op.clone(), &node.inputs)
    }

    /// Puts another operator, on values of the first graph, in the place of a node.
    pub fn replace(&mut self, node: &Node, op: Op, inputs: &[ValueId]) -> Result<ValueId, OpError> {
        let inputs = inputs
            .iter()
            .map(|&i| self.get(i))
            .collect::<Result<Vec<_>, _>>()?;
        let output = self.to.push(node.name.clone(), op, &inputs)?;
        self.set(node.output, output);
        Ok(output)
    }

    /// Says what has become of a value; it keeps its name.
    pub fn set(&mut self, old: ValueId, new: ValueId) {
        self.to.rename(new, self.from.value(old).name.clone());
        self.map[old.index()] = Some(new);
    }

    /// The new graph, with the outputs of the first one, without what they do not need.
    pub fn finish(mut self) -> Result<Graph, OpError> {
        let outputs = self
            .from
            .outputs()
            .iter()
            .map(|&o| self.get(o))
            .collect::<Result<Vec<_>, _>>()?;
        self.to.set_outputs(outputs);
        Ok(self.to.pruned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Unary;
    use crate::tensor::{DType, TensorType};

    #[test]
    fn values_that_are_not_there_are_errors() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1]));
        let y = graph.push("y", Op::Unary(Unary::Relu), &[x]).unwrap();
        let error = |result: Result<ValueId, OpError>| result.unwrap_err().to_string();
        let late = error(Rewriter::new(&graph).get(y));
        assert_eq!(late, "`y` is used before it is computed");
        let foreign = error(Rewriter::new(&Graph::new()).get(y));
        assert_eq!(foreign, "a value of another graph is asked for");
    }
}
