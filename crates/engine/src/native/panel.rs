//! Products of one input by itself: a block of output channels times sixteen positions, or thirty-two.
//!
//! What the positions see stands in a *panel*: for each product of a channel a row of numbers, a pack or
//! two, whose lanes are positions. A block of [`Weights`](crate::native::tile::Weights) walks over it;
//! each row is loaded once for all channels of the block, each weight is broadcast once for all packs.
//!
//! Every sum is one chain of fused multiply-adds in the order of the weights, as it is with inputs in
//! lanes: the same bits.

#![allow(unsafe_code)]

use std::ops::Range;

use npcov_cpu::{Isa, Vectors, dispatch};

use crate::native::pack::LANES;
use crate::native::tile::{Block, Finish};

/// The most channels of a block.
pub(crate) const MAX_ROWS: usize = 12;

/// The most packs of a panel.
pub(crate) const MAX_WIDTH: usize = 2;

/// Packs of a panel: with AVX-512 a block of twelve channels keeps 24 sums in 32 registers.
pub(crate) fn width(isa: Isa) -> usize {
    match isa.vectors() {
        Vectors::Portable => 1,
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => 1,
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => MAX_WIDTH,
    }
}

/// Positions in pieces: as wide as panels are, and what is left. A few of them are [`Few`].
pub(crate) fn pieces(isa: Isa, positions: usize) -> impl Iterator<Item = Range<usize>> + Clone {
    let (wide, few) = (width(isa) * LANES, few(isa));
    let mut start = 0;
    std::iter::from_fn(move || {
        let left = positions - start;
        let len = match left {
            0 => return None,
            _ if left >= wide => wide,
            _ if left > LANES && left - LANES <= few => LANES,
            _ => left,
        };
        start += len;
        Some(start - len..start)
    })
}

/// Positions up to which the lanes of a block's sums are its channels.
pub(crate) fn few(isa: Isa) -> usize {
    match isa.vectors() {
        Vectors::Portable => 0,
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => 0,
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => MAX_FEW,
    }
}

/// The most positions of [`Few`].
pub(crate) const MAX_FEW: usize = 8;

/// What so few positions see that their lanes would be empty. Their sums hold channels in lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Few<'a> {
    pub(crate) x: &'a [f32],
    /// From what is multiplied by a weight to what is multiplied by the next.
    pub(crate) pitch: usize,
    /// From one position to the next.
    pub(crate) step: usize,
    pub(crate) count: usize,
}

/// Sums of a few positions: a row for each, whose first numbers are those of a block's channels.
pub(crate) type FewSums = [[f32; LANES]; MAX_FEW];

/// What some positions see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panel<'a> {
    /// A row for each product of a channel.
    pub(crate) rows: &'a [f32],
    /// From one row to the next.
    pub(crate) pitch: usize,
    /// Packs of a row.
    pub(crate) width: usize,
}

/// What the sums of a block begin with, and what happens to them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends<'a> {
    /// A number for each channel.
    pub(crate) bias: &'a [f32],
    /// What is added to it: laid out as the sums.
    pub(crate) other: Option<&'a [f32]>,
    pub(crate) finish: Finish,
}

impl Block<'_> {
    /// Computes the sums of positions: a row for each channel of the block, `pitch` numbers apart.
    ///
    /// # Panics
    /// When the panel, the sums or what they begin with are too short, or there is no kernel of this
    /// width.
    pub(crate) fn project(
        &self,
        panel: Panel<'_>,
        ends: &Ends<'_>,
        sums: &mut [f32],
        pitch: usize,
    ) {
        if self.height == 0 {
            return;
        }
        let row = panel.width * LANES;
        let whole =
            |len: usize, rows: usize, pitch: usize| rows == 0 || (rows - 1) * pitch + row <= len;
        assert!(
            whole(panel.rows.len(), self.k(), panel.pitch),
            "a panel that is too short"
        );
        assert!(whole(sums.len(), self.height, pitch) && ends.bias.len() >= self.height);
        assert!(
            ends.other
                .is_none_or(|other| whole(other.len(), self.height, pitch))
        );
        // SAFETY: the assertions above, and the block's own length, are the bounds that the kernels rely
        // on, and an `Isa` is one that this CPU has.
        unsafe { dispatch!(self.isa() => project(self, panel, ends, sums, pitch)) }
    }
}

#[cfg(target_arch = "x86_64")]
impl Block<'_> {
    /// As [`Block::project`], for a few positions: to the sums, which hold what is added to the bias.
    ///
    /// # Panics
    /// When there are no such positions, or the instruction set has no kernel for them.
    pub(crate) fn project_few(
        &self,
        few: Few<'_>,
        bias: &[f32],
        finish: Finish,
        sums: &mut FewSums,
    ) {
        if self.height == 0 || few.count == 0 {
            return;
        }
        assert!(few.count <= self::few(self.isa()) && bias.len() >= self.height);
        let last = self.k().saturating_sub(1) * few.pitch + (few.count - 1) * few.step;
        assert!(self.k() == 0 || last < few.x.len());
        // SAFETY: the assertions above, and the block's own length, are the bounds that the kernel relies
        // on; only with AVX-512 are there few positions.
        unsafe {
            match few.count {
                1 => channels::<1>(self, few, bias, finish, sums),
                2 => channels::<2>(self, few, bias, finish, sums),
                3 => channels::<3>(self, few, bias, finish, sums),
                4 => channels::<4>(self, few, bias, finish, sums),
                5 => channels::<5>(self, few, bias, finish, sums),
                6 => channels::<6>(self, few, bias, finish, sums),
                7 => channels::<7>(self, few, bias, finish, sums),
                _ => channels::<MAX_FEW>(self, few, bias, finish, sums),
            }
        }
    }
}

/// # Safety
/// The CPU must have AVX-512F, there must be `P` positions, and a bias for each channel.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline(never)]
unsafe fn channels<const P: usize>(
    block: &Block<'_>,
    few: Few<'_>,
    bias: &[f32],
    finish: Finish,
    to: &mut FewSums,
) {
    use crate::native::vector::x86::*;

    let height = block.height;
    let lanes = ((1u32 << height) - 1) as __mmask16;
    // SAFETY: weights and biases of the block's channels are there, and others are masked; so is what
    // each position sees.
    unsafe {
        let bias = _mm512_maskz_loadu_ps(lanes, bias.as_ptr());
        let mut sums = [bias; P];
        for p in 0..P {
            sums[p] = _mm512_add_ps(_mm512_loadu_ps(to[p].as_ptr()), bias);
        }
        let mut x = few.x.as_ptr();
        let mut w = block.weights().as_ptr();
        for _ in 0..block.weights().len() / height {
            let weight = _mm512_maskz_loadu_ps(lanes, w);
            for p in 0..P {
                let x = _mm512_set1_ps(*x.wrapping_add(p * few.step));
                sums[p] = _mm512_fmadd_ps(weight, x, sums[p]);
            }
            prefetch(w.wrapping_add(block.weights().len()));
            x = x.wrapping_add(few.pitch);
            w = w.add(height);
        }
        for p in 0..P {
            if let Finish::Clip(low, high) = finish {
                let limited = max512(sums[p], _mm512_set1_ps(low));
                sums[p] = min512(limited, _mm512_set1_ps(high));
            }
            _mm512_storeu_ps(to[p].as_mut_ptr(), sums[p]);
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Block<'_> {
    /// There are never a few.
    pub(crate) fn project_few(&self, _: Few<'_>, _: &[f32], _: Finish, _: &mut FewSums) {}
}

/// A kernel for one vector type: the same text for every instruction set.
macro_rules! kernel {
    (
        $isa:ident, $(#[$feature:meta])*, vectors: $n:expr,
        sizes: [$($width:literal: $($height:literal)*;)*],
        zero: $zero:expr, splat: $splat:expr, load: $load:expr, store: $store:expr,
        fma: $fma:expr, add: $add:expr, min: $min:expr, max: $max:expr, use $import:path
    ) => {
        mod $isa {
            use super::{Block, Ends, Finish, Panel};
            use crate::native::pack::LANES;
            use $import::*;

            /// Number of vectors that make a pack.
            const N: usize = $n;

            /// # Safety
            /// The instruction set must be present and all positions inside of the slices.
            $(#[$feature])*
            pub(super) unsafe fn project(
                block: &Block<'_>, panel: Panel<'_>, ends: &Ends<'_>, sums: &mut [f32],
                pitch: usize,
            ) {
                // SAFETY: the caller's.
                unsafe {
                    match (panel.width, block.height) {
                        $($(($width, $height) => {
                            rows::<$height, $width>(block.weights(), panel, ends, sums, pitch);
                        })*)*
                        sizes => panic!("no kernel for a panel of {sizes:?}"),
                    }
                }
            }

            /// # Safety
            /// As [`project`].
            $(#[$feature])*
            #[inline(never)]
            unsafe fn rows<const M: usize, const T: usize>(
                weights: &[f32], panel: Panel<'_>, ends: &Ends<'_>, to: &mut [f32], pitch: usize,
            ) {
                // SAFETY: every position is inside of the slices, the caller saw to it; a pack is
                // `N` vectors of `LANES / N` floats.
                unsafe {
                    let mut sums = [[[$zero; N]; T]; M];
                    for m in 0..M {
                        let bias = $splat(*ends.bias.as_ptr().add(m));
                        for t in 0..T {
                            for v in 0..N {
                                sums[m][t][v] = bias;
                            }
                        }
                    }
                    if let Some(other) = ends.other {
                        for m in 0..M {
                            for t in 0..T {
                                for v in 0..N {
                                    let at = m * pitch + t * LANES + v * (LANES / N);
                                    let other = $load(other.as_ptr().add(at));
                                    sums[m][t][v] = $add(other, sums[m][t][v]);
                                }
                            }
                        }
                    }
                    let mut x = panel.rows.as_ptr();
                    let mut w = weights.as_ptr();
                    for _ in 0..weights.len() / M {
                        let mut lanes = [[$zero; N]; T];
                        for t in 0..T {
                            for v in 0..N {
                                lanes[t][v] = $load(x.add(t * LANES + v * (LANES / N)));
                            }
                        }
                        for m in 0..M {
                            let weight = $splat(*w.add(m));
                            for t in 0..T {
                                for v in 0..N {
                                    sums[m][t][v] = $fma(weight, lanes[t][v], sums[m][t][v]);
                                }
                            }
                        }
                        // The next block's weights.
                        prefetch(w.wrapping_add(weights.len()));
                        x = x.wrapping_add(panel.pitch);
                        w = w.add(M);
                    }
                    if let Finish::Clip(low, high) = ends.finish {
                        let (low, high) = ($splat(low), $splat(high));
                        for m in 0..M {
                            for t in 0..T {
                                for v in 0..N {
                                    sums[m][t][v] = $min($max(sums[m][t][v], low), high);
                                }
                            }
                        }
                    }
                    for m in 0..M {
                        for t in 0..T {
                            for v in 0..N {
                                let at = m * pitch + t * LANES + v * (LANES / N);
                                $store(to.as_mut_ptr().add(at), sums[m][t][v]);
                            }
                        }
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernel! {
    avx2, #[target_feature(enable = "avx2,fma")], vectors: 2, sizes: [1: 1 2 3 4 5 6;],
    zero: _mm256_setzero_ps(), splat: _mm256_set1_ps, load: _mm256_loadu_ps,
    store: _mm256_storeu_ps, fma: _mm256_fmadd_ps, add: _mm256_add_ps, min: min, max: max, use crate::native::vector::x86
}

#[cfg(target_arch = "x86_64")]
kernel! {
    avx512, #[target_feature(enable = "avx512f")], vectors: 1,
    sizes: [1: 1 2 3 4 5 6 7 8 9 10 11 12; 2: 1 2 3 4 5 6 7 8 9 10 11 12;],
    zero: _mm512_setzero_ps(), splat: _mm512_set1_ps, load: _mm512_loadu_ps,
    store: _mm512_storeu_ps, fma: _mm512_fmadd_ps, add: _mm512_add_ps, min: min512, max: max512,
    use crate::native::vector::x86
}

kernel! {
    portable, , vectors: 1, sizes: [1: 1 2 3;],
    zero: [0.0f32; LANES], splat: splat, load: load, store: store, fma: fma, add: add, min: min,
    max: max, use crate::native::vector::plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::tile::{Weights, max_rows};

    fn number(i: usize) -> f32 {
        ((i * 7919 % 1013) as f32 - 500.0) / 100.0
    }

    #[test]
    fn every_instruction_set_and_size_agrees_with_the_definition() {
        let k = 37;
        let weight = |m: usize, i: usize| number(m * 100 + i);
        let bias: Vec<f32> = (0..2 * MAX_ROWS).map(|m| number(m + 5)).collect();
        for isa in Isa::available() {
            for width in 1..=width(isa) {
                for channels in 1..=2 * max_rows(isa) {
                    let weights = Weights::new(isa, channels, k, weight);
                    let (pitch, row) = (width * LANES + 3, width * LANES);
                    let rows: Vec<f32> = (0..k * pitch).map(|i| number(i + 3)).collect();
                    let other: Vec<f32> = (0..MAX_ROWS * pitch).map(|i| number(i + 7)).collect();
                    let rows = &rows[..k * pitch - 3];
                    let panel = Panel { rows, pitch, width };
                    for (block, other) in weights.blocks().zip([None, Some(&other)]) {
                        let ends = Ends {
                            bias: &bias[block.first..],
                            other: other.map(Vec::as_slice),
                            finish: Finish::Clip(-100.0, 200.0),
                        };
                        let mut sums = [0.5; MAX_ROWS * (MAX_WIDTH * LANES + 3)];
                        block.project(panel, &ends, &mut sums, pitch);
                        for (i, &got) in sums[..block.height * pitch].iter().enumerate() {
                            let (m, at) = (block.first + i / pitch, i % pitch);
                            if at >= row {
                                assert_eq!(got, 0.5, "{isa:?}");
                                continue;
                            }
                            let product = |j: usize| {
                                f64::from(weight(m, j)) * f64::from(rows[j * pitch + at])
                            };
                            let other = other.map_or(0.0, |other| other[i]);
                            let expected = f64::from(bias[m])
                                + f64::from(other)
                                + (0..k).map(product).sum::<f64>();
                            let expected = expected.clamp(-100.0, 200.0);
                            assert!((f64::from(got) - expected).abs() < 1e-2, "{isa:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn pieces_are_all_positions() {
        for isa in Isa::available() {
            for positions in 0..100 {
                let all: Vec<usize> = pieces(isa, positions).flatten().collect();
                assert!(all.iter().copied().eq(0..positions));
            }
        }
    }

    /// Bit by bit: which one is taken depends on how many positions there are.
    #[test]
    fn few_positions_have_the_sums_of_many() {
        let isa = Isa::detect();
        let k = 29;
        let bias: Vec<f32> = (0..MAX_ROWS).map(|m| number(m + 5)).collect();
        let x: Vec<f32> = (0..k * LANES).map(|i| number(i + 3)).collect();
        for channels in 1..=max_rows(isa) {
            let weights = Weights::new(isa, channels, k, |m, i| number(m * 100 + i));
            for count in 1..=few(isa) {
                for block in weights.blocks() {
                    let panel = Panel {
                        rows: &x,
                        pitch: LANES,
                        width: 1,
                    };
                    let other = [0.25; MAX_ROWS * LANES];
                    let finish = Finish::Clip(-50.0, 100.0);
                    let ends = Ends {
                        bias: &bias,
                        other: Some(&other),
                        finish,
                    };
                    let mut many = [0.0; MAX_ROWS * LANES];
                    block.project(panel, &ends, &mut many, LANES);
                    let few = Few {
                        x: &x,
                        pitch: LANES,
                        step: 1,
                        count,
                    };
                    let mut sums = [[0.25; LANES]; MAX_FEW];
                    block.project_few(few, &bias, finish, &mut sums);
                    for (p, sums) in sums[..count].iter().enumerate() {
                        for (m, sum) in sums[..block.height].iter().enumerate() {
                            assert_eq!(sum.to_bits(), many[m * LANES + p].to_bits());
                        }
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a panel that is too short")]
    fn panels_that_are_too_short_panic() {
        let weights = Weights::new(Isa::detect(), 1, 2, |_, _| 1.0);
        let panel = Panel {
            rows: &[0.0; LANES],
            pitch: LANES,
            width: 1,
        };
        let ends = Ends {
            bias: &[0.0],
            other: None,
            finish: Finish::None,
        };
        for block in weights.blocks() {
            block.project(panel, &ends, &mut [0.0; LANES], LANES);
        }
    }
}
