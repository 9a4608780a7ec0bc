//! Normalisation layers.

use npcov_cpu::vectorised;
use npcov_graph::OpError;
use npcov_graph::op::{BatchNormalization, InstanceNormalization, LayerNormalization};

use super::fibre::sum;
use crate::native::kernel::{Alone, Context, Inputs, Kernel, NodeKernel};
use crate::native::lines::Lines;
use crate::native::pack::Pack;
use crate::native::rows::each_sixteen;

/// Batch normalisation by parameters that depend on the model's input; by constants it is [`Lines`].
pub(super) fn prepare_batch(op: &BatchNormalization, cx: &Context<'_>) -> NodeKernel {
    let kernel = BatchOfLanes {
        channels: Channels::new(cx.shape(0)),
        epsilon: op.epsilon,
    };
    NodeKernel::new(kernel, [0, 1, 2, 3, 4])
}

/// Batch normalisation by constants, and a limit.
pub(super) fn prepare_lines(cx: &Context<'_>, lines: Lines) -> NodeKernel {
    let channels = Channels::new(cx.shape(0));
    NodeKernel::new(BatchNorm { channels, lines }, [0])
}

/// A tensor `[n, channels, ...]` seen as runs of elements of the same channel.
struct Channels {
    count: usize,
    /// Elements of one channel of one sample.
    len: usize,
}

impl Channels {
    /// Without a second axis there is one channel, as ONNX has it.
    fn new(shape: &[usize]) -> Channels {
        Channels {
            count: shape.get(1).copied().unwrap_or(1),
            len: shape.iter().skip(2).product(),
        }
    }

    /// The channel, input and output of every run.
    fn runs<'a, T>(
        &'a self,
        x: &'a [T],
        y: &'a mut [T],
    ) -> impl Iterator<Item = (usize, &'a [T], &'a mut [T])> {
        let len = self.len.max(1);
        let runs = x.chunks_exact(len).zip(y.chunks_exact_mut(len));
        let channels = (0..self.count).cycle();
        channels.zip(runs).map(|(c, (x, y))| (c, x, y))
    }
}

/// Batch normalisation by constants.
struct BatchNorm {
    channels: Channels,
    lines: Lines,
}

impl Kernel for BatchNorm {
    fn alone(&self) -> Option<&dyn Alone> {
        Some(self)
    }

    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        vectorised(
            #[inline(always)]
            || {
                for (c, x, y) in self.channels.runs(inputs.get(0), output) {
                    let line = self.lines.at(c);
                    for (y, x) in y.iter_mut().zip(x) {
                        *y = x.map(&line);
                    }
                }
            },
        );
    }
}

impl Alone for BatchNorm {
    fn run(&self, inputs: &Inputs<'_, f32>, _: &mut [Pack], output: &mut [f32]) {
        vectorised(
            #[inline(always)]
            || {
                for (c, x, y) in self.channels.runs(inputs.get(0), output) {
                    let line = self.lines.at(c);
                    for (y, x) in y.iter_mut().zip(x) {
                        *y = line(*x);
                    }
                }
            },
        );
    }
}

/// Batch normalisation by parameters that depend on the model's input.
struct BatchOfLanes {
    channels: Channels,
    epsilon: f32,
}

impl Kernel for BatchOfLanes {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        let [scale, bias, mean, variance] = std::array::from_fn(|i| inputs.get(i + 1));
        vectorised(
            #[inline(always)]
            || {
                for (c, x, y) in self.channels.runs(inputs.get(0), output) {
                    let scale =
                        scale[c].zip(inverse_deviation(variance[c], self.epsilon), |a, b| a * b);
                    normalise(x, y, mean[c], |_, x| line(x, scale, bias[c]));
                }
            },
        );
    }
}

/// `1 / sqrt(variance + epsilon)`.
#[inline(always)]
fn inverse_deviation(variance: Pack, epsilon: f32) -> Pack {
    variance.map(|v| 1.0 / (v + epsilon).sqrt())
}

/// `x * slope + intercept`.
#[inline(always)]
fn line(x: Pack, slope: Pack, intercept: Pack) -> Pack {
    x.zip(slope, |x, s| x * s).zip(intercept, |x, i| x + i)
}

/// Sets `y[i]` to `f(i, x[i] - mean)`.
#[inline(always)]
fn normalise(x: &[Pack], y: &mut [Pack], mean: Pack, f: impl Fn(usize, Pack) -> Pack) {
    for (i, (y, x)) in y.iter_mut().zip(x).enumerate() {
        *y = f(i, x.zip(mean, |x, m| x - m));
    }
}

/// The mean of some packs and `1 / sqrt(variance + epsilon)`, lane by lane. The variance is that
/// of the differences to the mean, a second pass, because the difference of two large sums would
/// lose its digits.
#[inline(always)]
fn statistics(x: &[Pack], epsilon: f32) -> (Pack, Pack) {
    let len = x.len() as f32;
    let mean = sum(x, |x| x).map(|s| s / len);
    let squares = sum(x, |x| x.zip(mean, |x, m| (x - m) * (x - m)));
    (mean, inverse_deviation(squares.map(|s| s / len), epsilon))
}

/// Numbers that are constants, or differ between lanes.
enum Parameter {
    Constant(Vec<f32>),
    /// The position among the inputs that are read.
    Read(usize),
}

/// A [`Parameter`] while the kernel runs.
enum Numbers<'a> {
    Same(&'a [f32]),
    Lanes(&'a [Pack]),
}

impl Parameter {
    /// Input `i` of the node, which is added to the `reads` unless it is constant.
    fn new(cx: &Context<'_>, i: usize, reads: &mut Vec<usize>) -> Parameter {
        match cx.constant(i) {
            Some(tensor) => Parameter::Constant(tensor.to_f32()),
            None => {
                reads.push(i);
                Parameter::Read(reads.len() - 1)
            }
        }
    }

    fn numbers<'a>(&'a self, inputs: &Inputs<'a>) -> Numbers<'a> {
        match self {
            Parameter::Constant(numbers) => Numbers::Same(numbers),
            Parameter::Read(i) => Numbers::Lanes(inputs.get(*i)),
        }
    }
}

impl Numbers<'_> {
    #[inline(always)]
    fn at(&self, i: usize) -> Pack {
        match self {
            Numbers::Same(numbers) => Pack::splat(numbers[i]),
            Numbers::Lanes(packs) => packs[i],
        }
    }
}

pub(super) fn prepare_instance(
    op: &InstanceNormalization,
    cx: &Context<'_>,
) -> Result<NodeKernel, OpError> {
    let mut reads = vec![0];
    let kernel = Instance {
        channels: Channels::new(cx.shape(0)),
        epsilon: op.epsilon,
        scale: Parameter::new(cx, 1, &mut reads),
        bias: Parameter::new(cx, 2, &mut reads),
    };
    Ok(NodeKernel::new(kernel, reads))
}

struct Instance {
    channels: Channels,
    epsilon: f32,
    scale: Parameter,
    bias: Parameter,
}

impl Kernel for Instance {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        let (scale, bias) = (self.scale.numbers(inputs), self.bias.numbers(inputs));
        vectorised(
            #[inline(always)]
            || {
                for (c, x, y) in self.channels.runs(inputs.get(0), output) {
                    let (mean, inverse) = statistics(x, self.epsilon);
                    let (scale, bias) = (scale.at(c).zip(inverse, |a, b| a * b), bias.at(c));
                    normalise(x, y, mean, |_, x| line(x, scale, bias));
                }
            },
        );
    }
}

pub(super) fn prepare_layer(
    op: &LayerNormalization,
    cx: &Context<'_>,
) -> Result<NodeKernel, OpError> {
    let len = cx.shape(0).iter().skip(op.axis).product();
    let mut reads = vec![0];
    let scale = Parameter::new(cx, 1, &mut reads);
    let bias = match cx.arity() {
        0..=2 => Parameter::Constant(vec![0.0; len]),
        _ => Parameter::new(cx, 2, &mut reads),
    };
    let kernel = Layer {
        len,
        epsilon: op.epsilon,
        scale,
        bias,
    };
    Ok(NodeKernel::new(kernel, reads))
}

struct Layer {
    /// Number of elements that are normalised together.
    len: usize,
    epsilon: f32,
    scale: Parameter,
    bias: Parameter,
}

impl Kernel for Layer {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        let (scale, bias) = (self.scale.numbers(inputs), self.bias.numbers(inputs));
        self.rows(inputs.get(0), &scale, &bias, output);
    }

    fn alone(&self) -> Option<&dyn Alone> {
        let constant = |p: &Parameter| matches!(p, Parameter::Constant(_));
        (constant(&self.scale) && constant(&self.bias)).then_some(self)
    }
}

/// Sixteen rows at a time, by constant parameters.
impl Alone for Layer {
    fn scratch(&self) -> usize {
        2 * self.len
    }

    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]) {
        if let (Parameter::Constant(scale), Parameter::Constant(bias)) = (&self.scale, &self.bias) {
            let (scale, bias) = (Numbers::Same(scale), Numbers::Same(bias));
            let (x, len) = (inputs.get(0), self.len);
            each_sixteen(x, len, output, len, scratch, |x, y, _| {
                self.rows(x, &scale, &bias, y);
            });
        }
    }
}

impl Layer {
    fn rows(&self, x: &[Pack], scale: &Numbers<'_>, bias: &Numbers<'_>, output: &mut [Pack]) {
        let len = self.len.max(1);
        vectorised(
            #[inline(always)]
            || {
                let rows = x.chunks_exact(len).zip(output.chunks_exact_mut(len));
                for (x, y) in rows {
                    let (mean, inverse) = statistics(x, self.epsilon);
                    normalise(x, y, mean, |i, x| {
                        line(x.zip(inverse, |x, s| x * s), scale.at(i), bias.at(i))
                    });
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use npcov_graph::Op;

    use super::*;
    use crate::native::op::testing::{Input, check};

    const EPSILON: f32 = 1e-3;

    /// `(x - mean) / sqrt(variance + epsilon)` with the statistics of `x` itself.
    fn standardised(x: &[f64]) -> Vec<f64> {
        let len = x.len() as f64;
        let mean = x.iter().sum::<f64>() / len;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / len;
        x.iter()
            .map(|x| (x - mean) / (variance + f64::from(EPSILON)).sqrt())
            .collect()
    }

    #[test]
    fn batch_normalisation_by_constants_and_by_varying_parameters() {
        for shape in [
            vec![1, 3, 4, 5],
            vec![2, 4],
            vec![1, 1, 7],
            vec![2, 3, 2, 2, 2],
        ] {
            let channels = shape[1];
            let len: usize = shape[2..].iter().product();
            for make in [Input::constant, Input::varying] {
                let inputs = [
                    Input::varying(&shape),
                    make(&[channels]),
                    make(&[channels]).map(|x| x - 1.0),
                    Input::constant(&[channels]).map(|x| x * 0.5),
                    make(&[channels]).map(|x| x * x),
                ];
                let op = Op::BatchNormalization(BatchNormalization { epsilon: EPSILON });
                check(op, &inputs, 1e-6, |inputs| {
                    let [x, scale, bias, mean, variance] = inputs else {
                        unreachable!("there are five inputs")
                    };
                    let value = |(i, x): (usize, &f64)| {
                        let c = i / len % channels;
                        let deviation = (variance[c] + f64::from(EPSILON)).sqrt();
                        scale[c] * (x - mean[c]) / deviation + bias[c]
                    };
                    x.iter().enumerate().map(value).collect()
                });
            }
        }
    }

    #[test]
    fn instance_normalisation() {
        for shape in [vec![1, 3, 4, 5], vec![2, 3, 7], vec![1, 2, 9, 8, 3]] {
            let channels = shape[1];
            let len: usize = shape[2..].iter().product();
            for make in [Input::constant, Input::varying] {
                // A large mean, in which a careless variance would drown.
                let x = Input::varying(&shape).map(|x| x + 100.0);
                let inputs = [x, make(&[channels]), Input::constant(&[channels])];
                let op = Op::InstanceNormalization(InstanceNormalization { epsilon: EPSILON });
                check(op, &inputs, 1e-5, |inputs| {
                    let (scale, bias) = (&inputs[1], &inputs[2]);
                    let runs = inputs[0].chunks(len).enumerate();
                    runs.flat_map(|(i, x)| {
                        let c = i % channels;
                        let value = move |x| scale[c] * x + bias[c];
                        standardised(x).into_iter().map(value)
                    })
                    .collect()
                });
            }
        }
    }

    #[test]
    fn layer_normalisation_over_trailing_axes() {
        for (shape, axis) in [(vec![1, 5, 12], 2), (vec![2, 3, 4], 1), (vec![1, 6, 1], 2)] {
            let parameters = &shape[axis..];
            let len: usize = parameters.iter().product();
            for make in [Input::constant, Input::varying] {
                for biased in [false, true] {
                    let mut inputs = vec![Input::varying(&shape), make(parameters)];
                    if biased {
                        inputs.push(make(parameters).map(|x| 3.0 - x));
                    }
                    let op = LayerNormalization {
                        axis,
                        epsilon: EPSILON,
                    };
                    check(Op::LayerNormalization(op), &inputs, 1e-5, |inputs| {
                        let bias = |i: usize| inputs.get(2).map_or(0.0, |b| b[i]);
                        let rows = inputs[0].chunks(len).map(standardised);
                        let value = |(i, x)| inputs[1][i] * x + bias(i);
                        rows.flat_map(|row| row.into_iter().enumerate().map(value))
                            .collect()
                    });
                }
            }
        }
    }
}
