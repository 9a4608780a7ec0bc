//! The format that `docs/adding-a-format.md` shows, added to those that are known.

mod raw;

use std::fs;

use npcov_data::formats::{FORMATS, Format, Reading, open_with};
use npcov_data::{Arrays, DataError, Loader, Preprocessing, Samples, open};

use raw::Raw;

#[test]
fn the_guide_shows_this_code() {
    let guide = include_str!("../../../../docs/adding-a-format.md");
    assert!(guide.contains(&format!("```rust\n{}```", include_str!("raw.rs"))));
}

#[test]
fn raw_numbers_are_samples_like_others() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, numbers: &[f32]| {
        let bytes: Vec<u8> = numbers.iter().flat_map(|v| v.to_le_bytes()).collect();
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let formats: Vec<&dyn Format> = FORMATS.iter().copied().chain([&Raw as _]).collect();
    let numbers: Vec<f32> = (0..12).map(|v| v as f32 / 4.0).collect();
    let spec = put("digits.3x2.f32", &numbers);
    assert!(matches!(open(&spec), Err(DataError::UnknownFormat { .. })));
    let samples = open_with(&formats, &spec, &Reading::default()).unwrap();
    assert_eq!(samples.inputs()[0].shape(), [3, 2]);
    let memory = Arrays::new("x", &[2, 3, 2], &numbers[..]).unwrap();
    assert_eq!(samples.digest().unwrap(), memory.digest().unwrap());
    let loader = Loader::new(samples, &[6], &Preprocessing::default()).unwrap();
    let mut out = [0.0; 6];
    loader.read(1..2, &mut out).unwrap();
    assert_eq!(out, numbers[6..]);

    let error = |spec: &str| {
        open_with(&formats, spec, &Reading::default())
            .unwrap_err()
            .to_string()
    };
    assert!(error(&put("a.5.f32", &numbers)).contains("ends inside a sample"));
    for name in ["a.f32", "a.2x.f32", "a.-1.f32"] {
        assert!(
            error(&put(name, &numbers)).contains("says no shape"),
            "{name}"
        );
    }
    assert!(error(&put("a.0.f32", &numbers)).contains("hold no numbers"));
    let absurd = format!("a.{0}x{0}.f32", usize::MAX);
    assert!(error(&put(&absurd, &numbers)).contains("absurd"));
    assert!(error(&format!("{spec}:x")).contains("only npz"));
    assert!(error(&put("other", &numbers)).contains("raw (`.f32`)"));
}
