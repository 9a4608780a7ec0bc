//! LSTM, GRU and RNN of ONNX.
//!
//! Sequences of ONNX have the steps first unless `layout` is 1; here the batch is always first.

use super::{Arguments, Binary, Cell, Given, Op, Recurrence, Unary, along, append};
use crate::ValueId;
use crate::builder::{Builder, NodeContext};
use crate::error::OpError;
use crate::op::Import;
use crate::tensor::{DType, Data, Tensor};

pub(crate) fn import_of(op_type: &str) -> Option<Import> {
    match op_type {
        "LSTM" => Some(import_lstm),
        "GRU" => Some(import_gru),
        "RNN" => Some(import_rnn),
        _ => None,
    }
}

type Outputs = Result<Vec<ValueId>, OpError>;

fn import_lstm(node: &NodeContext<'_>, builder: &mut Builder<'_>) -> Outputs {
    let input_forget = node.attributes.flag("input_forget", false)?;
    import(node, builder, Cell::Lstm { input_forget })
}

fn import_gru(node: &NodeContext<'_>, builder: &mut Builder<'_>) -> Outputs {
    let linear_before_reset = node.attributes.flag("linear_before_reset", false)?;
    import(
        node,
        builder,
        Cell::Gru {
            linear_before_reset,
        },
    )
}

fn import_rnn(node: &NodeContext<'_>, builder: &mut Builder<'_>) -> Outputs {
    import(node, builder, Cell::Rnn)
}

/// Where the axes of a layer's inputs and outputs are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AxisOrder {
    /// `[steps, n, ...]`, and directions before the batch.
    StepsFirst,
    /// `[n, steps, ...]`, and directions behind them.
    BatchFirst,
}

fn import(node: &NodeContext<'_>, builder: &mut Builder<'_>, cell: Cell) -> Outputs {
    let attributes = &node.attributes;
    let layout = match attributes.int("layout", 0)? {
        0 => AxisOrder::StepsFirst,
        1 => AxisOrder::BatchFirst,
        other => return Err(OpError::invalid(format!("layout {other}"))),
    };
    let directions = match attributes.string("direction", "forward")?.as_str() {
        "forward" => vec![false],
        "reverse" => vec![true],
        "bidirectional" => vec![false, true],
        other => return Err(OpError::invalid(format!("direction `{other}`"))),
    };
    let clip = attributes.optional_float("clip")?;
    if clip.is_some_and(|bound| bound.is_nan() || bound < 0.0) {
        return Err(OpError::invalid("`clip` is no bound"));
    }
    let mut x = node.input(0)?;
    let &[_, columns, _] = builder.shape(node.input(1)?).as_slice() else {
        return Err(OpError::invalid("the weights have three axes"));
    };
    let hidden = columns / cell.gates();
    if attributes.int("hidden_size", hidden as i64)? != hidden as i64 {
        return Err(OpError::invalid("`hidden_size` is not that of the weights"));
    }
    if builder.rank(x) != 3 {
        return Err(OpError::invalid("a sequence has three axes"));
    }
    if layout == AxisOrder::StepsFirst {
        x = builder.push(Op::Transpose(vec![1, 0, 2]), &[x])?;
    }
    let [n, steps] = [builder.shape(x)[0], builder.shape(x)[1]];
    let functions = activations(node, cell, directions.len())?;
    let valid = valid(node, builder, n, steps)?;
    let outputs = [0, 1, 2].map(|i| node.used_outputs.get(i).copied().unwrap_or(false));
    // The memory is read where it is an output of the layer.
    let read = if outputs[2] { cell.states() } else { 1 };
    let mut of_directions = Vec::new();
    for (d, &reverse) in directions.iter().enumerate() {
        let layer = Layer {
            node,
            layout,
            cell,
            hidden,
            direction: d,
            directions: directions.len(),
        };
        let arguments = Arguments {
            x,
            w: layer.weight(builder, 1)?,
            r: layer.weight(builder, 2)?,
            bias: layer.vector(builder, 3)?,
            peepholes: match cell {
                Cell::Lstm { .. } => layer.vector(builder, 7)?,
                Cell::Gru { .. } | Cell::Rnn => None,
            },
            initial: layer.initial(builder, n)?,
            valid,
            mask: None,
        };
        let recurrence = Recurrence {
            cell,
            hidden,
            reverse,
            activations: functions[d].clone(),
            clip,
            given: Given::default(),
        };
        let name = match (directions.len(), reverse) {
            (1, _) => builder.name.to_owned(),
            (_, false) => format!("{}/forward", builder.name),
            (_, true) => format!("{}/reverse", builder.name),
        };
        let states = append(builder.graph, &name, recurrence, arguments, read)?;
        of_directions.push((reverse, states));
    }
    // What nothing uses is some value, which nothing looks at.
    let mut results = vec![of_directions[0].1[0]; 3];
    if outputs[0] {
        results[0] = sequence(builder, layout, valid, &of_directions)?;
    }
    for state in 0..read {
        if outputs[1 + state] {
            results[1 + state] = last(builder, layout, &of_directions, state)?;
        }
    }
    results.truncate(node.used_outputs.len().min(1 + cell.states()));
    Ok(results)
}

/// One direction of a layer.
struct Layer<'a> {
    node: &'a NodeContext<'a>,
    layout: AxisOrder,
    cell: Cell,
    hidden: usize,
    direction: usize,
    directions: usize,
}

impl Layer<'_> {
    /// What an input has for this direction, on the axis of directions.
    fn part(&self, builder: &mut Builder<'_>, x: ValueId, axis: usize) -> Result<ValueId, OpError> {
        let mut shape = builder.shape(x);
        if shape.get(axis) != Some(&self.directions) {
            let message = format!("an input that is not of {} directions", self.directions);
            return Err(OpError::invalid(message));
        }
        let slice = along(&shape, axis, self.direction, 1);
        let part = builder.push(Op::Slice(slice), &[x])?;
        shape.remove(axis);
        builder.reshape(part, shape)
    }

    /// A weight, one column for each unit of each gate.
    fn weight(&self, builder: &mut Builder<'_>, input: usize) -> Result<ValueId, OpError> {
        let weight = self.node.input(input)?;
        if builder.rank(weight) != 3 {
            return Err(OpError::invalid("the weights have three axes"));
        }
        let weight = self.part(builder, weight, 0)?;
        builder.push(Op::Transpose(vec![1, 0]), &[weight])
    }

    /// Biases or peepholes; none where they are zeros.
    fn vector(&self, builder: &mut Builder<'_>, input: usize) -> Result<Option<ValueId>, OpError> {
        match self.node.optional(input) {
            Some(vector) if !is_zero(builder, vector) => self.part(builder, vector, 0).map(Some),
            _ => Ok(None),
        }
    }

    /// The state before the first step; none where it is zeros.
    fn initial(&self, builder: &mut Builder<'_>, n: usize) -> Result<Option<ValueId>, OpError> {
        let given: Vec<Option<ValueId>> = (0..self.cell.states())
            .map(|state| {
                let input = self.node.optional(5 + state);
                input.filter(|&v| !is_zero(builder, v))
            })
            .collect();
        if given.iter().all(Option::is_none) {
            return Ok(None);
        }
        let axis = match self.layout {
            AxisOrder::StepsFirst => 0,
            AxisOrder::BatchFirst => 1,
        };
        let mut parts = Vec::new();
        for input in given {
            let part = match input {
                Some(input) => self.part(builder, input, axis)?,
                None => {
                    let zero = builder.scalar(0.0);
                    builder.push(Op::Expand(vec![n, self.hidden]), &[zero])?
                }
            };
            parts.push(builder.reshape(part, [n, 1, self.hidden])?);
        }
        match parts[..] {
            [only] => Ok(Some(only)),
            _ => builder.push(Op::Concat(1), &parts).map(Some),
        }
    }
}

/// Whether a value is known to be zeros.
fn is_zero(builder: &Builder<'_>, value: ValueId) -> bool {
    let constant = builder.constant(value);
    let numbers = constant.as_ref().and_then(|tensor| tensor.as_f32());
    numbers.is_some_and(|numbers| numbers.iter().all(|&x| x == 0.0))
}

/// The steps that are part of each sequence; none where all are.
fn valid(
    node: &NodeContext<'_>,
    builder: &mut Builder<'_>,
    n: usize,
    steps: usize,
) -> Result<Option<ValueId>, OpError> {
    let Some(lengths) = node.optional(4) else {
        return Ok(None);
    };
    if builder.shape(lengths) != [n] {
        return Err(OpError::invalid(
            "`sequence_lens` has a number for each sequence",
        ));
    }
    if let Some(lengths) = builder.constant(lengths) {
        let lengths = lengths.to_f32();
        if let Some(wrong) = lengths.iter().find(|&&len| len < 0.0 || len > steps as f32) {
            let message = format!("a sequence of {wrong} steps where there are {steps}");
            return Err(OpError::invalid(message));
        }
        if lengths.iter().all(|&len| len == steps as f32) {
            return Ok(None);
        }
    }
    let lengths = builder.cast(lengths, DType::F32)?;
    let lengths = builder.reshape(lengths, [n, 1, 1])?;
    builder.make_room(steps)?;
    let numbers = Data::F32((0..steps).map(|step| step as f32).collect());
    let numbers = Tensor::new([1, steps, 1], numbers);
    let numbers = builder.tensor(numbers.ok_or_else(|| OpError::invalid("too many steps"))?);
    let valid = builder.binary(Binary::Less, numbers, lengths)?;
    builder.cast(valid, DType::F32).map(Some)
}

/// The activation functions of each direction.
fn activations(
    node: &NodeContext<'_>,
    cell: Cell,
    directions: usize,
) -> Result<Vec<Vec<Unary>>, OpError> {
    let usual = cell.activations();
    let Some(names) = node.attributes.strings("activations")? else {
        node.attributes
            .ignore(&["activation_alpha", "activation_beta"]);
        return Ok(vec![usual; directions]);
    };
    if names.len() != usual.len() * directions {
        let message = format!("{} activation functions", names.len());
        return Err(OpError::invalid(message));
    }
    // Each function takes the numbers that it has, in order.
    let numbers = |name| node.attributes.floats(name);
    let mut alphas = numbers("activation_alpha")?.unwrap_or_default().into_iter();
    let mut betas = numbers("activation_beta")?.unwrap_or_default().into_iter();
    let mut functions = Vec::new();
    for name in names {
        let mut alpha = |default| alphas.next().unwrap_or(default);
        functions.push(match name.to_lowercase().as_str() {
            "relu" => Unary::Relu,
            "tanh" => Unary::Tanh,
            "sigmoid" => Unary::Sigmoid,
            "softsign" => Unary::Softsign,
            "softplus" => Unary::Softplus,
            "leakyrelu" => Unary::LeakyRelu { alpha: alpha(0.01) },
            "thresholdedrelu" => Unary::ThresholdedRelu { alpha: alpha(1.0) },
            "elu" => Unary::Elu { alpha: alpha(1.0) },
            "hardsigmoid" => Unary::HardSigmoid {
                alpha: alpha(0.2),
                beta: betas.next().unwrap_or(0.5),
            },
            _ => {
                let message = format!("activation function `{name}`");
                return Err(OpError::unsupported(message));
            }
        });
    }
    Ok(functions
        .chunks(usual.len())
        .map(<[Unary]>::to_vec)
        .collect())
}

/// The outputs of all steps, `[steps, directions, n, hidden]` or `[n, steps, directions, hidden]`;
/// zeros beyond the end of a sequence.
fn sequence(
    builder: &mut Builder<'_>,
    layout: AxisOrder,
    valid: Option<ValueId>,
    directions: &[(bool, Vec<ValueId>)],
) -> Result<ValueId, OpError> {
    let mut parts = Vec::new();
    for (_, states) in directions {
        let mut h = states[0];
        if let Some(valid) = valid {
            h = builder.binary(Binary::Mul, h, valid)?;
        }
        let &[n, steps, hidden] = builder.shape(h).as_slice() else {
            return Err(OpError::invalid("states have three axes"));
        };
        parts.push(match layout {
            AxisOrder::StepsFirst => {
                let h = builder.push(Op::Transpose(vec![1, 0, 2]), &[h])?;
                builder.reshape(h, [steps, 1, n, hidden])?
            }
            AxisOrder::BatchFirst => builder.reshape(h, [n, steps, 1, hidden])?,
        });
    }
    let axis = match layout {
        AxisOrder::StepsFirst => 1,
        AxisOrder::BatchFirst => 2,
    };
    together(builder, axis, &parts)
}

/// A state after the last step that each direction computes, `[directions, n, hidden]` or
/// `[n, directions, hidden]`.
fn last(
    builder: &mut Builder<'_>,
    layout: AxisOrder,
    directions: &[(bool, Vec<ValueId>)],
    state: usize,
) -> Result<ValueId, OpError> {
    let mut parts = Vec::new();
    for (reverse, states) in directions {
        let shape = builder.shape(states[state]);
        let step = if *reverse { 0 } else { shape[1] - 1 };
        let slice = Op::Slice(along(&shape, 1, step, 1));
        let part = builder.push(slice, &[states[state]])?;
        parts.push(match layout {
            AxisOrder::StepsFirst => builder.push(Op::Transpose(vec![1, 0, 2]), &[part])?,
            AxisOrder::BatchFirst => part,
        });
    }
    let axis = match layout {
        AxisOrder::StepsFirst => 0,
        AxisOrder::BatchFirst => 1,
    };
    together(builder, axis, &parts)
}

fn together(builder: &mut Builder<'_>, axis: usize, parts: &[ValueId]) -> Result<ValueId, OpError> {
    match parts {
        &[only] => Ok(only),
        _ => builder.push(Op::Concat(axis), parts),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MAX_STEPS, States};
    use super::*;
    use crate::op::testing::{Case, Imported};

    fn numbers(shape: &[usize]) -> Tensor {
        let count = shape.iter().product::<usize>();
        let numbers = (0..count).map(|i| i as f32 / 8.0 - 1.0).collect();
        Tensor::new(shape, Data::F32(numbers)).unwrap()
    }

    /// A layer of 2 units on sequences `x` of 3 numbers.
    fn case(op_type: &'static str, gates: usize, directions: usize, x: &[usize]) -> Case {
        let weight = |width| numbers(&[directions, gates * 2, width]);
        let case = Case::new(op_type, 14).input(DType::F32, x);
        let case = case.constant(weight(3)).constant(weight(2));
        match directions {
            2 => case.string("direction", "bidirectional"),
            _ => case,
        }
    }

    fn shapes(imported: &Imported) -> Vec<Vec<usize>> {
        let shape = |&v: &ValueId| imported.graph.shape(v).to_vec();
        imported.outputs.iter().map(shape).collect()
    }

    /// The recurrences of a graph, with their names.
    fn layers(imported: &Imported) -> Vec<(&str, &Recurrence)> {
        let nodes = imported.graph.nodes().iter();
        nodes
            .filter_map(|node| Some((node.name.as_str(), Recurrence::of(node)?)))
            .collect()
    }

    #[test]
    fn outputs_have_the_shapes_of_their_layout() {
        let lstm = case("LSTM", 4, 2, &[5, 7, 3]).outputs(3).import().unwrap();
        let expected: [&[usize]; 3] = [&[5, 2, 7, 2], &[2, 7, 2], &[2, 7, 2]];
        assert_eq!(shapes(&lstm), expected);
        let batch_first = case("LSTM", 4, 2, &[7, 5, 3]).outputs(3).int("layout", 1);
        let expected: [&[usize]; 3] = [&[7, 5, 2, 2], &[7, 2, 2], &[7, 2, 2]];
        assert_eq!(shapes(&batch_first.import().unwrap()), expected);
        let gru = case("GRU", 3, 1, &[5, 7, 3]).outputs(2).import().unwrap();
        let expected: [&[usize]; 2] = [&[5, 1, 7, 2], &[1, 7, 2]];
        assert_eq!(shapes(&gru), expected);
        let rnn = case("RNN", 1, 1, &[5, 7, 3]).outputs(1).import().unwrap();
        assert_eq!(shapes(&rnn), [&[5, 1, 7, 2]]);
    }

    #[test]
    fn directions_are_layers_of_their_own() {
        let imported = case("GRU", 3, 2, &[5, 1, 3]).import().unwrap();
        let found = layers(&imported);
        let reverse: Vec<(bool, bool)> = (found.iter())
            .map(|(name, op)| (name.ends_with("/reverse"), op.reverse))
            .collect();
        assert_eq!(reverse, [(false, false), (true, true)]);
        // The memory is read only where something uses it.
        let read = |outputs: usize| {
            let lstm = case("LSTM", 4, 1, &[5, 1, 3]).outputs(outputs).import();
            let graph = lstm.unwrap().graph;
            let states = graph.nodes().iter().filter_map(States::of);
            states.map(|states| states.state).collect::<Vec<_>>()
        };
        assert_eq!(read(1), [0]);
        assert_eq!(read(3), [0, 1]);
    }

    #[test]
    fn zeros_and_full_lengths_are_nothing() {
        let zeros = |shape: &[usize]| {
            let count = shape.iter().product();
            Tensor::new(shape, Data::F32(vec![0.0; count])).unwrap()
        };
        let given = |length: i64, initial: Tensor| {
            let lstm = case("LSTM", 4, 1, &[5, 1, 3]).constant(zeros(&[1, 16]));
            let lstm = lstm.constant(Tensor::ints(vec![length])).constant(initial);
            let imported = lstm.import().unwrap();
            layers(&imported)[0].1.given
        };
        assert_eq!(given(5, zeros(&[1, 1, 2])), Given::default());
        let found = given(4, numbers(&[1, 1, 2]));
        assert!(found.valid && found.initial && !found.bias);
    }

    #[test]
    fn what_cannot_be_is_said() {
        let long = case("RNN", 1, 1, &[MAX_STEPS + 1, 1, 3]);
        assert_eq!(
            long.error(),
            "unsupported: a sequence of 1025 steps; there may be 1024"
        );
        let scaled = case("RNN", 1, 1, &[5, 1, 3]).strings("activations", &["ScaledTanh"]);
        assert_eq!(
            scaled.error(),
            "unsupported: activation function `ScaledTanh`"
        );
        let beyond = case("RNN", 1, 1, &[5, 1, 3]).absent();
        let beyond = beyond.constant(Tensor::ints(vec![6]));
        assert_eq!(beyond.error(), "a sequence of 6 steps where there are 5");
        for wrong in [
            case("RNN", 1, 1, &[5, 3]),
            case("RNN", 1, 1, &[5, 1, 4]),
            case("RNN", 1, 1, &[0, 1, 3]),
            case("RNN", 1, 1, &[5, 1, 3]).int("hidden_size", 3),
            case("RNN", 1, 1, &[5, 1, 3]).string("direction", "bidirectional"),
            case("RNN", 1, 1, &[5, 1, 3]).string("direction", "sideways"),
            case("RNN", 1, 1, &[5, 1, 3]).int("layout", 2),
            case("RNN", 1, 1, &[5, 1, 3]).float("clip", -1.0),
            case("LSTM", 4, 1, &[5, 1, 3]).strings("activations", &["Tanh"]),
            case("GRU", 3, 1, &[5, 1, 3]).constant(numbers(&[1, 3])),
        ] {
            assert!(wrong.import().is_err());
        }
    }
}
