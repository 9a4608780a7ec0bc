//! `npcov completions`.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::printer::Printer;

/// Prints a script that completes commands and flags.
pub(crate) fn run(args: &CompletionsArgs, printer: &Printer) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "npcov", &mut script);
    printer.data(&String::from_utf8_lossy(&script))
}
