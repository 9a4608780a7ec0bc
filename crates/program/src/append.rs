//! Adding nodes to a graph, in as few words as formulas have.

use npcov_graph::op::{Binary, Composite, Reduce, ReduceKind, Unary};
use npcov_graph::{Data, Graph, Op, OpError, Tensor, TensorType, ValueId};

/// A graph that nodes are appended to, all under one name.
pub(crate) struct Append<'g> {
    pub(crate) graph: &'g mut Graph,
    name: String,
}

type Result = std::result::Result<ValueId, OpError>;

impl<'g> Append<'g> {
    pub(crate) fn new(graph: &'g mut Graph, name: impl Into<String>) -> Append<'g> {
        Append {
            graph,
            name: name.into(),
        }
    }

    /// Any operator.
    pub(crate) fn op(&mut self, op: Op, inputs: &[ValueId]) -> Result {
        self.graph.push(self.name.clone(), op, inputs)
    }

    /// The type of a composite operator's result, and the check that the inputs fit. Its parts rely
    /// on the check, and whoever lowers it need not have put it into a graph.
    pub(crate) fn infer(
        &self,
        op: &impl Composite,
        inputs: &[ValueId],
    ) -> std::result::Result<TensorType, OpError> {
        let ty = |&value: &ValueId| &self.graph.value(value).ty;
        op.infer(&inputs.iter().map(ty).collect::<Vec<_>>())
    }

    /// The plain operators of a composite one.
    pub(crate) fn lowered(&mut self, op: &impl Composite, inputs: &[ValueId]) -> Result {
        op.lower(self.graph, &self.name, inputs)
    }

    pub(crate) fn shape(&self, value: ValueId) -> Vec<usize> {
        self.graph.shape(value).to_vec()
    }

    pub(crate) fn scalar(&mut self, x: f32) -> ValueId {
        self.graph
            .add_constant(self.name.clone(), Tensor::scalar(x))
    }

    pub(crate) fn constant(&mut self, tensor: Tensor) -> ValueId {
        self.graph.add_constant(self.name.clone(), tensor)
    }

    /// A tensor with the same number everywhere.
    pub(crate) fn filled(&mut self, shape: &[usize], x: f32) -> Result {
        let numbers = self.repeated(x, shape)?;
        self.made(shape, numbers)
    }

    /// A constant of numbers that [`Append::repeated`] gave.
    pub(crate) fn made(&mut self, shape: &[usize], numbers: Vec<f32>) -> Result {
        let tensor = Tensor::new(shape, Data::F32(numbers)).ok_or_else(too_many)?;
        Ok(self.graph.add_made(self.name.clone(), tensor))
    }

    /// The same number for every element of a shape, unless they are out of proportion to the model.
    pub(crate) fn repeated(
        &mut self,
        x: f32,
        shape: &[usize],
    ) -> std::result::Result<Vec<f32>, OpError> {
        let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        let count = count.filter(|&count| self.graph.make_room(count));
        let count = count.ok_or_else(too_many)?;
        let mut numbers = Vec::new();
        numbers.try_reserve_exact(count).map_err(|_| too_many())?;
        numbers.resize(count, x);
        Ok(numbers)
    }

    pub(crate) fn unary(&mut self, f: Unary, x: ValueId) -> Result {
        self.op(Op::Unary(f), &[x])
    }

    pub(crate) fn binary(&mut self, f: Binary, a: ValueId, b: ValueId) -> Result {
        self.op(Op::Binary(f), &[a, b])
    }

    pub(crate) fn add(&mut self, a: ValueId, b: ValueId) -> Result {
        self.binary(Binary::Add, a, b)
    }

    pub(crate) fn sub(&mut self, a: ValueId, b: ValueId) -> Result {
        self.binary(Binary::Sub, a, b)
    }

    pub(crate) fn mul(&mut self, a: ValueId, b: ValueId) -> Result {
        self.binary(Binary::Mul, a, b)
    }

    pub(crate) fn div(&mut self, a: ValueId, b: ValueId) -> Result {
        self.binary(Binary::Div, a, b)
    }

    /// `x + number`.
    pub(crate) fn plus(&mut self, x: ValueId, number: f32) -> Result {
        let number = self.scalar(number);
        self.add(x, number)
    }

    /// `number * x`; nothing is appended for a factor of 1.
    pub(crate) fn times(&mut self, x: ValueId, number: f32) -> Result {
        if number == 1.0 {
            return Ok(x);
        }
        let number = self.scalar(number);
        self.mul(x, number)
    }

    /// `max(x, 0)`.
    pub(crate) fn positive(&mut self, x: ValueId) -> Result {
        self.unary(Unary::Relu, x)
    }

    /// `min(x, 0)`.
    pub(crate) fn negative(&mut self, x: ValueId) -> Result {
        let (min, max) = (f32::NEG_INFINITY, 0.0);
        self.unary(Unary::Clip { min, max }, x)
    }

    /// Where `x > 0`.
    pub(crate) fn is_positive(&mut self, x: ValueId) -> Result {
        let zero = self.scalar(0.0);
        self.binary(Binary::Greater, x, zero)
    }

    /// Where `x < 0`.
    pub(crate) fn is_negative(&mut self, x: ValueId) -> Result {
        let zero = self.scalar(0.0);
        self.binary(Binary::Less, x, zero)
    }

    /// `a` where `condition` holds, else `b`.
    pub(crate) fn choose(&mut self, condition: ValueId, a: ValueId, b: ValueId) -> Result {
        self.op(Op::Where, &[condition, a, b])
    }

    /// `x` where `condition` holds, else 0.
    pub(crate) fn keep(&mut self, condition: ValueId, x: ValueId) -> Result {
        let zero = self.scalar(0.0);
        self.choose(condition, x, zero)
    }

    /// The same elements under another shape; nothing is appended when it has it.
    pub(crate) fn reshape(&mut self, x: ValueId, shape: &[usize]) -> Result {
        match self.graph.shape(x) == shape {
            true => Ok(x),
            false => self.op(Op::Reshape(shape.to_vec()), &[x]),
        }
    }

    /// Axes in another order; nothing is appended for the order they have.
    pub(crate) fn transpose(&mut self, x: ValueId, perm: &[usize]) -> Result {
        match perm.iter().enumerate().all(|(i, &p)| i == p) {
            true => Ok(x),
            false => self.op(Op::Transpose(perm.to_vec()), &[x]),
        }
    }

    /// The sum over axes, which stay with an extent of 1.
    pub(crate) fn sum(&mut self, x: ValueId, axes: Vec<usize>) -> Result {
        if axes.is_empty() {
            return Ok(x);
        }
        let reduce = Reduce {
            kind: ReduceKind::Sum,
            axes,
            keep_dims: true,
        };
        self.op(Op::Reduce(reduce), &[x])
    }

    /// The adjoint of broadcasting a tensor of the given shape to that of `x`: what went to
    /// several places is added up.
    pub(crate) fn unbroadcast(&mut self, x: ValueId, shape: &[usize]) -> Result {
        let from = self.shape(x);
        let added = from.len().saturating_sub(shape.len());
        let axes = (0..from.len())
            .filter(|&a| from[a] != 1 && (a < added || shape[a - added] == 1))
            .collect();
        let sum = self.sum(x, axes)?;
        self.reshape(sum, shape)
    }

    /// A tensor broadcast to a shape; nothing is appended when it has it.
    pub(crate) fn expand(&mut self, x: ValueId, shape: &[usize]) -> Result {
        match self.graph.shape(x) == shape {
            true => Ok(x),
            false => self.op(Op::Expand(shape.to_vec()), &[x]),
        }
    }
}

fn too_many() -> OpError {
    OpError::invalid("a shape of too many elements")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_beyond_memory_are_errors() {
        let mut graph = Graph::new();
        let mut g = Append::new(&mut graph, "g");
        assert_eq!(g.repeated(2.0, &[2, 1]).unwrap(), [2.0, 2.0]);
        for shape in [&[usize::MAX, 2][..], &[1 << 31, 1 << 31], &[1 << 27]] {
            assert_eq!(g.repeated(0.0, shape), Err(too_many()), "{shape:?}");
        }
    }
}
