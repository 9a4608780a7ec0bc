//! A single logit as two.

use npcov_graph::op::{Binary, Unary};
use npcov_graph::{Classifier, Ending, Graph, Node, Op, OpError, ValueId};

use crate::append::Append;
use crate::error::ProgramError;

/// The logits of all classes.
///
/// Behind a sigmoid there is one logit `z`, for the second class; that of the first is `-z`. What
/// speaks for the first class are the contributions *against* `z`, so the dense layer that computes
/// `z` is given a second output with negative weights, and each class is explained by its own.
pub(crate) fn two_sided(
    program: &mut Graph,
    classifier: &Classifier,
) -> Result<ValueId, ProgramError> {
    if classifier.ending != Ending::Sigmoid {
        return Ok(classifier.logits);
    }
    widened(program, classifier.logits).map_err(|source| ProgramError::Op {
        layer: "logits".to_owned(),
        source,
    })
}

fn widened(program: &mut Graph, logit: ValueId) -> Result<ValueId, OpError> {
    let no_dense_layer =
        || OpError::unsupported("the logit of a sigmoid that no dense layer computes");
    let producer = |program: &Graph, value: ValueId| -> Result<Node, OpError> {
        program.producer(value).cloned().ok_or_else(no_dense_layer)
    };
    // What stands behind the dense layer, the last one first.
    let mut behind = Vec::new();
    let mut node = producer(program, logit)?;
    while let Some((input, step)) = Behind::of(program, &node) {
        behind.push((node, step));
        node = producer(program, input)?;
    }
    let mut wide = dense(program, &node)?.ok_or_else(no_dense_layer)?;
    for (node, step) in behind.into_iter().rev() {
        let mut g = Append::new(program, node.name);
        wide = match step {
            Behind::Reshape { rows } => g.reshape(wide, &[rows, 2])?,
            Behind::Add { bias } => {
                let bias = g.reshape(bias, &[1, 1])?;
                let bias = both_signs(&mut g, bias, 1)?;
                g.add(wide, bias)?
            }
        };
    }
    Ok(wide)
}

/// What may stand between a dense layer and its logit.
enum Behind {
    /// Another shape of `rows` elements.
    Reshape { rows: usize },
    /// A bias in its own node.
    Add { bias: ValueId },
}

impl Behind {
    /// What a node does to the logit that is its input.
    fn of(program: &Graph, node: &Node) -> Option<(ValueId, Behind)> {
        if let Op::Reshape(_) = node.op {
            let rows = program.value(node.output).ty.numel();
            return Some((node.inputs[0], Behind::Reshape { rows }));
        }
        if node.op != Op::Binary(Binary::Add) {
            return None;
        }
        let addend = usize::from(is_constant(program, node, 1));
        let bias = node.inputs[addend];
        let is_bias = is_constant(program, node, addend) && program.value(bias).ty.numel() == 1;
        is_bias.then_some((node.inputs[1 - addend], Behind::Add { bias }))
    }
}

/// A dense layer with a second output, before the first one; `None` for any other operator.
fn dense(program: &mut Graph, node: &Node) -> Result<Option<ValueId>, OpError> {
    let is_dense = is_constant(program, node, 1);
    match &node.op {
        Op::MatMul if is_dense && program.shape(node.inputs[0]).len() == 2 => {
            let mut g = Append::new(program, node.name.clone());
            let weight = both_signs(&mut g, node.inputs[1], 1)?;
            g.op(Op::MatMul, &[node.inputs[0], weight]).map(Some)
        }
        Op::Gemm(gemm) if is_dense => {
            let mut g = Append::new(program, node.name.clone());
            let axis = usize::from(!gemm.trans_b);
            let mut inputs = vec![node.inputs[0], both_signs(&mut g, node.inputs[1], axis)?];
            if let Some(&bias) = node.inputs.get(2) {
                let bias = g.reshape(bias, &[1, 1])?;
                inputs.push(both_signs(&mut g, bias, 1)?);
            }
            g.op(Op::Gemm(gemm.clone()), &inputs).map(Some)
        }
        Op::MatMul
        | Op::Gemm(_)
        | Op::Conv(_)
        | Op::ConvTranspose(_)
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

fn is_constant(program: &Graph, node: &Node, input: usize) -> bool {
    let value = node.inputs.get(input);
    value.is_some_and(|&value| program.constant(value).is_some())
}

/// A constant's negative, and the constant itself, along an axis.
fn both_signs(g: &mut Append<'_>, x: ValueId, axis: usize) -> Result<ValueId, OpError> {
    let negative = g.unary(Unary::Neg, x)?;
    g.op(Op::Concat(axis), &[negative, x])
}

#[cfg(test)]
mod tests {
    use npcov_graph::{DType, Tensor, TensorType};

    use super::*;

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
            let wide = widened(&mut graph, z).unwrap();
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
            let error = widened(&mut graph, logit).unwrap_err().to_string();
            assert!(error.contains("no dense layer"), "{error}");
        }
    }
}
