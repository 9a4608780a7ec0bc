//! Windows that slide over one long row: a tap is a shift, and sums of neighbours are kept in registers.
//!
//! Products are rounded before they are added, as the kernels with inputs in lanes do it.

#![allow(unsafe_code)]

use npcov_cpu::{Isa, dispatch};

use crate::native::pack::LANES;
use crate::native::tile::Finish;

/// A tap: its weight's position, and the element that position 0 sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift {
    pub(crate) weight: usize,
    pub(crate) from: usize,
}

/// What sums begin with, and what happens to them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// A number, or what is there.
    pub(crate) begin: Option<f32>,
    pub(crate) finish: Finish,
}

/// The sums of a row: `y[q] += sum over shifts of w * x[q + from]`, in their order. The row is made of
/// whole packs.
///
/// # Panics
/// When `x` ends before the last shift does, or there is no such weight.
pub(crate) fn slide(x: &[f32], weights: &[f32], shifts: &[Shift], ends: Ends, y: &mut [f32]) {
    let y = y.as_chunks_mut::<LANES>().0.as_flattened_mut();
    let inside = |s: &Shift| s.weight < weights.len() && s.from + y.len() <= x.len();
    assert!(shifts.iter().all(inside), "a shift that reaches too far");
    // SAFETY: the assertion and the length of `y` are the bounds that the kernels rely on, and an `Isa`
    // is one that this CPU has.
    unsafe { dispatch!(Isa::detect() => slide(x, weights, shifts, ends, y)) }
}

/// A kernel for one vector type: the same text for every instruction set.
macro_rules! kernel {
    (
        $isa:ident, $(#[$feature:meta])*, vectors: $n:expr, zero: $zero:expr, splat: $splat:expr,
        load: $load:expr, store: $store:expr, mul: $mul:expr, add: $add:expr, min: $min:expr,
        max: $max:expr, use $import:path
    ) => {
        mod $isa {
            use super::{Ends, Finish, Shift};
            use crate::native::pack::LANES;
            use $import::*;

            /// Numbers of a vector, and vectors of sums that are kept together.
            const WIDTH: usize = LANES / $n;
            const TOGETHER: usize = 8;

            /// # Safety
            /// The instruction set must be present, `y` whole packs, and all shifts inside of `x`.
            $(#[$feature])*
            pub(super) unsafe fn slide(
                x: &[f32], weights: &[f32], shifts: &[Shift], ends: Ends, y: &mut [f32],
            ) {
                let mut at = 0;
                // SAFETY: positions from `at` on are there, as many as vectors hold.
                unsafe {
                    while at + TOGETHER * WIDTH <= y.len() {
                        sums::<TOGETHER>(x.as_ptr().add(at), weights, shifts, ends,
                            y.as_mut_ptr().add(at));
                        at += TOGETHER * WIDTH;
                    }
                    while at + WIDTH <= y.len() {
                        sums::<1>(x.as_ptr().add(at), weights, shifts, ends,
                            y.as_mut_ptr().add(at));
                        at += WIDTH;
                    }
                }
            }

            /// # Safety
            /// As [`slide`], for `V` vectors.
            $(#[$feature])*
            #[inline]
            unsafe fn sums<const V: usize>(
                x: *const f32, weights: &[f32], shifts: &[Shift], ends: Ends, y: *mut f32,
            ) {
                // SAFETY: the caller's.
                unsafe {
                    let mut sums = [$zero; V];
                    for v in 0..V {
                        sums[v] = match ends.begin {
                            Some(begin) => $splat(begin),
                            None => $load(y.add(v * WIDTH)),
                        };
                    }
                    for shift in shifts {
                        let weight = $splat(*weights.as_ptr().add(shift.weight));
                        let x = x.add(shift.from);
                        for v in 0..V {
                            sums[v] = $add(sums[v], $mul(weight, $load(x.add(v * WIDTH))));
                        }
                    }
                    if let Finish::Clip(low, high) = ends.finish {
                        for v in 0..V {
                            sums[v] = $min($max(sums[v], $splat(low)), $splat(high));
                        }
                    }
                    for v in 0..V {
                        $store(y.add(v * WIDTH), sums[v]);
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernel! {
    avx2, #[target_feature(enable = "avx2")], vectors: 2, zero: _mm256_setzero_ps(),
    splat: _mm256_set1_ps, load: _mm256_loadu_ps, store: _mm256_storeu_ps, mul: _mm256_mul_ps,
    add: _mm256_add_ps, min: min, max: max, use crate::native::vector::x86
}

#[cfg(target_arch = "x86_64")]
kernel! {
    avx512, #[target_feature(enable = "avx512f")], vectors: 1, zero: _mm512_setzero_ps(),
    splat: _mm512_set1_ps, load: _mm512_loadu_ps, store: _mm512_storeu_ps, mul: _mm512_mul_ps,
    add: _mm512_add_ps, min: min512, max: max512, use crate::native::vector::x86
}

kernel! {
    portable, , vectors: 1, zero: [0.0f32; LANES], splat: splat, load: load, store: store, mul: mul,
    add: add, min: min, max: max, use crate::native::vector::plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_definition() {
        let weights = [0.5, -2.0, 3.0];
        let shifts = [(0, 3), (2, 0), (1, 7)].map(|(weight, from)| Shift { weight, from });
        for len in [LANES, 9 * LANES, 17 * LANES] {
            let x: Vec<f32> = (0..len + 7).map(|i| (i * 37 % 29) as f32 - 14.0).collect();
            for begin in [None, Some(1.0)] {
                let finish = Finish::Clip(-20.0, 30.0);
                let mut y = vec![2.0; len];
                slide(&x, &weights, &shifts, Ends { begin, finish }, &mut y);
                for (q, y) in y.iter().enumerate() {
                    let sums = 0.5 * x[q + 3] + 3.0 * x[q] - 2.0 * x[q + 7];
                    assert_eq!(*y, (begin.unwrap_or(2.0) + sums).clamp(-20.0, 30.0));
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a shift that reaches too far")]
    fn shifts_that_reach_too_far_panic() {
        let shifts = [Shift { weight: 0, from: 1 }];
        let ends = Ends {
            begin: None,
            finish: Finish::None,
        };
        slide(&[0.0; LANES], &[1.0], &shifts, ends, &mut [0.0; LANES]);
    }
}
