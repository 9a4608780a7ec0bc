//! A single logit as two.

use npcov_graph::op::{Binary, Gemm};
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

fn widened(program: &mut Graph, value: ValueId) -> Result<ValueId, OpError> {
    let no_dense_layer =
        || OpError::unsupported("the logit of a sigmoid that no dense layer computes");
    let node: Node = program
        .producer(value)
        .cloned()
        .ok_or_else(no_dense_layer)?;
    let constant = |program: &Graph, i: usize| {
        node.inputs
            .get(i)
            .is_some_and(|&v| program.constant(v).is_some())
    };
    match &node.op {
        Op::Reshape(_) => {
            let rows = program.value(value).ty.numel();
            let wide = widened(program, node.inputs[0])?;
            Append::new(program, node.name.clone()).reshape(wide, &[rows, 2])
        }
        Op::Binary(f) => {
            let addend = usize::from(constant(program, 1));
            let is_bias = *f == Binary::Add
                && constant(program, addend)
                && program.value(node.inputs[addend]).ty.numel() == 1;
            if !is_bias {
                return Err(no_dense_layer());
            }
            let wide = widened(program, node.inputs[1 - addend])?;
            let mut g = Append::new(program, node.name.clone());
            let bias = g.reshape(node.inputs[addend], &[1, 1])?;
            let bias = both_signs(&mut g, bias, 1)?;
            g.add(wide, bias)
        }
        Op::MatMul => {
            if !constant(program, 1) || program.shape(node.inputs[0]).len() != 2 {
                return Err(no_dense_layer());
            }
            let mut g = Append::new(program, node.name.clone());
            let weight = both_signs(&mut g, node.inputs[1], 1)?;
            g.op(Op::MatMul, &[node.inputs[0], weight])
        }
        Op::Gemm(gemm) => {
            if !constant(program, 1) {
                return Err(no_dense_layer());
            }
            let mut g = Append::new(program, node.name.clone());
            let axis = usize::from(!gemm.trans_b);
            let mut inputs = vec![node.inputs[0], both_signs(&mut g, node.inputs[1], axis)?];
            if let Some(&bias) = node.inputs.get(2) {
                let bias = g.reshape(bias, &[1, 1])?;
                inputs.push(both_signs(&mut g, bias, 1)?);
            }
            let gemm: Gemm = gemm.clone();
            g.op(Op::Gemm(gemm), &inputs)
        }
        Op::Conv(_)
        | Op::ConvTranspose(_)
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
        | Op::Composite(_) => Err(no_dense_layer()),
    }
}

/// A constant's negative, and the constant itself, along an axis.
fn both_signs(g: &mut Append<'_>, x: ValueId, axis: usize) -> Result<ValueId, OpError> {
    let negative = g.unary(npcov_graph::op::Unary::Neg, x)?;
    g.op(Op::Concat(axis), &[negative, x])
}
