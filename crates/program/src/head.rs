//! The logits that are explained, where they are not those that the model computes.
//!
//! What speaks *against* a number are the contributions that lower it. So the dense layer that computes it is given further
//! outputs with negative weights, and each side is explained by its own.

use npcov_graph::op::{Binary, Gather, Unary};
use npcov_graph::{Classifier, Data, Ending, Graph, Node, Op, OpError, Tensor, ValueId};

use crate::append::Append;
use crate::error::ProgramError;
use crate::opposite::opposite;

/// The logits of all classes, or of all directions.
///
/// * Behind a sigmoid there is one logit `z`, for the second class; that of the first is `-z`.
/// * Where the smallest score is chosen, each class has the negative of its score.
/// * A number can be explained in two directions, down and up: `-p` and `p`, `p` being what a dense layer gives for it; a
///   monotone function behind that layer, a scale and a shift change nothing but which direction is which.
pub(crate) fn explained_logits(
    program: &mut Graph,
    classifier: &Classifier,
) -> Result<ValueId, ProgramError> {
    let outputs = |program: &Graph| {
        program
            .shape(classifier.logits)
            .last()
            .copied()
            .unwrap_or(1)
    };
    let columns: Vec<(usize, f32)> = match classifier.ending {
        Ending::Logits | Ending::Softmax | Ending::LogSoftmax => return Ok(classifier.logits),
        Ending::Sigmoid => vec![(0, -1.0), (0, 1.0)],
        Ending::Smallest => (0..outputs(program)).map(|o| (o, -1.0)).collect(),
        Ending::Numbers => {
            let outputs = numbers_of(program, classifier.logits)?;
            let sides = |o: usize| [(o, -1.0), (o, 1.0)];
            (0..outputs).flat_map(sides).collect()
        }
    };
    let through = classifier.ending == Ending::Numbers;
    widened(
        program,
        classifier.logits,
        &columns,
        through,
        Otherwise::Opposite,
    )
    .map_err(at_logits)
}

/// What is done where no dense layer computes an output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Otherwise {
    /// Sums of other kinds have their [opposites](opposite).
    Opposite,
    /// It is an error.
    Refuse,
}

fn at_logits(source: OpError) -> ProgramError {
    ProgramError::Op {
        layer: "logits".to_owned(),
        source,
    }
}

/// Outputs of a model of numbers, which stand side by side: one axis besides that of the batch, at most. Where the axis of
/// the batch holds more than inputs, exporters put several numbers of an input below each other.
fn numbers_of(program: &Graph, value: ValueId) -> Result<usize, ProgramError> {
    let input = program.inputs().first();
    let batch = input.and_then(|&v| program.shape(v).first().copied());
    let numel = program.value(value).ty.numel();
    match program.shape(value) {
        [] | [_] | [_, _] => Ok(numel
            / batch
                .filter(|&n| numel.is_multiple_of(n))
                .unwrap_or(1)
                .max(1)),
        _ => Err(at_logits(OpError::unsupported(
            "an output of numbers with more than one axis",
        ))),
    }
}

/// The value that a number is explained from: the output of the last linear map. A monotone function that follows it, a
/// scale and a shift by constants are looked behind.
pub fn explained_number(graph: &Graph, output: ValueId) -> ValueId {
    let (mut value, mut found) = (output, output);
    while let Some(node) = graph.producer(value)
        && let Some((input, step)) = Behind::of(graph, node, true)
    {
        value = input;
        if let Behind::Through(_) = step {
            found = input;
        }
    }
    found
}

/// The dense layer that computes a value, with these columns of it, each with a sign; and what stands between the two.
pub(crate) fn widened(
    program: &mut Graph,
    logit: ValueId,
    columns: &[(usize, f32)],
    through: bool,
    otherwise: Otherwise,
) -> Result<ValueId, OpError> {
    let no_dense_layer = || OpError::unsupported("an output that is no weighted sum");
    let producer = |program: &Graph, value: ValueId| -> Result<Node, OpError> {
        program.producer(value).cloned().ok_or_else(no_dense_layer)
    };
    // What stands behind the dense layer, the last one first.
    let mut behind = Vec::new();
    let mut node = producer(program, logit)?;
    while let Some((input, step)) = Behind::of(program, &node, through) {
        behind.push((node, step));
        node = producer(program, input)?;
    }
    // Decreasing steps turn directions round. What stands behind such a step is no part of the linear map.
    let mut columns = columns.to_vec();
    let linear = behind
        .iter()
        .rposition(|(_, step)| matches!(step, Behind::Through(_)));
    for (_, step) in &behind {
        if let Behind::Through(signs) = step {
            for (output, sign) in &mut columns {
                *sign *= signs.get(*output).or(signs.first()).copied().unwrap_or(1.0);
            }
        }
    }
    let mut wide = match (dense(program, &node, &columns)?, otherwise) {
        (Some(wide), _) => wide,
        (None, Otherwise::Opposite) => {
            both_sides(program, node.output, &columns)?.ok_or_else(no_dense_layer)?
        }
        (None, Otherwise::Refuse) => return Err(no_dense_layer()),
    };
    let steps = behind.into_iter().skip(linear.map_or(0, |last| last + 1));
    for (node, step) in steps.collect::<Vec<_>>().into_iter().rev() {
        let mut g = Append::new(program, node.name);
        wide = match step {
            Behind::Reshape { rows } => {
                let rows = rows / g.shape(wide).last().map_or(1, |_| outputs_of(&columns));
                g.reshape(wide, &[rows.max(1), columns.len()])?
            }
            Behind::Add { bias } => {
                let bias = selected(&mut g, bias, &columns)?;
                g.add(wide, bias)?
            }
            Behind::Through(_) => wide,
        };
    }
    Ok(wide)
}

/// These columns of a value and of its negative; `None` where the negative is no sum.
fn both_sides(
    program: &mut Graph,
    value: ValueId,
    columns: &[(usize, f32)],
) -> Result<Option<ValueId>, OpError> {
    let Some(negative) = opposite(program, value)? else {
        return Ok(None);
    };
    let name = program.value(value).name.clone();
    let mut g = Append::new(program, name);
    let outputs = outputs_of(columns);
    let rows = g.graph.value(value).ty.numel() / outputs;
    let sides = [negative, value].map(|side| g.reshape(side, &[rows, outputs]));
    let sides = sides.into_iter().collect::<Result<Vec<_>, _>>()?;
    let both = g.op(Op::Concat(1), &sides)?;
    let places = columns
        .iter()
        .map(|&(output, sign)| (output + if sign > 0.0 { outputs } else { 0 }) as i64)
        .collect();
    let places = Tensor::new([columns.len()], Data::I64(places));
    let places = g.constant(places.ok_or_else(|| OpError::invalid("no columns"))?);
    g.op(Op::Gather(Gather { axis: 1 }), &[both, places])
        .map(Some)
}

/// Outputs that columns are made from.
fn outputs_of(columns: &[(usize, f32)]) -> usize {
    columns
        .iter()
        .map(|&(output, _)| output + 1)
        .max()
        .unwrap_or(1)
}

/// What may stand between a dense layer and its logit.
enum Behind {
    /// Another shape of `rows` elements.
    Reshape { rows: usize },
    /// A bias in its own node.
    Add { bias: ValueId },
    /// Something monotone: 1 where it increases and -1 where it decreases, for all outputs or for each.
    Through(Vec<f32>),
}

impl Behind {
    /// What a node does to the logit that is its input; `through` says whether what is monotone is looked behind.
    fn of(program: &Graph, node: &Node, through: bool) -> Option<(ValueId, Behind)> {
        match &node.op {
            Op::Reshape(_) => {
                let rows = program.value(node.output).ty.numel();
                Some((node.inputs[0], Behind::Reshape { rows }))
            }
            Op::Binary(f) => {
                let constant = usize::from(is_constant(program, node, 1));
                let number = node.inputs[constant];
                let tensor = program.constant(number)?;
                let signs = || tensor.to_f32().iter().map(|x| x.signum()).collect();
                let input = node.inputs[1 - constant];
                // Not a constant that the logit is spread over.
                if program.shape(node.output) != program.shape(input) {
                    return None;
                }
                match f {
                    Binary::Add => Some((input, Behind::Add { bias: number })),
                    Binary::Sub if through && constant == 1 => {
                        Some((input, Behind::Through(vec![1.0])))
                    }
                    Binary::Min | Binary::Max if through => {
                        Some((input, Behind::Through(vec![1.0])))
                    }
                    Binary::Mul if through => Some((input, Behind::Through(signs()))),
                    Binary::Div if through && constant == 1 => {
                        Some((input, Behind::Through(signs())))
                    }
                    Binary::Sub
                    | Binary::Mul
                    | Binary::Div
                    | Binary::Pow
                    | Binary::Min
                    | Binary::Max
                    | Binary::Mod
                    | Binary::Fmod
                    | Binary::PRelu
                    | Binary::Equal
                    | Binary::Less
                    | Binary::LessOrEqual
                    | Binary::Greater
                    | Binary::GreaterOrEqual
                    | Binary::And
                    | Binary::Or
                    | Binary::Xor => None,
                }
            }
            Op::Unary(f) if through && f.is_increasing() => {
                Some((node.inputs[0], Behind::Through(vec![1.0])))
            }
            Op::Unary(Unary::Neg) if through => Some((node.inputs[0], Behind::Through(vec![-1.0]))),
            Op::Conv(_)
            | Op::ConvTranspose(_)
            | Op::Gemm(_)
            | Op::MatMul
            | Op::BatchNormalization(_)
            | Op::InstanceNormalization(_)
            | Op::LayerNormalization(_)
            | Op::Lrn(_)
            | Op::Unary(_)
            | Op::Where
            | Op::Cast(_)
            | Op::Pool(_)
            | Op::Reduce(_)
            | Op::ArgMax(_)
            | Op::TopK(_)
            | Op::Softmax(_)
            | Op::Transpose(_)
            | Op::Concat(_)
            | Op::Slice(_)
            | Op::Pad(_)
            | Op::Expand(_)
            | Op::Tile(_)
            | Op::Gather(_)
            | Op::GatherElements(_)
            | Op::Resize(_)
            | Op::ScatterSum(_)
            | Op::Composite(_) => None,
        }
    }
}

/// A dense layer whose outputs are these columns of its own, each with a sign; `None` for any other operator.
fn dense(
    program: &mut Graph,
    node: &Node,
    columns: &[(usize, f32)],
) -> Result<Option<ValueId>, OpError> {
    let Some(weight) = node.inputs.get(1).and_then(|&w| program.constant(w)) else {
        return Ok(None);
    };
    let weight = weight.clone();
    let mut g = Append::new(program, node.name.clone());
    match &node.op {
        Op::MatMul if g.shape(node.inputs[0]).len() == 2 => {
            let weight = columns_of(&weight, 1, columns)?;
            let weight = g.constant(weight);
            g.op(Op::MatMul, &[node.inputs[0], weight]).map(Some)
        }
        Op::Gemm(gemm) => {
            let weight = columns_of(&weight, usize::from(!gemm.trans_b), columns)?;
            let mut inputs = vec![node.inputs[0], g.constant(weight)];
            if let Some(&bias) = node.inputs.get(2) {
                inputs.push(selected(&mut g, bias, columns)?);
            }
            g.op(Op::Gemm(gemm.clone()), &inputs).map(Some)
        }
        Op::Conv(_)
        | Op::ConvTranspose(_)
        | Op::MatMul
        | Op::BatchNormalization(_)
        | Op::InstanceNormalization(_)
        | Op::LayerNormalization(_)
        | Op::Lrn(_)
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::Where
        | Op::Cast(_)
        | Op::Pool(_)
        | Op::Reduce(_)
        | Op::ArgMax(_)
        | Op::TopK(_)
        | Op::Softmax(_)
        | Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Concat(_)
        | Op::Slice(_)
        | Op::Pad(_)
        | Op::Expand(_)
        | Op::Tile(_)
        | Op::Gather(_)
        | Op::GatherElements(_)
        | Op::Resize(_)
        | Op::ScatterSum(_)
        | Op::Composite(_) => Ok(None),
    }
}

/// Columns of a matrix, each with a sign.
fn columns_of(matrix: &Tensor, axis: usize, columns: &[(usize, f32)]) -> Result<Tensor, OpError> {
    let &[rows, width] = matrix.shape() else {
        return Err(OpError::unsupported(
            "a dense layer whose weights are no matrix",
        ));
    };
    let numbers = matrix.to_f32();
    let (inputs, outputs) = match axis {
        1 => (rows, width),
        _ => (width, rows),
    };
    if columns.iter().any(|&(output, _)| output >= outputs) {
        return Err(OpError::invalid("an output that the dense layer has not"));
    }
    let at = |input: usize, output: usize| match axis {
        1 => numbers[input * width + output],
        _ => numbers[output * width + input],
    };
    let (shape, chosen): (_, Vec<f32>) = match axis {
        1 => (
            [inputs, columns.len()],
            (0..inputs)
                .flat_map(|i| columns.iter().map(move |&(o, sign)| (i, o, sign)))
                .map(|(i, o, sign)| sign * at(i, o))
                .collect(),
        ),
        _ => (
            [columns.len(), inputs],
            (columns.iter())
                .flat_map(|&(o, sign)| (0..inputs).map(move |i| (i, o, sign)))
                .map(|(i, o, sign)| sign * at(i, o))
                .collect(),
        ),
    };
    Tensor::new(shape, Data::F32(chosen)).ok_or_else(|| OpError::invalid("no weights"))
}

/// A bias, one number or one for each output, for these columns.
fn selected(
    g: &mut Append<'_>,
    bias: ValueId,
    columns: &[(usize, f32)],
) -> Result<ValueId, OpError> {
    let numbers = g
        .graph
        .constant(bias)
        .map(|tensor| tensor.to_f32().to_vec());
    let numbers = numbers.ok_or_else(|| OpError::unsupported("a bias that is computed"))?;
    let number = |output: usize| match numbers[..] {
        [single] => Some(single),
        _ => numbers.get(output).copied(),
    };
    let chosen: Option<Vec<f32>> = columns
        .iter()
        .map(|&(output, sign)| Some(sign * number(output)?))
        .collect();
    let chosen = chosen.ok_or_else(|| OpError::invalid("a bias of another size"))?;
    let tensor = Tensor::new([1, columns.len()], Data::F32(chosen));
    let tensor = tensor.ok_or_else(|| OpError::invalid("no bias"))?;
    Ok(g.constant(tensor))
}

fn is_constant(program: &Graph, node: &Node, input: usize) -> bool {
    let value = node.inputs.get(input);
    value.is_some_and(|&value| program.constant(value).is_some())
}

#[cfg(test)]
mod tests {
    use npcov_graph::{DType, Tensor, TensorType};

    use super::*;

    const SIDES: [(usize, f32); 2] = [(0, -1.0), (0, 1.0)];

    /// `tanh(2 - 3 (W x + b))`: the direction is turned round by the factor, and the explained value is that of the dense
    /// layer with its bias.
    #[test]
    fn numbers_are_explained_behind_monotone_functions() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 2]));
        let w = Tensor::vector(vec![1.0, 2.0, 3.0, 4.0])
            .reshaped([2, 2])
            .unwrap();
        let w = graph.add_constant("w", w);
        let b = graph.add_constant("b", Tensor::vector(vec![5.0, 6.0]));
        let (two, factor) = (Tensor::scalar(2.0), Tensor::scalar(-3.0));
        let (two, factor) = (
            graph.add_constant("2", two),
            graph.add_constant("-3", factor),
        );
        let z = graph.push("dense", Op::MatMul, &[x, w]).unwrap();
        let p = graph
            .push("bias", Op::Binary(Binary::Add), &[z, b])
            .unwrap();
        let y = graph
            .push("scale", Op::Binary(Binary::Mul), &[p, factor])
            .unwrap();
        let y = graph
            .push("shift", Op::Binary(Binary::Add), &[y, two])
            .unwrap();
        let y = graph.push("tanh", Op::Unary(Unary::Tanh), &[y]).unwrap();
        assert_eq!(explained_number(&graph, y), p);
        let classifier = Classifier {
            logits: y,
            ending: Ending::Numbers,
        };
        let wide = explained_logits(&mut graph, &classifier).unwrap();
        assert_eq!(graph.shape(wide), [1, 4]);
        let bias = graph.producer(wide).unwrap().inputs[1];
        assert_eq!(
            graph.constant(bias).unwrap().to_f32()[..],
            [5.0, -5.0, 6.0, -6.0]
        );
        let dense = graph
            .producer(graph.producer(wide).unwrap().inputs[0])
            .unwrap();
        let weights = graph.constant(dense.inputs[1]).unwrap().to_f32().to_vec();
        assert_eq!(weights, [1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, -4.0]);
    }

    /// `w x + b` with `count` biases of 1.
    fn logit(count: usize) -> (Graph, ValueId) {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 2]));
        let w = Tensor::vector(vec![3.0, -4.0]).reshaped([2, 1]).unwrap();
        let w = graph.add_constant("w", w);
        let one = graph.add_constant("one", Tensor::scalar(1.0));
        let mut z = graph.push("dense", Op::MatMul, &[x, w]).unwrap();
        for _ in 0..count {
            z = graph.push("b", Op::Binary(Binary::Add), &[z, one]).unwrap();
        }
        let z = graph.push("flat", Op::Reshape(vec![1]), &[z]).unwrap();
        (graph, z)
    }

    #[test]
    fn a_logit_of_any_depth_has_two_sides() {
        for count in [0, 1, 100_000] {
            let (mut graph, z) = logit(count);
            let wide = widened(&mut graph, z, &SIDES, false, Otherwise::Refuse).unwrap();
            assert_eq!(graph.shape(wide), [1, 2]);
            let weights = graph.values().iter().filter_map(|v| v.constant.as_ref());
            let weights: Vec<f32> = weights
                .filter(|t| t.shape() == [2, 2])
                .flat_map(|t| t.to_f32())
                .collect();
            assert_eq!(weights, [-3.0, 3.0, 4.0, -4.0]);
        }
    }

    #[test]
    fn without_a_dense_layer_there_is_one_side() {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, [1, 1]));
        let z = graph.push("z", Op::Unary(Unary::Tanh), &[x]).unwrap();
        for logit in [x, z] {
            let error = widened(&mut graph, logit, &SIDES, false, Otherwise::Opposite)
                .unwrap_err()
                .to_string();
            assert!(error.contains("no weighted sum"), "{error}");
        }
    }
}
