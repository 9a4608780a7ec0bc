//! The command line of npcov: arguments, `npcov.toml`, progress, printing and exit codes.
//!
//! [`run_command`] is the whole program. [`embed`] has its verbs for programs that hold models and data in
//! memory, with options in the words of the command line: the Python package stands on it.
//!
//! What is computed is computed by the crate `npcov`, and written down by `npcov-report`; a command
//! here collects its settings, calls one verb and prints the result. Results go to standard output,
//! everything else to standard error. The exit code is 0, 1 when `check` finds coverage that misses a
//! threshold, 2 after an error, or 130 after Ctrl-C.

mod args;
mod attack;
mod build;
mod check;
mod check_table;
mod compile;
mod completions;
mod config;
mod cover;
mod demo;
mod demo_images;
pub mod embed;
mod explain;
mod export;
mod failure;
mod gaps;
mod graph;
mod init;
mod inspect;
mod interrupt;
mod lab;
mod man;
mod merge;
mod minimize;
mod mutate;
mod output;
mod pages;
mod paths_table;
mod predict;
mod printer;
mod progress;
mod report;
mod samples;
mod select;
mod standard_output;
mod tune;
mod value;

use std::ffi::OsString;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::config::Config;
use crate::printer::Printer;

/// Runs a command, its name first, then its arguments, and gives its exit code.
pub fn run_command(words: impl IntoIterator<Item = OsString>) -> u8 {
    npcov::data::silence_contained_panics();
    let words: Vec<OsString> = words.into_iter().collect();
    let cli = Cli::try_parse_from(&words);
    let printer = Printer::new(cli.as_ref().is_ok_and(|cli| cli.quiet));
    let result = match cli {
        Ok(cli) => {
            interrupt::listen(printer);
            run(&cli, &printer)
        }
        // Help and version arrive here too.
        Err(usage) if usage.use_stderr() => {
            // Words are told back, and what is in one of them begins no line.
            let shown: Vec<OsString> = words.iter().map(on_one_line).collect();
            let usage = Cli::try_parse_from(&shown).err().unwrap_or(usage);
            printer.talk(&usage.to_string());
            return 2;
        }
        Err(help) => printer.data(&help.to_string()).map(|()| 0),
    };
    match result {
        Ok(code) => code,
        // Whoever stopped the work knows why; progress has said what is kept.
        Err(error) if failure::is_stop(&error) => interrupt::EXIT_CODE,
        Err(error) => {
            printer.error(&failure::message(&error));
            if let Some(hint) = failure::hint(&error) {
                printer.hint(&hint);
            }
            2
        }
    }
}

fn on_one_line(word: &OsString) -> OsString {
    word.to_string_lossy().replace('\n', "\\n").into()
}

fn run(cli: &Cli, printer: &Printer) -> anyhow::Result<u8> {
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
        Command::Merge(args) => merge::run(args, &config, printer),
        Command::Export(args) => export::run(args, &config, printer),
        Command::Report(args) => report::run(args, &config, printer),
        Command::Check(args) => return check::run(args, &config, printer),
        Command::Gaps(args) => gaps::run(args, &config, printer),
        Command::Select(args) => select::run(args, &config, printer),
        Command::Minimize(args) => minimize::run(args, &config, printer),
        Command::Attack(args) => attack::run(args, &config, printer),
        Command::Mutate(args) => mutate::run(args, &config, printer),
        Command::Compile(args) => compile::run(args, &config, printer),
        Command::Lab(args) => lab::run(args, &config, printer),
        Command::Completions(args) => completions::run(args, printer),
        Command::Man(args) => man::run(args),
    };
    done.map(|()| 0)
}
