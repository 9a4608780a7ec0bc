//! Every rule on every linear operator.

use npcov_graph::op::{
    AxisMap, Binary, Conv, ConvTranspose, Coordinates, Gemm, Interpolation, NearestRounding, Pool,
    PoolKind, Reduce, ReduceKind, Resize, Unary, Window,
};
use npcov_graph::{Graph, Op, Tensor, ValueId};
use npcov_program::{Bias, ProgramError, Rule, Rules};

use crate::harness::{LANES, Random, close, input, lane, matrix, numel, relevances, tensor};
use crate::twin::{self, Matrix};

const RULES: [&str; 14] = [
    "alpha-beta:0",
    "alpha-beta:0,rare=off",
    "alpha-beta:0.5",
    "alpha-beta:0.5,rare=off",
    "alpha-beta:0.5,0",
    "alpha-beta:0.5,0.1",
    "alpha-beta:1",
    "alpha-beta:1,rare=off",
    "epsilon:1e-6",
    "epsilon:0.1",
    "gamma:0.25",
    "gamma:1,0.01",
    "zbox:-1,1.25",
    "flat",
];

/// Where an operator's bias stands.
enum Added {
    Nowhere,
    /// In the operator, as its third input of the given shape.
    Inside(Vec<usize>),
    /// In an Add behind it, of the given shape.
    Behind(Vec<usize>),
}

/// A linear operator.
struct Case {
    name: &'static str,
    op: Op,
    x: Vec<usize>,
    /// The weight's shape, and its axis that tells outputs apart.
    weight: Option<(Vec<usize>, usize)>,
    /// Whether the weight is the first input.
    left: bool,
    added: Added,
}

impl Case {
    fn weighted(name: &'static str, op: Op, x: &[usize], weight: &[usize], axis: usize) -> Case {
        Case {
            weight: Some((weight.to_vec(), axis)),
            ..Case::plain(name, op, x)
        }
    }

    fn plain(name: &'static str, op: Op, x: &[usize]) -> Case {
        Case {
            name,
            op,
            x: x.to_vec(),
            weight: None,
            left: false,
            added: Added::Nowhere,
        }
    }

    fn inside(self, bias: &[usize]) -> Case {
        let added = Added::Inside(bias.to_vec());
        Case { added, ..self }
    }

    fn behind(self, bias: &[usize]) -> Case {
        let added = Added::Behind(bias.to_vec());
        Case { added, ..self }
    }

    /// Weights of both signs, of one sign or all zero, from output to output.
    fn weights(&self, random: &mut Random) -> Option<Tensor> {
        let (shape, axis) = self.weight.as_ref()?;
        let inner = numel(&shape[axis + 1..]);
        let number = |(i, w): (usize, f32)| match i / inner % shape[*axis] % 5 {
            2 => w.abs(),
            3 => -w.abs(),
            4 => 0.0,
            _ => w,
        };
        let numbers = random.numbers(numel(shape)).into_iter();
        Some(tensor(shape, numbers.enumerate().map(number).collect()))
    }

    /// The operator on `x`, or on `relu(x)`.
    fn graph(
        &self,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        relu: bool,
    ) -> (Graph, ValueId) {
        let mut graph = Graph::new();
        let mut x = input(&mut graph, "x", &self.x);
        if relu {
            x = graph.push("relu", Op::Unary(Unary::Relu), &[x]).unwrap();
        }
        let mut inputs = vec![x];
        if let Some(weight) = weight {
            let weight = graph.add_constant("w", weight.clone());
            inputs.insert(usize::from(!self.left), weight);
        }
        let bias = bias.map(|bias| graph.add_constant("b", bias.clone()));
        if let Added::Inside(_) = self.added {
            inputs.extend(bias);
        }
        let mut y = graph.push("y", self.op.clone(), &inputs).unwrap();
        if let (Added::Behind(_), Some(bias)) = (&self.added, bias) {
            let add = Op::Binary(Binary::Add);
            y = graph.push("add", add, &[y, bias]).unwrap();
        }
        graph.set_outputs(vec![y]);
        (graph, y)
    }

    fn check(&self, rules: &[&str]) {
        let mut random = Random::new(self.name);
        let weight = self.weights(&mut random);
        let bias = match &self.added {
            Added::Nowhere => None,
            Added::Inside(shape) | Added::Behind(shape) => {
                Some(tensor(shape, random.numbers(numel(shape))))
            }
        };
        let ones = weight
            .as_ref()
            .map(|w| tensor(w.shape(), vec![1.0; numel(w.shape())]));
        let connections = matrix(&self.graph(ones.as_ref(), None, false).0, 0);
        let linear = Matrix {
            weights: matrix(&self.graph(weight.as_ref(), None, false).0, 0),
            connected: connections
                .iter()
                .map(|row| row.iter().map(|&w| w != 0.0).collect())
                .collect(),
        };
        let outputs = linear.weights.len();
        // The last lane is all zero, so that every unit is dead or has only a bias.
        let mut x = random.numbers(LANES * numel(&self.x));
        let last = x.len() - numel(&self.x);
        x[last..].fill(0.0);
        let r = random.numbers(LANES * outputs);
        for relu in [false, true] {
            let (graph, y) = self.graph(weight.as_ref(), bias.as_ref(), relu);
            // What is left when the input is zero.
            let at_zero = crate::harness::run(&graph, 1, &[&vec![0.0; numel(&self.x)]]).remove(0);
            let at_zero: Vec<f64> = at_zero.into_iter().map(f64::from).collect();
            let seen = |x: Vec<f64>| -> Vec<f64> {
                let positive = |x: f64| if relu { x.max(0.0) } else { x };
                x.into_iter().map(positive).collect()
            };
            for (rule, bias) in rules
                .iter()
                .flat_map(|rule| [(rule, Bias::Ignore), (rule, Bias::Absorb)])
            {
                let parsed: Rule = rule.parse().unwrap();
                let absorbed = match bias {
                    Bias::Ignore => &vec![0.0; outputs],
                    Bias::Absorb => &at_zero,
                };
                let expected: Vec<Vec<f64>> = (0..LANES)
                    .map(|i| {
                        let x = seen(lane(&x, i));
                        twin::relevance(&linear, parsed, &x, absorbed, &lane(&r, i))
                    })
                    .collect();
                let rules = Rules {
                    bias,
                    ..Rules::uniform(parsed)
                };
                let found = relevances(&graph, y, &rules, &[&x], &r).unwrap();
                for (how, found) in ["native", "lowered"].iter().zip(found) {
                    let what = format!("{} {rule} {bias:?}, relu {relu}, {how}", self.name);
                    close(&what, &found[0], &expected);
                }
            }
        }
    }
}

fn window(
    kernel: &[usize],
    strides: &[usize],
    dilations: &[usize],
    pads_begin: &[usize],
    pads_end: &[usize],
) -> Window {
    Window {
        kernel: kernel.to_vec(),
        strides: strides.to_vec(),
        dilations: dilations.to_vec(),
        pads_begin: pads_begin.to_vec(),
        pads_end: pads_end.to_vec(),
    }
}

fn conv(window: Window, groups: usize) -> Op {
    Op::Conv(Conv { window, groups })
}

#[test]
fn convolutions() {
    let plain = Window::sized([3, 3]);
    let odd = window(&[3, 2], &[2, 1], &[1, 2], &[1, 0], &[2, 1]);
    let padded = window(&[3, 3], &[1, 1], &[1, 1], &[1, 1], &[1, 1]);
    let strided = window(&[3, 3], &[2, 2], &[1, 1], &[1, 1], &[1, 1]);
    let line = window(&[3], &[2], &[2], &[2], &[1]);
    for case in [
        Case::weighted("Conv 3x3", conv(plain, 1), &[1, 2, 5, 5], &[6, 2, 3, 3], 0).inside(&[6]),
        Case::weighted("Conv odd", conv(odd, 1), &[1, 2, 6, 5], &[5, 2, 3, 2], 0).inside(&[5]),
        Case::weighted(
            "Conv groups",
            conv(strided, 2),
            &[1, 4, 5, 5],
            &[6, 2, 3, 3],
            0,
        )
        .inside(&[6]),
        Case::weighted(
            "Conv depthwise",
            conv(padded, 5),
            &[1, 5, 4, 4],
            &[10, 1, 3, 3],
            0,
        )
        .inside(&[10]),
        Case::weighted("Conv 1-D", conv(line, 1), &[1, 3, 9], &[5, 3, 3], 0).inside(&[5]),
        Case::weighted(
            "Conv 1x1",
            conv(Window::sized([1, 1]), 1),
            &[1, 4, 3, 3],
            &[5, 4, 1, 1],
            0,
        ),
        Case::weighted(
            "Conv + Add",
            conv(Window::sized([2, 2]), 1),
            &[1, 2, 3, 3],
            &[5, 2, 2, 2],
            0,
        )
        .behind(&[1, 5, 1, 1]),
        // Behind a convolution, the last axes of a sum are positions.
        Case::weighted(
            "Conv + scalar",
            conv(Window::sized([2, 2]), 1),
            &[1, 2, 3, 3],
            &[5, 2, 2, 2],
            0,
        )
        .behind(&[]),
        Case::weighted(
            "Conv + columns",
            conv(Window::sized([2, 2]), 1),
            &[1, 2, 3, 3],
            &[2, 2, 2, 2],
            0,
        )
        .behind(&[2]),
        Case::weighted(
            "Conv + positions",
            conv(Window::sized([2, 2]), 1),
            &[1, 2, 3, 3],
            &[4, 2, 2, 2],
            0,
        )
        .behind(&[1, 1, 2, 2]),
        Case::weighted(
            "Conv + channels",
            conv(Window::sized([2, 2]), 1),
            &[1, 2, 3, 3],
            &[4, 2, 2, 2],
            0,
        )
        .behind(&[4, 1, 1]),
    ] {
        case.check(&RULES);
    }
}

#[test]
fn transposed_convolutions() {
    let transposed = |window: Window, groups: usize, output: &[usize]| {
        Op::ConvTranspose(ConvTranspose {
            window,
            groups,
            output: output.to_vec(),
        })
    };
    let doubling = window(&[2, 2], &[2, 2], &[1, 1], &[0, 0], &[0, 0]);
    // The output has one more row than the windows reach, as `output_padding` makes it.
    let cropped = window(&[3, 3], &[2, 2], &[1, 1], &[1, 1], &[1, 0]);
    let line = window(&[3], &[1], &[2], &[1], &[1]);
    for case in [
        Case::weighted(
            "ConvTranspose 2x2",
            transposed(doubling, 1, &[6, 6]),
            &[1, 3, 3, 3],
            &[3, 5, 2, 2],
            1,
        )
        .inside(&[5]),
        Case::weighted(
            "ConvTranspose groups",
            transposed(cropped, 2, &[6, 6]),
            &[1, 4, 3, 3],
            &[4, 3, 3, 3],
            1,
        )
        .inside(&[6]),
        Case::weighted(
            "ConvTranspose 1-D",
            transposed(line, 1, &[7]),
            &[1, 2, 5],
            &[2, 5, 3],
            1,
        ),
    ] {
        case.check(&RULES);
    }
}

#[test]
fn products() {
    let gemm = |alpha: f32, beta: f32, trans_a: bool, trans_b: bool| {
        Op::Gemm(Gemm {
            alpha,
            beta,
            trans_a,
            trans_b,
        })
    };
    for case in [
        Case::weighted("Gemm", gemm(1.0, 1.0, false, true), &[1, 7], &[6, 7], 0).inside(&[6]),
        Case::weighted(
            "Gemm scaled",
            gemm(-0.5, 2.0, false, false),
            &[1, 7],
            &[7, 6],
            1,
        )
        .inside(&[1, 6]),
        Case::weighted(
            "Gemm rows",
            gemm(1.0, 0.5, false, true),
            &[3, 4],
            &[5, 4],
            0,
        )
        .inside(&[3, 1]),
        Case::weighted(
            "Gemm transposed",
            gemm(2.0, 1.0, true, true),
            &[4, 3],
            &[5, 4],
            0,
        ),
        Case::weighted("MatMul", Op::MatMul, &[1, 7], &[7, 6], 1).behind(&[6]),
        Case::weighted("MatMul tokens", Op::MatMul, &[1, 3, 4], &[4, 5], 1).behind(&[5]),
        Case::weighted("MatMul + rows", Op::MatMul, &[1, 5, 4], &[4, 5], 1).behind(&[5, 1]),
        Case::weighted("MatMul + scalar", Op::MatMul, &[1, 5, 4], &[4, 5], 1).behind(&[1]),
        Case::weighted("MatMul vector", Op::MatMul, &[4], &[4, 5], 1),
        Case::weighted("MatMul column", Op::MatMul, &[1, 3, 4], &[4], 0).behind(&[1]),
        Case::weighted("MatMul groups", Op::MatMul, &[1, 3, 2, 4], &[3, 4, 5], 2).behind(&[5]),
        Case::weighted("MatMul spread", Op::MatMul, &[1, 1, 2, 4], &[3, 4, 5], 2),
        Case::weighted("MatMul of one", Op::MatMul, &[2, 4], &[3, 4, 5], 2),
        Case {
            left: true,
            ..Case::weighted("MatMul row", Op::MatMul, &[1, 2, 4, 3], &[4], 0)
        },
        Case {
            left: true,
            ..Case::weighted(
                "MatMul left groups",
                Op::MatMul,
                &[1, 2, 4, 3],
                &[2, 5, 4],
                1,
            )
        },
        Case {
            left: true,
            ..Case::weighted("MatMul left", Op::MatMul, &[1, 4, 3], &[5, 4], 0).behind(&[5, 1])
        },
    ] {
        case.check(&RULES);
    }
}

#[test]
fn average_pools() {
    let pool = |window: Window, count_include_pad: bool, ceil_mode: bool| {
        Op::Pool(Pool {
            kind: PoolKind::Average { count_include_pad },
            window,
            ceil_mode,
        })
    };
    let plain = window(&[2, 2], &[2, 2], &[1, 1], &[0, 0], &[0, 0]);
    let padded = window(&[3, 3], &[2, 2], &[1, 1], &[1, 1], &[1, 1]);
    let uneven = window(&[2, 3], &[1, 2], &[2, 1], &[1, 0], &[0, 2]);
    let line = window(&[3], &[2], &[1], &[1], &[0]);
    for (name, window, x) in [
        ("AveragePool 2x2", &plain, &[1, 3, 4, 4][..]),
        ("AveragePool, rest", &plain, &[1, 2, 5, 5]),
        ("AveragePool padded", &padded, &[1, 2, 6, 5]),
        ("AveragePool uneven", &uneven, &[1, 2, 5, 6]),
        ("AveragePool 1-D", &line, &[1, 2, 8]),
    ] {
        for include in [false, true] {
            for ceil in [false, true] {
                Case::plain(name, pool(window.clone(), include, ceil), x).check(&RULES);
            }
        }
    }
}

#[test]
fn reductions() {
    let reduce = |kind: ReduceKind, axes: &[usize], keep_dims: bool| {
        Op::Reduce(Reduce {
            kind,
            axes: axes.to_vec(),
            keep_dims,
        })
    };
    for case in [
        Case::plain(
            "ReduceMean global",
            reduce(ReduceKind::Mean, &[2, 3], true),
            &[1, 3, 3, 3],
        ),
        Case::plain(
            "ReduceMean flat",
            reduce(ReduceKind::Mean, &[1, 2], false),
            &[1, 3, 3, 4],
        ),
        Case::plain(
            "ReduceSum middle",
            reduce(ReduceKind::Sum, &[1], false),
            &[1, 4, 3, 2],
        ),
        Case::plain(
            "ReduceSum last",
            reduce(ReduceKind::Sum, &[2], true),
            &[1, 2, 5],
        ),
    ] {
        case.check(&RULES);
    }
}

#[test]
fn interpolation() {
    use Coordinates::{AlignCorners, Asymmetric, HalfPixel, HalfPixelSymmetric, PytorchHalfPixel};
    use NearestRounding::{Ceil, Floor, RoundPreferCeil, RoundPreferFloor};
    let check = |name, interpolation, coordinates, antialias, x, outputs: [(usize, f32); 2]| {
        let axes = [2, 3].into_iter().zip(outputs);
        let axis = |(axis, (output, scale))| AxisMap {
            axis,
            output,
            scale,
        };
        let resize = Resize {
            axes: axes.map(axis).collect(),
            interpolation,
            coordinates,
            antialias,
        };
        Case::plain(name, Op::Resize(resize), x).check(&RULES);
    };
    let nearest = Interpolation::Nearest;
    let linear = Interpolation::Linear;
    // Its weights have both signs.
    let cubic = |exclude_outside| Interpolation::Cubic {
        coefficient: -0.75,
        exclude_outside,
    };
    let (small, large) = (&[1, 2, 3, 2], &[1, 2, 4, 6]);
    let twice = [(6, 2.0), (4, 2.0)];
    let half = [(2, 0.5), (3, 0.5)];
    let odd = [(5, 5.0 / 3.0), (3, 1.5)];
    check("nearest", nearest(Floor), Asymmetric, false, small, twice);
    check(
        "nearest, up",
        nearest(Ceil),
        HalfPixelSymmetric,
        false,
        small,
        odd,
    );
    check(
        "nearest, rounded",
        nearest(RoundPreferCeil),
        HalfPixel,
        false,
        small,
        odd,
    );
    check(
        "nearest, smaller",
        nearest(RoundPreferFloor),
        Asymmetric,
        false,
        large,
        half,
    );
    check("linear", linear, HalfPixel, false, small, twice);
    check("linear, corners", linear, AlignCorners, false, small, odd);
    check(
        "linear, smaller",
        linear,
        PytorchHalfPixel,
        false,
        large,
        half,
    );
    check("linear, smoothed", linear, HalfPixel, true, large, half);
    check("cubic", cubic(false), HalfPixel, false, small, twice);
    check(
        "cubic, corners",
        cubic(false),
        AlignCorners,
        false,
        small,
        odd,
    );
    check(
        "cubic, inside",
        cubic(true),
        PytorchHalfPixel,
        false,
        small,
        odd,
    );
    check(
        "cubic, one axis",
        cubic(false),
        HalfPixel,
        false,
        small,
        [(3, 1.0), (4, 2.0)],
    );
    check(
        "cubic, smoothed",
        cubic(false),
        HalfPixel,
        true,
        large,
        half,
    );
}

/// A constant that a result is spread over is no bias of it.
#[test]
fn a_sum_that_is_larger_than_the_product() {
    let case = Case::weighted("MatMul spread", Op::MatMul, &[1, 4], &[4, 1], 1);
    let mut random = Random::new(case.name);
    let weight = case.weights(&mut random);
    let (mut graph, y) = case.graph(weight.as_ref(), None, false);
    let c = graph.add_constant("c", tensor(&[1, 3], vec![1.0, 2.0, 3.0]));
    let add = Op::Binary(Binary::Add);
    let y = graph.push("add", add, &[y, c]).unwrap();
    let x = random.numbers(LANES * 4);
    let r = random.numbers(LANES * 3);
    let rule: Rule = "epsilon:0.1".parse().unwrap();
    let rules = Rules {
        bias: Bias::Absorb,
        ..Rules::uniform(rule)
    };
    let weights = matrix(&case.graph(weight.as_ref(), None, false).0, 0);
    let linear = Matrix {
        connected: vec![vec![true; 4]],
        weights,
    };
    let expected: Vec<Vec<f64>> = (0..LANES)
        .map(|i| {
            let arrived = lane(&r, i).iter().sum();
            twin::relevance(&linear, rule, &lane(&x, i), &[0.0], &[arrived])
        })
        .collect();
    for found in relevances(&graph, y, &rules, &[&x], &r).unwrap() {
        close(case.name, &found[0], &expected);
    }
}

/// The sum or difference of two activations: a matrix of ones and minus ones on both.
#[test]
fn sums_of_activations() {
    let shapes: [[&[usize]; 2]; 5] = [
        [&[1, 3, 2, 2], &[1, 3, 2, 2]],
        [&[1, 3, 2, 2], &[1, 3, 1, 1]],
        [&[1, 3], &[2, 1, 3]],
        [&[1, 4, 1], &[1, 1, 3]],
        [&[1, 6], &[1]],
    ];
    for (f, [a, b]) in [Binary::Add, Binary::Sub]
        .into_iter()
        .flat_map(|f| shapes.map(|shapes| (f, shapes)))
    {
        // Which operands are known not to be negative.
        for relu in [[false, false], [true, false], [false, true], [true, true]] {
            let mut graph = Graph::new();
            let mut operands =
                [("a", a), ("b", b)].map(|(name, shape)| input(&mut graph, name, shape));
            let sum = |graph: &mut Graph, operands: &[ValueId]| {
                let y = graph.push("y", Op::Binary(f), operands).unwrap();
                graph.set_outputs(vec![y]);
                y
            };
            let mut plain = graph.clone();
            sum(&mut plain, &operands);
            for (operand, _) in operands.iter_mut().zip(relu).filter(|(_, relu)| *relu) {
                *operand = graph
                    .push("relu", Op::Unary(Unary::Relu), &[*operand])
                    .unwrap();
            }
            let y = sum(&mut graph, &operands);
            let halves = [matrix(&plain, 0), matrix(&plain, 1)];
            let weights: Vec<Vec<f64>> = halves[0]
                .iter()
                .zip(&halves[1])
                .map(|(a, b)| [&a[..], b].concat())
                .collect();
            let linear = Matrix {
                connected: weights
                    .iter()
                    .map(|row| row.iter().map(|&w| w != 0.0).collect())
                    .collect(),
                weights,
            };
            let mut random = Random::new("sums");
            let x = [a, b].map(|shape| random.numbers(LANES * numel(shape)));
            let r = random.numbers(LANES * linear.weights.len());
            for rule in RULES.into_iter().filter(|rule| !rule.starts_with("zbox")) {
                let parsed: Rule = rule.parse().unwrap();
                let expected: Vec<Vec<f64>> = (0..LANES)
                    .map(|i| {
                        let seen = |operand: usize| {
                            let x = lane(&x[operand], i).into_iter();
                            x.map(move |x| if relu[operand] { x.max(0.0) } else { x })
                        };
                        let x: Vec<f64> = seen(0).chain(seen(1)).collect();
                        let bias = vec![0.0; linear.weights.len()];
                        twin::relevance(&linear, parsed, &x, &bias, &lane(&r, i))
                    })
                    .collect();
                let split: Vec<(Vec<f64>, Vec<f64>)> = expected
                    .iter()
                    .map(|e| (e[..numel(a)].to_vec(), e[numel(a)..].to_vec()))
                    .collect();
                let (of_a, of_b): (Vec<Vec<f64>>, Vec<Vec<f64>>) = split.into_iter().unzip();
                let rules = Rules::uniform(parsed);
                let found = relevances(&graph, y, &rules, &[&x[0], &x[1]], &r).unwrap();
                for (how, found) in ["native", "lowered"].iter().zip(found) {
                    let what = format!("{f:?} of {a:?} and {b:?}, {rule}, relu {relu:?}, {how}");
                    close(&format!("{what}, first"), &found[0], &of_a);
                    close(&format!("{what}, second"), &found[1], &of_b);
                }
            }
            // Bounds are for the model's input, which is no sum.
            let rules = Rules::uniform("zbox:0,1".parse().unwrap());
            let refused = relevances(&graph, y, &rules, &[&x[0], &x[1]], &r);
            assert!(
                matches!(refused, Err(ProgramError::NotExplained(_))),
                "{refused:?}"
            );
        }
    }
}
