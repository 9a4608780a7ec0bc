//! Recurrent layers: LSTM, GRU and RNN.
//!
//! A direction of a layer is two operators. A [`Recurrence`] computes all states of all steps from
//! the sequence; [`States`] is those that later layers read, and changes nothing. On the way back,
//! the second one sends what arrives at the states through time, from each step to those before it, and
//! the first one shares what each step has then among its inputs: so what a step is worth in all is
//! that of a value of the graph, and can be looked at.

mod import;
mod unroll;

pub(super) use import::import_of;

use super::{Binary, Composite, CompositeOp, Op, Slice, Unary};
use crate::error::OpError;
use crate::graph::{Graph, Node, ValueId};
use crate::tensor::{DType, ShapeDisplay, TensorType};

/// The most steps of a sequence. Files get each as operators of its own, and so do gradients.
pub const MAX_STEPS: usize = 1024;

/// What is computed at each step from the inputs `x` and the state `h` of the step before.
///
/// `f`, `g` and `k` are the cell's activation functions, the logistic function and twice tanh unless
/// they are named; for each gate, `[x]` stands for `x W + h R` and its biases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// `i, o, f` are gates with peepholes, `C = f C' + i g[x]`, `H = o k(C)`. The order of gates is
    /// `i, o, f, c`.
    Lstm {
        /// Whether the gate `f` is `1 - i`.
        input_forget: bool,
    },
    /// `z, r` are gates, `H = (1 - z) g[x] + z H'`, where `[x]` has `r H'` in place of `H'`. The order
    /// of gates is `z, r, h`.
    Gru {
        /// Whether `r` is multiplied to `H' R` and its bias instead of `H'`.
        linear_before_reset: bool,
    },
    /// `H = f[x]`.
    Rnn,
}

impl Cell {
    /// The ONNX operator.
    pub fn name(self) -> &'static str {
        match self {
            Cell::Lstm { .. } => "LSTM",
            Cell::Gru { .. } => "GRU",
            Cell::Rnn => "RNN",
        }
    }

    /// Blocks of columns in the weights: the gates, and the signal.
    pub fn gates(self) -> usize {
        match self {
            Cell::Lstm { .. } => 4,
            Cell::Gru { .. } => 3,
            Cell::Rnn => 1,
        }
    }

    /// The block of the signal that gates scale: the last one.
    pub fn signal(self) -> usize {
        self.gates() - 1
    }

    /// Numbers that a unit keeps: its output, and the memory of an LSTM.
    pub fn states(self) -> usize {
        match self {
            Cell::Lstm { .. } => 2,
            Cell::Gru { .. } | Cell::Rnn => 1,
        }
    }

    /// Its activation functions, unless others are named.
    pub(crate) fn activations(self) -> Vec<Unary> {
        match self {
            Cell::Lstm { .. } => vec![Unary::Sigmoid, Unary::Tanh, Unary::Tanh],
            Cell::Gru { .. } => vec![Unary::Sigmoid, Unary::Tanh],
            Cell::Rnn => vec![Unary::Tanh],
        }
    }
}

/// One direction of a recurrent layer: from a sequence to the states of all its steps.
///
/// The result is `[n, steps, states, hidden]`; the first state of a unit is its output, the second one
/// of an LSTM its memory. [`Recurrence::arguments`] says what the inputs are. A step that is not valid
/// keeps the state of the one before.
#[derive(Clone, Debug, PartialEq)]
pub struct Recurrence {
    /// The cell.
    pub cell: Cell,
    /// Number of units.
    pub hidden: usize,
    /// Whether the last step is the first one that is computed.
    pub reverse: bool,
    /// Activation functions of the cell, in the order of ONNX.
    pub activations: Vec<Unary>,
    /// Bounds of what goes into activation functions of gates and signal.
    pub clip: Option<f32>,
    /// Which of the optional inputs there are.
    pub given: Given,
}

/// Which of the optional inputs of a [`Recurrence`] there are, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Biases of the inputs and of the state, `[2 gates hidden]`.
    pub bias: bool,
    /// Weights `[3 hidden]` of an LSTM's memory in its gates `i`, `o` and `f`.
    pub peepholes: bool,
    /// The state before the first step, `[n, states, hidden]`; else zeros.
    pub initial: bool,
    /// Which steps are part of the sequence, 1 or 0, `[n, steps, 1]`; else all.
    pub valid: bool,
    /// What the outputs of units are multiplied by, `[n, steps, hidden]`; the steps may be one.
    pub mask: bool,
}

/// The inputs of a [`Recurrence`] by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arguments<T> {
    /// The sequence, `[n, steps, inputs]`.
    pub x: T,
    /// Weights of the sequence, `[inputs, gates hidden]`.
    pub w: T,
    /// Weights of the state before, `[hidden, gates hidden]`.
    pub r: T,
    /// See [`Given::bias`].
    pub bias: Option<T>,
    /// See [`Given::peepholes`].
    pub peepholes: Option<T>,
    /// See [`Given::initial`].
    pub initial: Option<T>,
    /// See [`Given::valid`].
    pub valid: Option<T>,
    /// See [`Given::mask`].
    pub mask: Option<T>,
}

impl<T> Arguments<T> {
    /// In the order of a node's inputs.
    pub fn into_list(self) -> Vec<T> {
        let optional = [
            self.bias,
            self.peepholes,
            self.initial,
            self.valid,
            self.mask,
        ];
        let mut list = vec![self.x, self.w, self.r];
        list.extend(optional.into_iter().flatten());
        list
    }

    /// Which of the optional ones there are.
    pub fn given(&self) -> Given {
        Given {
            bias: self.bias.is_some(),
            peepholes: self.peepholes.is_some(),
            initial: self.initial.is_some(),
            valid: self.valid.is_some(),
            mask: self.mask.is_some(),
        }
    }
}

impl Recurrence {
    /// The operator of a node, when it is one.
    pub fn of(node: &Node) -> Option<&Recurrence> {
        let Op::Composite(op) = &node.op else {
            return None;
        };
        op.downcast()
    }

    /// The operator and its node, of a value that it computes.
    pub fn behind(graph: &Graph, states: ValueId) -> Option<(&Recurrence, &Node)> {
        let node = graph.producer(states)?;
        Some((Recurrence::of(node)?, node))
    }

    /// The inputs by name.
    pub fn arguments<T: Copy>(&self, inputs: &[T]) -> Result<Arguments<T>, OpError> {
        let mut rest = inputs.iter().copied();
        let mut next = |is: bool| if is { rest.next() } else { None };
        let (x, w, r) = (next(true), next(true), next(true));
        let given = self.given;
        let (Some(x), Some(w), Some(r)) = (x, w, r) else {
            return Err(OpError::invalid("it takes a sequence and two weights"));
        };
        let arguments = Arguments {
            x,
            w,
            r,
            bias: next(given.bias),
            peepholes: next(given.peepholes),
            initial: next(given.initial),
            valid: next(given.valid),
            mask: next(given.mask),
        };
        match arguments.given() == given && rest.next().is_none() {
            true => Ok(arguments),
            false => Err(OpError::invalid(format!(
                "{} inputs do not fit",
                inputs.len()
            ))),
        }
    }

    /// The steps in the order in which they are computed.
    pub fn order(&self, steps: usize) -> Vec<usize> {
        match self.reverse {
            true => (0..steps).rev().collect(),
            false => (0..steps).collect(),
        }
    }
}

impl Composite for Recurrence {
    fn name(&self) -> &'static str {
        self.cell.name()
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let arguments = self.arguments(inputs)?;
        let (gates, hidden) = (self.cell.gates(), self.hidden);
        let &[n, steps, features] = arguments.x.shape.as_slice() else {
            return Err(OpError::invalid("a sequence has three axes"));
        };
        if steps == 0 || hidden == 0 {
            return Err(OpError::invalid("a sequence without steps or units"));
        }
        if steps > MAX_STEPS {
            return Err(OpError::unsupported(format!(
                "a sequence of {steps} steps; there may be {MAX_STEPS}"
            )));
        }
        let is_lstm = matches!(self.cell, Cell::Lstm { .. });
        if self.activations.len() != self.cell.activations().len()
            || (self.given.peepholes && !is_lstm)
        {
            return Err(OpError::invalid("a cell that does not fit its parts"));
        }
        let columns = hidden.checked_mul(2 * gates).map(|twice| twice / 2);
        let columns = columns.ok_or_else(|| OpError::invalid("too many units"))?;
        let masked = match arguments.mask {
            Some(mask) if mask.shape.get(1) == Some(&1) => 1,
            _ => steps,
        };
        let expected = [
            ("the sequence", Some(arguments.x), vec![n, steps, features]),
            ("weight", Some(arguments.w), vec![features, columns]),
            ("weight", Some(arguments.r), vec![hidden, columns]),
            ("bias", arguments.bias, vec![2 * columns]),
            ("peepholes", arguments.peepholes, vec![3 * hidden]),
            (
                "state",
                arguments.initial,
                vec![n, self.cell.states(), hidden],
            ),
            ("valid", arguments.valid, vec![n, steps, 1]),
            ("mask", arguments.mask, vec![n, masked, hidden]),
        ];
        for (what, ty, shape) in expected {
            if let Some(ty) = ty
                && (ty.dtype != DType::F32 || ty.shape != shape)
            {
                let shape = ShapeDisplay(&shape);
                return Err(OpError::invalid(format!(
                    "{what} `{ty}` should be `{shape}`"
                )));
            }
        }
        Ok(TensorType::new(
            DType::F32,
            [n, steps, self.cell.states(), hidden],
        ))
    }

    /// Step after step. Those of the sequence's products that do not wait for a state are one.
    fn lower(&self, graph: &mut Graph, name: &str, inputs: &[ValueId]) -> Result<ValueId, OpError> {
        unroll::lower(self, graph, name, inputs)
    }
}

/// A state of each step as later layers read it: from `[n, steps, states, hidden]` to
/// `[n, steps, hidden]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct States {
    /// The cell that they are of.
    pub cell: Cell,
    /// Which state: 0 for outputs, 1 for the memory of an LSTM.
    pub state: usize,
}

impl States {
    /// The operator of a node, when it is one.
    pub fn of(node: &Node) -> Option<&States> {
        let Op::Composite(op) = &node.op else {
            return None;
        };
        op.downcast()
    }
}

impl Composite for States {
    fn name(&self) -> &'static str {
        self.cell.name()
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        match inputs {
            [states] => match *states.shape.as_slice() {
                [n, steps, count, hidden] if self.state < count => {
                    Ok(TensorType::new(DType::F32, [n, steps, hidden]))
                }
                _ => Err(OpError::invalid("it has no such state")),
            },
            _ => Err(OpError::invalid("it takes one input")),
        }
    }

    fn lower(&self, graph: &mut Graph, name: &str, inputs: &[ValueId]) -> Result<ValueId, OpError> {
        let types: Vec<&TensorType> = inputs.iter().map(|&i| &graph.value(i).ty).collect();
        let shape = self.infer(&types)?.shape;
        let states = inputs[0];
        let slice = along(graph.shape(states), 2, self.state, 1);
        let slice = graph.push(name, Op::Slice(slice), &[states])?;
        graph.push(name, Op::Reshape(shape), &[slice])
    }
}

/// `len` positions of an axis.
pub(crate) fn along(shape: &[usize], axis: usize, start: usize, len: usize) -> Slice {
    let mut slice = Slice::identity(shape);
    slice.starts[axis] = start;
    slice.shape[axis] = len;
    slice
}

/// Appends the two operators of a direction; gives all states, and those that later layers read.
fn append(
    graph: &mut Graph,
    name: &str,
    recurrence: Recurrence,
    arguments: Arguments<ValueId>,
    read: usize,
) -> Result<Vec<ValueId>, OpError> {
    let cell = recurrence.cell;
    let recurrence = Recurrence {
        given: arguments.given(),
        ..recurrence
    };
    let op = Op::Composite(CompositeOp::new(recurrence));
    let all = graph.push(name, op, &arguments.into_list())?;
    (0..read)
        .map(|state| {
            let states = CompositeOp::new(States { cell, state });
            graph.push(name, Op::Composite(states), &[all])
        })
        .collect()
}
