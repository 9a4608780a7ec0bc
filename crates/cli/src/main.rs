//! The program `npcov`.

mod allocator;

use std::process::ExitCode;

fn main() -> ExitCode {
    allocator::give_back_large_blocks();
    ExitCode::from(npcov_cli::run_command(std::env::args_os()))
}
