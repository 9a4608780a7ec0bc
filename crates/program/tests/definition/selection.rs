//! Operators of which some inputs get everything: the maximum, the chosen branch, what is gated.

use npcov_graph::op::{Binary, GatherElements, Pool, PoolKind, TopK, Window};
use npcov_graph::{Graph, Op, ValueId};
use npcov_program::Rules;

use crate::harness::{LANES, Random, close, input, lane, numel, relevances, tensor};

/// The first maximum of each window, in row-major order, gets what arrived at the window.
fn max_pool(pool: &Pool, shape: &[usize], output: &[usize], x: &[f64], r: &[f64]) -> Vec<f64> {
    let window = &pool.window;
    let (h, w) = (shape[2], shape[3]);
    let mut relevance = vec![0.0; x.len()];
    for (at, r) in r.iter().enumerate() {
        let (o_w, o_h) = (at % output[3], at / output[3] % output[2]);
        let plane = at / output[3] / output[2] * h * w;
        let mut winner: Option<usize> = None;
        for k_h in 0..window.kernel[0] {
            for k_w in 0..window.kernel[1] {
                let row = o_h * window.strides[0] + k_h * window.dilations[0];
                let column = o_w * window.strides[1] + k_w * window.dilations[1];
                let (Some(row), Some(column)) = (
                    row.checked_sub(window.pads_begin[0]).filter(|&row| row < h),
                    column.checked_sub(window.pads_begin[1]).filter(|&c| c < w),
                ) else {
                    continue;
                };
                let place = plane + row * w + column;
                if winner.is_none_or(|best| x[place] > x[best]) {
                    winner = Some(place);
                }
            }
        }
        relevance[winner.unwrap()] += r;
    }
    relevance
}

#[test]
fn the_first_maximum_of_each_window() {
    let plain = Window {
        strides: vec![2, 2],
        ..Window::sized([2, 2])
    };
    let overlapping = Window {
        strides: vec![2, 1],
        pads_begin: vec![1, 1],
        pads_end: vec![1, 0],
        ..Window::sized([3, 3])
    };
    let dilated = Window {
        dilations: vec![2, 1],
        ..Window::sized([2, 3])
    };
    for (name, window) in [
        ("2x2", plain),
        ("overlapping", overlapping),
        ("dilated", dilated),
    ] {
        for ceil_mode in [false, true] {
            let pool = Pool {
                kind: PoolKind::Max,
                window: window.clone(),
                ceil_mode,
            };
            let shape = [1, 2, 5, 6];
            let mut graph = Graph::new();
            let x = input(&mut graph, "x", &shape);
            let y = graph.push("y", Op::Pool(pool.clone()), &[x]).unwrap();
            let output = graph.shape(y).to_vec();
            let mut random = Random::new(name);
            // Few different numbers: many maxima are not the only one of their window.
            let halves = |x: f32| (2.0 * x).round() / 2.0;
            let x: Vec<f32> = random
                .numbers(LANES * numel(&shape))
                .into_iter()
                .map(halves)
                .collect();
            let r = random.numbers(LANES * numel(&output));
            let expected: Vec<Vec<f64>> = (0..LANES)
                .map(|i| max_pool(&pool, &shape, &output, &lane(&x, i), &lane(&r, i)))
                .collect();
            let found = relevances(&graph, y, &Rules::default(), &[&x], &r).unwrap();
            for (how, found) in ["native", "lowered"].iter().zip(found) {
                close(
                    &format!("MaxPool {name}, ceil {ceil_mode}, {how}"),
                    &found[0],
                    &expected,
                );
            }
        }
    }
}

#[test]
fn the_largest_of_an_axis() {
    // The middle axis of three: 5 elements, 3 apart.
    let (shape, count) = ([2, 5, 3], 2);
    for smallest in [false, true] {
        let mut graph = Graph::new();
        let x = input(&mut graph, "x", &shape);
        let top = TopK {
            axis: 1,
            count,
            smallest,
        };
        let places = graph.push("places", Op::TopK(top), &[x]).unwrap();
        let gather = Op::GatherElements(GatherElements { axis: 1 });
        let y = graph.push("y", gather, &[x, places]).unwrap();
        let mut random = Random::new("TopK");
        let halves = |x: f32| (2.0 * x).round() / 2.0;
        let x = random.numbers(LANES * numel(&shape)).into_iter();
        let x: Vec<f32> = x.map(halves).collect();
        let r = random.numbers(LANES * 2 * count * 3);
        let expected = |i: usize| {
            let (x, r) = (lane(&x, i), lane(&r, i));
            let mut relevance = vec![0.0; x.len()];
            for (outer, inner) in (0..2).flat_map(|outer| (0..3).map(move |inner| (outer, inner))) {
                let at = |along: usize| outer * 15 + along * 3 + inner;
                let sign = if smallest { 1.0 } else { -1.0 };
                let mut order: Vec<usize> = (0..5).collect();
                let key = |along: usize| sign * x[at(along)];
                order.sort_by(|&a, &b| key(a).partial_cmp(&key(b)).unwrap());
                for (rank, &along) in order[..count].iter().enumerate() {
                    relevance[at(along)] += r[outer * 6 + rank * 3 + inner];
                }
            }
            relevance
        };
        let expected: Vec<Vec<f64>> = (0..LANES).map(expected).collect();
        let found = relevances(&graph, y, &Rules::default(), &[&x], &r).unwrap();
        for (how, found) in ["native", "lowered"].iter().zip(found) {
            close(&format!("TopK, {how}"), &found[0], &expected);
        }
    }
}

/// Checks what two inputs of one element position each get, `expected` being a function of the two
/// and of what arrived.
fn check_pairs(
    name: &str,
    push: impl Fn(&mut Graph, [ValueId; 2]) -> ValueId,
    expected: impl Fn(f64, f64, f64) -> [f64; 2],
) {
    let shape = [1, 7];
    let mut graph = Graph::new();
    let operands = ["a", "b"].map(|name| input(&mut graph, name, &shape));
    let y = push(&mut graph, operands);
    let mut random = Random::new(name);
    let a = random.numbers(LANES * numel(&shape));
    let b = random.numbers(LANES * numel(&shape));
    let r = random.numbers(LANES * numel(&shape));
    let found = relevances(&graph, y, &Rules::default(), &[&a, &b], &r).unwrap();
    for (how, found) in ["native", "lowered"].iter().zip(found) {
        for of in 0..2 {
            let expected: Vec<Vec<f64>> = (0..LANES)
                .map(|i| {
                    let (a, b, r) = (lane(&a, i), lane(&b, i), lane(&r, i));
                    (0..a.len())
                        .map(|e| expected(a[e], b[e], r[e])[of])
                        .collect()
                })
                .collect();
            close(
                &format!("{name}, {how}, operand {of}"),
                &found[of],
                &expected,
            );
        }
    }
}

#[test]
fn two_operands_of_one_shape() {
    let binary = |f: Binary| {
        move |graph: &mut Graph, operands: [ValueId; 2]| {
            graph.push("y", Op::Binary(f), &operands).unwrap()
        }
    };
    let first = |condition: bool, r: f64| match condition {
        true => [r, 0.0],
        false => [0.0, r],
    };
    check_pairs("Max", binary(Binary::Max), |a, b, r| first(a >= b, r));
    check_pairs("Min", binary(Binary::Min), |a, b, r| first(a <= b, r));
    check_pairs("Mul", binary(Binary::Mul), |_, _, r| [r / 2.0, r / 2.0]);
    check_pairs("Div", binary(Binary::Div), |_, _, r| [r, 0.0]);
    check_pairs("Pow", binary(Binary::Pow), |_, _, r| [r, 0.0]);
    // A choice by a comparison, which is itself not explained.
    let choice = |graph: &mut Graph, [a, b]: [ValueId; 2]| {
        let limit = graph.add_constant("limit", tensor(&[], vec![0.25]));
        let condition = graph
            .push("c", Op::Binary(Binary::Less), &[a, limit])
            .unwrap();
        graph.push("y", Op::Where, &[condition, a, b]).unwrap()
    };
    check_pairs("Where", choice, |a, _, r| first(a < 0.25, r));
}

/// The larger factor is what is gated, on whichever side it stands.
#[test]
fn a_gate_gets_nothing() {
    for gate_first in [false, true] {
        let mut graph = Graph::new();
        let x = input(&mut graph, "x", &[1, 3, 2, 2]);
        let gate = input(&mut graph, "gate", &[1, 3, 1, 1]);
        let operands = match gate_first {
            true => [gate, x],
            false => [x, gate],
        };
        let y = graph.push("y", Op::Binary(Binary::Mul), &operands).unwrap();
        let mut random = Random::new("gate");
        let (x, gate) = (random.numbers(LANES * 12), random.numbers(LANES * 3));
        let r = random.numbers(LANES * 12);
        let found = relevances(&graph, y, &Rules::default(), &[&x, &gate], &r).unwrap();
        for found in found {
            assert_eq!(found[0], r);
            assert!(found[1].iter().all(|&x| x == 0.0));
        }
    }
}

/// With a constant operand the other one gets everything, summed where it was broadcast.
#[test]
fn constants_get_nothing() {
    for f in [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div] {
        for constant_first in [false, true] {
            let mut graph = Graph::new();
            let x = input(&mut graph, "x", &[1, 3, 1]);
            let c = tensor(&[1, 1, 2], vec![0.5, -2.0]);
            let c = graph.add_constant("c", c);
            let operands = match constant_first {
                true => [c, x],
                false => [x, c],
            };
            let y = graph.push("y", Op::Binary(f), &operands).unwrap();
            let mut random = Random::new("constants");
            let x = random.numbers(LANES * 3);
            let r = random.numbers(LANES * 6);
            let expected: Vec<Vec<f64>> = (0..LANES)
                .map(|i| {
                    lane(&r, i)
                        .chunks(2)
                        .map(|pair| pair[0] + pair[1])
                        .collect()
                })
                .collect();
            for found in relevances(&graph, y, &Rules::default(), &[&x], &r).unwrap() {
                close(&format!("{f:?} with a constant"), &found[0], &expected);
            }
        }
    }
}
