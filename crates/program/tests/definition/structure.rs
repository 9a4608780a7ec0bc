//! Operators that move elements: relevance moves back the same way. As matrices they hold zeros and
//! ones, and the relevance of the input is what arrived times the transposed matrix.

use npcov_graph::op::{Gather, GatherElements, Pad, PadMode, Slice};
use npcov_graph::{Data, Graph, Op, Tensor, ValueId};
use npcov_program::Rules;

use crate::harness::{LANES, Random, close, input, lane, matrix, numel, relevances, tensor};

/// Checks one operator on inputs of the given shapes.
fn check(name: &str, shapes: &[&[usize]], push: impl Fn(&mut Graph, &[ValueId]) -> ValueId) {
    let mut graph = Graph::new();
    let inputs: Vec<ValueId> = shapes.iter().map(|s| input(&mut graph, "x", s)).collect();
    let y = push(&mut graph, &inputs);
    graph.set_outputs(vec![y]);
    let mut random = Random::new(name);
    let x: Vec<Vec<f32>> = shapes
        .iter()
        .map(|shape| random.numbers(LANES * numel(shape)))
        .collect();
    let x: Vec<&[f32]> = x.iter().map(Vec::as_slice).collect();
    let r = random.numbers(LANES * graph.value(y).ty.numel());
    let found = relevances(&graph, y, &Rules::default(), &x, &r).unwrap();
    for (how, found) in ["native", "lowered"].iter().zip(found) {
        for (of, found) in found.iter().enumerate() {
            let matrix = matrix(&graph, of);
            let expected: Vec<Vec<f64>> = (0..LANES)
                .map(|i| {
                    let r = lane(&r, i);
                    let column = |e: usize| matrix.iter().zip(&r).map(|(row, r)| row[e] * r).sum();
                    (0..numel(shapes[of])).map(column).collect()
                })
                .collect();
            close(&format!("{name}, input {of}, {how}"), found, &expected);
        }
    }
}

fn check_op(name: &str, shape: &[usize], op: Op) {
    check(name, &[shape], |graph, x| {
        graph.push("y", op.clone(), x).unwrap()
    });
}

fn ints(shape: &[usize], numbers: &[i64]) -> Tensor {
    Tensor::new(shape, Data::I64(numbers.to_vec())).unwrap()
}

#[test]
fn shapes_and_orders() {
    check_op("Reshape", &[1, 2, 6], Op::Reshape(vec![3, 4]));
    check_op("Transpose", &[2, 3, 4], Op::Transpose(vec![2, 0, 1]));
    check_op(
        "Transpose back",
        &[1, 2, 3, 4],
        Op::Transpose(vec![0, 2, 3, 1]),
    );
}

#[test]
fn joined_and_cut() {
    check("Concat", &[&[1, 2, 3], &[1, 4, 3]], |graph, x| {
        let constant = graph.add_constant("c", tensor(&[1, 1, 3], vec![1.0, 2.0, 3.0]));
        graph
            .push("y", Op::Concat(1), &[x[0], constant, x[1]])
            .unwrap()
    });
    check("Concat with itself", &[&[1, 2]], |graph, x| {
        graph.push("y", Op::Concat(1), &[x[0], x[0]]).unwrap()
    });
    let slice = |starts: [usize; 2], steps: [isize; 2], shape: [usize; 2]| {
        Op::Slice(Slice {
            starts: starts.to_vec(),
            steps: steps.to_vec(),
            shape: shape.to_vec(),
        })
    };
    check_op("Slice", &[4, 5], slice([1, 2], [1, 1], [3, 2]));
    check_op("Slice with steps", &[4, 7], slice([0, 1], [3, 2], [2, 3]));
    check_op("Slice backwards", &[4, 5], slice([3, 4], [-1, -2], [4, 3]));
}

#[test]
fn repeated() {
    for mode in [
        PadMode::Constant(0.0),
        PadMode::Constant(-2.5),
        PadMode::Reflect,
        PadMode::Edge,
        PadMode::Wrap,
    ] {
        let pad = Pad {
            begins: vec![0, 1, 2],
            ends: vec![0, 2, 1],
            mode,
        };
        check_op(&format!("Pad {mode:?}"), &[1, 3, 4], Op::Pad(pad));
    }
    check_op("Expand", &[1, 3, 1], Op::Expand(vec![2, 3, 4]));
    check_op("Expand to more axes", &[3, 1], Op::Expand(vec![2, 3, 2]));
    check_op("Tile", &[1, 2, 3], Op::Tile(vec![2, 1, 3]));
}

#[test]
fn gathered() {
    for (name, axis, shape, indices) in [
        ("Gather", 1, &[3][..], &[2, 0, 2][..]),
        ("Gather from the end", 2, &[2], &[-1, 1]),
        ("Gather a table", 1, &[2, 2], &[0, 1, 1, -3]),
        ("Gather one", 1, &[], &[1]),
    ] {
        check(name, &[&[1, 3, 4]], |graph, x| {
            let indices = graph.add_constant("i", ints(shape, indices));
            graph
                .push("y", Op::Gather(Gather { axis }), &[x[0], indices])
                .unwrap()
        });
    }
    for (name, axis, indices) in [
        ("GatherElements", 1, [0, 2, -1, 1, 1, 0]),
        ("GatherElements first", 0, [0, 1, -1, 1, 0, -2]),
    ] {
        check(name, &[&[2, 3]], |graph, x| {
            let indices = graph.add_constant("i", ints(&[2, 3], &indices));
            let op = Op::GatherElements(GatherElements { axis });
            graph.push("y", op, &[x[0], indices]).unwrap()
        });
    }
}
