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
