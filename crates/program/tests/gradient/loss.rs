//! Losses, and what cannot be differentiated.

use npcov_graph::op::{Binary, Gather, GatherElements, Gemm, ScatterSum, TopK, Unary};
use npcov_graph::{Classifier, DType, Graph, Op, Tensor, TensorType, ValueId};
use npcov_program::{Loss, NetworkView, PathLayer, Program, ProgramError, Term, gradient};

use crate::harness::{close, layer, numbers, run, tensor};

/// `z = x` after an identity that is a layer: the loss of given logits or activations.
struct Plain {
    graph: Graph,
    layers: Vec<PathLayer>,
    batch: usize,
}

impl Plain {
    fn new(shape: [usize; 2]) -> Plain {
        let mut graph = Graph::new();
        let x = graph.add_input("x", TensorType::new(DType::F32, shape));
        let bounds = Unary::Clip {
            min: -1e6,
            max: 1e6,
        };
        let z = graph.push("z", Op::Unary(bounds), &[x]).unwrap();
        graph.set_outputs(vec![z]);
        Plain {
            layers: vec![layer(&graph, z)],
            graph,
            batch: shape[0],
        }
    }

    fn program(&self, loss: &Loss) -> Result<Program, ProgramError> {
        let classifier = Classifier::find(&self.graph, self.graph.outputs()[0]);
        let view = NetworkView {
            graph: &self.graph,
            classifier: &classifier,
            layers: &self.layers,
            batch: self.batch,
        };
        gradient(&view, loss)
    }

    /// Loss and gradient.
    fn run(&self, loss: &Loss, x: &[f32], label: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let program = self.program(loss).unwrap();
        let mut found = run(&program.graph, &[x, label]);
        let gradient = found.remove(2);
        (found.remove(1), gradient)
    }
}

/// `-ln softmax(z)_y` and its gradient `softmax(z) - e_y`.
#[test]
fn cross_entropy() {
    let z = [1.0, 3.0, 2.0, 0.5, -1.0, 0.0f32];
    let (loss, found) = Plain::new([2, 3]).run(&Term::CrossEntropy.into(), &z, &[2.0, 0.0]);
    let mut losses = Vec::new();
    let mut expected = Vec::new();
    for (row, label) in z.chunks(3).zip([2, 0]) {
        let exponentials: Vec<f64> = row.iter().map(|&z| f64::from(z).exp()).collect();
        let sum: f64 = exponentials.iter().sum();
        losses.push(-(exponentials[label] / sum).ln());
        expected.extend((0..3).map(|j| exponentials[j] / sum - f64::from(u8::from(j == label))));
    }
    close(&loss, &losses, 1e-6, "cross entropy");
    close(&found, &expected, 1e-6, "its gradient");
}

/// The gradient of the label's logit is the probability of the others, 2e-9, to all its digits.
#[test]
fn cross_entropy_of_a_sure_prediction() {
    let z = [20.0, 0.0, -1.0];
    let (_, found) = Plain::new([1, 3]).run(&Term::CrossEntropy.into(), &z, &[0.0]);
    let others = [(-20f64).exp(), (-21f64).exp()];
    let sum = others[0] + others[1];
    for (found, expected) in found.iter().zip([-sum, others[0], others[1]]) {
        assert!((f64::from(*found) / (expected / (1.0 + sum)) - 1.0).abs() < 1e-5);
    }
}

#[test]
fn margin() {
    let z = [1.0, 3.0, 2.0, 0.5, -1.0, 0.0];
    let (loss, found) = Plain::new([2, 3]).run(&Term::Margin.into(), &z, &[1.0, 2.0]);
    assert_eq!(loss, [-1.0, 0.5]);
    assert_eq!(found, [0.0, -1.0, 1.0, 1.0, 0.0, -1.0]);
}

/// `KL(U || Q)` of (1, 1, 2, 4) is `ln 2 / 4`; a silent unit counts `ln 1e-20`.
#[test]
fn divergence() {
    let plain = Plain::new([1, 4]);
    let term = Term::Divergence { layer: 0 };
    let of = |x: &[f32]| plain.run(&term.into(), x, &[0.0]);
    let (loss, found) = of(&[1.0, 1.0, 2.0, 4.0]);
    close(&loss, &[0.173_286_8], 1e-6, "divergence");
    // d/da_i of ln(sum a) - sum(ln a) / 4 = 1/8 - 1/(4 a_i).
    close(&found, &[-0.125, -0.125, 0.0, 0.0625], 1e-6, "its gradient");
    let (loss, found) = of(&[1.0, 1.0, 2.0, 0.0]);
    close(&loss, &[10.993_065], 1e-6, "divergence");
    // Only the sum of the three depends on the silent unit, and that has a kink there: 0. For the
    // others 3/16 - 1/(4 a_i), because the share of the silent unit stays 1e-20.
    close(
        &found,
        &[-0.0625, -0.0625, 0.0625, 0.0],
        1e-6,
        "its gradient",
    );
    // Negative numbers are no activity; without any, all shares are 1e-20.
    assert_eq!(of(&[1.0, 1.0, 2.0, -3.0]), (loss, found));
    let (loss, found) = of(&[0.0, 0.0, -1.0, 0.0]);
    close(&loss, &[4f64.recip().ln() - 1e-20f64.ln()], 1e-6, "silent");
    assert_eq!(found, [0.0; 4]);
}

#[test]
fn weighted_terms_add_up() {
    let plain = Plain::new([1, 3]);
    let loss = Loss {
        terms: vec![(2.0, Term::Margin), (-0.5, Term::Activation { layer: 0 })],
        input: 0,
    };
    let (loss, found) = plain.run(&loss, &[1.0, 3.0, 2.0], &[0.0]);
    assert_eq!(loss, [2.0 * 2.0 - 0.5 * 6.0]);
    assert_eq!(found, [-2.5, 1.5, -0.5]);
    let nothing = plain.run(&Loss::default(), &[1.0, 3.0, 2.0], &[0.0]);
    assert_eq!(nothing, (vec![0.0], vec![0.0; 3]));
    let absent = Term::Activation { layer: 1 };
    assert_eq!(
        plain.program(&absent.into()).unwrap_err().to_string(),
        "a loss names path layer 1, of 1"
    );
}

/// `sum w a` and its gradient `w`, for each input of a batch.
#[test]
fn weighted_activations() {
    let plain = Plain::new([2, 3]);
    let program = plain.program(&Term::Weighted { layer: 0 }.into()).unwrap();
    let names = program.graph.inputs().iter();
    let names: Vec<&str> = names.map(|&i| &*program.graph.value(i).name).collect();
    assert_eq!(names, ["x", "label", "weight.0"]);
    let x = [1.0, 3.0, 2.0, 0.5, -1.0, 0.0];
    let w = [2.0, -1.0, 0.5, 4.0, 3.0, 7.0];
    let found = run(&program.graph, &[&x, &[0.0, 0.0], &w]);
    assert_eq!(found[1], [2.0 - 3.0 + 1.0, 2.0 - 3.0]);
    assert_eq!(found[2], w);
    let absent = Term::Weighted { layer: 1 };
    assert_eq!(
        plain.program(&absent.into()).unwrap_err().to_string(),
        "a loss names path layer 1, of 1"
    );
}

/// The weights that stand for a divergence give its gradient: with `d KL / d a_i` from central
/// differences of the definition, for the activations `relu(V x)` of two inputs.
#[test]
fn weights_carry_a_loss_of_all_inputs_back() {
    let mut graph = Graph::new();
    let x = graph.add_input("x", TensorType::new(DType::F32, [2, 3]));
    let v = numbers(12, -0.5, 1.0);
    let weights = graph.add_constant("v", tensor(&[3, 4], &v));
    let h = graph.push("h", Op::MatMul, &[x, weights]).unwrap();
    let a = graph.push("a", Op::Unary(Unary::Relu), &[h]).unwrap();
    graph.set_outputs(vec![a]);
    let classifier = Classifier::find(&graph, a);
    let layers = [layer(&graph, a)];
    let view = NetworkView {
        graph: &graph,
        classifier: &classifier,
        layers: &layers,
        batch: 2,
    };
    let program = gradient(&view, &Term::Weighted { layer: 0 }.into()).unwrap();

    let activations = |x: &[f64]| -> Vec<f64> {
        let unit = |row: usize, j: usize| -> f64 {
            let terms = (0..3).map(|i| x[3 * row + i] * f64::from(v[4 * i + j]));
            terms.sum::<f64>().max(0.0)
        };
        (0..8).map(|at| unit(at / 4, at % 4)).collect()
    };
    // KL(U || Q) of what both inputs activate together.
    let divergence = |a: &[f64]| -> f64 {
        let sum: f64 = a.iter().sum();
        let sums = (0..4).map(|j| (a[j] + a[4 + j]) / sum + 1e-20);
        sums.map(|q| 0.25 * (0.25f64.ln() - q.ln())).sum()
    };
    let slope = |f: &dyn Fn(&[f64]) -> f64, at: &[f64]| -> Vec<f64> {
        let moved = |i: usize, by: f64| {
            let mut at = at.to_vec();
            at[i] += by;
            f(&at)
        };
        let each = (0..at.len()).map(|i| (moved(i, 1e-6) - moved(i, -1e-6)) / 2e-6);
        each.collect()
    };
    let x = numbers(6, 0.2, 1.0);
    let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
    let w = slope(&divergence, &activations(&wide));
    let w: Vec<f32> = w.iter().map(|&w| w as f32).collect();
    let found = run(&program.graph, &[&x, &[0.0, 0.0], &w]);
    let expected = slope(&|x| divergence(&activations(x)), &wide);
    close(&found[2], &expected, 1e-5, "gradient");
}

/// `c max(k - m, 0)`: its slope is that of the margin while that is below `k`, downwards.
#[test]
fn hinge() {
    let plain = Plain::new([3, 3]);
    let program = plain.program(&Term::Hinge.into()).unwrap();
    let z = [1.0, 3.0, 2.0, 1.0, 3.0, 2.0, 0.5, -1.0, 0.0];
    let (label, scale, confidence) = ([1.0, 1.0, 2.0], [0.5, 3.0, 7.0], [0.0, 2.0, 0.25]);
    // The margins are -1, -1 and 0.5.
    let found = run(&program.graph, &[&z, &label, &scale, &confidence]);
    assert_eq!(found[1], [0.5, 9.0, 0.0]);
    assert_eq!(found[2], [0.0, 0.5, -0.5, 0.0, 3.0, -3.0, 0.0, 0.0, 0.0]);
}

/// The sigmoid of `z` is the probability of class 1: the loss is `ln(1 + e^-z)` for it, and
/// `ln(1 + e^z)` for class 0.
#[test]
fn a_single_logit_stands_for_two_classes() {
    let mut graph = Graph::new();
    let x = graph.add_input("x", TensorType::new(DType::F32, [2, 1]));
    let w = graph.add_constant("w", tensor(&[1, 1], &[2.0]));
    let gemm = Op::Gemm(Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: false,
    });
    let z = graph.push("z", gemm, &[x, w]).unwrap();
    let p = graph.push("p", Op::Unary(Unary::Sigmoid), &[z]).unwrap();
    graph.set_outputs(vec![p]);
    let classifier = Classifier::find(&graph, p);
    assert_eq!(classifier.logits, z);
    let view = NetworkView {
        graph: &graph,
        classifier: &classifier,
        layers: &[],
        batch: 2,
    };
    let program = gradient(&view, &Term::CrossEntropy.into()).unwrap();
    let found = run(&program.graph, &[&[0.5, 0.5], &[1.0, 0.0]]);
    assert_eq!(found[0], [1.0, 1.0]);
    let e = 1f64.exp();
    close(
        &found[1],
        &[(1.0 + 1.0 / e).ln(), (1.0 + e).ln()],
        1e-6,
        "loss",
    );
    let p = e / (1.0 + e);
    close(&found[2], &[2.0 * (p - 1.0), 2.0 * p], 1e-6, "gradient");
    let program = gradient(&view, &Term::Margin.into()).unwrap();
    let found = run(&program.graph, &[&[0.5, 0.5], &[1.0, 0.0]]);
    assert_eq!(
        (&found[1][..], &found[2][..]),
        (&[-1.0, 1.0][..], &[-2.0, 2.0][..])
    );
}

fn loss_of(graph: &Graph, y: ValueId) -> Result<Program, ProgramError> {
    let classifier = Classifier::find(graph, y);
    let layers = [layer(graph, y)];
    let view = NetworkView {
        graph,
        classifier: &classifier,
        layers: &layers,
        batch: 1,
    };
    gradient(&view, &Term::Activation { layer: 0 }.into())
}

/// Truth values and whole numbers decide, but nothing flows through them.
#[test]
fn comparisons_and_casts_pass_nothing_on() {
    let mut graph = Graph::new();
    let x = graph.add_input("x", TensorType::new(DType::F32, [3]));
    let zero = graph.add_constant("zero", tensor(&[], &[0.0]));
    let is_p = graph
        .push("is", Op::Binary(Binary::Greater), &[x, zero])
        .unwrap();
    let ones = graph.push("ones", Op::Cast(DType::F32), &[is_p]).unwrap();
    let whole = graph.push("whole", Op::Cast(DType::I64), &[x]).unwrap();
    let whole = graph.push("float", Op::Cast(DType::F32), &[whole]).unwrap();
    let gate = graph
        .push("gate", Op::Binary(Binary::Mul), &[x, ones])
        .unwrap();
    let y = graph
        .push("y", Op::Binary(Binary::Mul), &[gate, whole])
        .unwrap();
    graph.set_outputs(vec![y]);
    let program = loss_of(&graph, y).unwrap();
    let found = run(&program.graph, &[&[2.5, -1.5, 3.0], &[0.0]]);
    assert_eq!(found[2], [2.0, 0.0, 3.0]);
}

/// Of (2, 0, -1) the elements at 2, 0 and -1, the last one: what arrives goes there.
#[test]
fn slices_at_positions_that_the_input_chooses_have_gradients() {
    let mut graph = Graph::new();
    let x = graph.add_input("x", TensorType::new(DType::F32, [3]));
    let index = graph.push("index", Op::Cast(DType::I64), &[x]).unwrap();
    let gather = Op::Gather(Gather { axis: 0 });
    let y = graph.push("y", gather, &[x, index]).unwrap();
    graph.set_outputs(vec![y]);
    let program = loss_of(&graph, y).unwrap();
    let found = run(&program.graph, &[&[2.0, 0.0, -1.0], &[0.0]]);
    assert_eq!(found[2], [1.0, 0.0, 2.0]);
}

#[test]
fn the_largest_elements_have_gradients() {
    let mut graph = Graph::new();
    let x = graph.add_input("x", TensorType::new(DType::F32, [1, 4]));
    let top = TopK {
        axis: 1,
        count: 2,
        smallest: false,
    };
    let places = graph.push("places", Op::TopK(top), &[x]).unwrap();
    let gather = Op::GatherElements(GatherElements { axis: 1 });
    let top = graph.push("top", gather, &[x, places]).unwrap();
    let y = graph
        .push("y", Op::Binary(Binary::Mul), &[top, top])
        .unwrap();
    graph.set_outputs(vec![y]);
    let program = loss_of(&graph, y).unwrap();
    let found = run(&program.graph, &[&[2.0, -1.0, 5.0, 1.5], &[0.0]]);
    assert_eq!(found[2], [4.0, 0.0, 10.0, 0.0]);
}

/// All nodes without a gradient are named.
#[test]
fn what_has_no_gradient_is_listed() {
    let mut graph = Graph::new();
    let x = graph.add_input("x", TensorType::new(DType::F32, [3]));
    let places = graph.add_constant("places", Tensor::ints(vec![2, 0, 1]));
    let scatter = || Op::ScatterSum(ScatterSum { shape: vec![3] });
    let first = graph.push("first", scatter(), &[x, places]).unwrap();
    let y = graph.push("second", scatter(), &[first, places]).unwrap();
    graph.set_outputs(vec![y]);
    let Err(ProgramError::NotDifferentiated(nodes)) = loss_of(&graph, y) else {
        panic!("it has no gradient");
    };
    let names: Vec<&str> = nodes.iter().map(|n| n.node.as_str()).collect();
    assert_eq!(names, ["first", "second"]);
}
