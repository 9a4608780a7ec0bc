//! Ctrl-C: the first one asks the work to stop, the second one ends it.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::printer::Printer;

/// The exit code of what Ctrl-C has ended, as shells have it: 128 and the number of the signal.
pub(crate) const EXIT_CODE: u8 = 130;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Listens for Ctrl-C from now on. Where that cannot be done, Ctrl-C ends the process as ever.
pub(crate) fn listen(printer: Printer) {
    let _ = ctrlc::set_handler(move || {
        if REQUESTED.swap(true, Ordering::Relaxed) {
            #[expect(clippy::exit, reason = "whoever asks twice does not want to wait")]
            std::process::exit(i32::from(EXIT_CODE));
        }
        printer.talk("\nstopping; Ctrl-C again ends at once\n");
    });
}

/// Whether the work is to stop.
pub(crate) fn is_requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
