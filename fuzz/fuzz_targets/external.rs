//! A model beside a file of weights: nothing outside of its folder is read, whatever it names.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use npcov::graph::{OnnxModel, Specialisation};

fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder")).path()
}

fuzz_target!(|bytes: &[u8]| {
    let model = folder().join("model.onnx");
    std::fs::write(&model, bytes).expect("room for a file");
    std::fs::write(folder().join("mlp-external.bin"), [7; 4096]).expect("room for a file");
    let Ok(model) = OnnxModel::read(&model) else {
        return;
    };
    let inside = folder().canonicalize().expect("it exists");
    if let Ok(files) = model.files() {
        assert!(files.iter().skip(1).all(|file| file.starts_with(&inside)));
    }
    let _ = model.digest();
    let _ = model.specialise(&Specialisation::default());
});
