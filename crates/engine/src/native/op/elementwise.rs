//! Element-wise operators, fused: a chain of them runs block by block, and what lies between two
//! of them never leaves the nearest cache.

use npcov_cpu::widest;
use npcov_graph::op::{Binary, Unary};
use npcov_graph::{DType, Graph, OpError, ValueId, strides};

use super::relevance::SumShare;
use super::{Role, role};
use crate::native::kernel::{Alone, Inputs, Kernel};
use crate::native::math;
use crate::native::pack::{LANES, Pack, numbers_mut, whole_packs, whole_packs_mut};

/// The longest chain.
pub(crate) const MAX_STEPS: usize = 12;

/// Packs of intermediate results: 12 KiB, so that they stay in the nearest cache. The fewer steps a chain
/// has, the more packs it computes together.
const ROOM: usize = 16 * MAX_STEPS;

/// Packs that are gathered together at most.
const BLOCK: usize = 64;

/// An operator that computes each element by itself, so that its nodes can stand in a chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Elementwise {
    Unary(Unary),
    Binary(Binary),
    Where,
    Cast(DType),
    Share(SumShare),
}

/// A chain of element-wise operators that ends in one value.
pub(crate) struct Chain {
    operands: Vec<Operand>,
    steps: Vec<Step>,
}

/// Something that a chain reads.
enum Operand {
    /// A value: input number, and which element goes where.
    Packs(usize, Map),
    /// A constant.
    Numbers(Vec<f32>, Map),
}

/// The element that an operand contributes to each element of the output.
enum Map {
    /// The one at the same position.
    Same,
    /// The only one.
    One,
    /// Each of `extent` elements `inner` times, over and over: one number a channel, or one a
    /// column.
    Repeat { inner: usize, extent: usize },
    /// Listed.
    Table(Vec<u32>),
}

#[derive(Clone, Copy)]
enum Argument {
    /// An operand.
    Operand(usize),
    /// The result of a step.
    Step(usize),
}

struct Step {
    function: Function,
    arguments: [Argument; 3],
}

#[derive(Clone, Copy)]
enum Function {
    Unary(Unary),
    Binary(Binary),
    /// Quotient of integers.
    IntegerDiv,
    Where,
    Share(SumShare),
    Truncate,
    IsNonZero,
    Copy,
}

impl Chain {
    /// The chain of `nodes` (positions in the graph, ascending), whose last one is the result, and
    /// the values it reads.
    pub(crate) fn new(graph: &Graph, nodes: &[usize]) -> Result<(Chain, Vec<ValueId>), OpError> {
        let mut chain = Chain {
            operands: Vec::new(),
            steps: Vec::new(),
        };
        let mut reads = Vec::new();
        // Values that have become arguments.
        let mut known: Vec<(ValueId, Argument)> = Vec::new();
        let output = match nodes.last() {
            Some(&last) => graph.shape(graph.nodes()[last].output),
            None => return Err(OpError::invalid("an empty chain")),
        };
        for &position in nodes {
            let node = &graph.nodes()[position];
            let mut arguments = [Argument::Operand(0); 3];
            for (argument, &id) in arguments.iter_mut().zip(&node.inputs) {
                let found = known.iter().find(|(v, _)| *v == id).map(|(_, a)| *a);
                *argument = match found {
                    Some(argument) => argument,
                    None => {
                        let operand = Argument::Operand(chain.operands.len());
                        chain
                            .operands
                            .push(source_of(graph, id, output, &mut reads)?);
                        known.push((id, operand));
                        operand
                    }
                };
            }
            let dtype = |id: ValueId| graph.value(id).ty.dtype;
            let Role::Elementwise(op) = role(&node.op) else {
                let name = node.op.name();
                return Err(OpError::invalid(format!("{name} is not element-wise")));
            };
            let function = match op {
                Elementwise::Binary(Binary::Div) if dtype(node.output) == DType::I64 => {
                    Function::IntegerDiv
                }
                Elementwise::Binary(f) => Function::Binary(f),
                Elementwise::Unary(f) => Function::Unary(f),
                Elementwise::Where => Function::Where,
                Elementwise::Share(share) => Function::Share(share),
                Elementwise::Cast(to) => match (dtype(node.inputs[0]), to) {
                    (DType::F32, DType::I64) => Function::Truncate,
                    (DType::F32 | DType::I64, DType::Bool) => Function::IsNonZero,
                    (DType::F32 | DType::I64 | DType::Bool, DType::F32)
                    | (DType::I64 | DType::Bool, DType::I64)
                    | (DType::Bool, DType::Bool) => Function::Copy,
                },
            };
            known.push((node.output, Argument::Step(chain.steps.len())));
            chain.steps.push(Step {
                function,
                arguments,
            });
        }
        if chain.steps.len() > MAX_STEPS {
            return Err(OpError::invalid("the chain is too long"));
        }
        Ok((chain, reads))
    }
}

fn source_of(
    graph: &Graph,
    id: ValueId,
    output: &[usize],
    reads: &mut Vec<ValueId>,
) -> Result<Operand, OpError> {
    let shape = graph.shape(id);
    let map = if shape == output {
        Map::Same
    } else if graph.value(id).ty.numel() == 1 {
        Map::One
    } else if let Some(repeat) = repeated(shape, output) {
        repeat
    } else {
        Map::Table(broadcast_table(shape, output)?)
    };
    Ok(match graph.constant(id) {
        Some(tensor) => Operand::Numbers(tensor.to_f32(), map),
        None => {
            reads.push(id);
            Operand::Packs(reads.len() - 1, map)
        }
    })
}

/// [`Map::Repeat`], when the operand's axes that are not broadcast stand next to each other.
fn repeated(shape: &[usize], output: &[usize]) -> Option<Map> {
    let lead = output.len() - shape.len();
    let own = |axis: usize| axis >= lead && shape[axis - lead] != 1;
    let first = (0..output.len()).find(|&axis| own(axis))?;
    let end = (first..output.len())
        .find(|&axis| !own(axis))
        .unwrap_or(output.len());
    // Axes of extent 1 in the output too belong to either side.
    let rest_is_broadcast = (end..output.len()).all(|axis| !own(axis));
    rest_is_broadcast.then(|| Map::Repeat {
        inner: output[end..].iter().product(),
        extent: output[first..end].iter().product(),
    })
}

/// For each element of the output, the position of the one it takes from a smaller operand: axes
/// align at the end, and an axis of extent 1 stays where it is.
pub(super) fn broadcast_table(shape: &[usize], output: &[usize]) -> Result<Vec<u32>, OpError> {
    let lead = output.len() - shape.len();
    let steps: Vec<usize> = strides(shape)
        .into_iter()
        .zip(shape)
        .map(|(stride, &extent)| if extent == 1 { 0 } else { stride })
        .collect();
    let output_strides = strides(output);
    (0..output.iter().product())
        .map(|i: usize| {
            let at = (lead..output.len())
                .map(|axis| i / output_strides[axis] % output[axis] * steps[axis - lead])
                .sum::<usize>();
            u32::try_from(at).map_err(|_| OpError::unsupported("more than 2^32 elements"))
        })
        .collect()
}

impl Kernel for Chain {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        widest(
            #[inline(always)]
            || self.run_blocks(inputs, output),
        );
    }

    fn alone(&self) -> Option<&dyn Alone> {
        Some(self)
    }
}

impl Alone for Chain {
    fn run(&self, inputs: &Inputs<'_, f32>, _: &mut [Pack], output: &mut [f32]) {
        widest(
            #[inline(always)]
            || self.run_blocks(inputs, output),
        );
    }
}

/// What a tensor is made of: a pack for sixteen inputs, or a number of one, sixteen of which are a pack.
trait Element: Copy {
    /// Elements of a pack.
    const EACH: usize;

    /// A constant.
    fn splat(x: f32) -> Self;

    /// The elements that packs are made of.
    fn of(packs: &mut [Pack]) -> &mut [Self];

    /// Elements as packs, if they are whole ones.
    fn packs(elements: &[Self]) -> Option<&[Pack]>;

    /// As [`Element::packs`], to be written.
    fn packs_mut(elements: &mut [Self]) -> Option<&mut [Pack]>;
}

impl Element for Pack {
    const EACH: usize = 1;

    #[inline(always)]
    fn splat(x: f32) -> Pack {
        Pack::splat(x)
    }

    #[inline(always)]
    fn of(packs: &mut [Pack]) -> &mut [Pack] {
        packs
    }

    #[inline(always)]
    fn packs(elements: &[Pack]) -> Option<&[Pack]> {
        Some(elements)
    }

    #[inline(always)]
    fn packs_mut(elements: &mut [Pack]) -> Option<&mut [Pack]> {
        Some(elements)
    }
}

impl Element for f32 {
    const EACH: usize = LANES;

    #[inline(always)]
    fn splat(x: f32) -> f32 {
        x
    }

    #[inline(always)]
    fn of(packs: &mut [Pack]) -> &mut [f32] {
        numbers_mut(packs)
    }

    #[inline(always)]
    fn packs(elements: &[f32]) -> Option<&[Pack]> {
        whole_packs(elements)
    }

    #[inline(always)]
    fn packs_mut(elements: &mut [f32]) -> Option<&mut [Pack]> {
        whole_packs_mut(elements)
    }
}

impl Chain {
    #[inline(always)]
    fn run_blocks<T: Element>(&self, inputs: &Inputs<'_, T>, output: &mut [T]) {
        let mut results = [Pack::ZERO; ROOM];
        let mut gathered = [[Pack::ZERO; BLOCK]; 3];
        let last = self.steps.len() - 1;
        let each = BLOCK.min(ROOM / self.steps.len());
        for (number, block) in output.chunks_mut(each * T::EACH).enumerate() {
            let (start, count) = (number * each * T::EACH, block.len());
            let len = count.div_ceil(T::EACH);
            for (i, step) in self.steps.iter().enumerate() {
                let (before, rest) = results.split_at_mut(i * each);
                let before = (&*before, each);
                let [first, second, third] = &mut gathered;
                let at = (start, count, len);
                // For arguments that it does not have, a step is given the first.
                let arity = step.function.arity();
                let [x, y, z] = step.arguments;
                let x = self.operand(x, inputs, before, at, first);
                let y = match arity > 1 {
                    true => self.operand(y, inputs, before, at, second),
                    false => x,
                };
                let z = match arity > 2 {
                    true => self.operand(z, inputs, before, at, third),
                    false => x,
                };
                let direct = match i == last {
                    true => T::packs_mut(block),
                    false => None,
                };
                let target = direct.unwrap_or(&mut rest[..len]);
                match step.function {
                    Function::Unary(f) => unary(f, x, target),
                    Function::Binary(f) => binary(f, x, y, target),
                    Function::IntegerDiv => zip(x, y, target, |a, b| (a / b).trunc()),
                    Function::Where => {
                        for (((target, c), a), b) in target.iter_mut().zip(x).zip(y).zip(z) {
                            for l in 0..LANES {
                                target.0[l] = if c.0[l] != 0.0 { a.0[l] } else { b.0[l] };
                            }
                        }
                    }
                    Function::Share(share) => share.run([x, y], z, target),
                    Function::Truncate => map(x, target, f32::trunc),
                    Function::IsNonZero => map(x, target, |x| truth(x != 0.0)),
                    Function::Copy => target.copy_from_slice(x),
                }
            }
            if T::packs_mut(block).is_none() {
                block.copy_from_slice(&T::of(&mut results[last * each..][..len])[..count]);
            }
        }
    }

    /// The `count` elements from `start` on of an argument, in `len` packs.
    #[inline(always)]
    fn operand<'a, T: Element>(
        &self,
        argument: Argument,
        inputs: &Inputs<'a, T>,
        (before, each): (&'a [Pack], usize),
        (start, count, len): (usize, usize, usize),
        buffer: &'a mut [Pack; BLOCK],
    ) -> &'a [Pack] {
        let operand = match argument {
            Argument::Step(i) => return &before[i * each..][..len],
            Argument::Operand(i) => &self.operands[i],
        };
        if let Operand::Packs(i, Map::Same) = operand
            && let Some(packs) = T::packs(&inputs.get(*i)[start..start + count])
        {
            return packs;
        }
        let buffer = &mut buffer[..len];
        let elements = &mut T::of(buffer)[..count];
        match operand {
            Operand::Packs(i, map) => map.fill(start, inputs.get(*i), elements, |x| x),
            Operand::Numbers(x, map) => map.fill(start, x, elements, T::splat),
        }
        buffer
    }
}

impl Function {
    /// Number of arguments.
    fn arity(self) -> usize {
        match self {
            Function::Unary(_) | Function::Truncate | Function::IsNonZero | Function::Copy => 1,
            Function::Binary(_) | Function::IntegerDiv => 2,
            Function::Where | Function::Share(_) => 3,
        }
    }
}

impl Map {
    /// Fills a block that starts at element `start` of the output.
    #[inline(always)]
    fn fill<S: Copy, T>(&self, start: usize, x: &[S], block: &mut [T], as_element: impl Fn(S) -> T)
    where
        T: Copy,
    {
        match self {
            Map::Same => copy(&x[start..start + block.len()], block, as_element),
            Map::One => block.fill(as_element(x[0])),
            Map::Repeat { inner: 1, extent } => cycle(start, &x[..*extent], block, as_element),
            Map::Repeat { inner, extent } => {
                repeat(start, *inner, &x[..*extent], block, as_element);
            }
            Map::Table(table) => {
                for (y, &at) in block.iter_mut().zip(&table[start..]) {
                    *y = as_element(x[at as usize]);
                }
            }
        }
    }
}

#[inline(always)]
fn copy<S: Copy, T>(x: &[S], y: &mut [T], as_element: impl Fn(S) -> T) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = as_element(*x);
    }
}

/// Fills a block that starts at element `start` with `x`, over and over.
#[inline(always)]
fn cycle<S: Copy, T>(start: usize, x: &[S], mut block: &mut [T], as_element: impl Fn(S) -> T) {
    let mut at = start % x.len();
    while !block.is_empty() {
        let (run, rest) = block.split_at_mut((x.len() - at).min(block.len()));
        copy(&x[at..], run, &as_element);
        block = rest;
        at = 0;
    }
}

/// Fills a block that starts at element `start` with elements `i / inner % extent` of `x`, without
/// dividing more than once.
#[inline(always)]
fn repeat<S: Copy, T: Copy>(
    start: usize,
    inner: usize,
    x: &[S],
    mut block: &mut [T],
    as_element: impl Fn(S) -> T,
) {
    let (mut at, mut left) = (start / inner % x.len(), inner - start % inner);
    while !block.is_empty() {
        let (run, rest) = block.split_at_mut(left.min(block.len()));
        run.fill(as_element(x[at]));
        block = rest;
        at = if at + 1 == x.len() { 0 } else { at + 1 };
        left = inner;
    }
}

fn truth(x: bool) -> f32 {
    f32::from(u8::from(x))
}

#[inline(always)]
fn map(x: &[Pack], y: &mut [Pack], f: impl Fn(f32) -> f32) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = x.map(&f);
    }
}

#[inline(always)]
fn zip(a: &[Pack], b: &[Pack], y: &mut [Pack], f: impl Fn(f32, f32) -> f32) {
    for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
        *y = a.zip(*b, &f);
    }
}

/// A function of one argument, on a block. What has no vector form here is computed lane by lane
/// from its definition.
#[inline(always)]
pub(super) fn unary(f: Unary, x: &[Pack], y: &mut [Pack]) {
    // Comparisons with NaN are false, and the branch taken then returns `x`.
    match f {
        Unary::Relu => map(x, y, |x| if x < 0.0 { 0.0 } else { x }),
        Unary::LeakyRelu { alpha } => map(x, y, |x| if x < 0.0 { alpha * x } else { x }),
        Unary::Clip { min, max } => map(x, y, |x| {
            let x = if x < min { min } else { x };
            if x > max { max } else { x }
        }),
        Unary::Elu { alpha } => map(x, y, |x| if x < 0.0 { alpha * math::exp_m1(x) } else { x }),
        Unary::Selu { alpha, gamma } => map(x, y, |x| {
            gamma * if x < 0.0 { alpha * math::exp_m1(x) } else { x }
        }),
        Unary::Sigmoid => map(x, y, math::sigmoid),
        Unary::HardSigmoid { alpha, beta } => map(x, y, |x| {
            let x = alpha * x + beta;
            let x = if x < 0.0 { 0.0 } else { x };
            if x > 1.0 { 1.0 } else { x }
        }),
        Unary::Tanh => map(x, y, math::tanh),
        Unary::Gelu { tanh: false } => map(x, y, |x| {
            0.5 * x * (1.0 + math::erf(x * std::f32::consts::FRAC_1_SQRT_2))
        }),
        Unary::Gelu { tanh: true } => map(x, y, |x| {
            // sqrt(2 / pi) (x + 0.044715 x^3)
            0.5 * x * (1.0 + math::tanh(0.797_884_6 * (x + 0.044_715 * x * x * x)))
        }),
        Unary::Swish { alpha } => map(x, y, |x| x * math::sigmoid(alpha * x)),
        Unary::HardSwish => map(x, y, |x| {
            let gate = x * (1.0 / 6.0) + 0.5;
            let gate = if gate < 0.0 { 0.0 } else { gate };
            x * if gate > 1.0 { 1.0 } else { gate }
        }),
        Unary::Mish => map(x, y, |x| x * math::tanh(math::softplus(x))),
        Unary::Softplus => map(x, y, math::softplus),
        Unary::Abs => map(x, y, f32::abs),
        Unary::Neg => map(x, y, |x| -x),
        Unary::Exp => map(x, y, math::exp),
        Unary::Log => map(x, y, math::ln),
        Unary::Sqrt => map(x, y, f32::sqrt),
        Unary::Reciprocal => map(x, y, |x| 1.0 / x),
        Unary::Erf => map(x, y, math::erf),
        Unary::ThresholdedRelu { .. }
        | Unary::Celu { .. }
        | Unary::Softsign
        | Unary::Shrink { .. }
        | Unary::Floor
        | Unary::Ceil
        | Unary::Round
        | Unary::Sign
        | Unary::Sin
        | Unary::Cos
        | Unary::Tan
        | Unary::Asin
        | Unary::Acos
        | Unary::Atan
        | Unary::Sinh
        | Unary::Cosh
        | Unary::Asinh
        | Unary::Acosh
        | Unary::Atanh
        | Unary::Not
        | Unary::IsNaN
        | Unary::IsInf { .. } => map(x, y, |x| f.apply(x)),
    }
}

/// A function of two arguments, on a block, as [`unary`].
#[inline(always)]
fn binary(f: Binary, a: &[Pack], b: &[Pack], y: &mut [Pack]) {
    match f {
        Binary::Add => zip(a, b, y, |a, b| a + b),
        Binary::Sub => zip(a, b, y, |a, b| a - b),
        Binary::Mul => zip(a, b, y, |a, b| a * b),
        Binary::Div => zip(a, b, y, |a, b| a / b),
        Binary::PRelu => zip(a, b, y, |a, b| if a < 0.0 { b * a } else { a }),
        Binary::Equal => zip(a, b, y, |a, b| truth(a == b)),
        Binary::Less => zip(a, b, y, |a, b| truth(a < b)),
        Binary::Greater => zip(a, b, y, |a, b| truth(a > b)),
        Binary::Pow
        | Binary::Min
        | Binary::Max
        | Binary::Mod
        | Binary::Fmod
        | Binary::LessOrEqual
        | Binary::GreaterOrEqual
        | Binary::And
        | Binary::Or
        | Binary::Xor => zip(a, b, y, |a, b| f.apply(a, b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use npcov_graph::{Data, Op, Tensor, TensorType};

    use crate::native::op::testing::{Input, check, number_of, positions, run_graph};
    use crate::native::options::Options;
    use crate::native::pack::LANES;

    /// Numbers of both signs, different in every lane.
    fn samples(per_lane: usize) -> Vec<f32> {
        (0..per_lane * LANES)
            .map(|i| ((i * 37 % 101) as f32 - 50.0) / 9.0)
            .collect()
    }

    #[test]
    fn vector_forms_agree_with_the_definitions() {
        let functions = [
            Unary::Relu,
            Unary::LeakyRelu { alpha: 0.1 },
            Unary::Clip {
                min: -1.0,
                max: 2.0,
            },
            Unary::Elu { alpha: 1.5 },
            Unary::Selu {
                alpha: 1.67,
                gamma: 1.05,
            },
            Unary::Sigmoid,
            Unary::HardSigmoid {
                alpha: 0.2,
                beta: 0.5,
            },
            Unary::Tanh,
            Unary::Gelu { tanh: false },
            Unary::Gelu { tanh: true },
            Unary::Swish { alpha: 1.0 },
            Unary::HardSwish,
            Unary::Mish,
            Unary::Softplus,
            Unary::Abs,
            Unary::Neg,
            Unary::Exp,
            Unary::Reciprocal,
            Unary::Erf,
            Unary::Softsign,
            Unary::Sign,
            Unary::Round,
        ];
        let x = samples(21);
        for f in functions {
            let mut graph = Graph::new();
            let input = graph.add_input("x", TensorType::new(DType::F32, [1, 21]));
            let y = graph.push("y", Op::Unary(f), &[input]).unwrap();
            graph.set_outputs(vec![y]);
            let got = run_graph(&graph, Options::default(), &[&x]);
            for (&x, &got) in x.iter().zip(&got[0]) {
                let expected = f.apply(x);
                assert!(
                    got == expected || (got - expected).abs() <= 1e-6 * expected.abs().max(1.0),
                    "{f:?}({x}) = {got}, expected {expected}"
                );
            }
        }
    }

    #[test]
    fn nan_passes_through_activations() {
        for f in [
            Unary::Relu,
            Unary::Clip { min: 0.0, max: 6.0 },
            Unary::HardSwish,
        ] {
            let mut y = [Pack::ZERO];
            unary(f, &[Pack::splat(f32::NAN)], &mut y);
            assert!(y[0].0[0].is_nan(), "{f:?}");
        }
    }

    /// Every way to broadcast an operand to `[2, 3, 4, 5]`, as a value and as a constant.
    #[test]
    fn operands_repeat_as_numpy_broadcasts() {
        let output = [2, 3, 4, 5];
        for shape in [
            &[2, 3, 4, 5][..],
            &[1, 3, 1, 1],
            &[3, 1, 1],
            &[5],
            &[4, 5],
            &[2, 1, 1, 1],
            &[2, 3, 1, 1],
            &[1, 3, 4, 1],
            &[3, 4, 1],
            // With a gap: listed in a table.
            &[2, 1, 4, 1],
            &[3, 1, 5],
            &[1],
        ] {
            for constant in [false, true] {
                let b = match constant {
                    true => Input::constant(shape),
                    false => Input::varying(shape),
                };
                let inputs = [Input::varying(&output), b];
                check(Op::Binary(Binary::Sub), &inputs, 1e-7, |v| {
                    let from = |position: &Vec<usize>| {
                        let lead = output.len() - shape.len();
                        let own: Vec<usize> = position[lead..]
                            .iter()
                            .zip(shape)
                            .map(|(&i, &extent)| if extent == 1 { 0 } else { i })
                            .collect();
                        v[0][number_of(&output, position)] - v[1][number_of(shape, &own)]
                    };
                    positions(&output).iter().map(from).collect()
                });
            }
        }
    }

    /// `where(a < c, a * b + c, a)` with every kind of operand: a value, a broadcast value, a
    /// broadcast constant, a scalar.
    #[test]
    fn chains_broadcast_like_numpy() {
        let mut graph = Graph::new();
        let a = graph.add_input("a", TensorType::new(DType::F32, [1, 3, 7]));
        let b = graph.add_input("b", TensorType::new(DType::F32, [1, 3, 1]));
        let c = Tensor::new([7], Data::F32((0..7).map(|i| i as f32 - 3.0).collect())).unwrap();
        let c = graph.add_constant("c", c);
        let half = graph.add_constant("h", Tensor::scalar(0.5));
        let push = |graph: &mut Graph, op, inputs: &[ValueId]| graph.push("n", op, inputs).unwrap();
        let m = push(&mut graph, Op::Binary(Binary::Mul), &[a, b]);
        let s = push(&mut graph, Op::Binary(Binary::Add), &[m, c]);
        let s = push(&mut graph, Op::Binary(Binary::Mul), &[s, half]);
        let less = push(&mut graph, Op::Binary(Binary::Less), &[a, c]);
        let y = push(&mut graph, Op::Where, &[less, s, a]);
        graph.set_outputs(vec![y]);
        let (a, b) = (samples(21), samples(3));
        let got = run_graph(&graph, Options::default(), &[&a, &b]);
        for lane in 0..LANES {
            for i in 0..21 {
                let (x, y) = (a[lane * 21 + i], b[lane * 3 + i / 7]);
                let c = (i % 7) as f32 - 3.0;
                let expected = if x < c { (x * y + c) * 0.5 } else { x };
                assert_eq!(got[0][lane * 21 + i], expected);
            }
        }
    }
}
