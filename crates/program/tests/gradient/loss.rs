//! Losses, and what cannot be differentiated.

use npcov_graph::op::{Binary, Gather, Gemm, Unary};
use npcov_graph::{Classifier, DType, Graph, Op, TensorType, ValueId};
use npcov_program::{Loss, PathLayer, Program, ProgramError, Subject, Term, gradient};

use crate::harness::{close, layer, run, tensor};

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
        let subject = Subject {
            graph: &self.graph,
            classifier: &classifier,
            layers: &self.layers,
            batch: self.batch,
        };
        gradient(&subject, loss)
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
    let subject = Subject {
        graph: &graph,
        classifier: &classifier,
        layers: &[],
        batch: 2,
    };
    let program = gradient(&subject, &Term::CrossEntropy.into()).unwrap();
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
    let program = gradient(&subject, &Term::Margin.into()).unwrap();
    let found = run(&program.graph, &[&[0.5, 0.5], &[1.0, 0.0]]);
    assert_eq!(
        (&found[1][..], &found[2][..]),
        (&[-1.0, 1.0][..], &[-2.0, 2.0][..])
    );
}

fn loss_of(graph: &Graph, y: ValueId) -> Result<Program, ProgramError> {
    let classifier = Classifier::find(graph, y);
    let layers = [layer(graph, y)];
    let subject = Subject {
        graph,
        classifier: &classifier,
        layers: &layers,
        batch: 1,
    };
    gradient(&subject, &Term::Activation { layer: 0 }.into())
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

/// A position that depends on the input cannot be differentiated by this program; all such nodes
/// are named.
#[test]
fn what_has_no_gradient_is_listed() {
    let mut graph = Graph::new();
    let x = graph.add_input("x", TensorType::new(DType::F32, [3]));
    let index = graph.push("index", Op::Cast(DType::I64), &[x]).unwrap();
    let gather = || Op::Gather(Gather { axis: 0 });
    let first = graph.push("first", gather(), &[x, index]).unwrap();
    let y = graph.push("second", gather(), &[first, index]).unwrap();
    graph.set_outputs(vec![y]);
    let Err(ProgramError::NotDifferentiated(nodes)) = loss_of(&graph, y) else {
        panic!("it has no gradient");
    };
    let names: Vec<&str> = nodes.iter().map(|n| n.node.as_str()).collect();
    assert_eq!(names, ["first", "second"]);
}
