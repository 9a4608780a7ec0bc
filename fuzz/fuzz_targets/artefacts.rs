//! Bytes as a decision graph, as a coverage state and as a shard of one: read and reported on, or refused.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use npcov::artefact::{CoverageState, GraphFile, Kind};
use npcov::coverage::{Coverage, GraphInspection};

fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder")).path()
}

fuzz_target!(|bytes: &[u8]| {
    let path = folder().join("artefact.npcov");
    std::fs::write(&path, bytes).expect("room for a file");
    let _ = Kind::of(&path);
    if let Ok(graph) = GraphFile::open(&path) {
        let _ = GraphInspection::of(&graph);
    }
    let _ = CoverageState::read(&path);
    if let Ok(coverage) = Coverage::open(&path) {
        let _ = coverage.report();
    }
});
