//! Labels and samples of any bytes: what opens has a label, or the numbers of a target, for each sample, and is given to a
//! model or refused.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use npcov_data::npz::{Compression, NpzWriter};
use npcov_data::{Loader, Preprocessing, Targets, open};

fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder")).path()
}

fuzz_target!(|bytes: &[u8]| {
    let (Some(&classes), rest) = (bytes.first(), bytes.get(1..).unwrap_or_default()) else {
        return;
    };
    let width = usize::from(classes % 5);
    let path = folder().join("data.npz");
    let write = || {
        let mut writer = NpzWriter::create(&path, Compression::Deflated)?;
        let x = writer.array::<u8>("x", &[2])?;
        let shape = [width];
        let y = writer.array::<f32>("y", if width == 0 { &[] } else { &shape })?;
        let numbers: Vec<f32> = rest
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        let rows = numbers.len() / width.max(1);
        writer.append(&x, &rest[..2 * rows.min(rest.len() / 2)])?;
        writer.append(&y, &numbers[..rows * width.max(1)])?;
        writer.finish()
    };
    if write().is_err() {
        return;
    }
    if let Ok(samples) = open(&path) {
        let labels = samples.labels().map(<[i64]>::len);
        let targets = samples.targets().map(Targets::rows);
        assert_eq!(labels.xor(targets), Some(samples.len()));
        for shape in [&[2][..], &[1, 2], &[3]] {
            if let Ok(loader) = Loader::new(samples.clone(), shape, &Preprocessing::default()) {
                let mut out = vec![0.0; loader.len() * loader.sample_len()];
                loader.read(0..loader.len(), &mut out).expect("bytes are numbers");
            }
        }
    }
});
