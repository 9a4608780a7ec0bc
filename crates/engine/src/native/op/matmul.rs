//! Matrix products: tiles when the right-hand side is constant, else sums lane by lane.

use std::sync::Arc;

use npcov_cpu::{Arithmetic, Isa, vectorised};
use npcov_graph::OpError;
use npcov_graph::op::Gemm;

use super::elementwise::broadcast_table;
use crate::native::kernel::{Alone, Context, Inputs, Kernel, NodeKernel, Tail};
use crate::native::pack::{LANES, Pack, numbers, numbers_mut};
use crate::native::panel::{self, Ends, Few, MAX_FEW, MAX_ROWS, MAX_WIDTH, Panel};
use crate::native::tile::{self, Block, Finish, Init, Taps, Target, Weights};
use crate::native::turn::{Matrix, turn};

/// `x [rows, k]` times constant weights `[k, n]`.
struct Dense {
    isa: Isa,
    rows: usize,
    k: usize,
    n: usize,
    weights: Arc<Weights>,
    bias: Vec<f32>,
    tail: Tail,
}

/// Packs of panels that are made at a time: 512 KiB, a part of the second-level cache. A block of weights
/// is then fetched once for all of them.
const MOVED: usize = 8 * 1024;

/// Panels that are made at a time at most.
const PANELS: usize = 8;

impl Dense {
    /// Packs of a panel, and panels at a time.
    fn panels(&self) -> [usize; 2] {
        let each = self.k * panel::width(self.isa);
        let all = self.rows.div_ceil(panel::width(self.isa) * LANES);
        let fitting = (MOVED / each.max(1)).clamp(1, PANELS);
        // Of about the same number each time.
        [each, all.div_ceil(all.div_ceil(fitting).max(1)).max(1)]
    }
}

/// Positions of panels are rows.
impl Alone for Dense {
    fn scratch(&self) -> usize {
        self.panels().iter().product()
    }

    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]) {
        let [each, panels] = self.panels();
        let pitch = panel::width(self.isa) * LANES;
        let (x, few) = (inputs.get(0), panel::few(self.isa));
        let other = self.tail.add.then(|| inputs.get(1));
        let mut rest = panel::pieces(self.isa, self.rows);
        while rest.clone().next().is_some() {
            let pieces = rest.clone().take(panels);
            let made = numbers_mut(scratch).chunks_mut((each * LANES).max(1));
            for (piece, panel) in pieces.clone().zip(made) {
                if piece.len() > few {
                    self.turn(&x[piece.start * self.k..], piece.len(), panel, pitch);
                }
            }
            for block in self.weights.blocks() {
                let made = numbers(scratch).chunks((each * LANES).max(1));
                for (piece, panel) in pieces.clone().zip(made) {
                    let at = piece.start * self.n + block.first;
                    let (other, output) = (other.map(|other| &other[at..]), &mut output[at..]);
                    if piece.len() <= few {
                        let few = Few {
                            x: &x[piece.start * self.k..],
                            pitch: 1,
                            step: self.k,
                            count: piece.len(),
                        };
                        self.store_few(&block, few, other, output);
                        continue;
                    }
                    let panel = Panel {
                        rows: panel,
                        pitch,
                        width: piece.len().div_ceil(LANES),
                    };
                    self.store(&block, panel, other, piece.len(), output);
                }
            }
            rest.nth(panels - 1);
        }
    }
}

impl Dense {
    /// Rows of numbers as a panel; lanes without a row are zeros.
    fn turn(&self, x: &[f32], rows: usize, panel: &mut [f32], pitch: usize) {
        if !rows.is_multiple_of(LANES) {
            panel.fill(0.0);
        }
        let cols = self.k;
        turn(
            x,
            Matrix {
                rows,
                cols,
                pitch: cols,
            },
            panel,
            pitch,
        );
    }

    /// Computes a block's channels of a few rows.
    fn store_few(
        &self,
        block: &Block<'_>,
        few: Few<'_>,
        other: Option<&[f32]>,
        output: &mut [f32],
    ) {
        let mut sums = [[0.0; LANES]; MAX_FEW];
        if let Some(other) = other {
            for (sums, other) in sums.iter_mut().zip(other.chunks(self.n)).take(few.count) {
                sums[..block.height].copy_from_slice(&other[..block.height]);
            }
        }
        let bias = &self.bias[block.first..block.first + block.height];
        block.project_few(few, bias, self.tail.finish, &mut sums);
        for (y, sums) in output.chunks_mut(self.n).zip(&sums[..few.count]) {
            y[..block.height].copy_from_slice(&sums[..block.height]);
        }
    }

    /// Computes a block's channels of some rows.
    fn store(
        &self,
        block: &Block<'_>,
        panel: Panel<'_>,
        other: Option<&[f32]>,
        rows: usize,
        output: &mut [f32],
    ) {
        let pitch = MAX_WIDTH * LANES;
        let mut sums = [0.0; MAX_ROWS * MAX_WIDTH * LANES];
        let mut others = [0.0; MAX_ROWS * MAX_WIDTH * LANES];
        if let Some(other) = other {
            let matrix = Matrix {
                rows,
                cols: block.height,
                pitch: self.n,
            };
            turn(other, matrix, &mut others, pitch);
        }
        let ends = Ends {
            bias: &self.bias[block.first..block.first + block.height],
            other: other.map(|_| &others[..]),
            finish: self.tail.finish,
        };
        block.project(panel, &ends, &mut sums, pitch);
        let matrix = Matrix {
            rows: block.height,
            cols: rows,
            pitch,
        };
        turn(&sums, matrix, output, self.n);
    }
}

impl Kernel for Dense {
    /// Without a kernel for a few rows, these read all weights once either way.
    fn alone(&self) -> Option<&dyn Alone> {
        (self.rows >= LANES / 2 || panel::few(self.isa) > 0).then_some(self)
    }

    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        let x = inputs.get(0);
        let other = self.tail.add.then(|| inputs.get(1));
        for block in self.weights.blocks() {
            let bias = &self.bias[block.first..block.first + block.height];
            let init = match other {
                Some(other) => Init::BiasAnd(bias, other),
                None => Init::Bias(bias),
            };
            for row in 0..self.rows {
                let taps = Taps {
                    x: row * self.k,
                    len: self.k,
                    cols: 1,
                    rows: 1,
                    ..Taps::default()
                };
                let target = Target {
                    at: row * self.n + block.first,
                    stride: 1,
                };
                let walk = taps.on(x, self.k);
                block.run(&walk, init, self.tail.finish, output, target);
            }
        }
    }
}

/// Whether a product can take a [`Tail`]: those with constant weights can.
pub(crate) fn is_dense(cx: &Context<'_>) -> bool {
    cx.constant(0).is_none() && cx.constant(1).is_some() && cx.shape(1).len() == 2
}

/// A matrix product of NumPy's kind.
pub(crate) fn prepare(cx: &Context<'_>, tail: Tail) -> Result<NodeKernel, OpError> {
    let (a, b) = (cx.shape(0), cx.shape(1));
    if is_dense(cx) && !a.is_empty() {
        let (k, n) = (b[0], b[1]);
        let kernel = Dense {
            isa: cx.isa(),
            rows: a.iter().product::<usize>() / k.max(1),
            k,
            n,
            weights: weights(cx, 1)?,
            bias: vec![0.0; n],
            tail,
        };
        return Ok(NodeKernel::new(kernel, dense_reads(cx, tail)));
    }
    Ok(NodeKernel::new(
        Product::batched(a, b, cx.output(), cx.isa())?,
        [0, 1],
    ))
}

/// A product of two matrices with a third one added.
pub(crate) fn prepare_gemm(op: &Gemm, cx: &Context<'_>, tail: Tail) -> Result<NodeKernel, OpError> {
    let (a, b) = (cx.shape(0), cx.shape(1));
    let [rows, n] = cx.output()[..] else {
        return Err(OpError::invalid("its output is no matrix"));
    };
    let k = if op.trans_a { a[0] } else { a[1] };
    // A single transposed row is stored like the row itself.
    let rows_are_contiguous = !op.trans_a || rows == 1;
    let bias = per_column(op, cx, n);
    if let (true, true, Some(bias)) = (is_dense(cx), rows_are_contiguous, bias) {
        let kernel = Dense {
            isa: cx.isa(),
            rows,
            k,
            n,
            weights: gemm_weights(op, cx, 1)?,
            bias,
            tail,
        };
        return Ok(NodeKernel::new(kernel, dense_reads(cx, tail)));
    }
    if tail != Tail::NONE {
        return Err(OpError::invalid("a general product cannot take a tail"));
    }
    let product = Product {
        rows,
        k,
        n,
        a: if op.trans_a { [1, a[1]] } else { [a[1], 1] },
        b: if op.trans_b { [1, b[1]] } else { [b[1], 1] },
        batches: vec![(0, 0)],
        isa: cx.isa(),
    };
    let addend = match cx.arity() > 2 {
        true => Some((op.beta, broadcast_table(cx.shape(2), cx.output())?)),
        false => None,
    };
    let reads = (0..cx.arity()).collect::<Vec<_>>();
    let kernel = GeneralGemm {
        alpha: op.alpha,
        product,
        addend,
    };
    Ok(NodeKernel::new(kernel, reads))
}

/// The packed weights of a matrix product: input `position`, of shape `[k, n]`.
pub(crate) fn weights(cx: &Context<'_>, position: usize) -> Result<Arc<Weights>, OpError> {
    packed(cx, position, false, 1.0)
}

/// The packed weights of a Gemm.
pub(crate) fn gemm_weights(
    op: &Gemm,
    cx: &Context<'_>,
    position: usize,
) -> Result<Arc<Weights>, OpError> {
    packed(cx, position, op.trans_b, op.alpha)
}

/// A constant matrix in the order in which tiles read it, for all kernels of a plan.
fn packed(
    cx: &Context<'_>,
    position: usize,
    transposed: bool,
    factor: f32,
) -> Result<Arc<Weights>, OpError> {
    let key = (cx.node.inputs[position], transposed, factor.to_bits());
    // Held while weights are packed: nobody else makes the same ones meanwhile.
    let mut shared = match cx.shared.lock() {
        Ok(shared) => shared,
        Err(poisoned) => poisoned.into_inner(),
    };
    if let Some(weights) = shared.get(&key) {
        return Ok(weights.clone());
    }
    let shape = cx.shape(position);
    let weights = cx.constant(position).and_then(|t| t.as_f32());
    let (Some(weights), &[rows, cols]) = (weights, shape) else {
        return Err(OpError::unsupported("the weight is no constant matrix"));
    };
    let packed = Arc::new(match transposed {
        true => Weights::new(cx.isa(), rows, cols, |m, i| factor * weights[m * cols + i]),
        false => Weights::new(cx.isa(), cols, rows, |m, i| factor * weights[i * cols + m]),
    });
    shared.insert(key, packed.clone());
    Ok(packed)
}

/// Whether [`prepare_gemm`] takes the path with tiles.
pub(crate) fn gemm_is_dense(op: &Gemm, cx: &Context<'_>) -> bool {
    let one_row = cx.output().first() == Some(&1);
    is_dense(cx) && (!op.trans_a || one_row) && per_column(op, cx, cx.output()[1]).is_some()
}

fn dense_reads(cx: &Context<'_>, tail: Tail) -> Vec<usize> {
    match tail.add {
        true => vec![0, cx.arity()],
        false => vec![0],
    }
}

/// `beta * c` when it is a constant that is the same for every row.
fn per_column(op: &Gemm, cx: &Context<'_>, n: usize) -> Option<Vec<f32>> {
    if cx.arity() < 3 {
        return Some(vec![0.0; n]);
    }
    let shape = cx.shape(2);
    let c = cx.constant(2)?.to_f32();
    let rows_agree = shape.len() < 2 || shape[0] == 1;
    match c.len() {
        1 => Some(vec![op.beta * c[0]; n]),
        len if len == n && rows_agree => Some(c.iter().map(|x| op.beta * x).collect()),
        _ => None,
    }
}

/// A product whose both sides depend on the input.
struct Product {
    rows: usize,
    k: usize,
    n: usize,
    /// Distance between rows and between columns of `a`.
    a: [usize; 2],
    /// Distance between rows and between columns of `b`.
    b: [usize; 2],
    /// Where the matrices of each product start.
    batches: Vec<(usize, usize)>,
    isa: Isa,
}

impl Product {
    /// NumPy's rules: vectors are matrices of one row or column, leading axes are broadcast.
    fn batched(a: &[usize], b: &[usize], output: &[usize], isa: Isa) -> Result<Product, OpError> {
        let (rows, k) = match a {
            [] => return Err(OpError::invalid("a scalar in a matrix product")),
            [k] => (1, *k),
            [.., rows, k] => (*rows, *k),
        };
        let n = if b.len() > 1 { b[b.len() - 1] } else { 1 };
        let lead = |shape: &[usize]| shape[..shape.len().saturating_sub(2)].to_vec();
        let (lead_a, lead_b) = (lead(a), lead(b));
        let matrices = output.iter().product::<usize>() / (rows * n).max(1);
        let leading_axes = output.len() - usize::from(a.len() > 1) - usize::from(b.len() > 1);
        let lead_output = &output[..leading_axes];
        let starts = |lead: &[usize]| -> Result<Vec<u32>, OpError> {
            match matrices {
                1 => Ok(vec![0]),
                _ => broadcast_table(lead, lead_output),
            }
        };
        let batches = starts(&lead_a)?
            .into_iter()
            .zip(starts(&lead_b)?)
            .map(|(i, j)| (i as usize * rows * k, j as usize * k * n))
            .collect();
        Ok(Product {
            rows,
            k,
            n,
            a: [k, 1],
            b: [n, 1],
            batches,
            isa,
        })
    }

    fn run(&self, a: &[Pack], b: &[Pack], output: &mut [Pack]) {
        let is_fused = self.isa.arithmetic() == Arithmetic::Fused;
        vectorised(
            #[inline(always)]
            || {
                let matrix = self.rows * self.n;
                for (&(a_start, b_start), output) in
                    self.batches.iter().zip(output.chunks_mut(matrix))
                {
                    for row in 0..self.rows {
                        let a = &a[a_start + row * self.a[0]..];
                        let output = &mut output[row * self.n..(row + 1) * self.n];
                        for (i, block) in output.chunks_mut(COLUMNS).enumerate() {
                            let b = &b[b_start + i * COLUMNS * self.b[1]..];
                            match is_fused {
                                true => self.block(a, b, block, Pack::mul_add),
                                false => self.block(a, b, block, |x, y, sum| {
                                    sum.zip(x.zip(y, |x, y| x * y), |s, p| s + p)
                                }),
                            }
                        }
                    }
                }
            },
        );
    }

    /// Up to [`COLUMNS`] neighbouring elements of one row, of sums that `add` gives one more product.
    #[inline(always)]
    fn block(
        &self,
        a: &[Pack],
        b: &[Pack],
        block: &mut [Pack],
        add: impl Fn(Pack, Pack, Pack) -> Pack,
    ) {
        let mut sums = [Pack::ZERO; COLUMNS];
        if let (COLUMNS, 1) = (block.len(), self.b[1]) {
            for k in 0..self.k {
                let x = a[k * self.a[1]];
                let row = &b[k * self.b[0]..][..COLUMNS];
                for c in 0..COLUMNS {
                    sums[c] = add(x, row[c], sums[c]);
                }
            }
        } else {
            for k in 0..self.k {
                let x = a[k * self.a[1]];
                for (c, sum) in sums.iter_mut().enumerate().take(block.len()) {
                    *sum = add(x, b[k * self.b[0] + c * self.b[1]], *sum);
                }
            }
        }
        block.copy_from_slice(&sums[..block.len()]);
    }
}

/// Sums that are kept in registers together.
const COLUMNS: usize = 4;

/// Rows of the left-hand side are channels, whose weights are packed at every run; columns are positions,
/// which see rows of the right-hand side where they stand.
impl Alone for Product {
    fn scratch(&self) -> usize {
        (self.rows * self.k).div_ceil(LANES)
    }

    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]) {
        let matrices = output.chunks_mut((self.rows * self.n).max(1));
        for (&(a, b), output) in self.batches.iter().zip(matrices) {
            let (a, b) = (&inputs.get(0)[a..], &inputs.get(1)[b..]);
            for block in tile::blocks(self.isa, self.rows) {
                let packed = numbers_mut(scratch);
                let packed = &mut packed[block.start * self.k..block.end * self.k];
                let matrix = Matrix {
                    rows: block.len(),
                    cols: self.k,
                    pitch: self.a[0],
                };
                turn(&a[block.start * self.a[0]..], matrix, packed, block.len());
                let block = Block::new(self.isa, block, self.k, packed);
                let ends = Ends {
                    bias: &[0.0; MAX_ROWS],
                    other: None,
                    finish: Finish::None,
                };
                let mut start = 0;
                while start < self.n {
                    let width = panel::width(self.isa).min(self.n / LANES);
                    let width = width.min((self.n - start).div_ceil(LANES));
                    // The last ones overlap those before: sums that are computed twice are the same.
                    start = start.min(self.n - width * LANES);
                    let panel = Panel {
                        rows: &b[start..],
                        pitch: self.b[0],
                        width,
                    };
                    let output = &mut output[block.first * self.n + start..];
                    block.project(panel, &ends, output, self.n);
                    start += width * LANES;
                }
            }
        }
    }
}

impl Kernel for Product {
    fn alone(&self) -> Option<&dyn Alone> {
        (self.a[1] == 1 && self.b[1] == 1 && self.n >= LANES).then_some(self)
    }

    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        self.run(inputs.get(0), inputs.get(1), output);
    }
}

/// A Gemm whose matrices depend on the input.
struct GeneralGemm {
    alpha: f32,
    product: Product,
    /// Factor of the third matrix, and which of its elements goes where.
    addend: Option<(f32, Vec<u32>)>,
}

impl Kernel for GeneralGemm {
    fn run(&self, inputs: &Inputs<'_>, _: &mut [Pack], output: &mut [Pack]) {
        self.product.run(inputs.get(0), inputs.get(1), output);
        let alpha = self.alpha;
        match &self.addend {
            None => {
                for y in output {
                    *y = y.map(|y| alpha * y);
                }
            }
            Some((beta, table)) => {
                let c = inputs.get(2);
                for (y, &at) in output.iter_mut().zip(table) {
                    *y = y.zip(c[at as usize], |y, c| alpha * y + beta * c);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::op::testing::{Input, check};
    use npcov_graph::Op;

    /// `a [rows, k] b [k, n]`, given by position.
    fn naive(
        [rows, k, n]: [usize; 3],
        a: impl Fn(usize, usize) -> f64,
        b: impl Fn(usize, usize) -> f64,
    ) -> Vec<f64> {
        (0..rows * n)
            .map(|i| (0..k).map(|j| a(i / n, j) * b(j, i % n)).sum())
            .collect()
    }

    #[test]
    fn products_with_weights_agree_with_the_definition() {
        let inputs = [Input::varying(&[2, 3, 5]), Input::constant(&[5, 14])];
        check(Op::MatMul, &inputs, 1e-6, |v| {
            naive([6, 5, 14], |i, k| v[0][i * 5 + k], |k, j| v[1][k * 14 + j])
        });
    }

    #[test]
    fn batches_of_products_are_broadcast() {
        // `b` is the same for both matrices of `a`; with constants and values on either side.
        let (a, b) = (&[2, 1, 3, 5], &[1, 4, 5, 6]);
        for inputs in [
            [Input::varying(a), Input::varying(b)],
            [Input::constant(a), Input::varying(b)],
            [Input::varying(a), Input::constant(b)],
        ] {
            check(Op::MatMul, &inputs, 1e-6, |v| {
                let product = |m: usize| {
                    naive(
                        [3, 5, 6],
                        |i, k| v[0][m / 4 * 15 + i * 5 + k],
                        |k, j| v[1][m % 4 * 30 + k * 6 + j],
                    )
                };
                (0..8).flat_map(product).collect()
            });
        }
    }

    #[test]
    fn vectors_are_rows_or_columns() {
        let inputs = [Input::varying(&[5]), Input::varying(&[2, 5, 3])];
        check(Op::MatMul, &inputs, 1e-6, |v| {
            let product =
                |m: usize| naive([1, 5, 3], |_, k| v[0][k], |k, j| v[1][m * 15 + k * 3 + j]);
            (0..2).flat_map(product).collect()
        });
        let inputs = [Input::varying(&[2, 4, 5]), Input::varying(&[5])];
        check(Op::MatMul, &inputs, 1e-6, |v| {
            naive([8, 5, 1], |i, k| v[0][i * 5 + k], |k, _| v[1][k])
        });
    }

    #[test]
    fn gemm_agrees_with_the_definition() {
        for (trans_a, trans_b) in [(false, false), (false, true), (true, false), (true, true)] {
            let op = Gemm {
                alpha: 0.5,
                beta: 2.0,
                trans_a,
                trans_b,
            };
            for rows in [1, 3] {
                let a: &[usize] = if trans_a { &[5, rows] } else { &[rows, 5] };
                let b: &[usize] = if trans_b { &[7, 5] } else { &[5, 7] };
                for c in [
                    None,
                    Some(&[7][..]),
                    Some(&[rows, 1]),
                    Some(&[rows, 7]),
                    Some(&[]),
                ] {
                    for constant in [true, false] {
                        let make = |shape: &[usize]| match constant {
                            true => Input::constant(shape),
                            false => Input::varying(shape),
                        };
                        let mut inputs = vec![Input::varying(a), make(b)];
                        inputs.extend(c.map(make));
                        check(Op::Gemm(op.clone()), &inputs, 1e-6, |v| {
                            let at = |t, m: &[f64], shape: &[usize], i, j| match t {
                                true => m[j * shape[1] + i],
                                false => m[i * shape[1] + j],
                            };
                            let product = naive(
                                [rows, 5, 7],
                                |i, k| at(trans_a, &v[0], a, i, k),
                                |k, j| at(trans_b, &v[1], b, k, j),
                            );
                            let addend = |i: usize| match c {
                                None => 0.0,
                                Some(&[]) => v[2][0],
                                Some([_]) => v[2][i % 7],
                                Some([_, 1]) => v[2][i / 7],
                                _ => v[2][i],
                            };
                            let sum = |(i, p): (usize, &f64)| 0.5 * p + 2.0 * addend(i);
                            product.iter().enumerate().map(sum).collect()
                        });
                    }
                }
            }
        }
    }
}
