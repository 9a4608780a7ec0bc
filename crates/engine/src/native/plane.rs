//! Square windows that slide over the rows of a plane, as most depthwise convolutions have them.
//!
//! A plane is read where it stands and written where it belongs: lanes that a window sees in the padding are
//! masked, rows in the padding are left out. The sums of a few rows are kept in registers, so that a number that was loaded
//! serves all windows that see it. Products are rounded before they are added, as the kernels with inputs in
//! lanes do it, and in the same order.

#![allow(unsafe_code)]

use npcov_cpu::{Isa, dispatch};

use crate::native::tile::Finish;

/// Rows of sums that are kept in registers. Maps of images of 224x224 have 7 rows, or twice, four times... as many.
const ROWS: usize = 7;

/// How windows slide over a plane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// Height and width of what is seen, and of what comes out.
    x: [usize; 2],
    y: [usize; 2],
    /// Padding before the plane.
    pads: [usize; 2],
    size: Size,
}

/// Windows that there is a kernel for, by the length of a side and the stride.
#[derive(Clone, Copy, Debug)]
enum Size {
    Three,
    ThreeByTwo,
    Five,
    FiveByTwo,
    Seven,
}

impl Windows {
    /// Windows of `kernel` rows and columns; nothing where there is no kernel for them.
    pub(crate) fn new(
        x: [usize; 2],
        y: [usize; 2],
        pads: [usize; 2],
        kernel: [usize; 2],
        strides: [usize; 2],
    ) -> Option<Windows> {
        let size = match (kernel, strides) {
            ([3, 3], [1, 1]) => Size::Three,
            ([3, 3], [2, 2]) => Size::ThreeByTwo,
            ([5, 5], [1, 1]) => Size::Five,
            ([5, 5], [2, 2]) => Size::FiveByTwo,
            ([7, 7], [1, 1]) => Size::Seven,
            _ => return None,
        };
        Some(Windows { x, y, pads, size })
    }

    /// The sums of a plane, `begin` added, which are written to the beginning of `y`. A short last row may
    /// spill into what follows there.
    ///
    /// # Panics
    /// When the plane, the weights or the room for the sums are too short.
    pub(crate) fn slide(
        &self,
        isa: Isa,
        x: &[f32],
        weights: &[f32],
        begin: f32,
        finish: Finish,
        y: &mut [f32],
    ) {
        let taps = match self.size {
            Size::Three | Size::ThreeByTwo => 9,
            Size::Five | Size::FiveByTwo => 25,
            Size::Seven => 49,
        };
        assert!(x.len() >= self.x[0] * self.x[1] && weights.len() >= taps);
        assert!(y.len() >= self.y[0] * self.y[1], "no room for the sums");
        // SAFETY: the assertions are the bounds that the kernels rely on, and an `Isa` is one that this
        // CPU has.
        unsafe { dispatch!(isa => slide(self, x, weights, begin, finish, y)) }
    }
}

/// The body once for each number, as a constant: loops that must not be left to the compiler.
macro_rules! each {
    ($name:ident in [$($number:literal)*] $body:block) => { $({ const $name: usize = $number; $body })* };
}

/// A kernel for one vector type: the same text for every instruction set.
macro_rules! kernel {
    (
        $isa:ident, $(#[$feature:meta])*, width: $width:expr, splat: $splat:expr,
        mask: $mask:expr, load_some: $load_some:expr, store: $store:expr, deal: $deal:expr, mul: $mul:expr, add: $add:expr,
        min: $min:expr, max: $max:expr, use $import:path
    ) => {
        mod $isa {
            use super::{Finish, ROWS, Size, Windows};
            use $import::*;

            /// Numbers of a vector.
            const WIDTH: usize = $width;

            /// # Safety
            /// The instruction set must be present, and the slices as long as `windows` says.
            $(#[$feature])*
            pub(super) unsafe fn slide(
                windows: &Windows, x: &[f32], weights: &[f32], begin: f32, finish: Finish, y: &mut [f32],
            ) {
                // SAFETY: the caller's.
                unsafe {
                    match windows.size {
                        Size::Three => plane::<3, 1>(windows, x, weights, begin, finish, y),
                        Size::ThreeByTwo => plane::<3, 2>(windows, x, weights, begin, finish, y),
                        Size::Five => plane::<5, 1>(windows, x, weights, begin, finish, y),
                        Size::FiveByTwo => plane::<5, 2>(windows, x, weights, begin, finish, y),
                        Size::Seven => plane::<7, 1>(windows, x, weights, begin, finish, y),
                    }
                }
            }

            /// Windows of `K` by `K` that are `S` apart.
            ///
            /// # Safety
            /// As [`slide`].
            $(#[$feature])*
            unsafe fn plane<const K: usize, const S: usize>(
                windows: &Windows, x: &[f32], weights: &[f32], begin: f32, finish: Finish, y: &mut [f32],
            ) {
                let Windows { x: [x_height, x_width], y: [height, width], pads, .. } = *windows;
                let mut taps = [[$splat(0.0); K]; K];
                for (taps, weights) in taps.iter_mut().zip(weights.chunks_exact(K)) {
                    for (tap, weight) in taps.iter_mut().zip(weights) {
                        *tap = $splat(*weight);
                    }
                }
                let (low, high) = match finish {
                    Finish::None => ($splat(f32::NEG_INFINITY), $splat(f32::INFINITY)),
                    Finish::Clip(low, high) => ($splat(low), $splat(high)),
                };
                for row in (0..height).step_by(ROWS) {
                    // Rows that these windows see, counted from the first one, which may lie in the padding.
                    let seen = pads[0].saturating_sub(row * S)
                        ..(x_height + pads[0]).saturating_sub(row * S);
                    let line = x.as_ptr().wrapping_add(row * S * x_width)
                        .wrapping_sub(pads[0] * x_width + pads[1]);
                    let mut column = 0;
                    loop {
                        let mut sums = [$splat(begin); ROWS];
                        // Elements of a line that are none of the padding, as bits.
                        let bits = |end: usize| (1_u64 << end.saturating_sub(column * S).min(63)) - 1;
                        let line_bits = bits(x_width + pads[1]) & !bits(pads[1]);
                        let mut inside = [$mask(0); K];
                        let mut behind = [$mask(0); K];
                        for k in 0..K {
                            inside[k] = $mask((line_bits >> k) as u32);
                            behind[k] = $mask((line_bits >> (k + WIDTH)) as u32);
                        }
                        each!(T in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16] {
                            if T < (ROWS - 1) * S + K && seen.contains(&T) {
                                let line = line.wrapping_add(T * x_width + column * S);
                                let mut pair = [$splat(0.0); 2];
                                for k in 0..K {
                                    // SAFETY: the row is one of the plane's, and only lanes inside of it are read.
                                    unsafe {
                                        if S == 1 {
                                            pair[0] = $load_some(line.wrapping_add(k), inside[k]);
                                        } else if k % 2 == 0 {
                                            pair = $deal(
                                                $load_some(line.wrapping_add(k), inside[k]),
                                                $load_some(line.wrapping_add(k + WIDTH), behind[k]),
                                            );
                                        }
                                    }
                                    let seen = pair[if S == 1 { 0 } else { k % 2 }];
                                    for r in 0..ROWS {
                                        if T >= r * S && T < r * S + K {
                                            sums[r] = $add(sums[r], $mul(taps[T - r * S][k], seen));
                                        }
                                    }
                                }
                            }
                        });
                        for r in 0..ROWS {
                            sums[r] = $min($max(sums[r], low), high);
                        }
                        let at = row * width + column;
                        // What is written behind a row that is shorter than a vector is written again.
                        if row + ROWS <= height && at + (ROWS - 1) * width + WIDTH <= y.len() {
                            for r in 0..ROWS {
                                // SAFETY: there is room for the last vector.
                                unsafe { $store(y.as_mut_ptr().add(at + r * width), sums[r]) };
                            }
                        } else {
                            let mut numbers = [[0.0; WIDTH]; ROWS];
                            for r in 0..ROWS {
                                // SAFETY: a vector has so many numbers.
                                unsafe { $store(numbers[r].as_mut_ptr(), sums[r]) };
                            }
                            let rows = y[at..].chunks_mut(width.max(1)).take(height - row);
                            for (y, numbers) in rows.zip(&numbers) {
                                let len = width.min(WIDTH);
                                y[..len].copy_from_slice(&numbers[..len]);
                            }
                        }
                        // The last vector of a row ends with it, and has some of what the one before has.
                        if column + WIDTH >= width {
                            break;
                        }
                        column = (column + WIDTH).min(width - WIDTH);
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernel! {
    avx2, #[target_feature(enable = "avx2")], width: 8, splat: _mm256_set1_ps,
    mask: mask, load_some: load_some, store: _mm256_storeu_ps, deal: deal, mul: _mm256_mul_ps,
    add: _mm256_add_ps, min: min, max: max, use crate::native::vector::x86
}

#[cfg(target_arch = "x86_64")]
kernel! {
    avx512, #[target_feature(enable = "avx512f")], width: 16, splat: _mm512_set1_ps,
    mask: mask512, load_some: load_some512, store: _mm512_storeu_ps, deal: deal512, mul: _mm512_mul_ps,
    add: _mm512_add_ps, min: min512, max: max512, use crate::native::vector::x86
}

kernel! {
    portable, , width: crate::native::pack::LANES, splat: splat,
    mask: mask, load_some: load_some, store: store, deal: deal, mul: mul, add: add, min: min, max: max,
    use crate::native::vector::plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One sum, by the definition.
    fn naive(
        x: &[f32],
        size: [usize; 2],
        pad: [usize; 2],
        weights: &[f32],
        k: usize,
        at: [usize; 2],
    ) -> f32 {
        let mut sum = 0.25;
        for (tap, weight) in weights.iter().enumerate() {
            // Past the end for what lies in the padding before the beginning.
            let row = (at[0] + tap / k).wrapping_sub(pad[0]);
            let column = (at[1] + tap % k).wrapping_sub(pad[1]);
            if row < size[0] && column < size[1] {
                sum += weight * x[row * size[1] + column];
            }
        }
        sum
    }

    #[test]
    fn sums_are_those_of_the_definition() {
        let sizes = [
            [1, 1],
            [2, 3],
            [7, 7],
            [8, 14],
            [9, 16],
            [5, 23],
            [12, 33],
            [6, 100],
        ];
        for (k, stride) in [(3_usize, 1), (3, 2), (5, 1), (5, 2), (7, 1)] {
            let weights: Vec<f32> = (0..k * k)
                .map(|i| (i * 23 % 17) as f32 / 7.0 - 1.0)
                .collect();
            for (size, pad) in sizes
                .iter()
                .flat_map(|size| (0..k).map(move |pad| (*size, pad)))
            {
                let x: Vec<f32> = (0..size[0] * size[1])
                    .map(|i| (i * 37 % 29) as f32 / 3.0 - 4.0)
                    .collect();
                let pads = [pad, k - 1 - pad];
                // As much padding at the end as at the beginning.
                let y: [usize; 2] = std::array::from_fn(|a| {
                    (size[a] + 2 * pads[a])
                        .checked_sub(k)
                        .map_or(0, |room| room / stride + 1)
                });
                let windows = Windows::new(size, y, pads, [k, k], [stride, stride]).unwrap();
                let finish = Finish::Clip(-20.0, 30.0);
                for isa in Isa::available() {
                    for spare in [0, 40] {
                        let mut sums = vec![f32::NAN; y[0] * y[1] + spare];
                        windows.slide(isa, &x, &weights, 0.25, finish, &mut sums);
                        for (i, sum) in sums[..y[0] * y[1]].iter().enumerate() {
                            let at = [i / y[1] * stride, i % y[1] * stride];
                            let expected =
                                naive(&x, size, pads, &weights, k, at).clamp(-20.0, 30.0);
                            assert_eq!(
                                *sum, expected,
                                "{k} {stride} {size:?} {pads:?} {isa:?} {i}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn other_windows_have_no_kernel() {
        let none =
            |kernel, strides| Windows::new([9, 9], [1, 1], [0, 0], kernel, strides).is_none();
        assert!(none([3, 5], [1, 1]) && none([3, 3], [1, 2]) && none([7, 7], [2, 2]));
    }

    #[test]
    #[should_panic(expected = "no room for the sums")]
    fn sums_without_room_panic() {
        let windows = Windows::new([3, 3], [3, 3], [1, 1], [3, 3], [1, 1]).unwrap();
        let x = [0.0; 9];
        windows.slide(Isa::detect(), &x, &x, 0.0, Finish::None, &mut [0.0; 8]);
    }
}
