//! Every format through the public interface: opened, bound to a model's shape, read back.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use npcov_data::npz::{Compression, NpzWriter};
use npcov_data::{
    DataError, Element, ImageSize, Layout, Loader, Preprocessing, Reading, open, open_as,
};

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    folder.join(name).to_str().unwrap().to_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn read_all(
    spec: &str,
    wanted: &[usize],
    preprocessing: &Preprocessing,
) -> Result<Vec<f32>, DataError> {
    let loader = Loader::new(open(spec)?, wanted, preprocessing)?;
    let mut out = vec![f32::NAN; loader.len() * loader.sample_len()];
    loader.read(0..loader.len(), &mut out)?;
    Ok(out)
}

fn plain(spec: &str, wanted: &[usize]) -> Vec<f32> {
    read_all(spec, wanted, &Preprocessing::default()).unwrap()
}

fn error(spec: &str, wanted: &[usize], preprocessing: &Preprocessing) -> String {
    read_all(spec, wanted, preprocessing)
        .unwrap_err()
        .to_string()
}

fn with_layout(layout: Layout) -> Preprocessing {
    Preprocessing {
        layout: Some(layout),
        ..Preprocessing::default()
    }
}

fn write_u8(path: &Path, shape: &[usize], values: &[u8]) {
    let mut writer = NpzWriter::create(path, Compression::Stored).unwrap();
    let array = writer.array::<u8>("x", shape).unwrap();
    writer.append(&array, values).unwrap();
    writer.finish().unwrap();
}

fn write_png(path: &Path, colour: png::ColorType, width: u32, height: u32, data: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut encoder = png::Encoder::new(fs::File::create(path).unwrap(), width, height);
    encoder.set_color(colour);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(data).unwrap();
}

/// The fixtures are numpy's own files (tests/fixtures/make.py): the number at (n, i, j) is 6 n + 3 i + j.
#[test]
fn what_numpy_writes_is_read() {
    let expected: Vec<f32> = (0..30u8).map(f32::from).collect();
    assert_eq!(plain(&fixture("x.npy"), &[2, 3]), expected);
    for file in ["stored.npz", "deflated.npz"] {
        let file = fixture(file);
        assert_eq!(plain(&file, &[2, 3]), expected);
        for array in ["x", "u8", "fortran", "big", "half"] {
            assert_eq!(plain(&format!("{file}:{array}"), &[6]), expected, "{array}");
        }
        let labels = [3, 1, 4, 1, 5];
        assert_eq!(open(&file).unwrap().labels(), Some(&labels[..]));
        assert_eq!(open(format!("{file}:x")).unwrap().labels(), None);
        for array in ["y", "column", "onehot"] {
            let dataset = open(format!("{file}:u8,{array}")).unwrap();
            assert_eq!(dataset.labels(), Some(&labels[..]), "{array}");
            assert_eq!(dataset.inputs()[0].element(), Element::U8);
        }
        let object = open(format!("{file}:object")).unwrap_err().to_string();
        assert!(object.contains("pickled"), "{object}");
        let absent = open(format!("{file}:z")).unwrap_err().to_string();
        assert!(absent.contains("`x`, `y`, `u8`"), "{absent}");
        for bad in ["", "x,", ",y", "x,y,z"] {
            assert!(open(format!("{file}:{bad}")).is_err(), "{bad}");
        }
        // Numbers that are no classes may be what a model of numbers is to give.
        let x_as_labels = open(format!("{file}:x,x")).unwrap();
        assert_eq!(x_as_labels.labels(), None);
        let reason = x_as_labels.targets().unwrap().reason();
        assert!(reason.contains("one-hot"), "{reason}");
    }
}

#[test]
fn idx_files_find_their_labels() {
    let folder = tempfile::tempdir().unwrap();
    let images = [
        vec![0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2],
        vec![1, 2, 3, 4],
    ]
    .concat();
    let labels = [vec![0, 0, 8, 1, 0, 0, 0, 2], vec![7, 9]].concat();
    let gzip = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    put("train-labels-idx1-ubyte.gz", &gzip(&labels));
    put("t10k-labels.idx1-ubyte", &labels);
    for path in [
        put("train-images-idx3-ubyte", &images),
        put("train-images-idx3-ubyte.gz", &gzip(&images)),
        put("t10k-images.idx3-ubyte", &images),
    ] {
        assert_eq!(open(text(&path)).unwrap().labels(), Some(&[7, 9][..]));
        assert_eq!(plain(text(&path), &[1, 1, 2]), [1.0, 2.0, 3.0, 4.0]);
    }
    let alone = put("other-images-idx3-ubyte", &images);
    assert_eq!(open(text(&alone)).unwrap().labels(), None);
    put("other-labels-idx1-ubyte", &[0, 0, 8, 1, 0, 0, 0, 1, 5]);
    let error = open(text(&alone)).unwrap_err().to_string();
    assert!(error.contains("1 labels for 2 samples"), "{error}");
}

#[test]
fn cifar_folders_are_named_by_set() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, label: u8, fill: u8| {
        let record = [vec![label], vec![fill; 3072]].concat();
        fs::write(folder.path().join(name), record).unwrap();
    };
    put("data_batch_1.bin", 3, 30);
    put("data_batch_2.bin", 4, 40);
    let root = text(folder.path());
    assert_eq!(open(root).unwrap().len(), 2);
    put("test_batch.bin", 5, 50);
    let both = open(root).unwrap_err().to_string();
    assert!(both.contains(":train") && both.contains(":test"), "{both}");
    let train = open(format!("{root}:train")).unwrap();
    assert_eq!(train.labels(), Some(&[3, 4][..]));
    let test = format!("{root}:test");
    assert_eq!(plain(&test, &[3, 32, 32]), vec![50.0; 3072]);
    assert!(open(format!("{root}:validation")).is_err());
    let file = folder.path().join("test_batch.bin");
    assert_eq!(plain(text(&file), &[32, 32, 3]), vec![50.0; 3072]);
}

#[test]
fn kinds_are_not_named_as_classes_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kinds.npz");
    let mut writer = NpzWriter::create(&file, Compression::Stored).unwrap();
    let x = writer.array::<u8>("x", &[1]).unwrap();
    let kind = writer.array::<u8>("kind", &[]).unwrap();
    writer.append(&x, &[7, 8]).unwrap();
    writer.append(&kind, &[0, 3]).unwrap();
    let names = ["tops".to_owned(), "shoes".to_owned()];
    writer.texts("class_names", &names).unwrap();
    writer.finish().unwrap();
    let spec = format!("{}:x,kind", text(&file));
    let refused = open(&spec).err().unwrap().to_string();
    assert!(refused.contains("there are 2 names"), "{refused}");
    let reading = Reading {
        kinds: true,
        ..Reading::default()
    };
    let read = open_as(&spec, &reading).unwrap();
    assert_eq!(read.labels(), Some(&[0, 3][..]));
    assert_eq!(read.class_names(), None);
}

#[test]
fn image_folders_are_arranged_and_resized() {
    use png::ColorType::{Grayscale, Rgb};
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write_png(&root.join("cat/1.png"), Rgb, 2, 1, &[1, 2, 3, 4, 5, 6]);
    write_png(&root.join("dog/1.png"), Grayscale, 2, 1, &[7, 8]);
    let dataset = open(text(root)).unwrap();
    assert_eq!(dataset.class_names().unwrap(), ["cat", "dog"]);
    assert_eq!(dataset.labels(), Some(&[0, 1][..]));
    assert_eq!(dataset.inputs()[0].shape(), [1, 2, 3]);
    assert_eq!(
        plain(text(root), &[3, 1, 2]),
        [1.0, 4.0, 2.0, 5.0, 3.0, 6.0, 7.0, 8.0, 7.0, 8.0, 7.0, 8.0]
    );
    let wrong_size = error(text(root), &[3, 4, 4], &Preprocessing::default());
    assert!(wrong_size.contains("--resize"), "{wrong_size}");

    write_png(&root.join("dog/2.png"), Rgb, 4, 2, &[100; 24]);
    let another_size = error(text(root), &[3, 1, 2], &Preprocessing::default());
    assert!(
        another_size.contains("2.png") && another_size.contains("--resize"),
        "{another_size}"
    );
    let resize = Preprocessing {
        resize: Some(ImageSize::Exactly(4, 4)),
        ..Preprocessing::default()
    };
    let resized = plain_with(text(root), &[3, 4, 4], &resize);
    assert_eq!(resized.len(), 3 * 48);
    assert_eq!(resized[96..], [100.0; 48]);
    let not_wanted = error(text(root), &[3, 5, 5], &resize);
    assert!(not_wanted.contains("after `--resize`"), "{not_wanted}");
}

fn plain_with(spec: &str, wanted: &[usize], preprocessing: &Preprocessing) -> Vec<f32> {
    read_all(spec, wanted, preprocessing).unwrap()
}

#[test]
fn arrays_of_8_bit_images_are_resized_in_any_layout() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npz");
    // Columns 0 80 160 240 shrink to 120 in one pixel, by the triangle 1 3 3 1 over 8.
    let line = [0, 80, 160, 240];
    let resize = Preprocessing {
        resize: Some(ImageSize::Exactly(1, 1)),
        ..Preprocessing::default()
    };
    write_u8(&path, &[1, 4], &line);
    assert_eq!(plain_with(text(&path), &[1, 1, 1], &resize), [120.0]);
    write_u8(&path, &[3, 5, 4], &line.repeat(15));
    assert!(error(text(&path), &[3, 1, 1], &resize).contains("--layout"));
    let chw = Preprocessing {
        layout: Some(Layout::Chw),
        ..resize.clone()
    };
    assert_eq!(plain_with(text(&path), &[3, 1, 1], &chw), [120.0; 3]);
    let interleaved: Vec<u8> = (0..5)
        .flat_map(|_| line)
        .flat_map(|v| [v, 0, 255])
        .collect();
    write_u8(&path, &[5, 4, 3], &interleaved);
    assert_eq!(
        plain_with(text(&path), &[3, 1, 1], &resize),
        [120.0, 0.0, 255.0]
    );
    let floats = error(&fixture("x.npy"), &[2, 3], &resize);
    assert!(floats.contains("8-bit"), "{floats}");
}

#[test]
fn layout_mean_and_std_work_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npz");
    // One image of 2x1 pixels, channels 10, 20, 30 and 40, 50, 60, as HWC.
    write_u8(&path, &[2, 1, 3], &[10, 20, 30, 40, 50, 60]);
    let options = Preprocessing {
        divide: Some(10.0),
        mean: vec![1.0, 2.0, 3.0],
        std: vec![1.0, 0.5, 3.0],
        ..Preprocessing::default()
    };
    assert_eq!(
        plain_with(text(&path), &[3, 2, 1], &options),
        [0.0, 3.0, 0.0, 6.0, 0.0, 1.0]
    );
    assert_eq!(
        plain_with(text(&path), &[2, 1, 3], &options),
        [0.0, 0.0, 0.0, 3.0, 6.0, 1.0]
    );
    // As stored: in the model's order, nothing else.
    let loader = Loader::new(open(text(&path)).unwrap(), &[3, 2, 1], &options).unwrap();
    let mut stored = [0.0; 6];
    loader.read_stored(0..1, &mut stored).unwrap();
    assert_eq!(stored, [10.0, 40.0, 20.0, 50.0, 30.0, 60.0]);
    let flat = error(text(&path), &[6], &Preprocessing::default());
    assert!(flat.contains("--layout flat"), "{flat}");
    assert_eq!(
        plain_with(text(&path), &[6], &with_layout(Layout::Flat)),
        [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
    );
    let sizes = error(text(&path), &[3, 2, 2], &Preprocessing::default());
    assert!(
        sizes.contains("[2, 1, 3]") && sizes.contains("[3, 2, 2]"),
        "{sizes}"
    );
}

/// A copy in floats, of the stored shape and order, is the same dataset under the same preprocessing.
#[test]
fn what_is_restored_is_read_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("x.npz"), folder.path().join("y.npz"));
    let pixels: Vec<u8> = (0..2 * 60).map(|i| (i * 37 % 256) as u8).collect();
    let options = Preprocessing {
        divide: Some(255.0),
        mean: vec![0.5, 0.4, 0.3],
        std: vec![0.2, 0.3, 0.4],
        ..Preprocessing::default()
    };
    for (stored, wanted, layout, resize) in [
        ([5, 4, 3], [3, 5, 4], None, None),
        ([3, 5, 4], [3, 5, 4], None, None),
        ([3, 5, 4], [5, 4, 3], Some(Layout::Chw), None),
        ([5, 4, 3], [3, 2, 2], None, Some(ImageSize::Exactly(2, 2))),
        (
            [3, 5, 4],
            [3, 7, 6],
            Some(Layout::Chw),
            Some(ImageSize::Exactly(7, 6)),
        ),
    ] {
        let options = Preprocessing {
            layout,
            resize,
            ..options.clone()
        };
        write_u8(&path, &stored, &pixels);
        let dataset = open(text(&path)).unwrap();
        let loader = Loader::new(dataset, &wanted, &options).unwrap();
        let mut samples = vec![0.0; 2 * loader.sample_len()];
        loader.read_stored(0..2, &mut samples).unwrap();
        let mut writer = NpzWriter::create(&copy, Compression::Stored).unwrap();
        let array = writer.array::<f32>("x", loader.stored_shape()).unwrap();
        let mut restored = vec![0.0; loader.sample_len()];
        for sample in samples.chunks(loader.sample_len()) {
            loader.restore(sample, &mut restored);
            writer.append(&array, &restored).unwrap();
        }
        writer.finish().unwrap();
        loader.normalise(&mut samples);
        let expected = plain_with(text(&path), &wanted, &options);
        assert_eq!(samples, expected, "{stored:?}");
        let found = plain_with(text(&copy), &wanted, &options);
        assert_eq!(found, expected, "{stored:?}");
    }
}

#[test]
fn pixels_without_a_scale_get_a_warning() {
    let pixels = || open(format!("{}:u8", fixture("stored.npz"))).unwrap();
    let loader = Loader::new(pixels(), &[2, 3], &Preprocessing::default()).unwrap();
    assert!(loader.warnings()[0].contains("--divide 255"));
    let scaled = Preprocessing {
        divide: Some(255.0),
        ..Preprocessing::default()
    };
    assert!(
        Loader::new(pixels(), &[2, 3], &scaled)
            .unwrap()
            .warnings()
            .is_empty()
    );
    let floats = open(fixture("x.npy")).unwrap();
    let loader = Loader::new(floats, &[2, 3], &Preprocessing::default()).unwrap();
    assert!(loader.warnings().is_empty());
}

#[test]
fn numbers_that_are_not_finite_name_their_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npz");
    let write = |value: f32| {
        let mut writer = NpzWriter::create(&path, Compression::Stored).unwrap();
        let array = writer.array::<f32>("x", &[2]).unwrap();
        writer
            .append(&array, &[1.0, 2.0, 3.0, 4.0, 5.0, value])
            .unwrap();
        writer.finish().unwrap();
    };
    for bad in [f32::NAN, f32::INFINITY] {
        write(bad);
        let message = error(text(&path), &[2], &Preprocessing::default());
        assert!(message.contains("row 2: number 1 is"), "{message}");
    }
    write(1e30);
    let tiny = Preprocessing {
        divide: Some(1e-30),
        ..Preprocessing::default()
    };
    let message = error(text(&path), &[2], &tiny);
    assert!(message.contains("row 2: number 1 becomes"), "{message}");
}

#[test]
fn ranges_and_buffers_are_checked() {
    let dataset = open(fixture("x.npy")).unwrap();
    let loader = Loader::new(dataset, &[6], &Preprocessing::default()).unwrap();
    let mut out = [0.0; 12];
    assert!(loader.read(3..5, &mut out).is_ok());
    assert!(loader.read(4..6, &mut out).is_err());
    assert!(loader.read(0..1, &mut out).is_err());
    #[expect(
        clippy::reversed_empty_ranges,
        reason = "what a caller's mistake would pass"
    )]
    let reversed = loader.read(3..1, &mut []);
    assert!(reversed.is_err());
    assert!(loader.read(5..5, &mut []).is_ok());
}

#[test]
fn threads_read_the_same_as_one() {
    fn shared<T: Send + Sync>(value: T) -> T {
        value
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npz");
    let values: Vec<u8> = (0..200 * 12).map(|v| (v % 251) as u8).collect();
    write_u8(&path, &[2, 2, 3], &values);
    let dataset = shared(open(text(&path)).unwrap());
    let loader = shared(Loader::new(dataset, &[3, 2, 2], &Preprocessing::default()).unwrap());
    let whole = plain(text(&path), &[3, 2, 2]);
    let mut parts = vec![0.0; whole.len()];
    std::thread::scope(|scope| {
        for (index, part) in parts.chunks_mut(25 * 12).enumerate() {
            let loader = &loader;
            scope.spawn(move || loader.read(index * 25..(index + 1) * 25, part).unwrap());
        }
    });
    assert_eq!(parts, whole);
}

#[test]
fn what_is_no_dataset_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("short", b"PK"),
        ("model.onnx", b"\x08\x07\x12\x07"),
    ] {
        let error = open(text(&put(name, bytes))).unwrap_err();
        assert!(matches!(error, DataError::UnknownFormat { .. }), "{error}");
    }
    let missing = open(text(&folder.path().join("missing.npy"))).unwrap_err();
    assert!(missing.to_string().contains("missing.npy"), "{missing}");
    let named = put("with:colon.npy", &fs::read(fixture("x.npy")).unwrap());
    assert_eq!(open(text(&named)).unwrap().len(), 5);
    let part_of_npy = open(format!("{}:x", fixture("x.npy"))).unwrap_err();
    assert!(
        part_of_npy.to_string().contains("only npz"),
        "{part_of_npy}"
    );
}
