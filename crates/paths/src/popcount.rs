//! Counting bits with the CPU's own instruction, which the portable x86-64 lacks.
#![allow(unsafe_code)]

/// Runs `work`, compiled for CPUs with the instruction where this is one.
///
/// `work` and what it calls must be marked `#[inline(always)]`: only what is inlined here is compiled
/// for it.
#[inline]
pub(crate) fn counting<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "popcnt")]
        fn with_instruction<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        if std::arch::is_x86_feature_detected!("popcnt") {
            // SAFETY: the CPU has the instruction.
            return unsafe { with_instruction(work) };
        }
    }
    work()
}
