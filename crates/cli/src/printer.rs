//! The one place that prints.

use std::io::{self, ErrorKind, IsTerminal, Write};

use anyhow::{Context, bail};
use npcov_report::visible;

use crate::standard_output;

/// Prints data to standard output and talk to standard error.
///
/// Colour is for terminals, and only where the user has not set `NO_COLOR`; every message says
/// without colour what it is.
#[derive(Clone, Copy)]
pub(crate) struct Printer {
    colour: bool,
    terminal: bool,
    quiet: bool,
}

const RED: &str = "1;31";
const YELLOW: &str = "1;33";
const CYAN: &str = "1;36";

impl Printer {
    /// A quiet one prints results and errors only.
    pub(crate) fn new(quiet: bool) -> Printer {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let terminal = io::stderr().is_terminal();
        Printer {
            colour: !refused && terminal,
            terminal,
            quiet,
        }
    }

    /// Whether only results and errors are wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether standard error is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Writes a result to standard output. A reader that has seen enough (`npcov ... | head`) is
    /// no error.
    ///
    /// Names in it may come from anywhere: what a terminal would obey is shown instead.
    pub(crate) fn data(&self, text: &str) -> anyhow::Result<()> {
        if standard_output::was_closed() {
            bail!("cannot write to standard output: it is closed");
        }
        let text = visible(text);
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(error).context("cannot write to standard output")
            }
            _ => Ok(()),
        }
    }

    /// Writes to standard error, made visible as data is.
    pub(crate) fn talk(&self, text: &str) {
        self.write(&visible(text));
    }

    /// There is nobody left to tell when that fails.
    fn write(&self, text: &str) {
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    pub(crate) fn warning(&self, message: &str) {
        if !self.quiet {
            self.message("warning", YELLOW, message);
        }
    }

    /// Something good to know.
    pub(crate) fn note(&self, message: &str) {
        if !self.quiet {
            self.message("note", CYAN, message);
        }
    }

    pub(crate) fn error(&self, message: &str) {
        self.message("error", RED, message);
    }

    /// What to do about the error just printed.
    pub(crate) fn hint(&self, message: &str) {
        self.talk("\n");
        self.message("hint", CYAN, message);
    }

    fn message(&self, role: &str, colour: &str, message: &str) {
        let message = indented(&visible(message));
        self.write(&match self.colour {
            true => format!("\x1b[{colour}m{role}\x1b[0m: {message}\n"),
            false => format!("{role}: {message}\n"),
        });
    }
}

/// A message whose further lines stand under its first one: none, whatever is in it, can be taken for another message.
fn indented(message: &str) -> String {
    let is_indented = |line: &str| line.is_empty() || line.starts_with("  ");
    match message.split('\n').skip(1).all(is_indented) {
        true => message.to_owned(),
        // All of them, so that what lines up still does.
        false => message.replace('\n', "\n  ").replace("\n  \n", "\n\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cannot_pretend_to_be_two() {
        let message = "node `x\nerror: all is lost`:\n  in it\n\nend";
        let text = "node `x\n  error: all is lost`:\n    in it\n\n  end";
        assert_eq!(indented(message), text);
        let usual = "nodes:\n  one\n  two\n";
        assert_eq!(indented(usual), usual);
    }
}
