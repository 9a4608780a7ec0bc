//! A folder with one image of any bytes is read or refused; panics of decoders stay inside.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use npcov_data::{Loader, Preprocessing, open};

/// One folder for the whole run.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder")).path()
}

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(folder().join("image.png"), bytes).expect("room for a file");
    let Ok(samples) = open(folder()) else {
        return;
    };
    let shape = samples.inputs()[0].shape().to_vec();
    let Ok(loader) = Loader::new(samples, &shape, &Preprocessing::default()) else {
        return;
    };
    let mut out = vec![0.0; loader.sample_len()];
    loader.read(0..1, &mut out).expect("an image that was decoded is decoded again");
});
