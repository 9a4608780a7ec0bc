//! Reductions, normalisations and softmax.

use npcov_graph::Op;
use npcov_graph::op::{
    BatchNormalization, InstanceNormalization, LayerNormalization, Lrn, Reduce, ReduceKind, Softmax,
};

use crate::harness::{Operand, Weighted, check, constant, positions, varying};

/// The elements of each group that is reduced to one, in the order of the results.
fn groups(shape: &[usize], axes: &[usize]) -> Vec<Vec<usize>> {
    let mut groups = std::collections::BTreeMap::<Vec<usize>, Vec<usize>>::new();
    for (i, position) in positions(shape).iter().enumerate() {
        let kept = (0..shape.len()).filter(|a| !axes.contains(a));
        let kept = kept.map(|a| position[a]).collect();
        groups.entry(kept).or_default().push(i);
    }
    groups.into_values().collect()
}

#[test]
fn reductions() {
    type Function = fn(&[f64]) -> f64;
    let kinds: [(ReduceKind, Function, f32); 10] = [
        (
            ReduceKind::Mean,
            |x| x.iter().sum::<f64>() / x.len() as f64,
            -1.0,
        ),
        (ReduceKind::Sum, |x| x.iter().sum(), -1.0),
        (ReduceKind::Prod, |x| x.iter().product(), -1.0),
        (
            ReduceKind::Max,
            |x| x.iter().copied().fold(f64::MIN, f64::max),
            -1.0,
        ),
        (
            ReduceKind::Min,
            |x| x.iter().copied().fold(f64::MAX, f64::min),
            -1.0,
        ),
        (ReduceKind::L1, |x| x.iter().map(|x| x.abs()).sum(), -1.0),
        (
            ReduceKind::L2,
            |x| x.iter().map(|x| x * x).sum::<f64>().sqrt(),
            -1.0,
        ),
        (
            ReduceKind::SumSquare,
            |x| x.iter().map(|x| x * x).sum(),
            -1.0,
        ),
        (ReduceKind::LogSum, |x| x.iter().sum::<f64>().ln(), 0.2),
        (
            ReduceKind::LogSumExp,
            |x| x.iter().map(|x| x.exp()).sum::<f64>().ln(),
            -1.0,
        ),
    ];
    let shape = [2, 3, 4];
    for (kind, f, low) in kinds {
        for (axes, keep_dims) in [
            (vec![1], true),
            (vec![2], false),
            (vec![0, 2], false),
            (vec![0, 1, 2], true),
        ] {
            let reduce = Reduce {
                kind,
                axes: axes.clone(),
                keep_dims,
            };
            check(Op::Reduce(reduce), &[varying(&shape, low, 2.0)], |x| {
                groups(&shape, &axes)
                    .iter()
                    .map(|group| f(&group.iter().map(|&i| x[0][i]).collect::<Vec<_>>()))
                    .collect()
            });
        }
    }
}

/// The gradient of a reduction over a vector, for a one that arrives.
fn over_vector(kind: ReduceKind, x: &[f32]) -> Vec<f32> {
    let reduce = Reduce {
        kind,
        axes: vec![0],
        keep_dims: true,
    };
    let operand = Operand::Varying(vec![x.len()], x.to_vec());
    let weighted = Weighted::new(Op::Reduce(reduce), &[operand]);
    let gradient = weighted.value_and_gradient().1;
    gradient.iter().map(|g| g / weighted.r[0]).collect()
}

/// Autograd of PyTorch 2.15 (`prod`, `norm`, `max(dim)`).
#[test]
fn zeros_and_ties() {
    assert_eq!(
        over_vector(ReduceKind::Prod, &[2.0, 0.0, 3.0]),
        [0.0, 6.0, 0.0]
    );
    assert_eq!(
        over_vector(ReduceKind::Prod, &[0.0, 0.0, 3.0]),
        [0.0, 0.0, 0.0]
    );
    assert_eq!(over_vector(ReduceKind::L2, &[0.0, 0.0]), [0.0, 0.0]);
    assert_eq!(over_vector(ReduceKind::L1, &[0.0, -2.0]), [0.0, -1.0]);
    assert_eq!(
        over_vector(ReduceKind::Max, &[1.0, 3.0, 3.0]),
        [0.0, 1.0, 0.0]
    );
    assert_eq!(
        over_vector(ReduceKind::Min, &[3.0, 1.0, 1.0]),
        [0.0, 1.0, 0.0]
    );
}

#[test]
fn softmax_and_its_logarithm() {
    let shape = [2, 3, 4];
    for axis in 0..3 {
        for log in [false, true] {
            let softmax = Softmax { axis, log };
            check(Op::Softmax(softmax), &[varying(&shape, -2.0, 2.0)], |x| {
                let mut y = vec![0.0; x[0].len()];
                for group in groups(&shape, &[axis]) {
                    let sum: f64 = group.iter().map(|&i| x[0][i].exp()).sum();
                    for i in group {
                        let p = x[0][i].exp() / sum;
                        y[i] = if log { p.ln() } else { p };
                    }
                }
                y
            });
        }
    }
}

/// An operand of a shape, with numbers from an interval.
type MakeOperand = fn(&[usize], f32, f32) -> Operand;

/// With fixed statistics; all parameters constant, and all varying.
#[test]
fn batch_normalisation() {
    let shape = [2, 3, 4];
    let epsilon = 0.125;
    let parameter = [(0.5, 1.5), (-1.0, 1.0), (-0.5, 0.5), (0.2, 2.0)];
    let kinds: [MakeOperand; 2] = [constant, varying];
    for kind in kinds {
        let mut operands = vec![varying(&shape, -1.0, 2.0)];
        operands.extend(parameter.map(|(low, high)| kind(&[3], low, high)));
        let op = Op::BatchNormalization(BatchNormalization { epsilon });
        check(op, &operands, |x| {
            let element = |(i, p): (usize, &Vec<usize>)| {
                let [scale, bias, mean, variance] = [1, 2, 3, 4].map(|j| x[j][p[1]]);
                (x[0][i] - mean) / (variance + f64::from(epsilon)).sqrt() * scale + bias
            };
            positions(&shape).iter().enumerate().map(element).collect()
        });
    }
}

/// `(x - mean) / sqrt(variance + epsilon)` within each group.
fn standardised(x: &[f64], groups: &[Vec<usize>], epsilon: f32) -> Vec<f64> {
    let mut y = vec![0.0; x.len()];
    for group in groups {
        let count = group.len() as f64;
        let mean = group.iter().map(|&i| x[i]).sum::<f64>() / count;
        let variance = group.iter().map(|&i| (x[i] - mean).powi(2)).sum::<f64>() / count;
        for &i in group {
            y[i] = (x[i] - mean) / (variance + f64::from(epsilon)).sqrt();
        }
    }
    y
}

#[test]
fn normalisation_by_own_statistics() {
    let shape = [2, 3, 2, 4];
    let epsilon = 0.0625;
    let kinds: [MakeOperand; 2] = [constant, varying];
    for kind in kinds {
        let operands = |parameters: &[usize]| {
            [
                varying(&shape, -1.0, 2.0),
                kind(parameters, 0.5, 1.5),
                kind(parameters, -1.0, 1.0),
            ]
        };
        let op = Op::InstanceNormalization(InstanceNormalization { epsilon });
        check(op, &operands(&[3]), |x| {
            let h = standardised(&x[0], &groups(&shape, &[2, 3]), epsilon);
            let line = |(h, p): (&f64, &Vec<usize>)| h * x[1][p[1]] + x[2][p[1]];
            h.iter().zip(&positions(&shape)).map(line).collect()
        });
        for axis in 1..4 {
            let axes: Vec<usize> = (axis..4).collect();
            let parameters = shape[axis..].iter().product::<usize>();
            let op = || Op::LayerNormalization(LayerNormalization { axis, epsilon });
            let line = |x: &[Vec<f64>]| {
                let h = standardised(&x[0], &groups(&shape, &axes), epsilon);
                let bias = |i: usize| x.get(2).map_or(0.0, |bias| bias[i % parameters]);
                let line = |(i, h): (usize, &f64)| h * x[1][i % parameters] + bias(i);
                h.iter().enumerate().map(line).collect()
            };
            check(op(), &operands(&shape[axis..]), line);
            check(op(), &operands(&shape[axis..])[..2], line);
        }
    }
}

#[test]
fn local_response_normalisation() {
    for (size, beta) in [(3, 0.75), (4, 0.5), (2, 1.25), (1, 0.75), (99, 0.75)] {
        for shape in [vec![2, 5, 2, 3], vec![1, 6]] {
            let op = Lrn {
                alpha: 2.0,
                beta,
                bias: 1.5,
                size,
            };
            let rest = shape[2..].iter().product::<usize>();
            let channels = shape[1];
            check(Op::Lrn(op), &[varying(&shape, -1.0, 2.0)], |x| {
                let element = |(i, p): (usize, &Vec<usize>)| {
                    let first = p[1].saturating_sub((size - 1) / 2);
                    let last = (p[1] + (size - 1).div_ceil(2)).min(channels - 1);
                    let near = (first..=last).map(|c| x[0][i + c * rest - p[1] * rest]);
                    let squares: f64 = near.map(|x| x * x).sum();
                    x[0][i] / (1.5 + 2.0 / size as f64 * squares).powf(f64::from(beta))
                };
                positions(&shape).iter().enumerate().map(element).collect()
            });
        }
    }
}
