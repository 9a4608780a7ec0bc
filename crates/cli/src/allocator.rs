//! How the program's memory is given back.
//!
//! The C library of GNU takes blocks of 128 KiB and more from the operating system one by one, and gives them back when
//! they are freed. But whenever it has freed a larger one it takes blocks up to that size from its heap, where free ones
//! between others stay the program's. The rows of a shard are such blocks: with a million training inputs `npcov build`
//! had twice the memory that it used. Naming the limit keeps it where it is.
#![allow(unsafe_code)]

/// Gives large blocks back when they are freed.
pub(crate) fn give_back_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use std::ffi::c_int;

        unsafe extern "C" {
            fn mallopt(parameter: c_int, value: c_int) -> c_int;
        }
        const M_MMAP_THRESHOLD: c_int = -3;
        // SAFETY: mallopt(3) may be called at any time, and says by its result whether it knows the parameter.
        unsafe { mallopt(M_MMAP_THRESHOLD, 128 << 10) };
    }
}
