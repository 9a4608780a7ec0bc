//! Relevance steps of linear operators, each as one kernel.
//!
//! A step is a product, a division and the transposed product: sums of contributions for every
//! output unit, from these and the arriving relevance the factors that contributions are multiplied
//! by, and those brought back to the inputs (`npcov_program::LinearRelevance` has the formulas).
//! What lies between the two products stays in a few rows of working memory.

mod conv;
mod conv_alone;
mod conv_winograd;
mod conv_winograd_alone;
mod dense;
mod factors;
mod sum;

use npcov_graph::{Graph, Node, OpError};
use npcov_program::{Linear, LinearRelevance};

use self::factors::Factors;
pub(super) use self::sum::SumShare;
use super::matmul;
use crate::native::kernel::{Context, NodeKernel};

/// Whether there is a kernel for this operator and rule.
pub(super) fn has_kernel(op: &LinearRelevance, graph: &Graph, node: &Node) -> bool {
    let rank = graph.shape(node.inputs[0]).len();
    Factors::new(op.rule).is_ok()
        && has_bias_per_unit(op, graph, node)
        && !graph.shape(node.output).contains(&0)
        && match &op.linear {
            Linear::Conv(conv) => conv.groups == 1 && rank <= 4,
            Linear::Gemm(gemm) => !gemm.trans_a,
            Linear::MatMul => graph.shape(node.inputs[2]).len() == 2,
            Linear::ConvTranspose(_)
            | Linear::MatMulLeft
            | Linear::Pool(_)
            | Linear::Reduce(_)
            | Linear::Resize(_) => false,
        }
}

/// Whether a bias, if there is one, has a number for each channel or unit, the same at all
/// positions and in all rows.
fn has_bias_per_unit(op: &LinearRelevance, graph: &Graph, node: &Node) -> bool {
    let Some(&bias) = node.inputs.get(3).filter(|_| op.bias) else {
        return true;
    };
    let shape = graph.shape(bias);
    let numel: usize = shape.iter().product();
    match (&op.linear, shape) {
        (Linear::Conv(_), [_]) => true,
        (Linear::Conv(conv), _) => {
            let channels = graph.shape(node.inputs[2])[0];
            let axis = shape.len().checked_sub(conv.window.rank() + 1);
            numel == channels && axis.is_some_and(|axis| shape[axis] == channels)
        }
        (_, shape) => numel == 1 || shape.last() == Some(&numel),
    }
}

pub(super) fn prepare(op: &LinearRelevance, cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    match &op.linear {
        Linear::Conv(conv) => conv::prepare(op, conv, cx),
        Linear::Gemm(gemm) => dense::prepare(op, matmul::gemm_weights(gemm, cx, 2)?, cx),
        Linear::MatMul => dense::prepare(op, matmul::weights(cx, 2)?, cx),
        Linear::ConvTranspose(_)
        | Linear::MatMulLeft
        | Linear::Pool(_)
        | Linear::Reduce(_)
        | Linear::Resize(_) => Err(OpError::unsupported("it has no kernel")),
    }
}

/// Which weights make the sums of a split rule: those of the sign that gives contributions of the
/// wanted sign, for the part of the input that they are multiplied with.
///
/// `sum` is 0 for positive contributions and 1 for negative ones, `part` is 0 for the positive part
/// of the input and 1 for the negative one.
fn signed(weight: f32, sum: usize, part: usize) -> f32 {
    match sum == part {
        true => weight.max(0.0),
        false => weight.min(0.0),
    }
}

/// What comes back to an input of this sign. By bits: of a condition the compiler makes a jump for each
/// number, or a choice between two addresses.
#[inline(always)]
fn by_sign(x: f32, positive: f32, negative: f32) -> f32 {
    let is_positive = u32::from(x > 0.0).wrapping_neg();
    f32::from_bits(positive.to_bits() & is_positive | negative.to_bits() & !is_positive)
}

#[cfg(test)]
mod tests {
    use npcov_cpu::{Arithmetic, Isa};
    use npcov_graph::op::{CompositeOp, Conv, Gemm, Window};
    use npcov_graph::{DType, Data, Op, Tensor, TensorType};
    use npcov_program::Rule;

    use super::*;
    use crate::native::op::testing::run_graph;
    use crate::native::options::{Kernels, Options};
    use crate::native::pack::LANES;

    /// Numbers of both signs with exact zeros among them: rare and dead units occur.
    pub(super) fn numbers(count: usize, seed: usize, nonnegative: bool) -> Vec<f32> {
        let number = |i: usize| {
            let x = ((i * 7919 + seed * 104_729 + i / 13 * 31) % 1013) as f32 / 1013.0 - 0.5;
            match (x.abs() < 0.2, nonnegative) {
                (true, _) => 0.0,
                (false, true) => x.max(0.0),
                (false, false) => x,
            }
        };
        (0..count).map(number).collect()
    }

    fn rules() -> Vec<Rule> {
        [
            "alpha-beta:0.5",
            "alpha-beta:1,1e-3,rare=off",
            "zplus",
            "epsilon:0.1",
            "gamma:0.25",
        ]
        .iter()
        .map(|text| text.parse().unwrap())
        .collect()
    }

    /// Runs the kernel and, for every instruction set, the operators that define it.
    fn check(linear: &Linear, x: &[usize], weight: &[usize], units: usize) {
        for rule in rules() {
            for (nonnegative, bias) in [(true, false), (false, true)] {
                let op = LinearRelevance {
                    linear: linear.clone(),
                    rule,
                    weight: true,
                    bias,
                    nonnegative,
                };
                let mut graph = Graph::new();
                let input = graph.add_input("x", TensorType::new(DType::F32, x));
                let data = |shape: &[usize], seed| {
                    let count = shape.iter().product();
                    Tensor::new(shape, Data::F32(numbers(count, seed, false))).unwrap()
                };
                let w = graph.add_constant("w", data(weight, 3));
                let plain = match linear {
                    Linear::Conv(conv) => Op::Conv(conv.clone()),
                    Linear::Gemm(gemm) => Op::Gemm(gemm.clone()),
                    Linear::ConvTranspose(_)
                    | Linear::MatMul
                    | Linear::MatMulLeft
                    | Linear::Pool(_)
                    | Linear::Reduce(_)
                    | Linear::Resize(_) => Op::MatMul,
                };
                let y = graph.push("y", plain, &[input, w]).unwrap();
                let r = graph.add_input("r", graph.value(y).ty.clone());
                let mut inputs = vec![input, r, w];
                if bias {
                    inputs.push(graph.add_constant("b", data(&[units], 5)));
                }
                let composite = Op::Composite(CompositeOp::new(op));
                let back = graph.push("relevance", composite, &inputs).unwrap();
                graph.set_outputs(vec![back]);
                let graph = graph.pruned();
                let node = graph.nodes().last().unwrap();
                assert!(super::super::has_kernel(&graph, node));
                let lowered = graph.lowered(|_| true).unwrap();
                let lens: Vec<usize> = graph
                    .inputs()
                    .iter()
                    .map(|&i| graph.value(i).ty.numel())
                    .collect();
                let x = numbers(lens[0] * LANES, 1, nonnegative);
                let r = numbers(lens[1] * LANES, 2, false);
                let run = |graph: &Graph, isa: Isa, kernels: Kernels| {
                    let options = Options {
                        isa,
                        kernels,
                        ..Options::default()
                    };
                    run_graph(graph, options, &[&x, &r]).swap_remove(0)
                };
                let mut fused = Vec::new();
                for isa in Isa::available() {
                    let expected = run(&lowered, isa, Kernels::Direct);
                    let scale = expected.iter().fold(0.0f32, |m, x| m.max(x.abs()));
                    assert!(scale > 0.0);
                    let output = run(&graph, isa, Kernels::Winograd);
                    for (i, (a, b)) in output.iter().zip(&expected).enumerate() {
                        assert!(
                            (a - b).abs() <= 2e-5 * scale,
                            "{isa:?}, `{rule}`, bias {bias}, {linear:?}: {a} for {b} at {i} of {scale}"
                        );
                    }
                    if isa.arithmetic() == Arithmetic::Fused {
                        fused.push(output.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
                    }
                }
                // The width of vectors changes nothing.
                assert!(fused.windows(2).all(|pair| pair[0] == pair[1]));
            }
        }
    }

    #[test]
    fn convolutions_agree_with_their_definition() {
        let window = |kernel: [usize; 2], stride, dilation, pads: [usize; 2]| Window {
            strides: vec![stride; 2],
            dilations: vec![dilation; 2],
            pads_begin: vec![pads[0]; 2],
            pads_end: vec![pads[1]; 2],
            ..Window::sized(kernel)
        };
        for (window, extent) in [
            (window([3, 3], 1, 1, [1, 1]), [9, 20]),
            (window([3, 3], 1, 1, [1, 1]), [3, 3]),
            (window([1, 1], 1, 1, [0, 0]), [5, 4]),
            (window([1, 1], 2, 1, [0, 0]), [7, 6]),
            (window([3, 2], 2, 1, [1, 0]), [10, 17]),
            (window([2, 3], 1, 2, [2, 1]), [9, 11]),
            (window([2, 2], 3, 2, [0, 0]), [11, 8]),
            (window([2, 2], 4, 1, [0, 0]), [13, 9]),
            (window([5, 5], 1, 1, [4, 4]), [4, 2]),
        ] {
            let conv = Linear::Conv(Conv {
                window: window.clone(),
                groups: 1,
            });
            let [h, w] = extent;
            let shape = [3, 2, window.kernel[0], window.kernel[1]];
            check(&conv, &[1, 2, h, w], &shape, 3);
        }
        // By tiles: whole ones and parts, several groups, pads on one side, one small map.
        for (pads, extent, channels) in [
            ([1, 1], [9, 18], [24, 24]),
            ([2, 0], [10, 9], [32, 30]),
            ([0, 0], [6, 6], [32, 40]),
            ([1, 1], [4, 4], [40, 16]),
        ] {
            let conv = Conv {
                window: window([3, 3], 1, 1, pads),
                groups: 1,
            };
            let ([h, w], [inputs, outputs]) = (extent, channels);
            let x = [1, inputs, h, w];
            let spatial = conv.window.output(&extent, false).unwrap();
            let y = [1, outputs, spatial[0], spatial[1]];
            let factors = Factors::new(rules()[0]).unwrap();
            assert!(conv_winograd::tiling(&conv, &factors, &x, &y).is_some());
            check(&Linear::Conv(conv), &x, &[outputs, inputs, 3, 3], outputs);
        }
        let line = Linear::Conv(Conv {
            window: Window::sized([3]),
            groups: 1,
        });
        check(&line, &[2, 4, 40], &[5, 4, 3], 5);
    }

    #[test]
    fn products_agree_with_their_definition() {
        for trans_b in [false, true] {
            let gemm = Linear::Gemm(Gemm {
                alpha: -0.5,
                beta: 1.0,
                trans_a: false,
                trans_b,
            });
            let weight: &[usize] = if trans_b { &[13, 1500] } else { &[1500, 13] };
            check(&gemm, &[2, 1500], weight, 13);
        }
        check(&Linear::MatMul, &[1, 3, 7], &[7, 20], 20);
    }
}
