//! Long work: without the lock of the interpreter, with progress, until Ctrl-C.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use npcov::Event;
use npcov_cli::embed::Listener;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::error::raised;

/// How often Python is asked for signals and told how far work has come.
const PACE: Duration = Duration::from_millis(50);

/// How long work that is to stop is waited for. It stops between two inputs, or ends by itself later on: it
/// holds on to everything that it needs.
const PATIENCE: Duration = Duration::from_millis(700);

/// Work that was to stop and has not yet, with the process that it is of: a fork has its handles, and not its threads.
static GIVEN_UP: Mutex<Vec<(u32, JoinHandle<()>)>> = Mutex::new(Vec::new());

/// Waits for work that was given up, as long as nobody presses Ctrl-C again: it may still hold the lock of the file
/// that is to be written next.
fn wait_for_others(py: Python<'_>) -> PyResult<()> {
    loop {
        {
            let mut others = GIVEN_UP.lock().unwrap_or_else(PoisonError::into_inner);
            others.retain(|(of, thread)| *of == process::id() && !thread.is_finished());
            if others.is_empty() {
                return Ok(());
            }
        }
        py.detach(|| thread::sleep(PACE));
        py.check_signals()?;
    }
}

enum Message<T> {
    Happened(Event),
    Done(End<T>),
}

/// How work ended, and what it warns of.
type End<T> = (std::thread::Result<anyhow::Result<T>>, Vec<String>);

/// Does work on a thread of its own, so that the one that asked can listen to signals. `progress` is called
/// with what happened and a number of inputs.
pub(crate) fn work<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(&mut Listener<'_>) -> anyhow::Result<T> + Send + 'static,
) -> PyResult<(T, Vec<String>)> {
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, mut receiver) = channel();
    let stopped = stop.clone();
    wait_for_others(py)?;
    let thread = thread::spawn(move || run(job, &sender, &stopped));
    loop {
        let heard = listen(py, &mut receiver, PACE);
        let told = heard.tell(progress).and_then(|()| py.check_signals());
        if let Err(interruption) = told {
            stop.store(true, Ordering::Relaxed);
            let until = Instant::now() + PATIENCE;
            while Instant::now() < until && listen(py, &mut receiver, PACE).done.is_none() {}
            let mut others = GIVEN_UP.lock().unwrap_or_else(PoisonError::into_inner);
            others.push((process::id(), thread));
            return Err(interruption);
        }
        match heard.done {
            None => {}
            Some(Some((Ok(Ok(value)), warnings))) => return Ok((value, warnings)),
            Some(Some((Ok(Err(error)), _))) => return Err(raised(py, &error)),
            Some(Some((Err(_), _)) | None) => {
                let message = "npcov failed in a way that it should not; please report this";
                return Err(PyRuntimeError::new_err(message));
            }
        }
    }
}

fn run<T>(
    job: impl FnOnce(&mut Listener<'_>) -> anyhow::Result<T>,
    sender: &Sender<Message<T>>,
    stop: &AtomicBool,
) {
    let mut progress = |event: Event| {
        // Nobody listens any more when the work was given up.
        let _ = sender.send(Message::Happened(event));
        match stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let mut listener = Listener::new(&mut progress);
    let result = catch_unwind(AssertUnwindSafe(|| job(&mut listener)));
    let warnings = std::mem::take(&mut listener.warnings);
    let _ = sender.send(Message::Done((result, warnings)));
}

/// What was heard in a while.
struct Heard<T> {
    finished: usize,
    events: Vec<(&'static str, usize)>,
    /// The end of the work; `Some(None)` where its thread is gone without a word.
    done: Option<Option<End<T>>>,
}

impl<T> Heard<T> {
    fn tell(&self, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let Some(progress) = progress else {
            return Ok(());
        };
        for &(event, count) in &self.events {
            progress.call1((event, count))?;
        }
        if self.finished > 0 {
            progress.call1(("finished", self.finished))?;
        }
        Ok(())
    }
}

fn listen<T: Send>(
    py: Python<'_>,
    receiver: &mut Receiver<Message<T>>,
    time: Duration,
) -> Heard<T> {
    py.detach(move || {
        let until = Instant::now() + time;
        let mut heard = Heard {
            finished: 0,
            events: Vec::new(),
            done: None,
        };
        while heard.done.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            match receiver.recv_timeout(left) {
                Ok(Message::Done(end)) => heard.done = Some(Some(end)),
                Ok(Message::Happened(event)) => match event {
                    Event::Finished(count) => heard.finished += count,
                    Event::Resumed(count) => heard.events.push(("resumed", count)),
                    Event::Kept(count) => heard.events.push(("kept", count)),
                    Event::Damaged(count) => heard.events.push(("damaged", count)),
                    Event::Clustering => heard.events.push(("clustering", 0)),
                    Event::Fitting => heard.events.push(("fitting", 0)),
                    _ => {}
                },
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => heard.done = Some(None),
            }
        }
        heard
    })
}
