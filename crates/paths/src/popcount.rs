//! Counting bits with the CPU's own instructions, which the portable x86-64 lacks.
#![allow(unsafe_code)]

/// Runs `work`, compiled for a CPU like this one: with an instruction that counts the bits of a
/// vector's words, or with vectors, or with one that counts those of a word.
///
/// `work` and what it calls must be marked `#[inline(always)]`: only what is inlined here is compiled
/// for it.
#[inline]
pub(crate) fn counting<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512vpopcntdq")]
        fn of_vectors<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        #[target_feature(enable = "avx2,popcnt")]
        fn with_vectors<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        #[target_feature(enable = "popcnt")]
        fn of_words<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512f") && has!("avx512dq") && has!("avx512vl") && has!("avx512vpopcntdq") {
            // SAFETY: the CPU has the instructions.
            return unsafe { of_vectors(work) };
        }
        if has!("avx2") && has!("popcnt") {
            // SAFETY: the CPU has the instructions.
            return unsafe { with_vectors(work) };
        }
        if has!("popcnt") {
            // SAFETY: the CPU has the instruction.
            return unsafe { of_words(work) };
        }
    }
    work()
}
