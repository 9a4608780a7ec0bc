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
use crate::native::kernel::{Context, Inputs, Kernel, NodeKernel};
use crate::native::pack::Pack;
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

impl Kernel for DenseRelevance {
    fn scratch(&self) -> usize {
        self.lens().iter().sum()
    }

    fn run(&self, inputs: &Inputs<'_>, scratch: &mut [Pack], output: &mut [Pack]) {
        let [sums_len, parts_len, _] = self.lens();
        let (sums, rest) = scratch.split_at_mut(sums_len);
        let (parts, back) = rest.split_at_mut(parts_len);
        let (positive, negative) = parts.split_at_mut(parts_len / 2);
        for row in 0..self.rows {
            let x = &inputs.get(0)[row * self.k..][..self.k];
            let r = &inputs.get(1)[row * self.n..][..self.n];
            let output = &mut output[row * self.k..][..self.k];
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
    }
}
