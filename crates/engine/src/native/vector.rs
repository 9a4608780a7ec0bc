//! A pack in vector registers: what the kernels with hand-written vector code are made of.

#![allow(unsafe_code)]

/// Intrinsics, and limits that let a NaN through: `maxps` returns its second operand when one is
/// not a number, so the value under test stands second.
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    pub(crate) use std::arch::x86_64::*;

    /// Asks for a cache line; any address will do.
    #[inline(always)]
    pub(crate) fn prefetch(at: *const f32) {
        // SAFETY: a hint; nothing is read.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }

    /// What says to loads which lanes there are: those of which there is a bit.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(crate) fn mask(lanes: u32) -> __m256i {
        let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        let some = _mm256_and_si256(_mm256_set1_epi32(lanes.cast_signed()), bits);
        _mm256_cmpeq_epi32(some, bits)
    }

    /// As [`mask`].
    #[inline(always)]
    pub(crate) fn mask512(lanes: u32) -> __mmask16 {
        lanes as __mmask16
    }

    /// The lanes of a mask; the others are zero.
    ///
    /// # Safety
    /// The floats of those lanes must be readable.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(crate) unsafe fn load_some(at: *const f32, mask: __m256i) -> __m256 {
        // SAFETY: the caller's.
        unsafe { _mm256_maskload_ps(at, mask) }
    }

    /// As [`load_some`].
    ///
    /// # Safety
    /// As [`load_some`].
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(crate) unsafe fn load_some512(at: *const f32, mask: __mmask16) -> __m512 {
        // SAFETY: the caller's.
        unsafe { _mm512_maskz_loadu_ps(mask, at) }
    }

    /// Every other number of two vectors, beginning with the first one and with the second one.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(crate) fn deal(a: __m256, b: __m256) -> [__m256; 2] {
        let even = _mm256_castps_pd(_mm256_shuffle_ps::<0x88>(a, b));
        let odd = _mm256_castps_pd(_mm256_shuffle_ps::<0xdd>(a, b));
        [
            _mm256_castpd_ps(_mm256_permute4x64_pd::<0xd8>(even)),
            _mm256_castpd_ps(_mm256_permute4x64_pd::<0xd8>(odd)),
        ]
    }

    /// As [`deal`].
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(crate) fn deal512(a: __m512, b: __m512) -> [__m512; 2] {
        let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        let odd = _mm512_or_epi32(even, _mm512_set1_epi32(1));
        [
            _mm512_permutex2var_ps(a, even, b),
            _mm512_permutex2var_ps(a, odd, b),
        ]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(crate) fn max(x: __m256, low: __m256) -> __m256 {
        _mm256_max_ps(low, x)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(crate) fn min(x: __m256, high: __m256) -> __m256 {
        _mm256_min_ps(high, x)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(crate) fn max512(x: __m512, low: __m512) -> __m512 {
        _mm512_max_ps(low, x)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(crate) fn min512(x: __m512, high: __m512) -> __m512 {
        _mm512_min_ps(high, x)
    }
}

/// A pack as an array, for compilers to vectorise as they can.
pub(crate) mod plain {
    use npcov_cpu::{Arithmetic, PORTABLE_ARITHMETIC};

    use crate::native::pack::LANES;

    type Vector = [f32; LANES];

    /// Asks for a cache line, where there is a portable way to.
    #[inline(always)]
    pub(crate) fn prefetch(_: *const f32) {}

    #[inline(always)]
    pub(crate) fn splat(x: f32) -> Vector {
        [x; LANES]
    }

    /// # Safety
    /// `LANES` floats must be readable at `at`.
    #[inline(always)]
    pub(crate) unsafe fn load(at: *const f32) -> Vector {
        // SAFETY: the caller's.
        unsafe { at.cast::<Vector>().read() }
    }

    /// What says to loads which lanes there are: those of which there is a bit.
    #[inline(always)]
    pub(crate) fn mask(lanes: u32) -> u32 {
        lanes
    }

    /// The lanes of a mask; the others are zero.
    ///
    /// # Safety
    /// The floats of those lanes must be readable.
    #[inline(never)] // It has a branch for each lane.
    pub(crate) unsafe fn load_some(at: *const f32, mask: u32) -> Vector {
        std::array::from_fn(|l| match mask >> l & 1 {
            0 => 0.0,
            // SAFETY: the caller's.
            _ => unsafe { at.wrapping_add(l).read() },
        })
    }

    /// Every other number of two vectors, beginning with the first one and with the second one.
    #[inline(never)]
    pub(crate) fn deal(a: Vector, b: Vector) -> [Vector; 2] {
        let number = |i: usize| if i < LANES { a[i] } else { b[i - LANES] };
        [0, 1].map(|first| std::array::from_fn(|l| number(2 * l + first)))
    }

    /// # Safety
    /// `LANES` floats must be writable at `at`.
    #[inline(always)]
    pub(crate) unsafe fn store(at: *mut f32, x: Vector) {
        // SAFETY: the caller's.
        unsafe { at.cast::<Vector>().write(x) }
    }

    #[inline(always)]
    fn zip(a: Vector, b: Vector, f: impl Fn(f32, f32) -> f32) -> Vector {
        std::array::from_fn(|l| f(a[l], b[l]))
    }

    /// Fused or not, as portable kernels are.
    #[inline(always)]
    pub(crate) fn fma(a: Vector, b: Vector, c: Vector) -> Vector {
        std::array::from_fn(|l| match PORTABLE_ARITHMETIC {
            Arithmetic::Fused => a[l].mul_add(b[l], c[l]),
            Arithmetic::Unfused => a[l] * b[l] + c[l],
        })
    }

    #[inline(always)]
    pub(crate) fn add(a: Vector, b: Vector) -> Vector {
        zip(a, b, |a, b| a + b)
    }

    #[inline(always)]
    pub(crate) fn sub(a: Vector, b: Vector) -> Vector {
        zip(a, b, |a, b| a - b)
    }

    #[inline(always)]
    pub(crate) fn mul(a: Vector, b: Vector) -> Vector {
        zip(a, b, |a, b| a * b)
    }

    #[inline(always)]
    pub(crate) fn max(x: Vector, low: Vector) -> Vector {
        zip(x, low, |x, low| if low > x { low } else { x })
    }

    #[inline(always)]
    pub(crate) fn min(x: Vector, high: Vector) -> Vector {
        zip(x, high, |x, high| if high < x { high } else { x })
    }
}
