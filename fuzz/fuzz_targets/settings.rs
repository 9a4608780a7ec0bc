//! `npcov.toml` of any bytes is read or refused.
#![no_main]
// The command line is no library: its modules are compiled here.
#![allow(dead_code, unused_imports)]

#[path = "../../crates/cli/src/args/mod.rs"]
mod args;
#[path = "../../crates/cli/src/check_table.rs"]
mod check_table;
#[path = "../../crates/cli/src/config.rs"]
mod config;
#[path = "../../crates/cli/src/paths_table.rs"]
mod paths_table;
#[path = "../../crates/cli/src/value.rs"]
mod value;

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder")).path()
}

fuzz_target!(|bytes: &[u8]| {
    let path = folder().join("npcov.toml");
    std::fs::write(&path, bytes).expect("room for a file");
    if let Err(error) = config::Config::find(Some(&path)) {
        assert!(error.to_string().contains("npcov.toml"), "{error}");
    }
});
