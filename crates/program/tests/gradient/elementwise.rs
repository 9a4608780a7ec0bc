//! Functions of one and of two elements.

use npcov_graph::op::{Binary, Unary};
use npcov_graph::{DType, Graph, Op, Tensor, TensorType};

use crate::harness::{Operand, Weighted, check, constant, positions, varying};

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Its Taylor series, which is exact enough below 3.
fn erf(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..60 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    2.0 / std::f64::consts::PI.sqrt() * sum
}

#[test]
fn smooth_and_bent_functions() {
    type Function = fn(f64) -> f64;
    let functions: &[(Unary, Function, f32, f32)] = &[
        (Unary::Relu, |x| x.max(0.0), -2.0, 2.0),
        (
            Unary::LeakyRelu { alpha: 0.25 },
            |x| if x > 0.0 { x } else { 0.25 * x },
            -2.0,
            2.0,
        ),
        (
            Unary::ThresholdedRelu { alpha: 0.5 },
            |x| if x > 0.5 { x } else { 0.0 },
            -2.0,
            2.0,
        ),
        (
            Unary::Elu { alpha: 1.5 },
            |x| if x > 0.0 { x } else { 1.5 * x.exp_m1() },
            -3.0,
            2.0,
        ),
        (
            Unary::Selu {
                alpha: 1.5,
                gamma: 2.0,
            },
            |x| 2.0 * if x > 0.0 { x } else { 1.5 * x.exp_m1() },
            -3.0,
            2.0,
        ),
        (
            Unary::Celu { alpha: 2.0 },
            |x| if x > 0.0 { x } else { 2.0 * (x / 2.0).exp_m1() },
            -3.0,
            2.0,
        ),
        (Unary::Sigmoid, sigmoid, -5.0, 5.0),
        (
            Unary::HardSigmoid {
                alpha: 0.25,
                beta: 0.5,
            },
            |x| (0.25 * x + 0.5).clamp(0.0, 1.0),
            -4.0,
            4.0,
        ),
        (
            Unary::HardSigmoid {
                alpha: -0.25,
                beta: 0.5,
            },
            |x| (0.5 - 0.25 * x).clamp(0.0, 1.0),
            -4.0,
            4.0,
        ),
        (Unary::Tanh, f64::tanh, -3.0, 3.0),
        (
            Unary::Gelu { tanh: false },
            |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
            -3.0,
            3.0,
        ),
        (
            Unary::Gelu { tanh: true },
            |x| {
                0.5 * x
                    * (1.0
                        + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
            },
            -4.0,
            12.0,
        ),
        (
            Unary::Swish { alpha: 1.5 },
            |x| x * sigmoid(1.5 * x),
            -4.0,
            4.0,
        ),
        (
            Unary::HardSwish,
            |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
            -5.0,
            5.0,
        ),
        (Unary::Mish, |x| x * x.exp().ln_1p().tanh(), -4.0, 4.0),
        (Unary::Softplus, |x| x.exp().ln_1p(), -4.0, 4.0),
        (Unary::Softsign, |x| x / (1.0 + x.abs()), -4.0, 4.0),
        (
            Unary::Clip {
                min: -0.5,
                max: 1.0,
            },
            |x| x.clamp(-0.5, 1.0),
            -2.0,
            2.0,
        ),
        (
            Unary::Clip {
                min: -0.5,
                max: f32::INFINITY,
            },
            |x| x.max(-0.5),
            -2.0,
            2.0,
        ),
        (
            Unary::Shrink {
                bias: 0.25,
                lambd: 0.5,
            },
            |x| {
                if x.abs() > 0.5 {
                    x - 0.25 * x.signum()
                } else {
                    0.0
                }
            },
            -2.0,
            2.0,
        ),
        (Unary::Abs, f64::abs, -2.0, 2.0),
        (Unary::Neg, |x| -x, -2.0, 2.0),
        (Unary::Exp, f64::exp, -2.0, 2.0),
        (Unary::Log, f64::ln, 0.1, 3.0),
        (Unary::Sqrt, f64::sqrt, 0.1, 3.0),
        (Unary::Reciprocal, |x| 1.0 / x, 0.2, 3.0),
        (Unary::Erf, erf, -2.5, 2.5),
        (Unary::Floor, f64::floor, -3.0, 3.0),
        (Unary::Ceil, f64::ceil, -3.0, 3.0),
        (Unary::Round, f64::round, -3.0, 3.0),
        (Unary::Sign, f64::signum, -3.0, 3.0),
        (Unary::Sin, f64::sin, -3.0, 3.0),
        (Unary::Cos, f64::cos, -3.0, 3.0),
        (Unary::Tan, f64::tan, -1.2, 1.2),
        (Unary::Asin, f64::asin, -0.95, 0.95),
        (Unary::Acos, f64::acos, -0.95, 0.95),
        (Unary::Atan, f64::atan, -3.0, 3.0),
        (Unary::Sinh, f64::sinh, -2.0, 2.0),
        (Unary::Cosh, f64::cosh, -2.0, 2.0),
        (Unary::Asinh, f64::asinh, -2.0, 2.0),
        (Unary::Acosh, f64::acosh, 1.05, 3.0),
        (Unary::Atanh, f64::atanh, -0.9, 0.9),
    ];
    for &(unary, f, low, high) in functions {
        check(Op::Unary(unary), &[varying(&[3, 8], low, high)], |x| {
            x[0].iter().map(|&x| f(x)).collect()
        });
    }
}

/// The derivatives of a function with respect to each of its arguments.
fn slopes(op: Op, arguments: &[f32]) -> Vec<f32> {
    let operand = |&x: &f32| Operand::Varying(vec![1], vec![x]);
    let operands: Vec<Operand> = arguments.iter().map(operand).collect();
    let weighted = Weighted::new(op, &operands);
    let gradient = weighted.value_and_gradient().1;
    gradient.iter().map(|g| g / weighted.r[0]).collect()
}

/// Autograd of PyTorch 2.15 at the same points.
#[test]
fn kinks_have_the_derivative_of_pytorch() {
    let at = |unary, x: f32| slopes(Op::Unary(unary), &[x])[0];
    assert_eq!(at(Unary::Relu, 0.0), 0.0);
    assert_eq!(at(Unary::LeakyRelu { alpha: 0.25 }, 0.0), 0.25);
    assert_eq!(at(Unary::ThresholdedRelu { alpha: 1.0 }, 1.0), 0.0);
    assert_eq!(at(Unary::Elu { alpha: 2.0 }, 0.0), 2.0);
    assert_eq!(at(Unary::Celu { alpha: 2.0 }, 0.0), 1.0);
    let hard_sigmoid = Unary::HardSigmoid {
        alpha: 0.25,
        beta: 0.5,
    };
    assert_eq!([-2.0, 2.0].map(|x| at(hard_sigmoid, x)), [0.0, 0.0]);
    assert_eq!([-3.0, 3.0].map(|x| at(Unary::HardSwish, x)), [0.0, 1.0]);
    let clip = Unary::Clip { min: 0.0, max: 6.0 };
    assert_eq!([0.0, 3.0, 6.0].map(|x| at(clip, x)), [0.0, 1.0, 0.0]);
    assert_eq!(
        at(
            Unary::Shrink {
                bias: 0.0,
                lambd: 0.5
            },
            0.5
        ),
        0.0
    );
    assert_eq!(at(Unary::Abs, 0.0), 0.0);
    assert_eq!(at(Unary::Gelu { tanh: true }, 1e20), 1.0);
    assert!(at(Unary::Gelu { tanh: true }, -1e20).abs() < 1e-30);

    let both = |binary, a: f32, b: f32| slopes(Op::Binary(binary), &[a, b]);
    assert_eq!(both(Binary::Max, 1.0, 1.0), [0.5, 0.5]);
    assert_eq!(both(Binary::Min, 1.0, 1.0), [0.5, 0.5]);
    assert_eq!(both(Binary::PRelu, 0.0, 0.25), [0.25, 0.0]);
    assert_eq!(both(Binary::Pow, 0.0, 2.0), [0.0, 0.0]);
    assert_eq!(both(Binary::Pow, 0.0, 0.0), [0.0, 0.0]);
    assert_eq!(both(Binary::Fmod, -7.0, 3.0), [1.0, 2.0]);
}

/// `f` of two tensors broadcast to a shape.
fn broadcast(
    shape: &[usize],
    a: (&[usize], &[f64]),
    b: (&[usize], &[f64]),
    f: impl Fn(f64, f64) -> f64,
) -> Vec<f64> {
    let place = |operand: &[usize], position: &[usize]| {
        let skip = shape.len() - operand.len();
        operand
            .iter()
            .zip(&position[skip..])
            .fold(0, |place, (&extent, &p)| {
                place * extent + if extent == 1 { 0 } else { p }
            })
    };
    positions(shape)
        .iter()
        .map(|p| f(a.1[place(a.0, p)], b.1[place(b.0, p)]))
        .collect()
}

#[test]
fn functions_of_two_operands() {
    type Function = fn(f64, f64) -> f64;
    let functions: &[(Binary, Function)] = &[
        (Binary::Add, |a, b| a + b),
        (Binary::Sub, |a, b| a - b),
        (Binary::Mul, |a, b| a * b),
        (Binary::Div, |a, b| a / b),
        (Binary::Pow, f64::powf),
        (Binary::Min, f64::min),
        (Binary::Max, f64::max),
        (Binary::Fmod, |a, b| a % b),
    ];
    let shapes: [(&[usize], &[usize], &[usize]); 4] = [
        (&[2, 3], &[2, 3], &[2, 3]),
        (&[2, 3, 2], &[3, 1], &[2, 3, 2]),
        (&[1, 2], &[4, 3, 1], &[4, 3, 2]),
        (&[], &[3], &[3]),
    ];
    for &(binary, f) in functions {
        for (a, b, y) in shapes {
            for kind in 0..3 {
                let a_operand = match kind {
                    1 => constant(a, 0.3, 2.2),
                    _ => varying(a, 0.3, 2.2),
                };
                let b_operand = match kind {
                    2 => constant(b, 0.5, 1.7),
                    _ => varying(b, 0.5, 1.7),
                };
                check(Op::Binary(binary), &[a_operand, b_operand], |x| {
                    broadcast(y, (a, &x[0]), (b, &x[1]), f)
                });
            }
        }
    }
}

#[test]
fn a_slope_for_each_channel() {
    let slope = |a: f64, b: f64| if a < 0.0 { a * b } else { a };
    for b in [varying(&[3, 1], 0.1, 0.9), constant(&[3, 1], 0.1, 0.9)] {
        check(
            Op::Binary(Binary::PRelu),
            &[varying(&[2, 3, 4], -1.0, 1.0), b],
            |x| broadcast(&[2, 3, 4], (&[2, 3, 4], &x[0]), (&[3, 1], &x[1]), slope),
        );
    }
}

/// Whole powers of numbers of both signs.
#[test]
fn constant_exponents() {
    for exponent in [2.0f32, 3.0, 1.0, -1.0, 0.0] {
        let operands = [
            varying(&[7], -2.0, 2.0),
            Operand::Constant(Tensor::scalar(exponent)),
        ];
        check(Op::Binary(Binary::Pow), &operands, |x| {
            x[0].iter().map(|x| x.powi(exponent as i32)).collect()
        });
    }
}

#[test]
fn one_value_as_both_operands() {
    let mut graph = Graph::new();
    let x = graph.add_input("x", TensorType::new(DType::F32, [3]));
    let y = graph.push("y", Op::Binary(Binary::Mul), &[x, x]).unwrap();
    let weighted = Weighted {
        graph,
        product: y,
        x: vec![1.0, -2.0, 3.0],
        r: Vec::new(),
    };
    assert_eq!(weighted.value_and_gradient(), (14.0, vec![2.0, -4.0, 6.0]));
}
