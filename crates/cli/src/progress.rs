//! A progress bar for work that takes a while.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use indicatif::{ProgressDrawTarget, ProgressStyle};
use npcov::run::{Event, Progress};

use crate::printer::Printer;

/// Work that is done before this shows no bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// A bar on standard error, if that is a terminal; gone when dropped.
pub(crate) struct ProgressBar<'p> {
    bar: indicatif::ProgressBar,
    printer: &'p Printer,
    start: Instant,
    shown: bool,
}

impl<'p> ProgressBar<'p> {
    /// Of work that is counted in inputs.
    pub(crate) fn new(inputs: usize, printer: &'p Printer) -> ProgressBar<'p> {
        ProgressBar::counting("inputs", inputs, printer)
    }

    /// Of work that is counted in something else.
    pub(crate) fn counting(things: &str, count: usize, printer: &'p Printer) -> ProgressBar<'p> {
        let hidden = ProgressDrawTarget::hidden();
        let bar = indicatif::ProgressBar::with_draw_target(Some(count as u64), hidden);
        let template =
            format!("{{bar:30}} {{human_pos}} of {{human_len}} {things}, {{eta}} left {{msg}}");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style.progress_chars("=> "));
        }
        ProgressBar {
            bar,
            printer,
            start: Instant::now(),
            shown: false,
        }
    }

    pub(crate) fn advance(&mut self, count: usize) {
        self.bar.inc(count as u64);
        if !self.shown && self.start.elapsed() >= PATIENCE {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Progress for ProgressBar<'_> {
    fn on(&mut self, event: Event) -> ControlFlow<()> {
        match event {
            Event::Resumed(inputs) => {
                let note = format!("going on after {inputs} inputs that are finished");
                self.printer.note(&note);
                self.advance(inputs);
            }
            Event::Damaged(inputs) => self.printer.note(&format!(
                "what an earlier run left of {inputs} inputs is damaged: they are computed again"
            )),
            Event::Finished(count) => self.advance(count),
            Event::Clustering => self.bar.set_message("finding clusters"),
            Event::Fitting => self.bar.set_message("fitting criteria"),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Drop for ProgressBar<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
