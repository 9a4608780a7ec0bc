//! Any bytes as names of classes, as shares of classes, as a vocabulary and as what a suite has killed of mutants: read
//! or refused.
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
use npcov::coverage::ClassShares;
use npcov::data::{Digester, read_class_names};
use npcov::mutate::MutationState;

fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder")).path()
}

/// Reads what a suite has killed, as far as it is that.
fn read_killed(bytes: &[u8]) {
    let path = folder().join("killed.json");
    std::fs::write(&path, bytes).expect("room for a file");
    if let Ok(mut state) = MutationState::read(&path) {
        let _ = state.merge(&state.clone());
        let _ = state.report();
    }
}

fuzz_target!(|bytes: &[u8]| {
    let path = folder().join("names.txt");
    std::fs::write(&path, bytes).expect("room for a file");
    let _ = read_class_names(&path);
    let settings = folder().join("npcov.toml");
    std::fs::write(&settings, "").expect("room for a file");
    if let Ok(config) = config::Config::find(Some(&settings)) {
        let _ = config.vocabulary(Some(&path));
    }
    let _ = String::from_utf8_lossy(bytes).parse::<ClassShares>();
    read_killed(bytes);
    // With the checksum that it should have.
    let rest = [b"\",", bytes].concat();
    let mut digester = Digester::default();
    digester.update(&rest);
    let start = format!("{{\"npcov-mutation\":2,\"sha256\":\"{}", digester.finish());
    read_killed(&[start.as_bytes(), &rest].concat());
});
