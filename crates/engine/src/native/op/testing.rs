//! One node under test: run through the whole executor, and compared with its definition.

use npcov_cpu::Isa;
use npcov_graph::{DType, Data, Graph, Op, Tensor, TensorType};

use crate::engine::{KEEP_ALL, Prepared};
use crate::native::executor::Executor;
use crate::native::options::Options;
use crate::native::pack::LANES;

/// An argument of the node.
#[derive(Clone, Debug)]
pub(super) enum Input {
    /// One that every input of the micro-batch has its own values of.
    Varying(TensorType, Vec<Vec<f32>>),
    /// A constant.
    Constant(Tensor),
}

impl Input {
    /// Numbers from -2 to 2, different for every input.
    pub(super) fn varying(shape: &[usize]) -> Input {
        let ty = TensorType::new(DType::F32, shape);
        let numel = ty.numel();
        let sample = |lane| (0..numel).map(|i| number(lane * numel + i)).collect();
        Input::Varying(ty, (0..LANES).map(sample).collect())
    }

    /// Whole numbers from `low` to `high`, different for every input.
    pub(super) fn indices(shape: &[usize], low: i64, high: i64) -> Input {
        let count = (high - low + 1) as f32;
        let index = |x: f32| low as f32 + ((x + 2.0) / 4.0 * count).floor();
        match Input::varying(shape).map(index) {
            Input::Varying(ty, samples) => {
                Input::Varying(TensorType::new(DType::I64, ty.shape), samples)
            }
            constant => constant,
        }
    }

    /// Constant numbers from -2 to 2.
    pub(super) fn constant(shape: &[usize]) -> Input {
        let numel = shape.iter().product();
        let data = (0..numel).map(|i| number(i + 7)).collect();
        Input::Constant(Tensor::new(shape, Data::F32(data)).unwrap())
    }

    /// Constant integers.
    pub(super) fn ints(shape: &[usize], values: &[i64]) -> Input {
        Input::Constant(Tensor::new(shape, Data::I64(values.to_vec())).unwrap())
    }

    /// A function of each number.
    pub(super) fn map(self, f: impl Fn(f32) -> f32) -> Input {
        match self {
            Input::Varying(ty, samples) => {
                let each = |sample: Vec<f32>| sample.into_iter().map(&f).collect();
                Input::Varying(ty, samples.into_iter().map(each).collect())
            }
            Input::Constant(tensor) => {
                let data = tensor.to_f32().into_iter().map(f).collect();
                Input::Constant(Tensor::new(tensor.shape(), Data::F32(data)).unwrap())
            }
        }
    }

    /// The same numbers for every input.
    pub(super) fn set(self, values: &[f32]) -> Input {
        match self {
            Input::Varying(ty, samples) => Input::Varying(ty, vec![values.to_vec(); samples.len()]),
            Input::Constant(tensor) => {
                let data = Data::F32(values.to_vec());
                Input::Constant(Tensor::new(tensor.shape(), data).unwrap())
            }
        }
    }

    /// The numbers that input `i` of the micro-batch has.
    pub(super) fn sample(&self, i: usize) -> Vec<f32> {
        match self {
            Input::Varying(_, samples) => samples[i].clone(),
            Input::Constant(tensor) => tensor.to_f32(),
        }
    }
}

/// A number from -2 to 2 that looks random: the bits of a product with an odd constant, mixed.
fn number(i: usize) -> f32 {
    let mut bits = (i as u32).wrapping_add(1).wrapping_mul(0x9e37_79b1);
    bits = (bits ^ (bits >> 15)).wrapping_mul(0x85eb_ca77);
    bits ^= bits >> 13;
    (bits >> 8) as f32 / (1 << 22) as f32 - 2.0
}

/// A graph of one node.
pub(super) fn graph_of(op: Op, inputs: &[Input]) -> Graph {
    let mut graph = Graph::new();
    let ids: Vec<_> = inputs
        .iter()
        .map(|input| match input {
            Input::Varying(ty, _) => graph.add_input("x", ty.clone()),
            Input::Constant(tensor) => graph.add_constant("c", tensor.clone()),
        })
        .collect();
    let output = graph.push("node", op, &ids).unwrap();
    graph.set_outputs(vec![output]);
    graph
}

fn executor(graph: &Graph, options: Options) -> Executor {
    Executor::new(graph, options, KEEP_ALL).unwrap()
}

/// All outputs of a graph for a full micro-batch.
pub(crate) fn run_graph(graph: &Graph, options: Options, inputs: &[&[f32]]) -> Vec<Vec<f32>> {
    let executor = executor(graph, options);
    let lens = executor.output_lens().to_vec();
    let mut outputs: Vec<Vec<f32>> = lens.iter().map(|len| vec![0.0; LANES * len]).collect();
    let mut slices: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    let mut worker = executor.worker().unwrap();
    let run = worker.run(LANES, inputs, &mut slices, &mut |_, _| {});
    run.unwrap();
    // An input by itself gives the same bits.
    let mut alone: Vec<Vec<f32>> = lens.iter().map(|&len| vec![0.0; len]).collect();
    let mut slices: Vec<&mut [f32]> = alone.iter_mut().map(Vec::as_mut_slice).collect();
    let last = |x: &&'_ [f32]| x.len() / LANES * (LANES - 1);
    let one: Vec<&[f32]> = inputs.iter().map(|x| &x[last(x)..]).collect();
    worker.run(1, &one, &mut slices, &mut |_, _| {}).unwrap();
    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    for (alone, all) in alone.iter().zip(&outputs) {
        assert_eq!(bits(alone), bits(&all[all.len() - alone.len()..]));
    }
    // So do some abreast.
    let executor = one_by_one(graph, &executor, options);
    let count = executor.together();
    let first: Vec<&[f32]> = (inputs.iter())
        .map(|x| &x[..x.len() / LANES * count])
        .collect();
    let mut some: Vec<Vec<f32>> = lens.iter().map(|len| vec![0.0; count * len]).collect();
    let mut slices: Vec<&mut [f32]> = some.iter_mut().map(Vec::as_mut_slice).collect();
    let mut worker = executor.worker().unwrap();
    let run = worker.run(count, &first, &mut slices, &mut |_, _| {});
    run.unwrap();
    for (some, all) in some.iter().zip(&outputs) {
        assert_eq!(bits(some), bits(&all[..some.len()]), "{count} abreast");
    }
    outputs
}

/// The same kernels, for inputs one by one, and abreast where they have a form for that.
fn one_by_one(graph: &Graph, executor: &Executor, options: Options) -> Executor {
    let options = Options {
        memory: executor.worker_bytes() - 1,
        ..options
    };
    self::executor(graph, options)
}

/// The output for each of the first `count` inputs.
fn run(executor: &Executor, inputs: &[Input], count: usize) -> Vec<Vec<f32>> {
    let batches: Vec<Vec<f32>> = inputs
        .iter()
        .filter_map(|input| match input {
            Input::Varying(_, samples) => Some(samples[..count].concat()),
            Input::Constant(_) => None,
        })
        .collect();
    let batches: Vec<&[f32]> = batches.iter().map(Vec::as_slice).collect();
    let len = executor.output_lens()[0];
    let mut output = vec![0.0; count * len];
    executor
        .worker()
        .unwrap()
        .run(count, &batches, &mut [&mut output], &mut |_, _| {})
        .unwrap();
    (0..count)
        .map(|i| output[i * len..(i + 1) * len].to_vec())
        .collect()
}

/// Runs a node on a full micro-batch: one output per input.
pub(super) fn run_node(op: Op, inputs: &[Input]) -> Vec<Vec<f32>> {
    let executor = executor(&graph_of(op, inputs), Options::default());
    run(&executor, inputs, LANES)
}

/// Runs the plain operators that define a composite one, as [`run_node`] does.
pub(super) fn run_lowered(op: Op, inputs: &[Input]) -> Vec<Vec<f32>> {
    let graph = graph_of(op, inputs).lowered(|_| true).unwrap();
    run(&executor(&graph, Options::default()), inputs, LANES)
}

/// Asserts that a node agrees with its definition, which sees one input of the micro-batch at a
/// time, to `tolerance` times the largest number; with every instruction set, and with the same
/// bits when the micro-batch is not full.
#[track_caller]
pub(super) fn check(
    op: Op,
    inputs: &[Input],
    tolerance: f64,
    definition: impl Fn(&[Vec<f64>]) -> Vec<f64>,
) {
    let expected: Vec<_> = (0..LANES)
        .map(|i| {
            let to_f64 = |input: &Input| input.sample(i).into_iter().map(f64::from).collect();
            definition(&inputs.iter().map(to_f64).collect::<Vec<_>>())
        })
        .collect();
    for isa in Isa::available() {
        let options = Options {
            isa,
            ..Options::default()
        };
        let executor = executor(&graph_of(op.clone(), inputs), options);
        let outputs = run(&executor, inputs, LANES);
        for (i, (output, expected)) in outputs.iter().zip(&expected).enumerate() {
            compare(
                output,
                expected,
                tolerance,
                &format!("{op:?}, {isa:?}, input {i}"),
            );
        }
        let some = run(&executor, inputs, 3);
        let bits = |x: &[Vec<f32>]| x.concat().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&some), bits(&outputs[..3]), "{op:?}, {isa:?}");
        let executor = one_by_one(&graph_of(op.clone(), inputs), &executor, options);
        let some = run(&executor, inputs, executor.together().min(3));
        assert_eq!(bits(&some), bits(&outputs[..some.len()]), "{op:?}, {isa:?}");
    }
}

#[track_caller]
fn compare(got: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let finite = expected.iter().filter(|x| x.is_finite());
    let largest = finite.fold(0.0_f64, |max, x| max.max(x.abs()));
    for (at, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let got = f64::from(got);
        let same = got == expected || (got.is_nan() && expected.is_nan());
        let close = same || (got - expected).abs() <= tolerance * largest;
        assert!(
            close,
            "{what}, element {at}: got {got}, expected {expected}"
        );
    }
}

/// The coordinates of every element of a shape, in row-major order.
pub(super) fn positions(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &extent in shape {
        let longer = |p: Vec<usize>| (0..extent).map(move |i| [&p[..], &[i]].concat());
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

/// The row-major number of the element at some coordinates.
pub(super) fn number_of(shape: &[usize], position: &[usize]) -> usize {
    shape
        .iter()
        .zip(position)
        .fold(0, |n, (extent, i)| n * extent + i)
}

/// For all choices of the other coordinates, in order, the numbers of the elements along an axis.
pub(super) fn fibres_of(shape: &[usize], axis: usize) -> Vec<Vec<usize>> {
    let along = |mut p: Vec<usize>| {
        (0..shape[axis])
            .map(|i| {
                p[axis] = i;
                number_of(shape, &p)
            })
            .collect()
    };
    let first = |p: &Vec<usize>| p[axis] == 0;
    positions(shape)
        .into_iter()
        .filter(first)
        .map(along)
        .collect()
}
