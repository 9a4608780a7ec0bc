//! What is exact by definition is exact by tiles: zeros, the first maximum of a window, and sums of integers.
//!
//! A network without biases, and one with, see images that are black but for a patch. Units that see
//! nothing are exactly zero, and where positions see the same, the first of equal maxima wins: so it is
//! with direct convolutions, which are the definition here.

use npcov_engine::native::{Kernels, Native, Options};
use npcov_engine::{Engine, KEEP_ALL};
use npcov_graph::op::{CompositeOp, Conv, Gemm, Pool, PoolKind, Unary, Window};
use npcov_graph::{Classifier, DType, Data, Graph, Op, Tensor, TensorType, ValueId};
use npcov_program::{
    ExplainOutputs, LayerOptions, Lrp, MaxPlace, NetworkView, Rules, explain, path_layers,
};

const EXTENT: usize = 24;
const INPUTS: usize = 40;

/// A number from -1 to 1 that looks random.
fn number(i: usize) -> f32 {
    let mut bits = (i as u32).wrapping_add(1).wrapping_mul(0x9e37_79b1);
    bits = (bits ^ (bits >> 15)).wrapping_mul(0x85eb_ca77);
    bits ^= bits >> 13;
    (bits >> 8) as f32 / (1 << 23) as f32 - 1.0
}

fn tensor(shape: &[usize], seed: usize, scale: f32) -> Tensor {
    let count: usize = shape.iter().product();
    let data = (0..count)
        .map(|i| scale * number(seed * 1_000_003 + i))
        .collect();
    Tensor::new(shape, Data::F32(data)).unwrap()
}

/// A network, and what is compared: activations, maxima of windows, and where these are.
struct Net {
    graph: Graph,
    activations: Vec<ValueId>,
    maxima: Vec<(ValueId, ValueId)>,
}

/// Two convolutions and a pool, twice, and a dense layer.
fn net(bias: bool, residual: bool) -> Net {
    let mut graph = Graph::new();
    let mut x = graph.add_input("x", TensorType::new(DType::F32, [1, 2, EXTENT, EXTENT]));
    let (mut activations, mut maxima) = (Vec::new(), Vec::new());
    let (mut channels, mut extent) = (2, EXTENT);
    for (layer, width) in [24, 24, 32, 32].into_iter().enumerate() {
        let conv = Op::Conv(Conv {
            window: Window {
                pads_begin: vec![1, 1],
                pads_end: vec![1, 1],
                ..Window::sized([3, 3])
            },
            groups: 1,
        });
        let scale = (2.0 / (9.0 * channels as f32)).sqrt() * 1.7;
        let w = graph.add_constant("w", tensor(&[width, channels, 3, 3], layer + 1, scale));
        let mut inputs = vec![x, w];
        if bias {
            inputs.push(graph.add_constant("b", tensor(&[width], layer + 11, 0.1)));
        }
        let mut y = graph.push("conv", conv, &inputs).unwrap();
        if residual && width == channels {
            let add = Op::Binary(npcov_graph::op::Binary::Add);
            y = graph.push("add", add, &[y, x]).unwrap();
        }
        x = graph.push("relu", Op::Unary(Unary::Relu), &[y]).unwrap();
        activations.push(x);
        channels = width;
        if layer % 2 == 1 {
            let pool = Pool {
                kind: PoolKind::Max,
                window: Window {
                    strides: vec![2, 2],
                    ..Window::sized([2, 2])
                },
                ceil_mode: false,
            };
            let place = MaxPlace { pool: pool.clone() };
            let place = Op::Composite(CompositeOp::new(place));
            let place = graph.push("place", place, &[x]).unwrap();
            x = graph.push("pool", Op::Pool(pool), &[x]).unwrap();
            maxima.push((x, place));
            extent /= 2;
        }
    }
    let units = channels * extent * extent;
    let flat = graph
        .push("flat", Op::Reshape(vec![1, units]), &[x])
        .unwrap();
    let w = graph.add_constant("w", tensor(&[10, units], 21, 0.05));
    let gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    };
    let logits = graph.push("logits", Op::Gemm(gemm), &[flat, w]).unwrap();
    graph.set_outputs(vec![logits]);
    Net {
        graph,
        activations,
        maxima,
    }
}

/// Black images with a patch of a few grey levels.
fn images() -> Vec<f32> {
    let pixel = |i: usize| {
        let (image, at) = (i / (2 * EXTENT * EXTENT), i % (EXTENT * EXTENT));
        let (row, col) = (at / EXTENT, at % EXTENT);
        let inside = |at: usize, first: usize| (first..first + 7).contains(&at);
        match inside(row, image % 13) && inside(col, image / 2 % 15) {
            true => (number(i).abs() * 4.0).floor() / 4.0,
            false => 0.0,
        }
    };
    (0..INPUTS * 2 * EXTENT * EXTENT).map(pixel).collect()
}

fn run(graph: &Graph, kernels: Kernels, input: &[f32]) -> Vec<Vec<f32>> {
    let options = Options {
        kernels,
        ..Options::default()
    };
    Native::new(options)
        .run_once(graph, INPUTS, &[input])
        .unwrap()
}

#[test]
fn zeros_and_winners_are_those_of_direct_kernels() {
    let input = images();
    for (bias, residual) in [(false, false), (true, false), (false, true), (true, true)] {
        let Net {
            mut graph,
            activations,
            maxima,
        } = net(bias, residual);
        let pairs = maxima.iter().flat_map(|&(max, place)| [max, place]);
        graph.set_outputs(activations.iter().copied().chain(pairs).collect());
        let direct = run(&graph, Kernels::Direct, &input);
        let tiles = run(&graph, Kernels::Winograd, &input);
        let (mut zeros, mut differ) = (0, 0);
        for (direct, tiles) in direct.iter().zip(&tiles).take(activations.len()) {
            for (&direct, &tiles) in direct.iter().zip(tiles) {
                zeros += usize::from(direct == 0.0);
                differ += usize::from(direct != tiles);
                // A sum near zero may have either sign; one of nothing is nothing.
                assert!(direct != 0.0 || tiles.abs() < 1e-5, "{tiles} for zero");
                if !bias && !residual {
                    assert!(
                        direct != 0.0 || tiles == 0.0 || tiles > 1e-9,
                        "{tiles} for zero"
                    );
                }
            }
        }
        // Tiles were at work.
        assert!(zeros > 10_000 && differ > 10_000);
        let (mut live, mut others) = (0, 0);
        for i in 0..maxima.len() {
            let at = activations.len() + 2 * i;
            for (window, max) in direct[at].iter().enumerate() {
                live += usize::from(*max > 0.0);
                others +=
                    usize::from(*max > 0.0 && direct[at + 1][window] != tiles[at + 1][window]);
            }
        }
        assert!(live > 20_000, "{live}");
        assert_eq!(others, 0, "of {live} windows");
    }
}

/// On a black background, a unit of a network without biases is zero unless it sees the patch.
#[test]
fn what_sees_nothing_is_nothing() {
    let Net {
        mut graph,
        activations,
        ..
    } = net(false, false);
    graph.set_outputs(activations);
    let input = images();
    let mut seen: Vec<bool> = (0..INPUTS * EXTENT * EXTENT)
        .map(|i| {
            let (image, at) = (i / (EXTENT * EXTENT), i % (EXTENT * EXTENT));
            (0..2).any(|c| input[(image * 2 + c) * EXTENT * EXTENT + at] != 0.0)
        })
        .collect();
    let mut extent = EXTENT;
    for (layer, output) in run(&graph, Kernels::Winograd, &input).iter().enumerate() {
        let sees = |image: usize, row: usize, col: usize| {
            let near = |at: usize| at.saturating_sub(1)..(at + 2).min(extent);
            near(row).any(|r| near(col).any(|c| seen[(image * extent + r) * extent + c]))
        };
        let pixels = extent * extent;
        let now: Vec<bool> = (0..INPUTS * pixels)
            .map(|i| sees(i / pixels, i % pixels / extent, i % extent))
            .collect();
        let channels = output.len() / (INPUTS * pixels);
        let mut dark = 0;
        for (i, &y) in output.iter().enumerate() {
            if !now[i / (channels * pixels) * pixels + i % pixels] {
                dark += 1;
                assert_eq!(y, 0.0, "layer {layer}");
            }
        }
        assert!(dark > 1000);
        seen = now;
        if layer % 2 == 1 {
            let half = extent / 2;
            let pooled = |i: usize| {
                let (image, row, col) = (i / (half * half), i / half % half, i % half);
                let at = |r: usize, c: usize| (image * extent + 2 * row + r) * extent + 2 * col + c;
                (0..4).any(|k| seen[at(k / 2, k % 2)])
            };
            seen = (0..INPUTS * half * half).map(pooled).collect();
            extent = half;
        }
    }
}

#[test]
fn relevances_are_those_of_direct_kernels() {
    let input = images();
    for bias in [false, true] {
        let graph = net(bias, false).graph;
        let classifier = Classifier::find(&graph, graph.outputs()[0]);
        let layers = path_layers(&graph, &classifier, 1, &LayerOptions::default()).unwrap();
        let view = NetworkView {
            graph: &graph,
            classifier: &classifier,
            layers: &layers,
            batch: 1,
        };
        let rules = Rules::uniform("alpha-beta:0.5".parse().unwrap());
        let outputs = ExplainOutputs {
            input: true,
            ..ExplainOutputs::default()
        };
        let program = explain(&view, &Lrp { rules }, &outputs).unwrap().graph;
        let direct = run(&program, Kernels::Direct, &input);
        let tiles = run(&program, Kernels::Winograd, &input);
        let lens = Native::default().prepare(&program, KEEP_ALL).unwrap();
        for ((direct, tiles), &len) in direct.iter().zip(&tiles).zip(lens.output_lens()) {
            for (direct, tiles) in direct.chunks(len).zip(tiles.chunks(len)) {
                let distance = |(a, b): (&f32, &f32)| f64::from((a - b).abs());
                let apart: f64 = direct.iter().zip(tiles).map(distance).sum();
                let all: f64 = direct.iter().map(|r| f64::from(r.abs())).sum();
                assert!(
                    apart <= 1e-4 * all.max(1e-6),
                    "{apart} of {all}, bias {bias}"
                );
            }
        }
    }
}

/// Eight bits times eight bits, as a quantised model has them: every sum is a whole number, and the right one.
#[test]
fn integers_add_up_exactly() {
    const CHANNELS: usize = 24;
    let whole = |shape: &[usize], seed: usize, most: f32| -> Vec<f32> {
        let count: usize = shape.iter().product();
        let integer = |i| (number(seed * 1_000_003 + i) * most).round();
        (0..count).map(integer).collect()
    };
    let x = whole(&[CHANNELS, EXTENT, EXTENT], 31, 255.0);
    let weights = whole(&[CHANNELS, CHANNELS, 3, 3], 32, 127.0);
    let mut graph = Graph::new();
    let input = graph.add_input(
        "x",
        TensorType::new(DType::F32, [1, CHANNELS, EXTENT, EXTENT]),
    );
    let w = Tensor::new([CHANNELS, CHANNELS, 3, 3], Data::F32(weights.clone())).unwrap();
    let w = graph.add_constant("w", w);
    let conv = Conv {
        window: Window::sized([3, 3]),
        groups: 1,
    };
    let y = graph.push("conv", Op::Conv(conv), &[input, w]).unwrap();
    graph.set_outputs(vec![y]);
    let options = Options {
        kernels: Kernels::Winograd,
        ..Options::default()
    };
    let found = Native::new(options).run_once(&graph, 1, &[&x]).unwrap();
    let extent = EXTENT - 2;
    for (place, &sum) in found[0].iter().enumerate() {
        let (m, row, column) = (
            place / (extent * extent),
            place / extent % extent,
            place % extent,
        );
        let mut expected = 0_i64;
        for tap in 0..CHANNELS * 9 {
            let (c, i, j) = (tap / 9, tap / 3 % 3, tap % 3);
            let at = (c * EXTENT + row + i) * EXTENT + column + j;
            expected += (x[at] * weights[m * CHANNELS * 9 + tap]) as i64;
        }
        assert_eq!(f64::from(sum), expected as f64, "at {place}");
    }
}
