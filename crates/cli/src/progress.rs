//! A progress bar for work that takes a while.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use npcov::Event;

use crate::printer::Printer;

/// Work that is done before this shows no bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// A bar on standard error, if that is a terminal; gone when dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    start: Instant,
    shown: bool,
}

impl Progress {
    /// Of work that is counted in inputs.
    pub(crate) fn new(inputs: usize) -> Progress {
        Progress::counting("inputs", inputs)
    }

    /// Of work that is counted in something else.
    pub(crate) fn counting(things: &str, count: usize) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(count as u64), ProgressDrawTarget::hidden());
        let template =
            format!("{{bar:30}} {{human_pos}} of {{human_len}} {things}, {{eta}} left {{msg}}");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress {
            bar,
            start: Instant::now(),
            shown: false,
        }
    }

    /// What a long piece of work tells.
    pub(crate) fn on(&mut self, event: Event, printer: &Printer) {
        match event {
            Event::Resumed(inputs) => {
                printer.note(&format!("going on after {inputs} inputs that are finished"));
                self.advance(inputs);
            }
            Event::Inputs(inputs) => self.advance(inputs),
            Event::Clustering => self.bar.set_message("finding clusters"),
            Event::Fitting => self.bar.set_message("fitting criteria"),
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

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
