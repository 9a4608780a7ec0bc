//! Operators that are linear in each operand.
//!
//! The gradient `g` of `<r, A x>` is `A' r`, whatever `x`: so `<g, x>` is `<r, A x>` again.

use npcov_graph::op::{
    AxisMap, Conv, ConvTranspose, Coordinates, Gather, GatherElements, Gemm, Interpolation,
    NearestRounding, Pad, PadMode, Pool, PoolKind, Reduce, ReduceKind, Resize, Slice, Window,
};
use npcov_graph::{Data, Op, Tensor};

use crate::harness::{Operand, Weighted, check, constant, positions, varying};

/// `r A x` both ways, for an operator that is linear in its varying operand.
fn check_adjoint(op: Op, operands: &[Operand]) {
    let name = op.name();
    let weighted = Weighted::new(op, operands);
    let (value, gradient) = weighted.value_and_gradient();
    let products = gradient.iter().zip(&weighted.x);
    let back: f64 = products.map(|(&g, &x)| f64::from(g) * f64::from(x)).sum();
    let size: f64 = gradient.iter().map(|&g| f64::from(g).abs()).sum();
    assert!(size > 0.0, "{name} passes nothing on");
    let difference = (f64::from(value) - back).abs();
    assert!(difference <= 1e-5 * size, "{name}: {value} is not {back}");
}

fn x(shape: &[usize]) -> Operand {
    varying(shape, -1.0, 2.0)
}

fn w(shape: &[usize]) -> Operand {
    constant(shape, -1.0, 1.0)
}

#[test]
fn convolutions() {
    let window = Window {
        strides: vec![2, 1],
        dilations: vec![1, 2],
        pads_begin: vec![1, 0],
        pads_end: vec![0, 2],
        ..Window::sized([3, 2])
    };
    for (groups, weight) in [(1, [6, 4, 3, 2]), (2, [6, 2, 3, 2]), (4, [4, 1, 3, 2])] {
        let conv = Conv {
            window: window.clone(),
            groups,
        };
        check_adjoint(Op::Conv(conv), &[x(&[2, 4, 7, 6]), w(&weight)]);
    }
    // The second one has a row at the end that no window reaches.
    for (groups, weight, rows) in [(1, [4, 3, 3, 2], 10), (2, [4, 2, 3, 2], 11)] {
        let back = ConvTranspose {
            window: window.clone(),
            groups,
            output: vec![rows, 6],
        };
        check_adjoint(Op::ConvTranspose(back), &[x(&[2, 4, 5, 6]), w(&weight)]);
    }
}

#[test]
fn pools() {
    let window = Window {
        strides: vec![2, 2],
        pads_begin: vec![1, 1],
        pads_end: vec![1, 0],
        ..Window::sized([3, 2])
    };
    let kinds = [
        PoolKind::Max,
        PoolKind::Average {
            count_include_pad: false,
        },
        PoolKind::Average {
            count_include_pad: true,
        },
    ];
    for kind in kinds {
        for ceil_mode in [false, true] {
            let pool = Pool {
                kind,
                window: window.clone(),
                ceil_mode,
            };
            // A maximum is linear too, as long as it stays where it is.
            check_adjoint(Op::Pool(pool), &[x(&[2, 3, 6, 5])]);
        }
    }
}

#[test]
fn interpolation() {
    let axis = |axis, output, scale| AxisMap {
        axis,
        output,
        scale,
    };
    let cubic = Interpolation::Cubic {
        coefficient: -0.5,
        exclude_outside: true,
    };
    let nearest = Interpolation::Nearest(NearestRounding::Floor);
    for interpolation in [Interpolation::Linear, nearest, cubic] {
        for antialias in [false, true] {
            let resize = Resize {
                axes: vec![axis(2, 8, 2.0), axis(3, 3, 0.6)],
                interpolation,
                coordinates: Coordinates::HalfPixel,
                antialias,
            };
            check_adjoint(Op::Resize(resize), &[x(&[1, 2, 4, 5])]);
        }
    }
}

#[test]
fn moves() {
    let data = || [x(&[2, 3, 4])];
    check_adjoint(Op::Reshape(vec![6, 4]), &data());
    check_adjoint(Op::Transpose(vec![2, 0, 1]), &data());
    check_adjoint(Op::Expand(vec![5, 2, 3, 4]), &data());
    check_adjoint(Op::Expand(vec![2, 3, 4]), &[x(&[3, 1])]);
    check_adjoint(Op::Tile(vec![2, 1, 3]), &data());
    check_adjoint(Op::Concat(1), &[x(&[2, 1, 4]), x(&[2, 3, 4])]);
    let plain = Slice {
        starts: vec![0, 1, 1],
        steps: vec![1, 1, 1],
        shape: vec![2, 2, 3],
    };
    let stepped = Slice {
        starts: vec![1, 0, 3],
        steps: vec![-1, 2, -2],
        shape: vec![2, 2, 2],
    };
    check_adjoint(Op::Slice(plain), &data());
    check_adjoint(Op::Slice(stepped), &data());
    for mode in [
        PadMode::Constant(0.0),
        PadMode::Reflect,
        PadMode::Edge,
        PadMode::Wrap,
    ] {
        let pad = Pad {
            begins: vec![0, 1, 2],
            ends: vec![1, 0, 3],
            mode,
        };
        check_adjoint(Op::Pad(pad), &data());
    }
    let indices = Tensor::ints(vec![2, 0, -1, 2]).reshaped([2, 2]).unwrap();
    let gather = Op::Gather(Gather { axis: 1 });
    check_adjoint(gather, &[x(&[2, 3, 4]), Operand::Constant(indices.clone())]);
    let gather = Op::GatherElements(GatherElements { axis: 1 });
    check_adjoint(gather, &[x(&[2, 3]), Operand::Constant(indices)]);
}

#[test]
fn choices() {
    let condition = Tensor::new(
        [2, 3],
        Data::Bool(vec![true, false, false, true, true, false]),
    )
    .unwrap();
    let condition = || Operand::Constant(condition.clone());
    check_adjoint(Op::Where, &[condition(), x(&[2, 3]), x(&[3])]);
    let zero = || Operand::Constant(Tensor::scalar(0.0));
    check_adjoint(Op::Where, &[condition(), zero(), x(&[2, 3])]);
}

#[test]
fn sums_and_means() {
    for kind in [ReduceKind::Sum, ReduceKind::Mean] {
        for (axes, keep_dims) in [(vec![1], true), (vec![0, 2], false), (vec![0, 1, 2], false)] {
            let reduce = Reduce {
                kind,
                axes,
                keep_dims,
            };
            check_adjoint(Op::Reduce(reduce), &[x(&[2, 3, 4])]);
        }
    }
}

/// `alpha A B + beta C` of stored matrices.
fn naive_gemm(op: &Gemm, x: &[Vec<f64>], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let a = |i: usize, j: usize| x[0][if op.trans_a { j * m + i } else { i * k + j }];
    let b = |i: usize, j: usize| x[1][if op.trans_b { j * k + i } else { i * n + j }];
    let c = |j: usize| x.get(2).map_or(0.0, |c| c[j]);
    let mut y = Vec::new();
    for i in 0..m {
        for j in 0..n {
            let sum: f64 = (0..k).map(|l| a(i, l) * b(l, j)).sum();
            y.push(f64::from(op.alpha) * sum + f64::from(op.beta) * c(j));
        }
    }
    y
}

#[test]
fn gemm_with_any_operand_varying() {
    let [m, k, n] = [2, 3, 4];
    for flags in 0..4 {
        let op = Gemm {
            alpha: 0.5,
            beta: 1.5,
            trans_a: flags & 1 > 0,
            trans_b: flags & 2 > 0,
        };
        let a = if op.trans_a { [k, m] } else { [m, k] };
        let b = if op.trans_b { [n, k] } else { [k, n] };
        let cases = [
            vec![x(&a), w(&b)],
            vec![w(&a), x(&b)],
            vec![x(&a), x(&b), w(&[n])],
            vec![x(&a), w(&b), x(&[n])],
            vec![x(&a), x(&b), x(&[1, n])],
        ];
        for operands in cases {
            check(Op::Gemm(op.clone()), &operands, |x| {
                naive_gemm(&op, x, [m, k, n])
            });
        }
    }
}

/// The product by its definition; a vector is a row on the left and a column on the right.
fn naive_matmul(a: (&[usize], &[f64]), b: (&[usize], &[f64])) -> Vec<f64> {
    let a_shape = if a.0.len() == 1 {
        vec![1, a.0[0]]
    } else {
        a.0.to_vec()
    };
    let b_shape = if b.0.len() == 1 {
        vec![b.0[0], 1]
    } else {
        b.0.to_vec()
    };
    let (a_lead, a_matrix) = a_shape.split_at(a_shape.len() - 2);
    let (b_lead, b_matrix) = b_shape.split_at(b_shape.len() - 2);
    let lead = npcov_graph::op::broadcast(&[a_lead, b_lead]).unwrap();
    let start = |own: &[usize], position: &[usize]| {
        let skip = position.len() - own.len();
        own.iter()
            .zip(&position[skip..])
            .fold(0, |start, (&extent, &p)| {
                start * extent + if extent == 1 { 0 } else { p }
            })
    };
    let [rows, inner, columns] = [a_matrix[0], a_matrix[1], b_matrix[1]];
    let mut y = Vec::new();
    for position in positions(&lead) {
        let a = &a.1[start(a_lead, &position) * rows * inner..];
        let b = &b.1[start(b_lead, &position) * inner * columns..];
        for i in 0..rows {
            for j in 0..columns {
                y.push(
                    (0..inner)
                        .map(|k| a[i * inner + k] * b[k * columns + j])
                        .sum(),
                );
            }
        }
    }
    y
}

#[test]
fn products_of_any_rank() {
    let shapes: &[(&[usize], &[usize])] = &[
        (&[2, 3], &[3, 4]),
        (&[3], &[3]),
        (&[3], &[3, 4]),
        (&[2, 3], &[3]),
        (&[3], &[2, 3, 4]),
        (&[2, 2, 3], &[3]),
        (&[2, 2, 3], &[3, 4]),
        (&[2, 3], &[5, 3, 4]),
        (&[2, 1, 2, 3], &[3, 3, 4]),
        (&[1, 2, 2, 3], &[5, 1, 3, 2]),
    ];
    for &(a, b) in shapes {
        for operands in [[x(a), x(b)], [x(a), w(b)], [w(a), x(b)]] {
            check(Op::MatMul, &operands, |x| {
                naive_matmul((a, &x[0]), (b, &x[1]))
            });
        }
    }
}

/// The values of a product by hand: `[1 2] [3 4]' = 11`.
#[test]
fn a_product_of_two_vectors() {
    let operand = |values: &[f32]| Operand::Varying(vec![2], values.to_vec());
    let weighted = Weighted::new(Op::MatMul, &[operand(&[1.0, 2.0]), operand(&[3.0, 4.0])]);
    let r = weighted.r[0];
    let (value, gradient) = weighted.value_and_gradient();
    assert_eq!(value, 11.0 * r);
    assert_eq!(gradient, [3.0, 4.0, 1.0, 2.0].map(|g| g * r));
}
