//! Rows of maps at a stride, with zeros for what lies beyond: what neighbouring positions see under a tap.

#![allow(unsafe_code)]

use npcov_cpu::{Isa, dispatch};

/// Neighbouring positions, which see numbers of a map so many apart.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Where the first one sees, counted from the beginning of the map, if that is there.
    pub(crate) first: isize,
    pub(crate) step: usize,
    /// The positions that see the map; others see zeros.
    pub(crate) inside: std::ops::Range<usize>,
    pub(crate) len: usize,
}

/// Sets `y[c * pitch + i]` to what position `i` sees of the map `c` of `x`, for each of the maps of so many numbers.
///
/// # Panics
/// When a position inside sees no number of a map, or has no place in `y`.
pub(crate) fn pick(x: &[f32], map: usize, run: &Run, y: &mut [f32], pitch: usize) {
    let count = x.len() / map.max(1);
    if count == 0 || run.len == 0 {
        return;
    }
    let seen = |i: usize| run.first + (i * run.step) as isize;
    if let Some(last) = run.inside.clone().next_back() {
        let there = seen(run.inside.start) >= 0 && seen(last) < map as isize;
        assert!(there && last < run.len, "a position that sees nothing");
    }
    assert!((count - 1) * pitch + run.len <= y.len());
    // SAFETY: the assertions are the bounds that the kernels rely on, and an `Isa` is one that this CPU has.
    unsafe { dispatch!(Isa::detect() => pick((x, map, count), run, y, pitch)) }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{Run, portable};
    use crate::native::pack::LANES;
    use std::arch::x86_64::*;

    /// # Safety
    /// The CPU must have AVX-512F, positions inside see numbers of each of the `count` maps, and all positions have
    /// places in `y`.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn pick(
        (x, map, count): (&[f32], usize, usize),
        run: &Run,
        y: &mut [f32],
        pitch: usize,
    ) {
        if run.step == 0 || run.step > 2 {
            // SAFETY: the caller's.
            return unsafe { portable::pick((x, map, count), run, y, pitch) };
        }
        let low = |bits: usize| (1u64 << bits) - 1;
        let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        for at in (0..run.len).step_by(LANES) {
            // Numbers from the one that position `at` sees to the last one of its vector that is inside. Behind that
            // one the map may end.
            let number = |i: usize| (i.clamp(at, at + LANES) - at) * run.step;
            let behind = number(run.inside.end).saturating_sub(run.step - 1);
            let seen = low(behind) & !low(number(run.inside.start));
            let places = low((run.len - at).min(LANES)) as __mmask16;
            let first = run.first + (at * run.step) as isize;
            for c in 0..count {
                let x = x.as_ptr().wrapping_add(c * map).wrapping_offset(first);
                // SAFETY: what is inside is there, what is between two such numbers too, and the rest is masked.
                unsafe {
                    let mut seen_by = _mm512_maskz_loadu_ps(seen as __mmask16, x);
                    if run.step == 2 {
                        let more = (seen >> LANES) as __mmask16;
                        let next = _mm512_maskz_loadu_ps(more, x.wrapping_add(LANES));
                        seen_by = _mm512_permutex2var_ps(seen_by, even, next);
                    }
                    let to = y.as_mut_ptr().add(c * pitch + at);
                    _mm512_mask_storeu_ps(to, places, seen_by);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
use portable as avx2;

mod portable {
    use super::Run;
    use npcov_cpu::vectorised;

    /// # Safety
    /// None: it is a name among others that have some.
    pub(super) unsafe fn pick(
        (x, map, count): (&[f32], usize, usize),
        run: &Run,
        y: &mut [f32],
        pitch: usize,
    ) {
        let inside = run.inside.start.min(run.inside.end)..run.inside.end;
        let first = run.first.wrapping_add((inside.start * run.step) as isize);
        vectorised(
            #[inline(always)]
            || {
                for c in 0..count {
                    let row = &mut y[c * pitch..][..run.len];
                    row[..inside.start].fill(0.0);
                    row[inside.end..].fill(0.0);
                    if inside.is_empty() {
                        continue;
                    }
                    let x = &x[(c * map).wrapping_add_signed(first)..];
                    let row = &mut row[inside.clone()];
                    match run.step {
                        1 => row.copy_from_slice(&x[..row.len()]),
                        step => {
                            for (y, x) in row.iter_mut().zip(x.iter().step_by(step.max(1))) {
                                *y = *x;
                            }
                        }
                    }
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number by number, with and without the CPU's best instructions.
    #[test]
    fn positions_see_what_is_inside_and_zeros_else() {
        let map = 100;
        let x: Vec<f32> = (0..3 * map).map(|i| i as f32 + 1.0).collect();
        for (first, step, inside, len) in [
            (0, 1, 0..32, 32),
            (-1, 1, 1..20, 20),
            (-3, 2, 2..16, 16),
            (5, 2, 0..33, 40),
            (81, 2, 0..10, 31),
            (99, 1, 0..1, 7),
            (7, 3, 0..31, 32),
            (-200, 2, 0..0, 18),
            (300, 1, 9..9, 9),
        ] {
            let run = Run {
                first,
                step,
                inside: inside.clone(),
                len,
            };
            let pitch = len + 2;
            let mut picked = vec![-1.0; 3 * pitch];
            pick(&x, map, &run, &mut picked, pitch);
            let mut plainly = vec![-1.0; 3 * pitch];
            // SAFETY: there is nothing to see to.
            unsafe { portable::pick((&x, map, 3), &run, &mut plainly, pitch) };
            for (i, y) in picked.iter().enumerate() {
                let (c, i) = (i / pitch, i % pitch);
                let expected = match i {
                    _ if i >= len => -1.0,
                    _ if !inside.contains(&i) => 0.0,
                    _ => x[(c * map + i * step).strict_add_signed(first)],
                };
                assert_eq!(*y, expected, "{run:?} {c} {i}");
            }
            assert_eq!(picked, plainly, "{run:?}");
        }
    }

    #[test]
    #[should_panic(expected = "a position that sees nothing")]
    fn positions_beyond_a_map_panic() {
        let run = Run {
            first: 1,
            step: 2,
            inside: 0..2,
            len: 2,
        };
        pick(&[0.0; 6], 3, &run, &mut [0.0; 4], 2);
    }
}
