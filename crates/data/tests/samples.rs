//! Data and formats that this crate does not know, by its public interface alone.

use std::fs;
use std::ops::Range;
use std::sync::Arc;

use npcov_data::formats::{FORMATS, Format, Location, Reading, open_with};
use npcov_data::{
    Arrays, DataError, Element, Image, ImageSize, Images, Loader, Preprocessing, SampleInput,
    Samples, open,
};

/// Grey images of other sizes: number `row` has `row + 1` rows of two pixels, all of them `10 * row`.
struct Growing {
    input: [SampleInput; 1],
    /// Of the images, whatever the input says.
    channels: usize,
}

impl Growing {
    fn new(channels: usize) -> Growing {
        let input = SampleInput::new("x", &[1, 2, 1], Element::U8).unwrap();
        Growing {
            input: [input],
            channels,
        }
    }
}

impl Images for Growing {
    fn image(&self, row: usize) -> Result<Image, DataError> {
        let pixels = vec![10 * row as u8; (row + 1) * 2 * self.channels];
        Image::new(row + 1, 2, self.channels, pixels).map_err(|error| error.in_file("growing"))
    }
}

impl Samples for Growing {
    fn name(&self) -> &str {
        "growing"
    }

    fn len(&self) -> usize {
        3
    }

    fn inputs(&self) -> &[SampleInput] {
        &self.input
    }

    fn read(&self, _: usize, rows: Range<usize>, out: &mut [u8]) -> Result<(), DataError> {
        self.input[0].check_bytes(&rows, self.len(), out.len())?;
        for (row, out) in rows.zip(out.chunks_exact_mut(2)) {
            let image = self.image(row)?;
            if image.height() != 1 {
                return Err(DataError::Row {
                    file: "growing".to_owned(),
                    row,
                    reason: "is of another size".to_owned(),
                });
            }
            out.copy_from_slice(image.pixels());
        }
        Ok(())
    }

    fn images(&self, _: usize) -> Option<&dyn Images> {
        Some(self)
    }
}

#[test]
fn images_of_any_size_are_resized() {
    let resize = Preprocessing {
        resize: Some(ImageSize::Exactly(2, 2)),
        ..Preprocessing::default()
    };
    let loader = Loader::new(Arc::new(Growing::new(1)), &[1, 2, 2], &resize).unwrap();
    let mut out = [0.0; 12];
    loader.read(0..3, &mut out).unwrap();
    assert_eq!(out[..4], [0.0; 4]);
    assert_eq!(out[4..8], [10.0; 4]);
    assert_eq!(out[8..], [20.0; 4]);
    // Without resizing only those that have the size.
    let plain = Preprocessing::default();
    let loader = Loader::new(Arc::new(Growing::new(1)), &[1, 1, 2], &plain).unwrap();
    assert!(loader.read(0..1, &mut [0.0; 2]).is_ok());
    let error = loader.read(0..2, &mut [0.0; 4]).unwrap_err().to_string();
    assert_eq!(error, "`growing`, row 1: is of another size");
    let other = Loader::new(Arc::new(Growing::new(3)), &[1, 2, 2], &resize).unwrap();
    let error = other.read(0..1, &mut [0.0; 4]).unwrap_err().to_string();
    assert!(error.contains("3 channels among samples"), "{error}");
}

#[test]
fn images_of_any_size_have_a_digest() {
    let digest = Growing::new(1).digest().unwrap();
    assert_eq!(digest, Growing::new(1).digest().unwrap());
    assert_ne!(digest, Growing::new(2).digest().unwrap());
}

/// Text files with one number a line.
struct Lines;

impl Format for Lines {
    fn name(&self) -> &str {
        "lines"
    }

    fn recognises(&self, location: &Location<'_>) -> bool {
        location.start().starts_with(b"#lines\n")
    }

    fn open(&self, location: &Location<'_>) -> Result<Arc<dyn Samples>, DataError> {
        location.refuse_part()?;
        let text = fs::read_to_string(location.path()).unwrap();
        let numbers: Vec<f64> = text.lines().flat_map(str::parse).collect();
        let arrays = Arrays::new("x", &[numbers.len()], numbers)?;
        Ok(Arc::new(arrays.named(location.spec())))
    }
}

#[test]
fn a_format_is_one_entry_of_a_list() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers");
    fs::write(&path, "#lines\n1.5\n2.5\n").unwrap();
    let spec = path.to_str().unwrap();
    let known = open(spec).unwrap_err().to_string();
    let neither = "npy, npz, IDX, Parquet, CSV (`.csv`, `.tsv`), CIFAR binary (`.bin`) nor a folder with one folder of \
                   PNG or JPEG images per class";
    assert!(
        known.ends_with(&format!("it is neither {neither}")),
        "{known}"
    );

    let mut formats: Vec<&dyn Format> = vec![&Lines];
    formats.extend(FORMATS);
    let samples = open_with(&formats, spec, &Reading::default()).unwrap();
    assert_eq!((samples.name(), samples.len()), (spec, 2));
    let part = open_with(&formats, format!("{spec}:x"), &Reading::default()).unwrap_err();
    assert!(matches!(part, DataError::Spec { .. }), "{part}");
    fs::write(&path, "#other").unwrap();
    let unknown = open_with(&formats, spec, &Reading::default())
        .unwrap_err()
        .to_string();
    assert!(unknown.contains("IDX, lines, Parquet"), "{unknown}");
    let alone = open_with(&[&Lines], spec, &Reading::default())
        .unwrap_err()
        .to_string();
    assert!(alone.ends_with("it is neither lines"), "{alone}");
}

/// The first format that recognises a file opens it.
#[test]
fn the_order_of_formats_decides() {
    let folder = tempfile::tempdir().unwrap();
    // One CIFAR-10 record that starts like IDX: unsigned bytes, one axis.
    let mut record = vec![0; 3073];
    record[2..4].copy_from_slice(&[8, 1]);
    let path = folder.path().join("x.bin");
    fs::write(&path, &record).unwrap();
    let spec = path.to_str().unwrap();
    assert_eq!(open(spec).unwrap().inputs()[0].shape(), [3, 32, 32]);
    let by_name = |name: &str| *FORMATS.iter().find(|f| f.name().starts_with(name)).unwrap();
    let reversed = [by_name("IDX"), by_name("CIFAR")];
    let error = open_with(&reversed, spec, &Reading::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("the header claims u8 numbers"), "{error}");
}
