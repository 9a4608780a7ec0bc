//! A table of any bytes, as CSV, as TSV or as Parquet, is read or refused.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use npcov_data::{Samples, open};

fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder")).path()
}

fuzz_target!(|bytes: &[u8]| {
    for name in ["table.csv", "table.tsv", "table.parquet"] {
        let path = folder().join(name);
        std::fs::write(&path, bytes).expect("room for a file");
        if let Ok(samples) = open(&path) {
            let _ = samples.digest();
        }
    }
});
