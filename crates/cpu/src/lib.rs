//! Which vector instructions this CPU has, and code that is compiled for them.
//!
//! They are found when a program runs, so that a portable build is a fast one. There are two ways to use
//! them. Kernels that are written for certain instructions are chosen by an [`Isa`], which says which
//! ones there are ([`dispatch!`]). Plain loops are compiled several times, and run as the CPU allows:
//! [`vectorised`], [`widest`], [`counting`]. One loop that compilers do not do well by is here itself:
//! [`products`].
//!
//! ```
//! use npcov_cpu::Isa;
//!
//! let best = Isa::detect();
//! assert_eq!(Isa::named(best.name()), Some(best));
//! assert_eq!(Isa::named("abacus"), None);
//! ```
//!
//! This crate knows nothing of npcov. `npcov-engine`, `npcov-criteria` and `npcov-paths` run their loops
//! by it.

#![allow(unsafe_code)]

mod denormals;
mod products;

use std::sync::OnceLock;

pub use denormals::FlushDenormals;
pub use products::products;

/// Vector instructions that kernels are written for, each with those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vectors {
    /// What every CPU of the target has.
    Portable,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512F.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Vectors {
    /// All that kernels are written for, on this target.
    const ALL: &'static [Vectors] = &[
        Vectors::Portable,
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2,
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512,
    ];

    fn name(self) -> &'static str {
        match self {
            Vectors::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512 => "avx512",
        }
    }
}

/// An instruction set of this CPU; larger ones come later in order.
///
/// Only detection makes one: who has an `Isa` may run its instructions. So code that takes one is safe
/// to call, and no literal can be written for a CPU that is not there:
///
/// ```compile_fail,E0603
/// let isa = npcov_cpu::Isa(npcov_cpu::Vectors::Portable);
/// ```
///
/// ```compile_fail,E0308
/// let isa: npcov_cpu::Isa = npcov_cpu::Vectors::Portable;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Isa(Vectors);

impl Isa {
    /// The largest one.
    #[inline]
    pub fn detect() -> Isa {
        Isa(Cpu::this().best)
    }

    /// All of them, the largest one last.
    pub fn available() -> impl DoubleEndedIterator<Item = Isa> {
        up_to(Cpu::this().best)
    }

    /// The one of a name, if this CPU has it.
    pub fn named(name: &str) -> Option<Isa> {
        Isa::available().find(|isa| isa.name() == name)
    }

    /// The name that results are recorded with.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Its instructions, to choose a kernel by.
    #[inline]
    pub fn vectors(self) -> Vectors {
        self.0
    }

    /// How kernels that are written for it add up products.
    #[inline]
    pub fn arithmetic(self) -> Arithmetic {
        match self.0 {
            Vectors::Portable => PORTABLE_ARITHMETIC,
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2 | Vectors::Avx512 => Arithmetic::Fused,
        }
    }
}

/// What a CPU has whose largest set is `best`.
fn up_to(best: Vectors) -> impl DoubleEndedIterator<Item = Isa> {
    let all = Vectors::ALL.iter().copied();
    all.filter(move |vectors| *vectors <= best).map(Isa)
}

/// How products are added up. Kernels with the same arithmetic give the same bits, whatever the width
/// of their vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arithmetic {
    /// A product and the sum it is added to are rounded once, together.
    Fused,
    /// A product is rounded, and then the sum.
    Unfused,
}

impl Arithmetic {
    /// The name that results are recorded with.
    pub fn name(self) -> &'static str {
        match self {
            Arithmetic::Fused => "fused",
            Arithmetic::Unfused => "unfused",
        }
    }
}

/// How portable kernels add up products: fused where every CPU of the target has the instruction.
/// Elsewhere it would be a library call.
pub const PORTABLE_ARITHMETIC: Arithmetic = match cfg!(target_arch = "aarch64") {
    true => Arithmetic::Fused,
    false => Arithmetic::Unfused,
};

/// Calls a function of the module that is named as an [`Isa`]: `avx2`, `avx512` or `portable`.
///
/// Such functions are unsafe, because a CPU may not have their instructions. An `Isa` says that this one
/// has them.
///
/// ```
/// use npcov_cpu::{Isa, dispatch};
///
/// #[cfg(target_arch = "x86_64")]
/// mod avx2 {
///     #[target_feature(enable = "avx2,fma")]
///     pub fn double(x: f32) -> f32 { x + x }
/// }
/// #[cfg(target_arch = "x86_64")]
/// mod avx512 {
///     #[target_feature(enable = "avx512f")]
///     pub fn double(x: f32) -> f32 { x + x }
/// }
/// mod portable {
///     pub unsafe fn double(x: f32) -> f32 { x + x }
/// }
///
/// // SAFETY: the set was detected.
/// assert_eq!(unsafe { dispatch!(Isa::detect() => double(2.0)) }, 4.0);
/// ```
#[macro_export]
macro_rules! dispatch {
    ($isa:expr => $function:ident($($argument:expr),* $(,)?)) => {
        match $crate::Isa::vectors($isa) {
            $crate::Vectors::Portable => portable::$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            $crate::Vectors::Avx2 => avx2::$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            $crate::Vectors::Avx512 => avx512::$function($($argument),*),
        }
    };
}

/// Runs `work`, compiled for vectors of 256 bits where the CPU has [`Isa`]s with such. Plain loops over
/// packs of numbers vectorise by themselves; no operation in them depends on the instructions, so
/// neither do their results. `f32::mul_add` is one instruction there, and not a call.
///
/// `work` and what it calls must be marked `#[inline(always)]`: only what is inlined here is compiled
/// for the vectors. That holds for the other functions of this kind too.
#[inline]
pub fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn avx2<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        if Cpu::this().best >= Vectors::Avx2 {
            // SAFETY: the CPU has the instructions.
            return unsafe { avx2(work) };
        }
    }
    work()
}

/// Runs `work`, compiled for the widest vectors of numbers that the CPU has.
#[inline]
pub fn widest<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn avx512<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        if Cpu::this().avx512 {
            // SAFETY: the CPU has the instructions.
            return unsafe { avx512(work) };
        }
    }
    vectorised(work)
}

/// Runs `work`, compiled for counting bits: with an instruction that counts those of a vector's words,
/// or with vectors, or with one that counts those of a word.
#[inline]
pub fn counting<R>(work: impl FnOnce() -> R) -> R {
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
        let cpu = Cpu::this();
        if cpu.avx512_popcnt {
            // SAFETY: the CPU has the instructions.
            return unsafe { of_vectors(work) };
        }
        if cpu.avx2 && cpu.popcnt {
            // SAFETY: the CPU has the instructions.
            return unsafe { with_vectors(work) };
        }
        if cpu.popcnt {
            // SAFETY: the CPU has the instruction.
            return unsafe { of_words(work) };
        }
    }
    work()
}

/// What a CPU has.
#[derive(Clone, Copy, Debug)]
struct Cpu {
    /// The largest set that kernels are written for.
    best: Vectors,
    #[cfg(target_arch = "x86_64")]
    avx2: bool,
    #[cfg(target_arch = "x86_64")]
    popcnt: bool,
    /// AVX-512 F, BW, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    avx512: bool,
    /// AVX-512 F, DQ, VL and VPOPCNTDQ.
    #[cfg(target_arch = "x86_64")]
    avx512_popcnt: bool,
}

impl Cpu {
    /// This one, asked once.
    #[inline]
    fn this() -> &'static Cpu {
        static CPU: OnceLock<Cpu> = OnceLock::new();
        CPU.get_or_init(Cpu::ask)
    }

    #[cfg(target_arch = "x86_64")]
    fn ask() -> Cpu {
        use std::arch::is_x86_feature_detected as has;
        let avx2 = has!("avx2");
        let both = has!("avx512f") && has!("avx512dq") && has!("avx512vl");
        Cpu {
            best: match (avx2 && has!("fma"), has!("avx512f")) {
                (false, _) => Vectors::Portable,
                (true, false) => Vectors::Avx2,
                (true, true) => Vectors::Avx512,
            },
            avx2,
            popcnt: has!("popcnt"),
            avx512: both && has!("avx512bw"),
            avx512_popcnt: both && has!("avx512vpopcntdq"),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn ask() -> Cpu {
        Cpu {
            best: Vectors::Portable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_has_its_largest_set_and_those_below() {
        for (i, &best) in Vectors::ALL.iter().enumerate() {
            let names: Vec<&str> = up_to(best).map(Isa::name).collect();
            let all: Vec<&str> = Vectors::ALL.iter().map(|vectors| vectors.name()).collect();
            assert_eq!(names, all[..=i]);
        }
    }

    #[test]
    fn only_what_is_there_has_a_name() {
        for vectors in Vectors::ALL {
            let there = *vectors <= Isa::detect().vectors();
            assert_eq!(Isa::named(vectors.name()).is_some(), there, "{vectors:?}");
        }
        assert_eq!(Isa::available().last(), Some(Isa::detect()));
        assert_eq!(Isa::named(""), None);
    }

    #[test]
    fn wide_vectors_of_one_target_share_an_arithmetic() {
        let wide: Vec<Isa> = Isa::available().skip(1).collect();
        assert!(wide.iter().all(|isa| isa.arithmetic() == Arithmetic::Fused));
        let names = [Arithmetic::Fused, Arithmetic::Unfused].map(Arithmetic::name);
        assert_eq!(names, ["fused", "unfused"]);
    }

    #[inline(always)]
    fn sum(numbers: &[f32]) -> f32 {
        numbers.iter().fold(0.0, |sum, x| sum + x * x)
    }

    #[inline(always)]
    fn ones(words: &[u64]) -> u32 {
        words.iter().map(|word| word.count_ones()).sum()
    }

    /// How work is compiled does not change what comes out of it.
    #[test]
    fn compiled_for_this_cpu_work_is_the_same() {
        let numbers: Vec<f32> = (0..1000).map(|i| (i * 7919 % 1013) as f32 / 7.0).collect();
        let words: Vec<u64> = (1..100_u64)
            .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        let expected = sum(&numbers).to_bits();
        let found = vectorised(
            #[inline(always)]
            || sum(&numbers),
        );
        assert_eq!(found.to_bits(), expected);
        let found = widest(
            #[inline(always)]
            || sum(&numbers),
        );
        assert_eq!(found.to_bits(), expected);
        let found = counting(
            #[inline(always)]
            || ones(&words),
        );
        assert_eq!(found, ones(&words));
    }
}
