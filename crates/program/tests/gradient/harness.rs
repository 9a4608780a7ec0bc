//! What all gradient tests need: an operator in a graph, and the naive gradient beside it.

use npcov_engine::Engine;
use npcov_engine::native::Native;
use npcov_graph::op::{Binary, Slice};
use npcov_graph::{Classifier, DType, Data, Graph, Op, Tensor, TensorType, ValueId};
use npcov_program::{Elements, Loss, NetworkView, PathLayer, Term, gradient};

/// An operand of the operator under test.
pub(crate) enum Operand {
    Varying(Vec<usize>, Vec<f32>),
    Constant(Tensor),
}

/// Numbers between `low` and `high`, none of them near another or near a round number.
pub(crate) fn numbers(count: usize, low: f32, high: f32) -> Vec<f32> {
    let golden = |i: usize| ((i + 1) as f64 * 0.618_033_988_749_895).fract() as f32;
    (0..count).map(|i| low + (high - low) * golden(i)).collect()
}

pub(crate) fn count(shape: &[usize]) -> usize {
    shape.iter().product()
}

pub(crate) fn tensor(shape: &[usize], data: &[f32]) -> Tensor {
    Tensor::new(shape, Data::F32(data.to_vec())).unwrap()
}

pub(crate) fn varying(shape: &[usize], low: f32, high: f32) -> Operand {
    Operand::Varying(shape.to_vec(), numbers(count(shape), low, high))
}

pub(crate) fn constant(shape: &[usize], low: f32, high: f32) -> Operand {
    Operand::Constant(tensor(shape, &numbers(count(shape), low, high)))
}

impl Operand {
    fn values(&self) -> Vec<f32> {
        match self {
            Operand::Varying(_, values) => values.clone(),
            Operand::Constant(tensor) => tensor.to_f32(),
        }
    }
}

pub(crate) fn run(graph: &Graph, inputs: &[&[f32]]) -> Vec<Vec<f32>> {
    Native::default().run_once(graph, 1, inputs).unwrap()
}

/// A layer of one's own choice.
pub(crate) fn layer(graph: &Graph, value: ValueId) -> PathLayer {
    PathLayer {
        name: "layer".to_owned(),
        op: "any",
        value,
        before: value,
        channel_axis: None,
        neurons: graph.value(value).ty.numel(),
        cut: true,
        steps: None,
        elements: Elements::default(),
    }
}

/// The sum of `r * op(operands)`, where the varying operands are parts of a graph's only input.
pub(crate) struct Weighted {
    pub(crate) graph: Graph,
    pub(crate) product: ValueId,
    pub(crate) x: Vec<f32>,
    /// What arrives at the operator's output.
    pub(crate) r: Vec<f32>,
}

impl Weighted {
    pub(crate) fn new(op: Op, operands: &[Operand]) -> Weighted {
        let x: Vec<f32> = operands
            .iter()
            .filter(|o| matches!(o, Operand::Varying(..)))
            .flat_map(Operand::values)
            .collect();
        let mut graph = Graph::new();
        let input = graph.add_input("x", TensorType::new(DType::F32, [x.len()]));
        let mut start = 0;
        let mut inputs = Vec::new();
        for operand in operands {
            inputs.push(match operand {
                Operand::Constant(tensor) => graph.add_constant("constant", tensor.clone()),
                Operand::Varying(shape, values) => {
                    let mut slice = Slice::identity(&[values.len()]);
                    slice.starts = vec![start];
                    start += values.len();
                    let part = graph.push("part", Op::Slice(slice), &[input]).unwrap();
                    let op = Op::Reshape(shape.clone());
                    graph.push("part", op, &[part]).unwrap()
                }
            });
        }
        let y = graph.push("y", op, &inputs).unwrap();
        let shape = graph.shape(y).to_vec();
        // Of both signs, different everywhere.
        let r: Vec<f32> = numbers(count(&shape) + 3, -1.0, 1.5).split_off(3);
        let weights = graph.add_constant("r", tensor(&shape, &r));
        let product = Op::Binary(Binary::Mul);
        let product = graph.push("product", product, &[y, weights]).unwrap();
        graph.set_outputs(vec![product]);
        Weighted {
            graph,
            product,
            x,
            r,
        }
    }

    /// The sum as the engine computes it, and its gradient.
    pub(crate) fn value_and_gradient(&self) -> (f32, Vec<f32>) {
        let classifier = Classifier::find(&self.graph, self.product);
        let layers = [layer(&self.graph, self.product)];
        let view = NetworkView {
            graph: &self.graph,
            classifier: &classifier,
            layers: &layers,
            batch: 1,
        };
        let loss = Loss::from(Term::Activation { layer: 0 });
        let program = gradient(&view, &loss).unwrap();
        let mut found = run(&program.graph, &[&self.x, &[0.0]]);
        // What a file gets: composite operators written out.
        let lowered = program.graph.lowered(|_| true).unwrap();
        let lowered = run(&lowered, &[&self.x, &[0.0]]);
        close(&lowered[2], &found[2], 1e-6, "lowered");
        (found[1][0], found.remove(2))
    }
}

/// Compares up to a fraction of the largest number.
pub(crate) fn close<T: Copy + Into<f64>>(
    found: &[f32],
    expected: &[T],
    tolerance: f64,
    what: &str,
) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let expected: Vec<f64> = expected.iter().map(|&x| x.into()).collect();
    let scale = expected.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    for (i, (&a, &b)) in found.iter().zip(&expected).enumerate() {
        assert!(
            (f64::from(a) - b).abs() <= tolerance * scale.max(1e-3),
            "{what}: element {i} is {a}, not {b}\n{found:?}\n{expected:?}"
        );
    }
}

/// The gradient of `op` against central differences of its definition `f`.
pub(crate) fn check(op: Op, operands: &[Operand], f: impl Fn(&[Vec<f64>]) -> Vec<f64>) {
    let name = op.name();
    let weighted = Weighted::new(op, operands);
    let (value, found) = weighted.value_and_gradient();
    let mut values: Vec<Vec<f64>> = operands
        .iter()
        .map(|o| o.values().iter().map(|&x| f64::from(x)).collect())
        .collect();
    let total = |values: &[Vec<f64>]| -> f64 {
        let y = f(values);
        assert_eq!(y.len(), weighted.r.len(), "{name}");
        y.iter()
            .zip(&weighted.r)
            .map(|(y, &r)| y * f64::from(r))
            .sum()
    };
    close(&[value], &[total(&values)], 1e-5, name);
    let step = 1e-6;
    let mut expected = Vec::new();
    for (i, operand) in operands.iter().enumerate() {
        if let Operand::Varying(..) = operand {
            for j in 0..values[i].len() {
                let x = values[i][j];
                values[i][j] = x + step;
                let up = total(&values);
                values[i][j] = x - step;
                let down = total(&values);
                values[i][j] = x;
                expected.push((up - down) / (2.0 * step));
            }
        }
    }
    close(&found, &expected, 2e-5, name);
}

/// All positions of a shape, in row-major order.
pub(crate) fn positions(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![Vec::new()], |all, &extent| {
        all.iter()
            .flat_map(|p| (0..extent).map(move |i| [&p[..], &[i]].concat()))
            .collect()
    })
}
