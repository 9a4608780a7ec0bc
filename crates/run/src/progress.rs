//! What long work tells while it goes on, and how it is told to stop.

use std::ops::ControlFlow;

use crate::error::RunError;

/// What a long piece of work tells while it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// So many inputs were found finished from an earlier run.
    Resumed(usize),
    /// What an earlier run left of so many inputs is damaged, and they are computed again.
    Damaged(usize),
    /// So many more pieces of work are finished: inputs, unless the work counts in something else.
    Finished(usize),
    /// So many more inputs are kept in files, where there are files: a later run finds them finished.
    Kept(usize),
    /// The inputs are finished, and clusters are being found.
    Clustering,
    /// Clusters are found, and criteria are being fitted to the training data.
    Fitting,
}

/// Is told how work goes on, and may say stop.
///
/// `&mut ()` listens to nothing and never stops. A closure is a progress too:
///
/// ```
/// use std::ops::ControlFlow;
/// use npcov_run::{Event, Progress};
///
/// let mut inputs = 0;
/// let mut progress = |event| {
///     if let Event::Finished(more) = event {
///         inputs += more;
///     }
///     match inputs < 1000 {
///         true => ControlFlow::Continue(()),
///         false => ControlFlow::Break(()),
///     }
/// };
/// assert!(progress.on(Event::Finished(10)).is_continue());
/// assert!(progress.on(Event::Finished(1000)).is_break());
/// ```
pub trait Progress {
    /// Something happened. After [`Break`](ControlFlow::Break) the work ends soon, with
    /// [`RunError::Stopped`]; what is finished in files stays there for a later run.
    fn on(&mut self, event: Event) -> ControlFlow<()>;
}

impl Progress for () {
    fn on(&mut self, _event: Event) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl<F: FnMut(Event) -> ControlFlow<()>> Progress for F {
    fn on(&mut self, event: Event) -> ControlFlow<()> {
        self(event)
    }
}

impl dyn Progress + '_ {
    /// Tells of an event; an error where that is the end of the work.
    pub fn tell(&mut self, event: Event) -> Result<(), RunError> {
        match self.on(event) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(RunError::Stopped),
        }
    }
}
