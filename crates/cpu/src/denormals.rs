//! Numbers next to zero, which many CPUs compute with a hundred times slower than with others.
//!
//! A denormal `f32` is smaller than 2^-126: no network means it, but a damaged or a malicious file may be full of them.
//! While a [`FlushDenormals`] lives, they are zeros on its thread: as operands, and where they would be a result.

use std::marker::PhantomData;

/// While it lives, denormal numbers are zeros on this thread. What was set before comes back when it is dropped.
///
/// On x86-64 these are the bits FTZ and DAZ of MXCSR, on AArch64 the bit FZ of FPCR. Other targets compute with
/// denormals as with all numbers.
#[derive(Debug)]
pub struct FlushDenormals {
    before: control::Word,
    /// It belongs to its thread.
    here: PhantomData<*const ()>,
}

impl FlushDenormals {
    /// From here on.
    #[inline]
    #[expect(
        clippy::new_without_default,
        reason = "it changes how the thread computes"
    )]
    pub fn new() -> FlushDenormals {
        let before = control::read();
        control::write(before | control::FLUSH);
        FlushDenormals {
            before,
            here: PhantomData,
        }
    }
}

impl Drop for FlushDenormals {
    #[inline]
    fn drop(&mut self) {
        control::write(self.before);
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod control {
    use std::arch::asm;

    pub(super) type Word = u32;

    /// Flush to zero, and denormals are zero.
    pub(super) const FLUSH: Word = 1 << 15 | 1 << 6;

    #[inline]
    pub(super) fn read() -> Word {
        let mut word = 0;
        // SAFETY: it stores four bytes, into a variable of four bytes.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
        word
    }

    #[inline]
    pub(super) fn write(word: Word) {
        // SAFETY: the word was read from the register, and two bits were set that every CPU of this target has (both came
        // with SSE2). The compiler takes for granted that rounding and exceptions are as usual, and they stay so. What it
        // computes itself keeps denormals; kernels compute what they load from memory, and no load or store moves across
        // this instruction, which may read and write all memory as far as the compiler knows.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod control {
    use std::arch::asm;

    pub(super) type Word = u64;

    /// Flush to zero.
    pub(super) const FLUSH: Word = 1 << 24;

    #[inline]
    pub(super) fn read() -> Word {
        let word;
        // SAFETY: it reads a register that every thread may read.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nostack, preserves_flags)) };
        word
    }

    #[inline]
    pub(super) fn write(word: Word) {
        // SAFETY: the word was read from the register, and one bit was set. As for the compiler, what is said of x86-64
        // holds here.
        unsafe { asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags)) };
    }
}

/// Nothing to set, or nothing that Miri knows.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod control {
    pub(super) type Word = u32;

    pub(super) const FLUSH: Word = 0;

    pub(super) fn read() -> Word {
        0
    }

    pub(super) fn write(_: Word) {}
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod tests {
    use std::hint::black_box;

    use super::*;

    fn product(a: f32, b: f32) -> f32 {
        black_box(a) * black_box(b)
    }

    #[test]
    fn denormals_are_zeros_as_long_as_it_lives() {
        let denormal = f32::from_bits(1 << 20);
        let small = f32::MIN_POSITIVE;
        assert!(product(denormal, 4.0) > 0.0 && product(small, 0.5) > 0.0);
        {
            let _outer = FlushDenormals::new();
            {
                let _inner = FlushDenormals::new();
            }
            assert_eq!((product(denormal, 4.0), product(small, 0.5)), (0.0, 0.0));
            assert_eq!(product(small, 2.0), 2.0 * small);
        }
        assert!(product(denormal, 4.0) > 0.0 && product(small, 0.5) > 0.0);
    }
}
