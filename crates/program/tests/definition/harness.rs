//! Numbers, runs and comparisons.

use npcov_engine::native::Native;
use npcov_engine::{Engine, KEEP_ALL};
use npcov_graph::{DType, Data, Graph, Tensor, TensorType, ValueId};
use npcov_program::{Attribution, Lrp, ProgramError, RelevanceSeed, Rules};

/// Inputs that are computed side by side.
pub(crate) const LANES: usize = 5;

/// Allowed distance, as a part of the largest expected number.
const TOLERANCE: f64 = 1e-5;

/// A sequence of numbers that is the same in every run.
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of a name.
    pub(crate) fn new(name: &str) -> Random {
        let mix = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        Random(name.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    /// A multiple of 1/8 between -1 and 1, zero in a third of all cases.
    pub(crate) fn number(&mut self) -> f32 {
        match self.below(3) {
            0 => 0.0,
            _ => self.below(17) as f32 / 8.0 - 1.0,
        }
    }

    pub(crate) fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.number()).collect()
    }
}

pub(crate) fn numel(shape: &[usize]) -> usize {
    shape.iter().product()
}

pub(crate) fn tensor(shape: &[usize], data: Vec<f32>) -> Tensor {
    Tensor::new(shape, Data::F32(data)).unwrap()
}

pub(crate) fn input(graph: &mut Graph, name: &str, shape: &[usize]) -> ValueId {
    graph.add_input(name, TensorType::new(DType::F32, shape))
}

/// The outputs of a graph for `count` sets of inputs.
pub(crate) fn run(graph: &Graph, count: usize, inputs: &[&[f32]]) -> Vec<Vec<f32>> {
    Native::default().run_once(graph, count, inputs).unwrap()
}

/// The derivative of a graph's only output with respect to its input `of`, at the input zero:
/// by outputs, then by elements of the input. Linear graphs are such matrices.
pub(crate) fn matrix(graph: &Graph, of: usize) -> Vec<Vec<f64>> {
    let lens: Vec<usize> = graph
        .inputs()
        .iter()
        .map(|&i| graph.value(i).ty.numel())
        .collect();
    let prepared = Native::default().prepare(graph, KEEP_ALL).unwrap();
    let mut worker = prepared.worker().unwrap();
    let outputs: usize = prepared.output_lens().iter().sum();
    let mut column = |unit: Option<usize>| {
        let mut inputs: Vec<Vec<f32>> = lens.iter().map(|&len| vec![0.0; len]).collect();
        if let Some(unit) = unit {
            inputs[of][unit] = 1.0;
        }
        let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        let mut output = vec![0.0; outputs];
        let run = worker.run(1, &inputs, &mut [&mut output[..]], &mut |_, _| {});
        run.unwrap();
        output
    };
    let zero = column(None);
    let mut matrix = vec![vec![0.0; lens[of]]; outputs];
    for i in 0..lens[of] {
        for (j, y) in column(Some(i)).into_iter().enumerate() {
            matrix[j][i] = f64::from(y) - f64::from(zero[j]);
        }
    }
    matrix
}

/// The relevances of `graph`'s inputs in [`LANES`] lanes, when `r` arrives at the value `y`: by the
/// engine's kernels, and by plain operators.
pub(crate) fn relevances(
    graph: &Graph,
    y: ValueId,
    rules: &Rules,
    inputs: &[&[f32]],
    r: &[f32],
) -> Result<[Vec<Vec<f32>>; 2], ProgramError> {
    let mut program = graph.clone();
    let arrived = program.add_input("r", graph.value(y).ty.clone());
    let seed = RelevanceSeed {
        logits: y,
        one_hot: arrived,
        relevance: arrived,
    };
    let lrp = Lrp {
        rules: rules.clone(),
    };
    let found = lrp.relevances(&mut program, &seed, graph.inputs())?;
    program.set_outputs(found);
    let inputs: Vec<&[f32]> = inputs.iter().copied().chain([r]).collect();
    let lowered = program.lowered(|_| true).unwrap();
    Ok([&program, &lowered].map(|program| run(program, LANES, &inputs)))
}

/// Compares all lanes; `what` says what is compared.
pub(crate) fn close(what: &str, found: &[f32], expected: &[Vec<f64>]) {
    let len = expected[0].len();
    assert_eq!(found.len(), len * expected.len(), "{what}");
    let largest = expected
        .iter()
        .flatten()
        .fold(0.0f64, |m, x| m.max(x.abs()));
    for (lane, (found, expected)) in found.chunks(len).zip(expected).enumerate() {
        for (i, (&a, &b)) in found.iter().zip(expected).enumerate() {
            // Never true of a NaN.
            let near = (f64::from(a) - b).abs() <= TOLERANCE * largest;
            assert!(
                near,
                "{what}, lane {lane}, element {i}: {a}, but {b} by definition\n{found:?}\n{expected:?}"
            );
        }
    }
}

/// One lane of an array, as `f64`.
pub(crate) fn lane(numbers: &[f32], lane: usize) -> Vec<f64> {
    let len = numbers.len() / LANES;
    let lane = &numbers[lane * len..(lane + 1) * len];
    lane.iter().map(|&x| f64::from(x)).collect()
}
