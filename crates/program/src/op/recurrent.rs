//! Recurrent layers, by Arras et al.: gates get nothing, the signal that they scale gets everything.
//!
//! What arrives at the states of a layer goes back in two steps, as `npcov_graph::op::Recurrence`
//! says: through time, from each step to those before it, and then from each step to its inputs.
//!
//! For relevance the first one is linear with the same few coefficients for all cells. With `st(v)`
//! for the stabilised `v` and `m` for what of the signal's weighted sum `z` is shared,
//!
//! ```text
//! LSTM  R' = f c' / st(c) R + h' (R_c m)        m = i g / (st(c) st(z)) R
//! GRU   R' = z h' / st(h) R + h' (R_h m)        m = (1 - z) g / (st(h) st(z)) R
//! RNN   R' =                  h' (R_h m)        m = 1 / st(z) R
//! ```
//!
//! where a dash marks the step before; a GRU's reset gate scales `h'` or `m`. All gates follow from
//! the states, which are known by then, for all steps at once: only the sums wait for each other.

use npcov_graph::op::{
    Arguments, Cell, Composite, CompositeOp, Pad, PadMode, Recurrence, Slice, States, Unary,
};
use npcov_graph::{DType, Graph, Node, Op, OpError, TensorType, ValueId};

use super::{Choice, Shares, Step, adjoint as plain_adjoint, no_rule};
use crate::append::Append;
use crate::backward::backward;
use crate::rule::{Bias, Rule, Sharing, WholeFactor};

/// What stabilises denominators in a cell, unless a rule is named for it. Alpha-beta rules forget:
/// after some twenty steps nothing is left. With a small epsilon, sums that nearly cancel multiply relevance at every
/// step, and it says little of what decides: `docs/rules.md` has numbers.
pub const RECURRENT_EPSILON: f32 = 0.1;

/// The relevance of the inputs of a [`Recurrence`], or of [`States`].
pub(super) fn relevance(
    g: &mut Append<'_>,
    step: &Step<'_>,
    choice: &Choice,
) -> Result<Shares, OpError> {
    let rule = match choice.named {
        true => choice.rule,
        false => Rule::epsilon(RECURRENT_EPSILON),
    };
    let Sharing::Whole(rule) = rule.sharing() else {
        let message = format!("the rule `{rule}` is not for recurrent layers, `epsilon` is");
        return Err(OpError::unsupported(message));
    };
    if States::of(step.node).is_some() {
        let layer = Layer::of(step.graph, step.input(0))?;
        let shared = layer.shared(g, rule, choice.bias)?;
        return Ok(vec![(0, layer.through_time(g, &shared, step.cotangent)?)]);
    }
    let layer = Layer::of(step.graph, step.node.output)?;
    let shared = layer.shared(g, rule, choice.bias)?;
    layer.to_inputs(g, step, &shared)
}

/// The gradients of the inputs of a [`Recurrence`], or of [`States`].
pub(super) fn adjoint(g: &mut Append<'_>, step: &Step<'_>) -> Result<Shares, OpError> {
    match States::of(step.node) {
        Some(states) => {
            let layer = Layer::of(step.graph, step.input(0))?;
            Ok(vec![(
                0,
                layer.gradient_through_time(g, states, step.cotangent)?,
            )])
        }
        None => Layer::of(step.graph, step.node.output)?.gradient_to_inputs(g, step),
    }
}

/// One direction of a recurrent layer.
struct Layer<'a> {
    graph: &'a Graph,
    op: &'a Recurrence,
    inputs: &'a [ValueId],
    arguments: Arguments<ValueId>,
    /// All states of all steps.
    states: ValueId,
    n: usize,
    steps: usize,
}

/// How the relevance of a step's signal or memory is shared, for all steps at once: `[n, steps, hidden]`.
struct Shared {
    /// What the state before gets directly.
    carried: ValueId,
    /// What contributions of the state before are multiplied by: themselves, with a reset gate.
    before: ValueId,
    /// `m` over the relevance, for contributions of the state before.
    factor: ValueId,
    /// `m` over the relevance, for those of the inputs.
    input_factor: ValueId,
}

impl<'a> Layer<'a> {
    fn of(graph: &'a Graph, states: ValueId) -> Result<Layer<'a>, OpError> {
        let (op, node) = Recurrence::behind(graph, states).ok_or_else(no_rule)?;
        let arguments = op.arguments(&node.inputs)?;
        let shape = graph.shape(states);
        if arguments.mask.is_some() {
            return Err(OpError::unsupported("its units are masked"));
        }
        Ok(Layer {
            graph,
            op,
            inputs: &node.inputs,
            arguments,
            states,
            n: shape[0],
            steps: shape[1],
        })
    }

    fn is_constant(&self, value: ValueId) -> bool {
        self.graph.constant(value).is_some()
    }

    /// A state of all steps, `[n, steps, hidden]`.
    fn state(&self, g: &mut Append<'_>, state: usize) -> Result<ValueId, OpError> {
        let part = part(g, self.states, 2, state, 1)?;
        g.reshape(part, &[self.n, self.steps, self.op.hidden])
    }

    /// A state of the step before each step, `[n, steps, hidden]`.
    fn state_before(&self, g: &mut Append<'_>, state: usize) -> Result<ValueId, OpError> {
        let (reverse, hidden) = (self.op.reverse, self.op.hidden);
        let shape = [self.n, 1, hidden];
        let first = match self.arguments.initial {
            Some(initial) => {
                let first = part(g, initial, 1, state, 1)?;
                g.reshape(first, &shape)?
            }
            None => g.filled(&shape, 0.0)?,
        };
        if self.steps == 1 {
            return Ok(first);
        }
        let all = self.state(g, state)?;
        let rest = part(g, all, 1, usize::from(reverse), self.steps - 1)?;
        let ordered = if reverse {
            [rest, first]
        } else {
            [first, rest]
        };
        g.op(Op::Concat(1), &ordered)
    }

    /// The columns of a block in a weight, in a bias of the inputs or of the state.
    fn block(
        &self,
        g: &mut Append<'_>,
        x: ValueId,
        block: usize,
        offset: usize,
    ) -> Result<ValueId, OpError> {
        let (axis, hidden) = (g.shape(x).len() - 1, self.op.hidden);
        part(g, x, axis, offset + block * hidden, hidden)
    }

    /// `x W + h R` of a block, and with biases.
    fn sums(&self, g: &mut Append<'_>, block: usize, h: ValueId) -> Result<Sums, OpError> {
        let (x, w, r) = (self.arguments.x, self.arguments.w, self.arguments.r);
        let (w, r) = (self.block(g, w, block, 0)?, self.block(g, r, block, 0)?);
        let of_x = g.op(Op::MatMul, &[x, w])?;
        let of_h = g.op(Op::MatMul, &[h, r])?;
        let (x_bias, h_bias) = match self.arguments.bias {
            Some(bias) => {
                let columns = self.op.cell.gates() * self.op.hidden;
                let x_bias = self.block(g, bias, block, 0)?;
                (Some(x_bias), Some(self.block(g, bias, block, columns)?))
            }
            None => (None, None),
        };
        Ok(Sums {
            of_x,
            of_h,
            x_bias,
            h_bias,
        })
    }

    /// A gate: the activation function of its sum.
    fn gate(
        &self,
        g: &mut Append<'_>,
        block: usize,
        h: ValueId,
        c: Option<ValueId>,
    ) -> Result<ValueId, OpError> {
        let mut sum = self.sums(g, block, h)?.all(g)?;
        if let (Some(weights), Some(c)) = (self.arguments.peepholes, c) {
            let weights = self.block(g, weights, block, 0)?;
            let more = g.mul(weights, c)?;
            sum = g.add(sum, more)?;
        }
        self.activated(g, self.op.activations[0], sum)
    }

    fn activated(&self, g: &mut Append<'_>, f: Unary, x: ValueId) -> Result<ValueId, OpError> {
        let x = match self.op.clip {
            Some(bound) => {
                let (min, max) = (-bound, bound);
                g.unary(Unary::Clip { min, max }, x)?
            }
            None => x,
        };
        g.unary(f, x)
    }

    fn shared(
        &self,
        g: &mut Append<'_>,
        rule: &dyn WholeFactor,
        bias: Bias,
    ) -> Result<Shared, OpError> {
        let cell = self.op.cell;
        let signal = cell.signal();
        let before = self.state_before(g, 0)?;
        // The sum that contributions are shares of.
        let denominator = |g: &mut Append<'_>, sums: Sums| match bias {
            Bias::Ignore => sums.contributions(g),
            Bias::Absorb => sums.all(g),
        };
        let shared = match cell {
            Cell::Rnn => {
                let sums = self.sums(g, signal, before)?;
                let z = denominator(g, sums)?;
                let one = g.scalar(1.0);
                let one = g.expand(one, &[self.n, self.steps, self.op.hidden])?;
                let factor = rule.factor(g, z, one)?;
                let carried = g.filled(&[self.n, self.steps, self.op.hidden], 0.0)?;
                Shared {
                    carried,
                    before,
                    factor,
                    input_factor: factor,
                }
            }
            Cell::Gru {
                linear_before_reset,
            } => {
                let update = self.gate(g, 0, before, None)?;
                let reset = self.gate(g, 1, before, None)?;
                let (sums, contributors) = match linear_before_reset {
                    true => {
                        let sums = self.sums(g, signal, before)?;
                        (sums.reset(g, reset)?, before)
                    }
                    false => {
                        let left = g.mul(reset, before)?;
                        (self.sums(g, signal, left)?, left)
                    }
                };
                let z = denominator(g, sums)?;
                let h = self.state(g, 0)?;
                let carried = g.mul(update, before)?;
                let carried = rule.factor(g, h, carried)?;
                let sum = sums.all(g)?;
                let new = self.activated(g, self.op.activations[1], sum)?;
                let share = self.complement_times(g, update, new)?;
                let share = rule.factor(g, h, share)?;
                let input_factor = rule.factor(g, z, share)?;
                let factor = match linear_before_reset {
                    true => g.mul(reset, input_factor)?,
                    false => input_factor,
                };
                Shared {
                    carried,
                    before: contributors,
                    factor,
                    input_factor,
                }
            }
            Cell::Lstm { input_forget } => {
                let (c, c_before) = (self.state(g, 1)?, self.state_before(g, 1)?);
                let input = self.gate(g, 0, before, Some(c_before))?;
                let carried = match input_forget {
                    true => self.complement_times(g, input, c_before)?,
                    false => {
                        let forget = self.gate(g, 2, before, Some(c_before))?;
                        g.mul(forget, c_before)?
                    }
                };
                let carried = rule.factor(g, c, carried)?;
                let sums = self.sums(g, signal, before)?;
                let z = denominator(g, sums)?;
                let sum = sums.all(g)?;
                let new = self.activated(g, self.op.activations[1], sum)?;
                let share = g.mul(input, new)?;
                let share = rule.factor(g, c, share)?;
                let factor = rule.factor(g, z, share)?;
                Shared {
                    carried,
                    before,
                    factor,
                    input_factor: factor,
                }
            }
        };
        let Some(valid) = self.arguments.valid else {
            return Ok(shared);
        };
        // A step that is not valid passes everything on.
        let valid = g.is_positive(valid)?;
        let one = g.scalar(1.0);
        Ok(Shared {
            carried: g.choose(valid, shared.carried, one)?,
            factor: g.keep(valid, shared.factor)?,
            input_factor: g.keep(valid, shared.input_factor)?,
            ..shared
        })
    }

    /// `(1 - z) x`.
    fn complement_times(
        &self,
        g: &mut Append<'_>,
        z: ValueId,
        x: ValueId,
    ) -> Result<ValueId, OpError> {
        let one = g.scalar(1.0);
        let rest = g.sub(one, z)?;
        g.mul(rest, x)
    }

    /// The signal's weights of the state before, transposed.
    fn weights_back(&self, g: &mut Append<'_>) -> Result<ValueId, OpError> {
        let weights = self.block(g, self.arguments.r, self.op.cell.signal(), 0)?;
        g.transpose(weights, &[1, 0])
    }

    /// The relevance of all states, from what arrived at those that are read. That of an LSTM's output
    /// is its memory's.
    fn through_time(
        &self,
        g: &mut Append<'_>,
        shared: &Shared,
        arrived: ValueId,
    ) -> Result<ValueId, OpError> {
        let weights = self.weights_back(g)?;
        let op = ThroughTime {
            reverse: self.op.reverse,
        };
        let op = Op::Composite(CompositeOp::new(op));
        let inputs = [
            arrived,
            shared.carried,
            shared.before,
            shared.factor,
            weights,
        ];
        let relevance = g.op(op, &inputs)?;
        self.placed(g, relevance, self.op.cell.states() - 1)
    }

    /// What one state of each step has, `[n, steps, hidden]`, as that of all states; the others have
    /// nothing.
    fn placed(&self, g: &mut Append<'_>, x: ValueId, state: usize) -> Result<ValueId, OpError> {
        let x = g.reshape(x, &[self.n, self.steps, 1, self.op.hidden])?;
        let states = self.op.cell.states();
        if states == 1 {
            return Ok(x);
        }
        let pad = Pad {
            begins: vec![0, 0, state, 0],
            ends: vec![0, 0, states - 1 - state, 0],
            mode: PadMode::Constant(0.0),
        };
        g.op(Op::Pad(pad), &[x])
    }

    /// The relevance of the sequence, and of the state before the first step. What arrives at one that
    /// is a constant is lost, but can be asked for.
    fn to_inputs(
        &self,
        g: &mut Append<'_>,
        step: &Step<'_>,
        shared: &Shared,
    ) -> Result<Shares, OpError> {
        let (states, hidden) = (self.op.cell.states(), self.op.hidden);
        let relevance = part(g, step.cotangent, 2, states - 1, 1)?;
        let relevance = g.reshape(relevance, &[self.n, self.steps, hidden])?;
        let mut shares = Shares::new();
        if !self.is_constant(self.arguments.x) {
            let factor = g.mul(shared.input_factor, relevance)?;
            let weights = self.block(g, self.arguments.w, self.op.cell.signal(), 0)?;
            let weights = g.transpose(weights, &[1, 0])?;
            let sums = g.op(Op::MatMul, &[factor, weights])?;
            shares.push((0, g.mul(self.arguments.x, sums)?));
        }
        let Some(initial) = self.arguments.initial else {
            return Ok(shares);
        };
        let first = if self.op.reverse { self.steps - 1 } else { 0 };
        let [relevance, carried, before, factor] =
            [relevance, shared.carried, shared.before, shared.factor]
                .map(|x| part(g, x, 1, first, 1));
        let relevance = relevance?;
        let carried = g.mul(carried?, relevance)?;
        let factor = g.mul(factor?, relevance)?;
        let weights = self.weights_back(g)?;
        let sums = g.op(Op::MatMul, &[factor, weights])?;
        let of_h = g.mul(before?, sums)?;
        let share = match states {
            1 => g.add(carried, of_h)?,
            _ => g.op(Op::Concat(1), &[of_h, carried])?,
        };
        shares.extend(self.position(initial).map(|position| (position, share)));
        Ok(shares)
    }

    /// Where a value stands among the inputs.
    fn position(&self, value: ValueId) -> Option<usize> {
        self.inputs.iter().position(|&input| input == value)
    }

    /// The gradient of all states, from what arrived at those that are read: that of the unrolled
    /// operators, at the states of each step.
    fn gradient_through_time(
        &self,
        g: &mut Append<'_>,
        states: &States,
        arrived: ValueId,
    ) -> Result<ValueId, OpError> {
        let (op, shape) = (self.op, [self.n, 1, 1, self.op.hidden]);
        let found = differentiated(g, self.inputs, arrived, |sub, inputs| {
            let steps = op.unrolled(sub, "step", inputs)?;
            let mut sub = Append::new(sub, "states");
            let read = steps.iter().map(|step| {
                let state = step[states.state];
                let shape = [shape[0], 1, shape[3]];
                // Even a single step is no target itself.
                sub.op(Op::Reshape(shape.to_vec()), &[state])
            });
            let read = read.collect::<Result<Vec<_>, _>>()?;
            let read = sub.op(Op::Concat(1), &read)?;
            Ok((read, steps.concat()))
        })?;
        let mut steps = Vec::with_capacity(self.steps);
        for states in found.chunks(op.cell.states()) {
            let mut parts = Vec::with_capacity(states.len());
            for &state in states {
                let state = match state {
                    Some(state) => g.reshape(state, &shape)?,
                    None => g.filled(&shape, 0.0)?,
                };
                parts.push(state);
            }
            steps.push(g.op(Op::Concat(2), &parts)?);
        }
        g.op(Op::Concat(1), &steps)
    }

    /// The gradient of the inputs, from that of the states of each step. Given the states, no step
    /// waits for another: they are a batch of sequences of one step.
    fn gradient_to_inputs(&self, g: &mut Append<'_>, step: &Step<'_>) -> Result<Shares, OpError> {
        let (n, steps, hidden) = (self.n, self.steps, self.op.hidden);
        let states = self.op.cell.states();
        let before = (0..states).map(|state| {
            let before = self.state_before(g, state)?;
            g.reshape(before, &[n * steps, 1, hidden])
        });
        let before = before.collect::<Result<Vec<_>, _>>()?;
        let before = g.op(Op::Concat(1), &before)?;
        let features = g.shape(self.arguments.x)[2];
        let valid = match self.arguments.valid {
            Some(valid) => Some(g.reshape(valid, &[n * steps, 1, 1])?),
            None => None,
        };
        let batch = Arguments {
            x: g.reshape(self.arguments.x, &[n * steps, 1, features])?,
            initial: Some(before),
            valid,
            ..self.arguments
        };
        let op = Recurrence {
            given: batch.given(),
            reverse: false,
            ..self.op.clone()
        };
        let arrived = g.reshape(step.cotangent, &[n * steps, 1, states, hidden])?;
        let found = differentiated(g, &batch.into_list(), arrived, |sub, inputs| {
            let initial = op.arguments(inputs)?.initial;
            let result = op.lower(sub, "step", inputs)?;
            Ok((result, inputs[..1].iter().copied().chain(initial).collect()))
        })?;
        let mut shares = Shares::new();
        if let (Some(Some(x)), false) = (found.first(), self.is_constant(self.arguments.x)) {
            shares.push((0, g.reshape(*x, &[n, steps, features])?));
        }
        if let (Some(initial), Some(Some(before))) = (self.arguments.initial, found.get(1)) {
            let before = g.reshape(*before, &[n, steps, states, hidden])?;
            let first = if self.op.reverse { steps - 1 } else { 0 };
            let before = part(g, before, 1, first, 1)?;
            let before = g.reshape(before, &[n, states, hidden])?;
            shares.extend(self.position(initial).map(|position| (position, before)));
        }
        Ok(shares)
    }
}

/// The sums of a block, in parts.
#[derive(Clone, Copy)]
struct Sums {
    of_x: ValueId,
    of_h: ValueId,
    x_bias: Option<ValueId>,
    h_bias: Option<ValueId>,
}

impl Sums {
    /// Without biases.
    fn contributions(self, g: &mut Append<'_>) -> Result<ValueId, OpError> {
        g.add(self.of_x, self.of_h)
    }

    /// With biases.
    fn all(self, g: &mut Append<'_>) -> Result<ValueId, OpError> {
        let mut sum = self.contributions(g)?;
        for bias in [self.x_bias, self.h_bias].into_iter().flatten() {
            sum = g.add(sum, bias)?;
        }
        Ok(sum)
    }

    /// With what comes from the state before multiplied by a reset gate.
    fn reset(self, g: &mut Append<'_>, reset: ValueId) -> Result<Sums, OpError> {
        Ok(Sums {
            of_h: g.mul(reset, self.of_h)?,
            h_bias: match self.h_bias {
                Some(bias) => Some(g.mul(reset, bias)?),
                None => None,
            },
            ..self
        })
    }
}

/// The states before the first step of recurrent layers that are constants other than zero, by the name of
/// the layer.
pub(crate) fn constant_states(graph: &Graph) -> Vec<(String, ValueId)> {
    let of_node = |node: &Node| {
        let arguments = Recurrence::of(node)?.arguments(&node.inputs).ok()?;
        let initial = arguments.initial?;
        let is_lost = graph.constant(initial)?.to_f32().iter().any(|&x| x != 0.0);
        is_lost.then(|| (node.name.clone(), initial))
    };
    graph.nodes().iter().filter_map(of_node).collect()
}

/// `len` positions of an axis; nothing is appended when these are all.
pub(crate) fn part(
    g: &mut Append<'_>,
    x: ValueId,
    axis: usize,
    start: usize,
    len: usize,
) -> Result<ValueId, OpError> {
    let mut slice = Slice::identity(g.graph.shape(x));
    if slice.shape[axis] == len {
        return Ok(x);
    }
    slice.starts[axis] = start;
    slice.shape[axis] = len;
    g.op(Op::Slice(slice), &[x])
}

/// Appends the gradients of what `build` calls targets, which stand behind copies of the inputs: `build`
/// gives the result at which `arrived` has arrived, and the targets.
fn differentiated(
    g: &mut Append<'_>,
    inputs: &[ValueId],
    arrived: ValueId,
    build: impl FnOnce(&mut Graph, &[ValueId]) -> Result<(ValueId, Vec<ValueId>), OpError>,
) -> Result<Vec<Option<ValueId>>, OpError> {
    let mut sub = Graph::new();
    let copies: Vec<ValueId> = inputs
        .iter()
        .map(|&input| {
            let value = g.graph.value(input);
            match &value.constant {
                Some(tensor) => sub.add_constant(value.name.clone(), tensor.clone()),
                None => sub.add_input(value.name.clone(), value.ty.clone()),
            }
        })
        .collect();
    let seed = sub.add_input("arrived", g.graph.value(arrived).ty.clone());
    let (result, targets) = build(&mut sub, &copies)?;
    let mut program = sub.clone();
    let found = backward(
        &sub,
        &mut program,
        &[(result, seed)],
        &targets,
        plain_adjoint,
    );
    let found = found.map_err(|errors| match errors.into_iter().next() {
        Some(error) => OpError::unsupported(error.to_string()),
        None => OpError::unsupported("it has no gradient"),
    })?;
    // What is needed of it, on the values themselves.
    let mut map: Vec<Option<ValueId>> = vec![None; program.values().len()];
    for (&copy, &input) in copies.iter().zip(inputs) {
        map[copy.index()] = Some(input);
    }
    map[seed.index()] = Some(arrived);
    program.set_outputs(found.iter().copied().flatten().collect());
    let mut needed = vec![false; program.values().len()];
    for output in program.outputs() {
        needed[output.index()] = true;
    }
    for node in program.nodes().iter().rev() {
        if needed[node.output.index()] {
            node.inputs.iter().for_each(|v| needed[v.index()] = true);
        }
    }
    let get = |g: &mut Append<'_>, map: &mut Vec<Option<ValueId>>, v: ValueId| {
        let place = &mut map[v.index()];
        if let (None, Some(tensor)) = (*place, program.constant(v)) {
            *place = Some(
                g.graph
                    .add_constant(program.value(v).name.clone(), tensor.clone()),
            );
        }
        place.ok_or_else(|| OpError::invalid("a value is used before it is computed"))
    };
    for node in program.nodes() {
        if needed[node.output.index()] {
            let inputs = node.inputs.iter().map(|&v| get(g, &mut map, v));
            let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
            map[node.output.index()] = Some(g.op(node.op.clone(), &inputs)?);
        }
    }
    found
        .into_iter()
        .map(|value| value.map(|value| get(g, &mut map, value)).transpose())
        .collect()
}

/// What each step of a recurrent layer has, when it gets what arrived at it and what the step after it
/// passes back:
///
/// `R(t - 1) = e(t - 1) + a(t) R(t) + s(t) ((q(t) R(t)) M)`
///
/// Inputs are `e`, `a`, `s`, `q`, each `[n, steps, hidden]`, and `M [hidden, hidden]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThroughTime {
    /// Whether the layer starts with the last step; relevance then ends there.
    pub reverse: bool,
}

impl Composite for ThroughTime {
    fn name(&self) -> &'static str {
        "RelevanceThroughTime"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<TensorType, OpError> {
        let &[e, a, s, q, m] = inputs else {
            return Err(OpError::invalid(format!(
                "it takes 5 inputs, not {}",
                inputs.len()
            )));
        };
        let hidden = match *e.shape.as_slice() {
            [_, steps, hidden] if steps > 0 => hidden,
            _ => return Err(OpError::invalid("relevance of steps has three axes")),
        };
        let fits = [a, s, q].iter().all(|ty| *ty == e) && e.dtype == DType::F32;
        match fits && *m == TensorType::new(DType::F32, [hidden, hidden]) {
            true => Ok(e.clone()),
            false => Err(OpError::invalid(
                "coefficients that do not fit the relevance",
            )),
        }
    }

    fn lower(&self, graph: &mut Graph, name: &str, inputs: &[ValueId]) -> Result<ValueId, OpError> {
        let mut g = Append::new(graph, name);
        let shape = g.infer(self, inputs)?.shape;
        let (steps, m) = (shape[1], inputs[4]);
        let mut all = vec![inputs[0]; steps];
        let mut passed = None;
        for i in 0..steps {
            let step = if self.reverse { i } else { steps - 1 - i };
            let at = |g: &mut Append<'_>, input: usize| part(g, inputs[input], 1, step, 1);
            let e = at(&mut g, 0)?;
            let r = match passed {
                Some(passed) => g.add(e, passed)?,
                None => e,
            };
            all[step] = r;
            if i + 1 < steps {
                let (a, s, q) = (at(&mut g, 1)?, at(&mut g, 2)?, at(&mut g, 3)?);
                let carried = g.mul(a, r)?;
                let factor = g.mul(q, r)?;
                let sums = g.op(Op::MatMul, &[factor, m])?;
                let share = g.mul(s, sums)?;
                passed = Some(g.add(carried, share)?);
            }
        }
        match all[..] {
            [only] => Ok(only),
            _ => g.op(Op::Concat(1), &all),
        }
    }
}
