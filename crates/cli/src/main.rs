//! The command line of npcov: arguments, `npcov.toml`, progress, printing and exit codes.
//!
//! What is computed is computed by the crate `npcov`, and written down by `npcov-report`; a command
//! here collects its settings, calls one verb and prints the result. Results go to standard output,
//! everything else to standard error. The exit code is 0, or 2 after an error; 1 is kept for
//! coverage that misses a threshold.

mod args;
mod build;
mod compile;
mod config;
mod cover;
mod demo;
mod explain;
mod failure;
mod init;
mod inspect;
mod merge;
mod output;
mod paths_table;
mod predict;
mod printer;
mod progress;
mod tune;
mod value;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::config::Config;
use crate::printer::Printer;

fn main() -> ExitCode {
    let printer = Printer::new();
    let result = match Cli::try_parse() {
        Ok(cli) => run(&cli, &printer),
        // Help and version arrive here too.
        Err(usage) if usage.use_stderr() => {
            printer.talk(&usage.to_string());
            return ExitCode::from(2);
        }
        Err(help) => printer.data(&help.to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            printer.error(&failure::message(&error));
            if let Some(hint) = failure::hint(&error) {
                printer.hint(&hint);
            }
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli, printer: &Printer) -> anyhow::Result<()> {
    let config = Config::find(cli.config.as_deref())?;
    match &cli.command {
        Command::Inspect(args) => inspect::run(args, &config, printer),
        Command::Predict(args) => predict::run(args, &config, printer),
        Command::Explain(args) => explain::run(args, &config, printer),
        Command::Demo(args) => demo::run(args, &config, printer),
        Command::Init(args) => init::run(args, &config, printer),
        Command::Tune(args) => tune::run(args, &config, printer),
        Command::Build(args) => build::run(args, &config, printer),
        Command::Cover(args) => cover::run(args, &config, printer),
        Command::Merge(args) => merge::run(args, printer),
        Command::Compile(args) => compile::run(args, &config, printer),
    }
}
