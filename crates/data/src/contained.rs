//! Other people's decoders, which may panic on files that nobody has tried before.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Work ended in a panic.
#[derive(Debug)]
pub(crate) struct Panicked;

/// Does work that may panic. What it was given must not be used again when it did, which the compiler does not see.
pub(crate) fn contained<R>(work: impl FnOnce() -> R) -> Result<R, Panicked> {
    let outside = CONTAINED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    CONTAINED.set(outside);
    result.map_err(|_| Panicked)
}

/// From now on, a panic in somebody else's decoder, which becomes an error that names the file, is not reported to
/// standard error as well. For programs, once, at their start: the hook for panics belongs to them.
pub fn silence_contained_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !CONTAINED.get() {
            report(panic);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        assert!(contained(|| -> u8 { panic!("decoder") }).is_err());
        assert_eq!(contained(|| 3).unwrap(), 3);
        assert!(!CONTAINED.get());
    }
}
