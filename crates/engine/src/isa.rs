//! Which instructions the CPU has, found at run time, so that a portable build is a fast one.

use std::sync::OnceLock;

/// Instruction sets that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// What every CPU of the target has.
    Portable,
    /// x86-64 with AVX2 and FMA.
    Avx2,
    /// x86-64 with AVX-512F besides.
    Avx512,
}

impl Isa {
    /// The best instruction set of this CPU.
    pub fn detect() -> Isa {
        static ISA: OnceLock<Isa> = OnceLock::new();
        *ISA.get_or_init(|| Isa::available().last().copied().unwrap_or(Isa::Portable))
    }

    /// All instruction sets of this CPU, the best one last.
    pub fn available() -> Vec<Isa> {
        #[allow(unused_mut, reason = "only x86-64 has more than one")]
        let mut list = vec![Isa::Portable];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            list.push(Isa::Avx2);
            if is_x86_feature_detected!("avx512f") {
                list.push(Isa::Avx512);
            }
        }
        list
    }

    /// The name that results are recorded with.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }
}

/// Runs `f` compiled for the CPU's wide vectors. Plain loops over packs vectorise by themselves;
/// no operation in them depends on the instruction set, so neither do their results.
///
/// `f` and what it calls must be marked `#[inline(always)]`: only what is inlined here is compiled
/// for the wider instruction set.
#[inline]
pub(crate) fn vectorised<R>(f: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn avx2<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        if Isa::detect() != Isa::Portable {
            #[allow(unsafe_code)]
            // SAFETY: every instruction set above `Portable` implies that AVX2 was detected.
            return unsafe { avx2(f) };
        }
    }
    f()
}
