//! A file of any bytes under the name of CIFAR records is read or refused; there is a label for each image.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use npcov_data::open;

fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder")).path()
}

fuzz_target!(|bytes: &[u8]| {
    // Records are long: what is given is the start of each label's.
    let mut records = Vec::new();
    for label in bytes.iter().take(16) {
        records.push(*label);
        records.extend([0; 3072]);
    }
    records.extend(bytes.iter().skip(16));
    std::fs::write(folder().join("test_batch.bin"), records).expect("room for a file");
    for spec in [folder().to_owned(), folder().join("test_batch.bin")] {
        if let Ok(samples) = open(spec) {
            assert_eq!(samples.labels().map(<[i64]>::len), Some(samples.len()));
        }
    }
});
