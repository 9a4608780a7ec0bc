//! Operators that move elements without computing: transposes, slices, pads, copies.
//!
//! With static shapes all of them are the same: a table that says for each element of the output
//! which element of the input it is. The table is found by applying the operator, as
//! `npcov-graph` defines it, to the numbers 0, 1, 2, ...; a slice of every second column of a
//! `2x3` tensor, for example, makes `[[0, 2], [3, 5]]` of `[[0, 1, 2], [3, 4, 5]]`.

use npcov_graph::op::{Pad, PadMode};
use npcov_graph::{DType, Data, Op, OpError, Tensor, TensorType};

use crate::native::kernel::{Alone, Context, Inputs, Kernel, NodeKernel};
use crate::native::pack::Pack;
use crate::native::turn::{Matrix, turn};

/// The largest tensor that a table is made for: 8 GiB of packs.
const MAX_ELEMENTS: usize = 1 << 27;

pub(super) fn prepare_select(cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    let table = trace(&cx.node.op, cx, &[])?;
    Ok(NodeKernel::new(Select::new(&table, 0.0), [0]))
}

pub(super) fn prepare_pad(op: &Pad, cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    let fill = match op.mode {
        PadMode::Constant(fill) => fill,
        PadMode::Reflect | PadMode::Edge | PadMode::Wrap => return prepare_select(cx),
    };
    // Padding is what is at no position.
    let pad = Pad {
        mode: PadMode::Constant(-1.0),
        ..op.clone()
    };
    let table = trace(&Op::Pad(pad), cx, &[])?;
    Ok(NodeKernel::new(Select::new(&table, fill), [0]))
}

/// The elements of input 0 that an operator moves to its output, negative where to none; `rest`
/// are its other inputs.
pub(super) fn trace(op: &Op, cx: &Context<'_>, rest: &[&Tensor]) -> Result<Vec<i64>, OpError> {
    let shape = cx.shape(0);
    check_size(shape)?;
    check_size(cx.output())?;
    let elements = shape.iter().product::<usize>();
    let output = TensorType::new(DType::I64, cx.output());
    let positions = Data::I64((0..elements as i64).collect());
    let moved = Tensor::new(shape, positions)
        .and_then(|x| op.eval(&[&[&x], rest].concat(), &output))
        .ok_or_else(|| OpError::invalid("an element comes from outside of the input"))?;
    match moved.data() {
        Data::I64(table) => Ok(table.clone()),
        Data::F32(_) | Data::Bool(_) => Err(OpError::invalid("it changes the element type")),
    }
}

/// An error when a tensor is too large for a table.
pub(super) fn check_size(shape: &[usize]) -> Result<(), OpError> {
    match shape.iter().product() {
        0..=MAX_ELEMENTS => Ok(()),
        elements => Err(OpError::unsupported(format!(
            "a tensor of {elements} elements"
        ))),
    }
}

/// Elements of the input in another order, with gaps.
pub(super) struct Select {
    moves: Moves,
    fill: f32,
}

/// How a table is followed.
#[derive(Debug, PartialEq)]
enum Moves {
    /// Element by element: positions in the input; what is behind its end is a gap.
    Each(Vec<u32>),
    /// In runs that follow one another in the output.
    Runs(Vec<Run>),
    /// Matrices of so many rows and columns, one after the other, of which each is turned.
    Turns { rows: usize, cols: usize },
}

/// Neighbouring elements of the output.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    origin: Origin,
    len: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    /// Neighbours in the input, from this one on.
    From(u32),
    /// This element of the input, again and again.
    Same(u32),
    /// None.
    Gap,
}

/// Marks a gap in [`Moves::Each`]. A tensor has at most [`MAX_ELEMENTS`].
const GAP: u32 = u32::MAX;

impl Select {
    /// Follows a table of positions below [`MAX_ELEMENTS`]; negative ones are filled.
    pub(super) fn new(table: &[i64], fill: f32) -> Select {
        let position = |&p: &i64| u32::try_from(p).unwrap_or(GAP);
        let table: Vec<u32> = table.iter().map(position).collect();
        if let Some(turns) = turns(&table) {
            return Select { moves: turns, fill };
        }
        let runs = runs(&table);
        // A run costs about as much as a few single elements.
        let moves = match runs.len() <= table.len() / 4 {
            true => Moves::Runs(runs),
            false => Moves::Each(table),
        };
        Select { moves, fill }
    }
}

/// Matrices that are turned, if that is all that a table does.
fn turns(table: &[u32]) -> Option<Moves> {
    let (cols, rows) = (
        *table.get(1)? as usize,
        table.iter().position(|&at| at == 1)?,
    );
    let len = rows * cols;
    if rows < 2 || cols < 2 || !table.len().is_multiple_of(len) {
        return None;
    }
    let moved = |i: usize| i - i % len + i % rows * cols + i % len / rows;
    let all = table
        .iter()
        .enumerate()
        .all(|(i, &at)| at as usize == moved(i));
    all.then_some(Moves::Turns { rows, cols })
}

/// The longest runs, from the beginning on.
fn runs(table: &[u32]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for &at in table {
        if let Some(run) = runs.last_mut() {
            let origin = match run.origin {
                Origin::Gap if at == GAP => Some(Origin::Gap),
                Origin::From(first) if at == first + run.len => Some(run.origin),
                Origin::From(first) | Origin::Same(first)
                    if at == first && (run.len == 1 || run.origin == Origin::Same(first)) =>
                {
                    Some(Origin::Same(first))
                }
                Origin::Gap | Origin::From(_) | Origin::Same(_) => None,
            };
            if let Some(origin) = origin {
                *run = Run {
                    origin,
                    len: run.len + 1,
                };
                continue;
            }
        }
        let origin = if at == GAP {
            Origin::Gap
        } else {
            Origin::From(at)
        };
        runs.push(Run { origin, len: 1 });
    }
    runs
}

impl Kernel for Select {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        self.select(inputs.get(0), Pack::splat(self.fill), output);
    }

    fn alone(&self) -> Option<&dyn Alone> {
        Some(self)
    }
}

impl Alone for Select {
    fn run(&self, inputs: &Inputs<'_, f32>, _: &mut [Pack], output: &mut [f32]) {
        let x = inputs.get(0);
        let Moves::Turns { rows, cols } = self.moves else {
            return self.select(x, self.fill, output);
        };
        let matrix = Matrix {
            rows,
            cols,
            pitch: cols,
        };
        let matrices = x.chunks_exact(rows * cols);
        for (x, y) in matrices.zip(output.chunks_exact_mut(rows * cols)) {
            turn(x, matrix, y, rows);
        }
    }
}

impl Select {
    fn select<T: Copy>(&self, x: &[T], fill: T, output: &mut [T]) {
        match &self.moves {
            Moves::Each(table) => {
                for (y, &at) in output.iter_mut().zip(table) {
                    *y = x.get(at as usize).copied().unwrap_or(fill);
                }
            }
            &Moves::Turns { rows, cols } => {
                let matrices = x.chunks_exact(rows * cols);
                for (x, y) in matrices.zip(output.chunks_exact_mut(rows * cols)) {
                    for (column, y) in y.chunks_exact_mut(rows).enumerate() {
                        for (y, x) in y.iter_mut().zip(x.iter().skip(column).step_by(cols)) {
                            *y = *x;
                        }
                    }
                }
            }
            Moves::Runs(runs) => {
                let mut rest = output;
                for run in runs {
                    let (y, behind) = rest.split_at_mut(run.len as usize);
                    match run.origin {
                        Origin::From(at) => y.copy_from_slice(&x[at as usize..][..y.len()]),
                        Origin::Same(at) => y.fill(x[at as usize]),
                        Origin::Gap => y.fill(fill),
                    }
                    rest = behind;
                }
            }
        }
    }
}

pub(super) fn prepare_concat(axis: usize, cx: &Context<'_>) -> Result<NodeKernel, OpError> {
    let block = |i| cx.shape(i).iter().skip(axis).product();
    let kernel = Concat((0..cx.arity()).map(block).collect());
    Ok(NodeKernel::new(kernel, (0..cx.arity()).collect::<Vec<_>>()))
}

/// One block of each input in turn; the lengths of the blocks.
struct Concat(Vec<usize>);

impl Kernel for Concat {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        self.concat(inputs, output);
    }

    fn alone(&self) -> Option<&dyn Alone> {
        Some(self)
    }
}

impl Alone for Concat {
    fn run(&self, inputs: &Inputs<'_, f32>, _: &mut [Pack], output: &mut [f32]) {
        self.concat(inputs, output);
    }
}

impl Concat {
    fn concat<T: Copy>(&self, inputs: &Inputs<'_, T>, output: &mut [T]) {
        let period = self.0.iter().sum::<usize>().max(1);
        let mut offset = 0;
        for (i, &block) in self.0.iter().enumerate() {
            let blocks = inputs.get(i).chunks_exact(block.max(1));
            for (y, x) in output.chunks_exact_mut(period).zip(blocks) {
                y[offset..offset + block].copy_from_slice(x);
            }
            offset += block;
        }
    }
}

#[cfg(test)]
mod tests {
    use npcov_graph::op::Slice;

    use super::*;
    use crate::native::op::testing::{Input, check, number_of, positions, run_node};

    /// Checks a node of one input against the origin of each output coordinate.
    fn check_moves(
        op: Op,
        input: &[usize],
        output: &[usize],
        fill: f64,
        origin: impl Fn(&[usize]) -> Option<Vec<usize>>,
    ) {
        check(op, &[Input::varying(input)], 0.0, |inputs| {
            let value =
                |p: Vec<usize>| origin(&p).map_or(fill, |q| inputs[0][number_of(input, &q)]);
            positions(output).into_iter().map(value).collect()
        });
    }

    #[test]
    fn transposes() {
        for perm in [
            [0, 2, 3, 1],
            [0, 3, 1, 2],
            [3, 2, 1, 0],
            [0, 1, 3, 2],
            [0, 1, 2, 3],
        ] {
            let input = [1, 3, 4, 5];
            let output = perm.map(|a| input[a]);
            check_moves(Op::Transpose(perm.to_vec()), &input, &output, 0.0, |p| {
                let mut q = vec![0; 4];
                (0..4).for_each(|i| q[perm[i]] = p[i]);
                Some(q)
            });
        }
    }

    #[test]
    fn slices_forwards_and_backwards() {
        let input = [1, 6, 9];
        for (starts, steps, shape) in [
            ([0, 1, 0], [1, 2, 1], [1, 3, 9]),
            ([0, 5, 8], [1, -2, -3], [1, 3, 3]),
            ([0, 0, 2], [1, 1, 1], [1, 6, 5]),
            ([0, 0, 0], [1, 1, 1], [1, 6, 0]),
        ] {
            let op = Slice {
                starts: starts.to_vec(),
                steps: steps.to_vec(),
                shape: shape.to_vec(),
            };
            check_moves(Op::Slice(op), &input, &shape, 0.0, |p| {
                let at = |a: usize| starts[a].strict_add_signed(p[a] as isize * steps[a]);
                Some((0..3).map(at).collect())
            });
        }
    }

    #[test]
    fn pads_of_every_mode() {
        let input = [1, 4, 5];
        let (begins, ends) = ([0, 2, 3], [0, 1, 2]);
        let output = [1, 7, 10];
        for mode in [
            PadMode::Constant(2.5),
            PadMode::Reflect,
            PadMode::Edge,
            PadMode::Wrap,
        ] {
            let op = Pad {
                begins: begins.to_vec(),
                ends: ends.to_vec(),
                mode,
            };
            check_moves(Op::Pad(op), &input, &output, 2.5, |p| {
                let along = |a: usize| {
                    let (n, at) = (input[a] as isize, p[a] as isize - begins[a] as isize);
                    let inside = match mode {
                        PadMode::Constant(_) if (0..n).contains(&at) => at,
                        PadMode::Constant(_) => return None,
                        PadMode::Reflect if n == 1 => 0,
                        PadMode::Reflect => {
                            let period = at.rem_euclid(2 * (n - 1));
                            period.min(2 * (n - 1) - period)
                        }
                        PadMode::Edge => at.clamp(0, n - 1),
                        PadMode::Wrap => at.rem_euclid(n),
                    };
                    Some(inside as usize)
                };
                (0..3).map(along).collect()
            });
        }
    }

    #[test]
    fn a_pad_of_nan_or_of_minus_one_is_no_gap_in_the_numbers() {
        let op = |fill| {
            Op::Pad(Pad {
                begins: vec![0, 1],
                ends: vec![0, 0],
                mode: PadMode::Constant(fill),
            })
        };
        let x = Input::varying(&[1, 2]).set(&[-1.0, 3.0]);
        let y = &run_node(op(f32::NAN), std::slice::from_ref(&x))[5];
        assert!(y[0].is_nan());
        assert_eq!(y[1..], [-1.0, 3.0]);
        assert_eq!(run_node(op(-1.0), &[x])[5], [-1.0, -1.0, 3.0]);
    }

    #[test]
    fn expansions_and_tiles() {
        for (input, output) in [
            (vec![1, 3, 1], vec![1, 3, 8]),
            (vec![1, 1, 4], vec![1, 5, 4]),
            (vec![1, 4], vec![2, 3, 4]),
        ] {
            let added = output.len() - input.len();
            check_moves(Op::Expand(output.clone()), &input, &output, 0.0, |p| {
                let at = |a: usize| p[a + added].min(input[a] - 1);
                Some((0..input.len()).map(at).collect())
            });
        }
        let (input, output) = ([1, 3, 2], [2, 3, 10]);
        check_moves(Op::Tile(vec![2, 1, 5]), &input, &output, 0.0, |p| {
            Some((0..3).map(|a| p[a] % input[a]).collect())
        });
    }

    #[test]
    fn runs_cover_a_table() {
        let run = |origin, len| Run { origin, len };
        assert_eq!(
            runs(&[GAP, GAP, 4, 5, 6, 6, 6, 2, 2, 2, 0, 1]),
            [
                run(Origin::Gap, 2),
                run(Origin::From(4), 3),
                run(Origin::Same(6), 2),
                run(Origin::Same(2), 3),
                run(Origin::From(0), 2),
            ]
        );
        assert_eq!(runs(&[]), []);
        // Rows of a slice are copied as a whole, columns of a transpose are not.
        let rows: Vec<i64> = (0..8).chain(16..24).collect();
        assert!(matches!(Select::new(&rows, 0.0).moves, Moves::Runs(runs) if runs.len() == 2));
        assert!(matches!(
            Select::new(&[0, 4, 1, 5], 0.0).moves,
            Moves::Each(_)
        ));
    }

    #[test]
    fn concatenations() {
        for axis in 0..3 {
            let shapes: Vec<Vec<usize>> = [2, 1, 3]
                .iter()
                .map(|&extent| {
                    let mut shape = vec![2, 3, 4];
                    shape[axis] = extent;
                    shape
                })
                .collect();
            let inputs = [
                Input::varying(&shapes[0]),
                Input::constant(&shapes[1]),
                Input::varying(&shapes[2]).map(|x| x + 10.0),
            ];
            let mut output = vec![2, 3, 4];
            output[axis] = 6;
            check(Op::Concat(axis), &inputs, 0.0, |inputs| {
                let value = |mut p: Vec<usize>| {
                    let mut which = 0;
                    while p[axis] >= shapes[which][axis] {
                        p[axis] -= shapes[which][axis];
                        which += 1;
                    }
                    inputs[which][number_of(&shapes[which], &p)]
                };
                positions(&output).into_iter().map(value).collect()
            });
        }
    }
}
