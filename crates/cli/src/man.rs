//! `npcov man`.

use std::path::Path;

use clap::{Command, CommandFactory};
use npcov::data::write_whole;

use crate::args::{Cli, ManArgs};

/// Writes a man page for each command.
pub(crate) fn run(args: &ManArgs) -> anyhow::Result<()> {
    let mut command = Cli::command();
    // Gives every command below its whole name, and the flags that all have.
    command.build();
    write(&command, &args.output)
}

fn write(command: &Command, folder: &Path) -> anyhow::Result<()> {
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    let file = folder.join(page.get_filename());
    write_whole(&file, &text).map_err(npcov::Error::from)?;
    let mut below = command.get_subcommands();
    below.try_for_each(|command| match command.get_name() {
        "help" => Ok(()),
        _ => write(command, folder),
    })
}
