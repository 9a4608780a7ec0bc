//! Recurrent layers, step by step: states of a step are packs that the next one reads, so that a long
//! sequence needs no more nodes than a short one.

use std::sync::Arc;

use npcov_cpu::vectorised;
use npcov_graph::op::{Arguments, Cell, Recurrence, Unary};
use npcov_graph::{Graph, Node, OpError};
use npcov_program::ThroughTime;

use super::elementwise::unary;
use super::matmul;
use crate::native::kernel::{Context, Inputs, Kernel, NodeKernel};
use crate::native::pack::Pack;
use crate::native::tile::{Finish, Init, Taps, Target, Weights};

/// Steps whose products with the sequence are computed together: weights are read once for all of them.
const TOGETHER: usize = 16;

/// Whether there is a kernel: for weights that are constants.
pub(super) fn has_kernel(op: &Recurrence, graph: &Graph, node: &Node) -> bool {
    let is_constant = |value| graph.constant(value).is_some();
    op.arguments(&node.inputs).is_ok_and(|arguments| {
        let weights = [
            Some(arguments.w),
            Some(arguments.r),
            arguments.bias,
            arguments.peepholes,
        ];
        weights.into_iter().flatten().all(is_constant)
    })
}

/// Whether there is a kernel: for a weight that is a constant.
pub(super) fn has_time_kernel(graph: &Graph, node: &Node) -> bool {
    node.inputs
        .get(4)
        .is_some_and(|&m| graph.constant(m).is_some())
}

pub(super) fn prepare(op: &Recurrence, cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    let positions: Vec<usize> = (0..cx.arity()).collect();
    let at: Arguments<usize> = op.arguments(&positions)?;
    let (gates, hidden) = (op.cell.gates(), op.hidden);
    let columns = gates * hidden;
    let r = cx.parameter(at.r, "a weight")?;
    let of_state = |first: usize, count: usize| {
        let weight = |m: usize, i: usize| r[i * columns + first + m];
        Weights::new(cx.isa(), count, hidden, weight)
    };
    // The gates of a GRU are needed before the product with its signal can be.
    let gate_columns = match op.cell {
        Cell::Gru { .. } => columns - hidden,
        Cell::Lstm { .. } | Cell::Rnn => columns,
    };
    let mut bias = vec![0.0; columns];
    let mut inner_bias = vec![0.0; hidden];
    if let Some(position) = at.bias {
        let numbers = cx.parameter(position, "a bias")?;
        let (of_x, of_h) = numbers.split_at(columns);
        bias.copy_from_slice(of_x);
        for (i, &b) in of_h.iter().enumerate() {
            match (op.cell, i.checked_sub(gate_columns)) {
                (
                    Cell::Gru {
                        linear_before_reset: true,
                    },
                    Some(unit),
                ) => inner_bias[unit] = b,
                _ => bias[i] += b,
            }
        }
    }
    let peepholes = match at.peepholes {
        Some(position) => Some(cx.parameter(position, "a peephole")?),
        None => None,
    };
    // What is read at run time, in the order in which the kernel asks for it.
    let mut reads = vec![at.x];
    let mut read = |position: Option<usize>| {
        position.map(|position| {
            reads.push(position);
            reads.len() - 1
        })
    };
    let kernel = RecurrentKernel {
        initial: read(at.initial),
        valid: read(at.valid),
        mask: read(at.mask),
        mask_steps: at.mask.map_or(1, |position| cx.shape(position)[1]),
        n: cx.output()[0],
        steps: cx.output()[1],
        features: cx.shape(at.x)[2],
        w: matmul::weights(cx, at.w)?,
        r_gates: of_state(0, gate_columns),
        r_signal: of_state(gate_columns, columns - gate_columns),
        op: op.clone(),
        bias,
        inner_bias,
        peepholes,
    };
    Ok(NodeKernel::new(kernel, reads))
}

/// All states of all steps.
struct RecurrentKernel {
    op: Recurrence,
    n: usize,
    steps: usize,
    features: usize,
    w: Arc<Weights>,
    r_gates: Weights,
    /// Of a GRU, whose signal waits for its gates; else there are none.
    r_signal: Weights,
    bias: Vec<f32>,
    /// The bias that a GRU's reset gate scales.
    inner_bias: Vec<f32>,
    peepholes: Option<Vec<f32>>,
    initial: Option<usize>,
    valid: Option<usize>,
    mask: Option<usize>,
    mask_steps: usize,
}

/// `x` times weights, on top of what `init` says.
fn product(weights: &Weights, x: &[Pack], init: Option<&[f32]>, output: &mut [Pack]) {
    for block in weights.blocks() {
        let init = match init {
            Some(bias) => Init::Bias(&bias[block.first..block.first + block.height]),
            None => Init::Output,
        };
        let taps = Taps {
            len: weights.k(),
            cols: 1,
            rows: 1,
            ..Taps::default()
        };
        let target = Target {
            at: block.first,
            stride: 1,
        };
        block.run(&taps.on(x, weights.k()), init, Finish::None, output, target);
    }
}

impl Kernel for RecurrentKernel {
    fn scratch(&self) -> usize {
        let columns = self.op.cell.gates() * self.op.hidden;
        let states = self.op.cell.states() * self.op.hidden;
        (TOGETHER + 1) * columns + 2 * states + self.op.hidden
    }

    fn run(&self, inputs: &Inputs<'_>, scratch: &mut [Pack], output: &mut [Pack]) {
        let (states, hidden) = (self.op.cell.states(), self.op.hidden);
        let (columns, state) = (self.op.cell.gates() * hidden, states * hidden);
        let (sums, scratch) = scratch.split_at_mut(TOGETHER * columns);
        let (active, scratch) = scratch.split_at_mut(columns);
        let (before, scratch) = scratch.split_at_mut(state);
        let (next, spare) = scratch.split_at_mut(state);
        let order = self.op.order(self.steps);
        let x = inputs.get(0);
        for n in 0..self.n {
            match self.initial {
                Some(initial) => before.copy_from_slice(&inputs.get(initial)[n * state..][..state]),
                None => before.fill(Pack::ZERO),
            }
            for together in order.chunks(TOGETHER) {
                self.products(x, n, together, sums);
                for (i, &step) in together.iter().enumerate() {
                    let sums = &mut sums[i * columns..][..columns];
                    self.step(sums, active, before, next, spare);
                    let at = n * self.steps + step;
                    self.finish(inputs, n, step, before, next);
                    output[at * state..][..state].copy_from_slice(next);
                    before.copy_from_slice(next);
                }
            }
        }
    }
}

impl RecurrentKernel {
    /// The products of some steps with the weights of the sequence.
    fn products(&self, x: &[Pack], n: usize, steps: &[usize], sums: &mut [Pack]) {
        let columns = self.bias.len();
        for block in self.w.blocks() {
            let bias = &self.bias[block.first..block.first + block.height];
            for (i, step) in steps.iter().enumerate() {
                let taps = Taps {
                    x: (n * self.steps + step) * self.features,
                    len: self.features,
                    cols: 1,
                    rows: 1,
                    ..Taps::default()
                };
                let target = Target {
                    at: i * columns + block.first,
                    stride: 1,
                };
                let walk = taps.on(x, self.features);
                block.run(&walk, Init::Bias(bias), Finish::None, sums, target);
            }
        }
    }

    /// The states after a step. `sums` has what comes from the sequence.
    fn step(
        &self,
        sums: &mut [Pack],
        active: &mut [Pack],
        before: &[Pack],
        next: &mut [Pack],
        spare: &mut [Pack],
    ) {
        let (op, hidden) = (&self.op, self.op.hidden);
        let h = &before[..hidden];
        product(&self.r_gates, h, None, sums);
        let f = &op.activations;
        match op.cell {
            Cell::Rnn => self.activate(f[0], sums, next),
            Cell::Gru {
                linear_before_reset,
            } => {
                let (gates, signal) = sums.split_at_mut(2 * hidden);
                let (active_gates, fresh) = active.split_at_mut(2 * hidden);
                self.activate(f[0], gates, active_gates);
                let (update, reset) = active_gates.split_at(hidden);
                match linear_before_reset {
                    true => {
                        product(&self.r_signal, h, Some(&self.inner_bias), spare);
                        each(signal, |i, z| {
                            z.zip(product_of(reset[i], spare[i]), |z, p| z + p)
                        });
                    }
                    false => {
                        each(spare, |i, _| product_of(reset[i], h[i]));
                        product(&self.r_signal, spare, None, signal);
                    }
                }
                self.activate(f[1], signal, fresh);
                each(next, |i, _| {
                    let kept = product_of(update[i], h[i]);
                    let new = product_of(update[i].map(|z| 1.0 - z), fresh[i]);
                    new.zip(kept, |a, b| a + b)
                });
            }
            Cell::Lstm { input_forget } => {
                let c = &before[hidden..];
                let (next_h, next_c) = next.split_at_mut(hidden);
                for gate in [0, 2] {
                    self.peek(gate, c, sums);
                }
                let [input, output, forget, signal] =
                    [0, 1, 2, 3].map(|i| i * hidden..(i + 1) * hidden);
                self.activate(f[0], &mut sums[input.clone()], &mut active[input.clone()]);
                self.activate(f[0], &mut sums[forget.clone()], &mut active[forget.clone()]);
                self.activate(f[1], &mut sums[signal.clone()], &mut active[signal.clone()]);
                each(next_c, |i, _| {
                    let gate = active[input.start + i];
                    let forget = match input_forget {
                        true => gate.map(|z| 1.0 - z),
                        false => active[forget.start + i],
                    };
                    let new = product_of(gate, active[signal.start + i]);
                    product_of(forget, c[i]).zip(new, |a, b| a + b)
                });
                self.peek(1, next_c, sums);
                self.activate(f[0], &mut sums[output.clone()], &mut active[output.clone()]);
                vectorised(
                    #[inline(always)]
                    || unary(f[2], next_c, spare),
                );
                each(next_h, |i, _| {
                    product_of(active[output.start + i], spare[i])
                });
            }
        }
    }

    /// Adds what a gate sees of the memory.
    fn peek(&self, gate: usize, c: &[Pack], sums: &mut [Pack]) {
        let hidden = self.op.hidden;
        if let Some(weights) = &self.peepholes {
            let weights = &weights[gate * hidden..][..hidden];
            each(&mut sums[gate * hidden..][..hidden], |i, z| {
                z.zip(c[i], |z, c| z + weights[i] * c)
            });
        }
    }

    fn activate(&self, f: Unary, sums: &mut [Pack], active: &mut [Pack]) {
        if let Some(bound) = self.op.clip {
            let limit = |x: f32| {
                if x > bound {
                    bound
                } else if x < -bound {
                    -bound
                } else {
                    x
                }
            };
            each(sums, |_, z| z.map(limit));
        }
        vectorised(
            #[inline(always)]
            || unary(f, sums, active),
        );
    }

    /// Masks a step's outputs, and keeps the states before it where it is not valid.
    fn finish(
        &self,
        inputs: &Inputs<'_>,
        n: usize,
        step: usize,
        before: &[Pack],
        next: &mut [Pack],
    ) {
        let hidden = self.op.hidden;
        if let Some(mask) = self.mask {
            let step = if self.mask_steps == 1 { 0 } else { step };
            let mask = &inputs.get(mask)[(n * self.mask_steps + step) * hidden..][..hidden];
            each(&mut next[..hidden], |i, h| product_of(h, mask[i]));
        }
        if let Some(valid) = self.valid {
            let valid = inputs.get(valid)[n * self.steps + step];
            each(next, |i, state| {
                let mut state = state;
                for (lane, &is) in valid.0.iter().enumerate() {
                    if is.is_nan() || is <= 0.0 {
                        state.0[lane] = before[i].0[lane];
                    }
                }
                state
            });
        }
    }
}

/// Each pack by its place and what it was.
fn each(packs: &mut [Pack], f: impl Fn(usize, Pack) -> Pack) {
    vectorised(
        #[inline(always)]
        || {
            for (i, pack) in packs.iter_mut().enumerate() {
                *pack = f(i, *pack);
            }
        },
    );
}

#[inline(always)]
fn product_of(a: Pack, b: Pack) -> Pack {
    a.zip(b, |a, b| a * b)
}

pub(super) fn prepare_time(op: &ThroughTime, cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    let &[n, steps, hidden] = cx.output() else {
        return Err(OpError::invalid("relevance of steps has three axes"));
    };
    let kernel = TimeKernel {
        n,
        steps,
        hidden,
        reverse: op.reverse,
        weights: matmul::weights(cx, 4)?,
        zeros: vec![0.0; hidden],
    };
    Ok(NodeKernel::new(kernel, [0, 1, 2, 3]))
}

/// Relevance of all steps.
struct TimeKernel {
    n: usize,
    steps: usize,
    hidden: usize,
    reverse: bool,
    weights: Arc<Weights>,
    /// What sums start from.
    zeros: Vec<f32>,
}

impl Kernel for TimeKernel {
    fn scratch(&self) -> usize {
        2 * self.hidden
    }

    fn run(&self, inputs: &Inputs<'_>, scratch: &mut [Pack], output: &mut [Pack]) {
        let [e, a, s, q] = [0, 1, 2, 3].map(|i| inputs.get(i));
        let hidden = self.hidden;
        let (factors, sums) = scratch.split_at_mut(hidden);
        for n in 0..self.n {
            for i in 0..self.steps {
                let place = |i: usize| {
                    let step = if self.reverse { i } else { self.steps - 1 - i };
                    (n * self.steps + step) * hidden
                };
                let at = place(i);
                output[at..at + hidden].copy_from_slice(&e[at..at + hidden]);
                if i == 0 {
                    continue;
                }
                let from = place(i - 1);
                let (low, high) = output.split_at_mut(at.max(from));
                let (r, next) = match at < from {
                    true => (&high[..hidden], &mut low[at..at + hidden]),
                    false => (&low[from..from + hidden], &mut high[..hidden]),
                };
                each(factors, |j, _| product_of(q[from + j], r[j]));
                product(&self.weights, factors, Some(&self.zeros), sums);
                each(next, |j, e| {
                    let carried = product_of(a[from + j], r[j]);
                    let share = product_of(s[from + j], sums[j]);
                    e.zip(carried.zip(share, |a, b| a + b), |a, b| a + b)
                });
            }
        }
    }
}
