//! Attention, worked out by hand: in float64, without stabilisers, from the formulas.

use npcov_engine::Engine;
use npcov_engine::native::Native;
use npcov_graph::op::{Binary, LayerNormalization, Softmax, Unary};
use npcov_graph::{DType, Data, Graph, Op, Tensor, TensorType, ValueId};
use npcov_program::{
    AttnLrp, Attribution, GradientTimesInput, Lrp, Preset, RelevanceSeed, Rule, Rules,
};

struct Net {
    graph: Graph,
    inputs: Vec<Vec<f32>>,
}

impl Net {
    fn new() -> Net {
        Net {
            graph: Graph::new(),
            inputs: Vec::new(),
        }
    }

    fn input(&mut self, shape: &[usize], numbers: &[f32]) -> ValueId {
        self.inputs.push(numbers.to_vec());
        let ty = TensorType::new(DType::F32, shape);
        self.graph.add_input("x", ty)
    }

    fn constant(&mut self, shape: &[usize], numbers: &[f32]) -> ValueId {
        let tensor = Tensor::new(shape, Data::F32(numbers.to_vec())).unwrap();
        self.graph.add_constant("c", tensor)
    }

    fn op(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        self.graph.push("n", op, inputs).unwrap()
    }

    /// The relevances of values when a relevance, or for gradients a gradient, arrives at `y`.
    fn relevances(
        &self,
        attribution: &dyn Attribution,
        (y, arrived): (ValueId, &[f32]),
        targets: &[ValueId],
    ) -> Vec<Vec<f32>> {
        let mut program = self.graph.clone();
        let arriving = program.add_input("r", self.graph.value(y).ty.clone());
        let seed = RelevanceSeed {
            logits: y,
            one_hot: arriving,
            relevance: arriving,
        };
        let found = attribution.relevances(&mut program, &seed, targets);
        program.set_outputs(found.unwrap());
        let given: Vec<&[f32]> = self.inputs.iter().map(Vec::as_slice).collect();
        let given = [given, vec![arrived]].concat();
        let lowered = program.lowered(|_| true).unwrap();
        let [a, b] = [&program, &lowered]
            .map(|program| Native::default().run_once(program, 1, &given).unwrap());
        for (a, b) in a.iter().zip(&b) {
            close(a, b);
        }
        a
    }
}

fn close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{found:?}, not {expected:?}");
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= 2e-5, "{found:?}, not {expected:?}");
    }
}

fn softmax() -> Op {
    Op::Softmax(Softmax {
        axis: 1,
        log: false,
    })
}

/// The exact z-rule for all linear operators.
fn z_rule() -> Lrp {
    Lrp {
        rules: Rules::uniform(Rule::epsilon(0.0)),
    }
}

/// A relevance as the gradient that stands for it.
fn as_gradient(relevance: &[f32], y: &[f32]) -> Vec<f32> {
    relevance.iter().zip(y).map(|(r, y)| r / y).collect()
}

/// x = (1, 2) with R = (.3, .7): R_x = x (R - s sum(R)), which does not add up to 1.
#[test]
fn a_softmax_by_attnlrp() {
    let mut net = Net::new();
    let x = net.input(&[1, 2], &[1.0, 2.0]);
    let s = net.op(softmax(), &[x]);
    let g = as_gradient(&[0.3, 0.7], &[0.268_941_4, 0.731_058_6]);
    let found = net.relevances(&AttnLrp, (s, &g), &[x]);
    close(&found[0], &[0.031_058_6, -0.062_117_2]);
}

/// A = (.25, .75), V = (4, 2)': half of the relevance to each operand, by contributions.
#[test]
fn a_product_of_two_activations() {
    for (v, half) in [([4.0, 2.0], [0.2, 0.3]), ([4.0, -2.0], [-1.0, 1.5])] {
        let mut net = Net::new();
        let a = net.input(&[1, 2], &[0.25, 0.75]);
        let values = net.input(&[2, 1], &v);
        let o = net.op(Op::MatMul, &[a, values]);
        let found = net.relevances(&z_rule(), (o, &[1.0]), &[a, values]);
        close(&found[0], &half);
        close(&found[1], &half);
        let g = 1.0 / (0.25 * v[0] + 0.75 * v[1]);
        let found = net.relevances(&AttnLrp, (o, &[g]), &[a, values]);
        close(&found[0], &half);
        close(&found[1], &half);
    }
}

/// The same with weights that a softmax made of (0, ln 3): the values get everything.
#[test]
fn a_product_with_constant_weights() {
    for (v, all) in [([4.0, 2.0], [0.4, 0.6]), ([4.0, -2.0], [-2.0, 3.0])] {
        let mut net = Net::new();
        let scores = net.input(&[1, 2], &[0.0, 3.0_f32.ln()]);
        let values = net.input(&[2, 1], &v);
        let a = net.op(softmax(), &[scores]);
        let o = net.op(Op::MatMul, &[a, values]);
        for rules in [
            Rules::uniform(Rule::epsilon(0.0)),
            Preset::Transformer.rules(),
        ] {
            let found = net.relevances(&Lrp { rules }, (o, &[1.0]), &[scores, values]);
            close(&found[0], &[0.0, 0.0]);
            close(&found[1], &all);
        }
    }
}

/// One head on two tokens: X = I, Wq = (1, 1)', Wk = (1, 2)', Wv = (4, 1)', o = 1.8068243.
fn head() -> (Net, [ValueId; 7]) {
    let mut net = Net::new();
    let x = net.input(&[2, 2], &[1.0, 0.0, 0.0, 1.0]);
    let project = |net: &mut Net, w: [f32; 2]| {
        let w = net.constant(&[2, 1], &w);
        net.op(Op::MatMul, &[x, w])
    };
    let q = project(&mut net, [1.0, 1.0]);
    let k = project(&mut net, [1.0, 2.0]);
    let v = project(&mut net, [4.0, 1.0]);
    let k_t = net.op(Op::Transpose(vec![1, 0]), &[k]);
    let scores = net.op(Op::MatMul, &[q, k_t]);
    let p = net.op(softmax(), &[scores]);
    let o = net.op(Op::MatMul, &[p, v]);
    (net, [x, q, k, v, scores, p, o])
}

#[test]
fn a_head_by_attnlrp_and_with_constant_weights() {
    let (net, [x, q, k, v, scores, p, o]) = head();
    let found = net.relevances(&AttnLrp, (o, &[1.0, 0.0]), &[x, q, k, v, scores, p]);
    let expected: [&[f32]; 6] = [
        &[0.537_882_8, 0.0, 0.0, 0.070_611_4],
        &[-0.147_458_9, 0.0],
        &[0.147_458_9, -0.294_917_9],
        &[0.537_882_8, 0.365_529_3],
        &[0.294_917_9, -0.589_835_8, 0.0, 0.0],
        &[0.537_882_8, 0.365_529_3, 0.0, 0.0],
    ];
    for (found, expected) in found.iter().zip(expected) {
        close(found, expected);
    }
    // With weights of attention as constants, all goes to the values, and nothing is lost.
    for preset in [Preset::Transformer, Preset::Npc] {
        let lrp = Lrp {
            rules: preset.rules(),
        };
        let found = net.relevances(&lrp, (o, &[1.806_824_3, 0.0]), &[x, q]);
        close(&found[0], &[1.075_765_7, 0.0, 0.0, 0.731_058_6]);
        close(&found[1], &[0.0, 0.0]);
    }
}

/// The values (4, -1) have both signs: the preset shares them by their parts in the sum.
#[test]
fn values_are_shared_by_their_parts_in_the_sum() {
    let mut net = Net::new();
    let scores = net.input(&[1, 2], &[1.0, 2.0]);
    let values = net.input(&[2, 1], &[4.0, -1.0]);
    let p = net.op(softmax(), &[scores]);
    let o = net.op(Op::MatMul, &[p, values]);
    let (a, b) = (4.0 * 0.268_941_42, -0.731_058_6);
    let share = |rules: Rules, r: f32| {
        let found = net.relevances(&Lrp { rules }, (o, &[r]), &[values, scores]);
        close(&found[1], &[0.0, 0.0]);
        found[0].clone()
    };
    let sum: f32 = a + b;
    close(&share(Preset::Transformer.rules(), sum), &[a, b]);
    close(&share(Preset::Npc.rules(), 1.0), &[1.5, -0.5]);
}

/// x = (1, 2, 6), scale (1, 2, 1), bias (.5, 0, -.5), R = (1, 2, 3), y = (-.4258, -.9258, .8887).
#[test]
fn layer_normalisation_passes_on_or_is_centred() {
    let mut net = Net::new();
    let x = net.input(&[1, 3], &[1.0, 2.0, 6.0]);
    let scale = net.constant(&[3], &[1.0, 2.0, 1.0]);
    let bias = net.constant(&[3], &[0.5, 0.0, -0.5]);
    let layer = LayerNormalization {
        axis: 1,
        epsilon: 0.0,
    };
    let y = net.op(Op::LayerNormalization(layer), &[x, scale, bias]);
    let r = [1.0, 2.0, 3.0];
    let found = net.relevances(&z_rule(), (y, &r), &[x]);
    close(&found[0], &r);
    let g = as_gradient(&r, &[-0.425_820_1, -0.925_820_1, 0.888_730_1]);
    let found = net.relevances(&AttnLrp, (y, &g), &[x]);
    close(&found[0], &[-0.578_935_1, -2.983_665_4, 12.424_607]);
    // Without the bias nothing is absorbed: the sum stays 6.
    let none = net.constant(&[3], &[0.0; 3]);
    let layer = LayerNormalization {
        axis: 1,
        epsilon: 0.0,
    };
    let y = net.op(Op::LayerNormalization(layer), &[x, scale, none]);
    let g = as_gradient(&r, &[-0.925_820_1, -0.925_820_1, 1.388_73]);
    let found = net.relevances(&AttnLrp, (y, &g), &[x]);
    close(&found[0], &[0.0, -3.0, 9.0]);
}

/// GELU(-1, .5, 2) has the factors (.1587, .6915, .9772), SiLU (.2689, .6225, .8808); at zero both
/// have their slope, a half.
#[test]
fn functions_are_factors() {
    let cases = [
        (
            Unary::Gelu { tanh: false },
            [0.158_655_3, 0.691_462_5, 0.977_249_9],
        ),
        (
            Unary::Swish { alpha: 1.0 },
            [0.268_941_4, 0.622_459_3, 0.880_797_1],
        ),
    ];
    for (f, factors) in cases {
        let mut net = Net::new();
        let x = net.input(&[1, 4], &[-1.0, 0.5, 2.0, 0.0]);
        let y = net.op(Op::Unary(f), &[x]);
        let found = net.relevances(&AttnLrp, (y, &[1.0; 4]), &[x]);
        close(
            &found[0],
            &[-factors[0], 0.5 * factors[1], 2.0 * factors[2], 0.0],
        );
        // Times the input, a gradient at zero does not show: look at it behind a sum.
        let mut net = Net::new();
        let x = net.input(&[1, 1], &[1.0]);
        let one = net.constant(&[1, 1], &[1.0]);
        let zero = net.op(Op::Binary(Binary::Sub), &[x, one]);
        let y = net.op(Op::Unary(f), &[zero]);
        let found = net.relevances(&AttnLrp, (y, &[1.0]), &[x]);
        close(&found[0], &[0.5]);
    }
}

/// silu(g) u with g = (1, -1), u = (2, 3), summed: half to the gate and half to what it gates.
#[test]
fn a_gated_product_is_halved() {
    let mut net = Net::new();
    let g = net.input(&[1, 2], &[1.0, -1.0]);
    let u = net.input(&[1, 2], &[2.0, 3.0]);
    let silu = net.op(Op::Unary(Unary::Swish { alpha: 1.0 }), &[g]);
    let h = net.op(Op::Binary(Binary::Mul), &[silu, u]);
    let down = net.constant(&[2, 1], &[1.0, 1.0]);
    let y = net.op(Op::MatMul, &[h, down]);
    let expected = [0.731_058_6, -0.403_412_1];
    for found in [
        net.relevances(&AttnLrp, (y, &[1.0]), &[g, u]),
        net.relevances(&z_rule(), (y, &[0.655_292_9]), &[g, u]),
    ] {
        close(&found[0], &expected);
        close(&found[1], &expected);
    }
}

/// Gamma .25 on positive and on negative sums.
#[test]
fn generalised_gamma() {
    type Case<'a> = (&'a [f32], &'a [f32], f32, &'a [f32]);
    let cases: [Case<'_>; 2] = [
        (
            &[1.0, 2.0, 3.0],
            &[1.0, -1.0, 1.0],
            10.0,
            &[25.0 / 6.0, -20.0 / 3.0, 12.5],
        ),
        (&[1.0, 2.0], &[-2.0, 0.5], -3.0, &[-5.0, 2.0]),
    ];
    for (x, w, r, expected) in cases {
        let mut net = Net::new();
        let given = net.input(&[1, x.len()], x);
        let w = net.constant(&[w.len(), 1], w);
        let y = net.op(Op::MatMul, &[given, w]);
        let lrp = Lrp {
            rules: Rules::uniform("gamma:0.25".parse().unwrap()),
        };
        let found = net.relevances(&lrp, (y, &[r]), &[given]);
        close(&found[0], expected);
    }
}

/// A root mean square that x is divided by, or multiplied by the inverse of, is a constant.
#[test]
fn root_mean_squares_are_constants() {
    let spellings: [fn(&mut Net, ValueId, ValueId) -> ValueId; 3] = [
        |net, x, root| net.op(Op::Binary(Binary::Div), &[x, root]),
        |net, x, root| {
            let inverse = net.op(Op::Unary(Unary::Reciprocal), &[root]);
            net.op(Op::Binary(Binary::Mul), &[inverse, x])
        },
        |net, x, root| {
            let minus = net.constant(&[], &[-1.0]);
            let inverse = net.op(Op::Binary(Binary::Pow), &[root, minus]);
            net.op(Op::Binary(Binary::Mul), &[x, inverse])
        },
    ];
    for spell in spellings {
        let mut net = Net::new();
        let x = net.input(&[1, 2], &[3.0, 4.0]);
        let squares = net.op(Op::Binary(Binary::Mul), &[x, x]);
        let mean = Op::Reduce(npcov_graph::op::Reduce {
            kind: npcov_graph::op::ReduceKind::Mean,
            axes: vec![1],
            keep_dims: true,
        });
        let mean = net.op(mean, &[squares]);
        let root = net.op(Op::Unary(Unary::Sqrt), &[mean]);
        let y = spell(&mut net, x, root);
        let found = net.relevances(&AttnLrp, (y, &[1.0, 1.0]), &[x]);
        let root = 12.5_f32.sqrt();
        close(&found[0], &[3.0 / root, 4.0 / root]);
        let found = net.relevances(&z_rule(), (y, &[5.0, 7.0]), &[x]);
        close(&found[0], &[5.0, 7.0]);
    }
}

/// Two words of a table are looked up, each has the sum over its features.
#[test]
fn a_token_has_the_relevance_of_its_row() {
    let mut net = Net::new();
    let table = net.constant(&[3, 2], &[1.0, 2.0, 3.0, -1.0, 5.0, 6.0]);
    net.inputs.push(vec![2.0, 1.0]);
    let ids = net
        .graph
        .add_input("ids", TensorType::new(DType::I64, [1, 2]));
    let gather = npcov_graph::op::Gather { axis: 0 };
    let rows = net.op(Op::Gather(gather), &[table, ids]);
    let flat = net.op(Op::Reshape(vec![1, 4]), &[rows]);
    let w = net.constant(&[4, 1], &[1.0, 2.0, 3.0, 4.0]);
    let y = net.op(Op::MatMul, &[flat, w]);
    // 5 + 12 + 9 - 4 = 22.
    let found = net.relevances(&z_rule(), (y, &[22.0]), &[ids]);
    close(&found[0], &[17.0, 5.0]);
    for attribution in [&AttnLrp as &dyn Attribution, &GradientTimesInput] {
        let found = net.relevances(attribution, (y, &[1.0]), &[ids]);
        close(&found[0], &[17.0, 5.0]);
    }
}
