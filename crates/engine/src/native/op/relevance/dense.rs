//! The relevance step of a product with a constant matrix.
//!
//! Dense layers hold most of a large model's weights and use each of them once for an input. So
//! there is one copy of them, shared with the forward product: signs are told apart while weights
//! are read, and the way back reads the same blocks.

use std::sync::Arc;

use npcov_cpu::vectorised;
use npcov_graph::OpError;
use npcov_program::LinearRelevance;

use super::by_sign;
use super::factors::Factors;
use crate::native::kernel::{Abreast, Alone, Context, Inputs, Kernel, NodeKernel, Run};
use crate::native::pack::{LANES, Pack};
use crate::native::tile::{Finish, Init, Taps, Target, WeightPart, Weights};

/// Inputs that are worked off together: a block's weights for them stay in the nearest cache while
/// they are read for both signs.
const COLUMNS: usize = 1024;

struct DenseRelevance {
    rows: usize,
    k: usize,
    n: usize,
    factors: Factors,
    /// 2 when the positive and the negative part of the input are told apart.
    parts: usize,
    weights: Arc<Weights>,
    /// `[output unit][sum]`.
    bias: Vec<f32>,
}

pub(super) fn prepare(
    op: &LinearRelevance,
    weights: Arc<Weights>,
    cx: &Context<'_>,
) -> Result<NodeKernel, OpError> {
    let (k, n) = (weights.k(), weights.channels());
    let factors = Factors::new(op.rule)?;
    let mut bias = vec![0.0; n * factors.sums];
    if op.bias {
        let given = cx.parameter(3, "the bias")?;
        for (i, b) in bias.iter_mut().enumerate() {
            let unit = match given.len() {
                1 => 0,
                len if len == n => i / factors.sums,
                _ => return Err(OpError::unsupported("a bias that differs between rows")),
            };
            *b = factors.bias(given[unit], i % factors.sums);
        }
    }
    let kernel = DenseRelevance {
        rows: cx.shape(0).iter().product::<usize>() / k.max(1),
        k,
        n,
        parts: if factors.split && !op.nonnegative {
            2
        } else {
            1
        },
        factors,
        weights,
        bias,
    };
    Ok(NodeKernel::new(kernel, [0, 1]))
}

impl DenseRelevance {
    /// Packs of the sums of a row, of a part of its input, and of what comes back.
    fn lens(&self) -> [usize; 3] {
        let parts = if self.parts == 2 { 2 * self.k } else { 0 };
        [self.n * self.factors.sums, parts, self.parts * self.k]
    }

    /// The part of the weights that makes sum number `sum` from part number `part` of the input.
    fn part(&self, sum: usize, part: usize) -> WeightPart {
        match (self.factors.split, sum == part) {
            (false, _) => WeightPart::All,
            (true, true) => WeightPart::Positive,
            (true, false) => WeightPart::Negative,
        }
    }

    fn sums(&self, parts: &[&[Pack]], sums: &mut [Pack]) {
        let count = self.factors.sums;
        for (unit, b) in sums.iter_mut().zip(&self.bias) {
            *unit = Pack::splat(*b);
        }
        for block in self.weights.blocks() {
            for start in (0..self.k).step_by(COLUMNS) {
                let taps = Taps {
                    x: start,
                    w: start,
                    len: COLUMNS.min(self.k - start),
                    cols: 1,
                    rows: 1,
                    ..Taps::default()
                };
                for (part, x) in parts.iter().enumerate() {
                    let walk = taps.on(x, self.k);
                    for sum in 0..count {
                        let target = Target {
                            at: block.first * count + sum,
                            stride: count,
                        };
                        let part = self.part(sum, part);
                        block.run_part(part, &walk, Init::Output, Finish::None, sums, target);
                    }
                }
            }
        }
    }

    fn back(&self, factors: &[Pack], back: &mut [Pack]) {
        back.fill(Pack::ZERO);
        let count = self.factors.sums;
        for (part, back) in back.chunks_exact_mut(self.k).enumerate() {
            let signs = [self.part(0, part), self.part(1, part)];
            for block in self.weights.blocks() {
                let factors = &factors[block.first * count..];
                block.scatter(&signs[..count], factors, 0..self.k, back);
            }
        }
    }
}

impl DenseRelevance {
    /// What comes back to one row of each input.
    fn row(&self, x: &[Pack], r: &[Pack], scratch: &mut [Pack], output: &mut [Pack]) {
        let [sums_len, parts_len, back_len] = self.lens();
        let (sums, rest) = scratch.split_at_mut(sums_len);
        let (parts, back) = rest.split_at_mut(parts_len);
        let (positive, negative) = parts.split_at_mut(parts_len / 2);
        let back = &mut back[..back_len];
        match self.parts {
            1 => self.sums(&[x], sums),
            _ => {
                vectorised(
                    #[inline(always)]
                    || {
                        for (i, x) in x.iter().enumerate() {
                            positive[i] = x.map(|x| if x > 0.0 { x } else { 0.0 });
                            negative[i] = x.map(|x| if x < 0.0 { x } else { 0.0 });
                        }
                    },
                );
                self.sums(&[positive, negative], sums);
            }
        }
        self.factors.apply(sums, r, 1);
        self.back(sums, back);
        vectorised(
            #[inline(always)]
            || {
                for i in 0..self.k {
                    let s = back[i];
                    output[i] = match self.parts {
                        1 => x[i].zip(s, |x, s| x * s),
                        _ => {
                            let n = back[self.k + i];
                            let of = |l: usize| {
                                let x = x[i].0[l];
                                x * by_sign(x, s.0[l], n.0[l])
                            };
                            Pack(std::array::from_fn(of))
                        }
                    };
                }
            },
        );
    }

    /// The step for a few inputs, each by itself: lanes hold rows.
    fn run_rows(&self, runs: &mut [Run<'_>], scratch: &mut [Pack]) {
        let (x, rest) = scratch.split_at_mut(self.k);
        let (r, rest) = rest.split_at_mut(self.n);
        let (made, scratch) = rest.split_at_mut(self.k);
        let all = runs.len() * self.rows;
        for first in (0..all).step_by(LANES) {
            let rows = first..(first + LANES).min(all);
            // Lanes without a row hold any.
            for (lane, row) in rows.clone().enumerate() {
                let (inputs, row) = (&runs[row / self.rows].inputs, row % self.rows);
                for (packs, rows) in [(&mut *x, inputs.get(0)), (&mut *r, inputs.get(1))] {
                    let len = packs.len();
                    for (pack, x) in packs.iter_mut().zip(&rows[row * len..][..len]) {
                        pack.0[lane] = *x;
                    }
                }
            }
            self.row(x, r, scratch, made);
            for (lane, row) in rows.enumerate() {
                let (output, row) = (&mut runs[row / self.rows].output, row % self.rows);
                let output = &mut output[row * self.k..][..self.k];
                for (y, pack) in output.iter_mut().zip(&*made) {
                    *y = pack.0[lane];
                }
            }
        }
    }
}

impl Kernel for DenseRelevance {
    fn scratch(&self) -> usize {
        self.lens().iter().sum()
    }

    fn run(&self, inputs: &Inputs<'_>, scratch: &mut [Pack], output: &mut [Pack]) {
        for row in 0..self.rows {
            let x = &inputs.get(0)[row * self.k..][..self.k];
            let r = &inputs.get(1)[row * self.n..][..self.n];
            self.row(x, r, scratch, &mut output[row * self.k..][..self.k]);
        }
    }

    fn alone(&self) -> Option<&dyn Alone> {
        Some(self)
    }
}

impl Alone for DenseRelevance {
    fn scratch(&self) -> usize {
        2 * self.k + self.n + Kernel::scratch(self)
    }

    fn run(&self, inputs: &Inputs<'_, f32>, scratch: &mut [Pack], output: &mut [f32]) {
        let inputs = *inputs;
        self.run_rows(&mut [Run { inputs, output }], scratch);
    }

    /// Where one input leaves lanes empty.
    fn abreast(&self) -> Option<&dyn Abreast> {
        (self.rows < LANES).then_some(self)
    }
}

impl Abreast for DenseRelevance {
    fn scratch(&self, _: usize) -> usize {
        Alone::scratch(self)
    }

    fn run(&self, runs: &mut [Run<'_>], scratch: &mut [Pack]) {
        self.run_rows(runs, scratch);
    }
}
