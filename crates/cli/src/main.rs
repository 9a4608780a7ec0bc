//! The command line of npcov: arguments, `npcov.toml`, progress, printing and exit codes.
//!
//! What is computed is computed by the crate `npcov`, and written down by `npcov-report`; a command
//! here collects its settings, calls one verb and prints the result. Results go to standard output,
//! everything else to standard error. The exit code is 0, 1 when `check` finds coverage that misses a
//! threshold, or 2 after an error.

mod args;
mod attack;
mod build;
mod check;
mod check_table;
mod compile;
mod config;
mod cover;
mod demo;
mod explain;
mod failure;
mod graph;
mod init;
mod inspect;
mod lab;
mod merge;
mod minimize;
mod output;
mod paths_table;
mod predict;
mod printer;
mod progress;
mod report;
mod samples;
mod select;
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
        Err(help) => printer.data(&help.to_string()).map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            printer.error(&failure::message(&error));
            if let Some(hint) = failure::hint(&error) {
                printer.hint(&hint);
            }
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli, printer: &Printer) -> anyhow::Result<ExitCode> {
    let config = Config::find(cli.config.as_deref())?;
    let done = match &cli.command {
        Command::Inspect(args) => inspect::run(args, &config, printer),
        Command::Predict(args) => predict::run(args, &config, printer),
        Command::Explain(args) => explain::run(args, &config, printer),
        Command::Demo(args) => demo::run(args, &config, printer),
        Command::Init(args) => init::run(args, &config, printer),
        Command::Tune(args) => tune::run(args, &config, printer),
        Command::Build(args) => build::run(args, &config, printer),
        Command::Cover(args) => cover::run(args, &config, printer),
        Command::Merge(args) => merge::run(args, printer),
        Command::Report(args) => report::run(args, printer),
        Command::Check(args) => return check::run(args, &config, printer),
        Command::Select(args) => select::run(args, &config, printer),
        Command::Minimize(args) => minimize::run(args, &config, printer),
        Command::Attack(args) => attack::run(args, &config, printer),
        Command::Compile(args) => compile::run(args, &config, printer),
        Command::Lab(args) => lab::run(args, &config, printer),
    };
    done.map(|()| ExitCode::SUCCESS)
}
