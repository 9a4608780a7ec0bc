//! Products of one input by itself: a block of output channels times sixteen positions, or thirty-two.
//!
//! What the positions see stands in a *panel*: for each product of a channel a pack or two, whose lanes
//! are positions. A block of [`Weights`](crate::native::tile::Weights) walks over it; each pack is loaded
//! once for all channels of the block, each weight is broadcast once for all packs.
//!
//! Every sum is one chain of fused multiply-adds in the order of the weights, as it is with inputs in
//! lanes: the same bits.

#![allow(unsafe_code)]

use npcov_cpu::{Isa, Vectors, dispatch};

use crate::native::pack::Pack;
use crate::native::tile::Block;

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

impl Block<'_> {
    /// Adds to the sums of each channel, `width` packs, its products with a panel: `width` packs for
    /// each of its weights.
    ///
    /// # Panics
    /// When the panel or the sums are too short, or there is no kernel of this width.
    pub(crate) fn accumulate(&self, width: usize, panel: &[Pack], sums: &mut [Pack]) {
        if self.height == 0 {
            return;
        }
        assert!(panel.len() >= self.k() * width && sums.len() >= self.height * width);
        // SAFETY: the assertion above, and the block's own length, are the bounds that the kernels rely
        // on, and an `Isa` is one that this CPU has.
        unsafe { dispatch!(self.isa() => accumulate(self, width, panel, sums)) }
    }
}

/// A kernel for one vector type: the same text for every instruction set.
macro_rules! kernel {
    (
        $isa:ident, $(#[$feature:meta])*, vectors: $n:expr,
        sizes: [$($width:literal: $($height:literal)*;)*],
        zero: $zero:expr, splat: $splat:expr, load: $load:expr, store: $store:expr,
        fma: $fma:expr, use $import:path
    ) => {
        mod $isa {
            use super::Block;
            use crate::native::pack::{LANES, Pack};
            use $import::*;

            /// Number of vectors that make a pack.
            const N: usize = $n;

            /// # Safety
            /// The instruction set must be present and all positions inside of the slices.
            $(#[$feature])*
            pub(super) unsafe fn accumulate(
                block: &Block<'_>, width: usize, panel: &[Pack], sums: &mut [Pack],
            ) {
                // SAFETY: the caller's.
                unsafe {
                    match (width, block.height) {
                        $($(($width, $height) => {
                            rows::<$height, $width>(block.weights(), panel, sums);
                        })*)*
                        sizes => panic!("no kernel for a panel of {sizes:?}"),
                    }
                }
            }

            /// # Safety
            /// As [`accumulate`].
            $(#[$feature])*
            #[inline(never)]
            unsafe fn rows<const M: usize, const T: usize>(
                weights: &[f32], panel: &[Pack], sums: &mut [Pack],
            ) {
                // SAFETY: every position is inside of the slices, the caller saw to it; a pack is
                // `N` vectors of `LANES / N` floats.
                unsafe {
                    let out = sums.as_mut_ptr().cast::<f32>();
                    let mut sums = [[[$zero; N]; T]; M];
                    for m in 0..M {
                        for t in 0..T {
                            for v in 0..N {
                                sums[m][t][v] =
                                    $load(out.add((m * T + t) * LANES + v * (LANES / N)));
                            }
                        }
                    }
                    let mut x = panel.as_ptr().cast::<f32>();
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
                        x = x.add(T * LANES);
                        w = w.add(M);
                    }
                    for m in 0..M {
                        for t in 0..T {
                            for v in 0..N {
                                let at = out.add((m * T + t) * LANES + v * (LANES / N));
                                $store(at, sums[m][t][v]);
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
    store: _mm256_storeu_ps, fma: _mm256_fmadd_ps, use crate::native::vector::x86
}

#[cfg(target_arch = "x86_64")]
kernel! {
    avx512, #[target_feature(enable = "avx512f")], vectors: 1,
    sizes: [1: 1 2 3 4 5 6 7 8 9 10 11 12; 2: 1 2 3 4 5 6 7 8 9 10 11 12;],
    zero: _mm512_setzero_ps(), splat: _mm512_set1_ps, load: _mm512_loadu_ps,
    store: _mm512_storeu_ps, fma: _mm512_fmadd_ps, use crate::native::vector::x86
}

kernel! {
    portable, , vectors: 1, sizes: [1: 1 2 3;],
    zero: [0.0f32; LANES], splat: splat, load: load, store: store, fma: fma,
    use crate::native::vector::plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::pack::LANES;
    use crate::native::tile::{Weights, max_rows};

    fn number(i: usize) -> f32 {
        ((i * 7919 % 1013) as f32 - 500.0) / 100.0
    }

    #[test]
    fn every_instruction_set_and_size_agrees_with_the_definition() {
        let k = 37;
        let weight = |m: usize, i: usize| number(m * 100 + i);
        for isa in Isa::available() {
            for width in 1..=width(isa) {
                for channels in 1..=2 * max_rows(isa) {
                    let weights = Weights::new(isa, channels, k, weight);
                    let panel: Vec<Pack> = (0..k * width)
                        .map(|i| Pack(std::array::from_fn(|l| number(i * LANES + l + 3))))
                        .collect();
                    for block in weights.blocks() {
                        let mut sums = [Pack::splat(0.5); MAX_ROWS * MAX_WIDTH];
                        block.accumulate(width, &panel, &mut sums);
                        for (i, sum) in sums[..block.height * width].iter().enumerate() {
                            for (lane, &got) in sum.0.iter().enumerate() {
                                let product = |j: usize| {
                                    let x = panel[j * width + i % width].0[lane];
                                    f64::from(weight(block.first + i / width, j)) * f64::from(x)
                                };
                                let expected = 0.5 + (0..k).map(product).sum::<f64>();
                                assert!((f64::from(got) - expected).abs() < 1e-2, "{isa:?}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "panel.len() >= self.k() * width")]
    fn panels_that_are_too_short_panic() {
        let weights = Weights::new(Isa::detect(), 1, 2, |_, _| 1.0);
        for block in weights.blocks() {
            block.accumulate(1, &[Pack::ZERO], &mut [Pack::ZERO]);
        }
    }
}
