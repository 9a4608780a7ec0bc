//! Batch normalisation as part of the layer before it.

use crate::error::OpError;
use crate::graph::{Graph, Node, ValueId};
use crate::op::{BatchNormalization, Op};
use crate::rewrite::Rewriter;
use crate::tensor::{Data, Tensor};

/// The same graph with batch normalisation moved into the weights of the convolution before it,
/// where nothing else sees what lies between.
pub fn fold_batch_norm(graph: &Graph) -> Result<Graph, OpError> {
    let consumers = graph.consumers();
    let mut rewriter = Rewriter::new(graph);
    for node in graph.nodes() {
        let folded = match &node.op {
            Op::BatchNormalization(norm) => foldable(graph, &consumers, node)
                .and_then(|conv| Some((conv, folded_weights(graph, conv, node, norm)?))),
            _ => None,
        };
        match folded {
            Some((conv, (weight, bias))) => {
                let x = rewriter.get(conv.inputs[0])?;
                let weight = rewriter.graph().add_constant("weight", weight);
                let bias = rewriter.graph().add_constant("bias", bias);
                let inputs = [x, weight, bias];
                let output = rewriter
                    .graph()
                    .push(conv.name.clone(), conv.op.clone(), &inputs)?;
                rewriter.set(node.output, output);
            }
            None => {
                rewriter.copy(node)?;
            }
        }
    }
    rewriter.finish()
}

/// The convolution in front of a normalisation, when only that one uses its result.
fn foldable<'a>(graph: &'a Graph, consumers: &[Vec<usize>], node: &Node) -> Option<&'a Node> {
    let x = node.inputs[0];
    let conv = graph.producer(x)?;
    let private = consumers[x.index()].len() == 1 && !graph.outputs().contains(&x);
    (matches!(conv.op, Op::Conv(_)) && private).then_some(conv)
}

/// `scale * (w x + b - mean) / sqrt(variance + epsilon) + shift` as weights and bias.
fn folded_weights(
    graph: &Graph,
    conv: &Node,
    node: &Node,
    norm: &BatchNormalization,
) -> Option<(Tensor, Tensor)> {
    let numbers = |id: ValueId| Some(graph.constant(id)?.as_f32()?.to_vec());
    let weight = graph.constant(conv.inputs[1])?;
    let w = weight.as_f32()?;
    let channels = *weight.shape().first()?;
    let bias = match conv.inputs.get(2) {
        Some(&b) => numbers(b)?,
        None => vec![0.0; channels],
    };
    let [scale, shift, mean, variance] = [1, 2, 3, 4].map(|i| numbers(node.inputs[i]));
    let (scale, shift, mean, variance) = (scale?, shift?, mean?, variance?);
    let factor =
        |c: usize| f64::from(scale[c]) / (f64::from(variance[c]) + f64::from(norm.epsilon)).sqrt();
    let per_channel = w.len() / channels.max(1);
    let folded = w
        .iter()
        .enumerate()
        .map(|(i, &w)| (f64::from(w) * factor(i / per_channel)) as f32)
        .collect();
    let bias = (0..channels)
        .map(|c| {
            let centred = f64::from(bias[c]) - f64::from(mean[c]);
            (centred * factor(c) + f64::from(shift[c])) as f32
        })
        .collect();
    let weight = Tensor::new(weight.shape(), Data::F32(folded))?;
    Some((weight, Tensor::vector(bias)))
}
