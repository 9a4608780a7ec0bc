//! The program `npcov`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(npcov_cli::run_command(std::env::args_os()))
}
