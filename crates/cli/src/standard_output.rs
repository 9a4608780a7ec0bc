//! Whether there was a standard output when the program began.
//!
//! In the place of one that is closed (`npcov ... >&-`), Rust opens `/dev/null` before `main`: results would vanish
//! without a word. So it is looked for earlier, among the functions that a program's loader calls.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether it was closed.
pub(crate) fn was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod before_main {
    use super::{CLOSED, Ordering};

    unsafe extern "C" {
        fn fcntl(file: i32, command: i32, ...) -> i32;
    }

    /// The same number on both systems.
    const F_GETFD: i32 = 1;

    extern "C" fn look() {
        // SAFETY: it asks about a number, which may be that of no open file, and changes nothing.
        if unsafe { fcntl(1, F_GETFD) } == -1 {
            CLOSED.store(true, Ordering::Relaxed);
        }
    }

    // SAFETY: the section is a list of pointers to functions that are called once, before `main`. This one needs nothing
    // that Rust sets up.
    #[used]
    #[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
    #[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
    static LOOK: extern "C" fn() = look;
}
