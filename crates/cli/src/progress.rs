//! How far work that takes a while has come, and how it is stopped.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, HumanDuration, ProgressDrawTarget, ProgressStyle};
use npcov::run::{Event, Progress, RunError};
use npcov_lab::WorkFolder;

use crate::interrupt;
use crate::printer::Printer;

/// Work that is done before this shows no bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where there is no terminal, a line is written no more often than this,
const PACE: Duration = Duration::from_secs(30);

/// or than so many seconds.
const PACE_VARIABLE: &str = "NPCOV_PROGRESS_SECONDS";

/// A bar on standard error, if that is a terminal, and a line now and then if it is not. Gone when
/// dropped; where Ctrl-C was the reason, it says what is kept.
pub(crate) struct ProgressBar<'p> {
    bar: indicatif::ProgressBar,
    printer: &'p Printer,
    /// What is counted.
    things: &'static str,
    count: usize,
    /// Pieces of work there are, and those that are done.
    work: usize,
    done: usize,
    start: Instant,
    shown: bool,
    last_line: Instant,
    pace: Duration,
    kept: Option<Kept<'p>>,
    is_stopped: bool,
}

/// What a run that is stopped leaves for the next one.
enum Kept<'p> {
    /// So many inputs, beside the file that is to be written.
    Inputs { output: PathBuf, inputs: usize },
    /// What is finished of an experiment.
    Parts(&'p WorkFolder),
}

impl<'p> ProgressBar<'p> {
    /// Of work that is counted in inputs.
    pub(crate) fn new(inputs: usize, printer: &'p Printer) -> ProgressBar<'p> {
        ProgressBar::counting("inputs", inputs, printer)
    }

    /// Of work that is counted in something else.
    pub(crate) fn counting(
        things: &'static str,
        count: usize,
        printer: &'p Printer,
    ) -> ProgressBar<'p> {
        let hidden = ProgressDrawTarget::hidden();
        let bar = indicatif::ProgressBar::with_draw_target(Some(count as u64), hidden);
        let template =
            format!("{{bar:30}} {{human_pos}} of {{human_len}} {things}, {{eta}} left {{msg}}");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style.progress_chars("=> "));
        }
        let now = Instant::now();
        ProgressBar {
            bar,
            printer,
            things,
            count,
            work: count,
            done: 0,
            start: now,
            shown: false,
            last_line: now,
            pace: pace(),
            kept: None,
            is_stopped: false,
        }
    }

    /// The same for things that are passed several times, until so many pieces of work are done.
    pub(crate) fn of_work(mut self, work: usize) -> ProgressBar<'p> {
        self.work = work;
        self
    }

    /// The same for work whose finished parts are kept beside the file that is to be written.
    pub(crate) fn keeping(mut self, output: &Path) -> ProgressBar<'p> {
        self.kept = Some(Kept::Inputs {
            output: output.to_owned(),
            inputs: 0,
        });
        self
    }

    /// The same for an experiment whose finished parts are kept in a folder.
    pub(crate) fn keeping_parts(mut self, work: &'p WorkFolder) -> ProgressBar<'p> {
        self.kept = Some(Kept::Parts(work));
        self
    }

    /// So much more work is done; an error where it is to stop.
    pub(crate) fn finished(&mut self, more: usize) -> Result<(), RunError> {
        self.advance(more);
        match self.flow() {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(RunError::Stopped),
        }
    }

    fn flow(&mut self) -> ControlFlow<()> {
        self.is_stopped |= interrupt::is_requested();
        match self.is_stopped {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn advance(&mut self, more: usize) {
        self.done += more;
        self.bar
            .set_position(things_done(self.done, self.work, self.count) as u64);
        if !self.shown && self.start.elapsed() >= PATIENCE && !self.printer.is_quiet() {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        if !self.printer.is_terminal() && self.last_line.elapsed() >= self.pace {
            self.last_line = Instant::now();
            self.printer.note(&line(
                (
                    things_done(self.done, self.work, self.count),
                    self.count,
                    self.things,
                ),
                remaining(self.start.elapsed(), self.done, self.work),
            ));
        }
    }

    /// So many inputs more are kept.
    fn keep(&mut self, more: usize) {
        if let Some(Kept::Inputs { inputs, .. }) = &mut self.kept {
            *inputs += more;
        }
    }

    /// What to say where the work was stopped.
    fn farewell(&self) -> String {
        match &self.kept {
            Some(Kept::Inputs { output, inputs }) if *inputs > 0 => format!(
                "stopped; {} of {} {} are kept in `{}.parts`; run the same command to go on\n",
                HumanCount(*inputs as u64),
                HumanCount(self.count as u64),
                self.things,
                output.display()
            ),
            Some(Kept::Parts(work)) if work.holds_parts() => format!(
                "stopped; what is finished is kept in `{}`; run the same command to go on\n",
                work.folder().display()
            ),
            _ => "stopped; nothing is kept\n".to_owned(),
        }
    }
}

fn pace() -> Duration {
    let seconds = std::env::var(PACE_VARIABLE).ok();
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    seconds.map_or(PACE, Duration::from_secs)
}

/// How many of `count` things are done, where `done` of `work` pieces are.
fn things_done(done: usize, work: usize, count: usize) -> usize {
    let done = done.min(work) as u128 * count as u128 / work.max(1) as u128;
    done as usize
}

/// How long the rest takes, if it goes on as before.
fn remaining(elapsed: Duration, done: usize, work: usize) -> Option<Duration> {
    let rest = work.saturating_sub(done) as f64 / done as f64;
    Duration::try_from_secs_f64(elapsed.as_secs_f64() * rest).ok()
}

fn line((done, count, things): (usize, usize, &str), remaining: Option<Duration>) -> String {
    let (done, count) = (HumanCount(done as u64), HumanCount(count as u64));
    let left = remaining.map_or(String::new(), |left| {
        format!(", about {} left", HumanDuration(left))
    });
    format!("{done} of {count} {things}{left}")
}

impl Progress for ProgressBar<'_> {
    fn on(&mut self, event: Event) -> ControlFlow<()> {
        match event {
            Event::Resumed(inputs) => {
                let note = format!("going on after {inputs} inputs that are finished");
                self.printer.note(&note);
                self.advance(inputs);
                self.keep(inputs);
            }
            Event::Damaged(inputs) => self.printer.note(&format!(
                "what an earlier run left of {inputs} inputs is damaged: they are computed again"
            )),
            Event::Finished(count) => self.advance(count),
            Event::Kept(inputs) => {
                self.keep(inputs);
            }
            Event::Clustering => self.bar.set_message("finding clusters"),
            Event::Fitting => self.bar.set_message("fitting criteria"),
            _ => {}
        }
        self.flow()
    }
}

impl Drop for ProgressBar<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        if self.is_stopped {
            self.printer.talk(&self.farewell());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_counted_as_inputs() {
        // 2,000 inputs in 57 passes.
        assert_eq!(things_done(0, 114_000, 2000), 0);
        assert_eq!(things_done(57_000, 114_000, 2000), 1000);
        assert_eq!(things_done(114_000, 114_000, 2000), 2000);
        assert_eq!(things_done(120_000, 114_000, 2000), 2000);
        assert_eq!(things_done(0, 0, 0), 0);
    }

    #[test]
    fn lines_say_how_far_and_how_long() {
        let elapsed = Duration::from_secs(30);
        assert_eq!(
            line((512, 2048, "inputs"), remaining(elapsed, 512, 2048)),
            "512 of 2,048 inputs, about 2 minutes left"
        );
        assert_eq!(
            line((0, 10_000, "suites"), remaining(elapsed, 0, 10)),
            "0 of 10,000 suites"
        );
    }

    #[test]
    fn a_stop_says_what_is_kept() {
        let printer = Printer::new(true);
        let mut bar = ProgressBar::new(10_000, &printer).keeping(Path::new("g.npcov"));
        assert_eq!(bar.farewell(), "stopped; nothing is kept\n");
        for event in [Event::Resumed(512), Event::Finished(700), Event::Kept(512)] {
            assert!(bar.on(event).is_continue());
        }
        assert_eq!(
            bar.farewell(),
            "stopped; 1,024 of 10,000 inputs are kept in `g.npcov.parts`; run the same command to go \
             on\n"
        );
    }

    #[test]
    fn a_stop_says_which_folder_keeps_parts() {
        let printer = Printer::new(true);
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("rq4.parts");
        let work = WorkFolder::open(&place, &"a plan").unwrap();
        let bar = ProgressBar::counting("suites", 48, &printer).keeping_parts(&work);
        assert_eq!(bar.farewell(), "stopped; nothing is kept\n");
        work.keep("suite-100-0", || Ok(1)).unwrap();
        let expected = format!(
            "stopped; what is finished is kept in `{}`; run the same command to go on\n",
            place.display()
        );
        assert_eq!(bar.farewell(), expected);
    }
}
