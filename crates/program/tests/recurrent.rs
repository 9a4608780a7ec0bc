//! Recurrent layers: worked cases, and what must hold for all cells.
//!
//! Numbers of worked cases were computed in double precision from the formulas of Arras et al. that
//! `src/op/recurrent.rs` has; forward values are those of ONNX Runtime 1.31.

use npcov_engine::Engine;
use npcov_engine::native::Native;
use npcov_graph::op::{
    Arguments, Cell, CompositeOp, Gemm, Given, Recurrence, Slice, States, Unary,
};
use npcov_graph::{Classifier, DType, Data, Graph, Op, Tensor, TensorType, ValueId};
use npcov_program::{
    Attribution, Bias, ExplainOutputs, GradientTimesInput, LayerOptions, Loss, Lrp, NetworkView,
    Place, RecurrentView, RelevanceSeed, Rule, Rules, Target, Term, explain, gradient, lost_states,
    mask, path_layers, trace,
};
use npcov_tap::{Reduction, Side, Tap};

const LSTM: Cell = Cell::Lstm {
    input_forget: false,
};

const CELLS: [Cell; 5] = [
    LSTM,
    Cell::Lstm { input_forget: true },
    Cell::Gru {
        linear_before_reset: false,
    },
    Cell::Gru {
        linear_before_reset: true,
    },
    Cell::Rnn,
];

fn tensor(shape: &[usize], data: &[f32]) -> Tensor {
    Tensor::new(shape, Data::F32(data.to_vec())).unwrap()
}

/// Numbers from -1 to 1 that look random.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let number = |i: u32| {
        let mut bits = (i + 1).wrapping_mul(0x9e37_79b1) ^ seed.wrapping_mul(0x85eb_ca77);
        bits = (bits ^ (bits >> 15)).wrapping_mul(0x2c1b_3c6d);
        (bits >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count as u32).map(number).collect()
}

/// A recurrent layer under test.
#[derive(Clone)]
struct Layer {
    cell: Cell,
    steps: usize,
    features: usize,
    hidden: usize,
    reverse: bool,
    clip: Option<f32>,
    w: Vec<f32>,
    r: Vec<f32>,
    bias: Option<Vec<f32>>,
    peepholes: Option<Vec<f32>>,
    initial: Option<Vec<f32>>,
    /// Steps that are part of the sequence.
    length: Option<usize>,
}

/// The values of a graph with such a layer.
struct Values {
    graph: Graph,
    x: ValueId,
    states: ValueId,
    h: ValueId,
}

impl Layer {
    /// Random weights and biases.
    fn random(cell: Cell, steps: usize, features: usize, hidden: usize) -> Layer {
        let columns = cell.gates() * hidden;
        Layer {
            cell,
            steps,
            features,
            hidden,
            reverse: false,
            clip: None,
            w: numbers(features * columns, 1),
            r: numbers(hidden * columns, 2),
            bias: Some(numbers(2 * columns, 3)),
            peepholes: None,
            initial: None,
            length: None,
        }
    }

    /// One unit on one number, as in the worked cases.
    fn of_one(cell: Cell, w: &[f32], r: &[f32], bias: &[f32]) -> Layer {
        Layer {
            w: w.to_vec(),
            r: r.to_vec(),
            bias: (!bias.is_empty()).then(|| bias.to_vec()),
            ..Layer::random(cell, 2, 1, 1)
        }
    }

    fn append(&self, graph: &mut Graph, x: ValueId) -> (ValueId, ValueId) {
        let (hidden, columns) = (self.hidden, self.cell.gates() * self.hidden);
        let mut constant =
            |shape: &[usize], data: &[f32]| graph.add_constant("c", tensor(shape, data));
        let optional = |data: &Option<Vec<f32>>| data.clone();
        let arguments = Arguments {
            x,
            w: constant(&[self.features, columns], &self.w),
            r: constant(&[hidden, columns], &self.r),
            bias: optional(&self.bias).map(|b| constant(&[2 * columns], &b)),
            peepholes: optional(&self.peepholes).map(|p| constant(&[3 * hidden], &p)),
            initial: optional(&self.initial)
                .map(|s| constant(&[1, self.cell.states(), hidden], &s)),
            valid: self.length.map(|length| {
                let valid = |step| if step < length { 1.0 } else { 0.0 };
                let valid: Vec<f32> = (0..self.steps).map(valid).collect();
                constant(&[1, self.steps, 1], &valid)
            }),
            mask: None,
        };
        let op = Recurrence {
            cell: self.cell,
            hidden,
            reverse: self.reverse,
            activations: match self.cell {
                Cell::Lstm { .. } => vec![Unary::Sigmoid, Unary::Tanh, Unary::Tanh],
                Cell::Gru { .. } => vec![Unary::Sigmoid, Unary::Tanh],
                Cell::Rnn => vec![Unary::Tanh],
            },
            clip: self.clip,
            given: Given::default(),
        };
        let op = Recurrence {
            given: arguments.given(),
            ..op
        };
        let op = Op::Composite(CompositeOp::new(op));
        let states = graph.push("rnn", op, &arguments.into_list()).unwrap();
        let read = CompositeOp::new(States {
            cell: self.cell,
            state: 0,
        });
        let h = graph.push("rnn", Op::Composite(read), &[states]).unwrap();
        (states, h)
    }

    fn values(&self) -> Values {
        let mut graph = Graph::new();
        let ty = TensorType::new(DType::F32, [1, self.steps, self.features]);
        let x = graph.add_input("x", ty);
        let (states, h) = self.append(&mut graph, x);
        Values {
            graph,
            x,
            states,
            h,
        }
    }

    /// The outputs of all steps.
    fn outputs(&self, x: &[f32]) -> Vec<f32> {
        let Values { mut graph, h, .. } = self.values();
        graph.set_outputs(vec![h]);
        agreed(&graph, &[x]).remove(0)
    }

    /// The relevances of the sequence and of the states when `r` arrives at the outputs.
    fn relevances(&self, x: &[f32], r: &[f32], epsilon: f32, bias: Bias) -> [Vec<f32>; 2] {
        let mut v = self.values();
        let arrived = v.graph.add_input("r", v.graph.value(v.h).ty.clone());
        let seed = RelevanceSeed {
            logits: v.h,
            one_hot: arrived,
            relevance: arrived,
        };
        let lrp = Lrp {
            rules: Rules {
                overrides: vec![(Place::Named("rnn".to_owned()), Rule::epsilon(epsilon))],
                bias,
                ..Rules::default()
            },
        };
        let found = lrp.relevances(&mut v.graph, &seed, &[v.x, v.states]);
        v.graph.set_outputs(found.unwrap());
        agreed(&v.graph, &[x, r]).try_into().unwrap()
    }
}

fn run(graph: &Graph, inputs: &[&[f32]]) -> Vec<Vec<f32>> {
    Native::default().run_once(graph, 1, inputs).unwrap()
}

/// The outputs of a graph, on which kernels and plain operators must agree.
fn agreed(graph: &Graph, inputs: &[&[f32]]) -> Vec<Vec<f32>> {
    let native = run(graph, inputs);
    let plain = run(&graph.lowered(|_| true).unwrap(), inputs);
    for (a, b) in native.iter().zip(&plain) {
        close(a, b, 1e-4);
    }
    native
}

#[track_caller]
fn close(a: &[f32], b: &[f32], tolerance: f32) {
    assert_eq!(a.len(), b.len());
    let largest = b.iter().fold(1e-3_f32, |m, x| m.max(x.abs()));
    for (x, y) in a.iter().zip(b) {
        assert!((x - y).abs() <= tolerance * largest, "{a:?} is not {b:?}");
    }
}

/// The bias of a worked case: those of the sequence, then those of the state.
const LSTM_BIAS: [f32; 8] = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08];

fn worked_lstm() -> Layer {
    Layer::of_one(
        LSTM,
        &[0.5, 0.6, 0.7, 0.8],
        &[0.1, 0.2, 0.3, 0.4],
        &LSTM_BIAS,
    )
}

/// What an LSTM of one unit computes at a step, and how relevance goes back through it.
struct Step {
    x: f64,
    h_before: f64,
    c_before: f64,
    i: f64,
    o: f64,
    f: f64,
    g: f64,
    /// The sum behind `g`: without its biases, and the biases.
    sum: f64,
    bias: f64,
    c: f64,
    h: f64,
}

/// The worked case by the formulas, one number at a time.
fn lstm_steps(x: &[f64]) -> Vec<Step> {
    let sigmoid = |z: f64| 1.0 / (1.0 + (-z).exp());
    let (w, r) = ([0.5, 0.6, 0.7, 0.8], [0.1, 0.2, 0.3, 0.4]);
    let bias = [0.06, 0.08, 0.10, 0.12];
    let (mut h, mut c) = (0.0, 0.0);
    let mut steps = Vec::new();
    for &x in x {
        let z = [0, 1, 2, 3].map(|gate: usize| w[gate] * x + r[gate] * h + bias[gate]);
        let [i, o, f] = [sigmoid(z[0]), sigmoid(z[1]), sigmoid(z[2])];
        let g = z[3].tanh();
        let (h_before, c_before) = (h, c);
        c = f * c + i * g;
        h = o * c.tanh();
        steps.push(Step {
            x,
            h_before,
            c_before,
            i,
            o,
            f,
            g,
            sum: z[3] - bias[3],
            bias: bias[3],
            c,
            h,
        });
    }
    steps
}

/// Of each step, the relevance of the memory, of the signal and of the input, when `seed` arrives at
/// the last output.
fn lstm_relevances(steps: &[Step], seed: f64, absorb: bool) -> [Vec<f64>; 3] {
    let mut of = [vec![0.0; 2], vec![0.0; 2], vec![0.0; 2]];
    let (mut r_h, mut r_c) = (seed, 0.0);
    for (t, step) in steps.iter().enumerate().rev() {
        r_c += r_h;
        let r_g = step.i * step.g / step.c * r_c;
        let whole = step.sum + if absorb { step.bias } else { 0.0 };
        of[0][t] = r_c;
        of[1][t] = r_g;
        of[2][t] = 0.8 * step.x / whole * r_g;
        r_h = 0.4 * step.h_before / whole * r_g;
        r_c *= step.f * step.c_before / step.c;
    }
    of
}

fn close_f64(found: &[f64], expected: &[f64]) {
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() < 1e-7, "{found:?}, not {expected:?}");
    }
}

#[test]
fn an_lstm_by_hand() {
    let steps = lstm_steps(&[1.0, -2.0]);
    let of = |f: fn(&Step) -> f64| -> Vec<f64> { steps.iter().map(f).collect() };
    close_f64(&of(|s| s.i), &[0.636_452_5, 0.286_724_6]);
    close_f64(&of(|s| s.o), &[0.663_738_7, 0.256_795_5]);
    close_f64(&of(|s| s.f), &[0.689_974_5, 0.228_987_6]);
    close_f64(&of(|s| s.g), &[0.725_897_4, -0.877_635_6]);
    close_f64(&of(|s| s.c), &[0.461_999_3, -0.145_847_5]);
    close_f64(&of(|s| s.h), &[0.286_544_1, -0.037_189_7]);
    close_f64(&[steps[1].sum + steps[1].bias], &[-1.365_382_4]);
    let [r_c, r_g, r_x] = lstm_relevances(&steps, steps[1].h, false);
    close_f64(&r_c, &[0.031_927_2, -0.037_189_7]);
    close_f64(&r_g, &[0.031_927_2, -0.064_165_6]);
    close_f64(&r_x, &[0.031_927_2, -0.069_116_9]);
    close_f64(&[r_x[0] + r_x[1]], &[steps[1].h]);
    let [r_c, _, r_x] = lstm_relevances(&steps, steps[1].h, true);
    close_f64(&r_c, &[0.032_362_3, -0.037_189_7]);
    close_f64(&r_x, &[0.028_141_2, -0.075_191_4]);
    close_f64(&[r_x[0] + r_x[1]], &[-0.047_050_2]);
}

#[test]
fn an_lstm_is_what_it_is_by_hand() {
    let (layer, x) = (worked_lstm(), [1.0, -2.0]);
    let y = layer.outputs(&x);
    close(&y, &[0.286_544_1, -0.037_189_7], 1e-6);
    let mut v = layer.values();
    v.graph.set_outputs(vec![v.states]);
    let states = agreed(&v.graph, &[&x]).remove(0);
    // The output and the memory of each step.
    let expected = [0.286_544_1, 0.461_999_3, -0.037_189_7, -0.145_847_5];
    close(&states, &expected, 1e-6);
    let seed = [0.0, y[1]];
    let [of_x, of_states] = layer.relevances(&x, &seed, 0.0, Bias::Ignore);
    close(&of_x, &[0.031_927_2, -0.069_116_9], 1e-5);
    // All that arrives at an output is its memory's.
    close(&of_states, &[0.0, 0.031_927_2, 0.0, -0.037_189_7], 1e-5);
    // With biases in denominators, as Arras et al. have them.
    let [of_x, of_states] = layer.relevances(&x, &seed, 0.0, Bias::Absorb);
    close(&of_x, &[0.028_141_2, -0.075_191_4], 1e-5);
    close(&of_states, &[0.0, 0.032_362_3, 0.0, -0.037_189_7], 1e-5);
}

#[test]
fn a_gru_by_hand() {
    for (linear_before_reset, outputs, relevances) in [
        (
            false,
            [0.240_888_5, -0.547_311_2],
            [0.076_505_3, -0.623_816_4],
        ),
        (
            true,
            [0.236_622_5, -0.556_742_5],
            [0.075_229_5, -0.631_971_9],
        ),
    ] {
        let cell = Cell::Gru {
            linear_before_reset,
        };
        let bias = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06];
        let layer = Layer::of_one(cell, &[0.5, 0.6, 0.7], &[0.1, 0.2, 0.3], &bias);
        let y = layer.outputs(&[1.0, -2.0]);
        close(&y, &outputs, 1e-6);
        let [of_x, _] = layer.relevances(&[1.0, -2.0], &[0.0, y[1]], 0.0, Bias::Ignore);
        close(&of_x, &relevances, 1e-5);
    }
}

#[test]
fn both_directions_by_hand() {
    let forward = Layer {
        bias: None,
        ..worked_lstm()
    };
    let reverse = Layer {
        reverse: true,
        ..forward.clone()
    };
    close(
        &forward.outputs(&[1.0, -2.0]),
        &[0.252_646_3, -0.038_415_2],
        1e-6,
    );
    close(
        &reverse.outputs(&[1.0, -2.0]),
        &[0.151_341, -0.056_229_9],
        1e-6,
    );
}

/// Relevance that arrives anywhere is that of the sequence, whatever the cell.
#[test]
fn relevance_is_conserved() {
    for cell in CELLS {
        for reverse in [false, true] {
            let layer = Layer {
                reverse,
                peepholes: matches!(cell, Cell::Lstm { .. }).then(|| numbers(9, 8)),
                ..Layer::random(cell, 5, 4, 3)
            };
            let (x, r) = (numbers(20, 5), numbers(15, 6));
            let [of_x, _] = layer.relevances(&x, &r, 0.0, Bias::Ignore);
            let (sum, seed): (f32, f32) = (of_x.iter().sum(), r.iter().sum());
            // Denominators may be small, and then shares are large.
            let size: f32 = of_x.iter().map(|x| x.abs()).sum();
            assert!(
                (sum - seed).abs() <= 1e-4 * size,
                "{cell:?}: {sum} and {seed}"
            );
        }
    }
}

/// What an explanation gives of the sequence, and what is lost at the state before the first step.
fn input_and_lost(layer: &Layer, x: &[f32], attribution: &dyn Attribution) -> [Vec<f32>; 3] {
    let (graph, classifier) = classifier(layer);
    assert_eq!(lost_states(&graph), ["rnn"]);
    let layers = path_layers(&graph, &classifier, 1, &LayerOptions::default()).unwrap();
    let view = NetworkView {
        graph: &graph,
        classifier: &classifier,
        layers: &layers,
        batch: 1,
    };
    let outputs = ExplainOutputs {
        target: Target::Class(1),
        input: true,
        lost: true,
        ..ExplainOutputs::default()
    };
    let program = explain(&view, attribution, &outputs).unwrap();
    let names = ["logits", "relevance.0", "relevance.input", "relevance.lost"];
    assert_eq!(program.output_names(), names);
    let [logits, _, input, lost]: [Vec<f32>; 4] = agreed(&program.graph, &[x]).try_into().unwrap();
    [logits, input, lost]
}

fn without_stabiliser() -> Lrp {
    Lrp {
        rules: Rules {
            overrides: vec![(Place::Named("rnn".to_owned()), Rule::epsilon(0.0))],
            ..Rules::uniform(Rule::epsilon(0.0))
        },
    }
}

#[test]
fn what_arrives_at_a_constant_state_is_lost() {
    let lrp = without_stabiliser();
    for cell in CELLS {
        for reverse in [false, true] {
            let layer = Layer {
                reverse,
                initial: Some(numbers(cell.states() * 3, 9)),
                ..Layer::random(cell, 2, 4, 3)
            };
            let [logits, input, lost] = input_and_lost(&layer, &numbers(8, 5), &lrp);
            let seed = if logits[1] > 0.0 { logits[1] } else { 1.0 };
            let size: f32 = input.iter().chain(&lost).map(|x| x.abs()).sum();
            let sum = input.iter().sum::<f32>() + lost[0];
            assert!(lost[0] != 0.0, "{cell:?}");
            assert!(
                (sum - seed).abs() <= 1e-4 * size,
                "{cell:?}: {sum} and {seed}"
            );
        }
    }
}

/// An LSTM of one unit and one step from `h = 0.5`, `c = -0.25`: of its output the memory that was kept has
/// `f c / C`, the output before has its part of the signal's `i g / C`.
#[test]
fn what_is_lost_by_hand() {
    let layer = Layer {
        steps: 1,
        bias: None,
        initial: Some(vec![0.5, -0.25]),
        ..worked_lstm()
    };
    let sigmoid = |z: f64| 1.0 / (1.0 + (-z).exp());
    let [i, f] = [sigmoid(0.5 + 0.05), sigmoid(0.7 + 0.15)];
    let z: f64 = 0.8 + 0.4 * 0.5;
    let g = z.tanh();
    let c = f * -0.25 + i * g;
    let lost_of_one = f * -0.25 / c + i * g / c * (0.4 * 0.5) / z;
    let [logits, input, lost] = input_and_lost(&layer, &[1.0], &without_stabiliser());
    let seed = if logits[1] > 0.0 { logits[1] } else { 1.0 };
    close(&lost, &[seed * lost_of_one as f32], 1e-5);
    close(&input, &[seed * (1.0 - lost_of_one) as f32], 1e-5);
}

/// As a gradient: the state's values times those of the logit's gradient there.
#[test]
fn gradients_are_lost_at_a_constant_state_too() {
    let layer = Layer {
        initial: Some(vec![0.5, -0.25]),
        ..worked_lstm()
    };
    let x = [1.0, -2.0];
    let [_, _, lost] = input_and_lost(&layer, &x, &GradientTimesInput);
    let logit = |h: f32, c: f32| {
        let layer = Layer {
            initial: Some(vec![h, c]),
            ..layer.clone()
        };
        let (graph, _) = classifier(&layer);
        f64::from(run(&graph, &[&x])[0][1])
    };
    let step = 1e-2;
    let of_h = (logit(0.5 + step, -0.25) - logit(0.5 - step, -0.25)) / (2.0 * f64::from(step));
    let of_c = (logit(0.5, -0.25 + step) - logit(0.5, -0.25 - step)) / (2.0 * f64::from(step));
    close(&lost, &[(0.5 * of_h - 0.25 * of_c) as f32], 1e-2);
}

#[test]
fn one_step_is_a_dense_layer() {
    let layer = Layer::random(Cell::Rnn, 1, 4, 3);
    let (x, r) = (numbers(4, 5), numbers(3, 6));
    let [recurrent, _] = layer.relevances(&x, &r, 1e-3, Bias::Ignore);
    let mut graph = Graph::new();
    let input = graph.add_input("x", TensorType::new(DType::F32, [1, 4]));
    let w = graph.add_constant("w", tensor(&[4, 3], &layer.w));
    let y = graph.push("y", Op::MatMul, &[input, w]).unwrap();
    let arrived = graph.add_input("r", graph.value(y).ty.clone());
    let seed = RelevanceSeed {
        logits: y,
        one_hot: arrived,
        relevance: arrived,
    };
    let lrp = Lrp {
        rules: Rules::uniform(Rule::epsilon(1e-3)),
    };
    let found = lrp.relevances(&mut graph, &seed, &[input]).unwrap();
    graph.set_outputs(found);
    close(&recurrent, &run(&graph, &[&x, &r])[0], 1e-5);
}

#[test]
fn reversing_sequence_and_direction_changes_nothing() {
    fn reversed(x: &[f32], steps: usize) -> Vec<f32> {
        x.chunks(x.len() / steps).rev().flatten().copied().collect()
    }
    for cell in CELLS {
        let forward = Layer::random(cell, 4, 3, 2);
        let reverse = Layer {
            reverse: true,
            ..forward.clone()
        };
        let (x, r) = (numbers(12, 5), numbers(8, 6));
        let [expected, _] = forward.relevances(&x, &r, 1e-3, Bias::Ignore);
        let (x, r) = (reversed(&x, 4), reversed(&r, 4));
        let [found, _] = reverse.relevances(&x, &r, 1e-3, Bias::Ignore);
        close(&reversed(&found, 4), &expected, 1e-5);
    }
}

/// Without weights of the state, earlier steps are relevant only through what is kept.
#[test]
fn without_weights_of_the_state_only_memory_passes() {
    let seed = [0.0, 0.0, 0.0, 0.0, 1.0, 1.0];
    for cell in CELLS {
        let mut layer = Layer::random(cell, 3, 2, 2);
        layer.r.fill(0.0);
        let [of_x, _] = layer.relevances(&numbers(6, 5), &seed, 1e-3, Bias::Ignore);
        let before = of_x[..4].iter().any(|&x| x != 0.0);
        assert_eq!(before, cell != Cell::Rnn, "{cell:?}");
    }
}

/// A sequence that ends early is a shorter sequence.
#[test]
fn steps_beyond_the_end_count_for_nothing() {
    for cell in CELLS {
        for reverse in [false, true] {
            let padded = Layer {
                reverse,
                length: Some(3),
                ..Layer::random(cell, 5, 2, 2)
            };
            let short = Layer {
                steps: 3,
                length: None,
                ..padded.clone()
            };
            let (x, mut r) = (numbers(10, 5), numbers(10, 6));
            close(&padded.outputs(&x)[..6], &short.outputs(&x[..6]), 1e-6);
            r[6..].fill(0.0);
            let [found, _] = padded.relevances(&x, &r, 1e-3, Bias::Ignore);
            let [expected, _] = short.relevances(&x[..6], &r[..6], 1e-3, Bias::Ignore);
            close(&found[..6], &expected, 1e-5);
            assert!(found[6..].iter().all(|&x| x == 0.0));
        }
    }
}

/// Criteria are told which steps are part of a sequence.
#[test]
fn valid_steps_are_those_of_the_sequence() {
    for (length, expected) in [(Some(3), [1.0, 1.0, 1.0, 0.0]), (None, [1.0; 4])] {
        let layer = Layer {
            length,
            ..Layer::random(LSTM, 4, 3, 5)
        };
        let (graph, classifier) = classifier(&layer);
        let layers = path_layers(&graph, &classifier, 1, &LayerOptions::default()).unwrap();
        let view = NetworkView {
            graph: &graph,
            classifier: &classifier,
            layers: &layers,
            batch: 1,
        };
        let tap = Tap {
            layer: 0,
            side: Side::After,
            reduction: Reduction::Valid,
        };
        let program = trace(&view, &[tap]).unwrap();
        let found = agreed(&program.graph, &[&numbers(12, 5)]);
        assert_eq!(found.last().unwrap()[..], expected);
    }
}

/// Gradients against differences, of cells with everything that they can have.
#[test]
fn gradients_are_those_of_differences() {
    for cell in CELLS {
        for reverse in [false, true] {
            let layer = Layer {
                reverse,
                clip: Some(1.5),
                peepholes: matches!(cell, Cell::Lstm { .. }).then(|| numbers(6, 8)),
                initial: Some(numbers(2 * cell.states(), 9)),
                length: Some(3),
                ..Layer::random(cell, 4, 3, 2)
            };
            let (x, weights) = (numbers(12, 5), numbers(8, 6));
            let mut v = layer.values();
            let arrived = v.graph.add_input("r", v.graph.value(v.h).ty.clone());
            let seed = RelevanceSeed {
                logits: v.h,
                one_hot: arrived,
                relevance: arrived,
            };
            let found = GradientTimesInput.relevances(&mut v.graph, &seed, &[v.x]);
            v.graph.set_outputs(found.unwrap());
            let found = agreed(&v.graph, &[&x, &weights]).remove(0);
            let value = |x: &[f32]| -> f64 {
                let y = layer.outputs(x);
                y.iter()
                    .zip(&weights)
                    .map(|(&y, &w)| f64::from(y * w))
                    .sum()
            };
            let difference = |i: usize| {
                let step = 1e-2;
                let [mut above, mut below] = [x.clone(), x.clone()];
                above[i] += step;
                below[i] -= step;
                let slope = (value(&above) - value(&below)) / (2.0 * f64::from(step));
                slope as f32 * x[i]
            };
            let expected: Vec<f32> = (0..x.len()).map(difference).collect();
            close(&found, &expected, 2e-2);
        }
    }
}

/// A classifier of three classes on the last outputs.
fn classifier(layer: &Layer) -> (Graph, Classifier) {
    let Values { mut graph, h, .. } = layer.values();
    let mut slice = Slice::identity(graph.shape(h));
    (slice.starts[1], slice.shape[1]) = (layer.steps - 1, 1);
    let last = graph.push("last", Op::Slice(slice), &[h]).unwrap();
    let row = Op::Reshape(vec![1, layer.hidden]);
    let last = graph.push("row", row, &[last]).unwrap();
    let gemm = Op::Gemm(Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: false,
    });
    let w = tensor(&[layer.hidden, 3], &numbers(layer.hidden * 3, 7));
    let w = graph.add_constant("fc.weight", w);
    let y = graph.push("fc", gemm, &[last, w]).unwrap();
    graph.set_outputs(vec![y]);
    let classifier = Classifier::find(&graph, y);
    (graph, classifier)
}

#[test]
fn steps_are_layers_of_their_own_or_added_up() {
    for cell in CELLS {
        let layer = Layer::random(cell, 4, 3, 5);
        let (graph, classifier) = classifier(&layer);
        let x = numbers(12, 5);
        let of = |rnn: RecurrentView| {
            let options = LayerOptions {
                rnn,
                ..LayerOptions::default()
            };
            let layers = path_layers(&graph, &classifier, 1, &options).unwrap();
            assert!(layers.iter().all(|layer| layer.neurons == 5 && !layer.cut));
            let names: Vec<String> = layers.iter().map(|layer| layer.name.clone()).collect();
            let view = NetworkView {
                graph: &graph,
                classifier: &classifier,
                layers: &layers,
                batch: 1,
            };
            let program = explain(&view, &Lrp::default(), &ExplainOutputs::default()).unwrap();
            let relevances = agreed(&program.graph, &[&x]).split_off(1);
            let activations = agreed(&trace(&view, &[]).unwrap().graph, &[&x]).split_off(1);
            (names, relevances, activations)
        };
        let sum = |rows: &[Vec<f32>]| -> Vec<f32> {
            (0..5)
                .map(|i| rows.iter().map(|row| row[i]).sum())
                .collect()
        };
        let (names, steps, by_step) = of(RecurrentView::Steps);
        assert_eq!(names, ["rnn@0", "rnn@1", "rnn@2", "rnn@3"]);
        let (names, whole, means) = of(RecurrentView::Sum);
        assert_eq!(names, ["rnn"]);
        close(&sum(&steps), &whole[0], 1e-5);
        let mean: Vec<f32> = sum(&by_step).iter().map(|x| x / 4.0).collect();
        close(&mean, &means[0], 1e-5);
        let (names, parts, _) = of(RecurrentView::Segments(3));
        assert_eq!(names, ["rnn@0", "rnn@1", "rnn@2-3"]);
        close(&sum(&steps[2..]), &parts[2], 1e-5);
        let (names, last, _) = of(RecurrentView::Last);
        assert_eq!(names, ["rnn"]);
        assert_eq!(last[0], steps[3]);
    }
}

/// A unit that is switched off is one that nothing reads.
#[test]
fn masks_hold_at_every_step() {
    for cell in CELLS {
        let layer = Layer::random(cell, 4, 3, 5);
        let logits = |layer: &Layer, off: Option<usize>, rnn| {
            let (graph, classifier) = classifier(layer);
            let options = LayerOptions {
                rnn,
                ..LayerOptions::default()
            };
            let layers = path_layers(&graph, &classifier, 1, &options).unwrap();
            let view = NetworkView {
                graph: &graph,
                classifier: &classifier,
                layers: &layers,
                batch: 1,
            };
            let x = numbers(12, 5);
            let mut on = [1.0; 5];
            if let Some(unit) = off {
                on[unit] = 0.0;
            }
            let mut inputs: Vec<&[f32]> = vec![&x];
            inputs.extend(layers.iter().map(|_| &on[..]));
            let masked = agreed(&mask(&view).unwrap().graph, &inputs).remove(0);
            if off.is_none() {
                assert_eq!(masked, run(&graph, &[&x])[0]);
            }
            masked
        };
        let columns = cell.gates() * 5;
        let mut without = layer.clone();
        without.r[2 * columns..3 * columns].fill(0.0);
        for rnn in [
            RecurrentView::Sum,
            RecurrentView::Steps,
            RecurrentView::Segments(2),
        ] {
            let found = logits(&layer, Some(2), rnn);
            let expected = logits(&without, Some(2), RecurrentView::Last);
            close(&found, &expected, 1e-5);
            assert_ne!(found, logits(&layer, None, rnn));
        }
    }
}

#[test]
fn losses_can_be_differentiated() {
    let layer = Layer::random(LSTM, 4, 3, 5);
    let (graph, classifier) = classifier(&layer);
    let options = LayerOptions::default();
    let layers = path_layers(&graph, &classifier, 1, &options).unwrap();
    let view = NetworkView {
        graph: &graph,
        classifier: &classifier,
        layers: &layers,
        batch: 1,
    };
    for term in [Term::Margin, Term::Activation { layer: 0 }] {
        let program = gradient(&view, &Loss::from(term)).unwrap();
        let found = agreed(&program.graph, &[&numbers(12, 5), &[0.0]]);
        assert!(found[2].iter().any(|&g| g != 0.0));
    }
}

#[test]
fn rules_that_tell_signs_apart_are_refused() {
    let (graph, classifier) = classifier(&Layer::random(LSTM, 2, 3, 5));
    let layers = path_layers(&graph, &classifier, 1, &LayerOptions::default()).unwrap();
    let view = NetworkView {
        graph: &graph,
        classifier: &classifier,
        layers: &layers,
        batch: 1,
    };
    let lrp = Lrp {
        rules: Rules {
            overrides: vec![(Place::Named("LSTM".to_owned()), Rule::Z_PLUS)],
            ..Rules::default()
        },
    };
    let outputs = ExplainOutputs {
        input: true,
        ..ExplainOutputs::default()
    };
    let error = explain(&view, &lrp, &outputs).unwrap_err().to_string();
    assert!(error.contains("is not for recurrent layers"), "{error}");
}
