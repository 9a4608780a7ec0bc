//! One unit, product by product: the sums and the way back of positions for which tiles lose too
//! many digits.
//!
//! Sums are chains of fused multiply-adds over taps, then channels, as direct convolutions have
//! them.

#![allow(unsafe_code)]

use std::ops::Range;

use npcov_cpu::{Isa, dispatch};

use crate::native::pack::Pack;

/// The products of one unit: some of its taps, and where in an image they apply.
#[derive(Clone, Debug)]
pub(crate) struct Single<'a> {
    /// `[tap, channel]`, for nine taps.
    pub(crate) weights: &'a [f32],
    /// Whether positive and negative weights make sums of their own.
    pub(crate) split: bool,
    pub(crate) channels: usize,
    /// Height and width of the image.
    pub(crate) extent: [usize; 2],
    /// Rows and columns of the image that the window sees, and its taps before those.
    pub(crate) window: [(Range<usize>, usize); 2],
}

impl Single<'_> {
    fn check(&self, image: usize) {
        let [height, width] = self.extent;
        let [(rows, top), (cols, left)] = &self.window;
        assert!(rows.end <= height && cols.end <= width);
        assert!(top + rows.len() <= 3 && left + cols.len() <= 3);
        assert!(self.weights.len() >= 9 * self.channels);
        assert!(image >= self.channels * height * width);
    }

    /// Adds the products with an image to the sums of positive and negative weights; to the first
    /// one when weights are not split.
    ///
    /// # Panics
    /// When the window or the image do not fit.
    pub(crate) fn add_up(&self, isa: Isa, x: &[Pack], sums: &mut [Pack; 2]) {
        self.check(x.len());
        // SAFETY: what is checked are exactly the bounds that the kernels rely on, and an `Isa` is
        // one that this CPU has.
        unsafe { dispatch!(isa => add_up(self, x, sums)) }
    }

    /// Adds to an image what factors of the sums send back.
    ///
    /// # Panics
    /// When the window or the image do not fit.
    pub(crate) fn send_back(&self, isa: Isa, factors: &[Pack; 2], image: &mut [Pack]) {
        self.check(image.len());
        // SAFETY: as in `add_up`.
        unsafe { dispatch!(isa => send_back(self, factors, image)) }
    }
}

/// A kernel for one vector type: the same text for every instruction set.
macro_rules! kernel {
    (
        $isa:ident, $(#[$feature:meta])*, vectors: $n:expr, zero: $zero:expr, splat: $splat:expr,
        load: $load:expr, store: $store:expr, fma: $fma:expr, use $import:path
    ) => {
        mod $isa {
            use super::Single;
            use crate::native::pack::{LANES, Pack};
            use $import::*;

            /// Number of vectors that make a pack, and floats in each.
            const N: usize = $n;
            const WIDTH: usize = LANES / N;

            /// # Safety
            /// The instruction set must be present and the window fit the image.
            $(#[$feature])*
            pub(super) unsafe fn add_up(single: &Single<'_>, x: &[Pack], sums: &mut [Pack; 2]) {
                let [height, width] = single.extent;
                let [(rows, top), (cols, left)] = single.window.clone();
                // SAFETY: every position is inside of the slices, the caller saw to it; a pack is
                // `N` vectors of `WIDTH` floats.
                unsafe {
                    let sums = sums.as_mut_ptr().cast::<f32>();
                    let mut own = [[$zero; N]; 2];
                    for s in 0..2 {
                        for v in 0..N {
                            own[s][v] = $load(sums.add(s * LANES + v * WIDTH));
                        }
                    }
                    for (i, row) in rows.enumerate() {
                        for (j, col) in cols.clone().enumerate() {
                            let tap = (top + i) * 3 + left + j;
                            let weights = single.weights.as_ptr().add(tap * single.channels);
                            let mut x = x.as_ptr().wrapping_add(row * width + col);
                            for c in 0..single.channels {
                                let weight = *weights.add(c);
                                let s = usize::from(single.split && weight < 0.0);
                                let weight = $splat(weight);
                                for v in 0..N {
                                    let x = $load(x.cast::<f32>().add(v * WIDTH));
                                    own[s][v] = $fma(weight, x, own[s][v]);
                                }
                                x = x.wrapping_add(height * width);
                            }
                        }
                    }
                    for s in 0..2 {
                        for v in 0..N {
                            $store(sums.add(s * LANES + v * WIDTH), own[s][v]);
                        }
                    }
                }
            }

            /// # Safety
            /// As [`add_up`].
            $(#[$feature])*
            pub(super) unsafe fn send_back(
                single: &Single<'_>, factors: &[Pack; 2], image: &mut [Pack],
            ) {
                let [height, width] = single.extent;
                let [(rows, top), (cols, left)] = single.window.clone();
                // SAFETY: as in `add_up`.
                unsafe {
                    for (i, row) in rows.enumerate() {
                        for (j, col) in cols.clone().enumerate() {
                            let tap = (top + i) * 3 + left + j;
                            let weights = single.weights.as_ptr().add(tap * single.channels);
                            let mut y = image.as_mut_ptr().wrapping_add(row * width + col);
                            for c in 0..single.channels {
                                let weight = *weights.add(c);
                                let s = usize::from(single.split && weight < 0.0);
                                let factor = factors.as_ptr().add(s).cast::<f32>();
                                let weight = $splat(weight);
                                for v in 0..N {
                                    let at = y.cast::<f32>().add(v * WIDTH);
                                    let factor = $load(factor.add(v * WIDTH));
                                    $store(at, $fma(weight, factor, $load(at)));
                                }
                                y = y.wrapping_add(height * width);
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
    avx2, #[target_feature(enable = "avx2,fma")], vectors: 2, zero: _mm256_setzero_ps(),
    splat: _mm256_set1_ps, load: _mm256_loadu_ps, store: _mm256_storeu_ps, fma: _mm256_fmadd_ps,
    use crate::native::vector::x86
}

#[cfg(target_arch = "x86_64")]
kernel! {
    avx512, #[target_feature(enable = "avx512f")], vectors: 1, zero: _mm512_setzero_ps(),
    splat: _mm512_set1_ps, load: _mm512_loadu_ps, store: _mm512_storeu_ps, fma: _mm512_fmadd_ps,
    use crate::native::vector::x86
}

kernel! {
    portable, , vectors: 1, zero: [0.0f32; LANES],
    splat: splat, load: load, store: store, fma: fma,
    use crate::native::vector::plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::pack::LANES;

    fn packs(n: usize, seed: usize) -> Vec<Pack> {
        let number = |i: usize| ((i * 7919 + seed * 104_729) % 1013) as f32 / 500.0 - 1.0;
        (0..n)
            .map(|i| Pack(std::array::from_fn(|l| number(i * LANES + l))))
            .collect()
    }

    #[test]
    fn both_ways_agree_with_the_definition() {
        let (channels, extent) = (5, [4, 6]);
        let weights: Vec<f32> = (0..9 * channels)
            .map(|i| (i * 37 % 19) as f32 / 9.0 - 1.0)
            .collect();
        let x = packs(channels * 24, 1);
        for isa in Isa::available() {
            for split in [true, false] {
                for window in [
                    [(0..2, 1), (3..6, 0)],
                    [(1..4, 0), (0..2, 1)],
                    [(0..1, 2), (5..6, 0)],
                ] {
                    let mut sums = [Pack::splat(0.5), Pack::splat(-0.5)];
                    let factors = [Pack::splat(2.0), packs(1, 2)[0]];
                    let mut image = packs(channels * 24, 3);
                    let (mut sums_of, mut image_of) = (sums, image.clone());
                    for c in 0..channels {
                        for (i, row) in window[0].0.clone().enumerate() {
                            for (j, col) in window[1].0.clone().enumerate() {
                                let tap = (window[0].1 + i) * 3 + window[1].1 + j;
                                let w = weights[tap * channels + c];
                                let s = usize::from(split && w < 0.0);
                                let at = c * 24 + row * 6 + col;
                                sums_of[s] = sums_of[s].zip(x[at], |sum, x| sum + w * x);
                                let back = |y: f32, f: f32| y + w * f;
                                image_of[at] = image_of[at].zip(factors[s], back);
                            }
                        }
                    }
                    let single = Single {
                        weights: &weights,
                        split,
                        channels,
                        extent,
                        window,
                    };
                    single.add_up(isa, &x, &mut sums);
                    single.send_back(isa, &factors, &mut image);
                    let got = sums.iter().chain(&image).flat_map(|pack| pack.0);
                    let expected = sums_of.iter().chain(&image_of).flat_map(|pack| pack.0);
                    for (got, expected) in got.zip(expected) {
                        assert!((got - expected).abs() < 1e-5, "{isa:?}: {got}, {expected}");
                    }
                }
            }
        }
    }

    #[test]
    fn without_channels_nothing_is_added() {
        let single = Single {
            weights: &[],
            split: true,
            channels: 0,
            extent: [4, 4],
            window: [(1..4, 0), (1..4, 0)],
        };
        for isa in Isa::available() {
            let mut sums = [Pack::splat(0.5), Pack::splat(-0.5)];
            single.add_up(isa, &[], &mut sums);
            assert_eq!(sums, [Pack::splat(0.5), Pack::splat(-0.5)]);
            single.send_back(isa, &sums, &mut []);
        }
    }

    #[test]
    #[should_panic(expected = "cols.end <= width")]
    fn windows_that_do_not_fit_panic() {
        let single = Single {
            weights: &[0.0; 9],
            split: false,
            channels: 1,
            extent: [4, 4],
            window: [(2..4, 0), (2..5, 0)],
        };
        single.add_up(Isa::detect(), &packs(16, 1), &mut [Pack::ZERO; 2]);
    }
}
