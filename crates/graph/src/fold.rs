//! Batch normalisation as part of the layer before it.

use crate::error::OpError;
use crate::graph::{Graph, Node, ValueId};
use crate::op::{BatchNormalization, Gemm, Op};
use crate::rewrite::Rewriter;
use crate::tensor::{Data, Tensor};

/// The same graph with batch normalisation moved into the weights of the convolution or Gemm before
/// it, where nothing else sees what lies between.
pub fn fold_batch_norm(graph: &Graph) -> Result<Graph, OpError> {
    let consumers = graph.consumers();
    let mut rewriter = Rewriter::new(graph);
    for node in graph.nodes() {
        match normalised(graph, &consumers, node) {
            Some((layer, folded)) => {
                let x = rewriter.get(layer.inputs[0])?;
                let weight = rewriter.graph().add_constant("weight", folded.weight);
                let bias = rewriter.graph().add_constant("bias", folded.bias);
                let inputs = [x, weight, bias];
                let output = rewriter
                    .graph()
                    .push(layer.name.clone(), folded.op, &inputs)?;
                rewriter.set(node.output, output);
            }
            None => {
                rewriter.copy(node)?;
            }
        }
    }
    rewriter.finish()
}

/// The layer in front of a batch normalisation, and what it becomes.
fn normalised<'a>(
    graph: &'a Graph,
    consumers: &[Vec<usize>],
    node: &Node,
) -> Option<(&'a Node, Folded)> {
    let Op::BatchNormalization(norm) = &node.op else {
        return None;
    };
    let layer = before(graph, consumers, node)?;
    Some((layer, Folded::new(graph, layer, node, norm)?))
}

/// The node in front of a normalisation, when only that one uses its result.
fn before<'a>(graph: &'a Graph, consumers: &[Vec<usize>], node: &Node) -> Option<&'a Node> {
    let x = node.inputs[0];
    let layer = graph.producer(x)?;
    let private = consumers[x.index()].len() == 1 && !graph.outputs().contains(&x);
    private.then_some(layer)
}

/// A layer that normalisation can become part of.
struct Layer {
    /// The layer without factors of its own.
    op: Op,
    /// The factor of its weights.
    alpha: f32,
    /// The factor of its bias.
    beta: f32,
    units: usize,
    /// How many weights of a unit stand together.
    together: usize,
}

impl Layer {
    fn new(op: &Op, weight: &[usize]) -> Option<Layer> {
        match op {
            Op::Conv(_) => {
                let (&units, taps) = weight.split_first()?;
                Some(Layer {
                    op: op.clone(),
                    alpha: 1.0,
                    beta: 1.0,
                    units,
                    together: taps.iter().product(),
                })
            }
            Op::Gemm(gemm) => {
                let &[rows, columns] = weight else {
                    return None;
                };
                let (units, together) = match gemm.trans_b {
                    true => (rows, columns),
                    false => (columns, 1),
                };
                Some(Layer {
                    op: Op::Gemm(Gemm {
                        alpha: 1.0,
                        beta: 1.0,
                        ..gemm.clone()
                    }),
                    alpha: gemm.alpha,
                    beta: gemm.beta,
                    units,
                    together,
                })
            }
            Op::ConvTranspose(_)
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
            | Op::Composite(_) => None,
        }
    }
}

/// A layer that normalises its own result.
struct Folded {
    op: Op,
    weight: Tensor,
    bias: Tensor,
}

impl Folded {
    /// `scale * (w x + b - mean) / sqrt(variance + epsilon) + shift` as weights and bias.
    fn new(graph: &Graph, layer: &Node, node: &Node, norm: &BatchNormalization) -> Option<Folded> {
        let numbers = |id: ValueId| Some(graph.constant(id)?.as_f32()?.to_vec());
        let weight = graph.constant(*layer.inputs.get(1)?)?;
        let w = weight.as_f32()?;
        let Layer {
            op,
            alpha,
            beta,
            units,
            together,
        } = Layer::new(&layer.op, weight.shape())?;
        let bias = match layer.inputs.get(2) {
            Some(&b) => numbers(b).filter(|b| b.len() == units)?,
            None => vec![0.0; units],
        };
        let [scale, shift, mean, variance] = [1, 2, 3, 4].map(|i| numbers(node.inputs[i]));
        let (scale, shift, mean, variance) = (scale?, shift?, mean?, variance?);
        let factor = |unit: usize| {
            let deviation = (f64::from(variance[unit]) + f64::from(norm.epsilon)).sqrt();
            f64::from(scale[unit]) / deviation
        };
        let folded = w
            .iter()
            .enumerate()
            .map(|(i, &w)| (f64::from(alpha) * f64::from(w) * factor(i / together % units)) as f32)
            .collect();
        let bias = (0..units)
            .map(|unit| {
                let centred = f64::from(beta) * f64::from(bias[unit]) - f64::from(mean[unit]);
                (centred * factor(unit) + f64::from(shift[unit])) as f32
            })
            .collect();
        Some(Folded {
            op,
            weight: Tensor::new(weight.shape(), Data::F32(folded))?,
            bias: Tensor::vector(bias),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{DType, TensorType};

    fn constant(graph: &mut Graph, shape: &[usize], numbers: &[f32]) -> ValueId {
        graph.add_constant(
            "c",
            Tensor::new(shape, Data::F32(numbers.to_vec())).unwrap(),
        )
    }

    /// `y = 2 (0.5 W x + 3 b - mean) / sqrt(variance) + shift`, by hand: with variances 4 and 1 the
    /// factors are 1 and 2, so the weights are halved or kept and the bias is
    /// `(3*1 - 1)*1 + 5 = 7`, `(3*2 - 2)*2 - 5 = 3`.
    #[test]
    fn a_dense_layer_takes_its_normalisation() {
        for trans_b in [false, true] {
            let mut graph = Graph::new();
            let x = graph.add_input("x", TensorType::new(DType::F32, [1, 2]));
            let (w, folded) = match trans_b {
                false => ([1.0, 2.0, 3.0, 4.0], [0.5, 2.0, 1.5, 4.0]),
                true => ([1.0, 3.0, 2.0, 4.0], [0.5, 1.5, 2.0, 4.0]),
            };
            let w = constant(&mut graph, &[2, 2], &w);
            let b = constant(&mut graph, &[2], &[1.0, 2.0]);
            let gemm = Op::Gemm(Gemm {
                alpha: 0.5,
                beta: 3.0,
                trans_a: false,
                trans_b,
            });
            let z = graph.push("fc", gemm, &[x, w, b]).unwrap();
            let mut inputs = vec![z];
            for numbers in [[2.0, 2.0], [5.0, -5.0], [1.0, 2.0], [4.0, 1.0]] {
                inputs.push(constant(&mut graph, &[2], &numbers));
            }
            let norm = Op::BatchNormalization(BatchNormalization { epsilon: 0.0 });
            let y = graph.push("bn", norm, &inputs).unwrap();
            graph.set_outputs(vec![y]);
            let graph = fold_batch_norm(&graph).unwrap();
            let [node] = graph.nodes() else {
                panic!("one node");
            };
            let numbers = |i: usize| graph.constant(node.inputs[i]).unwrap().to_f32();
            assert_eq!(node.name, "fc");
            assert_eq!(numbers(1), folded);
            assert_eq!(numbers(2), [7.0, 3.0]);
        }
    }
}
