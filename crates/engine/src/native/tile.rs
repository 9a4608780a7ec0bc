//! The kernel of the forward pass: a tile of output channels times one pack.
//!
//! A convolution, seen from one output position, is for every output channel `m` a sum over taps
//! and input channels, `out[m] += w[m][k] * x[k]`, where `x[k]` is a pack. A tile keeps the sums
//! of up to [`max_rows`](weights::max_rows) channels in registers while it walks over `k`; each
//! pack of `x` is loaded once for all of them, each weight is broadcast once for all lanes. There is
//! nothing to rearrange at run time (no im2col) as long as the packs of `x` stand next to each
//! other along the input channels, which the caller sees to, and padding costs nothing: taps outside
//! of the input are not walked over.
//!
//! Every sum is one chain of fused multiply-adds in the order of `k`, for every tile height and
//! vector width; so CPUs with FMA give the same bits, whatever their vectors (of a NaN only that it
//! is one: which operand's payload survives is the instruction's choice).

#![allow(unsafe_code)]

mod weights;

use std::ops::Range;

use npcov_cpu::{Isa, dispatch};

#[cfg(test)]
pub(crate) use self::weights::max_rows;
pub(crate) use self::weights::{Weights, blocks};
use crate::native::pack::Pack;

/// Which products a tile adds up: `rows x cols` runs of `len` neighbouring packs and weights.
/// Positions are in packs for `x`, and in weights of one channel for `w`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taps {
    /// Position of the first product.
    pub(crate) x: usize,
    /// Position of the first product.
    pub(crate) w: usize,
    /// Number of products in a run.
    pub(crate) len: usize,
    /// Number of runs in a row.
    pub(crate) cols: usize,
    /// From one run to the next.
    pub(crate) x_col: isize,
    /// From one run to the next.
    pub(crate) w_col: usize,
    /// Number of rows.
    pub(crate) rows: usize,
    /// From one row to the next.
    pub(crate) x_row: isize,
    /// From one row to the next.
    pub(crate) w_row: usize,
}

/// What the sums start from, one per channel of the tile.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Init<'a> {
    /// These numbers.
    Bias(&'a [f32]),
    /// These numbers plus a tensor laid out like the output.
    BiasAnd(&'a [f32], &'a [Pack]),
    /// What the output holds.
    Output,
}

/// What happens to the finished sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Finish {
    /// Nothing.
    None,
    /// Limited from below and above; a ReLU is `0..inf`.
    Clip(f32, f32),
}

impl Finish {
    /// A sum as it is stored.
    #[inline(always)]
    pub(crate) fn of(self, sum: f32) -> f32 {
        match self {
            Finish::None => sum,
            Finish::Clip(low, high) => {
                let sum = if low > sum { low } else { sum };
                if high < sum { high } else { sum }
            }
        }
    }
}

/// Where the sums go: channel `m` to pack `at + m * stride`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) at: usize,
    pub(crate) stride: usize,
}

/// Which weights count; the others are taken as zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WeightPart {
    /// All.
    All,
    /// The positive ones.
    Positive,
    /// The negative ones.
    Negative,
}

/// Some channels' weights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    isa: Isa,
    weights: &'a [f32],
    /// The first channel.
    pub(crate) first: usize,
    /// Number of channels.
    pub(crate) height: usize,
    k: usize,
}

/// Taps on a tensor, known to be inside of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk<'a> {
    x: &'a [Pack],
    taps: Taps,
    /// Weights of a channel that the taps were checked against.
    k: usize,
}

impl<'a> Block<'a> {
    /// Channels of weights that stand by weight, then channel.
    ///
    /// # Panics
    /// When there are not `k` weights for each channel.
    pub(crate) fn new(isa: Isa, channels: Range<usize>, k: usize, weights: &'a [f32]) -> Block<'a> {
        assert_eq!(weights.len(), channels.len() * k);
        Block {
            isa,
            weights,
            first: channels.start,
            height: channels.len(),
            k,
        }
    }

    /// The instruction set.
    pub(crate) fn isa(&self) -> Isa {
        self.isa
    }

    /// Weights of one channel.
    pub(crate) fn k(&self) -> usize {
        self.k
    }

    /// By weight, then channel.
    pub(crate) fn weights(&self) -> &'a [f32] {
        self.weights
    }
}

impl Block<'_> {
    /// Computes the block's channels at one output position.
    ///
    /// # Panics
    /// When `walk` is for other weights, or `init` or `target` reach outside of the slices.
    pub(crate) fn run(
        &self,
        walk: &Walk<'_>,
        init: Init<'_>,
        finish: Finish,
        output: &mut [Pack],
        target: Target,
    ) {
        self.run_part(WeightPart::All, walk, init, finish, output, target);
    }

    /// As [`Block::run`], with some of the weights.
    pub(crate) fn run_part(
        &self,
        part: WeightPart,
        walk: &Walk<'_>,
        init: Init<'_>,
        finish: Finish,
        output: &mut [Pack],
        target: Target,
    ) {
        let Some(rows) = self.height.checked_sub(1) else {
            return;
        };
        let last = target.at + rows * target.stride;
        assert!(last < output.len());
        match init {
            Init::Bias(bias) => assert!(bias.len() >= self.height),
            Init::BiasAnd(bias, other) => {
                assert!(bias.len() >= self.height && last < other.len());
            }
            Init::Output => {}
        }
        assert!(walk.k <= self.k);
        // SAFETY: a `Walk` and the assertions above are exactly the bounds that the kernels rely
        // on, and an `Isa` is one that this CPU has.
        unsafe { dispatch!(self.isa => run(self, part, walk, init, finish, output, target)) }
    }
}

impl Block<'_> {
    /// The transposed product: for the given positions `k` of the channels' weights,
    /// `output[k] += sum over m of w[m][k] * factors[m]`, the first one at `output[0]`.
    ///
    /// With two parts a channel has two factors, one after the other, the first for the weights of
    /// the first part.
    ///
    /// # Panics
    /// When the positions, factors or outputs do not exist.
    pub(crate) fn scatter(
        &self,
        parts: &[WeightPart],
        factors: &[Pack],
        columns: Range<usize>,
        output: &mut [Pack],
    ) {
        if self.height == 0 {
            return;
        }
        assert!(columns.start <= columns.end && columns.end <= self.k);
        assert!(factors.len() >= self.height * parts.len() && output.len() >= columns.len());
        // SAFETY: the assertions above are exactly the bounds that the kernels rely on, and an
        // `Isa` is one that this CPU has.
        unsafe { dispatch!(self.isa => scatter(self, parts, factors, columns, output)) }
    }
}

impl Taps {
    /// These taps on a tensor, for channels of `k` weights. Runs of no products may lie anywhere: they
    /// are not walked over.
    ///
    /// # Panics
    /// Unless all runs lie inside of `x` and of the weights. Positions are linear in the row and
    /// column numbers, so their extremes are at the corners.
    pub(crate) fn on(self, x: &[Pack], k: usize) -> Walk<'_> {
        if self.rows == 0 || self.cols == 0 || self.len == 0 {
            let taps = Taps::default();
            return Walk { x, taps, k };
        }
        let (rows, cols) = (self.rows as isize - 1, self.cols as isize - 1);
        let far = [rows * self.x_row, cols * self.x_col];
        let low = self.x as isize + far[0].min(0) + far[1].min(0);
        let high = self.x as isize + far[0].max(0) + far[1].max(0);
        assert!(low >= 0 && high + self.len as isize <= x.len() as isize);
        let w = self.w + rows as usize * self.w_row + cols as usize * self.w_col + self.len;
        assert!(w <= k);
        Walk { x, taps: self, k }
    }
}

/// A kernel for one vector type: the same text for every instruction set.
macro_rules! kernel {
    (
        $isa:ident, $(#[$feature:meta])*, vectors: $n:expr, heights: [$($height:literal)*],
        zero: $zero:expr, splat: $splat:expr, load: $load:expr, store: $store:expr,
        fma: $fma:expr, add: $add:expr, min: $min:expr, max: $max:expr $(, use $import:path)?
    ) => {
        mod $isa {
            use std::ops::Range;

            use super::{Block, Finish, Init, WeightPart, Target, Walk};
            use crate::native::pack::{LANES, Pack};
            $(use $import::*;)?

            /// Number of vectors that make a pack.
            const N: usize = $n;

            /// # Safety
            /// The instruction set must be present and all positions inside of the slices.
            $(#[$feature])*
            pub(super) unsafe fn run(
                block: &Block<'_>, part: WeightPart, walk: &Walk<'_>, init: Init<'_>, finish: Finish,
                output: &mut [Pack], target: Target,
            ) {
                // SAFETY: the caller's.
                unsafe {
                    match (block.height, part) {
                        $(
                            ($height, WeightPart::All) => tile::<$height, 0>(
                                block, walk, init, finish, output, target,
                            ),
                            ($height, WeightPart::Positive) => tile::<$height, 1>(
                                block, walk, init, finish, output, target,
                            ),
                            ($height, WeightPart::Negative) => tile::<$height, -1>(
                                block, walk, init, finish, output, target,
                            ),
                        )*
                        _ => unreachable!("blocks are at most `max_rows` high"),
                    }
                }
            }

            /// The transposed product: see [`Block::scatter`].
            ///
            /// # Safety
            /// The instruction set must be present and all positions inside of the slices.
            $(#[$feature])*
            pub(super) unsafe fn scatter(
                block: &Block<'_>, parts: &[WeightPart], factors: &[Pack], columns: Range<usize>,
                output: &mut [Pack],
            ) {
                // SAFETY: the caller's.
                unsafe {
                    match (block.height, parts) {
                        $(
                            ($height, [WeightPart::All]) => {
                                transposed::<$height, 0>(block, factors, columns, output)
                            }
                            ($height, [WeightPart::Positive]) => {
                                transposed::<$height, 1>(block, factors, columns, output)
                            }
                            ($height, [WeightPart::Negative]) => {
                                transposed::<$height, -1>(block, factors, columns, output)
                            }
                            ($height, [WeightPart::Positive, WeightPart::Negative]) => {
                                transposed::<$height, 2>(block, factors, columns, output)
                            }
                            ($height, [WeightPart::Negative, WeightPart::Positive]) => {
                                transposed::<$height, -2>(block, factors, columns, output)
                            }
                        )*
                        _ => unreachable!("one part or both, blocks at most `max_rows` high"),
                    }
                }
            }

            /// # Safety
            /// As [`scatter`]; `M` is the block's height. `S` says which part of the weights each
            /// of the `|S|` factors (of one for 0) of a channel is for, first that of the sign.
            $(#[$feature])*
            unsafe fn transposed<const M: usize, const S: i8>(
                block: &Block<'_>, factors: &[Pack], columns: Range<usize>, output: &mut [Pack],
            ) {
                // SAFETY: every position is inside of the slices, the caller saw to it; a pack is
                // `N` vectors of `LANES / N` floats.
                unsafe {
                    let per_channel = if S == 0 { 1 } else { S.unsigned_abs() as usize };
                    let mut first = [[$zero; N]; M];
                    let mut second = [[$zero; N]; M];
                    for m in 0..M {
                        let at = factors.as_ptr().add(m * per_channel).cast::<f32>();
                        for v in 0..N {
                            first[m][v] = $load(at.add(v * (LANES / N)));
                            if per_channel == 2 {
                                second[m][v] = $load(at.add(LANES + v * (LANES / N)));
                            }
                        }
                    }
                    let mut w = block.weights.as_ptr().add(columns.start * M);
                    let mut out = output.as_mut_ptr().cast::<f32>();
                    for _ in columns {
                        let mut sums = [$zero; N];
                        for v in 0..N {
                            sums[v] = $load(out.add(v * (LANES / N)));
                        }
                        for m in 0..M {
                            let weight = $splat(*w.add(m));
                            let chosen = match S {
                                0 => weight,
                                1 | 2 => $max(weight, $zero),
                                _ => $min(weight, $zero),
                            };
                            for v in 0..N {
                                sums[v] = $fma(chosen, first[m][v], sums[v]);
                            }
                            if per_channel == 2 {
                                let other = match S {
                                    2 => $min(weight, $zero),
                                    _ => $max(weight, $zero),
                                };
                                for v in 0..N {
                                    sums[v] = $fma(other, second[m][v], sums[v]);
                                }
                            }
                        }
                        for v in 0..N {
                            $store(out.add(v * (LANES / N)), sums[v]);
                        }
                        out = out.add(LANES);
                        w = w.add(M);
                    }
                }
            }

            /// # Safety
            /// As [`run`]; `M` is the block's height, `PART` the sign of the weights that count, or
            /// 0 for all.
            ///
            /// A function of its own: inlined next to the other tiles, compilers run out of
            /// registers and keep a sum in memory, which takes almost twice the time.
            $(#[$feature])*
            #[inline(never)]
            unsafe fn tile<const M: usize, const PART: i8>(
                block: &Block<'_>, walk: &Walk<'_>, init: Init<'_>, finish: Finish,
                output: &mut [Pack], target: Target,
            ) {
                let Walk { x, taps, .. } = walk;
                // SAFETY: every position is inside of the slices, the caller saw to it; a pack is
                // `N` vectors of `LANES / N` floats.
                unsafe {
                    let out = output.as_mut_ptr().add(target.at);
                    let mut sums = [[$zero; N]; M];
                    match init {
                        Init::Bias(bias) => {
                            for m in 0..M {
                                sums[m] = [$splat(*bias.get_unchecked(m)); N];
                            }
                        }
                        Init::BiasAnd(bias, other) => {
                            let other = other.as_ptr().add(target.at);
                            for m in 0..M {
                                let row = other.add(m * target.stride).cast::<f32>();
                                let bias = $splat(*bias.get_unchecked(m));
                                for v in 0..N {
                                    sums[m][v] = $add($load(row.add(v * (LANES / N))), bias);
                                }
                            }
                        }
                        Init::Output => {
                            for m in 0..M {
                                let row = out.add(m * target.stride).cast::<f32>();
                                for v in 0..N {
                                    sums[m][v] = $load(row.add(v * (LANES / N)));
                                }
                            }
                        }
                    }
                    let x = x.as_ptr();
                    let w = block.weights.as_ptr();
                    for row in 0..taps.rows {
                        for col in 0..taps.cols {
                            let at = taps.x as isize
                                + row as isize * taps.x_row
                                + col as isize * taps.x_col;
                            let mut x = x.offset(at).cast::<f32>();
                            let mut w =
                                w.add((taps.w + row * taps.w_row + col * taps.w_col) * M);
                            for _ in 0..taps.len {
                                let mut lanes = [$zero; N];
                                for v in 0..N {
                                    lanes[v] = $load(x.add(v * (LANES / N)));
                                }
                                for m in 0..M {
                                    let weight = $splat(*w.add(m));
                                    let weight = match PART {
                                        0 => weight,
                                        1 => $max(weight, $zero),
                                        _ => $min(weight, $zero),
                                    };
                                    for v in 0..N {
                                        sums[m][v] = $fma(weight, lanes[v], sums[m][v]);
                                    }
                                }
                                x = x.add(LANES);
                                w = w.add(M);
                            }
                        }
                    }
                    if let Finish::Clip(low, high) = finish {
                        let (low, high) = ($splat(low), $splat(high));
                        for m in 0..M {
                            for v in 0..N {
                                sums[m][v] = $min($max(sums[m][v], low), high);
                            }
                        }
                    }
                    for m in 0..M {
                        let row = out.add(m * target.stride).cast::<f32>();
                        for v in 0..N {
                            $store(row.add(v * (LANES / N)), sums[m][v]);
                        }
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernel! {
    avx2, #[target_feature(enable = "avx2,fma")], vectors: 2, heights: [1 2 3 4 5 6],
    zero: _mm256_setzero_ps(), splat: _mm256_set1_ps, load: _mm256_loadu_ps,
    store: _mm256_storeu_ps, fma: _mm256_fmadd_ps, add: _mm256_add_ps,
    min: min, max: max, use crate::native::vector::x86
}

#[cfg(target_arch = "x86_64")]
kernel! {
    avx512, #[target_feature(enable = "avx512f")], vectors: 1,
    heights: [1 2 3 4 5 6 7 8 9 10 11 12],
    zero: _mm512_setzero_ps(), splat: _mm512_set1_ps, load: _mm512_loadu_ps,
    store: _mm512_storeu_ps, fma: _mm512_fmadd_ps, add: _mm512_add_ps,
    min: min512, max: max512, use crate::native::vector::x86
}

kernel! {
    portable, , vectors: 1, heights: [1 2 3],
    zero: [0.0f32; LANES], splat: splat, load: load, store: store, fma: fma, add: add,
    min: min, max: max, use crate::native::vector::plain
}

#[cfg(test)]
mod tests {
    use npcov_cpu::Arithmetic;

    use super::*;
    use crate::native::pack::LANES;

    fn number(i: usize) -> f32 {
        ((i * 7919 % 1013) as f32 - 500.0) / 100.0
    }

    fn packs(n: usize) -> Vec<Pack> {
        (0..n)
            .map(|i| Pack(std::array::from_fn(|l| number(i * LANES + l))))
            .collect()
    }

    /// The definition: one lane and one channel at a time, in f64.
    fn naive(
        w: &dyn Fn(usize, usize) -> f32,
        channel: usize,
        lane: usize,
        x: &[Pack],
        taps: &Taps,
    ) -> f64 {
        let mut sum = 0.0;
        for row in 0..taps.rows {
            for col in 0..taps.cols {
                for i in 0..taps.len {
                    let at =
                        taps.x as isize + row as isize * taps.x_row + col as isize * taps.x_col;
                    let k = taps.w + row * taps.w_row + col * taps.w_col + i;
                    sum += f64::from(w(channel, k)) * f64::from(x[at as usize + i].0[lane]);
                }
            }
        }
        sum
    }

    const TAPS: Taps = Taps {
        x: 40,
        w: 2,
        len: 5,
        cols: 2,
        x_col: 7,
        w_col: 5,
        rows: 3,
        x_row: -13,
        w_row: 11,
    };

    #[test]
    fn every_instruction_set_and_height_agrees_with_the_definition() {
        let k = 40;
        let x = packs(64);
        let w = |m: usize, i: usize| number(m * 31 + i * 3 + 5);
        for isa in Isa::available() {
            for channels in 1..=2 * max_rows(isa) + 1 {
                let weights = Weights::new(isa, channels, k, w);
                let bias: Vec<f32> = (0..channels).map(number).collect();
                let other = packs(channels * 3);
                let mut output = vec![Pack::ZERO; channels * 3];
                for block in weights.blocks() {
                    let target = Target {
                        at: block.first * 3 + 1,
                        stride: 3,
                    };
                    let bias = &bias[block.first..];
                    let finish = Finish::Clip(-100.0, 150.0);
                    block.run(
                        &TAPS.on(&x, k),
                        Init::BiasAnd(bias, &other),
                        finish,
                        &mut output,
                        target,
                    );
                }
                for m in 0..channels {
                    for lane in 0..LANES {
                        let expected = (naive(&w, m, lane, &x, &TAPS)
                            + f64::from(bias[m])
                            + f64::from(other[m * 3 + 1].0[lane]))
                        .clamp(-100.0, 150.0);
                        let got = f64::from(output[m * 3 + 1].0[lane]);
                        assert!(
                            (got - expected).abs() <= 1e-4 * expected.abs().max(100.0),
                            "{isa:?}, {channels} channels: {got} for {expected}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn sums_continue_from_the_output_with_the_same_bits() {
        let x = packs(64);
        for isa in Isa::available() {
            let weights = Weights::new(isa, 5, 40, |m, i| number(m * 31 + i));
            let run = |parts: &[Taps]| {
                let mut output = vec![Pack::ZERO; 5];
                for block in weights.blocks() {
                    let target = Target {
                        at: block.first,
                        stride: 1,
                    };
                    for (i, taps) in parts.iter().enumerate() {
                        let init = if i == 0 {
                            Init::Bias(&[0.5; 5])
                        } else {
                            Init::Output
                        };
                        block.run(&taps.on(&x, 40), init, Finish::None, &mut output, target);
                    }
                }
                output
            };
            let first = Taps { rows: 2, ..TAPS };
            let rest = Taps {
                x: (TAPS.x as isize + 2 * TAPS.x_row) as usize,
                w: TAPS.w + 2 * TAPS.w_row,
                rows: 1,
                ..TAPS
            };
            assert_eq!(run(&[TAPS]), run(&[first, rest]));
        }
    }

    fn part_of(part: WeightPart, w: f32) -> f32 {
        match part {
            WeightPart::All => w,
            WeightPart::Positive => w.max(0.0),
            WeightPart::Negative => w.min(0.0),
        }
    }

    #[test]
    fn parts_of_the_weights_agree_with_the_definition() {
        let k = 23;
        let w = |m: usize, i: usize| number(m * 31 + i * 3 + 5);
        let x = packs(k);
        let taps = Taps {
            len: k,
            cols: 1,
            rows: 1,
            ..Taps::default()
        };
        for isa in Isa::available() {
            for channels in 1..=max_rows(isa) {
                let weights = Weights::new(isa, channels, k, w);
                for part in [WeightPart::All, WeightPart::Positive, WeightPart::Negative] {
                    let mut output = vec![Pack::ZERO; channels];
                    for block in weights.blocks() {
                        let (init, finish) = (Init::Bias(&[0.0; 12]), Finish::None);
                        let target = Target {
                            at: block.first,
                            stride: 1,
                        };
                        let walk = taps.on(&x, k);
                        block.run_part(part, &walk, init, finish, &mut output, target);
                    }
                    for (m, y) in output.iter().enumerate() {
                        for (lane, &y) in y.0.iter().enumerate() {
                            let w = |m: usize, i: usize| part_of(part, w(m, i));
                            let expected = naive(&w, m, lane, &x, &taps);
                            let distance = (f64::from(y) - expected).abs();
                            assert!(distance < 1e-3, "{isa:?} {part:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_transposed_product_agrees_with_the_definition() {
        let k = 23;
        let w = |m: usize, i: usize| number(m * 31 + i * 3 + 5);
        let (p, n) = (WeightPart::Positive, WeightPart::Negative);
        for isa in Isa::available() {
            for channels in 1..=max_rows(isa) + 1 {
                let weights = Weights::new(isa, channels, k, w);
                for parts in [&[WeightPart::All][..], &[p], &[n], &[p, n], &[n, p]] {
                    let factors = packs(channels * parts.len());
                    let columns = 2..20;
                    let mut output = vec![Pack::splat(1.0); columns.len()];
                    for block in weights.blocks() {
                        let factors = &factors[block.first * parts.len()..];
                        block.scatter(parts, factors, columns.clone(), &mut output);
                    }
                    for (k, y) in columns.zip(&output) {
                        for (lane, &y) in y.0.iter().enumerate() {
                            let mut expected = 1.0;
                            for m in 0..channels {
                                for (s, &part) in parts.iter().enumerate() {
                                    let factor = factors[m * parts.len() + s].0[lane];
                                    let weight = part_of(part, w(m, k));
                                    expected += f64::from(weight) * f64::from(factor);
                                }
                            }
                            let distance = (f64::from(y) - expected).abs();
                            assert!(distance < 1e-3, "{isa:?} {parts:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn clipping_lets_nan_through() {
        let x = vec![Pack::splat(f32::NAN)];
        for isa in Isa::available() {
            let weights = Weights::new(isa, 1, 1, |_, _| 1.0);
            let taps = Taps {
                len: 1,
                cols: 1,
                rows: 1,
                ..Taps::default()
            };
            let mut output = vec![Pack::ZERO];
            for block in weights.blocks() {
                let finish = Finish::Clip(0.0, f32::INFINITY);
                let target = Target { at: 0, stride: 1 };
                block.run(
                    &taps.on(&x, 1),
                    Init::Bias(&[0.0]),
                    finish,
                    &mut output,
                    target,
                );
            }
            assert!(output[0].0.iter().all(|x| x.is_nan()), "{isa:?}");
        }
    }

    #[test]
    fn runs_without_products_leave_the_bias() {
        let far = Taps {
            x: 1000,
            w: 1000,
            rows: 2,
            cols: 2,
            ..Taps::default()
        };
        for isa in Isa::available() {
            let weights = Weights::new(isa, 2, 3, |_, _| 1.0);
            let mut output = packs(2);
            for block in weights.blocks() {
                let target = Target {
                    at: block.first,
                    stride: 1,
                };
                let init = Init::Bias(&[0.5; 2]);
                block.run(&far.on(&[], 3), init, Finish::None, &mut output, target);
            }
            assert_eq!(output, [Pack::splat(0.5); 2], "{isa:?}");
        }
    }

    /// With `w = x = 1 + 2^-12`, `w x` is `1 + 2^-11 + 2^-24`, of which a rounded product lacks the
    /// last term.
    #[test]
    fn products_are_added_up_as_the_instruction_set_says() {
        let power = |exponent: i32| 1.0 / (1_u32 << -exponent) as f32;
        let w = 1.0 + power(-12);
        let taps = Taps {
            len: 1,
            cols: 1,
            rows: 1,
            ..Taps::default()
        };
        for isa in Isa::available() {
            let expected = match isa.arithmetic() {
                Arithmetic::Fused => power(-24),
                Arithmetic::Unfused => 0.0,
            };
            let weights = Weights::new(isa, 1, 1, |_, _| w);
            let mut output = [Pack::ZERO];
            for block in weights.blocks() {
                let init = Init::Bias(&[-(1.0 + power(-11))]);
                let target = Target { at: 0, stride: 1 };
                let x = [Pack::splat(w)];
                block.run(&taps.on(&x, 1), init, Finish::None, &mut output, target);
            }
            assert_eq!(output, [Pack::splat(expected)], "{isa:?}");
        }
    }

    #[test]
    #[should_panic(expected = "high + self.len as isize <= x.len() as isize")]
    fn taps_outside_of_the_input_panic() {
        let _ = TAPS.on(&packs(10), 40);
    }
}
