//! A recurrence as plain operators.

use super::{Arguments, Binary, Cell, Op, Recurrence, Unary, along};
use crate::error::OpError;
use crate::graph::{Graph, ValueId};
use crate::tensor::{Data, Tensor, TensorType};

type Value = Result<ValueId, OpError>;

/// The states of all steps, in the order of the sequence.
pub(super) fn lower(
    recurrence: &Recurrence,
    graph: &mut Graph,
    name: &str,
    inputs: &[ValueId],
) -> Value {
    let steps = recurrence.unrolled(graph, name, inputs)?;
    let mut unroll = Unroll { graph, name };
    let mut states = Vec::with_capacity(steps.len());
    for step in steps {
        let [n, hidden] = unroll.graph.shape(step[0])[..] else {
            return Err(OpError::invalid("a state of a step has two axes"));
        };
        let parts = step
            .iter()
            .map(|&state| unroll.reshape(state, &[n, 1, 1, hidden]));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        states.push(unroll.concat(2, &parts)?);
    }
    unroll.concat(1, &states)
}

impl Recurrence {
    /// Appends plain operators that compute the states of each step, `[n, hidden]` each; by step of the
    /// sequence, then by state.
    pub fn unrolled(
        &self,
        graph: &mut Graph,
        name: &str,
        inputs: &[ValueId],
    ) -> Result<Vec<Vec<ValueId>>, OpError> {
        let types: Vec<&TensorType> = inputs.iter().map(|&i| &graph.value(i).ty).collect();
        let shape = super::Composite::infer(self, &types)?.shape;
        let arguments = self.arguments(inputs)?;
        let mut unroll = Unroll { graph, name };
        let parts = Parts::new(self, &mut unroll, &arguments)?;
        let (n, steps) = (shape[0], shape[1]);
        let mut state = unroll.initial(self, &arguments, n)?;
        let mut all = vec![Vec::new(); steps];
        for step in self.order(steps) {
            let mut next = parts.step(self, &mut unroll, step, &state)?;
            if let Some(mask) = arguments.mask {
                let at = if unroll.graph.shape(mask)[1] == 1 {
                    0
                } else {
                    step
                };
                let mask = unroll.step(mask, at)?;
                next[0] = unroll.binary(Binary::Mul, next[0], mask)?;
            }
            if let Some(valid) = arguments.valid {
                let valid = unroll.step(valid, step)?;
                let zero = unroll.scalar(0.0);
                let valid = unroll.binary(Binary::Greater, valid, zero)?;
                for (next, &before) in next.iter_mut().zip(&state) {
                    *next = unroll.push(Op::Where, &[valid, *next, before])?;
                }
            }
            state.clone_from(&next);
            all[step] = next;
        }
        Ok(all)
    }
}

/// What all steps share.
struct Parts {
    /// `x W` and biases, for all steps.
    products: ValueId,
    r: ValueId,
    /// The bias of the state in a GRU's signal, where that is not simply added.
    inner_bias: Option<ValueId>,
    /// By gate, for those that have some.
    peepholes: [Option<ValueId>; 3],
    hidden: usize,
}

impl Parts {
    fn new(
        recurrence: &Recurrence,
        u: &mut Unroll<'_>,
        arguments: &Arguments<ValueId>,
    ) -> Result<Parts, OpError> {
        let (cell, hidden) = (recurrence.cell, recurrence.hidden);
        let columns = cell.gates() * hidden;
        let mut products = u.push(Op::MatMul, &[arguments.x, arguments.w])?;
        let mut inner_bias = None;
        if let Some(bias) = arguments.bias {
            let of_x = u.part(bias, 0, 0, columns)?;
            let mut of_h = u.part(bias, 0, columns, columns)?;
            if let Cell::Gru {
                linear_before_reset: true,
            } = cell
            {
                let gates = 2 * hidden;
                inner_bias = Some(u.part(of_h, 0, gates, hidden)?);
                let outer = u.part(of_h, 0, 0, gates)?;
                let zeros = u.zeros(&[hidden])?;
                of_h = u.concat(0, &[outer, zeros])?;
            }
            let bias = u.binary(Binary::Add, of_x, of_h)?;
            products = u.binary(Binary::Add, products, bias)?;
        }
        let mut peepholes = [None; 3];
        if let Some(weights) = arguments.peepholes {
            for (gate, place) in peepholes.iter_mut().enumerate() {
                *place = Some(u.part(weights, 0, gate * hidden, hidden)?);
            }
        }
        Ok(Parts {
            products,
            r: arguments.r,
            inner_bias,
            peepholes,
            hidden,
        })
    }

    /// The states after a step.
    fn step(
        &self,
        recurrence: &Recurrence,
        u: &mut Unroll<'_>,
        step: usize,
        state: &[ValueId],
    ) -> Result<Vec<ValueId>, OpError> {
        let (h, f) = (state[0], &recurrence.activations);
        let clip = recurrence.clip;
        let x = u.step(self.products, step)?;
        match recurrence.cell {
            Cell::Rnn => {
                let product = u.push(Op::MatMul, &[h, self.r])?;
                let z = u.binary(Binary::Add, x, product)?;
                Ok(vec![u.activated(f[0], z, clip)?])
            }
            Cell::Gru {
                linear_before_reset,
            } => {
                let hidden = self.hidden;
                let gates = u.part(self.r, 1, 0, 2 * hidden)?;
                let signal = u.part(self.r, 1, 2 * hidden, hidden)?;
                let product = u.push(Op::MatMul, &[h, gates])?;
                let x_gates = u.part(x, 1, 0, 2 * hidden)?;
                let sums = u.binary(Binary::Add, x_gates, product)?;
                let sums = u.activated(f[0], sums, clip)?;
                let z = u.part(sums, 1, 0, hidden)?;
                let r = u.part(sums, 1, hidden, hidden)?;
                let recurrent = match linear_before_reset {
                    true => {
                        let mut product = u.push(Op::MatMul, &[h, signal])?;
                        if let Some(bias) = self.inner_bias {
                            product = u.binary(Binary::Add, product, bias)?;
                        }
                        u.binary(Binary::Mul, r, product)?
                    }
                    false => {
                        let reset = u.binary(Binary::Mul, r, h)?;
                        u.push(Op::MatMul, &[reset, signal])?
                    }
                };
                let x_signal = u.part(x, 1, 2 * hidden, hidden)?;
                let sum = u.binary(Binary::Add, x_signal, recurrent)?;
                let new = u.activated(f[1], sum, clip)?;
                let new = u.complement_times(z, new)?;
                let old = u.binary(Binary::Mul, z, h)?;
                Ok(vec![u.binary(Binary::Add, new, old)?])
            }
            Cell::Lstm { input_forget } => {
                let c = state[1];
                let product = u.push(Op::MatMul, &[h, self.r])?;
                let sums = u.binary(Binary::Add, x, product)?;
                let i = self.gate(recurrence, u, sums, 0, c)?;
                let forget = match input_forget {
                    true => None,
                    false => Some(self.gate(recurrence, u, sums, 2, c)?),
                };
                let g = u.part(sums, 1, 3 * self.hidden, self.hidden)?;
                let g = u.activated(f[1], g, clip)?;
                let new = u.binary(Binary::Mul, i, g)?;
                let old = match forget {
                    Some(forget) => u.binary(Binary::Mul, forget, c)?,
                    None => u.complement_times(i, c)?,
                };
                let c = u.binary(Binary::Add, old, new)?;
                let o = self.gate(recurrence, u, sums, 1, c)?;
                let out = u.push(Op::Unary(f[2]), &[c])?;
                Ok(vec![u.binary(Binary::Mul, o, out)?, c])
            }
        }
    }

    /// A gate of an LSTM.
    fn gate(
        &self,
        recurrence: &Recurrence,
        u: &mut Unroll<'_>,
        sums: ValueId,
        gate: usize,
        c: ValueId,
    ) -> Value {
        let mut sum = u.part(sums, 1, gate * self.hidden, self.hidden)?;
        if let Some(weights) = self.peepholes[gate] {
            let more = u.binary(Binary::Mul, weights, c)?;
            sum = u.binary(Binary::Add, sum, more)?;
        }
        u.activated(recurrence.activations[0], sum, recurrence.clip)
    }
}

/// A graph that nodes are appended to, all under one name.
struct Unroll<'g> {
    graph: &'g mut Graph,
    name: &'g str,
}

impl Unroll<'_> {
    fn push(&mut self, op: Op, inputs: &[ValueId]) -> Value {
        self.graph.push(self.name, op, inputs)
    }

    fn binary(&mut self, f: Binary, a: ValueId, b: ValueId) -> Value {
        self.push(Op::Binary(f), &[a, b])
    }

    fn scalar(&mut self, x: f32) -> ValueId {
        self.graph.add_made(self.name, Tensor::scalar(x))
    }

    fn zeros(&mut self, shape: &[usize]) -> Value {
        let zero = self.scalar(0.0);
        self.push(Op::Expand(shape.to_vec()), &[zero])
    }

    fn reshape(&mut self, x: ValueId, shape: &[usize]) -> Value {
        self.push(Op::Reshape(shape.to_vec()), &[x])
    }

    fn concat(&mut self, axis: usize, parts: &[ValueId]) -> Value {
        match parts {
            &[only] => Ok(only),
            _ => self.push(Op::Concat(axis), parts),
        }
    }

    /// `len` positions of an axis.
    fn part(&mut self, x: ValueId, axis: usize, start: usize, len: usize) -> Value {
        let slice = along(self.graph.shape(x), axis, start, len);
        self.push(Op::Slice(slice), &[x])
    }

    /// What `[n, steps, width]` has at a step: `[n, width]`.
    fn step(&mut self, x: ValueId, step: usize) -> Value {
        let part = self.part(x, 1, step, 1)?;
        let shape = self.graph.shape(part);
        let shape = [shape[0], shape[2]];
        self.reshape(part, &shape)
    }

    fn activated(&mut self, f: Unary, x: ValueId, clip: Option<f32>) -> Value {
        let x = match clip {
            Some(bound) => {
                let (min, max) = (-bound, bound);
                self.push(Op::Unary(Unary::Clip { min, max }), &[x])?
            }
            None => x,
        };
        self.push(Op::Unary(f), &[x])
    }

    /// `(1 - z) x`.
    fn complement_times(&mut self, z: ValueId, x: ValueId) -> Value {
        let one = self.scalar(1.0);
        let rest = self.binary(Binary::Sub, one, z)?;
        self.binary(Binary::Mul, rest, x)
    }

    /// The state before the first step, by state.
    fn initial(
        &mut self,
        recurrence: &Recurrence,
        arguments: &Arguments<ValueId>,
        n: usize,
    ) -> Result<Vec<ValueId>, OpError> {
        let shape = [n, recurrence.hidden];
        (0..recurrence.cell.states())
            .map(|state| match arguments.initial {
                Some(initial) => {
                    let part = self.part(initial, 1, state, 1)?;
                    self.reshape(part, &shape)
                }
                None => {
                    let zeros = Tensor::new(shape, Data::F32(vec![0.0; shape[0] * shape[1]]));
                    let zeros = zeros.ok_or_else(|| OpError::invalid("too many units"))?;
                    Ok(self.graph.add_made(self.name, zeros))
                }
            })
            .collect()
    }
}
