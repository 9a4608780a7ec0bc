//! Loops over many numbers with the CPU's widest vectors, which the portable x86-64 lacks.
#![allow(unsafe_code)]

/// Runs `work`, compiled for the widest vectors that this CPU has.
///
/// `work` and what it calls must be marked `#[inline(always)]`: only what is inlined here is compiled
/// for them.
#[inline]
pub(crate) fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn avx512<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        #[target_feature(enable = "avx2")]
        fn avx2<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
            // SAFETY: the CPU has the instructions.
            return unsafe { avx512(work) };
        }
        if has!("avx2") {
            // SAFETY: the CPU has the instructions.
            return unsafe { avx2(work) };
        }
    }
    work()
}
